"""Reductions over axes, with NumPy's result dtypes and empty-reduction errors."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, Kind, is_inexact
from functx.ir import Atom
from functx.numpy import promote
from functx.numpy.ufuncs import store
from functx.trace import Tracer, current_trace


def _axes(axis: Any, h: Tracer) -> tuple[int, ...]:
    """The axes to reduce. A number has none, but NumPy lets it be reduced over axis 0 or -1."""
    return () if h.aval.ndim == 0 and axis in (0, -1) else shapes.canonical_axes(axis, h.aval.ndim)


def _reduce(
    a: Any,
    emit: Callable[[Any, Atom, tuple[int, ...]], Atom],
    *,
    axis: Any,
    keepdims: bool,
    dtype: np.dtype | None = None,
    out: Any = None,
    identity: bool = True,
    name: str = "",
    k_order: bool = True,
) -> Any:
    """Reduce ``a`` after conversion to ``dtype``; a 0-d result is a NumPy scalar, another one keeps the order of the axes in memory."""
    (h,) = promote.handles([a])
    axes = _axes(axis, h)
    if not identity and builtins.any(h.aval.shape[i] == 0 for i in axes):
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    b = current_trace().emit
    atom = emit(b, promote.convert(b, h, dtype or h.aval.dtype), axes)
    if keepdims:
        kept = tuple(1 if i in axes else d for i, d in enumerate(h.aval.shape))
        atom = b.reshape(atom, shape=kept)
    if out is not None:
        return store(np.add, [atom.aval.dtype] * 2, atom.aval.dtype, atom, out, "unsafe")  # as NumPy's reductions cast
    kept = [i for i in range(h.aval.ndim) if i not in axes] if k_order and not keepdims else []
    layout = promote.k_order_of([h], lambda: [[h.shadow.strides[i] for i in kept]], atom.aval.shape, atom.aval.dtype) if kept else None
    return current_trace().tracer(atom, Kind.ARRAY if atom.aval.shape else Kind.SCALAR, layout)


def _sum_axes(b: Any, x: Atom, axes: tuple[int, ...]) -> Atom:
    return b.reduce_sum(x, axes=axes) if axes else x


def _accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums: at least the platform's integer."""
    return np.add.reduce(np.zeros(1, dtype)).dtype


def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """np.sum."""
    (h,) = promote.handles([a])
    return _reduce(h, _sum_axes, axis=axis, keepdims=keepdims, dtype=np.dtype(dtype) if dtype else _accumulator(h.aval.dtype), out=out)


def _count(h: Tracer, axes: tuple[int, ...], ddof: int = 0) -> Any:
    """How many numbers are averaged, less ``ddof``: a float, or a traced Python int where a size is symbolic."""
    n = shapes.size(h.aval.shape[i] for i in axes)
    if isinstance(n, int):
        return float(builtins.max(n - ddof, 0))
    (count,) = promote.handles([n])
    return current_trace().tracer(np.maximum(count - ddof, 0).atom, Kind.PYTHON) if ddof else count


def _average(total: Any, count: Any, dtype: np.dtype, out: Any) -> Any:
    """A sum divided by a count, in the sum's dtype; in place where there is an ``out``."""
    quotient = np.divide(total, count, out=out, casting="unsafe")
    return quotient if out is not None or quotient.dtype == dtype else quotient.astype(dtype)


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """np.mean. The mean of integers is float64; that of float16 is computed in float32 and rounded once."""
    (h,) = promote.handles([a])
    own = h.aval.dtype if is_inexact(h.aval.dtype) else np.dtype(float)
    count = _count(h, shapes.canonical_axes(axis, h.aval.ndim))
    if own == np.float16 and dtype is None:
        return _average(sum(h, axis, np.float32, out, keepdims), count, own, out)
    dtype = np.dtype(dtype) if dtype else own
    return _average(sum(h, axis, dtype, out, keepdims), count, dtype, out)


def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """np.var: mean of the squared deviations, with ``ddof`` fewer degrees of freedom."""
    (h,) = promote.handles([a])
    axes = shapes.canonical_axes(axis, h.aval.ndim)
    dtype = np.dtype(dtype) if dtype else h.aval.dtype if is_inexact(h.aval.dtype) else np.dtype(float)
    squares = np.square(np.subtract(h, mean(h, axes, dtype, keepdims=True)))
    return _average(sum(squares, axes, dtype, out, keepdims), _count(h, axes, ddof), dtype, out)


def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """np.std."""
    return np.sqrt(var(a, axis, dtype, out, ddof, keepdims), out=out)


def _extremum(primitive: str, name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        def emit(b: Any, x: Atom, axes: tuple[int, ...]) -> Atom:
            return getattr(b, primitive)(x, axes=axes) if axes else x

        return _reduce(a, emit, axis=axis, keepdims=keepdims, out=out, identity=False, name=name)

    reduce.__doc__ = f"np.{name}, with NaN winning as in NumPy."
    return reduce


max = _extremum("reduce_max", "maximum")
min = _extremum("reduce_min", "minimum")


def _logical(primitive: str) -> Callable[..., Any]:
    """all and any are the minimum and maximum over bools; that of nothing is their identity."""
    empty = primitive == "reduce_min"

    def reduce(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        def emit(b: Any, x: Atom, axes: tuple[int, ...]) -> Atom:
            truth = x if x.aval.dtype == BOOL else b.ne(x, b.zeros_like(x))
            if [i for i in axes if x.aval.shape[i] == 0]:
                return b.full(shapes.delete(x.aval.shape, axes), empty, BOOL)
            return getattr(b, primitive)(truth, axes=axes) if axes else truth

        return _reduce(a, emit, axis=axis, keepdims=keepdims, out=out)

    return reduce


all = _logical("reduce_min")
any = _logical("reduce_max")


def _arg_extremum(primitive: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        (h,) = promote.handles([a])
        shape = h.aval.shape
        axis = None if axis is None else operator.index(axis)
        if [i for i in _axes(axis, h) if shape[i] == 0]:
            raise ValueError(f"attempt to get {primitive} of an empty sequence")
        if out is not None:
            getattr(np, primitive)(np.zeros(1), out=np.empty((), out.dtype))  # raises NumPy's own error where it cannot hold positions

        def emit(b: Any, x: Atom, axes: tuple[int, ...]) -> Atom:
            if axis is None or not shape:
                return getattr(b, primitive)(b.reshape(x, shape=(shapes.size(shape),)), axis=0)
            return getattr(b, primitive)(x, axis=axes[0])

        return _reduce(h, emit, axis=axis, keepdims=keepdims, out=out, k_order=False)

    return reduce


argmax = _arg_extremum("argmax")
argmin = _arg_extremum("argmin")


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """np.ptp: maximum minus minimum."""
    return np.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims), out=out)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    """np.count_nonzero."""
    return sum(np.not_equal(a, 0), axis=axis, keepdims=keepdims)
