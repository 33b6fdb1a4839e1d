"""Products of vectors and matrices, all by dot_general."""

from __future__ import annotations

from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import Kind
from functx.ir import Atom
from functx.numpy import promote
from functx.numpy.ufuncs import store
from functx.trace import Tracer, current_trace, where


def _operands(x: Any, y: Any) -> tuple[Tracer, Tracer, np.dtype]:
    a, c = promote.handles([x, y])
    return a, c, np.result_type(promote.representative(a), promote.representative(c))


def _wrap(atom: Atom) -> Tracer:
    return current_trace().tracer(atom, Kind.ARRAY if atom.aval.shape else Kind.SCALAR)


def contract(x: Any, y: Any, axes: tuple[tuple[int, ...], tuple[int, ...]], batch: Any = ((), ())) -> Tracer:
    """Sum of products over pairs of axes, after promotion."""
    a, c, dtype = _operands(x, y)
    b = current_trace().emit
    return _wrap(b.dot_general(promote.convert(b, a, dtype), promote.convert(b, c, dtype), contract=axes, batch=batch))


def matmul(x1: Any, x2: Any, /, out: Any = None) -> Any:
    """np.matmul: vectors are rows or columns, leading axes broadcast."""
    a, c, dtype = _operands(x1, x2)
    if a.aval.ndim == 0 or c.aval.ndim == 0:
        raise ValueError(
            "matmul: Input operand does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)"
        )
    inner = c.aval.shape[0 if c.aval.ndim == 1 else -2]
    if a.aval.shape[-1] != inner:
        raise shapes.ShapeError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) (size {inner} "
            f"is different from {a.aval.shape[-1]})",
            where=where(),
            why=f"{promote.describe(a)}; {promote.describe(c)}",
        )
    atom = _matmul(a, c, dtype)
    if out is not None:
        return store(np.add, [dtype, dtype], dtype, atom, out, "same_kind")
    return _wrap(atom)


def _matmul(a: Tracer, c: Tracer, dtype: np.dtype) -> Atom:
    """An operand without leading axes of its own is shared, never broadcast."""
    b = current_trace().emit
    x, y = promote.convert(b, a, dtype), promote.convert(b, c, dtype)
    rank_x, rank_y = a.aval.ndim, c.aval.ndim
    contracted = ((rank_x - 1,), (max(rank_y - 2, 0),))
    if rank_x <= 2 and rank_y <= 2 or rank_y <= 2 or a.aval.shape[:-2] == ():
        out = b.dot_general(x, y, contract=contracted, batch=((), ()))
        if rank_y > 2 and rank_x == 2:  # x rows came first, then the leading axes of y
            out = b.transpose(out, perm=(*range(1, rank_y - 1), 0, rank_y - 1))
        return out
    lead = shapes.broadcast(a.aval.shape[:-2], c.aval.shape[:-2])
    x = promote.broadcast(b, x, (*lead, *a.aval.shape[-2:]))
    y = promote.broadcast(b, y, (*lead, *c.aval.shape[-2:]))
    n = len(lead)
    return b.dot_general(x, y, contract=((n + 1,), (n,)), batch=(tuple(range(n)), tuple(range(n))))


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """np.dot: over the last axis of a and the second last of b."""
    x, y, dtype = _operands(a, b)
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return np.multiply(x, y, out=out)
    last = max(y.aval.ndim - 2, 0)
    if x.aval.shape[-1] != y.aval.shape[last]:
        raise ValueError(
            f"shapes {shapes.show(x.aval.shape)} and {shapes.show(y.aval.shape)} not aligned: {x.aval.shape[-1]} (dim {x.aval.ndim - 1}) "
            f"!= {y.aval.shape[last]} (dim {last})"
        )
    if out is not None and out.dtype != dtype:
        raise ValueError("output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)")
    product = contract(x, y, ((x.aval.ndim - 1,), (last,)))
    return product if out is None else store(np.add, [dtype, dtype], dtype, product.atom, out, "no")


def inner(a: Any, b: Any, /) -> Tracer:
    """np.inner: over the last axes."""
    x, y, _ = _operands(a, b)
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return np.multiply(x, y)
    return contract(x, y, ((x.aval.ndim - 1,), (y.aval.ndim - 1,)))


def outer(a: Any, b: Any, out: Any = None) -> Tracer:
    """np.outer of the flattened operands."""
    return np.multiply(np.ravel(a)[:, None], np.ravel(b)[None, :], out=out)


def vdot(a: Any, b: Any, /) -> Tracer:
    """np.vdot of real arrays."""
    x, y = np.ravel(a), np.ravel(b)
    return contract(x, y, ((0,), (0,)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tracer:
    """np.tensordot."""
    x, y, _ = _operands(a, b)
    if isinstance(axes, (int, np.integer)):
        left, right = range(x.aval.ndim - axes, x.aval.ndim), range(axes)
    else:
        left, right = ((side,) if isinstance(side, (int, np.integer)) else side for side in axes)
    pairs = (
        tuple(shapes.canonical_axis(i, x.aval.ndim) for i in left),
        tuple(shapes.canonical_axis(i, y.aval.ndim) for i in right),
    )
    if len(pairs[0]) != len(pairs[1]) or any(x.aval.shape[i] != y.aval.shape[j] for i, j in zip(*pairs, strict=False)):
        raise ValueError("shape-mismatch for sum")
    return contract(x, y, pairs)


def trace(a: Any, offset: int = 0) -> Tracer:
    """np.trace of a matrix."""
    (h,) = promote.handles([a])
    rows, columns = h.aval.shape
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    i = promote.positions(n)
    return np.sum(h[i + max(-offset, 0), i + max(offset, 0)])
