"""The derivative of a staged function as a linear map kept for later: its graph, and the residuals that the evaluation left.

What vjp and linearize hand out, and what Jacobians are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import effects, shapes, tensors
from functx.dtypes import PYTHON_DTYPES, is_complex, is_inexact
from functx.errors import LeakedTracerError, StructureError
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, InRole, Mark, Output, OutRole, Var, read
from functx.ops import higher_order
from functx.primitive import Emitter
from functx.trace import Trace, Tracer, current_trace, where
from functx.transforms.boundary import execute, input_values, translate
from functx.transforms.differentiation import Differentiated, joint_graph_of, type_of
from functx.transforms.forward import jvp_equation
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.split import split_joint
from functx.transforms.staging import Result, Staged
from functx.util import zip_strict


@dataclass(frozen=True)
class LinearMap:
    """A linear map that can be applied any number of times.

    Attributes:
      graph: residuals, then the arguments, to the results.
      residuals: arrays, or atoms of ``parent``.
      parent: the trace in which it was made, if any.
      what: how messages call it.
    """

    graph: Graph
    residuals: Sequence[Any]
    parent: Trace | None
    what: str

    @property
    def arguments(self) -> list[Var]:
        """The variables that it is linear in."""
        return self.graph.in_vars[len(self.residuals) :]

    def held(self, trace: Trace | None) -> list[Any]:
        """The residuals as values of the present trace: its atoms, or arrays."""
        if trace is None:
            if self.parent is not None:
                raise LeakedTracerError(
                    f"{self.what} was called after {self.parent.transform} of {self.parent.name} had finished",
                    where=where(),
                    why="it was made there, and holds values that exist only while that function is traced",
                    fix="call it inside, or make it outside",
                )
            return list(self.residuals)
        return values_in(trace, self.residuals if self.parent is None else [self.parent.tracer(a) for a in self.residuals])

    def apply(self, given: Sequence[Any]) -> tuple[list[Any], Trace | None]:
        """The results for arrays or tracers of exactly the right types, as values of the present trace, which is returned too."""
        trace = current_trace()
        held = self.held(trace)
        return execute(self.graph, [*held, *values_in(trace, given)], trace), trace


def values_in(trace: Trace | None, values: Sequence[Any]) -> list[Any]:
    """Arrays and tracers as values of a trace: its atoms, or the arrays themselves."""
    return list(values) if trace is None else [trace.handle(v).atom for v in values]


def primary_tree(staged: Staged, has_aux: bool) -> Any:
    """The structure of the results that are differentiated: with ``has_aux`` those of the first of a pair."""
    if not has_aux:
        return staged.out_tree
    if staged.out_tree.type is not tuple or staged.out_tree.num_children != 2:
        raise StructureError(f"has_aux: {staged.trace.name} must return a pair", where=where(), fix="return out, aux")
    return staged.out_tree.children()[0]


def has_tangent(result: Result) -> bool:
    """Whether a result is a traced float or complex value."""
    return result.aval is not None and is_inexact(result.aval.dtype)


def constant_tangent(value: Any) -> Any:
    """The tangent of a result that is no traced value: zero for floats, None for all else."""
    if not isinstance(value, (np.ndarray, np.generic, *PYTHON_DTYPES)) or not is_inexact(np.asarray(value).dtype):
        return None
    return np.zeros(value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)(0)


def pullback_map(d: Differentiated, targets: Sequence[Result]) -> tuple[LinearMap, list[Any]]:
    """The map from cotangents of those targets that have one to those of the active inputs; and the staged graph's outputs."""
    cts = [(r.value, Var(AbstractArray(r.aval.shape, r.aval.dtype))) for r in targets if has_tangent(r)]
    joint, env = joint_graph_of(d.staged, d.active, cts, [ct for _, ct in cts])
    return _evaluated(d, joint, env, f"the pull-back of {d.staged.trace.name}", Mark(joint.region, "backward"))


