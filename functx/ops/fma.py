"""The fused multiply-add: x * y + z, rounded once. Processors have it; NumPy has not, so the reference computes it from rounded operations.

Boldo, Melquiond: Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd, IEEE Transactions on Computers 57
(2008). What under- or overflows on the way may be rounded twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.dtypes import FLOAT32, FLOAT64
from functx.errors import UnsupportedError
from functx.ops.families import elementwise, same_dtype

_SPLITTER = 2.0**27 + 1


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded sum and its error."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _high_part(x: Any) -> Any:
    scaled = x * _SPLITTER
    return scaled - (scaled - x)


def _two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded product and its error (Dekker)."""
    product, a, b = x * y, _high_part(x), _high_part(y)
    c, d = x - a, y - b
    return product, c * d - (((product - a * b) - c * b) - a * d)


def _odd_sum(x: Any, y: Any) -> Any:
    """The sum, and where it is not exact, that one of the two numbers around it whose last bit is 1: rounding it again does no harm."""
    total, error = _two_sum(x, y)
    moved = np.nextafter(total, np.copysign(np.inf, error))
    return np.where((error != 0) & (np.asarray(total).view(np.int64) & 1 == 0), moved, total)


def _fma(x: Any, y: Any, z: Any) -> Any:
    with np.errstate(all="ignore"):
        plain = x * y + z
        if plain.dtype == FLOAT32:  # the product is exact in float64
            x, y, z = (np.asarray(v, FLOAT64) for v in (x, y, z))
            out = _odd_sum(x * y, z).astype(FLOAT32)
        else:
            (product, rest), wide = _two_product(x, y), np.asarray(z)
            low, error = _two_sum(wide, rest)
            total, other = _two_sum(product, low)
            out = total + _odd_sum(other, error)
        return np.where(np.isfinite(out), out, plain)


def _wide(*dtypes: np.dtype) -> np.dtype:
    dtype = same_dtype(*dtypes)
    if dtype not in (FLOAT32, FLOAT64):
        raise UnsupportedError(f"fma: float32 or float64 is wanted, not {dtype}")
    return dtype


fma = elementwise("fma", _fma, (lambda b, out, x, y, z: y, lambda b, out, x, y, z: x, 1), result=_wide, cost=2)
