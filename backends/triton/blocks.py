"""How a kernel's iterations are cut into blocks, one program of the grid each: sizes only, no text.

Blocks have up to two dimensions. A loop variable lies in one of them, or is one number for the whole block. Where sizes are known only when
the code runs, blocks and pieces are chosen then: they are sizes too, each the result of a function of :mod:`launches`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from functx import shapes
from functx.backends.loops.affine import Affine, LoopVar
from functx.backends.loops.nodes import Accumulate, Form, Kernel, Load, Stage, affines_of
from functx.backends.loops.sizes import ceil_div, hint, is_at_least
from functx.backends.triton import launches
from functx.backends.triton.launches import FEW, FLAT, MAX_PIECES, power_of_two
from functx.backends.triton.text import LAUNCH
from functx.shapes import Size

ROW = 8192  # elements of a row that are held in registers; longer ones are walked through
STEP = 2048  # elements of a longer row that are taken at a time
COLUMNS = 32  # columns that a program takes
TILE = 32  # the sides of the squares in which a transposed operand is read


@dataclass(frozen=True)
class Choice:
    """A size that is chosen at a launch, by a function of :mod:`launches` of other sizes."""

    size: Size
    function: str
    arguments: tuple[Size, ...]


def choice(name: str, function: str, *arguments: Size) -> Choice:
    """One whose hint is what is chosen for typical sizes."""
    typical = getattr(launches, function)(*map(hint, arguments))
    return Choice(shapes.Dim(f"{LAUNCH}{name}", hint=typical), function, arguments)


@dataclass(frozen=True)
class Dim:
    """One dimension of a block: its loop variables, outermost first, how many places they have, and how many the block has. ``fits``: the
    kernel is launched only where one block has all places."""

    axes: tuple[LoopVar, ...]
    count: Size
    block: Size
    fits: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether one block has all places."""
        return self.fits or is_at_least(self.block, self.count)

    @property
    def is_exact(self) -> bool:
        """Whether blocks never reach beyond the last place."""
        return shapes.is_static((self.count, self.block)) and self.count > 0 and self.count % self.block == 0


def size(axes: Iterable[LoopVar]) -> Size:
    """How many places loop variables have together."""
    return shapes.size(v.size for v in axes)