def tangent_map(d: Differentiated, targets: Sequence[Result]) -> tuple[LinearMap, list[Any]]:
    """The map from tangents of the active inputs to those of the targets that have one; and the staged graph's outputs."""
    graph, b = d.staged.graph, INTERPRETER.emitter()
    tangents = [Var(v.aval) if flag else None for v, flag in zip_strict(graph.in_vars, d.active)]
    given = [t for t in tangents if t is not None]
    env = b.enter(graph, graph.in_vars)
    moving = emit_linearized(b, graph, env, dict(zip_strict(graph.in_vars, tangents)), set(given))
    atoms = [(r, graph.outputs[r.value].atom) for r in targets if has_tangent(r)]
    results = [Output(moving.get(a) or b.zeros_like(read(env, a)), OutRole.TANGENT, kind=r.aval.kind) for r, a in atoms]
    joint = b.build([*graph.inputs, *(Input(t, InRole.TANGENT) for t in given)], [*graph.outputs_in(env), *results])
    return _evaluated(d, joint, env, f"the linear function of {d.staged.trace.name}")


def _evaluated(d: Differentiated, joint: Graph, env: Any, what: str, backward: Mark | None = None) -> tuple[LinearMap, list[Any]]:
    """Run the part of a joint graph that does not wait for tangents or cotangents."""
    count = len(d.staged.graph.outputs)
    forward, late = split_joint(joint, len(d.staged.graph.inputs), count, backward)
    outs = execute(forward, input_values(d.staged, d.parent), d.parent, translate(d.staged.trace.known, env))
    return LinearMap(late, outs[count:], d.parent, what), outs[:count]


def emit_linearized(b: Emitter, graph: Graph, env: dict[Var, Atom], tangents: dict[Var, Atom | None], late: set[Atom]) -> dict[Var, Atom]:
    """Forward mode for a graph that is to be split: no result waits for a tangent. Returns the tangents of the graph's variables.

    Nested jits are seen through. Where an equation computes results and tangents at once (a loop, a checkpoint), its results are computed
    without tangents too, and the linear part runs the whole again, but for its effects. ``late`` collects what depends on tangents.
    """
    moving = {v: t for v, t in tangents.items() if t is not None}
    for eqn in graph.eqns:
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        given, start = [moving.get(a) for a in eqn.inputs], len(b.eqns)
        if all(t is None for t in given) or not eqn.primitive.differentiable:
            b.append(eqn, env)
            continue
        if eqn.primitive is higher_order.call and eqn.params.get("inline", True):
            body = eqn.params["graph"]
            inner = b.enter(body, [read(env, a) for a in eqn.inputs])
            inside = emit_linearized(b, body, inner, dict(zip_strict(body.in_vars, given)), late)
            env.update(zip_strict(eqn.outputs, [read(inner, a) for a in body.out_atoms]))
            out_tangents: Sequence[Atom | None] = [inside.get(a) for a in body.out_atoms]
        else:
            out_tangents = jvp_equation(b, eqn, env, given)
            late.update(v for e in b.eqns[start:] if any(a in late for a in e.inputs) for v in e.outputs)
            joint = [i for i in range(start, len(b.eqns)) if _has_inner_effect(b.eqns[i]) and any(a in late for a in b.eqns[i].inputs)]
            for i in joint:
                b.eqns[i] = effects.silenced(b.eqns[i])
            if joint or any(env[v] in late for v in eqn.outputs):
                b.append(eqn, env)
        moving.update((v, t) for v, t in zip_strict(eqn.outputs, out_tangents) if t is not None and is_inexact(v.aval.dtype))
    return moving


def _has_inner_effect(eqn: Eqn) -> bool:
    return eqn.effect and not eqn.primitive.effect


def fitting(value: Any, var: Var, what: str) -> Any:
    """A cotangent or tangent of exactly the type it belongs to; Python scalars take its dtype, None is zero."""
    aval = var.aval
    if value is None:
        return np.zeros(aval.shape, aval.dtype)
    own = tensors.type_of(value) or type_of(value)
    takes_dtype = own.weak and (is_complex(aval.dtype) or not is_complex(own.dtype))
    if own.shape != aval.shape or (own.dtype != aval.dtype and not takes_dtype):
        raise StructureError(
            f"a {what} of type {own} does not fit a value of type {aval.with_kind(own.kind)}",
            where=where(),
            fix=f"give it shape {shapes.show(aval.shape)} and dtype {aval.dtype}",
        )
    if tensors.any_in([value]):
        return value
    if not isinstance(value, Tracer):
        return np.asarray(value).astype(aval.dtype, copy=False)[...]
    if own.dtype == aval.dtype:
        return value
    trace = current_trace()
    return trace.tracer(trace.emit.convert(trace.lift(value).atom, dtype=aval.dtype, checked=False))
