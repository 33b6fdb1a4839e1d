"""Dtypes and kinds: short names, the supported set, and NEP 50's weak Python scalars.

A *kind* says what NumPy would hold at this place: a Python scalar (weak in promotion), one of NumPy's immutable scalars, or an array.
"""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np


class Kind(enum.Enum):
    """What a value is to its user: ``x += 1`` rebinds PYTHON and SCALAR values and writes into ARRAY ones."""

    PYTHON = "python"
    SCALAR = "scalar"
    ARRAY = "array"


_SHORT = {
    np.dtype(long): short
    for long, short in {
        "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
        "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", ml_dtypes.bfloat16: "bf16", "complex64": "c64",
        "complex128": "c128",
    }.items()
}  # fmt: skip
_DTYPES = {short: dtype for dtype, short in _SHORT.items()}

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL, INT32, INT64, UINT8 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# The dtype by which a weak Python scalar travels through a graph.
PYTHON_DTYPES = {bool: BOOL, int: INT64, float: FLOAT64, complex: np.dtype(np.complex128)}
_PYTHON_TYPES = {dtype: t for t, dtype in PYTHON_DTYPES.items()}


def from_name(short: str) -> np.dtype:
    """The dtype of a short name such as ``f32``."""
    return _DTYPES[short]


def name(dtype: np.dtype) -> str:
    """The short name of a dtype, as printed in graphs."""
    return _SHORT[dtype]


def is_supported(dtype: np.dtype) -> bool:
    """Whether arrays of this dtype can be traced (native byte order, numeric or bool)."""
    return dtype in _SHORT


def is_inexact(dtype: np.dtype) -> bool:
    """Floating or complex: the dtypes that have derivatives."""
    return dtype.kind in "fc" or dtype == _BFLOAT16


def is_complex(dtype: np.dtype) -> bool:
    """Whether values have an imaginary part."""
    return dtype.kind == "c"


def python_type(dtype: np.dtype) -> type:
    """The Python scalar type that travels as ``dtype``; KeyError for dtypes no Python scalar has."""
    return _PYTHON_TYPES[dtype]


def kind_of(value: Any) -> Kind:
    """The kind of a concrete value. np.float64 derives from float, yet it is a strong scalar."""
    if isinstance(value, np.generic):
        return Kind.SCALAR
    if isinstance(value, np.ndarray):
        return Kind.ARRAY
    return Kind.PYTHON


def dtype_of(value: Any) -> np.dtype:
    """The dtype of a concrete array, NumPy scalar or Python scalar."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.dtype
    return PYTHON_DTYPES[type(value)]
