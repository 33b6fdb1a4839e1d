"""Inputs of a trace that share memory (law 3).

Every input is followed by itself until one is written whose elements others share. Before that write all of them become views: of the flat
memory that their arrays lie in, as one more input (in an outermost trace, which knows the arrays), or of the handle of the enclosing trace
that they are views of. From then on the rules for views (:mod:`functx.mutation`) make each see the writes of the others. The same happens
when an array comes in late and turns out to share memory with one that has been written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx.capture import byte_bounds, overlaps
from functx.dtypes import Kind
from functx.errors import OverlapError
from functx.ir import AbstractArray, Var
from functx.mutation import write_through
from functx.ops import indexing, movement
from functx.primitive import Emitter
from functx.trace import Trace, TraceInput, Tracer, ViewOp, dataless, where

# --- where arrays lie in common memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A strided view of a flat array; offset and strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool


@dataclass(frozen=True)
class Layout:
    """How arrays of one dtype lie in the flat memory that they span together, ``length`` elements."""

    dtype: np.dtype
    length: int
    pieces: tuple[Piece, ...]


def common_layout(arrays: Sequence[np.ndarray]) -> tuple[Layout, int] | None:
    """The layout of arrays and the address where it begins; None if they differ in dtype, or by parts of an element."""
    dtype = arrays[0].dtype
    bounds = [byte_bounds(a) for a in arrays]
    start, stop = min(lo for lo, _ in bounds), max(hi for _, hi in bounds)
    places = [a.__array_interface__["data"][0] - start for a in arrays]
    distances = [*places, stop - start, *(s for a in arrays for s, n in zip(a.strides, a.shape, strict=True) if n > 1)]
    if any(a.dtype != dtype for a in arrays) or any(d % dtype.itemsize for d in distances):
        return None
    pieces = tuple(
        Piece(place // dtype.itemsize, a.shape, tuple(s // dtype.itemsize for s in a.strides), a.flags.writeable)
        for place, a in zip(places, arrays, strict=True)
    )
    return Layout(dtype, (stop - start) // dtype.itemsize, pieces), start


def memory_at(address: int, layout: Layout, lanes: int = 1, distance: int = 0) -> np.ndarray:
    """The flat memory of a layout as an array; with ``lanes``, one row for each, ``distance`` bytes apart. The caller keeps it alive."""
    nbytes = layout.length * layout.dtype.itemsize
    first = min(address, address + (lanes - 1) * distance)
    buffer = (ctypes.c_char * (nbytes + (lanes - 1) * abs(distance))).from_address(first)
    shape, strides = ((layout.length,), None) if distance == 0 else ((lanes, layout.length), (distance, layout.dtype.itemsize))
    return np.ndarray(shape, layout.dtype, buffer, address - first, strides)


@dataclass(eq=False)
class Base:
    """The memory that several inputs of a trace share: where each lies in it."""

    members: list[TraceInput]
    layout: Layout


# --- a piece of flat memory by view operations --------------------------------------------------------------------------------------------


def view_ops(piece: Piece, length: int, emit: Any) -> list[ViewOp]:
    """The operations that lead from a flat array to a piece of it: slices and reshapes where its strides are nested, else a gather."""
    axes = sorted((i for i, n in enumerate(piece.shape) if n > 1), key=lambda i: -abs(piece.strides[i]))
    ops = _nested_slices(piece, length, axes)
    if ops is None:
        return [ViewOp(indexing.gather, {"axes": (0,)}, (emit.const(_element_numbers(piece)),))]
    backwards = [piece.strides[i] < 0 for i in axes]
    if any(backwards):
        sizes = tuple(piece.shape[i] for i in axes)
        starts = tuple(n - 1 if back else 0 for n, back in zip(sizes, backwards, strict=True))
        ops.append(_slice(starts, sizes, tuple(-1 if back else 1 for back in backwards)))
    if axes != sorted(axes):
        ops.append(ViewOp(movement.transpose, {"perm": tuple(axes.index(i) for i in sorted(axes))}))
    if len(axes) != len(piece.shape) or not axes or not ops:
        ops.append(ViewOp(movement.reshape, {"shape": piece.shape}))
    return ops


def _slice(starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> ViewOp:
    return ViewOp(movement.slice_, {"starts": starts, "sizes": sizes, "steps": steps})


def _nested_slices(piece: Piece, length: int, axes: Sequence[int]) -> list[ViewOp] | None:
    """The piece with its axes from the coarsest to the finest, all running forwards, those of size 1 left out.

    Per axis the last axis, of ``width`` elements, is cut into rows as long as the axis' stride, beginning ``margin`` elements before the
    piece does, so that the last row ends inside. None: the rest of a row does not fit into one.
    """
    strides = [abs(piece.strides[i]) for i in axes]
    sizes = [piece.shape[i] for i in axes]
    start = piece.offset + sum((n - 1) * piece.strides[i] for i, n in zip(axes, sizes, strict=True) if piece.strides[i] < 0)
    ops: list[ViewOp] = []
    lead: tuple[int, ...] = ()
    width = length
    for k, (n, stride) in enumerate(zip(sizes[:-1], strides[:-1], strict=True)):
        extent = 1 + sum((m - 1) * s for m, s in zip(sizes[k + 1 :], strides[k + 1 :], strict=True))
        margin = max(start + n * stride - width, 0)
        if margin > start or margin + extent > stride:
            return None
        zeros, ones = (0,) * len(lead), (1,) * (len(lead) + 1)
        ops += [
            _slice((*zeros, start - margin), (*lead, n * stride), ones),
            ViewOp(movement.reshape, {"shape": (*lead, n, stride)}),
        ]
        lead, start, width = (*lead, n), margin, stride
    n, stride = (sizes[-1], strides[-1]) if axes else (1, 1)
    if stride == 0:
        return None
    if not (start == 0 and n == width and stride == 1):
        ops.append(_slice((*(0,) * len(lead), start), (*lead, n), (*(1,) * len(lead), stride)))
    return ops


def _element_numbers(piece: Piece) -> np.ndarray:
    out = np.full(piece.shape, piece.offset, np.int64)
    for axis, (n, stride) in enumerate(zip(piece.shape, piece.strides, strict=True)):
        out += (np.arange(n) * stride).reshape([n if i == axis else 1 for i in range(out.ndim)])
    return out


# --- joining ------------------------------------------------------------------------------------------------------------------------------


def before_first_write(handle: Tracer) -> None:
    """Join an input that is about to be written with all that share its elements."""
    slot = handle.stage.slot_of(handle.root)
    if slot is not None:
        _join(slot)


def after_arrival(slot: TraceInput) -> None:
    """Join an array that has come in late with what has been written of its memory."""
    if slot.handle.kind is Kind.ARRAY and any(other.written for other in slot.handle.stage.inputs):
        _join_outside(slot)
        if any(other.written for other in _sharing(slot)):
            _join(slot)


def _join_outside(slot: TraceInput) -> None:
    """Whether handles of the enclosing trace share memory is known there."""
    outer = slot.outer.stage.slot_of(slot.outer.root) if slot.outer is not None else None
    if outer is not None and not outer.written:
        _join(outer)


def _join(slot: TraceInput) -> None:
    _join_outside(slot)
    sharing = _sharing(slot)
    if len(sharing) > 1:
        _refuse_derivatives(slot, sharing)
        (_join_views if slot.outer is not None else _join_arrays)(slot.handle.stage, sharing)


def _sharing(slot: TraceInput) -> list[TraceInput]:
    """The inputs that share elements with one, directly or through others, and what lies between them; itself among them."""
    trace = slot.handle.stage
    roots = [s for s in trace.inputs if s.handle.parent is None and s.handle.kind is Kind.ARRAY]
    if slot.outer is not None:
        return [s for s in roots if s.outer is not None and s.outer.root is slot.outer.root]
    concrete = [s for s in roots if s.array is not None]
    if trace.overlaps is None or trace.overlaps[0] != len(trace.inputs):
        trace.overlaps = len(trace.inputs), list(overlaps([s.array for s in concrete], [True] * len(concrete)))
    pairs = trace.overlaps[1]
    if slot not in concrete or not any(concrete.index(slot) in pair for pair in pairs):
        return [slot]
    found = {concrete.index(slot)}
    bounds = [byte_bounds(s.array) if s.array.size else (0, 0) for s in concrete]
    while True:
        low, high = min(bounds[k][0] for k in found), max(bounds[k][1] for k in found)
        more = {k for pair in pairs if not found.isdisjoint(pair) for k in pair}
        more |= {k for k, (start, stop) in enumerate(bounds) if start < high and low < stop}
        if more <= found:
            return [concrete[k] for k in sorted(found)]
        found |= more


def _refuse_derivatives(slot: TraceInput, sharing: Sequence[TraceInput]) -> None:
    if any(s.differentiated for s in sharing):
        raise _overlap(slot, sharing, "which of them a derivative belongs to is not defined", "pass copies of them")


def _overlap(slot: TraceInput, sharing: Iterable[TraceInput], why: str, fix: str) -> OverlapError:
    trace = slot.handle.stage
    written = next((s for s in sharing if s.written), slot)
    others = ", ".join(_label(s) for s in sharing if s is not written)
    what = f"{trace.name} writes to {_label(written)}, which shares memory with {others}"
    return OverlapError(what, where=where(), why=f"{why} ({trace.transform})", fix=fix)


def _label(slot: TraceInput) -> str:
    return slot.label or "a captured array"


def _join_views(trace: Trace, sharing: Sequence[TraceInput]) -> None:
    """Make views of one handle of the enclosing trace views of it here too."""
    if any(s.axis is not None for s in sharing):
        _join_mapped_views(trace, sharing)
        return
    base = trace.lift(sharing[0].outer.root)
    for s in sharing:
        if s.handle is base or s.handle.parent is not None:  # coming in, the base may have joined them
            continue
        view = trace.lift(s.outer) if s.outer.parent is not None else None
        whole = ViewOp(movement.reshape, {"shape": s.handle.aval.shape})
        _attach(s.handle, *((base, whole) if view is None else (view.parent, view.view_op)))


def _join_mapped_views(trace: Trace, sharing: Sequence[TraceInput]) -> None:
    """Examples of arguments of the enclosing trace: what one example spans is a row of the memory that the arguments share there."""
    arguments = [s.outer.stage.slot_of(s.outer) for s in sharing]
    if any(a is None or a.array is None for a in arguments):
        raise _overlap(sharing[0], sharing, "where the examples of views lie is not known here", "map copies of them")
    lanes = _lanes(sharing, [a.array for a in arguments])
    whole = sharing[0].outer.stage.slot_of(sharing[0].outer.root)
    itemsize = lanes.layout.dtype.itemsize
    offset = (lanes.address - whole.array.__array_interface__["data"][0]) // itemsize
    rows = Piece(offset, (lanes.count, lanes.layout.length), (lanes.distance // itemsize, 1), True)
    view = _view(whole.handle, view_ops(rows, whole.base.layout.length, whole.handle.stage.builder))
    _add_base(trace, sharing, lanes.layout, outer=view, outer_atom=view.atom, hidden=True, axis=0)


def _join_arrays(trace: Trace, sharing: Sequence[TraceInput]) -> None:
    """Make inputs whose arrays share elements views of one more input: the flat memory that they span."""
    if any(s.axis is not None for s in sharing):
        lanes = _lanes(sharing, [s.array for s in sharing])
        array = memory_at(lanes.address, lanes.layout, lanes.count, lanes.distance)
        _add_base(trace, sharing, lanes.layout, array=array, value=array, hidden=True, axis=0)
        return
    found = common_layout([s.array for s in sharing])
    if found is None:
        raise _overlap(sharing[0], sharing, "they see its bytes as different elements", "pass a copy of one of them")
    array = memory_at(found[1], found[0])
    _add_base(trace, sharing, found[0], array=array, **({} if trace.opaque else {"value": array}))


@dataclass(frozen=True)
class _Lanes:
    """The memory of examples: the layout within each, where the first begins, how many there are, and the bytes from one to the next."""

    layout: Layout
    address: int
    count: int
    distance: int


def _lanes(sharing: Sequence[TraceInput], arrays: Sequence[np.ndarray]) -> _Lanes:
    """Where the examples of mapped arrays lie, if no two examples share any memory."""
    if any(s.axis is None for s in sharing):
        raise _overlap(sharing[0], sharing, "one is mapped and another is shared by all examples", "pass copies of them")
    lanes = [np.moveaxis(a, s.axis, 0) for a, s in zip(arrays, sharing, strict=True)]
    count, distances = len(lanes[0]), {a.strides[0] for a in lanes}
    found = common_layout([a[0] for a in lanes]) if count else None
    nbytes = found[0].length * found[0].dtype.itemsize if found else 0
    if found is None or (count > 1 and (len(distances) > 1 or nbytes > abs(min(distances)))):
        raise _overlap(sharing[0], sharing, "examples would write into each other's memory", "map copies of them")
    return _Lanes(*found, count, distances.pop() if count > 1 else nbytes)


def _add_base(trace: Trace, sharing: Sequence[TraceInput], layout: Layout, **facts: Any) -> None:
    """The input that stands for the memory of others, which become views of it."""
    aval, label = AbstractArray((layout.length,), layout.dtype), f"the memory of {' and '.join(map(_label, sharing))}"
    slot = trace.add_input(aval, shadow=dataless(aval.shape, aval.dtype), label=label, base=Base(list(sharing), layout), **facts)
    for s, piece in zip(sharing, layout.pieces, strict=True):
        *ops, last = view_ops(piece, layout.length, trace.builder)
        _attach(s.handle, _view(slot.handle, ops), last)


def _view(handle: Tracer, ops: Sequence[ViewOp]) -> Tracer:
    for op in ops:
        (aval,) = op.primitive.out_avals([handle.aval, *(a.aval for a in op.operands)], op.params)
        handle = handle.stage.view(handle, op, aval, lambda parent=handle, op=op: op.primitive.impl(parent.shadow, **op.params))
    return handle


def _attach(handle: Tracer, parent: Tracer, op: ViewOp) -> None:
    """Make a root handle a view; what it holds by now is written to the memory that it joins."""
    value = handle.atom if handle.generation else None
    root = parent.root
    if value is not None:
        root.generation = max(root.generation, handle.generation)  # views of it that are out of date must stay so
    handle.become_view(parent, op)
    if value is not None:
        write_through(handle, value)


# --- after tracing ------------------------------------------------------------------------------------------------------------------------


def read_from_bases(trace: Trace) -> None:
    """Let what was read of inputs before they got a base be read from the base, so that the graph uses that alone."""
    b = Emitter()
    bases = [slot for slot in reversed(trace.inputs) if slot.base is not None]  # the base of a base comes after it
    for slot in bases:
        for member, piece in zip(slot.base.members, slot.base.layout.pieces, strict=True):
            atom = slot.var
            for op in view_ops(piece, slot.base.layout.length, trace.builder):
                (atom,) = b.bind(op.primitive, (atom, *op.operands), op.params)
            b.eqns[-1] = b.eqns[-1].replace(outputs=(member.var,))
    for slot in bases:
        for member in slot.base.members:
            member.var = Var(member.var.aval)
    trace.builder.eqns[:0] = b.eqns


Trace.before_first_write = staticmethod(before_first_write)
Trace.after_arrival = staticmethod(after_arrival)
