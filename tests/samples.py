"""Sample rows: one or more per function of NumPy and functx.nn that functx traces. tests/test_samples.py drives every check from them.

A row's function takes the module that stands for NumPy (``numpy`` or ``functx.numpy``) and the arguments. Arguments are float64 arrays away
from kinks and ties; :meth:`Sample.arguments` converts them to the other dtypes. The primitives' own rows are in tests/primitive_samples.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import functx as fx

FLOATS = ("float32", "float64")
DTYPES = ("bool", "int32", "int64", *FLOATS)


def data(shape, seed=0, low=0.3, high=1.9) -> np.ndarray:
    """Distinct float64 numbers in a shuffled order, none of them near another or near an integer or zero (with the default bounds)."""
    size = int(np.prod(shape, dtype=int))
    return np.random.default_rng(seed).permutation(np.linspace(low, high, size + 2)[1:-1]).reshape(shape) + 0.013 * (seed % 7)


def cast(array: np.ndarray, dtype: str) -> Any:
    """The argument in another dtype: integers -3..8 and zeros among them, or truth values. Index arrays stay as they are."""
    if array.dtype.kind != "f":
        return array
    if dtype == "bool":
        return np.asarray(array > 1)
    return np.rint(array * 4).astype(dtype) if dtype.startswith("int") else array.astype(dtype)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One row.

    Attributes:
      name: as in NumPy: ``np.sum``, ``ndarray.sum``, ``nn.relu``; several rows may share it.
      f: ``f(np, *args)``.
      args: float64 arrays (cast to each dtype), and index arrays or other dtypes (left alone).
      family: groups rows for the compiled checks.
      smooth: whether derivatives are compared with differences: f is differentiable at the arguments.
      own_module: only functx.numpy can trace it (constructors).
      rtol: of float64 results between backends; float32 takes 1e-5.
    """

    name: str
    f: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    family: str
    smooth: bool = True
    own_module: bool = False
    rtol: float = 1e-13

    def arguments(self, dtype: str = "") -> tuple[Any, ...]:
        """The arguments in a dtype; by default float64, or int64 where NumPy has no floats."""
        integral = ("invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
        default = "int64" if self.name[3:] in integral else "float64"
        return tuple(cast(a, dtype or default) for a in self.args)


_X, _Y, _ROW, _CUBE, _SQUARE = data((3, 4)), data((3, 4), 1), data((4,), 2), data((2, 3, 4), 3), data((4, 4), 4)
_SIGNED = data((3, 4), 5, -1.7, 1.9)
_UNIT = data((3, 4), 5, -0.9, 0.8)
_DIVISOR = _SIGNED / np.where(_X > 1, 1.45, -2.6)  # the quotients are far from whole numbers
_INDEX = np.array([2, 0, -1, 2])


def _ufuncs() -> list[Sample]:
    smooth_unary = [
        *("negative", "positive", "square", "reciprocal", "absolute", "fabs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2"),
        *("log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
        *("deg2rad", "rad2deg", "radians", "degrees"),
    ]
    flat_unary = ["sign", "logical_not", "invert", "isnan", "isfinite", "isinf", "floor", "ceil", "trunc", "rint", "signbit"]
    smooth_binary = [
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "fmax", "fmin", "float_power", "arctan2", "hypot"),
        *("logaddexp", "logaddexp2"),
    ]
    signed = ("negative", "absolute", "fabs", "sign", "tanh", "sin", "isnan", "cbrt", "expm1", "arctan", "sinh", "arcsinh", *flat_unary[6:])
    flat_binary = [
        "floor_divide",
        "left_shift",
        "right_shift",
        "heaviside",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
    rows = []
    for name in smooth_unary + flat_unary:
        x = _UNIT if name in ("arcsin", "arccos", "arctanh") else _X + 1 if name == "arccosh" else _SIGNED if name in signed else _X
        rows.append(Sample(f"np.{name}", lambda np, x, name=name: getattr(np, name)(x), (x,), "ufunc", name in smooth_unary))
    for name in smooth_binary + flat_binary:
        call = lambda np, x, y, name=name: getattr(np, name)(x, y)  # noqa: E731
        rows += [Sample(f"np.{name}", call, args, "ufunc", name in smooth_binary) for args in ((_X, _Y), (_X, _ROW), (_X[:, :1], _ROW))]
    for exponent in (2, 3, 0.5, -1, 0, 1, -2, 2.5):
        rows.append(Sample("np.power", lambda np, x, p=exponent: x**p, (_X,), "ufunc"))
    rows += [
        Sample("np.power", lambda np, x: 2.0**x, (_X,), "ufunc"),
        Sample("np.remainder", lambda np, x, y: np.remainder(x, y), (_SIGNED, _DIVISOR), "ufunc"),
        Sample("np.remainder", lambda np, x, y: np.mod(x, y) * (x % y) + divmod(x, y)[1], (_SIGNED, _DIVISOR), "ufunc"),
        Sample("np.fmod", lambda np, x, y: np.fmod(x, y), (_SIGNED, _DIVISOR), "ufunc"),
        Sample("np.divmod", lambda np, x, y: np.divmod(x, y)[0] * np.divmod(x, y)[1], (_SIGNED, _DIVISOR), "ufunc"),
        Sample("np.floor_divide", lambda np, x, y: x // y + 7 // x + 7 % x + divmod(x, y)[0], (_SIGNED, _DIVISOR), "ufunc", smooth=False),
        Sample("np.copysign", lambda np, x, y: np.copysign(x, y), (_SIGNED, _X[::-1] - 1), "ufunc"),
        Sample("np.heaviside", lambda np, x, y: np.heaviside(x * 0, y) * np.heaviside(x, 0.5), (_SIGNED, _X), "ufunc"),
        Sample("np.fmax", lambda np, x: np.fmax(x, 0.5) * np.fmin(1.5, x), (_X,), "ufunc"),
        Sample("np.round", lambda np, x: np.round(x), (_SIGNED,), "ufunc", smooth=False),
        Sample("np.round", lambda np, x: np.round(x * 100, -1) + np.round(x, decimals=2), (_SIGNED,), "ufunc", smooth=False),
        Sample("np.around", lambda np, x: np.around(x, 1), (_SIGNED,), "ufunc", smooth=False),
        Sample("ndarray.round", lambda np, x: x.round() + x.round(1), (_SIGNED,), "ufunc", smooth=False),
        Sample("np.maximum", lambda np, x: np.maximum(x, 0.5) * np.minimum(1.5, x), (_X,), "ufunc"),
        Sample("np.add", lambda np, x: np.add(x, 1, dtype=np.float64) - np.multiply(x, x, dtype=np.float32), (_X,), "ufunc", smooth=False),
    ]
    return rows


def _reductions() -> list[Sample]:
    rows = []
    for name in ["sum", "mean", "var", "std", "max", "min", "all", "any", "argmax", "argmin", "ptp", "count_nonzero", "amax", "amin"]:
        smooth = name not in ("all", "any", "argmax", "argmin", "count_nonzero")
        choices = [(None, False), (1, True), (-1, False)] + ([] if name.startswith("arg") else [((0, 2), True), ((), False)])
        for axis, keepdims in choices:
            call = lambda np, x, n=name, a=axis, k=keepdims: getattr(np, n)(x, axis=a, keepdims=k)  # noqa: E731
            smooth_here = smooth and not (axis == () and name in ("std", "var", "ptp"))
            rows.append(Sample(f"np.{name}", call, (_CUBE,), "reduction", smooth_here))
        if name not in ("ptp", "count_nonzero", "amax", "amin"):
            rows.append(Sample(f"ndarray.{name}", lambda np, x, n=name: getattr(x, n)(1), (_CUBE,), "reduction", smooth))
    rows += [
        Sample("np.var", lambda np, x: np.var(x, axis=1, ddof=1) + x.std(1, ddof=1), (_CUBE,), "reduction"),
        Sample("np.sum", lambda np, x: np.sum(x, 0, dtype=np.float64) + np.add.reduce(x), (_CUBE,), "reduction"),
        Sample("np.max", lambda np, x: np.maximum.reduce(x, axis=1) * np.minimum.reduce(x, axis=1), (_CUBE,), "reduction"),
        Sample("np.all", lambda np, x: np.logical_and.reduce(x) | np.logical_or.reduce(x), (_CUBE,), "reduction", False),
    ]
    return rows


def _manipulation() -> list[Sample]:
    calls: dict[str, list[Callable[..., Any]]] = {
        "np.copy": [lambda np, x: np.copy(x)],
        "np.reshape": [lambda np, x: np.reshape(x, (4, -1)), lambda np, x: np.reshape(x, -1)],
        "np.ravel": [lambda np, x: np.ravel(x)],
        "np.transpose": [lambda np, x: np.transpose(x), lambda np, x: np.transpose(x, (1, 2, 0))],
        "np.swapaxes": [lambda np, x: np.swapaxes(x, 0, -1)],
        "np.moveaxis": [lambda np, x: np.moveaxis(x, 0, -1), lambda np, x: np.moveaxis(x, (0, 1), (-1, 0))],
        "np.squeeze": [lambda np, x: np.squeeze(x[:, :1]), lambda np, x: np.squeeze(x[:, :1], axis=1)],
        "np.expand_dims": [lambda np, x: np.expand_dims(x, 1), lambda np, x: np.expand_dims(x, (0, -1))],
        "np.broadcast_to": [lambda np, x: np.broadcast_to(x[:, :1], (2, 2, 3, 4)) * 2],
        "np.broadcast_arrays": [lambda np, x: np.broadcast_arrays(x, x[0, 0])[1] * x],
        "np.flip": [lambda np, x: np.flip(x), lambda np, x: np.flip(x, 1)],
        "np.roll": [lambda np, x: np.roll(x, 2), lambda np, x: np.roll(x, -1, 1), lambda np, x: np.roll(x, (1, 2), (0, 2))],
        "np.tile": [lambda np, x: np.tile(x, 2), lambda np, x: np.tile(x, (2, 1, 1, 2))],
        "np.repeat": [lambda np, x: np.repeat(x, 3), lambda np, x: np.repeat(x, 2, axis=1)],
        "np.pad": [lambda np, x: np.pad(x, 1), lambda np, x: np.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=1)],
        "np.split": [lambda np, x: np.split(x, 3, axis=1)[1], lambda np, x: np.split(x, [1, 3], axis=-1)[2]],
        "np.atleast_1d": [lambda np, x: np.atleast_1d(x[0, 0, 0]), lambda np, x: np.atleast_1d(x, x[0])[1]],
        "np.atleast_2d": [lambda np, x: np.atleast_2d(x[0, 0]), lambda np, x: np.atleast_2d(x[0, 0, 0])],
        "np.concatenate": [lambda np, x: np.concatenate([x, x[:1]]), lambda np, x: np.concatenate([x, x], axis=None)],
        "np.stack": [lambda np, x: np.stack([x[0], x[1]], axis=1), lambda np, x: np.stack(x)],
        "np.vstack": [lambda np, x: np.vstack([x[0], x[1, :1]]), lambda np, x: np.vstack([x[0, 0], x[1, 0]])],
        "np.hstack": [lambda np, x: np.hstack([x[0], x[1, :, :1]]), lambda np, x: np.hstack([x[0, 0], x[0, 1, :2]])],
        "ndarray.swapaxes": [lambda np, x: x.swapaxes(0, 1)],
        "ndarray.squeeze": [lambda np, x: x[:1].squeeze(0)],
        "ndarray.ravel": [lambda np, x: x.ravel()],
        "ndarray.repeat": [lambda np, x: x.repeat(2, 0)],
        "ndarray.copy": [lambda np, x: x.copy()],
        "ndarray.flatten": [lambda np, x: x.flatten()],
        "ndarray.reshape": [lambda np, x: x.reshape(2, -1), lambda np, x: x.reshape((12, 2))],
        "ndarray.transpose": [lambda np, x: x.transpose(), lambda np, x: x.transpose(2, 0, 1), lambda np, x: x.transpose((1, 0, 2)).T],
        "ndarray.T": [lambda np, x: x.T, lambda np, x: x[0, 0, 0].T],
    }
    return [Sample(name, f, (_CUBE,), "manipulation") for name, fs in calls.items() for f in fs]


def _selection() -> list[Sample]:
    condition = _SIGNED > 0
    rows = [
        Sample("np.where", lambda np, x, y: np.where(condition, x, y), (_X, _Y), "selection"),
        Sample("np.where", lambda np, x, y: np.where(x > y, x * y, 0), (_X, _ROW), "selection"),
        Sample("np.where", lambda np, x: np.where(x, x, 1), (_X,), "selection"),
        Sample("np.take", lambda np, x: np.take(x, [0, 2, 2], axis=1), (_X,), "selection"),
        Sample("np.take", lambda np, x, i: np.take(x, i), (_X, _INDEX), "selection"),
        Sample("ndarray.take", lambda np, x, i: x.take(i, 1), (_X, _INDEX), "selection"),
        Sample("np.take_along_axis", lambda np, x, i: np.take_along_axis(x, i[:3, None], 1), (_X, _INDEX), "selection"),
        Sample("np.take_along_axis", lambda np, x, i: np.take_along_axis(x, i, None), (_X, _INDEX), "selection"),
        Sample("np.clip", lambda np, x: np.clip(x, 0.5, 1.5), (_X,), "selection"),
        Sample("np.clip", lambda np, x, y: np.clip(x, None, y), (_X, _ROW), "selection"),
        Sample("ndarray.clip", lambda np, x: x.clip(1), (_X,), "selection"),
        Sample("np.isclose", lambda np, x, y: np.isclose(x, y, rtol=0.1, equal_nan=True), (_X, _Y), "selection", False),
        Sample("np.allclose", lambda np, x, y: np.allclose(x, y, atol=2.0) + x, (_X, _Y), "selection", False),
        Sample("np.array_equal", lambda np, x: np.array_equal(x, x + 0), (_X,), "selection", False),
        Sample("np.copyto", _copyto, (_X,), "selection"),
        Sample("ndarray.fill", _fill, (_X,), "selection"),
        Sample("ndarray.getitem", lambda np, x, i: x[i[:3], ::2] * x[1, None, 1:3], (_X, _INDEX), "selection"),
        Sample("ndarray.getitem", lambda np, x, i: x[i[0]] + x[1], (_X, _INDEX), "selection"),
        Sample("ndarray.setitem", _setitem, (_X, _INDEX), "selection"),
        Sample("np.add.at", _add_at, (_X, _INDEX), "selection"),
        Sample("fnp.at", lambda np, x, i: fx.numpy.at(fx.numpy.at(x)[0].set(x[1] * 2))[i[:3]].add(x), (_X, _INDEX), "selection"),
        Sample("ndarray.__iadd__", _in_place, (_X, _Y), "selection", smooth=False),
    ]
    return rows


def _copyto(np, x):
    y = np.zeros_like(x)
    np.copyto(y, x[0])
    return y * x


def _fill(np, x):
    y = x.copy()
    y[1].fill(x[0, 0])
    return y * x


def _setitem(np, x, i):
    y = x.copy()
    y[i[:2]] = x[1:] * 2
    y[:, 1:3] = y[:, 2:] + y[:, :2]
    y[i[1], ::-1] = x[2]
    return y


def _add_at(np, x, i):
    y = x.copy()
    np.add.at(y, (i[:3], slice(None)), x)
    np.subtract.at(y, i[0], x[0] * x[1])
    return y


def _in_place(np, x, y):
    x += y
    x[1:] *= 2
    x[0] -= x[1]
    return x


def _products() -> list[Sample]:
    vector, matrix, stack = data((3,), 6), data((3, 5), 7), data((2, 4, 3), 8)
    calls = [
        ("np.matmul", lambda np, x, y: x @ y, (_X.T, matrix)),
        ("np.matmul", lambda np, x, y: np.matmul(x, y), (vector, matrix)),
        ("np.matmul", lambda np, x, y: x @ y, (_CUBE, stack)),
        ("np.matmul", lambda np, x, y: x @ y, (_X.T, vector)),
        ("np.matmul", lambda np, x, y: x @ y, (stack, matrix)),
        ("np.matmul", lambda np, x, y: x @ y, (_X, stack)),
        ("np.matmul", lambda np, x, y: x @ y, (vector, vector)),
        ("np.matmul", lambda np, x, y: x @ y, (_CUBE, _ROW)),
        ("np.matmul", lambda np, x, y: x @ y, (vector, _CUBE)),
        ("np.matmul", lambda np, x, y: x[:, None] @ y, (stack, matrix)),
        ("np.dot", lambda np, x, y: np.dot(x, y), (stack, matrix)),
        ("np.dot", lambda np, x, y: np.dot(x, y), (vector, vector)),
        ("np.dot", lambda np, x, y: np.dot(x, y), (_X, stack)),
        ("np.dot", lambda np, x, y: np.dot(x[0], y), (vector, matrix)),
        ("ndarray.dot", lambda np, x, y: x.dot(y), (_X.T, matrix)),
        ("np.inner", lambda np, x, y: np.inner(x, y), (_X, _CUBE)),
        ("np.outer", lambda np, x, y: np.outer(x, y), (_X, vector)),
        ("np.vdot", lambda np, x, y: np.vdot(x, y), (_X, _Y)),
        ("np.tensordot", lambda np, x, y: np.tensordot(x, y), (_CUBE, _Y)),
        ("np.tensordot", lambda np, x, y: np.tensordot(x, y, axes=((1, 2), (2, 1))), (_CUBE, stack)),
        ("np.tensordot", lambda np, x, y: np.tensordot(x, y, axes=0), (vector, _ROW)),
        ("np.trace", lambda np, x: np.trace(x), (_SQUARE,)),
        ("np.trace", lambda np, x: np.trace(x, offset=1), (_X,)),
        ("ndarray.trace", lambda np, x: x.trace(-1), (_X,)),
    ]
    return [Sample(name, f, args, "product", rtol=1e-12) for name, f, args in calls]


def _creation() -> list[Sample]:
    calls = {
        "np.zeros_like": lambda np, x: np.zeros_like(x) + x,
        "np.ones_like": lambda np, x: np.ones_like(x, dtype=np.float32) * x,
        "np.full_like": lambda np, x: np.full_like(x, x[0, 1]),
        "np.empty_like": lambda np, x: np.empty_like(x, shape=(0, 3)),
        "fnp.zeros": lambda np, x: np.zeros((2, 3)) + x[0, 0],
        "fnp.ones": lambda np, x: np.ones(4, np.int32) * x,
        "fnp.full": lambda np, x: np.full((2, 2), x[0, 0]),
        "fnp.eye": lambda np, x: np.eye(3, 4, k=1) * x,
        "fnp.arange": lambda np, x: np.arange(2, 10, 2) * x,
        "fnp.linspace": lambda np, x: np.linspace(0, 1, 4) + x,
        "fnp.array": lambda np, x: np.array([[x[0, 0], 1.0], [2, x[1, 1]]]),
        "fnp.asarray": lambda np, x: np.asarray([x[0], x[1] * 2]),
        "fnp.copy": lambda np, x: np.copy(x),
        "fnp.ascontiguousarray": lambda np, x: np.ascontiguousarray(x.T) * 2,
        "fnp.empty": lambda np, x: np.empty((0, 3)),
    }
    return [Sample(name, f, (_X,), "creation", own_module=name.startswith("fnp."), smooth="empty" not in name) for name, f in calls.items()]


def _inspection() -> list[Sample]:
    """What gives plain Python values, used in a computation."""
    calls = {
        "np.shape": lambda np, x: x * np.shape(x)[1],
        "np.ndim": lambda np, x: x + np.ndim(x),
        "np.size": lambda np, x: x + np.size(x, 1),
        "np.result_type": lambda np, x: x.astype(np.result_type(x, np.float32(1))),
        "np.can_cast": lambda np, x: x * np.can_cast(x, "f8"),
        "np.array_repr": lambda np, x: x * (len(np.array_repr(x)) > 0),
        "np.array_str": lambda np, x: x * (len(np.array_str(x)) > 0),
        "ndarray.item": lambda np, x: x + np.ones_like(x)[0, 0].item(),
        "ndarray.tolist": lambda np, x: x + np.ones_like(x)[0].tolist()[0],
        "ndarray.astype": lambda np, x: x.astype(np.float64) + x.astype(np.int32),
        "ndarray.shape": lambda np, x: x.reshape(x.shape[::-1]),
        "ndarray.attributes": lambda np, x: x + x.size + x.nbytes + x.itemsize + x.ndim + x.strides[0] + x.flags.c_contiguous,
        "ndarray.real": lambda np, x: x.real * 2,
    }
    return [Sample(name, f, (_X,), "inspection", smooth=name != "ndarray.astype") for name, f in calls.items()]


def _nn() -> list[Sample]:
    calls = [
        ("nn.relu", lambda np, x: fx.nn.relu(x), (_SIGNED,)),
        ("nn.sigmoid", lambda np, x: fx.nn.sigmoid(x), (_SIGNED,)),
        ("nn.logsumexp", lambda np, x: fx.nn.logsumexp(x), (_SIGNED,)),
        ("nn.softmax", lambda np, x: fx.nn.softmax(x), (_SIGNED,)),
        ("nn.logsumexp", lambda np, x: fx.nn.logsumexp(x, (0, 1), keepdims=True), (_SIGNED,)),
        ("nn.log_softmax", lambda np, x: fx.nn.log_softmax(x, axis=0), (_SIGNED,)),
        ("nn.softmax", lambda np, x: fx.nn.softmax(x, axis=(0, 1)), (_SIGNED,)),
        ("nn.one_hot", lambda np, x, i: fx.nn.one_hot(i, 3) * x.sum(), (_X, _INDEX)),
        ("lax.stop_gradient", lambda np, x: x * fx.lax.stop_gradient(np.ones_like(x)), (_X,)),
    ]
    return [Sample(name, f, args, "nn", rtol=1e-12) for name, f, args in calls]


SAMPLES = [*_ufuncs(), *_reductions(), *_manipulation(), *_selection(), *_products(), *_creation(), *_inspection(), *_nn()]


# Calls that NumPy refuses: functx raises the same class, or one derived from it. The argument is a (2, 3, 4) array.
ERRORS: dict[str, Callable[..., Any]] = {
    "sum, bad axis": lambda np, x: np.sum(x, axis=3),
    "sum, repeated axis": lambda np, x: np.sum(x, axis=(0, 0)),
    "max of nothing": lambda np, x: np.max(x[:0]),
    "min of nothing": lambda np, x: x[:0].min(0),
    "argmax of nothing": lambda np, x: x[:0].argmax(),
    "argmin, bad axis": lambda np, x: np.argmin(x, 5),
    "ptp of nothing": lambda np, x: np.ptp(x[:0]),
    "mean, bad axis": lambda np, x: np.mean(x, -4),
    "add, shapes": lambda np, x: x + x[:, :2],
    "where, shapes": lambda np, x: np.where(x > 0, x, x[:, :2]),
    "reshape, size": lambda np, x: x.reshape(5, 5),
    "reshape, two unknown": lambda np, x: x.reshape(-1, -1),
    "reshape, float": lambda np, x: x.reshape(2.0, 12),
    "transpose, length": lambda np, x: np.transpose(x, (0, 1)),
    "transpose, repeated": lambda np, x: x.transpose(0, 0, 1),
    "swapaxes": lambda np, x: x.swapaxes(0, 3),
    "moveaxis": lambda np, x: np.moveaxis(x, (0, 1), (2,)),
    "moveaxis, repeated": lambda np, x: np.moveaxis(x, (0, 0), (1, 2)),
    "squeeze": lambda np, x: np.squeeze(x, 0),
    "expand_dims": lambda np, x: np.expand_dims(x, 5),
    "broadcast_to": lambda np, x: np.broadcast_to(x, (3, 4)),
    "concatenate, shapes": lambda np, x: np.concatenate([x, x[:, :2]], axis=0),
    "concatenate, ranks": lambda np, x: np.concatenate([x, x[0]]),
    "concatenate, axis": lambda np, x: np.concatenate([x, x], axis=3),
    "concatenate, scalars": lambda np, x: np.concatenate([x[0, 0, 0], x[0, 0, 1]]),
    "stack, shapes": lambda np, x: np.stack([x, x[0]]),
    "stack, axis": lambda np, x: np.stack([x, x], axis=5),
    "matmul, shapes": lambda np, x: x @ x,
    "matmul, scalar": lambda np, x: np.matmul(x, 2.0),
    "dot, shapes": lambda np, x: np.dot(x, x),
    "matmul, stacks": lambda np, x: x @ np.ones((3, 4, 2)),
    "inner, shapes": lambda np, x: np.inner(x, np.ones(3)),
    "vdot, shapes": lambda np, x: np.vdot(x, np.ones(3)),
    "tensordot, shapes": lambda np, x: np.tensordot(x, x),
    "pad, negative": lambda np, x: np.pad(x, -1),
    "split, unequal": lambda np, x: np.split(x, 5, 1),
    "take, out of range": lambda np, x: np.take(x, 24),
    "take, axis": lambda np, x: np.take(x, 0, axis=4),
    "take_along_axis": lambda np, x: np.take_along_axis(x, np.array([0]), 1),
    "repeat, negative": lambda np, x: np.repeat(x, -1),
    "iterating a scalar": lambda np, x: list(x[0, 0, 0]),
    "len of a scalar": lambda np, x: len(x[0, 0, 0]),
    "truth of an array": lambda np, x: bool(x),
    "int of an array": lambda np, x: int(x),
    "index of an array": lambda np, x: [1, 2][x],
    "invert of floats": lambda np, x: ~x,
    "bitwise of floats": lambda np, x: x & x,
    "negative of bools": lambda np, x: -(x > 0),
    "minus of bools": lambda np, x: (x > 0) - (x > 1),
    "astype, safe": lambda np, x: x.astype(np.int32, casting="safe"),
    "full_like, shape": lambda np, x: np.full_like(x, x[0]) + np.full_like(x[0], x),
    "unknown keyword": lambda np, x: np.sum(x, axes=1),
    "unknown method keyword": lambda np, x: x.sum(keep=True),
    "too many arguments": lambda np, x: np.exp(x, x, x, x),
    "hash of an array": lambda np, x: hash(x),
    "missing attribute": lambda np, x: x.sumn(),
    "clip without bounds of shape": lambda np, x: np.clip(x, np.ones(3), 2),
    "flip, axis": lambda np, x: np.flip(x, 3),
    "roll, axis": lambda np, x: np.roll(x, 1, 7),
    "vstack, shapes": lambda np, x: np.vstack([x, x[:, :, :2]]),
    "ravel, keyword": lambda np, x: np.ravel(x, orde="C"),
    "copyto, shapes": lambda np, x: np.copyto(np.zeros_like(x[0]), x),
    "copyto, casting": lambda np, x: np.copyto(np.zeros_like(x, dtype=int), x),
    "add.at, index": lambda np, x: np.add.at(x, 9, 1.0),
}
