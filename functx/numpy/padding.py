"""np.pad in all its modes. Axes are padded one after another, so that corners are padding of padding, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.dtypes import Kind
from functx.errors import UnsupportedError
from functx.numpy import creation, indexing, promote
from functx.numpy.joining import concatenate
from functx.numpy.manipulation import broadcast_to, known, layout
from functx.trace import Tracer, current_trace, where

_KEYWORDS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
    **dict.fromkeys(("maximum", "minimum", "mean", "median"), ("stat_length",)), "edge": (), "wrap": (), "empty": (),
}  # fmt: skip


def pad(
    array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = None, end_values: Any = None, stat_length: Any = None,
    reflect_type: Any = None,
) -> Tracer:  # fmt: skip
    """np.pad. Widths are known; constant and end values may be traced."""
    given = {"constant_values": constant_values, "end_values": end_values, "stat_length": stat_length, "reflect_type": reflect_type}
    kwargs = {name: v for name, v in given.items() if v is not None}
    (h,) = promote.handles([array])
    if callable(mode):
        raise UnsupportedError("np.pad: a function as mode is not traced", where=where(), fix="concatenate slices of the array")
    if mode not in _KEYWORDS:
        raise ValueError(f"mode '{mode}' is not supported")
    if unknown := [k for k in kwargs if k not in _KEYWORDS[mode]]:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(unknown)}")
    widths = _widths(known(pad_width, "np.pad: the width", "pass plain whole numbers"), h.aval.ndim)
    values = kwargs.get("constant_values", 0)
    if mode == "empty" or (mode == "constant" and not promote.handles([values])[0].aval.ndim):
        return _constant(h, widths, 0 if mode == "empty" else values)
    padded: Tracer = h
    for axis, pair in enumerate(widths):
        if any(pair):
            padded = _pad_axis(padded, axis, pair, mode, kwargs, h.aval.ndim)
    return current_trace().tracer(padded.atom, Kind.ARRAY, layout("A", padded.aval.shape, h.aval.dtype, h))


def _widths(width: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(width, dict):
        by_axis: list[Any] = [(0, 0)] * rank
        for axis, pair in width.items():
            by_axis[axis] = (pair, pair) if np.ndim(pair) == 0 else pair
        width = by_axis
    array = np.asarray(width)
    if array.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    pairs = np.broadcast_to(array, (rank, 2))
    if (pairs < 0).any():
        raise ValueError("index can't contain negative values")
    return [(int(low), int(high)) for low, high in pairs]


def _constant(h: Tracer, widths: list[tuple[int, int]], value: Any) -> Tracer:
    b = current_trace().emit
    low, high = (tuple(side) for side in zip(*widths, strict=True)) if widths else ((), ())
    (v,) = promote.handles([value])
    fill = promote.convert(b, v, h.aval.dtype)
    atom = b.pad(h.atom, fill, low=low, high=high)
    return current_trace().tracer(atom, Kind.ARRAY, layout("A", atom.aval.shape, h.aval.dtype, h))


def _pad_axis(h: Tracer, axis: int, pair: tuple[int, int], mode: str, kwargs: dict[str, Any], rank: int) -> Tracer:
    n = h.aval.shape[axis]
    if mode in ("edge", "wrap", "reflect", "symmetric"):
        if kwargs.get("reflect_type", "even") != "even":
            raise UnsupportedError("np.pad: reflect_type='odd' is not traced", where=where(), fix="use 2 * edge - np.pad(x, n, 'reflect')")
        return indexing.pick(h, np.pad(np.arange(n), pair, mode), axis)
    if mode != "constant" and n == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    sides = [_border(h, axis, side, pair[side], mode, kwargs, rank) if pair[side] else None for side in (0, 1)]
    return concatenate([part for part in (sides[0], h, sides[1]) if part is not None], axis)


def _border(h: Tracer, axis: int, side: int, width: int, mode: str, kwargs: dict[str, Any], rank: int) -> Tracer:
    """What is put before (side 0) or after the array along an axis."""
    dtype, lead = h.aval.dtype, (slice(None),) * axis
    if mode == "constant":
        value = _of_side(kwargs["constant_values"], axis, side, rank).astype(dtype)
        shape = (*h.aval.shape[:axis], width, *h.aval.shape[axis + 1 :])
        return broadcast_to(value, shape)
    if mode == "linear_ramp":
        edge = h[(*lead, 0 if side == 0 else -1)]
        end = _of_side(kwargs.get("end_values", 0), axis, side, rank)
        ramp = creation.linspace(end, edge, width, endpoint=False, dtype=dtype, axis=axis)
        return ramp if side == 0 else np.flip(ramp, axis)
    n = h.aval.shape[axis]
    length = kwargs.get("stat_length")
    size = n if length is None else min(int(np.broadcast_to(np.asarray(length), (rank, 2))[axis, side]), n)
    chunk = h[(*lead, slice(0, size) if side == 0 else slice(n - size, n))]
    if size == 0 and mode not in ("mean", "median"):
        raise ValueError("stat_length of 0 yields no value for padding")
    stat = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}[mode](chunk, axis=axis, keepdims=True)
    stat = (np.rint(stat) if mode in ("mean", "median") and dtype.kind in "iu" else stat).astype(dtype)
    return broadcast_to(stat, (*stat.shape[:axis], width, *stat.shape[axis + 1 :]))


def _of_side(values: Any, axis: int, side: int, rank: int) -> Tracer:
    """The entry of (rank, 2) values, given in any shape that broadcasts to it."""
    return broadcast_to(values, (rank, 2))[axis, side]
