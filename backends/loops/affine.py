"""Index arithmetic: integer expressions that are affine in loop variables, quotients and remainders.

Owns the algebra and the ranges that make most quotients exact (``(12*i + j) // 12`` is ``i`` when ``0 <= j < 12``). Knows nothing of
arrays, graphs or loops. Coefficients and constants are sizes: integers, or expressions over sizes known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from functx.backends.loops.sizes import divided, hint, is_at_least, text
from functx.dims import Dim
from functx.dims import quotient as floor_quotient
from functx.shapes import Size


def _last(size: Size) -> Size:
    """The last index; if there is none, whatever is said of it holds."""
    return size - 1 if isinstance(size, Dim) else max(size - 1, 0)


class Symbol:
    """An integer that an affine expression does not look into. ``key`` identifies it; its values lie in [lo, hi], None: nobody knows."""

    __slots__ = ("hi", "key", "lo")

    def __init__(self, key: str, lo: Size | None, hi: Size | None):
        self.key, self.lo, self.hi = key, lo, hi

    def loop_vars(self) -> frozenset[LoopVar]:
        """The loop variables on which the value depends."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key


class LoopVar(Symbol):
    """A loop variable, running from 0 to size - 1. Names are unique within a kernel."""

    __slots__ = ("size",)

    def __init__(self, name: str, size: Size):
        super().__init__(name, 0, _last(size))
        self.size = size

    def loop_vars(self) -> frozenset[LoopVar]:
        return frozenset((self,))


class Quotient(Symbol):
    """``floor(of / by)``."""

    __slots__ = ("by", "of")

    def __init__(self, of: Affine, by: Size):
        lo, hi = of.bounds()
        super().__init__(f"({of.key})/{text(by)}", *(None if b is None else floor_quotient(b, by) for b in (lo, hi)))
        self.of, self.by = of, by

    def loop_vars(self) -> frozenset[LoopVar]:
        return self.of.loop_vars()


class Remainder(Symbol):
    """``of - by * floor(of / by)``."""

    __slots__ = ("by", "of")

    def __init__(self, of: Affine, by: Size):
        super().__init__(f"({of.key})%{text(by)}", 0, by - 1)
        self.of, self.by = of, by

    def loop_vars(self) -> frozenset[LoopVar]:
        return self.of.loop_vars()


class Dynamic(Symbol):
    """An integer computed at run time, such as a gathered index: the value of ``node``, in [0, size)."""

    __slots__ = ("node",)

    def __init__(self, node: Any, size: Size):
        super().__init__(f"v{node.id}", 0, _last(size))
        self.node = node

    def loop_vars(self) -> frozenset[LoopVar]:
        return self.node.loop_vars


