"""What has to exist in memory: the values that kernels produce, as opposed to those that are computed wherever they are needed.

Analysis only. It classifies equations, decides what to materialize (results, operands of library calls, costly values needed in several
places) and describes each product as a *root*. How roots share loops is decided in :mod:`clusters`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from functx.backends.loops import rules
from functx.backends.loops.affine import ZERO, Affine, LoopVar, var
from functx.backends.loops.nodes import Load, Matrix, Node
from functx.backends.loops.scope import Index, Scope
from functx.ir import AbstractArray, Atom, Eqn, Graph, Literal, Var

MAX_NODES = 64  # values that one root may evaluate in place
WORTH_STORING = 16  # recomputing this much costs more than a store and the loads


class Target(Protocol):
    """What a code generator can do."""

    def supports(self, eqn: Eqn) -> bool:
        """Whether it has native code for an equation (the primitive at these dtypes)."""

    def multiplies(self, dtype: np.dtype) -> bool:
        """Whether it has a matrix product for the dtype."""


# --- roots --------------------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Root:
    """Something a kernel produces. ``eqn``: the number of the equation it stands for (the one that reads it, for helpers)."""

    eqn: int


@dataclass(eq=False)
class StoreRoot(Root):
    """``var[target(i)] = value(i)`` for all i of ``shape``. ``base``: the array whose other elements ``var`` keeps."""

    var: Var
    shape: tuple[int, ...]
    value: Callable[[Scope, Index], Node]
    target: Callable[[Scope, Index], Index] = field(default=lambda scope, index: index)
    base: Var | None = None
    add: bool = False
    whole: bool = True  # writes every element of var, each at its own index
    serial: bool = False
    reads: tuple[Atom, ...] = ()


@dataclass(eq=False)
class ReduceRoot(Root):
    """``var[i] = op over j of value(i, j)``."""

    var: Var
    op: str
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    value: Callable[[Scope, Index, Index], Node]
    reads: tuple[Atom, ...] = ()


@dataclass(eq=False)
class CheckRoot(Root):
    """Fails unless all values of ``atom`` are allowed."""

    kind: str
    atom: Atom
    axis: int = 0
    size: int = 0
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
    sizes: tuple[int, int, int, int]

    @property
    def reads(self) -> tuple[Atom, ...]:
        """The two buffers."""
        return self.x.var, self.y.var


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

    def scope(self, carried: frozenset[Var] = frozenset()) -> Scope:
        """A fresh scope."""
        return Scope(self.definitions, rules.rule_of, self.memory.__contains__, carried)


# --- classification -----------------------------------------------------------------------------------------------------------------------

INDEX, REDUCE, MATMUL, REGION, SCATTER, PARTS, CALL = "index", "reduce", "matmul", "region", "scatter", "parts", "call"


def dot_sizes(eqn: Eqn) -> tuple[int, int, int, int]:
    """(batch, m, n, k) of a dot_general."""
    x, y = (a.aval.shape for a in eqn.inputs)
    batch = math.prod(x[a] for a in eqn.params["batch"][0])
    k = math.prod(x[a] for a in eqn.params["contract"][0])
    return batch, math.prod(x) // max(batch * k, 1), math.prod(y) // max(batch * k, 1), k


def classify(eqn: Eqn, target: Target, definitions: dict[Var, Eqn]) -> str:
    """How an equation is lowered."""
    name = eqn.primitive.name
    if eqn.primitive.effect or eqn.primitive.multiple or not target.supports(eqn):
        return CALL
    if name.startswith("reduce_") or name in ("argmax", "argmin"):
        return REDUCE
    if name == "dot_general":
        batch, m, n, k = dot_sizes(eqn)
        if not eqn.params["contract"][0]:
            return INDEX
        large = m * n * k >= 512 and min(m, n) > 1 and k >= 4 and max(m, n, k) < 2**31 and batch > 0
        return MATMUL if large and target.multiplies(eqn.outputs[0].aval.dtype) else REDUCE
    if name in ("scatter_add", "scatter_set"):
        return SCATTER
    if name == "slice_set":
        if 0 in eqn.inputs[1].aval.shape:
            return INDEX
        unit = all(abs(step) == 1 for step in eqn.params["steps"])
        return INDEX if unit and _is_fill(eqn.inputs[0], definitions) else REGION
    if name == "concatenate":
        return INDEX if math.prod(eqn.outputs[0].aval.shape) <= 64 else PARTS
    return INDEX if rules.rule_of(eqn) else CALL


def _is_fill(atom: Atom, definitions: dict[Var, Eqn]) -> bool:
    while isinstance(atom, Var):
        eqn = definitions.get(atom)
        if eqn is None or eqn.primitive.name not in ("broadcast", "reshape"):
            return False
        atom = eqn.inputs[0]
    return True


# --- the analysis -------------------------------------------------------------------------------------------------------------------------


def analyse(graph: Graph, target: Target) -> Analysis:
    """Decide what is materialized, and describe it."""
    return _Analyser(graph, target).run()


class _Analyser:
    def __init__(self, graph: Graph, target: Target):
        self.graph = graph
        self.producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
        self.numbers = {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
        self.kinds = [classify(eqn, target, self.producer) for eqn in graph.eqns]
        self.given = set(graph.in_vars) | {v for v, _ in graph.consts}
        self.definitions = {v: eqn for v, eqn in self.producer.items() if self.kinds[self.numbers[v]] == INDEX}
        self.memory = set(self.given) | {v for v in self.producer if v not in self.definitions}
        self.memory |= {atom for atom in graph.out_atoms if isinstance(atom, Var)}
        self.checks: dict[int, list[CheckRoot]] = {}
        self.roots: list[Root] = []

    def run(self) -> Analysis:
        for number, eqn in enumerate(self.graph.eqns):
            if checks := list(self._checks(number, eqn)):
                self.checks[number] = checks
        live = self._live()
        self._force(live)
        self._share(live)
        self._bound(live)
        for number, eqn in enumerate(self.graph.eqns):
            self.roots += self.checks.get(number, ())
            if number in live:
                self._describe(number, eqn)
        results, repeats = self._results()
        return Analysis(self.graph, self.definitions, self.memory, self.roots, self.checks, self.numbers, results, repeats)

    def _results(self) -> tuple[list[Var], list[tuple[Var, Var]]]:
        """A variable of its own for every output."""
        results: dict[Var, None] = {}
        repeats: list[tuple[Var, Var]] = []
        for atom in self.graph.out_atoms:
            if isinstance(atom, Var) and atom not in self.given and atom not in results:
                results[atom] = None
                continue
            results[copy := Var(atom.aval)] = None
            if isinstance(atom, Var):
                repeats.append((copy, atom))
            else:
                self._store(-1, copy, lambda scope, index, atom=atom: scope.value(atom, ()), ())
        return list(results), repeats

    def _checks(self, number: int, eqn: Eqn) -> Sequence[CheckRoot]:
        name = eqn.primitive.name
        if self.kinds[number] == CALL:
            return ()
        if name == "convert" and eqn.params["checked"]:
            return (CheckRoot(number, "overflow", eqn.inputs[0], dtype=eqn.params["dtype"]),)
        if name not in ("gather", "scatter_add", "scatter_set"):
            return ()
        shape, indices = eqn.inputs[0].aval.shape, eqn.inputs[1 if name == "gather" else 2 :]
        return [
            CheckRoot(number, "index", index, axis=axis, size=shape[axis])
            for index, axis in zip(indices, eqn.params["axes"], strict=True)
            if not rules.always_fits(index, self.producer, shape[axis])
        ]

    def _live(self) -> set[int]:
        """Equations that results, effects or checks depend on."""
        stack: list[Atom] = list(self.graph.out_atoms)
        stack += [check.atom for checks in self.checks.values() for check in checks]
        live: set[int] = set()
        pending = [i for i, eqn in enumerate(self.graph.eqns) if eqn.primitive.effect]
        while stack or pending:
            number = pending.pop() if pending else self.numbers.get(stack.pop())
            if number is not None and number not in live:
                live.add(number)
                stack += self.graph.eqns[number].inputs
        return live

    def _force(self, live: set[int]) -> None:
        """Operands that must lie in memory."""
        for number in live:
            eqn, kind = self.graph.eqns[number], self.kinds[number]
            if kind == CALL:
                self.memory.update(a for a in eqn.inputs if isinstance(a, Var))
            elif kind == MATMUL:
                self.memory.update(a for a in map(self._peel, eqn.inputs) if isinstance(a, Var))

    def _peel(self, atom: Atom) -> Atom:
        """What a chain of views looks at."""
        while atom not in self.memory and atom in self.definitions and self.definitions[atom].primitive.views:
            atom = self.definitions[atom].inputs[0]
        return atom

    def _share(self, live: set[int]) -> None:
        """Materialize what would be recomputed at too many places, last equations first, so that consumers are decided already."""
        costs = self._costs()
        sites: dict[Var, set[int]] = {}
        numbered: dict[tuple[object, ...], int] = {}  # a site is a path from an equation that is evaluated by itself; the path's number
        grown: set[Var] = set()

        def site(*path: object) -> int:
            return numbered.setdefault(path, len(numbered))

        for checks in self.checks.values():
            for check in checks:
                sites.setdefault(check.atom, set()).add(site(check))
        for number in sorted(live, reverse=True):
            eqn, inline, where = self.graph.eqns[number], False, set()
            if self.kinds[number] == INDEX:
                out = eqn.outputs[0]
                where = sites.get(out, set())
                if out not in self.memory:
                    costly = costs[out] * (min(len(where), 32) - 1) >= WORTH_STORING or (out in grown and costs[out] >= 4)
                    inline = not costly
                    if costly:
                        self.memory.add(out)
            base = where if inline else {site(number)}
            for k, atom in enumerate(eqn.inputs):
                if atom in self.memory or isinstance(atom, Literal):
                    continue
                mine = sites.setdefault(atom, set())
                if len(mine) < 32:
                    mine |= base if rules.same_index(eqn) else {site(s, number, k) for s in base}
                if (inline and eqn.outputs[0] in grown) or self._grows(number, eqn, k):
                    grown.add(atom)

    def _grows(self, number: int, eqn: Eqn, operand: int) -> bool:
        """Whether an operand computed in place would be computed more often than it has elements."""
        if self.kinds[number] == REDUCE and eqn.primitive.name == "dot_general":
            _, m, n, _ = dot_sizes(eqn)
            return (n if operand == 0 else m) > 1
        if self.kinds[number] != INDEX or eqn.primitive.name not in ("broadcast", "gather", "dot_general"):
            return False
        return math.prod(eqn.outputs[0].aval.shape) > math.prod(eqn.inputs[operand].aval.shape)

    def _costs(self) -> dict[Var, int]:
        """Rough cost per element of computing a value in place from what surely is in memory."""
        costs: dict[Var, int] = {}
        for eqn in self.graph.eqns:
            for out in eqn.outputs:
                if out in self.definitions:
                    own = 0 if eqn.primitive.views else eqn.primitive.cost
                    inputs = {a for a in eqn.inputs if isinstance(a, Var)}
                    costs[out] = min(own + sum(1 if a in self.memory else costs.get(a, 1) for a in inputs), 1000)
        return costs

    def _bound(self, live: set[int]) -> None:
        """Keep the values that one root evaluates in place below MAX_NODES."""
        sizes: dict[Var, frozenset[object]] = {}
        for number in sorted(live):
            eqn = self.graph.eqns[number]
            if self.kinds[number] == PARTS:
                continue  # every operand is a root by itself
            same_index = rules.same_index(eqn)
            atoms = {a for a in eqn.inputs if a in sizes and a not in self.memory}
            while True:
                nodes = frozenset().union(*(sizes[a] if same_index else ((number, n) for n in sizes[a]) for a in atoms))
                if len(nodes) < MAX_NODES or not atoms:
                    break
                largest = max(atoms, key=lambda a: (len(sizes[a]), self.numbers[a]))
                self.memory.add(largest)
                atoms.discard(largest)
            if self.kinds[number] == INDEX:
                sizes[eqn.outputs[0]] = nodes | {number}

    # --- description ----------------------------------------------------------------------------------------------------------------------

    def _describe(self, number: int, eqn: Eqn) -> None:
        kind = self.kinds[number]
        if kind == CALL:
            self.roots.append(CallRoot(number, eqn.inputs, eqn.outputs))
        elif kind != INDEX:
            getattr(self, f"_{kind}")(number, eqn)
        elif eqn.outputs[0] in self.memory:
            rule = rules.rule_of(eqn)
            self._store(number, eqn.outputs[0], lambda scope, index: rule(scope, eqn, index, None), eqn.inputs)

    def _store(self, number: int, v: Var, value: Callable[[Scope, Index], Node], reads: Sequence[Atom]) -> Var:
        self.memory.add(v)
        self.roots.append(StoreRoot(number, v, v.aval.shape, value, reads=tuple(reads)))
        return v

    def _reduce(self, number: int, eqn: Eqn) -> None:
        if eqn.primitive.name == "dot_general":
            return self._dot(number, eqn)
        x, out = eqn.inputs[0], eqn.outputs[0]
        axes = eqn.params["axes"] if "axes" in eqn.params else (eqn.params["axis"],)
        op = eqn.primitive.name.removeprefix("reduce_")

        def value(scope: Scope, kept: Index, reduced: Index) -> Node:
            places = iter(kept)
            inner = dict(zip(axes, reduced, strict=True))
            return scope.value(x, tuple(inner[a] if a in inner else next(places) for a in range(x.aval.ndim)))

        self._add_reduction(ReduceRoot(number, out, op, out.aval.shape, tuple(x.aval.shape[a] for a in axes), value, (x,)))
        return None

    def _add_reduction(self, root: ReduceRoot) -> None:
        """A reduction, or what is left of one over a single element."""
        if math.prod(root.reduced) != 1:
            self.roots.append(root)
        elif root.op in ("argmax", "argmin"):
            self._store(root.eqn, root.var, lambda scope, index: scope.integer(0), ())
        else:
            self._store(root.eqn, root.var, lambda scope, index: root.value(scope, index, (ZERO,) * len(root.reduced)), root.reads)

    def _dot(self, number: int, eqn: Eqn) -> None:
        """A product that is too small for the library, or of integers: a sum of products."""
        out = eqn.outputs[0]

        def value(scope: Scope, kept: Index, contracted: Index) -> Node:
            places = rules.dot_operands(eqn, kept, contracted)
            return scope.apply("mul", [scope.value(a, i) for a, i in zip(eqn.inputs, places, strict=True)], out.aval.dtype)

        reduced = tuple(eqn.inputs[0].aval.shape[a] for a in eqn.params["contract"][0])
        self._add_reduction(ReduceRoot(number, out, "sum", out.aval.shape, reduced, value, eqn.inputs))

    def _matmul(self, number: int, eqn: Eqn) -> None:
        batch, contract = eqn.params["batch"], eqn.params["contract"]
        matrices = []
        for side, atom in enumerate(eqn.inputs):
            free = [a for a in range(atom.aval.ndim) if a not in batch[side] and a not in contract[side]]
            rows, columns = (free, contract[0]) if side == 0 else (contract[1], free)
            matrices.append(self._matrix(number, atom, (batch[side], rows, columns)))
        self.roots.append(MatMulRoot(number, eqn.outputs[0], matrices[0], matrices[1], dot_sizes(eqn)))

    def _matrix(self, number: int, atom: Atom, groups: Sequence[Sequence[int]]) -> Matrix:
        """An operand as strides into a buffer; copied to (batch, rows, columns) if it cannot be read so."""
        shape = atom.aval.shape
        sizes = [math.prod(shape[a] for a in group) for group in groups]
        axes = [LoopVar(f"a{k}", d) for k, d in enumerate(shape)]
        scope = Scope(self.definitions, rules.rule_of, self.memory.__contains__)
        node = scope.value(atom, tuple(map(var, axes)))
        if isinstance(node, Load) and node.guard is None and not list(node.offset.opaque()):
            strides = [_collapsed(node.offset, [axes[a] for a in group]) for group in groups]
            if None not in strides and _blas_layout(strides, sizes):
                return Matrix(node.var, node.offset.const, _blas_layout(strides, sizes))
        order = [a for group in groups for a in group]
        copy = Var(AbstractArray(tuple(shape[a] for a in order), atom.aval.dtype))

        def value(scope: Scope, index: Index) -> Node:
            place = [ZERO] * len(order)
            for axis, i in zip(order, index, strict=True):
                place[axis] = i
            return scope.value(atom, tuple(place))

        self._store(number, copy, value, (atom,))
        return Matrix(copy, 0, (sizes[1] * sizes[2], sizes[2], 1))

    def _base(self, number: int, atom: Atom) -> Var:
        """The array that is partly overwritten, in memory."""
        if atom in self.memory:
            return atom
        copy = Var(atom.aval)
        return self._store(number, copy, lambda scope, index: scope.value(atom, index), (atom,))

    def _region(self, number: int, eqn: Eqn) -> None:
        x, update = eqn.inputs
        starts, steps = eqn.params["starts"], eqn.params["steps"]

        def target(scope: Scope, index: Index) -> Index:
            return tuple(i * step + start for i, start, step in zip(index, starts, steps, strict=True))

        self._partial(number, eqn, update, target, self._base(number, x))

    def _parts(self, number: int, eqn: Eqn) -> None:
        axis, start = eqn.params["axis"], 0
        for x in eqn.inputs:

            def target(scope: Scope, index: Index, start: int = start) -> Index:
                return (*index[:axis], index[axis] + start, *index[axis + 1 :])

            self._partial(number, eqn, x, target, None)
            start += x.aval.shape[axis]

    def _partial(self, number: int, eqn: Eqn, x: Atom, target: Callable[..., Index], base: Var | None, **more: object) -> None:
        def value(scope: Scope, index: Index) -> Node:
            return scope.value(x, index)

        self.roots.append(
            StoreRoot(number, eqn.outputs[0], x.aval.shape, value, target, base, whole=False, reads=(x, *more.pop("reads", ())), **more)
        )

    def _scatter(self, number: int, eqn: Eqn) -> None:
        x, updates, *indices = eqn.inputs
        axes, add = eqn.params["axes"], eqn.primitive.name == "scatter_add"
        if 0 in updates.aval.shape:
            self._store(number, eqn.outputs[0], lambda scope, index: scope.value(x, index), (x,))
            return

        def target(scope: Scope, index: Index) -> Index:
            return rules.indexed(scope, x, indices, axes, index, None)

        base = self._base(number, x)
        self._partial(number, eqn, updates, target, base, add=add, serial=True, reads=tuple(indices))


def _collapsed(offset: Affine, axes: Sequence[LoopVar]) -> int | None:
    """The one stride of several axes taken as one, None if they have none."""
    stride, expected = 0, None
    for axis in reversed([a for a in axes if a.size != 1]):
        c = offset.coefficient(axis)
        if expected is not None and c != expected:
            return None
        stride, expected = (c if expected is None else stride), c * axis.size
    return stride


def _blas_layout(strides: Sequence[int], sizes: Sequence[int]) -> tuple[int, int, int] | None:
    """Strides that BLAS accepts, with sizes of 1 given a stride that fits."""
    batch, rows, columns = strides
    if columns == 1 or sizes[2] == 1:
        rows = rows if sizes[1] != 1 else sizes[2]
        return (batch, rows, 1) if rows >= sizes[2] else None
    if rows == 1 or sizes[1] == 1:
        columns = columns if sizes[2] != 1 else sizes[1]
        return (batch, 1, columns) if columns >= sizes[1] else None
    return None
