"""Operations that NumPy has no name for, or no such form of, under the names of jax.lax. On arrays they are evaluated at once, on tracers
recorded. Dtypes stay as they are (a running sum of int32 wraps in int32), where a function does not say otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import mutation, shapes, trees
from functx.collectives import axis_index, axis_size, pmax, pmean, pmin, psum  # noqa: F401 - jax.lax has them too
from functx.dtypes import INT64, Kind
from functx.ir import AbstractArray
from functx.numpy import promote
from functx.ops import cumulative, elementwise, indexing, sorting, special, transcendental
from functx.primitive import Primitive
from functx.trace import Tracer, current_trace


def _dtype(x: Any) -> np.dtype:
    return x.aval.dtype if isinstance(x, Tracer) else np.asarray(x).dtype


def _float_dtype(x: Any) -> np.dtype:
    """The dtype in which NumPy computes exp."""
    return np.exp.resolve_dtypes((_dtype(x), None))[-1]


def _apply(primitive: Primitive, operands: Sequence[Any], types: Sequence[np.dtype | None] = (), **params: Any) -> Any:
    """A primitive of arrays, scalars or tracers, converted to ``types`` where there are any (None: as they are)."""
    types = types or (None,) * len(operands)
    if any(isinstance(x, Tracer) for x in operands):
        trace = promote.active_trace(operands)
        handles = promote.handles_in(trace, operands)
        b = trace.emit
        atoms = [promote.convert(b, h, t or h.aval.dtype) for h, t in zip(handles, types, strict=True)]
        outs = tuple(trace.tracer(out) for out in b.bind(primitive, atoms, params))
    else:
        arrays = [np.asarray(x, t) for x, t in zip(operands, types, strict=True)]
        primitive.out_avals([AbstractArray(x.shape, x.dtype) for x in arrays], params)  # raises where they do not fit
        outs = tuple(np.array(out, order="C") for out in primitive.evaluate(arrays, params))
    return outs if primitive.multiple else outs[0]


def _elementwise(primitive: Primitive, x: Any, **params: Any) -> Any:
    """A function of floats; a NumPy scalar where x has no axes."""
    dtype = _float_dtype(x)
    if not isinstance(x, Tracer):
        primitive.out_avals([AbstractArray((), dtype)], params)
        with np.errstate(all="ignore"):
            return primitive.impl(np.asarray(x, dtype), **params)[()]
    (h,) = promote.handles([x])
    (atom,) = current_trace().emit.bind(primitive, [promote.convert(current_trace().builder, h, dtype)], params)
    return current_trace().tracer(atom, promote.result_kind(h.aval.shape), promote.k_order([h], h.aval.shape, dtype))


def stop_gradient(x: Any) -> Any:
    """``x`` itself (any container of arrays, in the same memory), through which no derivative flows.

    >>> import functx as fx
    >>> fx.grad(lambda x: x * fx.stop_gradient(x))(3.0)
    3.0
    """

    def stop(leaf: Any) -> Any:
        if not isinstance(leaf, Tracer):
            return leaf
        trace = current_trace()
        h = trace.lift(leaf)
        if h.kind is Kind.ARRAY:
            return mutation.make_view(h, elementwise.stop_gradient, {}, lambda: h.shadow)
        return trace.tracer(trace.emit.stop_gradient(h.atom), h.kind)

    return trees.map(stop, x)


# --- elementwise functions ----------------------------------------------------------------------------------------------------------------


def clamp(min: Any, x: Any, max: Any) -> Any:
    """``minimum(maximum(x, min), max)``, with derivative 0 at a bound that is a Python number.

    >>> clamp(0.0, np.array([-1.0, 0.5, 3.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    return np.minimum(np.maximum(x, min), max)


def logistic(x: Any) -> Any:
    """``1 / (1 + exp(-x))``.

    >>> logistic(np.array([0.0]))
    array([0.5])
    """
    return _elementwise(transcendental.logistic, x)


def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``.

    >>> rsqrt(np.array([4.0]))
    array([0.5])
    """
    return _elementwise(special.rsqrt, x)


def erf(x: Any) -> Any:
    """The error function; needs SciPy (``pip install functx[scipy]``), as the functions below.

    >>> erf(np.array([0.5])).round(4)
    array([0.5205])
    """
    return _elementwise(special.erf, x)


def erfc(x: Any) -> Any:
    """``1 - erf(x)``, without cancellation.

    >>> erfc(np.array([0.5])).round(4)
    array([0.4795])
    """
    return _elementwise(special.erfc, x)


def erf_inv(x: Any) -> Any:
    """The inverse of erf, for numbers between -1 and 1.

    >>> erf_inv(np.array([0.5])).round(4)
    array([0.4769])
    """
    return _elementwise(special.erf_inv, x)


def lgamma(x: Any) -> Any:
    """``log(abs(gamma(x)))``.

    >>> lgamma(np.array([5.0])).round(4)
    array([3.1781])
    """
    return _elementwise(special.lgamma, x)


def digamma(x: Any) -> Any:
    """The derivative of lgamma.

    >>> digamma(np.array([1.0])).round(4)
    array([-0.5772])
    """
    return _elementwise(special.polygamma, x, n=0)


def polygamma(n: int, x: Any) -> Any:
    """The derivative of lgamma of order ``n + 1``, for a Python int ``n >= 0``.

    >>> polygamma(1, np.array([1.0])).round(4)
    array([1.6449])
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"polygamma: n must not be negative, but is {n}")
    return _elementwise(special.polygamma, x, n=n)


# --- along one axis -----------------------------------------------------------------------------------------------------------------------


def rev(x: Any, dimensions: int | Sequence[int]) -> Any:
    """The elements in reversed order along some axes: a view, as np.flip gives it.

    >>> rev(np.array([1, 2, 3]), 0)
    array([3, 2, 1])
    """
    return np.flip(x, dimensions if isinstance(dimensions, int) else tuple(dimensions))


def _running(primitive: Primitive, x: Any, axis: int, reverse: bool, dtype: np.dtype | None = None) -> Any:
    return _apply(primitive, [x], [dtype], axis=shapes.canonical_axis(operator.index(axis), np.ndim(x)), reverse=bool(reverse))


def cumsum(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running sums along an axis, from its end where ``reverse``.

    >>> cumsum(np.array([1, 2, 3]), reverse=True)
    array([6, 5, 3])
    """
    return _running(cumulative.cumsum, x, axis, reverse)


def cumprod(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running products along an axis; the derivative is exact where there are zeros.

    >>> import functx as fx
    >>> fx.grad(lambda x: cumprod(x).sum())(np.array([1.0, 0.0, 2.0]))
    array([1., 3., 0.])
    """
    return _running(cumulative.cumprod, x, axis, reverse)


def cummax(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running maxima along an axis; NaN stays, as in ``np.maximum.accumulate``. Equal maxima so far share the derivative.

    >>> cummax(np.array([1, 3, 2]))
    array([1, 3, 3])
    """
    return _running(cumulative.cummax, x, axis, reverse)


def cummin(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running minima along an axis.

    >>> cummin(np.array([2, 1, 3]))
    array([2, 1, 1])
    """
    return _running(cumulative.cummin, x, axis, reverse)


def cumlogsumexp(x: Any, axis: int = 0, reverse: bool = False) -> Any:
    """``log(cumsum(exp(x)))`` of floats along an axis, without overflow.

    >>> cumlogsumexp(np.array([1000.0, 1000.0])).round(4)
    array([1000.    , 1000.6931])
    """
    return _running(cumulative.cumlogsumexp, x, axis, reverse, _float_dtype(x))


def sort(operand: Any, dimension: int = -1, num_keys: int = 1) -> Any:
    """An array sorted along an axis, or a tuple of arrays of one shape in the order of the first ``num_keys`` of them.

    The sort is stable, the first key decides before the second one, and NaN comes last.

    >>> sort((np.array([2, 1, 1]), np.array([7, 9, 8])), num_keys=2)
    (array([1, 1, 2]), array([8, 9, 7]))
    """
    many = isinstance(operand, (tuple, list))
    operands = tuple(operand) if many else (operand,)
    axis = shapes.canonical_axis(operator.index(dimension), np.ndim(operands[0]))
    outs = _apply(sorting.sort, operands, axis=axis, num_keys=num_keys)
    return outs if many else outs[0]


def top_k(x: Any, k: int) -> tuple[Any, Any]:
    """The ``k`` greatest elements along the last axis in descending order, and their positions (int64). NaN is the greatest of all.

    >>> top_k(np.array([1.0, 3.0, 2.0]), 2)
    (array([3., 2.]), array([1, 2]))
    """
    return _apply(sorting.top_k, [x], k=operator.index(k))


# --- slices whose place is data -----------------------------------------------------------------------------------------------------------


def _from_front(start: Any, d: Any) -> Any:
    """A start that is not negative: it may count from the end."""
    if _dtype(start).kind not in "iu" or np.ndim(start):
        raise TypeError(f"a slice begins at an integer, not at {start!r}")
    return np.where(start < 0, start + d, start) if isinstance(start, Tracer) else start + d if start < 0 else start


def _starts(x: Any, starts: Sequence[Any]) -> list[Any]:
    dims = np.shape(x)
    shapes.check(len(starts) == len(dims), f"{len(starts)} starts for an array of shape {shapes.show(dims)}: one per axis is needed")
    return [_from_front(start, d) for start, d in zip(starts, dims, strict=True)]


def dynamic_slice(x: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """The elements of a box that begins at ``start_indices``, integers that may be traced; it is moved to where it fits into ``x``.

    >>> dynamic_slice(np.arange(5), (3,), (3,))
    array([2, 3, 4])
    """
    starts = _starts(x, start_indices)
    return _apply(indexing.dynamic_slice, [x, *starts], [None, *(INT64 for _ in starts)], sizes=tuple(slice_sizes))


def dynamic_update_slice(x: Any, update: Any, start_indices: Sequence[Any]) -> Any:
    """``x`` with a box of it replaced by ``update``, converted to its dtype. The box begins where dynamic_slice would begin it.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
    array([0., 1., 1., 0.])
    """
    starts = _starts(x, start_indices)
    return _apply(indexing.dynamic_update_slice, [x, update, *starts], [None, _dtype(x), *(INT64 for _ in starts)])


def _along(x: Any, start: Any, axis: int) -> tuple[list[Any], int]:
    """Starts that are zero in all axes but one, and that axis."""
    axis = shapes.canonical_axis(operator.index(axis), np.ndim(x))
    return [start if i == axis else 0 for i in range(np.ndim(x))], axis


def dynamic_slice_in_dim(x: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """``slice_size`` elements along one axis, and everything along the others.

    >>> dynamic_slice_in_dim(np.arange(5), 1, 2)
    array([1, 2])
    """
    starts, axis = _along(x, start_index, axis)
    return dynamic_slice(x, starts, [slice_size if i == axis else d for i, d in enumerate(np.shape(x))])


def dynamic_index_in_dim(x: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """One element along an axis, which stays with size 1 where ``keepdims``.

    >>> dynamic_index_in_dim(np.arange(5), 7)
    array([4])
    """
    taken = dynamic_slice_in_dim(x, index, 1, axis)
    return taken if keepdims else np.squeeze(taken, axis)


def dynamic_update_slice_in_dim(x: Any, update: Any, start_index: Any, axis: int = 0) -> Any:
    """``x`` with ``update`` put into it from ``start_index`` along one axis, and from 0 along the others.

    >>> dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 2)
    array([0., 0., 1., 1.])
    """
    return dynamic_update_slice(x, update, _along(x, start_index, axis)[0])


def dynamic_update_index_in_dim(x: Any, update: Any, index: Any, axis: int = 0) -> Any:
    """``x`` with one place along an axis replaced by ``update``, which may lack that axis.

    >>> dynamic_update_index_in_dim(np.zeros(3), 1.0, 1)
    array([0., 1., 0.])
    """
    starts, axis = _along(x, index, axis)
    return dynamic_update_slice(x, np.expand_dims(update, axis) if np.ndim(update) < np.ndim(x) else update, starts)
