"""Evaluation of a graph, equation by equation, with the primitives' reference implementations. This is the definition of a graph's
meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functx import config
from functx.dtypes import is_inexact
from functx.errors import FunctxError, IndexOutOfBoundsError, IntegerOverflowError, NonFiniteError
from functx.ir import Atom, Eqn, Graph, Literal, Var
from functx.resize import at_sizes, bind_sizes
from functx.util import zip_strict


def eval_graph(graph: Graph, args: Sequence[Any], known: Mapping[Var, Any] | None = None) -> list[Any]:
    """Evaluate ``graph`` on arrays.

    Args:
      args: one array (or NumPy scalar) per input.
      known: values of variables computed before; their equations are not run again, unless they have effects, which are still to happen.

    Results may be views of the arguments, of constants or of each other; who hands them out copies.
    """
    env: dict[Var, Any] = dict(zip_strict(graph.in_vars, args))
    env.update(graph.consts)
    if known:
        env.update(known)
    last_use = _last_use(graph)
    sizes: dict[Any, int] = {}
    if graph.symbolic:
        bind_sizes(graph.in_vars, args, sizes)
    for i, eqn in enumerate(graph.eqns):
        if eqn.effect or not all(v in env for v in eqn.outputs):
            env.update(zip_strict(eqn.outputs, eval_eqn(at_sizes(eqn, sizes) if graph.symbolic else eqn, env)))
        if graph.symbolic:
            bind_sizes(eqn.outputs, [env[v] for v in eqn.outputs], sizes)
        for var in last_use.get(i, ()):
            env.pop(var, None)
    return [value_of(env, atom) for atom in graph.out_atoms]


def eval_eqn(eqn: Eqn, env: Mapping[Var, Any]) -> Sequence[Any]:
    """Run one equation. Errors of what it checks gain the user's line; others, those of a callback, come out as they are."""
    arrays = [value_of(env, atom) for atom in eqn.inputs]
    try:
        with np.errstate(all="ignore"):
            outs = eqn.primitive.evaluate(arrays, eqn.params)
    except (IndexError, OverflowError) as error:
        if eqn.primitive.checks(eqn.inputs, **eqn.params) is None:
            raise
        raise located(error, eqn) from None
    options = config.current()
    if options.watches_values:
        _watch(eqn, arrays, outs, options)
    return outs


def _watch(eqn: Eqn, arrays: Sequence[Any], outs: Sequence[Any], options: config.Config) -> None:
    """Raise if something not finite is born here. Equations with graphs have told already, from inside."""
    tests = [test for test, on in ((np.isnan, options.debug_nans), (np.isinf, options.debug_infs)) if on]
    for test in tests:
        bad = next((out for out in map(np.asarray, outs) if is_inexact(out.dtype) and test(out).any()), None)
        if bad is not None and not any(is_inexact(np.asarray(x).dtype) and test(x).any() for x in arrays):
            raise _not_finite(eqn, arrays, bad, tuple(int(i) for i in np.argwhere(test(bad))[0]))


def _not_finite(eqn: Eqn, arrays: Sequence[Any], bad: np.ndarray, index: tuple[int, ...]) -> NonFiniteError:
    """The error for a value that is not finite, with the operands that it comes from where they are as large as the result."""
    at = f" at index {', '.join(map(str, index))}" if index else ""
    shown = [np.asarray(x)[index] if np.shape(x) == bad.shape else np.asarray(x) for x in arrays]
    operands = ", ".join(str(x) if x.ndim == 0 else f"an array of shape {x.shape}, from {x.min()} to {x.max()}" for x in shown if x.size)
    derivative = eqn.mark is not None and eqn.mark.phase == "backward"
    return NonFiniteError(
        f"'{eqn.primitive.name}' gave {bad[index]}{at}" + (f", for {operands}" if operands else ""),
        where=eqn.source and eqn.source.describe(),
        why=f"none of its operands was so; it is {'part of the derivative of' if derivative else 'computed on'} this line",
        fix="keep the operands where the function or its derivative is finite: np.where chooses the operand before the operation",
    )


def value_of(env: Mapping[Var, Any], atom: Atom) -> Any:
    """The value of an atom."""
    return atom.value if isinstance(atom, Literal) else env[atom]


def located(error: Exception, eqn: Eqn) -> Exception:
    """The error of one equation as functx's own class, with the user's line."""
    if isinstance(error, FunctxError) and error.where:
        return error
    kind = IndexOutOfBoundsError if isinstance(error, IndexError) else IntegerOverflowError
    what = error.what if isinstance(error, FunctxError) else str(error)
    return kind(what, where=eqn.source.describe() if eqn.source else None)


def _last_use(graph: Graph) -> dict[int, list[Var]]:
    """Which variables die after each equation, so that evaluation does not hold every intermediate array."""
    keep = {atom for atom in graph.out_atoms if isinstance(atom, Var)}
    seen: set[Var] = set()
    dead: dict[int, list[Var]] = {}
    for i in range(len(graph.eqns) - 1, -1, -1):
        for atom in (*graph.eqns[i].inputs, *graph.eqns[i].outputs):
            if isinstance(atom, Var) and atom not in seen and atom not in keep:
                seen.add(atom)
                dead.setdefault(i, []).append(atom)
    return dead
