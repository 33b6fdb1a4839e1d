"""CPU tensors of PyTorch at the door: arrays that share their memory go in, tensors that share the results' memory come out.

PyTorch is looked up only where a program has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from functx import trees
from functx.errors import UnsupportedError
from functx.source import user_source


def any_in(leaves: Sequence[Any]) -> bool:
    """Whether a tensor is among the leaves."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(v, torch.Tensor) for v in leaves)


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
    if tensor.requires_grad:
        raise UnsupportedError(
            "a torch.Tensor that requires a gradient was given to a jitted function",
            where=_line(),
            why="PyTorch would not see what functx computes with it, and would lose the gradient",
            fix="wrap the function with functx.interop.torch.wrap, or call .detach() on the tensor and differentiate with functx.grad",
        )
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


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
