"""linear_transpose of functions that add something: an offset other than zero is refused, whatever it is made of."""

import numpy as np
import pytest

import functx as fx
import functx.numpy as fnp


@pytest.mark.parametrize(
    "f",
    [
        lambda u, x: u + x,
        lambda u, x: np.concatenate([u, x]),
        lambda u, x: fnp.at(fnp.zeros(3))[0].set(1.0) + u,
        lambda u, x: np.where(x > 0, u, x),
        lambda u, x: (u, x * 2),
        lambda u, x: u - np.sin(x).sum(),
    ],
)
def test_an_affine_function_has_no_linear_transpose(f):
    """Whatever its offset is made of: captured arrays, computed values, results of their own."""
    x = np.arange(3.0)
    with pytest.raises(fx.errors.NonLinearError, match="zero"):
        fx.linear_transpose(lambda u: f(u, x), np.ones(3))
    for transform in (fx.jit, fx.grad):  # of an argument of a function around it, too
        with pytest.raises(fx.errors.NonLinearError, match="zero"):
            transform(lambda x: fx.tree.leaves(fx.linear_transpose(lambda u: f(u, x), np.ones(3))(f(x, x)))[0].sum())(x)


def test_offsets_that_are_zero_are_none():
    x = np.zeros(3)
    for f in (lambda u: u + x, lambda u: np.concatenate([u, x]), lambda u: fnp.at(fnp.zeros(3))[0].set(0.0) + u, lambda u: (u, x * 2)):
        out = f(np.ones(3))
        ct = tuple(np.ones_like(o) for o in out) if isinstance(out, tuple) else np.ones_like(out)
        np.testing.assert_array_equal(fx.linear_transpose(f, np.ones(3))(ct)[0], np.ones(3))


A, W = np.arange(9.0).reshape(3, 3), np.arange(12.0).reshape(4, 3)
ADDING = {
    "a scan": lambda u, w: fx.scan(lambda c, row: (c * row + 1.0, None), u, w)[0],
    "rows of a scan": lambda u, w: fx.scan(lambda c, row: (c * row, np.where(row > 1, c, 2.0)), u, w)[1],
    "a carry that begins at one": lambda u, w: fx.scan(lambda c, row: (c * row + u, None), np.ones(3), w)[0],
    "a loop": lambda u, w: fx.fori_loop(0, 3, lambda i, c: c * w[0] + np.array([0.0, 1.0, 0.0]), u),
    "a while": lambda u, w: fx.while_loop(lambda s: s[1] < w[3, 0], lambda s: (s[0] + 1.0, s[1] + 4), (u, 0.0))[0],
    "a choice": lambda u, w: fx.cond(w[0, 0] > 0, lambda: u, lambda: u + 1.0),
    "a constant branch": lambda u, w: fx.cond(w[0, 0] > 0, lambda: u, lambda: np.ones(3)),
    "a loop in a loop": lambda u, w: fx.scan(lambda c, row: (fx.fori_loop(0, 2, lambda i, d: A @ d * row + 1.0, c), None), u, w)[0],
    "a choice in a loop": lambda u, w: fx.scan(lambda c, row: (fx.cond(row[0] > 1, lambda: c, lambda: c - 1.0), None), u, w)[0],
}


@pytest.mark.parametrize("name", ADDING)
def test_a_loop_that_adds_a_constant_is_refused_inside_a_trace_too(name):
    """What the loop gives for zeros is not known there."""
    for run in (lambda g: g(W), lambda g: fx.jit(g, backend="reference")(W), lambda g: fx.vmap(g)(np.stack([W, W]))):
        with pytest.raises(fx.errors.NonLinearError, match=r"(?s)joins a constant.*test_linear_offsets.py"):
            run(lambda w: fx.linear_transpose(lambda u: ADDING[name](u, w), np.ones(3))(np.ones_like(ADDING[name](np.ones(3), w)))[0])


def test_loops_that_add_nothing_are_taken_inside_a_trace():
    def f(u, w):
        def body(carry, row):
            c, count, rest = carry
            c = fx.cond(row[0] > 1, lambda: c * row, lambda: np.where(row > 2, c, 0.0))
            return (A @ c + 0.0, count + 1.0, np.sin(rest) + 1.0), c * rest

        return fx.scan(body, (u, 0.0, 1.0), w)[1]

    def adjoint(w):
        return fx.linear_transpose(lambda u: f(u, w), np.ones(3))(np.ones((4, 3)))[0]

    want = fx.vjp(lambda u: f(u, W), np.ones(3))[1](np.ones((4, 3)))[0]
    for got in (adjoint(W), fx.jit(adjoint, backend="reference")(W), fx.vmap(adjoint)(np.stack([W, W]))[1]):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_symbolic_sizes_stay_symbolic():
    """Looking for offsets asks for no size: one trace serves all, and sizes that data decides have none while tracing."""

    def adjoint(w):
        rows = w[w[:, 0] > 0.3]

        def f(u):
            moved = fx.scan(lambda c, row: (c * row.sum() + u * row[0], c), u, rows)[0]
            return moved * rows.shape[0] + np.concatenate([u[1:], u[:1]]) * w.shape[0]

        return fx.linear_transpose(f, w[:, 0] * 1.0)(w[:, 1] * 1.0)[0]

    jitted = fx.jit(adjoint, backend="reference", dynamic=True)
    for n in (4, 5, 9, 3):
        w = np.random.default_rng(n).random((n, 3))
        np.testing.assert_allclose(jitted(w), adjoint(w), rtol=1e-12)
    assert jitted.cache_info().traces == 1
