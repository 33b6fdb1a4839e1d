"""Writing Triton: indented lines, index expressions, the shapes of blocks. Knows no kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, Quotient, Remainder, Symbol
from functx.backends.loops.nodes import Node

NameOf = Callable[[Node], str]


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


def affine_text(x: Affine, name: NameOf) -> str:
    """An index expression; ``name`` gives the variables of nodes."""
    parts = [_symbol(s, name) if c == 1 else f"{_symbol(s, name)} * {c}" if c >= 0 else f"{_symbol(s, name)} * ({c})" for s, c in x.terms]
    if x.const or not parts:
        parts.append(str(x.const))
    return " + ".join(parts).replace("+ -", "- ")


def _symbol(symbol: Symbol, name: NameOf) -> str:
    if isinstance(symbol, Quotient):
        return f"(({affine_text(symbol.of, name)}) // {symbol.by})"
    if isinstance(symbol, Remainder):
        return f"(({affine_text(symbol.of, name)}) % {symbol.by})"
    return name(symbol.node) if isinstance(symbol, Dynamic) else symbol.key


def digits(v: str, counts: Sequence[int]) -> list[str]:
    """One number taken apart into several, each below its count, the last one running fastest."""
    out, step = [], 1
    for k, count in enumerate(reversed(counts)):
        text = v if step == 1 else f"{v} // {step}"
        out.append(text if k == len(counts) - 1 else f"{text} % {count}")
        step *= count
    return out[::-1]


def unravel(v: str, axes: Sequence[LoopVar]) -> list[str]:
    """Definitions of loop variables from one running index over all of them."""
    if [a.key for a in axes] == [v]:
        return []
    return [f"{axis.key} = {text}" for axis, text in zip(axes, digits(v, [a.size for a in axes]), strict=True)]


def power_of_two(n: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(n - 1, 0).bit_length()
