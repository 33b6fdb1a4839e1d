"""C++ types and literals of functx's dtypes. Nothing else.

Floats of 16 bits are stored as they are, computed in float, and rounded by every assignment.
"""

from __future__ import annotations

import math

import numpy as np

from functx import dtypes

_CTYPES = {
    "bool": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "Half", "bf16": "BFloat16", "f32": "float",
    "f64": "double", "c64": "Complex64", "c128": "Complex128",
}  # fmt: skip


def kind(dtype: np.dtype) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``."""
    return dtype.kind if dtype.kind != "V" else "f"


def is_half(dtype: np.dtype) -> bool:
    """Whether a dtype is a float of 16 bits."""
    return kind(dtype) == "f" and dtype.itemsize == 2


def ctype(dtype: np.dtype) -> str:
    """The C++ type of an element."""
    return _CTYPES[dtypes.name(dtype)]


def stored(dtype: np.dtype) -> str:
    """The type of an element in memory: bytes for bool, because GCC does not vectorize loops over arrays of bool."""
    return "uint8_t" if dtype.kind == "b" else ctype(dtype)


def buffer_type(dtype: np.dtype) -> str:
    """The type of an element in a small buffer for the block routines, which know no floats of 16 bits."""
    return "float" if is_half(dtype) else stored(dtype)


def loaded(dtype: np.dtype, place: str) -> str:
    """The value at a place in memory."""
    return f"{place} != 0" if dtype.kind == "b" else place


def widened(dtype: np.dtype, text: str) -> str:
    """The value as arithmetic takes it."""
    return f"float({text})" if is_half(dtype) else text


def suffix(dtype: np.dtype) -> str:
    """The ending of the libm functions that compute in a dtype of floats."""
    return "f" if dtype.itemsize <= 4 else ""


def literal(value: np.generic) -> str:
    """An expression with exactly this value."""
    dtype = value.dtype
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "c":
        return f"{ctype(dtype)}({_float(value.real)}, {_float(value.imag)})"
    if is_half(dtype):
        return f"{ctype(dtype)}({_float(np.float32(value))})"
    if dtype.kind == "f":
        return _float(value)
    number = int(value)
    if dtype.itemsize < 8:
        return f"{ctype(dtype)}({number})" if dtype.itemsize < 4 or number == -(2**31) else f"{number}{'u' if dtype.kind == 'u' else ''}"
    if dtype.kind == "u":
        return f"{number}ull"
    return f"int64_t({number})" if number > -(2**63) else "INT64_MIN"


def _float(value: np.generic) -> str:
    ending = suffix(value.dtype)
    if math.isnan(value):
        return f'__builtin_nan{ending}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{ending}()"
    text = np.format_float_positional(value, unique=True, trim="0") if 1e-4 <= abs(value) < 1e7 or value == 0 else str(value)
    return text + ending