def dim(axes: Sequence[LoopVar], most: int) -> Dim:
    """A dimension with blocks of at most so many places."""
    n = size(axes)
    return Dim(tuple(axes), n, min(power_of_two(n), most) if isinstance(n, int) else most)


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
      chosen: what a launch has to choose, in order.
    """

    outer: dict[int, Dim]
    scalar: tuple[LoopVar, ...]
    inner: tuple[Dim | None, ...]
    inner_at: int
    rank: int
    pieces: Size = 1
    piece: Size = 0
    chosen: tuple[Choice, ...] = ()

    @property
    def programs(self) -> Size:
        """How many programs the grid has."""
        return size(self.scalar) * shapes.size(ceil_div(d.count, d.block) for d in self.outer.values()) * self.pieces

    @property
    def is_cut(self) -> bool:
        """Whether a reduction is cut."""
        return not isinstance(self.pieces, int) or self.pieces > 1


def layout(kernel: Kernel, short: bool = False) -> Layout:
    """The blocks of a kernel. ``short``: it is launched only for rows that are held in registers."""
    if kernel.form is Form.FLAT:
        return _flat(kernel.stages[0], kernel.serial)
    return _rows(kernel, short) if kernel.form is Form.ROWS else _columns(kernel)


def lengths_that_matter(kernel: Kernel) -> list[Size]:
    """The lengths of rows of which several stages have something, where they are known only when the code runs."""
    several = kernel.form is Form.ROWS and len(kernel.stages) > 1
    return [n for n in dict.fromkeys(size(s.axes) for s in kernel.stages) if isinstance(n, shapes.Dim)] if several else []


def _flat(stage: Stage, serial: bool) -> Layout:
    across = None if serial else _read_across(stage)
    if across is not None:
        last = stage.axes[-1]
        rest = tuple(v for v in stage.axes if v not in (across, last))
        return Layout({0: Dim((across,), across.size, TILE), 1: Dim((last,), last.size, TILE)}, rest, (None,), 0, 2)
    return Layout({0: dim(stage.axes, FLAT)} if stage.axes else {}, (), (None,), 0, 1)


def _read_across(stage: Stage) -> LoopVar | None:
    """An axis along which a load is contiguous while the innermost one strides through memory."""
    if len(stage.axes) < 2 or hint(stage.axes[-1].size) < TILE:
        return None
    offsets = [node.offset for node in stage.nodes if isinstance(node, Load)]

    def step(offset: Affine, axis: LoopVar) -> int:
        return abs(hint(offset.coefficient(axis)))

    for axis in stage.axes[-2::-1]:
        if hint(axis.size) >= TILE and any(step(o, axis) == 1 and step(o, stage.axes[-1]) >= TILE for o in offsets):
            return axis
    return None


def _rows(kernel: Kernel, short: bool) -> Layout:
    """A program takes one long row, or several short ones."""
    rows, lengths = size(kernel.outer), [size(s.axes) for s in kernel.stages]
    if not shapes.is_static(lengths):
        return _rows_of_any_length(kernel, rows, short)
    inner = tuple(dim(s.axes, _most(s)) if s.axes else None for s in kernel.stages)
    few = max(1, FLAT // power_of_two(max(lengths)))
    together = min(power_of_two(rows), few) if isinstance(rows, int) else few
    if together == 1:
        return _cut(kernel, Layout({}, kernel.outer, inner, 0, 1))
    return _cut(kernel, Layout({0: Dim(kernel.outer, rows, together)}, (), inner, 1, 2))


def _rows_of_any_length(kernel: Kernel, rows: Size, short: bool) -> Layout:
    inner: list[Dim | None] = []
    blocks: dict[tuple[Size, int], Choice] = {}
    for s in kernel.stages:
        own = dim(s.axes, ROW if short else _most(s)) if s.axes else None
        if own is not None and not isinstance(own.count, int):
            key = own.count, own.block
            if key not in blocks:
                blocks[key] = choice(f"block{len(blocks) or ''}", "fit", *key)
            own = Dim(own.axes, own.count, blocks[key].size, fits=short)
        inner.append(own)
    chosen = list(blocks.values())
    if not kernel.outer:
        return _cut(kernel, Layout({}, (), tuple(inner), 0, 1, chosen=tuple(chosen)))
    chosen.append(choice("rows", "together", *(d.block for d in inner if d is not None)))
    return _cut(kernel, Layout({0: Dim(kernel.outer, rows, chosen[-1].size)}, (), tuple(inner), 1, 2, chosen=tuple(chosen)))


def _most(stage: Stage) -> int:
    """How much of a row is taken at a time: all of it, if it fits; less where places are carried along."""
    n = size(stage.axes)
    if isinstance(n, int) and n <= ROW:
        return ROW
    return STEP // 2 if any(isinstance(e, Accumulate) and e.position is not None for e in stage.effects) else STEP


def _columns(kernel: Kernel) -> Layout:
    """A program takes neighbouring columns, and walks down some rows at a time."""
    columns = dim(kernel.outer[-1:], COLUMNS if hint(size(kernel.outer[-1:])) > COLUMNS else 2 * COLUMNS)
    inner = tuple(dim(s.axes, max(1, STEP // columns.block)) if s.axes else None for s in kernel.stages)
    return _cut(kernel, Layout({1: columns}, kernel.outer[:-1], inner, 0, 2))


def _cut(kernel: Kernel, found: Layout) -> Layout:
    """Cut a reduction that has few results and many operands."""
    (first, *others), stage = found.inner, kernel.stages[0]
    if others or first is None or hint(found.programs) >= FEW or first.is_whole or not _only_reduces(stage):
        return found
    sizes = (first.count, first.block, shapes.size(d.block for d in found.outer.values()), found.programs)
    if shapes.is_static(sizes):
        length = launches.length_of(*sizes)
        pieces = -(-first.count // length)
        return dataclasses.replace(found, pieces=pieces, piece=length) if pieces > 1 else found
    length = choice("length", "length_of", *sizes)
    pieces = choice("pieces", "greater", ceil_div(first.count, length.size), 1)
    return dataclasses.replace(found, pieces=pieces.size, piece=length.size, chosen=(*found.chosen, length, pieces))


def most_partial_results(found: Layout, kept: Size) -> Size:
    """How many partial results a reduction that is cut has at most, of so many results."""
    if shapes.is_static((found.pieces, kept)):
        return found.pieces * kept
    # where rows are chosen at the launch, only those are cut of which a program takes one
    across = math.prod(d.block if isinstance(d.block, int) else 1 for d in found.outer.values())
    return MAX_PIECES * kept if isinstance(kept, int) else kept + 4 * FEW * across


def _only_reduces(stage: Stage) -> bool:
    return all(isinstance(e, Accumulate) for e in stage.effects)


def index_bounds(kernel: Kernel) -> tuple[Size, ...] | None:
    """What indices do not exceed, each of them only for some sizes; None if they may be any numbers."""
    items = [x for s in kernel.stages for item in (*s.nodes, *s.effects) for x in affines_of(item)]
    ends = [end for x in items for end in x.bounds()]
    if any(end is None for end in ends):
        return None
    bounds: list[Size] = [0]
    for end in [*(size(kernel.outer) * size(s.axes) for s in kernel.stages), *ends]:
        bound = end if is_at_least(end, -1) else -end if is_at_least(0, end) else None
        for b in (bound,) if bound is not None else (end, -end):
            if not any(is_at_least(other, b) for other in bounds):
                bounds = [*(other for other in bounds if not is_at_least(b, other)), b]
    return tuple(bounds)
