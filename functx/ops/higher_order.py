"""Primitives with sub-graphs: call, checkpoint, custom_jvp, custom_vjp. And two marks inside the graphs of checkpoints: name, keep.

Their rules receive the running interpreter as ``b.interpreter`` and apply its ``jvp``, ``vjp``, ``vmap`` and ``transpose`` to the
sub-graphs.
All are evaluated as their ``graph`` and replaced by it before a graph is compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from functx.effects import contains, gives_values
from functx.errors import CustomRuleError
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Atom, Graph, Output, OutRole, Var
from functx.ops.families import elementwise
from functx.primitive import Emitter, Primitive
from functx.util import split_list

# What stands for the rule inside a call of the same rule within its own fwd, bwd or jvp graph.
SELF = "self"

_remat_ids = itertools.count(1)


def _evaluate(*arrays: Any, graph: Graph, **_: Any) -> Sequence[Any]:
    return eval_graph(graph, arrays)


def _out_types(*avals: AbstractArray, graph: Graph, **_: Any) -> Sequence[AbstractArray]:
    return [AbstractArray(a.shape, a.dtype) for a in graph.out_avals]


def _higher_order(name: str, **rules: Any) -> Primitive:
    return Primitive(name, _evaluate, _out_types, family="higher-order", multiple=True, flops=_flops, **rules)


def _flops(*avals: AbstractArray, graph: Graph, **_: Any) -> int:
    return sum(e.primitive.flops(*(a.aval for a in e.inputs), **e.params) for e in graph.eqns)


def _nonzero(tangents: Sequence[Atom | None]) -> tuple[list[bool], list[Atom]]:
    return [t is not None for t in tangents], [t for t in tangents if t is not None]


def _spread(present: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """``values`` in the places where ``present``, None elsewhere."""
    it = iter(values)
    return [next(it) if p else None for p in present]


def _apply_jvp(name: str) -> Callable[..., Any]:
    """The forward-mode rule of a primitive that is just a wrapped graph: wrap the graph's jvp."""

    def rule(b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, graph: Graph, **params: Any) -> Any:
        mask, given = _nonzero(tangents)
        joint, out_mask = b.interpreter.jvp(graph, mask)
        results = getattr(b, name)(*ins, *given, graph=joint, **params)
        outs, out_tangents = split_list(results, len(graph.outputs))
        return outs, _spread(out_mask, out_tangents)

    return rule


def _apply_batch(name: str) -> Callable[..., Any]:
    """Likewise for vmap."""

    def rule(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, graph: Graph, **params: Any) -> Any:
        mapped, out_batched = b.interpreter.vmap(graph, batched, size)
        return getattr(b, name)(*ins, graph=mapped, **params), out_batched

    return rule


def _call_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph, name: str, inline: bool = True) -> Any:
    """See through a call, unless it is kept apart: then make one of its forward and one of its backward side."""
    if inline:
        return b.interpreter.pullback(b, graph, ins, active)
    forward, backward, in_mask, out_mask = b.interpreter.split(graph, active)
    outs, residuals = split_list(b.call(*ins, graph=forward, name=name, inline=False), len(graph.outputs))

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        full = [b.zeros_like(o) if ct is None else ct for o, ct, flag in zip(outs, cts, out_mask, strict=True) if flag]
        return _spread(in_mask, b.call(*residuals, *full, graph=backward, name=f"{name} backward", inline=False))

    return outs, pull


# call(*ins; graph, name, inline=True): a nested jit. Differentiation sees through it unless inline is False.
call = _higher_order("call", joint_jvp=_apply_jvp("call"), vjp=_call_vjp, batch=_apply_batch("call"))


def _mark(name: str, **facts: Any) -> Primitive:
    """An identity that says something about its operand."""
    return elementwise(name, lambda x, **_: x, (1,), linear=(0,), family="mark", result=lambda dtype, **_: dtype, flops=_no_flops, **facts)


def _no_flops(*avals: AbstractArray, **params: Any) -> int:
    return 0


# name(x; name): x, by a name that policies of checkpoints know.
named = _mark("name", views=True)

# keep(x; of): x, which the backward side of the enclosing checkpoint is given where it needs it: a policy has allowed it. What x is ("sin",
# "name 'h'") is for the reader.
keep = _mark("keep", recompute="never")


def handing_over(graph: Graph, values: Sequence[Var]) -> Graph:
    """The graph with these values of it among its outputs."""
    present = set(graph.out_atoms)
    return graph.replace(outputs=(*graph.outputs, *(Output(v, OutRole.RESIDUAL) for v in values if v not in present)))


