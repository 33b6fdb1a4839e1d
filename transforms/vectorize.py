"""vmap: a function of one example becomes a function of a batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import optree

from functx import mutation, shapes, trees
from functx.dtypes import INT64, Kind
from functx.errors import AxesError, OverlapError
from functx.ir import AbstractArray, Atom, Graph, InRole, Output, OutRole
from functx.source import function_source, hides_frames
from functx.trace import Trace, Tracer, current_trace, dataless, where
from functx.transforms.arguments import Arguments, check_callable, flatten_arguments, is_traced_leaf, refuse_tensors
from functx.transforms.batching import emit_vmap
from functx.transforms.boundary import execute, input_values, translate, wrap
from functx.transforms.differentiation import type_of
from functx.transforms.interpreter import INTERPRETER, lane_var
from functx.transforms.staging import Leaf, Staged, add_leaves, lift_leaves, stage
from functx.util import zip_strict


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable = None, axis_size: int | None = None
) -> Callable[..., Any]:
    """A function that applies ``f`` to every slice of its arguments along a batch axis, and stacks the results.

    Args:
      f: a function of single examples.
      in_axes: the batch axis of each positional argument: an int, None (shared by all examples), or a tuple with one entry per argument,
        each an int, None or a container prefix of the argument; or a dict by parameter name. Keyword arguments are mapped along axis 0.
      out_axes: where the batch axis goes in the results: an int or a container prefix of them; None for a result that is the same for all
        examples and is returned once.
      axis_name: by which name collectives (:func:`functx.psum`, :func:`functx.axis_index`, ...) inside f find this axis.
      axis_size: the number of examples; needed only where no argument is mapped.

    Returns:
      A function with f's arguments. What f writes into a mapped argument is written back into the caller's array.

    Raises:
      AxesError: the axes do not fit the arguments, or batch sizes differ; the message shows argument, shape and a corrected call.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x, w: x @ w, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """

    check_callable(f, "vmap")

    @hides_frames
    @functools.wraps(f)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        parent = current_trace()
        arguments = flatten_arguments(f, args, kwargs)
        axes = _argument_axes(f, in_axes, arguments, args, kwargs)
        leaves = lift_leaves(arguments.leaves, parent)
        size, axes = _batch_size(f, leaves, axes, arguments, axis_size)
        trace = Trace(function_source(f), "vmap")

        def describe(i: int, value: Any) -> Leaf | None:
            if not is_traced_leaf(value):
                return None
            label, axis = arguments.labels[i], axes[i]
            if axis is None:
                return Leaf(value, label)
            return Leaf(value, label, _example_type(value, axis), _example_shadow(value, axis), {"hidden": True}, axis=axis)

        _, given = add_leaves(trace, leaves, describe)
        if axis_name is not None:
            _name_axis(trace, axis_name, size, parent)
        args, kwargs = arguments.rebuild(given)
        staged = stage(f, trace, args, kwargs)
        return _run(staged, [slot.axis for slot in staged.trace.inputs], size, out_axes, parent)

    return vmap_f


# --- axes ---------------------------------------------------------------------------------------------------------------------------------


def _argument_axes(f: Any, in_axes: Any, arguments: Arguments, args: Any, kwargs: Any) -> list[int | None]:
    """The axis of every leaf."""
    if isinstance(in_axes, dict):
        in_axes, kw_axes = _axes_by_name(f, in_axes, args, kwargs)
    else:
        kw_axes = dict.fromkeys(kwargs, 0)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise AxesError(
            f"vmap of {function_source(f)}: in_axes has {len(in_axes)} entries for {len(args)} positional arguments",
            where=where(),
            fix=f"give one entry per argument, as in_axes={_example_axes(in_axes, len(args))}",
        )
    per_argument = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    return spread_prefix((per_argument, kw_axes), (args, kwargs), f"vmap of {function_source(f)}: in_axes")


def _axes_by_name(f: Any, in_axes: dict[str, Any], args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        names = []
    if not in_axes or not all(key in names for key in in_axes):
        raise AxesError(
            f"vmap of {function_source(f)}: in_axes is a dict whose keys are not its parameter names",
            where=where(),
            why="a dict gives axes by parameter name; axes for a dict argument stand in a tuple, one entry per argument",
            fix=f"in_axes=({in_axes!r},)",
        )
    positional = tuple(in_axes.get(name, 0) for name in names[: len(args)])
    return positional, {k: in_axes.get(k, 0) for k in kwargs}


def _example_axes(in_axes: tuple[Any, ...], count: int) -> str:
    return repr((*in_axes, *(None,) * count)[:count])


def spread_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One entry of a container prefix per leaf of ``tree``. None in the prefix is an entry, and also stands for a None in the tree."""
    try:
        spread = optree.broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=trees.NAMESPACE)
    except ValueError as error:
        raise AxesError(
            f"{what} {prefix!r} does not fit the structure of what it describes",
            where=where(),
            why=str(error).splitlines()[0],
            fix="use the same containers, or one int or None for a whole argument",
        ) from None
    leaves, _ = trees.flatten_with_none(tree)
    kept = [axis for axis, leaf in zip_strict(spread, leaves) if leaf is not None]
    for axis in kept:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, (int, np.integer))):
            raise AxesError(f"{what}: {axis!r} is neither an int nor None", where=where())
    return [None if axis is None else int(axis) for axis in kept]


