"""Products of vectors and matrices, all by dot_general."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import is_complex
from functx.ir import Atom
from functx.numpy import contractions, promote, reductions
from functx.numpy.ufuncs import store
from functx.trace import Tracer, current_trace, where


def _wrap(atom: Atom) -> Tracer:
    return current_trace().tracer(atom, promote.result_kind(atom.aval.shape))


def contract(x: Any, y: Any, axes: tuple[tuple[int, ...], tuple[int, ...]], batch: Any = ((), ())) -> Tracer:
    """Sum of products over pairs of axes, after promotion."""
    a, c = reductions.arrays([x, y])
    b, dtype = current_trace().emit, np.result_type(a.aval.dtype, c.aval.dtype)
    return _wrap(b.dot_general(promote.convert(b, a, dtype), promote.convert(b, c, dtype), contract=axes, batch=batch))


# --- generalized ufuncs -------------------------------------------------------------------------------------------------------------------


def _loop(ufunc: np.ufunc, x: Any, y: Any, dtype: Any, casting: str) -> tuple[Tracer, Tracer, np.dtype]:
    """The operands and the dtype in which NumPy computes; its own errors for operands of too small a rank."""
    a, c = promote.handles([x, y])
    ufunc(*(np.ones((1,) * h.aval.ndim, h.aval.dtype) for h in (a, c)), dtype=dtype, casting=casting)
    given = [promote.loop_dtype(h) for h in (a, c)]
    signature = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    return a, c, ufunc.resolve_dtypes((*given, None), casting=casting, **signature)[-1]


def _check_core(ufunc: np.ufunc, a: Tracer, c: Tracer, x_axis: int, y_axis: int) -> None:
    """The axes that are summed have one length: not even 1 is broadcast."""
    n, m = a.aval.shape[x_axis], c.aval.shape[y_axis]
    if not shapes.fit((n,), (m,)):
        place = list(range(c.aval.ndim))[y_axis] - max(c.aval.ndim - 2, 0)
        raise shapes.ShapeError(
            f"{ufunc.__name__}: Input operand 1 has a mismatch in its core dimension {place}, with gufunc signature {ufunc.signature} "
            f"(size {m} is different from {n})",
            where=where(),
            why=f"{promote.describe(a)}; {promote.describe(c)}",
        )


def _finished(atom: Atom, out: Any, casting: str) -> Any:
    target = out[0] if isinstance(out, tuple) else out
    return _wrap(atom) if target is None else store(np.add, [atom.aval.dtype] * 2, atom.aval.dtype, atom, target, casting)


def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: str = "same_kind", subok: bool = True) -> Any:
    """np.matmul: vectors are rows or columns, leading axes broadcast."""
    a, c, loop = _loop(np.matmul, x1, x2, dtype, casting)
    _check_core(np.matmul, a, c, -1, 0 if c.aval.ndim == 1 else -2)
    return _finished(_matmul(a, c, loop), out, casting)


def _matmul(a: Tracer, c: Tracer, dtype: np.dtype) -> Atom:
    """An operand without leading axes of its own is shared, never broadcast."""
    b = current_trace().emit
    rank_x, rank_y = a.aval.ndim, c.aval.ndim
    if rank_x > 2 and rank_y > 2:
        shapes.broadcast(a.aval.shape[:-2], c.aval.shape[:-2])
        return contractions.multiply_vectors("...ij,...jk->...ik", a, c, dtype)
    x, y = promote.convert(b, a, dtype), promote.convert(b, c, dtype)
    out = b.dot_general(x, y, contract=((rank_x - 1,), (max(rank_y - 2, 0),)), batch=((), ()))
    if rank_y > 2 and rank_x == 2:  # x rows came first, then the leading axes of y
        out = b.transpose(out, perm=(*range(1, rank_y - 1), 0, rank_y - 1))
    return out


def vecdot(
    x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, dtype: Any = None, casting: str = "same_kind", subok: bool = True
) -> Any:
    """np.vecdot: sums of products along an axis, the first operand conjugated."""
    a, c, loop = _loop(np.vecdot, x1, x2, dtype, casting)
    a, c = (np.moveaxis(h, axis, -1) for h in (a, c))
    _check_core(np.vecdot, a, c, -1, -1)
    return _finished(contractions.multiply_vectors("...i,...i->...", _conjugate(a), c, loop), out, casting)


def matvec(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: str = "same_kind", subok: bool = True) -> Any:
    """np.matvec: stacks of matrices times stacks of vectors."""
    a, c, loop = _loop(np.matvec, x1, x2, dtype, casting)
    _check_core(np.matvec, a, c, -1, -1)
    return _finished(contractions.multiply_vectors("...ij,...j->...i", a, c, loop), out, casting)


def vecmat(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: str = "same_kind", subok: bool = True) -> Any:
    """np.vecmat: stacks of (conjugated) vectors times stacks of matrices."""
    a, c, loop = _loop(np.vecmat, x1, x2, dtype, casting)
    _check_core(np.vecmat, a, c, -1, -2)
    return _finished(contractions.multiply_vectors("...i,...ij->...j", _conjugate(a), c, loop), out, casting)


def _conjugate(h: Tracer) -> Tracer:
    return np.conjugate(h) if is_complex(h.aval.dtype) else h


# NumPy 2.1 has no matvec and vecmat yet.
GUFUNCS = {getattr(np, f.__name__): f for f in (matmul, vecdot, matvec, vecmat) if hasattr(np, f.__name__)}


# --- functions ----------------------------------------------------------------------------------------------------------------------------


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """np.dot: over the last axis of a and the second last of b."""
    x, y = reductions.arrays([a, b])
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return np.multiply(x, y, out=out)
    last = max(y.aval.ndim - 2, 0)
    if not shapes.fit(x.aval.shape[-1:], (y.aval.shape[last],)):
        raise ValueError(
            f"shapes {shapes.show(x.aval.shape)} and {shapes.show(y.aval.shape)} not aligned: {x.aval.shape[-1]} (dim {x.aval.ndim - 1}) "
            f"!= {y.aval.shape[last]} (dim {last})"
        )
    dtype = np.result_type(x.aval.dtype, y.aval.dtype)
    if out is not None and (out.dtype != dtype or not out.flags.c_contiguous):
        raise ValueError("output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)")
    product = contract(x, y, ((x.aval.ndim - 1,), (last,)))
    return product if out is None else store(np.add, [dtype, dtype], dtype, product.atom, out, "no")


def inner(a: Any, b: Any, /) -> Tracer:
    """np.inner: over the last axes."""
    x, y = reductions.arrays([a, b])
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return np.multiply(x, y)
    return contract(x, y, ((x.aval.ndim - 1,), (y.aval.ndim - 1,)))


def outer(a: Any, b: Any, out: Any = None) -> Tracer:
    """np.outer of the flattened operands."""
    return np.multiply(np.ravel(a)[:, None], np.ravel(b)[None, :], out=out)


def vdot(a: Any, b: Any, /) -> Tracer:
    """np.vdot of the flattened operands, the first one conjugated."""
    x, y = (np.ravel(h) for h in reductions.arrays([a, b]))
    return contract(_conjugate(x), y, ((0,), (0,)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tracer:
    """np.tensordot."""
    x, y = reductions.arrays([a, b])
    if isinstance(axes, (int, np.integer)):
        left, right = range(x.aval.ndim - axes, x.aval.ndim), range(axes)
    else:
        left, right = ((side,) if isinstance(side, (int, np.integer)) else side for side in axes)
    pairs = (
        tuple(shapes.canonical_axis(i, x.aval.ndim) for i in left),
        tuple(shapes.canonical_axis(i, y.aval.ndim) for i in right),
    )
    if len(pairs[0]) != len(pairs[1]) or not all(shapes.fit((x.aval.shape[i],), (y.aval.shape[j],)) for i, j in zip(*pairs, strict=False)):
        raise ValueError("shape-mismatch for sum")
    return current_trace().tracer(contract(x, y, pairs).atom)  # NumPy gives an array even where no axis is left


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """np.trace: sums along the diagonals in the plane of two axes."""
    return np.sum(np.diagonal(promote.handles([a])[0], offset, axis1, axis2), -1, dtype, out)


def kron(a: Any, b: Any) -> Any:
    """np.kron: every element of a times the whole of b."""
    x, y = reductions.arrays([a, b])
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return np.multiply(x, y)
    rank = max(x.aval.ndim, y.aval.ndim)
    left, right = ((1,) * (rank - h.aval.ndim) + h.aval.shape for h in (x, y))
    outside = np.reshape(x, tuple(d for n in left for d in (n, 1)))
    inside = np.reshape(y, tuple(d for n in right for d in (1, n)))
    return np.reshape(np.multiply(outside, inside), tuple(n * m for n, m in zip(left, right, strict=True)))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """np.cross of vectors of three components; one of two has 0 as its third."""
    axisa, axisb, axisc = (operator.index(i if axis is None else axis) for i in (axisa, axisb, axisc))
    x, y = (np.moveaxis(h, i, -1) for h, i in zip(reductions.arrays([a, b]), (axisa, axisb), strict=True))
    lengths = (x.shape[-1], y.shape[-1])
    if any(n not in (2, 3) for n in lengths):
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {lengths[0]} and {lengths[1]} dimensional instead."
        )
    (p, q, r), (u, v, w) = ([h[..., i] if i < h.shape[-1] else None for i in range(3)] for h in (x, y))

    def minor(s: Any, t: Any, k: Any, m: Any) -> Any:
        """s * t - k * m, where None is zero."""
        first = None if s is None or t is None else np.multiply(s, t)
        second = None if k is None or m is None else np.multiply(k, m)
        return first if second is None else np.negative(second) if first is None else np.subtract(first, second)

    last = minor(p, v, q, u)
    if lengths == (2, 2):
        return current_trace().tracer(last.atom)  # in C order
    return np.moveaxis(np.stack([minor(q, w, r, v), minor(r, u, p, w), last], axis=-1), -1, axisc)
