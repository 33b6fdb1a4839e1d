"""Reductions that leave NaN out: those of reductions.py over the places that hold a number.

Where NumPy warns of slices without numbers, the results are the same (NaN) and nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functx.dtypes import Kind
from functx.numpy import promote, reductions
from functx.numpy.manipulation import copy
from functx.numpy.reductions import NOT_GIVEN, freedom, single_out
from functx.trace import Tracer, current_trace


def has_nan(dtype: np.dtype) -> bool:
    """Whether NumPy looks for NaN in such arrays (not in bfloat16 ones)."""
    return dtype.kind in "fc"


def _numbers(a: Any, where: Any = True) -> tuple[Tracer, Any]:
    """The operand, and where it holds a number (among the places of ``where``); True for dtypes without NaN."""
    (h,) = promote.handles([a])
    if not has_nan(h.aval.dtype):
        return h, where
    h = copy(h) if h.kind is Kind.ARRAY else h  # in its order in memory
    present = np.logical_not(np.isnan(h))
    return h, present if where is True else np.logical_and(present, where)


def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True
) -> Any:  # fmt: skip
    """np.nansum."""
    h, present = _numbers(a, where)
    return reductions.sum(h, axis, dtype, out, keepdims, initial, present)


def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True
) -> Any:  # fmt: skip
    """np.nanprod."""
    h, present = _numbers(a, where)
    return reductions.prod(h, axis, dtype, out, keepdims, initial, present)


def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True) -> Any:
    """np.nanmax."""
    return reductions.reduce(np.fmax, a, axis, None, out, keepdims, initial, where)


def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = NOT_GIVEN, where: Any = True) -> Any:
    """np.nanmin."""
    return reductions.reduce(np.fmin, a, axis, None, out, keepdims, initial, where)


def _summed_in(h: Tracer, dtype: Any) -> Any:
    """Unlike np.mean, np.nanmean sums float16 in float16."""
    return h.aval.dtype if dtype is None and has_nan(h.aval.dtype) else dtype


def _check(h: Tracer, dtype: Any, out: Any) -> None:
    if has_nan(h.aval.dtype):
        for what, given in (("dtype", dtype), ("out", None if out is None else out.dtype)):
            if given is not None and not has_nan(np.dtype(given)):
                raise TypeError(f"If a is inexact, then {what} must be inexact")


def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    """np.nanmean."""
    h, present = _numbers(a, where)
    out = single_out(out)
    _check(h, dtype, out)
    return reductions.mean(h, axis, _summed_in(h, dtype), out, keepdims, where=present)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """np.nanvar: NaN where no degree of freedom is left."""
    h, present = _numbers(a, where)
    out, ddof = single_out(out), freedom(ddof, correction)
    _check(h, dtype, out)
    if not has_nan(h.aval.dtype):
        return reductions.var(h, axis, dtype, out, ddof, keepdims, where=where, mean=mean)
    variance = reductions.var(h, axis, dtype, None, ddof, keepdims, where=present, mean=mean)
    chosen = np.broadcast_to(present, h.aval.shape)
    none_left = np.less_equal(np.subtract(reductions.sum(chosen, axis, keepdims=keepdims), ddof), 0)
    trace = current_trace()
    atom = trace.emit.select(none_left.atom, trace.emit.full_like(variance.atom, np.nan), variance.atom)
    if out is not None:
        return reductions.store_exactly(atom, out)
    return trace.tracer(atom, variance.kind, None if variance.is_fresh_c_order else lambda: variance.shadow)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """np.nanstd. That of equal numbers has derivative 0."""
    out = single_out(out)
    return reductions.root(nanvar(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction), out)


def _nan_argument(name: str, worst: float) -> Callable[..., Any]:
    argument = getattr(reductions, name)

    def of(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        (h,) = reductions.arrays([a])
        if not has_nan(h.aval.dtype):
            return argument(h, axis, out, keepdims=keepdims)
        missing = np.isnan(h)
        nothing = reductions.known(reductions.all(missing, axis))
        if nothing is not None and h.size and nothing.any():
            raise ValueError("All-NaN slice encountered")
        return argument(np.where(missing, h.aval.dtype.type(worst), h), axis, out, keepdims=keepdims)

    of.__doc__ = f"np.nan{name}; a slice of NaN alone is an error where its values are known while tracing."
    return of


nanargmax = _nan_argument("argmax", -np.inf)
nanargmin = _nan_argument("argmin", np.inf)
