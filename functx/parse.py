"""Read back what :mod:`functx.pretty` prints, given the constants. Source lines are comments and are lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import dtypes
from functx.dtypes import Kind
from functx.errors import GraphError
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, InRole, Literal, Mark, Output, OutRole, Var
from functx.pretty import const_digest
from functx.primitive import PRIMITIVES
from functx.shapes import Dim

_KINDS = {"~": Kind.PYTHON, "'": Kind.SCALAR, "": Kind.ARRAY}

_SKIP = re.compile(r"(\s|#[^\n]*)*")
_DECLARATION = re.compile(r"([a-z]+):(\w+)\[([^\]]*)\]([~']?)")
_LITERAL = re.compile(r"(-?(?:\d[\w.+-]*|(?:inf|nan)j?)|\([\w.+-]*j\)|True|False):(\w+)(?!\w|\[)")
_NAME = re.compile(r"[a-z]+(?![\w:])")
_PRIMITIVE = re.compile(r"[a-z]\w*")
_KEY = re.compile(r"(\w+)=")
_SCALAR_VALUE = re.compile(r"-?\d[\w.+-]*|-?inf|nan|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|None|True|False")
_DTYPE = re.compile(r"(?:bool|bf16|[iufc]\d+)\b")
_MARK = re.compile(r"<(forward|backward) (\d+)>")
_REMAT = re.compile(r"<remat (\d+)>")
_ROLE = re.compile(r"<([a-z]+)>")
_TARGET = re.compile(r"@(\d+)")


def parse_graph(text: str, consts: Sequence[np.ndarray] = ()) -> Graph:
    """The graph that prints as ``text``.

    Args:
      consts: the arrays that the text names by digest, in any order.

    Raises:
      GraphError: the text is no graph, or names a constant that was not given.
    """
    parser = _Parser(text, {const_digest(array): array for array in consts})
    graph = parser.graph()
    parser.expect_end()
    return graph


class _Parser:
    def __init__(self, text: str, consts: dict[str, np.ndarray]):
        self.text, self.place, self.consts = text, 0, consts
        self.vars: dict[str, Var] = {}

    # --- tokens ---------------------------------------------------------------------------------------------------------------------------

    def take(self, pattern: re.Pattern[str], *, skip: bool = True) -> re.Match[str] | None:
        """The match of ``pattern`` here, past blanks and comments unless it must follow directly."""
        start = _SKIP.match(self.text, self.place).end() if skip else self.place
        match = pattern.match(self.text, start)
        if match:
            self.place = match.end()
        return match

    def accept(self, symbol: str, *, skip: bool = True) -> bool:
        return self.take(re.compile(re.escape(symbol)), skip=skip) is not None

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.error(f"expected {symbol!r}")

    def expect_end(self) -> None:
        if _SKIP.match(self.text, self.place).end() != len(self.text):
            raise self.error("expected the end")

    def error(self, what: str) -> GraphError:
        line = self.text.count("\n", 0, self.place) + 1
        return GraphError(f"line {line} of a graph's text: {what} at {self.text[self.place : self.place + 40]!r}")

    # --- grammar --------------------------------------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        self.expect("{")
        self.expect("lambda")
        inputs = []
        while var := self.declaration():
            inputs.append(Input(var, self.role(InRole, InRole.PRIMAL)))
        self.expect(".")
        consts: list[tuple[Var, np.ndarray]] = []
        eqns: list[Eqn] = []
        while not self.accept("return"):
            self.binding(consts, eqns)
        outputs = []
        while not self.accept("}"):
            outputs.append(self.output())
        return Graph(tuple(inputs), tuple(consts), tuple(eqns), tuple(outputs))

    def declaration(self) -> Var | None:
        match = self.take(_DECLARATION)
        if match is None:
            return None
        name, dtype, shape, kind = match.groups()
        dims = tuple(self.dimension(d) for d in _split_dimensions(shape))
        self.vars[name] = var = Var(AbstractArray(dims, dtypes.from_name(dtype), _KINDS[kind]))
        return var

    def dimension(self, text: str) -> Any:
        return int(text) if text.strip().isdigit() else Dim.parse(text)

    def role(self, roles: Any, default: Any) -> Any:
        match = self.take(_ROLE, skip=False)
        return roles(match.group(1)) if match else default

    def binding(self, consts: list[tuple[Var, np.ndarray]], eqns: list[Eqn]) -> None:
        outputs = []
        while var := self.declaration():
            outputs.append(var)
        self.expect("=")
        if self.accept("const["):
            digest = self.take(re.compile(r"\w+")).group()
            self.expect("]")
            if digest not in self.consts:
                raise self.error(f"no constant with digest {digest} was given")
            consts.append((outputs[0], self.consts[digest]))
            return
        name = self.take(_PRIMITIVE)
        if name is None or name.group() not in PRIMITIVES:
            raise self.error("expected the name of a primitive")
        params = self.params()
        inputs = []
        while (atom := self.atom()) is not None:
            inputs.append(atom)
        mark, remat = self.take(_MARK), self.take(_REMAT)
        eqns.append(
            Eqn(
                PRIMITIVES[name.group()],
                tuple(inputs),
                params,
                tuple(outputs),
                None,
                Mark(int(mark.group(2)), mark.group(1)) if mark else None,
                int(remat.group(1)) if remat else None,
            )
        )

    def atom(self) -> Atom | None:
        if literal := self.take(_LITERAL):
            dtype = dtypes.from_name(literal.group(2))
            return Literal(_number(literal.group(1)), dtype)
        name = self.take(_NAME)
        if name is None:
            return None
        if name.group() == "return" and "return" not in self.vars:
            self.place = name.start()
            return None
        if name.group() not in self.vars:
            raise self.error(f"{name.group()} is not bound")
        return self.vars[name.group()]

    def output(self) -> Output:
        atom = self.atom()
        if atom is None:
            raise self.error("expected a result")
        role = self.role(OutRole, OutRole.RESULT)
        target = self.take(_TARGET, skip=False)
        kind = next(k for suffix, k in _KINDS.items() if not suffix or self.accept(suffix, skip=False))
        return Output(atom, role, int(target.group(1)) if target else None, kind)

    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if self.accept("[", skip=False):
            while key := self.take(_KEY):
                params[key.group(1)] = self.value()
            self.expect("]")
        return params

    def value(self) -> Any:
        if self.accept("("):
            items = []
            while not self.accept(")"):
                items.append(self.value())
                self.accept(",")
            return tuple(items)
        if self.take(re.compile(r"\{ lambda")):
            self.place -= len("{ lambda")
            outer, self.vars = self.vars, dict(self.vars)
            graph = self.graph()
            self.vars = outer
            return graph
        if dim := self.take(re.compile(r"\{([^}]*)\}")):
            return Dim.parse(dim.group(1))
        if dtype := self.take(_DTYPE):
            return dtypes.from_name(dtype.group())
        match = self.take(_SCALAR_VALUE)
        if match is None:
            raise self.error("expected a value")
        return _number(match.group())


def _split_dimensions(shape: str) -> list[str]:
    """The dimensions of a printed shape: commas inside parentheses (``Mod(n, 3)``) do not separate."""
    dims, depth = [""], 0
    for c in shape:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            dims.append("")
        else:
            dims[-1] += c
    return [d for d in dims if d.strip()]


def _number(text: str) -> Any:
    if text.strip("()").endswith("j"):
        return complex(text)
    return float(text) if text.lstrip("-") in ("inf", "nan") else ast.literal_eval(text)
