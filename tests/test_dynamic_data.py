"""Results whose size depends on data: what a mask, nonzero, unique, compress or repeat selects is an array of its true size."""

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp
from functx.errors import ConcretizationError, DynamicShapeError


def rows(n):
    return np.random.default_rng(n).standard_normal((n, 3))


def line(n):
    return np.random.default_rng(n).standard_normal(n)


def counts(x):
    return np.abs(np.rint(x)).astype(int)


def sorted_in_place(x):
    x[x > 0] = np.sort(x[x > 0])


def selected_then_written(x):
    y = x[x > 0]
    y *= 2
    z = y[::-1].copy()
    y += z
    y[::2] = 7.0
    return y


SELECTED = {
    "x[mask]": (lambda x: x[x > 0], line),
    "x[mask], a mask of rows": (lambda x: x[x[:, 0] > 0], rows),
    "x[mask], two axes": (lambda x: x[x > 0], rows),
    "x[:, mask]": (lambda x: x.T[:, x[:, 0] > 0], rows),
    "x[mask, 1]": (lambda x: x[x[:, 0] > 0, 1], rows),
    "x[mask][...]": (lambda x: x[x > 0][::2] * 2, line),
    "x[mask] = an array": (sorted_in_place, line),
    "written in place": (selected_then_written, line),
    "nonzero": (lambda x: np.nonzero(x > 0), rows),
    "where": (lambda x: np.where(x > 0), rows),
    "argwhere": (lambda x: np.argwhere(x > 0), rows),
    "flatnonzero": (lambda x: np.flatnonzero(x > 0), rows),
    "unique": (lambda x: np.unique(np.rint(x)), line),
    "unique, with all parts": (lambda x: np.unique(np.rint(x), True, True, True), rows),
    "compress": (lambda x: np.compress(x[:, 0] > 0, x, axis=0), rows),
    "extract": (lambda x: np.extract(x > 0, x), rows),
    "repeat": (lambda x: np.repeat(x, counts(x)), line),
    "repeat, an axis": (lambda x: np.repeat(x, counts(x[:, 0]), axis=0), rows),
    "shape": (lambda x: (x[x > 0].shape, x[x > 0].size / 2), line),
    "concatenate": (lambda x: np.concatenate([x[x > 0], x[x <= 0]]), line),
    "the same mask twice": (lambda x: x[x > 0][::-1] + x[x > 0], line),
    "outer": (lambda x: np.outer(x[x > 0], x), line),
    "matmul": (lambda x: x[x[:, 0] > 0] @ x.T, rows),
    "cumsum": (lambda x: np.cumsum(x[x > 0]), line),
    "sort": (lambda x: np.sort(x[x > 0]), line),
    "scan": (lambda x: fx.scan(lambda c, v: (c + v, c * v), np.float64(0), x[x > 0])[1], line),
    "inside cond": (lambda x: fx.cond(x.sum() > 0, lambda v: np.sort(v[v > 0]).sum(), lambda v: v.sum(), x), line),
    "a promise": (lambda x: [y := x[x > 0], fx.check(y.shape[0] <= 40), np.sort(y)][2], line),
}


@pytest.mark.parametrize("case", SELECTED)
def test_true_sizes(case):
    """Any size, and for each several numbers of selected elements, one trace for most of them."""
    f, make = SELECTED[case]
    g = fx.jit(f, backend="reference")
    for n in (5, 8, 13, 2, 1, 0, 30, 7):
        for sign in (1, -1):
            oracles.assert_agrees(f, sign * make(n), transform=lambda _: g, rtol=1e-12, what=f"n = {n}")
    assert g.cache_info().traces <= 4


LOSSES = {
    "x[mask]": (lambda x: (np.cumsum(x[x > 0]) ** 2).sum(), line),
    "sort": (lambda x: (np.sort(x[x > 0]) * fnp.arange(x[x > 0].shape[0])).sum(), line),
    "repeat": (lambda x: (np.repeat(x, counts(x)) ** 3).sum(), line),
    "unique": (lambda x: (np.unique(x) ** 2).sum(), line),
    "compress": (lambda x: (np.compress(x[:, 0] > 0, x, axis=0) @ x.T).sum(), rows),
    "nonzero": (lambda x: (x[np.nonzero(x > 0)] ** 2).sum(), rows),
    "scan": (lambda x: fx.scan(lambda c, v: (np.sin(c + v), c * v), np.float64(0), x[x > 0])[1].sum(), line),
}


@pytest.mark.parametrize("case", LOSSES)
def test_derivatives(case):
    """Without jit the sizes are known: the same derivatives."""
    f, make = LOSSES[case]
    for transform in (fx.grad, lambda f: lambda x: fx.jvp(f, (x,), (np.cos(x),)), lambda f: fx.grad(lambda x: (fx.grad(f)(x) ** 2).sum())):
        plain, g = transform(f), fx.jit(transform(f), backend="reference")
        for n in (5, 8, 13, 2, 1):
            oracles.assert_same(g(make(n)), plain(make(n)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "f", [lambda x: x[x > 0][::-1], np.nonzero, np.unique, lambda x: np.compress(x > 0, x), lambda x: np.repeat(x, counts(x))]
)
def test_under_vmap_it_is_an_error_that_names_size(f):
    for g in (fx.vmap(f), fx.jit(fx.vmap(f), backend="reference")):
        with pytest.raises(ConcretizationError, match=r"(?s)vmap.*test_dynamic_data.py.*size=n"):
            g(rows(4))


def test_bodies_of_loops_cannot_return_arrays_of_a_size_of_their_own():
    with pytest.raises(ConcretizationError, match=r"(?s)scan.*size=n"):
        fx.jit(lambda x: fx.scan(lambda c, v: (c, x[x > v]), 0.0, x), backend="reference")(line(4))
    with pytest.raises((ConcretizationError, fx.errors.StructureError), match="size"):
        fx.jit(lambda x: fx.cond(x[0] > 0, lambda v: v[v > 0], lambda v: v[v < 0], x), backend="reference")(line(4))


def test_promises_are_checked():
    def f(x, most):
        y = x[x > 0]
        fx.check(y.shape[0] <= most)
        assert y.shape[0] < most + 1  # known from here on
        return y

    g = fx.jit(f, static_argnums=1, backend="reference")
    np.testing.assert_array_equal(g(np.array([1.0, -1.0, 2.0]), 2), [1.0, 2.0])
    with pytest.raises(DynamicShapeError, match=r"(?s)s0 <= 1.*test_dynamic_data.py"):
        g(np.array([1.0, -1.0, 2.0]), 1)
    with pytest.raises(DynamicShapeError, match="does not hold"):
        fx.check(1 > 2)
    fx.check(True)
    with pytest.raises(TypeError, match="comparisons of sizes"):
        fx.jit(lambda x: fx.check(x > 0), backend="reference")(1.0)


def test_promises_about_sizes_of_arguments_are_conditions():
    def f(x):
        fx.check(x.shape[0] <= 6)
        return x * 2

    g = fx.jit(f, backend="reference")
    for n in (3, 4, 6, 5):
        assert g(np.ones(n)).shape == (n,)
    assert g.cache_info().traces == 2
    with pytest.raises(DynamicShapeError, match=r"(?s)does not hold.*test_dynamic_data.py"):
        g(np.ones(7))


def test_selections_are_one_equation_each():
    graph = fx.make_ir(lambda x: (x[x > 0][::-1], np.nonzero(x > 0)[0], x[x > 0].sum()))(np.ones(4))
    assert [e.primitive.name for e in graph.eqns].count("places") == 1
    assert "f64[s0]" in str(graph)
