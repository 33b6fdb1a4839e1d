"""Writing C++ text: indented lines, index expressions, loop headers. Knows no kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, Quotient, Remainder, Symbol


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


def affine_text(x: Affine) -> str:
    """An index expression."""
    parts = [symbol_text(s) if c == 1 else f"{symbol_text(s)} * {c}" if c >= 0 else f"{symbol_text(s)} * ({c})" for s, c in x.terms]
    if x.const or not parts:
        parts.append(str(x.const))
    return " + ".join(parts).replace("+ -", "- ")


def symbol_text(symbol: Symbol) -> str:
    """A loop variable, a quotient, or the value computed for an index."""
    if isinstance(symbol, Quotient):
        return f"(({affine_text(symbol.of)}) / {symbol.by})"
    if isinstance(symbol, Remainder):
        return f"(({affine_text(symbol.of)}) % {symbol.by})"
    if isinstance(symbol, Dynamic):
        return f"v{symbol.node.id}"
    return symbol.key


def loop(v: LoopVar | str, lo: str = "0", hi: str | None = None, step: int = 1) -> str:
    """The header of a loop; over the whole range of a loop variable unless bounds are given."""
    name = v if isinstance(v, str) else v.key
    end = hi if hi is not None else str(v.size)
    return f"for (int64_t {name} = {lo}; {name} < {end}; {f'{name} += {step}' if step != 1 else f'++{name}'})"


def unravel(v: str, axes: tuple[LoopVar, ...]) -> list[str]:
    """Declarations of loop variables from one running index over all of them."""
    lines, step = [], 1
    for k, axis in enumerate(reversed(axes)):
        value = v if step == 1 else f"{v} / {step}"
        lines.append(f"const int64_t {axis.key} = {value if k == len(axes) - 1 else f'{value} % {axis.size}'};")
        step *= axis.size
    return lines[::-1]
