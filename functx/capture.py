"""Arrays of the surrounding program that meet a tracer (law 6).

Such an array is read by reference at every call, so that later in-place writes to it are seen. While tracing it is copied when met; at the
end :func:`by_reference` decides: an array whose bytes changed meanwhile (a scratch buffer), or whose memory nobody but the trace holds (a
temporary), becomes a constant with the contents it had when it was met. A cache entry holds the others weakly (:class:`Reference`): when
the program has let go of an array, having put another in its place, the entry no longer holds.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
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
            if entry.handle.root.generation > 0 or entry.unchanged():
                return entry
        return None

    def add(self, array: np.ndarray, handle: Any) -> CapturedArray:
        """Remember ``array`` under a handle."""
        entry = CapturedArray(array, freeze(array), handle)
        self.entries.append(entry)
        self._by_memory.setdefault(memory_key(array), []).append(entry)
        return entry

    def clear(self) -> None:
        """Let go of all arrays and copies."""
        self.entries, self._by_memory = [], {}


class Reference:
    """A captured array as a cache entry remembers it: weakly, a view by its owner, offset and strides (see :func:`weaken`)."""

    __slots__ = ("_array", "_layout", "_owner")

    def __init__(self, array: np.ndarray):
        self._layout = _layout_in_owner(array)
        self.hold(array, strongly=True)

    def hold(self, array: np.ndarray, *, strongly: bool) -> None:
        """Refer to the array so that it stays alive, or only as long as the program keeps it."""
        base = owner(array)
        foreign = base.base is not None  # its memory may move or go away with its owner in ways that cannot be seen
        self._array = (lambda: array) if strongly or foreign else weakref.ref(array)
        self._owner = self._array if strongly or foreign else weakref.ref(base)

    def native(self) -> Any:
        """The array, or the weak reference to it, as the runtime follows it."""
        return self._array if isinstance(self._array, weakref.ref) else self._array()

    def __call__(self) -> np.ndarray | None:
        """The array; None when nobody in the program holds its memory any more."""
        array = self._array()
        if array is not None:
            return array
        base = self._owner()
        return None if base is None else _view_of_owner(base, self._layout)


def _layout_in_owner(array: np.ndarray) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype]:
    offset = array.__array_interface__["data"][0] - owner(array).__array_interface__["data"][0]
    return offset, array.shape, array.strides, array.dtype


def _view_of_owner(base: np.ndarray, layout: tuple[int, tuple[int, ...], tuple[int, ...], np.dtype]) -> np.ndarray:
    offset, shape, strides, dtype = layout
    view = np.ndarray(shape, dtype, base.ravel(order="K").view(np.uint8), offset, strides)
    view.flags.writeable = base.flags.writeable
    return view


def copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies that share memory with each other as the arrays do."""
    owners: dict[int, np.ndarray] = {}
    out: dict[int, np.ndarray] = {}
    for array in arrays:
        base = owner(array)
        if base.base is not None:  # foreign memory cannot be copied as a whole
            out.setdefault(id(array), array.copy())
            continue
        if id(base) not in owners:
            owners[id(base)] = base.copy(order="K")
        if id(array) not in out:
            out[id(array)] = owners[id(base)] if array is base else _view_of_owner(owners[id(base)], _layout_in_owner(array))
    return [out[id(array)] for array in arrays]


def weaken(references: Sequence[Reference]) -> None:
    """Leave the arrays to the program, once the trace has let go of them. Those that nobody else turns out to hold stay: they are
    constants.
    """
    values = [reference() for reference in references]
    for reference, value in zip(references, values, strict=True):
        reference.hold(value, strongly=False)
    values += [owner(v) for v in values]
    value = None
    lonely = held_by_nobody_else(values)
    for reference, value in zip(references, values, strict=False):
        if id(owner(value)) in lonely:
            reference.hold(value, strongly=True)


