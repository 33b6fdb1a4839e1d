"""Functions that rearrange: views where NumPy gives views, copies where it copies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import Kind
from functx.errors import UnsupportedError
from functx.mutation import make_view
from functx.numpy import promote
from functx.numpy.ufuncs import store
from functx.ops import movement
from functx.trace import Tracer, current_trace, dataless, where


def _handle(a: Any) -> Tracer:
    return promote.handles([a])[0]


def _reshape_view(h: Tracer, shape: shapes.Shape) -> Tracer:
    """A reshape that only adds or drops axes of size 1: always a view."""
    return make_view(h, movement.reshape, {"shape": tuple(shape)}, lambda: h.shadow.reshape(shapes.hints(shape), copy=False))


def _transposed(h: Tracer, perm: Sequence[int]) -> Tracer:
    perm = tuple(perm)
    if not perm:
        return h
    return make_view(h, movement.transpose, {"perm": perm}, lambda: h.shadow.transpose(perm))


def copy(a: Any, order: str = "K", subok: bool = False) -> Tracer:
    """np.copy: the same values in memory of its own."""
    h = _handle(a)
    return current_trace().tracer(h.atom, Kind.ARRAY, promote.k_order([h], h.aval.shape, h.aval.dtype) if order in "KA" else None)


def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Tracer:
    """np.reshape: a view if the layout allows it, else a copy."""
    if order != "C":
        raise UnsupportedError(f"np.reshape: order={order!r} is not traced", where=where(), fix="transpose before and after")
    h = _handle(a)
    shape = _resolve_shape(h.aval.shape, shape)
    if copy is not True and _can_view(h, shape):
        return _reshape_view(h, shape)
    if copy is False:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return current_trace().tracer(current_trace().emit.reshape(h.atom, shape=shape))


def _can_view(h: Tracer, shape: shapes.Shape) -> bool:
    if h.kind is not Kind.ARRAY or h.is_fresh_c_order:
        return True  # a scalar, or a fresh array in C order, whose layout plays no part
    try:
        h.shadow.reshape(shapes.hints(shape), copy=False)
    except ValueError:
        return False
    return True


def _resolve_shape(old: shapes.Shape, new: Any) -> shapes.Shape:
    """The target of a reshape with -1 worked out."""
    dims = [operator.index(d) if not isinstance(d, shapes.Dim) else d for d in (new if isinstance(new, (tuple, list)) else (new,))]
    if dims.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in dims:
        known = shapes.size(d for d in dims if d != -1)
        total = shapes.size(old)
        if known == 0 or total % known != 0:
            raise ValueError(f"cannot reshape array of size {total} into shape {shapes.show(dims)}".replace(", ", ","))
        dims[dims.index(-1)] = total // known
    if shapes.size(dims) != shapes.size(old):
        raise ValueError(f"cannot reshape array of size {shapes.size(old)} into shape {shapes.show(dims)}".replace(", ", ","))
    return tuple(dims)


def ravel(a: Any, order: str = "C") -> Tracer:
    """np.ravel: a flat view of an array in C order, else a copy (also where a reshape would find a strided view)."""
    h = _handle(a)
    fresh = h.kind is not Kind.ARRAY or h.is_fresh_c_order
    return reshape(h, -1, order, copy=None if fresh or h.shadow.flags.c_contiguous else True)


def flatten(a: Any, order: str = "C") -> Tracer:
    """ndarray.flatten: always a copy."""
    return reshape(a, -1, order, copy=True)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Tracer:
    """np.transpose: a view with the axes permuted (reversed by default)."""
    h = _handle(a)
    rank = h.aval.ndim
    if axes is None:
        perm: Sequence[int] = range(rank)[::-1]
    else:
        if len(axes) != rank:
            raise ValueError("axes don't match array")
        perm = [shapes.canonical_axis(x, rank) for x in axes]
        if len(set(perm)) != rank:
            raise ValueError("repeated axis in transpose")
    return _transposed(h, perm)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tracer:
    """np.swapaxes: a view."""
    h = _handle(a)
    perm = list(range(h.aval.ndim))
    i, j = shapes.canonical_axis(axis1, h.aval.ndim), shapes.canonical_axis(axis2, h.aval.ndim)
    perm[i], perm[j] = perm[j], perm[i]
    return _transposed(h, perm)


def moveaxis(a: Any, source: Any, destination: Any) -> Tracer:
    """np.moveaxis: a view."""
    h = _handle(a)
    rank = h.aval.ndim
    froms = [shapes.canonical_axis(i, rank) for i in (source if isinstance(source, (tuple, list)) else (source,))]
    tos = [shapes.canonical_axis(i, rank) for i in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    if len(froms) != len(tos):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    perm = [i for i in range(rank) if i not in froms]
    for to, origin in sorted(zip(tos, froms, strict=True)):
        perm.insert(to, origin)
    return _transposed(h, perm)


def squeeze(a: Any, axis: Any = None) -> Tracer:
    """np.squeeze: a view without the axes of size 1."""
    h = _handle(a)
    shape = h.aval.shape
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axis is None else shapes.canonical_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    if axis is None and not axes:
        return h  # NumPy gives the array itself
    return _reshape_view(h, shapes.delete(shape, axes))


def expand_dims(a: Any, axis: Any) -> Tracer:
    """np.expand_dims: a view with new axes of size 1."""
    h = _handle(a)
    new = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = h.aval.ndim + len(new)
    places = shapes.canonical_axes(tuple(new), rank)
    rest = iter(h.aval.shape)
    return _reshape_view(h, tuple(1 if i in places else next(rest) for i in range(rank)))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    """np.broadcast_to: a read-only view."""
    h = _handle(array)
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(shape) < h.aval.ndim or shapes.broadcast(h.aval.shape, shape) != shape:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {shapes.show(h.aval.shape)} and "
            f"requested shape {shapes.show(shape)}"
        )
    dims = tuple(range(len(shape) - h.aval.ndim, len(shape)))
    return make_view(h, movement.broadcast, {"shape": shape, "dims": dims}, lambda: np.broadcast_to(h.shadow, shapes.hints(shape)))


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tracer, ...]:
    """np.broadcast_arrays."""
    operands = promote.handles(args)
    shape = promote.broadcast_shapes(operands)
    return tuple(h if h.aval.shape == shape else broadcast_to(h, shape) for h in operands)


def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.concatenate."""
    operands = promote.handles(list(arrays))
    if not operands:
        raise ValueError("need at least one array to concatenate")
    result = np.dtype(dtype) if dtype else np.result_type(*map(promote.representative, operands))
    if axis is None:
        operands, axis = [ravel(h) for h in operands], 0
    rank = operands[0].aval.ndim
    if rank == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if any(h.aval.ndim != rank for h in operands):
        raise ValueError("all the input arrays must have same number of dimensions: " + ", ".join(promote.describe(h) for h in operands))
    axis = shapes.canonical_axis(axis, rank)
    b = current_trace().emit
    atom = b.concatenate(*(promote.convert(b, h, result) for h in operands), axis=axis)
    if out is not None:
        return store(np.add, [result, result], result, atom, out, casting)
    layout = promote.k_order_of(operands, lambda: [np.abs(h.shadow.strides) for h in operands], atom.aval.shape, result)
    return current_trace().tracer(atom, Kind.ARRAY, layout)


