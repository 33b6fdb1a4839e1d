"""Sorting and searching in sorted arrays. NaN counts as greater than every number, as in NumPy.

A partition is a full sort here: that is a valid partition, though not the one NumPy happens to give in the places it leaves open.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, INT64, Kind, is_complex, is_inexact
from functx.errors import ConcretizationError
from functx.ir import Atom
from functx.mutation import write
from functx.numpy import promote
from functx.numpy.manipulation import along, layout, on_axis, ravel, reshape
from functx.trace import Tracer, current_trace


def _check_options(kind: Any, order: Any, stable: Any = None, *, partition: bool = False) -> None:
    """NumPy's own errors for options that it refuses; all kinds of sorting give what the stable one gives."""
    if partition:
        np.partition(np.zeros(1), 0, kind=kind, order=order)
    else:
        np.sort(np.zeros(1), kind=kind, order=order, stable=stable)


def _emit_sort(operands: Sequence[Atom], axis: int, num_keys: int = 1) -> Sequence[Atom]:
    return current_trace().emit.sort(*operands, axis=axis, num_keys=num_keys)


def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Tracer:
    """np.sort: a sorted copy."""
    _check_options(kind, order, stable)
    h, axis = on_axis(promote.handles([a])[0], axis)
    order_in_memory = layout("K", h.aval.shape, h.aval.dtype, h)
    return current_trace().tracer(_emit_sort([h.atom], axis)[0], Kind.ARRAY, order_in_memory)


def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Tracer:
    """np.argsort, always stable, and in C order in memory."""
    _check_options(kind, order, stable)
    h, axis = along(promote.handles([a])[0], axis)
    places = current_trace().emit.iota(shape=h.aval.shape, dtype=INT64, axis=axis)
    return current_trace().tracer(_emit_sort([h.atom, places], axis)[1])