def _batch_size(
    f: Any, leaves: Sequence[Any], axes: Sequence[int | None], arguments: Arguments, axis_size: Any
) -> tuple[Any, list[int | None]]:
    """The number of lanes, and the axes made non-negative."""
    refuse_tensors(arguments, "vmap")
    name, mapped = function_source(f), {}
    for i, (leaf, axis, label) in enumerate(zip_strict(leaves, axes, arguments.labels)):
        if axis is None or not is_traced_leaf(leaf):
            continue
        shape = type_of(leaf).shape
        if not -len(shape) <= axis < len(shape):
            raise AxesError(
                f"vmap of {name}: argument {label} of shape {shapes.show(shape)} has no axis {axis}",
                where=where(),
                fix=f"map it along an axis that it has, or, if all examples share it, {_corrected(arguments, axes, {i})}",
            )
        mapped[i] = (axis % len(shape), shape)
    if not mapped and axis_size is None:
        raise AxesError(
            f"vmap of {name}: no argument is mapped",
            where=where(),
            fix="give an int in in_axes for at least one array, or the number of examples as axis_size",
        )
    sizes = {i: shape[axis] for i, (axis, shape) in mapped.items()}
    # The most frequent one, the first of several.
    size = max(sizes.values(), key=list(sizes.values()).count) if axis_size is None else _checked_size(axis_size, name)
    if odd := {i for i, n in sizes.items() if n != size}:
        listed = [f"{arguments.labels[i]} of shape {shapes.show(shape)}, axis {axis}: {shape[axis]}" for i, (axis, shape) in mapped.items()]
        raise AxesError(
            f"vmap of {name}: batch sizes differ" + ("" if axis_size is None else f" from axis_size={axis_size}"),
            where=where(),
            why="; ".join(listed[:8]) + ("; ..." if len(listed) > 8 else ""),
            fix=f"if all examples share what differs, {_corrected(arguments, axes, odd)}",
        )
    return size, [mapped[i][0] if i in mapped else None for i in range(len(leaves))]


def _checked_size(size: Any, name: str) -> Any:
    if isinstance(size, shapes.Dim) or (isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 0):
        return size if isinstance(size, shapes.Dim) else int(size)
    raise AxesError(f"vmap of {name}: axis_size={size!r} is no number of examples", where=where(), fix="give an int, 0 or greater")


def _corrected(arguments: Arguments, axes: Sequence[int | None], shared: set[int]) -> str:
    """What to write so that the leaves numbered in ``shared`` are not mapped."""
    named = sum(map(len, arguments.spans))
    if any(i >= named for i in shared):
        return "give in_axes as a dict by parameter name, with None for it"
    given = []
    for argnum, span in enumerate(arguments.spans):
        per_leaf = [None if i in shared else axes[i] for i in span]
        same = len(set(per_leaf)) == 1
        given.append(per_leaf[0] if same else trees.unflatten(arguments.positional_tree(argnum), per_leaf))
    return f"write in_axes={tuple(given)!r}"


