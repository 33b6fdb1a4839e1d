"""Replace call, checkpoint and custom-rule equations by their graphs: backends see none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functx.ir import Atom, Eqn, Graph, Var, read
from functx.primitive import Emitter
from functx.util import zip_strict


def inline_calls(graph: Graph, reached: Sequence[bool] | None = None, *, keep_rules: bool = False) -> Graph:
    """The graph with all sub-graphs in line, however deep. Equations of a recomputation carry its id.

    ``reached``: for each input whether what depends on it is wanted in line; the other equations stay, with the rules that they have.
    ``keep_rules``: equations with derivatives of their own stay, for a graph that will be differentiated again.
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
        stays = (reached is not None and not any(flags)) or (keep_rules and eqn.primitive.rules)
        if stays or eqn.primitive.family != "higher-order":
            b.append(eqn if stays else inline_bodies(eqn, keep_rules), env)
            continue
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        body = inline_calls(eqn.params["graph"], None if reached is None else flags, keep_rules=keep_rules)
        # A reverse pass over the enclosing graph has overwritten the marks of what it differentiates.
        atoms = b.inline(body, [read(env, a) for a in eqn.inputs], keep_marks=eqn.mark is None)
        env.update(zip_strict(eqn.outputs, atoms))
        b.source = b.mark = b.remat = None
    return b.build(graph.inputs, graph.outputs_in(env))


def inline_bodies(eqn: Eqn, keep_rules: bool) -> Eqn:
    """An equation of control flow with everything in line in its bodies."""
    control = eqn.primitive.family == "control"
    return map_bodies(eqn, lambda body: inline_calls(body, keep_rules=keep_rules)) if control else eqn


def map_bodies(eqn: Eqn, f: Callable[[Graph], Graph]) -> Eqn:
    """An equation with its graphs replaced."""
    graphs = {name: f(value) for name, value in eqn.params.items() if isinstance(value, Graph)}
    changed = any(graph is not eqn.params[name] for name, graph in graphs.items())
    return eqn.replace(params={**eqn.params, **graphs}) if changed else eqn
