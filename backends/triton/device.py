"""What generated programs call: kernels on the current GPU, views of buffers, and PyTorch's functions for whole equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

helper = triton.jit

# Results are those of the operations that the program has: no product and sum in one rounding, no denormal number taken for zero.
OPTIONS = {"enable_fp_fusion": False, "enable_reflect_ftz": False}


class kernel:
    """A kernel that is launched on the current stream of the current device, as ``kernel(fn)[(programs,)](*tensors, num_warps=4)``."""

    def __init__(self, fn: Callable[..., Any]):
        self.jitted = triton.jit(fn)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        run = self.jitted.run
        return lambda *args, num_warps: run(*args, grid=grid, warmup=False, num_warps=num_warps, **OPTIONS)


def part(memory: torch.Tensor, start: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """So many elements of a block of bytes, from a byte on."""
    return memory[start : start + count * dtype.itemsize].view(dtype)


def fresh(memory: torch.Tensor, count: int, dtype: torch.dtype) -> torch.Tensor:
    """New memory on the same device, for so many elements."""
    return torch.empty(count, dtype=dtype, device=memory.device)


def grown(stack: torch.Tensor, count: int) -> torch.Tensor:
    """A stack with room for so many elements: itself, or a copy with twice the room."""
    if count <= len(stack):
        return stack
    out = torch.empty(max(count, 2 * len(stack)), dtype=stack.dtype, device=stack.device)
    out[: len(stack)] = stack
    return out


def piece(buffer: torch.Tensor, number: Any, count: int) -> torch.Tensor:
    """The elements of one step among those of all, side by side."""
    return buffer.view(-1)[number * count : (number + 1) * count]


def matrix(buffer: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> torch.Tensor:
    """A matrix, or a batch of them, inside a buffer."""
    return buffer.as_strided(sizes, strides, buffer.storage_offset() + offset)


def number(memory: torch.Tensor, value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A number in the memory of the device."""
    return torch.full((), value, dtype=dtype, device=memory.device)


def copy(out: torch.Tensor, source: torch.Tensor) -> None:
    """All elements of one buffer into another."""
    out.view(-1).copy_(source.view(-1))


def apply(function: Callable[..., Any], inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """A function of whole tensors, into buffers."""
    for out, value in zip(outputs, function(*inputs), strict=True):
        out.view(-1).copy_(value.reshape(-1))


def shaped(buffer: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A buffer in its shape."""
    return buffer.view(tuple(shape))


class Stopped(Exception):
    """A program goes no further, because a check has failed."""


def stop(failures: torch.Tensor) -> None:
    """Go no further where a check has failed. What failed is told by the table."""
    if failed(failures):
        raise Stopped


def failed(failures: torch.Tensor) -> bool:
    """Whether a check has failed so far; this waits for the device."""
    return bool(failures[0].item())
