"""Staging a function as the sub-graph of one equation: what jit, checkpoint and custom rules share when called inside a trace.

A sub-graph's inputs are the arguments, then what the function closes over. Values stay known inside unless the trace is opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from functx.ir import Atom
from functx.source import function_source
from functx.trace import Trace, Tracer
from functx.transforms.arguments import Arguments, flatten_arguments, is_traced_leaf
from functx.transforms.boundary import deliver, input_values
from functx.transforms.staging import Leaf, Staged, add_leaves, lift_leaves, stage


@dataclass
class SubGraph:
    """A staged function beside the leaves that it was staged for.

    Attributes:
      slots: for each argument leaf the index of its input (None for static leaves); equal handles share one.
    """

    f: Callable[..., Any]
    staged: Staged
    arguments: Arguments
    slots: list[int | None]


def stage_subgraph(
    f: Callable[..., Any],
    transform: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    parent: Trace,
    *,
    opaque: bool = False,
    share: bool = True,
    rule: Any = None,
) -> SubGraph:
    """Stage ``f`` for arguments that are lifted into the enclosing trace.

    ``share``: one input for a handle that is passed twice, so that a write through one is seen through the other. ``rule``: the custom rule
    that is being traced.
    """
    arguments = flatten_arguments(f, args, kwargs)
    leaves = lift_leaves(arguments.leaves, parent)
    trace = Trace(function_source(f), transform, opaque=opaque)
    trace.rule = rule

    def describe(i: int, value: Any) -> Leaf | None:
        if not is_traced_leaf(value):
            return None
        return Leaf(value, arguments.labels[i], facts={"specialize": _specialize(value) if opaque else None}, own=not share)

    slots, given = add_leaves(trace, leaves, describe)
    inner_args, inner_kwargs = arguments.rebuild(given)
    return SubGraph(f, stage(f, trace, inner_args, inner_kwargs), arguments, slots)


def _specialize(value: Tracer) -> Callable[[], Any] | None:
    """In an opaque trace only Python scalars may be looked at, if the enclosing trace knows them."""
    return value.value if value.aval.weak else None


def bind_subgraph(staged: Staged, parent: Trace, primitive: Any, params: dict[str, Any], inputs: Sequence[Atom] | None = None) -> Any:
    """Record a staged function as one equation of the enclosing trace, and deliver its results and writes."""
    outs = parent.emit.bind(primitive, input_values(staged, parent) if inputs is None else inputs, params)
    return deliver(staged, outs, parent)
