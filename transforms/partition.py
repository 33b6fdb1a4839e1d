"""Partition: which forward values the backward side of a joint graph keeps, and which it computes again.

Analysis (:func:`analyse`, :func:`choose`) gives a frozen :class:`Plan`; :func:`recompute` rewrites the graph by it, and nothing else. One
region (one reverse pass) is planned at a time. A value's fate follows from facts that its primitive declares: what is cheap may be computed
again from what is kept, by a minimum cut over bytes; what is costly, a small reduction of something large, or what both sides hold in
memory anyway is kept unless a memory budget asks otherwise; calls that nobody can look into, and effects, are kept always.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from functx.ir import Atom, Eqn, Graph, Mark, Var
from functx.ops.higher_order import keep
from functx.primitive import Emitter
from functx.transforms import mincut
from functx.util import unique, zip_strict

MAX_CHAIN = 32  # equations that may have to be computed again one after the other, views not counted
SMALLER = 4  # a reduction whose result is so many times smaller than its operand is kept
READS = 3.5  # what reads so many times its own size to be computed again is kept
NEARER = 0.01  # per equation between a value and the backward side its weight grows by this: of equal values the nearer one is kept
UNSTORED = 1.1  # the weight of a value that the forward side would not store otherwise

STORED_TWICE = "both sides hold it in memory"

_remat_ids = itertools.count(1 << 20)  # apart from those of checkpoints


@dataclass(frozen=True)
class Sides:
    """Which equations of a graph, by number, are the forward and the backward side of one reverse pass. The others are outside."""

    forward: frozenset[int]
    backward: frozenset[int]


def regions(graph: Graph) -> list[int]:
    """The reverse passes that have left marks on both sides, in the order of their backward sides."""
    marks = unique(e.mark for e in graph.eqns if e.mark is not None)
    return [m.region for m in marks if m.phase == "backward" and Mark(m.region, "forward") in marks]


def sides_of(graph: Graph, region: int) -> Sides:
    """The sides of one reverse pass, by the marks."""
    numbers: dict[str, list[int]] = {"forward": [], "backward": []}
    for i, eqn in enumerate(graph.eqns):
        if eqn.mark is not None and eqn.mark.region == region:
            numbers[eqn.mark.phase].append(i)
    return Sides(frozenset(numbers["forward"]), frozenset(numbers["backward"]))


@dataclass(frozen=True)
class Value:
    """A forward value that the backward side may want.

    Attributes:
      weight: what keeping it costs in the cut (0 where it is there anyway; infinite for what is not to be kept, such as views).
      depends: the values that it is computed from.
      kept: why it is not to be computed again, if so.
      always: whether that holds under every budget.
    """

    var: Var
    weight: float
    depends: tuple[Var, ...] = ()
    kept: str | None = None
    always: bool = False

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.var.aval.nbytes_hint


@dataclass(frozen=True)
class Problem:
    """The values between the two sides of a graph: what is needed, and what comes from what."""

    graph: Graph
    sides: Sides
    values: dict[Var, Value]
    needed: tuple[Var, ...]

    @cached_property
    def producer(self) -> dict[Var, int]:
        """The equation that computes a value."""
        return {v: i for i, eqn in enumerate(self.graph.eqns) for v in eqn.outputs}


@dataclass(frozen=True)
class Plan:
    """What the backward side keeps and what it computes again.

    Attributes:
      saved: the values that are kept only for it.
      given: values that it reads and that are there anyway: inputs, constants, results.
      again: the values that it computes again.
      why: a reason for every value.
    """

    saved: tuple[Var, ...]
    given: tuple[Var, ...]
    again: frozenset[Var]
    why: dict[Var, str] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of what is kept for the backward side alone."""
        return sum(v.aval.nbytes_hint for v in self.saved)


# --- analysis -----------------------------------------------------------------------------------------------------------------------------


