"""The loop IR: what a code generator is given. Data only, no decisions.

A program is a list of steps over buffers, each named by the graph variable that it holds. A step is a kernel (one fused loop nest), a
matrix product, a sort, a call of a reference implementation, or a copy. Inside a kernel values are nodes in the order of evaluation.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, inner_symbols
from functx.ir import Eqn, Graph, Literal, Var
from functx.shapes import Dim, Size

# --- values -------------------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Node:
    """A value inside a kernel. ``loop_vars``: on which loop variables it depends. ``id`` is its place in the order of evaluation."""

    id: int
    dtype: np.dtype
    loop_vars: frozenset[LoopVar]


@dataclass(eq=False, slots=True)
class Load(Node):
    """An element of a buffer. Where ``guard`` is false nothing may be read, and any value will do."""

    var: Var
    index: tuple[Affine, ...]
    offset: Affine
    guard: Node | None


@dataclass(eq=False, slots=True)
class Constant(Node):
    """A number."""

    value: np.generic


@dataclass(eq=False, slots=True)
class Position(Node):
    """An index as a value."""

    index: Affine


@dataclass(eq=False, slots=True)
class Inside(Node):
    """``lo <= index < hi``, as a bool. A bound that is None is not checked."""

    index: Affine
    lo: Size | None
    hi: Size | None


@dataclass(eq=False, slots=True)
class Apply(Node):
    """A scalar operation, by primitive name; the code generator's op table says how."""

    op: str
    args: tuple[Node, ...]
    params: Mapping[str, Any]


@dataclass(eq=False, slots=True)
class Carried(Node):
    """The result that an earlier stage left for this row (or for this place of the block): a reduction, or a value stored per row."""

    var: Var


# --- effects ------------------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Store:
    """``buffer[offset] = value``, or ``op(buffer[offset], value)`` with ``op``: sum, prod, max or min."""

    var: Var
    offset: Affine
    value: Node
    op: str | None = None


@dataclass(eq=False, slots=True)
class Accumulate:
    """A reduction of ``value`` over the stage's axes into ``var``: sum, prod, max, min, argmax or argmin. ``offset`` is where its result
    goes in the buffer, and ``position`` the place that argmax and argmin report."""

    var: Var
    op: str
    value: Node
    offset: Affine
    position: Affine | None = None


@dataclass(eq=False, slots=True)
class Running:
    """A reduction of which every intermediate result is stored: ``state = op(state, value); buffer[offset] = state``, one step of the
    stage's axes after the other. op: sum, prod, max, min, logaddexp; or recurrence, ``state = factor * state + value``. The first value
    starts it."""

    var: Var
    op: str
    value: Node
    offset: Affine
    factor: Node | None = None


@dataclass(eq=False, slots=True)
class Check:
    """Fails at the first place where the value is not allowed.

    kind "index": an int64 that must lie in [-size, size) along ``axis``. kind "overflow": a Python int that must fit ``dtype``.
    """

    kind: str
    eqn: int
    value: Node
    place: Affine
    axis: int = 0
    size: Size = 0
    dtype: np.dtype | None = None


Effect = Store | Accumulate | Running | Check


def values_of(effect: Effect) -> list[Node]:
    """The values that an effect is given."""
    factor = effect.factor if isinstance(effect, Running) else None
    return [effect.value] if factor is None else [effect.value, factor]


def operands(node: Node) -> list[Node]:
    """The nodes that a node reads, those behind its indices too."""
    out = [*getattr(node, "args", ())]
    if isinstance(node, Load) and node.guard is not None:
        out.append(node.guard)
    out += [s.node for a in affines_of(node) for s in inner_symbols(a) if isinstance(s, Dynamic)]
    return out


def affines_of(item: Node | Effect) -> list[Affine]:
    """The index expressions of a node or an effect."""
    if isinstance(item, Load):
        return [item.offset]
    if isinstance(item, (Position, Inside)):
        return [item.index]
    if isinstance(item, (Store, Running)):
        return [item.offset]
    if isinstance(item, Accumulate):
        return [item.offset] if item.position is None else [item.offset, item.position]
    return [item.place] if isinstance(item, Check) else []


# --- steps --------------------------------------------------------------------------------------------------------------------------------


class Form(enum.Enum):
    """How a kernel's loops are arranged.

    FLAT: one stage over all axes. ROWS: stages one after the other for every point of the outer axes. COLUMNS: reductions that keep the
    innermost axis: an accumulator for each of a block of columns, then stages over the block.
    """

    FLAT = "flat"
    ROWS = "rows"
    COLUMNS = "columns"


