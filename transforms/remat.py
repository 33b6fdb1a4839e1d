"""checkpoint: save a function's inputs, and what a policy allows, and run the rest again in the backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functx import mutation, trees
from functx.dtypes import Kind
from functx.ops.higher_order import checkpoint as checkpoint_primitive
from functx.ops.higher_order import named
from functx.trace import Tracer, current_trace
from functx.transforms.arguments import check_callable
from functx.transforms.keeping import Policy, mark_kept
from functx.transforms.policies import check_name
from functx.transforms.subgraphs import bind_subgraph, stage_subgraph


def checkpoint(f: Callable[..., Any] | None = None, *, policy: Policy | None = None) -> Callable[..., Any]:
    """A function equal to ``f`` whose intermediate values are recomputed, not stored, when it is differentiated.

    Args:
      f: the function; left out, what is returned is a decorator.
      policy: ``policy(primitive, *avals, **params) -> bool`` says of each operation whether its results may be saved, from its name
        (``primitive.name``), the types of its operands and its parameters: one of ``functx.checkpoint_policies``, or your own. Of what is
        allowed, the values that the backward pass reads are saved, under any memory budget. None: arguments only. It is asked once, when
        f is traced: under vmap about single examples; about what nested jits and checkpoints do, too; a custom rule or a loop is one
        operation.

    Raises:
      UnsupportedError: the policy answered neither True nor False.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.grad(lambda x: fx.checkpoint(lambda v: v * v * v)(x))(2.0)
    12.0

    >>> @fx.checkpoint(policy=fx.checkpoint_policies.dots_saveable)
    ... def layer(x, w):
    ...     return np.tanh(x @ w)
    >>> fx.grad(lambda w: layer(np.ones(2), w).sum())(np.zeros((2, 1)))
    array([[1.],
           [1.]])
    """
    if policy is not None and not callable(policy):
        raise TypeError(f"policy of checkpoint takes a function policy(primitive, *avals, **params) -> bool, not a {type(policy).__name__}")
    if f is None:
        return functools.partial(checkpoint, policy=policy)
    check_callable(f, "checkpoint")

    @functools.wraps(f)
    def checkpoint_f(*args: Any, **kwargs: Any) -> Any:
        parent = current_trace()
        if parent is None:
            return f(*args, **kwargs)
        sub = stage_subgraph(f, "checkpoint", args, kwargs, parent)
        graph = sub.staged.graph if policy is None else mark_kept(sub.staged.graph, policy)
        return bind_subgraph(sub.staged, parent, checkpoint_primitive, {"graph": graph})

    return checkpoint_f


def checkpoint_name(x: Any, name: str) -> Any:
    """``x`` itself, under a name that policies of :func:`checkpoint` know.

    Args:
      x: an array, a number, or a container of them. What comes back is in the same memory.
      name: a string.

    Raises:
      TypeError: the name is no string.

    >>> import functx as fx
    >>> checkpoint_name({"a": 1.0}, "start")
    {'a': 1.0}
    """
    check_name(name)
    leaves, structure = trees.flatten(x)
    return trees.unflatten(structure, [_named(leaf, name) if isinstance(leaf, Tracer) else leaf for leaf in leaves])


def _named(leaf: Tracer, name: str) -> Tracer:
    trace = current_trace()
    h = trace.lift(leaf)
    if h.kind is not Kind.ARRAY:
        return trace.tracer(trace.emit.name(h.atom, name=name), h.kind)
    return mutation.make_view(h, named, {"name": name}, lambda: h.shadow)
