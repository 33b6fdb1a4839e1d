"""Reductions over axes, which are removed. Dtypes stay as they are: functx.numpy converts before (integer sums run in int64, as in
NumPy).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import INT64
from functx.ir import AbstractArray, Atom
from functx.ops.cumulative import previous
from functx.ops.families import batch_one, linear
from functx.primitive import Emitter, Primitive


def _kept(x: Atom, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in range(x.aval.ndim) if i not in axes)


def _reduced(x: AbstractArray, *, axes: Sequence[int]) -> AbstractArray:
    return AbstractArray(shapes.delete(x.shape, axes), x.dtype)


def _batched(name: str) -> Callable[..., Any]:
    return batch_one(lambda b, x, size, *, axes: getattr(b, name)(x, axes=tuple(a + 1 for a in axes)))


reduce_sum = linear(
    "reduce_sum",
    lambda x, *, axes: np.sum(x, axis=axes, dtype=x.dtype),
    _reduced,
    {0: lambda b, ct, x, *, axes: b.broadcast(ct, shape=x.aval.shape, dims=_kept(x, axes))},
    _batched("reduce_sum"),
    family="reduction",
    flops=lambda x, *, axes: shapes.size_hint(x.shape),
)


def _product_jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axes: Any) -> list[Atom]:
    """The partial of a product by one factor is the product of those before it and of those after it: no division, so zeros are exact."""
    kept = _kept(ins[0], axes)

    def in_one_axis(x: Atom) -> Atom:
        """The reduced axes as one, behind the others."""
        moved = b.transpose(x, perm=(*kept, *axes))
        return b.reshape(moved, shape=(*outs[0].aval.shape, shapes.size(x.aval.shape[i] for i in axes)))

    x, t = in_one_axis(ins[0]), in_one_axis(tangents[0])
    one_way, other_way = ({"axis": len(kept), "reverse": reverse} for reverse in (False, True))
    before, after = (previous(b, b.cumprod(x, **way), 1, **way) for way in (one_way, other_way))
    return [b.reduce_sum(b.mul_zero(t, b.mul(before, after)), axes=(len(kept),))]


reduce_prod = Primitive(
    "reduce_prod",
    lambda x, *, axes: np.prod(x, axis=axes, dtype=x.dtype),
    _reduced,
    jvp=_product_jvp,
    batch=_batched("reduce_prod"),
    family="reduction",
)


def _extremum_jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axes: Any) -> list[Atom]:
    """All places that attain the extremum share its derivative equally."""
    x, kept = ins[0], _kept(ins[0], axes)
    attained = b.eq(x, b.broadcast(outs[0], shape=x.aval.shape, dims=kept))
    weight = b.convert(attained, dtype=x.aval.dtype, checked=False)
    count = b.broadcast(b.reduce_sum(weight, axes=axes), shape=x.aval.shape, dims=kept)
    return [b.reduce_sum(b.mul_zero(tangents[0], b.div(weight, count)), axes=axes)]


def _extremum(name: str, impl: Callable[..., Any]) -> Primitive:
    return Primitive(name, lambda x, *, axes: impl(x, axis=axes), _reduced, jvp=_extremum_jvp, batch=_batched(name), family="reduction")


reduce_max = _extremum("reduce_max", np.max)

reduce_min = _extremum("reduce_min", np.min)


def _arg_extremum(name: str, impl: Callable[..., Any]) -> Primitive:
    """The position of the first extremum (NaN counts as one, as in NumPy) along one axis, as int64."""
    return Primitive(
        name,
        lambda x, *, axis: np.asarray(impl(x, axis=axis)),
        lambda x, *, axis: AbstractArray(shapes.delete(x.shape, (axis,)), INT64),
        batch=batch_one(lambda b, x, size, *, axis: getattr(b, name)(x, axis=axis + 1)),
        family="reduction",
        differentiable=False,
    )


argmax = _arg_extremum("argmax", np.argmax)

argmin = _arg_extremum("argmin", np.argmin)
