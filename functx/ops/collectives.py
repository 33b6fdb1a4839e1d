"""Collectives over the lanes of a named vmap axis.

Their last operand is the lane: the position along the axis, an input that the vmap of that axis makes and maps. Whoever depends on it is
batched by that vmap, and only there; so an equation finds its axis by data flow, however deep it is nested, and ``axis`` is its name in
messages only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functx.errors import UnboundAxisError
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive


def _outside(name: str) -> Callable[..., Any]:
    """Evaluated for one lane alone a collective has no meaning."""

    def impl(x: Any, lane: Any, *, axis: str) -> Any:
        raise UnboundAxisError(
            f"{name} over axis '{axis}' was evaluated for one example alone",
            why="it needs the values of all examples at once, and a loop runs one after the other",
            fix="move it out of the branch or loop whose condition differs between examples",
        )

    return impl


def _batch(name: str, over_lanes: Callable[..., Atom], of_equal: Callable[..., Atom]) -> Callable[..., Any]:
    """Over the lanes of its own axis it reduces axis 0, and its result is the same for all; those of another axis pass through."""

    def rule(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, axis: str) -> Any:
        x, lane = ins
        if not batched[1]:
            return (getattr(b, name)(x, lane, axis=axis),), (True,)
        return (over_lanes(b, x) if batched[0] else of_equal(b, x, size),), (False,)

    return rule


def _collective(name: str, over_lanes: Callable[..., Atom], of_equal: Callable[..., Atom], **rules: Any) -> Primitive:
    def type_rule(x: AbstractArray, lane: AbstractArray, *, axis: str) -> AbstractArray:
        return AbstractArray(x.shape, x.dtype)

    return Primitive(name, _outside(name), type_rule, batch=_batch(name, over_lanes, of_equal), family="collective", **rules)


# psum(x, lane; axis): the sum over all lanes.
psum = _collective(
    "psum",
    lambda b, x: b.reduce_sum(x, axes=(0,)),
    lambda b, x, size: b.reduce_sum(b.batched(x, False, size), axes=(0,)),
    linear=(0,),
    transpose={0: lambda b, ct, x, lane, *, axis: b.psum(ct, lane, axis=axis)},
)


def _extremum_jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, axis: str) -> Any:
    """All lanes that attain the extremum share its derivative equally."""
    x, lane = ins
    weight = b.convert(b.eq(x, outs[0]), dtype=x.aval.dtype, checked=False)
    share = b.div(weight, b.psum(weight, lane, axis=axis))
    return [b.psum(b.mul_zero(tangents[0], share), lane, axis=axis)]


pmax = _collective("pmax", lambda b, x: b.reduce_max(x, axes=(0,)), lambda b, x, size: x, jvp=_extremum_jvp)

pmin = _collective("pmin", lambda b, x: b.reduce_min(x, axes=(0,)), lambda b, x, size: x, jvp=_extremum_jvp)
