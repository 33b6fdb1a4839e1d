"""Shapes and broadcasting. Every shape rule of every primitive goes through here.

A dimension is an ``int`` or a :class:`functx.dims.Dim`. Comparing Dims decides (see there), so a rule that only asks whether two sizes are
the same expression, and is right either way, calls :func:`same`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from functx.dims import Dim, decide
from functx.dims import at_least as at_least
from functx.dims import greater as greater
from functx.dims import smaller as smaller
from functx.errors import ShapeError
from functx.util import zip_strict

Size = int | Dim
Shape = tuple[Size, ...]


def is_static(shape: Iterable[Size]) -> bool:
    """Whether all dimensions are plain integers."""
    return all(isinstance(d, int) for d in shape)


def resolved(shape: Shape) -> Shape:
    """The shape with the numbers and expressions that its symbols have turned out to be."""
    return shape if is_static(shape) else tuple(d + 0 for d in shape)


def size(shape: Iterable[Size]) -> Size:
    """The number of elements."""
    total: Size = 1
    for d in shape:
        total = total * d
    return total


def size_hint(shape: Iterable[Size]) -> int:
    """The number of elements, with hints for symbolic dimensions (for cost estimates only)."""
    return size(hints(shape))


def hints(shape: Iterable[Size]) -> tuple[int, ...]:
    """The shape, or any sizes, with hints for symbolic dimensions: their values in the call that is traced, if there is one."""
    return tuple(d.hint if isinstance(d, Dim) else d for d in shape)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are one expression: nothing is decided, so a False says nothing."""
    return a.expr == b.expr if isinstance(a, Dim) and isinstance(b, Dim) else type(a) is type(b) and a == b


def same_shape(a: Shape, b: Shape) -> bool:
    """Likewise for shapes."""
    return len(a) == len(b) and all(map(same, a, b))


def same_params(a: Any, b: Any) -> bool:
    """Likewise for parameters of equations, or for one of them."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_params(a[name], b[name]) for name in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_params, a, b))
    return same(a, b) if isinstance(a, Dim) or isinstance(b, Dim) else type(a) is type(b) and a == b


def fit(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal. Where that depends on data, yes: the compiled function checks it (but no such size is taken for 0
    or 1). Once a function is traced, what its sizes at that time agree with is taken as known: its decisions are conditions of its graph.
    """
    return len(a) == len(b) and all(map(_fits, a, b))


def stretches(a: Size, b: Size) -> bool:
    """Whether an axis of size ``a`` broadcasts to one of size ``b``."""
    return same(a, 1) or _fits(a, b) or _fits(a, 1) or (same(b, 1) and _agree(a, b))


def _agree(a: Size, b: Size) -> bool:
    """Whether it depends on data if two sizes are equal: the compiled function then checks that they are."""
    difference = a - b
    found = isinstance(difference, Dim) and difference.is_found
    if found:
        Dim.agree(a, b)
    return found


def _fits(a: Size, b: Size) -> bool:
    difference = a - b
    if not isinstance(difference, Dim):
        return difference == 0
    answer = decide("==", difference)
    if answer is None and difference.is_found and at_least(difference, 0) and at_least(0, difference):
        return True
    if answer is None and not any(same(d, n) for d in (a, b) for n in (0, 1)) and _agree(a, b):
        return True
    if answer is None and difference.sizes is not None and not difference.sizes.is_open and difference.sizes.present:
        return difference.hint == 0
    return bool(answer)


def count(start: Size, stop: Size, step: int) -> Size:
    """How many numbers ``start, start + step, ...`` come before ``stop``.

    >>> count(0, Dim("n"), 2)
    Dim('floor(n/2 + 1/2)')
    """
    distance = stop - start if step > 0 else start - stop
    return (greater(distance, 0) + (abs(step) - 1)) // abs(step)


def slice_region(d: Size, start: Size | None, stop: Size | None, step: int | None) -> tuple[Size, Size, int]:
    """Start, number and step of the elements that ``start:stop:step`` selects from an axis of size ``d``: (0, 0, 1) if it selects none.

    >>> slice_region(Dim("n"), None, None, -1)
    (Dim('n - 1'), Dim('n'), -1)
    """
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, d) if step > 0 else (-1, d - 1)

    def bound(b: Size) -> Size:
        b = b + d if b < 0 else b
        return greater(smaller(b, high), low)

    first = (low if step > 0 else high) if start is None else bound(start)
    n = count(first, (high if step > 0 else low) if stop is None else bound(stop), step)
    return (first, n, step) if isinstance(n, Dim) or n else (0, 0, 1)


