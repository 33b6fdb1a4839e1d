"""Functions that rearrange: views where NumPy gives views, copies where it copies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.demand import plain_value
from functx.dims import quotient
from functx.dtypes import Kind
from functx.errors import ConcretizationError
from functx.mutation import make_view
from functx.numpy import bound, indexing, promote
from functx.numpy.ufuncs import store
from functx.ops import movement
from functx.trace import Tracer, contiguity, current_trace, dataless, where


def _handle(a: Any) -> Tracer:
    """The handle of an array; a Python scalar becomes one."""
    (h,) = promote.handles([a])
    return current_trace().tracer(h.atom) if h.kind is Kind.PYTHON else h


def as_reshaped(h: Tracer, shape: shapes.Shape) -> Tracer:
    """A reshape that only adds or drops axes of size 1: always a view."""
    return make_view(h, movement.reshape, {"shape": tuple(shape)}, lambda: h.shadow.reshape(shapes.hints(shape), copy=False))


def as_row(h: Tracer) -> Tracer:
    """All elements in C order, as a view whatever the layout, which NumPy does not always have: for writing to them."""
    shape = (shapes.size(h.aval.shape),)
    return make_view(h, movement.reshape, {"shape": shape}, lambda: dataless(shape, h.aval.dtype))


def as_transposed(h: Tracer, perm: Sequence[int]) -> Tracer:
    """A view with the axes permuted."""
    perm = tuple(perm)
    if not perm:
        return h[...] if h.kind is Kind.ARRAY else h
    return make_view(h, movement.transpose, {"perm": perm}, lambda: h.shadow.transpose(perm))


def layout(order: str | None, shape: shapes.Shape, dtype: np.dtype, like: Tracer | None = None) -> Callable[[], np.ndarray] | None:
    """The layout of a fresh array for NumPy's ``order``: C, F, A (F for an array in that order alone), K (as ``like``). None: C order."""
    if order not in ("C", "F", "A", "K", None):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if len(shape) > 1 and order == "F":
        return lambda: dataless(shape[::-1], dtype).T
    if len(shape) > 1 and order == "A" and like is not None and not like.is_fresh_c_order:
        return lambda: dataless(shape[::-1], dtype).T if _is_fortran(like) else dataless(shape, dtype)
    if like is None or order not in ("K", None) or like.is_fresh_c_order or sum(not shapes.same(d, 1) for d in like.aval.shape) < 2:
        return None
    # the axes in the order of those of ``like``; one along which it repeats is the innermost
    return lambda: promote.in_order(sorted(range(len(shape)), key=lambda i: -abs(like.shadow.strides[i])), shape, dtype)


def _is_fortran(h: Tracer) -> bool:
    return not h.is_fresh_c_order and contiguity(h).flags.fnc


def into(out: Any, h: Tracer, casting: str = "same_kind") -> Any:
    """A result as it is returned: written into ``out`` if there is one."""
    return h if out is None else store(np.add, [h.aval.dtype] * 2, h.aval.dtype, h.atom, out, casting)


def known(value: Any, what: str, fix: str) -> Any:
    """The value of an argument that decides a shape; an error that says what to write instead if it is unknown."""
    if not (isinstance(value, Tracer) or promote.contains_tracer(value)):
        return value
    try:
        return plain_value(promote.handles([value])[0], what)
    except ConcretizationError as error:
        raise ConcretizationError(f"{what} is unknown while tracing, and decides a shape", where=where(), why=error.why, fix=fix) from None


def copy(a: Any, order: str = "K", subok: bool = False) -> Tracer:
    """np.copy: the same values in memory of its own."""
    h = _handle(a)
    return current_trace().tracer(h.atom, Kind.ARRAY, layout(order, h.aval.shape, h.aval.dtype, h))