class Affine:
    """``const + sum(coefficient * symbol)``. Equal expressions have equal keys."""

    __slots__ = ("const", "key", "terms")

    def __init__(self, const: Size, terms: Mapping[Symbol, Size] | None = None):
        self.const = const
        self.terms: tuple[tuple[Symbol, Size], ...] = tuple(sorted((terms or {}).items(), key=lambda term: term[0].key))
        self.key = "+".join([*(f"{c if isinstance(c, int) else f'({text(c)})'}*{s.key}" for s, c in self.terms), text(const)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    def __add__(self, other: Affine | Size) -> Affine:
        if isinstance(other, Affine):
            return combine([(self, 1), (other, 1)])
        return self if other == 0 else Affine(self.const + other, dict(self.terms))

    def __sub__(self, other: Affine | Size) -> Affine:
        return self + other * -1

    def __mul__(self, factor: Size) -> Affine:
        if factor == 1:
            return self
        return Affine(self.const * factor, {s: c * factor for s, c in self.terms} if factor != 0 else {})

    def bounds(self) -> tuple[Size | None, Size | None]:
        """The least and greatest value that the symbols' ranges allow; None where that is not known."""
        lo: Size | None = self.const
        hi: Size | None = self.const
        for symbol, c in self.terms:
            rising = is_at_least(c, 0)
            least, most = (symbol.lo, symbol.hi) if rising else (symbol.hi, symbol.lo)
            known = rising or is_at_least(0, c)
            lo = lo + c * least if known and lo is not None and least is not None else None
            hi = hi + c * most if known and hi is not None and most is not None else None
        return lo, hi

    def loop_vars(self) -> frozenset[LoopVar]:
        """The loop variables in it, those inside quotients too."""
        return frozenset().union(*(symbol.loop_vars() for symbol, _ in self.terms))

    def coefficient(self, symbol: Symbol) -> Size:
        """The factor of a symbol, 0 if it does not occur by itself."""
        return next((c for s, c in self.terms if s == symbol), 0)

    def opaque(self) -> Iterable[Symbol]:
        """The symbols that are not loop variables."""
        return (s for s, _ in self.terms if not isinstance(s, LoopVar))


ZERO = Affine(0)


def var(symbol: Symbol) -> Affine:
    """The symbol as an expression; a loop variable of one iteration is 0."""
    return Affine(symbol.lo) if symbol.lo is not None and symbol.lo == symbol.hi else Affine(0, {symbol: 1})


def combine(parts: Iterable[tuple[Affine, Size]]) -> Affine:
    """``sum(factor * expression)``, with ``n*(x//n) + x%n`` joined to ``x``."""
    const: Size = 0
    terms: dict[Symbol, Size] = {}
    for affine, factor in parts:
        const += affine.const * factor
        for symbol, c in affine.terms:
            terms[symbol] = terms.get(symbol, 0) + c * factor
    terms = {s: c for s, c in terms.items() if c != 0}
    for symbol in list(terms):
        if isinstance(symbol, Remainder) and symbol in terms:
            quotient, c = _quotient_symbol(symbol.of, symbol.by), terms[symbol]
            if terms.get(quotient) == c * symbol.by:
                del terms[symbol], terms[quotient]
                return combine([(Affine(const, terms), 1), (symbol.of, c)])
    return Affine(const, terms)


def _quotient_symbol(of: Affine, by: Size) -> Quotient:
    """``of // by``; ``(x // a) // b`` is ``x // (a*b)``."""
    if of.const == 0 and len(of.terms) == 1:
        inner, c = of.terms[0]
        if c == 1 and isinstance(inner, Quotient):
            return _quotient_symbol(inner.of, inner.by * by)
    return Quotient(of, by)


def divmod_affine(x: Affine, by: Size) -> tuple[Affine, Affine]:
    """``x // by`` and ``x % by`` (rounding down), exact where ranges allow."""
    if by == 1:
        return x, ZERO
    whole: dict[Symbol, Size] = {}
    rest: dict[Symbol, Size] = {}
    for symbol, c in x.terms:  # what is left to divide must not be negative: C++ rounds towards zero
        whole[symbol], rest[symbol] = divided(c, by)
    const, left = divided(x.const, by)
    quotient, remainder = _without_zeros(const, whole), _without_zeros(left, rest)
    lo, hi = remainder.bounds()
    if lo is not None and hi is not None:
        q = floor_quotient(lo, by)
        if is_at_least(by - 1, hi - q * by):
            return quotient + q, remainder - q * by
    return combine([(quotient, 1), (var(_quotient_symbol(remainder, by)), 1)]), var(_remainder_symbol(remainder, by))


def _without_zeros(const: Size, terms: Mapping[Symbol, Size]) -> Affine:
    return Affine(const, {s: c for s, c in terms.items() if c != 0})


def _remainder_symbol(of: Affine, by: Size) -> Symbol:
    if of.const == 0 and len(of.terms) == 1:
        inner, c = of.terms[0]
        if c == 1 and isinstance(inner, Remainder) and inner.by % by == 0:
            return _remainder_symbol(inner.of, by)
    return Remainder(of, by)


def row_major(shape: Sequence[Size]) -> list[Size]:
    """Element strides of a C-contiguous array."""
    strides: list[Size] = []
    step: Size = 1
    for d in reversed(shape):
        strides.append(step)
        step = step * d if d != 0 else step
    return strides[::-1]


def linear(index: Sequence[Affine], shape: Sequence[Size]) -> Affine:
    """The element offset of an index into a C-contiguous array."""
    return combine(zip(index, row_major(shape), strict=True))


def reindex(index: Sequence[Affine], new: Sequence[Size], old: Sequence[Size]) -> tuple[Affine, ...]:
    """The index into an array of shape ``old`` for an index into its reshape to ``new``.

    Axes are matched in the shortest groups of equal size, so that a quotient never spans more axes than it must.
    """
    if 0 in old:
        return (ZERO,) * len(old)
    out: list[Affine] = []
    i = j = 0
    while i < len(new) or j < len(old):
        n, m = new[i : i + 1], old[j : j + 1]
        i, j = i + len(n), j + len(m)
        a, b = n[0] if n else 1, m[0] if m else 1
        while a != b and (i < len(new) or j < len(old)):  # all of one is all of the other, though it be written otherwise
            if j == len(old) or i < len(new) and hint(a) < hint(b):
                a, n, i = a * new[i], (*n, new[i]), i + 1
            else:
                b, m, j = b * old[j], (*m, old[j]), j + 1
        out += _unravel(linear(index[i - len(n) : i], n), m)
    return tuple(out)


def _unravel(offset: Affine, shape: Sequence[Size]) -> list[Affine]:
    strides = row_major(shape)
    out = []
    for k, stride in enumerate(strides):
        if k == len(strides) - 1:
            out.append(offset if shape[k] != 1 else ZERO)
        else:
            quotient, offset = divmod_affine(offset, stride)
            out.append(quotient if shape[k] != 1 else ZERO)
    return out


def substitute(x: Affine, replace: Callable[[LoopVar], Affine | None]) -> Affine:
    """``x`` with loop variables replaced (None leaves one as it is)."""
    parts = [(Affine(x.const), 1)]
    for symbol, c in x.terms:
        if isinstance(symbol, LoopVar):
            new = replace(symbol)
            parts.append((var(symbol) if new is None else new, c))
        elif isinstance(symbol, (Quotient, Remainder)):
            q, r = divmod_affine(substitute(symbol.of, replace), symbol.by)
            parts.append((q if isinstance(symbol, Quotient) else r, c))
        else:
            parts.append((var(symbol), c))
    return combine(parts)


def inner_symbols(x: Affine) -> Iterator[Symbol]:
    """All symbols of an expression, those inside quotients too."""
    for symbol, _ in x.terms:
        yield symbol
        if isinstance(symbol, (Quotient, Remainder)):
            yield from inner_symbols(symbol.of)
