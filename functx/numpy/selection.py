"""where, take, clip, put and other functions that select, or write what was selected."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.capture import repeats
from functx.dtypes import BOOL, INT64, Kind, is_complex, is_inexact
from functx.mutation import check_writeable, write, write_where
from functx.numpy import indexing, positions, promote, reductions, ufunc_methods
from functx.numpy.flat import set_repeated
from functx.numpy.manipulation import along, into, layout, ravel, reshape, resize
from functx.numpy.manipulation import copy as copied
from functx.trace import Tracer, contiguity, current_trace


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """np.where: with three arguments always an array, a 0-d one for scalars; with one argument np.nonzero."""
    if x is None and y is None:
        return positions.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    c, a, b_ = promote.handles([condition, x, y])
    dtype = np.result_type(promote.representative(a), promote.representative(b_))
    shape = promote.broadcast_shapes([c, a, b_])
    b = current_trace().emit
    chosen = (promote.convert(b, h, dtype, wraps=True) for h in (a, b_))  # so does NumPy here
    parts = [promote.broadcast(b, atom, shape) for atom in (reductions.truth(c), *chosen)]

    def strides() -> list[Any]:
        return [np.broadcast_to(h.shadow, shapes.hints(shape)).strides for h in (c, a, b_)]

    return current_trace().tracer(b.select(*parts), Kind.ARRAY, promote.k_order_of([c, a, b_], strides, shape, dtype))


def sized_where(condition: Any, *values: Any, size: int | None = None, fill_value: Any = None) -> Any:
    """np.where; with the condition alone and ``size=n`` the first n places where it holds, as :func:`functx.numpy.nonzero` gives them.

    >>> sized_where(np.array([False, True]), size=2, fill_value=-1)
    (array([ 1, -1]),)
    """
    if size is None and fill_value is None:
        return np.where(*map(positions.as_array, (condition, *values)))
    if values:
        raise TypeError("size= and fill_value= are for the one-argument form of where")
    return positions.nonzero(condition, size=size, fill_value=fill_value)


# --- taking -------------------------------------------------------------------------------------------------------------------------------


def in_range(indices: Any, n: Any, mode: str) -> Any:
    """Index values by the ``mode`` of take, put and choose; "raise" leaves them to the check of the indexing."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if isinstance(indices, (list, tuple)) and not promote.contains_tracer(indices):
        array = np.asarray(indices)
        indices = array if array.size else array.astype(INT64)
    if mode == "raise":
        return indices
    (h,) = promote.handles([indices])
    return np.clip(h, 0, n - 1) if mode == "clip" else np.remainder(h, n)


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """np.take, checked."""
    h, axis = along(promote.handles([a])[0], axis)
    indices = in_range(indices, h.aval.shape[axis], mode)
    if 0 in h.aval.shape[:axis]:  # NumPy looks at no index then
        shape = (*h.aval.shape[:axis], *promote.handles([indices])[0].aval.shape, *h.aval.shape[axis + 1 :])
        return into(out, current_trace().tracer(current_trace().emit.full(shape, 0, h.aval.dtype)), "unsafe")
    taken = h[(*(slice(None),) * axis, indices)]
    return into(out, current_trace().tracer(taken.atom, taken.kind), "unsafe")  # never a view, always in C order


