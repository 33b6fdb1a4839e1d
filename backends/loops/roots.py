"""Roots: the values that kernels and library calls produce, as opposed to those that are computed wherever they are needed. Data only.

What becomes a root is decided in :mod:`analysis`, how it is described in :mod:`describe`, and how roots share loops in :mod:`clusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from functx.backends.loops import rules
from functx.backends.loops.nodes import Matrix, Node
from functx.backends.loops.scope import Index, Scope
from functx.backends.loops.sizes import symbols
from functx.ir import Atom, Eqn, Graph, Var
from functx.shapes import Shape, Size


class Target(Protocol):
    """What a code generator can do.

    Attributes:
      max_constant: the bytes of a constant array that the body of a loop or choice may hold.
    """

    max_constant: int

    def supports(self, eqn: Eqn) -> bool:
        """Whether it has native code for an equation (the primitive at these dtypes)."""

    def multiplies(self, dtype: np.dtype) -> np.dtype | None:
        """The dtype in which its library multiplies matrices of a dtype, None if it does not."""


@dataclass(eq=False)
class Root:
    """Something a kernel produces. ``eqn``: the number of the equation it stands for (the one that reads it, for helpers)."""

    eqn: int


@dataclass(eq=False)
class StoreRoot(Root):
    """``var[target(i)] = value(i)`` for all i of ``shape``. ``base``: the array whose other elements ``var`` keeps."""

    var: Var
    shape: Shape
    value: Callable[[Scope, Index], Node]
    target: Callable[[Scope, Index], Index] = field(default=lambda scope, index: index)
    base: Var | None = None
    op: str | None = None
    whole: bool = True  # writes every element of var, each at its own index
    serial: bool = False
    reads: tuple[Atom, ...] = ()


@dataclass(eq=False)
class ReduceRoot(Root):
    """``var[i] = op over j of value(i, j)``."""

    var: Var
    op: str
    kept: Shape
    reduced: Shape
    value: Callable[[Scope, Index, Index], Node]
    reads: tuple[Atom, ...] = ()


@dataclass(eq=False)
class RunningRoot(Root):
    """``var`` along ``axis``, forwards or backwards: every intermediate result of a reduction. ``values`` are a place's own value and, for
    a recurrence, its factor."""

    var: Var
    op: str
    axis: int
    reverse: bool
    values: Callable[[Scope, Index], tuple[Node, ...]]
    reads: tuple[Atom, ...] = ()

    def place(self, kept: Index, along: Index) -> Index:
        """The index at a step."""
        (step,) = along
        at = step * -1 + (self.var.aval.shape[self.axis] - 1) if self.reverse else step
        return (*kept[: self.axis], at, *kept[self.axis :])

    @property
    def in_order(self) -> bool:
        """Whether the axis is the innermost one that counts."""
        return all(d == 1 for d in self.var.aval.shape[self.axis + 1 :])


@dataclass(eq=False)
class CheckRoot(Root):
    """Fails unless all values of ``atom`` are allowed."""

    kind: str
    atom: Atom
    axis: int = 0
    size: Size = 0
    dtype: np.dtype | None = None

    @property
    def reads(self) -> tuple[Atom, ...]:
        """The checked value."""
        return (self.atom,)


@dataclass(eq=False)
class MatMulRoot(Root):
    """A library matrix product."""

    var: Var
    x: Matrix
    y: Matrix
    sizes: tuple[Size, Size, Size, Size]

    @property
    def reads(self) -> tuple[Atom, ...]:
        """The two buffers."""
        return self.x.var, self.y.var


@dataclass(eq=False)
class SortRoot(Root):
    """A sort of rows, or the greatest elements of each; see :class:`functx.backends.loops.nodes.Sort`."""

    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    order: Var
    rows: Size
    n: Size
    num_keys: int
    top: int | None = None

    @property
    def reads(self) -> tuple[Atom, ...]:
        """All operands."""
        return self.inputs


@dataclass(eq=False)
class CallRoot(Root):
    """A call of the reference implementation."""

    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]

    @property
    def reads(self) -> tuple[Atom, ...]:
        """All operands."""
        return self.inputs


@dataclass(eq=False)
class Analysis:
    """Roots in graph order, what is evaluated in place, and the checks that must have passed before an equation is evaluated."""

    graph: Graph
    definitions: dict[Var, Eqn]  # every index-function equation, materialized or not
    memory: set[Var]
    roots: list[Root]
    checks: dict[int, list[CheckRoot]]
    numbers: dict[Var, int]
    results: list[Var]  # one per output, each a buffer of its own
    repeats: list[tuple[Var, Var]]  # (result, what it is a copy of)
    written: dict[Var, Var]  # new values of inputs -> the inputs
    binders: Mapping[str, Var]  # sizes that become known on the way -> what tells them
    overwritten: dict[Var, int]  # bases of partial writes that nothing needs after the equation of that number

    def binders_of(self, sizes: Iterable[Size]) -> set[Var]:
        """What tells these sizes, where they become known on the way."""
        return {self.binders[name] for name in symbols(sizes) if name in self.binders} if self.binders else set()

    def scope(self, carried: frozenset[Var] = frozenset()) -> Scope:
        """A fresh scope."""
        return Scope(self.definitions, rules.rule_of, self.memory.__contains__, carried)
