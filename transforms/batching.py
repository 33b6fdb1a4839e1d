"""Batching: emit a graph with an extra leading axis on the values that depend on batched inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functx.ir import Atom, Graph, Var, read
from functx.primitive import Emitter
from functx.util import zip_strict


def emit_vmap(
    b: Emitter, graph: Graph, atoms: Sequence[Atom], batched: Sequence[bool], size: Any
) -> tuple[list[Atom], list[bool], dict[Var, Atom]]:
    """Emit ``graph`` over lanes. Batched atoms have the lane axis in front; others are shared by all lanes and stay as they are."""
    env = b.enter(graph, atoms)
    lanes: set[Var] = {v for v, is_batched in zip_strict(graph.in_vars, batched) if is_batched}
    for eqn in graph.eqns:
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        flags = [a in lanes for a in eqn.inputs]
        if not any(flags):
            b.append(eqn, env)
            continue
        if eqn.primitive.batch is None:
            raise eqn.primitive.missing("batch")
        outs, out_flags = eqn.primitive.batch(b, [read(env, a) for a in eqn.inputs], flags, size, **eqn.params)
        env.update(zip_strict(eqn.outputs, outs))
        lanes.update(v for v, flag in zip_strict(eqn.outputs, out_flags) if flag)
    return [read(env, a) for a in graph.out_atoms], [a in lanes for a in graph.out_atoms], env