def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Tracer:
    """np.reshape: a view if the layout allows it, else a copy. Fortran order is C order of the transposed array."""
    h = _handle(a)
    shape = _resolve_shape(h.aval.shape, shape)
    if order not in ("C", "F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    if h.kind is Kind.SCALAR and shape == ():
        return h
    if order == "F" or (order == "A" and _is_fortran(h)):
        return transpose(reshape(transpose(h), shape[::-1], copy=copy))
    if copy is not True and _can_view(h, shape):
        return as_reshaped(h, shape)
    if copy is False:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return current_trace().tracer(current_trace().emit.reshape(h.atom, shape=shape))


def _can_view(h: Tracer, shape: shapes.Shape) -> bool:
    if h.kind is not Kind.ARRAY or h.is_fresh_c_order:
        return True  # a scalar, or a fresh array in C order, whose layout plays no part
    try:
        contiguity(h).reshape(shapes.hints(shape), copy=False)
    except ValueError:
        return False
    return True


def _is_found(size: shapes.Size) -> bool:
    return isinstance(size, shapes.Dim) and size.is_found


def _resolve_shape(old: shapes.Shape, new: Any) -> shapes.Shape:
    """The target of a reshape with -1 worked out."""
    dims = [operator.index(d) if not isinstance(d, shapes.Dim) else d for d in shapes.as_sequence(new)]
    if dims.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in dims:
        known = shapes.size(d for d in dims if d != -1)
        total = shapes.size(old)
        if shapes.fit((known,), (0,)) or not (_is_found(total) or total % known == 0):
            raise ValueError(f"cannot reshape array of size {total} into shape {shapes.show(dims)}".replace(", ", ","))
        dims[dims.index(-1)] = quotient(total, known)
    if not shapes.fit((shapes.size(dims),), (shapes.size(old),)):
        raise ValueError(f"cannot reshape array of size {shapes.size(old)} into shape {shapes.show(dims)}".replace(", ", ","))
    return tuple(dims)


def ravel(a: Any, order: str = "C") -> Tracer:
    """np.ravel: a flat view of an array in that order, else a copy (also where a reshape would find a strided view)."""
    h = _handle(a)
    if order == "K" and not h.is_fresh_c_order:
        strides = h.shadow.strides
        h, order = as_transposed(h, sorted(range(h.aval.ndim), key=lambda i: -abs(strides[i]))), "C"
    if order == "F" or (order == "A" and _is_fortran(h)):
        return ravel(transpose(h))
    fresh = h.kind is not Kind.ARRAY or h.is_fresh_c_order
    return reshape(h, -1, "C" if order == "K" else order, copy=None if fresh or contiguity(h).flags.c_contiguous else True)


def flatten(a: Any, order: str = "C") -> Tracer:
    """ndarray.flatten: always a copy."""
    return copy(ravel(a, order))


def transpose(a: Any, axes: Sequence[int] | None = None) -> Tracer:
    """np.transpose: a view with the axes permuted (reversed by default)."""
    h = _handle(a)
    rank = h.aval.ndim
    if axes is None:
        perm: Sequence[int] = range(rank)[::-1]
    else:
        axes = shapes.as_sequence(axes)
        if len(axes) != rank:
            raise ValueError("axes don't match array")
        perm = [shapes.canonical_axis(x, rank) for x in axes]
        if len(set(perm)) != rank:
            raise ValueError("repeated axis in transpose")
    return as_transposed(h, perm)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tracer:
    """np.swapaxes: a view."""
    h = _handle(a)
    perm = list(range(h.aval.ndim))
    i, j = shapes.canonical_axis(axis1, h.aval.ndim), shapes.canonical_axis(axis2, h.aval.ndim)
    perm[i], perm[j] = perm[j], perm[i]
    return as_transposed(h, perm)


def moveaxis(a: Any, source: Any, destination: Any) -> Tracer:
    """np.moveaxis: a view."""
    h = _handle(a)
    rank = h.aval.ndim
    froms = [shapes.canonical_axis(i, rank) for i in shapes.as_sequence(source)]
    tos = [shapes.canonical_axis(i, rank) for i in shapes.as_sequence(destination)]
    if len(froms) != len(tos):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    perm = [i for i in range(rank) if i not in froms]
    for to, origin in sorted(zip(tos, froms, strict=True)):
        perm.insert(to, origin)
    return as_transposed(h, perm)


def rollaxis(a: Any, axis: int, start: int = 0) -> Tracer:
    """np.rollaxis: a view with one axis moved before another."""
    h = _handle(a)
    rank = h.aval.ndim
    axis, start = shapes.canonical_axis(axis, rank), shapes.canonical_axis(start, rank + 1, "start") if start != rank else rank
    target = start - 1 if axis < start else start
    return h[...] if axis == target else moveaxis(h, axis, target)


def matrix_transpose(x: Any, /) -> Tracer:
    """np.matrix_transpose: a view with the last two axes swapped."""
    h = _handle(x)
    if h.aval.ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {h.aval.ndim}")
    return swapaxes(h, -1, -2)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tracer:
    """np.rot90: a view turned in the plane of two axes."""
    h = _handle(m)
    if len(tuple(axes)) != 2:
        raise ValueError("len(axes) must be 2.")
    rank = h.aval.ndim
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == rank:
        raise ValueError("Axes must be different.")
    if any(not -rank <= i < rank for i in axes):
        raise ValueError(f"Axes={tuple(axes)} out of range for array of ndim={rank}.")
    first, second = axes
    turns = k % 4
    if turns in (0, 2):
        return h[...] if turns == 0 else flip(h, (first, second))
    return swapaxes(flip(h, second), first, second) if turns == 1 else flip(swapaxes(h, first, second), second)


def squeeze(a: Any, axis: Any = None) -> Tracer:
    """np.squeeze: a view without the axes of size 1."""
    h = _handle(a)
    shape = h.aval.shape
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axis is None else shapes.canonical_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    if not axes:
        return h  # NumPy gives the array itself
    return as_reshaped(h, shapes.delete(shape, axes))


def expand_dims(a: Any, axis: Any) -> Tracer:
    """np.expand_dims: a view with new axes of size 1."""
    h = _handle(a)
    new = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = h.aval.ndim + len(new)
    places = shapes.canonical_axes(tuple(new), rank)
    rest = iter(h.aval.shape)
    return as_reshaped(h, tuple(1 if i in places else next(rest) for i in range(rank)))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    """np.broadcast_to: a read-only view."""
    h = _handle(array)
    shape = shapes.as_sequence(shape)
    if len(shape) < h.aval.ndim or shapes.broadcast(h.aval.shape, shape) != shape:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {shapes.show(h.aval.shape)} and "
            f"requested shape {shapes.show(shape)}"
        )
    dims = tuple(range(len(shape) - h.aval.ndim, len(shape)))
    return make_view(h, movement.broadcast, {"shape": shape, "dims": dims}, lambda: np.broadcast_to(h.shadow, shapes.hints(shape)))


