"""Sorting rows, and the greatest elements of rows, as C++: one function per step.

The algorithms are our own, because the templates of the standard library take most of a second to compile.
"""

from __future__ import annotations

from functx.backends.cpp.text import Writer, loop, size_text
from functx.backends.cpp.types import stored
from functx.backends.loops.formulas import sizes_in
from functx.backends.loops.nodes import Sort

SNIPPETS: dict[str, str] = {
    "before": """\
// The order of a sort: NaN behind all numbers.
template <class T> static inline bool before(const T& x, const T& y) { return (x < y) | ((y != y) & (x == x)); }
""",
    "complex_before": """\
// By the real part first; numbers with a NaN come last, those with a NaN in their imaginary part only first among them.
template <class C> static inline bool complex_before(const C& x, const C& y) {
  if (x.re < y.re) return (x.im == x.im) | (y.im != y.im);
  if (x.re > y.re) return (y.im != y.im) & (x.im == x.im);
  if ((x.re == y.re) | ((x.re != x.re) & (y.re != y.re))) return (x.im < y.im) | ((y.im != y.im) & (x.im == x.im));
  return y.re != y.re;
}
""",
    "merge_sort": """\
// Stable: runs of 16 by insertion, then merges to and fro between x and spare.
template <class T, class Before> static void merge_sort(T* x, T* spare, int64_t n, Before before) {
  for (int64_t lo = 0; lo < n; lo += 16)
    for (int64_t i = lo + 1; i < smaller(lo + 16, n); ++i) {
      const T value = x[i];
      int64_t j = i;
      for (; j > lo && before(value, x[j - 1]); --j) x[j] = x[j - 1];
      x[j] = value;
    }
  T *from = x, *to = spare;
  for (int64_t width = 16; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      const int64_t middle = smaller(lo + width, n), hi = smaller(lo + 2 * width, n);
      int64_t i = lo, j = middle;
      for (int64_t k = lo; k < hi; ++k) to[k] = j < hi && (i >= middle || before(from[j], from[i])) ? from[j++] : from[i++];
    }
    T* const last = from;
    from = to, to = last;
  }
  if (from != x) __builtin_memcpy(x, from, n * sizeof(T));
}
""",
    "first_places": """\
// The k places of n that come first, in order; at equal ones the earlier place.
template <class Before> static void first_places(int64_t* at, int64_t k, int64_t n, Before before) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (found == k && !before(i, at[k - 1])) continue;
    int64_t j = found < k ? found++ : k - 1;
    for (; j > 0 && before(i, at[j - 1]); --j) at[j] = at[j - 1];
    at[j] = i;
  }
}
""",
}
FEW = 64  # so many greatest elements are kept in order while the others pass by


def sort_function(step: Sort, name: str, pragma: str) -> tuple[str, list[str]]:
    """The function of a sort, of its inputs, its outputs, memory for positions, and sizes; and which sizes. ``pragma``: for its rows."""
    w = Writer()
    types = [stored(v.aval.dtype) for v in step.inputs]
    results = [stored(v.aval.dtype) for v in step.outputs]
    arguments = [f"const {c}* __restrict a{k}" for k, c in enumerate(types)]
    arguments += [f"{c}* __restrict b{k}" for k, c in enumerate(results)]
    n, rows = size_text(step.n), size_text(step.rows)
    width = n if step.top is None else str(step.top)
    sizes = sizes_in(f"{n} {rows}")
    arguments += ["int64_t* __restrict order", *(f"int64_t {size}" for size in sizes)]
    with w.block(f"static void {name}({', '.join(arguments)})"):
        if pragma:
            w.line(pragma)
        with w.block(loop("row", hi=rows)):
            for k, c in enumerate(types):
                w.line(f"const {c}* const x{k} = a{k} + row * {n};")
            for k, c in enumerate(results):
                w.line(f"{c}* const y{k} = b{k} + row * {width};")
            w.line(f"int64_t* const at = order + row * {size_text(2 * step.n)};")
            _by_values(w, step, n) if step.top is None and len(types) == 1 else _by_positions(w, step, n, width)
    return w.text(), sizes


def _precedes(step: Sort, key: int) -> str:
    return "complex_before" if step.inputs[key].aval.dtype.kind == "c" else "before"


def _by_values(w: Writer, step: Sort, n: str) -> None:
    """One array: its elements themselves."""
    c = stored(step.inputs[0].aval.dtype)
    w.line(f"__builtin_memcpy(y0, x0, {n} * sizeof({c}));")
    w.line(f"merge_sort(y0, ({c}*)at, {n}, {_precedes(step, 0)}<{c}>);")


def _by_positions(w: Writer, step: Sort, n: str, width: str) -> None:
    """Positions in the order of the keys, then the elements at them."""
    few = step.top is not None and step.top <= FEW
    if few:
        w.line(f"first_places(at, {width}, {n}, [=](int64_t i, int64_t j) {{")
    else:
        with w.block(loop("k", hi=n)):
            w.line("at[k] = k;")
        w.line(f"merge_sort(at, at + {n}, {n}, [=](int64_t i, int64_t j) {{")
    if step.top is not None:
        w.line(f"  return {_precedes(step, 0)}(x0[j], x0[i]);")
    else:
        for key in range(step.num_keys - 1):
            w.line(f"  if ({_precedes(step, key)}(x{key}[i], x{key}[j])) return true;")
            w.line(f"  if ({_precedes(step, key)}(x{key}[j], x{key}[i])) return false;")
        w.line(f"  return {_precedes(step, step.num_keys - 1)}(x{step.num_keys - 1}[i], x{step.num_keys - 1}[j]);")
    w.line("});")
    with w.block(loop("k", hi=width)):
        if step.top is None:
            for k in range(len(step.inputs)):
                w.line(f"y{k}[k] = x{k}[at[k]];")
        else:
            w.line("y0[k] = x0[at[k]], y1[k] = at[k];")
