"""Operations on tracers that NumPy has no name for."""

from __future__ import annotations

from typing import Any

from functx import mutation, trees
from functx.dtypes import Kind
from functx.ops import elementwise
from functx.trace import Tracer, current_trace


def stop_gradient(x: Any) -> Any:
    """``x`` itself (any container of arrays, in the same memory), through which no derivative flows.

    >>> import functx as fx
    >>> fx.grad(lambda x: x * fx.stop_gradient(x))(3.0)
    3.0
    """

    def stop(leaf: Any) -> Any:
        if not isinstance(leaf, Tracer):
            return leaf
        trace = current_trace()
        h = trace.lift(leaf)
        if h.kind is Kind.ARRAY:
            return mutation.make_view(h, elementwise.stop_gradient, {}, lambda: h.shadow)
        return trace.tracer(trace.emit.stop_gradient(h.atom), h.kind)

    return trees.map(stop, x)
