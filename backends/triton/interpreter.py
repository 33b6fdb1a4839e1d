"""Kernels without a GPU: Triton's interpreter on CPU tensors, in the places where it would be wrong or too slow.

What it lacks are the functions of libdevice, which are NumPy's and SciPy's here; what it does element by element in Python are reductions
and scans by other operations than sums; and what it rounds otherwise than a GPU are bfloat16 and conversions between bits of one number.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from functx.ops.special import scipy_special

_lock = threading.RLock()  # the interpreter puts its functions into triton.language while it runs


def kernel(fn: Callable[..., Any]) -> Any:
    """A kernel that the interpreter runs: called as ``kernel(fn)[grid](*tensors, num_warps=...)``."""
    return _Kernel(fn)


def helper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that kernels call: plain Python, since all that it calls works on the interpreter's values."""
    return fn


class _Kernel:
    def __init__(self, fn: Callable[..., Any]):
        self._interpreted = interpreter.InterpretedFunction(fn)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def run(*args: Any, **options: Any) -> None:
            with _lock, _mended(), np.errstate(all="ignore"):
                self._interpreted.run(*args, grid=grid, warmup=False)

        return run


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    """The interpreter with reductions, scans, conversions and comparisons of our own."""
    builder, original = interpreter.interpreter_builder, interpreter._patch_reduce_scan
    interpreter._patch_reduce_scan = _patch_reduce_scan
    builder.cast_impl = lambda source, target: _cast(type(builder).cast_impl, builder, source, target)
    for name in _COMPARISONS:
        setattr(builder, name, _comparison(getattr(type(builder), name), builder))
    try:
        yield
    finally:
        interpreter._patch_reduce_scan = original
        for name in ("cast_impl", *_COMPARISONS):
            delattr(builder, name)


_COMPARISONS = [name for name in dir(interpreter.InterpreterBuilder) if name.startswith(("create_icmp", "create_fcmp"))]


def _comparison(original: Callable[..., Any], builder: Any) -> Callable[..., Any]:
    """A comparison whose result says that it is a bool, as later steps believe it."""

    def compare(left: Any, right: Any) -> Any:
        return interpreter.TensorHandle(original(builder, left, right).data, tl.int1)

    return compare


def _cast(original: Callable[..., Any], builder: Any, source: Any, target: Any) -> Any:
    """Conversions; to and from bfloat16 round to nearest, ties to even."""
    old, new = source.dtype.scalar, target.scalar
    if tl.bfloat16 not in (old, new) or old == new:
        return original(builder, source, target)
    data = source.data.view(ml_dtypes.bfloat16) if old == tl.bfloat16 else source.data
    data = data.astype(ml_dtypes.bfloat16).view(np.uint16) if new == tl.bfloat16 else data.astype(interpreter._get_np_dtype(new))
    return interpreter.TensorHandle(data, new)


# --- reductions and scans -----------------------------------------------------------------------------------------------------------------


def _patch_reduce_scan(scope: Any) -> None:
    for module in (tl, tl.core):
        scope.set_attr(module, "reduce", _reduce)
        scope.set_attr(module, "associative_scan", _scan)


def _tensor(data: np.ndarray, like: Any) -> Any:
    dtype = like.dtype.scalar
    handle = interpreter.TensorHandle(np.atleast_1d(data), dtype)
    return tl.tensor(handle, tl.block_type(dtype, list(data.shape)) if data.ndim else dtype)


def _combined(combine: Callable[..., Any], left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
    out = combine(*left, *right)
    return tuple(out) if isinstance(out, (tuple, list, tl.tuple)) else (out,)


def _reduce(input: Any, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False, **_: Any) -> Any:
    """By halves, as a GPU does it."""
    if not isinstance(input, (tuple, list, tl.tuple)):
        return _reduce((input,), axis, combine_fn, keep_dims)[0]
    arrays = [x.handle.data.ravel() if axis is None else np.moveaxis(x.handle.data, axis, 0) for x in input]
    while len(arrays[0]) > 1:
        half = len(arrays[0]) // 2
        left, right = ([_tensor(a[part], x) for a, x in zip(arrays, input, strict=True)] for part in (slice(half), slice(half, None)))
        shape = arrays[0][:half].shape
        arrays = [x.handle.data.reshape(shape) for x in _combined(combine_fn, left, right)]
    return tuple(_tensor(np.expand_dims(a[0], axis) if keep_dims else a[0], x) for a, x in zip(arrays, input, strict=True))


def _scan(input: Any, axis: int, combine_fn: Callable[..., Any], reverse: bool = False, **_: Any) -> Any:
    """By steps of 1, 2, 4, ... places."""
    if not isinstance(input, (tuple, list, tl.tuple)):
        return _scan((input,), axis, combine_fn, reverse)[0]
    arrays = [np.moveaxis(x.handle.data, axis, 0) for x in input]
    step = 1
    while step < len(arrays[0]):
        left = [_tensor(np.roll(a, step, 0), x) for a, x in zip(arrays, input, strict=True)]
        right = [_tensor(a, x) for a, x in zip(arrays, input, strict=True)]
        combined = [x.handle.data.reshape(arrays[0].shape) for x in _combined(combine_fn, left, right)]
        arrays = [np.concatenate([a[:step], c[step:]]) for a, c in zip(arrays, combined, strict=True)]
        step *= 2
    return tuple(_tensor(np.ascontiguousarray(np.moveaxis(a, 0, axis)), x) for a, x in zip(arrays, input, strict=True))


# --- libdevice ----------------------------------------------------------------------------------------------------------------------------


class Libdevice:
    """The functions of ``triton.language.extra.libdevice`` that generated code calls."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _FUNCTIONS.get(name) or getattr(np, _NUMPY_NAMES.get(name, name))
        integral = name in ("signbit", "ilogb")

        def call(*args: Any) -> Any:
            dtype = tl.int32 if integral else args[0].dtype.scalar
            out = np.asarray(function(*(x.handle.data for x in args))).astype(interpreter._get_np_dtype(dtype))
            is_block = any(x.type.is_block() for x in args)
            return tl.tensor(interpreter.TensorHandle(out, dtype), tl.block_type(dtype, list(out.shape)) if is_block else dtype)

        return call


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    exact = interpreter._interpreter.fma_fp64 if x.dtype == np.float64 else interpreter._interpreter.fma_fp32
    return exact(*map(np.ascontiguousarray, np.broadcast_arrays(x, y, z)))


def _special(name: str) -> Callable[..., Any]:
    return lambda x: getattr(scipy_special(), name)(x)


def _lgamma(x: np.ndarray) -> np.ndarray:
    return np.where(x == -np.inf, np.inf, scipy_special().gammaln(x))


_NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2",
    "pow": "power", "div_rn": "divide",
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fma": _fma,
    "erf": _special("erf"),
    "erfc": _special("erfc"),
    "erfinv": _special("erfinv"),
    "lgamma": _lgamma,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
}
libdevice = Libdevice()
