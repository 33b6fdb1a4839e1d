"""How a kernel's iterations are cut into blocks, one program of the grid each: sizes only, no text.

Blocks have up to two dimensions. A loop variable lies in one of them, or is one number for the whole block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from functx.backends.loops.affine import LoopVar
from functx.backends.loops.nodes import Accumulate, Form, Kernel, Load, Stage, affines_of
from functx.backends.triton.text import power_of_two

FLAT = 1024  # elements that a program takes
ROW = 8192  # elements of a row that are held in registers; longer ones are walked through
STEP = 2048  # elements of a longer row that are taken at a time
COLUMNS = 32  # columns that a program takes
TILE = 32  # the sides of the squares in which a transposed operand is read
FEW = 128  # programs that leave a GPU idle
PIECE = 4096  # elements of a reduction that is cut which one program takes at least
MAX_PIECES = 256


@dataclass(frozen=True)
class Dim:
    """One dimension of a block: its loop variables, outermost first, how many places they have, and how many the block has."""

    axes: tuple[LoopVar, ...]
    count: int
    block: int

    @property
    def is_whole(self) -> bool:
        """Whether one block has all places."""
        return self.count <= self.block

    @property
    def is_exact(self) -> bool:
        """Whether blocks never reach beyond the last place."""
        return self.count > 0 and self.count % self.block == 0


def size(axes: Iterable[LoopVar]) -> int:
    """How many places loop variables have together."""
    return math.prod(v.size for v in axes)


def dim(axes: Sequence[LoopVar], most: int) -> Dim:
    """A dimension with blocks of at most so many places."""
    n = size(axes)
    return Dim(tuple(axes), n, min(power_of_two(n), most))


@dataclass(frozen=True)
class Layout:
    """The blocks of a kernel.

    Attributes:
      outer: dimensions over the outer loops, by the dimension of the block that they are; FLAT kernels have no others.
      scalar: outer loops of which a program has one place.
      inner: per stage its own dimension, None if it has no loops.
      inner_at: which dimension of the block that is.
      rank: how many dimensions a block has.
      pieces: into how many parts a reduction is cut, and how long they are.
    """

    outer: dict[int, Dim]
    scalar: tuple[LoopVar, ...]
    inner: tuple[Dim | None, ...]
    inner_at: int
    rank: int
    pieces: int = 1
    piece: int = 0

    @property
    def programs(self) -> int:
        """How many programs the grid has."""
        return size(self.scalar) * math.prod(-(-d.count // d.block) for d in self.outer.values()) * self.pieces


def layout(kernel: Kernel) -> Layout:
    """The blocks of a kernel."""
    if kernel.form is Form.FLAT:
        return _flat(kernel.stages[0], kernel.serial)
    return _rows(kernel) if kernel.form is Form.ROWS else _columns(kernel)


def _flat(stage: Stage, serial: bool) -> Layout:
    across = None if serial else _read_across(stage)
    if across is not None:
        last = stage.axes[-1]
        rest = tuple(v for v in stage.axes if v not in (across, last))
        return Layout({0: Dim((across,), across.size, TILE), 1: Dim((last,), last.size, TILE)}, rest, (None,), 0, 2)
    return Layout({0: dim(stage.axes, FLAT)} if stage.axes else {}, (), (None,), 0, 1)


def _read_across(stage: Stage) -> LoopVar | None:
    """An axis along which a load is contiguous while the innermost one strides through memory."""
    if len(stage.axes) < 2 or stage.axes[-1].size < TILE:
        return None
    offsets = [node.offset for node in stage.nodes if isinstance(node, Load)]
    for axis in stage.axes[-2::-1]:
        if axis.size >= TILE and any(abs(o.coefficient(axis)) == 1 and abs(o.coefficient(stage.axes[-1])) >= TILE for o in offsets):
            return axis
    return None


def _rows(kernel: Kernel) -> Layout:
    """A program takes one long row, or several short ones."""
    rows, longest = size(kernel.outer), max(size(s.axes) for s in kernel.stages)
    inner = tuple(dim(s.axes, _most(s)) if s.axes else None for s in kernel.stages)
    together = min(power_of_two(rows), max(1, FLAT // power_of_two(longest)))
    if together == 1:
        return _cut(kernel, Layout({}, kernel.outer, inner, 0, 1))
    return _cut(kernel, Layout({0: Dim(kernel.outer, rows, together)}, (), inner, 1, 2))


def _most(stage: Stage) -> int:
    """How much of a row is taken at a time: all of it, if it fits; less where places are carried along."""
    if size(stage.axes) <= ROW:
        return ROW
    return STEP // 2 if any(isinstance(e, Accumulate) and e.position is not None for e in stage.effects) else STEP


def _columns(kernel: Kernel) -> Layout:
    """A program takes neighbouring columns, and walks down some rows at a time."""
    columns = dim(kernel.outer[-1:], COLUMNS if size(kernel.outer[-1:]) > COLUMNS else 2 * COLUMNS)
    inner = tuple(dim(s.axes, max(1, STEP // columns.block)) if s.axes else None for s in kernel.stages)
    return _cut(kernel, Layout({1: columns}, kernel.outer[:-1], inner, 0, 2))


def _cut(kernel: Kernel, found: Layout) -> Layout:
    """Cut a reduction that has few results and many operands."""
    (first, *others), stage = found.inner, kernel.stages[0]
    if others or first is None or found.programs >= FEW or first.is_whole or not _only_reduces(stage):
        return found
    wanted = max(1, PIECE // math.prod(d.block for d in found.outer.values()))
    pieces = min(MAX_PIECES, -(-first.count // max(wanted, first.block)), -(-4 * FEW // found.programs))
    length = -(-first.count // pieces)
    length = -(-length // first.block) * first.block
    pieces = -(-first.count // length)
    if pieces < 2:
        return found
    return Layout(found.outer, found.scalar, found.inner, found.inner_at, found.rank, pieces, length)


def _only_reduces(stage: Stage) -> bool:
    return all(isinstance(e, Accumulate) for e in stage.effects)


def needs_int64(kernel: Kernel) -> bool:
    """Whether an index may not fit 32 bits."""
    items = [x for s in kernel.stages for item in (*s.nodes, *s.effects) for x in affines_of(item)]
    largest = max((max(map(abs, x.bounds())) for x in items), default=0)
    total = size(kernel.outer) * max(size(s.axes) for s in kernel.stages)
    return max(largest, total) + 2**20 > 2**31


def warps(elements: int) -> int:
    """How many groups of 32 threads share a block."""
    return 1 if elements <= 128 else 2 if elements <= 512 else 4 if elements <= 2048 else 8 if elements <= 4096 else 16
