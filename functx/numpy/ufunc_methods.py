"""The keywords and methods of ufuncs on tracers: ``where= signature= order=``, reduce, accumulate, reduceat, outer and at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import dtypes, shapes
from functx.dtypes import Kind
from functx.errors import ConcretizationError, UnsupportedError
from functx.mutation import check_writeable
from functx.numpy import cumulative, indexing, manipulation, products, promote, reductions, ufuncs
from functx.trace import Tracer, contiguity, current_trace, dataless
from functx.trace import where as user_line

# --- calls --------------------------------------------------------------------------------------------------------------------------------


def call(
    ufunc: np.ufunc, inputs: Sequence[Any], *, out: Any = None, where: Any = True, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True, signature: Any = None, sig: Any = None,
) -> Any:  # fmt: skip
    """``ufunc(*inputs)`` with all its keywords. Without ``out`` the places that ``where`` leaves out hold 0 (NumPy leaves them unset)."""
    if signature is not None or sig is not None:
        inputs, dtype = _converted(ufunc, inputs, sig if signature is None else signature, casting), None
    run = ufuncs.apply_pair if ufunc in ufuncs.PAIRS else ufuncs.apply
    outs = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if where is True and order == "K":
        return run(ufunc, inputs, out=outs, dtype=dtype, casting=casting)
    results = run(ufunc, inputs, dtype=dtype, casting=casting)
    pairs = zip(results if ufunc.nout > 1 else (results,), outs, strict=True)
    done = tuple(_finished(r, o, where, casting, order, inputs) for r, o in pairs)
    return done if ufunc.nout > 1 else done[0]


def _converted(ufunc: np.ufunc, inputs: Sequence[Any], signature: Any, casting: str) -> list[Tracer]:
    """The operands in the dtypes of the loop that a signature chooses."""
    operands = promote.handles(inputs)
    stand_ins = [dtypes.python_type(h.aval.dtype)(1) if h.kind is Kind.PYTHON else np.ones(1, h.aval.dtype) for h in operands]
    ufunc(*stand_ins, signature=signature, casting=casting)  # raises NumPy's own errors
    wanted = signature.replace("->", "") if isinstance(signature, str) else signature
    if len(wanted) != ufunc.nin + ufunc.nout:
        wanted = (*(None,) * ufunc.nin, *wanted)
    loop = ufunc.resolve_dtypes(
        (*map(promote.loop_dtype, operands), *(None,) * ufunc.nout),
        signature=tuple(None if d is None else np.dtype(d) for d in wanted),
        casting=casting,
    )
    trace = current_trace()
    kinds = [Kind.SCALAR if h.kind is Kind.PYTHON else h.kind for h in operands]
    return [trace.tracer(promote.convert(trace.emit, h, d), kind) for h, d, kind in zip(operands, loop, kinds, strict=False)]


def _finished(result: Tracer, out: Any, where: Any, casting: str, order: str, inputs: Sequence[Any]) -> Any:
    """A result after ``where``, in ``out`` or in the layout that was asked for."""
    trace, dtype = current_trace(), result.aval.dtype
    target = result if out is None else promote.handles([out])[0]
    if not np.can_cast(dtype, target.aval.dtype, casting):
        np.add(np.empty(0, dtype), np.empty(0, dtype), out=np.empty(0, target.aval.dtype), casting=casting)  # raises NumPy's own error
    b, atom = trace.emit, promote.convert(trace.emit, result, target.aval.dtype)
    if where is not True:
        mask = promote.mask(where)
        shape = promote.broadcast_shapes([result, mask] if out is None else [result, mask, target])
        unselected = b.full(shape, 0, dtype) if out is None else promote.broadcast(b, target.atom, shape)
        atom = b.select(promote.broadcast(b, mask.atom, shape), promote.broadcast(b, atom, shape), unselected)
    if out is not None:
        return ufuncs.store(np.add, [atom.aval.dtype] * 2, atom.aval.dtype, atom, out, casting)
    shape = atom.aval.shape
    if order == "A":
        order = "F" if all(contiguity(h).flags.f_contiguous for h in promote.handles(inputs)) else "C"
    return trace.tracer(atom, promote.result_kind(shape), manipulation.layout(order, shape, dtype, like=result))


# --- methods ------------------------------------------------------------------------------------------------------------------------------


def outer(
    ufunc: np.ufunc, inputs: Sequence[Any], *, out: Any = None, where: Any = True, casting: str = "same_kind", order: str = "K",
    dtype: Any = None,
) -> Any:  # fmt: skip
    """``ufunc.outer``: of every element of the one with every element of the other."""
    ufunc.outer(*(np.ones(1, h.aval.dtype) for h in promote.handles(inputs)))  # raises NumPy's own errors
    a, c = reductions.arrays(inputs)
    keywords = {"out": out, "where": where, "casting": casting, "order": order, "dtype": dtype}
    return call(ufunc, (a[(..., *(None,) * c.aval.ndim)] if a.aval.ndim and c.aval.ndim else a, c), **keywords)


def reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """``ufunc.reduceat``: reductions of the slices that begin at ``indices``, which must be known; one per slice is recorded."""
    (h,) = promote.handles([array])
    out = reductions.single_out(out)
    indices = indices.value() if isinstance(indices, Tracer) else indices
    plain = reductions.stand_in(h)
    if h.aval.ndim and isinstance(axis, int):
        place = shapes.canonical_axis(axis, h.aval.ndim)
        plain = np.ones([known_size(h, i) if i == place else n for i, n in enumerate(plain.shape)], plain.dtype)
    with np.errstate(all="ignore"):
        ufunc.reduceat(plain, indices, axis=axis, dtype=dtype)  # raises NumPy's own errors
    starts = np.asarray(indices).astype(int)
    lead, loop = (slice(None),) * place, reductions.loop_dtype(ufunc, h, dtype, out)
    ends = [*starts[1:].tolist(), known_size(h, place)]
    regions = [(lo, hi if lo < hi else lo + 1) for lo, hi in zip(starts.tolist(), ends, strict=False)]
    parts = [reductions.reduce(ufunc, h[(*lead, slice(lo, hi))], place, loop, keepdims=True) for lo, hi in regions]
    result = np.concatenate(parts, axis=place) if parts else h[(*lead, slice(0, 0))].astype(loop)
    if out is not None:
        return reductions.store_exactly(result.atom, out)
    every = range(h.aval.ndim)
    axes = [[-1 if i == place else i for i in every], [0 if i == place else -1 for i in every], every]
    loop_over = lambda: [h.shadow, dataless(starts.shape, starts.dtype)]  # noqa: E731
    return current_trace().tracer(result.atom, Kind.ARRAY, lambda: promote.loop_result(loop_over(), axes, loop))


def known_size(h: Tracer, axis: int) -> int:
    """The length of an axis, as a number."""
    return h.aval.shape[axis].__index__()


_SCATTERS = {np.add: "scatter_add", np.multiply: "scatter_mul", np.maximum: "scatter_max", np.minimum: "scatter_min"}


def at(ufunc: np.ufunc, target: Any, key: Any, *values: Any) -> None:
    """``ufunc.at``: every repetition of an index counts. Sums, products and extrema are one scatter; the others go in rounds of different
    places, as many as an index occurs (one round per value where the indices are not known while tracing).
    """
    if not isinstance(target, Tracer):
        raise ufuncs.write_error(target)
    operands = promote.handles(values)
    ufunc.at(np.ones(0, target.dtype), np.empty(0, int), *map(nothing_like, operands))  # raises NumPy's own error
    if not ufuncs.is_traced(ufunc):
        raise UnsupportedError(f"np.{ufunc.__name__}.at is not traced by functx", where=user_line(), fix=ufuncs.WRITE_INSTEAD)
    (h,) = promote.handles([target])
    check_writeable(h)
    if ufunc is np.subtract and h.aval.dtype.kind != "b":
        ufunc, operands = np.add, [np.multiply(v, -1) if v.aval.dtype == dtypes.BOOL else np.negative(v) for v in operands]
    if indexing.unknown_mask(key) is not None or indexing.parse(h, key).is_view:  # one region: nothing repeats
        indexing.setitem(target, key, ufunc(indexing.getitem(target, key), *operands))
    elif ufunc in _SCATTERS and _stays(ufunc, h.aval.dtype, operands[0]):
        indexing.scatter_at(target, key, operands[0], _SCATTERS[ufunc])
    else:
        _in_rounds(ufunc, h, key, operands)


def nothing_like(h: Tracer) -> Any:
    """What NumPy can check casts with in the place of a traced operand."""
    return dtypes.python_type(h.aval.dtype)(0) if h.aval.weak else np.empty(0, h.aval.dtype)


def _stays(ufunc: np.ufunc, dtype: np.dtype, value: Tracer) -> bool:
    """Whether the values can be cast to the target's dtype first: NumPy casts after each step."""
    loop = ufunc.resolve_dtypes((dtype, promote.loop_dtype(value), None), casting="unsafe")[0]
    return loop == dtype != dtypes.BOOL or (ufunc in (np.add, np.multiply) and loop.kind == dtype.kind)


