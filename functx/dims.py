"""Symbolic dimensions: integer expressions over named sizes.

What a comparison of them answers is decided by :mod:`functx.sizes`. sympy does the algebra and is imported when the first Dim is made,
never on the way of programs with static shapes.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from functx.errors import ConcretizationError, FunctxError, ShapeError, UnsupportedError
from functx.size_algebra import inward
from functx.sizes import Sizes
from functx.source import user_source

if TYPE_CHECKING:
    import sympy

    Size = int | "Dim"

HINT = 256  # a typical size


class Dim:
    """A symbolic dimension: a named size, or an expression over such.

    Inside ``jit`` a comparison is decided by the size of the present call, and the compiled code is used again for all sizes for which it
    comes out the same. Elsewhere it answers where the answer is the same for all sizes.

    Args:
      name: the symbol's name. The same name always means the same size.
      min, max: the least and the greatest size it stands for.
      hint: a typical size, for cost estimates.

    >>> n = Dim("n", min=1)
    >>> (n + 1) * 2 - n
    Dim('n + 2')
    >>> n + 1 - n
    1
    >>> n > 0
    True
    """

    __slots__ = ("expr", "hint", "sizes")

    # What a size is in computations of floats, a traced Python int, a true quotient with one, and a promise that two sizes which depend
    # on data are equal. functx.numpy, rooms above, sets them.
    as_data: ClassVar[Callable[[Dim], Any]]
    quotient: ClassVar[Callable[[Any, Any], Any]]
    agree: ClassVar[Callable[[Size, Size], None]]

    def __init__(self, name: str, *, min: int = 0, max: int | None = None, hint: int | None = None):
        low, high = operator.index(min), None if max is None else operator.index(max)
        if not name.isidentifier():
            raise ValueError(f"Dim: {name!r} is no identifier")
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"Dim({name!r}): no size lies between min={min} and max={max}")
        self.expr = _symbol(name)
        self.sizes = Sizes({self.expr: (low, high)}) if low or high is not None else None
        typical = HINT if hint is None else hint
        self.hint = _clip(typical, low, high)

    @staticmethod
    def _make(expr: sympy.Expr, hint: int, sizes: Sizes | None) -> Size:
        import sympy

        expr = inward(sympy.expand(expr))
        if sizes is not None:
            expr = sizes.resolve(expr)
        if expr.is_Integer:
            return int(expr)
        dim = object.__new__(Dim)
        dim.expr, dim.hint, dim.sizes = expr, hint, sizes
        return dim

    def _apply(self, other: object, f: Any) -> Any:
        if isinstance(other, (float, complex)):
            return f(Dim.as_data(self), other)
        if isinstance(other, (int, np.integer)):
            return Dim._make(f(self.expr, int(other)), _hint(f, self.hint, int(other)), self.sizes)
        if not isinstance(other, Dim):
            return NotImplemented
        return Dim._make(f(self.expr, other.expr), _hint(f, self.hint, other.hint), Sizes.of_both(self.sizes, other.sizes))

    def within(self, sizes: Sizes, hint: int) -> Dim:
        """The same size, of which ``sizes`` knows something."""
        return Dim._make(self.expr, hint, sizes)

    def at(self, values: Mapping[sympy.Symbol, int]) -> Size:
        """The size where its symbols have these values; itself where some have none."""
        if not self.expr.free_symbols <= values.keys():
            return self
        value = values[self.expr] if self.expr.is_Symbol else self.expr.subs(values)
        if not (isinstance(value, (int, np.integer)) or value.is_Integer):
            raise ShapeError(f"the size {self} is no whole number: something is divided by a size of 0")
        return int(value)

    def where(self, values: Mapping[sympy.Symbol, Size]) -> Size:
        """The size with other sizes for its symbols."""
        import sympy

        sizes = next((v.sizes for v in values.values() if isinstance(v, Dim)), self.sizes)
        exprs, hints = ({s: sympy.sympify(getattr(v, part, v)) for s, v in values.items()} for part in ("expr", "hint"))
        hint = self.expr.xreplace(hints)
        return Dim._make(self.expr.xreplace(exprs), int(hint) if hint.is_Integer else self.hint, sizes)

    @property
    def name(self) -> str | None:
        """The name of a plain symbol; None of an expression."""
        return self.expr.name if self.expr.is_Symbol else None

    def __add__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a + b)

    def __sub__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a - b)

    def __rsub__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: b - a)

    def __mul__(self, other: Size) -> Size:
        return self._apply(other, lambda a, b: a * b)

    def __floordiv__(self, other: Size) -> Size:
        return _divided(self, other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Size) -> Size:
        return _divided(self, other, lambda a, b: b // a, by=self)

    def __mod__(self, other: Size) -> Size:
        return _divided(self, other, lambda a, b: a % b)

    def __rmod__(self, other: Size) -> Size:
        return _divided(self, other, lambda a, b: b % a, by=self)

    def __divmod__(self, other: Size) -> tuple[Size, Size]:
        return self // other, self % other

    def __pow__(self, other: object) -> Any:
        return self._apply(other, lambda a, b: a**b) if isinstance(other, int) and other >= 0 else int(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    def __truediv__(self, other: object) -> Any:
        return _quotient(self, other) if isinstance(other, (int, float, complex, Dim)) else NotImplemented

    def __rtruediv__(self, other: object) -> Any:
        return _quotient(other, self) if isinstance(other, (int, float, complex)) else NotImplemented

    def __neg__(self) -> Size:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Size:
        return self if self >= 0 else -self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if isinstance(other, (float, np.floating)):
            return self == int(other) if other.is_integer() else False
        if not isinstance(other, (int, np.integer, Dim)):
            return NotImplemented
        answer = self._decided("==", self, other)
        return False if isinstance(answer, Condition) and not answer.sizes_open else answer

    def __ne__(self, other: object) -> Any:
        answer = self == other
        return answer if answer is NotImplemented else answer.opposite if isinstance(answer, Condition) else not answer

    def __ge__(self, other: Size) -> Any:
        return self._compare(other, ">=", lambda other: (self, other))

    def __gt__(self, other: Size) -> Any:
        return self._compare(other, ">", lambda other: (self, other + 1))

    def __le__(self, other: Size) -> Any:
        return self._compare(other, "<=", lambda other: (other, self))

    def __lt__(self, other: Size) -> Any:
        return self._compare(other, "<", lambda other: (other, self + 1))

    def _compare(self, other: object, symbol: str, sides: Any) -> Any:
        if isinstance(other, (float, np.floating)):
            if not math.isfinite(other):
                return _OF_NUMBERS[symbol](0, other)
            other = math.floor(other) if symbol in (">", "<=") else math.ceil(other)
        if not isinstance(other, (int, np.integer, Dim)):
            return NotImplemented
        return self._decided(">=", *sides(other), f"{self} {symbol} {other}")

    def _decided(self, kind: str, a: Size, b: Size, text: str = "") -> Any:
        """Whether ``a - b`` is zero, or at least that; a Condition where it is not known."""
        difference = a - b
        if not isinstance(difference, Dim):
            return difference == 0 if kind == "==" else difference >= 0
        answer = decide(kind, difference)
        return Condition(kind, difference, text or f"{a} == {b}") if answer is None else answer

    def __bool__(self) -> bool:
        return bool(self > 0)

    def __index__(self) -> int:
        if self.sizes is None or not self.sizes.is_open:
            raise self.number_needed()
        return self.sizes.specialize(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __complex__(self) -> complex:
        return complex(int(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(int(self), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        exact = _OF_SIZES.get(ufunc)
        if exact and method == "__call__" and not options and all(isinstance(v, (int, np.integer, Dim)) for v in inputs):
            return exact(*(v if isinstance(v, Dim) else int(v) for v in inputs))
        return getattr(ufunc, method)(*(Dim.as_data(v) if isinstance(v, Dim) else v for v in inputs), **options)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        return func(*(Dim.as_data(v) if isinstance(v, Dim) else v for v in args), **kwargs)

    @property
    def is_found(self) -> bool:
        """Whether it depends on data: an equation of the function that is being traced finds it."""
        return self.sizes is not None and self.sizes.is_open and not self.expr.free_symbols.isdisjoint(self.sizes.bound)

    def number_needed(self, why: str = "", promise: str = "") -> FunctxError:
        """The error for code that asks what number the dimension is; ``promise``: what else to write, where it asked for a comparison."""
        source = user_source()
        if self.sizes is not None and self.expr.free_symbols & set(self.sizes.bound):
            return ConcretizationError(
                f"a number is needed here, but the size {self} depends on the values of arrays, which are unknown while tracing",
                where=source and source.describe(),
                why=why or f"{self} is how many elements a mask, nonzero, unique, compress or repeat selects",
                fix="import functx.numpy as fnp: fnp.zeros(y.shape) and np.minimum(y.shape[0], 3) take such sizes; or give the size: "
                "fnp.nonzero(mask, size=n), choose with np.where(mask, a, b), or "
                + (promise or "promise what you know: functx.check(y.shape[0] <= 100)"),
            )
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
    def parse(cls, text: str, hint: int = HINT) -> Size:
        """The dimension that prints as ``text``: names, integers, ``+ - * **``, ``floor(a/b)``, ``Mod(a, b)``, ``Max`` and ``Min``."""
        import sympy

        def build(node: ast.AST) -> Any:
            match node:
                case ast.Name(id=name):
                    return _symbol(name)
                case ast.Constant(value=int() as value):
                    return sympy.Integer(value)
                case ast.UnaryOp(op=ast.USub(), operand=operand):
                    return -build(operand)
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                    return _OPERATORS[type(op)](build(left), build(right))
                case ast.Call(func=ast.Name(id="floor" | "Mod" | "Max" | "Min" as name), args=arguments):
                    return getattr(sympy, name)(*map(build, arguments))
            raise ShapeError(f"{text!r} is no dimension")

        try:
            return cls._make(build(ast.parse(text, mode="eval").body), hint, None)
        except SyntaxError:
            raise ShapeError(f"{text!r} is no dimension") from None


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow}
_OF_NUMBERS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


class Condition:
    """A comparison of sizes whose answer nobody knows while tracing: :func:`functx.check` takes it, Python's ``if`` does not."""

    __slots__ = ("difference", "kind", "negated", "text")

    def __init__(self, kind: str, difference: Dim, text: str, negated: bool = False):
        self.kind, self.difference, self.text, self.negated = kind, difference, text, negated

    @property
    def opposite(self) -> Condition:
        """What holds where this does not."""
        return Condition(self.kind, self.difference, f"not {self.text}", not self.negated)

    @property
    def sizes_open(self) -> bool:
        """Whether the function whose sizes they are is being traced: then a wrong guess would be a wrong result."""
        return self.difference.sizes is not None and self.difference.sizes.is_open

    def __bool__(self) -> bool:
        raise self.difference.number_needed(
            f"whether {self.text} depends on the size",
            f"promise what holds: functx.check(...) of {self.text}; or functx.cond(...) chooses by it",
        )

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


