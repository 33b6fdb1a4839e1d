"""Constructors. Inside a trace they return handles, which tracers can be written into; outside they are NumPy's own."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import dtypes, shapes
from functx.dtypes import Kind
from functx.errors import UnsupportedError
from functx.numpy import promote
from functx.numpy.manipulation import copy as copy_array
from functx.trace import Trace, Tracer, current_trace, where


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
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    out = tuple(d if isinstance(d, shapes.Dim) else operator.index(d) for d in dims)
    if any(isinstance(d, int) and d < 0 for d in out):
        raise ValueError("negative dimensions are not allowed")
    return out


def _full(trace: Trace, shape: Any, value: Any, dtype: Any) -> Tracer:
    return trace.tracer(trace.emit.full(_shape(shape), value, np.dtype(dtype)))


def _c_order(order: str) -> None:
    if order not in "CKA":
        raise UnsupportedError(f"order={order!r} is not traced", where=where(), fix="use the default order and transpose")


@_constructor
def zeros(trace: Trace, shape: Any, dtype: Any = float, order: str = "C") -> Tracer:
    _c_order(order)
    return _full(trace, shape, 0, dtype)


@_constructor
def ones(trace: Trace, shape: Any, dtype: Any = None, order: str = "C") -> Tracer:
    _c_order(order)
    return _full(trace, shape, 1, dtype or float)


@_constructor
def empty(trace: Trace, shape: Any, dtype: Any = float, order: str = "C") -> Tracer:
    _c_order(order)
    return _full(trace, shape, 0, dtype)


@_constructor
def full(trace: Trace, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Tracer:
    _c_order(order)
    shape = _shape(shape)
    (value,) = promote.handles_in(trace, [fill_value])
    b = trace.emit
    return trace.tracer(promote.broadcast(b, promote.convert(b, value, np.dtype(dtype) if dtype else value.aval.dtype), shape))


def _like(name: str, value: Any) -> Callable[..., Any]:
    def like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tracer:
        (h,) = promote.handles([a])
        b = current_trace().emit
        target = np.dtype(dtype) if dtype else h.aval.dtype
        dims = h.aval.shape if shape is None else _shape(shape)
        keeps_order = order in "KA" and shape is None
        return current_trace().tracer(b.full(dims, value, target), Kind.ARRAY, promote.k_order([h], dims, target) if keeps_order else None)

    like.__doc__ = f"np.{name} of a traced array."
    return like


zeros_like, ones_like, empty_like = _like("zeros_like", 0), _like("ones_like", 1), _like("empty_like", 0)


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tracer:
    """np.full_like."""
    h, value = promote.handles([a, fill_value])
    b = current_trace().emit
    atom = promote.convert(b, value, np.dtype(dtype) if dtype else h.aval.dtype)
    return current_trace().tracer(promote.broadcast(b, atom, h.aval.shape if shape is None else _shape(shape)))


@_constructor
def eye(trace: Trace, N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C") -> Tracer:
    _c_order(order)
    rows, columns = _shape(N)[0], _shape(N if M is None else M)[0]
    b = trace.emit
    row, column = (b.iota(shape=(rows, columns), dtype=dtypes.INT64, axis=axis) for axis in (0, 1))
    diagonal = b.eq(column, b.add(row, b.full_like(row, k.__index__())))
    return trace.tracer(b.convert(diagonal, dtype=np.dtype(dtype), checked=False))


@_constructor
def arange(trace: Trace, *args: Any, dtype: Any = None) -> Tracer:
    """start + i * step, as NumPy computes it; the bounds must be known."""
    bounds = [v.value().item() if isinstance(v, Tracer) else v for v in args]
    if any(isinstance(v, shapes.Dim) for v in bounds):
        return _symbolic_arange(*bounds, dtype=dtype)
    sample = np.arange(*bounds, dtype=dtype)
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
        raise next(v for v in (start, stop, step) if isinstance(v, shapes.Dim)).number_needed()
    ramp = promote.positions(shapes.count(start, stop, operator.index(step))) * step + start
    return ramp if dtype is None else ramp.astype(dtype)


@_constructor
def linspace(trace: Trace, *args: Any, **kwargs: Any) -> Tracer:
    if any(isinstance(v, Tracer) for v in (*args, *kwargs.values())):
        raise UnsupportedError("linspace between traced values", where=where(), fix="write start + (stop - start) * fnp.linspace(0, 1, n)")
    return trace.tracer(trace.builder.const(np.linspace(*args, **kwargs)))


@_constructor
def array(trace: Trace, object: Any, dtype: Any = None, *, copy: bool = True, ndmin: int = 0) -> Tracer:
    out = asarray(object, dtype)
    if ndmin > out.aval.ndim:
        out = out[(None,) * (ndmin - out.aval.ndim)]
    return copy_array(out)


@_constructor
def asarray(trace: Trace, a: Any, dtype: Any = None, order: str | None = None) -> Tracer:
    """The array itself where it is one; the handle of a plain ndarray is read, and written back, like an argument."""
    (h,) = promote.handles_in(trace, [a])
    target = np.dtype(dtype) if dtype else h.aval.dtype
    if h.kind is Kind.ARRAY and h.aval.dtype == target:
        return h
    return trace.tracer(promote.convert(trace.emit, h, target))


@_constructor
def ascontiguousarray(trace: Trace, a: Any, dtype: Any = None) -> Tracer:
    out = asarray(a, dtype)
    if out.aval.ndim == 0:
        return out.reshape(1)
    return out if out.shadow.flags.c_contiguous else copy_array(out, order="C")


@_constructor
def copy(trace: Trace, a: Any, order: str = "K", subok: bool = False) -> Tracer:
    return copy_array(promote.handles_in(trace, [a])[0], order)
