"""scan, and ``whole``, a graph that is mapped example by example; and what all control flow shares. Bodies are graphs in params.

Rules receive the running interpreter as ``b.interpreter`` and apply its ``jvp``, ``vmap`` and ``split`` to the bodies. Which parts of a
carry have a tangent, or differ between lanes, is found as a fixed point. Reverse mode keeps a stack of residuals per step and runs
backwards over it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import is_inexact
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, Output, Var
from functx.primitive import Emitter, Primitive
from functx.resize import Binders, symbols_of
from functx.util import split_list, spread, zip_strict


def as_arrays(values: Sequence[Any], avals: Sequence[AbstractArray]) -> list[np.ndarray]:
    """What the reference gave, NumPy scalars among it, as arrays of the given types."""
    return [np.asarray(v, a.dtype) for v, a in zip_strict(values, avals)]


def rebuilt(b: Emitter, graph: Graph, order: Sequence[int], outputs: Callable[[Emitter, list[Atom]], Sequence[Atom]]) -> Graph:
    """A graph with its inputs in another order and other outputs, made of its own."""
    inner = b.interpreter.emitter()
    outs = inner.inline(graph, graph.in_vars)
    return inner.build([graph.inputs[i] for i in order], [Output(a) for a in outputs(inner, outs)])


def zeros(b: Emitter, aval: AbstractArray) -> Atom:
    """Zeros of a type."""
    return b.full(aval.shape, 0, aval.dtype)


def reached(b: Emitter, graph: Graph, active: Sequence[bool]) -> list[bool]:
    """Which outputs a derivative flows into from the active inputs; exactly so for what must be linear, else possibly more."""
    if b.interpreter.linear:
        return b.interpreter.jvp(graph, active)[1]
    alive = {v for v, flag in zip_strict(graph.in_vars, active) if flag and is_inexact(v.aval.dtype)}
    for eqn in graph.eqns:
        if eqn.primitive.differentiable and any(a in alive for a in eqn.inputs):
            alive.update(v for v in eqn.outputs if is_inexact(v.aval.dtype))
    return [a in alive for a in graph.out_atoms]


def grown(flags: list[bool], start: int, more: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The least flags above the given ones that the carry, from ``start`` on, hands on to itself."""
    while True:
        found = list(more(flags))
        joined = [a or c for a, c in zip_strict(flags[start : start + len(found)], found)]
        if joined == flags[start : start + len(found)]:
            return flags
        flags = [*flags[:start], *joined, *flags[start + len(found) :]]


def needed_inputs(graph: Graph, wanted: Sequence[bool]) -> list[bool]:
    """Which inputs the wanted outputs of a graph depend on; effects are always wanted."""
    live: set[Atom] = {a for a, flag in zip_strict(graph.out_atoms, wanted) if flag}
    _kept(graph, live)
    return [v in live for v in graph.in_vars]


def _kept(graph: Graph, live: set[Atom]) -> list[Eqn]:
    """The equations that compute what is in ``live``, last first; what they read joins it."""
    kept, binders = [], Binders(graph.eqns)
    for eqn in reversed(graph.eqns):
        if eqn.effect or not live.isdisjoint(eqn.outputs) or binders.needs(eqn):
            live.update(eqn.inputs)
            binders.keep(eqn)
            kept.append(eqn)
    return kept


def narrowed(graph: Graph, inputs: Sequence[bool], outputs: Sequence[bool]) -> Graph:
    """A graph with some of its inputs and outputs, what these need, and all effects."""
    eqns = _kept(graph, {a for a, flag in zip_strict(graph.out_atoms, outputs) if flag})
    return graph.replace(
        inputs=tuple(selected(graph.inputs, inputs)), eqns=tuple(reversed(eqns)), outputs=tuple(selected(graph.outputs, outputs))
    )


