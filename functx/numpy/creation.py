"""Constructors. Inside a trace they return handles, which tracers can be written into; outside they are NumPy's own."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import dtypes, shapes
from functx.dtypes import Kind
from functx.numpy import promote
from functx.numpy.diagonals import triangle
from functx.numpy.indexing import as_stored, assigned
from functx.numpy.manipulation import copy as copy_array
from functx.numpy.manipulation import expand_dims, known, layout, moveaxis
from functx.trace import Trace, Tracer, contiguity, current_trace


def _constructor(build: Callable[..., Any]) -> Callable[..., Any]:
    """``build(trace, *args)`` inside a trace, the NumPy function of that name outside."""
    plain = getattr(np, build.__name__)

    def construct(*args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        return plain(*args, **kwargs) if trace is None else build(trace, *args, **kwargs)

    construct.__name__ = construct.__qualname__ = build.__name__
    construct.__doc__ = (
        f"``numpy.{build.__name__}``; inside a traced function the result is a handle that traced values can be written into."
    )
    construct.__wrapped__ = plain  # type: ignore[attr-defined]
    return construct


def _shape(shape: Any) -> shapes.Shape:
    out = tuple(d if isinstance(d, shapes.Dim) else operator.index(d) for d in shapes.as_sequence(shape))
    if any(isinstance(d, int) and d < 0 for d in out):
        raise ValueError("negative dimensions are not allowed")
    return out


def _full(trace: Trace, shape: Any, value: Any, dtype: Any, order: str) -> Tracer:
    dims, target = _shape(shape), np.dtype(dtype)
    return trace.tracer(trace.emit.full(dims, value, target), Kind.ARRAY, layout(order, dims, target))


@_constructor
def zeros(trace: Trace, shape: Any, dtype: Any = float, order: str = "C") -> Tracer:
    return _full(trace, shape, 0, dtype, order)


@_constructor
def ones(trace: Trace, shape: Any, dtype: Any = None, order: str = "C") -> Tracer:
    return _full(trace, shape, 1, dtype or float, order)


@_constructor
def empty(trace: Trace, shape: Any, dtype: Any = float, order: str = "C") -> Tracer:
    return _full(trace, shape, 0, dtype, order)


@_constructor
def full(trace: Trace, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Tracer:
    dims = _shape(shape)
    (value,) = promote.handles_in(trace, [fill_value])
    target = np.dtype(dtype) if dtype else value.aval.dtype
    return trace.tracer(assigned(value, dims, target), Kind.ARRAY, layout(order, dims, target))


def _like(name: str, value: Any) -> Callable[..., Any]:
    def like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tracer:
        return full_like(a, value, dtype, order, subok, shape)

    like.__name__, like.__doc__ = name, f"np.{name} of a traced array."
    return like


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tracer:
    """np.full_like, in the array's order in memory by default."""
    h, value = promote.handles([a, fill_value])
    b = current_trace().emit
    target = np.dtype(dtype) if dtype else h.aval.dtype
    dims = h.aval.shape if shape is None else _shape(shape)
    atom = b.full(dims, fill_value, target) if isinstance(fill_value, (bool, int)) else assigned(value, dims, target)
    keeps_order = order == "A" or len(dims) == h.aval.ndim
    return current_trace().tracer(atom, Kind.ARRAY, layout(order, dims, target, h if keeps_order else None))


zeros_like, ones_like, empty_like = _like("zeros_like", 0), _like("ones_like", 1), _like("empty_like", 0)