def _checkpoint_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph) -> Any:
    """Hand inputs, and what is to be kept, to the backward pass. It computes the rest again, under an id that keeps CSE from undoing it.

    Of the values to be kept it takes those that it reads; the others are results without use.
    """
    if contains(graph, gives_values):  # what an effect returned cannot be computed again: everything is kept
        return b.interpreter.pullback(b, graph, ins, active)
    kept = [eqn.outputs[0] for eqn in graph.eqns if eqn.primitive is keep]
    handing = handing_over(graph, kept)
    results = b.checkpoint(*ins, graph=handing)
    outs, result_of = results[: len(graph.outputs)], dict(zip(handing.out_atoms, results, strict=True))
    values = [result_of[v] for v in kept]

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        mask, given = _nonzero(cts)
        gradient, in_mask, read = b.interpreter.vjp(graph, active, mask, kept)
        outer, b.remat = b.remat, next(_remat_ids)
        in_cts = b.checkpoint(*ins, *itertools.compress(values, read), *given, graph=gradient)
        b.remat = outer
        return _spread(in_mask, in_cts)

    return outs, pull


# checkpoint(*ins; graph): save the inputs and what is marked by `keep`, recompute the rest. The equation of a recomputation has a remat id.
checkpoint = _higher_order(
    "checkpoint", joint_jvp=_apply_jvp("checkpoint"), vjp=_checkpoint_vjp, batch=_apply_batch("checkpoint"), recompute="never"
)


# --- custom rules -------------------------------------------------------------------------------------------------------------------------
#
# Operands are the arguments, then ``captures`` values that the functions close over. ``rule`` names the rule uniquely. The graphs of a
# rule take
# all operands. SELF in place of a rule's graphs means "as the enclosing equation of this rule": `resolve` puts the graphs in.


def resolve(graph: Graph, rule: str, params: dict[str, Any]) -> Graph:
    """Give the equations of ``rule`` inside one of its own graphs the full rule."""
    eqns = []
    for eqn in graph.eqns:
        new = eqn.params
        if new.get("rule") == rule and SELF in new.values():
            new = params
        else:
            inner = {k: resolve(v, rule, params) for k, v in new.items() if isinstance(v, Graph)}
            new = {**new, **inner} if inner else new
        eqns.append(eqn if new is eqn.params else eqn.replace(params=new))
    return graph.replace(eqns=tuple(eqns))


def _calls_itself(graphs: Sequence[Any], rule: str) -> bool:
    """Whether equations of ``rule`` stand inside its own graphs, however deep."""
    eqns = [e for graph in graphs if isinstance(graph, Graph) for e in graph.eqns]
    return any((e.params.get("rule") == rule and SELF in e.params.values()) or _calls_itself(list(e.params.values()), rule) for e in eqns)


def _map_rule(
    b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, params: dict[str, Any], mapped: Callable[..., dict[str, Any]]
) -> tuple[list[Atom], dict[str, Any]]:
    """Operands and parameters of a rule over lanes; ``mapped(batched)`` gives the graphs.

    Calls of the rule inside itself stand for the mapped rule where they depend on the lane, whichever operands do so: then all operands
    are made to. Where they do not, they stand for the rule as it was.
    """
    rule, graphs = params["rule"], list(params.values())
    if SELF in graphs or _calls_itself(graphs, rule):
        ins = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
        batched = [True] * len(ins)
    new = {k: resolve(v, rule, params) if isinstance(v, Graph) else v for k, v in mapped(batched).items()}
    return list(ins), {**params, **new, "rule": f"{rule}@{size}"}


def _needs_graphs(rule: str, graph: Any) -> None:
    if graph == SELF:
        raise CustomRuleError(
            f"the derivative of {rule.split('#')[0]} is needed inside its own custom rule",
            why="that would take the rule which is being defined",
            fix="write that derivative out, or call a function of another name",
        )


def _check_captures(rule: str, active: Sequence[Any], captures: int) -> None:
    if captures and any(active[len(active) - captures :]):
        raise CustomRuleError(
            f"the custom rule of {rule.split('#')[0]} closes over a value that is being differentiated",
            why="its rule says nothing about the derivative with respect to that value",
            fix="pass the value as an argument, or wrap it in functx.stop_gradient",
        )


def _custom_jvp_rule(
    b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, graph: Graph, jvp: Graph, rule: str, captures: int
) -> Any:
    """``jvp`` takes the operands and a tangent for every argument, and gives results and tangents."""
    _check_captures(rule, [t is not None for t in tangents], captures)
    _needs_graphs(rule, jvp)
    params = {"graph": graph, "jvp": jvp, "rule": rule, "captures": captures}
    arguments = len(ins) - captures
    full = [b.zeros_like(x) if t is None else t for x, t in zip(ins[:arguments], tangents[:arguments], strict=True)]
    results = b.inline(resolve(jvp, rule, params), [*ins, *full])
    outs, out_tangents = split_list(results, len(graph.outputs))
    return outs, out_tangents


