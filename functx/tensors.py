"""Tensors of PyTorch at the door: of those on the CPU, arrays that share their memory go in, and tensors that share the results' come out.

For a tensor on a GPU stands a ghost: an array with its address, shape and strides, of which nothing may be read or written. Ghosts take
views and tell who shares memory, as arrays do. PyTorch is looked up only where a program has imported it already.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from functx import dtypes, trees
from functx.errors import UnsupportedError
from functx.ir import AbstractArray
from functx.source import user_source


def any_in(leaves: Sequence[Any]) -> bool:
    """Whether a tensor is among the leaves."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(v, torch.Tensor) for v in leaves)


def on_gpu(value: Any) -> bool:
    """Whether a value is a tensor in the memory of a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.is_cuda


def as_arrays(tree: Any) -> tuple[Any, dict[int, Any]]:
    """A container with arrays in place of its tensors, in the same memory; and the tensors by the identity of their arrays."""
    torch = sys.modules["torch"]
    arrays: dict[int, np.ndarray] = {}
    tensors: dict[int, Any] = {}

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in arrays:
            arrays[id(leaf)] = array = as_array(leaf)
            tensors[id(array)] = leaf
        return arrays[id(leaf)]

    return trees.map(convert, tree), tensors


def as_array(tensor: Any) -> np.ndarray:
    """The array in the memory of a tensor; UnsupportedError where there is none."""
    torch = sys.modules["torch"]
    if not tensor.is_cpu or tensor.layout != torch.strided:
        raise UnsupportedError(
            f"a torch.Tensor on {tensor.device} of layout {tensor.layout} was given to a jitted function",
            where=_line(),
            why="compiled code runs on dense arrays in the CPU's memory",
            fix="call .cpu() on it, or .to_dense()",
        )
    _refuse_gradients(tensor)
    _refuse_lazy(tensor)
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    try:
        return tensor.numpy()
    except TypeError:
        what = f"a torch.Tensor of {tensor.dtype} was given to a jitted function"
        raise UnsupportedError(what, where=_line(), why="NumPy has no such dtype", fix="convert it: .to(dtype), or .dequantize()") from None


def _refuse_gradients(tensor: Any) -> None:
    if tensor.requires_grad:
        raise UnsupportedError(
            "a torch.Tensor that requires a gradient was given to a jitted function",
            where=_line(),
            why="PyTorch would not see what functx computes with it, and would lose the gradient",
            fix="wrap the function with functx.interop.torch.wrap, or call .detach() on the tensor and differentiate with functx.grad",
        )


def _refuse_lazy(tensor: Any) -> None:
    if tensor.is_conj() or tensor.is_neg():
        raise UnsupportedError(
            "a torch.Tensor that stands for the conjugate or the negative of its memory was given to a jitted function",
            where=_line(),
            why="an array is what its memory holds",
            fix="call .resolve_conj().resolve_neg() on it, which makes a copy",
        )


class _Memory:
    """Memory as NumPy is told of it; it holds the tensor."""

    def __init__(self, tensor: Any, interface: dict[str, Any]):
        self.tensor, self.__array_interface__ = tensor, interface


def address(tensor: Any) -> int:
    """Where the first element of a tensor lies."""
    return tensor.data_ptr()


def as_ghost(tensor: Any) -> np.ndarray:
    """The ghost of a tensor on a GPU; UnsupportedError where there is none."""
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided:
        raise UnsupportedError(
            f"a torch.Tensor of layout {tensor.layout} was given to a jitted function",
            where=_line(),
            why="compiled code runs on dense arrays",
            fix="call .to_dense() on it",
        )
    _refuse_gradients(tensor)
    _refuse_lazy(tensor)
    dtype = dtype_of(tensor)
    raw = np.dtype(np.uint16) if dtype == ml_dtypes.bfloat16 else dtype
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), dtype)
    interface = {
        "version": 3,
        "shape": tuple(tensor.shape),
        "typestr": raw.str,
        "strides": tuple(s * raw.itemsize for s in tensor.stride()),
        "data": (address(tensor), False),
    }
    return np.asarray(_Memory(tensor, interface)).view(dtype)


def is_ghost(array: np.ndarray) -> bool:
    """Whether nothing of an array may be read, since it lies on a GPU."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _Memory)


def of_ghost(ghost: np.ndarray, owner: Any) -> Any:
    """The tensor that a view of an owner's ghost stands for. Negative strides are copied: PyTorch has none."""
    turned = [axis for axis, s in enumerate(ghost.strides) if s < 0 and ghost.shape[axis]]
    forward = ghost[tuple(slice(None, None, -1) if axis in turned else slice(None) for axis in range(ghost.ndim))]
    distance = forward.__array_interface__["data"][0] - address(owner) if forward.size else 0
    whole = owner if dtype_of(owner) == ghost.dtype else owner.view(_torch_dtype(ghost.dtype))
    steps, first = [s // ghost.itemsize for s in forward.strides], owner.storage_offset() * owner.element_size() + distance
    tensor = whole.as_strided(forward.shape, steps, first // ghost.itemsize)
    return tensor.flip(turned) if turned else tensor


def dtype_of(tensor: Any) -> np.dtype:
    """The dtype that an array in the memory of a tensor has; UnsupportedError where there is none that can be traced."""
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    except TypeError:
        dtype = None
    if dtype is None or not dtypes.is_supported(dtype):
        raise UnsupportedError(f"a torch.Tensor of dtype {tensor.dtype} cannot be traced", where=_line(), fix="convert it (x.float())")
    return dtype


def type_of(value: Any) -> AbstractArray | None:
    """The type of an array in the memory of a tensor; None of what is no tensor."""
    return AbstractArray(tuple(value.shape), dtype_of(value)) if any_in([value]) else None


# --- eager calls of functx.numpy ----------------------------------------------------------------------------------------------------------

_eager: list[Callable[..., Any]] = []  # what computes them; functx.transforms.eager enters itself here


def compute_eagerly(compute: Callable[..., Any]) -> None:
    """Have ``compute(f, args, kwargs)`` do what functions of functx.numpy are called for with tensors of a GPU."""
    _eager[:] = [compute]


def accepting_gpu(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f``, of tensors on a GPU too."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "torch" in sys.modules and any(map(_has_gpu, (*args, *kwargs.values()))):
            return _eager[0](f, args, kwargs)
        return f(*args, **kwargs)

    return call


def _has_gpu(value: Any) -> bool:
    return any(map(_has_gpu, value)) if isinstance(value, (list, tuple)) else on_gpu(value)


def _torch_dtype(dtype: np.dtype) -> Any:
    return getattr(sys.modules["torch"], dtype.name)


def _line() -> str | None:
    source = user_source()
    return source.describe() if source else None


def as_tensor(value: Any) -> Any:
    """The tensor in the memory of an array, or of a NumPy scalar's copy. Negative strides are copied: PyTorch has none."""
    torch, array = sys.modules["torch"], np.asarray(value)
    if any(s < 0 for s in array.strides):
        array = array.copy()
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_tensors(tree: Any, tensors: dict[int, Any]) -> Any:
    """A container of results with tensors in place of arrays and NumPy scalars; an argument that comes back is the very tensor."""

    def convert(leaf: Any) -> Any:
        if id(leaf) in tensors:
            return tensors[id(leaf)]
        return as_tensor(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

    return trees.map(convert, tree)
