"""unique and bincount: results whose size depends on data. Known values give NumPy's results; unknown ones need ``size=``/``length=``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functx import shapes
from functx.dtypes import FLOAT64, INT64, is_inexact
from functx.numpy import bound, positions, promote
from functx.numpy.manipulation import ravel, reshape
from functx.numpy.sorting import argsort
from functx.trace import Tracer, current_trace


class _Groups(NamedTuple):
    """A flat array in sorted order, and where its groups of equal elements begin."""

    order: Tracer
    ordered: Tracer
    begins: Tracer  # bool


def _groups(flat: Tracer, equal_nan: bool) -> _Groups:
    order = argsort(flat)
    ordered = flat[order]
    n = flat.aval.shape[0]
    trace = current_trace()
    first = trace.tracer(trace.emit.full((shapes.smaller(n, 1),), True, np.dtype(bool)))
    differs = np.not_equal(ordered[1:], ordered[:-1])
    if equal_nan and is_inexact(flat.aval.dtype):
        differs = np.logical_and(differs, np.logical_not(np.logical_and(np.isnan(ordered[1:]), np.isnan(ordered[:-1]))))
    return _Groups(order, ordered, first if shapes.same(n, 0) else np.concatenate([first, differs]))


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None,
    *, equal_nan: bool = True, sorted: bool = True, size: int | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """np.unique, with the sorted distinct elements in an array of a given size.

    Args:
      ar, return_index, return_inverse, return_counts, axis, equal_nan, sorted: as in NumPy.
      size: how many elements to give, for all values of ``ar`` (then of the flattened array only); None: as many as there are (where they
        are unknown while tracing, of the flattened array only).
      fill_value: what stands in the entries that are left over (default: the least element); counts there are 0.

    >>> unique(np.array([3, 1, 3]), size=3, fill_value=0, return_counts=True)
    (array([1, 3, 0]), array([1, 2, 0]))
    """
    plain = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    if not promote.is_traced(ar, fill_value):
        if size is None:
            return np.unique(ar, **plain, axis=axis, equal_nan=equal_nan, sorted=sorted)
        return _plain_unique(np.asarray(ar), size, fill_value, equal_nan, plain)
    if size is not None and axis is not None:
        raise TypeError("unique: size= goes with axis=None")
    flat = ravel(ar)
    if size is None:
        known = positions.known_value(ar) if axis is None else positions.known_or_size(ar, "unique", "axis=None, size")
        if known is None:
            return _bound_unique(flat, promote.handles([ar])[0].aval.shape, equal_nan, plain)
        _, index, inverse, counts = np.unique(known, True, True, True, axis=axis, equal_nan=equal_nan)
        trace = current_trace()
        index, inverse, counts = (trace.tracer(trace.builder.const(v)) for v in (index, inverse, counts))
        (h,) = promote.handles([ar])
        values = flat[index] if axis is None else h[(*(slice(None),) * shapes.canonical_axis(axis, h.aval.ndim), index)]
        parts = [values, *(v for v, wanted in zip((index, inverse, counts), plain.values(), strict=True) if wanted)]
        return tuple(parts) if len(parts) > 1 else values
    return _sized_unique(flat, promote.handles([ar])[0].aval.shape, size, fill_value, equal_nan, plain)


def _sized_unique(flat: Tracer, shape: shapes.Shape, size: int, fill: Any, equal_nan: bool, wanted: dict[str, bool]) -> Any:
    groups, n = _groups(flat, equal_nan), flat.aval.shape[0]
    begins = positions.first_places(groups.begins, size, n)
    there = np.less(begins, n)
    at = np.minimum(begins, n - 1)
    values = groups.ordered[at]
    fillers = np.full_like(values, groups.ordered[0] if fill is None else fill)
    parts: list[Any] = [np.where(there, values, fillers)]
    index = groups.order[at]
    number = np.cumsum(groups.begins) - 1  # of the group, in sorted order
    if wanted["return_index"]:
        parts.append(np.where(there, index, index[0]))
    if wanted["return_inverse"]:
        inverse = np.zeros_like(number)
        inverse[groups.order] = number
        parts.append(reshape(inverse, shape))
    if wanted["return_counts"]:
        parts.append(counted(np.minimum(number, size), None, size + 1)[:size])
    return tuple(parts) if len(parts) > 1 else parts[0]


def _bound_unique(flat: Tracer, shape: shapes.Shape, equal_nan: bool, wanted: dict[str, bool]) -> Any:
    """As many elements as there are: the first of each group of equal ones."""
    groups = _groups(flat, equal_nan)
    begins = bound.places(groups.begins)
    parts: list[Any] = [groups.ordered[begins]]
    if wanted["return_index"]:
        parts.append(groups.order[begins])
    if wanted["return_inverse"]:
        inverse = np.zeros_like(groups.order)
        inverse[groups.order] = np.cumsum(groups.begins) - 1
        parts.append(reshape(inverse, shape))
    if wanted["return_counts"]:
        total = promote.handles([shapes.size(flat.aval.shape)])
        parts.append(np.diff(np.concatenate([begins, np.reshape(total[0], 1)])))
    return tuple(parts) if len(parts) > 1 else parts[0]


def _plain_unique(ar: np.ndarray, size: int, fill: Any, equal_nan: bool, wanted: dict[str, bool]) -> Any:
    values, index, inverse, counts = np.unique(ar, True, True, True, equal_nan=equal_nan)
    extra = max(size - len(values), 0)
    fillers = (values[:1] if fill is None else fill, index[:1], None, 0)

    def sized(v: np.ndarray, filler: Any) -> np.ndarray:
        return np.concatenate([v[:size], np.broadcast_to(np.asarray(filler, v.dtype), (extra,))])

    kept = (True, *wanted.values())
    parts = [v if f is None else sized(v, f) for v, f, k in zip((values, index, inverse, counts), fillers, kept, strict=True) if k]
    return tuple(parts) if len(parts) > 1 else parts[0]


# --- counting -----------------------------------------------------------------------------------------------------------------------------


def counted(places: Any, weights: Tracer | None, length: int) -> Tracer:
    """How often each of 0 .. length - 1 is among the places, or the sums of their weights; IndexError for other places."""
    (h,) = promote.handles([places])
    trace = current_trace()
    b = trace.emit
    dtype = INT64 if weights is None else weights.aval.dtype
    index = promote.convert(b, h, INT64)
    negative = b.lt(index, b.zeros_like(index))
    index = b.select(negative, b.full_like(index, length), index)  # a negative place is none, and does not count from the end
    update = b.full_like(index, 1) if weights is None else weights.atom
    return trace.tracer(b.scatter_add(b.full((length,), 0, dtype), update, index, axes=(0,)))


def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """np.bincount, into an array of a given length.

    Args:
      x: whole numbers (n,), none of them negative.
      weights: n numbers to add up instead of ones.
      minlength: the least length of the result.
      length: the length of the result; None: one more than the greatest number, which must be known while tracing. A greater number
        raises IndexError.

    >>> bincount(np.array([0, 2, 2]), length=4)
    array([1, 0, 2, 0])
    """
    if not promote.is_traced(x, weights):
        counts = np.bincount(x, weights, max(minlength, length or 0))
        if length is not None and len(counts) > max(minlength, length):
            raise IndexError(f"bincount: {len(counts) - 1} does not lie below the length {length}")
        return counts
    (h,) = promote.handles([x])
    if h.aval.ndim != 1:
        raise ValueError("object too deep for desired array" if h.aval.ndim else "object of too small depth for desired array")
    if not np.can_cast(h.aval.dtype, INT64, "safe"):
        raise TypeError(f"Cannot cast array data from dtype('{h.aval.dtype}') to dtype('int64') according to the rule 'safe'")
    if length is None:
        length = len(np.bincount(positions.known_or_size(h, "bincount", "length"), minlength=minlength))  # raises NumPy's own errors
    if weights is not None and np.shape(weights) != h.aval.shape:
        raise ValueError("The weights and list don't have the same length.")
    sums = None if weights is None or not h.aval.shape[0] else promote.handles([weights])[0].astype(FLOAT64, casting="safe")
    return counted(h, sums, max(length, minlength))