def sort_in_place(self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
    """ndarray.sort: writes the sorted values into the array."""
    (h,) = promote.handles([self])
    write(h, sort(h, operator.index(axis), kind, order, stable=stable).atom)


def lexsort(keys: Any, axis: int = -1) -> Tracer:
    """np.lexsort: the order by several keys, the last one first."""
    rows = list(keys) if isinstance(keys, (tuple, list)) else list(promote.handles([keys])[0])
    operands = promote.handles(rows)
    if not operands:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shape = operands[0].aval.shape
    if not all(shapes.fit(h.aval.shape, shape) for h in operands):
        raise ValueError("all keys need to be the same shape")
    b = current_trace().emit
    if not shape:
        return current_trace().tracer(b.full((), 0, INT64))
    axis = shapes.canonical_axis(axis, len(shape))
    places = b.iota(shape=shape, dtype=INT64, axis=axis)
    return current_trace().tracer(_emit_sort([*(h.atom for h in operands[::-1]), places], axis, len(operands))[-1])


def _check_kth(kth: Any, h: Tracer, axis: int) -> None:
    n = h.aval.shape[axis]
    if 0 in h.aval.shape:
        return  # NumPy checks nothing where there is nothing to sort
    for k in np.atleast_1d(np.asarray(kth)):
        if not -n <= operator.index(k) < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    """np.partition: sorted altogether."""
    _check_options(kind, order, partition=True)
    _check_kth(kth, *on_axis(promote.handles([a])[0], axis))
    return sort(a, axis)


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    """np.argpartition: the places in sorted order."""
    _check_options(kind, order, partition=True)
    _check_kth(kth, *on_axis(promote.handles([a])[0], axis))
    return argsort(a, axis)


def partition_in_place(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    """ndarray.partition: writes the sorted values into the array."""
    (h,) = promote.handles([self])
    write(h, partition(h, kth, axis, kind, order).atom)


def sort_complex(a: Any) -> Tracer:
    """np.sort_complex: sorted along the last axis, as complex numbers."""
    (h,) = promote.handles([a])
    if is_complex(h.aval.dtype):
        return sort(h)
    return sort(h).astype(np.complex64 if h.aval.dtype.char in "bhBH" else np.complex128)


# --- searching ----------------------------------------------------------------------------------------------------------------------------


def _before(x: Tracer, y: Tracer) -> Any:
    """Whether x comes before y in sorted order: NaN is last."""
    less = np.less(x, y)
    if not is_inexact(x.aval.dtype):
        return less
    return np.logical_or(less, np.logical_and(np.isnan(y), np.logical_not(np.isnan(x))))


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """np.searchsorted by bisection, all places at once: log2(n) steps of one gather and one comparison."""
    if side not in ("left", "right", "l", "r"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    h, wanted = promote.handles([a, v])
    if h.aval.ndim != 1:
        raise ValueError("object too deep for desired array" if h.aval.ndim else "object of too small depth for desired array")
    if sorter is not None:
        h = h[promote.handles([sorter])[0]]
    n, trace = h.aval.shape[0], current_trace()
    common = np.promote_types(h.aval.dtype, wanted.aval.dtype)
    h, wanted = (trace.tracer(promote.convert(trace.emit, x, common)) for x in (h, wanted))
    low = trace.tracer(trace.emit.full(wanted.aval.shape, 0, INT64))
    high = low + n
    h = _not_empty(h)
    for _ in range(_bit_length(n)):
        middle = (low + high) >> 1  # below n while the two differ
        found = h[np.clip(middle, 0, shapes.greater(n, 1) - 1)]
        further = _before(found, wanted) if side[0] == "l" else np.logical_not(_before(wanted, found))
        further = np.logical_and(further, low < high)
        low, high = np.where(further, middle + 1, low), np.where(further, high, middle)
    return low if wanted.aval.ndim else low[()]


def _not_empty(h: Tracer) -> Tracer:
    """With one element more where it depends on data whether there is any, for what looks at an element and then does not use it."""
    n = h.aval.shape[0]
    return np.append(h, h.aval.dtype.type(0)) if isinstance(n, shapes.Dim) and not shapes.at_least(n, 1) else h


def _bit_length(n: shapes.Size) -> int:
    """Of a size, or of one that it does not exceed."""
    bits = shapes.hints((n,))[0].bit_length()
    while bits < 63 and not shapes.at_least(2**bits - 1, n):
        bits += 1
    return bits


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """np.digitize: the bins are rising or falling; which of the two is read off their ends where they are unknown."""
    numbers, edges = promote.handles([x, bins])
    if is_complex(numbers.aval.dtype):
        raise TypeError("x may not be complex")
    if edges.aval.ndim != 1:
        raise ValueError("object too deep for desired array" if edges.aval.ndim else "object of too small depth for desired array")
    side = "left" if right else "right"
    n = edges.aval.shape[0]
    rising = searchsorted(edges, numbers, side)
    try:
        known = np.asarray(edges.value())
    except ConcretizationError:
        if n < 2:
            return rising
        falling = n - searchsorted(edges[::-1], numbers, side)
        chosen = np.where(np.less_equal(edges[0], edges[-1]), rising, falling)
        return chosen if numbers.aval.ndim else chosen[()]
    np.digitize(0.0, known)  # raises NumPy's own error for bins that are neither
    if n > 1 and known[0] > known[-1]:
        return n - searchsorted(edges[::-1], numbers, side)
    return rising


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    """np.isin, by searching in the sorted test elements; few of them are compared one by one, as NumPy does it."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    h, tests = promote.handles([element, test_elements])
    trace, flat, tests = current_trace(), reshape(h, -1), ravel(tests)
    n = tests.aval.shape[0]
    if isinstance(n, int) and n < 10 * shapes.size_hint(flat.aval.shape) ** 0.145:
        found = trace.tracer(trace.emit.full(flat.aval.shape, False, BOOL))
        for i in range(n):
            found = np.logical_or(found, np.equal(flat, tests[i]))
    else:
        ordered = sort(tests.astype(np.result_type(h.aval.dtype, tests.aval.dtype)))
        place = searchsorted(ordered, flat)
        found = np.logical_and(np.equal(_not_empty(ordered)[np.clip(place, 0, shapes.greater(n, 1) - 1)], flat), place < n)
    found = reshape(found, h.aval.shape)
    return np.logical_not(found) if invert else found
