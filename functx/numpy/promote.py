"""From operands to atoms: NumPy's promotion (NEP 50) and broadcasting as explicit equations, and the kind and layout of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import dtypes, shapes
from functx.dims import Condition
from functx.dtypes import Kind
from functx.errors import UnsupportedError
from functx.ir import Atom, Literal
from functx.ops import elementwise
from functx.ops.movement import size_value
from functx.trace import Trace, Tracer, current_trace, dataless, leaked, made_at, where
from functx.util import invert_permutation


def active_trace(values: Sequence[Any]) -> Trace:
    """The innermost trace; an error about a leaked tracer when there is none."""
    trace = current_trace()
    if trace is None:
        raise leaked(next(v for v in values if isinstance(v, Tracer)))
    return trace


def handles(values: Sequence[Any]) -> list[Tracer]:
    """Handles in the innermost trace for array-likes: tracers, arrays, scalars, nested lists of them."""
    return handles_in(active_trace(values), values)


def handles_in(trace: Trace, values: Sequence[Any]) -> list[Tracer]:
    """Handles of array-likes in a given trace."""
    return [as_handle(trace, v) for v in values]


class ArrayLike:
    """What stands for a traced array without being one (``x.flat``); ``as_array()`` gives the array."""

    __slots__ = ()

    def as_array(self) -> Tracer:
        """The array."""
        raise NotImplementedError


def as_handle(trace: Trace, value: Any) -> Tracer:
    """The handle of one array-like in ``trace``."""
    if isinstance(value, ArrayLike):
        value = value.as_array()
    if isinstance(value, (list, tuple)):
        if contains_tracer(value):
            return stack_nested(trace, value)
        value = np.array(value)  # a fresh array: nobody can change it, so it is a constant
        return trace.tracer(trace.builder.const(_supported(value)))
    if isinstance(value, Condition):
        return _truth(trace, value)
    return _size_value(trace, value) if isinstance(value, shapes.Dim) else trace.handle(value)


def _truth(trace: Trace, condition: Condition) -> Tracer:
    """A comparison of sizes, whose answer nobody knows while tracing, as a traced Python bool."""
    b, difference = trace.emit, size_value(trace.emit, condition.difference)
    compare = (b.ne if condition.negated else b.eq) if condition.kind == "==" else b.lt if condition.negated else b.ge
    return trace.tracer(compare(difference, b.zeros_like(difference)), Kind.PYTHON)


def _size_value(trace: Trace, d: shapes.Dim) -> Tracer:
    """A symbolic size as a traced Python int."""
    return trace.tracer(size_value(trace.emit, d), Kind.PYTHON)


def _as_data(d: shapes.Dim) -> Tracer:
    trace = current_trace()
    if trace is None:
        raise d.number_needed()
    return _size_value(trace, d)


def _quotient(a: Any, b: Any) -> Tracer:
    """A true quotient with a size, as a traced Python float; the divisor is not zero."""
    trace = current_trace()
    if trace is None:
        raise next(d for d in (a, b) if isinstance(d, shapes.Dim)).number_needed()
    operands = handles_in(trace, [a, b])
    dtype = np.result_type(np.float64, *(h.aval.dtype for h in operands))
    return trace.tracer(trace.emit.div(*(convert(trace.emit, h, dtype) for h in operands)), Kind.PYTHON)


shapes.Dim.as_data, shapes.Dim.quotient = staticmethod(_as_data), staticmethod(_quotient)


def positions(n: shapes.Size) -> Any:
    """0, 1, ..., n - 1: a plain array, or a traced one of a symbolic size."""
    if isinstance(n, int):
        return np.arange(n)
    trace = current_trace()
    return trace.tracer(trace.emit.iota(shape=(n,), dtype=dtypes.INT64, axis=0))


def _supported(array: np.ndarray) -> np.ndarray:
    if not dtypes.is_supported(array.dtype):
        raise UnsupportedError(f"arrays of dtype {array.dtype} cannot be traced", where=where())
    return array


def contains_tracer(value: Any) -> bool:
    """Whether a nested list or tuple has a tracer in it."""
    if isinstance(value, (list, tuple)):
        return any(contains_tracer(v) for v in value)
    return isinstance(value, Tracer)


def is_traced(*values: Any) -> bool:
    """Whether a tracer is among the arguments, or in lists among them."""
    return any(contains_tracer(v) for v in values)


def stack_nested(trace: Trace, value: Any) -> Tracer:
    """The array that NumPy makes of a nested list, with tracers among its items."""
    if not isinstance(value, (list, tuple)):
        return trace.handle(value)
    if not contains_tracer(value):
        return as_handle(trace, list(value))
    items = [stack_nested(trace, v) for v in value]
    if not all(shapes.fit(item.aval.shape, items[0].aval.shape) for item in items):
        listed = ", ".join(shapes.show(item.aval.shape) for item in items)
        raise ValueError(f"setting an array element with a sequence: the items have different shapes ({listed})")
    dtype = np.result_type(*(item.aval.dtype for item in items))  # in a list Python scalars are not weak
    b = trace.emit
    atoms = [b.reshape(convert(b, i, dtype), shape=(1, *i.aval.shape)) for i in items]
    return trace.tracer(b.concatenate(*atoms, axis=0))


def mask(value: Any) -> Tracer:
    """``where=``: NumPy takes the truth of numbers, and of what stands in lists, but of arrays it wants bools."""
    trace = current_trace()
    if not isinstance(value, np.ndarray) and not is_traced(value):
        array = np.asarray(value, dtypes.BOOL)
        return trace.tracer(trace.builder.const(array)) if array.ndim else trace.handle(bool(value))
    (h,) = handles([value])
    if h.aval.dtype == dtypes.BOOL:
        return h
    if h.kind is Kind.ARRAY and not isinstance(value, (list, tuple)):
        np.copyto(np.empty(0), 0, where=np.empty(0, h.aval.dtype))  # raises NumPy's own error
    return trace.tracer(trace.emit.ne(h.atom, trace.emit.zeros_like(h.atom)), h.kind)


def representative(handle: Tracer) -> Any:
    """What stands for an operand in np.result_type: its dtype, or a Python scalar where it is weak."""
    if handle.kind is Kind.PYTHON and handle.aval.dtype != dtypes.BOOL:
        return dtypes.python_type(handle.aval.dtype)(0)
    return handle.aval.dtype


def loop_dtype(handle: Tracer) -> Any:
    """What stands for an operand in ``ufunc.resolve_dtypes``: its dtype, or ``int``/``float``/``complex`` where it is weak."""
    if handle.kind is Kind.PYTHON and handle.aval.dtype != dtypes.BOOL:
        return dtypes.python_type(handle.aval.dtype)
    return handle.aval.dtype


def convert(b: Any, handle: Tracer, dtype: np.dtype, *, wraps: bool = False) -> Atom:
    """The handle's value in another dtype. A Python int that does not fit raises OverflowError, now or when the compiled code runs, unless
    it ``wraps``.
    """
    atom = handle.atom
    if handle.aval.dtype == dtype:
        return atom
    checked = handle.aval.weak and handle.aval.dtype.kind == "i" and dtype.kind in "iu" and not wraps
    if isinstance(atom, Literal):
        return Literal(atom.value.item() if checked else elementwise.convert.impl(atom.value, dtype=dtype, checked=False), dtype)
    return b.convert(atom, dtype=dtype, checked=checked)


def broadcast(b: Any, atom: Atom, shape: shapes.Shape) -> Atom:
    """The atom broadcast to ``shape`` by NumPy's rules (which the caller has checked)."""
    own = atom.aval.shape
    if shapes.same_shape(own, shape):
        return atom
    return b.broadcast(atom, shape=tuple(shape), dims=tuple(range(len(shape) - len(own), len(shape))))