def _in_rounds(ufunc: np.ufunc, h: Tracer, key: Any, operands: Sequence[Tracer]) -> None:
    shape = h.aval.shape
    places = indexing.getitem(manipulation.reshape(promote.handles([promote.positions(shapes.size(shape))])[0], shape), key)
    row = manipulation.as_row(h)
    index = manipulation.ravel(places)
    spread = [manipulation.ravel(manipulation.broadcast_to(v, places.aval.shape)) for v in operands]
    for chosen in _rounds(index):
        now = index[chosen]
        row[now] = ufunc(row[now], *(v[chosen] for v in spread))


def _rounds(index: Tracer) -> list[Any]:
    """Parts of the values, in order, in each of which all places are different."""
    try:
        places = np.asarray(index.value())
    except ConcretizationError:
        return [slice(i, i + 1) for i in range(known_size(index, 0))]
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]] if places.size else np.zeros(0, bool)
    begin = np.maximum.accumulate(np.where(first, np.arange(places.size), 0))
    occurrence = np.empty(places.size, int)
    occurrence[order] = np.arange(places.size) - begin
    return [np.flatnonzero(occurrence == k).tolist() for k in range(occurrence.max(initial=-1) + 1)]


# --- which implementation -----------------------------------------------------------------------------------------------------------------


def implementation(ufunc: np.ufunc, method: str, inputs: Sequence[Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What computes ``ufunc.method(*inputs)`` on tracers, and its leading arguments."""
    if method == "__call__":
        return (products.GUFUNCS[ufunc], tuple(inputs)) if ufunc in products.GUFUNCS else (call, (ufunc, inputs))
    if ufunc.signature is not None or (method in ("reduce", "accumulate", "reduceat") and (ufunc.nin, ufunc.nout) != (2, 1)):
        getattr(ufunc, method)(*(np.ones((1, 1)) for _ in inputs))  # raises NumPy's own error
    if method == "outer":
        return outer, (ufunc, inputs)
    methods = {"reduce": reductions.reduce, "accumulate": cumulative.accumulate, "reduceat": reduceat, "at": at}
    return methods[method], (ufunc, *inputs)