def _along_axis(h: Tracer, indices: Tracer, axis: int) -> tuple[Any, ...]:
    rank = h.aval.ndim
    if indices.aval.ndim != rank:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    key = []
    for i in range(rank):
        ramp = promote.positions(h.aval.shape[i]).reshape([-1 if j == i else 1 for j in range(rank)])
        key.append(indices if i == axis else ramp)
    return tuple(key)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """np.take_along_axis."""
    h, index = promote.handles([arr, indices])
    if axis is None:
        return ravel(h)[index]
    return h[_along_axis(h, index, shapes.canonical_axis(axis, h.aval.ndim))]


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """np.choose: element by element from the array that ``a`` numbers."""
    number, *options = promote.handles([a, *choices])
    if number.aval.dtype.kind not in "iub":
        raise TypeError(f"Cannot cast array data from {number.aval.dtype} to int64 according to the rule 'safe'")
    n = len(options)
    dtype = np.result_type(*(h.aval.dtype for h in options))
    shape = promote.broadcast_shapes([number, *options])
    b = current_trace().emit
    rows = [b.reshape(promote.broadcast(b, promote.convert(b, h, dtype), shape), shape=(1, *shape)) for h in options]
    stacked = current_trace().tracer(b.concatenate(*rows, axis=0))
    number = in_range(np.where(np.less(number, 0), n, number) if mode == "raise" else number, n, mode)
    numbers = promote.handles([np.broadcast_to(number.astype(INT64), (1, *shape))])[0]
    chosen = stacked[_along_axis(stacked, numbers, 0)][0, ...]
    return into(out, current_trace().tracer(chosen.atom), "unsafe")  # in C order


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tracer:
    """np.select: from the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    conditions, options = promote.handles(condlist), promote.handles([*choicelist, default])
    for i, c in enumerate(conditions):
        if c.aval.dtype != BOOL:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    dtype = np.result_type(*map(promote.representative, options))
    trace = current_trace()
    *values, result = (trace.tracer(promote.convert(trace.emit, h, dtype)) for h in options)
    for c, value in zip(conditions[::-1], values[::-1], strict=True):
        result = where(c, value, result)
    return result


# --- writing ------------------------------------------------------------------------------------------------------------------------------


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """np.copyto: where a condition holds."""
    target, (source,) = indexing.writeable(dst), promote.handles([src])
    np.copyto(np.empty(0, target.dtype), ufunc_methods.nothing_like(source), casting=casting)  # raises NumPy's own error
    if where is True:
        indexing.setitem(target, ..., source)
        return
    (h,), condition = promote.handles([target]), promote.mask(where)
    new = indexing.assigned(source, h.aval.shape, h.aval.dtype)
    check_writeable(h)
    shape = h.aval.shape
    if shapes.broadcast(condition.aval.shape, shape) != shape:
        raise ValueError(f"could not broadcast where mask from shape {shapes.show(condition.aval.shape)} into shape {shapes.show(shape)}")
    write_where(h, promote.broadcast(current_trace().emit, condition.atom, shape), new)


def _replace_where(h: Tracer, condition: Tracer, values: Tracer) -> None:
    """Write where a condition holds, into a copy of which all is written back: so does NumPy in functions that want arrays in C order."""
    new = indexing.assigned(values, h.aval.shape, h.aval.dtype)
    check_writeable(h)
    write(h, current_trace().emit.select(condition.atom, new, h.atom))


def _same_size_mask(h: Tracer, mask: Any, name: str) -> Tracer:
    truth = positions.truth(mask)
    if shapes.size(truth.aval.shape) != shapes.size(h.aval.shape):
        raise ValueError(f"{name}: mask and data must be the same size")
    return reshape(truth, h.aval.shape)


def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """np.putmask: where the mask holds, the value at the same place of the flattened (repeated) values."""
    (h,) = promote.handles([indexing.writeable(a)])
    _check_safe(values, h)
    truth, values = _same_size_mask(h, mask, "putmask"), indexing.as_stored(values, h.aval.dtype)
    if shapes.size(promote.handles([values])[0].aval.shape):
        _replace_where(h, truth, resize(values, h.aval.shape))


def _check_safe(values: Any, h: Tracer) -> None:
    """Raise NumPy's own error for an array that np.putmask does not cast; numbers it takes for what they are."""
    if isinstance(values, Tracer) and values.kind is Kind.ARRAY or isinstance(values, np.ndarray):
        like = np.empty((0,) if np.ndim(values) else (), values.dtype)
        np.putmask(np.empty(0, h.aval.dtype), np.empty(0, bool), like)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """np.place: the (repeated) values one after another, in the places where the mask holds."""
    (h,) = promote.handles([indexing.writeable(arr)])
    truth, flat = _same_size_mask(h, mask, "place"), ravel(indexing.as_stored(vals, h.aval.dtype))
    n = flat.aval.shape[0]
    if shapes.fit((n,), (0,)):
        raise ValueError("Cannot insert from an empty array!")
    counted = np.cumsum(ravel(truth)) - 1
    _replace_where(h, truth, reshape(flat[np.remainder(counted, n)], h.aval.shape))


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """np.put: writes (repeated) values in places of the flattened array."""
    (h,) = promote.handles([indexing.writeable(a)])
    places = ravel(in_range(ind, shapes.size(h.aval.shape), mode))
    if shapes.fit(places.aval.shape, (0,)):
        check_writeable(h)
        return
    target = copied(h) if repeats(h.shadow) else h
    flat = reshape(target, -1)
    set_repeated(flat, places, v)
    if target is not h or flat.parent is None and flat is not h:  # a copy, all of which NumPy writes back
        write(h, reshape(flat, h.aval.shape).atom)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """np.put_along_axis."""
    h, index = promote.handles([indexing.writeable(arr), indices])
    if axis is None:
        if not (h.is_fresh_c_order or contiguity(h).flags.c_contiguous):
            raise ValueError("assignment destination is read-only")  # NumPy writes into np.array(arr.flat), which is a view only of such
        put(h, index, values)
        return
    indexing.setitem(h, _along_axis(h, index, shapes.canonical_axis(axis, h.aval.ndim)), values)


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """np.nan_to_num: what is no finite number replaced, in the array itself with copy=False."""
    (h,) = promote.handles([x])
    if h.kind is not Kind.ARRAY and copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    h = copied(h) if copy or h.kind is not Kind.ARRAY else h
    if h.aval.dtype.kind in "fc":  # to NumPy bfloat16 is no float
        for part in (h.real, h.imag) if is_complex(h.aval.dtype) else (h,):
            info = np.finfo(part.aval.dtype)
            replaced = (np.isnan(part), nan), (part == np.inf, posinf), (part == -np.inf, neginf)
            for (place, value), default in zip(replaced, (nan, info.max, info.min), strict=True):
                copyto(part, default if value is None else value, where=place)
    return h if h.aval.ndim else h[()]


