"""Gather and scatter by integer arrays, in NumPy's terms; and slices whose place is data.

``indices`` are int64 arrays of one shape I; index k selects along operand axis ``axes[k]`` and counts from the end when negative. The
selected dimensions come first: ``gather`` has shape I + (the other axes of x), and so have the updates of a scatter. An index out of range
raises IndexError on every CPU backend. Of several writes to one place, the last one wins, or all count (scatter_add, _mul, _min, _max).
``dynamic_slice`` and ``dynamic_update_slice`` have one 0-d int64 start per axis, which is moved to where the slice fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import INT64
from functx.errors import IndexOutOfBoundsError
from functx.ir import AbstractArray, Atom, Literal
from functx.ops.cumulative import previous
from functx.ops.families import linear
from functx.ops.movement import size_value
from functx.primitive import Emitter, Primitive, conjugate


def _index(x: Any, indices: Sequence[Any], axes: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
    """A view of x with the indexed axes in front, and the checked index into it."""
    for index, axis in zip(indices, axes, strict=True):
        n = x.shape[axis]
        bad = (index < -n) | (index >= n)
        if np.any(bad):
            first = int(np.asarray(index)[np.asarray(bad)][0])
            raise IndexOutOfBoundsError(f"index {first} is out of bounds for axis {axis} with size {n}")
    return np.moveaxis(x, axes, range(len(axes))), tuple(indices)


def _gather(x: Any, *indices: Any, axes: Any) -> Any:
    moved, index = _index(x, indices, axes)
    return moved[index]


def _gathered_shape(x: AbstractArray, indices: Sequence[AbstractArray], axes: Sequence[int]) -> shapes.Shape:
    shapes.check(len(indices) == len(axes) > 0, "gather/scatter: one index per axis")
    for index in indices:
        shapes.check(index.dtype == INT64, f"gather/scatter: indices must be int64, not {index.dtype}")
        shapes.check_equal(index.shape, indices[0].shape, "gather/scatter indices")
    return (*indices[0].shape, *shapes.delete(x.shape, axes))


def _batch_indices(b: Emitter, indices: Sequence[Atom], batched: Sequence[bool], size: Any, *, own_axis: bool) -> list[Atom]:
    """Batched indices; with ``own_axis`` an index in front that says each lane its own slice of a batched operand."""
    full = [b.batched(i, is_batched, size) for i, is_batched in zip(indices, batched, strict=True)]
    lanes = [b.iota(shape=full[0].aval.shape, dtype=INT64, axis=0)] if own_axis else []
    return lanes + full


def _to_front(rank: int, axis: int) -> tuple[int, ...]:
    return (axis, *(i for i in range(rank) if i != axis))


def _checked_indices(places: int) -> Any:
    """What a gather or scatter checks: its indices, the operands after the first ``places``, against the sizes of the indexed axes."""
    return lambda ins, *, axes: (tuple(ins[places:]), tuple(ins[0].aval.shape[a] for a in axes))


def _gather_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, axes: Any) -> Any:
    x, *indices = ins
    shifted = tuple(a + 1 for a in axes) if batched[0] else axes
    if any(batched[1:]):
        full = _batch_indices(b, indices, batched[1:], size, own_axis=batched[0])
        out = b.gather(x, *full, axes=(0, *shifted) if batched[0] else axes)
    else:
        out = b.gather(x, *indices, axes=shifted)
        out = b.transpose(out, perm=_to_front(out.aval.ndim, indices[0].aval.ndim))
    return (out,), (True,)


gather = linear(
    "gather",
    _gather,
    lambda x, *indices, axes: AbstractArray(_gathered_shape(x, indices, axes), x.dtype),
    {0: lambda b, ct, x, *indices, axes: b.scatter_add(b.zeros_like(x), ct, *indices, axes=axes)},
    _gather_batch,
    family="indexing",
    cost=4,
    checks=_checked_indices(1),
)


def _scatter_type(x: AbstractArray, updates: AbstractArray, *indices: AbstractArray, axes: Any) -> AbstractArray:
    shapes.check(x.dtype == updates.dtype, f"scatter: dtypes {x.dtype} and {updates.dtype} differ")
    shapes.check_equal(updates.shape, _gathered_shape(x, indices, axes), "scatter updates")
    return AbstractArray(x.shape, x.dtype)


def _scatter_batch(name: str) -> Any:
    def rule(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, axes: Any) -> Any:
        x = b.batched(ins[0], batched[0], size)
        updates = b.batched(ins[1], batched[1], size)
        indices, shifted = ins[2:], tuple(a + 1 for a in axes)
        if any(batched[2:]):
            full = _batch_indices(b, indices, batched[2:], size, own_axis=True)
            return (getattr(b, name)(x, updates, *full, axes=(0, *shifted)),), (True,)
        rank, behind = updates.aval.ndim, indices[0].aval.ndim
        perm = (*range(1, behind + 1), 0, *range(behind + 1, rank))
        return (getattr(b, name)(x, b.transpose(updates, perm=perm), *indices, axes=shifted),), (True,)

    return rule


def _accumulated(ufunc: np.ufunc) -> Callable[..., Any]:
    """``x`` with every update combined into its place, one after the other."""

    def impl(x: Any, updates: Any, *indices: Any, axes: Any) -> Any:
        out = np.array(x)
        moved, index = _index(out, indices, axes)
        ufunc.at(moved, index, updates)
        return out

    return impl


def _update_flops(x: AbstractArray, updates: AbstractArray, *indices: AbstractArray, axes: Any) -> int:
    return shapes.size_hint(updates.shape)


scatter_add = linear(
    "scatter_add",
    _accumulated(np.add),
    _scatter_type,
    {0: lambda b, ct, *_, axes: ct, 1: lambda b, ct, x, updates, *indices, axes: b.gather(ct, *indices, axes=axes)},
    _scatter_batch("scatter_add"),
    operands=(0, 1),
    add_to=lambda b, x, _, updates, *indices, axes: b.scatter_add(x, updates, *indices, axes=axes),
    family="indexing",
    checks=_checked_indices(2),
    flops=_update_flops,
)


def _by_place(b: Emitter, x: Atom, indices: Sequence[Atom], axes: Any) -> tuple[Atom, list[Atom], Atom]:
    """The order in which updates of one place stand in a row, the indices in it, and which have the place of the one before them."""
    m = shapes.size(indices[0].aval.shape)
    ramps = [b.iota(shape=(x.aval.shape[axis],), dtype=INT64, axis=0) for axis in axes]
    flat = [b.reshape(index, shape=(m,)) for index in indices]
    counted = [b.gather(ramp, index, axes=(0,)) for ramp, index in zip(ramps, flat, strict=True)]  # none from the end
    *ordered, order = b.sort(*counted, b.iota(shape=(m,), dtype=INT64, axis=0), axis=0, num_keys=len(counted))
    again, *more = (b.eq(index, previous(b, index, -1, axis=0, reverse=False)) for index in ordered)
    for equal in more:
        again = b.and_(again, equal)
    return order, ordered, again


def _scatter_mul_jvp(
    b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axes: Any
) -> list[Atom | None]:
    """Linear in x. The partial by one update is x times the updates before and after it at its place: recurrences that begin anew at
    every place give them without a division.
    """
    x, updates, *indices = ins
    total = None if tangents[0] is None else b.scatter_mul(tangents[0], updates, *indices, axes=axes)
    if tangents[1] is None:
        return [total]
    order, ordered, again = _by_place(b, x, indices, axes)
    shape = (order.aval.shape[0], *updates.aval.shape[indices[0].aval.ndim :])
    rows, moved = (b.gather(b.reshape(v, shape=shape), order, axes=(0,)) for v in (updates, tangents[1]))
    partial = b.gather(x, *ordered, axes=axes)
    for reverse in (False, True):
        along = {"axis": 0, "reverse": reverse}
        joined = previous(b, again, False, axis=0, reverse=True) if reverse else again
        joined = b.broadcast(joined, shape=shape, dims=(0,))
        factors = b.select(joined, previous(b, rows, 1, **along), b.zeros_like(rows))
        partial = b.mul(partial, b.linear_recurrence(factors, b.convert(b.not_(joined), dtype=rows.aval.dtype, checked=False), **along))
    return [b.add_cotangents(total, b.scatter_add(b.zeros_like(x), b.mul_zero(moved, partial), *ordered, axes=axes))]


scatter_mul = linear(
    "scatter_mul",
    _accumulated(np.multiply),
    _scatter_type,
    {0: lambda b, ct, x, updates, *indices, axes: b.scatter_mul(ct, conjugate(b, updates), *indices, axes=axes)},
    _scatter_batch("scatter_mul"),
    jvp=_scatter_mul_jvp,
    family="indexing",
    checks=_checked_indices(2),
    flops=_update_flops,
)


def _scatter_extremum_jvp(
    b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axes: Any
) -> list[Atom]:
    """The old element and the updates that attain the extremum of a place share its derivative equally."""
    (x, updates, *indices), (out,) = ins, outs

    def attains(candidate: Atom, extremum: Atom) -> Atom:
        return b.convert(b.eq(candidate, extremum), dtype=x.aval.dtype, checked=False)

    old, new = attains(x, out), attains(updates, b.gather(out, *indices, axes=axes))
    count = b.scatter_add(old, new, *indices, axes=axes)
    counts = count, b.gather(count, *indices, axes=axes)
    shares = [
        b.zeros_like(candidate) if t is None else b.mul_zero(t, b.div(attained, n))
        for t, attained, n, candidate in zip(tangents, (old, new), counts, (x, updates), strict=False)
    ]
    return [b.scatter_add(*shares, *indices, axes=axes)]


def _scatter_extremum(name: str, ufunc: np.ufunc) -> Primitive:
    return Primitive(
        name,
        _accumulated(ufunc),
        _scatter_type,
        jvp=_scatter_extremum_jvp,
        batch=_scatter_batch(name),
        family="indexing",
        checks=_checked_indices(2),
        flops=_update_flops,
    )


scatter_max = _scatter_extremum("scatter_max", np.maximum)

scatter_min = _scatter_extremum("scatter_min", np.minimum)


def _scatter_set(x: Any, updates: Any, *indices: Any, axes: Any) -> Any:
    out = np.array(x)
    moved, index = _index(out, indices, axes)
    moved[index] = updates
    return out


def _winners(b: Emitter, x: Atom, indices: Sequence[Atom], axes: Any, shape: Any) -> Atom:
    """A mask over the updates: which of them survive in the result (the last write to a place wins)."""
    index_shape = indices[0].aval.shape
    order = b.reshape(b.iota(shape=(shapes.size(index_shape),), dtype=INT64, axis=0), shape=index_shape)
    places = b.full(tuple(x.aval.shape[a] for a in axes), 0, INT64)
    local = tuple(range(len(axes)))
    last = b.gather(b.scatter_set(places, order, *indices, axes=local), *indices, axes=local)
    return b.broadcast(b.eq(last, order), shape=shape, dims=tuple(range(len(index_shape))))


def _scatter_set_updates_transpose(b: Emitter, ct: Atom, x: Atom, updates: Atom, *indices: Atom, axes: Any) -> Atom:
    taken = b.gather(ct, *indices, axes=axes)
    if shapes.same(shapes.size(indices[0].aval.shape), 1):
        return taken  # one write
    return b.select(_winners(b, x, indices, axes, updates.aval.shape), taken, b.zeros_like(taken))


scatter_set = linear(
    "scatter_set",
    _scatter_set,
    _scatter_type,
    {
        0: lambda b, ct, x, updates, *indices, axes: b.scatter_set(ct, b.zeros_like(updates), *indices, axes=axes),
        1: _scatter_set_updates_transpose,
    },
    _scatter_batch("scatter_set"),
    operands=(0, 1),
    family="indexing",
    checks=_checked_indices(2),
)

# --- slices whose place is data ---------------------------------------------------------------------------------------------------------


def _placed(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    firsts = [min(max(int(start), 0), d - n) for start, d, n in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(first, first + n) for first, n in zip(firsts, sizes, strict=True))


def _dynamic_slice_type(x: AbstractArray, *starts: AbstractArray, sizes: Any) -> AbstractArray:
    shapes.check(len(starts) == len(sizes) == x.ndim, f"dynamic_slice: one start and one size per axis of {x}")
    for start in starts:
        shapes.check(start.shape == () and start.dtype == INT64, f"dynamic_slice: starts must be 0-d int64, not {start}")
    for d, n in zip(x.shape, sizes, strict=True):
        shapes.check(shapes.at_least(d, n) is not False, f"dynamic_slice: a slice of shape {shapes.show(sizes)} does not fit {x}")
    return AbstractArray(tuple(sizes), x.dtype)


def _lane_indices(b: Emitter, shape: Any, starts: Sequence[Atom], batched: Sequence[bool], sizes: Any, lanes: Any) -> list[Atom]:
    """The indices, in all axes, of the elements of a slice that begins in each lane somewhere else."""
    grid = (lanes, *sizes)
    indices = []
    for axis, (start, is_batched, d, n) in enumerate(zip(starts, batched, shape, sizes, strict=True)):
        begin = b.batched(start, is_batched, lanes)
        last = b.batched(b.sub(size_value(b, d), size_value(b, n)), False, lanes)
        first = b.min(b.max(begin, b.zeros_like(begin), tie="half"), last, tie="half")
        indices.append(b.add(b.broadcast(first, shape=grid, dims=(0,)), b.iota(shape=grid, dtype=INT64, axis=axis + 1)))
    return indices


def _dynamic_slice_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, sizes: Any) -> Any:
    x, *starts = ins
    if not any(batched[1:]):
        return (b.dynamic_slice(x, Literal(0, INT64), *starts, sizes=(size, *sizes)),), (True,)
    shape = x.aval.shape[1:] if batched[0] else x.aval.shape
    indices = _lane_indices(b, shape, starts, batched[1:], sizes, size)
    lanes = [b.iota(shape=(size, *sizes), dtype=INT64, axis=0)] if batched[0] else []
    return (b.gather(x, *lanes, *indices, axes=tuple(range(x.aval.ndim))),), (True,)


dynamic_slice = linear(
    "dynamic_slice",
    lambda x, *starts, sizes: x[_placed(x, starts, sizes)],
    _dynamic_slice_type,
    {0: lambda b, ct, x, *starts, sizes: b.dynamic_update_slice(b.zeros_like(x), ct, *starts)},
    _dynamic_slice_batch,
    family="indexing",
)


def _dynamic_update_type(x: AbstractArray, update: AbstractArray, *starts: AbstractArray) -> AbstractArray:
    shapes.check(x.dtype == update.dtype, f"dynamic_update_slice: dtypes {x.dtype} and {update.dtype} differ")
    _dynamic_slice_type(x, *starts, sizes=update.shape)
    return AbstractArray(x.shape, x.dtype)


def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[_placed(out, starts, np.shape(update))] = update
    return out


def _dynamic_update_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any) -> Any:
    x, update = (b.batched(v, is_batched, size) for v, is_batched in zip(ins[:2], batched[:2], strict=True))
    starts = ins[2:]
    if not any(batched[2:]):
        return (b.dynamic_update_slice(x, update, Literal(0, INT64), *starts),), (True,)
    grid = update.aval.shape
    indices = _lane_indices(b, x.aval.shape[1:], starts, batched[2:], grid[1:], size)
    return (b.scatter_set(x, update, b.iota(shape=grid, dtype=INT64, axis=0), *indices, axes=tuple(range(len(grid)))),), (True,)


dynamic_update_slice = linear(
    "dynamic_update_slice",
    _dynamic_update_slice,
    _dynamic_update_type,
    {
        0: lambda b, ct, x, update, *starts: b.dynamic_update_slice(ct, b.zeros_like(update), *starts),
        1: lambda b, ct, x, update, *starts: b.dynamic_slice(ct, *starts, sizes=update.aval.shape),
    },
    _dynamic_update_batch,
    operands=(0, 1),
    family="indexing",
)
