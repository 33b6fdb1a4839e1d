"""checkpoint: save a function's inputs only, and run it again in the backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functx.ops.higher_order import checkpoint as checkpoint_primitive
from functx.trace import current_trace
from functx.transforms.arguments import check_callable
from functx.transforms.subgraphs import bind_subgraph, stage_subgraph


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function equal to ``f`` whose intermediate values are recomputed, not stored, when it is differentiated.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.grad(lambda x: fx.checkpoint(lambda v: v * v * v)(x))(2.0)
    12.0
    """

    check_callable(f, "checkpoint")

    @functools.wraps(f)
    def checkpoint_f(*args: Any, **kwargs: Any) -> Any:
        parent = current_trace()
        if parent is None:
            return f(*args, **kwargs)
        sub = stage_subgraph(f, "checkpoint", args, kwargs, parent)
        return bind_subgraph(sub.staged, parent, checkpoint_primitive, {"graph": sub.staged.graph})

    return checkpoint_f
