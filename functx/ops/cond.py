"""cond: one of several branches, by number. Lanes that choose differently compute all branches where that is cheap and cannot fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Atom, Graph, Input, Output, Var
from functx.ops.scan import as_arrays, as_graph, narrowed, needed_inputs, over_lanes, rebuilt, selected, zeros
from functx.primitive import Emitter, Primitive
from functx.util import split_list, spread, zip_strict

# cond(index, *operands; branch0, branch1, ...): what the branch of that number gives, the nearest one if there is none.

CHEAP = 24  # branches of so many elementwise equations are all computed where lanes choose differently


def branches_of(params: dict[str, Any]) -> list[Graph]:
    """The branches in order."""
    return [params[f"branch{k}"] for k in range(len(params))]


def _numbered(branches: Sequence[Graph]) -> dict[str, Graph]:
    return {f"branch{k}": branch for k, branch in enumerate(branches)}


def _cond(index: Any, *arrays: Any, **params: Graph) -> list[np.ndarray]:
    branches = branches_of(params)
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return as_arrays(eval_graph(chosen, arrays), chosen.out_avals)


def _cond_type(index: AbstractArray, *avals: AbstractArray, **params: Graph) -> list[AbstractArray]:
    shapes.check(index.shape == () and index.dtype.kind in "iu", f"cond: the index must be a single integer, not {index}")
    branches = branches_of(params)
    for branch in branches:
        for a, slot in zip_strict(avals, branch.inputs):
            shapes.check(a.same_array(slot.var.aval), f"cond: {a} does not fit a branch's {slot.var.aval}")
        for a, c in zip_strict(branches[0].out_avals, branch.out_avals):
            shapes.check(a.same_array(c), f"cond: branches give {a} and {c}")
    return [AbstractArray(a.shape, a.dtype) for a in branches[0].out_avals]


def _cond_jvp(b: Emitter, ins: Sequence[Atom], tangents: Sequence[Atom | None], **params: Graph) -> Any:
    branches, nonzero = branches_of(params), [t is not None for t in tangents[1:]]
    joints = [b.interpreter.jvp(branch, nonzero) for branch in branches]
    count = len(branches[0].outputs)
    union = [any(mask[k] for _, mask in joints) for k in range(count)]

    def padded(joint: Graph, mask: list[bool]) -> Graph:
        def outputs(inner: Emitter, outs: list[Atom]) -> list[Atom]:
            dots = spread(mask, outs[count:])
            return [*outs[:count], *(inner.zeros_like(v) if t is None else t for v, t, u in zip_strict(outs[:count], dots, union) if u)]

        return rebuilt(b, joint, range(len(joint.inputs)), outputs)

    results = b.cond(*ins, *(t for t in tangents[1:] if t is not None), **_numbered([padded(*j) for j in joints]))
    return results[:count], spread(union, results[count:])


def _cond_vjp(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], **params: Graph) -> Any:
    """Each branch returns its residuals in slots that it shares with the others, zeros in those that it does not use."""
    branches, count = branches_of(params), len(ins) - 1
    halves = [b.interpreter.split(branch, active[1:]) for branch in branches]
    outputs = len(branches[0].outputs)
    if any(not shapes.is_static(a.aval.shape) for forward, *_ in halves for a in forward.out_atoms[outputs:]):
        return _choose_again(b, ins, active, branches)
    slots, places = _residual_slots([forward.out_atoms[outputs:] for forward, *_ in halves])

    def forward_side(forward: Graph, place: list[int]) -> Graph:
        def outs(inner: Emitter, values: list[Atom]) -> list[Atom]:
            own = dict(zip_strict(place, values[outputs:]))
            return [*values[:outputs], *(own[k] if k in own else zeros(inner, aval) for k, aval in enumerate(slots))]

        return rebuilt(b, forward, range(len(forward.inputs)), outs)

    results = b.cond(*ins, **_numbered([forward_side(h[0], place) for h, place in zip_strict(halves, places)]))
    outs, residuals = split_list(results, outputs)
    in_mask = [any(h[2][i] for h in halves) for i in range(count)]
    out_mask = halves[0][3]

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        full = [b.zeros_like(o) if ct is None else ct for o, ct, flag in zip_strict(outs, cts, out_mask) if flag]
        types = [AbstractArray(a.aval.shape, a.aval.dtype) for a in (*residuals, *full)]

        def backward_side(half: Any, place: list[int]) -> Graph:
            inner = b.interpreter.emitter()
            inputs = [Var(t) for t in types]
            pulled = inner.inline(half[1], [*(inputs[k] for k in place), *inputs[len(slots) :]])
            found = spread(half[2], pulled)
            atoms = [zeros(inner, ins[1 + i].aval) if found[i] is None else found[i] for i in range(count) if in_mask[i]]
            return inner.build([Input(v) for v in inputs], [Output(a) for a in atoms])

        graphs = _numbered([backward_side(h, place) for h, place in zip_strict(halves, places)])
        return [None, *spread(in_mask, b.cond(ins[0], *residuals, *full, **graphs))]

    return outs, pull


def _choose_again(b: Emitter, ins: Sequence[Atom], active: Sequence[bool], branches: Sequence[Graph]) -> Any:
    """Reverse mode where residuals have sizes of their own: keep the operands, and run the branch again on the way back."""
    outs = b.cond(*ins, **_numbered(branches))

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        given = [ct is not None for ct in cts]
        gradients = [b.interpreter.vjp(branch, active[1:], given)[:2] for branch in branches]
        in_mask = [any(mask[i] for _, mask in gradients) for i in range(len(ins) - 1)]

        def padded(gradient: Graph, mask: list[bool]) -> Graph:
            def outputs(inner: Emitter, values: list[Atom]) -> list[Atom]:
                found = spread(mask, values)
                return [zeros(inner, ins[1 + i].aval) if found[i] is None else found[i] for i in range(len(ins) - 1) if in_mask[i]]

            return rebuilt(b, gradient, range(len(gradient.inputs)), outputs)

        graphs = _numbered([padded(*g) for g in gradients])
        return [None, *spread(in_mask, b.cond(*ins, *(ct for ct in cts if ct is not None), **graphs))]

    return outs, pull


def _residual_slots(residuals: Sequence[Sequence[Atom]]) -> tuple[list[AbstractArray], list[list[int]]]:
    """The types of shared slots, and for each branch which slot each of its residuals takes."""
    slots: list[AbstractArray] = []
    places = []
    for atoms in residuals:
        free = list(range(len(slots)))
        place = []
        for atom in atoms:
            fit = next((k for k in free if slots[k].same_array(atom.aval)), None)
            if fit is None:
                fit = len(slots)
                slots.append(AbstractArray(atom.aval.shape, atom.aval.dtype))
            else:
                free.remove(fit)
            place.append(fit)
        places.append(place)
    return slots, places


def _cond_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, **params: Graph) -> tuple[Sequence[Atom], list[bool]]:
    """All lanes take one branch; or all branches are computed, if that is cheap; or lanes run one after the other."""
    branches = branches_of(params)
    mapped = [b.interpreter.vmap(branch, batched[1:], size) for branch in branches]
    if not batched[0]:
        union = [any(flags[k] for _, flags in mapped) for k in range(len(branches[0].outputs))]
        graphs = [b.interpreter.vmap(branch, batched[1:], size, union)[0] for branch in branches]
        return b.cond(*ins, **_numbered(graphs)), union
    everywhere = [True] * len(branches[0].outputs)
    if not all(map(_is_cheap, branches)):
        lanes = [Var(AbstractArray(a.aval.shape[1:], a.aval.dtype)) if flag else a for a, flag in zip_strict(ins, batched)]
        return over_lanes(b, ins, batched, size, as_graph(b, cond, lanes, params)), everywhere
    graphs = [b.interpreter.vmap(branch, batched[1:], size, everywhere)[0] for branch in branches]
    values = [b.inline(graph, ins[1:]) for graph in graphs]
    chosen = values[-1]
    for k in reversed(range(len(branches) - 1)):
        here = b.le(ins[0], b.full_like(ins[0], k))
        chosen = [b.select(b.broadcast(here, shape=v.aval.shape, dims=(0,)), v, c) for v, c in zip_strict(values[k], chosen)]
    return chosen, everywhere


def _is_cheap(graph: Graph) -> bool:
    """Whether a branch is a few elementwise operations that cannot fail and are not seen from outside."""
    plain = all(
        (e.primitive.family == "elementwise" or e.primitive.views) and e.primitive.checks(e.inputs, **e.params) is None and not e.effect
        for e in graph.eqns
    )
    return plain and len(graph.eqns) <= CHEAP


def _cond_prune(ins: Sequence[Atom], used: Sequence[bool], **params: Graph) -> tuple[list[Atom], dict[str, Graph], list[bool]]:
    branches = branches_of(params)
    needed = [any(flags) for flags in zip_strict(*(needed_inputs(branch, used) for branch in branches))]
    slim = [narrowed(branch, needed, used) for branch in branches]
    return [ins[0], *selected(ins[1:], needed)], _numbered(slim), list(used)


cond = Primitive(
    "cond",
    _cond,
    _cond_type,
    joint_jvp=_cond_jvp,
    vjp=_cond_vjp,
    batch=_cond_batch,
    prune=_cond_prune,
    family="control",
    recompute="costly",
    multiple=True,
)
