"""Triton's and PyTorch's names of functx's dtypes, and literals. Nothing else.

Floats of 16 bits are stored as they are, computed in float32, and rounded after every operation.
"""

from __future__ import annotations

import math

import numpy as np

from functx import dtypes

_TRITON = {
    "bool": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip
_POINTERS = {"bool": "i1", "f16": "fp16", "f32": "fp32", "f64": "fp64"}  # the others as functx calls them


def kind(dtype: np.dtype) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``."""
    return dtype.kind if dtype.kind != "V" else "f"


def is_half(dtype: np.dtype) -> bool:
    """Whether a dtype is a float of 16 bits."""
    return kind(dtype) == "f" and dtype.itemsize == 2


def part_type(dtype: np.dtype) -> np.dtype:
    """Of complex numbers the type of their parts, which lie side by side; else the dtype itself."""
    return dtype if dtype.kind != "c" else np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def in_kernels(dtype: np.dtype) -> bool:
    """Whether kernels compute with the dtype. Complex numbers are left to PyTorch."""
    return dtypes.is_supported(dtype) and dtypes.name(dtype) in _TRITON


def tl_type(dtype: np.dtype) -> str:
    """The type of a value in a kernel."""
    return f"tl.{_TRITON[dtypes.name(dtype)]}"


def pointer(dtype: np.dtype) -> str:
    """The type of a pointer, in the signature of a kernel."""
    short = dtypes.name(dtype)
    return f"*{_POINTERS.get(short, short)}"


def torch_name(dtype: np.dtype) -> str:
    """The name of a dtype in ``torch``."""
    short = dtypes.name(dtype)
    return {"bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}.get(short) or dtype.name


def widened(dtype: np.dtype, text: str) -> str:
    """A value as arithmetic takes it."""
    return f"{text}.to(tl.float32)" if is_half(dtype) else text


def number(value: np.generic) -> str:
    """A Python expression with this value."""
    if value.dtype.kind == "b":
        return str(bool(value))
    if value.dtype.kind in "iu":
        return str(int(value))
    if value.dtype.kind == "c":
        return f"complex({number(value.real)}, {number(value.imag)})"
    plain = float(value)
    return repr(plain) if math.isfinite(plain) else f'float("{plain}")'


def literal(value: np.generic) -> str:
    """An expression with exactly this value and its dtype."""
    if is_half(value.dtype):  # an exact float32 first: no rounding is left to the compiler
        return f"tl.full((), {number(np.float32(value))}, tl.float32).to({tl_type(value.dtype)})"
    return f"tl.full((), {number(value)}, {tl_type(value.dtype)})"
