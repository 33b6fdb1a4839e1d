"""Views and writes of tracers (law 3). The graph stays pure: a write through a view becomes an update of its parent, up to the root handle.

A view is read when needed and read again after its root has been written (:attr:`functx.trace.Tracer.atom`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functx.dtypes import Kind
from functx.ir import AbstractArray, Atom
from functx.ops import elementwise, indexing, movement, parts
from functx.primitive import Emitter, Primitive
from functx.source import user_source
from functx.trace import Trace, Tracer, ViewOp
from functx.util import invert_permutation

# How the new contents of a view are put into its parent: f(b, parent's old value, new value of the view, view op).
WRITE_THROUGH: dict[Primitive, Callable[[Emitter, Atom, Atom, ViewOp], Atom]] = {
    movement.slice_: lambda b, old, new, op: b.slice_set(old, new, starts=op.params["starts"], steps=op.params["steps"]),
    movement.reshape: lambda b, old, new, op: b.reshape(new, shape=old.aval.shape),
    movement.transpose: lambda b, old, new, op: b.transpose(new, perm=invert_permutation(op.params["perm"])),
    indexing.gather: lambda b, old, new, op: b.scatter_set(old, new, *op.operands, axes=op.params["axes"]),
    parts.real: lambda b, old, new, op: b.complex(new, b.imag(old)),
    parts.imag: lambda b, old, new, op: b.complex(b.real(old), new),
    elementwise.stop_gradient: lambda b, old, new, op: new,
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


def write(handle: Tracer, value: Atom) -> None:
    """Replace the contents of ``handle`` by ``value``, of the same shape and dtype, as everyone who shares its memory will see."""
    check_writeable(handle)
    if handle.root.generation == 0:
        Trace.before_first_write(handle)
    write_through(handle, value)


def write_through(handle: Tracer, value: Atom) -> None:
    """Give a handle new contents, and its parents what follows from them."""
    op, parent = handle.view_op, handle.parent
    if parent is not None:
        write_through(parent, WRITE_THROUGH[op.primitive](handle.stage.emit, parent.atom, value, op))
    handle.assign(value)


def check_writeable(handle: Tracer) -> None:
    """Raise as NumPy does for scalars and read-only memory."""
    if handle.kind is not Kind.ARRAY:
        name = "float" if handle.kind is Kind.PYTHON else f"numpy.{handle.aval.dtype.name}"
        raise TypeError(f"'{name}' object does not support item assignment")
    node: Tracer | None = handle
    while node is not None:
        if node.is_read_only or (node.view_op is not None and node.view_op.primitive not in WRITE_THROUGH):
            raise ValueError("assignment destination is read-only")
        node = node.parent


def same_place(a: Tracer, b: Tracer) -> bool:
    """Whether two handles are the same view of the same memory (``x[1:] += y`` ends by assigning such a view to itself)."""
    while a is not b:
        if a.parent is None or b.parent is None or a.view_op != b.view_op:
            return False
        a, b = a.parent, b.parent
    return True
