"""Writing C++ text: indented lines, sizes, index expressions, loop headers. Knows no kernels."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, Quotient, Remainder, Symbol
from functx.backends.loops.formulas import formula
from functx.shapes import Dim, Size


class Writer:
    """Lines with the indentation of the block that they are in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        """One line; directives start at the margin."""
        self.lines.append(text if text.startswith("#") else "  " * self.depth + text)

    @contextlib.contextmanager
    def block(self, header: str = "") -> Iterator[None]:
        """``header { ... }``."""
        self.line(f"{header} {{" if header else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextlib.contextmanager
    def blocks(self, headers: list[str]) -> Iterator[None]:
        """Nested blocks, one per header (an empty one: just braces)."""
        with contextlib.ExitStack() as stack:
            for header in headers:
                stack.enter_context(self.block(header))
            yield

    def text(self) -> str:
        """Everything written."""
        return "\n".join(self.lines) + "\n"


@functools.lru_cache(4096)
def size_text(size: Size) -> str:
    """A size as an operand."""
    return formula(size, lambda a, b: f"({a}) / ({b})")


def affine_text(x: Affine) -> str:
    """An index expression."""
    parts = [symbol_text(s) if c == 1 else f"{symbol_text(s)} * {_factor(c)}" for s, c in x.terms]
    if x.const != 0 or not parts:
        parts.append(size_text(x.const) if isinstance(x.const, Dim) else str(x.const))
    return " + ".join(parts).replace("+ -", "- ")


def _factor(c: Size) -> str:
    return str(c) if isinstance(c, int) and c >= 0 else size_text(c)


def _divisor(by: Size) -> str:
    """What is divided by. A size of zero, of which there are no elements to index, would trap."""
    return f"nonzero({size_text(by)})" if isinstance(by, Dim) else str(by)


def symbol_text(symbol: Symbol) -> str:
    """A loop variable, a quotient, or the value computed for an index."""
    if isinstance(symbol, Quotient):
        return f"(({affine_text(symbol.of)}) / {_divisor(symbol.by)})"
    if isinstance(symbol, Remainder):
        return f"(({affine_text(symbol.of)}) % {_divisor(symbol.by)})"
    if isinstance(symbol, Dynamic):
        return f"v{symbol.node.id}"
    return symbol.key


def loop(v: LoopVar | str, lo: str = "0", hi: str | None = None, step: int = 1) -> str:
    """The header of a loop; over the whole range of a loop variable unless bounds are given."""
    name = v if isinstance(v, str) else v.key
    end = hi if hi is not None else size_text(v.size)
    return f"for (int64_t {name} = {lo}; {name} < {end}; {f'{name} += {step}' if step != 1 else f'++{name}'})"


def unravel(v: str, axes: tuple[LoopVar, ...]) -> list[str]:
    """Declarations of loop variables from one running index over all of them."""
    lines: list[str] = []
    step: Size = 1
    for k, axis in enumerate(reversed(axes)):
        value = v if step == 1 else f"{v} / {size_text(step)}"
        lines.append(f"const int64_t {axis.key} = {value if k == len(axes) - 1 else f'{value} % {size_text(axis.size)}'};")
        step = step * axis.size
    return lines[::-1]
