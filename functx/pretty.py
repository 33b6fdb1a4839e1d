"""Graphs as text. The text is deterministic, reads like a jaxpr, and :mod:`functx.parse` reads it back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from functx import dtypes
from functx.dtypes import Kind
from functx.ir import Atom, Eqn, Graph, InRole, Literal, OutRole, Var, set_formatter
from functx.resize import dims_in
from functx.shapes import Dim


def format_graph(graph: Graph, *, sources: bool = True) -> str:
    """The text of a graph; ``sources`` adds the user's line to each equation as a comment."""
    return _Printer(sources).graph(graph, indent="")


def graph_digest(graph: Graph) -> str:
    """A digest of everything a backend sees: the text without source lines, and what is known of symbolic sizes, by which code generators
    decide. Equal graphs of different functions have equal digests.
    """
    known = {d.sizes.knowledge() for d in dims_in(graph) if d.sizes is not None} if graph.symbolic else ()
    return hashlib.sha256("\n".join([format_graph(graph, sources=False), *sorted(filter(None, known))]).encode()).hexdigest()


def const_digest(array: np.ndarray) -> str:
    """A digest of a constant's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def var_name(index: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = ""
    index += 1
    while index:
        index, remainder = divmod(index - 1, 26)
        letters = chr(ord("a") + remainder) + letters
    return letters


class _Printer:
    def __init__(self, sources: bool):
        self.sources = sources
        self.names: dict[Var, str] = {}
        self.declared = 0
        self.regions: dict[int, int] = {}
        self.remats: dict[int, int] = {}

    def declare(self, var: Var) -> str:
        self.names[var] = var_name(self.declared)
        self.declared += 1
        return f"{self.names[var]}:{var.aval}"

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Literal):
            return f"{_scalar(atom.value)}:{dtypes.name(atom.aval.dtype)}"
        return self.names.get(atom, "?unbound")  # a broken graph must print too

    def graph(self, graph: Graph, indent: str) -> str:
        inputs = " ".join(self.declare(s.var) + _role(s.role, InRole.PRIMAL) for s in graph.inputs)
        lines = [f"{{ lambda {inputs} ."]
        for var, array in graph.consts:
            lines.append(f"  {self.declare(var)} = const[{const_digest(array)}]")
        lines += [self.eqn(eqn, indent) for eqn in graph.eqns]
        results = " ".join(
            self.atom(s.atom) + _role(s.role, OutRole.RESULT) + ("" if s.target is None else f"@{s.target}") + _kind(s.kind)
            for s in graph.outputs
        )
        lines.append(f"  return {results} }}")
        return f"\n{indent}".join(lines)

    def eqn(self, eqn: Eqn, indent: str) -> str:
        params = _params(eqn.params, lambda g: "\n" + indent + "    " + self.graph(g, indent + "    "))
        inputs = "".join(" " + self.atom(a) for a in eqn.inputs)
        outputs = " ".join(self.declare(v) for v in eqn.outputs)
        text = f"  {outputs} = {eqn.primitive.name}{params}{inputs}"
        if eqn.mark is not None:
            region = self.regions.setdefault(eqn.mark.region, len(self.regions))
            text += f" <{eqn.mark.phase} {region}>"
        if eqn.remat is not None:
            text += f" <remat {self.remats.setdefault(eqn.remat, len(self.remats))}>"
        if self.sources and eqn.source is not None:
            text += f"  # {eqn.source.short}"
        return text


def _scalar(value: np.generic) -> str:
    return repr(value.item()) if value.dtype.name != "bfloat16" else repr(float(value))


def _role(role: InRole | OutRole, default: InRole | OutRole) -> str:
    return "" if role is default else f"<{role.value}>"


def _kind(kind: Kind) -> str:
    return {Kind.PYTHON: "~", Kind.SCALAR: "'", Kind.ARRAY: ""}[kind]


def _params(params: Mapping[str, Any], graph: Any) -> str:
    if not params:
        return ""
    return "[" + " ".join(f"{key}={format_value(value, graph)}" for key, value in params.items()) + "]"


def format_value(value: Any, graph: Any = str) -> str:
    """A parameter as text without blanks (sub-graphs excepted, which ``graph`` prints)."""
    if isinstance(value, Graph):
        return graph(value)
    if isinstance(value, np.dtype):
        return dtypes.name(value)
    if isinstance(value, Dim):
        return f"{{{value}}}".replace(" ", "")
    if isinstance(value, tuple):
        inner = ",".join(format_value(v, graph) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be printed")


set_formatter(format_graph)