def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.stack."""
    operands = promote.handles(list(arrays))
    if not operands:
        raise ValueError("need at least one array to stack")
    if len({h.aval.shape for h in operands}) > 1:
        raise ValueError("all input arrays must have the same shape: " + ", ".join(promote.describe(h) for h in operands))
    axis = shapes.canonical_axis(axis, operands[0].aval.ndim + 1)
    return concatenate([expand_dims(h, axis) for h in operands], axis, out, dtype=dtype, casting=casting)


def atleast_1d(*arrays: Any) -> Any:
    """np.atleast_1d."""
    out = [h if h.aval.ndim else reshape(h, 1) for h in promote.handles(arrays)]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_2d(*arrays: Any) -> Any:
    """np.atleast_2d."""
    out = [h if h.aval.ndim >= 2 else expand_dims(h, 0) if h.aval.ndim else reshape(h, (1, 1)) for h in promote.handles(arrays)]
    return out[0] if len(out) == 1 else tuple(out)


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.vstack."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.hstack."""
    arrays = [atleast_1d(a) for a in tup]
    return concatenate(arrays, 0 if arrays[0].aval.ndim == 1 else 1, dtype=dtype, casting=casting)


def flip(m: Any, axis: Any = None) -> Tracer:
    """np.flip: a view that runs backwards along the given axes."""
    h = _handle(m)
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    return h[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(h.aval.ndim))]


