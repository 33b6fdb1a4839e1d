"""Programs that people run on GPUs, in NumPy: what tests of the triton backend and benchmarks/gpu.py compute."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import functx as fx


@dataclasses.dataclass(frozen=True)
class Model:
    """A function and its arguments by size: a small one for Triton's interpreter, a large one for a GPU.

    Attributes:
      memory: passes over memory that it needs at least, in bytes, for the arguments; None where products dominate.
      flops: floating-point operations of its products.
    """

    f: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    small: int
    large: int
    memory: Callable[..., int] | None = None
    flops: Callable[..., int] | None = None


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Random float32."""
    return (scale * np.random.default_rng((seed, *shape)).standard_normal(shape)).astype(np.float32)


def pointwise(a, b):
    return np.tanh(a * b + 1) + np.exp(-((a * b + 1) ** 2))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, scale, shift):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale + shift


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


# --- multi-layer perceptron ---------------------------------------------------------------------------------------------------------------


def mlp_loss(params, x, y):
    for w, b in params[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = params[-1]
    logits = x @ w + b
    logits = logits - logits.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(logits).sum(axis=-1))
    return (log_total - logits[np.arange(len(y)), y]).mean()


def mlp_step(params, x, y):
    """One step of gradient descent, in place."""
    loss, gradients = fx.value_and_grad(mlp_loss)(params, x, y)
    for (w, b), (dw, db) in zip(params, gradients, strict=True):
        w -= 0.1 * dw
        b -= 0.1 * db
    return loss


def mlp_arguments(n):
    sizes = (2 * n, n, n, 10)
    params = [
        (normal(a, b, seed=k, scale=a**-0.5), np.zeros(b, np.float32)) for k, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False))
    ]
    return params, normal(n, 2 * n, seed=9), np.random.default_rng(1).integers(0, 10, n)


# --- transformer block --------------------------------------------------------------------------------------------------------------------


def block(p, x):
    """Attention with four heads and a dense layer, each after a layer norm and beside a shortcut."""
    batch, length, width = x.shape
    h = layer_norm(x, p["scale1"], p["shift1"])
    q, k, v = (np.transpose((h @ p[w]).reshape(batch, length, 4, width // 4), (0, 2, 1, 3)) for w in ("wq", "wk", "wv"))
    weights = softmax(q @ np.swapaxes(k, -1, -2) * np.float32((width // 4) ** -0.5))
    x = x + np.transpose(weights @ v, (0, 2, 1, 3)).reshape(x.shape) @ p["wo"]
    h = layer_norm(x, p["scale2"], p["shift2"])
    return x + gelu(h @ p["up"]) @ p["down"]


def block_gradient(p, x):
    return fx.value_and_grad(lambda p: (block(p, x) ** 2).mean())(p)


def block_arguments(n):
    def weight(a, b, seed):
        return normal(a, b, seed=seed, scale=a**-0.5)

    one, zero = np.ones(n, np.float32), np.zeros(n, np.float32)
    p = {"scale1": one, "shift1": zero, "scale2": one.copy(), "shift2": zero.copy(), "up": weight(n, 4 * n, 5), "down": weight(4 * n, n, 6)}
    p |= {name: weight(n, n, k) for k, name in enumerate(("wq", "wk", "wv", "wo"))}
    return p, normal(2 if n < 100 else 8, 8 if n < 100 else 512, n, seed=8)


# --- others -------------------------------------------------------------------------------------------------------------------------------


def dense_loss(params, x, y):
    w, b = params
    return ((np.tanh(x @ w + b) - y) ** 2).sum()


per_sample = fx.vmap(fx.grad(dense_loss), in_axes=(None, 0, 0))


def per_sample_arguments(n):
    return (normal(n, n, scale=n**-0.5), np.zeros(n, np.float32)), normal(2 * n, n, seed=1), normal(2 * n, n, seed=2)


def lstm(p, xs):
    def step(state, x):
        h, c = state
        z = np.concatenate([x, h], axis=-1) @ p["w"] + p["b"]
        i, f, o, g = np.split(z, 4, axis=-1)
        c = 1 / (1 + np.exp(-f)) * c + 1 / (1 + np.exp(-i)) * np.tanh(g)
        h = 1 / (1 + np.exp(-o)) * np.tanh(c)
        return (h, c), h

    zero = np.zeros((xs.shape[1], p["b"].shape[0] // 4), np.float32)
    _, hs = fx.scan(step, (zero, zero), xs)
    return (hs**2).mean()


def lstm_arguments(n):
    return {"w": normal(2 * n, 4 * n, scale=n**-0.5), "b": np.zeros(4 * n, np.float32)}, normal(5 if n < 100 else 32, n, n, seed=1)


def heat(u, steps):
    """Explicit steps of the heat equation, in place."""
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])


def embedding(table, i):
    """A gradient that goes back to the rows that were looked up."""
    return fx.grad(lambda t: (t[i] ** 2).sum())(table)


def bytes_of(*arrays: Any) -> int:
    """The size of all arrays."""
    return sum(np.asarray(a).nbytes for a in fx.tree.leaves(arrays))


def block_flops(p, x):
    batch, length, width = x.shape
    return 3 * (2 * batch * length * width * width * 12 + 4 * batch * length * length * width)


def mlp_flops(params, x, y):
    return sum(6 * len(x) * w.size for w, _ in params)


MODELS = {
    "pointwise": Model(pointwise, lambda n: (normal(n, n), normal(n, n, seed=1)), 40, 8192, lambda a, b: bytes_of(a, b, a)),
    "softmax": Model(softmax, lambda n: (normal(n, n),), 40, 8192, lambda x: bytes_of(x, x)),
    "layer_norm": Model(
        layer_norm, lambda n: (normal(n, n), normal(n, seed=1), normal(n, seed=2)), 40, 8192, lambda x, s, b: bytes_of(x, x)
    ),
    "mlp_step": Model(mlp_step, mlp_arguments, 16, 2048, flops=mlp_flops),
    "block": Model(block, block_arguments, 16, 1024, flops=lambda p, x: block_flops(p, x) // 3),
    "block_gradient": Model(block_gradient, block_arguments, 16, 1024, flops=block_flops),
    "per_sample": Model(per_sample, per_sample_arguments, 8, 512, lambda p, x, y: len(x) * bytes_of(p)),
    "lstm": Model(lstm, lstm_arguments, 8, 512),
    "lstm_gradient": Model(fx.grad(lstm), lstm_arguments, 8, 512),
    "heat": Model(heat, lambda n: (normal(n, n), 3), 24, 8192, lambda u, steps: 2 * steps * bytes_of(u)),
    "embedding": Model(embedding, lambda n: (normal(n, 16), np.random.default_rng(0).integers(-n, n, 2 * n)), 50, 100_000),
}
