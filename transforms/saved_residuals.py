"""Looking at what a reverse pass keeps: saved_residuals and print_saved_residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from functx.dtypes import is_inexact
from functx.ir import AbstractArray, Var
from functx.source import hides_frames
from functx.transforms.arguments import check_callable
from functx.transforms.differentiation import joint_graph_of
from functx.transforms.halves import Residual, partition_joint
from functx.transforms.inspection import ShapeDtypeStruct, stage_abstract
from functx.transforms.linear_maps import has_tangent
from functx.util import zip_strict


@hides_frames
def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapeDtypeStruct, str]]:
    """What the backward pass of ``f`` is handed, as a list of (type, what it is), arguments and results among it.

    It is what ``functx.vjp(functx.jit(f), *args)`` keeps. Nothing is run.

    Args:
      f: any function of arrays, numbers and containers of them.
      args, kwargs: its arguments, or ShapeDtypeStructs in their places.

    Returns:
      A list of pairs: a :class:`functx.ShapeDtypeStruct`, and a text: the name of the argument, or the operation and the user's line.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.saved_residuals(fx.checkpoint(lambda x: np.sin(np.sin(np.sin(x)))), np.ones(2))
    [(ShapeDtypeStruct(shape=(2,), dtype=float64), "the argument 'x'")]
    """
    return [(ShapeDtypeStruct(r.aval.shape, r.aval.dtype), what) for r, what in _residuals(f, args, kwargs) if r.saved]


@hides_frames
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what the backward pass of ``f`` is handed and what it computes again, and why, one value per line.

    Args:
      f, args, kwargs: as of :func:`saved_residuals`. The bytes are those that are kept for the backward pass alone.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.print_saved_residuals(lambda x, w: np.tanh(x @ w).sum(), np.ones(3), np.ones((3, 4)))    # doctest: +ELLIPSIS
    f64[3] the argument 'x': saved (it is an input), 0 bytes
    f64[3,4] the argument 'w': saved (it is an input), 0 bytes
    f64[4] dot_general, ...: saved (dot_general is costly), 32 bytes
    f64[4] tanh, ...: computed again (it is computed from what is kept), 0 bytes
    """
    for r, what in _residuals(f, args, kwargs):
        print(f"{r.aval} {what}: {'saved' if r.saved else 'computed again'} ({r.why}), {r.nbytes} bytes")


def _residuals(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Residual, str]]:
    """What the backward pass reads of the forward pass, in words."""
    check_callable(f, "saved_residuals")
    staged, _, slots = stage_abstract(f, "saved_residuals", args, kwargs, own=True)
    given = {slot for slot in slots if slot is not None}
    active = [i in given and is_inexact(v.aval.dtype) for i, v in enumerate(staged.graph.in_vars)]
    targets = [r for r in staged.results if has_tangent(r)]
    cts = [Var(AbstractArray(r.aval.shape, r.aval.dtype)) for r in targets]
    joint, _ = joint_graph_of(staged, active, [(r.value, ct) for r, ct in zip_strict(targets, cts)], cts)
    labels = {slot.var: f"the argument {slot.label}" if i in given else "a captured array" for i, slot in enumerate(staged.trace.inputs)}
    staged.trace.release()
    parts = partition_joint(joint)
    order = {v: i for i, v in enumerate(joint.in_vars)}
    values = (*(v for v in parts.plan.given if v not in cts), *parts.plan.saved, *(None for _ in parts.plan.again))
    for r, v in sorted(zip_strict(parts.residuals, values), key=lambda pair: order.get(pair[1], len(order))):
        yield r, labels.get(v) or _described(r)


def _described(r: Residual) -> str:
    what = "a constant" if r.primitive == "input" else r.primitive
    return f"{what}, {r.source.short}" if r.source else what
