"""where, take, clip and other functions that select."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, Kind
from functx.errors import UnsupportedError
from functx.numpy import promote
from functx.numpy.manipulation import copy, ravel
from functx.trace import Tracer, current_trace
from functx.trace import where as user_line


def where(condition: Any, x: Any = None, y: Any = None, /) -> Tracer:
    """np.where with three arguments: always an array, a 0-d one for scalars."""
    if x is None or y is None:
        raise UnsupportedError(
            "np.where with one argument: the number of results depends on data", where=user_line(), fix="use np.where(condition, x, y)"
        )
    c, a, b_ = promote.handles([condition, x, y])
    dtype = np.result_type(promote.representative(a), promote.representative(b_))
    shape = promote.broadcast_shapes([c, a, b_])
    b = current_trace().emit
    truth = c.atom if c.aval.dtype == BOOL else b.ne(c.atom, b.zeros_like(c.atom))
    parts = [promote.broadcast(b, atom, shape) for atom in (truth, promote.convert(b, a, dtype), promote.convert(b, b_, dtype))]
    return current_trace().tracer(b.select(*parts), Kind.ARRAY, promote.k_order([c, a, b_], shape, dtype))


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """np.take, checked."""
    if mode != "raise" or out is not None:
        raise UnsupportedError("np.take: out= and mode= are not traced", where=user_line(), fix="clip or wrap the indices first")
    h = promote.handles([a])[0]
    if axis is None:
        return ravel(h)[indices]
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    taken = h[(*(slice(None),) * axis, np.asarray(indices) if isinstance(indices, (list, tuple)) else indices)]
    return taken if taken.parent is None else copy(taken, "C")  # np.take never gives a view


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """np.take_along_axis."""
    h, index = promote.handles([arr, indices])
    if axis is None:
        return ravel(h)[index]
    rank = h.aval.ndim
    axis = shapes.canonical_axis(axis, rank)
    if index.aval.ndim != rank:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    key = []
    for i in range(rank):
        ramp = promote.positions(h.aval.shape[i]).reshape([-1 if j == i else 1 for j in range(rank)])
        key.append(index if i == axis else ramp)
    return h[tuple(key)]


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """np.clip: minimum(maximum(a, a_min), a_max), with derivative 0 at a Python scalar bound."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if low is not None:
        a = np.maximum(a, low)
    if high is not None:
        a = np.minimum(a, high)
    if out is not None:
        return np.positive(a, out=out)
    return a if low is not None or high is not None else np.positive(a)


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """np.round, as NumPy computes it: scaled by a power of ten, rounded to even, scaled back. It is piecewise constant."""
    (h,) = promote.handles([a])
    decimals, integers = operator.index(decimals), h.aval.dtype.kind in "iu"
    if integers and decimals >= 0:
        rounded = np.positive(h)
    elif decimals == 0:
        rounded = np.rint(h)
    else:
        there, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
        scale = 10.0 ** abs(decimals)
        if h.aval.dtype == BOOL:
            there(np.empty(0, bool), scale, out=np.empty(0, bool))  # raises NumPy's own error
        rounded = back(np.rint(there(h, scale)), scale)
    if integers and rounded.dtype != h.aval.dtype:
        rounded = rounded.astype(h.aval.dtype)
    return rounded if out is None else np.positive(rounded, out=out)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """np.isclose."""
    b = np.multiply(b, 1.0)
    close = np.less_equal(np.abs(np.subtract(a, b)), atol + rtol * np.abs(b))
    close = np.logical_and(close, np.isfinite(b))
    close = np.logical_or(close, np.equal(a, b))
    return np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close
