"""Reductions and running results as Triton: what they start from, and the helpers that combine two values. Knows no kernels."""

from __future__ import annotations

import numpy as np

from functx import dtypes
from functx.backends.loops.nodes import Accumulate, Running, Store
from functx.backends.triton.types import is_half, kind, literal, tl_type

_HELPERS = {
    "sum": "add_of",
    "prod": "mul_of",
    "max": "max_of",
    "min": "min_of",
    "argmax": "first_max",
    "argmin": "first_min",
    "logaddexp": "logaddexp_of",
    "recurrence": "recurrence_of",
}
NOWHERE = "9223372036854775807"  # the place of what is not there


def carrier(dtype: np.dtype) -> np.dtype:
    """The dtype in which values are combined: integers for bool, float32 for floats of 16 bits."""
    return dtypes.INT32 if dtype.kind == "b" else dtypes.FLOAT32 if is_half(dtype) else dtype


def lifted(e: Accumulate | Running | Store, text: str) -> str:
    """A value in its carrier."""
    dtype = e.value.dtype
    return text if carrier(dtype) == dtype else f"{text}.to({tl_type(carrier(dtype))})"


def operation(e: Accumulate | Running) -> str:
    """The helper that combines two values."""
    if e.value.dtype.kind == "b" and e.op in ("sum", "prod"):
        return "max_of" if e.op == "sum" else "min_of"
    return _HELPERS[e.op]


def identity(e: Accumulate | Running) -> str:
    """What changes nothing when it is combined."""
    dtype, op = carrier(e.value.dtype), e.op
    if op in ("sum", "recurrence"):
        return literal(dtype.type(0))
    if op == "prod":
        return literal(dtype.type(1))
    least = op in ("max", "argmax", "logaddexp")
    if kind(dtype) == "f":
        return literal(dtype.type(-np.inf if least else np.inf))
    info = np.iinfo(dtype)
    return literal(dtype.type(info.min if least else info.max))


def result(e: Accumulate | Running, text: str) -> str:
    """What comes out, in the dtype of the buffer."""
    if e.op in ("argmax", "argmin"):
        return text
    out = e.var.aval.dtype
    if carrier(e.value.dtype) == out:
        return text
    return f"({text} != 0)" if out.kind == "b" else f"{text}.to({tl_type(out)})"
