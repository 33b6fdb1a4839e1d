"""Evaluation of graph values at an index: the "value at index i" functions of a kernel, shared by everything that the kernel computes.

Owns the memo (a value needed twice at one index is computed once) and the order of evaluation. It does not decide what is computed
where: who makes a scope says which variables are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functx.backends.loops.affine import Affine, linear
from functx.backends.loops.nodes import Apply, Carried, Constant, Inside, Load, Node, Position
from functx.backends.loops.sizes import is_at_least, text
from functx.dtypes import BOOL, INT64
from functx.ir import Atom, Eqn, Literal, Var
from functx.shapes import Dim, Size

Index = tuple[Affine, ...]
Rule = Callable[["Scope", Eqn, Index, "Node | None"], Node]
RuleOf = Callable[[Eqn], "Rule | None"]


class Scope:
    """The values of one stage.

    Args:
      definitions: the equation of each variable that may be evaluated in place.
      rule_of: the index function of an equation.
      in_memory: whether a variable is read from its buffer.
      carried: variables of which an earlier stage left this row's value.
    """

    def __init__(
        self,
        definitions: Mapping[Var, Eqn],
        rule_of: RuleOf,
        in_memory: Callable[[Var], bool],
        carried: frozenset[Var] = frozenset(),
    ):
        self.definitions, self.rule_of, self.in_memory, self.carried = definitions, rule_of, in_memory, carried
        self.nodes: list[Node] = []
        self._memo: dict[tuple[Any, ...], Node] = {}
        self._ranges: dict[tuple[str, int | None], tuple[Size, Size]] = {}

    def value(self, atom: Atom, index: Index, guard: Node | None = None) -> Node:
        """The value of an atom at an index, needed only where ``guard`` holds."""
        if isinstance(atom, Literal):
            return self.constant(atom.value)
        key = (atom, index, guard)
        node = self._memo.get(key)
        if node is None:
            node = self._memo[key] = self._evaluate(atom, index, guard)
        return node

    def _evaluate(self, v: Var, index: Index, guard: Node | None) -> Node:
        if guard is not None and (v, index, None) in self._memo:
            return self._memo[v, index, None]
        if v in self.carried:
            return self._add(Carried, ("carried", v), v.aval.dtype, index, v)
        if self.in_memory(v):
            offset = linear(index, v.aval.shape)
            depends = offset.loop_vars() | (guard.loop_vars if guard else frozenset())
            return self._append(Load(len(self.nodes), v.aval.dtype, depends, v, index, offset, guard))
        eqn = self.definitions[v]
        rule = self.rule_of(eqn)
        assert rule is not None
        return rule(self, eqn, index, guard)

    def bind(self, v: Var, index: Index, node: Node) -> None:
        """From here on ``v`` at ``index`` is this node: it need not be loaded back."""
        self._memo[v, index, None] = node

    def constant(self, value: np.generic) -> Node:
        """A number as a node."""
        return self._add(Constant, ("constant", value.dtype.str, value.tobytes()), value.dtype, (), value)

    def integer(self, value: Size) -> Node:
        """An int64 constant, or a size that is known when the code runs."""
        return self.position(Affine(value)) if isinstance(value, Dim) else self.constant(np.int64(value))

    def position(self, index: Affine, dtype: np.dtype = INT64) -> Node:
        """An index as a value."""
        return self._add(Position, ("position", index, dtype), dtype, (index,), index)

    def inside(self, index: Affine, lo: Size | None, hi: Size | None, guard: Node | None = None) -> Node | None:
        """``lo <= index < hi``, None if that is always so where ``guard`` holds."""
        least, most = self._ranges.get((index.key, guard.id if guard else None)) or index.bounds()
        lo = None if lo is None or least is not None and is_at_least(least, lo) else lo
        hi = None if hi is None or most is not None and is_at_least(hi - 1, most) else hi
        if lo is None and hi is None:
            return None
        bounds = tuple(None if bound is None else text(bound) for bound in (lo, hi))
        return self._add(Inside, ("inside", index, *bounds), BOOL, (index,), index, lo, hi)

    def both(self, a: Node | None, b: Node | None) -> Node | None:
        """The conjunction of two conditions (None: true)."""
        if a is None or b is None or a is b:
            return b if a is None else a
        return self.apply("and_", (a, b), BOOL)

    def apply(self, op: str, args: Sequence[Node], dtype: np.dtype, params: Mapping[str, Any] | None = None) -> Node:
        """A scalar operation."""
        params = params or {}
        key = ("apply", op, tuple(a.id for a in args), dtype, tuple(params.items()))
        node = self._memo.get(key)
        if node is None:
            depends = frozenset().union(*(a.loop_vars for a in args))
            node = self._memo[key] = self._append(Apply(len(self.nodes), dtype, depends, op, tuple(args), params))
        return node

    def assume(self, index: Affine, guard: Node | None, size: Size) -> None:
        """Take for granted that ``0 <= index < size`` where ``guard`` holds."""
        self._ranges[index.key, guard.id if guard else None] = (0, size - 1)

    def _add(self, kind: type, key: tuple[Any, ...], dtype: np.dtype, index: Sequence[Affine], *rest: Any) -> Node:
        node = self._memo.get(key)
        if node is None:
            depends = frozenset().union(*(i.loop_vars() for i in index))
            node = self._memo[key] = self._append(kind(len(self.nodes), dtype, depends, *rest))
        return node

    def _append(self, node: Node) -> Node:
        self.nodes.append(node)
        return node