def roll(a: Any, shift: Any, axis: Any = None) -> Tracer:
    """np.roll."""
    h = _handle(a)
    if axis is None:
        return reshape(roll(ravel(h), shift, 0), h.aval.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    counts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    for n, i in zip(counts, axes, strict=True):
        i = shapes.canonical_axis(i, h.aval.ndim)
        size = h.aval.shape[i]
        cut = _roll_cut(operator.index(n), size)
        if cut is not None:
            lead = (slice(None),) * i
            h = concatenate([h[(*lead, slice(cut, None))], h[(*lead, slice(0, cut))]], i)
    return copy(h)


def _roll_cut(shift: int, size: shapes.Size) -> shapes.Size | None:
    """Where to cut an axis to roll it; None: nowhere."""
    if isinstance(size, int):
        return -shift % size if size and shift % size else None
    return None if shift == 0 else -shift if shift < 0 else size - shift  # slices find out whether it lies inside for all sizes


def tile(A: Any, reps: Any) -> Tracer:
    """np.tile."""
    h = _handle(A)
    reps = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
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


def repeat(a: Any, repeats: int, axis: int | None = None) -> Tracer:
    """np.repeat with one count for all elements."""
    h = _handle(a)
    if not isinstance(repeats, (int, np.integer)):
        raise UnsupportedError(
            "np.repeat: only one whole-number count is traced", where=where(), fix="index with np.repeat of a plain arange"
        )
    if axis is None:
        h, axis = ravel(h), 0
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    shape = h.aval.shape
    wide = shapes.insert(shape, axis + 1, int(repeats))
    dims = tuple(i for i in range(len(wide)) if i != axis + 1)
    b = current_trace().emit
    atom = b.broadcast(h.atom, shape=wide, dims=dims)
    return current_trace().tracer(b.reshape(atom, shape=(*shape[:axis], shape[axis] * int(repeats), *shape[axis + 1 :])))


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tracer:
    """np.pad with constant values."""
    if mode != "constant":
        raise UnsupportedError(f"np.pad: mode={mode!r} is not traced", where=where(), fix="concatenate slices of the array")
    h, value = promote.handles([array, constant_values])
    if value.aval.ndim:
        raise UnsupportedError("np.pad: one constant value for all sides is traced", where=where(), fix="call np.pad once per side")
    widths = np.broadcast_to(np.asarray(pad_width), (h.aval.ndim, 2))
    b = current_trace().emit
    low, high = (tuple(int(n) for n in side) for side in widths.T)
    if any(n < 0 for n in (*low, *high)):
        raise ValueError("index can't contain negative values")
    atom = b.pad(h.atom, promote.convert(b, value, h.aval.dtype), low=low, high=high)
    return current_trace().tracer(atom, Kind.ARRAY, None if h.is_fresh_c_order else lambda: _padded_layout(h, atom.aval.shape))


def _padded_layout(h: Tracer, shape: shapes.Shape) -> np.ndarray:
    """np.pad keeps Fortran order, and gives C order otherwise."""
    return dataless(shape[::-1], h.aval.dtype).T if h.shadow.flags.fnc else dataless(shape, h.aval.dtype)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    """np.split: views."""
    h = _handle(ary)
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    size = h.aval.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        if size % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        step = size // indices_or_sections
        bounds = [i * step for i in range(1, indices_or_sections)]
    else:
        bounds = [int(i) for i in indices_or_sections]
    edges = [0, *bounds, size]
    lead = (slice(None),) * axis
    return [h[(*lead, slice(lo, hi))] for lo, hi in zip(edges, edges[1:], strict=False)]
