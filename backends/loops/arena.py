"""Where blocks lie in one arena when some of their sizes are known only at run time.

Sizes that are aligned multiples of one expression are packed in units of it, as densely as plain numbers are; others in units of their own
number of cache lines. The regions of different units lie one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from functx.backends.loops.packing import ALIGNMENT, Interval, pack
from functx.backends.loops.sizes import ceil_div, factored
from functx.shapes import Size


def arrange(blocks: Sequence[tuple[Hashable, Size, int, int]]) -> tuple[dict[Hashable, Size], Size]:
    """Offsets of blocks, and the size of the arena. A block is its key, its bytes, and the first and the last moment at which it is needed.

    >>> from functx.shapes import Dim
    >>> n = Dim("n")
    >>> arrange([("a", 64, 0, 1), ("b", 128 * n, 0, 1), ("c", 64 * n, 2, 3)])
    ({'a': 0, 'b': 64, 'c': 64}, Dim('128*n + 64'))
    """
    regions: dict[Size, list[Interval]] = {1: []}
    for key, nbytes, start, stop in blocks:
        count, unit = factored(nbytes)
        if unit != 1 and count % ALIGNMENT:
            count, unit = ALIGNMENT, ceil_div(nbytes, ALIGNMENT)
        regions.setdefault(unit, []).append(Interval(key, count, start, stop))
    offsets: dict[Hashable, Size] = {}
    total: Size = 0
    for unit, intervals in regions.items():
        found, length = pack(intervals)
        offsets.update((key, offset * unit + total) for key, offset in found.items())
        total = length * unit + total
    return offsets, total