# --- running ------------------------------------------------------------------------------------------------------------------------------


def _example_type(value: Any, axis: int) -> AbstractArray:
    """The type of one example; NumPy scalars where iterating over the batch would give them."""
    aval = type_of(value)
    shape = shapes.delete(aval.shape, (axis,))
    return AbstractArray(shape, aval.dtype, Kind.ARRAY if shape else Kind.SCALAR)


def _example_shadow(value: Any, axis: int) -> Any:
    """The layout of one example: that of the batch without its batch axis."""

    def shadow() -> np.ndarray:
        whole = value.shadow if isinstance(value, Tracer) else value
        shape, strides = (tuple(v for i, v in enumerate(t) if i != axis) for t in (whole.shape, whole.strides))
        return dataless(shape, whole.dtype, strides, whole.flags.writeable)

    return shadow if isinstance(value, Tracer) else shadow()


def _name_axis(trace: Trace, name: Hashable, size: Any, parent: Trace | None) -> None:
    """Give the trace an input that is the position along the mapped axis: what collectives over the axis depend on."""
    facts: dict[str, Any] = {"hidden": True, "role": InRole.CAPTURED, "axis": 0, "label": f"the position along axis {name!r}"}
    if parent is None:
        facts["value"] = np.arange(size)
    else:
        facts["outer_atom"] = parent.emit.iota(shape=(size,), dtype=INT64, axis=0)
    trace.axes[name] = trace.add_input(AbstractArray((), INT64, Kind.SCALAR), **facts).handle, size


def _run(staged: Staged, lanes: Sequence[int | None], size: Any, out_axes: Any, parent: Trace | None) -> Any:
    """Batch the graph, run it, write mapped arguments back and stack the results."""
    graph, result_axes = staged.graph, _result_axes(staged, out_axes)
    b = INTERPRETER.emitter()
    inputs = [type(s)(lane_var(s.var, axis is not None, size), s.role) for s, axis in zip_strict(graph.inputs, lanes)]
    outs, flags, env = emit_vmap(b, graph, [s.var for s in inputs], [axis is not None for axis in lanes], size)
    b.source = None
    once = _returned_once(staged, result_axes, flags)
    outputs = []
    for index, (slot, out, flag) in enumerate(zip_strict(graph.outputs, outs, flags)):
        if slot.role is OutRole.WRITE:
            _check_write(staged, slot, flag, lanes)
            flag_wanted = lanes[slot.target] is not None
            outputs.append(Output(b.batched(out, flag, size) if flag_wanted else out, slot.role, slot.target))
        else:
            outputs.append(Output(out if index in once else b.batched(out, flag, size)))
    values = [_front(v, axis, parent) for v, axis in zip_strict(input_values(staged, parent), lanes)]
    known = {v: x for v, x in translate(staged.trace.known, env).items() if v.aval.shape == np.shape(x)}
    done = execute(b.build(inputs, outputs), values, parent, known)
    for slot, value in zip_strict(outputs, done):
        if slot.role is OutRole.WRITE:
            _write_back(staged.trace.inputs[slot.target], value, lanes[slot.target], parent)
    leaves, taken = [], set()
    for result, axis in zip_strict(staged.results, result_axes):
        value = result.constant if result.aval is None else done[result.value]
        if parent is None and result.aval is not None and result.value in taken:
            value = value.copy()  # stacking results makes an array for each
        taken.add(result.value)
        if axis is None:
            leaves.append(value if result.aval is None else wrap(value, result.aval.kind, parent))
            continue
        if result.aval is None:
            value = _repeated(value, size, parent)
        elif result.value in once:
            value = _repeated(wrap(value, result.aval.kind, parent), size, parent)
        leaves.append(_place(value, axis, parent))
    staged.trace.release()
    return trees.unflatten(staged.out_tree, leaves)