def analyse(graph: Graph, sides: Sides, forward_outputs: int | None = None, priced: Collection[Var] = ()) -> Problem:
    """The values between the sides. ``forward_outputs``: so many outputs are what the forward side gives the caller, the others are handed
    on by the backward side (None: all stay where they are computed). ``priced``: inputs that cost memory to keep (the carry of a loop,
    which is another one in every step).
    """
    outputs = graph.out_atoms
    return _Analyser(graph, sides, outputs[:forward_outputs], priced).run([] if forward_outputs is None else outputs[forward_outputs:])


class _Analyser:
    def __init__(self, graph: Graph, sides: Sides, results: Sequence[Atom], priced: Collection[Var]):
        self.graph, self.sides = graph, sides
        self.producer = {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
        self.there = {*graph.in_vars, *(v for v, _ in graph.consts)}
        self.results = {a for a in results if isinstance(a, Var)}
        self.priced = priced
        self.stored = self._stored(sides.forward)
        self.stored_behind = self._stored(sides.backward)
        self.primal = self._primal(results)
        self.depth: dict[Var, int] = {}
        self.sources: dict[Var, frozenset[Var]] = {}  # what computing a value again reads
        self.values: dict[Var, Value] = {}

    def run(self, also_needed: Iterable[Atom]) -> Problem:
        backward = [self.graph.eqns[i] for i in sorted(self.sides.backward)]
        own = {v for eqn in backward for v in eqn.outputs}
        read = unique(a for atoms in (*(eqn.inputs for eqn in backward), also_needed) for a in atoms if isinstance(a, Var))
        needed = tuple(v for v in read if v not in own)
        distance = self._distances(needed)
        for v in sorted(distance, key=lambda v: self.producer.get(v, -1)):  # what a value depends on comes before it
            self.values[v] = self._value(v, distance[v])
        return Problem(self.graph, self.sides, self.values, needed)

    def _stored(self, side: frozenset[int]) -> set[Var]:
        """Values that lie in memory on one side: what costly equations and reductions read or make."""
        eqns = [self.graph.eqns[i] for i in side]
        return {a for e in eqns if e.primitive.recompute != "cheap" for a in (*e.inputs, *e.outputs) if isinstance(a, Var)}

    def _primal(self, results: Sequence[Atom]) -> set[Var]:
        """What results come from, as opposed to what only derivatives need."""
        primal = {a for a in results if isinstance(a, Var)}
        for eqn in reversed(self.graph.eqns):
            if not primal.isdisjoint(eqn.outputs):
                primal.update(a for a in eqn.inputs if isinstance(a, Var))
        return primal

    def _distances(self, needed: Sequence[Var]) -> dict[Var, int]:
        """The needed values and all that they come from, with the number of equations to the backward side."""
        distance, layer = dict.fromkeys(needed, 0), list(needed)
        while layer:
            inputs = unique(a for v in layer for a in self._inputs(v) if a not in distance)
            distance.update(dict.fromkeys(inputs, distance[layer[0]] + 1))
            layer = inputs
        return distance

    def _inputs(self, v: Var) -> tuple[Var, ...]:
        """What a forward value is computed from."""
        number = self.producer.get(v)
        if number is None or not self._is_forward(number):
            return ()
        return tuple(unique(a for a in self.graph.eqns[number].inputs if isinstance(a, Var)))

    def _is_forward(self, number: int) -> bool:
        """Whether an equation belongs to the forward side; constants belong to every side."""
        return number in self.sides.forward or not any(isinstance(a, Var) for a in self.graph.eqns[number].inputs)

    def _value(self, v: Var, distance: int) -> Value:
        number = self.producer.get(v)
        self.sources[v] = frozenset({v})
        if v in self.there:
            weight = float(v.aval.nbytes_hint) if v in self.priced else 0.0
            return Value(v, weight, kept="it is an input", always=True)
        if not self._is_forward(number):
            return Value(v, self._weight(v, distance), kept="it is computed outside", always=True)
        eqn, depends = self.graph.eqns[number], self._inputs(v)
        why, always = self._reason(v, eqn)
        free = not eqn.primitive.views
        self.depth[v] = depth = 0 if why else free + max((self.depth.get(a, 0) for a in depends), default=0)
        sources = frozenset().union(*(self.sources[a] for a in depends))
        reads = sum(a.aval.nbytes_hint for a in sources)
        if why is None and v in self.primal and free and (depth > MAX_CHAIN or reads > READS * v.aval.nbytes_hint):
            why = "what it comes from is too far away" if depth > MAX_CHAIN else "computing it again would read too much"
            self.depth[v] = 0
        if why is None:
            self.sources[v] = sources
        return Value(v, self._weight(v, distance), depends, why, always)

    def _weight(self, v: Var, distance: int) -> float:
        if v in self.results:
            return 0.0
        eqn = self.graph.eqns[self.producer[v]]
        if eqn.primitive.views and v.aval.nbytes_hint >= eqn.inputs[0].aval.nbytes_hint:
            return mincut.INFINITE  # what it is a view of serves as well
        stored = 1.0 if v in self.stored else UNSTORED
        return v.aval.nbytes_hint * stored * (1 + NEARER * min(distance, 5))

    def _reason(self, v: Var, eqn: Eqn) -> tuple[str | None, bool]:
        """Why a value is not computed again, and whether no budget changes that."""
        primitive = eqn.primitive
        if primitive is keep:
            return "a checkpoint's policy keeps it", True
        if eqn.effect or primitive.recompute == "never":
            return f"{primitive.name} happens once", True
        if primitive.views:
            return None, False
        if primitive.recompute == "costly":
            return f"{primitive.name} is costly", False
        operand = max((a.aval.nbytes_hint for a in eqn.inputs), default=0)
        if primitive.family == "reduction" and operand >= SMALLER * v.aval.nbytes_hint:
            return "it is small, and what it is reduced from is large", False
        if v in self.stored and v in self.stored_behind:
            return STORED_TWICE, False
        return None, False


# --- choosing -----------------------------------------------------------------------------------------------------------------------------


def choose(problem: Problem, mode: str = "minimum_cut") -> Plan:
    """A plan without regard to a budget. ``mode``: "minimum_cut", "save_all" (as a tape does), or "recompute_all"."""
    values = problem.values
    if mode == "save_all":
        kept = {_root(problem, v) for v in problem.needed}
    else:
        given = [v for v, value in values.items() if (value.always if mode == "recompute_all" else value.kept is not None)]
        depends = {v: value.depends for v, value in values.items() if v not in set(given)}
        weights = {v: _bounded(value, mode) for v, value in values.items()}
        kept = mincut.cheapest_to_keep(weights, depends, given, problem.needed)
        for v in sorted((v for v in kept if values[v].kept == STORED_TWICE), key=problem.producer.__getitem__):
            if _comes_from_saved(problem, v, kept):
                kept.remove(v)
    return settle(problem, kept)


def _comes_from_saved(problem: Problem, v: Var, kept: set[Var]) -> bool:
    """Whether a value that need not be kept is cheap to compute from what is kept, something saved among it: then one of them is enough."""
    stack, seen = list(problem.values[v].depends), set(problem.values[v].depends)
    read, found = 0, False
    while stack:
        value = problem.values[stack.pop()]
        if value.var in kept or value.always:
            read += value.nbytes
            found |= value.var in kept and 0 < value.weight < mincut.INFINITE and value.nbytes >= problem.values[v].nbytes
            continue
        if value.kept not in (None, STORED_TWICE):
            return False
        fresh = [a for a in value.depends if a not in seen]
        seen.update(fresh)
        stack += fresh
    return found and read <= READS * problem.values[v].nbytes


def _bounded(value: Value, mode: str) -> float:
    """A weight for the cut. Recomputing all, only what happens once is kept, whatever its size."""
    return value.weight if mode == "minimum_cut" or value.always else mincut.INFINITE if value.weight else 0.0


def _root(problem: Problem, v: Var) -> Var:
    """What a view looks at; any other value itself."""
    while problem.values[v].weight == mincut.INFINITE and problem.values[v].depends:
        v = problem.values[v].depends[0]
    return v


def settle(problem: Problem, kept: Iterable[Var]) -> Plan:
    """The plan that keeps these values: only what is needed, directly or for computing something again, is saved or computed."""
    kept, again, used = set(kept), set(), []
    stack, seen = list(reversed(problem.needed)), set(problem.needed)
    while stack:
        v = stack.pop()
        value = problem.values[v]
        if value.always or (v in kept and value.weight != mincut.INFINITE):
            used.append(v)
            continue
        again.add(v)
        fresh = [a for a in value.depends if a not in seen]
        seen.update(fresh)
        stack += reversed(fresh)
    saved = tuple(v for v in used if problem.values[v].weight)
    given = tuple(v for v in used if not problem.values[v].weight)
    why = {v: problem.values[v].kept or ("it is a result" if v in given else "it is the least to keep") for v in used}
    why.update((v, "it is a view" if problem.values[v].weight == mincut.INFINITE else "it is computed from what is kept") for v in again)
    return Plan(saved, given, frozenset(again), why)


def cost_of(problem: Problem, again: Iterable[Var]) -> int:
    """The work of computing values again: floating-point operations, elementwise functions by what they cost."""
    eqns = unique(problem.producer[v] for v in again)
    return sum(work(problem.graph.eqns[i]) for i in eqns)


def work(eqn: Eqn) -> int:
    """Operations of one equation."""
    if eqn.primitive.views:
        return 0
    flops = eqn.primitive.flops(*(a.aval for a in eqn.inputs), **eqn.params)
    elements = max((v.aval.nbytes_hint // v.aval.dtype.itemsize for v in eqn.outputs), default=0)
    return max(flops, elements * eqn.primitive.cost)


# --- rewriting ----------------------------------------------------------------------------------------------------------------------------


def recompute(graph: Graph, sides: Sides, plan: Plan, forward_outputs: int | None = None) -> tuple[Graph, frozenset[int]]:
    """The graph in which the backward side computes again what the plan says, each value once, right before it is first read.

    Returns:
      The graph, and which of its equations are the backward side.
    """
    producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    b = Emitter()
    b.consts.update(graph.consts)
    env: dict[Var, Var] = {}
    behind: set[int] = set()
    remat = next(_remat_ids)

    def compute_again(atoms: Iterable[Atom]) -> None:
        stack = [a for a in atoms if a in plan.again]
        while stack:
            v = stack[-1]
            if v in env:
                stack.pop()
                continue
            eqn = producer[v]
            if missing := [a for a in eqn.inputs if a in plan.again and a not in env]:
                stack += missing
                continue
            outputs = tuple(Var(o.aval) for o in eqn.outputs)
            behind.add(len(b.eqns))
            mark = eqn.mark and eqn.mark._replace(phase="backward")
            b.eqns.append(eqn.replace(inputs=_read(env, eqn.inputs), outputs=outputs, mark=mark, remat=eqn.remat or remat))
            env.update(zip_strict(eqn.outputs, outputs))

    for i, eqn in enumerate(graph.eqns):
        if i in sides.backward:
            compute_again(eqn.inputs)
            behind.add(len(b.eqns))
            eqn = eqn.replace(inputs=_read(env, eqn.inputs))
        b.eqns.append(eqn)
    outputs = list(graph.outputs)
    for k in range(len(outputs) if forward_outputs is None else forward_outputs, len(outputs)):
        compute_again([outputs[k].atom])
        outputs[k] = outputs[k].with_atom(env.get(outputs[k].atom, outputs[k].atom))
    return b.build(graph.inputs, outputs), frozenset(behind)


def _read(env: dict[Var, Var], atoms: Sequence[Atom]) -> tuple[Atom, ...]:
    return tuple(env.get(a, a) for a in atoms)
