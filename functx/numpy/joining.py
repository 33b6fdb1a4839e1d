"""Functions that put arrays together and take them apart: joins and insertions are copies, splits are views."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import Kind
from functx.numpy import indexing, promote, reductions, selection
from functx.numpy.bound import coordinates, strides_of
from functx.numpy.manipulation import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    known,
    layout,
    moveaxis,
    on_axis,
    ravel,
    reshape,
    swapaxes,
)
from functx.numpy.manipulation import copy as copy_array
from functx.numpy.positions import nonzero
from functx.numpy.ufuncs import store
from functx.trace import Tracer, current_trace


def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.concatenate."""
    operands = promote.handles(list(arrays))
    if not operands:
        raise ValueError("need at least one array to concatenate")
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    result = np.dtype(dtype) if dtype else np.result_type(*map(promote.representative, operands))
    if axis is None:
        operands, axis = [ravel(h) for h in operands], 0
    rank = operands[0].aval.ndim
    if rank == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if any(h.aval.ndim != rank for h in operands):
        raise ValueError("all the input arrays must have same number of dimensions: " + ", ".join(promote.describe(h) for h in operands))
    axis = shapes.canonical_axis(axis, rank)
    if dtype and not all(np.can_cast(promote.representative(h), result, casting) for h in operands if h.kind is not Kind.PYTHON):
        np.concatenate([np.empty(1, h.aval.dtype) for h in operands], dtype=result, casting=casting)  # raises NumPy's own error
    b = current_trace().emit
    atom = b.concatenate(*(promote.convert(b, h, result) for h in operands), axis=axis)
    if out is not None:
        return store(np.add, [result, result], result, atom, out, casting)
    in_c_order = rank < 2 or all(h.is_fresh_c_order for h in operands)
    shadow = None if in_c_order else lambda: promote.in_order(_common_order(operands), atom.aval.shape, result)
    return current_trace().tracer(atom, Kind.ARRAY, shadow)


def _common_order(operands: Sequence[Tracer]) -> list[int]:
    """The axes of a joined array from the outermost in memory to the innermost: NumPy sorts them by insertion, and moves one outwards if it
    has the longer stride in every operand that has more than one place along both.
    """
    order: list[int] = []
    for axis in range(operands[0].aval.ndim):
        place = len(order)
        for i, other in reversed(list(enumerate(order))):
            strides = [h.shadow.strides for h in operands if not any(shapes.same(h.aval.shape[i], 1) for i in (axis, other))]
            if any(abs(s[axis]) <= abs(s[other]) for s in strides):
                break
            place = i if strides else place
        order.insert(place, axis)
    return order