@dataclass(eq=False, slots=True)
class Stage:
    """One loop nest inside a kernel: its own axes (outermost first), values in order of evaluation, and what it does with them."""

    axes: tuple[LoopVar, ...]
    nodes: list[Node]
    effects: list[Effect]


@dataclass(eq=False, slots=True)
class Kernel:
    """``outer`` loops (COLUMNS: the last of them is the block axis), and stages inside. ``serial``: iterations may write the same place."""

    form: Form
    outer: tuple[LoopVar, ...]
    stages: list[Stage]
    eqns: tuple[int, ...] = ()
    serial: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand of a product inside a buffer: strides in elements along (batch, rows, columns); one of the last two is 1."""

    var: Var
    offset: Size
    strides: tuple[Size, Size, Size]


@dataclass(eq=False, slots=True)
class MatMul:
    """``out[b, m, n] = sum_k x[b, m, k] * y[b, k, n]``; out is C-contiguous."""

    out: Var
    x: Matrix
    y: Matrix
    sizes: tuple[Size, Size, Size, Size]  # batch, m, n, k
    eqns: tuple[int, ...] = ()


@dataclass(eq=False, slots=True)
class Sort:
    """Arrays of one shape (rows, n) with their rows in the stable order of the first ``num_keys`` of them, NaN last; or, with ``top``, so
    many of the greatest elements of one array in descending order, NaN first, and their positions. ``order`` is scratch memory, two
    int64 for every element."""

    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    order: Var
    rows: Size
    n: Size
    num_keys: int
    top: int | None = None
    eqns: tuple[int, ...] = ()


@dataclass(eq=False, slots=True)
class Call:
    """The reference implementation of an equation, on whole C-contiguous buffers. ``number``: by which it is called."""

    eqn: int
    inputs: tuple[Var | Literal, ...]
    outputs: tuple[Var, ...]
    number: int

    @property
    def eqns(self) -> tuple[int, ...]:
        """The equation, as other steps give theirs."""
        return (self.eqn,)


@dataclass(eq=False, slots=True)
class NativeCall(Call):
    """An equation that is code of its own, on whole buffers."""

    equation: Eqn

    @property
    def binds(self) -> Dim | None:
        """The size that it finds; its results, of a loop those beyond the carry, are of that length."""
        return self.equation.params.get(self.equation.primitive.binds)

    @property
    def grown(self) -> tuple[Var, ...]:
        """The results whose memory it takes by itself, as it finds out how much: all, but for the carry of a loop."""
        p = self.equation.params
        carries = len(self.inputs) - p["conds"] - p["consts"] if "conds" in p else 0
        return self.outputs[carries:] if self.binds is not None else ()


@dataclass(eq=False, slots=True)
class Selection(NativeCall):
    """Places that data selects, or a promise of a size."""


@dataclass(eq=False, slots=True)
class Loop(NativeCall):
    """A scan, while, cond or whole of the graph. ``bodies`` by parameter: programs over the operands, in their order, and the results."""

    bodies: dict[str, Program]


@dataclass(eq=False, slots=True)
class Copy:
    """All bytes of one buffer into another."""

    out: Var
    source: Var
    eqns: tuple[int, ...] = ()


Step = Kernel | MatMul | Sort | Call | Copy  # a Call may be a Selection or a Loop


# --- storage ------------------------------------------------------------------------------------------------------------------------------


class Place(enum.Enum):
    """Where a variable lives."""

    INPUT = "input"  # index: which input
    CONSTANT = "constant"  # index: which constant of the graph
    OUTPUT = "output"  # index: which output
    WORKSPACE = "workspace"  # index: byte offset
    HEAP = "heap"  # index: which block, taken when the equation runs that binds a size of it
    ROW = "row"  # a small array inside one kernel, one row at a time
    REGISTER = "register"  # never in memory


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a variable lives, and under which number."""

    place: Place
    index: Size = 0


@dataclass(eq=False, slots=True)
class Program:
    """A lowered graph: steps in order, where every variable lives, and the variable of each output; of the variables in memory that are
    written, the step that writes them first and the one that needs them last (for results: the number of steps); and the sizes that its
    steps bind."""

    steps: list[Step]
    storage: dict[Var, Storage]
    graph: Graph
    results: list[Var]
    workspace_bytes: Size
    lives: dict[Var, tuple[int, int]]
    bound: frozenset[str]
