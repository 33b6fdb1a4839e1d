"""Primitives that move or select elements without computing: all linear. Slices may have any step but zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functx import shapes
from functx.dtypes import INT64
from functx.ir import AbstractArray, Atom, Literal
from functx.ops.families import batch_all, batch_one, linear
from functx.primitive import Emitter, Primitive
from functx.util import invert_permutation, zip_strict

_PART = 4  # a slice that is so many times smaller than the whole is added in its place


def region(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """The basic index that selects elements ``start + k*step`` for k < size."""
    out = []
    for start, n, step in zip_strict(starts, sizes, steps):
        stop = start + n * step
        out.append(slice(start, stop if stop >= 0 else None, step) if n else slice(0, 0))
    return tuple(out)


def _shift(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


# --- broadcast: operand axis i becomes axis dims[i] of the result; axes of size 1 may grow -----------------------------------------------


def _broadcast_type(x: AbstractArray, *, shape: Any, dims: Sequence[int]) -> AbstractArray:
    shapes.check(len(dims) == x.ndim and list(dims) == sorted(set(dims)), f"broadcast: dims {dims} do not fit {x}")
    for d, axis in zip_strict(x.shape, dims):
        shapes.check(
            shapes.stretches(d, shape[axis]), f"broadcast: {shapes.show(x.shape)} does not fit {shapes.show(shape)} at axes {dims}"
        )
    return AbstractArray(tuple(shape), x.dtype)


def _broadcast(x: Any, *, shape: Any, dims: Sequence[int]) -> Any:
    x = np.asarray(x)
    return np.broadcast_to(x.reshape([x.shape[dims.index(i)] if i in dims else 1 for i in range(len(shape))]), shape)


def _broadcast_transpose(b: Emitter, ct: Atom, x: Atom, *, shape: Any, dims: Sequence[int]) -> Atom:
    grown = [axis for d, axis in zip_strict(x.aval.shape, dims) if shapes.same(d, 1) or not shapes.fit((d,), (shape[axis],))]
    axes = tuple(i for i in range(len(shape)) if i not in dims or i in grown)
    total = b.reduce_sum(ct, axes=axes) if axes else ct
    return b.reshape(total, shape=x.aval.shape) if grown else total


broadcast = linear(
    "broadcast",
    _broadcast,
    _broadcast_type,
    {0: _broadcast_transpose},
    batch_one(lambda b, x, size, *, shape, dims: b.broadcast(x, shape=(size, *shape), dims=(0, *_shift(dims)))),
    views=True,
)

# --- reshape, transpose -------------------------------------------------------------------------------------------------------------------

reshape = linear(
    "reshape",
    lambda x, *, shape: np.reshape(x, shape),
    lambda x, *, shape: AbstractArray(shapes.reshape(x.shape, shape), x.dtype),
    {0: lambda b, ct, x, *, shape: b.reshape(ct, shape=x.aval.shape)},
    batch_one(lambda b, x, size, *, shape: b.reshape(x, shape=(size, *shape))),
    views=True,
)

transpose = linear(
    "transpose",
    lambda x, *, perm: np.transpose(x, perm),
    lambda x, *, perm: AbstractArray(shapes.permute(x.shape, perm), x.dtype),
    {0: lambda b, ct, x, *, perm: b.transpose(ct, perm=invert_permutation(perm))},
    batch_one(lambda b, x, size, *, perm: b.transpose(x, perm=(0, *_shift(perm)))),
    views=True,
)

# --- slice: elements start + k*step, k < size, on every axis; slice_set writes such a region ----------------------------------------------


def _slice_type(x: AbstractArray, *, starts: Any, sizes: Any, steps: Any) -> AbstractArray:
    shapes.check_region(x.shape, starts, sizes, steps)
    return AbstractArray(tuple(sizes), x.dtype)


slice_ = linear(
    "slice",
    lambda x, *, starts, sizes, steps: x[region(starts, sizes, steps)],
    _slice_type,
    {0: lambda b, ct, x, *, starts, sizes, steps: b.slice_set(b.zeros_like(x), ct, starts=starts, steps=steps)},
    batch_one(lambda b, x, size, *, starts, sizes, steps: b.slice(x, starts=(0, *starts), sizes=(size, *sizes), steps=(1, *steps))),
    views=True,
)


def _slice_set_type(x: AbstractArray, update: AbstractArray, *, starts: Any, steps: Any) -> AbstractArray:
    shapes.check(x.dtype == update.dtype and x.ndim == update.ndim, f"slice_set: {update} does not fit {x}")
    shapes.check_region(x.shape, starts, update.shape, steps)
    return AbstractArray(x.shape, x.dtype)


def _slice_set(x: Any, update: Any, *, starts: Any, steps: Any) -> Any:
    out = np.array(x)
    out[region(starts, update.shape, steps)] = update
    return out


def _add_to_slice(b: Emitter, x: Atom, _: Atom, update: Atom, *, starts: Sequence[Any], steps: Sequence[Any]) -> Atom | None:
    if update.aval.nbytes_hint * _PART > x.aval.nbytes_hint:
        return None  # adding everything goes through memory once, with whatever else is added
    here = b.slice(x, starts=starts, sizes=update.aval.shape, steps=steps)
    return b.slice_set(x, b.add(here, update), starts=starts, steps=steps)


slice_set = linear(
    "slice_set",
    _slice_set,
    _slice_set_type,
    {
        0: lambda b, ct, x, update, *, starts, steps: b.slice_set(ct, b.zeros_like(update), starts=starts, steps=steps),
        1: lambda b, ct, x, update, *, starts, steps: b.slice(ct, starts=starts, sizes=update.aval.shape, steps=steps),
    },
    batch_all(lambda b, x, update, *, size, starts, steps: b.slice_set(x, update, starts=(0, *starts), steps=(1, *steps))),
    operands=(0, 1),
    add_to=_add_to_slice,
)

# --- lattice: elements whose place is linear in the index: a diagonal, windows, a broadcast -----------------------------------------------


def lattice_indices(b: Emitter, *, starts: Any, sizes: Any, steps: Any) -> list[Atom]:
    """The places that a lattice reads, as indices for gather and scatter: in axis k ``starts[k] + sum(steps[j][k] * i[j])``."""
    ramps = [b.iota(shape=tuple(sizes), dtype=INT64, axis=j) for j in range(len(sizes))]
    indices = []
    for k, start in enumerate(starts):
        index = b.full(tuple(sizes), start, INT64)
        for row, ramp in zip_strict(steps, ramps):
            if row[k]:
                index = b.add(index, ramp if row[k] == 1 else b.mul(ramp, b.full_like(ramp, row[k])))
        indices.append(index)
    return indices


def _lattice(x: Any, *, axes: Any, starts: Any, sizes: Any, steps: Any, access: str) -> Any:
    moved = np.moveaxis(np.asarray(x), axes, range(len(axes)))
    corner = moved[tuple(slice(start, None) for start in starts)] if 0 not in sizes else moved
    if access != "read" and corner.flags._writeable_no_warn:
        corner.flags.writeable = True  # a view of one that warns is no read-only one
    rest = slice(len(axes), None)
    strides = [sum(step * stride for step, stride in zip(row, moved.strides, strict=False)) for row in steps]
    view = as_strided(corner, (*sizes, *moved.shape[rest]), (*strides, *moved.strides[rest]), writeable=access != "read")
    if access == "warn" and view.flags.writeable:
        view.flags._warn_on_write = True  # as np.broadcast_arrays does
    return view


def _lattice_type(x: AbstractArray, *, axes: Any, starts: Any, sizes: Any, steps: Any, access: str) -> AbstractArray:
    shapes.check(0 < len(axes) == len(starts) and len(sizes) == len(steps), f"lattice: axes {axes} and starts {starts} do not fit")
    shapes.check(access in ("write", "read", "warn"), f"lattice: access {access!r}")
    for k, axis in enumerate(axes):
        moves = [row[k] * (n - 1) for row, n in zip_strict(steps, sizes)]
        d = x.shape[axis]
        if isinstance(d, int) and isinstance(starts[k], int) and shapes.is_static(sizes) and 0 not in sizes:
            lowest, highest = (starts[k] + sum(pick(0, m) for m in moves) for pick in (min, max))
            shapes.check(lowest >= 0 and highest < d, f"lattice: places {lowest} to {highest} lie outside an axis of size {d}")
    return AbstractArray((*sizes, *shapes.delete(x.shape, axes)), x.dtype)


def _lattice_transpose(b: Emitter, ct: Atom, x: Atom, *, axes: Any, access: str, **places: Any) -> Atom:
    return b.scatter_add(b.zeros_like(x), ct, *lattice_indices(b, **places), axes=axes)


def _lattice_batch(b: Emitter, x: Atom, size: Any, *, axes: Any, sizes: Any, **params: Any) -> Atom:
    out, lanes = b.lattice(x, axes=_shift(axes), sizes=sizes, **params), len(sizes)
    return b.transpose(out, perm=(lanes, *(i for i in range(out.aval.ndim) if i != lanes)))


# As of gather, the dimensions of the lattice come first. ``access`` is that of the view: "write", "read", or "warn" where elements repeat
# and NumPy warns of a write.
lattice = linear("lattice", _lattice, _lattice_type, {0: _lattice_transpose}, batch_one(_lattice_batch), views=True)

# --- pad: the 0-d operand `value` in low places before and high places after, on every axis -----------------------------------------------


def _pad_type(x: AbstractArray, value: AbstractArray, *, low: Any, high: Any) -> AbstractArray:
    shapes.check(value.shape == () and value.dtype == x.dtype, f"pad: the padding value must be a 0-d {x.dtype}, not {value}")
    shapes.check(all(n >= 0 for n in (*low, *high)), "pad: widths cannot be negative")
    return AbstractArray(shapes.pad(x.shape, low, high), x.dtype)


def _pad(x: Any, value: Any, *, low: Any, high: Any) -> Any:
    return np.pad(x, zip_strict(low, high), constant_values=value) if x.ndim else np.array(x)


def _pad_interior(b: Emitter, ct: Atom, x: Atom, low: Any) -> Atom:
    return b.slice(ct, starts=tuple(low), sizes=x.aval.shape, steps=(1,) * x.aval.ndim)


def _pad_value_transpose(b: Emitter, ct: Atom, x: Atom, value: Atom, *, low: Any, high: Any) -> Atom:
    axes = tuple(range(ct.aval.ndim))
    border = b.slice_set(ct, b.zeros_like(x), starts=tuple(low), steps=(1,) * x.aval.ndim)
    return b.reduce_sum(border, axes=axes) if axes else border


def _pad_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, low: Any, high: Any) -> Any:
    x = b.batched(ins[0], batched[0], size)
    wide = {"low": (0, *low), "high": (0, *high)}
    if not batched[1]:
        return (b.pad(x, ins[1], **wide),), (True,)
    shape = (size, *shapes.pad(x.aval.shape[1:], low, high))
    frame = b.broadcast(ins[1], shape=shape, dims=(0,))
    return (b.slice_set(frame, x, starts=wide["low"], steps=(1,) * len(shape)),), (True,)


pad = linear(
    "pad",
    _pad,
    _pad_type,
    {0: lambda b, ct, x, value, *, low, high: _pad_interior(b, ct, x, low), 1: _pad_value_transpose},
    _pad_batch,
    operands=(0, 1),
)

# --- concatenate any number of operands ---------------------------------------------------------------------------------------------------


def _concatenate_type(*avals: AbstractArray, axis: int) -> AbstractArray:
    shapes.check(len({a.dtype for a in avals}) == 1, f"concatenate: dtypes differ: {', '.join(str(a.dtype) for a in avals)}")
    return AbstractArray(shapes.concatenate([a.shape for a in avals], axis), avals[0].dtype)


def _concatenate_transpose(b: Emitter, ct: Atom, operand: int, *ins: Atom, axis: int) -> Atom:
    start: Any = 0
    for x in ins[:operand]:
        start = start + x.aval.shape[axis]
    rank = ct.aval.ndim
    starts = tuple(start if i == axis else 0 for i in range(rank))
    return b.slice(ct, starts=starts, sizes=ins[operand].aval.shape, steps=(1,) * rank)


concatenate = linear(
    "concatenate",
    lambda *arrays, axis: np.concatenate(arrays, axis),
    _concatenate_type,
    _concatenate_transpose,
    batch_all(lambda b, *ins, size, axis: b.concatenate(*ins, axis=axis + 1)),
    operands=lambda operand: True,
)

# --- size: a symbolic size as data --------------------------------------------------------------------------------------------------------

size = Primitive(
    "size",
    lambda *, value: np.int64(value),
    lambda *, value: AbstractArray((), INT64),
    family="linear",
    differentiable=False,
    flops=lambda **params: 0,
)


def size_value(b: Emitter, d: shapes.Size) -> Atom:
    """A size as an int64."""
    return Literal(d, INT64) if isinstance(d, int) else b.size(value=d)


# --- iota: 0, 1, 2, ... along one axis ----------------------------------------------------------------------------------------------------


def _iota(*, shape: Any, dtype: np.dtype, axis: int) -> Any:
    ramp = np.arange(shape[axis], dtype=dtype)
    return np.broadcast_to(ramp.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


iota = Primitive(
    "iota",
    _iota,
    lambda *, shape, dtype, axis: AbstractArray(tuple(shape), dtype),
    family="linear",
    differentiable=False,
    flops=lambda **params: 0,
)
