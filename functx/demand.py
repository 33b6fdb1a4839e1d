"""Values on demand (law 4): evaluate just the slice of a trace that a value needs, once, and say clearly when it cannot be known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functx import effects
from functx.dtypes import is_inexact
from functx.errors import ConcretizationError, DroppedGradientError
from functx.interpret import eval_eqn
from functx.ir import Atom, Eqn, Literal, Var
from functx.trace import MISSING, Trace, TraceInput, Tracer, where


def demand(trace: Trace, atom: Atom) -> Any:
    """The value of ``atom`` in ``trace``; ConcretizationError if it depends on something unknown."""
    trace.demanded = True
    if isinstance(atom, Literal):
        return atom.value
    known = trace.known
    if atom not in known:
        needed, inputs = slice_of(trace, atom, stop=known)
        _refuse_effects([trace.eqns[index] for index in needed])
        for slot in inputs:
            known[slot.var] = _input_value(trace, slot)
        for index in sorted(needed):
            eqn = trace.eqns[index]
            env = {a: known[a] if a in known else trace.builder.consts[a] for a in eqn.inputs if isinstance(a, Var)}
            known.update(zip(eqn.outputs, eval_eqn(effects.silenced(eqn), env), strict=True))
    return known[atom] if atom in known else trace.builder.consts[atom]


def slice_of(trace: Trace, atom: Var, stop: Any = ()) -> tuple[set[int], list[TraceInput]]:
    """The indices of the equations and the inputs that ``atom`` depends on; the search ends at variables in ``stop``."""
    needed: set[int] = set()
    inputs: dict[Var, TraceInput] = {}
    work = [atom]
    while work:
        var = work.pop()
        if var in stop:
            continue
        slot = trace.input_of(var)
        if slot is not None:
            inputs[var] = slot
            continue
        index = trace.producer(var)
        if index is not None and index not in needed:
            needed.add(index)
            work.extend(a for a in trace.eqns[index].inputs if isinstance(a, Var))
    return needed, list(inputs.values())


def _refuse_effects(eqns: Iterable[Eqn]) -> None:
    """Effects happen when the function runs, not while it is traced: loops that have some are evaluated without them to tell a value."""
    eqn = next((e for e in eqns if effects.gives_values(e)), None)
    if eqn is not None:
        raise ConcretizationError(
            f"a value was needed that comes from {eqn.primitive.name}, which has not happened yet",
            where=where(),
            why=f"it happens when the function runs, after it is traced; it was called at {eqn.source or 'an unknown line'}",
            fix="choose with np.where or functx.cond, or call it outside of the transformed function and pass the result in",
        )


def is_known(trace: Trace, atom: Atom) -> bool:
    """Whether a value is known without a look at what would then hold for that value only (a Python scalar under jit)."""
    if isinstance(atom, Literal):
        return True
    for slot in slice_of(trace, atom)[1]:
        if slot.specialize is not None or slot.hidden:
            return False
        if slot.value is MISSING and (slot.outer is None or trace.opaque or not is_known(slot.outer.stage, slot.outer_atom)):
            return False
    return True


def _input_value(trace: Trace, slot: TraceInput) -> Any:
    if slot.specialize is not None:
        return slot.specialize()
    if slot.value is not MISSING and not slot.hidden:
        return slot.value
    if slot.outer is not None and not trace.opaque and not slot.hidden:
        return demand(slot.outer.stage, slot.outer_atom)
    what = f"argument {slot.label}" if slot.role.value == "primal" else (slot.label or "a value of the enclosing function")
    raise ConcretizationError(
        f"the value of a traced {slot.var.aval} was needed, but {trace.transform} of {trace.name} does not know it",
        where=where(),
        why=f"it depends on {what}, which stands for every array of its type"
        if not slot.var.aval.weak
        else f"it depends on {what}, whose value is not known here",
        fix="choose between values with np.where(condition, a, b), between computations with functx.cond(condition, f, g, x); "
        "a Python int, float or bool argument may be used in if, range and indexing",
    )


def depends_on_differentiated(trace: Trace, atom: Atom) -> bool:
    """Whether derivatives flow into ``atom`` from an argument that is being differentiated, here or in an enclosing trace."""
    work = [(trace, atom)]
    while work:
        trace, var = work[-1]
        if isinstance(var, Literal) or var in trace.depends:
            work.pop()
            continue
        sources = _derivative_sources(trace, var)
        if sources is None:
            trace.depends[var] = True
            continue
        unknown = [(t, v) for t, v in sources if not isinstance(v, Literal) and v not in t.depends]
        if unknown:
            work += unknown
        else:
            trace.depends[var] = any(not isinstance(v, Literal) and t.depends[v] for t, v in sources)
    return not isinstance(atom, Literal) and trace.depends[atom]


def _derivative_sources(trace: Trace, var: Var) -> list[tuple[Trace, Atom]] | None:
    """What the derivative of a variable comes from; None for a differentiated input itself."""
    if not is_inexact(var.aval.dtype):
        return []
    slot = trace.input_of(var)
    if slot is not None:
        return None if slot.differentiated else [(slot.outer.stage, slot.outer_atom)] if slot.outer is not None else []
    index = trace.producer(var)
    if index is None or not trace.eqns[index].primitive.differentiable:
        return []
    return [(trace, a) for a in trace.eqns[index].inputs]


# What to write instead of a conversion to a plain number or array.
_STAY_TRACED = (
    "use functions of NumPy on it (np.sin instead of math.sin); make arrays that receive it, or that it indexes, with fnp.zeros, fnp.array "
    "or buf = fnp.asarray(buf) (import functx.numpy as fnp)"
)


def plain_value(tracer: Tracer, conversion: str) -> Any:
    """The value of a tracer that is about to become a plain number or array; raises if that would drop a derivative."""
    trace = tracer.stage
    if not trace.closed and depends_on_differentiated(trace, tracer.atom):
        what = "number" if tracer.aval.ndim == 0 else "array"
        raise DroppedGradientError(
            f"{conversion} would turn a differentiated value of type {tracer.aval} into a plain {what} and drop its gradient",
            where=where(),
            why=f"{trace.transform} of {trace.name} follows values through operations on traced arrays only",
            fix=f"{_STAY_TRACED}; or functx.stop_gradient(x) if no gradient is wanted",
        )
    try:
        return tracer.value()
    except ConcretizationError as error:
        what = f"{conversion} needs the value of a traced {tracer.aval}, which is unknown"
        raise ConcretizationError(what, where=error.where, why=error.why, fix=_STAY_TRACED) from None
