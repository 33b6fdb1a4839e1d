"""Writing Triton: indented lines, index expressions, the shapes of blocks. Knows no kernels."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, Quotient, Remainder, Symbol
from functx.backends.loops.formulas import formula, size_name
from functx.backends.loops.nodes import Node
from functx.shapes import Size

NameOf = Callable[[Node], str]
LAUNCH = "__launch_"  # how the names of sizes begin that are chosen at a launch


@dataclass(frozen=True)
class SizeText:
    """How sizes are written: as a factor or bound, and as a divisor, which is never zero."""

    plain: Callable[[Size], str]
    divisor: Callable[[Size], str]


class Writer:
    """Lines with the indentation of the block that they are in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """One line."""
        self.lines.append("    " * self.depth + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """``header:`` and what is in it."""
        self.line(f"{header}:")
        self.depth += 1
        yield
        self.depth -= 1

    def text(self) -> str:
        """Everything written."""
        return "\n".join(self.lines) + "\n"


def launch_name(name: str) -> str:
    """The variable of a program that holds a size."""
    return name.removeprefix(LAUNCH) if name.startswith(LAUNCH) else size_name(name)


@functools.lru_cache(4096)
def host_text(size: Size) -> str:
    """A size as an operand in the function that launches kernels."""
    return formula(size, lambda a, b: f"floor_div({a}, {b})", launch_name)


def shape_text(shape: Sequence[Size]) -> str:
    """A shape there."""
    return f"({', '.join(map(host_text, shape))}{',' if len(shape) == 1 else ''})"


def affine_text(x: Affine, name: NameOf, size: SizeText) -> str:
    """An index expression; ``name`` gives the variables of nodes."""
    parts = [_term(_symbol(s, name, size), c, size) for s, c in x.terms]
    if not isinstance(x.const, int) or x.const or not parts:
        parts.append(size.plain(x.const))
    return " + ".join(parts).replace("+ -", "- ")


def _term(symbol: str, c: Size, size: SizeText) -> str:
    if isinstance(c, int) and c == 1:
        return symbol
    return f"{symbol} * ({c})" if isinstance(c, int) and c < 0 else f"{symbol} * {size.plain(c)}"


def _symbol(symbol: Symbol, name: NameOf, size: SizeText) -> str:
    if isinstance(symbol, Quotient):
        return f"(({affine_text(symbol.of, name, size)}) // {size.divisor(symbol.by)})"
    if isinstance(symbol, Remainder):
        return f"(({affine_text(symbol.of, name, size)}) % {size.divisor(symbol.by)})"
    return name(symbol.node) if isinstance(symbol, Dynamic) else symbol.key


def digits(v: str, counts: Sequence[Size], size: SizeText) -> list[str]:
    """One number taken apart into several, each below its count, the last one running fastest."""
    out: list[str] = []
    step: Size = 1
    for k, count in enumerate(reversed(counts)):
        text = v if isinstance(step, int) and step == 1 else f"{v} // {size.divisor(step)}"
        out.append(text if k == len(counts) - 1 else f"{text} % {size.divisor(count)}")
        step = step * count
    return out[::-1]


def unravel(v: str, axes: Sequence[LoopVar], size: SizeText) -> list[str]:
    """Definitions of loop variables from one running index over all of them."""
    if [a.key for a in axes] == [v]:
        return []
    return [f"{axis.key} = {text}" for axis, text in zip(axes, digits(v, [a.size for a in axes], size), strict=True)]
