"""Cumulative functions: ``ufunc.accumulate`` of every traced ufunc, np.cumsum and the like, differences and the trapezoidal rule."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, Kind
from functx.errors import UnsupportedError
from functx.ir import Atom
from functx.numpy import manipulation, promote, reductions, ufuncs
from functx.numpy.nanfunctions import has_nan
from functx.numpy.reductions import call, ignoring_nan, one, part, single_out
from functx.trace import Tracer, current_trace, where

# --- one ufunc along an axis --------------------------------------------------------------------------------------------------------------


_SCANS: dict[np.ufunc, Callable[..., Atom]] = {
    np.add: one("cumsum", "cummax"), np.multiply: one("cumprod", "cummin"), np.maximum: one("cummax"), np.minimum: one("cummin"),
    np.logical_and: one("cummin"), np.logical_or: one("cummax"), np.logaddexp: one("cumlogsumexp"),
    np.fmax: ignoring_nan("cummax", "cummin", -np.inf), np.fmin: ignoring_nan("cummin", "cummin", np.inf),
}  # fmt: skip


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """``ufunc.accumulate``. What has no primitive is worked out in a logarithmic number of steps, or step by step, over a known length."""
    if not ufuncs.is_traced(ufunc):
        raise UnsupportedError(f"np.{ufunc.__name__}.accumulate is not traced by functx", where=where(), fix=ufuncs.WRITE_INSTEAD)
    (h,) = promote.handles([array])
    out = single_out(out)
    ufunc.accumulate(reductions.stand_in(h), axis=axis, dtype=dtype)  # raises NumPy's own errors
    axis = 0 if axis is None else operator.index(axis[0] if isinstance(axis, tuple) else axis)  # None: the only axis
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    trace = current_trace()
    b, loop = trace.emit, reductions.loop_dtype(ufunc, h, dtype, out)
    x = reductions.truth(h) if loop == BOOL else promote.convert(b, h, loop)
    rule = _SCANS.get(ufunc)
    if rule is not None:
        atom = rule(b, x, axis=axis, reverse=False)
    else:
        atom = (_by_doubling if reductions.is_reorderable(ufunc) else _from_left)(ufunc, x, axis)
    if out is not None:
        return reductions.store_exactly(atom, out)
    return trace.tracer(atom, Kind.ARRAY, promote.k_order([h], h.aval.shape, loop))


def _by_doubling(ufunc: np.ufunc, x: Atom, axis: int) -> Atom:
    """Element i takes in what ends at i - 1, then at i - 2, i - 4, ..."""
    b, n, distance = current_trace().emit, operator.index(x.aval.shape[axis]), 1
    while distance < n:
        rest = n - distance
        x = b.concatenate(
            part(b, x, axis, 0, distance), call(ufunc, part(b, x, axis, 0, rest), part(b, x, axis, distance, rest)), axis=axis
        )
        distance *= 2
    return x


def _from_left(ufunc: np.ufunc, x: Atom, axis: int) -> Atom:
    b, n = current_trace().emit, operator.index(x.aval.shape[axis])
    steps = [part(b, x, axis, i, 1) for i in range(n)]
    for i in range(1, n):
        steps[i] = call(ufunc, steps[i - 1], steps[i])
    return b.concatenate(*steps, axis=axis) if n > 1 else x


# --- NumPy's functions --------------------------------------------------------------------------------------------------------------------


def _cumulated(ufunc: np.ufunc, a: Any, axis: int | None, dtype: Any, out: Any) -> Any:
    (h,) = promote.handles([a])
    return accumulate(ufunc, *manipulation.along(h, axis), dtype, out)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """np.cumsum."""
    return _cumulated(np.add, a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """np.cumprod."""
    return _cumulated(np.multiply, a, axis, dtype, out)


def _without_nan(a: Any, value: float) -> Any:
    (h,) = promote.handles([a])
    return np.where(np.isnan(h), h.aval.dtype.type(value), h) if has_nan(h.aval.dtype) else h


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """np.nancumsum: NaN counts as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """np.nancumprod: NaN counts as 1."""
    return cumprod(_without_nan(a, 1), axis, dtype, out)


