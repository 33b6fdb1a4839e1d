"""Constructors for families of primitives: what a whole family shares (type rule, batch rule, facts) is written once, here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, is_complex, is_inexact
from functx.errors import UnsupportedError
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive


def same_dtype(*dtypes: np.dtype) -> np.dtype:
    """The common dtype of operands that must agree."""
    first = dtypes[0]
    for dtype in dtypes:
        if dtype != first:
            raise shapes.ShapeError(f"operand dtypes differ: {', '.join(map(str, dtypes))}")
    return first


def to_bool(*dtypes: np.dtype) -> np.dtype:
    """Bool, for operands of one dtype."""
    same_dtype(*dtypes)
    return BOOL


def real_float(*dtypes: np.dtype, **params: Any) -> np.dtype:
    """The common dtype of operands, which must be real floats."""
    dtype = same_dtype(*dtypes)
    if not is_inexact(dtype) or is_complex(dtype):
        raise UnsupportedError(f"real floats are wanted here, not {dtype}", fix="convert the operand with .astype(float)")
    return dtype


def elementwise(
    name: str,
    impl: Callable[..., Any],
    partials: Sequence[Any] | None = None,
    *,
    result: Callable[..., np.dtype] = same_dtype,
    **facts: Any,
) -> Primitive:
    """A primitive that works place by place on operands of one shape.

    ``result(*dtypes, **params)`` gives the result's dtype; ``partials`` are as in :class:`Primitive`, None where nothing has a derivative.
    """

    def type_rule(*avals: AbstractArray, **params: Any) -> AbstractArray:
        for aval in avals[1:]:
            shapes.check_equal(aval.shape, avals[0].shape, name)
        return AbstractArray(avals[0].shape, result(*(a.dtype for a in avals), **params))

    def batch(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, **params: Any) -> Any:
        full = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
        return b.bind(primitive, full, params), (True,)

    facts.setdefault("differentiable", partials is not None or "transpose" in facts)
    primitive = Primitive(name, impl, type_rule, partials, batch=batch, family=facts.pop("family", "elementwise"), **facts)
    return primitive


def linear(
    name: str,
    impl: Callable[..., Any],
    type_rule: Callable[..., AbstractArray],
    transpose: Mapping[int, Callable[..., Any]] | Callable[..., Any],
    batch: Callable[..., Any],
    *,
    operands: Sequence[int] | Callable[[int], bool] = (0,),
    **facts: Any,
) -> Primitive:
    """A primitive that is (jointly) linear in ``operands``."""
    facts.setdefault("family", "linear")
    facts.setdefault("flops", lambda *avals, **params: 0)
    return Primitive(name, impl, type_rule, transpose=transpose, batch=batch, linear=operands, **facts)


def batch_one(batch: Callable[..., Atom]) -> Callable[..., Any]:
    """The batch rule of a primitive with one operand and one result: ``batch(b, x, size, **params)`` is asked for a batched ``x`` only."""

    def rule(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, **params: Any) -> Any:
        return (batch(b, ins[0], size, **params),), (True,)

    return rule


def batch_all(batch: Callable[..., Atom]) -> Callable[..., Any]:
    """The batch rule of a primitive with one result that wants all operands batched: ``batch(b, *ins, size=, **params)``."""

    def rule(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, **params: Any) -> Any:
        full = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
        return (batch(b, *full, size=size, **params),), (True,)

    return rule