def check_equal(a: Shape, b: Shape, what: str) -> None:
    """Raise ShapeError unless the two shapes are equal."""
    if not fit(a, b):
        raise ShapeError(f"{what}: shapes {show(a)} and {show(b)} differ")


def check(condition: bool, message: str) -> None:
    """Raise ShapeError(message) unless the condition holds."""
    if not condition:
        raise ShapeError(message)


def show(shape: Iterable[Size]) -> str:
    """A shape as text: ``(3, n)``."""
    dims = [str(d) for d in shape]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def broadcast(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting rules; ShapeError with NumPy's words if there is none."""
    first = shapes[0]
    if all(same_shape(shape, first) for shape in shapes):
        return first
    rank = max(len(s) for s in shapes)
    out: list[Size] = []
    for dims in zip_strict(*(((1,) * (rank - len(s)) + tuple(s)) for s in shapes)):
        common: Size | None = 1
        for d in dims:
            common = _wider(common, d)
            if common is None:
                raise ShapeError(f"operands could not be broadcast together with shapes {' '.join(show(s) for s in shapes)}")
        out.append(common)
    return tuple(out)


def _wider(a: Size, b: Size) -> Size | None:
    """What two axes broadcast to; None if they do not fit. Beside a plain 1 every size is itself, whether it be 1 too or not."""
    if same(a, b) or same(b, 1):
        return a
    if same(a, 1):
        return b
    if isinstance(a, int) and isinstance(b, int):
        return None
    if _fits(a, b):
        return a if isinstance(a, int) else b
    return b if _fits(a, 1) else a if _fits(b, 1) else None


def canonical_axis(axis: int, rank: int, what: str = "axis") -> int:
    """A non-negative axis, as a plain int; AxisError as NumPy for one out of range."""
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        from numpy.exceptions import AxisError

        raise AxisError(axis, rank, None if what == "axis" else what)
    return axis + rank if axis < 0 else axis


def as_sequence(value: Any) -> tuple[Any, ...]:
    """What NumPy takes for one number or several of them (sizes, axes, counts), as a tuple: an integer array counts as its elements."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
        return tuple(value.tolist())
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def canonical_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None means all. Repeated axes raise ValueError as in NumPy."""
    if axes is None:
        return tuple(range(rank))
    out = sorted(canonical_axis(a, rank) for a in (axes if isinstance(axes, (tuple, list)) else (axes,)))
    if len(set(out)) != len(out):
        raise ValueError("duplicate value in 'axis'")
    return tuple(out)


def delete(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape without the given axes."""
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def insert(shape: Shape, axis: int, d: Size) -> Shape:
    """The shape with a dimension put before ``axis``."""
    return (*shape[:axis], d, *shape[axis:])


def permute(shape: Shape, perm: Sequence[int]) -> Shape:
    """The shape with its dimensions in the order ``perm``."""
    check(sorted(perm) == list(range(len(shape))), f"{tuple(perm)} is no permutation of the axes of {show(shape)}")
    return tuple(shape[p] for p in perm)


def concatenate(shapes: Sequence[Shape], axis: int) -> Shape:
    """The shape of arrays joined along ``axis``."""
    first = shapes[0]
    for shape in shapes[1:]:
        check_equal(delete(shape, (axis,)), delete(first, (axis,)), f"concatenate along axis {axis}")
    total: Size = 0
    for shape in shapes:
        total = total + shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def pad(shape: Shape, low: Sequence[int], high: Sequence[int]) -> Shape:
    """The shape after padding by ``low`` and ``high`` elements on each axis."""
    return tuple(lo + d + hi for lo, d, hi in zip_strict(low, shape, high))


def reshape(old: Shape, new: Shape) -> Shape:
    """``new`` itself, after a check that the number of elements stays the same."""
    check(fit((size(old),), (size(new),)), f"cannot reshape array of size {size(old)} into shape {show(new)}")
    return tuple(new)


def check_region(shape: Shape, starts: Sequence[int], sizes: Shape, steps: Sequence[int]) -> None:
    """Raise ShapeError unless elements ``start + k*step`` (k < size) lie inside on every axis; symbolic axes are trusted."""
    for d, start, n, step in zip_strict(shape, starts, sizes, steps):
        check(step != 0, "slice step cannot be zero")
        if isinstance(d, int) and isinstance(start, int) and isinstance(n, int) and n > 0:
            last = start + (n - 1) * step
            check(0 <= start < d and 0 <= last < d, f"region {start}:{n}x{step} lies outside an axis of size {d}")
