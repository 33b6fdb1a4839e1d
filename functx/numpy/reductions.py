"""Reductions over axes: ``ufunc.reduce`` of every traced ufunc, and np.sum, np.mean and the like on top of it.

NumPy itself is asked, on an operand of one element, for the loop's dtype and for every error that does not depend on values.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.demand import depends_on_differentiated
from functx.dtypes import BOOL, Kind, is_complex, is_inexact
from functx.errors import ConcretizationError, UnsupportedError
from functx.ir import Atom
from functx.numpy import bound, promote, ufuncs
from functx.primitive import Emitter
from functx.trace import Tracer, current_trace
from functx.trace import where as user_line

NOT_GIVEN = np._NoValue


def single_out(out: Any) -> Any:
    """``out=`` without the tuple that NumPy may put around it."""
    return out[0] if isinstance(out, tuple) else out


def truth(h: Tracer) -> Atom:
    """Which elements are not zero."""
    b = current_trace().emit
    return h.atom if h.aval.dtype == BOOL else b.ne(h.atom, b.zeros_like(h.atom))


def arrays(values: Sequence[Any]) -> list[Tracer]:
    """Handles in functions for which Python scalars are arrays, with a dtype of their own."""
    trace = current_trace()
    return [trace.tracer(h.atom) if h.kind is Kind.PYTHON else h for h in promote.handles(values)]


def stand_in(a: Any) -> np.ndarray:
    """What NumPy can check axes, casts and emptiness with in the place of an array: the same dtype and rank, at most one element."""
    (h,) = promote.handles([a])
    return np.ones([builtins.min(d, 1) if isinstance(d, int) else 1 for d in h.aval.shape], h.aval.dtype)


def loop_dtype(ufunc: np.ufunc, h: Tracer, dtype: Any, out: Any = None) -> np.dtype:
    """The dtype in which NumPy reduces or accumulates: at least the platform's integer for sums and products, or that of ``out``."""
    signature = {} if dtype is None else {"signature": (np.dtype(dtype), None, None)}
    first = out.dtype if dtype is None and isinstance(out, (np.ndarray, Tracer)) else None
    return ufunc.resolve_dtypes((first, h.aval.dtype, None), casting="unsafe", reduction=True, **signature)[-1]


@functools.cache
def is_reorderable(ufunc: np.ufunc) -> bool:
    """Whether NumPy reduces by this ufunc over several axes at once: it is associative and commutative."""
    try:
        ufunc.reduce(np.ones((1, 1), bool), axis=(0, 1))
    except ValueError:
        return False
    except TypeError:
        return ufunc.identity is not None
    return True


# --- one ufunc over axes ------------------------------------------------------------------------------------------------------------------


def one(primitive: str, of_bools: str = "") -> Callable[..., Atom]:
    """A reduction or accumulation that is one primitive, another one for bools; ``place``: the axes, as the primitive takes them."""

    def rule(b: Emitter, x: Atom, **place: Any) -> Atom:
        return getattr(b, of_bools or primitive if x.aval.dtype == BOOL else primitive)(x, **place)

    return rule


def ignoring_nan(primitive: str, every: str, worst: float) -> Callable[..., Atom]:
    """The extremum of what is a number; NaN where nothing is, as the primitive ``every`` of bools finds out."""

    def rule(b: Emitter, x: Atom, **place: Any) -> Atom:
        if not is_inexact(x.aval.dtype):
            return getattr(b, primitive)(x, **place)
        missing, fill = b.ne(x, x), complex(worst, worst) if is_complex(x.aval.dtype) else worst
        found = getattr(b, primitive)(b.select(missing, b.full_like(x, fill), x), **place)
        return b.select(getattr(b, every)(missing, **place), b.full_like(found, np.nan), found)

    return rule


_REDUCTIONS: dict[np.ufunc, Callable[..., Atom]] = {
    np.add: one("reduce_sum", "reduce_max"), np.multiply: one("reduce_prod", "reduce_min"), np.maximum: one("reduce_max"),
    np.minimum: one("reduce_min"), np.logical_and: one("reduce_min"), np.logical_or: one("reduce_max"),
    np.fmax: ignoring_nan("reduce_max", "reduce_min", -np.inf), np.fmin: ignoring_nan("reduce_min", "reduce_min", np.inf),
}  # fmt: skip
_OF_BOOLS = {np.bitwise_and: one("reduce_min"), np.bitwise_or: one("reduce_max")}


