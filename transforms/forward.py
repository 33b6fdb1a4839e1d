"""Forward mode: emit a graph together with the tangents of its values. None is a tangent known to be zero."""

from __future__ import annotations

from collections.abc import Sequence

from functx.dtypes import is_inexact
from functx.ir import Atom, Eqn, Graph, Var, read
from functx.primitive import Emitter
from functx.transforms.reverse import scale
from functx.util import zip_strict


def emit_jvp(
    b: Emitter, graph: Graph, atoms: Sequence[Atom], tangents: Sequence[Atom | None]
) -> tuple[list[Atom], list[Atom | None], dict[Var, Atom]]:
    """Emit ``graph`` and its tangents; returns results, their tangents, and the map from the graph's variables to the builder's."""
    env = b.enter(graph, atoms)
    moving: dict[Var, Atom] = {v: t for v, t in zip_strict(graph.in_vars, tangents) if t is not None}
    for eqn in graph.eqns:
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        given = [moving.get(a) for a in eqn.inputs]
        if all(t is None for t in given) or not eqn.primitive.differentiable:
            b.append(eqn, env)
            continue
        for var, tangent in zip_strict(eqn.outputs, jvp_equation(b, eqn, env, given)):
            if tangent is not None and is_inexact(var.aval.dtype):
                moving[var] = tangent
    return [read(env, a) for a in graph.out_atoms], [moving.get(a) for a in graph.out_atoms], env


def jvp_equation(b: Emitter, eqn: Eqn, env: dict[Var, Atom], tangents: Sequence[Atom | None]) -> Sequence[Atom | None]:
    """Emit one equation and the tangents of its results, from the one rule that its primitive has."""
    primitive, params, ins = eqn.primitive, eqn.params, [read(env, a) for a in eqn.inputs]
    if primitive.joint_jvp is not None:
        outs, out_tangents = primitive.joint_jvp(b, ins, tangents, **params)
        env.update(zip_strict(eqn.outputs, outs))
        return out_tangents
    b.append(eqn, env)
    outs = [env[v] for v in eqn.outputs]
    if primitive.partials is not None:
        total: Atom | None = None
        for partial, t in zip_strict(primitive.partials, tangents):
            if t is not None:
                total = b.add_cotangents(total, scale(b, t, partial, outs[0], ins, params))
        return [total]
    if primitive.transpose is not None and primitive.jvp is None:
        return [_linear(b, eqn, ins, tangents)]
    if primitive.jvp is None:
        raise primitive.missing("jvp")
    return primitive.jvp(b, outs, ins, tangents, **params)


def _linear(b: Emitter, eqn: Eqn, ins: Sequence[Atom], tangents: Sequence[Atom | None]) -> Atom | None:
    """A linear primitive is its own derivative; a bilinear one is so in each operand."""
    primitive = eqn.primitive
    if not is_inexact(eqn.outputs[0].aval.dtype):
        return None
    if primitive.bilinear:
        total: Atom | None = None
        for i, t in enumerate(tangents):
            if t is not None:
                (term,) = b.bind(primitive, [*ins[:i], t, *ins[i + 1 :]], eqn.params)
                total = b.add_cotangents(total, term)
        return total
    operands = [
        (b.zeros_like(x) if t is None else t) if primitive.is_linear_in(i) else x for i, (x, t) in enumerate(zip_strict(ins, tangents))
    ]
    (out,) = b.bind(primitive, operands, eqn.params)
    return out
