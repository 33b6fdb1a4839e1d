"""Reverse mode: one pass over a graph that emits its equations, and another back over them that emits cotangents.

:func:`pullback` writes into a given builder. In linear mode the equations that depend on the active inputs are not emitted at all: what
comes back is the transpose of a linear graph. Loops and choices among them are: a linear function is its own derivative everywhere, so that
of a loop at zero is taken, whose bodies are transposed in linear mode too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from functx import config
from functx.dtypes import is_complex, is_inexact
from functx.errors import NonLinearError
from functx.ir import AbstractArray, Atom, Eqn, Graph, Input, Mark, Output, Var, read
from functx.ops.scan import as_graph, zeros
from functx.primitive import Emitter, conjugate
from functx.util import zip_strict

Pull = Callable[[Emitter, Sequence[Atom | None]], Sequence[Atom | None]]


@dataclass(frozen=True)
class Pullback:
    """Results of a graph in the builder, how to pull cotangents back, and the map from the graph's variables to the builder's."""

    outs: list[Atom]
    pull: Pull
    env: Mapping[Var, Atom]


def pullback(b: Emitter, graph: Graph, atoms: Sequence[Atom], active: Sequence[bool], *, linear: bool = False) -> Pullback:
    """Emit ``graph`` applied to ``atoms``; ``pull(b, cts)`` then emits the cotangents of its active inputs (None: zero)."""
    env = b.enter(graph, atoms)
    alive = {v for v, is_active in zip_strict(graph.in_vars, active) if is_active and is_inexact(v.aval.dtype)}
    tape: list[tuple[Eqn, list[bool], Pull]] = []
    for eqn in graph.eqns:
        flags = [a in alive for a in eqn.inputs]
        reached = [v for v in eqn.outputs if is_inexact(v.aval.dtype)] if any(flags) and eqn.primitive.differentiable else []
        if reached and linear and eqn.primitive.family == "control":
            moved = dict(zip_strict(eqn.outputs, moved_outputs(b, eqn, flags)))
            reached = [v for v in reached if moved[v]]
        if not reached:
            if linear and any(flags):
                raise _not_linear(eqn)
            b.append(eqn, env, keep_marks=False)
            continue
        alive.update(reached)
        tape.append((eqn, flags, _forward(b, eqn, env, flags, linear)))

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> list[Atom | None]:
        cotangents: dict[Var, Atom | None] = {}
        for atom, ct in zip_strict(graph.out_atoms, cts):
            if atom in alive:
                cotangents[atom] = b.add_cotangents(cotangents.get(atom), ct)
        for eqn, flags, pull_eqn in reversed(tape):
            outs = [cotangents.pop(v, None) for v in eqn.outputs]
            if all(ct is None for ct in outs):
                continue
            b.source = eqn.source
            for atom, flag, ct in zip_strict(eqn.inputs, flags, pull_eqn(b, outs)):
                if flag and ct is not None:
                    cotangents[atom] = b.add_cotangents(cotangents.get(atom), ct)
        return [cotangents.get(v) for v in graph.in_vars]

    outs = [zeros(b, a.aval) if linear and a in alive else read(env, a) for a in graph.out_atoms]
    return Pullback(outs, pull, env)


def moved_outputs(b: Emitter, eqn: Eqn, flags: Sequence[bool]) -> list[bool]:
    """Which results of a loop or choice depend on its flagged operands, as derivatives do."""
    return b.interpreter.jvp(as_graph(b, eqn.primitive, eqn.inputs, eqn.params), flags)[1]


def mark_by_dependence(b: Emitter, start: int, cotangents: Sequence[Var], forward: Mark) -> None:
    """Give what a pull-back has emitted without need of a cotangent (a cosine for a sine) to the forward side: it could as well be computed
    there. Effects of backward rules stay; and all stays where values are watched, for a derivative to be called one.
    """
    if config.current().watches_values:
        return
    late, backward = set(cotangents), forward._replace(phase="backward")
    for i in range(start, len(b.eqns)):
        eqn = b.eqns[i]
        if eqn.effect or any(a in late for a in eqn.inputs):
            late.update(eqn.outputs)
        elif eqn.mark == backward:
            b.eqns[i] = eqn.replace(mark=forward)


def substitute(b: Emitter, start: int, env: Mapping[Var, Atom]) -> None:
    """Put other atoms in the place of variables, in what has been emitted from ``start`` on."""
    if env:
        b.eqns[start:] = [eqn.replace(inputs=tuple(read(env, a) for a in eqn.inputs)) for eqn in b.eqns[start:]]


def _forward(b: Emitter, eqn: Eqn, env: dict[Var, Atom], flags: Sequence[bool], linear: bool) -> Pull:
    """Emit an active equation (unless the graph is being transposed) and say how to pull its cotangents back."""
    primitive, ins = eqn.primitive, [read(env, a) for a in eqn.inputs]
    if linear and primitive.family == "control":
        return _forward_at_zero(b, eqn, env, ins, flags)
    if linear:
        _check_linear(eqn, flags)
        outs: Sequence[Atom] = [Var(v.aval) for v in eqn.outputs]  # never emitted: only their types are used
        env.update(zip_strict(eqn.outputs, outs))
    elif primitive.vjp is not None:
        outer, b.source, b.remat = b.remat, eqn.source, eqn.remat if eqn.remat is not None else b.remat
        outs, pull = primitive.vjp(b, ins, flags, **eqn.params)
        env.update(zip_strict(eqn.outputs, outs))
        b.remat = outer
        return pull
    else:
        b.append(eqn, env, keep_marks=False)
        outs = [env[v] for v in eqn.outputs]
    return lambda b, cts: pull_equation(b, eqn, ins, outs, flags, cts)


def _forward_at_zero(b: Emitter, eqn: Eqn, env: dict[Var, Atom], ins: Sequence[Atom], flags: Sequence[bool]) -> Pull:
    """A loop or choice that is linear in its flagged operands, whose values are unknown."""
    at_zero = [zeros(b, a.aval) if flag else a for a, flag in zip_strict(ins, flags)]
    b.source = eqn.source
    with _linearly(b):
        outs, pull_linear = eqn.primitive.vjp(b, at_zero, flags, **eqn.params)
    env.update(zip_strict(eqn.outputs, outs))

    def pull(b: Emitter, cts: Sequence[Atom | None]) -> Sequence[Atom | None]:
        with _linearly(b):
            return pull_linear(b, cts)

    return pull


@contextmanager
def _linearly(b: Emitter) -> Iterator[None]:
    """Rules that run meanwhile transpose their graphs, which must be linear."""
    outer, b.interpreter = b.interpreter, b.interpreter.as_linear()
    try:
        yield
    finally:
        b.interpreter = outer


def pull_equation(
    b: Emitter, eqn: Eqn, ins: Sequence[Atom], outs: Sequence[Atom], flags: Sequence[bool], cts: Sequence[Atom | None]
) -> list[Atom | None]:
    """Cotangents of the operands of one equation, from the one rule that its primitive has."""
    primitive, params = eqn.primitive, eqn.params
    if primitive.partials is not None:
        return [
            _unscale(b, cts[0], partial, outs[0], ins, params, ins[i].aval) if flag else None
            for i, (partial, flag) in enumerate(zip_strict(primitive.partials, flags))
        ]
    linear = all(primitive.is_linear_in(i) for i, flag in enumerate(flags) if flag)
    if primitive.transpose is not None and (linear or primitive.jvp is None):
        return [primitive.transposed(b, cts[0], i, ins, params) if flag else None for i, flag in enumerate(flags)]
    if primitive.jvp is None:
        raise primitive.missing("jvp")
    return _transposed_jvp(b, eqn, ins, outs, flags, cts)


def scale(b: Emitter, t: Atom, partial: Any, out: Atom, ins: Sequence[Atom], params: Mapping[str, Any]) -> Atom | None:
    """A tangent times a partial derivative, zero times anything being zero. Of a pair, the second one belongs to the conjugate tangent."""
    if partial is None:
        return None
    if not callable(partial):
        return _times_number(b, t, partial)
    value = partial(b, out, *ins, **params)
    if not isinstance(value, tuple):
        return None if value is None else b.mul_zero(t, value)
    total = b.add(b.mul_zero(t, value[0]), b.mul_zero(b.conj(t), value[1]))
    return total if is_complex(out.aval.dtype) else b.real(total)


def _unscale(
    b: Emitter, ct: Atom, partial: Any, out: Atom, ins: Sequence[Atom], params: Mapping[str, Any], operand: AbstractArray
) -> Atom | None:
    """The adjoint of :func:`scale` under Re sum(conj(a) * b): a cotangent times the conjugate of a partial."""
    if partial is None:
        return None
    if not callable(partial):
        return _times_number(b, ct, partial)
    value = partial(b, out, *ins, **params)
    if not isinstance(value, tuple):
        return None if value is None else b.mul_zero(ct, conjugate(b, value))
    whole = ct if is_complex(out.aval.dtype) else b.convert(ct, dtype=operand.dtype, checked=False)
    return b.add(b.mul_zero(whole, b.conj(value[0])), b.mul_zero(b.conj(whole), value[1]))


def _times_number(b: Emitter, t: Atom, number: float) -> Atom:
    return t if number == 1 else b.neg(t) if number == -1 else b.mul(t, b.full_like(t, number))


def _transposed_jvp(
    b: Emitter, eqn: Eqn, ins: Sequence[Atom], outs: Sequence[Atom], flags: Sequence[bool], cts: Sequence[Atom | None]
) -> list[Atom | None]:
    """Reverse mode of a primitive that has a jvp rule only: write the rule down in tangents, and transpose what it wrote."""
    scratch = Emitter(b.interpreter)
    scratch.source, scratch.mark, scratch.consts = b.source, b.mark, b.consts
    tangents = [Var(a.aval) if flag else None for a, flag in zip_strict(ins, flags)]
    out_tangents = eqn.primitive.jvp(scratch, outs, ins, tangents, **eqn.params)
    kept = [(t, ct) for t, ct in zip_strict(out_tangents, cts) if t is not None and ct is not None]
    given = [t for t in tangents if t is not None]
    graph = Graph(tuple(Input(t) for t in given), (), tuple(scratch.eqns), tuple(Output(t) for t, _ in kept))
    pulled = iter(pullback(b, graph, given, [True] * len(given), linear=True).pull(b, [ct for _, ct in kept]))
    return [next(pulled) if flag else None for flag in flags]


def _check_linear(eqn: Eqn, flags: Sequence[bool]) -> None:
    primitive = eqn.primitive
    linear = all(primitive.is_linear_in(i) for i, flag in enumerate(flags) if flag)
    if not linear or (primitive.bilinear and sum(flags) > 1):
        raise _not_linear(eqn)


def _not_linear(eqn: Eqn) -> NonLinearError:
    return NonLinearError(
        f"a function that must be linear is not: it applies '{eqn.primitive.name}' to a value that depends on its linear arguments",
        where=eqn.source.describe() if eqn.source else None,
        why="only linear functions can be transposed; the backward rule of a custom_vjp must be linear in its cotangents",
    )