def reduce(
    ufunc: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:  # fmt: skip
    """``ufunc.reduce``. What has no primitive is folded, by halves or from left to right, over axes whose length is known."""
    if not ufuncs.is_traced(ufunc):
        raise UnsupportedError(f"np.{ufunc.__name__}.reduce is not traced by functx", where=user_line(), fix=ufuncs.WRITE_INSTEAD)
    (h,) = promote.handles([a])
    out = single_out(out)
    mask = None if where is True else promote.mask(where)
    _check(ufunc, h, axis, dtype, out, keepdims, initial, mask)
    axes = _axes(axis, h)
    trace = current_trace()
    b, loop = trace.emit, loop_dtype(ufunc, h, dtype, out)
    x = truth(h) if loop == BOOL else promote.convert(b, h, loop)
    start = None if initial is NOT_GIVEN or initial is None else _start(initial, loop)
    atom = _reduced(ufunc, x, axes, start, None if mask is None else _spread(b, mask.atom, h.aval.shape))
    if keepdims:
        atom = b.reshape(atom, shape=tuple(1 if i in axes else d for i, d in enumerate(h.aval.shape)))
    if out is not None:
        return store_exactly(atom, out)
    return trace.tracer(atom, promote.result_kind(atom.aval.shape), _layout(h, axes, atom.aval.dtype, keepdims))


def _layout(h: Tracer, axes: tuple[int, ...], dtype: np.dtype, keepdims: bool) -> Callable[[], np.ndarray] | None:
    """The axes that are left lie in memory as those of the operand do."""
    every = range(h.aval.ndim)
    kept = [i for i in every if i not in axes]
    if len(kept) < 2 or h.is_fresh_c_order:
        return None

    def shadow() -> np.ndarray:
        own = [kept.index(i) if i in kept else -1 for i in every]
        result = promote.loop_result([h.shadow], [every, own], dtype)
        return result[tuple(None if i in axes else slice(None) for i in every)] if keepdims else result

    return shadow


def _check(ufunc: np.ufunc, h: Tracer, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, mask: Tracer | None) -> None:
    """NumPy's own errors about axes, dtypes, identities and the initial value."""
    given: dict[str, Any] = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
    if initial is not NOT_GIVEN:
        (start,) = promote.handles([0 if initial is None else initial])
        given["initial"] = np.zeros(start.aval.shape, start.aval.dtype) if isinstance(initial, Tracer) else initial
    if mask is not None:
        given["where"] = np.ones((1,) * mask.aval.ndim, bool)
    if isinstance(out, (np.ndarray, Tracer)):
        given["out"] = np.empty((1,) * out.ndim, out.dtype) if shapes.size_hint(h.aval.shape) else None
    with np.errstate(all="ignore"):
        ufunc.reduce(stand_in(h), **given)


def _axes(axis: Any, h: Tracer) -> tuple[int, ...]:
    """The axes to reduce. A number has none, but NumPy lets it be reduced over axis 0 or -1."""
    return () if h.aval.ndim == 0 and axis in (0, -1) else shapes.canonical_axes(axis, h.aval.ndim)


def _start(initial: Any, dtype: np.dtype) -> Atom:
    """The initial value, cast as NumPy casts it: like an assignment."""
    if not isinstance(initial, Tracer):
        initial = np.asarray(initial).astype(dtype)[()]
    return promote.convert(current_trace().emit, promote.handles([initial])[0], dtype)


def _spread(b: Emitter, mask: Atom, shape: shapes.Shape) -> Atom:
    """The mask in the operand's shape: it does not broadcast the operand."""
    if shapes.broadcast(mask.aval.shape, shape) != shape:
        raise ValueError(
            f"non-broadcastable operand with shape {shapes.show(shape)} doesn't match the mask of shape {shapes.show(mask.aval.shape)}"
        )
    return promote.broadcast(b, mask, shape)


def _reduced(ufunc: np.ufunc, x: Atom, axes: tuple[int, ...], start: Atom | None, mask: Atom | None) -> Atom:
    """The reduction of an operand in the loop's dtype."""
    b, shape = current_trace().emit, x.aval.shape
    kept = shapes.delete(shape, axes)
    of_nothing = ufunc in (np.add, np.multiply)  # the primitive gives the identity: for a symbolic size nothing is to be decided
    if [i for i in axes if shapes.same(shape[i], 0) or (not of_nothing and shapes.fit((shape[i],), (0,)))]:
        return promote.broadcast(b, _identity(b, ufunc, x) if start is None else start, kept)
    if not of_nothing and start is None and ufunc.identity is None:
        for i in axes:
            bound.require(shape[i], 1, f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    if not is_reorderable(ufunc):
        return _from_left(ufunc, x, axes, start, mask)
    if mask is not None:  # an extremum has no identity, but the initial value changes nothing when it is met again
        fill = start if ufunc.identity is None else _identity(b, ufunc, x)
        x = b.select(mask, x, promote.broadcast(b, fill, shape))
    if not of_nothing and (start is not None or ufunc.identity is not None):
        x = _with_first(x, axes, _identity(b, ufunc, x) if start is None else start)
    rule = _REDUCTIONS.get(ufunc) or (_OF_BOOLS.get(ufunc) if x.aval.dtype == BOOL else None)
    atom = x if not axes else rule(b, x, axes=axes) if rule else _by_halves(ufunc, x, axes)
    return atom if start is None else call(ufunc, promote.broadcast(b, start, kept), atom)


def _with_first(x: Atom, axes: tuple[int, ...], first: Atom) -> Atom:
    """The operand behind a row of what changes nothing, where nobody knows whether it has any element."""
    b, shape = current_trace().emit, x.aval.shape
    unknown = [i for i in axes if shapes.at_least(shape[i], 1) is None]
    if not unknown:
        return x
    row = promote.broadcast(b, first, (*shape[: unknown[0]], 1, *shape[unknown[0] + 1 :]))
    return b.concatenate(row, x, axis=unknown[0])


def _identity(b: Emitter, ufunc: np.ufunc, x: Atom) -> Atom:
    return b.full((), ufunc.reduce(np.empty(0, x.aval.dtype), dtype=x.aval.dtype).item(), x.aval.dtype)


def call(ufunc: np.ufunc, x: Atom, y: Atom) -> Atom:
    """The ufunc of two atoms of its loop's dtype."""
    trace = current_trace()
    return ufuncs.apply(ufunc, (trace.tracer(x), trace.tracer(y))).atom


def _rows(ufunc: np.ufunc, x: Atom, axes: tuple[int, ...]) -> tuple[int, Atom]:
    """The reduced axes as one in front, and its length."""
    b, kept = current_trace().emit, tuple(i for i in range(x.aval.ndim) if i not in axes)
    n = operator.index(shapes.size(x.aval.shape[i] for i in axes))  # its steps are unrolled
    front = b.transpose(x, perm=(*axes, *kept)) if axes != tuple(range(len(axes))) else x
    return n, b.reshape(front, shape=(n, *(x.aval.shape[i] for i in kept)))


def part(b: Emitter, x: Atom, axis: int, start: int, size: Any) -> Atom:
    """``size`` elements of an axis."""
    starts = tuple(start if i == axis else 0 for i in range(x.aval.ndim))
    sizes = tuple(size if i == axis else d for i, d in enumerate(x.aval.shape))
    return b.slice(x, starts=starts, sizes=sizes, steps=(1,) * x.aval.ndim)


def _by_halves(ufunc: np.ufunc, x: Atom, axes: tuple[int, ...]) -> Atom:
    b, (n, rows) = current_trace().emit, _rows(ufunc, x, axes)
    while n > 1:
        half = n // 2
        paired = call(ufunc, part(b, rows, 0, 0, half), part(b, rows, 0, half, half))
        rows = b.concatenate(paired, part(b, rows, 0, n - 1, 1), axis=0) if n % 2 else paired
        n -= half
    return b.reshape(rows, shape=rows.aval.shape[1:])


def _from_left(ufunc: np.ufunc, x: Atom, axes: tuple[int, ...], start: Atom | None, mask: Atom | None) -> Atom:
    """One step per element of the one axis."""
    b = current_trace().emit
    if not axes and start is None:
        return x
    n, rows = _rows(ufunc, x, axes)
    chosen = None if mask is None else _rows(ufunc, mask, axes)[1]
    shape = rows.aval.shape[1:]

    def row(of: Atom, i: int) -> Atom:
        return b.reshape(part(b, of, 0, i, 1), shape=shape)

    total = row(rows, 0) if start is None else promote.broadcast(b, start, shape)
    for i in range(start is None, n):
        stepped = call(ufunc, total, row(rows, i))
        total = stepped if chosen is None else b.select(row(chosen, i), stepped, total)
    return total


def store_exactly(atom: Atom, out: Any) -> Any:
    """Write a result into an ``out`` of its very shape, cast without regard to safety, as NumPy's reductions do."""
    if not shapes.fit(out.shape, atom.aval.shape):
        raise ValueError(f"output array has shape {shapes.show(out.shape)}, but the result has shape {shapes.show(atom.aval.shape)}")
    return ufuncs.store(np.add, [atom.aval.dtype] * 2, atom.aval.dtype, atom, out, "unsafe")


# --- NumPy's functions --------------------------------------------------------------------------------------------------------------------


def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True
) -> Any:
    """np.sum."""
    return reduce(np.add, a, axis, dtype, out, keepdims, initial, where)


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True
) -> Any:
    """np.prod."""
    return reduce(np.multiply, a, axis, dtype, out, keepdims, initial, where)


