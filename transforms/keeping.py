"""The marks inside checkpoints: putting them where a policy allows a value to be kept, and taking them out when they have done their work.

What a policy decides stands in the graph itself, as `keep` equations: so it survives every transform, and graphs hold no functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from functx.errors import UnsupportedError
from functx.ir import Atom, Eqn, Graph, Input, InRole, Literal, Mark, Output, Var, read
from functx.ops.higher_order import call, checkpoint, handing_over, keep, named
from functx.primitive import Emitter
from functx.source import function_source
from functx.transforms.simplify import dead_code
from functx.util import zip_strict

Policy = Callable[..., bool]


def mark_kept(graph: Graph, policy: Policy) -> Graph:
    """The body of a checkpoint with a `keep` behind every equation that the policy allows, nested jits in line."""
    return _Marker(policy).run(graph)


class _Marker:
    """Emits a graph with marks.

    Attributes:
      there: values that the backward side has anyway, or has nothing to compute for.
      barred: values that are not to be kept without their name, or as a view, either.
      kept: the marked values, with what they are.
    """

    def __init__(self, policy: Policy):
        self.b, self.policy = Emitter(), policy
        self.there: set[Atom] = set()
        self.barred: set[Atom] = set()
        self.kept: dict[Var, str] = {}

    def run(self, graph: Graph) -> Graph:
        self.there.update(graph.in_vars)
        outs = self._emit(graph, graph.in_vars)
        return self.b.build(graph.inputs, [slot.with_atom(atom) for slot, atom in zip_strict(graph.outputs, outs)])

    def _emit(self, graph: Graph, atoms: Sequence[Atom]) -> list[Atom]:
        """Emit a graph applied to ``atoms``; returns its results."""
        env = self.b.enter(graph, atoms)
        self.there.update(env[v] for v, _ in graph.consts)
        refused = getattr(self.policy, "never", frozenset())
        barred = {e.inputs[0] for e in graph.eqns if e.primitive is named and e.params["name"] in refused}
        for eqn in graph.eqns:
            inputs = [read(env, a) for a in eqn.inputs]
            if eqn.primitive is call and eqn.params.get("inline", True):
                env.update(zip_strict(eqn.outputs, self._emit(eqn.params["graph"], inputs)))
            elif eqn.primitive is checkpoint:
                self._inside(eqn, env)
            elif eqn.primitive is keep and inputs[0] in self.there:
                env[eqn.outputs[0]] = inputs[0]
            else:
                self.b.append(eqn, env)
                self.barred.update(env[v] for v in eqn.outputs if v in barred)
                self._mark(eqn, inputs, env)
        return [read(env, a) for a in graph.out_atoms]

    def _mark(self, eqn: Eqn, inputs: Sequence[Atom], env: dict[Var, Atom]) -> None:
        """Mark the results of an equation that was just emitted, if they are worth it and the policy allows."""
        outputs = [env[v] for v in eqn.outputs]
        known = all(isinstance(a, Literal) or a in self.there for a in inputs)
        if known and (eqn.primitive.views or not any(isinstance(a, Var) for a in inputs)):
            self.there.update(outputs)
            return
        if eqn.primitive.views and inputs[0] in self.barred:
            self.barred.update(outputs)
        if eqn.primitive is keep or not self._allows(eqn):
            return
        of = f"name {eqn.params['name']!r}" if eqn.primitive is named else eqn.primitive.name
        for v, out in zip_strict(eqn.outputs, outputs):
            if out not in self.barred:
                env[v] = self._keep(out, of, eqn)

    def _keep(self, atom: Atom, of: str, eqn: Eqn) -> Atom:
        self.b.source = eqn.source
        kept = self.b.keep(atom, of=of)
        self.b.source = None
        self.kept[kept] = of
        self.there.add(kept)
        return kept

    def _inside(self, eqn: Eqn, env: dict[Var, Atom]) -> None:
        """What a checkpoint inside computes may be kept as well: then it hands it out, also to the backward side of its own."""
        marker = _Marker(self.policy)
        graph = marker.run(eqn.params["graph"])
        handing = handing_over(graph, list(marker.kept))
        more = tuple(Var(a.aval) for a in handing.out_atoms[len(graph.outputs) :])
        self.b.append(eqn.replace(params={**eqn.params, "graph": handing}, outputs=(*eqn.outputs, *more)), env)
        for v, inner in zip_strict((*eqn.outputs, *more), handing.out_atoms):
            if inner in marker.kept:
                env[v] = self._keep(env[v], marker.kept[inner], eqn)

    def _allows(self, eqn: Eqn) -> bool:
        answer: Any = self.policy(eqn.primitive, *(a.aval for a in eqn.inputs), **eqn.params)
        if isinstance(answer, (bool, np.bool_)):
            return bool(answer)
        raise UnsupportedError(
            f"the checkpoint policy {function_source(self.policy)} answered {answer!r} for '{eqn.primitive}'",
            where=eqn.source.describe() if eqn.source else None,
            why="a policy says whether a value may be saved",
            fix="return True or False; functx.checkpoint_policies has policies to begin with",
        )


def without(eqns: Sequence[Eqn], given: Sequence[Var], outputs: Sequence[Output]) -> tuple[list[Eqn], list[bool]]:
    """The equations that are left to run where the values of some marks are given, and which of these are read."""
    if not given:
        return list(eqns), []
    places = set(given)
    marks = {eqn.inputs[0]: eqn.outputs[0] for eqn in eqns if not places.isdisjoint(eqn.outputs)}
    left = [eqn for eqn in eqns if places.isdisjoint(eqn.outputs)]
    rest = [_without_inside(eqn, marks) if eqn.primitive is checkpoint else eqn for eqn in left]
    rest = [eqn.replace(inputs=tuple(read(marks, a) for a in eqn.inputs)) for eqn in rest]
    graph = dead_code(Graph((), (), tuple(rest), tuple(outputs)))
    used = {a for eqn in graph.eqns for a in eqn.inputs} | {slot.atom for slot in outputs}
    return list(graph.eqns), [v in used for v in given]


def _without_inside(eqn: Eqn, marks: Mapping[Var, Var]) -> Eqn:
    """A checkpoint that takes given values which it marks and hands out, instead of computing them."""
    graph = eqn.params["graph"]
    own = {e.outputs[0] for e in graph.eqns if e.primitive is keep}
    given = {slot.atom: marks[v] for v, slot in zip_strict(eqn.outputs, graph.outputs) if v in marks and slot.atom in own}
    left = [(v, slot) for v, slot in zip_strict(eqn.outputs, graph.outputs) if v not in marks or slot.atom not in own]
    eqns, used = without(graph.eqns, list(given), [slot for _, slot in left])
    inputs = (*graph.inputs, *(Input(v, InRole.RESIDUAL) for v in compress(given, used)))
    inner = graph.replace(inputs=inputs, eqns=tuple(eqns), outputs=tuple(slot for _, slot in left))
    outer = (*eqn.inputs, *compress(given.values(), used))
    return eqn.replace(params={**eqn.params, "graph": inner}, inputs=outer, outputs=tuple(v for v, _ in left))


def settle_marks(graph: Graph) -> Graph:
    """Take marks out of a flat graph: names, and `keep` except where a forward side keeps what it computes.

    What stays marked is read by the backward side alone; the forward side reads the value itself, and so do the passes that simplify it.
    """
    marks = [eqn for eqn in graph.eqns if eqn.primitive.family == "mark"]
    if not marks:
        return graph
    plain: dict[Var, Atom] = {}
    for eqn in marks:
        plain[eqn.outputs[0]] = read(plain, eqn.inputs[0])
    there = {*graph.in_vars, *(v for v, _ in graph.consts), *(read(plain, a) for a in graph.out_atoms)}
    stays: dict[tuple[Atom, Mark], Eqn] = {}  # a value is kept once
    mark_of: dict[Var, Eqn] = {}
    for eqn in marks:
        value = plain[eqn.outputs[0]]
        if eqn.inputs[0] in mark_of:
            mark_of[eqn.outputs[0]] = mark_of[eqn.inputs[0]]
        elif (
            eqn.primitive is keep and eqn.mark is not None and eqn.mark.phase == "forward" and isinstance(value, Var) and value not in there
        ):
            mark_of[eqn.outputs[0]] = stays.setdefault((value, eqn.mark), eqn.replace(inputs=(value,)))

    def seen_by(eqn: Eqn, atom: Atom) -> Atom:
        mark = mark_of.get(atom)
        return read(plain, atom) if mark is None or mark.mark == eqn.mark else mark.outputs[0]

    eqns = []
    for eqn in graph.eqns:
        if eqn.primitive.family != "mark":
            eqns.append(eqn.replace(inputs=tuple(seen_by(eqn, a) for a in eqn.inputs)))
        elif eqn.outputs[0] in mark_of and mark_of[eqn.outputs[0]].outputs == eqn.outputs:
            eqns.append(mark_of[eqn.outputs[0]])
    return graph.replace(eqns=tuple(eqns), outputs=graph.outputs_in(plain))
