"""Kernels from groups: loop variables are made, the roots evaluated over them, and the axes shaped so that indices are linear.

An axis over which a quotient is taken is split (``i // 12`` disappears when i becomes ``12*a + b``); neighbouring axes that every index
runs through in one stride become one. Owns the shape of loops; what shares a kernel was decided before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from functx.backends.loops.affine import (
    ZERO,
    Affine,
    Dynamic,
    LoopVar,
    Quotient,
    Remainder,
    inner_symbols,
    linear,
    substitute,
    var,
)
from functx.backends.loops.clusters import Group, View, iteration, reduces_into
from functx.backends.loops.nodes import (
    Accumulate,
    Check,
    Effect,
    Form,
    Inside,
    Kernel,
    Load,
    Node,
    Position,
    Running,
    Stage,
    Store,
    affines_of,
    operands,
    values_of,
)
from functx.backends.loops.roots import Analysis, CheckRoot, ReduceRoot, RunningRoot, StoreRoot
from functx.backends.loops.scope import Index, Scope
from functx.backends.loops.sizes import divided, hint, is_at_least
from functx.ir import Var
from functx.shapes import Size, size

MAX_SPLITS = 8


@dataclass
class _Axis:
    """An axis of the iteration space and the loop variables it has been split into."""

    size: Size
    variables: list[LoopVar]

    @property
    def index(self) -> Affine:
        out = ZERO
        for v in self.variables:
            out = out * v.size + var(v)
        return out


def build_kernel(analysis: Analysis, group: Group) -> Kernel:
    """The loop nest of a group."""
    names = (f"i{k}" for k in range(10_000))
    outer = [_Axis(d, [LoopVar(next(names), d)]) for d in group.outer]
    inner = [[_Axis(d, [LoopVar(next(names), d)]) for d in sizes] for sizes in group.inner]
    for _ in range(MAX_SPLITS):
        kernel = _emit(analysis, group, outer, inner)
        cut = _find_cut(kernel, [*outer, *(a for axes in inner for a in axes)])
        if cut is None:
            break
        axis, v, factor = cut
        at = axis.variables.index(v)
        axis.variables[at : at + 1] = [LoopVar(next(names), divided(v.size, factor)[0]), LoopVar(next(names), factor)]
    _collapse(kernel)
    return kernel


def _emit(analysis: Analysis, group: Group, outer: Sequence[_Axis], inner: Sequence[Sequence[_Axis]]) -> Kernel:
    stages = []
    for k, views in enumerate(group.stages):
        scope = analysis.scope(_carried(group, k))
        index = [a.index for a in (*outer, *inner[k])]
        effects = [_effect(scope, view, index) for view in views]
        axes = tuple(v for a in inner[k] for v in a.variables if v.size != 1)
        stages.append(Stage(axes, _needed(scope.nodes, effects), effects))
    variables = tuple(v for a in outer for v in a.variables)
    eqns = tuple(dict.fromkeys(root.eqn for root in group.roots))
    serial = any(isinstance(r, StoreRoot) and r.serial for r in group.roots)
    return Kernel(group.form, variables, stages, eqns, serial)


def _carried(group: Group, stage: int) -> frozenset[Var]:
    """What earlier stages leave in variables of the row (or arrays of the block) for this one."""

    def is_local(v: Var) -> bool:
        return reduces_into(group, v) or (group.form is Form.ROWS and group.inner[group.stage_of[v]] == ())

    return frozenset(v for v, k in group.stage_of.items() if k < stage and is_local(v))


def _place(shape: Sequence[Size], index: Iterator[Affine]) -> Index:
    return tuple(ZERO if d == 1 else next(index) for d in shape)


def _effect(scope: Scope, view: View, index: Sequence[Affine]) -> Effect:
    root, places = view.root, iter(index)
    kept, reduced = (_place(shape, places) for shape in iteration(root))
    if isinstance(root, ReduceRoot):
        value = root.value(scope, kept, reduced)
        position = reduced[0] if root.op in ("argmax", "argmin") else None
        return Accumulate(root.var, root.op, value, linear(kept, root.kept), position)
    if isinstance(root, RunningRoot):
        at = root.place(kept, reduced)
        value, *factor = root.values(scope, at)
        return Running(root.var, root.op, value, linear(at, root.var.aval.shape), *factor)
    if isinstance(root, CheckRoot):
        value = scope.value(root.atom, kept)
        return Check(root.kind, root.eqn, value, linear(kept, root.atom.aval.shape), root.axis, root.size, root.dtype)
    value = root.value(scope, kept)
    target = root.target(scope, kept)
    if root.whole:
        scope.bind(root.var, kept, value)
    return Store(root.var, linear(target, root.var.aval.shape), value, root.op)


def _needed(nodes: Sequence[Node], effects: Sequence[Effect]) -> list[Node]:
    """The nodes that effects depend on, in order (a rule may have made some that simplified away)."""
    needed: set[int] = set()
    stack: list[Node] = []
    for effect in effects:
        stack += values_of(effect)
        stack += [s.node for a in affines_of(effect) for s in inner_symbols(a) if isinstance(s, Dynamic)]
    while stack:
        node = stack.pop()
        if node.id not in needed:
            needed.add(node.id)
            stack += operands(node)
    return [node for node in nodes if node.id in needed]


def _items(kernel: Kernel) -> Iterator[Node | Effect]:
    for stage in kernel.stages:
        yield from stage.nodes
        yield from stage.effects


def _find_cut(kernel: Kernel, axes: Sequence[_Axis]) -> tuple[_Axis, LoopVar, Size] | None:
    """A loop variable of which a quotient is taken that a split makes exact: the coarsest such."""
    owner = {v: a for a in axes for v in a.variables}
    best: tuple[Size, _Axis, LoopVar] | None = None
    for item in _items(kernel):
        for affine in affines_of(item):
            for symbol in inner_symbols(affine):
                if not isinstance(symbol, (Quotient, Remainder)) or symbol.of.const != 0 or len(symbol.of.terms) != 1:
                    continue
                v, c = symbol.of.terms[0]
                if not isinstance(v, LoopVar) or not is_at_least(c, 1) or divided(symbol.by, c)[1] != 0:
                    continue
                factor = divided(symbol.by, c)[0]
                if _cuts(factor, v.size) and (best is None or hint(factor) > hint(best[0])):
                    best = factor, owner[v], v
    return None if best is None else (best[1], best[2], best[0])


def _cuts(factor: Size, n: Size) -> bool:
    """Whether an axis can be cut into pieces of a size, more than one of them and of more than one element."""
    return factor not in (0, 1, n) and divided(n, factor)[1] == 0 and hint(factor) < hint(n)


# --- joining axes -------------------------------------------------------------------------------------------------------------------------


def _collapse(kernel: Kernel) -> None:
    """Join neighbouring axes wherever every index allows it."""
    kernel.outer = _joined(tuple(v for v in kernel.outer if v.size != 1), list(_items(kernel)))
    for stage in kernel.stages:
        stage.axes = _joined(stage.axes, [*stage.nodes, *stage.effects])


def _joined(axes: tuple[LoopVar, ...], items: list[Node | Effect]) -> tuple[LoopVar, ...]:
    out = list(axes)
    k = len(out) - 2
    while k >= 0:
        a, b = out[k], out[k + 1]
        if all(_joins(x, a, b) for item in items for x in affines_of(item)):
            out[k : k + 2] = [_join(a, b, items)]
        k -= 1
    return tuple(out)


def _joins(x: Affine, a: LoopVar, b: LoopVar) -> bool:
    if any(a in s.loop_vars() or b in s.loop_vars() for s in x.opaque() if not isinstance(s, Dynamic)):
        return False
    return x.coefficient(a) == x.coefficient(b) * b.size


def _join(a: LoopVar, b: LoopVar, items: list[Node | Effect]) -> LoopVar:
    joined = LoopVar(b.key, a.size * b.size)

    def replace(v: LoopVar) -> Affine | None:
        return ZERO if v == a else var(joined) if v == b else None

    for item in items:
        if isinstance(item, Node):
            if a in item.loop_vars or b in item.loop_vars:
                item.loop_vars = (item.loop_vars - {a, b}) | {joined}
            if isinstance(item, Load):
                item.offset = substitute(item.offset, replace)
            elif isinstance(item, (Position, Inside)):
                item.index = substitute(item.index, replace)
        elif isinstance(item, Check):
            item.place = substitute(item.place, replace)
        else:
            item.offset = substitute(item.offset, replace)
            if isinstance(item, Accumulate) and item.position is not None:
                item.position = substitute(item.position, replace)
    return joined


def elements(kernel: Kernel) -> Size:
    """How many places the largest stage visits."""
    return max((size(v.size for v in (*kernel.outer, *stage.axes)) for stage in kernel.stages), key=hint)
