"""Collectives: what the examples of ``vmap(f, axis_name=...)`` tell each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from functx import trees
from functx.dtypes import BOOL, INT64
from functx.errors import UnboundAxisError
from functx.ir import Atom
from functx.primitive import Emitter
from functx.trace import Trace, Tracer, current_trace, where


def psum(x: Any, axis_name: Any) -> Any:
    """The sum of ``x`` over all examples along a named axis of vmap, or several.

    Args:
      x: arrays or numbers, in any container, the same in every example's function. Their dtypes are kept; bools are counted. A Python or
        NumPy number that is the same for all examples is multiplied by the size of the axis.
      axis_name: the ``axis_name`` of an enclosing vmap, or a tuple of such names.

    Raises:
      UnboundAxisError: no enclosing vmap has that name.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x / fx.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """

    def add(b: Emitter, value: Atom, lane: Atom, axis: str) -> Atom:
        counted = b.convert(value, dtype=INT64, checked=False) if value.aval.dtype == BOOL else value
        return b.psum(counted, lane, axis=axis)

    return _reduce(x, axis_name, add, lambda value, size: value * size)


def pmean(x: Any, axis_name: Any) -> Any:
    """The mean of ``x`` over all examples along a named axis of vmap, or several. See :func:`psum`.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x - fx.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    size = axis_size(axis_name)
    return trees.map(lambda total: total / size, psum(x, axis_name))


def pmax(x: Any, axis_name: Any) -> Any:
    """The greatest ``x``, place by place, of all examples along a named axis of vmap, or several. See :func:`psum`.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x / fx.pmax(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
    array([0.25, 1.  ])
    """
    return _reduce(x, axis_name, lambda b, value, lane, axis: b.pmax(value, lane, axis=axis), lambda value, size: value)


def pmin(x: Any, axis_name: Any) -> Any:
    """The smallest ``x``, place by place, of all examples along a named axis of vmap, or several. See :func:`psum`.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x - fx.pmin(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
    array([0., 3.])
    """
    return _reduce(x, axis_name, lambda b, value, lane, axis: b.pmin(value, lane, axis=axis), lambda value, size: value)


def axis_index(axis_name: Any) -> Any:
    """The position of this example along a named axis of vmap, an int64 scalar; of several axes, counted with the last one fastest.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x * fx.axis_index("i"), axis_name="i")(np.ones(3))
    array([0., 1., 2.])
    """
    index: Any = None
    for lane, size in map(_bound, _names(axis_name)):
        position = current_trace().lift(lane)
        index = position if index is None else index * size + position
    return index


def axis_size(axis_name: Any) -> Any:
    """The number of examples along a named axis of vmap, a Python int; of several axes, the product.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: x / fx.axis_size("i"), axis_name="i")(np.ones(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    total: Any = 1
    for _, size in map(_bound, _names(axis_name)):
        total = total * size
    return total


def _reduce(x: Any, axis_name: Any, collective: Callable[..., Atom], of_constant: Callable[..., Any]) -> Any:
    """Apply a collective to every leaf, over one axis after the other."""
    names, size = _names(axis_name), axis_size(axis_name)

    def reduce(leaf: Any) -> Any:
        if not isinstance(leaf, (Tracer, np.ndarray)):
            return of_constant(leaf, size)
        trace = current_trace()
        handle = trace.handle(leaf)
        atom = handle.atom
        for name in names:
            lane, _ = _bound(name)
            atom = collective(trace.emit, atom, trace.lift(lane).atom, axis=str(name))
        return trace.tracer(atom, handle.kind)

    return trees.map(reduce, x)


def _names(axis_name: Any) -> tuple[Hashable, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _bound(name: Hashable) -> tuple[Tracer, Any]:
    """The position along the axis of that name, and its size."""
    known = bound_axes(current_trace())
    if name not in known:
        bound = ", ".join(repr(n) for n in known)
        raise UnboundAxisError(
            f"no axis is named {name!r} here",
            where=where(),
            why=f"the enclosing vmaps name {bound}" if known else "no enclosing vmap has an axis_name",
            fix=f"write functx.vmap(f, axis_name={name!r})",
        )
    return known[name]


def bound_axes(trace: Trace | None) -> dict[Hashable, tuple[Tracer, Any]]:
    """The position along and the size of all named axes that a trace sees; inner ones hide outer ones of their name."""
    return {} if trace is None else {**bound_axes(trace.parent), **trace.axes}
