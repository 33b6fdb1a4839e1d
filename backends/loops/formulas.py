"""Sizes as text of a program that computes them when it runs: in C++ and in Python alike but for how a quotient is written.

Programs have ``floor_div`` and ``floor_mod``, which take a divisor of 0 for 1, ``greater`` and ``smaller``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from functx.shapes import Dim, Size

if TYPE_CHECKING:
    import sympy

Exact = Callable[[str, str], str]  # a quotient without a remainder
_FUNCTIONS = {"Mod": "floor_mod", "Max": "greater", "Min": "smaller"}


def size_name(name: str) -> str:
    """The variable that holds a size which is known only at run time."""
    return f"dim_{re.sub(r'[^0-9A-Za-z_]', '_', name)}"


def sizes_in(text: str) -> list[str]:
    """The variables of such sizes in a text."""
    return list(dict.fromkeys(re.findall(r"\bdim_\w+", text)))


def formula(size: Size, exact: Exact, name_of: Callable[[str], str] = size_name) -> str:
    """A size as an operand."""
    text = _expression(size.expr, exact, name_of) if isinstance(size, Dim) else str(size)
    return text if re.fullmatch(r"\w+|\w+\([^()]*\)", text) else f"({text})"


def _expression(e: sympy.Expr, exact: Exact, name_of: Callable[[str], str]) -> str:
    """An integer expression of sympy's."""

    def write(e: sympy.Expr) -> str:
        if e.is_Integer:
            return str(e)
        if e.is_Symbol:
            return name_of(e.name)
        numer, denom = e.together().as_numer_denom()
        if denom != 1:
            return exact(write(numer), write(denom))
        if e.is_Add:
            return " + ".join(f"({t})" if t.startswith("-") else t for t in map(write, e.args))
        if e.is_Mul:
            return " * ".join(f"({write(a)})" if a.is_Add or a.is_negative else write(a) for a in e.args)
        if e.is_Pow:
            return " * ".join([f"({write(e.base)})"] * int(e.exp))
        name = type(e).__name__
        if name == "floor":
            return f"floor_div({', '.join(map(write, e.args[0].together().as_numer_denom()))})"
        return functools.reduce(lambda a, b: f"{_FUNCTIONS[name]}({a}, {b})", map(write, e.args))

    return write(e)
