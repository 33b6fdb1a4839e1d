"""Sorting along one axis. NaN counts as the greatest number, and equal elements keep their order, as in NumPy's stable sort.

Derivatives follow the elements: the tangent of a sorted array is the tangent, taken along the positions that the elements came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import FLOAT32, INT64
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive


def _comparable(x: Any) -> Any:
    """The same order in a dtype that NumPy sorts: it loses its way at a NaN of bfloat16, whose ``kind`` is none of NumPy's own."""
    return x.astype(FLOAT32) if x.dtype.kind == "V" else x


def _take_along(b: Emitter, x: Atom, positions: Atom, axis: int) -> Atom:
    """np.take_along_axis: elements of ``x`` by their positions along one axis."""
    shape = positions.aval.shape
    indices = [positions if i == axis else b.iota(shape=shape, dtype=INT64, axis=i) for i in range(len(shape))]
    return b.gather(x, *indices, axes=tuple(range(len(shape))))


# --- sort(*operands): all in the order of the first num_keys of them, the first one deciding before the second --------------------------


def _sort(*operands: Any, axis: int, num_keys: int) -> tuple[Any, ...]:
    keys = [_comparable(x) for x in operands[:num_keys]]
    if len(operands) == 1 and keys[0] is operands[0]:
        return (np.sort(keys[0], axis=axis, kind="stable"),)
    order = np.argsort(keys[0], axis=axis, kind="stable") if num_keys == 1 else np.lexsort(keys[::-1], axis=axis)
    return tuple(np.take_along_axis(x, order, axis) for x in operands)


def _sort_type(*operands: AbstractArray, axis: int, num_keys: int) -> list[AbstractArray]:
    shapes.check(0 < num_keys <= len(operands), f"sort: {num_keys} keys among {len(operands)} operands")
    shapes.check(0 <= axis < operands[0].ndim, f"sort: axis {axis} is out of bounds for {operands[0]}")
    for x in operands[1:]:
        shapes.check_equal(x.shape, operands[0].shape, "sort")
    return [AbstractArray(x.shape, x.dtype) for x in operands]


def _sort_jvp(
    b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axis: int, num_keys: int
) -> list[Atom | None]:
    """The positions that the elements come from, sorted along with the keys."""
    own = b.iota(shape=ins[0].aval.shape, dtype=INT64, axis=axis)
    *_, positions = b.sort(*ins[:num_keys], own, axis=axis, num_keys=num_keys)
    return [None if t is None else _take_along(b, t, positions, axis) for t in tangents]


def _sort_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, axis: int, num_keys: int) -> Any:
    full = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
    return b.sort(*full, axis=axis + 1, num_keys=num_keys), [True] * len(ins)


sort = Primitive(
    "sort", _sort, _sort_type, jvp=_sort_jvp, batch=_sort_batch, family="sorting", recompute="costly", cost=64, multiple=True
)  # fmt: skip

# --- top_k(x): the k greatest elements along the last axis in descending order, and their positions ---------------------------------------


def _top_k(x: Any, *, k: int) -> tuple[Any, Any]:
    """The end of a stable sort of the reversed array, read backwards: equal elements come out in their own order."""
    order = np.argsort(_comparable(x)[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    positions = x.shape[-1] - 1 - order[..., :k]
    return np.take_along_axis(x, positions, -1), positions


def _top_k_type(x: AbstractArray, *, k: int) -> list[AbstractArray]:
    shapes.check(x.ndim > 0, "top_k: a scalar has no last axis")
    n = x.shape[-1]
    shapes.check(k >= 0 and shapes.at_least(n, k) is not False, f"top_k: there are no {k} elements along an axis of size {n}")
    return [AbstractArray((*x.shape[:-1], k), dtype) for dtype in (x.dtype, INT64)]


def _top_k_jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, k: int) -> list[Atom | None]:
    return [_take_along(b, tangents[0], outs[1], ins[0].aval.ndim - 1), None]


top_k = Primitive(
    "top_k",
    _top_k,
    _top_k_type,
    jvp=_top_k_jvp,
    batch=lambda b, ins, batched, size, *, k: (b.top_k(ins[0], k=k), (True, True)),
    family="sorting",
    recompute="costly",
    cost=64,
    multiple=True,
)
