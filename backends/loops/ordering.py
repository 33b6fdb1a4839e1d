"""Topological order with wishes: a pure algorithm that knows nothing of equations or steps."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet


def ordered(needs: Sequence[AbstractSet[int]], wishes: Sequence[AbstractSet[int]], later: AbstractSet[int] = frozenset()) -> list[int]:
    """All items 0, 1, ...: each after its needs, and after its wishes as far as that goes; ``later`` ones last, else as they are.

    >>> ordered([set(), {0}, set()], [set(), {2}, set()])
    [0, 2, 1]
    """
    for_need, for_wish = _waiting(needs), _waiting(wishes)
    open_needs, open_wishes = [len(n) for n in needs], [len(w) for w in wishes]
    ready: list[tuple[bool, int]] = []  # nothing is open
    possible: list[tuple[bool, int]] = []  # only wishes are open
    order: dict[int, None] = {}

    def release(k: int) -> None:
        if not open_needs[k]:
            heapq.heappush(possible if open_wishes[k] else ready, (k in later, k))

    for k in range(len(needs)):
        release(k)
    while ready or possible:
        _, k = heapq.heappop(ready or possible)
        if k in order:
            continue
        order[k] = None
        for waiting, still_open in ((for_need[k], open_needs), (for_wish[k], open_wishes)):
            for other in waiting:
                still_open[other] -= 1
                release(other)
    return list(order)


def closure(start: AbstractSet[int], following: Callable[[int], AbstractSet[int]]) -> set[int]:
    """The items of ``start`` and all that follow from them."""
    found, stack = set(start), list(start)
    while stack:
        new = following(stack.pop()) - found
        found |= new
        stack += new
    return found


def _waiting(before: Sequence[AbstractSet[int]]) -> list[list[int]]:
    out: list[list[int]] = [[] for _ in before]
    for k, items in enumerate(before):
        for item in items:
            out[item].append(k)
    return out