def max(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True) -> Any:
    """np.max, with NaN winning as in NumPy. Places that attain it share its derivative equally."""
    return reduce(np.maximum, a, axis, None, out, keepdims, initial, where)


def min(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True) -> Any:
    """np.min, with NaN winning as in NumPy. Places that attain it share its derivative equally."""
    return reduce(np.minimum, a, axis, None, out, keepdims, initial, where)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    """np.all: always a bool (``ufunc.reduce`` too has no other loop for numbers)."""
    return reduce(np.logical_and, a, axis, BOOL if out is None else None, out, keepdims, where=where)


def any(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    """np.any."""
    return reduce(np.logical_or, a, axis, BOOL if out is None else None, out, keepdims, where=where)


def _count(h: Tracer, axes: tuple[int, ...], where: Any, keepdims: bool, ddof: Any = 0) -> Any:
    """How many numbers are averaged, less ``ddof``: a float; traced where a mask selects them or a size is symbolic."""
    if where is not True:
        count = sum(np.broadcast_to(promote.mask(where), h.aval.shape), axes, keepdims=keepdims)
        return np.maximum(count - ddof, 0) if ddof else count
    n = shapes.size(h.aval.shape[i] for i in axes)
    if isinstance(n, int):
        return float(builtins.max(n - ddof, 0))
    (count,) = promote.handles([n])
    return current_trace().tracer(np.maximum(count - ddof, 0).atom, Kind.PYTHON) if ddof else count


def average_of(total: Any, count: Any, out: Any) -> Any:
    """A sum divided by a count, in the sum's dtype; in place where there is an ``out``."""
    dtype = total.dtype
    if isinstance(count, float) and is_inexact(dtype) and dtype.type(count) != count:
        count = np.float64(count)  # too large a number for a small dtype
    if out is not None:
        return np.divide(total, count, out=out, casting="unsafe")
    quotient = np.divide(total, count)
    return quotient if quotient.dtype == dtype else quotient.astype(dtype)


def _inexact(h: Tracer, dtype: Any) -> np.dtype:
    """The dtype in which averages are worked out: whole numbers in float64."""
    return np.dtype(dtype) if dtype is not None else h.aval.dtype if is_inexact(h.aval.dtype) else np.dtype(float)


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    """np.mean. The mean of integers is float64; that of float16 is computed in float32 and rounded once."""
    (h,) = promote.handles([a])
    out = single_out(out)
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    wide = dtype is None and h.aval.dtype == np.float16
    total = sum(h, axes, np.float32 if wide else _inexact(h, dtype), out, keepdims, where=where)
    quotient = average_of(total, _count(h, axes, where, keepdims), out)
    return quotient.astype(h.aval.dtype) if wide and out is None else quotient


def freedom(ddof: Any, correction: Any) -> Any:
    """The number of degrees of freedom that are gone, under either of its names."""
    if correction is NOT_GIVEN:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """np.var: mean of the squared (absolute) deviations, with ``ddof`` fewer degrees of freedom."""
    (h,) = promote.handles([a])
    out, ddof = single_out(out), freedom(ddof, correction)
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    centre = mean
    if mean is NOT_GIVEN:
        total = sum(h, axes, _inexact(h, dtype), keepdims=True, where=where)
        centre = average_of(total, _count(h, axes, where, True), None)
    deviation = np.subtract(h, centre)
    parts = [np.real(deviation), np.imag(deviation)] if is_complex(h.aval.dtype) else [deviation]
    squares = functools.reduce(np.add, map(np.square, parts))
    total = sum(squares, axes, dtype if is_inexact(h.aval.dtype) else _inexact(h, dtype), out, keepdims, where=where)
    return average_of(total, _count(h, axes, where, keepdims, ddof), out)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """np.std. That of equal numbers has derivative 0."""
    out = single_out(out)
    return root(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction), out)