def _result_axes(staged: Staged, out_axes: Any) -> list[int | None]:
    tree = trees.unflatten(staged.out_tree, [0] * staged.out_tree.num_leaves)
    axes = spread_prefix(out_axes, tree, f"vmap of {staged.trace.name}: out_axes")
    out: list[int | None] = []
    for axis, result in zip_strict(axes, staged.results):
        shape = result.aval.shape if result.aval is not None else np.shape(result.constant)
        if axis is not None and not -len(shape) - 1 <= axis <= len(shape):
            raise AxesError(
                f"vmap of {staged.trace.name}: out_axes {axis} for a result of shape {shapes.show(shape)} per example",
                where=where(),
                fix="give an axis of the stacked result",
            )
        out.append(None if axis is None else axis % (len(shape) + 1))
    return out


def _returned_once(staged: Staged, axes: Sequence[int | None], flags: Sequence[bool]) -> set[int]:
    """The graph outputs that have results which are not stacked: they must not depend on the example."""
    once = set()
    for axis, result, path in zip_strict(axes, staged.results, _result_paths(staged)):
        if axis is not None or result.aval is None:
            continue
        if flags[result.value]:
            raise AxesError(
                f"vmap of {staged.trace.name}: out_axes is None for {path} of shape {shapes.show(result.aval.shape)}, "
                "which differs between examples",
                where=where(),
                why="None means one result for all examples",
                fix="give an int in out_axes for it, or reduce it over the examples (functx.psum with axis_name)",
            )
        once.add(result.value)
    return once


def _result_paths(staged: Staged) -> list[str]:
    return [f"result{path}" for path in trees.leaf_paths(trees.unflatten(staged.out_tree, [0] * staged.out_tree.num_leaves))]


def _check_write(staged: Staged, slot: Output, is_batched: bool, lanes: Sequence[int | None]) -> None:
    """Lanes would overwrite each other in an array that they share."""
    if is_batched and lanes[slot.target] is None:
        label = staged.trace.inputs[slot.target].label or "an array of the enclosing function"
        raise OverlapError(
            f"vmap of {staged.trace.name}: examples write different values into {label}, which they all share",
            where=_made_at(staged.graph, slot.atom),
            why="a Python loop would keep the last example's values only",
            fix="map it (an int in in_axes), or make the array inside the function with fnp.zeros",
        )


def _made_at(graph: Graph, atom: Atom) -> str | None:
    """The line that computed an atom."""
    source = next((e.source for e in graph.eqns if atom in e.outputs), None)
    return source.describe() if source else None


def _front(value: Any, axis: int | None, parent: Trace | None) -> Any:
    """A batch with its batch axis in front."""
    if not axis:
        return value
    if parent is None:
        return np.moveaxis(value, axis, 0)
    rank = value.aval.ndim
    return parent.emit.transpose(value, perm=(axis, *(i for i in range(rank) if i != axis)))


def _behind(value: Any, axis: int, parent: Trace | None) -> Any:
    """A batch with its leading batch axis put at ``axis``."""
    if not axis:
        return value
    if parent is None:
        return np.ascontiguousarray(np.moveaxis(value, 0, axis))
    rank = value.aval.ndim
    return parent.emit.transpose(value, perm=(*range(1, axis + 1), 0, *range(axis + 1, rank)))


def _place(value: Any, axis: int, parent: Trace | None) -> Any:
    return wrap(_behind(value, axis, parent), Kind.ARRAY, parent)


def _repeated(value: Any, size: Any, parent: Trace | None) -> Any:
    """What is the same for all examples, once for each."""
    if parent is None:
        return np.array(np.broadcast_to(value, (size, *np.shape(value))), order="C")
    handle = parent.handle(value)
    return parent.emit.broadcast(handle.atom, shape=(size, *handle.aval.shape), dims=tuple(range(1, handle.aval.ndim + 1)))


def _write_back(slot: Any, value: Any, axis: int | None, parent: Trace | None) -> None:
    if parent is None:
        np.copyto(np.moveaxis(slot.array, axis, 0) if axis else slot.array, value)
    else:
        mutation.write_back(slot.outer, _behind(value, axis or 0, parent))
