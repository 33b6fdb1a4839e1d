"""``x[mask]`` where the mask's value is unknown while tracing: the full array together with the mask.

NumPy's result has as many elements as the mask selects, which nobody knows here. Elementwise operations act on the full array: what they
give in places that are not selected is never looked at, and no derivative comes from there (a cotangent of 0 stays 0). Reductions
leave those places out, and assignment through the same mask puts the selected values back. Anything else would need the number of selected
elements: then it becomes an ordinary array, of a size that its equation binds (:mod:`functx.numpy.bound`), and stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes, trees
from functx.dtypes import BOOL, is_complex, is_inexact
from functx.numpy import bound, promote
from functx.numpy.reductions import root
from functx.ops.parts import part_dtype
from functx.trace import Tracer, current_trace, leaked


def select(h: Tracer, mask: Tracer) -> Masked:
    """``h[mask]``, a copy, with 1 in the other places: a number at which few functions are singular."""
    trace = current_trace()
    check_shape(h, mask)
    b = trace.emit
    wide = b.broadcast(mask.atom, shape=h.aval.shape, dims=tuple(range(mask.aval.ndim)))
    return Masked(trace.tracer(b.select(wide, h.atom, b.full_like(h.atom, 1))), trace.tracer(mask.atom))


def check_shape(h: Tracer, mask: Tracer) -> None:
    """The mask covers the first axes of the array."""
    shape, own = h.aval.shape, mask.aval.shape
    if not shapes.fit(own, shape[: len(own)]):
        show = shapes.show
        raise IndexError(f"boolean index did not match indexed array: the mask has shape {show(own)}, the array {show(shape)}")


class Masked(np.lib.mixins.NDArrayOperatorsMixin, promote.ArrayLike):
    """The elements of ``full`` that ``mask``, over its first axes, selects."""

    __slots__ = ("_array", "full", "mask")

    def __init__(self, full: Tracer, mask: Tracer):
        self.full, self.mask = full, mask
        self._array: Tracer | None = None

    @property
    def dtype(self) -> np.dtype:
        """As of the array."""
        return self.full.dtype

    @property
    def ndim(self) -> int:
        """One for all axes of the mask, and the other axes of the array."""
        return 1 + self.full.ndim - self.mask.ndim

    @property
    def is_array(self) -> bool:
        """Whether it has become an ordinary array: writes to it went there."""
        return self._array is not None

    def as_array(self) -> Tracer:
        """The selected elements alone, from now on: in the trace that selected them, though one inside it asks."""
        if self._array is None:
            if self.full.stage.closed:
                raise leaked(self.full)
            with self.full.stage.resumed():
                self._array = self._selected()
        return self._array

    def _selected(self) -> Tracer:
        trace, full, mask = self.full.stage, self.full, self.mask
        b, total = trace.emit, shapes.size(mask.aval.shape)
        rows = b.reshape(full.atom, shape=(total, *full.aval.shape[mask.aval.ndim :]))
        chosen = bound.places(trace.tracer(b.reshape(mask.atom, shape=(total,))))
        return trace.tracer(b.gather(rows, chosen.atom, axes=(0,)))

    def copy(self) -> Any:
        """Memory of its own."""
        return self._array.copy() if self.is_array else Masked(self.full.copy(), self.mask)

    def astype(self, dtype: Any, **kwargs: Any) -> Any:
        """ndarray.astype."""
        return self._array.astype(dtype, **kwargs) if self.is_array else Masked(self.full.astype(dtype, **kwargs), self.mask)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc in _REDUCES and not self.is_array and out is None and inputs[0] is self:
            return _reduce(self, _REDUCES[ufunc], **{"axis": 0, **kwargs})
        targets = () if out is None else out
        place_by_place = method == "__call__" and ufunc.nout == 1 and ufunc is not np.matmul and "where" not in kwargs
        operands = self._aligned(inputs) if place_by_place and (not targets or self.full.stage is current_trace()) else None
        if operands is not None and not targets:
            return Masked(ufunc(*operands, **kwargs), self.mask)
        if operands is not None and isinstance(targets[0], Masked) and not targets[0].is_array and self.has_mask(targets[0].mask):
            ufunc(*operands, out=targets[0].full, **kwargs)
            return targets[0]
        given = {} if out is None else {"out": tuple(_plain(v) for v in targets)}
        return getattr(ufunc, method)(*map(_plain, inputs), **given, **{name: _plain(v) for name, v in kwargs.items()})

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if func.__name__ in _REDUCTIONS and args and args[0] is self and not self.is_array and _can_reduce(kwargs):
            return _reduce(self, func.__name__, *args[1:], **kwargs)
        return func(*trees.map(_plain, args), **trees.map(_plain, kwargs))

    def __getattr__(self, name: str) -> Any:
        if name in _REDUCTIONS and not self.is_array:
            return lambda *args, **kwargs: _reduce(self, name, *args, **kwargs)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        member = getattr(self.as_array(), name)
        if not callable(member):
            return member
        return lambda *args, **kwargs: member(*map(_plain, args), **{name: _plain(v) for name, v in kwargs.items()})

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.as_array().__array__(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.as_array()[_plain_key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.as_array()[_plain_key(key)] = value

    def __len__(self) -> int:
        return len(self.as_array())

    def __iter__(self) -> Any:
        return iter(self.as_array())

    def __bool__(self) -> bool:
        return bool(self.as_array())

    def __repr__(self) -> str:
        return f"Masked<{self.full.aval}>"

    def has_mask(self, mask: Tracer) -> bool:
        """Whether it was selected by this mask, or one computed in the same way."""
        trace = current_trace()
        return bound.same_value(trace, trace.lift(self.mask).atom, trace.lift(mask).atom)

    def _aligned(self, values: Sequence[Any]) -> list[Any] | None:
        """Operands beside the full array: selected by the same mask, or the same for all selected elements. None: not all are."""
        operands = []
        for value in values:
            shape = np.shape(value) if not isinstance(value, Masked) else ()
            if isinstance(value, Masked):
                if value.is_array or value.mask.ndim != self.mask.ndim or not self.has_mask(value.mask):
                    return None
                operands.append(value.full)
            elif len(shape) == self.ndim and shapes.same(shape[0], 1):
                operands.append(promote.handles([value])[0][0])
            elif len(shape) >= self.ndim:
                return None
            else:
                operands.append(value)
        return operands


def _plain(value: Any) -> Any:
    return value.as_array() if isinstance(value, Masked) else value


def _plain_key(key: Any) -> Any:
    return tuple(map(_plain, key)) if isinstance(key, tuple) else _plain(key)


def _can_reduce(options: dict[str, Any]) -> bool:
    return not options.keys() - {"axis", "dtype", "keepdims", "ddof"}


# --- reductions ---------------------------------------------------------------------------------------------------------------------------


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if is_inexact(dtype) else False if dtype == BOOL else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if is_inexact(dtype) else True if dtype == BOOL else np.iinfo(dtype).max


# What stands in the places that are not selected. The maximum of no elements, an error in NumPy, is this lowest value.
_REDUCTIONS: dict[str, Callable[[np.dtype], Any]] = {
    "sum": lambda dtype: 0, "prod": lambda dtype: 1, "max": _lowest, "min": _highest, "any": lambda dtype: 0, "all": lambda dtype: 1,
    "count_nonzero": lambda dtype: 0, "mean": lambda dtype: 0, "var": lambda dtype: 0, "std": lambda dtype: 0,
}  # fmt: skip
_REDUCTIONS["amax"], _REDUCTIONS["amin"] = _lowest, _highest
_REDUCES = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.logical_or: "any", np.logical_and: "all",
}  # fmt: skip


def _reduce(
    m: Masked, name: str, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, ddof: int = 0, **options: Any
) -> Any:  # fmt: skip
    if options:
        return getattr(np, name)(m.as_array(), axis, keepdims=keepdims, **({"dtype": dtype} if dtype else {}), **options)
    axes = shapes.canonical_axes(axis, m.ndim)
    covered = m.mask.ndim
    own = tuple(i - 1 + covered for i in axes if i > 0)
    if 0 not in axes:  # within each selected element
        options = ({"dtype": dtype} if dtype else {}) | ({"ddof": ddof} if name in ("var", "std") else {})
        return Masked(getattr(np, name)(m.full, axis=own, keepdims=keepdims, **options), m.mask) if axes else m
    where_to = (*range(covered), *own)
    if name in ("mean", "var", "std"):
        result = _moment(m, name, where_to, dtype, ddof)
    else:
        result = getattr(np, name)(_filled(m, name), axis=where_to, keepdims=True, **({"dtype": dtype} if dtype else {}))
    rest = [1 if i in axes else n for i, n in enumerate((1, *m.full.shape[covered:]))]
    if keepdims:
        return result.reshape(rest)
    return result.reshape([n for i, n in enumerate(rest) if i not in axes])[()]


def _spread(m: Masked) -> Tracer:
    """The mask with axes of size 1 for those that it does not cover."""
    return m.mask.reshape(m.mask.shape + (1,) * (m.full.ndim - m.mask.ndim))


def _filled(m: Masked, name: str) -> Tracer:
    dtype = m.full.dtype
    return np.where(_spread(m), m.full, dtype.type(_REDUCTIONS[name](dtype)))


def _moment(m: Masked, name: str, axes: tuple[int, ...], dtype: Any, ddof: int) -> Tracer:
    """Mean, variance or standard deviation, with the axes kept."""
    dtype = np.dtype(dtype) if dtype else m.dtype if is_inexact(m.dtype) else np.dtype(float)
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    others = np.prod([m.full.shape[i] for i in axes[m.mask.ndim :]], dtype=int)
    count = np.count_nonzero(m.mask) * others
    mean = np.sum(_filled(m, "sum"), axis=axes, dtype=wide, keepdims=True) / count.astype(wide)
    if name == "mean":
        return mean.astype(dtype)
    deviations = np.where(_spread(m), np.square(np.abs(m.full - mean)), 0)
    variance = np.sum(deviations, axis=axes, keepdims=True) / np.maximum(count - ddof, 0)
    result = root(variance, None) if name == "std" else variance
    return result.astype(part_dtype(dtype) if is_complex(dtype) else dtype)
