"""vjp: results now, cotangents later; and jvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functx import config, trees
from functx.errors import StructureError
from functx.ir import Input, InRole, Output, OutRole, Var
from functx.runtime import native
from functx.source import hides_frames
from functx.trace import current_trace, where
from functx.transforms.arguments import flatten_arguments, leaves_or_none
from functx.transforms.boundary import deliver, execute, input_values, translate, wrap
from functx.transforms.differentiation import counts_as_float, gradient_places, gradient_tree, has_derivative, stage_differentiated
from functx.transforms.forward import emit_jvp
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.linear_maps import constant_tangent, fitting, has_tangent, primary_tree, pullback_map, values_in
from functx.util import zip_strict


@hides_frames
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of ``f`` and a function that pulls cotangents back through it.

    Args:
      f: any function of arrays.
      primals: its positional arguments.
      has_aux: f returns a pair, whose second part is handed through.

    Returns:
      ``(out, pull)`` (with ``has_aux``: ``(out, pull, aux)``). ``pull(ct)`` takes cotangents in the structure of ``out`` (None for zero,
      and for integers) and returns a tuple of cotangents, one per primal. It may be called any number of times and never writes to an
      argument. Of a jitted f both halves are compiled; what is kept between them is freed with ``pull``.

    Raises:
      StructureError: a cotangent that does not fit the results.

    >>> import numpy as np
    >>> import functx as fx
    >>> out, pull = fx.vjp(lambda x: 2.0 * x, np.array([0.0, 1.0]))
    >>> pull(np.ones(2))
    (array([2., 2.]),)
    """
    if isinstance(f, native.CompiledFunction) and current_trace() is None and not config.current().disable_jit:
        return f.half.vjp(primals, has_aux)
    arguments = flatten_arguments(f, primals, {})
    wanted = {i for i, v in enumerate(arguments.leaves) if has_derivative(v)}
    d = stage_differentiated(f, "vjp", arguments, wanted)
    out_tree = primary_tree(d.staged, has_aux)
    targets = d.staged.results[: out_tree.num_leaves]
    linear, outs = pullback_map(d, targets)
    result = deliver(d.staged, outs, d.parent)
    places = [gradient_places(d, n) for n in range(len(primals))]

    @hides_frames
    def pull(ct: Any) -> tuple[Any, ...]:
        leaves = [v for v, r in zip_strict(cotangent_leaves(ct, out_tree), targets) if has_tangent(r)]
        gradients, trace = linear.apply([fitting(v, var, "cotangent") for v, var in zip_strict(leaves, linear.arguments)])
        return tuple(gradient_tree(of_argument, gradients, trace) for of_argument in places)

    return (result[0], pull, result[1]) if has_aux else (result, pull)


def cotangent_leaves(ct: Any, out_tree: Any) -> list[Any]:
    """The leaves of a cotangent that must have the structure of the results; None is zero."""
    leaves = leaves_or_none(out_tree, ct)
    if leaves is None:
        raise StructureError(
            f"the cotangent has structure {trees.show(trees.structure(ct))}, the results have {trees.show(out_tree)}", where=where()
        )
    return leaves


@hides_frames
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Results of ``f`` and their directional derivative.

    Args:
      primals: a tuple of positional arguments.
      tangents: a tuple of the same structure, shapes and dtypes (None for arguments that do not move, or are integers).

    Returns:
      ``(out, out_tangent)`` of one structure; the tangent of an integer result is None.

    >>> import functx as fx
    >>> fx.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
    (6.0, 3.0)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        raise StructureError("jvp takes a tuple of primals and a tuple of as many tangents", where=where(), fix="jvp(f, (x,), (dx,))")
    arguments = flatten_arguments(f, tuple(primals), {})
    directions = direction_leaves(primals, tangents)
    wanted = {i for i, (v, t) in enumerate(zip_strict(arguments.leaves, directions)) if t is not None and counts_as_float(v)}
    d = stage_differentiated(f, "jvp", arguments, wanted)
    parent, graph = d.parent, d.staged.graph
    moving = {d.slots[i]: fitting(directions[i], d.staged.trace.inputs[d.slots[i]].var, "tangent") for i in sorted(wanted)}
    b = INTERPRETER.emitter()
    in_tangents = [Var(v.aval) if i in moving else None for i, v in enumerate(graph.in_vars)]
    outs, out_tangents, env = emit_jvp(b, graph, graph.in_vars, in_tangents)
    results = [_tangent_output(b, r, outs, out_tangents) for r in d.staged.results]
    outputs = [s.with_atom(a) for a, s in zip_strict(outs, graph.outputs)]
    inputs = [*graph.inputs, *(Input(t, InRole.TANGENT) for t in in_tangents if t is not None)]
    joint = b.build(inputs, [*outputs, *(r for r in results if r is not None)])
    values = [*input_values(d.staged, parent), *values_in(parent, [moving[i] for i in sorted(moving)])]
    out = execute(joint, values, parent, translate(d.staged.trace.known, env))
    rest = iter(out[len(outputs) :])
    leaves = [
        constant_tangent(r.constant) if t is None else wrap(next(rest), t.kind, parent) for r, t in zip_strict(d.staged.results, results)
    ]
    return deliver(d.staged, out, parent), trees.unflatten(d.staged.out_tree, leaves)


def _tangent_output(b: Any, result: Any, outs: Sequence[Any], tangents: Sequence[Any]) -> Output | None:
    if not has_tangent(result):
        return None
    tangent = tangents[result.value]
    return Output(b.zeros_like(outs[result.value]) if tangent is None else tangent, OutRole.TANGENT, kind=result.aval.kind)


def direction_leaves(primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """One tangent per leaf of the primals, None for those that do not move."""
    out: list[Any] = []
    for x, t in zip_strict(primals, tangents):
        count = len(trees.leaves(x))
        given, structure = trees.flatten_with_none(t)
        if t is None:
            out += [None] * count
            continue
        expected = trees.flatten_with_none(x)
        if structure != expected[1]:
            raise StructureError(f"the tangent has structure {trees.show(structure)}, the primal {trees.show(expected[1])}", where=where())
        out += [v for v, primal in zip_strict(given, expected[0]) if primal is not None]
    return out