def atleast_1d(*arrays: Any) -> Any:
    """np.atleast_1d."""
    out = [h if h.aval.ndim else reshape(h, 1) for h in promote.handles(arrays)]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_2d(*arrays: Any) -> Any:
    """np.atleast_2d."""
    out = [h if h.aval.ndim >= 2 else h[None] if h.aval.ndim else reshape(h, (1, 1)) for h in promote.handles(arrays)]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_3d(*arrays: Any) -> Any:
    """np.atleast_3d."""
    out = [_atleast_3d(h) for h in promote.handles(arrays)]
    return out[0] if len(out) == 1 else tuple(out)


def _atleast_3d(h: Tracer) -> Tracer:
    if h.aval.ndim == 0:
        return reshape(h, (1, 1, 1))
    return h if h.aval.ndim > 2 else h[..., None] if h.aval.ndim == 2 else h[None, :, None]


def flip(m: Any, axis: Any = None) -> Tracer:
    """np.flip: a view that runs backwards along the given axes."""
    h = _handle(m)
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    return h[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(h.aval.ndim))]


def fliplr(m: Any) -> Tracer:
    """np.fliplr: a view."""
    h = _handle(m)
    if h.aval.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(h, 1)


def flipud(m: Any) -> Tracer:
    """np.flipud: a view."""
    h = _handle(m)
    if h.aval.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(h, 0)


def roll(a: Any, shift: Any, axis: Any = None) -> Tracer:
    """np.roll."""
    h = given = _handle(a)
    if axis is None:
        return reshape(roll(ravel(h), shift, 0), h.aval.shape)
    axes, counts = shapes.as_sequence(axis), shapes.as_sequence(shift)
    counts = counts * len(axes) if len(counts) == 1 else counts
    axes = axes * len(counts) if len(axes) == 1 else axes
    for n, i in zip(counts, axes, strict=True):
        i = shapes.canonical_axis(i, h.aval.ndim)
        h = _rolled(h, n, i)
    return current_trace().tracer(h.atom, Kind.ARRAY, layout("K", h.aval.shape, h.aval.dtype, given))


def _rolled(h: Tracer, n: Any, axis: int) -> Tracer:
    size, lead = h.aval.shape[axis], (slice(None),) * axis
    if isinstance(n, Tracer) or not _lies_inside(operator.index(n), size):  # any number of places: each element is fetched
        return h if shapes.same(size, 0) else h[(*lead, np.remainder(np.subtract(promote.positions(size), n), size))]
    cut = _roll_cut(operator.index(n), size)
    if cut is None:
        return h
    b = current_trace().emit
    return current_trace().tracer(b.concatenate(h[(*lead, slice(cut, None))].atom, h[(*lead, slice(0, cut))].atom, axis=axis))


