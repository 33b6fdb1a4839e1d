"""Calling back functions of the user's on arrays, pure ones and ones with effects. The graph sees their results' types only: they cannot be
differentiated, and compiled code calls them through their reference implementation.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.errors import CallbackError, UnsupportedError
from functx.ir import AbstractArray, Atom
from functx.primitive import Emitter, Primitive

BROADCAST = "broadcast"

_serial = itertools.count(1)
_numbers: weakref.WeakKeyDictionary[Any, dict[Hashable, int]] = weakref.WeakKeyDictionary()


class HostFunction(str):
    """The name of a function in a graph's text, which no other function has; it holds the function.

    Args:
      function: the user's function, which gives the name. The same one with the same ``form`` always has the same name, so that a
        program that is traced again has the same text.
      call: ``call(*arrays)`` gives a flat sequence of results.
      form: what else ``call`` depends on.
    """

    call: Callable[..., Sequence[Any]]

    def __new__(cls, function: Callable[..., Any], call: Callable[..., Sequence[Any]], form: Hashable = None) -> HostFunction:
        try:
            number = _numbers.setdefault(function, {}).setdefault(form, next(_serial))
        except TypeError:  # cannot be hashed, or not be referred to weakly
            number = next(_serial)
        name = super().__new__(cls, f"{getattr(function, '__name__', type(function).__name__)}#{number}")
        name.call = call
        return name


def _checked(function: HostFunction, operands: Sequence[Any], avals: Any) -> list[np.ndarray]:
    """The results of one call, of the types that were declared."""
    results = [np.array(r) for r in function.call(*map(_read_only, operands))]  # the function may change what it has returned
    name = function.partition("#")[0]
    if len(results) != len(avals):
        raise CallbackError(f"the callback {name} returned {len(results)} arrays where {len(avals)} were declared")
    for result, (shape, dtype) in zip(results, avals, strict=True):
        if result.shape != shape or result.dtype != dtype:
            raise CallbackError(
                f"the callback {name} returned an array of shape {result.shape}, dtype {result.dtype}, where one of shape "
                f"{shapes.show(shape)}, dtype {dtype} was declared",
                fix="correct the declaration, or convert the result inside the function",
            )
    return results


def _read_only(x: Any) -> np.ndarray:
    """Values of a graph may share memory: the function must not write to them."""
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view


def _callback(*operands: Any, function: HostFunction, avals: Any, lanes: Any, vectorized: Any = None) -> Sequence[Any]:
    if not lanes:
        return _checked(function, operands, avals)
    outs = [np.empty((*lanes, *shape), dtype) for shape, dtype in avals]
    for lane in np.ndindex(*lanes):
        for out, result in zip(outs, _checked(function, [x[lane] for x in operands], avals), strict=True):
            out[lane] = result
    return outs


def _type(*operands: AbstractArray, function: str, avals: Any, lanes: Any, vectorized: Any = None) -> list[AbstractArray]:
    return [AbstractArray((*lanes, *shape), dtype) for shape, dtype in avals]


def _batch(
    b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, function: str, avals: Any, vectorized: Any, lanes: Any
) -> Any:
    """One call with the lanes in front of every operand, or a call per lane."""
    if vectorized:
        full = vectorized == BROADCAST
        ins = [_in_front(b, x, is_batched, size if full else 1) for x, is_batched in zip(ins, batched, strict=True)]
        avals = tuple(((size, *shape), dtype) for shape, dtype in avals)
    else:
        ins = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
        lanes = (size, *lanes)
    return b.callback(*ins, function=function, avals=avals, vectorized=vectorized, lanes=lanes), [True] * len(avals)


def _in_front(b: Emitter, x: Atom, is_batched: bool, size: Any) -> Atom:
    if is_batched or size != 1:
        return b.batched(x, is_batched, size)
    return b.reshape(x, shape=(1, *x.aval.shape))


def _jvp(b: Emitter, outs: Sequence[Atom], ins: Sequence[Atom], tangents: Sequence[Atom | None], *, function: str, **params: Any) -> Any:
    if not outs:
        return []
    raise UnsupportedError(
        f"the callback {function.partition('#')[0]} cannot be differentiated",
        where=b.source and b.source.describe(),
        why="functx does not see what it computes",
        fix="give pure_callback a vjp, or the function that calls it a derivative with functx.custom_jvp or functx.custom_vjp; or wrap its "
        "arguments in functx.stop_gradient",
    )


# callback(*operands): the results of ``function`` have the types ``avals``, pairs of shape and dtype. Where it is not vectorized, it is
# called once for every index into the leading axes ``lanes`` of the operands. Vectorized, it takes an axis in front for every vmap: of size
# 1 for operands that all lanes share, or of full size (BROADCAST).
callback = Primitive(
    "callback", _callback, _type, jvp=_jvp, batch=_batch, family="callback", recompute="never", multiple=True
)  # fmt: skip


def _batch_effect(b: Emitter, ins: Sequence[Atom], batched: Sequence[bool], size: Any, *, avals: Any, lanes: Any, function: str) -> Any:
    """A call per lane, also where all lanes see the same."""
    ins = [b.batched(x, is_batched, size) for x, is_batched in zip(ins, batched, strict=True)]
    return b.io_callback(*ins, function=function, avals=avals, lanes=(size, *lanes)), [True] * len(avals)


# io_callback(*operands): as callback, for a function that is called for what it does: every time, and in order.
io_callback = Primitive(
    "io_callback", _callback, _type, jvp=_jvp, batch=_batch_effect, family="callback", recompute="never", effect=True, multiple=True
)  # fmt: skip