def memory_key(array: np.ndarray) -> Any:
    """Equal keys: the very same elements, seen the same way."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Equality of contents bit for bit (a NaN equals itself, 0.0 differs from -0.0)."""
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    a, b = (v.reshape(-1).view(word) for v in (a, b))
    return all(np.array_equal(a[i : i + _BLOCK], b[i : i + _BLOCK]) for i in range(0, a.size, _BLOCK))


_BLOCK = 1 << 15  # words compared at a time: what NumPy allocates for a comparison stays in the cache


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of ``array``, or the last one before a foreign buffer."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def by_reference(entries: Sequence[CapturedArray], returned: Sequence[Any]) -> list[bool]:
    """Which captured arrays are read at call time: those unchanged since they were met and held by the program outside the trace.

    ``returned``: what the function is about to return. That it holds an array does not make the array one of the program's.
    """
    ours = Counter({id(e.array): 0 for e in entries})
    views = {id(v): v for v in (*(e.array for e in entries), *returned) if issubclass(type(v), np.ndarray) and v.base is not None}
    ours.update(id(owner(v)) for v in views.values())
    ours.update(id(e.array) for e in entries for _ in range(_HOLDERS))
    ours.update(id(v) for v in returned if issubclass(type(v), np.ndarray))
    return [_held_elsewhere(e.array, ours) and e.unchanged() for e in entries]


def _held_elsewhere(array: np.ndarray, ours: Counter[int]) -> bool:
    base = owner(array)
    if base.base is not None:
        return True  # memory of a foreign object (a memory map, a torch tensor): its holders cannot be counted
    if base is not array and sys.getrefcount(array) > ours[id(array)] + _LOCAL:
        return True
    return sys.getrefcount(base) > ours[id(base)] + _LOCAL + (base is array)


def held_by_nobody_else(values: Sequence[Any]) -> set[int]:
    """The ids of the arrays in ``values`` that only this sequence holds, by themselves or through views of them."""
    ours = Counter(map(id, values))
    ours.update({id(v): id(v.base) for v in values if issubclass(type(v), np.ndarray) and v.base is not None}.values())
    return {id(v) for v in values if issubclass(type(v), np.ndarray) and sys.getrefcount(v) <= ours[id(v)] + _LOCAL}


def _local_references() -> int:
    fresh = np.zeros(1)
    return sys.getrefcount(fresh)


# A captured array is held by its entry here and by the input slot of the trace.
_HOLDERS = 2

# What getrefcount says of an array that only one local name holds; the parameter `array` above counts as one more.
_LOCAL = _local_references()


def overlaps(arrays: Sequence[np.ndarray], written: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Pairs of positions of arrays that share elements, one of each pair being written."""
    bounds = sorted((*byte_bounds(a), i) for i, a in enumerate(arrays) if a.size)
    reaching: list[tuple[int, int, int]] = []  # arrays that end behind the start of the present one
    for low, high, i in bounds:
        reaching = [other for other in reaching if other[1] > low]
        for _, _, j in reaching:
            if (written[i] or written[j]) and _share_elements(arrays[i], arrays[j]):
                yield min(i, j), max(i, j)
        reaching.append((low, high, i))


def repeats(array: np.ndarray) -> bool:
    """Whether several elements of an array are one place in memory (as broadcasting makes them)."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    if not array.size or array.flags.forc:
        return False
    extent = array.itemsize
    for stride, n in axes:
        if stride < extent:
            break
        extent += (n - 1) * stride
    else:
        return False
    places = sum((np.arange(n) * stride).reshape((-1,) + (1,) * k) for k, (stride, n) in enumerate(axes))
    return bool((np.diff(np.sort(places, axis=None)) < array.itemsize).any())


def byte_bounds(array: np.ndarray) -> tuple[int, int]:
    """The address of the first byte of an array's elements, and of the first one behind them."""
    if array.flags.c_contiguous:
        start = array.__array_interface__["data"][0]
        return start, start + array.nbytes
    return np.lib.array_utils.byte_bounds(array)


def _share_elements(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True  # intricate strides: rather refuse than miss a write
