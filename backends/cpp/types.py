"""C++ types and literals of functx's dtypes. Nothing else."""

from __future__ import annotations

import math

import numpy as np

from functx import dtypes

NATIVE = {
    "bool": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f32": "float", "f64": "double",
}  # fmt: skip
# Types without arithmetic here: values are moved as they are.
OPAQUE = {"f16": "Half", "bf16": "Half", "c64": "Complex64", "c128": "Complex128"}
OPAQUE_DECLARATIONS = {
    "Half": "struct Half { uint16_t bits; };",
    "Complex64": "struct Complex64 { uint32_t re, im; };",
    "Complex128": "struct Complex128 { uint64_t re, im; };",
}
_PARTS = {"Half": (np.uint16, 1), "Complex64": (np.uint32, 2), "Complex128": (np.uint64, 2)}


def is_native(dtype: np.dtype) -> bool:
    """Whether generated code computes in this dtype."""
    return dtypes.name(dtype) in NATIVE


def ctype(dtype: np.dtype) -> str:
    """The C++ type of an element."""
    short = dtypes.name(dtype)
    return NATIVE.get(short) or OPAQUE[short]


def stored(dtype: np.dtype) -> str:
    """The type of an element in memory: bytes for bool, because GCC does not vectorize loops over arrays of bool."""
    return "uint8_t" if dtype.kind == "b" else ctype(dtype)


def loaded(dtype: np.dtype, place: str) -> str:
    """The value at a place in memory."""
    return f"{place} != 0" if dtype.kind == "b" else place


def literal(value: np.generic) -> str:
    """An expression with exactly this value."""
    dtype = value.dtype
    if not is_native(dtype):
        name = ctype(dtype)
        word, count = _PARTS[name]
        parts = np.frombuffer(value.tobytes(), word, count)
        return f"{name}{{{', '.join(f'{int(p):#x}u' if word is not np.uint64 else f'{int(p):#x}ull' for p in parts)}}}"
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        return _float(value)
    number = int(value)
    if dtype.itemsize < 8:
        return f"{ctype(dtype)}({number})" if dtype.itemsize < 4 or number == -(2**31) else f"{number}{'u' if dtype.kind == 'u' else ''}"
    if dtype.kind == "u":
        return f"{number}ull"
    return f"int64_t({number})" if number > -(2**63) else "INT64_MIN"


def _float(value: np.generic) -> str:
    suffix = "f" if value.dtype.itemsize == 4 else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    text = np.format_float_positional(value, unique=True, trim="0") if 1e-4 <= abs(value) < 1e7 or value == 0 else str(value)
    return text + suffix
