"""Running sums, products and extrema along one axis, or against its direction (``reverse``). Shapes and dtypes stay as they are:
functx.numpy converts before.

The derivatives divide by no element, take O(n) like the operations themselves, and are closed: they need nothing but these primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.ir import AbstractArray, Atom, Literal
from functx.ops.families import batch_all, batch_one, linear, real_float
from functx.ops.transcendental import logaddexp
from functx.primitive import Emitter, Primitive, conjugate


def previous(b: Emitter, x: Atom, first: Any, *, axis: int, reverse: bool) -> Atom:
    """At every place the element before it in running direction, and ``first`` at the first place."""
    edge = tuple(int(i == axis) for i in range(x.aval.ndim))
    zeros, ones = (0,) * x.aval.ndim, (1,) * x.aval.ndim
    low, high = (zeros, edge) if reverse else (edge, zeros)
    padded = b.pad(x, Literal(first, x.aval.dtype), low=low, high=high)  # any size, zero too, so that no size is subtracted
    return b.slice(padded, starts=high, sizes=x.aval.shape, steps=ones)


def _forwards(x: Any, axis: int, reverse: bool) -> Any:
    """The same elements in running direction; and back again."""
    return np.flip(x, axis) if reverse else x


def _same(*avals: AbstractArray, axis: int, reverse: bool) -> AbstractArray:
    shapes.check(0 <= axis < avals[0].ndim, f"axis {axis} is out of bounds for {avals[0]}")
    for aval in avals[1:]:
        shapes.check_equal(aval.shape, avals[0].shape, "linear_recurrence")
        shapes.check(aval.dtype == avals[0].dtype, f"linear_recurrence: dtypes {avals[0].dtype} and {aval.dtype} differ")
    return AbstractArray(avals[0].shape, avals[0].dtype)


def _cumulative(
    name: str, accumulate: Callable[[Any, int], Any], jvp: Callable[..., Any], type_rule: Callable[..., AbstractArray] = _same
) -> Primitive:
    """A running operation that is not linear. ``accumulate(x, axis)`` is NumPy's."""
    return Primitive(
        name,
        lambda x, *, axis, reverse: _forwards(accumulate(_forwards(x, axis, reverse), axis), axis, reverse),
        type_rule,
        jvp=lambda b, outs, ins, tangents, **params: [jvp(b, outs[0], ins[0], tangents[0], **params)],
        batch=batch_one(lambda b, x, size, *, axis, reverse: getattr(b, name)(x, axis=axis + 1, reverse=reverse)),
        family="cumulative",
        recompute="costly",
    )


# --- linear_recurrence(a, c): h_k = a_k h_{k-1} + c_k, beginning with h_0 = c_0 -----------------------------------------------------------


def _linear_recurrence(a: Any, c: Any, *, axis: int, reverse: bool) -> Any:
    h = np.array(c)
    steps, factors = (np.moveaxis(_forwards(x, axis, reverse), axis, 0) for x in (h, a))
    for k in range(1, len(steps)):
        steps[k] += factors[k] * steps[k - 1]
    return h


def _recurrence_jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], **params: Any) -> list[Atom]:
    """A recurrence with the same factors, driven by what moves at each step."""
    da, dc = tangents
    moved = None if da is None else b.mul_zero(da, previous(b, outs[0], 0, **params))
    return [b.linear_recurrence(ins[0], b.add_cotangents(dc, moved), **params)]


def _recurrence_transpose(b: Emitter, ct: Atom, a: Atom, c: Atom, *, axis: int, reverse: bool) -> Atom:
    """The recurrence the other way round, each step with the factor of the next one."""
    factors = previous(b, conjugate(b, a), 0, axis=axis, reverse=not reverse)
    return b.linear_recurrence(factors, ct, axis=axis, reverse=not reverse)


linear_recurrence = linear(
    "linear_recurrence",
    _linear_recurrence,
    _same,
    {1: _recurrence_transpose},
    batch_all(lambda b, a, c, *, size, axis, reverse: b.linear_recurrence(a, c, axis=axis + 1, reverse=reverse)),
    operands=(1,),
    jvp=_recurrence_jvp,
    family="cumulative",
    recompute="costly",
    flops=lambda a, c, *, axis, reverse: 2 * shapes.size_hint(c.shape),
)

# --- sums and products --------------------------------------------------------------------------------------------------------------------

cumsum = linear(
    "cumsum",
    lambda x, *, axis, reverse: _forwards(np.cumsum(_forwards(x, axis, reverse), axis, x.dtype), axis, reverse),
    _same,
    {0: lambda b, ct, x, *, axis, reverse: b.cumsum(ct, axis=axis, reverse=not reverse)},
    batch_one(lambda b, x, size, *, axis, reverse: b.cumsum(x, axis=axis + 1, reverse=reverse)),
    family="cumulative",
    flops=lambda x, *, axis, reverse: shapes.size_hint(x.shape),
)


def _cumprod_jvp(b: Emitter, out: Atom, x: Atom, t: Atom, **params: Any) -> Atom:
    """y_k = x_k y_{k-1}, differentiated."""
    return b.linear_recurrence(x, b.mul_zero(t, previous(b, out, 1, **params)), **params)


cumprod = _cumulative("cumprod", lambda x, axis: np.cumprod(x, axis, x.dtype), _cumprod_jvp)

# --- extrema ------------------------------------------------------------------------------------------------------------------------------


def _extremum_jvp(b: Emitter, out: Atom, x: Atom, t: Atom, **params: Any) -> Atom:
    """All places so far that attain the running extremum share its derivative equally; a NaN is an extremum that equals the next one."""

    def same(y: Atom, z: Atom) -> Atom:
        equal = b.or_(b.eq(y, z), b.and_(b.ne(y, y), b.ne(z, z)))
        return b.convert(equal, dtype=x.aval.dtype, checked=False)

    attained = same(x, out)
    count = b.linear_recurrence(same(out, previous(b, out, 0, **params)), attained, **params)
    kept = b.div(b.sub(count, attained), count)  # 0 at a new extremum, 1 below it, and (n - 1) / n where it is attained again
    return b.linear_recurrence(kept, b.mul_zero(t, b.div(attained, count)), **params)


# A NaN stays, as in NumPy.
cummax = _cumulative("cummax", lambda x, axis: np.maximum.accumulate(x, axis), _extremum_jvp)

cummin = _cumulative("cummin", lambda x, axis: np.minimum.accumulate(x, axis), _extremum_jvp)

# --- log(cumsum(exp(x))) ------------------------------------------------------------------------------------------------------------------


def _same_real(x: AbstractArray, *, axis: int, reverse: bool) -> AbstractArray:
    real_float(x.dtype)
    return _same(x, axis=axis, reverse=reverse)


def _cumlogsumexp_jvp(b: Emitter, out: Atom, x: Atom, t: Atom, **params: Any) -> Atom:
    """y_k = logaddexp(y_{k-1}, x_k), differentiated."""
    before = previous(b, out, -np.inf, **params)
    kept, new = (partial(b, out, before, x) for partial in logaddexp.partials)
    return b.linear_recurrence(kept, b.mul_zero(t, new), **params)


cumlogsumexp = _cumulative("cumlogsumexp", lambda x, axis: np.logaddexp.accumulate(x, axis), _cumlogsumexp_jvp, _same_real)
