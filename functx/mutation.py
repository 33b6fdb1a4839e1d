"""Views and writes of tracers (law 3). The graph stays pure: a write through a view becomes an update of its parent, up to the root handle.

A view is read when needed and read again after its root has been written (:attr:`functx.trace.Tracer.atom`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.capture import repeats
from functx.demand import depends_on_differentiated
from functx.dtypes import INT64, Kind, is_inexact
from functx.errors import DroppedGradientError, OverlapError, UnsupportedError
from functx.ir import AbstractArray, Atom
from functx.ops import elementwise, higher_order, indexing, movement, parts
from functx.primitive import Emitter, Primitive
from functx.source import user_source, warn
from functx.trace import Trace, Tracer, ViewOp, where
from functx.util import invert_permutation

_WRITTEN_TWICE = (
    "writing to an array made by np.broadcast_arrays, in which several elements are one place in memory: the last one written stays; if "
    "that is not intended, make a copy before"
)


def _places(b: Emitter, op: ViewOp) -> list[Atom]:
    """The indices of the elements that a lattice reads."""
    return movement.lattice_indices(b, **{name: op.params[name] for name in ("starts", "sizes", "steps")})


def _bits(b: Emitter, old: Atom, new: Atom) -> Atom:
    """New bits for a parent of another dtype; elements whose bits stay the same keep their derivative."""
    bits = b.bitcast(new, dtype=old.aval.dtype)
    return b.select(b.eq(new, b.bitcast(old, dtype=new.aval.dtype)), old, bits) if is_inexact(old.aval.dtype) else bits


# How the new contents of a view are put into its parent: f(b, parent's old value, new value of the view, view op).
WRITE_THROUGH: dict[Primitive, Callable[[Emitter, Atom, Atom, ViewOp], Atom]] = {
    movement.slice_: lambda b, old, new, op: b.slice_set(old, new, starts=op.params["starts"], steps=op.params["steps"]),
    movement.reshape: lambda b, old, new, op: b.reshape(new, shape=old.aval.shape),
    movement.transpose: lambda b, old, new, op: b.transpose(new, perm=invert_permutation(op.params["perm"])),
    indexing.gather: lambda b, old, new, op: b.scatter_set(old, new, *op.operands, axes=op.params["axes"]),
    parts.real: lambda b, old, new, op: b.complex(new, b.imag(old)),
    parts.imag: lambda b, old, new, op: b.complex(b.real(old), new),
    parts.pairs: lambda b, old, new, op: b.from_pairs(new),
    parts.from_pairs: lambda b, old, new, op: b.pairs(new),
    movement.lattice: lambda b, old, new, op: b.scatter_set(old, new, *_places(b, op), axes=op.params["axes"]),
    elementwise.bitcast: lambda b, old, new, op: _bits(b, old, new),
    elementwise.stop_gradient: lambda b, old, new, op: new,
    higher_order.named: lambda b, old, new, op: new,
}


def make_view(
    parent: Tracer, primitive: Primitive, params: Mapping[str, Any], shadow: Callable[[], np.ndarray], operands: Sequence[Atom] = ()
) -> Tracer:
    """The handle of ``primitive(parent)`` on the parent's memory. ``shadow`` gives NumPy's own view of the parent's shadow.

    What is not an array (a NumPy or Python scalar) has no memory to share: its "view" is a value of its own.
    """
    avals = [parent.aval.with_kind(Kind.ARRAY), *(a.aval for a in operands)]
    (aval,) = primitive.out_avals(avals, params)
    if parent.kind is not Kind.ARRAY:
        (atom,) = parent.stage.emit.bind(primitive, (parent.atom, *operands), params)
        return parent.stage.tracer(atom)
    op = ViewOp(primitive, params, tuple(operands), user_source())
    return parent.stage.view(parent, op, AbstractArray(aval.shape, aval.dtype), shadow)


# How a write to a part of an array goes into memory where several elements are one place: f(the places one after another, the place of
# each element of the array) gives the places anew. Elements that are not written must not count as written last.
PlaceWriter = Callable[[Atom, Atom], Atom]


def write(handle: Tracer, value: Atom, into_places: PlaceWriter | None = None) -> None:
    """Replace the contents of ``handle`` by ``value``, of the same shape and dtype, as everyone who shares its memory will see;
    ``into_places`` tells what of it is new, if it is not all.
    """
    check_writeable(handle)
    _check_bits(handle, value)
    if handle.root.generation == 0:
        Trace.before_first_write(handle)
    write_through(handle, value, into_places)


def write_back(handle: Tracer, value: Atom) -> None:
    """Write what a function traced on its own, which took each element of its argument for a place of its own, left in the argument."""
    if _repeating(handle) is not None:
        raise UnsupportedError(
            "a function under a transform wrote to its argument, an array made by np.broadcast_arrays",
            where=where(),
            why="several of its elements are one place in memory, and which of them was written last is not known outside",
            fix="pass a copy, or broadcast inside the function",
        )
    write(handle, value)


def write_where(handle: Tracer, mask: Atom, value: Atom) -> None:
    """Write ``value``, of the handle's shape, where a mask of that shape holds."""
    b, n = handle.stage.emit, shapes.size(handle.aval.shape)

    def into_places(row: Atom, places: Atom) -> Atom:
        size = row.aval.shape[0]
        chosen = b.select(mask, places, b.full(places.aval.shape, size, INT64))  # the others go to a place behind the last one
        longer = b.concatenate(row, b.full((1,), 0, row.aval.dtype), axis=0)
        written = b.scatter_set(longer, b.reshape(value, shape=(n,)), b.reshape(chosen, shape=(n,)), axes=(0,))
        return b.slice(written, starts=(0,), sizes=(size,), steps=(1,))

    write(handle, b.select(mask, value, handle.atom), into_places)