def _custom_jvp_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph, **params: Any) -> Any:
    """Reverse mode by transposing the rule's tangent map."""
    _check_captures(params["rule"], active, params["captures"])
    _needs_graphs(params["rule"], params["jvp"])
    jvp = resolve(params["jvp"], params["rule"], {"graph": graph, **params})
    arguments = len(ins) - params["captures"]
    outs = b.inline(jvp, [*ins, *map(b.zeros_like, ins[:arguments])], keep_marks=False)[: len(graph.outputs)]

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        wanted = [*active[:arguments], *(False,) * params["captures"]]
        tangent_map = jvp.replace(outputs=jvp.outputs[len(graph.outputs) :])
        return b.interpreter.transpose(b, tangent_map, list(ins), wanted[:arguments], cts) + [None] * params["captures"]

    return outs, pull


def _custom_jvp_batch(b: Emitter, ins: Any, batched: Any, size: Any, **params: Any) -> Any:
    graph, jvp = params["graph"], params["jvp"]

    def mapped(batched: Sequence[bool]) -> dict[str, Any]:
        new = {"graph": _mapped_everywhere(b, graph, batched, size)}
        if jvp != SELF:
            arguments = batched[: len(batched) - params["captures"]]
            new["jvp"] = _mapped_everywhere(b, jvp, [*batched, *arguments], size)
        return new

    ins, new = _map_rule(b, ins, batched, size, params, mapped)
    return b.custom_jvp(*ins, **new), [True] * len(graph.outputs)


def _mapped_everywhere(b: Emitter, graph: Graph, batched: Sequence[bool], size: Any) -> Graph:
    return b.interpreter.vmap(graph, batched, size, [True] * len(graph.outputs))[0]


custom_jvp = _higher_order("custom_jvp", joint_jvp=_custom_jvp_rule, vjp=_custom_jvp_vjp, batch=_custom_jvp_batch, rules=("jvp",))


def _custom_vjp_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph, fwd: Graph, bwd: Graph, **params: Any) -> Any:
    """``fwd`` takes the operands and gives results and residuals; ``bwd`` takes captures, residuals and cotangents, and gives the
    cotangents of the arguments in ``positions``."""
    _check_captures(params["rule"], active, params["captures"])
    _needs_graphs(params["rule"], fwd)
    whole = {"graph": graph, "fwd": fwd, "bwd": bwd, **params}
    results = b.inline(resolve(fwd, params["rule"], whole), ins, keep_marks=False)
    outs, residuals = split_list(results, len(graph.outputs))
    captured = ins[len(ins) - params["captures"] :]

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        full = [b.zeros_like(o) if ct is None else ct for o, ct in zip(outs, cts, strict=True)]
        given = b.inline(resolve(bwd, params["rule"], whole), [*captured, *residuals, *full], keep_marks=False)
        in_cts: list[Atom | None] = [None] * len(ins)
        for position, ct in zip(params["positions"], given, strict=True):
            in_cts[position] = ct
        return in_cts

    return outs, pull


def _custom_vjp_jvp(
    b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, graph: Graph, fwd: Graph, bwd: Graph, **params: Any
) -> Any:
    """Forward mode by transposing ``bwd``, which must be linear in its cotangents."""
    _check_captures(params["rule"], [t is not None for t in tangents], params["captures"])
    _needs_graphs(params["rule"], fwd)
    whole = {"graph": graph, "fwd": fwd, "bwd": bwd, **params}
    results = b.inline(resolve(fwd, params["rule"], whole), ins)
    outs, residuals = split_list(results, len(graph.outputs))
    captured = ins[len(ins) - params["captures"] :]
    given = [tangents[p] for p in params["positions"]]
    out_tangents = b.interpreter.transpose(b, resolve(bwd, params["rule"], whole), [*captured, *residuals], [True] * len(outs), given)
    return outs, out_tangents


def _custom_vjp_batch(b: Emitter, ins: Any, batched: Any, size: Any, **params: Any) -> Any:
    """Map all three graphs; the cotangent of an argument that all lanes share is the sum over lanes."""
    graph, fwd, bwd = params["graph"], params["fwd"], params["bwd"]

    def mapped(batched: Sequence[bool]) -> dict[str, Any]:
        new = {"graph": _mapped_everywhere(b, graph, batched, size)}
        if fwd != SELF:
            captured = batched[len(batched) - params["captures"] :]
            given = [True] * (len(bwd.inputs) - len(captured))
            new["fwd"] = _mapped_everywhere(b, fwd, batched, size)
            cotangents = _mapped_everywhere(b, bwd, [*captured, *given], size)
            new["bwd"] = b.interpreter.sum_leading(cotangents, [not batched[p] for p in params["positions"]])
        return new

    ins, new = _map_rule(b, ins, batched, size, params, mapped)
    return b.custom_vjp(*ins, **new), [True] * len(graph.outputs)


custom_vjp = _higher_order("custom_vjp", joint_jvp=_custom_vjp_jvp, vjp=_custom_vjp_vjp, batch=_custom_vjp_batch, rules=("fwd", "bwd"))