def selected(items: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The items where the flag is set."""
    return [item for item, flag in zip_strict(items, flags) if flag]


# scan(*consts, *carry, *xs; graph, length, reverse, consts, carries): the carry after all steps, then ys stacked.


def _scan(*arrays: Any, graph: Graph, length: Any, reverse: bool, consts: int, carries: int) -> list[np.ndarray]:
    fixed, state, xs = split_list(arrays, consts, carries)
    steps = xs[0].shape[0] if xs else int(length)
    avals = graph.out_avals
    ys = [np.empty((steps, *a.shape), a.dtype) for a in avals[carries:]]
    state = as_arrays(state, avals[:carries])
    for k in reversed(range(steps)) if reverse else range(steps):
        outs = eval_graph(graph, [*fixed, *state, *(x[k] for x in xs)])
        state = as_arrays(outs[:carries], avals[:carries])
        for y, value in zip_strict(ys, outs[carries:]):
            y[k] = value
    return [*state, *ys]


def _scan_type(*avals: AbstractArray, graph: Graph, length: Any, reverse: bool, consts: int, carries: int) -> list[AbstractArray]:
    steps = [AbstractArray(a.shape[1:], a.dtype) for a in avals[consts + carries :]]
    shapes.check(all(shapes.fit(a.shape[:1], (length,)) for a in avals[consts + carries :]), f"scan: all xs must have {length} elements")
    for a, slot in zip_strict([*avals[: consts + carries], *steps], graph.inputs):
        shapes.check(a.same_array(slot.var.aval), f"scan: {a} does not fit the body's {slot.var.aval}")
    outs = [AbstractArray(a.shape, a.dtype) for a in graph.out_avals]
    for a, c in zip_strict(avals[consts : consts + carries], outs[:carries]):
        shapes.check(a.same_array(c), f"scan: the carry goes in as {a} and comes out as {c}")
    return [*outs[:carries], *(AbstractArray((length, *a.shape), a.dtype) for a in outs[carries:])]


def with_tangents(carries: int, carried: Sequence[bool], out_mask: Sequence[bool]) -> Callable[[Emitter, list[Atom]], list[Atom]]:
    """The outputs of a body that moves: the carry, its tangents (zeros where it has none by itself), the other results, and theirs."""

    def outputs(inner: Emitter, outs: list[Atom]) -> list[Atom]:
        values, moved = outs[: len(out_mask)], iter(outs[len(out_mask) :])
        dots = [next(moved) if flag else None for flag in out_mask]
        own = [inner.zeros_like(v) if t is None else t for v, t, flag in zip_strict(values[:carries], dots[:carries], carried) if flag]
        return [*values[:carries], *own, *values[carries:], *(t for t in dots[carries:] if t is not None)]

    return outputs


def _scan_jvp(
    b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, graph: Graph, consts: int, carries: int, **params: Any
) -> tuple[Sequence[Atom], list[Atom | None]]:
    flags = grown([t is not None for t in tangents], consts, lambda f: b.interpreter.jvp(graph, f)[1][:carries])
    joint, out_mask = b.interpreter.jvp(graph, flags)
    moving = [i for i, flag in enumerate(flags) if flag]
    place = {i: len(graph.inputs) + k for k, i in enumerate(moving)}
    spans = (range(consts), range(consts, consts + carries), range(consts + carries, len(ins)))
    order = [j for span in spans for j in (*span, *(place[i] for i in span if i in place))]
    carried = [flags[consts + k] for k in range(carries)]

    body = rebuilt(b, joint, order, with_tangents(carries, carried, out_mask))
    given = [b.zeros_like(x) if t is None and flag else t for x, t, flag in zip_strict(ins, tangents, flags)]
    operands = [a for span in spans for a in (*(ins[i] for i in span), *(given[i] for i in span if flags[i]))]
    more = sum(carried)
    results = b.scan(*operands, graph=body, consts=consts + sum(flags[:consts]), carries=carries + more, **params)
    state, dots, ys, y_dots = split_list(results, carries, more, len(graph.outputs) - carries)
    return [*state, *ys], [*spread(carried, dots), *spread(out_mask[carries:], y_dots)]


def _scan_batch(
    b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, graph: Graph, consts: int, carries: int, **params: Any
) -> tuple[list[Atom], list[bool]]:
    flags = grown(list(batched), consts, lambda f: b.interpreter.vmap(graph, f, size)[1][:carries])
    wanted = [*flags[consts : consts + carries], *(False for _ in graph.outputs[carries:])]
    body, out_flags = b.interpreter.vmap(graph, flags, size, wanted)
    operands = []
    for i, (x, flag, now) in enumerate(zip_strict(ins, batched, flags)):
        x = b.batched(x, flag, size) if now else x
        operands.append(swapped(b, x) if now and i >= consts + carries else x)
    outs = b.scan(*operands, graph=body, consts=consts, carries=carries, **params)
    return [swapped(b, o) if flag and k >= carries else o for k, (o, flag) in enumerate(zip_strict(outs, out_flags))], out_flags


def swapped(b: Emitter, x: Atom) -> Atom:
    """The first two axes, of lanes and of steps, in the other order."""
    return b.transpose(x, perm=(1, 0, *range(2, x.aval.ndim)))


def _scan_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph, **params: Any) -> Any:
    """Forward with residuals, one stack for each that differs between steps; backward over the stacks."""
    consts, carries = params["consts"], params["carries"]
    flags = grown(list(active), consts, lambda f: reached(b, graph, f)[:carries])
    priced = [consts <= i < consts + carries for i in range(len(ins))]
    forward, backward, in_mask, out_mask = halves(b, graph, flags, priced)
    fixed, stepped = invariant(forward, len(graph.outputs), consts)
    slices = dict(zip_strict(forward.in_vars[consts + carries :], ins[consts + carries :]))
    residuals = [forward.outputs[len(graph.outputs) + k] for k in stepped]
    body = forward.replace(outputs=(*forward.outputs[: len(graph.outputs)], *(r for r in residuals if r.atom not in slices)))
    results = b.scan(*ins, graph=body, **params)
    outs, made = split_list(results, len(graph.outputs))
    rest = iter(made)
    stacks = [slices[r.atom] if r.atom in slices else next(rest) for r in residuals]  # what comes in per step is a stack already

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        return pull_steps(b, ins, outs, cts, stacks, graph, (backward, in_mask, out_mask, fixed, stepped), params)

    return outs, pull


def halves(b: Emitter, graph: Graph, active: Sequence[bool], priced: Sequence[bool]) -> tuple[Graph, Graph, list[bool], list[bool]]:
    """A body as a forward and a backward side. Where the backward side has sizes that the body itself finds, steps have none in common:
    then what goes into a step is kept, and the step runs again on the way back.
    """
    forward, backward, in_mask, out_mask = b.interpreter.split(graph, active, priced)
    found = {eqn.params[eqn.primitive.binds] for eqn in (*graph.eqns, *forward.eqns) if eqn.params.get(eqn.primitive.binds) is not None}
    if symbols_of(backward).isdisjoint(s for d in found for s in d.expr.free_symbols):
        return forward, backward, in_mask, out_mask
    mask = [is_inexact(a.aval.dtype) for a in graph.out_atoms]
    backward, in_mask, _ = b.interpreter.vjp(graph, active, mask)
    return graph.replace(outputs=(*graph.outputs, *map(Output, graph.in_vars))), backward, in_mask, mask


def invariant(forward: Graph, outputs: int, consts: int) -> tuple[dict[int, int], list[int]]:
    """Residuals that are constants of the loop (by number, and which), and the numbers of the others."""
    number = {v: i for i, v in enumerate(forward.in_vars[:consts])}
    residuals = forward.out_atoms[outputs:]
    fixed = {k: number[a] for k, a in enumerate(residuals) if a in number}
    return fixed, [k for k in range(len(residuals)) if k not in fixed]


def pull_steps(
    b: Emitter, ins: Sequence[Atom], outs: Sequence[Atom], cts: Sequence[Atom | None], stacks: Sequence[Atom], graph: Graph, halves: Any,
    params: dict[str, Any],
) -> list[Atom | None]:  # fmt: skip
    """The loop over the steps in the other direction: it carries the cotangents of the carry and the sums of those of the constants."""
    backward, in_mask, out_mask, fixed, stepped = halves
    consts, carries = params["consts"], params["carries"]
    residuals = len(fixed) + len(stepped)
    ct_vars = dict(zip_strict([k for k, flag in enumerate(out_mask) if flag], backward.in_vars[residuals:]))
    floats = [k for k in range(carries) if out_mask[k]]
    summed = [i for i in range(consts) if in_mask[i]]
    sums = [Var(AbstractArray(ins[i].aval.shape, ins[i].aval.dtype)) for i in summed]
    y_cts = [k for k in range(carries, len(outs)) if out_mask[k] and cts[k] is not None]
    inner = b.interpreter.emitter()
    silent = {ct_vars[k]: zeros(inner, ct_vars[k].aval) for k in ct_vars if k >= carries and k not in y_cts}
    atoms = [silent.get(v, v) for v in backward.in_vars]
    pulled = iter(inner.inline(backward, atoms))
    in_cts = [next(pulled) if flag else None for flag in in_mask]
    states = [inner.zeros_like(ct_vars[k]) if in_cts[consts + k] is None else in_cts[consts + k] for k in floats]
    totals = [inner.add(total, in_cts[i]) for total, i in zip_strict(sums, summed)]
    xs = [i for i in range(consts + carries, len(ins)) if in_mask[i]]
    order = [*(backward.in_vars[k] for k in fixed), *(ct_vars[k] for k in floats), *sums]
    order += [*(backward.in_vars[k] for k in stepped), *(ct_vars[k] for k in y_cts)]
    rows = [*stacks, *(cts[k] for k in y_cts)]
    if not rows and not shapes.is_static((params["length"],)):  # the forward loop had something that told it the number of steps
        rows = [ins[consts + carries]]
        order.append(Var(AbstractArray(rows[0].aval.shape[1:], rows[0].aval.dtype)))
    body = inner.build([Input(v) for v in order], [Output(a) for a in (*states, *totals, *(in_cts[i] for i in xs))])
    start = [b.zeros_like(outs[k]) if cts[k] is None else cts[k] for k in floats]
    operands = [*(ins[fixed[k]] for k in fixed), *start, *(b.zeros_like(ins[i]) for i in summed), *rows]
    options = {"length": params["length"], "reverse": not params["reverse"]}
    results = b.scan(*operands, graph=body, consts=len(fixed), carries=len(floats) + len(summed), **options)
    state_cts, sum_cts, x_cts = split_list(results, len(floats), len(summed))
    found = dict(zip_strict(summed, sum_cts)) | {consts + k: ct for k, ct in zip_strict(floats, state_cts)} | dict(zip_strict(xs, x_cts))
    return [found.get(i) for i in range(len(ins))]


def _scan_prune(
    ins: Sequence[Atom], used: Sequence[bool], *, graph: Graph, consts: int, carries: int, **params: Any
) -> tuple[list[Atom], dict[str, Any], list[bool]]:
    wanted = list(used)
    while True:
        needed = needed_inputs(graph, wanted)
        carried = [a or c for a, c in zip_strict(wanted[:carries], needed[consts : consts + carries])]
        if carried == wanted[:carries]:
            break
        wanted[:carries] = carried
    keep = [*needed[:consts], *wanted[:carries], *needed[consts + carries :]]
    if params["length"] is None or not shapes.is_static((params["length"],)):
        keep[consts + carries :] = [True] * (len(keep) - consts - carries)  # they tell the number of steps
    body = narrowed(graph, keep, wanted)
    sizes = {"consts": sum(keep[:consts]), "carries": sum(wanted[:carries])}
    return selected(ins, keep), {**params, "graph": body, **sizes}, wanted


scan = Primitive(
    "scan",
    _scan,
    _scan_type,
    joint_jvp=_scan_jvp,
    vjp=_scan_vjp,
    batch=_scan_batch,
    prune=_scan_prune,
    family="control",
    recompute="costly",
    multiple=True,
)


# whole(*ins; graph): the graph, which is mapped one example after the other.


def _whole_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, graph: Graph) -> tuple[Sequence[Atom], list[bool]]:
    lanes = [Var(AbstractArray(a.aval.shape[1:], a.aval.dtype)) if flag else a for a, flag in zip_strict(ins, batched)]
    again = as_graph(b, whole, lanes, {"graph": graph})  # still a whole, for what maps these lanes in turn
    return over_lanes(b, ins, batched, size, again), [True] * len(graph.outputs)


def over_lanes(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, graph: Graph) -> Sequence[Atom]:
    """A graph applied to one lane after the other: a scan without carry."""
    order = sorted(range(len(ins)), key=lambda i: batched[i])
    body = graph.replace(inputs=tuple(graph.inputs[i] for i in order))
    operands = [ins[i] for i in order]
    return b.scan(*operands, graph=body, length=size, reverse=False, consts=len(ins) - sum(batched), carries=0)


def _whole_jvp(b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], *, graph: Graph) -> Any:
    joint, out_mask = b.interpreter.jvp(graph, [t is not None for t in tangents])
    results = b.whole(*ins, *(t for t in tangents if t is not None), graph=joint)
    outs, moved = split_list(results, len(graph.outputs))
    return outs, spread(out_mask, moved)


def _whole_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], *, graph: Graph) -> Any:
    outs = b.whole(*ins, graph=graph)

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        gradient, in_mask, _ = b.interpreter.vjp(graph, active, [ct is not None for ct in cts])
        return spread(in_mask, b.whole(*ins, *(ct for ct in cts if ct is not None), graph=gradient))

    return outs, pull


whole = Primitive(
    "whole",
    lambda *arrays, graph: eval_graph(graph, arrays),
    lambda *avals, graph: [AbstractArray(a.shape, a.dtype) for a in graph.out_avals],
    joint_jvp=_whole_jvp,
    vjp=_whole_vjp,
    batch=_whole_batch,
    family="control",
    recompute="costly",
    multiple=True,
)


def as_graph(b: Emitter, primitive: Primitive, ins: Sequence[Atom], params: dict[str, Any]) -> Graph:
    """One equation as a graph."""
    inner = b.interpreter.emitter()
    inputs = [Var(AbstractArray(a.aval.shape, a.aval.dtype)) for a in ins]
    outs = inner.bind(primitive, inputs, params)
    return inner.build([Input(v) for v in inputs], [Output(v) for v in outs])
