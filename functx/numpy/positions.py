"""Where a condition holds: results whose size depends on data. Known values give NumPy's results.

In functx.numpy these functions take ``size=n``: the first n places, in an array of n entries for all values of the condition, completed by
``fill_value``. Without it an unknown condition is an error that names it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, INT64
from functx.errors import ConcretizationError
from functx.numpy import bound, indexing, promote
from functx.numpy.bound import coordinates
from functx.numpy.manipulation import along, into, ravel
from functx.trace import Tracer, current_trace, where


def known_or_size(value: Any, name: str, keyword: str = "size") -> Any:
    """The value that decides the size of a result; an error that names the keyword if it is unknown."""
    (h,) = promote.handles([value])
    try:
        return np.asarray(h.value())
    except ConcretizationError as error:
        raise ConcretizationError(
            f"np.{name}: the size of the result depends on values that are unknown while tracing",
            where=where(),
            why=error.why,
            fix=f"fnp.{name}(..., {keyword}=n) (import functx.numpy as fnp) gives n entries for all values; or np.where(condition, x, y)",
        ) from None


def known_value(value: Any) -> np.ndarray | None:
    """The value that decides the size of a result, where it is known while tracing."""
    (h,) = promote.handles([value])
    try:
        return np.asarray(h.value())
    except ConcretizationError:
        return None


def as_array(value: Any) -> Any:
    """A handle for a list that holds tracers, which NumPy would not dispatch; anything else as it is."""
    return promote.handles([value])[0] if isinstance(value, (list, tuple)) and promote.contains_tracer(value) else value


def truth(value: Any) -> Any:
    """An array as a condition."""
    (h,) = promote.handles([value])
    return h if h.aval.dtype == BOOL else np.not_equal(h, 0)


def first_places(condition: Tracer, size: int, fill: Any = 0) -> Tracer:
    """The first ``size`` places where a flat condition holds, then ``fill``."""
    trace = current_trace()
    b, n = trace.emit, condition.aval.shape[0]
    counts = b.cumsum(b.convert(condition.atom, dtype=INT64, checked=False), axis=0, reverse=False)
    slots = b.sub(counts, b.full_like(counts, 1))
    last = b.full_like(slots, size)  # what is not wanted goes to a place of its own, which is cut off
    slots = b.select(condition.atom, b.min(slots, last, tie="half"), last)
    out = promote.broadcast(b, promote.convert(b, promote.handles([fill])[0], INT64), (size + 1,))
    filled = b.scatter_set(out, b.iota(shape=(n,), dtype=INT64, axis=0), slots, axes=(0,))
    return trace.tracer(b.slice(filled, starts=(0,), sizes=(size,), steps=(1,)))


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """np.nonzero: the coordinates of the elements that are not zero, one index array per axis.

    Args:
      a: an array of any shape but 0-d.
      size: how many places to give, for all values of ``a``; None: as many as there are.
      fill_value: what stands in the entries that are left over: a number, or one for each axis (default 0).

    >>> import functx as fx
    >>> fx.jit(lambda x: nonzero(x > 1, size=3, fill_value=-1), backend="reference")(np.array([0.0, 2.0, 3.0]))
    (array([ 1,  2, -1]),)
    """
    if not promote.is_traced(a, fill_value):
        return _plain_nonzero(a, size, fill_value)
    known = known_value(a) if size is None else None
    if known is not None:
        return tuple(_constant(i) for i in np.nonzero(known))
    h = truth(a)
    if h.aval.ndim == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    flat = ravel(h)
    if size is None:
        return coordinates(bound.places(flat), h.aval.shape)
    total = shapes.size(h.aval.shape)
    places = first_places(flat, size, total)
    found = np.less(places, total)
    fills = _fills(fill_value, h.aval.ndim)
    return tuple(np.where(found, c, f).astype(np.int64) for c, f in zip(coordinates(places, h.aval.shape), fills, strict=True))


def _plain_nonzero(a: Any, size: int | None, fill_value: Any) -> tuple[np.ndarray, ...]:
    places = np.nonzero(a)
    if size is None:
        return places
    fills = _fills(fill_value, len(places))
    return tuple(np.concatenate([i[:size], np.full(max(size - len(i), 0), f, i.dtype)]) for i, f in zip(places, fills, strict=True))


def _fills(fill_value: Any, rank: int) -> Any:
    """What stands in left-over entries, by axis."""
    return fill_value if isinstance(fill_value, (tuple, list)) else (0 if fill_value is None else fill_value,) * rank


def _constant(array: np.ndarray) -> Tracer:
    trace = current_trace()
    return trace.tracer(trace.builder.const(array))


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """np.argwhere: the coordinates of the elements that are not zero, one row each; ``size`` and ``fill_value`` as for nonzero.

    >>> argwhere(np.array([0, 1, 1]), size=3, fill_value=9)
    array([[1],
           [2],
           [9]])
    """
    a = as_array(a)
    if np.ndim(a) == 0:
        return argwhere(np.atleast_1d(a), size=size, fill_value=fill_value)[:, :0]
    return np.transpose(np.stack(nonzero(a, size=size, fill_value=fill_value)))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """np.flatnonzero: the places of the elements that are not zero, in the flattened array; ``size`` and ``fill_value`` as for nonzero.

    >>> flatnonzero(np.array([[0, 1], [1, 1]]), size=2)
    array([1, 2])
    """
    return nonzero(np.ravel(as_array(a)), size=size, fill_value=fill_value)[0]


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """np.compress: the slices where a condition holds."""
    h, axis = along(promote.handles([a])[0], axis)
    known = known_value(condition)
    if known is not None:
        return into(out, indexing.pick(h, np.flatnonzero(known), axis), "unsafe")
    places = bound.places(ravel(truth(condition)))
    return into(out, current_trace().tracer(h[(*(slice(None),) * axis, places)].atom), "unsafe")


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """np.extract: the elements where a condition holds; with ``size``, the first so many, then ``fill_value``.

    >>> extract(np.array([True, False, True]), np.array([1.0, 2.0, 3.0]), size=3)
    array([1., 3., 0.])
    """
    condition, arr = as_array(condition), as_array(arr)
    if size is None and not promote.is_traced(condition, arr):
        return np.extract(condition, arr)
    places = flatnonzero(condition, size=size, fill_value=-1) if size is not None else nonzero(np.ravel(condition))[0]
    taken = np.take(arr, places)
    if size is None:
        return taken
    out = np.full_like(taken, 0)
    out[...] = fill_value  # cast to the array's dtype
    return np.where(places >= 0, taken, out)
