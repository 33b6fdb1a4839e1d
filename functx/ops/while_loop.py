"""while: a loop as long as a condition holds. Reverse mode runs it again on the way back, with stacks of residuals of a length that the
equation binds (a Dim), and a scan over them; both together are one ``whole``, so that they are mapped together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import UINT8
from functx.effects import contains, gives_values, silenced_params
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Atom, Graph, Input, Output, Var
from functx.ops.scan import (
    as_arrays,
    as_graph,
    grown,
    halves,
    invariant,
    narrowed,
    needed_inputs,
    over_lanes,
    pull_steps,
    reached,
    rebuilt,
    selected,
    swapped,
    with_tangents,
)
from functx.primitive import Emitter, Primitive
from functx.util import split_list, spread, zip_strict

_dims = itertools.count()


# while(*cond consts, *body consts, *carry; cond, graph, conds, consts, steps): the carry when cond no longer holds.
#
# ``steps``: None, or the Dim that the equation binds: then the body's further outputs are stacked, one entry per step.


def _while(*arrays: Any, cond: Graph, graph: Graph, conds: int, consts: int, steps: Any) -> list[np.ndarray]:
    asked, fixed, state = split_list(arrays, conds, consts)
    avals = graph.out_avals
    state = as_arrays(state, avals[: len(state)])
    rows: list[list[Any]] = []
    while eval_graph(cond, [*asked, *state])[0]:
        outs = eval_graph(graph, [*fixed, *state])
        state = as_arrays(outs[: len(state)], avals[: len(state)])
        rows.append(outs[len(state) :])
    stacks = [np.array([row[k] for row in rows], a.dtype).reshape(len(rows), *a.shape) for k, a in enumerate(avals[len(state) :])]
    return [*state, *stacks]


def _while_type(*avals: AbstractArray, cond: Graph, graph: Graph, conds: int, consts: int, steps: Any) -> list[AbstractArray]:
    carry = avals[conds + consts :]
    for a, slot in zip_strict([*avals[:conds], *carry], cond.inputs):
        shapes.check(a.same_array(slot.var.aval), f"while: {a} does not fit the condition's {slot.var.aval}")
    for a, slot in zip_strict(avals[conds:], graph.inputs):
        shapes.check(a.same_array(slot.var.aval), f"while: {a} does not fit the body's {slot.var.aval}")
    outs = [AbstractArray(a.shape, a.dtype) for a in graph.out_avals]
    for a, c in zip_strict(carry, outs[: len(carry)]):
        shapes.check(a.same_array(c), f"while: the carry goes in as {a} and comes out as {c}")
    return [*outs[: len(carry)], *(AbstractArray((steps, *a.shape), a.dtype) for a in outs[len(carry) :])]


def _while_jvp(
    b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, cond: Graph, graph: Graph, conds: int, consts: int, steps: Any
) -> tuple[Sequence[Atom], list[Atom | None]]:
    carries = len(ins) - conds - consts
    flags = grown([t is not None for t in tangents[conds:]], consts, lambda f: b.interpreter.jvp(graph, f)[1][:carries])
    joint, out_mask = b.interpreter.jvp(graph, flags)
    place = {i: len(graph.inputs) + k for k, i in enumerate(i for i, flag in enumerate(flags) if flag)}
    spans = (range(consts), range(consts, consts + carries))
    order = [j for span in spans for j in (*span, *(place[i] for i in span if i in place))]
    carried = flags[consts:]

    body = rebuilt(b, joint, order, with_tangents(carries, carried, out_mask))
    ignored = [Input(Var(a.aval)) for a, flag in zip_strict(ins[conds + consts :], carried) if flag]
    asked = cond.replace(inputs=(*cond.inputs, *ignored))
    given = [b.zeros_like(x) if t is None and flag else t for x, t, flag in zip_strict(ins[conds:], tangents[conds:], flags)]
    rest = ins[conds:]
    operands = [a for span in spans for a in (*(rest[i] for i in span), *(given[i] for i in span if flags[i]))]
    params = {"cond": asked, "graph": body, "conds": conds, "consts": consts + sum(flags[:consts]), "steps": steps}
    results = b.bind(while_, [*ins[:conds], *operands], params)
    state, dots, ys, y_dots = split_list(results, carries, sum(carried), len(graph.outputs) - carries)
    return [*state, *ys], [*spread(carried, dots), *spread(out_mask[carries:], y_dots)]


def _while_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], **params: Any) -> Any:
    """The loop as it is; on the way back the loop with stacks of residuals, and the scan over them, as one whole. Where it hands on what an
    effect returned, which happens once, the stacks are kept from the beginning.
    """
    if any(contains(params[side], gives_values) for side in ("cond", "graph")):
        return _with_residuals(b, ins, active, params)
    outs = b.bind(while_, ins, params)
    if params["steps"] is not None:
        return outs, _stacked_pull(b, ins, active, outs, params)

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        inner = b.interpreter.emitter()
        variables = [Var(AbstractArray(a.aval.shape, a.aval.dtype)) for a in ins]
        given = [Var(AbstractArray(ct.aval.shape, ct.aval.dtype)) if ct is not None else None for ct in cts]
        found = _pull_while(inner, variables, active, given, params)
        inputs = [Input(v) for v in (*variables, *(g for g in given if g is not None))]
        gradient = inner.build(inputs, [Output(ct) for ct in found if ct is not None])
        results = b.whole(*ins, *(ct for ct in cts if ct is not None), graph=gradient)
        return spread([ct is not None for ct in found], results)

    return outs, pull


def _stacked_pull(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], outs: Sequence[Atom], params: dict[str, Any]) -> Any:
    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        return _pull_while(b, ins, active, cts, params)

    return pull


def _pull_while(
    b: Emitter, ins: Sequence[Atom], active: Sequence[bool], cts: Sequence[Atom | None], params: dict[str, Any]
) -> list[Atom | None]:
    """Emit the loop with residuals and the loop back over them."""
    return _with_residuals(b, ins, active, silenced_params(params))[1](b, cts)  # it has run before


def _with_residuals(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], params: dict[str, Any]) -> Any:
    """Emit the loop with stacks of residuals; its results, and what emits the loop back over them."""
    graph, conds, consts = params["graph"], params["conds"], params["consts"]
    carries = len(ins) - conds - consts
    flags = grown(list(active[conds:]), consts, lambda f: reached(b, graph, f)[:carries])
    if b.interpreter.linear:  # what a loop counts its steps by must not depend on what it is linear in
        b.interpreter.split(params["cond"], [*active[:conds], *flags[consts:]])
    forward, backward, in_mask, out_mask = halves(b, graph, flags, [i >= consts for i in range(len(flags))])
    fixed, stepped = invariant(forward, len(graph.outputs), consts)
    inner = b.interpreter.emitter()
    outs = inner.inline(forward, forward.in_vars)
    step = inner.full((), 0, UINT8)  # one entry per step, whatever else is kept
    kept = [*outs[: len(graph.outputs)], *(outs[len(graph.outputs) + k] for k in stepped), step]
    body = inner.build(forward.inputs, [Output(a) for a in kept])
    steps = shapes.Dim(f"steps{next(_dims)}") if params["steps"] is None else params["steps"]
    results = b.bind(while_, ins, {**params, "graph": body, "steps": steps})
    done, stacks = split_list(results, len(graph.outputs))
    dummy = Var(AbstractArray((), UINT8))
    back = backward.replace(
        inputs=(*backward.inputs[: len(fixed) + len(stepped)], Input(dummy), *backward.inputs[len(fixed) + len(stepped) :])
    )
    options = {"length": steps, "reverse": False, "consts": consts, "carries": carries}
    sides = (back, in_mask, out_mask, fixed, [*stepped, len(fixed) + len(stepped)])

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        return [None] * conds + pull_steps(b, ins[conds:], done, cts, stacks, graph, sides, options)

    return done, pull


def _while_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, **params: Any) -> tuple[Sequence[Atom], list[bool]]:
    """Lanes that go on equally long run together; others one after the other."""
    graph, cond, conds, consts = params["graph"], params["cond"], params["conds"], params["consts"]
    carries = len(ins) - conds - consts
    flags = grown(list(batched[conds:]), consts, lambda f: b.interpreter.vmap(graph, f, size)[1][:carries])
    if any(batched[:conds]) or b.interpreter.vmap(cond, [*batched[:conds], *flags[consts:]], size)[1][0]:
        return over_lanes(b, ins, batched, size, _as_graph_of_lane(b, ins, batched, params)), [True] * len(graph.outputs)
    wanted = [*flags[consts:], *(False for _ in graph.outputs[carries:])]
    body, out_flags = b.interpreter.vmap(graph, flags, size, wanted)
    asked, _ = b.interpreter.vmap(cond, [*batched[:conds], *flags[consts:]], size)
    operands = [b.batched(x, flag, size) if now else x for x, flag, now in zip_strict(ins[conds:], batched[conds:], flags)]
    outs = b.bind(while_, [*ins[:conds], *operands], {**params, "cond": asked, "graph": body})
    return [swapped(b, o) if flag and k >= carries else o for k, (o, flag) in enumerate(zip_strict(outs, out_flags))], out_flags


def _as_graph_of_lane(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], params: dict[str, Any]) -> Graph:
    lanes = [Var(AbstractArray(a.aval.shape[1:], a.aval.dtype)) if flag else a for a, flag in zip_strict(ins, batched)]
    return as_graph(b, while_, lanes, params)


def _while_prune(
    ins: Sequence[Atom], used: Sequence[bool], *, cond: Graph, graph: Graph, conds: int, consts: int, steps: Any
) -> tuple[list[Atom], dict[str, Any], list[bool]]:
    carries = len(ins) - conds - consts
    asked = needed_inputs(cond, [True])
    wanted = [a or c for a, c in zip_strict(used[:carries], asked[conds:])] + list(used[carries:])
    while True:
        needed = needed_inputs(graph, wanted)
        carried = [a or c for a, c in zip_strict(wanted[:carries], needed[consts:])]
        if carried == wanted[:carries]:
            break
        wanted[:carries] = carried
    keep = [*asked[:conds], *needed[:consts], *wanted[:carries]]
    test = narrowed(cond, [*asked[:conds], *wanted[:carries]], [True])
    body = narrowed(graph, keep[conds:], wanted)
    params = {"cond": test, "graph": body, "conds": sum(asked[:conds]), "consts": sum(needed[:consts]), "steps": steps}
    return selected(ins, keep), params, wanted


while_ = Primitive(
    "while",
    _while,
    _while_type,
    joint_jvp=_while_jvp,
    vjp=_while_vjp,
    batch=_while_batch,
    prune=_while_prune,
    family="control",
    recompute="costly",
    multiple=True,
    binds="steps",
)
