"""The algebra of sizes: forms that equal expressions share, bounds on their values, and conditions as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sympy

Interval = tuple[Any, Any]
Range = tuple[int, int | None]


def normal(kind: str, expr: sympy.Expr) -> sympy.Expr:
    """The expression of a question in a form that equal questions share: remainders instead of rounded quotients, small integer
    coefficients, and a sign where that does not matter.
    """
    import sympy

    if expr.is_Integer or expr.is_Symbol:
        return expr
    if expr.has(sympy.floor):
        expr = sympy.expand(expr.replace(sympy.floor, _unrounded))
    scale, expr = sympy.expand(expr).as_content_primitive()
    if kind != ">=" and expr.could_extract_minus_sign():
        expr = -expr
    return expr if kind != ">=" or scale > 0 else -expr


def inward(expr: sympy.Expr) -> sympy.Expr:
    """The form that equal sums with ``Min`` and ``Max`` of two share: ``n - Min(1, n)`` is ``Max(0, n - 1)``, and both together are n.

    Each is written with ``Max(0, e)``, with ``e`` of one sign, of which like terms cancel; what is left, if it is one, takes the rest in.
    """
    import sympy

    terms = sympy.Add.make_args(expr)
    extremes = {m for t in terms for m in sympy.Mul.make_args(t) if isinstance(m, (sympy.Max, sympy.Min)) and len(m.args) == 2}
    if len(terms) == 1 or not extremes:
        return expr
    expr = sympy.expand(expr.xreplace({m: _hinged(m) for m in extremes}))
    hinges = [t.as_coeff_Mul() for t in sympy.Add.make_args(expr) if t.has(sympy.Max, sympy.Min)]
    if len(hinges) != 1 or not isinstance(hinges[0][1], sympy.Max):
        return expr
    ((factor, hinge),) = hinges
    rest = expr - factor * hinge
    (inner,) = (a for a in hinge.args if a != 0) if 0 in hinge.args and len(hinge.args) == 2 else (None,)
    if inner is None or rest == 0:
        return expr
    return (sympy.Max if factor > 0 else sympy.Min)(rest, sympy.expand(rest + factor * inner))


def _hinged(extreme: sympy.Expr) -> sympy.Expr:
    """``Max(a, b)`` or ``Min(a, b)`` with ``Max(0, e)``."""
    import sympy

    a, b = sorted(extreme.args, key=lambda e: not e.is_Integer)
    sign = 1 if isinstance(extreme, sympy.Max) else -1
    e = sympy.expand(sign * (b - a))
    return a + sign * (e + sympy.Max(0, inward(-e)) if e.could_extract_minus_sign() else sympy.Max(0, inward(e)))


def cases(expr: sympy.Expr) -> tuple[Callable[[Iterable[bool]], bool], list[sympy.Expr]] | None:
    """What a sum with a ``Min`` or ``Max`` is with each operand in its place: it is at least zero if all of these are, or if any is."""
    import sympy

    for term in sympy.Add.make_args(expr):
        factor, extreme = term.as_coeff_Mul()
        if isinstance(extreme, (sympy.Max, sympy.Min)):
            least = isinstance(extreme, sympy.Max) == (factor < 0)
            return all if least else any, [sympy.expand(expr - term + factor * a) for a in extreme.args]
    return None


def _unrounded(arg: sympy.Expr) -> sympy.Expr:
    import sympy

    above, below = sympy.fraction(sympy.together(arg))
    return (above - sympy.Mod(above, below)) / below if below.is_Integer else sympy.floor(arg)


def interval(expr: sympy.Expr, ranges: Mapping[sympy.Symbol, Range]) -> Interval:
    """Bounds on the values of an expression over sizes (``math.inf`` where there is none)."""
    if expr.is_Symbol:
        low, high = ranges.get(expr, (0, None))
        return low, math.inf if high is None else high
    if expr.is_Rational:
        value = Fraction(int(expr.p), int(expr.q))
        return value, value
    parts = [interval(a, ranges) for a in expr.args]
    if expr.is_Add:
        return sum(low for low, _ in parts), sum(high for _, high in parts)
    if expr.is_Mul:
        product: Interval = (1, 1)
        for part in parts:
            product = _product(product, part)
        return product
    name = type(expr).__name__
    if name == "floor":
        return tuple(v if math.isinf(v) else math.floor(v) for v in parts[0])
    if name in ("Max", "Min"):
        choose = max if name == "Max" else min
        return tuple(map(choose, zip(*parts, strict=True)))
    if name == "Mod" and parts[1][0] > 0:
        return 0, min(parts[1][1] - 1, parts[0][1] if parts[0][0] >= 0 else math.inf)
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0 and parts[0][0] >= 0:
        power = int(expr.exp)
        return tuple(v**power for v in parts[0])
    return -math.inf, math.inf


def least(expr: sympy.Expr, ranges: Mapping[sympy.Symbol, Range]) -> sympy.Expr:
    """A sum that is no greater: of what is subtracted, the remainder of what is not negative is no greater than that."""
    import sympy

    terms = list(sympy.Add.make_args(expr))
    for k, term in enumerate(terms):
        factor, remainder = term.as_coeff_Mul()
        if factor < 0 and isinstance(remainder, sympy.Mod) and interval(remainder.args[0], ranges)[0] >= 0:
            terms[k] = factor * remainder.args[0]
    return sympy.expand(sympy.Add(*terms))


def _product(a: Interval, b: Interval) -> Interval:
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)


def linear(expr: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """Symbol, slope and constant of ``slope * symbol + constant``."""
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    constant, rest = expr.as_coeff_Add()
    slope, factor = rest.as_coeff_Mul()
    return (symbol, int(slope), int(constant)) if factor == symbol and slope.is_Integer and constant.is_Integer else None


def shown(kind: str, expr: sympy.Expr) -> str:
    """A condition as text: ``n > 64``, ``n % 2 == 0``."""
    bound = linear(expr)
    if bound is not None and abs(bound[1]) == 1:
        symbol, slope, constant = bound
        if kind == ">=":
            return f"{symbol} > {-constant - 1}" if slope > 0 else f"{symbol} < {constant + 1}"
        return f"{symbol} {kind} {-constant * slope}"
    constant, rest = expr.as_coeff_Add()
    return f"{rest} {kind} {-constant}"
