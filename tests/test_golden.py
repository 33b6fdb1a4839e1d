"""Golden texts: the graphs and the C++ of some programs stay, byte for byte, what they were; a refactor changes none of them.

After a change that is meant to alter them:  pytest tests/test_golden.py --update-golden, and read the diff.
"""

from pathlib import Path

import numpy as np
import pytest

import functx as fx
import functx.numpy as fnp
from functx.backends.cpp.ops import CppTarget
from functx.backends.cpp.program import emit
from functx.backends.cpp.toolchain import VECTOR_MATH
from functx.backends.loops.lower import lower
from functx.pretty import format_graph
from functx.transforms.pipeline import optimize

FOLDER = Path(__file__).parent / "golden"


def stencil(u):
    y = fnp.zeros(u.shape)
    y[1:-1] += u[:-2] + u[2:]
    return (y * y).sum()


def sweep(u):
    u = u.copy()
    for _ in range(3):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return (u**2).sum()


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, w):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * w


def dense_loss(params, x, y):
    w, b = params
    return ((np.tanh(x @ w + b) - y) ** 2).mean()


def in_place_step(w, x):
    w -= 0.1 * fx.grad(lambda w: ((x @ w) ** 2).sum())(w)


def update_rows(table, rows, values):
    table[rows] += values
    return table.sum(axis=0)


@fx.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))

X = np.ones((64, 16), np.float32)
V = np.arange(32.0)
PARAMS = (np.ones((16, 4), np.float32), np.zeros(4, np.float32))
PER_SAMPLE = fx.vmap(fx.grad(dense_loss), in_axes=(None, 0, 0))

PROGRAMS = {
    "pointwise": (lambda a, b: np.tanh(a * b + 1) + np.exp(-((a * b + 1) ** 2)), (X, X + 1)),
    "stencil": (stencil, (V,)),
    "stencil_grad": (fx.grad(stencil), (V,)),
    "sweep_grad": (fx.grad(sweep), (V,)),
    "softmax": (softmax, (X,)),
    "layer_norm": (layer_norm, (X, X[0])),
    "layer_norm_grad": (fx.grad(lambda x, w: layer_norm(x, w).sum(), argnums=(0, 1)), (X, X[0])),
    "dense_grad": (fx.value_and_grad(dense_loss), (PARAMS, X, X[:, :4])),
    "per_sample_grad": (PER_SAMPLE, (PARAMS, X, X[:, :4])),
    "in_place_step": (in_place_step, (PARAMS[0], X)),
    "gather_grad": (fx.grad(lambda x, i: (x[i] * x[i]).sum()), (V, np.array([3, 3, -1]))),
    "update_rows": (update_rows, (np.ones((5, 3)), np.array([0, 4]), np.ones((2, 3)))),
    "where_grad": (fx.grad(lambda x: np.where(x < 1, x, np.sqrt(x)).sum()), (V,)),
    "second_derivative": (fx.vmap(fx.grad(fx.grad(lambda x: np.log(x) ** 2))), (V + 1,)),
    "max_grad": (fx.grad(lambda x: x.max(axis=1).sum()), (X,)),
    "column_sums": (lambda x: (x.sum(axis=0), x.mean(), x.argmax(axis=1)), (X,)),
    "joined": (lambda x: np.concatenate([x[::-1], np.pad(x, 1), x.reshape(4, 8).T.ravel()]), (V,)),
    "checkpoint_grad": (fx.grad(lambda x: fx.checkpoint(lambda v: np.sin(np.sin(v)))(x).sum()), (V,)),
    "custom_rule": (fx.grad(lambda x: (5 * clipped(x)).sum()), (V,)),
    "integers": (lambda i: (i * 3 - 1, (i > 2) & (i != 4), np.sign(i), i.sum()), (np.arange(6, dtype=np.int32),)),
}


def without_lines(graph):
    return graph.replace(eqns=tuple(e.replace(source=None) for e in graph.eqns))


def kernels(source):
    """What was generated for the program, without the helpers that it is printed with."""
    start = source.rindex("\n", 0, source.index("static void kernel0") - 1)
    return source[start + 1 :]


def compare(path, text, update):
    if update:
        path.write_text(text)
    assert path.read_text() == text, f"{path.name} changed; run with --update-golden if it was meant to"


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name, request):
    f, args = PROGRAMS[name]
    update = request.config.getoption("--update-golden")
    graph = without_lines(optimize(fx.make_ir(f)(*args)))
    compare(FOLDER / f"{name}.txt", format_graph(graph) + "\n", update)
    source = emit(lower(graph, CppTarget()), 32768, frozenset(VECTOR_MATH))
    compare(FOLDER / f"{name}.cpp", kernels(source.text), update)
