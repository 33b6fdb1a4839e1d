"""What is known of symbolic sizes: their ranges, their values in the call that is traced, and what was decided by these.

A question about sizes is ``(kind, expr)``: is the expression zero (``==``), not zero (``!=``), or at least zero (``>=``)? While a function
is traced for a call, every question has the answer of that call, and becomes a condition under which the graph holds. An equality that can
be solved for a symbol leaves fewer of them: the symbol is *pinned*.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from functx.errors import UnsupportedError
from functx.size_algebra import Range, cases, interval, least, linear, normal
from functx.source import Source, user_source

if TYPE_CHECKING:
    import sympy


class Sizes:
    """The symbols of one function, or one declared by a user.

    Attributes:
      ranges: the least and the greatest value of a symbol (None: no bound), as far as it was declared or decided.
      present: values of symbols in the present call; those that an equation binds have none.
      pins: symbols that are something else, as solved equalities say.
      bound: symbols of which an equation says what they are.
      conditions: what else was decided, with the line that asked.
      numbers: sizes of which somebody wanted the number, and why.
      is_open: whether the trace goes on: questions are decided by the present values. Afterwards only what is known is answered.
    """

    def __init__(self, ranges: Mapping[sympy.Symbol, Range], present: Mapping[sympy.Symbol, int] | None = None):
        self.ranges = dict(ranges)
        self.present = dict(present or {})
        self.pins: dict[sympy.Symbol, sympy.Expr] = {}
        self.conditions: dict[tuple[str, sympy.Expr], Source | None] = {}
        self.numbers: dict[sympy.Expr, str] = {}
        self.bound: list[sympy.Symbol] = []
        self.is_open = present is not None

    @staticmethod
    def of_both(a: Sizes | None, b: Sizes | None) -> Sizes | None:
        """What is known of the symbols of two expressions; a function's trace learns of declared symbols."""
        if a is None or b is None or a is b:
            return b if a is None else a
        if b.is_open and not a.is_open:
            a, b = b, a
        if a.is_open:
            a.ranges.update((s, r) for s, r in b.ranges.items() if s not in a.ranges)
            return a
        return Sizes({**b.ranges, **a.ranges})

    def bind(self, most: Any = None) -> Any:
        """A new size that an equation binds, at most ``most``."""
        import sympy

        from functx.dims import Dim

        symbol = sympy.Symbol(f"s{len(self.bound)}", integer=True, nonnegative=True)
        self.bound.append(symbol)
        self.ranges[symbol] = (0, most if isinstance(most, int) else None)
        dim = Dim(symbol.name).within(self, most if isinstance(most, int) else getattr(most, "hint", 256))
        if isinstance(most, Dim):
            self.conditions[">=", normal(">=", most.expr - symbol)] = None
        return dim

    def resolve(self, expr: sympy.Expr) -> sympy.Expr:
        """The expression without pinned symbols."""
        if not self.pins or not (expr.free_symbols & self.pins.keys()):
            return expr
        import sympy

        return sympy.expand(expr.subs(self.pins))

    # --- deciding -----------------------------------------------------------------------------------------------------------------------

    def decide(self, kind: str, dim: Any) -> bool | None:
        """The answer for the difference ``dim``: known, or that of the present call, which is then a condition. None if there is none."""
        expr = normal(kind, self.resolve(dim.expr))
        answer = self.known(kind, expr)
        if answer is not None or not self.is_open or not expr.free_symbols <= self.present.keys():
            return answer
        value = self.value(expr)
        if value == 0 if kind == "==" else value >= 0:
            self.assume(kind, expr)
            return True
        self.assume("!=", expr) if kind == "==" else self.assume(">=", -expr - 1)
        return False

    def value(self, expr: sympy.Expr) -> int:
        """The value in the present call."""
        return int(expr.subs(self.present))

    def known(self, kind: str, expr: sympy.Expr) -> bool | None:
        """The answer, where it is the same for all sizes that are possible."""
        if expr.is_Integer:
            return bool(expr == 0 if kind == "==" else expr >= 0)
        low, high = interval(expr, self.ranges)
        if kind == ">=":
            low = max(low, interval(least(expr, self.ranges), self.ranges)[0])
            if low >= 0 or high < 0:
                return bool(low >= 0)
            if expr.is_nonnegative is not None:
                return expr.is_nonnegative
            if (split := cases(expr)) is not None:
                combine, answers = split[0], [self.known(">=", case) for case in split[1]]
                if combine(answer is True for answer in answers):
                    return True
                if not combine(answer is not False for answer in answers):
                    return False
            return True if any(k == ">=" and (expr - e).is_nonnegative for k, e in self.conditions) else None
        if low > 0 or high < 0:
            return False
        if ("==", expr) in self.conditions:
            return True
        return False if ("!=", expr) in self.conditions or expr.is_zero is False else None

    def assume(self, kind: str, expr: sympy.Expr, source: Source | None = None) -> None:
        """From now on it holds."""
        source, expr = source or user_source(), normal(kind, expr)
        if kind == "==" and self._pin(expr, source):
            return
        if kind == ">=" and (bound := linear(expr)) is not None:
            symbol, slope, constant = bound
            low, high = self.ranges.get(symbol, (0, None))
            edge = Fraction(-constant, slope)
            if slope > 0:
                low = max(low, math.ceil(edge))
            else:
                high = math.floor(edge) if high is None else min(high, math.floor(edge))
            self.ranges[symbol] = (low, high)
            if low == high:
                self._pin(symbol - low, source)
            return
        self.conditions[kind, expr] = source

    def _pin(self, expr: sympy.Expr, source: Source | None) -> bool:
        """Solve ``expr == 0`` for a symbol, for a number if that is possible."""
        order = list(self.present)
        if not expr.free_symbols <= self.present.keys():
            return False
        for symbol in sorted(expr.free_symbols, key=order.index, reverse=True):
            slope = expr.coeff(symbol, 1)
            rest = expr - slope * symbol
            if not slope.is_Integer or symbol in rest.free_symbols or not (slope in (1, -1) or (rest.is_Integer and rest % slope == 0)):
                continue
            found = -rest / slope
            low, high = self.ranges.pop(symbol, (0, None))
            self.pins = {s: e.subs(symbol, found) for s, e in self.pins.items()} | {symbol: found}
            before, self.conditions = self.conditions, {}
            for (kind, e), line in before.items():
                if not (resolved := self.resolve(e)).is_Integer:
                    self.assume(kind, resolved, line)
            if not found.is_Integer:
                for bound in (found - low, *(() if high is None else (high - found,))):
                    if self.known(">=", bound) is None:
                        self.assume(">=", bound, source)
            return True
        return False

    def specialize(self, dim: Any, why: str = "") -> int:
        """The value of a size in the present call, for which alone the graph then holds."""
        expr = self.resolve(dim.expr)
        if expr.is_Integer:
            return int(expr)
        if not expr.free_symbols <= self.present.keys():
            raise dim.number_needed()
        value = self.value(expr)
        source = user_source()
        line = f"it is needed as a number at {source.describe() if source else 'an unknown line'}"
        self.numbers.setdefault(expr, why or line)
        self.assume("==", expr - value)
        return value

    # --- what the entry needs -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The trace has ended."""
        self.is_open = False

    def knowledge(self) -> str:
        """All that answers depend on, as text."""
        ranges = sorted(f"{symbol} in {bounds}" for symbol, bounds in self.ranges.items() if bounds != (0, None))
        return "; ".join([*ranges, *sorted(f"{expr} {kind} 0" for kind, expr in self.conditions)])

    def facts(self) -> list[tuple[str, sympy.Expr]]:
        """The conditions under which the decisions hold, none of which follows from the others."""
        facts = []
        for symbol, (low, high) in self.ranges.items():
            if symbol not in self.present:
                continue  # equations check what is said of sizes that they bind
            facts += [(">=", symbol - low)] if low > 0 else []
            facts += [(">=", high - symbol)] if high is not None else []
        for kind, expr in self.conditions:
            if not expr.free_symbols <= self.present.keys():
                continue
            low, high = interval(expr, self.ranges)
            if (kind == ">=" and low >= 0) or (kind == "!=" and (low > 0 or high < 0)):
                continue
            weaker = kind == ">=" and any(k == ">=" and e != expr and (expr - e).is_nonnegative for k, e in self.conditions)
            facts += [] if weaker else [(kind, expr)]
        return facts


