"""Operations on tracers that NumPy has no name for."""

from __future__ import annotations

from typing import Any

from functx import trees
from functx.dtypes import Kind
from functx.trace import Tracer, current_trace


def stop_gradient(x: Any) -> Any:
    """``x`` itself (any container of arrays), through which no derivative flows.

    >>> import functx as fx
    >>> fx.grad(lambda x: x * fx.stop_gradient(x))(3.0)
    3.0
    """

    def stop(leaf: Any) -> Any:
        if not isinstance(leaf, Tracer):
            return leaf
        trace = current_trace()
        h = trace.lift(leaf)
        return trace.tracer(trace.emit.stop_gradient(h.atom), h.kind, (lambda: h.shadow) if h.kind is Kind.ARRAY else None)

    return trees.map(stop, x)
