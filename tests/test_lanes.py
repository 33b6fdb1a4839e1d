"""Lanes of vmapped loops, which threads share: each has its own memory and sizes, and the first that fails counts."""

import numpy as np
import pytest

import functx as fx

LANES = 10_000


def cube_root(a):
    """By Newton's method, each lane as long as it needs."""

    def better(state):
        x, _, n = state
        change = (x**3 + x - a) / (3 * x * x + 1)
        return x - change, change, n + 1

    return fx.while_loop(lambda s: (np.abs(s[1]) > 1e-12) & (s[2] < 50), better, (a, a * 0 + 1.0, 0))[0]


def test_lanes_are_shared_and_right():
    a = np.linspace(-20.0, 20.0, LANES)
    solve = fx.jit(fx.vmap(cube_root), backend="cpp")
    x = solve(a)
    np.testing.assert_allclose(x**3 + x, a, atol=1e-12)
    code = solve.code(a)
    assert "#pragma omp parallel for schedule(dynamic)\n    for (int64_t task" in code


def test_each_lane_has_its_own_number_of_steps_on_the_way_back():
    a = np.linspace(-20.0, 20.0, LANES)
    slope = fx.jit(fx.vmap(fx.grad(cube_root)), backend="cpp")
    np.testing.assert_allclose(slope(a), 1 / (3 * fx.vmap(cube_root)(a) ** 2 + 1), rtol=1e-9)


def test_lanes_of_lanes():
    a = np.abs(np.linspace(-20.0, 20.0, 12)).reshape(3, 4) + 1
    for wrap in (lambda f: fx.vmap(fx.vmap(fx.grad(f))), lambda f: fx.vmap(fx.vmap(fx.grad(f)), 1, 1)):
        slope = fx.jit(wrap(cube_root), backend="cpp")
        np.testing.assert_allclose(slope(a), 1 / (3 * fx.vmap(fx.vmap(cube_root))(a) ** 2 + 1), rtol=1e-9)
    curved = fx.jit(fx.vmap(fx.hessian(lambda v: cube_root(v[0]) * v[1])), backend="cpp")
    points = np.stack([a[0], a[1]], 1)
    np.testing.assert_allclose(curved(points), [fx.hessian(lambda v: cube_root(v[0]) * v[1])(p) for p in points], rtol=1e-7)


def test_few_lanes_are_not_shared():
    solve = fx.jit(fx.vmap(cube_root), backend="cpp")
    assert "statuses" not in solve.code(np.ones(20))


def test_the_first_lane_that_fails_counts():
    def total(i, x):
        return fx.while_loop(lambda s: s[1] < np.abs(i) + 1, lambda s: (s[0] + x[i], s[1] + 1), (0.0, 0))[0]

    f = fx.jit(fx.vmap(total, (0, None)), backend="cpp")
    places, x = np.zeros(LANES, int), np.arange(5.0)
    assert "statuses" in f.code(places, x)
    np.testing.assert_array_equal(f(places + 2, x), np.full(LANES, 6.0))
    places[[7777, 9000]] = 9, -8
    places[123] = 7
    for _ in range(5):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
            f(places, x)
