"""Functions of np.linalg, as far as it needs no decomposition of matrices: norms, powers and products."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import is_complex
from functx.errors import UnsupportedError
from functx.numpy import contractions, promote, reductions
from functx.trace import Tracer, current_trace, where


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """np.linalg.norm of vectors and matrices, but for those by singular values. Its derivative at zero is zero."""
    (h,) = promote.handles([x])
    if not np.issubdtype(h.aval.dtype, np.inexact):
        h = h.astype(float)
    rank = h.aval.ndim
    if axis is None and (ord is None or (ord in ("f", "fro") and rank == 2) or (ord == 2 and rank == 1)):
        return _root(_squares(h), tuple(range(rank)), keepdims)
    axes = tuple(range(rank)) if axis is None else _axes(axis, rank)
    if len(axes) == 1:
        return _vector_norm(h, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    return _matrix_norm(h, ord, axes, keepdims)


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if isinstance(axis, tuple):
        return tuple(shapes.canonical_axis(a, rank) for a in axis)
    try:
        return (shapes.canonical_axis(operator.index(axis), rank),)
    except TypeError:
        raise TypeError("'axis' must be None, an integer or a tuple of integers") from None


def _squares(h: Tracer) -> Any:
    """abs(x) ** 2, without a root."""
    return np.real(np.conjugate(h) * h) if is_complex(h.aval.dtype) else np.multiply(h, h)


def _root(squares: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return reductions.root(np.add.reduce(squares, axis=axes, keepdims=keepdims), None)


def _vector_norm(h: Tracer, ord: Any, axis: int, keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord is None or ord == 2:
        return _root(_squares(h), (axis,), keepdims)
    if ord == 0:
        return np.add.reduce(np.not_equal(h, 0).astype(np.real(h).dtype), axis=axis, keepdims=keepdims)
    size = np.absolute(h)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.add.reduce(size, axis=axis, keepdims=keepdims)
    total = np.add.reduce(np.power(size, ord).astype(size.dtype), axis=axis, keepdims=keepdims)
    return total ** np.reciprocal(ord, dtype=total.dtype)


def _matrix_norm(h: Tracer, ord: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    if ord in (None, "fro", "f"):
        return _root(_squares(h), axes, keepdims)
    if ord in (2, -2, "nuc"):
        what = f"np.linalg.norm: the matrix norm of order {ord!r}, by singular values, is not traced"
        raise UnsupportedError(what, where=where(), fix="use the Frobenius norm, or the norms of order 1 and inf")
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    summed, kept = axes if abs(ord) == 1 else axes[::-1]
    sums = np.add.reduce(np.absolute(h), axis=summed)
    kept -= kept > summed
    extreme = np.max(sums, axis=kept, initial=0) if ord > 0 else np.min(sums, axis=kept)
    return np.reshape(extreme, [1 if i in axes else d for i, d in enumerate(h.aval.shape)]) if keepdims else extreme


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """np.linalg.vector_norm: over all given axes together."""
    (h,) = promote.handles([x])
    axes = tuple(range(h.aval.ndim)) if axis is None else _axes(axis, h.aval.ndim)
    rest = tuple(i for i in range(h.aval.ndim) if i not in axes)
    flat = np.reshape(np.transpose(h, (*axes, *rest)), (shapes.size(h.aval.shape[i] for i in axes), *(h.aval.shape[i] for i in rest)))
    out = norm(flat, ord, 0)
    return np.reshape(out, tuple(1 if i in axes else d for i, d in enumerate(h.aval.shape))) if keepdims else out


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """np.linalg.matrix_norm: over the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def matrix_power(a: Any, n: int) -> Any:
    """np.linalg.matrix_power for n >= 0, by repeated squaring."""
    (h,) = promote.handles([a])
    n = operator.index(n)
    if h.aval.ndim < 2 or h.aval.shape[-1] != h.aval.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n < 0:
        raise UnsupportedError("np.linalg.matrix_power: a negative power is not traced", where=where(), fix="invert outside")
    if n == 0:
        return np.broadcast_to(np.eye(h.aval.shape[-1], dtype=h.aval.dtype), h.aval.shape) + np.zeros_like(h)
    result = None
    while n:
        if n & 1:
            result = h if result is None else np.matmul(result, h)
        n >>= 1
        h = np.matmul(h, h) if n else h
    return np.copy(result)


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """np.linalg.multi_dot: a chain of products in the cheapest order."""
    operands = promote.handles(arrays)
    last = len(operands) - 1
    if last < 1:
        raise ValueError("Expecting at least two arrays.")
    for i, h in enumerate(operands):
        if h.aval.ndim != 2 and not (h.aval.ndim == 1 and i in (0, last)):
            raise np.linalg.LinAlgError(f"{h.aval.ndim}-dimensional array given. Array must be two-dimensional")
    for left, right in itertools.pairwise(operands):
        if not shapes.fit(left.aval.shape[-1:], right.aval.shape[:1]):
            raise ValueError(f"shapes {shapes.show(left.aval.shape)} and {shapes.show(right.aval.shape)} not aligned")
    labels = [(0, 1), *((i, i + 1) for i in range(1, last)), (last, last + 1)]
    labels[0], labels[last] = labels[0][-operands[0].aval.ndim :], labels[last][: operands[last].aval.ndim]
    ends = (*labels[0][:-1], *labels[last][1:])
    dtype = np.result_type(*(h.aval.dtype for h in operands))
    atom = contractions.contract(operands, labels, ends, dtype)
    value = current_trace().tracer(atom, promote.result_kind(atom.aval.shape))
    return value if out is None else np.positive(value, out=out)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """np.linalg.trace, of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """np.linalg.diagonal, of the last two axes."""
    return np.diagonal(x, offset, -2, -1)


def outer(x1: Any, x2: Any, /) -> Any:
    """np.linalg.outer of two vectors."""
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={np.ndim(x1)} and x2.ndim={np.ndim(x2)}.")
    return np.outer(x1, x2)


def matmul(x1: Any, x2: Any, /) -> Any:
    """np.linalg.matmul."""
    return np.matmul(x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """np.linalg.tensordot."""
    return np.tensordot(x1, x2, axes)


def matrix_transpose(x: Any, /) -> Any:
    """np.linalg.matrix_transpose, a view."""
    return np.matrix_transpose(x)


FUNCTIONS = (norm, vector_norm, matrix_norm, matrix_power, multi_dot, trace, diagonal, outer, matmul, tensordot, matrix_transpose)