def write_at(handle: Tracer, update: Atom, indices: Sequence[Atom], axes: tuple[int, ...], primitive: str = "scatter_set") -> None:
    """Write ``update`` into the elements that index arrays select, one after another, or combine them (``scatter_add`` and the like)."""
    b, count = handle.stage.emit, shapes.size(update.aval.shape)
    scatter = getattr(b, primitive)

    def into_places(row: Atom, places: Atom) -> Atom:
        chosen = b.gather(places, *indices, axes=axes)
        return scatter(row, b.reshape(update, shape=(count,)), b.reshape(chosen, shape=(count,)), axes=(0,))

    write(handle, scatter(handle.atom, update, *indices, axes=axes), into_places)


def write_through(handle: Tracer, value: Atom, into_places: PlaceWriter | None = None) -> None:
    """Give the memory of a handle new contents. Views of it, this one too, are read again from there, so that the newest value of the whole
    is the only one that is needed: compiled code can then write it in place.
    """
    op, parent = handle.view_op, handle.parent
    if parent is None:
        handle.assign(value)
    elif (repeating := _repeating(handle)) is not None:
        write_through(repeating.parent, _last_written(handle, value, repeating, into_places))
    else:
        write_through(parent, WRITE_THROUGH[op.primitive](handle.stage.emit, parent.atom, value, op))


def _repeating(handle: Tracer) -> Tracer | None:
    """The handle itself or the view above it, nearest to the root, in which elements repeat (np.broadcast_arrays)."""
    found, node = None, handle
    while node.parent is not None:
        found, node = node if node.view_op.params.get("access") == "warn" else found, node.parent
    return found


def _last_written(handle: Tracer, value: Atom, repeating: Tracer, into_places: PlaceWriter | None) -> Atom:
    """The contents of the parent of ``repeating`` after a write through views of it: of what goes to one place, the last one stays."""
    b, parent = handle.stage.emit, repeating.parent
    n, count = shapes.size(parent.aval.shape), shapes.size(handle.aval.shape)
    places = b.reshape(b.iota(shape=(n,), dtype=INT64, axis=0), shape=parent.aval.shape)
    chain = [handle]
    while chain[-1] is not repeating:
        chain.append(chain[-1].parent)
    for view in reversed(chain):
        if view.aval.dtype != parent.aval.dtype:
            what = "a part of the numbers, or their bits, cannot be written through np.broadcast_arrays"
            raise UnsupportedError(what, where=where(), fix="write to a copy: x.copy()")
        (places,) = b.bind(view.view_op.primitive, (places, *view.view_op.operands), view.view_op.params)
    row = b.reshape(parent.atom, shape=(n,))
    if into_places is None:
        row = b.scatter_set(row, b.reshape(value, shape=(count,)), b.reshape(places, shape=(count,)), axes=(0,))
    else:
        row = into_places(row, places)
    return b.reshape(row, shape=parent.aval.shape)


def _check_bits(handle: Tracer, value: Atom) -> None:
    """Memory of other numbers keeps the bits of what is written, and not its derivative."""
    as_bits = is_inexact(value.aval.dtype) and any(op.primitive is elementwise.bitcast for op in _view_ops(handle))
    if as_bits and depends_on_differentiated(handle.stage, value):
        raise DroppedGradientError(
            f"a differentiated value was written into memory of {handle.root.aval.dtype} that is viewed as {value.aval.dtype}",
            where=where(),
            why="it is kept as bits, which carry no derivative",
            fix=f"make the array with dtype {value.aval.dtype} instead of viewing another one, or use functx.stop_gradient",
        )


def _view_ops(handle: Tracer) -> Iterator[ViewOp]:
    """The operations that lead to a handle, from the last one to the root."""
    while handle.parent is not None:
        yield handle.view_op
        handle = handle.parent


def check_writeable(handle: Tracer) -> None:
    """Raise as NumPy does for scalars and read-only memory, and for arguments whose elements share memory with each other."""
    if handle.kind is not Kind.ARRAY:
        name = "float" if handle.kind is Kind.PYTHON else f"numpy.{handle.aval.dtype.name}"
        raise TypeError(f"'{name}' object does not support item assignment")
    node: Tracer | None = handle
    while node is not None:
        op = node.view_op
        if node.is_read_only or (op is not None and (op.primitive not in WRITE_THROUGH or op.params.get("access") == "read")):
            raise ValueError("assignment destination is read-only")
        if op is not None and op.params.get("access") == "warn":
            warn(_WRITTEN_TWICE, DeprecationWarning)
        slot = node.stage.slot_of(node)
        if slot is not None and slot.outer is not None:
            check_writeable(slot.outer)
        if slot is not None and slot.array is not None and repeats(slot.array):
            raise OverlapError(
                f"{node.stage.name} writes to {slot.label or 'a captured array'}, several elements of which are one place in memory",
                where=where(),
                why="which of them is written last is not followed through arguments",
                fix="pass a copy, or broadcast inside the function",
            )
        node = node.parent


def same_place(a: Tracer, b: Tracer) -> bool:
    """Whether two handles are the same view of the same memory (``x[1:] += y`` ends by assigning such a view to itself)."""
    while a is not b:
        if a.parent is None or b.parent is None or not a.view_op.is_same(b.view_op):
            return False
        a, b = a.parent, b.parent
    return True
