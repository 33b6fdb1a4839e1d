"""Staging: the trace that records equations, and the tracer, a handle that stands for an array inside it.

There is one kind of trace. Transforms run a function on tracers once and then work on the graph. A tracer is a handle with a current value
(an atom of its trace's graph); a view knows its base and the operation that reads it, so a write through any of them is seen by all
(:mod:`functx.mutation` does the writing). This module knows neither NumPy functions nor transforms: those are installed into Tracer by
functx.numpy, and passed in, respectively.
"""

from __future__ import annotations

import contextlib
import contextvars
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functx import dtypes, shapes
from functx.capture import CaptureTable
from functx.dtypes import Kind
from functx.errors import IntegerOverflowError, LeakedTracerError, UnsupportedError
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, InRole, Literal, Var
from functx.leaks import holder
from functx.primitive import Emitter, Primitive
from functx.sizes import Sizes
from functx.source import Source, user_source

MISSING = object()

CURRENT: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("functx_trace", default=None)


def current_trace() -> Trace | None:
    """The innermost trace of this thread or task, or None."""
    return CURRENT.get()


@dataclass(eq=False, slots=True)
class TraceInput:
    """An input of a trace and what is known of it.

    Attributes:
      value: the concrete value, or MISSING.
      outer: the handle of the enclosing trace that it stands for, and the atom it had on entry.
      hidden: its value is not to be looked at, though it has one outside (a mapped argument of vmap).
      differentiated: derivatives are taken with respect to it.
      specialize: called when the value of a Python scalar is demanded under jit; it records the value in the cache entry and returns it.
      label: how error messages call it.
      array: the array itself, where there is one: an argument, or one that is read by reference.
      axis: the axis of the array along which it is mapped; the input stands for one example.
      base: for the memory that several inputs share (functx.aliasing): what they are in it.
    """

    var: Var
    handle: Tracer
    role: InRole = InRole.PRIMAL
    value: Any = MISSING
    outer: Tracer | None = None
    outer_atom: Atom | None = None
    hidden: bool = False
    differentiated: bool = False
    specialize: Callable[[], Any] | None = None
    label: str = ""
    array: np.ndarray | None = None
    axis: int | None = None
    base: Any = None

    @property
    def written(self) -> bool:
        """Whether the function wrote to it. (What is written through an input that has a base is written to the base.)"""
        return self.handle.parent is None and self.handle.generation > 0


@dataclass(frozen=True, slots=True)
class ViewOp:
    """The operation that reads a view from its parent handle; ``operands`` are traced integers that say where, ``source`` the line that
    made the view, which errors name though it is read later.
    """

    primitive: Primitive
    params: Mapping[str, Any]
    operands: tuple[Atom, ...] = ()
    source: Source | None = None

    def is_same(self, other: ViewOp) -> bool:
        """Whether both read the same elements."""
        return (
            self.primitive is other.primitive and self.operands == other.operands and shapes.same_params(self.params, other.params)
        )  # fmt: skip