def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.stack."""
    operands = promote.handles(list(arrays))
    if not operands:
        raise ValueError("need at least one array to stack")
    if not all(shapes.fit(h.aval.shape, operands[0].aval.shape) for h in operands):
        raise ValueError("all input arrays must have the same shape: " + ", ".join(promote.describe(h) for h in operands))
    axis = shapes.canonical_axis(axis, operands[0].aval.ndim + 1)
    return concatenate([expand_dims(h, axis) for h in operands], axis, out, dtype=dtype, casting=casting)


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.vstack."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """np.hstack."""
    arrays = [atleast_1d(a) for a in tup]
    return concatenate(arrays, 1 if arrays and arrays[0].aval.ndim > 1 else 0, dtype=dtype, casting=casting)


def dstack(tup: Any) -> Tracer:
    """np.dstack."""
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup: Any) -> Tracer:
    """np.column_stack."""
    return concatenate([h if h.aval.ndim >= 2 else expand_dims(atleast_1d(h), 1) for h in promote.handles(list(tup))], 1)


def block(arrays: Any) -> Tracer:
    """np.block: nested lists of blocks, the innermost joined along the last axis."""
    depth = _block_depth(arrays)
    rank = max(depth, *_block_ranks(arrays))

    def join(part: Any, level: int) -> Tracer:
        if isinstance(part, list):
            return concatenate([join(p, level + 1) for p in part], level - depth)
        (h,) = promote.handles([part])
        return expand_dims(h, tuple(range(rank - h.aval.ndim)))

    return join(arrays, 0) if depth else copy_array(join(arrays, 0))


def _block_depth(part: Any) -> int:
    if isinstance(part, tuple):
        raise TypeError("np.block: tuples are not taken for lists of blocks; use lists")
    if not isinstance(part, list):
        return 0
    depths = {_block_depth(p) for p in part}
    if not depths:
        raise ValueError("List at np.block cannot be empty")
    if len(depths) > 1:
        raise ValueError(f"List depths are mismatched: {', '.join(map(str, sorted(depths)))}")
    return 1 + depths.pop()


def _block_ranks(part: Any) -> list[int]:
    return [r for p in part for r in _block_ranks(p)] if isinstance(part, list) else [promote.handles([part])[0].aval.ndim]


def append(arr: Any, values: Any, axis: int | None = None) -> Tracer:
    """np.append: a copy with more at the end."""
    return concatenate([arr, values] if axis is not None else [ravel(arr), ravel(values)], axis or 0)


_KNOWN_PLACES = "pass plain whole numbers; with x.at[...] or np.where the size does not depend on data"


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tracer:
    """np.delete: a copy without the elements at known places."""
    (h,) = promote.handles([arr])
    h, axis = on_axis(h, axis)
    places = known(obj, "np.delete: what to delete", _KNOWN_PLACES)
    out = indexing.pick(h, np.delete(np.arange(h.aval.shape[axis]), places), axis)
    return current_trace().tracer(out.atom, Kind.ARRAY, layout("A", out.aval.shape, out.aval.dtype, h))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tracer:
    """np.insert: a copy with values put before known places."""
    h, new = promote.handles([arr, values])
    h, axis = on_axis(h, axis)
    places = known(obj, "np.insert: where to insert", _KNOWN_PLACES)
    single = not isinstance(places, slice) and np.ndim(places) == 0
    new = current_trace().tracer(promote.convert(current_trace().emit, new, h.aval.dtype))
    new = reshape(new, (1,) * (h.aval.ndim - new.aval.ndim) + new.aval.shape)
    new = moveaxis(new, 0, axis) if single else new
    # NumPy itself says which elements come from where: those of the array are numbered from 0, the inserted ones from -1 down.
    numbers = np.arange(h.aval.shape[axis])
    count = len(np.insert(numbers, places, 0)) - len(numbers)
    rows = new.aval.shape[axis] if count == 1 else count
    origin = np.insert(numbers, places, -1 - np.arange(rows))
    shape = (*h.aval.shape[:axis], len(origin), *h.aval.shape[axis + 1 :])
    out = current_trace().tracer(current_trace().emit.full(shape, 0, h.aval.dtype), Kind.ARRAY, layout("A", shape, h.aval.dtype, h))
    lead = (slice(None),) * axis
    out[(*lead, np.flatnonzero(origin >= 0).tolist())] = h
    out[(*lead, np.argsort(origin)[:rows][::-1].tolist())] = new
    return out


# --- splits -------------------------------------------------------------------------------------------------------------------------------


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    """np.array_split: views, the first ones longer where the parts cannot be equal."""
    (h,) = promote.handles([ary])
    axis = shapes.canonical_axis(axis, h.aval.ndim)
    size = h.aval.shape[axis]
    places = known(indices_or_sections, "np.array_split: where to split", "pass plain whole numbers")
    if np.ndim(places):
        edges = [0, *map(operator.index, places), size]
    else:
        sections = int(places)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, longer = size // sections, size % sections
        edges = [i * each + shapes.smaller(i, longer) for i in range(sections + 1)]
    lead = (slice(None),) * axis
    return [h[(*lead, slice(lo, hi))] for lo, hi in zip(edges, edges[1:], strict=False)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    """np.split: views of equal parts, or between given places."""
    (h,) = promote.handles([ary])
    size = h.aval.shape[shapes.canonical_axis(axis, h.aval.ndim)]
    if not np.ndim(indices_or_sections) and size % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(h, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    """np.hsplit: views."""
    rank = promote.handles([ary])[0].aval.ndim
    if rank == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if rank > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    """np.vsplit: views."""
    if promote.handles([ary])[0].aval.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    """np.dsplit: views."""
    if promote.handles([ary])[0].aval.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    """np.unstack: views along an axis."""
    (h,) = promote.handles([x])
    if h.aval.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(moveaxis(h, axis, 0))


# --- grids --------------------------------------------------------------------------------------------------------------------------------


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tracer, ...]:
    """np.meshgrid: copies, or (with copy=False) views of the coordinates."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    out = [reshape(h, tuple(-1 if i == j else 1 for j in range(rank))) for i, h in enumerate(promote.handles(xi))]
    if indexing == "xy" and rank > 1:
        out = [swapaxes(h, 0, 1) for h in out]
    if not sparse:
        out = list(np.broadcast_arrays(*out))
    return tuple(copy_array(h, "C") if copy else h for h in out)


def ix_(*args: Any) -> tuple[Any, ...]:
    """np.ix_: sequences as an open mesh; masks must be known."""
    out = []
    for i, h in enumerate(promote.handles(args)):
        if h.aval.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if h.aval.dtype == bool:
            h = nonzero(h)[0]
        out.append(reshape(h, tuple(-1 if i == j else 1 for j in range(len(args)))))
    return tuple(out)


def _below(n: Any, h: Tracer) -> Tracer:
    """Whole numbers from 0 to n - 1, checked as an index is: IndexError for others, also when compiled code meets them."""
    (ramp,) = promote.handles([promote.positions(n)])
    return indexing.getitem(ramp, np.where(np.less(h, 0), n, h))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """np.unravel_index: the coordinates of places in a flattened array; IndexError for a place that it does not have."""
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    (h,) = promote.handles([indices])
    if (value := reductions.known(h)) is not None:
        np.unravel_index(value, dims, order)  # raises NumPy's own errors
    return coordinates(_below(shapes.size(dims), h), dims, order)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """np.ravel_multi_index; with mode="raise" a coordinate out of range is an IndexError where it is unknown while tracing."""
    dims = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    operands = promote.handles(list(multi_index))
    values = [reductions.known(h) for h in operands]
    if all(v is not None for v in values):
        np.ravel_multi_index(values, dims, mode, order)  # raises NumPy's own errors
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    terms = []
    for h, n, step, how in zip(operands, dims, strides_of(dims, order), modes, strict=True):
        inside = _below(n, h) if how == "raise" else selection.in_range(h, n, how)
        terms.append(np.multiply(inside, step))
    return functools.reduce(np.add, terms)