def _with_initial(ufunc: np.ufunc, x: Any, axis: int | None, dtype: Any, out: Any, include_initial: bool) -> Any:
    h = manipulation.atleast_1d(x)
    if axis is None and h.aval.ndim > 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    axis, out = shapes.canonical_axis(operator.index(axis or 0), h.aval.ndim), single_out(out)
    if not include_initial:
        return accumulate(ufunc, h, axis, dtype, out)
    lead = (slice(None),) * axis
    total = accumulate(ufunc, h, axis, dtype, None if out is None else out[(*lead, slice(1, None))])
    if out is not None:
        out[(*lead, 0)] = ufunc.identity
        return out
    first = np.full_like(total, ufunc.identity, shape=tuple(1 if i == axis else d for i, d in enumerate(total.shape)))
    return np.concatenate([first, total], axis=axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:  # fmt: skip
    """np.cumulative_sum."""
    return _with_initial(np.add, x, axis, dtype, out, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:  # fmt: skip
    """np.cumulative_prod."""
    return _with_initial(np.multiply, x, axis, dtype, out, include_initial)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = reductions.NOT_GIVEN, append: Any = reductions.NOT_GIVEN) -> Any:
    """np.diff: the n-th differences along an axis; of bools, whether neighbours differ."""
    if n == 0:
        return a
    if n < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    (h,) = promote.handles([a])
    if h.aval.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    joined = [h if v is a else _beside(h, v, axis) for v in (prepend, a, append) if v is not reductions.NOT_GIVEN]
    x = joined[0] if len(joined) == 1 else np.concatenate(joined, axis)
    lead = (slice(None),) * axis
    for _ in range(n):
        difference = np.not_equal if x.aval.dtype == BOOL else np.subtract
        x = difference(x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x


def _beside(h: Tracer, value: Any, axis: int) -> Tracer:
    """What is put before or behind an array: a number stands for one slice."""
    (v,) = reductions.arrays([value])
    return v if v.aval.ndim else manipulation.broadcast_to(v, tuple(1 if i == axis else d for i, d in enumerate(h.aval.shape)))


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """np.ediff1d: differences of the flattened array, with values before and behind."""
    (h,) = promote.handles([ary])
    flat = manipulation.ravel(h)
    inner = np.subtract(flat[1:], flat[:-1])
    ends = [None if v is None else _flat_like(v, h.aval.dtype, name) for v, name in ((to_begin, "to_begin"), (to_end, "to_end"))]
    parts = [v for v in (ends[0], inner, ends[1]) if v is not None]
    return inner if len(parts) == 1 else np.concatenate(parts)


def _flat_like(value: Any, dtype: np.dtype, name: str) -> Any:
    (v,) = promote.handles([value])
    if not np.can_cast(v.aval.dtype if v.kind is not Kind.PYTHON else np.min_scalar_type(np.zeros((), dtype)), dtype, "same_kind"):
        raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return manipulation.ravel(v).astype(dtype)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """np.trapezoid: the integral along an axis by the trapezoidal rule."""
    (h,) = promote.handles([y])
    rank = h.aval.ndim
    place = shapes.canonical_axis(axis, rank)
    lead = (slice(None),) * place
    width = dx
    if x is not None:
        (points,) = promote.handles([x])
        width = diff(points) if points.aval.ndim == 1 else diff(points, axis=axis)
        if points.aval.ndim == 1:
            width = manipulation.reshape(width, tuple(-1 if i == place else 1 for i in range(rank)))
    upper, lower = h[(*lead, slice(1, None))], h[(*lead, slice(None, -1))]
    return np.sum(width * np.add(upper, lower) / 2.0, axis=axis)
