"""How plain NumPy code reaches functx: ``__array_ufunc__``, ``__array_function__``, ndarray's methods, operators and Python conversions.

Everything is installed into Tracer from tables, so that the tracer itself knows no NumPy function.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from functx import dtypes
from functx.demand import plain_value
from functx.dtypes import Kind
from functx.errors import UnsupportedError
from functx.mutation import check_writeable
from functx.numpy import (
    complex_parts,
    contractions,
    creation,
    cumulative,
    diagonals,
    flat,
    indexing,
    joining,
    manipulation,
    nanfunctions,
    norms,
    padding,
    positions,
    products,
    promote,
    quantiles,
    reductions,
    selection,
    sets,
    sorting,
    ufunc_methods,
    ufuncs,
    views,
)
from functx.numpy.at import At
from functx.numpy.masked import Masked
from functx.trace import Tracer, contiguity, current_trace, install, where

# np.<name> by its implementation on tracers. A function that is not here raises, naming it.
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(np, name): getattr(module, name)
    for module, names in {
        reductions: "sum prod mean var std max min all any argmax argmin ptp count_nonzero average",
        nanfunctions: "nansum nanprod nanmean nanvar nanstd nanmax nanmin nanargmax nanargmin",
        cumulative: "cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod diff ediff1d trapezoid",
        manipulation: "copy reshape ravel transpose swapaxes moveaxis rollaxis matrix_transpose squeeze expand_dims broadcast_to "
        "atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90 tile repeat resize",
        views: "broadcast_arrays shares_memory may_share_memory",
        joining: "concatenate stack vstack hstack dstack column_stack block append insert delete split array_split hsplit vsplit dsplit "
        "unstack meshgrid ix_ unravel_index ravel_multi_index",
        diagonals: "diagonal diag diagflat tril triu fill_diagonal diag_indices_from tril_indices_from triu_indices_from",
        padding: "pad",
        selection: "where take take_along_axis put put_along_axis place putmask copyto choose select clip isclose round nan_to_num",
        sorting: "sort argsort lexsort partition argpartition sort_complex searchsorted digitize isin",
        quantiles: "median quantile percentile histogram histogram_bin_edges",
        sets: "unique bincount",
        positions: "nonzero argwhere flatnonzero compress extract",
        products: "dot inner outer vdot tensordot trace kron cross",
        contractions: "einsum",
        creation: "zeros_like ones_like empty_like full_like linspace logspace geomspace",
        complex_parts: "real imag angle isreal iscomplex iscomplexobj isrealobj",
    }.items()
    for name in names.split()
}
FUNCTIONS.update({getattr(np.linalg, f.__name__): f for f in norms.FUNCTIONS})
FUNCTIONS[np.amax], FUNCTIONS[np.amin] = reductions.max, reductions.min
FUNCTIONS[np.around] = selection.round
FUNCTIONS[sliding_window_view] = views.sliding_window_view
FUNCTIONS[np.astype] = lambda x, dtype, /, *, copy=True: _astype(x, dtype, copy=copy)
FUNCTIONS[np.shape] = lambda a: promote.shapes.resolved(promote.handles([a])[0].aval.shape)
FUNCTIONS[np.ndim] = lambda a: promote.handles([a])[0].aval.ndim
FUNCTIONS[np.size] = lambda a, axis=None: _size(promote.handles([a])[0], axis)
FUNCTIONS[np.result_type] = lambda *args: np.result_type(*(promote.representative(a) if isinstance(a, Tracer) else a for a in args))
FUNCTIONS[np.can_cast] = lambda from_, to, casting="safe": np.can_cast(from_.aval.dtype, to, casting)
FUNCTIONS[np.array_repr] = FUNCTIONS[np.array_str] = lambda a, *args, **kwargs: repr(a)
FUNCTIONS[np.allclose] = lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: _python_bool(selection.isclose(a, b, rtol, atol, equal_nan))
FUNCTIONS[np.array_equal] = lambda a1, a2: _array_equal(*promote.handles([a1, a2]))


def _size(h: Tracer, axis: int | None) -> Any:
    return promote.shapes.size(h.aval.shape) if axis is None else h.aval.shape[axis]


def _python_bool(truths: Any) -> Tracer:
    """Whether all hold, as a Python bool."""
    return current_trace().tracer(reductions.all(truths).atom, Kind.PYTHON)


def _array_equal(a: Tracer, b: Tracer) -> Any:
    return _python_bool(np.equal(a, b)) if a.aval.shape == b.aval.shape else False


# --- the two protocols --------------------------------------------------------------------------------------------------------------------


def _array_ufunc(self: Tracer, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if any(isinstance(v, Masked) for v in inputs):
        return NotImplemented  # it knows what to do with a tracer
    f, args = ufunc_methods.implementation(ufunc, method, inputs)
    return _call(f, f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}", args, kwargs)


def _array_function(self: Tracer, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if Masked in types:
        return NotImplemented
    implementation = FUNCTIONS.get(func)
    if implementation is None:
        name = f"{getattr(func, '__module__', 'numpy')}.{func.__name__}".replace("numpy.", "np.", 1)
        raise UnsupportedError(f"{name} is not traced by functx", where=where(), fix=ufuncs.WRITE_INSTEAD)
    return _call(implementation, f"np.{func.__name__}", args, kwargs)


def _call(f: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call an implementation; a keyword it does not know raises, naming it."""
    if kwargs:
        unknown = [k for k in kwargs if k not in _parameters(f)]
        if unknown:
            what = f"{name}: keyword {unknown[0]!r} is not traced by functx"
            raise UnsupportedError(what, where=where(), fix=f"leave it out, or {ufuncs.WRITE_INSTEAD}")
    return f(*args, **kwargs)


