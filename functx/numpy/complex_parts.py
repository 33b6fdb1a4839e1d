"""Real and imaginary parts. Those of a complex array are views of it, as in NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import dtypes
from functx.dtypes import Kind
from functx.ir import Literal
from functx.mutation import make_view
from functx.numpy import indexing, promote
from functx.ops import parts
from functx.trace import Tracer, contiguity, current_trace, dataless


def _part(h: Tracer, name: str) -> Tracer:
    """One part of a complex value; of a number, a number of its kind."""
    if h.kind is Kind.ARRAY:
        return make_view(h, getattr(parts, name), {}, lambda: getattr(h.shadow, name))
    trace = current_trace()
    return trace.tracer(getattr(trace.emit, name)(h.atom), h.kind)


def real(val: Any) -> Any:
    """np.real: of a complex array a view, which can be written; a real array itself."""
    (h,) = promote.handles([val])
    if dtypes.is_complex(h.aval.dtype):
        return _part(h, "real")
    return operator.pos(h) if h.kind is Kind.PYTHON else h


def imag(val: Any) -> Any:
    """np.imag: of a complex array a view, which can be written; of a real one read-only zeros."""
    (h,) = promote.handles([val])
    if dtypes.is_complex(h.aval.dtype):
        return _part(h, "imag")
    if h.kind is Kind.PYTHON:
        return operator.pos(dtypes.python_type(h.aval.dtype)())
    if h.kind is Kind.SCALAR:
        return current_trace().tracer(Literal(0, h.aval.dtype), Kind.SCALAR)
    read_only = (dataless(h.aval.shape[::-1], h.aval.dtype).T if contiguity(h).flags.fnc else dataless(h.aval.shape, h.aval.dtype)).view()
    read_only.flags.writeable = False
    return current_trace().tracer(current_trace().emit.zeros_like(h.atom), Kind.ARRAY, read_only)


def assign_real(self: Tracer, value: Any) -> None:
    """``x.real = value``."""
    _assign(real(self), value)


def assign_imag(self: Tracer, value: Any) -> None:
    """``x.imag = value``."""
    if not dtypes.is_complex(self.aval.dtype):
        np.empty(0, self.aval.dtype).imag = 0  # raises NumPy's own error
    _assign(imag(self), value)


def _assign(part: Tracer, value: Any) -> None:
    """Whatever it is, NumPy first makes an array of it, which is then cast: a complex number loses its imaginary part with a warning."""
    if not promote.is_traced(value):
        trace = current_trace()
        value = trace.tracer(trace.builder.const(np.asarray(value).astype(part.aval.dtype)))
    indexing.setitem(part, ..., value)


def conjugate(x: Any) -> Any:
    """ndarray.conjugate: a real array itself; of a Python number a Python number."""
    (h,) = promote.handles([x])
    if not dtypes.is_complex(h.aval.dtype):
        return operator.pos(h) if h.kind is Kind.PYTHON else h
    return np.conjugate(h) if h.kind is not Kind.PYTHON else current_trace().tracer(current_trace().emit.conj(h.atom), h.kind)


def angle(z: Any, deg: bool = False) -> Any:
    """np.angle: the argument of a complex number, in radians or degrees."""
    (h,) = promote.handles([z])
    re, im = (real(h), imag(h)) if dtypes.is_complex(h.aval.dtype) else (h, 0)
    out = np.arctan2(im, re)
    if deg:
        out *= 180 / np.pi
    return out


def isreal(x: Any) -> Any:
    """np.isreal, place by place."""
    return imag(x) == 0


def iscomplex(x: Any) -> Any:
    """np.iscomplex, place by place."""
    return np.not_equal(imag(x), 0)


def iscomplexobj(x: Any) -> bool:
    """np.iscomplexobj: by dtype."""
    return dtypes.is_complex(promote.handles([x])[0].aval.dtype)


def isrealobj(x: Any) -> bool:
    """np.isrealobj: by dtype."""
    return not iscomplexobj(x)