# --- evaluation ---------------------------------------------------------------------------------------------------------------------------

# What the runtime knows too (functx/runtime/formula.h): CONSTANT is followed by its value, SIZE by the number of the symbol.
CONSTANT, SIZE, ADD, MULTIPLY, MAXIMUM, MINIMUM, FLOOR_DIVIDE, MODULO = range(8)
_OF_MANY = {"Add": ADD, "Mul": MULTIPLY, "Max": MAXIMUM, "Min": MINIMUM}


def program(expr: Any, symbols: Iterable[sympy.Symbol]) -> list[int]:
    """An expression of integer value as a program for a stack machine."""
    place = {symbol: i for i, symbol in enumerate(symbols)}
    code: list[int] = []
    _emit(expr, place, code)
    return code


def _emit(expr: Any, place: Mapping[sympy.Symbol, int], code: list[int]) -> None:
    import sympy

    expr = sympy.sympify(expr)
    name = type(expr).__name__
    if expr.is_Integer:
        code += [CONSTANT, int(expr)]
    elif expr.is_Symbol:
        code += [SIZE, place[expr]]
    elif (parts := _divided(expr)) is not None:
        for part in parts:
            _emit(sympy.expand(part), place, code)
        code.append(MODULO if name == "Mod" else FLOOR_DIVIDE)
    elif name in _OF_MANY:
        _emit(expr.args[0], place, code)
        for term in expr.args[1:]:
            _emit(term, place, code)
            code.append(_OF_MANY[name])
    elif expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        _emit(sympy.Mul(*[expr.base] * int(expr.exp), evaluate=False), place, code)
    else:
        raise UnsupportedError(
            f"the size {expr} cannot be computed by compiled code",
            where=where.describe() if (where := user_source()) else None,
            fix="jit with dynamic=False: every size is then a number",
        )


def _divided(expr: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Dividend and divisor of a remainder, a rounded quotient, or what is a whole number nevertheless: ``(n - n % 3) / 3``."""
    import sympy

    if isinstance(expr, sympy.Mod):
        return expr.args
    above, below = sympy.fraction(sympy.together(expr.args[0] if isinstance(expr, sympy.floor) else expr))
    return (above, below) if below != 1 or isinstance(expr, sympy.floor) else None


_OPERATIONS = {ADD: operator.add, MULTIPLY: operator.mul, MAXIMUM: max, MINIMUM: min, FLOOR_DIVIDE: operator.floordiv, MODULO: operator.mod}


def evaluate(code: Sequence[int], values: Sequence[int]) -> int:
    """Run a program of :func:`program`."""
    stack: list[int] = []
    at = 0
    while at < len(code):
        op = code[at]
        if op in (CONSTANT, SIZE):
            stack.append(code[at + 1] if op == CONSTANT else values[code[at + 1]])
            at += 2
            continue
        b, a = stack.pop(), stack.pop()
        stack.append(_OPERATIONS[op](a, b))
        at += 1
    return stack.pop()
