"""Selections of a size that depends on data: their equation binds a Dim, ``count``, and downstream equations take it as any other size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, INT64
from functx.errors import ConcretizationError, DynamicShapeError
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive
from functx.trace import where


def _refuse_lanes(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, count: Any) -> Any:
    raise ConcretizationError(
        "under vmap a boolean mask, nonzero, unique, compress or repeat would give every example a size of its own",
        where=b.source.describe() if b.source else where(),
        why="the examples of a batch lie in one array",
        fix="give the size: fnp.nonzero(mask, size=n) (import functx.numpy as fnp), or choose by np.where(mask, a, b)",
    )


def _places_type(mask: AbstractArray, *, count: Any) -> AbstractArray:
    shapes.check(mask.ndim == 1 and mask.dtype == BOOL, f"places: a flat mask is wanted, not {mask}")
    return AbstractArray((count,), INT64)


# The places where a flat mask holds, in ascending order.
places = Primitive(
    "places",
    lambda mask, *, count: np.flatnonzero(mask),
    _places_type,
    batch=_refuse_lanes,
    family="selection",
    recompute="never",
    differentiable=False,
    binds="count",
)


def _repeated_type(counts: AbstractArray, *, count: Any) -> AbstractArray:
    shapes.check(counts.ndim == 1 and counts.dtype == INT64, f"repeated_places: flat int64 counts are wanted, not {counts}")
    return AbstractArray((count,), INT64)


# Each place so many times; a negative count is a ValueError.
repeated_places = Primitive(
    "repeated_places",
    lambda counts, *, count: np.repeat(np.arange(len(counts)), counts),
    _repeated_type,
    batch=_refuse_lanes,
    family="selection",
    recompute="never",
    differentiable=False,
    binds="count",
)


# --- promises about sizes -----------------------------------------------------------------------------------------------------------------


def _promise(difference: Any, *, kind: str, what: str, why: str, line: str) -> list[Any]:
    if not (difference >= 0 if kind == ">=" else (difference == 0) == (kind == "==")):
        apart = abs(int(difference))
        fix = "select as many elements in both, or choose place by place: np.where(mask, a, b)" if why else ""
        raise DynamicShapeError(f"{what} (they are {apart} apart)" if why else what, where=line or None, why=why, fix=fix)
    return []


# An int64 of which something is promised: compared with zero, as the conditions of functx.sizes are.
promise = Primitive(
    "promise",
    _promise,
    lambda difference, *, kind, what, why, line: [],
    batch=lambda b, ins, batched, size, **params: (_promised_of_all(b, ins, batched, **params), ()),
    family="selection",
    recompute="never",
    differentiable=False,
    effect=True,
    multiple=True,
)


def _promised_of_all(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], **params: Any) -> Any:
    shapes.check(not any(batched), "promise: a size is the same for all examples")
    return b.promise(*ins, **params)
