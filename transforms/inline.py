"""Replace call, checkpoint and custom-rule equations by their graphs: backends see none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functx.ir import Atom, Eqn, Graph, Var, read
from functx.primitive import Emitter
from functx.util import zip_strict


def inline_calls(graph: Graph, reached: Sequence[bool] | None = None) -> Graph:
    """The graph with all sub-graphs in line, however deep. Equations of a recomputation carry its id.

    ``reached``: for each input whether what depends on it is wanted in line; the other equations stay, with the rules that they have.
    """
    if not any(e.primitive.family in ("higher-order", "control") for e in graph.eqns):
        return graph
    flags = [True] * len(graph.inputs) if reached is None else reached
    wanted = {v for v, flag in zip_strict(graph.in_vars, flags) if flag}
    b = Emitter()
    b.consts.update(graph.consts)
    env: dict[Var, Atom] = {}
    for eqn in graph.eqns:
        flags = [a in wanted for a in eqn.inputs]
        if any(flags):
            wanted.update(eqn.outputs)
        if eqn.primitive.family != "higher-order" or (reached is not None and not any(flags)):
            b.append(eqn if reached is not None and not any(flags) else inline_bodies(eqn), env)
            continue
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        body = inline_calls(eqn.params["graph"], None if reached is None else flags)
        # A reverse pass over the enclosing graph has overwritten the marks of what it differentiates.
        atoms = b.inline(body, [read(env, a) for a in eqn.inputs], keep_marks=eqn.mark is None)
        env.update(zip_strict(eqn.outputs, atoms))
        b.source = b.mark = b.remat = None
    return b.build(graph.inputs, graph.outputs_in(env))


def inline_bodies(eqn: Eqn) -> Eqn:
    """An equation of control flow with everything in line in its bodies."""
    return map_bodies(eqn, inline_calls) if eqn.primitive.family == "control" else eqn


def map_bodies(eqn: Eqn, f: Callable[[Graph], Graph]) -> Eqn:
    """An equation with its graphs replaced."""
    graphs = {name: f(value) for name, value in eqn.params.items() if isinstance(value, Graph)}
    changed = any(graph is not eqn.params[name] for name, graph in graphs.items())
    return eqn.replace(params={**eqn.params, **graphs}) if changed else eqn
