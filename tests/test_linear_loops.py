"""linear_transpose through loops and choices: the adjoint where they are linear, an error that names the line where they are not."""

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp
from functx.errors import NonLinearError

A = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0], [0.2, 0.3, 0.4]])
X, W = np.array([1.0, -2.0, 0.5]), np.arange(12.0).reshape(4, 3)
JITS = {"eager": lambda f: f, "jit": oracles.reference_jit}


def table(x):
    rows = fnp.zeros((4, 3))
    rows[0] = x

    def body(i, carry):
        rows[i] = A @ rows[i - 1]
        return carry

    fx.fori_loop(1, 4, body, ())
    return rows


def doubled(c, limit):
    return fx.while_loop(lambda s: s[1] < limit, lambda s: (s[0] * 2.0, s[1] + 4), (c, 0))[0]


def damped(x):
    """A carry that is linear in x beside one that is not its business, made by a loop in the loop."""

    def step(state, w):
        c, d = state
        d = fx.fori_loop(0, 2, lambda i, d: np.sin(d) + w[0], d)
        c, d = fx.fori_loop(0, 2, lambda i, s: (s[0] * s[1], s[1] * 0.5), (c, d))
        return (A @ c * d, d), c

    return fx.scan(step, (x, 1.0), W)[1]


LINEAR = {
    "a carry": lambda x: fx.scan(lambda c, w: (A @ c * w, c), x, W),
    "back": lambda x: fx.scan(lambda c, w: (A @ c + w * x, c), x, W, reverse=True),
    "xs": lambda x: fx.scan(lambda c, v: (c + v, c * 2.0), np.zeros(()), x),
    "a constant of the loop": lambda x: fx.scan(lambda c, w: (c + x * w, x), np.zeros(3), W),
    "no carry": lambda x: fx.scan(lambda c, w: (None, x * w), None, W)[1],
    "a counter": lambda x: fx.scan(lambda c, _: ((c[0] * fnp.asarray(W)[c[1]], c[1] + 1), None), (x, 0), length=4)[0][0],
    "steps that do not divide": lambda x: fx.scan(lambda c, w: (A @ c * w, c), x, W, unroll=3),
    "no steps": lambda x: fx.scan(lambda c, w: (A @ c * w, c), x, W[:0]),
    "a range": lambda x: fx.fori_loop(0, 4, lambda i, c: A @ c * i + x, x),
    "a table": table,
    "beside what is not linear": damped,
    "a map": lambda x: fx.map(lambda v: v * 2.0, x, batch_size=2),
    "a choice": lambda x: fx.cond(W[1, 0] > 0, lambda v: A @ v, lambda v: v * 3.0, x),
    "a choice of what is closed over": lambda x: fx.cond(W[0, 0] > 0, lambda: A @ x, lambda: np.zeros(3)),
    "three choices": lambda x: fx.switch(1, [lambda v: A @ v, lambda v: v * 3.0, lambda v: v], x),
    "choices in a loop": lambda x: fx.scan(lambda c, w: (fx.cond(w[0] > 3, lambda v: A @ v, lambda v: v * w, c), c.sum()), x, W),
    "a loop in a loop": lambda x: fx.scan(lambda c, w: (fx.fori_loop(0, 2, lambda i, d: A @ d * w, c), c), x, W),
    "a while": lambda x: fx.while_loop(lambda s: s[1] < 3, lambda s: (A @ s[0], s[1] + 1), (x, 0))[0],
    "a while in a loop": lambda x: fx.scan(lambda c, w: (doubled(c, w[0]), c), x, W),
    "a checkpoint": lambda x: fx.scan(fx.checkpoint(lambda c, w: (A @ c * w, c)), x, W),
    "a vmap": lambda x: fx.vmap(lambda r: fx.scan(lambda c, w: (c * w, c), r, W))(x * np.ones((2, 1))),
    "complex": lambda x: fx.scan(lambda c, w: (1j * c * w, c), x * (1 + 2j), W),
    "infinite where it is not taken": lambda x: fx.cond(W[0, 0] > 0, lambda v: v / 0.0, lambda v: v, x),
}  # fmt: skip


def dot(a, b):
    return sum(np.vdot(x, y).real for x, y in zip(fx.tree.leaves(a), fx.tree.leaves(b), strict=True))


def direction(like):
    wave = np.sin(1.0 + np.arange(np.size(like)).reshape(np.shape(like)))
    return (wave * (1 + 0.5j if np.iscomplexobj(like) else 1.0))[...]


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_loop_has_an_adjoint(name, jit):
    f = LINEAR[name]
    y = fx.tree.map(direction, f(X))
    got = JITS[jit](lambda y: fx.linear_transpose(f, X)(y)[0])(y)
    assert type(got) is np.ndarray and got.dtype == np.float64
    np.testing.assert_allclose(got @ X, dot(y, f(X)), rtol=1e-12)
    np.testing.assert_allclose(got, fx.vjp(f, X)[1](y)[0], rtol=1e-12)


NOT_LINEAR = {
    "a square": (lambda x: fx.scan(lambda c, w: (c * c, c), x, W), "'mul'"),
    "a power of itself": (lambda x: fx.fori_loop(0, 3, lambda i, c: c * x, x), "'mul'"),
    "a sum with xs": (lambda x: fx.scan(lambda c, w: (c + w, c), x, W), "'scan' joins a constant"),
    "a carry that begins at one": (lambda x: fx.scan(lambda c, w: (c + x, c), np.ones(3), W), "'scan' joins a constant"),
    "a choice with a sum": (lambda x: fx.cond(W[0, 0] > 0, lambda v: v, lambda v: v + 1.0, x), "'cond' joins a constant"),
    "a predicate": (lambda x: fx.cond(x[0] > 0, lambda v: v, lambda v: v * 2, x), "'gt'"),
    "a predicate in a body": (lambda x: fx.scan(lambda c, w: (fx.cond(c[0] > 0, np.sin, np.cos, c), c), x, W), "'gt'"),
    "a condition": (lambda x: fx.while_loop(lambda c: (c < 100).all(), lambda c: c * 2, x), "'lt'"),
    "rounding": (lambda x: fx.scan(lambda c, w: (np.floor(c), c), x, W), "'floor'"),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_loop_that_is_not_linear_has_none(name):
    f, text = NOT_LINEAR[name]
    with pytest.raises(NonLinearError, match=text) as caught:
        fx.linear_transpose(f, X)
    assert "test_linear_loops.py" in str(caught.value)


def test_what_a_linear_loop_closes_over_is_differentiated():
    def f(w):
        def linear(x):
            return fx.scan(lambda c, v: (c * np.sin(w) * v, None), x, W)[0]

        return (fx.linear_transpose(linear, X)(X)[0] ** 2).sum()

    def plain(w):
        return ((X * np.sin(w) ** 4 * np.prod(W, 0)) ** 2).sum()

    np.testing.assert_allclose(fx.grad(f)(A[0]), fx.grad(plain)(A[0]), rtol=1e-12)


def test_forward_mode_of_a_backward_rule_with_a_loop():
    @fx.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (fx.fori_loop(0, 2, lambda i, c: c * np.cos(x), ct),))
    np.testing.assert_allclose(fx.jvp(f, (X,), (W[1],))[1], np.cos(X) ** 2 * W[1], rtol=1e-12)
