"""Views that see the memory otherwise: as another dtype, through windows, as what is repeated; and the question who shares memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view as plain_windows

from functx import dtypes, shapes
from functx.dtypes import Kind
from functx.errors import ConcretizationError, UnsupportedError
from functx.mutation import make_view
from functx.numpy import promote
from functx.numpy.manipulation import as_reshaped, as_transposed
from functx.ops import elementwise, movement, parts
from functx.ops.parts import part_dtype
from functx.trace import TraceInput, Tracer, current_trace, dataless, where

# --- another dtype ------------------------------------------------------------------------------------------------------------------------


def view(self: Any, dtype: Any = None, type: Any = None) -> Tracer:
    """ndarray.view: the same memory, its bits read as another dtype of the same size (they carry no derivative), or complex numbers as
    pairs of floats and back.
    """
    (h,) = promote.handles([self])
    given = {name: value for name, value in (("dtype", dtype), ("type", type)) if value is not None}
    like = np.empty(64, h.aval.dtype).view(**given)  # raises NumPy's own errors
    own, target = h.aval.dtype, like.dtype
    if like.__class__ is not np.ndarray or not dtypes.is_supported(target):
        what = f"ndarray.view as {like.__class__.__name__} of dtype {target} cannot be traced"
        raise UnsupportedError(what, where=where(), fix="make that view outside the traced function")
    if target == own:
        return h[...] if h.kind is Kind.ARRAY else h
    if target.itemsize == own.itemsize:
        if h.kind is not Kind.ARRAY:
            return current_trace().tracer(current_trace().emit.bitcast(h.atom, dtype=target), h.kind)
        return make_view(h, elementwise.bitcast, {"dtype": target}, lambda: h.shadow.view(target))
    if target.itemsize * 2 == own.itemsize and dtypes.is_complex(own) or own.itemsize * 2 == target.itemsize and dtypes.is_complex(target):
        h.shadow.view(target)  # raises NumPy's own errors
        return _as_parts(h, target)
    raise UnsupportedError(
        f"ndarray.view of {own} as {target} cannot be traced",
        where=where(),
        why="their elements have different sizes",
        fix="x.astype(dtype) to convert the values; x.view(dtype) takes dtypes of the same size, and complex numbers and their parts",
    )


def _as_parts(h: Tracer, target: np.dtype) -> Tracer:
    """Complex numbers as twice as many real and imaginary parts in a row, or back."""
    shape = h.aval.shape
    if dtypes.is_complex(h.aval.dtype):
        pairs = make_view(h, parts.pairs, {}, lambda: parts.pairs.impl(h.shadow))
        return view(as_reshaped(pairs, (*shape[:-1], shape[-1] * 2)), target)
    pairs = as_reshaped(view(h, part_dtype(target)), (*shape[:-1], shape[-1] // 2, 2))
    return make_view(pairs, parts.from_pairs, {}, lambda: parts.from_pairs.impl(pairs.shadow))


# --- windows and repetition ---------------------------------------------------------------------------------------------------------------


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tracer:  # fmt: skip
    """np.lib.stride_tricks.sliding_window_view: a read-only view of all windows, their axes last."""
    (h,) = promote.handles([x])
    shape, rank = h.aval.shape, h.aval.ndim
    plain_windows(dataless(shape, h.aval.dtype), window_shape, axis)  # raises NumPy's own errors
    if writeable:
        what = "sliding_window_view(writeable=True) cannot be traced"
        raise UnsupportedError(what, where=where(), why="an element is in several windows", fix="write to the array itself, or to a copy")
    windows = shapes.as_sequence(window_shape)
    axes = range(rank) if axis is None else [shapes.canonical_axis(i, rank) for i in shapes.as_sequence(axis)]
    own = tuple(sorted(set(axes)))
    sizes = [shape[i] - sum(n - 1 for n, j in zip(windows, axes, strict=True) if i == j) for i in own]
    shapes.check(all(n > 0 for n in sizes), "window shape cannot be larger than input array shape")
    steps = [tuple(int(i == j) for j in own) for i in (*own, *axes)]
    view = _lattice(h, own, (0,) * len(own), (*sizes, *windows), steps, "read")
    rest = iter(range(len(own) + len(windows), view.aval.ndim))
    first = [own.index(i) if i in own else next(rest) for i in range(rank)]
    return as_transposed(view, (*first, *range(len(own), len(own) + len(windows))))


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tracer, ...]:
    """np.broadcast_arrays: those that have the common shape as they are, views of the others."""
    operands = [h if h.kind is Kind.ARRAY else current_trace().tracer(h.atom) for h in promote.handles(args)]
    shape = promote.broadcast_shapes(operands)
    return tuple(h if shapes.fit(h.aval.shape, shape) else _repeated(h, shape) for h in operands)


def _repeated(h: Tracer, shape: shapes.Shape) -> Tracer:
    """A view in which elements repeat, broadcast to ``shape``; writes to it warn, and of several to one element the last one stays."""
    h = h if h.aval.ndim else as_reshaped(h, (1,))
    axes = tuple(range(h.aval.ndim))
    lead = len(shape) - len(axes)
    steps = [tuple(int(r - lead == i and shapes.fit((h.aval.shape[i],), (n,))) for i in axes) for r, n in enumerate(shape)]
    return _lattice(h, axes, (0,) * len(axes), shape, steps, "warn")


def diagonal_view(h: Tracer, axes: tuple[int, ...], starts: tuple[Any, ...], n: shapes.Size, access: str) -> Tracer:
    """``n`` elements along the diagonal of some axes, as the first axis of a view."""
    return _lattice(h, axes, starts, (n,), [(1,) * len(axes)], access)


def _lattice(h: Tracer, axes: Any, starts: Any, sizes: Sequence[Any], steps: Sequence[tuple[int, ...]], access: str) -> Tracer:
    params = {"axes": axes, "starts": starts, "sizes": tuple(sizes), "steps": tuple(steps), "access": access}
    return make_view(h, movement.lattice, params, lambda: _shadow(h, params))


def _shadow(h: Tracer, params: dict[str, Any]) -> np.ndarray:
    access = "write" if params["access"] == "warn" else params["access"]  # NumPy warns of every look at such a flag
    hints = {name: shapes.hints(params[name]) for name in ("sizes", "starts")}
    return movement.lattice.impl(h.shadow, **{**params, **hints, "access": access})


# --- who shares memory --------------------------------------------------------------------------------------------------------------------


def shares_memory(a: Any, b: Any, /, max_work: int = -1) -> bool:
    """np.shares_memory, of the memory that the plain program would have."""
    return _sharing(np.shares_memory, *promote.handles([a, b]), max_work)


def may_share_memory(a: Any, b: Any, /, max_work: int = 0) -> bool:
    """np.may_share_memory."""
    return _sharing(np.may_share_memory, *promote.handles([a, b]), max_work)


def _sharing(ask: Any, x: Tracer, y: Tracer, max_work: int) -> bool:
    """Whether two handles of one trace share memory."""
    if x.kind is not Kind.ARRAY or y.kind is not Kind.ARRAY or 0 in x.aval.shape or 0 in y.aval.shape:
        return False  # a number has no memory, or is a copy; no elements have none
    sources = [_source(h) for h in (x, y)]
    if sources[0] is sources[1]:
        if _is_above(x, y) or _is_above(y, x) or not (_moves(x) or _moves(y)):
            for d in (*x.aval.shape, *y.aval.shape, *sources[0].aval.shape):
                operator.index(d)  # the answer is for these sizes
            return ask(x.shadow, y.shadow, max_work)  # views of one shadow lie in it as the views in the array
        raise ConcretizationError(
            f"np.{ask.__name__} of views at traced places cannot be answered",
            where=where(),
            why="where they lie is not known while tracing",
            fix="compare the places: i == j",
        )
    slots = [h.stage.slot_of(h) for h in sources]
    if any(slot is None for slot in slots):
        return False  # memory of the function's own
    x.stage.placement_used = True
    if all(slot.outer is not None for slot in slots):
        return _sharing(ask, _outside(x), _outside(y), max_work)
    arrays = [_memory(slot) for slot in slots]
    if any(array is None for array in arrays) or not ask(*arrays, max_work):
        return False
    return ask(*(_replayed(h, array) for h, array in zip((x, y), arrays, strict=True)), max_work)


def _memory(slot: TraceInput) -> np.ndarray | None:
    """The array that an input stands for, as far as it is there; of a mapped one, the first example."""
    if slot.array is None or slot.axis is None:
        return slot.array
    return np.moveaxis(slot.array, slot.axis, 0)[0] if slot.array.shape[slot.axis] else None


def _source(h: Tracer) -> Tracer:
    """The input that a handle is a view of (inputs that share memory may be views themselves), or its root."""
    return h if h.parent is None or h.stage.slot_of(h) is not None else _source(h.parent)


def _outside(h: Tracer) -> Tracer:
    """The handle of the enclosing trace that a handle stands for; of a mapped one, the first example."""
    if (slot := h.stage.slot_of(h)) is not None:
        return slot.outer if slot.axis is None else _first_along(slot.outer, slot.axis)
    above, op = _outside(h.parent), h.view_op
    return above.stage.view(above, op, h.aval, h._shadow if op.operands else lambda: op.primitive.impl(above.shadow, **op.params))


def _first_along(h: Tracer, axis: int) -> Tracer:
    """The view of the first place along an axis."""
    rank, rest = h.aval.ndim, shapes.delete(h.aval.shape, (axis,))
    params = {"starts": (0,) * rank, "sizes": shapes.insert(rest, axis, 1), "steps": (1,) * rank}
    key = tuple(slice(0, 1) if i == axis else slice(None) for i in range(rank))
    return as_reshaped(make_view(h, movement.slice_, params, lambda: h.shadow[key]), rest)


def _moves(h: Tracer) -> bool:
    """Whether a traced integer says where a view lies."""
    return h is not _source(h) and (bool(h.view_op.operands) or _moves(h.parent))


def _is_above(x: Tracer, y: Tracer) -> bool:
    """Whether y is x, or a view of it."""
    return x is y or (y is not _source(y) and _is_above(x, y.parent))


def _replayed(h: Tracer, root: np.ndarray) -> np.ndarray:
    """The view of a plain array that a handle is of its root; a view at a traced place is taken for all that it may be of."""
    if h is _source(h):
        return root
    if _moves(h):
        return _replayed(h.parent, root)
    return h.view_op.primitive.impl(_replayed(h.parent, root), **h.view_op.params)
