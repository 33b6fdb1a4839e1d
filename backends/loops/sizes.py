"""Sizes of loops and arrays: plain integers, or Dims, whose values are known only when the code runs.

Decisions that only cost time (whether to share, to split, to copy) are taken for typical sizes, the hints; those on which results depend
ask what holds for all sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from functx import shapes
from functx.dims import quotient
from functx.ir import Atom
from functx.shapes import Dim, Size


def hint(size: Size) -> int:
    """A typical value."""
    return size.hint if isinstance(size, Dim) else size


def is_at_least(a: Size, b: Size) -> bool:
    """Whether ``a >= b`` holds for all sizes, as far as anybody knows."""
    return a >= b if isinstance(a, int) and isinstance(b, int) else bool(shapes.at_least(a, b))


def ceil_div(a: Size, b: Size) -> Size:
    """``a / b``, rounded up."""
    return (a + b - 1) // b


def at_most(a: Size, b: Size) -> Size:
    """A size that neither ``a`` nor ``b`` exceeds: the greater of them where it is known which that is, else their sum."""
    return a if is_at_least(a, b) else b if is_at_least(b, a) else a + b


def divided(a: Size, b: Size) -> tuple[Size, Size]:
    """``q`` and ``r`` with ``a == q*b + r``, both exact, and ``r`` not negative where ``a`` is not."""
    if isinstance(a, int) and isinstance(b, int):
        return divmod(a, b)
    q = quotient(a, b)
    r = a - q * b
    return (q, r) if isinstance(r, int) or not is_at_least(a, 0) else (0, a)


def nbytes(v: Atom) -> Size:
    """The bytes of an array."""
    return shapes.size(v.aval.shape) * v.aval.dtype.itemsize


def factored(size: Size) -> tuple[int, Size]:
    """A number, the greatest there is, and a unit whose product is the size; the unit of plain numbers is 1."""
    if isinstance(size, int):
        return size, 1
    count, _ = size.expr.as_content_primitive()
    return (int(count), divided(size, int(count))[0]) if count.is_Integer else (1, size)


@functools.lru_cache(4096)
def text(size: Size) -> str:
    """How a size prints; equal ones print alike."""
    return str(size)


def symbols(sizes: Iterable[Size]) -> set[str]:
    """The names in some sizes."""
    return {s.name for d in sizes if isinstance(d, Dim) for s in d.expr.free_symbols}