@functools.cache
def _parameters(f: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(f).parameters)


# --- ndarray's methods and attributes -----------------------------------------------------------------------------------------------------


def _reshape(self: Tracer, *shape: Any, order: str = "C", copy: bool | None = None) -> Tracer:
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _transpose(self: Tracer, *axes: Any) -> Tracer:
    given = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list, np.ndarray))) else axes
    return manipulation.transpose(self, None if given is None or len(given) == 0 else given)


def _astype(self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Tracer:
    (h,) = promote.handles([self])
    target = np.dtype(dtype)
    if not np.can_cast(h.aval.dtype, target, casting):
        np.empty(0, h.aval.dtype).astype(target, casting=casting)  # raises NumPy's own error
    trace = current_trace()
    if not copy and h.kind is Kind.ARRAY and creation.is_such(h, target, order):
        return self
    atom = h.atom if h.aval.dtype == target else trace.emit.convert(h.atom, dtype=target, checked=False)
    return trace.tracer(atom, Kind.SCALAR if h.kind is not Kind.ARRAY else Kind.ARRAY, manipulation.layout(order, h.aval.shape, target, h))


def _item(self: Tracer, *index: Any) -> Any:
    picked = self[index] if index else self
    return np.asarray(plain_value(picked, ".item()")).item()


def _fill(self: Tracer, value: Any) -> None:
    if np.ndim(value):
        np.empty(1, self.aval.dtype).fill(np.ones(np.shape(value)))  # raises NumPy's own error
        value = np.reshape(value, ())
    indexing.setitem(self, ..., value)


def _array_namespace(self: Tracer, *, api_version: str | None = None) -> Any:
    import functx.numpy  # it imports this module

    return functx.numpy


def _matrix_transposed(self: Tracer) -> Tracer:
    if self.aval.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return manipulation.matrix_transpose(self)


# Methods whose arguments are those of the function of the same name.
_SHARED_METHODS = [
    *("sum", "prod", "cumsum", "cumprod", "mean", "var", "std", "max", "min", "all", "any", "argmax", "argmin", "swapaxes", "squeeze"),
    *("ravel", "repeat", "take", "clip", "trace", "round"),
]

METHODS: dict[str, Callable[..., Any]] = {
    **{name: FUNCTIONS[getattr(np, name)] for name in _SHARED_METHODS},
    **reductions.METHODS,
    **{name: getattr(sorting, name) for name in ("argsort", "argpartition", "searchsorted")},
    "sort": sorting.sort_in_place,
    "partition": sorting.partition_in_place,
    "diagonal": diagonals.diagonal,
    "nonzero": lambda self: positions.nonzero(self),
    "choose": selection.choose,
    "compress": lambda self, condition, axis=None, out=None: positions.compress(condition, self, axis, out),
    "put": lambda self, indices, values, mode="raise": selection.put(self, indices, values, mode),
    "conj": complex_parts.conjugate,
    "conjugate": complex_parts.conjugate,
    "dot": products.dot,
    "copy": lambda self, order="C": manipulation.copy(self, order) if self.kind is Kind.ARRAY else self,
    "flatten": manipulation.flatten,
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": _astype,
    "view": views.view,
    "fill": _fill,
    "item": _item,
    "tolist": lambda self: np.asarray(plain_value(self, ".tolist()")).tolist(),
    "__array_namespace__": _array_namespace,
}

ATTRIBUTES: dict[str, Callable[[Tracer], Any]] = {
    "shape": lambda self: promote.shapes.resolved(self.aval.shape),
    "dtype": lambda self: self.aval.dtype,
    "ndim": lambda self: self.aval.ndim,
    "size": lambda self: promote.shapes.size(self.aval.shape),
    "itemsize": lambda self: self.aval.dtype.itemsize,
    "nbytes": lambda self: promote.shapes.size(self.aval.shape) * self.aval.dtype.itemsize,
    "T": lambda self: manipulation.transpose(self),
    "mT": lambda self: _matrix_transposed(self),
    "real": complex_parts.real,
    "imag": complex_parts.imag,
    "flat": flat.FlatIterator,
    "strides": lambda self: _strides(self),
    "flags": lambda self: Flags(contiguity(self).flags),
    "base": lambda self: self.parent.root if self.parent is not None else None,
    "device": lambda self: "cpu",
    "at": At,
}

# What Python's own numbers have of ndarray's members.
NUMBER_MEMBERS: dict[str, Callable[[Tracer], Any]] = {
    "real": complex_parts.real,
    "imag": complex_parts.imag,
    "conjugate": lambda self: lambda: complex_parts.conjugate(self),
}

# What to write instead of members that functx cannot have, or does not have yet; those not listed get WRITE_INSTEAD.
_INSTEAD = {
    "resize": "x = np.resize(x, shape), or slicing into a new array",
    "setflags": "leave the flags as they are, or set them outside the traced function",
    "tofile": "return the array and save it outside the traced function",
    "tobytes": "return the array and convert it outside the traced function",
    "dump": "return the array and save it outside the traced function",
    "dumps": "return the array and save it outside the traced function",
    "data": "return the array and look at its memory outside the traced function",
    "ctypes": "return the array and look at its memory outside the traced function",
    "byteswap": "convert outside the traced function",
}
# Members that can be written, and what to write instead of those that cannot.
_ASSIGNED: dict[str, Callable[[Tracer, Any], None]] = {
    "real": complex_parts.assign_real,
    "imag": complex_parts.assign_imag,
    "flat": flat.assign,
}
_ASSIGN_INSTEAD = {
    "shape": "x = x.reshape(shape)",
    "dtype": "x = x.view(dtype)",
    "strides": "transpose, slice or reshape: they are views",
}
REFUSED = {
    name: _INSTEAD.get(name, ufuncs.WRITE_INSTEAD)
    for name in dir(np.ndarray)
    if not name.startswith("_") and name not in METHODS and name not in ATTRIBUTES
}


def _member(name: str, get: Callable[[Tracer], Any]) -> property:
    """A member of ndarray. Traced Python numbers and NumPy scalars have it if the plain ones do, so that hasattr answers as for them."""

    def check(self: Tracer) -> None:
        owner = _plain_type(self)
        if not hasattr(owner, name) and (name != "at" or self.kind is Kind.PYTHON):  # `at` is functx's own
            raise AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")

    def member(self: Tracer) -> Any:
        check(self)
        return (NUMBER_MEMBERS[name] if self.kind is Kind.PYTHON else get)(self)

    def assign(self: Tracer, value: Any) -> None:
        check(self)
        if name in _ASSIGNED and self.kind is Kind.ARRAY:
            return _ASSIGNED[name](self, value)
        what = f"assigning to ndarray.{name} cannot be traced"
        raise UnsupportedError(what, where=where(), fix=_ASSIGN_INSTEAD.get(name, "make another array from it"))

    return property(member, assign)


class Flags:
    """``x.flags``: what NumPy's own would say. They cannot be changed."""

    def __init__(self, flags: Any):
        object.__setattr__(self, "_flags", flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flags, name)

    def __getitem__(self, name: str) -> Any:
        return self._flags[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise UnsupportedError(f"setting flags.{name} cannot be traced", where=where(), fix=_INSTEAD["setflags"])

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __repr__(self) -> str:
        return repr(self._flags)


def _plain_type(self: Tracer) -> type:
    """The type of the value that a tracer stands for."""
    dtype = self.aval.dtype
    return np.ndarray if self.kind is Kind.ARRAY else dtype.type if self.kind is Kind.SCALAR else dtypes.python_type(dtype)


def _method(name: str, f: Callable[..., Any]) -> property:
    return _member(name, lambda self: lambda *args, **kwargs: _call(f, f"ndarray.{name}", (self, *args), kwargs))


def _refused(name: str, instead: str) -> property:
    """A member that raises: a method when it is called, so that hasattr is True as for an ndarray; an attribute when it is read, with
    hasattr too: a False there would send generic code silently down another path.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"ndarray.{name} cannot be traced", where=where(), fix=instead)

    return _member(name, (lambda self: refuse) if callable(getattr(np.ndarray, name)) else refuse)


def _refuse_pickling(self: Tracer, *args: Any) -> Any:
    what = "a traced value cannot be pickled"
    raise UnsupportedError(what, where=where(), fix="return the array and save it outside the traced function")


def _copied(self: Tracer, memo: Any = None) -> Tracer:
    """copy.copy and copy.deepcopy: memory of its own; numbers are immutable."""
    return manipulation.copy(self) if self.kind is Kind.ARRAY else self


# --- Python's own protocols ---------------------------------------------------------------------------------------------------------------


def _strides(self: Tracer) -> tuple[int, ...]:
    for d in self.aval.shape[1:]:
        operator.index(d)  # strides are numbers
    return self.shadow.strides


def _bool(self: Tracer) -> bool:
    if self.aval.shape and promote.shapes.size(self.aval.shape) != 1:
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()")
    return bool(self.value())


def _index(self: Tracer) -> int:
    if self.aval.dtype.kind not in "iub" or self.aval.shape:
        raise TypeError("only integer scalar arrays can be converted to a scalar index")
    return int(self.value())


def _int(self: Tracer) -> int:
    _only_scalar(self)
    return int(self.value().item() if self.kind is Kind.PYTHON else self.value())


def _number(kind: type) -> Callable[[Tracer], Any]:
    def convert(self: Tracer) -> Any:
        _only_scalar(self)
        value = plain_value(self, f"{kind.__name__}()")
        return kind(value.item() if self.kind is Kind.PYTHON else value)

    return convert


def _only_scalar(self: Tracer) -> None:
    if self.aval.shape:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")


def _array(self: Tracer, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    if sys._getframe(1).f_code is as_strided.__code__:
        what, fix = "np.lib.stride_tricks.as_strided cannot be traced", "slice, reshape, transpose, or take a sliding_window_view"
        raise UnsupportedError(what, where=where(), why="it reads memory that no array may own", fix=fix)
    return np.array(plain_value(self, "np.asarray(), or indexing or writing a plain ndarray,"), dtype=dtype)


def _len(self: Tracer) -> int:
    if not self.aval.shape:
        raise TypeError("len() of unsized object")
    return operator.index(self.aval.shape[0])


def _iter(self: Tracer) -> Iterator[Tracer]:
    if not self.aval.shape:
        raise TypeError("iteration over a 0-d array")
    return (self[i] for i in range(len(self)))


def _contains(self: Tracer, value: Any) -> bool:
    if self.kind is not Kind.ARRAY:
        raise TypeError("argument of type 'numpy.float64' is not iterable")
    return bool(reductions.any(np.equal(self, value)))


def _repr(self: Tracer) -> str:
    try:
        return f"Traced<{self.aval}>({self.value()!r})" if not self.stage.closed else f"Traced<{self.aval}>(finished)"
    except Exception:  # whatever is unknown about the value must not hide the message that is being printed
        return f"Traced<{self.aval}>"


def _format(self: Tracer, spec: str) -> str:
    return format(self.value(), spec) if spec else repr(self)


def _delitem(self: Tracer, key: Any) -> None:
    raise ValueError("cannot delete array elements")


def _rounded(f: Callable[..., Any]) -> Callable[..., Any]:
    """round, math.floor and the like: what they give for the plain value, a plain number (they are piecewise constant)."""

    def convert(self: Tracer, *digits: Any) -> Any:
        value = np.asarray(self.value())
        return f(value if self.kind is Kind.ARRAY else value.item() if self.kind is Kind.PYTHON else value[()], *digits)

    return convert


def _divmod(self: Tracer, other: Any) -> Any:
    return (self // other, self % other) if ufuncs.is_array_like(other) else NotImplemented


def _rdivmod(self: Tracer, other: Any) -> Any:
    return (other // self, other % self) if ufuncs.is_array_like(other) else NotImplemented


def _hash(self: Tracer) -> int:
    if self.kind is Kind.ARRAY:
        raise TypeError("unhashable type: 'numpy.ndarray'")
    return hash(np.asarray(self.value()).item())


def _binary(name: str, ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """``x op y``, ``y op x`` and ``x op= y``, which rebinds scalars and writes into arrays."""

    def forward(self: Tracer, other: Any, *modulus: Any) -> Any:
        if modulus:  # pow(x, n, modulus), of Python's integers only
            return pow(operator.index(self), operator.index(other), *map(operator.index, modulus))
        return ufuncs.operator_call(ufunc, (self, other), name)

    def reflected(self: Tracer, other: Any) -> Any:
        return ufuncs.operator_call(ufunc, (other, self), name)

    def in_place(self: Tracer, other: Any) -> Any:
        if self.kind is not Kind.ARRAY:
            return forward(self, other)
        check_writeable(current_trace().lift(self) if current_trace() else self)
        if ufunc is np.matmul:
            return products.matmul(self, other, out=self)
        return ufuncs.apply(ufunc, (self, other), out=self)

    return forward, reflected, in_place


def _unary(name: str, ufunc: np.ufunc) -> Callable[[Tracer], Any]:
    return lambda self: ufuncs.operator_call(ufunc, (self,), name)


def install_protocols() -> None:
    """Give Tracer all of the above."""
    for name, ufunc in ufuncs.BINARY.items():
        forward, reflected, in_place = _binary(name, ufunc)
        install(f"__{name}__", forward)
        install(f"__r{name}__", reflected)
        install(f"__i{name}__", in_place)
    for name, ufunc in ufuncs.COMPARE.items():
        install(f"__{name}__", _binary(name, ufunc)[0])
    for name, ufunc in ufuncs.UNARY.items():
        install(f"__{name}__", _unary(name, ufunc))
    for name, f in METHODS.items():
        install(name, _method(name, f))
    for name, f in ATTRIBUTES.items():
        install(name, _member(name, f))
    for name, instead in REFUSED.items():
        install(name, _refused(name, instead))
    python = {
        "bool": _bool, "index": _index, "int": _int, "float": _number(float), "complex": _number(complex), "array": _array, "len": _len,
        "iter": _iter, "contains": _contains, "repr": _repr, "str": _repr, "format": _format, "hash": _hash, "getitem": indexing.getitem,
        "setitem": indexing.setitem, "delitem": _delitem, "array_ufunc": _array_ufunc, "array_function": _array_function,
        "copy": _copied, "deepcopy": _copied, "reduce": _refuse_pickling, "reduce_ex": _refuse_pickling, "divmod": _divmod,
        "rdivmod": _rdivmod, "round": _rounded(round), "floor": _rounded(math.floor), "ceil": _rounded(math.ceil),
        "trunc": _rounded(math.trunc),
    }  # fmt: skip
    for name, f in python.items():
        install(f"__{name}__", f)
