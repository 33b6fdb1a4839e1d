"""Lowering: a graph becomes a program of the loop IR. The pipeline, one step per line; the work is done in the other modules."""

from __future__ import annotations

from functx import shapes
from functx.backend import write_map
from functx.backends.loops.analysis import analyse
from functx.backends.loops.build import build_kernel
from functx.backends.loops.clusters import Group, make_groups
from functx.backends.loops.nodes import Accumulate, Call, Copy, Kernel, MatMul, Place, Program, Sort, Step, Storage
from functx.backends.loops.plan import Planner
from functx.backends.loops.roots import Analysis, CallRoot, SortRoot, Target
from functx.backends.loops.schedule import in_order
from functx.errors import BackendError
from functx.ir import Atom, Graph


def lower(graph: Graph, target: Target) -> Program:
    """The program of a graph.

    Raises:
      BackendError: a size is symbolic; such graphs are not compiled.
    """
    _check_static(graph)
    analysis = analyse(graph, target)
    steps = [(_step(analysis, group), group) for group in make_groups(analysis)]
    steps = [(step, group) for step, group in steps if not _is_empty(step)]
    steps += [(Copy(result, source), Group(None, (), [], [])) for result, source in analysis.repeats]
    steps = in_order(steps, analysis.written)
    constants = [v for v, _ in graph.consts]
    writes = write_map(graph)
    places = {v: Storage(Place.INPUT, writes[k]) if k in writes else Storage(Place.OUTPUT, k) for k, v in enumerate(analysis.results)}
    planned, storage, workspace, lives = Planner(steps, [*graph.in_vars, *constants], places, analysis.written).run()
    storage.update({v: Storage(Place.INPUT, k) for k, v in enumerate(graph.in_vars)})
    storage.update({v: Storage(Place.CONSTANT, k) for k, v in enumerate(constants)})
    return Program(planned, storage, graph, analysis.results, workspace, lives)


def _check_static(graph: Graph) -> None:
    atoms: list[Atom] = [*graph.in_vars, *(v for eqn in graph.eqns for v in eqn.outputs)]
    if not all(shapes.is_static(atom.aval.shape) for atom in atoms):
        raise BackendError("this graph has symbolic sizes", why="compiled code is specialized to sizes", fix="use backend='reference'")


def _step(analysis: Analysis, group: Group) -> Step:
    if group.form is not None:
        return build_kernel(analysis, group)
    root = group.roots[0]
    if isinstance(root, CallRoot):
        return Call(root.eqn, root.inputs, root.outputs)
    if isinstance(root, SortRoot):
        return Sort(root.inputs, root.outputs, root.order, root.rows, root.n, root.num_keys, root.top, (root.eqn,))
    return MatMul(root.var, root.x, root.y, root.sizes, (root.eqn,))


def _is_empty(step: Step) -> bool:
    """Whether a step writes nothing and checks nothing. (A reduction over no elements does write.)"""
    if not isinstance(step, Kernel) or any(v.size == 0 for v in step.outer):
        return isinstance(step, Kernel)
    idle = (any(v.size == 0 for v in s.axes) and not any(isinstance(e, Accumulate) for e in s.effects) for s in step.stages)
    return all(idle)
