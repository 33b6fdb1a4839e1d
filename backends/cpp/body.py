"""The innermost loop of a stage: values in segments around the vector routines, then stores, sums and checks.

Functions of libm run over blocks of up to 256 values, so a loop with such calls is cut into segments: what the calls need, the calls, what
needs their results. Values cross segments in small buffers on the stack; loads and index values are simply repeated. Everything stored is
stored in the last segment, after all loads, so that a store may overwrite what the loop reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from functx.backends.cpp.ops import convert, expression, is_block_routine
from functx.backends.cpp.text import Writer, affine_text, loop, size_text
from functx.backends.cpp.types import buffer_type, ctype, is_half, literal, loaded, suffix
from functx.backends.loops.affine import Affine, Dynamic, LoopVar, substitute, var
from functx.backends.loops.nodes import (
    Accumulate,
    Apply,
    Carried,
    Constant,
    Effect,
    Inside,
    Load,
    Node,
    Position,
    Stage,
    Store,
    affines_of,
    operands,
    values_of,
)

BLOCK = 256


@dataclass(frozen=True)
class Names:
    """How a kernel spells its memory: a place, a value carried from an earlier stage; and which stores anybody reads."""

    access: Callable[[Node | Effect], str]
    carried: Callable[[Carried], str]
    is_read: Callable[[Store], bool]


def is_math(node: Node) -> bool:
    """Whether a node is computed by a block routine."""
    return isinstance(node, Apply) and is_block_routine(node)


def math_call(node: Apply, args: Iterable[str], out: str, count: str) -> str:
    """The statement that computes a block."""
    call = f"math_{node.op}{suffix(node.dtype)}({', '.join([*args, out, count])});"
    return f"{call} round_all<{ctype(node.dtype)}>({out}, {count});" if is_half(node.dtype) else call


class Body:
    """Emits one stage inside its loops.

    Args:
      vector: the innermost loop variable (None: the stage is one place).
      effect: writes an effect at one place, given the text of its value.
      block_effect: writes a reduction over a block, given pointers to the values (or to two factors of each), the first place and the
        count; None where reductions go through ``effect``.
    """

    def __init__(
        self,
        w: Writer,
        stage: Stage,
        names: Names,
        vector: LoopVar | None,
        effect: Callable[[Effect, str], None],
        block_effect: Callable[[Accumulate, list[str], str, str], None] | None,
    ):
        self.w, self.stage, self.names, self.vector, self.effect, self.block_effect = w, stage, names, vector, effect, block_effect
        self.inner = {node.id: vector is not None and vector in node.loop_vars for node in stage.nodes}
        self.blocked = [e for e in stage.effects if isinstance(e, Accumulate)] if block_effect and vector is not None else []
        self.placed = [e for e in stage.effects if e not in self.blocked and self._happens(e)]

    def _happens(self, effect: Effect) -> bool:
        return not isinstance(effect, Store) or self.names.is_read(effect)

    # --- one value ------------------------------------------------------------------------------------------------------------------------

    def _text(self, node: Node) -> str:
        if isinstance(node, Load):
            text = loaded(node.dtype, self.names.access(node))
            return f"v{node.guard.id} ? {text} : {ctype(node.dtype)}(0)" if node.guard else text
        if isinstance(node, Constant):
            return literal(node.value)
        if isinstance(node, Position):
            return convert(np.dtype(np.int64), node.dtype, f"({affine_text(node.index)})")
        if isinstance(node, Inside):
            index = affine_text(node.index)
            tests = [f"({index} >= {size_text(node.lo)})"] if node.lo is not None else []
            return " & ".join([*tests, f"({index} < {size_text(node.hi)})"] if node.hi is not None else tests)
        if isinstance(node, Carried):
            return self.names.carried(node)
        return expression(node, [f"v{a.id}" for a in node.args])

    def _scalar(self, node: Node) -> None:
        c = ctype(node.dtype)
        if is_math(node):
            for k, a in enumerate(node.args):
                self.w.line(f"alignas(64) {buffer_type(node.dtype)} t{node.id}_{k}[16] = {{v{a.id}}};")
            args = [f"t{node.id}_{k}" for k in range(len(node.args))]
            self.w.line(math_call(node, args, args[0], "1"))
            self.w.line(f"const {c} v{node.id} = {args[0]}[0];")
        else:
            self.w.line(f"const {c} v{node.id} = {self._text(node)};")

    # --- the loop -------------------------------------------------------------------------------------------------------------------------

    def emit(self, lo: str, hi: str) -> None:
        """The loop over [lo, hi)."""
        for node in self.stage.nodes:
            if not self.inner[node.id]:
                self._scalar(node)
        if self.vector is None:
            for effect in self.stage.effects:
                if self._happens(effect):
                    self.effect(effect, f"v{effect.value.id}")
            return
        if not self.blocked and not any(is_math(n) and self.inner[n.id] for n in self.stage.nodes):
            self._loop({n.id for n in self.stage.nodes if self.inner[n.id]}, set(), [], lo, hi, last=True)
            return
        self._phases()
        first, end = f"{self.vector.key}_begin", f"{self.vector.key}_end"
        with self.w.block(loop(first, lo, hi, BLOCK)):
            self.w.line(f"const int64_t {end} = smaller({first} + {BLOCK}, {hi});")
            self._segments(first, end)

    def _phases(self) -> None:
        """In which segment each value can be computed, and from which on it is there."""
        self.phase: dict[int, int] = {}
        self.there: dict[int, int] = {}
        for node in self.stage.nodes:
            if self.inner[node.id]:
                p = max((self.there[a.id] for a in operands(node) if self.inner[a.id]), default=0)
                self.phase[node.id], self.there[node.id] = p, p + is_math(node)
        self.last = max(self.there.values(), default=0)

    def _segments(self, first: str, end: str) -> None:
        by_id = {node.id: node for node in self.stage.nodes}
        inner = [n for n in self.stage.nodes if self.inner[n.id]]
        sums = {e.value.id for e in self.blocked if not self._in_place(e)}
        buffered = {a.id for n in inner if is_math(n) for a in n.args} | sums
        segments: list[set[int]] = []
        for p in range(self.last, -1, -1):
            wanted = [i for i in buffered if self.inner[i] and self.phase[i] == p and not is_math(by_id[i])]
            if p == self.last:
                wanted += [i for e in self.placed for i in self._effect_nodes(e)]
                wanted += [i for i in buffered if not self.inner[i]]
            segments.append(self._reach(wanted, p, by_id, buffered))
        fills = {i for i in buffered if not self.inner[i]}
        for e in self.blocked:  # before the stores of the segments, which may take over this memory
            if memory := self._in_place(e):
                self.block_effect(e, [self._pointer(n, first) for n in memory], first, f"{end} - {first}")
        for i in sorted(buffered | {n.id for n in inner if is_math(n)}):
            self.w.line(f"alignas(64) {buffer_type(by_id[i].dtype)} t{i}[{BLOCK}];")
        for p, nodes in enumerate(reversed(segments)):
            out = {i for i in buffered if i in nodes and self.inner[i] and self.phase[i] == p and not is_math(by_id[i])}
            early = fills if p == 0 else set()
            if nodes or early or p == self.last:
                self._loop(nodes, out | early, [by_id[i] for i in buffered], first, end, last=p == self.last, base=first)
            for node in inner:
                if is_math(node) and self.phase[node.id] == p:
                    self.w.line(math_call(node, [f"t{a.id}" for a in node.args], f"t{node.id}", f"{end} - {first}"))
        for e in self.blocked:
            if not self._in_place(e):
                self.block_effect(e, [f"t{e.value.id}"], first, f"{end} - {first}")

    def _effect_nodes(self, effect: Effect) -> list[int]:
        extra = [s.node.id for a in affines_of(effect) for s in a.opaque() if isinstance(s, Dynamic)]
        return [*(v.id for v in values_of(effect)), *extra]

    def _reach(self, wanted: list[int], p: int, by_id: dict[int, Node], buffered: set[int]) -> set[int]:
        """The values that segment p reads or computes; earlier ones are taken from buffers, unless they are cheap to repeat."""
        seen: set[int] = set()
        stack = [i for i in wanted if self.inner[i]]
        while stack:
            i = stack.pop()
            if i in seen:
                continue
            seen.add(i)
            node = by_id[i]
            repeated = isinstance(node, (Load, Position, Inside, Carried))
            if self.there[i] < p and not repeated or is_math(node):
                if not is_math(node):
                    buffered.add(i)
                continue
            stack += [a.id for a in operands(node) if self.inner[a.id]]
        return seen

    def _loop(self, nodes: set[int], out: set[int], buffered: list[Node], lo: str, hi: str, *, last: bool, base: str = "") -> None:
        """One segment: compute ``nodes`` (read those that are in buffers already), fill the buffers ``out``; in the last, the effects."""
        known = {n.id for n in buffered}
        effects = self.placed if last else []
        if not out and not effects:
            return
        name = self.vector.key
        if all(isinstance(e, Store) and not self._collides(e) for e in effects):
            self.w.line("#pragma GCC ivdep")
        with self.w.block(loop(name, lo, hi)):
            for node in self.stage.nodes:
                if node.id not in nodes:
                    continue
                in_buffer = is_math(node) or (node.id in known and node.id not in out)
                text = loaded(node.dtype, f"t{node.id}[{name} - {base}]") if in_buffer else self._text(node)
                self.w.line(f"const {ctype(node.dtype)} v{node.id} = {text};")
            for i in sorted(out):
                self.w.line(f"t{i}[{name} - {base}] = v{i};")
            for effect in effects:
                self.effect(effect, f"v{effect.value.id}")

    def _collides(self, store: Store) -> bool:
        """Whether iterations may write the same place, so that their order counts: the place was computed, or does not move."""
        moves = self.vector in store.offset.loop_vars()
        return not moves or any(self.vector in s.loop_vars() for s in store.offset.opaque() if isinstance(s, Dynamic))

    def _in_place(self, e: Accumulate) -> list[Node]:
        """Loads over whose memory the reduction can run as it is: of the values, or of two factors of a sum of products; else none."""
        if self._is_contiguous(e.value):
            return [e.value]
        product = isinstance(e.value, Apply) and e.value.op == "mul" and e.op == "sum" and e.value.dtype.kind in "fc"
        return list(e.value.args) if product and all(map(self._is_contiguous, e.value.args)) else []

    def _is_contiguous(self, node: Node) -> bool:
        if not isinstance(node, Load) or node.guard is not None or node.offset.coefficient(self.vector) != 1:
            return False
        return not any(self.vector in s.loop_vars() for s in node.offset.opaque())

    def _pointer(self, node: Load, first: str) -> str:
        start = LoopVar(first, self.vector.size)
        at = Load(node.id, node.dtype, node.loop_vars, node.var, node.index, _renamed(node.offset, self.vector, start), None)
        return f"&{self.names.access(at)}"


def _renamed(x: Affine, old: LoopVar, new: LoopVar) -> Affine:
    return substitute(x, lambda v: var(new) if v == old else None)