@_constructor
def eye(trace: Trace, N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C") -> Tracer:
    rows, columns = _shape(N)[0], _shape(N if M is None else M)[0]
    b, target = trace.emit, np.dtype(dtype)
    row, column = (b.iota(shape=(rows, columns), dtype=dtypes.INT64, axis=axis) for axis in (0, 1))
    diagonal = b.eq(column, b.add(row, b.full_like(row, k.__index__())))
    return trace.tracer(b.convert(diagonal, dtype=target, checked=False), Kind.ARRAY, layout(order, (rows, columns), target))


@_constructor
def identity(trace: Trace, n: Any, dtype: Any = None) -> Tracer:
    return eye(n, dtype=dtype or float)


@_constructor
def tri(trace: Trace, N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Tracer:
    mask = triangle(_shape(N)[0], _shape(N if M is None else M)[0], k)
    return trace.tracer(trace.emit.convert(mask, dtype=np.dtype(dtype), checked=False))


_PLAIN_BOUNDS = "use known bounds, as in start + step * fnp.arange(n)"


@_constructor
def arange(trace: Trace, *args: Any, dtype: Any = None, **bounds_by_name: Any) -> Tracer:
    """start + i * step, as NumPy computes it; the bounds must be known."""
    bounds = [known(v, "np.arange: a bound", _PLAIN_BOUNDS) for v in args]
    named = {name: known(v, "np.arange: a bound", _PLAIN_BOUNDS) for name, v in bounds_by_name.items()}
    bounds = [v.item() if issubclass(type(v), (np.ndarray, np.generic)) else v for v in bounds]
    if any(isinstance(v, shapes.Dim) for v in (*bounds, *named.values())):
        return _symbolic_arange(*bounds, dtype=dtype, **named)
    sample = np.arange(*bounds, dtype=dtype, **named)
    if sample.size < 2:
        return trace.tracer(trace.builder.const(sample))
    b = trace.emit
    ramp = b.convert(b.iota(shape=sample.shape, dtype=dtypes.INT64, axis=0), dtype=sample.dtype, checked=False)
    if sample[0] == 0 and sample[1] == 1:
        return trace.tracer(ramp)
    step = sample.dtype.type(sample[1] - sample[0])
    return trace.tracer(b.add(b.full_like(ramp, sample[0]), b.mul(ramp, b.full_like(ramp, step))))


def _symbolic_arange(start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Tracer:
    """arange between whole numbers, Dims among them."""
    start, stop = (0, start) if stop is None else (start, stop)
    if any(isinstance(v, float) for v in (start, stop, step)) or isinstance(step, shapes.Dim):
        return arange(*(operator.index(v) if isinstance(v, shapes.Dim) else v for v in (start, stop, step)), dtype=dtype)
    ramp = promote.positions(shapes.count(start, stop, operator.index(step))) * step + start
    return ramp if dtype is None else ramp.astype(dtype)


# --- ranges -------------------------------------------------------------------------------------------------------------------------------


@_constructor
def linspace(
    trace: Trace, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """start + i * step, as NumPy computes it, the end point put in exactly; start and stop may be arrays."""
    if not promote.is_traced(start, stop) and not isinstance(num, shapes.Dim):
        plain = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)
        values = trace.tracer(trace.builder.const(plain[0] if retstep else plain))
        return (values, plain[1]) if retstep else values
    num = num if isinstance(num, shapes.Dim) else operator.index(num)
    if shapes.at_least(num, 0) is False:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    intervals = num - 1 if endpoint else num
    first, last = promote.handles_in(trace, [start, stop])
    natural = np.result_type(promote.representative(first), promote.representative(last), 1.0)
    first, last = asarray(first) * 1.0, asarray(last) * 1.0
    delta = last - first
    step = delta / shapes.greater(intervals, 1)
    ramp = promote.positions(num).astype(natural).reshape(num, *(1,) * delta.ndim)
    y = ramp * step + first
    if endpoint and shapes.at_least(num, 2) is not False:
        y[1:][-1:] = last
    target = natural if dtype is None else np.dtype(dtype)
    y = moveaxis(np.floor(y) if target.kind in "iu" else y, 0, axis)
    y = y if y.aval.dtype == target else y.astype(target)
    return (y, step if intervals > 0 else np.nan) if retstep else y


@_constructor
def logspace(
    trace: Trace, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tracer:
    """base ** linspace(start, stop)."""
    if not promote.is_traced(start, stop, base):
        return trace.tracer(trace.builder.const(np.logspace(start, stop, num, endpoint, base, dtype, axis)))
    start, stop, base = np.broadcast_arrays(*promote.handles_in(trace, [start, stop, base])) if np.ndim(base) else (start, stop, base)
    y = linspace(start, stop, num, endpoint, axis=axis)
    powers = np.power(expand_dims(base, axis) if np.ndim(base) else base, y)
    return powers if dtype is None else powers.astype(dtype)


@_constructor
def geomspace(trace: Trace, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tracer:
    """A geometric progression, the end points put in exactly."""
    if not promote.is_traced(start, stop):
        return trace.tracer(trace.builder.const(np.geomspace(start, stop, num, endpoint, dtype, axis)))
    first, last = promote.handles_in(trace, [start, stop])
    natural = np.result_type(first.aval.dtype, last.aval.dtype, float(num), np.zeros((), dtype))
    first, last = asarray(first).astype(natural), asarray(last).astype(natural)
    sign = np.sign(first)
    y = logspace(np.log10(first / sign), np.log10(last / sign), num, endpoint)
    if num > 0:
        y[0] = first / sign
    if num > 1 and endpoint:
        y[-1] = last / sign
    y = moveaxis(y * sign, 0, axis)
    return y.astype(dtype or natural)


# --- arrays of given values ---------------------------------------------------------------------------------------------------------------


# NumPy's enum of before numpy 2, which other packages still give.
_COPY_MODES = {np._CopyMode.ALWAYS: True, np._CopyMode.IF_NEEDED: None, np._CopyMode.NEVER: False}


@_constructor
def array(
    trace: Trace, object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", subok: bool = False, ndmin: int = 0
) -> Tracer:
    copy = _COPY_MODES.get(copy, copy)
    out = asarray(object, dtype, copy=copy, order=order)
    if ndmin > out.aval.ndim:
        out = out[(None,) * (ndmin - out.aval.ndim)]
    return copy_array(out, order) if copy and out.parent is not None else out


@_constructor
def asarray(trace: Trace, a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None) -> Tracer:
    """The array itself where it is one; the handle of a plain ndarray is read, and written back, like an argument."""
    (h,) = promote.handles_in(trace, [a if dtype is None else as_stored(a, np.dtype(dtype))])
    target = np.dtype(dtype) if dtype else h.aval.dtype
    if not copy and h.kind is Kind.ARRAY and not isinstance(a, (list, tuple)) and is_such(h, target, order):
        return h
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return trace.tracer(promote.convert(trace.emit, h, target), Kind.ARRAY, layout(order, h.aval.shape, target, h))


def is_such(h: Tracer, dtype: np.dtype, order: str | None) -> bool:
    """Whether an array has this dtype and order already."""
    if h.aval.dtype != dtype:
        return False
    if order in (None, "K", "A") or h.is_fresh_c_order and (order == "C" or h.aval.ndim < 2):
        return True
    return contiguity(h).flags.f_contiguous if order == "F" else contiguity(h).flags.c_contiguous


asanyarray = asarray


@_constructor
def asfortranarray(trace: Trace, a: Any, dtype: Any = None) -> Tracer:
    out = asarray(a, dtype, "F")
    return out if out.aval.ndim else out.reshape(1)


@_constructor
def ascontiguousarray(trace: Trace, a: Any, dtype: Any = None) -> Tracer:
    out = asarray(a, dtype, "C")
    return out if out.aval.ndim else out.reshape(1)


@_constructor
def copy(trace: Trace, a: Any, order: str = "K", subok: bool = False) -> Tracer:
    return copy_array(promote.handles_in(trace, [a])[0], order)
