"""Replace call, checkpoint and custom-rule equations by their graphs: backends see none of them."""

from __future__ import annotations

from functx.ir import Graph, Var, read
from functx.primitive import Emitter
from functx.util import zip_strict


def inline_calls(graph: Graph) -> Graph:
    """The graph with all sub-graphs in line, however deep. Equations of a recomputation carry its id."""
    if not any(e.primitive.family == "higher-order" for e in graph.eqns):
        return graph
    b = Emitter()
    b.consts.update(graph.consts)
    env: dict[Var, object] = {}
    for eqn in graph.eqns:
        if eqn.primitive.family != "higher-order":
            b.append(eqn, env)
            continue
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        body = inline_calls(eqn.params["graph"])
        env.update(zip_strict(eqn.outputs, b.inline(body, [read(env, a) for a in eqn.inputs])))
        b.source = b.mark = b.remat = None
    return b.build(graph.inputs, [type(s)(read(env, s.atom), s.role, s.target, s.kind) for s in graph.outputs])
