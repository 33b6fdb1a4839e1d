"""Graphs at other sizes: symbols replaced by numbers or by other expressions, in types and parameters, however deep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from functx.dims import Dim
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, Literal, Var, read
from functx.util import zip_strict

Change = Callable[[Dim], Any]


def resized(value: Any, change: Change) -> Any:
    """A type, parameter or graph with every Dim changed."""
    if isinstance(value, Dim):
        return change(value)
    if isinstance(value, AbstractArray):
        return AbstractArray(resized(value.shape, change), value.dtype, value.kind)
    if isinstance(value, tuple):
        return tuple(resized(v, change) for v in value)
    return _graph(value, change) if isinstance(value, Graph) and value.symbolic else value


def _graph(graph: Graph, change: Change) -> Graph:
    env: dict[Var, Atom] = {}

    def fresh(var: Var) -> Var:
        env[var] = Var(resized(var.aval, change))
        return env[var]

    inputs = tuple(Input(fresh(slot.var), slot.role) for slot in graph.inputs)
    consts = tuple((fresh(var), array) for var, array in graph.consts)
    eqns = tuple(
        eqn.replace(
            inputs=tuple(read(env, a) for a in eqn.inputs),
            params=resized_params(eqn.params, change),
            outputs=tuple(map(fresh, eqn.outputs)),
        )
        for eqn in graph.eqns
    )
    return Graph(inputs, consts, eqns, graph.outputs_in(env))


def resized_params(params: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The parameters of an equation."""
    return {name: resized(value, change) for name, value in params.items()}


def sizes_in(params: Mapping[str, Any]) -> list[Dim]:
    """The Dims in the parameters of an equation, or of an operation that makes a view."""
    found: list[Dim] = []

    def note(dim: Dim) -> Dim:
        found.append(dim)
        return dim

    resized_params(params, note)
    return found


def at_sizes(eqn: Eqn, sizes: Mapping[Any, int]) -> Eqn:
    """An equation at known sizes. A size that it binds itself stays as it is."""
    return eqn.replace(params=resized_params(eqn.params, lambda dim: dim.at(sizes)))


def symbols_of(graph: Graph) -> set[Any]:
    """The symbols in the types and parameters of a graph that neither it nor a body in it binds."""
    found: set[Any] = set()
    bound: set[Any] = set()

    def note(dim: Dim) -> Dim:
        found.update(dim.expr.free_symbols)
        return dim

    for var in (*graph.in_vars, *(v for eqn in graph.eqns for v in eqn.outputs)):
        resized(var.aval, note)
    for eqn in graph.eqns:
        for name, value in eqn.params.items():
            if isinstance(value, Graph):
                found |= symbols_of(value)
            elif name == eqn.primitive.binds and isinstance(value, Dim):
                bound |= value.expr.free_symbols
            else:
                resized(value, note)
    return found - bound


def dims_in(graph: Graph) -> list[Dim]:
    """All Dims in the types and parameters of a graph, however deep."""
    found: list[Dim] = []

    def note(dim: Dim) -> Dim:
        found.append(dim)
        return dim

    for var in (*graph.in_vars, *(v for eqn in graph.eqns for v in eqn.outputs)):
        resized(var.aval, note)
    for eqn in graph.eqns:
        for value in eqn.params.values():
            if isinstance(value, Graph):
                found += dims_in(value)
            else:
                resized(value, note)
    return found


class Binders:
    """Which equations stay because of the sizes that they bind, for who goes from the last equation to the first and drops some."""

    def __init__(self, eqns: Sequence[Eqn]):
        self._bind = any(_binds(eqn) for eqn in eqns)
        self._mentioned: set[Any] = set()

    def needs(self, eqn: Eqn) -> bool:
        """Whether an equation binds a size that one mentions which stays."""
        return self._bind and not self._mentioned.isdisjoint(_binds(eqn))

    def keep(self, eqn: Eqn) -> None:
        """The equation stays, and what it mentions is needed."""
        if self._bind:

            def note(dim: Dim) -> Dim:
                self._mentioned.update(dim.expr.free_symbols)
                return dim

            resized_params(eqn.params, note)
            for var in eqn.outputs:
                resized(var.aval, note)


def _binds(eqn: Eqn) -> set[Any]:
    dim = eqn.params.get(eqn.primitive.binds)
    return dim.expr.free_symbols if isinstance(dim, Dim) else set()


def fitted(graph: Graph, atoms: Sequence[Atom]) -> Graph:
    """The graph at the sizes that its first inputs have where they stand for ``atoms``."""
    if not graph.symbolic:
        return graph
    sizes: dict[Any, Any] = {}
    for var, atom in zip(graph.in_vars, atoms, strict=False):
        for d, n in zip(var.aval.shape, atom.aval.shape, strict=True):
            if isinstance(d, Dim) and d.name is not None:
                sizes.setdefault(d.expr, n)
    return resized(graph, lambda dim: dim.where(sizes))


def bind_sizes(atoms: Sequence[Atom], arrays: Sequence[Any], sizes: MutableMapping[Any, int]) -> None:
    """Note what the symbols stand for that are whole axes of these values (None: one that is elsewhere)."""
    for atom, array in zip_strict(atoms, arrays):
        if not isinstance(atom, Literal) and array is not None:
            for d, n in zip(atom.aval.shape, np.shape(array), strict=True):
                if isinstance(d, Dim) and d.name is not None:
                    sizes.setdefault(d.expr, n)
