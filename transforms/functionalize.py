"""functionalize: the pure form of a function that writes to its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import trees
from functx.capture import by_reference
from functx.dtypes import Kind
from functx.errors import TracerWriteError
from functx.ir import InRole
from functx.mutation import same_place
from functx.source import function_source, hides_frames
from functx.trace import Trace, TraceInput, Tracer, current_trace, where
from functx.transforms.arguments import check_callable, flatten_arguments, is_traced_leaf
from functx.transforms.boundary import build_results, execute, input_values
from functx.transforms.staging import Leaf, add_leaves, lift_leaves, stage


def functionalize(f: Callable[..., Any]) -> Callable[..., Any]:
    """The pure form of ``f``: it changes nothing, and returns beside f's result the new values of the arguments that f writes to.

    Args:
      f: any function of arrays, numbers and containers of them.

    Returns:
      A function with f's arguments that returns ``(result, mutated)``. ``mutated`` is a tuple with one entry per positional argument, and a
      dict of the keyword arguments as its last entry where the call has any. An entry has its argument's structure: the new array (of the
      argument's shape and dtype) for those that f writes to, by themselves, through a view, or through another argument that shares their
      memory, and None for all others. Every array among results and new values is one of its own, those included that NumPy
      would return as an argument or as a view. It works on concrete values and inside every transform.

    Raises:
      TracerWriteError: f writes to memory of an array that it closes over (``functx.numpy.asarray(buf)``).

    >>> import numpy as np
    >>> import functx as fx
    >>> def push(stack, x):
    ...     stack[1:] = stack[:-1]
    ...     stack[0] = x
    ...     return stack[-1]
    >>> a = np.array([1.0, 2.0, 3.0])
    >>> out, (new, _) = fx.functionalize(push)(a, 9.0)
    >>> out, new, a
    (np.float64(2.0), array([9., 1., 2.]), array([1., 2., 3.]))
    """
    check_callable(f, "functionalize")

    @hides_frames
    @functools.wraps(f)
    def functionalize_f(*args: Any, **kwargs: Any) -> Any:
        arguments = flatten_arguments(f, args, kwargs)
        parent = current_trace()
        trace = Trace(function_source(f), "functionalize")

        def describe(i: int, value: Any) -> Leaf | None:
            return Leaf(value, arguments.labels[i]) if is_traced_leaf(value) else None

        _, given = add_leaves(trace, lift_leaves(arguments.leaves, parent), describe)
        args, kwargs = arguments.rebuild(given)
        staged = stage(_pure(f, trace, given), trace, args, kwargs)
        outs = execute(staged.graph, input_values(staged, parent), parent, trace.known)
        results = build_results(staged.results, outs, (), parent)
        trace.release()
        return trees.unflatten(staged.out_tree, results)

    return functionalize_f


def _pure(f: Callable[..., Any], trace: Trace, given: Sequence[Any]) -> Callable[..., Any]:
    """``f`` with ``(result, mutated)`` as its result, all of them values of their own. ``given``: the leaves of its arguments."""

    def pure_f(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        leaves, structure = trees.flatten(out)
        del out
        _refuse_captured_writes(trace, given, leaves)
        new = iter([_own(trace, v) if isinstance(v, Tracer) and v.root.generation > 0 else None for v in given])
        new_args, new_kwargs = trees.map(lambda _: next(new), (args, kwargs))
        mutated = (*new_args, new_kwargs) if kwargs else new_args
        return trees.unflatten(structure, [_own(trace, v) for v in leaves]), mutated

    return pure_f


def _own(trace: Trace, value: Any) -> Any:
    """The value as one of its own: what NumPy would return as an argument, a view or a captured array shares no memory with it."""
    if issubclass(type(value), np.ndarray):
        return value.copy()
    if isinstance(value, Tracer) and value.kind is Kind.ARRAY:
        return trace.tracer(trace.lift(value).atom)
    return value


def _refuse_captured_writes(trace: Trace, given: Sequence[Any], returned: Sequence[Any]) -> None:
    """A pure function cannot write to arrays that it closes over. Those that are arguments too, or that nobody else holds, are its own."""
    arguments = [v for v in given if isinstance(v, Tracer)]
    for slot in trace.inputs:
        written = slot.role is InRole.CAPTURED and slot.handle.root.generation > 0
        if written and not _is_memory_of(arguments, slot) and not _is_temporary(slot, returned):
            raise TracerWriteError(
                f"functionalize of {trace.name} writes to memory of an array that it closes over, of type {slot.handle.aval}",
                where=where(),
                why="the pure form changes nothing, and returns new values of arguments only",
                fix="pass the array as an argument, or write into a copy of it (functx.numpy.array(buf))",
            )


def _is_memory_of(handles: Sequence[Tracer], slot: TraceInput) -> bool:
    """Whether an input stands for the memory of some of ``handles``, arguments of its trace, and no other."""
    if slot.base is not None:
        return all(any(same_place(member.handle, h) for h in handles) for member in slot.base.members)
    if any(same_place(slot.handle, h) for h in handles):
        return True
    above = slot.outer.stage.slot_of(slot.outer) if slot.outer is not None else None
    slots = [slot.handle.stage.slot_of(h) for h in handles]
    return above is not None and _is_memory_of([s.outer for s in slots if s is not None and s.outer is not None], above)


def _is_temporary(slot: TraceInput, returned: Sequence[Any]) -> bool:
    """Whether a captured array was made by the function itself, so that only the trace holds it."""
    while slot.outer is not None:
        slot = slot.outer.stage.slot_of(slot.outer)
        if slot is None:
            return False  # the enclosing function made it
    entry = next((e for e in slot.handle.stage.captures.entries if e.handle is slot.handle), None)
    return entry is not None and entry.unchanged() and not by_reference([entry], returned)[0]
