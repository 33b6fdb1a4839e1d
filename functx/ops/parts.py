"""Complex numbers and their parts. All linear over the reals; the transposes are adjoints under Re sum(conj(a) * b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from functx import shapes
from functx.ir import AbstractArray, Atom
from functx.ops.families import batch_one, elementwise, linear, same_dtype
from functx.primitive import Emitter

_PART = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_WHOLE = {part: whole for whole, part in _PART.items()}


def part_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex number."""
    if dtype not in _PART:
        raise shapes.ShapeError(f"a complex operand is wanted, not {dtype}")
    return _PART[dtype]


def whole_dtype(dtype: np.dtype, *others: np.dtype) -> np.dtype:
    """The dtype of the complex number with such parts."""
    if same_dtype(dtype, *others) not in _WHOLE:
        raise shapes.ShapeError(f"complex numbers have parts of float32 or float64, not {dtype}")
    return _WHOLE[dtype]


def _complex(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    out = np.empty(np.shape(re), whole_dtype(np.asarray(re).dtype))
    out.real, out.imag = re, im
    return out


def _zero(b: Emitter, ct: Atom) -> Atom:
    return b.zeros_like(ct)


real = elementwise("real", np.real, result=part_dtype, linear=(0,), transpose={0: lambda b, ct, z: b.complex(ct, _zero(b, ct))})

imag = elementwise("imag", np.imag, result=part_dtype, linear=(0,), transpose={0: lambda b, ct, z: b.complex(_zero(b, ct), ct)})

conj = elementwise("conj", np.conjugate, linear=(0,), transpose={0: lambda b, ct, z: b.conj(ct)})

complex = elementwise(
    "complex",
    _complex,
    result=whole_dtype,
    linear=(0, 1),
    transpose={0: lambda b, ct, re, im: b.real(ct), 1: lambda b, ct, re, im: b.imag(ct)},
)

# --- a complex number as the pair of its parts in memory, along a last axis of size 2 -----------------------------------------------------


def _pairs(z: Any) -> Any:
    z = np.asarray(z)
    return z[..., None].view(part_dtype(z.dtype))


def _from_pairs_type(x: AbstractArray) -> AbstractArray:
    shapes.check(x.ndim > 0 and x.shape[-1] == 2, f"from_pairs: the last axis of {x} must hold pairs")
    return AbstractArray(x.shape[:-1], whole_dtype(x.dtype))


def _from_pairs(x: Any) -> Any:
    adjacent = x.strides[-1] == x.itemsize
    return (x if adjacent else np.ascontiguousarray(x)).view(whole_dtype(x.dtype))[..., 0]


pairs = linear(
    "pairs",
    _pairs,
    lambda z: AbstractArray((*z.shape, 2), part_dtype(z.dtype)),
    {0: lambda b, ct, z: b.from_pairs(ct)},
    batch_one(lambda b, z, size: b.pairs(z)),
    views=True,
)

from_pairs = linear(
    "from_pairs",
    _from_pairs,
    _from_pairs_type,
    {0: lambda b, ct, x: b.pairs(ct)},
    batch_one(lambda b, x, size: b.from_pairs(x)),
    views=True,
)
