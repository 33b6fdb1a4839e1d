"""Sample rows of reductions, cumulative functions, ufunc methods and products."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sample import Sample, data

_X, _Y, _ROW, _CUBE, _SQUARE = data((3, 4)), data((3, 4), 1), data((4,), 2), data((2, 3, 4), 3), data((4, 4), 4)
_SIGNED = data((3, 4), 5, -1.7, 1.9)
_INDEX = np.array([2, 0, -1, 2])
_MASK = _CUBE > 0.9
_FLAT = ("all", "any", "argmax", "argmin", "count_nonzero", "nanargmax", "nanargmin")


def _rows(family: str, calls: list[tuple[Any, ...]]) -> list[Sample]:
    """Rows of (name, function, arguments) or (name, function, arguments, smooth)."""
    return [Sample(*call[:3], family, *call[3:], rtol=1e-12) for call in calls]


def _forms() -> list[Sample]:
    """Reductions over no, one, several and all axes, by function and by method."""
    rows = []
    names = ["sum", "prod", "mean", "var", "std", "max", "min", "all", "any", "argmax", "argmin", "ptp", "count_nonzero", "amax", "amin"]
    for name in names:
        smooth = name not in _FLAT
        choices = [(None, False), (1, True), (-1, False)] + ([] if name.startswith("arg") else [((0, 2), True), ((), False)])
        for axis, keepdims in choices:
            call = lambda np, x, n=name, a=axis, k=keepdims: getattr(np, n)(x, axis=a, keepdims=k)  # noqa: E731
            smooth_here = smooth and not (axis == () and name in ("std", "var", "ptp"))
            rows.append(Sample(f"np.{name}", call, (_CUBE,), "reduction", smooth_here))
        if name not in ("ptp", "count_nonzero", "amax", "amin"):
            rows.append(Sample(f"ndarray.{name}", lambda np, x, n=name: getattr(x, n)(1), (_CUBE,), "reduction", smooth))
    return rows


def _keywords() -> list[Sample]:
    return _rows(
        "reduction",
        [
            ("np.sum", lambda np, x: np.sum(x, 0, dtype=np.float64) + np.add.reduce(x), (_CUBE,)),
            ("np.sum", lambda np, x: np.sum(x, 1, where=_MASK, initial=2), (_CUBE,)),
            ("np.sum", lambda np, x, y: np.sum(x, -1, where=x > 1, initial=y[0]), (_CUBE, _ROW), False),
            ("np.prod", lambda np, x: np.prod(x, 1, where=_MASK, keepdims=True, initial=0.5), (_CUBE,)),
            ("np.prod", lambda np, x: np.prod(x * (x > 0.5), 2), (_CUBE,)),
            ("np.max", lambda np, x: np.max(x, 1, where=_MASK, initial=0) - np.min(x, (0, 1), where=_MASK, initial=2), (_CUBE,)),
            ("np.mean", lambda np, x: np.mean(x, 1, where=[[True], [False], [True]]) + x.mean((0, 1), where=_MASK), (_CUBE,)),
            ("np.mean", lambda np, x: np.mean(x, 1, dtype=np.float64, out=np.zeros_like(x[:, 0], dtype=np.float64)), (_CUBE,)),
            ("np.var", lambda np, x: np.var(x, axis=1, correction=1) + x.std(1, ddof=1), (_CUBE,)),
            ("np.var", lambda np, x: np.var(x, 2, where=_MASK | (_CUBE > 0.6), mean=np.mean(x, 2, keepdims=True)), (_CUBE,)),
            ("np.std", lambda np, x: np.std(x, (0, 1), where=_MASK | (_CUBE < 0.7), ddof=0.5), (_CUBE,)),
            ("np.all", lambda np, x: np.all(x, 1, where=_MASK) | np.any(x > 1, 1, where=_MASK), (_CUBE,), False),
            ("np.average", lambda np, x: np.average(x, 1) + np.average(x, (0, 1), keepdims=True)[0], (_CUBE,)),
            ("np.average", lambda np, x, w: np.average(x, 2, weights=w) * np.average(x, weights=x), (_CUBE, _ROW)),
            ("np.average", lambda np, x, w: np.average(x, (2, 1), w.T, returned=True)[1] + np.average(x, returned=True)[1], (_CUBE, _X)),
        ],
    )


def _holes(np: Any, x: Any) -> Any:
    """x with NaN at every fifth place."""
    return np.where(np.arange(x.size).reshape(x.shape) % 5 == 3, np.nan, x)


def _nan_functions() -> list[Sample]:
    rows = []
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanargmax", "nanargmin"):
        smooth = name not in _FLAT
        for axis, keepdims in [(None, False), (2, True)]:
            call = lambda np, x, n=name, a=axis, k=keepdims: getattr(np, n)(_holes(np, x), axis=a, keepdims=k)  # noqa: E731
            rows.append(Sample(f"np.{name}", call, (_CUBE,), "reduction", smooth, rtol=1e-12))
        rows.append(Sample(f"np.{name}", lambda np, x, n=name: getattr(np, n)(x, 1), (_CUBE,), "reduction", smooth, rtol=1e-12))
    calls = [
        ("np.nanvar", lambda np, x: np.nanvar(_holes(np, x), 2, ddof=1, where=_MASK | (_CUBE < 0.8)), (_CUBE,)),
        ("np.nanmean", lambda np, x: np.nanmean(_holes(np, x), 2, where=_MASK | (_CUBE < 0.8)), (_CUBE,)),
    ]
    return rows + _rows("reduction", calls)


def _methods() -> list[Sample]:
    calls = [
        ("np.maximum.reduce", lambda np, x: np.maximum.reduce(x, axis=1) * np.minimum.reduce(x, axis=1), (_CUBE,)),
        ("np.logical_and.reduce", lambda np, x: np.logical_and.reduce(x) | np.logical_or.reduce(x), (_CUBE,), False),
        ("np.fmax.reduce", lambda np, x: np.fmax.reduce(_holes(np, x), 1) * np.fmin.reduce(x, (0, 1)), (_CUBE,)),
        ("np.logaddexp.reduce", lambda np, x: np.logaddexp.reduce(x * 1.0, axis=None, initial=0.5) + np.logaddexp2.reduce(x / 2), (_CUBE,)),
        ("np.hypot.reduce", lambda np, x: np.hypot.reduce(x * 1.0, axis=(0, 2)), (_CUBE,)),
        ("np.subtract.reduce", lambda np, x: np.subtract.reduce(x, axis=1) * np.divide.reduce(x, axis=1, initial=3), (_CUBE,)),
        ("np.subtract.reduce", lambda np, x: np.subtract.reduce(x, axis=1, where=_MASK, initial=2), (_CUBE,)),
        ("np.bitwise_xor", lambda np, x: np.bitwise_xor.reduce(x, axis=1) | np.bitwise_and.reduce(x, axis=1), (_CUBE,), False),
        ("np.multiply.reduce", lambda np, x: np.multiply.reduce(x, axis=2, keepdims=True), (_CUBE,)),
        ("np.add.outer", lambda np, x, y: np.add.outer(x, y) * np.multiply.outer(y, x[0]).sum(), (_X, _ROW)),
        ("np.maximum.outer", lambda np, x: np.maximum.outer(x[0, 0], x[1]) * np.subtract.outer(x[0], 2), (_X,)),
        ("np.add.reduceat", lambda np, x: np.add.reduceat(x, [0, 2, 1, 3], axis=1), (_X,)),
        ("np.multiply.reduceat", lambda np, x: np.multiply.reduceat(x, [0, 1]), (_X,)),
        ("np.add", lambda np, x, y: np.add(x, y, where=x > y, out=np.ones_like(x)), (_X, _ROW), False),
        ("np.exp", lambda np, x: np.exp(x, where=_X > 1, out=np.copy(x)), (_X,)),
        ("np.multiply", lambda np, x: np.multiply(x, 2, signature="dd->d", casting="unsafe", order="F"), (_X,)),
        ("np.modf", lambda np, x: np.modf(x, out=(np.zeros_like(x), np.zeros_like(x)), where=_X > 1)[0], (_X,)),
        ("np.multiply.at", _at("multiply"), (_X, _INDEX)),
        ("np.maximum.at", _at("maximum"), (_X, _INDEX)),
        ("np.minimum.at", _at("minimum"), (_X, _INDEX)),
        ("np.divide.at", _at("divide"), (_X, _INDEX)),
        ("np.hypot.at", _at("hypot"), (_X, [2, 0, -1, 2])),
        ("np.sin.at", _unary_at, (_X, _INDEX)),
    ]
    return [
        Sample(n, f, tuple(a if isinstance(a, np.ndarray) else np.array(a) for a in args), "method", *s, rtol=1e-12)
        for n, f, args, *s in calls
    ]


def _at(name: str) -> Callable[..., Any]:
    def write(np, x, i):
        y = np.copy(x)
        ufunc = getattr(np, name)
        ufunc.at(y, (i[:3], slice(1, None)), x[:, :3] * x[0, 0])
        ufunc.at(y, [0, 2, 0], x[1] + x[0, 0])
        ufunc.at(y, i[0], x[0, 1])
        return y

    return write


def _unary_at(np, x, i):
    y = np.copy(x)
    np.sin.at(y, (i, [0, 1, 2, 0]))
    np.negative.at(y, [0, 0, 1])
    return y


def _cumulative() -> list[Sample]:
    calls: list[tuple[Any, ...]] = [
        (f"np.{name}", lambda np, x, n=name, a=axis: getattr(np, n)(x, axis=a), (_SIGNED,))
        for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")
        for axis in (None, 0, -1)
    ]
    calls += [
        ("ndarray.cumsum", lambda np, x: x.cumsum() * x[0, 0].cumsum(), (_SIGNED,)),
        ("ndarray.cumprod", lambda np, x: x.cumprod(1), (_SIGNED,)),
        ("np.cumsum", lambda np, x: np.cumsum(np.rint(x * 8), 1, dtype=np.float32, out=np.zeros_like(x, dtype=np.float64)), (_X,), False),
        ("np.nancumsum", lambda np, x: np.nancumsum(_holes(np, x), 1) + np.nancumprod(_holes(np, x), 0), (_X,)),
        ("np.cumulative_sum", lambda np, x: np.cumulative_sum(x, axis=1, include_initial=True), (_X,)),
        ("np.cumulative_sum", lambda np, x: np.cumulative_sum(x[0]) + np.cumulative_sum(x[0, 0]), (_X,)),
        ("np.cumulative_prod", lambda np, x: np.cumulative_prod(x, axis=0, include_initial=True), (_X,)),
        ("np.maximum.accumulate", lambda np, x: np.maximum.accumulate(x, 1) * np.minimum.accumulate(x), (_SIGNED,)),
        ("np.fmax.accumulate", lambda np, x: np.fmax.accumulate(x, 1) - np.fmin.accumulate(x), (_SIGNED,)),
        ("np.logaddexp.accumulate", lambda np, x: np.logaddexp.accumulate(x * 1.0, 1) + np.logaddexp2.accumulate(x / 2), (_SIGNED,)),
        ("np.logical_and.accumulate", lambda np, x: np.logical_and.accumulate(x, 1) | np.logical_or.accumulate(x), (_SIGNED,), False),
        ("np.subtract.accumulate", lambda np, x: np.subtract.accumulate(x, 1) * np.divide.accumulate(x), (_SIGNED,)),
        ("np.diff", lambda np, x: np.diff(x), (_SIGNED,)),
        ("np.diff", lambda np, x: np.diff(x, 2, axis=0, prepend=0, append=x[:1]), (_SIGNED,)),
        ("np.ediff1d", lambda np, x: np.ediff1d(x), (_SIGNED,)),
        ("np.ediff1d", lambda np, x: np.ediff1d(x, to_begin=x[0, 0], to_end=x[0]), (_SIGNED,)),
        ("np.trapezoid", lambda np, x: np.trapezoid(x, dx=0.5) * np.trapezoid(x[0]), (_SIGNED,)),
        ("np.trapezoid", lambda np, x, y: np.trapezoid(x, y, axis=0) + np.trapezoid(x, y[:, 0], axis=0), (_SIGNED, _X)),
    ]
    return _rows("cumulative", calls)


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
        ("np.matmul", lambda np, x, y: x[:1] @ y[:, None], (_CUBE, stack)),
        (
            "np.matmul",
            lambda np, x, y: np.matmul(x, y, dtype=np.float64, out=np.zeros_like(x, shape=(4, 5), dtype=np.float64)),
            (_X.T, matrix),
        ),
        ("np.vecdot", lambda np, x, y: np.vecdot(x, y) * np.vecdot(x[:, 0], x[:, 1], axis=0)[0], (_CUBE, _Y)),
        ("np.matvec", lambda np, x, y: np.matvec(x, y), (_CUBE, _X[:2])),
        ("np.vecmat", lambda np, x, y: np.vecmat(y, x), (_CUBE, vector)),
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
        ("np.kron", lambda np, x, y: np.kron(x, y) * np.kron(x[0, 0], 2), (_X, _ROW)),
        ("np.kron", lambda np, x, y: np.kron(y, x), (_X[:2, :2], stack)),
        ("np.cross", lambda np, x, y: np.cross(x, y) + np.cross(x, y[0], axisa=2, axisc=0)[:, 0, 0], (stack, vector[None] * 2)),
        ("np.cross", lambda np, x, y: np.cross(x, y, axis=0), (_X, _Y)),
        ("np.trace", lambda np, x: np.trace(x), (_SQUARE,)),
        ("np.trace", lambda np, x: np.trace(x, offset=1), (_X,)),
        ("np.trace", lambda np, x: np.trace(x, -1, 1, 2, dtype=np.float64), (_CUBE,)),
        ("ndarray.trace", lambda np, x: x.trace(-1), (_X,)),
    ]
    return _rows("product", calls)


def _einsum() -> list[Sample]:
    matrix = data((4, 5), 7)
    one = [
        *("ij->ji", "ij->j", "ij->", "...i->...", "i...->...i", "ij", "ji"),
    ]
    calls = [("np.einsum", lambda np, x, s=s: np.einsum(s, x), (_X,)) for s in one]
    calls += [("np.einsum", lambda np, x, s=s: np.einsum(s, x), (_SQUARE,)) for s in ("ii", "ii->i")]
    pairs = ["ij,jk", "ij,jk->ki", "ij,kl->", "...j,jk->...k", "ij,jk->i"]
    calls += [("np.einsum", lambda np, x, y, s=s: np.einsum(s, x, y), (_X, matrix)) for s in pairs]
    calls += [
        ("np.einsum", lambda np, x, y: np.einsum("ij,ij->ij", x, y) + np.einsum("ij,ij->", x[:1], y), (_X, _Y)),
        ("np.einsum", lambda np, x, y: np.einsum("i,j->ji", x, y), (_X[0], _ROW)),
        ("np.einsum", lambda np, x, y, z: np.einsum("bij,jk,bk->bi", x, y, z), (_CUBE, _SQUARE, _X[:2])),
        ("np.einsum", lambda np, x, y: np.einsum("ij,jk,lk->il", x, y, x), (_X, _SQUARE)),
        ("np.einsum", lambda np, x, y: np.einsum("...ij,...jk", x, y), (_CUBE, data((1, 4, 2), 9))),
        ("np.einsum", lambda np, x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]) + np.einsum(x[0], [1], y, [1, 2])[:, None], (_X, matrix)),
        ("np.einsum", lambda np, x: np.einsum("iij,ij->j", x, x[0]), (data((3, 3, 2), 3),)),
        ("np.einsum", _diagonal_written, (_SQUARE,)),
    ]
    return _rows("product", calls)


def _diagonal_written(np, x):
    y = np.copy(x)
    np.einsum("ii->i", y)[1:] = np.einsum("ij->ji", y)[0, 1:] * 2
    return y


ROWS = [*_forms(), *_keywords(), *_nan_functions(), *_methods(), *_cumulative(), *_products(), *_einsum()]
