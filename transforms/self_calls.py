"""Calls of a custom rule inside its own graphs, which stand for the whole rule: they are handed what any graph of the rule closes over.

That is known only when all of them are traced: the calls get it then, as further operands, through whatever loops and calls they stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functx.effects import contains
from functx.errors import CustomRuleError
from functx.ir import Atom, Eqn, Graph, Input, Var
from functx.ops.higher_order import SELF


def closing_over(graph: Graph, rule: str, primal: Graph, captured: Sequence[Var]) -> Graph:
    """A graph of the rule whose calls of itself have ``captured`` behind their arguments; ``primal`` is the rule's own graph."""
    if not captured or not contains(graph, lambda e: _is_self(e, rule)):
        return graph
    return graph.replace(eqns=tuple(_equation(eqn, rule, primal, captured) for eqn in graph.eqns))


def _is_self(eqn: Eqn, rule: str) -> bool:
    return eqn.params.get("rule") == rule and SELF in eqn.params.values()


def _equation(eqn: Eqn, rule: str, primal: Graph, captured: Sequence[Var]) -> Eqn:
    if _is_self(eqn, rule):
        arguments = eqn.inputs[: len(eqn.inputs) - eqn.params["captures"]]
        return eqn.replace(inputs=(*arguments, *captured), params={**eqn.params, "graph": primal, "captures": len(captured)})
    if not contains(Graph((), (), (eqn,), ()), lambda e: _is_self(e, rule)):
        return eqn
    graphs = {name: value for name, value in eqn.params.items() if isinstance(value, Graph)}
    if eqn.primitive.rules or ("conds" in eqn.params and contains(eqn.params["cond"], lambda e: _is_self(e, rule))):
        name = rule.split("#")[0]
        where = "the condition of a while_loop" if "conds" in eqn.params else "another custom rule"
        raise CustomRuleError(
            f"the rule of {name} calls {name} inside {where}, and closes over an array or a traced value",
            why="what it closes over would have to be handed on to there",
            fix="pass the value as an argument",
        )
    # Constants of a loop come before its carry; other equations hand all their operands on as they are.
    inner = eqn.params.get("consts", len(eqn.inputs))
    place = eqn.params.get("conds", 0) + inner
    more: dict[str, Any] = {"consts": inner + len(captured)} if "consts" in eqn.params else {}
    for name, body in graphs.items():
        if name != "cond":
            more[name] = _extended(body, min(inner, len(body.inputs)), rule, primal, captured)
    return eqn.replace(inputs=_inserted(eqn.inputs, place, captured), params={**eqn.params, **more})


def _extended(body: Graph, place: int, rule: str, primal: Graph, captured: Sequence[Var]) -> Graph:
    own = [Var(v.aval) for v in captured]
    return closing_over(body.replace(inputs=_inserted(body.inputs, place, [Input(v) for v in own])), rule, primal, own)


def _inserted(items: Sequence[Any], place: int, more: Sequence[Atom | Input]) -> tuple[Any, ...]:
    return (*items[:place], *more, *items[place:])
