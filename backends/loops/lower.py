"""Lowering: a graph becomes a program of the loop IR. The pipeline, one step per line; the work is done in the other modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from functx.backend import write_map
from functx.backends.loops.analysis import analyse
from functx.backends.loops.build import build_kernel
from functx.backends.loops.clusters import Group, make_groups
from functx.backends.loops.control import bodies, bound_sizes, first_numbers, input_sizes, is_native, shift, updating
from functx.backends.loops.nodes import Accumulate, Call, Copy, Kernel, Loop, MatMul, Place, Program, Selection, Sort, Step, Storage
from functx.backends.loops.plan import Planner
from functx.backends.loops.roots import Analysis, CallRoot, SortRoot, Target
from functx.backends.loops.schedule import in_order, needed
from functx.backends.loops.sizes import symbols
from functx.errors import BackendError
from functx.ir import Graph, Var


@dataclass(frozen=True)
class Known:
    """The names of sizes that are known: before the call, from its arguments, and before the program begins."""

    called: frozenset[str]
    begun: frozenset[str]


def lower(graph: Graph, target: Target, base: int = 0, known: Known | None = None) -> Program:
    """The program of a graph. ``base``: the number of its first equation. ``known``: of a body, the sizes that the enclosing program knows.

    Raises:
      BackendError: nothing tells a size, or a result has a size that is not known before.
    """
    if known is None:
        names = frozenset(input_sizes(graph))
        known = Known(names, names)
        _check_sizes(graph, names)
    bound = bound_sizes(graph, known.begun)
    inside = Known(known.called, known.begun | bound.keys())
    analysis = analyse(graph, target, {name: graph.eqns[number].outputs[0] for name, number in bound.items()})
    begins = list(first_numbers(graph, base))
    steps = [(_step(analysis, group, target, begins, inside), group) for group in make_groups(analysis)]
    steps = [(step, group) for step, group in steps if not _is_empty(step)]
    steps += [(Copy(result, source), Group(None, (), [], [])) for result, source in analysis.repeats]
    steps = in_order(needed(steps, [*analysis.results, *analysis.binders.values()]), analysis.written)
    constants = [v for v, _ in graph.consts]
    places = _result_places(graph, analysis, known)
    planned, storage, workspace, lives = Planner(steps, [*graph.in_vars, *constants], places, analysis.written, known.called).run()
    storage.update({v: Storage(Place.INPUT, k) for k, v in enumerate(graph.in_vars)})
    storage.update({v: Storage(Place.CONSTANT, k) for k, v in enumerate(constants)})
    program = Program(planned, storage, graph, analysis.results, workspace, lives, frozenset(bound))
    shift(program, base)
    return program


def _result_places(graph: Graph, analysis: Analysis, known: Known) -> dict[Var, Storage | None]:
    """Where results lie: new values of inputs in these, others where the caller wants them; None of a size that it does not know."""
    writes = write_map(graph)
    places: dict[Var, Storage | None] = {}
    for k, v in enumerate(analysis.results):
        told = symbols(v.aval.shape) <= known.begun
        places[v] = Storage(Place.INPUT, writes[k]) if k in writes else Storage(Place.OUTPUT, k) if told else None
    return places


def _check_sizes(graph: Graph, known: AbstractSet[str]) -> None:
    needed = symbols(d for a in graph.in_avals for d in a.shape)
    if unknown := sorted(needed - known):
        raise BackendError(
            f"the size {unknown[0]} is not known before the compiled code runs",
            why="no argument has an axis of that size",
            fix="use backend='reference'",
        )


def _step(analysis: Analysis, group: Group, target: Target, begins: Sequence[Mapping[str, int]], known: Known) -> Step:
    if group.form is not None:
        return build_kernel(analysis, group)
    root = group.roots[0]
    if isinstance(root, CallRoot):
        eqn = analysis.graph.eqns[root.eqn]
        if eqn.primitive.family == "selection":
            return Selection(root.eqn, root.inputs, root.outputs, root.eqn, eqn)
        if not is_native(eqn, target.max_constant):
            return Call(root.eqn, root.inputs, root.outputs, root.eqn)
        programs = {name: lower(updating(eqn, name, body), target, begins[root.eqn][name], known) for name, body in bodies(eqn).items()}
        return Loop(root.eqn, root.inputs, root.outputs, root.eqn, eqn, programs)
    if isinstance(root, SortRoot):
        return Sort(root.inputs, root.outputs, root.order, root.rows, root.n, root.num_keys, root.top, (root.eqn,))
    return MatMul(root.var, root.x, root.y, root.sizes, (root.eqn,))


def _is_empty(step: Step) -> bool:
    """Whether a step writes nothing and checks nothing. (A reduction over no elements does write.)"""
    if not isinstance(step, Kernel) or any(v.size == 0 for v in step.outer):
        return isinstance(step, Kernel)
    idle = (any(v.size == 0 for v in s.axes) and not any(isinstance(e, Accumulate) for e in s.effects) for s in step.stages)
    return all(idle)
