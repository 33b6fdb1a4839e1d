"""Sample rows of functx.lax, functx.nn and functx.scipy.special. A function computes the same on arrays and on tracers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sample import Sample, data

import functx as fx
import functx.scipy.special
from functx import lax, nn

special = functx.scipy.special

_X, _Y, _CUBE = data((3, 4)), data((3, 4), 1), data((2, 3, 4), 3)
_SIGNED, _PROBABILITY = data((3, 4), 5, -1.7, 1.9), data((3, 4), 2, 0.1, 0.9)
_INDEX = np.array([2, 0, -1, 2])


def _rows(family: str, calls: list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]], smooth: bool = True) -> list[Sample]:
    return [Sample(name, f, args, family, smooth, rtol=1e-12) for name, f, args in calls]


def _nn() -> list[Sample]:
    calls = [
        ("nn.relu", lambda np, x: nn.relu(x), (_SIGNED,)),
        ("nn.sigmoid", lambda np, x: nn.sigmoid(x), (_SIGNED,)),
        ("nn.silu", lambda np, x: nn.silu(x), (_SIGNED,)),
        ("nn.softplus", lambda np, x: nn.softplus(x), (_SIGNED,)),
        ("nn.gelu", lambda np, x: nn.gelu(x) - nn.gelu(x, approximate=False), (_SIGNED,)),
        ("nn.elu", lambda np, x: nn.elu(x) * nn.elu(x, 0.5), (_SIGNED,)),
        ("nn.leaky_relu", lambda np, x: nn.leaky_relu(x) * nn.leaky_relu(x, 0.2), (_SIGNED,)),
        ("nn.logsumexp", lambda np, x: nn.logsumexp(x), (_SIGNED,)),
        ("nn.softmax", lambda np, x: nn.softmax(x), (_SIGNED,)),
        ("nn.logsumexp", lambda np, x: nn.logsumexp(x, (0, 1), keepdims=True), (_SIGNED,)),
        ("nn.log_softmax", lambda np, x: nn.log_softmax(x, axis=0), (_SIGNED,)),
        ("nn.softmax", lambda np, x: nn.softmax(x, axis=(0, 1)), (_SIGNED,)),
        ("nn.one_hot", lambda np, x, i: nn.one_hot(i, 3) * x.sum(), (_X, _INDEX)),
        ("lax.stop_gradient", lambda np, x: x * lax.stop_gradient(np.ones_like(x)), (_X,)),
    ]
    return _rows("nn", calls)


def _lax() -> list[Sample]:
    calls = [
        ("lax.clamp", lambda np, x: lax.clamp(0.5, x, 1.5), (_X,)),
        ("lax.clamp", lambda np, x, y: lax.clamp(y - 0.5, x, y), (_X, _Y)),
        ("lax.rev", lambda np, x: lax.rev(x, 0) * lax.rev(x, (0, 1)), (_X,)),
        ("lax.sort", lambda np, x: lax.sort(x) * lax.sort(x, 0), (_SIGNED,)),
        ("lax.sort", lambda np, x, y: lax.sort((x, y), 0)[1] * lax.sort([y, x], num_keys=2)[0], (_X, _Y)),
        ("lax.top_k", lambda np, x: lax.top_k(x, 2)[0] + lax.top_k(x, 2)[1], (_SIGNED,)),
        ("lax.dynamic_slice", lambda np, x, i: lax.dynamic_slice(x, (i[1], -3), (2, 2)), (_X, _INDEX)),
        ("lax.dynamic_slice", lambda np, x: lax.dynamic_slice(x, (1, 9), (1, 4)), (_X,)),
        ("lax.dynamic_update_slice", lambda np, x, y, i: lax.dynamic_update_slice(x, y[:2, :3], (i[1], -2)), (_X, _Y, _INDEX)),
        ("lax.dynamic_update_slice", lambda np, x: lax.dynamic_update_slice(x, np.ones((1, 1)), (1, 1)), (_X,)),
        ("lax.dynamic_slice_in_dim", lambda np, x, i: lax.dynamic_slice_in_dim(x, i[1], 2, axis=-1), (_CUBE, _INDEX)),
        ("lax.dynamic_index_in_dim", lambda np, x, i: lax.dynamic_index_in_dim(x, i[1], 1), (_CUBE, _INDEX)),
        ("lax.dynamic_index_in_dim", lambda np, x, i: lax.dynamic_index_in_dim(x, -i[1], keepdims=False), (_CUBE, _INDEX)),
        ("lax.dynamic_update_slice_in_dim", lambda np, x, i: lax.dynamic_update_slice_in_dim(x, x[:, :1] * 2, i[1], 1), (_CUBE, _INDEX)),
        ("lax.dynamic_update_index_in_dim", lambda np, x, i: lax.dynamic_update_index_in_dim(x, x[:, 0] * 2, i[1], 1), (_CUBE, _INDEX)),
        ("lax.dynamic_update_index_in_dim", lambda np, x, i: lax.dynamic_update_index_in_dim(x[0, 0], x[1, 0, 0], i[1]), (_CUBE, _INDEX)),
    ]
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        run = getattr(lax, name)
        calls.append((f"lax.{name}", lambda np, x, run=run: run(x) * run(x, -1, reverse=True), (_X,)))
    for name in ("rsqrt", "lgamma", "digamma"):
        calls.append((f"lax.{name}", lambda np, x, name=name: getattr(lax, name)(x + 1), (_X,)))
    for name in ("erf", "erfc", "logistic"):
        calls.append((f"lax.{name}", lambda np, x, name=name: getattr(lax, name)(x), (_SIGNED,)))
    calls += [
        ("lax.erf_inv", lambda np, x: lax.erf_inv(x), (_PROBABILITY,)),
        ("lax.polygamma", lambda np, x: lax.polygamma(0, x + 1) * lax.polygamma(2, x + 1), (_X,)),
        ("lax.rsqrt", lambda np, x: lax.rsqrt(x[0, 0]), (_X,)),
    ]
    host = lambda x: (np.cumsum(x), {"n": np.array(x.size)})  # noqa: E731

    def call_back(np: Any, x: Any) -> Any:
        total, count = lax.pure_callback(host, (fx.ShapeDtypeStruct((12,), x.dtype), {"n": np.zeros((), int)}), x)
        return total * count["n"]

    vectorized = lambda np, x: lax.pure_callback(lambda v: v * 2.0, x, x, vmap_method="expand_dims")  # noqa: E731
    return _rows("lax", calls) + [
        Sample("lax.pure_callback", f, (_X,), "lax", smooth=False) for f in (call_back, vectorized)
    ]  # fmt: skip


def _special() -> list[Sample]:
    unary = ("erf", "erfc", "erfcx", "expit", "log_expit", "ndtr", "log_ndtr", "cbrt", "exp2", "expm1", "log1p", "gammaln", "gamma", "psi")
    calls = [(f"special.{name}", lambda np, x, name=name: getattr(special, name)(x), (_X,)) for name in (*unary, "entr", "digamma")]
    calls += [
        (f"special.{name}", lambda np, x, name=name: getattr(special, name)(x), (_PROBABILITY,)) for name in ("logit", "ndtri", "erfinv")
    ]
    binary = ("xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln")
    calls += [(f"special.{name}", lambda np, x, y, name=name: getattr(special, name)(x, y), (_X, _Y)) for name in binary]
    calls += [
        ("special.xlogy", lambda np, x: special.xlogy(2.0, x) + special.xlogy(x[0, 0], x[:, :1]), (_X,)),
        ("special.polygamma", lambda np, x: special.polygamma(1, x) * special.polygamma(0, x), (_X,)),
        ("special.logsumexp", lambda np, x: special.logsumexp(x) * special.logsumexp(x, 1, keepdims=True), (_SIGNED,)),
        ("special.softmax", lambda np, x: special.softmax(x) + special.softmax(x, axis=0), (_SIGNED,)),
        ("special.log_softmax", lambda np, x: special.log_softmax(x) + special.log_softmax(x, axis=0), (_SIGNED,)),
    ]
    return _rows("special", calls)


ROWS = [*_nn(), *_lax(), *_special()]