def _method(f: Callable[..., Any]) -> Callable[..., Any]:
    def method(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
        mean: Any = NOT_GIVEN,
    ) -> Any:  # fmt: skip
        return f(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)

    return method


# The methods of ndarray that take fewer keywords than the functions: no ``correction``.
METHODS = {"var": _method(var), "std": _method(std)}


def root(variance: Any, out: Any) -> Any:
    """The square root, with derivative 0 at 0 to all orders; in place where there is an ``out``."""
    if not isinstance(variance, Tracer) or not is_inexact(variance.aval.dtype):
        return np.sqrt(variance, out=out)
    trace = current_trace()
    h = trace.lift(variance)
    atom = trace.emit.sqrt_zero(h.atom)
    if out is not None:
        return store_exactly(atom, out)
    return trace.tracer(atom, h.kind, None if h.is_fresh_c_order else lambda: h.shadow)


def _arg_extremum(primitive: str) -> Callable[..., Any]:
    def argument(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        (h,) = promote.handles([a])
        shape, axis, out = h.aval.shape, None if axis is None else operator.index(axis), single_out(out)
        axes = _axes(axis, h)
        if [i for i in axes if shapes.fit((shape[i],), (0,))]:
            raise ValueError(f"attempt to get {primitive} of an empty sequence")
        if out is not None:
            getattr(np, primitive)(np.zeros(1), out=np.empty((), out.dtype))  # raises NumPy's own error where it cannot hold positions
        b = current_trace().emit
        if axis is None or not shape:
            atom = getattr(b, primitive)(b.reshape(h.atom, shape=(shapes.size(shape),)), axis=0)
        else:
            atom = getattr(b, primitive)(h.atom, axis=axes[0])
        if keepdims:
            atom = b.reshape(atom, shape=tuple(1 if i in axes else d for i, d in enumerate(shape)))
        if out is not None:
            return store_exactly(atom, out)
        return current_trace().tracer(atom, promote.result_kind(atom.aval.shape))

    argument.__doc__ = f"np.{primitive}: where the first extremum is (NaN counts as one)."
    return argument


argmax = _arg_extremum("argmax")
argmin = _arg_extremum("argmin")


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """np.ptp: maximum minus minimum."""
    return np.subtract(max(a, axis, out, keepdims), min(a, axis, keepdims=keepdims), out=out)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    """np.count_nonzero."""
    (h,) = promote.handles([a])
    trace = current_trace()
    count = sum(trace.tracer(truth(h), h.kind, promote.k_order([h], h.aval.shape, BOOL)), axis, keepdims=keepdims)
    is_python = axis is None and not keepdims and type(np.count_nonzero(0)) is int  # so up to NumPy 2.3
    return trace.tracer(count.atom, Kind.PYTHON) if is_python else count


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """np.average. Weights that sum to zero raise ZeroDivisionError where their sum is known while tracing."""
    (h,) = promote.handles([a])
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    if weights is None:
        result = mean(h, axes, keepdims=keepdims)
        (n,) = promote.handles([shapes.size(h.aval.shape[i] for i in axes)])
        scale = np.add(np.zeros_like(result), n)
    else:
        w = _weights(h, promote.handles([weights])[0], axis, axes)
        whole = () if is_inexact(h.aval.dtype) else (np.dtype(float),)
        dtype = np.result_type(h.aval.dtype, w.aval.dtype, *whole)
        scale = sum(w, axes, dtype, keepdims=keepdims)
        nothing = [i for i in axes if shapes.fit((w.aval.shape[i],), (0,))]
        if nothing or ((total := known(scale)) is not None and (total == 0).any()):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        result = np.divide(sum(np.multiply(h, w, dtype=dtype), axes, keepdims=keepdims), scale)
    return (result, np.add(np.zeros_like(result), scale)) if returned else result


def _weights(h: Tracer, w: Tracer, axis: Any, axes: tuple[int, ...]) -> Tracer:
    """Weights of the shape of the operand."""
    if shapes.fit(w.aval.shape, h.aval.shape):
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    order = [shapes.canonical_axis(operator.index(i), h.aval.ndim) for i in given]
    if not shapes.fit(w.aval.shape, tuple(h.aval.shape[i] for i in order)):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    b = current_trace().emit
    sorted_axes = np.argsort(order)
    atom = b.transpose(w.atom, perm=tuple(int(i) for i in sorted_axes)) if list(sorted_axes) != list(range(len(order))) else w.atom
    return current_trace().tracer(b.broadcast(atom, shape=h.aval.shape, dims=axes))


def known(h: Tracer) -> np.ndarray | None:
    """The value, where the trace knows it and no derivative flows into it."""
    try:
        return None if depends_on_differentiated(current_trace(), h.atom) else np.asarray(h.value())
    except ConcretizationError:
        return None
