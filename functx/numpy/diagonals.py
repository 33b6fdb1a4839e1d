"""Diagonals and triangles of matrices: views where NumPy gives views (read-only ones for diagonals), copies where it copies."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import INT64
from functx.ir import Atom
from functx.mutation import check_writeable
from functx.numpy import indexing, promote
from functx.numpy.flat import set_flat
from functx.numpy.manipulation import moveaxis, ravel
from functx.numpy.views import diagonal_view
from functx.trace import Tracer, current_trace, dataless


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    """np.diagonal: a read-only view of the diagonals in the plane of two axes, along a last axis."""
    (h,) = promote.handles([a])
    if h.aval.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    axes = shapes.canonical_axis(axis1, h.aval.ndim), shapes.canonical_axis(axis2, h.aval.ndim)
    if axes[0] == axes[1]:
        raise ValueError("axis1 and axis2 cannot be the same")
    rows, columns = (h.aval.shape[i] for i in axes)
    k = operator.index(offset)
    n = max(min(rows + min(k, 0), columns - max(k, 0)), 0)
    return moveaxis(diagonal_view(h, axes, (max(-k, 0), max(k, 0)), n, "read"), 0, -1)


def _index_atom(i: Any) -> Atom:
    return i.atom if isinstance(i, Tracer) else current_trace().builder.const(i)


def diag(v: Any, k: int = 0) -> Tracer:
    """np.diag: a matrix with this diagonal, or the diagonal of a matrix."""
    (h,) = promote.handles([v])
    if h.aval.ndim == 2:
        return diagonal(h, k)
    if h.aval.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    trace, k = current_trace(), operator.index(k)
    n = h.aval.shape[0]
    b, side = trace.emit, n + abs(k)
    i = promote.positions(n)
    places = [_index_atom(i + max(-k, 0)), _index_atom(i + max(k, 0))]
    return trace.tracer(b.scatter_set(b.full((side, side), 0, h.aval.dtype), h.atom, *places, axes=(0, 1)))


def diagflat(v: Any, k: int = 0) -> Tracer:
    """np.diagflat: a matrix with the flattened input as its diagonal."""
    return diag(ravel(v), k)


def triangle(rows: Any, columns: Any, k: int, *, upper: bool = False) -> Atom:
    """A mask of the places on and below diagonal ``k`` (or on and above it)."""
    b = current_trace().emit
    row, column = (b.iota(shape=(rows, columns), dtype=INT64, axis=axis) for axis in (0, 1))
    shifted = b.add(row, b.full_like(row, operator.index(k)))
    return b.ge(column, shifted) if upper else b.le(column, shifted)


def _kept(m: Any, k: int, *, upper: bool) -> Tracer:
    (h,) = promote.handles([m])
    if h.aval.ndim == 0:
        raise TypeError("a triangle of a 0-d array is not defined")
    trace, shape = current_trace(), h.aval.shape
    mask = triangle(shape[-2] if len(shape) > 1 else shape[-1], shape[-1], k, upper=upper)
    return np.where(trace.tracer(mask), h, np.zeros(1, h.aval.dtype)[0])


def tril(m: Any, k: int = 0) -> Tracer:
    """np.tril: a copy with zeros above a diagonal."""
    return _kept(m, k, upper=False)


def triu(m: Any, k: int = 0) -> Tracer:
    """np.triu: a copy with zeros below a diagonal."""
    return _kept(m, k, upper=True)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal: writes a value, or values one after another, on the main diagonal."""
    (h,) = promote.handles([indexing.writeable(a)])
    check_writeable(h)
    shape = h.aval.shape
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and not all(shapes.fit((d,), shape[:1]) for d in shape):
        raise ValueError("All dimensions of input must be of equal length")
    step = shape[1] + 1 if len(shape) == 2 else 1 + sum(shapes.size(shape[i:]) for i in range(1, len(shape)))
    end = shape[1] * shape[1] if len(shape) == 2 and not wrap else None
    set_flat(h, slice(None, end, step), val)


# --- indices for the shape of an array: plain ones ---------------------------------------------------------------------------------------


def diag_indices_from(arr: Any) -> tuple[np.ndarray, ...]:
    """np.diag_indices_from."""
    return np.diag_indices_from(_without_data(arr))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """np.tril_indices_from."""
    return np.tril_indices_from(_without_data(arr), k)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """np.triu_indices_from."""
    return np.triu_indices_from(_without_data(arr), k)


def _without_data(arr: Any) -> np.ndarray:
    (h,) = promote.handles([arr])
    return dataless([operator.index(d) for d in h.aval.shape], h.aval.dtype)
