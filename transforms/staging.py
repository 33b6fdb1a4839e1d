"""Run a function once on tracers and keep what came out: a pure graph, and how results and writes go back to the caller.

All transforms go through :func:`stage`. Where they were called decides what happens to their graph (:mod:`functx.transforms.boundary`):
inside an enclosing trace it is inlined there, outside it is evaluated.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functx import dtypes, trees
from functx.aliasing import read_from_bases
from functx.capture import by_reference, held_by_nobody_else
from functx.dims import Condition, Dim
from functx.dtypes import Kind
from functx.errors import StaticArgumentError, StructureError, functx_cause
from functx.ir import AbstractArray, Graph, Output, OutRole
from functx.numpy import promote
from functx.numpy.masked import Masked
from functx.resize import sizes_in
from functx.trace import Trace, TraceInput, Tracer, ViewOp, dataless, type_of_value, where
from functx.transforms.draws import state_before, warn_of_draws


@dataclass(frozen=True)
class Result:
    """How one leaf of the results is made.

    Attributes:
      aval: its type and kind; None where it is no traced value.
      value: the index of the graph output that holds its value (None under jit, where the leaf is an argument or view that has its value).
      root: the index of the graph output that holds the memory it is a view of (for a value of its own, ``value``).
      argument: the index of the trace input that it is, or is a view of.
      views: the operations from the root or argument to this leaf.
      order: the axes of the root from the slowest to the fastest in memory, where NumPy would not have it in C order: the views need it.
      constant: the leaf itself, where it is no traced value.
      fresh: a constant array that every call gets a copy of, since nobody outside holds it.
    """

    aval: AbstractArray | None = None
    value: int | None = None
    root: int | None = None
    argument: int | None = None
    views: tuple[ViewOp, ...] = ()
    order: tuple[int, ...] | None = None
    constant: Any = None
    fresh: bool = False


@dataclass
class Staged:
    """A traced function: RESULT outputs first (as ``results`` refer to them), then WRITE outputs."""

    graph: Graph
    trace: Trace
    results: list[Result]
    out_tree: Any


@dataclass
class Leaf:
    """What a transform wants done with one argument leaf.

    Attributes:
      aval, shadow: its type and layout inside, where they differ from the value's own.
      facts: fields of :class:`functx.trace.TraceInput`.
      own: it gets an input of its own, though the same array be passed twice or closed over (a differentiated argument).
      axis: the batch axis along which it is mapped.
    """

    value: Any
    label: str
    aval: AbstractArray | None = None
    shadow: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    own: bool = False
    axis: int | None = None


def is_static(value: Any) -> bool:
    """Whether an argument leaf is a plain Python value that tracing treats as a constant (a string, an enum member, a function, ...)."""
    if isinstance(value, (Tracer, np.ndarray, np.generic, promote.ArrayLike)) or type(value) in dtypes.PYTHON_DTYPES:
        return False
    kind = type(value)
    if _is_constant(value):
        return True
    raise StaticArgumentError(
        f"an argument of type {kind.__name__} is no array, number, container of them, or value told apart by what it is",
        where=where(),
        why="it compares by identity, and what it holds may change unseen",
        fix=f"register {kind.__name__} as a container (functx.tree.dataclass), or declare the argument static (static_argnums)",
    )


def _is_constant(value: Any) -> bool:
    """Whether a value that is no data is told apart by what it is, not by being this very object."""
    by_value = type(value).__hash__ is not None and type(value).__hash__ is not object.__hash__
    return by_value or callable(value) or isinstance(value, type)


def lift_leaves(values: Sequence[Any], parent: Trace | None) -> list[Any]:
    """Inside an enclosing trace all numeric arguments become its handles; outside they stay concrete."""
    if parent is None:
        return list(values)
    return [v if not isinstance(v, Tracer) and is_static(v) else promote.as_handle(parent, v) for v in values]


def add_leaf(trace: Trace, leaf: Leaf) -> TraceInput:
    """Make an input of ``trace`` for an argument leaf (a concrete value, or a handle of the enclosing trace)."""
    value, facts = leaf.value, dict(leaf.facts)
    if isinstance(value, Tracer):
        aval = leaf.aval or value.aval
        shadow = (lambda: value.shadow) if leaf.shadow is None else leaf.shadow
        atom = value.atom if aval.dtype == value.aval.dtype else value.stage.emit.convert(value.atom, dtype=aval.dtype, checked=False)
        return trace.add_input(aval, shadow=shadow, outer=value, outer_atom=atom, axis=leaf.axis, label=leaf.label, **facts)
    aval = leaf.aval or type_of_value(value)
    shadow = leaf.shadow
    if isinstance(value, np.ndarray):
        facts["array"], facts["axis"] = value, leaf.axis
        if shadow is None:
            shadow = dataless(value.shape, value.dtype, value.strides, value.flags.writeable)
    if not trace.opaque:
        facts.setdefault("value", value if isinstance(value, np.ndarray) else aval.dtype.type(value))
    return trace.add_input(aval, shadow=shadow, label=leaf.label, **facts)


def add_leaves(trace: Trace, leaves: Sequence[Any], describe: Callable[[int, Any], Leaf | None]) -> tuple[list[int | None], list[Any]]:
    """Make inputs of ``trace`` for argument leaves, described by ``describe(position, value)`` (None: static, passed as it is).

    An array or handle that is passed twice is one input, so that a write through one is seen through the other; not so for leaves with an
    input of their own.

    Returns:
      For each leaf the index of its input (None: static), and what the function is called with.
    """
    slots: list[int | None] = []
    given: list[Any] = []
    index_of: dict[Any, int] = {}
    for i, value in enumerate(leaves):
        leaf = describe(i, value)
        if leaf is None:
            slots.append(None)
            given.append(value)
            continue
        shareable = isinstance(value, (Tracer, np.ndarray)) and not leaf.own
        key = (id(value), leaf.axis) if shareable else ("own", i)
        if key not in index_of:
            index_of[key] = len(trace.inputs)
            slot = add_leaf(trace, leaf)
            if shareable and leaf.axis is None and isinstance(value, Tracer) and value.parent is None:
                trace.bind_outer(value, slot)
        slots.append(index_of[key])
        given.append(trace.inputs[index_of[key]].handle)
    return slots, given


def stage(f: Callable[..., Any], trace: Trace, args: Sequence[Any], kwargs: dict[str, Any], *, every_value: bool = True) -> Staged:
    """Call ``f`` under ``trace`` on arguments that hold its tracers, and collect graph, results and writes.

    ``every_value``: results that are arguments or views get an output with their value too, for transforms to work on.
    """
    given, structure = trees.flatten((args, kwargs))
    before = state_before(trace)
    with trace:
        try:
            out = f(*args, **kwargs)
        except Exception as error:
            cause = functx_cause(error)
            if cause is None or cause is error:
                raise
            raise cause from None
        warn_of_draws(f, trace, before)
        _refuse_changed_containers(trace, given, structure, (args, kwargs))
        leaves, out_tree = trees.flatten(out)
        del out
        _settle_captures(trace, leaves)
        outputs, results = _collect(trace, leaves, every_value)
        writes = [Output(slot.handle.atom, OutRole.WRITE, i) for i, slot in enumerate(trace.inputs) if slot.written]
        read_from_bases(trace)
    return Staged(trace.builder.build(trace.input_slots(), [*outputs, *writes]), trace, results, out_tree)


class _Outputs:
    """Graph outputs, one per handle."""

    def __init__(self) -> None:
        self.slots: list[Output] = []
        self._index: dict[int, int] = {}

    def add(self, h: Tracer) -> int:
        if id(h) not in self._index:
            self._index[id(h)] = len(self.slots)
            self.slots.append(Output(h.atom, kind=h.kind))
        return self._index[id(h)]


def _collect(trace: Trace, leaves: Sequence[Any], every_value: bool) -> tuple[list[Output], list[Result]]:
    fresh = held_by_nobody_else(leaves)
    handles = [trace.lift(v) if isinstance(v, Tracer) else _known_as_data(trace, v) for v in leaves]
    sharing = Counter(id(h.root) for h in handles if isinstance(h, Tracer) and h.kind is Kind.ARRAY)
    input_of = {id(slot.handle): i for i, slot in enumerate(trace.inputs)}
    outputs, results = _Outputs(), []
    of_handle: dict[int, Result] = {}  # a handle that is returned twice is one object
    for h in handles:
        if not isinstance(h, Tracer):
            _check_constant(trace, h)
            results.append(Result(constant=h, fresh=id(h) in fresh))
            continue
        if id(h) in of_handle:
            results.append(of_handle[id(h)])
            continue
        owner = _owner(h, input_of)
        argument = input_of.get(id(owner)) if h.kind is Kind.ARRAY else None
        shared = h.kind is Kind.ARRAY and (argument is not None or sharing[id(owner)] > 1) and _static_views(h, owner)
        if not shared:
            index = outputs.add(h)
            results.append(of_handle.setdefault(id(h), Result(h.aval, index, index)))
            continue
        root = None if argument is not None else outputs.add(owner)
        value = root if h is owner and root is not None else outputs.add(h) if every_value else None
        order = _axis_order(owner) if argument is None else None
        results.append(of_handle.setdefault(id(h), Result(h.aval, value, root, argument, _views(h, owner), order)))
    return outputs.slots, results


def _known_as_data(trace: Trace, value: Any) -> Any:
    """A size that is returned is data, and so is a comparison of sizes that nobody knows; what a mask selects is an array."""
    if isinstance(value, Masked):
        return value.as_array()
    return promote.as_handle(trace, value) if isinstance(value, (Dim, Condition)) else value


def _owner(h: Tracer, input_of: Mapping[int, int]) -> Tracer:
    """The input that a handle is or is a view of, the nearest one (inputs that share memory have a base, which users never see), or else
    the handle that owns the memory.
    """
    while h.parent is not None and id(h) not in input_of:
        h = h.parent
    return h


def _static_views(h: Tracer, owner: Tracer) -> bool:
    """Whether the place of a view in its owner is known to the caller: no traced index on the way, nor a size that depends on data and is
    not one of the owner's.
    """
    sizes: list[Dim] = []
    while h is not owner:
        if h.view_op.operands:
            return False
        sizes += sizes_in(h.view_op.params)
        h = h.parent
    own = {d.expr for d in owner.aval.shape if isinstance(d, Dim)}
    return not any(dim.is_found and not dim.expr.free_symbols & set(dim.sizes.bound) <= own for dim in sizes)


def _axis_order(h: Tracer) -> tuple[int, ...] | None:
    if h.is_fresh_c_order or h.shadow.flags.c_contiguous:
        return None
    return tuple(sorted(range(h.aval.ndim), key=lambda i: -h.shadow.strides[i]))


def _views(h: Tracer, owner: Tracer) -> tuple[ViewOp, ...]:
    chain: list[ViewOp] = []
    while h is not owner:
        chain.append(h.view_op)
        h = h.parent
    return tuple(reversed(chain))


def _check_constant(trace: Trace, value: Any) -> None:
    """Refuse a result that functx cannot look into: traced values in it would not come out, and every call would return this one object."""
    kind = type(value)
    plain = isinstance(value, (np.ndarray, np.generic)) or kind in dtypes.PYTHON_DTYPES
    opaque = not plain and not _is_constant(value) and (kind.__hash__ is object.__hash__ or kind.__module__ != "builtins")
    if opaque or (not plain and any(isinstance(v, Tracer) for v in gc.get_referents(value))):
        raise StructureError(
            f"{trace.name} returns an object of type {kind.__name__}",
            where=where(),
            why=f"{trace.transform} cannot see which values it holds",
            fix="return arrays and numbers in lists, tuples and dicts"
            if isinstance(value, Iterator)
            else f"register {kind.__name__} as a container (functx.tree.dataclass), or return what it holds in a tuple or dict",
        )


def _refuse_changed_containers(trace: Trace, given: Sequence[Any], structure: Any, now: Any) -> None:
    """Arrays are written back to the caller, but containers are not: a function must not put something else into one of its arguments."""
    leaves, present = trees.flatten(now)
    if present == structure and all(a is b for a, b in zip(leaves, given, strict=True)):
        return
    before = dict(zip(trees.leaf_paths(trees.unflatten(structure, given)), given, strict=True))
    after = dict(zip(trees.leaf_paths(now), leaves, strict=True))
    path = next((p for p in (*after, *before) if before.get(p) is not after.get(p)), "")
    place = f"args{path[3:]}" if path.startswith("[0]") else f"kwargs{path[3:]}"
    raise StructureError(
        f"{trace.name} changes what a container among its arguments holds, at {place}",
        where=where(),
        why=f"{trace.transform} writes arrays back to the caller; a list, dict or object that holds them would stay as it was",
        fix="return the new container (params = {**params, 'b': b}), or write into the array that it holds (params['b'][...] = b)",
    )


def _settle_captures(trace: Trace, returned: Sequence[Any]) -> None:
    """Arrays of the program that are not read by reference become constants. The table of captures is given up."""
    slot_of = {id(slot.handle): slot for slot in trace.inputs}
    entries = trace.captures.entries
    constant = set()
    for entry, reference in zip(entries, by_reference(entries, returned), strict=True):
        slot = slot_of[id(entry.handle)]
        if not reference and not slot.written and slot.handle.parent is None:
            trace.builder.consts[slot.var] = entry.copy
            constant.add(slot.var)
            slot.array = None
    trace.inputs = [s for s in trace.inputs if s.var not in constant]
    trace.captures.clear()
