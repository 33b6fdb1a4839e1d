"""The passes that make a graph smaller without changing what it computes. Each is ``Graph -> Graph`` and pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functx.dtypes import is_inexact
from functx.interpret import eval_eqn
from functx.ir import Atom, Eqn, Graph, Literal, Var, read
from functx.primitive import Emitter
from functx.resize import Binders
from functx.shapes import is_static
from functx.util import zip_strict

# A folded constant may be at most this large; larger ones are cheaper to compute than to carry.
MAX_FOLDED_BYTES = 4096


def dead_code(graph: Graph) -> Graph:
    """Drop equations whose results nobody reads; effects stay, and so does what may fail where nothing else checks the same."""
    live: set[Atom] = set(graph.out_atoms)
    checked = {key for eqn in _live(graph.eqns, live) if (key := eqn.primitive.checks(eqn.inputs, **eqn.params)) is not None}
    unchecked = {}
    for eqn in graph.eqns:
        key = eqn.primitive.checks(eqn.inputs, **eqn.params)
        if key is not None and key not in checked:
            unchecked.setdefault(key, eqn)
    for eqn in unchecked.values():
        live.update(eqn.outputs)
    kept = _live(graph.eqns, live)
    consts = tuple((v, a) for v, a in graph.consts if v in live)
    return graph.replace(eqns=tuple(reversed(kept)), consts=consts)


def _live(eqns: Sequence[Eqn], live: set[Atom]) -> list[Eqn]:
    """The equations that compute what is in ``live``, last first; adds what they read to it."""
    kept, binders = [], Binders(eqns)
    for eqn in reversed(eqns):
        if eqn.effect or not live.isdisjoint(eqn.outputs) or binders.needs(eqn):
            eqn = _pruned(eqn, live)
            live.update(eqn.inputs)
            binders.keep(eqn)
            kept.append(eqn)
    return kept


def _pruned(eqn: Eqn, live: set[Atom]) -> Eqn:
    """An equation of control flow without results that nobody reads, and what only they need."""
    used = [v in live for v in eqn.outputs]
    if eqn.primitive.prune is None:
        return eqn
    inputs, params, remaining = eqn.primitive.prune(eqn.inputs, used, **eqn.params)
    return eqn.replace(inputs=tuple(inputs), params=params, outputs=tuple(v for v, flag in zip_strict(eqn.outputs, remaining) if flag))


def common_subexpressions(graph: Graph) -> Graph:
    """Compute equal things once. A recomputation is never merged with what it recomputes: its id is part of the key."""
    env: dict[Var, Atom] = {}
    seen: dict[Any, tuple[Var, ...]] = {}
    consts: dict[Any, Var] = {}
    kept_consts = []
    for var, array in graph.consts:
        key = (array.dtype.str, array.shape, array.tobytes())
        if key in consts:
            env[var] = consts[key]
        else:
            consts[key] = var
            kept_consts.append((var, array))
    eqns = []
    for eqn in graph.eqns:
        inputs = tuple(read(env, a) for a in eqn.inputs)
        key = (eqn.primitive, inputs, hashable(eqn.params), eqn.remat)
        if not eqn.effect and key in seen:
            env.update(zip_strict(eqn.outputs, seen[key]))
            continue
        seen[key] = eqn.outputs
        eqns.append(eqn if inputs == eqn.inputs else eqn.replace(inputs=inputs))
    return graph.replace(eqns=tuple(eqns), consts=tuple(kept_consts), outputs=graph.outputs_in(env))


def fold_constants(graph: Graph) -> Graph:
    """Evaluate equations whose operands are all constants, where the result is small. Arrays read by reference are inputs, never folded."""
    values: dict[Var, Any] = dict(graph.consts)
    env: dict[Var, Atom] = {}
    b = Emitter()
    b.consts.update(graph.consts)
    for eqn in graph.eqns:
        eqn = eqn.replace(inputs=tuple(read(env, a) for a in eqn.inputs))
        results = _folded(eqn, values)
        if results is not None:
            values.update(zip_strict(eqn.outputs, results))
        # A broadcast or iota is the compact form of its value already.
        if results is None or eqn.primitive.name in ("broadcast", "iota"):
            b.eqns.append(eqn)
            continue
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        for var, result in zip_strict(eqn.outputs, results):
            env[var] = _constant(b, result)
            values[env[var]] = result
    return b.build(graph.inputs, graph.outputs_in(env))


def _folded(eqn: Eqn, values: Mapping[Var, Any]) -> list[np.ndarray] | None:
    """The results of an equation on constants; None if it is not foldable."""
    constant = all(isinstance(a, Literal) or a in values for a in eqn.inputs)
    small = all(v.aval.nbytes_hint <= MAX_FOLDED_BYTES and is_static(v.aval.shape) for v in eqn.outputs)
    if not constant or not small or eqn.effect or eqn.symbolic:
        return None
    try:
        return [np.asarray(r, v.aval.dtype) for r, v in zip_strict(eval_eqn(eqn, values), eqn.outputs)]
    except Exception:  # it fails when it runs, at its place and with its line
        return None


def _constant(b: Emitter, value: np.ndarray) -> Atom:
    """An atom for a constant, as a broadcast literal where all places hold the same bits."""
    flat = np.ascontiguousarray(value).reshape(-1)
    if value.ndim and flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size:
        return b.full(value.shape, flat[0], value.dtype)
    return b.const(value)


def rewrite(graph: Graph, rules: Mapping[str, Callable[[Rewriter, Eqn], Atom | None]]) -> Graph:
    """Replace equations by what the rule of their primitive, or else of its family, returns (None: keep)."""
    rewriter = Rewriter(graph)
    for eqn in graph.eqns:
        rewriter.visit(eqn, [rules[key] for key in (eqn.primitive.name, eqn.primitive.family) if key in rules])
    b = rewriter.builder
    return b.build(graph.inputs, graph.outputs_in(rewriter.env))


class Rewriter:
    """What rewrite rules see: the builder, and the equation that computes a value."""

    def __init__(self, graph: Graph):
        self.builder = Emitter()
        self.builder.consts.update(graph.consts)
        self.env: dict[Var, Atom] = {}
        self._producers: dict[Var, Eqn] = {}

    def visit(self, eqn: Eqn, rules: Sequence[Callable[[Rewriter, Eqn], Atom | None]]) -> None:
        """Rewrite one equation by the first rule that applies, or copy it."""
        b = self.builder
        b.source, b.mark, b.remat = eqn.source, eqn.mark, eqn.remat
        current = eqn.replace(inputs=tuple(read(self.env, a) for a in eqn.inputs))
        start = len(b.eqns)
        replacement = next((r for r in (rule(self, current) for rule in rules) if r is not None), None)
        if replacement is None:
            b.eqns.append(current)
        else:
            self.env[eqn.outputs[0]] = replacement
        for new in b.eqns[start:]:
            self._producers.update(dict.fromkeys(new.outputs, new))

    def producer(self, atom: Atom) -> Eqn | None:
        """The equation that computes ``atom``."""
        return self._producers.get(atom) if isinstance(atom, Var) else None

    def uniform(self, atom: Atom) -> np.generic | None:
        """The value of a constant that is the same in every place."""
        if isinstance(atom, Literal):
            return atom.value
        eqn = self.producer(atom)
        while eqn is not None and eqn.primitive.name in ("broadcast", "reshape", "transpose"):
            atom = eqn.inputs[0]
            if isinstance(atom, Literal):
                return atom.value
            eqn = self.producer(atom)
        return None


def hashable(value: Any) -> Any:
    """A parameter mapping as a dictionary key; types are part of it, for 1, 1.0 and True are equal."""
    if isinstance(value, Mapping):
        return tuple((k, hashable(value[k])) for k in sorted(value))
    if isinstance(value, tuple):
        return tuple(hashable(v) for v in value)
    return (type(value), value)


def is_float(atom: Atom) -> bool:
    """Whether an atom is floating or complex."""
    return is_inexact(atom.aval.dtype)
