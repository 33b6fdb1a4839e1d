"""Looking at functions without running them: make_ir, eval_shape and ShapeDtypeStruct."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import dtypes, shapes, trees
from functx.ir import AbstractArray, Graph
from functx.sizes import Sizes
from functx.source import function_source, hides_frames
from functx.trace import Trace, current_trace
from functx.transforms.arguments import Arguments, flatten_arguments, is_traced_leaf
from functx.transforms.staging import Leaf, Staged, add_leaves, lift_leaves, stage


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """Stands for an array of a shape (ints or Dims) and dtype, without data.

    >>> ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    shape: tuple[Any, ...]
    dtype: np.dtype

    def __init__(self, shape: Any, dtype: Any):
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", np.dtype(dtype))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return shapes.size(self.shape)

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={shapes.show(self.shape)}, dtype={self.dtype})"


def stage_abstract(
    f: Callable[..., Any], transform: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, own: bool = False
) -> tuple[Staged, Arguments, list[int | None]]:
    """Trace ``f`` on types alone: argument leaves may be ShapeDtypeStructs. Returns also the input of each argument leaf.

    ``own``: only the types of arguments count, so that an array given twice, or closed over too, is an input of its own each time.
    """
    arguments = flatten_arguments(f, args, kwargs)
    parent = current_trace()
    leaves = [v if isinstance(v, ShapeDtypeStruct) else lift_leaves([v], parent)[0] for v in arguments.leaves]
    trace = Trace(function_source(f), transform, opaque=True)
    sizes = trace.sizes  # their values are unknown: where one matters it is an error, not a guess

    def describe(i: int, value: Any) -> Leaf | None:
        if isinstance(value, ShapeDtypeStruct):
            dims = (d.within(Sizes.of_both(sizes, d.sizes), d.hint) if isinstance(d, shapes.Dim) else d for d in value.shape)
            return Leaf(value, arguments.labels[i], AbstractArray(tuple(dims), value.dtype))
        return Leaf(value, arguments.labels[i], own=own) if is_traced_leaf(value) else None

    slots, given = add_leaves(trace, leaves, describe)
    args, kwargs = arguments.rebuild(given)
    staged = stage(f, trace, args, kwargs)
    if parent is None:
        sizes.close()
    return staged, arguments, slots


def _stage(f: Callable[..., Any], transform: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Staged:
    staged, _, _ = stage_abstract(f, transform, args, kwargs)
    staged.trace.release()
    return staged


def make_ir(f: Callable[..., Any]) -> Callable[..., Graph]:
    """A function that returns the graph of ``f`` as it was traced, before any pass. Arguments may be ShapeDtypeStructs.

    >>> import functx as fx
    >>> print(fx.make_ir(lambda x: x + 1.0)(2.0))  # doctest: +ELLIPSIS
    { lambda a:f64[]~ .
      b:f64[] = add a 1.0:f64  # ...
      return b~ }
    """

    @hides_frames
    @functools.wraps(f)
    def make_ir_f(*args: Any, **kwargs: Any) -> Graph:
        return _stage(f, "make_ir", args, kwargs).graph

    return make_ir_f


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of ``f``'s results, as ShapeDtypeStructs in their structure, without computing them.

    >>> import functx as fx
    >>> fx.eval_shape(lambda x, y: x @ y, ShapeDtypeStruct((2, 3), float), ShapeDtypeStruct((3, 4), float))
    ShapeDtypeStruct(shape=(2, 4), dtype=float64)
    """
    staged = _stage(f, "eval_shape", args, kwargs)
    leaves = [ShapeDtypeStruct(r.aval.shape, r.aval.dtype) if r.aval is not None else _constant_struct(r.constant) for r in staged.results]
    return trees.unflatten(staged.out_tree, leaves)


def _constant_struct(value: Any) -> Any:
    """A constant result's type; what is no data stays itself."""
    if isinstance(value, (np.ndarray, np.generic)) or type(value) in dtypes.PYTHON_DTYPES:
        return ShapeDtypeStruct(np.shape(value), dtypes.dtype_of(value))
    return value
