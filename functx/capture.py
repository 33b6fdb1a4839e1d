"""Arrays of the surrounding program that meet a tracer (law 6).

Such an array is read by reference at every call, so that later in-place writes to it are seen. While tracing it is copied when met; at
the end
:func:`by_reference` decides: an array whose bytes changed meanwhile (a scratch buffer), or whose memory nobody but the
trace holds (a temporary), becomes a constant with the contents it had when it was met.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx.ir import freeze


@dataclass(eq=False)
class CapturedArray:
    """One captured array: the array itself and the contents it had when it was met."""

    array: np.ndarray
    copy: np.ndarray
    handle: Any

    def unchanged(self) -> bool:
        """Whether the array still has the bytes that it had when it was met."""
        return same_bytes(self.array, self.copy)


class CaptureTable:
    """The arrays that one outermost trace has met, each with one handle per distinct content."""

    def __init__(self) -> None:
        self.entries: list[CapturedArray] = []
        self._by_memory: dict[Any, list[CapturedArray]] = {}

    def find(self, array: np.ndarray) -> CapturedArray | None:
        """The entry for this memory, if its contents are those that the entry stands for or a handle has written to it."""
        for entry in self._by_memory.get(memory_key(array), ()):
            if entry.handle.generation > 0 or entry.unchanged():
                return entry
        return None

    def add(self, array: np.ndarray, handle: Any) -> CapturedArray:
        """Remember ``array`` under a handle."""
        entry = CapturedArray(array, freeze(array), handle)
        self.entries.append(entry)
        self._by_memory.setdefault(memory_key(array), []).append(entry)
        return entry


def memory_key(array: np.ndarray) -> Any:
    """Equal keys: the very same elements, seen the same way."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Equality of contents bit for bit (a NaN equals itself, 0.0 differs from -0.0)."""
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of ``array``, or the last one before a foreign buffer."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def by_reference(entries: list[CapturedArray]) -> list[bool]:
    """Which captured arrays are read at call time: those unchanged since they were met and held by the program outside the trace."""
    ours = Counter(id(owner(e.array)) for e in entries)  # each entry holds its array, or a view that holds the owner
    return [_held_elsewhere(e.array, ours) and e.unchanged() for e in entries]


def _held_elsewhere(array: np.ndarray, ours: Counter[int]) -> bool:
    base = owner(array)
    if base.base is not None:
        return True  # memory of a foreign object (a memory map, a torch tensor): its holders cannot be counted
    if base is not array and sys.getrefcount(array) > 1 + _LOCAL:
        return True
    return sys.getrefcount(base) > ours[id(base)] + _LOCAL + (base is array)


def _local_references() -> int:
    fresh = np.zeros(1)
    return sys.getrefcount(fresh)


# What getrefcount says of an array that only one local name holds; the parameter `array` above counts as one more.
_LOCAL = _local_references()


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays may share memory, by byte bounds."""
    return np.may_share_memory(a, b)