# --- bounds, rounding, closeness ----------------------------------------------------------------------------------------------------------


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """np.clip: minimum(maximum(a, a_min), a_max), with derivative 0 at a Python scalar bound."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    (h,) = reductions.arrays([a])
    if h.aval.dtype.kind in "iu":  # a Python int beyond what the dtype holds is no bound, as in NumPy
        info = np.iinfo(h.aval.dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    if low is None and high is None:
        return np.positive(h, out=out)
    if low is not None and high is not None:  # one ufunc, with a loop for all three
        result = np.clip(*(ufunc_methods.nothing_like(v) for v in promote.handles([h, low, high]))).dtype
        h = h if result == h.aval.dtype else current_trace().tracer(promote.convert(current_trace().emit, h, result), h.aval.kind)
    if low is not None:
        h = np.maximum(h, low)
    if high is not None:
        h = np.minimum(h, high)
    return h if out is None else np.positive(h, out=out)


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """np.round, as NumPy computes it: scaled by a power of ten, rounded to even, scaled back. It is piecewise constant."""
    (h,) = promote.handles([a])
    decimals, integers = operator.index(decimals), h.aval.dtype.kind in "iu"
    if integers and decimals >= 0:
        rounded = np.positive(h)
    elif decimals == 0:
        rounded = np.rint(h)
    else:
        there, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
        scale = 10.0 ** abs(decimals)
        if h.aval.dtype == BOOL:
            there(np.empty(0, bool), scale, out=np.empty(0, bool))  # raises NumPy's own error
        own = h.aval.dtype if is_inexact(h.aval.dtype) else None  # NumPy works in place
        rounded = _in_dtype(back(np.rint(_in_dtype(there(h, scale), own)), scale), own)
        rounded = current_trace().tracer(rounded.atom, rounded.kind, layout("A", h.aval.shape, rounded.dtype, h))
    if integers and rounded.dtype != h.aval.dtype:
        rounded = rounded.astype(h.aval.dtype)
    return rounded if out is None else np.positive(rounded, out=out)


def _in_dtype(x: Any, dtype: np.dtype | None) -> Any:
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """np.isclose."""
    b = np.multiply(b, 1.0)
    close = np.less_equal(np.abs(np.subtract(a, b)), atol + rtol * np.abs(b))
    close = np.logical_and(close, np.isfinite(b))
    close = np.logical_or(close, np.equal(a, b))
    return np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close