class Tracer:
    """Stands for an array (or NumPy or Python scalar, see ``kind``) inside a traced function. Made by transforms, never by users."""

    __slots__ = ("__weakref__", "_atom", "_shadow", "aval", "generation", "parent", "seen", "stage", "view_op")

    def __init__(self, trace: Trace, atom: Atom, aval: AbstractArray, shadow: Any = None):
        self.stage, self._atom, self.aval, self._shadow = trace, atom, aval, shadow
        self.parent: Tracer | None = None
        self.view_op: ViewOp | None = None
        self.generation = 0  # of a root: counts writes
        self.seen = 0  # of a view: the root's generation when _atom was read

    @property
    def __class__(self) -> type:
        """``isinstance(x, np.ndarray)`` in traced code is answered for the array that the tracer stands for; ``type(x)`` is Tracer."""
        return np.ndarray if getattr(self, "aval", None) is not None and self.aval.kind is Kind.ARRAY else type(self)

    @property
    def kind(self) -> Kind:
        """Python scalar, NumPy scalar or array."""
        return self.aval.kind

    @property
    def root(self) -> Tracer:
        """The handle that owns the memory: itself, unless it is a view."""
        handle = self
        while handle.parent is not None:
            handle = handle.parent
        return handle

    @property
    def atom(self) -> Atom:
        """The current value; a stale view reads its parent again."""
        if self.parent is not None and self.seen != (generation := self.root.generation):
            op, parent, builder = self.view_op, self.parent.atom, self.stage.builder
            present, builder.source = builder.source, op.source
            (self._atom,) = builder.bind(op.primitive, (parent, *op.operands), op.params)
            builder.source, self.seen = present, generation
        return self._atom

    @property
    def shadow(self) -> np.ndarray:
        """An array without data that has this one's shape, dtype, strides and writeability, to ask NumPy about views and layout.

        Only operations that read no element may be applied to it.
        """
        if self.parent is None:
            self.stage.layout_used.add(id(self))  # the layout of an input plays a part
        if self._shadow is None:
            self._shadow = dataless(self.aval.shape, self.aval.dtype)
        elif callable(self._shadow):
            self._shadow = self._shadow()
        return self._shadow

    @property
    def is_fresh_c_order(self) -> bool:
        """Whether it is an array of its own in C order, known without asking for a layout."""
        return self._shadow is None and self.parent is None

    @property
    def is_read_only(self) -> bool:
        """Whether it was made of read-only memory."""
        return isinstance(self._shadow, np.ndarray) and not self._shadow.flags.writeable

    def assign(self, atom: Atom) -> None:
        """Give it a new value; only :mod:`functx.mutation` does, to handles that own their memory."""
        self.generation += 1
        self._atom = atom

    def become_view(self, parent: Tracer, op: ViewOp) -> None:
        """Share the memory of ``parent`` from now on (functx.aliasing: inputs whose arrays overlap). Its views stay views of it."""
        self.parent, self.view_op, self.generation, self.seen = parent, op, 0, -1

    def value(self) -> Any:
        """The concrete value, if it is known or can be had; ConcretizationError otherwise."""
        if self.stage.closed:
            raise leaked(self)
        return self.stage.demand(self.atom)


def contiguity(tracer: Tracer) -> np.ndarray:
    """The shadow, to ask whether the memory is contiguous. Without a second element along an axis every layout is: where the axes of sizes
    that are symbolic do not lie in C order anyway, it is decided first which of them are such.
    """
    shape, shadow = tracer.aval.shape, tracer.shadow
    if not shapes.is_static(shape) and shadow.strides != dataless(shape, shadow.dtype).strides:
        for d in shape:
            if isinstance(d, shapes.Dim) and not d > 1:
                operator.index(d)
    return shadow


def dataless(shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None, writeable: bool = True) -> np.ndarray:
    """An array of any size over one element of memory (symbolic dimensions by their hints). Only its attributes may be read."""
    shape = shapes.hints(shape)
    if strides is None:
        strides, step = [], dtype.itemsize
        for n in reversed(shape):
            strides.insert(0, step)
            step *= max(n, 1)
    return as_strided(np.zeros(1, dtype), shape, strides, writeable=writeable)


def type_of_value(value: Any) -> AbstractArray:
    """The type of a concrete array, NumPy scalar or Python scalar. Raises for what cannot be traced."""
    try:
        kind, dtype = dtypes.kind_of(value), dtypes.dtype_of(value)
    except KeyError:
        raise UnsupportedError(f"a {type(value).__name__} cannot be used with traced values", where=where()) from None
    if not dtypes.is_supported(dtype):
        what = f"an array or scalar of dtype {dtype} cannot be traced"
        raise UnsupportedError(what, where=where(), fix="convert it to a numeric dtype of native byte order")
    if kind is Kind.ARRAY and type(value) not in (np.ndarray, np.memmap):
        raise UnsupportedError(
            f"a {type(value).__name__} cannot be traced",
            where=where(),
            why="it is a subclass of ndarray, whose operations may mean something else",
            fix="pass np.asarray(x)",
        )
    if kind is Kind.PYTHON and dtype.kind == "i" and not -(2**63) <= value < 2**63:
        raise IntegerOverflowError(
            f"the Python integer {value} does not fit int64",
            where=where(),
            why="graphs compute with integers of 64 bits",
            fix="use a float",
        )
    return AbstractArray(np.shape(value), dtype, kind)


