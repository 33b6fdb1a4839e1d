"""Calling functions of the program from inside traced and compiled ones: pure_callback for values, io_callback for effects.

What a function does to the world happens once per logical execution and in order, whatever transforms are applied: once per example under
vmap, once per step of a loop, not again where a backward pass computes values a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functx import trees
from functx.dims import Condition, Dim
from functx.dtypes import PYTHON_DTYPES, Kind, is_inexact
from functx.errors import CallbackError
from functx.numpy import promote
from functx.ops import callback
from functx.primitive import Primitive
from functx.source import hides_frames
from functx.trace import Tracer, current_trace, type_of_value, where
from functx.transforms.boundary import to_kind
from functx.transforms.custom_rules import custom_vjp
from functx.transforms.differentiation import type_of

VMAP_METHODS = {"sequential": False, "expand_dims": True, "broadcast_all": callback.BROADCAST}


@hides_frames
def pure_callback(
    function: Callable[..., Any],
    result: Any,
    *args: Any,
    vmap_method: str = "sequential",
    vjp: Callable[..., Any] | None = None,
) -> Any:
    """``function(*args)`` on plain arrays, from inside a traced or compiled function too.

    Args:
      function: a function without effects, of read-only arrays in the containers of ``args``. It may be called any number of times.
      result: its results' types: a container of arrays or functx.ShapeDtypeStructs.
      vmap_method: "sequential" calls it for one example after the other; "expand_dims" once for all, with an axis in front of every
        argument (of size 1 where the examples share it) and of every result; "broadcast_all" likewise, every argument of full size.
      vjp: its derivative in reverse mode: ``vjp(args, ct)``, a function on plain arrays too, takes the tuple of arguments and a cotangent
        of the result, and returns a tuple with a cotangent for every argument, in its structure, shapes and dtypes (None for what is no
        float). Without it functx cannot differentiate. Called over examples as ``function`` is.

    Raises:
      CallbackError: a function returned something else than was declared. What it raises itself comes out as it is.
      UnsupportedError: a derivative is needed, and there is none.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.vmap(lambda x: fx.pure_callback(np.sort, x, x))(np.array([[2.0, 1.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    >>> f = lambda x: fx.pure_callback(np.sin, x, x, vjp=lambda args, ct: (ct * np.cos(args[0]),))
    >>> fx.grad(lambda x: f(x).sum())(np.zeros(2))
    array([1., 1.])
    """
    if vmap_method not in VMAP_METHODS:
        known = ", ".join(map(repr, VMAP_METHODS))
        raise ValueError(f"vmap_method must be one of {known}, not {vmap_method!r}")

    def call(*args: Any) -> Any:
        return _pure(function, result, args, vmap_method)

    if vjp is None:
        return call(*args)
    rule = custom_vjp(call)
    rule.defvjp(lambda *args: (call(*args), args), lambda args, ct: _pure(vjp, _float_types(args), (args, ct), vmap_method))
    return rule(*args)


def _float_types(args: tuple[Any, ...]) -> Any:
    """The declared result of a vjp: what has cotangents, None for all else."""
    types = trees.map(type_of, args)
    return trees.map(lambda aval: aval if is_inexact(aval.dtype) else None, types)


def _pure(function: Callable[..., Any], result: Any, args: tuple[Any, ...], vmap_method: str) -> Any:
    leaves, structure = trees.flatten(args)
    operands = list(map(_as_data, leaves))
    declared, out_structure = trees.flatten(result)
    call = _flat(function, lambda arrays: (trees.unflatten(structure, arrays), {}), out_structure)
    host = callback.HostFunction(function, call, (structure, out_structure))
    outs = _bind(callback.callback, operands, {"function": host, "avals": _types(declared), "vectorized": VMAP_METHODS[vmap_method]})
    return trees.unflatten(out_structure, outs)


@hides_frames
def io_callback(function: Callable[..., Any], result: Any, *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)`` for what it does and returns: called once per logical execution, in order with all other effects.

    Under vmap it is called for every example, as a Python loop over the examples would: a function with several effects is mapped one
    example after the other then. In the backward pass of a checkpoint or loop it is not called again.

    Args:
      function: any function; it gets arrays of its own (NumPy's, also where the caller has tensors on a GPU: that waits for it), and
        Python and NumPy scalars where the caller has such. What it writes into arrays that the caller reads may come too late for it.
      result: its results' types: a container of arrays or functx.ShapeDtypeStructs; None for no result.
      args, kwargs: containers of arrays and numbers, and anything else that is the same in every call.

    Raises:
      CallbackError: it returned something else than was declared. What it raises itself comes out as it is.
      UnsupportedError: a derivative of its result is needed, or a backward pass would have to call it again.

    >>> import numpy as np
    >>> import functx as fx
    >>> numbers = iter([1.5, 2.5, 3.5])
    >>> fx.jit(lambda x: x * fx.io_callback(lambda: np.float64(next(numbers)), np.float64(0)))(10.0)
    np.float64(15.0)
    >>> fx.vmap(lambda x: x * fx.io_callback(lambda: np.float64(next(numbers)), np.float64(0)))(np.ones(2))
    array([2.5, 3.5])
    """
    return perform(function, function, result, args, kwargs)


def perform(
    named: Callable[..., Any],
    function: Callable[..., Any],
    result: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    form: Hashable = None,
) -> Any:
    """:func:`io_callback`, for a ``function`` that is made of another one, by whose name it goes, and of ``form``."""
    leaves, structure = trees.flatten((args, kwargs))
    leaves = list(map(_as_data, leaves))
    declared, out_structure = trees.flatten(result)
    kinds = [type_of(v).kind if _is_data(v) else None for v in leaves]
    static = [v if kind is None else None for v, kind in zip(leaves, kinds, strict=True)]

    def arguments(arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        given = iter(arrays)
        values = [s if kind is None else _of_its_own(next(given), kind) for s, kind in zip(static, kinds, strict=True)]
        return trees.unflatten(structure, values)

    call = _flat(function, arguments, out_structure)
    known: Any = tuple(v if v is None or type(v) is str else [] for v in static)  # [] has no hash: the name is then used once
    host = callback.HostFunction(named, call, (form, structure, out_structure, tuple(kinds), known))
    operands = [v for v, kind in zip(leaves, kinds, strict=True) if kind is not None]
    return trees.unflatten(out_structure, _bind(callback.io_callback, operands, {"function": host, "avals": _types(declared)}))


def _as_data(value: Any) -> Any:
    """What a mask selects as an array, a size as a number: both are known when the code runs."""
    trace = current_trace()
    return promote.as_handle(trace, value) if trace is not None and isinstance(value, (promote.ArrayLike, Dim, Condition)) else value


def _is_data(value: Any) -> bool:
    return isinstance(value, (Tracer, np.ndarray, np.generic)) or type(value) in PYTHON_DTYPES


def _of_its_own(array: np.ndarray, kind: Kind) -> Any:
    """A value that the callee may keep: the arrays of a graph live no longer than it runs."""
    return array.copy() if kind is Kind.ARRAY else to_kind(array, kind)


def _flat(function: Callable[..., Any], arguments: Callable[[Sequence[np.ndarray]], tuple[Any, Any]], out_structure: Any) -> Any:
    """The function from a flat sequence of arrays to one."""
    name = getattr(function, "__name__", type(function).__name__)

    def call(*arrays: np.ndarray) -> list[Any]:
        args, kwargs = arguments(arrays)
        values, returned = trees.flatten(function(*args, **kwargs))
        if returned != out_structure:
            what = f"the callback {name} returned {trees.show(returned)} where {trees.show(out_structure)} was declared"
            raise CallbackError(what, where=where())
        return values

    return call


def _types(declared: Sequence[Any]) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
    """Shapes and dtypes of arrays, numbers and ShapeDtypeStructs."""
    types = [type_of(r) if isinstance(r, Tracer) or type(r) in PYTHON_DTYPES else r for r in declared]
    return tuple((tuple(r.shape), np.dtype(r.dtype)) for r in types)


def _bind(primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Record the call in the present trace, or make it now."""
    trace, params = current_trace(), {**params, "lanes": ()}
    if trace is None:
        arrays = [np.asarray(v, type_of_value(v).dtype) for v in operands]
        return [np.array(out, order="C") for out in primitive.evaluate(arrays, params)]
    atoms = [trace.handle(v).atom for v in operands]
    outs = trace.emit.bind(primitive, atoms, params)
    return [trace.tracer(a) for a in outs]
