"""Batching: emit a graph with an extra leading axis on the values that depend on batched inputs.

Effects happen as in a Python loop over the lanes: all of one lane before those of the next. Where a lane has more than one, lanes run one
after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functx import effects
from functx.ir import Atom, Graph, Output, Var, read
from functx.ops.scan import over_lanes
from functx.primitive import Emitter
from functx.transforms.simplify import dead_code
from functx.util import zip_strict


def emit_vmap(
    b: Emitter, graph: Graph, atoms: Sequence[Atom], batched: Sequence[bool], size: Any
) -> tuple[list[Atom], list[bool], dict[Var, Atom]]:
    """Emit ``graph`` over lanes. Batched atoms have the lane axis in front; others are shared by all lanes and stay as they are."""
    if graph.effect and effects.count(graph) > 1 and not effects.contains(graph, lambda e: e.primitive.family == "collective"):
        return _one_after_the_other(b, graph, atoms, batched, size)
    env = b.enter(graph, atoms)
    lanes: set[Var] = {v for v, is_batched in zip_strict(graph.in_vars, batched) if is_batched}
    for eqn in graph.eqns:
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        flags = [a in lanes for a in eqn.inputs]
        if not any(flags) and not eqn.effect:
            b.append(eqn, env)
            continue
        if eqn.primitive.batch is None:
            raise eqn.primitive.missing("batch")
        outs, out_flags = eqn.primitive.batch(b, [read(env, a) for a in eqn.inputs], flags, size, **eqn.params)
        env.update(zip_strict(eqn.outputs, outs))
        lanes.update(v for v, flag in zip_strict(eqn.outputs, out_flags) if flag)
    return [read(env, a) for a in graph.out_atoms], [a in lanes for a in graph.out_atoms], env


def _one_after_the_other(
    b: Emitter, graph: Graph, atoms: Sequence[Atom], batched: Sequence[bool], size: Any
) -> tuple[list[Atom], list[bool], dict[Var, Atom]]:
    """A loop over the lanes. What all of them share is computed once, without effects."""
    lanes: set[Atom] = {v for v, is_batched in zip_strict(graph.in_vars, batched) if is_batched}
    common = []
    for eqn in graph.eqns:
        if any(a in lanes for a in eqn.inputs) or effects.gives_values(eqn):
            lanes.update(eqn.outputs)
        else:
            common.append(eqn)
    flags = [a in lanes for a in graph.out_atoms]
    stacked = over_lanes(b, atoms, batched, size, graph.replace(outputs=tuple(Output(a) for a in graph.out_atoms)))
    shared = graph.replace(eqns=tuple(common), outputs=tuple(Output(a) for a, flag in zip_strict(graph.out_atoms, flags) if not flag))
    once = iter(b.inline(dead_code(effects.silent(shared)), atoms) if shared.outputs else ())
    env = dict(zip_strict(graph.in_vars, atoms))
    return [out if flag else next(once) for out, flag in zip_strict(stacked, flags)], flags, env