class Trace:
    """One run of a function on tracers.

    Args:
      name: the function, for messages (``loss (train.py:10)``).
      transform: who traces it, for messages (``jit``, ``grad``).
      opaque: values of arrays stay unknown (jit, and bodies of control flow); otherwise concrete inputs and captures are known.
    """

    # What happens before a handle is written for the first time, and after an array has come in while others may have been written:
    # functx.aliasing, some rooms above, sets both.
    before_first_write: ClassVar[Callable[[Tracer], None]]
    after_arrival: ClassVar[Callable[[TraceInput], None]]

    def __init__(self, name: str, transform: str, *, opaque: bool = False):
        self.name, self.transform, self.opaque = name, transform, opaque
        self.parent = CURRENT.get()
        self.builder = Emitter()
        self.inputs: list[TraceInput] = []
        self.captures = CaptureTable()
        self.known: dict[Var, Any] = {}
        self.closed = False
        self.layout_used: set[int] = set()  # ids of input handles (tracers hash by value)
        self.placement_used = False  # whether different inputs share memory plays a part
        self.demanded = False  # whether a value was looked at: the graph then holds for that value only
        self.rule: Any = None  # the custom rule that is being traced here, if one is
        self.axes: dict[Any, tuple[Tracer, Any]] = {}  # of vmap: by name the position along the axis, and its size
        self.depends: dict[Var, bool] = {}  # on a differentiated input; equations are only ever added, so answers last
        self.overlaps: tuple[int, list[tuple[int, int]]] | None = None  # of so many inputs, those that share elements (functx.aliasing)
        self.sizes = self.parent.sizes if self.parent is not None else Sizes({}, {})
        self.selections: list[tuple[str, Atom, Atom]] = []  # primitive, operand and result: of a size that the equation binds
        self._producer: dict[Var, int] = {}
        self._indexed = 0
        self._input_of: dict[Var, TraceInput] = {}
        self._slot_of: dict[int, TraceInput] = {}
        self._lifted: dict[int, TraceInput] = {}
        self._token: Any = None

    def __enter__(self) -> Trace:
        self._token = CURRENT.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        CURRENT.reset(self._token)
        self.closed = True

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        """Go on with this trace while one inside it is under way."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def release(self) -> None:
        """Let go of all values, once results are delivered: traces and their tracers refer to each other, so they may live on for a
        while.
        """
        self.known.clear()
        self.captures.clear()
        for slot in self.inputs:
            slot.value, slot.array, slot.specialize, slot.base = MISSING, None, None, None

    # --- inputs -------------------------------------------------------------------------------------------------------------------------

    def add_input(self, aval: AbstractArray, *, shadow: Any = None, **facts: Any) -> TraceInput:
        """A new input with a handle of its own; ``facts`` are fields of :class:`TraceInput`."""
        var = Var(aval)
        slot = TraceInput(var, Tracer(self, var, aval, shadow), **facts)
        self.inputs.append(slot)
        self._input_of[var] = self._slot_of[id(slot.handle)] = slot
        return slot

    def input_of(self, var: Var) -> TraceInput | None:
        """The input slot of a variable, if it is one."""
        return self._input_of.get(var)

    def slot_of(self, handle: Tracer) -> TraceInput | None:
        """The input slot whose handle this is, if it is one."""
        return self._slot_of.get(id(handle))

    def lift(self, tracer: Tracer) -> Tracer:
        """The handle that stands for ``tracer`` in this trace. A tracer of an enclosing trace becomes an input, views through their
        root.
        """
        if tracer.stage is self:
            return tracer
        if self.parent is None or tracer.stage.closed:
            raise leaked(tracer)
        outer = self.parent.lift(tracer)
        if outer.parent is not None:
            op = outer.view_op
            operands = tuple(self.lift(self.parent.tracer(a)).atom for a in op.operands)
            return self.view(self.lift(outer.parent), ViewOp(op.primitive, op.params, operands, op.source), outer.aval, outer._shadow)
        if outer.kind is not Kind.ARRAY and isinstance(outer._atom, Literal):
            return Tracer(self, outer._atom, outer.aval)
        slot = self._lifted.get(id(outer))
        if slot is None:
            slot = self.add_input(outer.aval, role=InRole.CAPTURED, outer=outer, outer_atom=outer.atom, shadow=lambda: outer.shadow)
            self.bind_outer(outer, slot)
            Trace.after_arrival(slot)
        return slot.handle

    def bind_outer(self, outer: Tracer, slot: TraceInput) -> None:
        """Let ``outer``, a handle of the enclosing trace, be seen as ``slot`` inside (an argument that the body may also close over)."""
        self._lifted[id(outer)] = slot

    def capture(self, array: np.ndarray) -> Tracer:
        """The handle of an array of the surrounding program. The outermost trace reads it; the others see it through lifting."""
        if self.parent is not None:
            return self.lift(self.parent.capture(array))
        entry = self.captures.find(array)
        if entry is None:
            aval = type_of_value(array)
            shadow = dataless(array.shape, array.dtype, array.strides, array.flags.writeable)
            slot = self.add_input(aval, role=InRole.CAPTURED, shadow=shadow, array=array, label="an array of the surrounding program")
            entry = self.captures.add(array, slot.handle)
            if not self.opaque:
                slot.value = entry.copy
            Trace.after_arrival(slot)
        return entry.handle

    # --- recording ----------------------------------------------------------------------------------------------------------------------

    @property
    def emit(self) -> Emitter:
        """The builder, stamping the user's present line on what it records."""
        self.builder.source = user_source()
        return self.builder

    def handle(self, value: Any) -> Tracer:
        """The handle in this trace for a tracer, array, NumPy scalar or Python scalar."""
        if isinstance(value, Tracer):
            return self.lift(value)
        if isinstance(value, np.ndarray):
            return self.capture(value)
        aval = type_of_value(value)
        return Tracer(self, Literal(value, aval.dtype), aval)

    def tracer(self, atom: Atom, kind: Kind = Kind.ARRAY, shadow: Any = None) -> Tracer:
        """A new handle that owns its memory."""
        return Tracer(self, atom, atom.aval.with_kind(kind), shadow)

    def view(self, parent: Tracer, op: ViewOp, aval: AbstractArray, shadow: Any = None) -> Tracer:
        """A new handle on memory of ``parent``, read by ``op`` when needed."""
        out = Tracer(self, None, aval, shadow)
        out.become_view(parent, op)
        return out

    def inline(self, graph: Graph, atoms: Sequence[Atom], known: Mapping[Var, Any] | None = None) -> list[Atom]:
        """Record a copy of ``graph``; values known for its variables stay known, so that nothing is computed twice."""
        start = len(self.builder.eqns)
        outs = self.emit.inline(graph, atoms)
        if known:
            for old, new in zip(graph.eqns, self.builder.eqns[start:], strict=True):
                for a, b in zip(old.outputs, new.outputs, strict=True):
                    if a in known:
                        self.known[b] = known[a]
        return outs

    def demand(self, atom: Atom) -> Any:
        """The value of an atom, computed from just the slice of the trace it needs; see :mod:`functx.demand`."""
        from functx.demand import demand

        return demand(self, atom)

    def producer(self, var: Var) -> int | None:
        """The index of the equation that computes ``var``; None for inputs and constants."""
        for i in range(self._indexed, len(self.builder.eqns)):
            self._producer.update(dict.fromkeys(self.builder.eqns[i].outputs, i))
        self._indexed = len(self.builder.eqns)
        return self._producer.get(var)

    @property
    def eqns(self) -> list[Eqn]:
        """The equations recorded so far."""
        return self.builder.eqns

    def input_slots(self) -> list[Input]:
        """The inputs as slots of a graph."""
        return [Input(slot.var, slot.role) for slot in self.inputs]


