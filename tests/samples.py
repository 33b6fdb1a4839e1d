"""Sample rows: one or more per function of NumPy and functx.nn that functx traces. tests/test_samples.py drives every check from them.

A row's function takes the module that stands for NumPy (``numpy`` or ``functx.numpy``) and the arguments. Arguments are float64 arrays away
from kinks and ties; :meth:`Sample.arguments` converts them to the other dtypes. The primitives' own rows are in tests/primitive_samples.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import samples_lax
import samples_reductions
import samples_selection
from sample import Sample, data

_X, _Y, _ROW, _CUBE, _SQUARE = data((3, 4)), data((3, 4), 1), data((4,), 2), data((2, 3, 4), 3), data((4, 4), 4)
_SIGNED = data((3, 4), 5, -1.7, 1.9)
_UNIT = data((3, 4), 5, -0.9, 0.8)
_DIVISOR = _SIGNED / np.where(_X > 1, 1.45, -2.6)  # the quotients are far from whole numbers
_INDEX = np.array([2, 0, -1, 2])


def _ufuncs() -> list[Sample]:
    smooth_unary = [
        *("negative", "positive", "square", "reciprocal", "absolute", "fabs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2"),
        *("log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
        *("deg2rad", "rad2deg", "radians", "degrees", "conjugate"),
    ]
    flat_unary = [
        "bitwise_count",
        "spacing",
        "sign",
        "logical_not",
        "invert",
        "isnan",
        "isfinite",
        "isinf",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "signbit",
    ]
    smooth_binary = [
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "fmax", "fmin", "float_power", "arctan2", "hypot"),
        *("logaddexp", "logaddexp2"),
    ]
    signed = ("negative", "absolute", "fabs", "sign", "tanh", "sin", "isnan", "cbrt", "expm1", "arctan", "sinh", "arcsinh", *flat_unary[8:])
    flat_binary = [
        "floor_divide",
        "left_shift",
        "right_shift",
        "heaviside",
        "nextafter",
        "gcd",
        "lcm",
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
        Sample("np.modf", lambda np, x: np.modf(x)[0] * 2 - np.modf(x)[1], (_SIGNED,), "ufunc"),
        Sample("np.frexp", lambda np, x: np.frexp(x)[0] * np.frexp(x)[1], (data((3, 4), 5, 2.1, 3.8),), "ufunc"),
        Sample("np.ldexp", lambda np, x, i: np.ldexp(x[:, :3], i[:3]), (_SIGNED, _INDEX), "ufunc"),
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
        "ndarray.__array_namespace__": lambda np, x: x.__array_namespace__().multiply(x, 2),
        "ndarray.shape": lambda np, x: x.reshape(x.shape[::-1]),
        "ndarray.attributes": lambda np, x: x + x.size + x.nbytes + x.itemsize + x.ndim + x.strides[0] + x.flags.c_contiguous,
        "np.real": lambda np, x: np.real(x) * np.real(x[0, 0]),
        "np.imag": lambda np, x: np.imag(x) + np.imag(x[0, 0]) * x,
        "np.angle": lambda np, x: np.angle(x) + np.angle(x[0], deg=True),
        "np.isreal": lambda np, x: np.isreal(x) * 2,
        "np.iscomplex": lambda np, x: np.iscomplex(x) * 2,
        "np.iscomplexobj": lambda np, x: x * np.iscomplexobj(x),
        "np.isrealobj": lambda np, x: x * np.isrealobj(x),
        "ndarray.real": lambda np, x: x.real * 2 + x.imag,
        "ndarray.conj": lambda np, x: x.conj() * x[0, 0].conjugate(),
        "ndarray.conjugate": lambda np, x: x.conjugate() * 2,
    }
    flat = ("ndarray.astype", "np.isreal", "np.iscomplex")
    return [Sample(name, f, (_X,), "inspection", smooth=name not in flat) for name, f in calls.items()]


def _linalg() -> list[Sample]:
    calls: dict[str, list[Callable[..., Any]]] = {
        "np.linalg.norm": [
            lambda np, x: np.linalg.norm(x) + np.linalg.norm(x, axis=1) + np.linalg.norm(x, axis=(0, 1)),
            lambda np, x: np.linalg.norm(x[0], 1) * np.linalg.norm(x[0], np.inf) + np.linalg.norm(x[0], -1) * np.linalg.norm(x[0], -np.inf),
            lambda np, x: np.linalg.norm(x, 3, 0) + np.linalg.norm(x, 1, 0) * np.linalg.norm(x, np.inf, 0) + np.linalg.norm(x, -np.inf, 0),
        ],
        "np.linalg.vector_norm": [lambda np, x: np.linalg.vector_norm(x, axis=(0, 2)) + np.linalg.vector_norm(x, keepdims=True)[0, 0]],
        "np.linalg.matrix_norm": [lambda np, x: np.linalg.matrix_norm(x) + np.linalg.matrix_norm(x, ord=1, keepdims=True)[:, 0, 0]],
        "np.linalg.matrix_power": [
            lambda np, x: np.linalg.matrix_power(x[:, :, :3], 3),
            lambda np, x: np.linalg.matrix_power(x[0, :, :3], 0),
        ],
        "np.linalg.multi_dot": [lambda np, x: np.linalg.multi_dot([x[0], x[1].T, x[0, :, 0]])],
        "np.linalg.trace": [lambda np, x: np.linalg.trace(x, offset=1)],
        "np.linalg.diagonal": [lambda np, x: np.linalg.diagonal(x) * 2],
        "np.linalg.outer": [lambda np, x: np.linalg.outer(x[0, 0], x[1, :, 0])],
        "np.linalg.matmul": [lambda np, x: np.linalg.matmul(x, np.linalg.matrix_transpose(x))],
        "np.linalg.matrix_transpose": [lambda np, x: np.linalg.matrix_transpose(x) * 2],
        "np.linalg.tensordot": [lambda np, x: np.linalg.tensordot(x, x, axes=((0, 1), (0, 1)))],
    }
    return [Sample(name, f, (_CUBE,), "linalg", rtol=1e-12) for name, fs in calls.items() for f in fs]


SAMPLES = [*_ufuncs(), *_linalg(), *_inspection(), *samples_lax.ROWS, *samples_reductions.ROWS, *samples_selection.ROWS]


# Calls that NumPy refuses: functx raises the same class, or one derived from it. The argument is a (2, 3, 4) array.
ERRORS: dict[str, Callable[..., Any]] = {
    **samples_selection.ERRORS,
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
