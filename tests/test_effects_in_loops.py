"""What an effect returns in a while_loop is kept for the way back: it happens once per step, in order."""

import numpy as np
import pytest

import functx as fx

F8 = np.float64(0)

WAYS_BACK = {
    "grad": lambda f, x: fx.value_and_grad(f)(x),
    "jit": lambda f, x: fx.jit(fx.value_and_grad(f), backend="reference")(x),
    "compiled": lambda f, x: fx.jit(fx.value_and_grad(f), backend="cpp")(x),
    "vjp": lambda f, x: (lambda y, pull: (y, pull(1.0)[0]))(*fx.vjp(f, x)),
    "vjp of jit": lambda f, x: (lambda y, pull: (y, pull(1.0)[0]))(*fx.vjp(fx.jit(f, backend="cpp"), x)),
    "checkpoint": lambda f, x: fx.value_and_grad(fx.checkpoint(f))(x),
    "vmap": lambda f, x: tuple(v[0] for v in fx.vmap(fx.value_and_grad(f))(np.array([x]))),
    "forward over reverse": lambda f, x: fx.jvp(fx.value_and_grad(f), (x,), (1.0,))[0],
}


@pytest.mark.parametrize("name", WAYS_BACK)
def test_a_while_loop_keeps_what_an_effect_returned(name):
    """It is called once per step, in order, and once for the condition that ends the loop; the way back reads stacks."""
    called = []

    def draw(what, k):
        called.append((what, int(k)))
        return np.float64(1.0 + k)

    def f(x):
        def body(s):
            c, k = s
            return np.sin(c) * fx.io_callback(draw, F8, "body", k) + c, k + 1

        return fx.while_loop(lambda s: s[0] * fx.io_callback(draw, F8, "cond", s[1]) < 30.0, body, (x, 0))[0]

    def plain(x):
        k = 0
        while x * (1.0 + k) < 30.0:
            x, k = np.sin(x) * (1.0 + k) + x, k + 1
        return x

    wanted = fx.value_and_grad(plain)(0.7)
    called.clear()
    np.testing.assert_allclose(WAYS_BACK[name](f, 0.7), wanted, rtol=1e-12)
    steps = sum(what == "body" for what, _ in called)
    assert steps > 2 and called == [(w, k) for k in range(steps) for w in ("cond", "body")] + [("cond", steps)]


def test_second_derivatives_of_a_while_loop_with_effects():
    called = []

    def draw(k):
        called.append(int(k))
        return np.float64(1.0 + k)

    def f(x):
        def body(s):
            return np.sin(s[0]) * fx.io_callback(draw, F8, s[1]) + s[0], s[1] + 1

        return fx.while_loop(lambda s: s[1] < 3, body, (x, 0))[0]

    def plain(x):
        for k in range(3):
            x = np.sin(x) * (1.0 + k) + x
        return x

    for outer in (fx.grad, lambda f: lambda x: fx.jvp(f, (x,), (1.0,))[1]):
        called.clear()
        np.testing.assert_allclose(outer(fx.grad(f))(0.7), fx.grad(fx.grad(plain))(0.7), rtol=1e-12)
        assert called == [0, 1, 2]
