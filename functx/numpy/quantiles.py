"""median, quantile, percentile and histogram, by sorting."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import Kind, is_complex, is_inexact
from functx.errors import UnsupportedError
from functx.numpy import promote, reductions
from functx.numpy.creation import linspace
from functx.numpy.manipulation import into, moveaxis, ravel, reshape, transpose
from functx.numpy.sets import counted
from functx.numpy.sorting import searchsorted, sort
from functx.trace import Tracer, current_trace, where


def _sorted_last(h: Tracer, axis: Any) -> tuple[Tracer, tuple[int, ...]]:
    """The values sorted along a last axis that stands for the given axes, and those axes."""
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    if not axes:
        return sort(h[..., None]), axes
    kept = [i for i in range(h.aval.ndim) if i not in axes]
    length = shapes.size(h.aval.shape[i] for i in axes)
    found = any(isinstance(d, shapes.Dim) and d.is_found for d in h.aval.shape)  # then it depends on data whether a view can be had
    return sort(reshape(transpose(h, [*kept, *axes]), (*(h.aval.shape[i] for i in kept), length), copy=found or None)), axes


def _nan_wins(ordered: Tracer, result: Tracer) -> Any:
    """NaN where one is among the values: it was sorted to the end."""
    if not is_inexact(ordered.aval.dtype):
        return result
    return np.where(np.isnan(ordered[..., -1:]).any(-1), np.nan, result).astype(result.dtype)


def _kept_axes(result: Any, h: Tracer, axes: tuple[int, ...], keepdims: bool, lead: int = 0) -> Any:
    if not keepdims:
        return result[()] if isinstance(result, Tracer) else result
    kept = result[(*(slice(None),) * lead, *(None if i in axes else slice(None) for i in range(h.aval.ndim)))]
    return current_trace().tracer(kept.atom, Kind.ARRAY, lambda: kept.shadow)


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """np.median: the mean of the middle one or two sorted values."""
    (h,) = reductions.arrays([a])
    ordered, axes = _sorted_last(h, axis)
    n = ordered.aval.shape[-1]
    middle = np.mean(ordered[..., shapes.greater(n - 1, 0) // 2 : n // 2 + 1], axis=-1)
    return into(out, _kept_axes(_nan_wins(ordered, middle), h, axes, keepdims), "same_kind")


def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False,
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.quantile: all of NumPy's methods for known ``q``, linear interpolation for a traced one."""
    if weights is not None:
        raise UnsupportedError(
            "np.quantile: weights= is not traced", where=where(), fix="np.searchsorted in the cumulative weights of the sorted values"
        )
    (h,), (fraction,) = reductions.arrays([a]), promote.handles([q])
    if is_complex(h.aval.dtype):
        raise TypeError("a must be an array of real numbers")
    ordered, axes = _sorted_last(h, axis)
    n, dtype = ordered.aval.shape[-1], _result_dtype(h, fraction, method)
    if shapes.at_least(0, n):  # where data says so, the look at a value that is not there raises
        raise IndexError("the quantile of no values is undefined")
    low, gamma = _place(fraction, n, method)
    lower, upper = (ordered[..., i] for i in (low, np.minimum(low + 1, n - 1)))
    lead = fraction.aval.ndim
    lower, upper = (moveaxis(v, tuple(range(-lead, 0)), tuple(range(lead))) if lead else v for v in (lower, upper))
    discrete = method in _DISCRETE
    result = lower if discrete else _between(lower, upper, np.reshape(gamma, np.shape(gamma) + (1,) * (lower.ndim - lead)))
    result = _nan_wins(ordered, result)
    result = result if result.dtype == dtype else result.astype(dtype)
    result = _kept_axes(result, h, axes, keepdims, lead)
    return into(out, current_trace().tracer(result.atom, result.kind), "same_kind")  # in C order


_DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")


def _result_dtype(h: Tracer, q: Tracer, method: str) -> np.dtype:
    """NumPy itself says."""
    fraction = 0.5 if q.aval.weak else np.full((1,) * q.aval.ndim, 0.5 if is_inexact(q.aval.dtype) else 0, q.aval.dtype)[()]
    return np.asarray(np.quantile(np.zeros(2, h.aval.dtype), fraction, method=method)).dtype


def _place(q: Tracer, n: int, method: str) -> tuple[Any, Any]:
    """The place of a quantile among n sorted values: the value below, and how far it is to the next."""
    known = reductions.known(q)
    if known is None or (isinstance(n, shapes.Dim) and method == "linear"):
        if method != "linear":
            what = f"np.quantile: method={method!r} needs a known q without derivatives"
            raise UnsupportedError(what, where=where(), fix="method='linear', or a plain q")
        place = np.multiply(q, n - 1)
        low = np.clip(np.floor(place), 0, n - 1).astype(np.int64)
        return low, place - low
    place = np.asarray(np.quantile(np.arange(n, dtype=float), known, method=method))  # NumPy's method, asked where it looks
    low = np.floor(place).astype(int)
    trace = current_trace()
    return trace.tracer(trace.builder.const(low)), place - low


def _between(lower: Any, upper: Any, gamma: Any) -> Any:
    """Linear interpolation, from the nearer end; as in NumPy that between two infinities is NaN."""
    step = np.subtract(upper, lower)
    nearer_low, nearer_high = lower + step * gamma, upper - step * np.subtract(1, gamma)
    return np.where(np.greater_equal(gamma, 0.5), nearer_high, nearer_low)


def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False,
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.percentile: the quantile at q / 100."""
    h = promote.handles([a])[0]
    hundred = h.aval.dtype.type(100) if h.aval.dtype.kind == "f" else 100
    return quantile(a, np.true_divide(q, hundred), axis, out, overwrite_input, method, keepdims, weights=weights)


# --- histograms ---------------------------------------------------------------------------------------------------------------------------


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """np.histogram_bin_edges for a number of bins of equal width, or given edges."""
    if isinstance(bins, str):
        raise UnsupportedError("np.histogram: a rule for the number of bins is not traced", where=where(), fix="pass a number of bins")
    if np.ndim(bins):
        return promote.handles([bins])[0]
    if operator.index(bins) < 1:
        raise ValueError("`bins` must be positive, when an integer")
    h = ravel(a)
    if range is None:
        range = (np.min(h), np.max(h)) if h.aval.shape[0] else (0, 1)
    elif not promote.is_traced(*range) and not -np.inf < range[0] <= range[1] < np.inf:
        np.histogram_bin_edges(np.zeros(1), bins, range)  # raises NumPy's own error
    first, last = promote.handles(range)
    dtype = np.result_type(promote.representative(first), promote.representative(last), h.aval.dtype)
    same = np.equal(first, last)
    first, last = np.where(same, np.subtract(first, 0.5), first), np.where(same, np.add(last, 0.5), last)
    return linspace(first, last, bins + 1, dtype=dtype if is_inexact(dtype) else float)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """np.histogram: counts (or sums of weights) between edges, each of which belongs to the bin above it; the last to the last bin."""
    edges = promote.handles([histogram_bin_edges(a, bins, range)])[0]
    h, n = ravel(a), edges.aval.shape[0] - 1
    if weights is not None and np.shape(weights) != np.shape(a):
        raise ValueError("weights should have the same shape as a.")
    place = searchsorted(edges, h, "right") - 1
    place = np.where(np.equal(h, edges[-1]), n - 1, place)
    inside = np.logical_and(place >= 0, place < n)
    values = None if weights is None else ravel(weights)
    counts = counted(np.where(inside, place, n), values, n + 1)[:n]
    if density:
        return counts / np.diff(edges) / np.sum(counts), edges
    return counts, edges
