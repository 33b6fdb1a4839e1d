"""Shapes and symbolic dimensions. Every shape rule of every primitive goes through here.

A dimension is an ``int`` or a :class:`Dim`, an integer expression over named sizes. sympy does the algebra and is imported when the first
Dim is made, never on the way of programs with static shapes.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functx.errors import FunctxError, UnsupportedError
from functx.source import user_source
from functx.util import zip_strict

if TYPE_CHECKING:
    import sympy


class ShapeError(FunctxError, ValueError):
    """Shapes that do not fit together."""


class Dim:
    """A symbolic dimension: a named size, or an expression over such. Comparisons answer where the answer is the same for all sizes.

    Args:
      name: the symbol's name. The same name always means the same size.
      hint: a typical size, for cost estimates.

    >>> n = Dim("n")
    >>> (n + 1) * 2 - n
    Dim('n + 2')
    >>> n + 1 - n
    1
    >>> n + 2 > 1
    True
    """

    __slots__ = ("expr", "hint")

    def __init__(self, name: str, *, hint: int = 256):
        import sympy

        self.expr = sympy.Symbol(name, integer=True, nonnegative=True)
        self.hint = hint

    @staticmethod
    def _make(expr: sympy.Expr, hint: int) -> Size:
        import sympy

        expr = sympy.expand(expr)
        if expr.is_Integer:
            return int(expr)
        dim = object.__new__(Dim)
        dim.expr, dim.hint = expr, hint
        return dim

    def _apply(self, other: object, f: Any) -> Any:
        if isinstance(other, (float, complex)):
            raise self.number_needed()
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        expr, hint = (other.expr, other.hint) if isinstance(other, Dim) else (other, other)
        return Dim._make(f(self.expr, expr), int(f(self.hint, hint)))

    def parts(self) -> tuple[int, Size]:
        """The constant of a sum, and the rest."""
        constant, rest = self.expr.as_coeff_Add()
        return (int(constant), Dim._make(rest, self.hint - int(constant))) if constant.is_Integer else (0, self)

    def __add__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a + b)

    def __sub__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a - b)

    def __rsub__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: b - a)

    def __mul__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a * b)

    def __floordiv__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: b // a)

    def __mod__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a % b)

    def __neg__(self) -> Size:
        return self * -1

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return self.expr == other.expr if isinstance(other, Dim) else NotImplemented  # no integer equals it for all sizes

    def __ge__(self, other: Size) -> bool:
        return self._compare(other, ">=", lambda: at_least(self, other))

    def __gt__(self, other: Size) -> bool:
        return self._compare(other, ">", lambda: at_least(self, other + 1))

    def __le__(self, other: Size) -> bool:
        return self._compare(other, "<=", lambda: at_least(other, self))

    def __lt__(self, other: Size) -> bool:
        return self._compare(other, "<", lambda: at_least(other, self + 1))

    def _compare(self, other: object, symbol: str, decide: Any) -> Any:
        if isinstance(other, (float, complex)):
            raise self.number_needed()
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        answer = decide()
        if answer is None:
            raise self.number_needed(f"whether {self} {symbol} {other} depends on the size")
        return answer

    def __bool__(self) -> bool:
        return self > 0

    def __index__(self) -> int:
        raise self.number_needed()

    __float__ = __int__ = __complex__ = __index__

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, (int, float, complex, Dim)):
            raise self.number_needed()
        return NotImplemented

    __rtruediv__ = __pow__ = __rpow__ = __rmod__ = __truediv__

    def number_needed(self, why: str = "") -> UnsupportedError:
        """The error for code that asks what number the dimension is."""
        source = user_source()
        return UnsupportedError(
            f"a number is needed here, but the size {self} is symbolic",
            where=source and source.describe(),
            why=why or f"{self} stands for every size",
            fix="trace with a plain int for that axis, or with a size for which it holds (n + 1 for one that is not 0); to compute with a "
            "size, combine it with an array (x / x.shape[0])",
        )

    def __hash__(self) -> int:
        return hash(self.expr)

    def __str__(self) -> str:
        return str(self.expr)

    def __repr__(self) -> str:
        return f"Dim({str(self.expr)!r})"

    @classmethod
    def parse(cls, text: str, hint: int = 256) -> Size:
        """The dimension that prints as ``text``: names, integers, ``+ - * **``, ``floor(a/b)`` and ``Mod(a, b)``."""
        import sympy

        def build(node: ast.AST) -> Any:
            match node:
                case ast.Name(id=name):
                    return sympy.Symbol(name, integer=True, nonnegative=True)
                case ast.Constant(value=int() as value):
                    return sympy.Integer(value)
                case ast.UnaryOp(op=ast.USub(), operand=operand):
                    return -build(operand)
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                    return _OPERATORS[type(op)](build(left), build(right))
                case ast.Call(func=ast.Name(id="floor" | "Mod" as name), args=arguments):
                    return getattr(sympy, name)(*map(build, arguments))
            raise ShapeError(f"{text!r} is no dimension")

        try:
            return cls._make(build(ast.parse(text, mode="eval").body), hint)
        except SyntaxError:
            raise ShapeError(f"{text!r} is no dimension") from None


Size = int | Dim
Shape = tuple[Size, ...]

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow}


def is_static(shape: Iterable[Size]) -> bool:
    """Whether all dimensions are plain integers."""
    return all(isinstance(d, int) for d in shape)


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
    """The shape, or any sizes, with hints for symbolic dimensions."""
    return tuple(d.hint if isinstance(d, Dim) else d for d in shape)


def at_least(a: Size, b: Size) -> bool | None:
    """Whether ``a >= b`` for all sizes; None if that depends on the sizes."""
    difference = a - b
    return difference.expr.is_nonnegative if isinstance(difference, Dim) else difference >= 0


def count(start: Size, stop: Size, step: int) -> Size:
    """How many numbers ``start, start + step, ...`` come before ``stop``; UnsupportedError if no formula gives it for all sizes.

    >>> count(0, Dim("n"), 2)
    Dim('floor(n/2 + 1/2)')
    """
    distance = stop - start if step > 0 else start - stop
    return (distance + abs(step) - 1) // abs(step) if distance >= 0 else 0


def slice_region(d: Size, start: Size | None, stop: Size | None, step: int | None) -> tuple[Size, Size, int]:
    """Start, number and step of the elements that ``start:stop:step`` selects from an axis of size ``d``: (0, 0, 1) if it selects none.

    UnsupportedError if no formula gives them for all sizes.

    >>> slice_region(Dim("n"), None, None, -1)
    (Dim('n - 1'), Dim('n'), -1)
    """
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, d) if step > 0 else (-1, d - 1)

    def bound(b: Size) -> Size:
        b = b + d if b < 0 else b
        return low if b < low else high if b > high else b

    first = (low if step > 0 else high) if start is None else bound(start)
    n = count(first, (high if step > 0 else low) if stop is None else bound(stop), step)
    return (first, n, step) if isinstance(n, Dim) or n else (0, 0, 1)


def check_equal(a: Shape, b: Shape, what: str) -> None:
    """Raise ShapeError unless the two shapes are equal."""
    if a != b:
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
    if all(shape == first for shape in shapes):
        return first
    rank = max(len(s) for s in shapes)
    out: list[Size] = []
    for dims in zip_strict(*(((1,) * (rank - len(s)) + tuple(s)) for s in shapes)):
        wide = {d for d in dims if d != 1}
        if len(wide) > 1:
            raise ShapeError(f"operands could not be broadcast together with shapes {' '.join(show(s) for s in shapes)}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


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
    check(size(old) == size(new), f"cannot reshape array of size {size(old)} into shape {show(new)}")
    return tuple(new)


def check_region(shape: Shape, starts: Sequence[int], sizes: Shape, steps: Sequence[int]) -> None:
    """Raise ShapeError unless elements ``start + k*step`` (k < size) lie inside on every axis; symbolic axes are trusted."""
    for d, start, n, step in zip_strict(shape, starts, sizes, steps):
        check(step != 0, "slice step cannot be zero")
        if isinstance(d, int) and isinstance(start, int) and isinstance(n, int) and n > 0:
            last = start + (n - 1) * step
            check(0 <= start < d and 0 <= last < d, f"region {start}:{n}x{step} lies outside an axis of size {d}")
