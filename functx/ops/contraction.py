"""dot_general: the one contraction. Result axes: batch axes, then the free axes of x, then those of y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive, conjugate
from functx.util import invert_permutation


def _free(rank: int, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {axis for axes in used for axis in axes}
    return tuple(i for i in range(rank) if i not in taken)


def _dot_type(x: AbstractArray, y: AbstractArray, *, contract: Any, batch: Any) -> AbstractArray:
    shapes.check(x.dtype == y.dtype, f"dot_general: dtypes {x.dtype} and {y.dtype} differ")
    for what, (left, right) in (("contracted", contract), ("batch", batch)):
        shapes.check_equal(tuple(x.shape[a] for a in left), tuple(y.shape[a] for a in right), f"dot_general, {what} axes")
    x_free, y_free = _free(x.ndim, contract[0], batch[0]), _free(y.ndim, contract[1], batch[1])
    shape = (*(x.shape[a] for a in batch[0]), *(x.shape[a] for a in x_free), *(y.shape[a] for a in y_free))
    return AbstractArray(shape, x.dtype)


def matrix_form(shape: Sequence[Any], batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> tuple[Any, Any]:
    """The permutation and the 3-D shape that bring an operand to (batch, rows, columns)."""
    sizes = tuple(shapes.size(shape[a] for a in axes) for axes in (batch, rows, columns))
    return (*batch, *rows, *columns), sizes


def _dot(x: Any, y: Any, *, contract: Any, batch: Any) -> Any:
    x_free, y_free = _free(x.ndim, contract[0], batch[0]), _free(y.ndim, contract[1], batch[1])
    x_perm, x_shape = matrix_form(x.shape, batch[0], x_free, contract[0])
    y_perm, y_shape = matrix_form(y.shape, batch[1], contract[1], y_free)
    out = np.matmul(x.transpose(x_perm).reshape(x_shape), y.transpose(y_perm).reshape(y_shape)).astype(x.dtype, copy=False)  # bfloat16
    shape = (*(x.shape[a] for a in batch[0]), *(x.shape[a] for a in x_free), *(y.shape[a] for a in y_free))
    return out.reshape(shape)


def _ct_axes(x: Atom, y: Atom, contract: Any, batch: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The axes of a cotangent: batch, the free ones of x, the free ones of y."""
    n = len(batch[0])
    free = [_free(v.aval.ndim, c, a) for v, c, a in zip((x, y), contract, batch, strict=True)]
    middle = n + len(free[0])
    return tuple(range(n)), tuple(range(n, middle)), tuple(range(middle, middle + len(free[1])))


def _in_place(b: Emitter, out: Atom, order: tuple[int, ...]) -> Atom:
    """``out``, whose axis k belongs to axis ``order[k]`` of an operand, with its axes as the operand has them."""
    return out if order == tuple(range(len(order))) else b.transpose(out, perm=invert_permutation(order))


def _dot_transpose_x(b: Emitter, ct: Atom, x: Atom, y: Atom, *, contract: Any, batch: Any) -> Atom:
    """ct contracted with y over y's free axes gives (batch, x free, contracted)."""
    ct_batch, _, ct_y = _ct_axes(x, y, contract, batch)
    y_free = _free(y.aval.ndim, contract[1], batch[1])
    out = b.dot_general(ct, conjugate(b, y), contract=(ct_y, y_free), batch=(ct_batch, batch[1]))
    pairs = dict(zip(contract[1], contract[0], strict=True))
    return _in_place(b, out, (*batch[0], *_free(x.aval.ndim, contract[0], batch[0]), *(pairs[a] for a in sorted(contract[1]))))


def _dot_transpose_y(b: Emitter, ct: Atom, x: Atom, y: Atom, *, contract: Any, batch: Any) -> Atom:
    """x contracted with ct over x's free axes gives (batch, contracted, y free)."""
    ct_batch, ct_x, _ = _ct_axes(x, y, contract, batch)
    x_free = _free(x.aval.ndim, contract[0], batch[0])
    out = b.dot_general(conjugate(b, x), ct, contract=(x_free, ct_x), batch=(batch[0], ct_batch))
    pairs = dict(zip(contract[0], contract[1], strict=True))
    return _in_place(b, out, (*batch[1], *(pairs[a] for a in sorted(contract[0])), *_free(y.aval.ndim, contract[1], batch[1])))


def _dot_batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, contract: Any, batch: Any) -> Any:
    """A shared operand is never broadcast: the lane axis of the other one is just a free axis."""
    x, y = ins
    shift = [
        tuple(tuple(a + is_batched for a in side) for side, is_batched in zip(pair, batched, strict=True)) for pair in (contract, batch)
    ]
    new_contract, new_batch = shift
    if all(batched):
        return (b.dot_general(x, y, contract=new_contract, batch=((0, *new_batch[0]), (0, *new_batch[1]))),), (True,)
    out = b.dot_general(x, y, contract=new_contract, batch=new_batch)
    lane = len(batch[0]) if batched[0] else len(batch[0]) + len(_free(x.aval.ndim, new_contract[0], new_batch[0]))
    perm = (lane, *(i for i in range(out.aval.ndim) if i != lane))
    return (b.transpose(out, perm=perm) if lane else out,), (True,)


def _dot_flops(x: AbstractArray, y: AbstractArray, *, contract: Any, batch: Any) -> int:
    return 2 * shapes.size_hint(_dot_type(x, y, contract=contract, batch=batch).shape) * shapes.size_hint(x.shape[a] for a in contract[0])


dot_general = Primitive(
    "dot_general",
    _dot,
    _dot_type,
    transpose={0: _dot_transpose_x, 1: _dot_transpose_y},
    batch=_dot_batch,
    family="contraction",
    linear=(0, 1),
    bilinear=True,
    recompute="costly",
    flops=_dot_flops,
)
