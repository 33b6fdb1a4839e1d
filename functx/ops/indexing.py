"""Gather and scatter by integer arrays, in NumPy's terms.

``indices`` are int64 arrays of one shape I; index k selects along operand axis ``axes[k]`` and counts from the end when negative. The
selected dimensions come first: ``gather`` has shape I + (the other axes of x), and so have the updates of a scatter. An index out of range
raises IndexError on every CPU backend. Of several writes to one place, the last one wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import INT64
from functx.errors import IndexOutOfBoundsError
from functx.ir import AbstractArray, Atom
from functx.ops.families import linear
from functx.primitive import Emitter


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


def _scatter_add(x: Any, updates: Any, *indices: Any, axes: Any) -> Any:
    out = np.array(x)
    moved, index = _index(out, indices, axes)
    np.add.at(moved, index, updates)
    return out


scatter_add = linear(
    "scatter_add",
    _scatter_add,
    _scatter_type,
    {0: lambda b, ct, *_, axes: ct, 1: lambda b, ct, x, updates, *indices, axes: b.gather(ct, *indices, axes=axes)},
    _scatter_batch("scatter_add"),
    operands=(0, 1),
    family="indexing",
    checks=_checked_indices(2),
    flops=lambda x, updates, *indices, axes: shapes.size_hint(updates.shape),
)


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
