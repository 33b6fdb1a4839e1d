"""What grad, vjp and jvp share: staging with differentiated inputs, and the joint graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functx import trees
from functx.dtypes import FLOAT64, Kind, is_inexact
from functx.errors import IntegerGradientError
from functx.ir import AbstractArray, Atom, Input, InRole, Literal, Output, OutRole, Var, read
from functx.source import function_source
from functx.trace import Trace, Tracer, current_trace, type_of_value, where
from functx.transforms.arguments import Arguments, is_traced_leaf, refuse_tensors
from functx.transforms.boundary import wrap
from functx.transforms.halves import JointGraph, as_joint
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.reverse import mark_by_dependence, pullback, substitute
from functx.transforms.staging import Leaf, Staged, add_leaves, lift_leaves, stage
from functx.util import zip_strict


@dataclass
class Differentiated:
    """A function staged for differentiation.

    Attributes:
      slots: per argument leaf the index of its trace input (None for static leaves).
      active: per trace input whether derivatives are taken with respect to it.
      parent: the enclosing trace, if any.
    """

    staged: Staged
    arguments: Arguments
    slots: list[int | None]
    active: list[bool]
    parent: Trace | None


def stage_differentiated(f: Callable[..., Any], transform: str, arguments: Arguments, wanted: set[int]) -> Differentiated:
    """Trace ``f`` with the leaves numbered in ``wanted`` as differentiated inputs."""
    refuse_tensors(arguments, transform)
    parent = current_trace()
    leaves = lift_leaves(arguments.leaves, parent)
    trace = Trace(function_source(f), transform)

    def describe(i: int, value: Any) -> Leaf | None:
        if not is_traced_leaf(value):
            return None
        if i not in wanted:
            return Leaf(value, arguments.labels[i])
        return Leaf(value, arguments.labels[i], _as_float(type_of(value)), facts={"differentiated": True}, own=True)

    slots, given = add_leaves(trace, leaves, describe)
    args, kwargs = arguments.rebuild(given)
    staged = stage(f, trace, args, kwargs)
    return Differentiated(staged, arguments, slots, [s.differentiated for s in staged.trace.inputs], parent)


def type_of(value: Any) -> AbstractArray:
    """The type of a leaf, tracer or concrete."""
    return value.aval if isinstance(value, Tracer) else type_of_value(value)


def _as_float(aval: AbstractArray) -> AbstractArray:
    """A Python int is differentiated as the float it equals."""
    return AbstractArray((), FLOAT64, Kind.PYTHON) if _is_python_int(aval) else aval


def _is_python_int(aval: AbstractArray) -> bool:
    return aval.weak and aval.dtype.kind == "i"


def has_derivative(value: Any) -> bool:
    """Whether a leaf can be differentiated as it is: floats and complex numbers."""
    return is_traced_leaf(value) and is_inexact(type_of(value).dtype)


def counts_as_float(value: Any) -> bool:
    """Whether a leaf that the caller names itself can be differentiated: a Python int, too, is then the float it equals."""
    return has_derivative(value) or (is_traced_leaf(value) and _is_python_int(type_of(value)))


def wanted_leaves(arguments: Arguments, argnums: Sequence[int], transform: str) -> set[int]:
    """The leaves to differentiate. A Python int that is itself an argument counts as the float it equals, an integer array is refused;
    integer leaves of a container are left out, so that they still work as ints inside.
    """
    refuse_tensors(arguments, transform)
    wanted: set[int] = set()
    for argnum in argnums:
        span = arguments.spans[argnum]
        chosen = {i for i in span if has_derivative(arguments.leaves[i])}
        wanted |= chosen
        alone = len(span) == 1 and arguments.positional_tree(argnum).is_leaf()
        if alone and not chosen:
            value = arguments.leaves[span[0]]
            if counts_as_float(value):
                wanted.add(span[0])
                continue
            what = f"has dtype {type_of(value).dtype}" if is_traced_leaf(value) else f"is a {type(value).__name__}"
            raise IntegerGradientError(
                f"a gradient was asked with respect to argument {argnum} ({arguments.labels[span[0]]}), which {what}",
                where=where(),
                why="only floating-point values have derivatives",
                fix="pass it as floats (.astype(float)), or leave it out of argnums",
            )
    return wanted


def joint_graph_of(
    staged: Staged, active: Sequence[bool], seeds: Sequence[tuple[int, Atom]], cotangents: Sequence[Var] = ()
) -> tuple[JointGraph, Mapping[Var, Atom]]:
    """The joint graph: the staged outputs, then one GRADIENT per active input; and the map from staged to joint variables.

    ``seeds`` are the cotangents of outputs, by index; those that are variables are inputs too, in the order of ``cotangents``.
    """
    b, graph = INTERPRETER.emitter(), staged.graph
    forward, backward = INTERPRETER.new_region(b)
    b.mark = forward
    pulled = pullback(b, graph, graph.in_vars, active)
    b.mark, start = backward, len(b.eqns)
    cts: list[Atom | None] = [None] * len(graph.outputs)
    constant_of = {Var(seed.aval): seed for _, seed in seeds if isinstance(seed, Literal)}
    unknown = iter(constant_of)  # constants too, until it is clear what depends on cotangents
    for index, seed in seeds:
        cts[index] = b.add_cotangents(cts[index], next(unknown) if isinstance(seed, Literal) else seed)
    in_cts = pulled.pull(b, cts)
    mark_by_dependence(b, start, [*constant_of, *cotangents], forward)
    substitute(b, start, constant_of)
    gradients = [
        Output(b.zeros_like(slot.var) if ct is None else read(constant_of, ct), OutRole.GRADIENT, kind=slot.var.aval.kind)
        for ct, slot, flag in zip_strict(in_cts, graph.inputs, active)
        if flag
    ]
    outputs = [s.with_atom(a) for a, s in zip_strict(pulled.outs, graph.outputs)]
    inputs = [*graph.inputs, *(Input(v, InRole.COTANGENT) for v in cotangents)]
    return as_joint(b.build(inputs, [*outputs, *gradients]), forward.region, len(graph.inputs), len(outputs)), pulled.env


@dataclass(frozen=True)
class GradientPlace:
    """Where the gradient of one argument leaf stands among all, and as what it is returned."""

    index: int
    kind: Kind


def gradient_places(d: Differentiated, argnum: int) -> Any:
    """One argument in its structure, with a :class:`GradientPlace` for each leaf, None for leaves without a gradient."""
    order = {i: k for k, i in enumerate(i for i, flag in enumerate(d.active) if flag)}
    slots = [d.slots[i] for i in d.arguments.spans[argnum]]
    places = [GradientPlace(order[s], d.staged.trace.inputs[s].var.aval.kind) if s in order else None for s in slots]
    return trees.unflatten(d.arguments.positional_tree(argnum), places)


def gradient_tree(places: Any, gradients: Sequence[Any], parent: Trace | None) -> Any:
    """The gradients of one argument in its structure, None for leaves without one."""
    return trees.map(lambda place: wrap(gradients[place.index], place.kind, parent), places)