def outermost(trace: Trace) -> Trace:
    """The trace that encloses all others."""
    return trace if trace.parent is None else outermost(trace.parent)


def install(name: str, member: Any) -> None:
    """Give Tracer a method or property of ndarray; the implementations live in functx.numpy."""
    setattr(Tracer, name, member)


def where() -> str | None:
    """The user's present line, for messages."""
    source = user_source()
    return source.describe() if source else None


def made_at(tracer: Tracer) -> str:
    """What a tracer is and where its value was made."""
    trace, atom = tracer.stage, tracer._atom
    slot = trace.input_of(atom) if isinstance(atom, Var) else None
    if slot is not None and slot.role is InRole.CAPTURED:
        return slot.label or (made_at(slot.outer) if slot.outer is not None else "a value of the enclosing function")
    if slot is not None:
        return f"argument {slot.label}" if slot.label else "an argument"
    index = trace.producer(atom) if isinstance(atom, Var) else None
    source = trace.eqns[index].source if index is not None else None
    return f"the value made at {source.describe()}" if source else "a value"


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer used outside its trace: what it was, where it was made, who holds it."""
    trace = tracer.stage
    if not trace.closed:
        return LeakedTracerError(
            f"a traced value was used outside {trace.transform} of {trace.name}: {made_at(tracer)}, of type {tracer.aval}",
            where=where(),
            why="that function is traced in another thread or context, and its values can be used there only",
            fix="do it in the thread that calls the function, or start the threads around the transformed function",
        )
    return LeakedTracerError(
        f"a traced value was used after {trace.transform} of {trace.name} had finished: {made_at(tracer)}, of type {tracer.aval}",
        where=where(),
        why=f"it stands for a value only while its function is traced; it is held by {holder(tracer)}",
        fix="return it from the function instead of storing it",
    )
