"""Selections whose size is unknown while tracing: places and repetitions as arrays of a size that their equation binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dims import Condition
from functx.dtypes import INT64
from functx.errors import DynamicShapeError
from functx.ir import Atom, Literal, Var
from functx.numpy import promote
from functx.ops.movement import size_value
from functx.trace import Trace, Tracer, current_trace, where


def places(condition: Tracer) -> Tracer:
    """The places where a flat condition holds. The same condition gives the same places, of one size."""
    return _bound("places", condition.atom, condition.aval.shape[0])


def repeated_places(counts: Tracer) -> Tracer:
    """Each place as many times as counts say."""
    return _bound("repeated_places", promote.convert(current_trace().emit, counts, INT64), None)


def _bound(primitive: str, operand: Atom, most: shapes.Size | None) -> Tracer:
    trace = current_trace()
    if most is not None and shapes.same(most, 0):
        return trace.tracer(trace.emit.full((0,), 0, INT64))
    for name, before, found in trace.selections:
        if name == primitive and same_value(trace, before, operand):
            return trace.tracer(found)
    found = getattr(trace.emit, primitive)(operand, count=trace.sizes.bind(most))
    trace.selections.append((primitive, operand, found))
    return trace.tracer(found)


def same_value(trace: Trace, a: Atom, b: Atom) -> bool:
    """Whether two atoms have the same value because the same operations give them."""
    work, seen = [(a, b)], set()
    while work:
        a, b = work.pop()
        if a == b or (a, b) in seen:
            continue
        if isinstance(a, Literal) or isinstance(b, Literal):
            return False
        seen.add((a, b))
        one, other = _producer(trace, a), _producer(trace, b)
        if one is None or other is None:
            return False
        if one.primitive is not other.primitive or one.effect or not shapes.same_params(one.params, other.params):
            return False
        if one.outputs.index(a) != other.outputs.index(b) or len(one.inputs) != len(other.inputs):
            return False
        work += zip(one.inputs, other.inputs, strict=True)
    return True


def _producer(trace: Trace, var: Var) -> Any:
    index = trace.producer(var)
    return None if index is None else trace.eqns[index]


def strides_of(dims: Sequence[int], order: str = "C") -> list[int]:
    """How far apart neighbours along each axis are in the flattened array."""
    steps = [1]
    for n in dims[:0:-1] if order == "C" else dims[:-1]:
        steps.append(steps[-1] * n)
    return steps[::-1] if order == "C" else steps


def coordinates(places: Any, dims: Sequence[int], order: str = "C") -> tuple[Any, ...]:
    """The coordinates of places in a flattened array; those out of range give coordinates that are."""
    slowest = 0 if order == "C" else len(dims) - 1
    parts = [np.floor_divide(places, step) for step in strides_of(dims, order)]
    return tuple(p if i == slowest else np.remainder(p, n) for i, (p, n) in enumerate(zip(parts, dims, strict=True)))


def check(condition: Any) -> None:
    """Promise something of sizes: from here on it counts as known, and a call in which it does not hold is an error. Of a size that depends
    on data it is checked where that is found, also if this line stands in a branch or a loop that does not run.

    Args:
      condition: a comparison of sizes (``x[x > 0].shape[0] <= 100``), or a plain bool.

    Raises:
      DynamicShapeError: it does not hold; for a size that depends on data when the compiled function runs.

    >>> import numpy as np
    >>> import functx as fx
    >>> def positive(x):
    ...     y = x[x > 0]
    ...     fx.check(y.shape[0] <= 2)
    ...     return y
    >>> fx.jit(positive, backend="reference")(np.array([1.0, -1.0, 2.0]))
    array([1., 2.])
    """
    if isinstance(condition, Condition):
        _promise(condition)
    elif isinstance(condition, Tracer):
        raise TypeError("functx.check takes comparisons of sizes; to check values use functx.debug.callback")
    elif not condition:
        raise DynamicShapeError("functx.check: the condition does not hold", where=where())


def _promise(condition: Condition) -> None:
    trace, difference = current_trace(), condition.difference
    kind = condition.kind if not condition.negated else "!=" if condition.kind == "==" else ">="
    if condition.negated and condition.kind == ">=":
        difference = -difference - 1
    if trace is None or difference.sizes is None:
        raise difference.number_needed(f"whether {condition.text} depends on the size")
    _check(difference, kind, f"functx.check: it does not hold that {condition.text}")


def require(size: shapes.Size, least: int, what: str) -> None:
    """Where it depends on data whether a size is at least so great: the compiled function raises a ValueError if it is not."""
    if shapes.at_least(size, least) is None and size.is_found:
        _check(size - least, ">=", what)


def _agree(a: shapes.Size, b: shapes.Size) -> None:
    """The compiled function checks that two sizes are equal, one of which depends on data; from here on it counts as known."""
    difference = a - b
    what = f"sizes that depend on data differ: {a} and {b} must be equal here"
    why = [f"{symbol} is how many elements are selected at {line}" for symbol, line in _origins(_home(difference), difference)]
    _check(difference, "==", what, "; ".join([*why, "a size that depends on data is not broadcast where it happens to be 1"]))


def _check(difference: shapes.Dim, kind: str, what: str, why: str = "") -> None:
    """The equation that checks what is known of a size from here on. It stands where the size is found, not in a branch or a loop that may
    never run: what is known is known everywhere.
    """
    with _home(difference).resumed():
        b = current_trace().emit
        b.promise(size_value(b, difference), kind=kind, what=what, why=why, line=where() or "")
    difference.sizes.assume(kind, difference.expr)


def _home(size: shapes.Dim) -> Trace:
    """The innermost trace that binds a symbol of a size; the present one where that has ended, and its equations are part of this."""
    trace = current_trace()
    while trace is not None and not _binders(trace, size):
        trace = trace.parent
    return trace or current_trace()


def _binders(trace: Trace, size: shapes.Dim) -> list[Var]:
    """The results of the selections of a trace that a size speaks of."""
    found = [var for _, _, var in trace.selections if isinstance(var.aval.shape[0], shapes.Dim)]
    return [var for var in found if var.aval.shape[0].expr in size.expr.free_symbols]


def _origins(trace: Trace, size: shapes.Dim) -> list[tuple[str, str]]:
    """The symbols in a size that this trace has bound, and the lines that did."""
    producers = [(str(var.aval.shape[0]), _producer(trace, var)) for var in _binders(trace, size)]
    return [(symbol, eqn.source.describe()) for symbol, eqn in producers if eqn is not None and eqn.source is not None]


shapes.Dim.agree = staticmethod(_agree)