def broadcast_shapes(operands: Sequence[Tracer]) -> shapes.Shape:
    """The common shape of operands; the error names each operand's type and where it was made."""
    try:
        return shapes.broadcast(*(h.aval.shape for h in operands))
    except shapes.ShapeError as error:
        raise shapes.ShapeError(
            error.what,
            where=where(),
            why="; ".join(describe(h) for h in operands),
            fix="reshape one of them, or index with None to add an axis",
        ) from None


def describe(handle: Tracer) -> str:
    """An operand in an error message: its type and where it came from."""
    return f"{made_at(handle)} is {handle.aval}"


def result_kind(shape: shapes.Shape) -> Kind:
    """NumPy returns a scalar where the result of a ufunc, a reduction or a product has no axes."""
    return Kind.ARRAY if shape else Kind.SCALAR


def k_order(operands: Sequence[Tracer], shape: shapes.Shape, dtype: np.dtype) -> Callable[[], np.ndarray] | None:
    """The layout that NumPy gives a fresh elementwise result, worked out when somebody asks. None: C order."""
    deep = [h for h in operands if sum(not shapes.same(d, 1) for d in h.aval.shape) > 1]  # the others have no order
    return k_order_of(deep, lambda: [np.broadcast_to(h.shadow, shapes.hints(shape)).strides for h in deep], shape, dtype)


def k_order_of(
    operands: Sequence[Tracer], strides: Callable[[], Sequence[Sequence[int]]], shape: shapes.Shape, dtype: np.dtype
) -> Callable[[], np.ndarray] | None:
    """The layout of a fresh result whose axes lie in memory as those of the operands do, whose strides along them are given."""
    if len(shape) < 2 or all(h.is_fresh_c_order for h in operands):
        return None

    def shadow() -> np.ndarray:
        layouts = [dataless(shape, h.aval.dtype, s) for h, s in zip(operands, strides(), strict=True)]
        if all(s.flags.c_contiguous for s in layouts):
            return dataless(shape, dtype)
        return loop_result(layouts, [range(len(shape))] * (len(layouts) + 1), dtype)

    return shadow


def loop_result(operands: Sequence[np.ndarray], axes: Sequence[Sequence[int]], dtype: np.dtype, order: str = "K") -> np.ndarray:
    """What NumPy allocates for the result of a loop over arrays without data: ``axes`` gives for each of them, and for the result, the
    axis along which each dimension of the loop goes (-1: none).
    """
    flags, reads = ["zerosize_ok", "reduce_ok"], [["readonly"]] * len(operands)
    made = np.nditer(
        [*operands, None], flags, [*reads, ["readwrite", "allocate"]], op_dtypes=[*(a.dtype for a in operands), dtype], order=order,
        op_axes=[list(places) for places in axes],
    ).operands[-1]  # fmt: skip
    return dataless(made.shape, dtype, made.strides)


def in_order(axes: Sequence[int], shape: shapes.Shape, dtype: np.dtype) -> np.ndarray:
    """An array without data of a shape, of which ``axes`` are the axes from the outermost in memory to the innermost."""
    return dataless([shape[i] for i in axes], dtype).transpose(invert_permutation(axes))
