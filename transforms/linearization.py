"""linearize: results now, tangents later; and linear_transpose, the adjoint of a linear function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functx import effects, shapes, trees
from functx.demand import demand, is_known
from functx.dtypes import is_inexact
from functx.errors import NonLinearError, StructureError
from functx.interpret import eval_eqn
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, InRole, Literal, Output, OutRole, Var
from functx.source import function_source, hides_frames
from functx.trace import Trace, current_trace, where
from functx.transforms.arguments import flatten_arguments
from functx.transforms.boundary import deliver, execute, input_values, wrap
from functx.transforms.differentiation import has_derivative, stage_differentiated
from functx.transforms.inline import inline_calls
from functx.transforms.inspection import stage_abstract
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.linear_maps import LinearMap, constant_tangent, fitting, has_tangent, primary_tree, tangent_map
from functx.transforms.pullbacks import cotangent_leaves, direction_leaves
from functx.transforms.reverse import moved_outputs, pullback
from functx.transforms.split import split_joint
from functx.util import zip_strict


@hides_frames
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of ``f`` and a function that pushes tangents through it: f runs once, and its linear part as often as one likes.

    Args:
      f: any function of arrays.
      primals: its positional arguments.
      has_aux: f returns a pair, whose second part is handed through.

    Returns:
      ``(out, f_jvp)`` (with ``has_aux``: ``(out, f_jvp, aux)``). ``f_jvp(*tangents)`` takes one tangent per primal, in its structure (None
      where nothing moves, and for integers), and returns the tangent of ``out``, None where a result is an integer. It keeps the values
      that it needs; loops and checkpoints inside f are run again from their inputs.

    Raises:
      StructureError: a tangent that does not fit its primal.

    >>> import numpy as np
    >>> import functx as fx
    >>> out, f_jvp = fx.linearize(np.square, np.array([1.0, 3.0]))
    >>> out, f_jvp(np.array([1.0, 0.0])), f_jvp(np.array([0.0, 1.0]))
    (array([1., 9.]), array([2., 0.]), array([0., 6.]))
    """
    arguments = flatten_arguments(f, primals, {})
    wanted = {i for i, v in enumerate(arguments.leaves) if has_derivative(v)}
    d = stage_differentiated(f, "linearize", arguments, wanted)
    out_tree = primary_tree(d.staged, has_aux)
    targets = d.staged.results[: out_tree.num_leaves]
    linear, outs = tangent_map(d, targets)
    result = deliver(d.staged, outs, d.parent)
    order = [d.slots[i] for i in sorted(wanted)]  # of the differentiated leaves; the map takes them in the order of their inputs
    structure = trees.map(lambda _: 0, primals)

    @hides_frames
    def f_jvp(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            what = f"{linear.what} takes {len(primals)} tangents, one per argument, not {len(tangents)}"
            raise StructureError(what, where=where())
        directions = direction_leaves(structure, tangents)
        refused = next((i for i, t in enumerate(directions) if t is not None and i not in wanted), None)
        if refused is not None:
            what = f"a tangent was given for {arguments.labels[refused]}, which is no float"
            raise StructureError(what, where=where(), fix="give None for it")
        given = dict(zip_strict(order, [directions[i] for i in sorted(wanted)]))
        values = [fitting(given[slot], var, "tangent") for slot, var in zip_strict(sorted(given), linear.arguments)]
        done, trace = linear.apply(values)
        moved = iter(done)
        leaves = [wrap(next(moved), r.aval.kind, trace) if has_tangent(r) else constant_tangent(r.constant) for r in targets]
        return trees.unflatten(out_tree, leaves)

    return (result[0], f_jvp, result[1]) if has_aux else (result, f_jvp)


@hides_frames
def linear_transpose(f: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """The adjoint of a linear function: the ``g`` with ``Re sum(conj(g(y)) * x) == Re sum(conj(y) * f(x))`` for all x and y.

    Args:
      f: a function that is linear in its arguments taken together. What it closes over may be used in any way.
      examples: for every argument an array, or a :class:`functx.ShapeDtypeStruct`; only structures, shapes and dtypes count.

    Returns:
      A function that takes what has the structure, shapes and dtypes of f's result, and returns a tuple with one entry per argument.

    Raises:
      NonLinearError: f is not linear, or adds a constant; the message names the operation and its line.
      StructureError: an example is no float, or g is given what does not fit f's result.

    >>> import numpy as np
    >>> import functx as fx
    >>> difference = lambda x: x[1:] - x[:-1]
    >>> adjoint = fx.linear_transpose(difference, fx.ShapeDtypeStruct((3,), np.float64))
    >>> adjoint(np.array([1.0, 10.0]))
    (array([-1., -9., 10.]),)
    """
    parent = current_trace()
    staged, arguments, slots = stage_abstract(f, "linear_transpose", examples, {}, own=True)
    given = {slot: i for i, slot in enumerate(slots) if slot is not None}
    for slot, i in given.items():
        if not is_inexact(staged.trace.inputs[slot].var.aval.dtype):
            what = f"linear_transpose of {function_source(f)}: {arguments.labels[i]} has type {staged.trace.inputs[slot].var.aval}"
            raise StructureError(what, where=where(), why="linear functions are functions of floats", fix="close over it")
    flags = [i in given for i in range(len(staged.trace.inputs))]
    graph = inline_calls(effects.silent(staged.graph), flags)
    values = input_values(staged, parent)
    linear = _adjoint(graph, flags, staged, values, parent)
    _refuse_offsets(graph, flags, staged, values if parent is None else [_if_known(parent, a) for a in values])
    kinds = [staged.trace.inputs[slot].var.aval.kind for slot in given]
    results, out_tree = staged.results, staged.out_tree
    staged.trace.release()

    @hides_frames
    def transposed(ct: Any) -> tuple[Any, ...]:
        leaves = [v for v, r in zip_strict(cotangent_leaves(ct, out_tree), results) if has_tangent(r)]
        values, trace = linear.apply([fitting(v, var, "cotangent") for v, var in zip_strict(leaves, linear.arguments)])
        of_slot = dict(zip_strict(sorted(given), values))
        done = iter([wrap(of_slot[slot], kind, trace) for slot, kind in zip_strict(given, kinds)])
        return arguments.rebuild([next(done) if slot is not None else None for slot in slots])[0]

    return transposed


def _adjoint(graph: Graph, flags: Sequence[bool], staged: Any, values: Sequence[Any], parent: Any) -> LinearMap:
    """The transpose as a map to the flagged inputs' cotangents; what does not depend on cotangents is computed now."""
    b = INTERPRETER.emitter()
    pulled = pullback(b, graph, graph.in_vars, flags, linear=True)
    targets = [r for r in staged.results if has_tangent(r)]
    seeds = [Var(AbstractArray(r.aval.shape, r.aval.dtype)) for r in targets]
    cts: list[Atom | None] = [None] * len(graph.outputs)
    for r, seed in zip_strict(targets, seeds):
        cts[r.value] = b.add_cotangents(cts[r.value], seed)
    in_cts = pulled.pull(b, cts)
    fixed = [slot for slot, flag in zip_strict(graph.inputs, flags) if not flag]
    outputs = [
        Output(b.zeros_like(slot.var) if ct is None else ct, OutRole.GRADIENT)
        for slot, ct, flag in zip_strict(graph.inputs, in_cts, flags)
        if flag
    ]
    joint = b.build([*fixed, *(Input(v, InRole.COTANGENT) for v in seeds)], outputs)
    forward, backward = split_joint(joint, len(fixed), 0)
    residuals = execute(forward, [v for v, flag in zip_strict(values, flags) if not flag], parent)
    return LinearMap(backward, residuals, parent, f"the transpose of {staged.trace.name}")


def _refuse_offsets(graph: Graph, flags: Sequence[bool], staged: Any, values: Sequence[Any]) -> None:
    """Refuse a function that adds a constant other than zero: it is linear in the wider sense only, and its transpose would lose it.

    A loop or choice that does is told by what it gives for zeros; where that depends on an enclosing trace, by the constants in it.
    """
    joins = _joins(graph, flags, [r.value for r in staged.results if has_tangent(r)])
    zeros = {v: np.zeros(v.aval.shape, v.aval.dtype) for v in joins.at_zero if shapes.is_static(v.aval.shape)}
    known = _known_values(graph, joins.fixed, values, zeros)
    for eqn, atom in joins.operands:
        if np.any(_value(atom, known)):
            raise _offset_error(eqn, staged)
    for eqn, flags, moved in joins.control:
        told = [np.nan_to_num(known[v]) for v in moved if v in known]
        if any(map(np.any, told)) or len(told) < len(moved) and _adds_constants(eqn, flags, moved, known):
            raise _offset_error(eqn, staged)
    constants = [r.constant for r in staged.results if r.aval is None and isinstance(r.constant, (np.ndarray, np.generic, float, complex))]
    if any(np.any(c) for c in constants):
        raise _offset_error(None, staged)


def _if_known(parent: Trace, atom: Atom) -> Any:
    """The value of an atom of the enclosing trace, or what an array that it reads holds now; None if it is not known."""
    if is_known(parent, atom):
        return np.asarray(demand(parent, atom))
    slot = parent.input_of(atom)
    return slot.array if slot is not None and slot.array is not None and slot.axis is None else None


def _value(atom: Atom, known: Mapping[Var, Any]) -> Any:
    """A value, zero where it is not known."""
    return atom.value if isinstance(atom, Literal) else known.get(atom, 0)


@dataclass
class _Joins:
    """Where what depends on flagged inputs of a graph meets what does not.

    Attributes:
      operands: what is joined to it, with the equation; and results that depend on no flagged input.
      control: loops and choices with the flags of their operands and the results that depend on these.
      fixed: the equations of what does not depend on flagged inputs, and ``control``.
      at_zero: operands of ``control`` that depend on flagged inputs.
    """

    operands: list[tuple[Eqn | None, Atom]] = field(default_factory=list)
    control: list[tuple[Eqn, list[bool], list[Var]]] = field(default_factory=list)
    fixed: list[Eqn] = field(default_factory=list)
    at_zero: set[Var] = field(default_factory=set)


def _joins(graph: Graph, flags: Sequence[bool], results: Iterable[int]) -> _Joins:
    """The joins of a graph, whose ``results`` (by number) are wanted."""
    alive = {v for v, flag in zip_strict(graph.in_vars, flags) if flag}
    joins = _Joins()
    for eqn in graph.eqns:
        reached = [a in alive for a in eqn.inputs]
        if not any(reached):
            joins.fixed.append(eqn)
        elif eqn.primitive.family == "control":
            moved = [v for v, flag in zip_strict(eqn.outputs, moved_outputs(INTERPRETER.emitter(), eqn, reached)) if flag]
            joins.at_zero.update(a for a in eqn.inputs if a in alive)
            joins.fixed.append(eqn)
            joins.control.append((eqn, reached, moved))
            alive.update(moved)
        else:
            alive.update(eqn.outputs)
            if not eqn.primitive.bilinear:
                joins.operands += [
                    (eqn, a) for i, (a, flag) in enumerate(zip_strict(eqn.inputs, reached)) if not flag and eqn.primitive.is_linear_in(i)
                ]
    joins.operands += [(None, graph.outputs[k].atom) for k in results if graph.outputs[k].atom not in alive]
    return joins


def _adds_constants(eqn: Eqn, flags: Sequence[bool], moved: Sequence[Var], known: Mapping[Var, Any]) -> bool:
    """Whether a loop or choice joins a constant other than zero, one that is known, to what depends on flagged operands."""
    results = [k for k, v in enumerate(eqn.outputs) if v in set(moved)]
    carries = eqn.params.get("carries", len(eqn.outputs) if eqn.primitive.name == "while" else 0)
    for name, body in eqn.params.items():
        if not isinstance(body, Graph) or name == "cond":
            continue
        operands, inner = eqn.inputs[len(flags) - len(body.inputs) :], list(flags[len(flags) - len(body.inputs) :])
        first = eqn.params["consts"] if eqn.primitive.name == "scan" else len(inner) - carries
        begins = [first + k for k in range(carries) if k in results and not inner[first + k]]
        for k in begins:
            inner[k] = True
        joins = _joins(body, inner, results)
        given = [_value(a, known) if k < first and (isinstance(a, Literal) or a in known) else None for k, a in enumerate(operands)]
        inside = _known_values(body, [e for e in joins.fixed if e.primitive.family != "control"], given, {})
        added = [*(_value(operands[k], known) for k in begins), *(_value(atom, inside) for _, atom in joins.operands)]
        if any(np.any(np.nan_to_num(value)) for value in added) or any(_adds_constants(*control, inside) for control in joins.control):
            return True
    return False


def _known_values(graph: Graph, eqns: Sequence[Eqn], values: Sequence[Any], given: Mapping[Var, Any]) -> dict[Var, Any]:
    """The values of equations as far as they are known; what depends on an enclosing trace or on symbolic sizes is not."""
    known: dict[Var, Any] = dict(graph.consts)
    known.update({v: value for v, value in zip_strict(graph.in_vars, values) if isinstance(value, np.ndarray)} | given)
    for eqn in eqns:
        if eqn.primitive.family != "callback" and not eqn.symbolic and all(isinstance(a, Literal) or a in known for a in eqn.inputs):
            known.update(zip_strict(eqn.outputs, eval_eqn(eqn, known)))
    return known


def _offset_error(eqn: Eqn | None, staged: Any) -> NonLinearError:
    if eqn is None:
        what = f"{staged.trace.name} returns a constant other than zero"
        return NonLinearError(what, where=where(), why="a linear function of zero is zero")
    return NonLinearError(
        f"a function that must be linear is not: '{eqn.primitive.name}' joins a constant to a value that depends on its arguments",
        where=eqn.source.describe() if eqn.source else None,
        why="a linear function of zero is zero",
        fix="leave the constant out, or take functx.linearize(f, x), whose function has none",
    )
