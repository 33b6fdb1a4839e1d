"""``x[mask]`` where the mask's value is unknown while tracing: the full array together with the mask.

NumPy's result has as many elements as the mask selects, which nobody knows here. Elementwise operations act on the full array: what they
give in places that are not selected is never looked at, and no derivative comes from there (a cotangent of 0 stays 0). Reductions
leave those places out, and assignment through the same mask puts the selected values back. Anything else would need the number of selected
elements, and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, is_complex, is_inexact
from functx.errors import ConcretizationError
from functx.ir import Atom, Literal, Var
from functx.numpy import promote
from functx.numpy.reductions import root
from functx.ops.parts import part_dtype
from functx.trace import Trace, Tracer, current_trace, where


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


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of ``full`` that ``mask``, over its first axes, selects."""

    __slots__ = ("full", "mask")

    def __init__(self, full: Tracer, mask: Tracer):
        self.full, self.mask = full, mask

    @property
    def dtype(self) -> np.dtype:
        """As of the array."""
        return self.full.dtype

    @property
    def ndim(self) -> int:
        """One for all axes of the mask, and the other axes of the array."""
        return 1 + self.full.ndim - self.mask.ndim

    def copy(self) -> Masked:
        """Memory of its own."""
        return Masked(self.full.copy(), self.mask)

    def astype(self, dtype: Any, **kwargs: Any) -> Masked:
        """ndarray.astype."""
        return Masked(self.full.astype(dtype, **kwargs), self.mask)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc in _REDUCES:
            return _reduce(inputs[0], _REDUCES[ufunc], **{"axis": 0, **kwargs})
        if method != "__call__" or ufunc.nout != 1 or ufunc is np.matmul:
            raise refusal(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
        operands = [self._aligned(v, ufunc.__name__) for v in inputs]
        if out is None:
            return Masked(ufunc(*operands, **kwargs), self.mask)
        (target,) = out
        if not isinstance(target, Masked) or not self.has_mask(target.mask):
            raise refusal(f"np.{ufunc.__name__} with out=")
        ufunc(*operands, out=target.full, **kwargs)
        return target

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if func.__name__ in _REDUCTIONS and args and args[0] is self:
            return _reduce(self, func.__name__, *args[1:], **kwargs)
        raise refusal(f"np.{func.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name in _REDUCTIONS:
            return lambda *args, **kwargs: _reduce(self, name, *args, **kwargs)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        raise refusal(f"ndarray.{name}")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal("np.asarray()")

    def __getitem__(self, key: Any) -> Any:
        raise refusal("indexing")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise refusal("writing by index")

    def __len__(self) -> int:
        raise refusal("len()")

    def __iter__(self) -> Any:
        raise refusal("iteration")

    def __bool__(self) -> bool:
        raise refusal("bool()")

    def __repr__(self) -> str:
        return f"Masked<{self.full.aval}>"

    def has_mask(self, mask: Tracer) -> bool:
        """Whether it was selected by this mask, or one computed in the same way."""
        trace = current_trace()
        return _same(trace, trace.lift(self.mask).atom, trace.lift(mask).atom)

    def _aligned(self, value: Any, name: str) -> Any:
        """An operand beside the full array: selected by the same mask, or the same for all selected elements."""
        if isinstance(value, Masked):
            if value.mask.ndim != self.mask.ndim or not self.has_mask(value.mask):
                raise refusal(f"np.{name} of elements that two different masks select")
            return value.full
        shape = np.shape(value)
        if len(shape) == self.ndim and shape[0] == 1:
            return promote.handles([value])[0][0]
        if len(shape) >= self.ndim:
            raise refusal(f"np.{name} with one value per selected element")
        return value


def _same(trace: Trace, a: Atom, b: Atom) -> bool:
    """Whether two atoms have the same value because the same operations give them."""
    work, seen = [(a, b)], set()
    while work:
        a, b = work.pop()
        if a == b or (a, b) in seen:
            continue
        if isinstance(a, Literal) or isinstance(b, Literal):
            return False
        seen.add((a, b))
        one, other = _producer(trace, a), _producer(trace, b)
        if one is None or other is None:
            return False
        if one.primitive is not other.primitive or one.effect or dict(one.params) != dict(other.params):
            return False
        if one.outputs.index(a) != other.outputs.index(b) or len(one.inputs) != len(other.inputs):
            return False
        work += zip(one.inputs, other.inputs, strict=True)
    return True


def _producer(trace: Trace, var: Var) -> Any:
    index = trace.producer(var)
    return None if index is None else trace.eqns[index]


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
        raise refusal(f"np.{name} with {', '.join(f'{option}=' for option in options)}")
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


def refusal(what: str) -> ConcretizationError:
    """The error for what would need the number of selected elements."""
    return ConcretizationError(
        f"{what} cannot be done with x[mask]: how many elements the mask selects is unknown while tracing",
        where=where(),
        why="what a boolean mask selects goes through elementwise operations, reductions and assignment to x[mask] without that number",
        fix="use np.where(mask, a, b), or fnp.nonzero(mask, size=n) (import functx.numpy as fnp) for at most n places; for x[mask] *= y: "
        "x[...] = np.where(mask, x * y, x)",
    )
