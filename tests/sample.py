"""The form of a sample row, and the data that rows use."""

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  (np.dtype("bfloat16"))
import numpy as np

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
# How far results may be apart that were rounded in another order.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-5}


def data(shape, seed=0, low=0.3, high=1.9) -> np.ndarray:
    """Distinct float64 numbers in a shuffled order, none of them near another or near an integer or zero (with the default bounds)."""
    size = int(np.prod(shape, dtype=int))
    return np.random.default_rng(seed).permutation(np.linspace(low, high, size + 2)[1:-1]).reshape(shape) + 0.013 * (seed % 7)


def cast(array: np.ndarray, dtype: str) -> Any:
    """The argument in another dtype: integers -7..8 and zeros among them, truth values, complex numbers. Index arrays stay as they are."""
    if array.dtype.kind != "f":
        return array
    if dtype == "bool":
        return np.asarray(array > 1)
    if dtype in INTEGERS:
        return np.abs(np.rint(array * 4)).astype(dtype) if dtype.startswith("u") else np.rint(array * 4).astype(dtype)
    if dtype in COMPLEX:
        return (array + 0.7j * np.sin(5 * array)).astype(dtype)
    return array.astype(np.dtype(dtype))


def tolerance(dtype: str, *results: Any) -> float:
    """The relative tolerance for results computed from arguments of a dtype."""
    return max((TOLERANCES.get(str(np.asarray(r).dtype), 0.0) for r in results), default=0.0) or TOLERANCES.get(dtype, 0.0)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One row.

    Attributes:
      name: as in NumPy: ``np.sum``, ``ndarray.sum``, ``nn.relu``; several rows may share it.
      f: ``f(np, *args)``.
      args: float64 arrays (cast to each dtype), and index arrays or other dtypes (left alone).
      family: groups rows for the compiled checks.
      smooth: whether derivatives are compared with differences: f is differentiable at the arguments.
      own_module: only functx.numpy can trace it (constructors).
      rtol: of float64 results between backends; shorter dtypes have TOLERANCES.
    """

    name: str
    f: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    family: str
    smooth: bool = True
    own_module: bool = False
    rtol: float = 1e-13

    def arguments(self, dtype: str = "") -> tuple[Any, ...]:
        """The arguments in a dtype; by default float64, or int64 where NumPy has no floats."""
        integral = ("invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm", "bitwise_count")
        default = "int64" if self.name[3:] in integral else "float64"
        return tuple(cast(a, dtype or default) for a in self.args)