def _roll_cut(shift: int, size: shapes.Size) -> shapes.Size | None:
    """Where to cut an axis to roll it; None: nowhere."""
    if isinstance(size, int):
        return -shift % size if size and shift % size else None
    return None if shift == 0 else -shift if shift < 0 else size - shift


def _lies_inside(shift: int, size: shapes.Size) -> bool:
    """Whether a roll by so many places is known to cut the axis once."""
    return isinstance(size, int) or bool(shapes.at_least(size, abs(shift)))


def tile(A: Any, reps: Any) -> Tracer:
    """np.tile."""
    h = _handle(A)
    reps = shapes.as_sequence(reps)
    if all(r == 1 for r in reps) and len(reps) <= h.aval.ndim:
        return copy(h)  # in the same order in memory
    rank = max(h.aval.ndim, len(reps))
    shape = (1,) * (rank - h.aval.ndim) + h.aval.shape
    reps = (1,) * (rank - len(reps)) + reps
    interleaved = tuple(x for pair in zip(reps, shape, strict=True) for x in pair)
    dims = tuple(range(1, 2 * rank, 2))
    b = current_trace().emit
    wide = b.broadcast(b.reshape(h.atom, shape=shape), shape=interleaved, dims=dims)
    return current_trace().tracer(b.reshape(wide, shape=tuple(r * d for r, d in zip(reps, shape, strict=True))))


def on_axis(h: Tracer, axis: int | None) -> tuple[Tracer, int]:
    """An array and one of its axes, from 0 on; None flattens it."""
    return (ravel(h), 0) if axis is None else (h, shapes.canonical_axis(operator.index(axis), h.aval.ndim))


def along(h: Tracer, axis: int | None) -> tuple[Tracer, int]:
    """Likewise, where a 0-d array counts as one with a single element."""
    return on_axis(h if h.aval.ndim else ravel(h), axis)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tracer:
    """np.repeat. Counts that are unknown while tracing give a result of a size that depends on data."""
    h, axis = along(_handle(a), axis)
    shape = h.aval.shape
    repeats = _known_counts(repeats)
    if isinstance(repeats, Tracer):
        places = bound.repeated_places(np.broadcast_to(np.ravel(repeats), shape[axis : axis + 1]))
        return current_trace().tracer(h[(*(slice(None),) * axis, places)].atom)
    if isinstance(repeats, shapes.Dim):
        repeats = repeats if repeats >= 0 else operator.index(repeats)
    if np.ndim(repeats) or isinstance(repeats, (float, complex)) or repeats < 0:
        return indexing.pick(h, np.repeat(np.arange(shape[axis]), repeats), axis)  # raises NumPy's own errors
    repeats = repeats if isinstance(repeats, shapes.Dim) else int(repeats)
    wide = shapes.insert(shape, axis + 1, repeats)
    dims = tuple(i for i in range(len(wide)) if i != axis + 1)
    b = current_trace().emit
    atom = b.broadcast(h.atom, shape=wide, dims=dims)
    return current_trace().tracer(b.reshape(atom, shape=(*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])))


def _known_counts(repeats: Any) -> Any:
    """Numbers of repetitions as plain ones, where they are known."""
    if not promote.is_traced(repeats):
        return repeats
    (h,) = promote.handles([repeats])
    if h.aval.dtype.kind not in "iub":
        np.repeat(np.zeros(1), np.zeros(1, h.aval.dtype))  # raises NumPy's own error
    try:
        return plain_value(h, "np.repeat: the number of repetitions")
    except ConcretizationError:
        return h


def resize(a: Any, new_shape: Any) -> Tracer:
    """np.resize: the elements in C order, from the beginning again as often as the new shape needs."""
    h = ravel(a)
    shape = tuple(new_shape) if isinstance(new_shape, (tuple, list)) else (new_shape,)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    size, total = h.aval.shape[0], shapes.size(shape)
    if shapes.fit((total,), (0,)) or shapes.fit((size,), (0,)):
        b = current_trace().emit
        return current_trace().tracer(b.full(shape, 0, h.aval.dtype))
    if isinstance(total, shapes.Dim):
        return reshape(h[np.remainder(promote.positions(total), size)], shape)
    return reshape(tile(h, -(-total // size))[:total], shape)
