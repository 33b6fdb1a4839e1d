"""Sample rows of creation, manipulation, joining, indexing, selection, sorting, and the errors of these."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sample import Sample, data

import functx as fx

_X, _Y, _ROW, _CUBE = data((3, 4)), data((3, 4), 1), data((4,), 2), data((2, 3, 4), 3)
_SIGNED = data((3, 4), 5, -1.7, 1.9)
_INDEX = np.array([2, 0, -1, 2])


def _manipulation() -> list[Sample]:
    calls: dict[str, list[Callable[..., Any]]] = {
        "np.copy": [lambda np, x: np.copy(x)],
        "np.reshape": [
            lambda np, x: np.reshape(x, (4, -1)),
            lambda np, x: np.reshape(x, -1),
            lambda np, x: np.reshape(x, (4, -1), order="F"),
            lambda np, x: np.reshape(x.T, (6, 4), order="A"),
            lambda np, x: np.reshape(x, (6, 4), copy=True),
        ],
        "np.ravel": [lambda np, x: np.ravel(x), lambda np, x: np.ravel(x, "F"), lambda np, x: x.transpose(1, 0, 2).ravel("K")],
        "np.rollaxis": [lambda np, x: np.rollaxis(x, 2), lambda np, x: np.rollaxis(x, 0, 3), lambda np, x: np.rollaxis(x, -1, 1)],
        "np.matrix_transpose": [lambda np, x: np.matrix_transpose(x)],
        "np.atleast_3d": [
            lambda np, x: np.atleast_3d(x[0]),
            lambda np, x: np.atleast_3d(x[0, 0], x)[0],
            lambda np, x: np.atleast_3d(x[0, 0, 0]),
        ],
        "np.fliplr": [lambda np, x: np.fliplr(x)],
        "np.flipud": [lambda np, x: np.flipud(x)],
        "np.rot90": [lambda np, x, k=k: np.rot90(x, k, (0, 2)) for k in (0, 1, 2, -1)],
        "np.resize": [lambda np, x: np.resize(x, (5, 7)), lambda np, x: np.resize(x, 3)],
        "np.diagonal": [lambda np, x: np.diagonal(x), lambda np, x: np.diagonal(x, 1, 2, 0)],
        "np.diag": [lambda np, x: np.diag(x[0], 1), lambda np, x: np.diag(x[0, 0], -1)],
        "np.diagflat": [lambda np, x: np.diagflat(x[:, 0, 0], 2)],
        "np.tril": [lambda np, x: np.tril(x), lambda np, x: np.tril(x[0, 0], -1)],
        "np.triu": [lambda np, x: np.triu(x, 1), lambda np, x: np.triu(x[0].T)],
        "np.diag_indices_from": [lambda np, x: x[0, :, :3][np.diag_indices_from(x[0, :, :3])]],
        "np.tril_indices_from": [lambda np, x: x[0][np.tril_indices_from(x[0], 1)]],
        "np.triu_indices_from": [lambda np, x: x[0][np.triu_indices_from(x[0])]],
        "np.fill_diagonal": [lambda np, x: _filled_diagonal(np, x)],
        "np.meshgrid": [
            lambda np, x: np.meshgrid(x[0, 0], x[0, :, 0])[0] * np.meshgrid(x[0, 0], x[0, :, 0])[1],
            lambda np, x: np.multiply(*np.meshgrid(x[0, 0], x[0, :, 0], indexing="ij", sparse=True)),
        ],
        "np.transpose": [lambda np, x: np.transpose(x), lambda np, x: np.transpose(x, (1, 2, 0))],
        "np.swapaxes": [lambda np, x: np.swapaxes(x, 0, -1)],
        "np.moveaxis": [lambda np, x: np.moveaxis(x, 0, -1), lambda np, x: np.moveaxis(x, (0, 1), (-1, 0))],
        "np.squeeze": [lambda np, x: np.squeeze(x[:, :1]), lambda np, x: np.squeeze(x[:, :1], axis=1)],
        "np.expand_dims": [lambda np, x: np.expand_dims(x, 1), lambda np, x: np.expand_dims(x, (0, -1))],
        "np.broadcast_to": [lambda np, x: np.broadcast_to(x[:, :1], (2, 2, 3, 4)) * 2],
        "np.broadcast_arrays": [lambda np, x: np.broadcast_arrays(x, x[0, 0])[1] * x],
        "np.sliding_window_view": [
            lambda np, x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1) * 2,
            lambda np, x: np.lib.stride_tricks.sliding_window_view(x, (2, 2, 3), axis=(2, 1, 2)) * 2,
        ],
        "np.shares_memory": [lambda np, x: x * np.shares_memory(x, x[1:]) + np.shares_memory(x[:, 0], x[:, 1])],
        "np.may_share_memory": [lambda np, x: x * np.may_share_memory(x[0], x.T) + np.may_share_memory(x, x + 1)],
        "np.astype": [lambda np, x: np.astype(x, x.dtype, copy=False) * 2],
        "ndarray.flat": [lambda np, x: x.flat[1:7] * x.flat[3] + sum(x[0, 0].flat) + x.T.flat[[0, 0, -1, 2, 5, 7]]],
        "np.flip": [lambda np, x: np.flip(x), lambda np, x: np.flip(x, 1)],
        "np.roll": [lambda np, x: np.roll(x, 2), lambda np, x: np.roll(x, -1, 1), lambda np, x: np.roll(x, (1, 2), (0, 2))],
        "ndarray.mT": [lambda np, x: x.mT],
        "np.tile": [lambda np, x: np.tile(x, 2), lambda np, x: np.tile(x, (2, 1, 1, 2))],
        "np.repeat": [lambda np, x: np.repeat(x, 3), lambda np, x: np.repeat(x, 2, axis=1), lambda np, x: np.repeat(x, [1, 0, 2], axis=1)],
        "np.pad": [
            lambda np, x: np.pad(x, 1),
            lambda np, x: np.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=1),
            lambda np, x: np.pad(x, 2, constant_values=(x[0, 0, 0], x[1, 1, 1])),
            *(lambda np, x, m=mode: np.pad(x, ((0, 1), (5, 0), (2, 1)), m) for mode in ("edge", "reflect", "symmetric", "wrap")),
        ],
        "np.split": [lambda np, x: np.split(x, 3, axis=1)[1], lambda np, x: np.split(x, [1, 3], axis=-1)[2]],
        "np.array_split": [lambda np, x: np.array_split(x, 3, axis=2)[1], lambda np, x: np.array_split(x, 5, axis=1)[0]],
        "np.hsplit": [lambda np, x: np.hsplit(x, [1])[1]],
        "np.vsplit": [lambda np, x: np.vsplit(x, 2)[1]],
        "np.dsplit": [lambda np, x: np.dsplit(x, 2)[0]],
        "np.unstack": [lambda np, x: np.unstack(x, axis=1)[2]],
        "np.atleast_1d": [lambda np, x: np.atleast_1d(x[0, 0, 0]), lambda np, x: np.atleast_1d(x, x[0])[1]],
        "np.atleast_2d": [lambda np, x: np.atleast_2d(x[0, 0]), lambda np, x: np.atleast_2d(x[0, 0, 0])],
        "np.concatenate": [lambda np, x: np.concatenate([x, x[:1]]), lambda np, x: np.concatenate([x, x], axis=None)],
        "np.stack": [lambda np, x: np.stack([x[0], x[1]], axis=1), lambda np, x: np.stack(x)],
        "np.vstack": [lambda np, x: np.vstack([x[0], x[1, :1]]), lambda np, x: np.vstack([x[0, 0], x[1, 0]])],
        "np.hstack": [lambda np, x: np.hstack([x[0], x[1, :, :1]]), lambda np, x: np.hstack([x[0, 0], x[0, 1, :2]])],
        "np.dstack": [lambda np, x: np.dstack([x, x[:, :, :2]]), lambda np, x: np.dstack([x[0, 0], x[0, 1]])],
        "np.column_stack": [lambda np, x: np.column_stack([x[0, :, 0], x[0]])],
        "np.block": [lambda np, x: np.block([[x[0, :2, :2], x[0, :2, 2:]], [x[0, 2:]]]), lambda np, x: np.block([x[0, 0], x[0, 1]])],
        "np.append": [lambda np, x: np.append(x, x[:1] * 2, axis=0), lambda np, x: np.append(x, [1, 2])],
        "np.delete": [
            lambda np, x: np.delete(x, 1, axis=1),
            lambda np, x: np.delete(x, [0, -2]),
            lambda np, x: np.delete(x, slice(0, 4, 2), 2),
        ],
        "np.insert": [
            lambda np, x: np.insert(x, 1, x[0, 0, 0], axis=1),
            lambda np, x: np.insert(x, [3, 1], x[1:, :, :2], axis=2),
            lambda np, x: np.insert(x[0, 0], [-1, 0, 2, 0], x[1, 1]),
            lambda np, x: np.insert(x, 2, x[0, 0]),
        ],
        "ndarray.diagonal": [lambda np, x: x.diagonal(-1, 1, 2)],
        "ndarray.swapaxes": [lambda np, x: x.swapaxes(0, 1)],
        "ndarray.squeeze": [lambda np, x: x[:1].squeeze(0)],
        "ndarray.ravel": [lambda np, x: x.ravel()],
        "ndarray.repeat": [lambda np, x: x.repeat(2, 0)],
        "ndarray.copy": [lambda np, x: x.copy()],
        "ndarray.flatten": [lambda np, x: x.flatten(), lambda np, x: x.flatten("F") * x.T.flatten("K")],
        "ndarray.reshape": [lambda np, x: x.reshape(2, -1), lambda np, x: x.reshape((12, 2))],
        "ndarray.transpose": [lambda np, x: x.transpose(), lambda np, x: x.transpose(2, 0, 1), lambda np, x: x.transpose((1, 0, 2)).T],
        "ndarray.T": [lambda np, x: x.T, lambda np, x: x[0, 0, 0].T],
    }
    return [Sample(name, f, (_CUBE,), "manipulation") for name, fs in calls.items() for f in fs]


def _nan_to_num(np, x):
    y = np.copy(x)
    y[0, :3] = [1, 0, 1] if y.dtype.kind not in "fc" else [np.nan, np.inf, -np.inf]
    np.nan_to_num(y.T, copy=False, nan=7, posinf=x[0, 0].real, neginf=3)
    return y * x


def _view_as_parts(np, x):
    z = np.copy(x).view(x.dtype)
    if x.dtype.kind == "c":
        z.view(x.real.dtype)[:, 1::2] *= 2
    return z * 2


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
        Sample("np.where", lambda np, x: x[np.where(condition)] * 2, (_X,), "selection"),
        Sample("np.take", lambda np, x, i: np.take(x, i * 5, mode="wrap") * np.take(x, i * 5, mode="clip"), (_X, _INDEX), "selection"),
        Sample("np.select", lambda np, x, y: np.select([x > 1.2, y > 1], [x, y * 2], 7), (_X, _ROW), "selection"),
        Sample("np.choose", lambda np, x, y: np.choose(condition.astype(int), [x, y]), (_X, _ROW), "selection"),
        Sample("np.choose", lambda np, x, i: np.choose(i, [x, x[0], x[1]], mode="wrap"), (_X, _INDEX), "selection"),
        Sample("ndarray.choose", lambda np, x, i: (i + 1).choose([x, x[0], x[1], x[2]], mode="clip"), (_X, _INDEX), "selection"),
        Sample("np.compress", lambda np, x: np.compress([True, False, True], x, axis=0), (_X,), "selection"),
        Sample("ndarray.compress", lambda np, x: x.compress([0, 1, 1, 0], 1), (_X,), "selection"),
        Sample("np.extract", lambda np, x: np.extract(condition, x), (_X,), "selection"),
        Sample("np.put_along_axis", _put_along_axis, (_X, np.abs(_INDEX[:3, None])), "selection"),
        Sample("np.put", _put, (_X, _INDEX), "selection"),
        Sample("ndarray.put", _put, (_X.T, _INDEX), "selection"),
        Sample("np.place", _place, (_X, _ROW), "selection"),
        Sample("np.putmask", _putmask, (_X, _ROW), "selection"),
        Sample("np.unravel_index", lambda np, x, i: x[np.unravel_index(i % 12, (3, 4))], (_X, _INDEX), "selection"),
        Sample("np.unravel_index", lambda np, x, i: x[np.unravel_index(i % 12, (3, 4), "F")], (_X, _INDEX), "selection"),
        Sample("np.ravel_multi_index", lambda np, x, i: x.ravel()[np.ravel_multi_index((i % 3, i % 4), (3, 4))], (_X, _INDEX), "selection"),
        Sample("np.ravel_multi_index", lambda np, x, i: np.ravel_multi_index((i, i), (3, 4), "wrap", "F") * x, (_X, _INDEX), "selection"),
        Sample("np.ix_", lambda np, x, i: x[np.ix_(i[:3], i)], (_X, _INDEX), "selection"),
        Sample("fnp.nonzero", lambda np, x: x[np.nonzero(condition)] * 2, (_X,), "selection"),
        Sample("np.nonzero", lambda np, x: x * np.nonzero(np.ones_like(x))[1][3], (_X,), "selection"),
        Sample("np.argwhere", lambda np, x: x * np.argwhere(np.ones_like(x))[3, 1], (_X,), "selection"),
        Sample("np.flatnonzero", lambda np, x: x * np.flatnonzero(np.ones_like(x))[3], (_X,), "selection"),
        Sample("ndarray.nonzero", lambda np, x: x * np.ones_like(x).nonzero()[1][3], (_X,), "selection"),
        Sample("np.clip", lambda np, x: np.clip(x, 0.5, 1.5), (_X,), "selection"),
        Sample("np.clip", lambda np, x, y: np.clip(x, None, y), (_X, _ROW), "selection"),
        Sample("ndarray.clip", lambda np, x: x.clip(1), (_X,), "selection"),
        Sample("np.isclose", lambda np, x, y: np.isclose(x, y, rtol=0.1, equal_nan=True), (_X, _Y), "selection", False),
        Sample("np.allclose", lambda np, x, y: np.allclose(x, y, atol=2.0) + x, (_X, _Y), "selection", False),
        Sample("np.array_equal", lambda np, x: np.array_equal(x, x + 0), (_X,), "selection", False),
        Sample("np.copyto", _copyto, (_X,), "selection"),
        Sample("np.copyto", _copyto_where, (_X,), "selection"),
        Sample("ndarray.fill", _fill, (_X,), "selection"),
        Sample("np.nan_to_num", lambda np, x: np.nan_to_num(x * 2) + np.nan_to_num(x[0, 0], copy=True), (_X,), "selection"),
        Sample("np.nan_to_num", _nan_to_num, (_X,), "selection"),
        Sample("ndarray.view", _view_as_parts, (_X,), "selection"),
        Sample("ndarray.view", lambda np, x: x.real.view(f"i{x.real.itemsize}") & 12, (_X,), "selection", smooth=False),
        Sample("ndarray.getitem", lambda np, x, i: x[i[:3], ::2] * x[1, None, 1:3], (_X, _INDEX), "selection"),
        Sample("ndarray.getitem", lambda np, x, i: x[i[0]] + x[1], (_X, _INDEX), "selection"),
        Sample("ndarray.getitem", lambda np, x: x[True, :, None, [0, 2]] * x[..., True][0, 0], (_X,), "selection"),
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


def _copyto_where(np, x):
    y = x * 2
    np.copyto(y, x[0], where=_SIGNED > 0)
    return y * x


def _put_along_axis(np, x, i):
    y = x * 2
    np.put_along_axis(y, i, x[:, :1], 1)
    return y


def _put(np, x, i):
    y = x.copy()
    np.put(y, i, x[0, :2] * 3)
    y[::2].put(i * 7, x[1, 1], mode="clip")
    return y


def _place(np, x, v):
    y = x.copy()
    np.place(y, _SIGNED.reshape(y.shape) > 0, v[:3])
    return y


def _putmask(np, x, v):
    y = x.copy()
    np.putmask(y, _SIGNED > 0, v)
    return y


def _filled_diagonal(np, x):
    y = x.copy()
    np.fill_diagonal(y[0], x[1, 1, :2])
    np.fill_diagonal(y[1].T, x[0, 0, 0], wrap=True)
    return y


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


def _creation() -> list[Sample]:
    calls: dict[str, list[Callable[..., Any]]] = {
        "np.zeros_like": [lambda np, x: np.zeros_like(x) + x],
        "np.ones_like": [lambda np, x: np.ones_like(x, dtype=np.float32) * x],
        "np.full_like": [lambda np, x: np.full_like(x, x[0, 1]), lambda np, x: np.full_like(x, 3, order="F").ravel("K") * x[0, 0]],
        "np.empty_like": [lambda np, x: np.empty_like(x, shape=(0, 3))],
        "np.linspace": [
            lambda np, x: np.linspace(x[0], 2, 3, axis=-1),
            lambda np, x: np.linspace(x[0, 0], x[1], 4, endpoint=False, retstep=True)[0],
            lambda np, x: np.linspace(x[0, 0], x[0, 1], 1),
        ],
        "np.logspace": [lambda np, x: np.logspace(x[0], 2, 3, base=2), lambda np, x: np.logspace(0, x[0, 0], 4, endpoint=False)],
        "np.geomspace": [lambda np, x: np.geomspace(1 + x[0], 8, 3, axis=1), lambda np, x: np.geomspace(-8.0, -1 - x[0, 0], 4)],
        "fnp.zeros": [lambda np, x: np.zeros((2, 3)) + x[0, 0], lambda np, x: (np.zeros((3, 4), order="F") + x).ravel("K")],
        "fnp.ones": [lambda np, x: np.ones(4, np.int32) * x],
        "fnp.full": [lambda np, x: np.full((2, 2), x[0, 0]), lambda np, x: np.full((2, 4), x[0], order="F").ravel("A")],
        "fnp.eye": [lambda np, x: np.eye(3, 4, k=1) * x],
        "fnp.identity": [lambda np, x: np.identity(4) * x[0]],
        "fnp.tri": [lambda np, x: np.tri(3, 4, 1) * x],
        "fnp.arange": [lambda np, x: np.arange(2, 10, 2) * x, lambda np, x: np.arange(stop=4, start=0) * x],
        "fnp.linspace": [lambda np, x: np.linspace(0, 1, 4) + x],
        "fnp.logspace": [lambda np, x: np.logspace(0, 1, 4) + x],
        "fnp.geomspace": [lambda np, x: np.geomspace(1, 8, 4) + x],
        "fnp.array": [lambda np, x: np.array([[x[0, 0], 1.0], [2.0, x[1, 1]]]), lambda np, x: np.array(x, ndmin=3, order="F").ravel("K")],
        "fnp.asarray": [lambda np, x: np.asarray([x[0], x[1] * 2]), lambda np, x: np.asarray(x[0, 0], dtype=np.float64)],
        "fnp.asanyarray": [lambda np, x: np.asanyarray([x[0], x[1] * 2])],
        "fnp.copy": [lambda np, x: np.copy(x)],
        "fnp.ascontiguousarray": [lambda np, x: np.ascontiguousarray(x.T) * 2, lambda np, x: np.ascontiguousarray(x[0, 0])],
        "fnp.asfortranarray": [lambda np, x: np.asfortranarray(x).ravel("K"), lambda np, x: np.asfortranarray(x[0, 0])],
        "fnp.empty": [lambda np, x: np.empty((0, 3))],
    }
    flat = ("np.empty_like", "fnp.empty")
    return [
        Sample(name, f, (_X,), "creation", smooth=name not in flat, own_module=name.startswith("fnp."), rtol=1e-12)
        for name, fs in calls.items()
        for f in fs
    ]


def _sorting() -> list[Sample]:
    smooth: dict[str, list[Callable[..., Any]]] = {
        "np.sort": [
            lambda np, x: np.sort(x),
            lambda np, x: np.sort(x, axis=0, kind="stable"),
            lambda np, x: np.sort(x, axis=None, stable=True),
        ],
        "np.partition": [lambda np, x: np.partition(x, 2)[:, 2], lambda np, x: np.partition(x, [1, -1], axis=0)[1:]],
        "ndarray.sort": [lambda np, x: _sorted_rows(x)],
        "ndarray.partition": [lambda np, x: _partitioned(x)],
        "np.median": [lambda np, x: np.median(x), lambda np, x: np.median(x, axis=0), lambda np, x: np.median(x, (0, 1), keepdims=True)],
        "np.sort_complex": [lambda np, x: np.sort_complex(x).real],
    }
    interpolated: dict[str, list[Callable[..., Any]]] = {
        "np.quantile": [
            lambda np, x: np.quantile(x, 0.3),
            lambda np, x: np.quantile(x, [0.31, 0.5, 1.0], axis=1),
            *(lambda np, x, m=m: np.quantile(x, 0.37, axis=0, keepdims=True, method=m) for m in _METHODS),
        ],
        "np.percentile": [lambda np, x: np.percentile(x, [30, 99], axis=0)],
    }
    flat: dict[str, list[Callable[..., Any]]] = {
        "np.argsort": [lambda np, x: np.argsort(x, kind="stable"), lambda np, x: np.argsort(x, axis=None, stable=True)],
        "ndarray.argsort": [lambda np, x: x.argsort(0, kind="stable")],
        "np.argpartition": [lambda np, x: np.take_along_axis(x, np.argpartition(x, 2), 1)[:, 2]],
        "ndarray.argpartition": [lambda np, x: np.take_along_axis(x, x.argpartition(1, 0), 0)[1]],
        "np.lexsort": [lambda np, x: np.lexsort((x[0], np.round(x[1]))), lambda np, x: np.lexsort((x, np.round(x)), axis=0)],
        "np.searchsorted": [
            lambda np, x: np.searchsorted(np.sort(x[0]), x),
            lambda np, x: np.searchsorted(np.sort(x[0]), x[0, 1:], side="right"),
            lambda np, x: np.searchsorted(x[0], x[1, 0], sorter=np.argsort(x[0], kind="stable")),
        ],
        "ndarray.searchsorted": [lambda np, x: np.sort(x[0]).searchsorted([0.5, 1.5], "right")],
        "np.digitize": [
            lambda np, x: np.digitize(x, [0.5, 0.9, 1.4]),
            lambda np, x: np.digitize(x, [1.4, 0.9, 0.5], right=True),
            lambda np, x: np.digitize(x, np.sort(x[0])[::-1]),
        ],
        "np.isin": [lambda np, x: np.isin(x, x[:1]), lambda np, x: np.isin(x, [1, 2], invert=True)],
        "np.histogram": [
            lambda np, x: np.histogram(x.real, 4)[0],
            lambda np, x: np.histogram(x.real, [0.3, 0.8, 2.2], density=True)[0],
        ],
        "np.histogram_bin_edges": [
            lambda np, x: np.histogram_bin_edges(x.real, 3),
            lambda np, x: np.histogram_bin_edges(x.real, 3, (0, 1)) + x[0, 0],
        ],
        "fnp.bincount": [lambda np, x: np.bincount(np.array([0, 2, 2])) + x[:, :3]],
        "np.bincount": [lambda np, x: np.bincount(np.zeros_like(x[0], dtype=int), weights=x[0], minlength=2)],
        "np.unique": [lambda np, x: np.unique(np.zeros_like(x), return_counts=True)[1] * x],
        "fnp.unique": [lambda np, x: np.unique(np.array([3, 1, 3])) * x[:, :2]],
        "fnp.argwhere": [lambda np, x: np.argwhere(np.array([0, 2, 2])) * x[:2]],
        "fnp.flatnonzero": [lambda np, x: np.flatnonzero(np.array([0, 2, 2])) * x[:, :2]],
        "fnp.extract": [lambda np, x: np.extract(_SIGNED > 0, x)],
        "fnp.where": [lambda np, x: np.where(_SIGNED > 0, x, 2)],
    }
    rows = [Sample(name, f, (_X,), "sorting") for name, fs in smooth.items() for f in fs]
    rows += [Sample(name, f, (_X,), "sorting", rtol=1e-12) for name, fs in interpolated.items() for f in fs]
    rows += [
        Sample(name, f, (_X,), "sorting", smooth=False, own_module=name.startswith("fnp."), rtol=1e-12)
        for name, fs in flat.items()
        for f in fs
    ]
    return rows


_METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
    "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def _sorted_rows(x):
    y = x.copy()
    y.sort()
    y[:, ::2].sort(0)
    return y * x


def _partitioned(x):
    y = x[0].copy()
    y.partition(3)
    return y[3] * x


ROWS = [*_manipulation(), *_selection(), *_creation(), *_sorting()]


# Calls that NumPy refuses: functx raises the same class, or one derived from it. The argument is a (2, 3, 4) array.
ERRORS: dict[str, Callable[..., Any]] = {
    "reshape, order": lambda np, x: np.reshape(x, -1, order="Q"),
    "rollaxis": lambda np, x: np.rollaxis(x, 3),
    "matrix_transpose of a vector": lambda np, x: np.matrix_transpose(x[0, 0]),
    "mT of a vector": lambda np, x: x[0, 0].mT,
    "rot90, axes": lambda np, x: np.rot90(x, 1, (0, 0)),
    "rot90, range": lambda np, x: np.rot90(x, 1, (0, 5)),
    "fliplr of a vector": lambda np, x: np.fliplr(x[0, 0]),
    "flipud of a scalar": lambda np, x: np.flipud(x[0, 0, 0]),
    "resize, negative": lambda np, x: np.resize(x, -1),
    "repeat, count": lambda np, x: np.repeat(x, [1, 2], axis=1),
    "concatenate, out and dtype": lambda np, x: np.concatenate([x, x], out=x, dtype=float),
    "concatenate, casting": lambda np, x: np.concatenate([x, x], dtype=int),
    "block, tuple": lambda np, x: np.block([(x, x)]),
    "block, empty": lambda np, x: np.block([[], x]),
    "block, depths": lambda np, x: np.block([[x], x]),
    "array_split, none": lambda np, x: np.array_split(x, 0),
    "hsplit of a scalar": lambda np, x: np.hsplit(x[0, 0, 0], 1),
    "vsplit of a vector": lambda np, x: np.vsplit(x[0, 0], 2),
    "dsplit of a matrix": lambda np, x: np.dsplit(x[0], 2),
    "unstack of a scalar": lambda np, x: np.unstack(x[0, 0, 0]),
    "delete, range": lambda np, x: np.delete(x, 9, axis=1),
    "insert, range": lambda np, x: np.insert(x, 99, 1),
    "insert, shapes": lambda np, x: np.insert(x[0, 0], [1, 2], [1.0, 2.0, 3.0]),
    "append, shapes": lambda np, x: np.append(x, x[0], axis=0),
    "diagonal of a vector": lambda np, x: np.diagonal(x[0, 0]),
    "diagonal, axes": lambda np, x: x.diagonal(0, 1, 1),
    "diag of a cube": lambda np, x: np.diag(x),
    "writing a diagonal": lambda np, x: np.diagonal(x).__iadd__(1),
    "writing a diagonal taken by diag": lambda np, x: np.diag(x[0]).__setitem__(0, 1),
    "fill_diagonal of a vector": lambda np, x: np.fill_diagonal(x[0, 0], 1),
    "fill_diagonal, sides": lambda np, x: np.fill_diagonal(x, 1),
    "meshgrid, indexing": lambda np, x: np.meshgrid(x[0, 0], indexing="no"),
    "ix_ of a matrix": lambda np, x: np.ix_(x[0]),
    "pad, mode": lambda np, x: np.pad(x, 1, "none"),
    "pad, keyword of another mode": lambda np, x: np.pad(x, 1, "edge", constant_values=1),
    "pad, float": lambda np, x: np.pad(x, 1.5),
    "pad, widths": lambda np, x: np.pad(x, ((1, 1), (1, 1))),
    "pad, edge of nothing": lambda np, x: np.pad(x[:0], 1, "edge"),
    "pad, mean of nothing": lambda np, x: np.pad(x[:0], 1, "mean"),
    "linspace, negative": lambda np, x: np.linspace(x, 1, -1),
    "take, mode": lambda np, x: np.take(x, 1, mode="none"),
    "put, range": lambda np, x: np.put(x, [99], 1),
    "put, read-only": lambda np, x: np.put(np.broadcast_to(x, (2, 2, 3, 4)), 0, 1),
    "place, nothing": lambda np, x: np.place(x, x > 0, []),
    "place, size": lambda np, x: np.place(x, x[0] > 0, 1),
    "putmask, size": lambda np, x: np.putmask(x, x[0] > 0, 1),
    "copyto, mask": lambda np, x: np.copyto(x, x, where=x),
    "select, lengths": lambda np, x: np.select([x > 0], [x, x]),
    "select, nothing": lambda np, x: np.select([], [x]),
    "select, numbers": lambda np, x: np.select([x], [x]),
    "choose, floats": lambda np, x: np.choose(x, [x, x]),
    "where, two arguments": lambda np, x: np.where(x > 0, x),
    "sort, axis": lambda np, x: np.sort(x, 5),
    "sort, order": lambda np, x: np.sort(x, kind="stable", order="f"),
    "sort, kind": lambda np, x: np.sort(x, kind="none"),
    "sort, kind and stable": lambda np, x: np.sort(x, kind="stable", stable=True),
    "sort of a scalar": lambda np, x: np.sort(x[0, 0, 0]),
    "sort, keyword": lambda np, x: np.sort(x, kid="stable"),
    "argsort, order": lambda np, x: x.argsort(order="f"),
    "partition, range": lambda np, x: np.partition(x, 9),
    "lexsort, shapes": lambda np, x: np.lexsort((x, x[0])),
    "searchsorted, matrix": lambda np, x: np.searchsorted(x[0], x),
    "searchsorted, side": lambda np, x: np.searchsorted(x[0, 0], x, side="middle"),
    "digitize, bins": lambda np, x: np.digitize(x, [1, 0, 2]),
    "isin, kind": lambda np, x: np.isin(x, x, kind="none"),
    "median, axis": lambda np, x: np.median(x, 3),
    "quantile, range": lambda np, x: np.quantile(x, 1.5),
    "quantile, method": lambda np, x: np.quantile(x, 0.5, method="none"),
    "bincount of floats": lambda np, x: np.bincount(x[0, 0]),
    "bincount of a matrix": lambda np, x: np.bincount(np.zeros_like(x[0], dtype=int)),
    "bincount, weights": lambda np, x: np.bincount(np.zeros_like(x[0, 0], dtype=int), weights=x[0, 0, :2]),
    "histogram, weights": lambda np, x: np.histogram(x, 3, weights=x[0]),
}