def decide(kind: str, difference: Dim) -> bool | None:
    """Whether a difference of sizes is at least (``>=``) or equal to (``==``) zero; None if nobody knows."""
    return (difference.sizes or _NOTHING_KNOWN).decide(kind, difference)


_NOTHING_KNOWN = Sizes({})


def at_least(a: Size, b: Size) -> bool | None:
    """Whether ``a >= b``; None if that depends on sizes that nobody knows."""
    difference = a - b
    return decide(">=", difference) if isinstance(difference, Dim) else difference >= 0


def greater(a: Size, b: Size) -> Size:
    """The greater of two sizes; an expression where it is not known which that is."""
    return _extreme("Max", a, b, at_least)


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes; an expression where it is not known which that is."""
    return _extreme("Min", a, b, lambda a, b: at_least(b, a))


def _extreme(name: str, a: Size, b: Size, is_it: Callable[[Size, Size], bool | None]) -> Size:
    answer = is_it(a, b)
    if answer is not None or is_it(b, a):
        return a if answer else b
    import sympy

    dim, other = (a, b) if isinstance(a, Dim) else (b, a)
    return dim._apply(other, getattr(sympy, name))


_OF_SIZES = {np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
             np.remainder: operator.mod, np.maximum: greater, np.minimum: smaller, np.equal: operator.eq, np.not_equal: operator.ne,
             np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge}  # fmt: skip


def _symbol(name: str) -> sympy.Symbol:
    import sympy

    return sympy.Symbol(name, integer=True, nonnegative=True)


def _clip(hint: int, low: int, high: int | None) -> int:
    return max(hint, low) if high is None else min(max(hint, low), high)


def _hint(f: Callable[[int, int], int], a: int, b: int) -> int:
    """A typical value of an expression; of one that has none for a divisor of 0, 0."""
    try:
        return int(f(a, b))
    except ZeroDivisionError:
        return 0


def _quotient(a: Any, b: Any) -> Any:
    """A true quotient, after a look at whether the divisor is zero, as Python has."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return Dim.quotient(a, b)


def quotient(a: Size, b: Size) -> Size:
    """``a // b``, where nobody asks whether the divisor can be zero."""
    if isinstance(a, Dim):
        return a._apply(b, lambda x, y: x // y)
    return b._apply(a, lambda x, y: y // x) if isinstance(b, Dim) else a // b


def _divided(a: Dim, b: object, f: Any, by: Dim | None = None) -> Any:
    """Division with remainder, after a look at whether the divisor can be zero."""
    divisor = b if by is None else by
    if isinstance(divisor, (int, np.integer, Dim)) and divisor == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return a._apply(b, f)
