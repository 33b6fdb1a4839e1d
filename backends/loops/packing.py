"""Packing of intervals into one arena: a pure algorithm that knows nothing of graphs or buffers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """A block of ``size`` bytes that is needed from time ``start`` to time ``stop``, both included."""

    key: Hashable
    size: int
    start: int
    stop: int


def pack(intervals: Sequence[Interval]) -> tuple[dict[Hashable, int], int]:
    """Offsets such that blocks needed at the same time do not overlap, and the size of the arena.

    Largest first, each at the lowest offset that is free for its whole life (greedy by size; within a few percent of optimal in practice).
    """
    taken = _Timeline(max((i.stop for i in intervals), default=0) + 1)
    offsets: dict[Hashable, int] = {}
    total = 0
    for interval in sorted(intervals, key=lambda i: (-i.size, i.start)):
        size = -(-interval.size // ALIGNMENT) * ALIGNMENT
        at = offsets[interval.key] = taken.first_fit(interval.start, interval.stop, size)
        taken.add(interval.start, interval.stop, at, at + size)
        total = max(total, at + size)
    return offsets, total


@dataclass
class _Ranges:
    """A set of bytes as disjoint ranges in order; neighbours are joined, so that a densely packed arena is one range."""

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)

    def add(self, lo: int, hi: int) -> None:
        i, j = bisect_left(self.stops, lo), bisect_right(self.starts, hi)
        if i < j:
            lo, hi = min(lo, self.starts[i]), max(hi, self.stops[j - 1])
        self.starts[i:j], self.stops[i:j] = [lo], [hi]

    def past(self, at: int, size: int) -> int:
        """The lowest offset from ``at`` on with ``size`` free bytes."""
        i = bisect_right(self.stops, at)
        while i < len(self.stops) and self.starts[i] < at + size:
            at, i = self.stops[i], i + 1
        return at


class _Timeline:
    """Which bytes are taken when: a binary tree over time, in which a logarithmic number of nodes make up any span.

    ``throughout[n]``: bytes of the blocks whose life is made up of node n, and of others. ``within[n]``: bytes that are taken at some
    moment of n by blocks that own n or a node below it. What is taken during a span lies in ``within`` of the nodes that make it up and
    in ``throughout`` of those above them.
    """

    def __init__(self, length: int):
        self.leaves = 1 << max(length - 1, 0).bit_length()
        self.within: defaultdict[int, _Ranges] = defaultdict(_Ranges)
        self.throughout: defaultdict[int, _Ranges] = defaultdict(_Ranges)

    def _cover(self, start: int, stop: int) -> Iterator[int]:
        """The largest nodes that make up a span of time."""
        lo, hi = start + self.leaves, stop + self.leaves + 1
        while lo < hi:
            if lo & 1:
                yield lo
                lo += 1
            if hi & 1:
                hi -= 1
                yield hi
            lo, hi = lo >> 1, hi >> 1

    def _paths(self, start: int, stop: int) -> set[int]:
        """The nodes that hold the first or the last moment. All that lie above the cover are among them."""
        nodes = set()
        for node in (start + self.leaves, stop + self.leaves):
            while node and node not in nodes:
                nodes.add(node)
                node >>= 1
        return nodes

    def add(self, start: int, stop: int, lo: int, hi: int) -> None:
        """Take bytes for a span of time."""
        if lo == hi:
            return
        cover = set(self._cover(start, stop))
        for node in cover:
            self.throughout[node].add(lo, hi)
        for node in cover | self._paths(start, stop):
            self.within[node].add(lo, hi)

    def first_fit(self, start: int, stop: int, size: int) -> int:
        """The lowest offset at which so many bytes are free during a span of time."""
        sets = [self.within[n] for n in self._cover(start, stop) if n in self.within]
        sets += [self.throughout[n] for n in self._paths(start, stop) if n in self.throughout]
        at, before = 0, -1
        while at != before:
            before = at
            for ranges in sets:
                at = ranges.past(at, size)
        return at
