"""Dynamic shapes through C++: one compilation for a family of sizes, found again without Python."""

import numpy as np
import oracles
import pytest

import functx as fx

RNG = np.random.default_rng(0)


def layer(x, w, b):
    y = x @ w + b
    return np.maximum(y, 0) if x.shape[0] > 64 else np.tanh(y)


def step(x, w, b):
    return fx.value_and_grad(lambda w, b: (layer(x, w, b) ** 2).sum(), (0, 1))(w, b)


def four_calls(f, backend, rtol=1e-10):
    """Static, symbolic, a hit, the other branch; from then on every size is a hit."""
    jitted = fx.jit(f, backend=backend)
    w, b = RNG.standard_normal((32, 8)), RNG.standard_normal(8)
    compilations = []
    for n in (128, 256, 512, 32, 33, 64, 65, 1000, 2, 7, 1, 0):
        x = RNG.standard_normal((n, 32))
        oracles.assert_same(fx.tree.leaves(jitted(x, w, b)), fx.tree.leaves(f(x, w, b)), rtol=rtol, atol=1e-10)
        compilations.append(jitted.cache_info().compilations)
    assert compilations == [1, 2, 2, *([3] * 9)]
    return jitted


@pytest.mark.parametrize("f", [layer, step])
def test_four_calls(f):
    assert four_calls(f, "cpp")._native_hits == 9


def selected(x):
    y = x[x > 0]
    return y * 2, y.sum() / y.shape[0], np.nonzero(x > 0.5)[0], np.sort(y)[::-1]


def test_sizes_that_data_decides_are_found_by_native_code():
    jitted = fx.jit(selected, backend="cpp")
    for n in (10, 11, 100, 3, 40_000):
        x = RNG.standard_normal(n)
        x[0] = 1.5
        for got, want in zip(jitted(x), selected(x), strict=True):
            assert got.shape == want.shape and (got.ndim == 0 or got.flags.owndata and got.flags.writeable)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert jitted.cache_info().compilations == 2
    entry = jitted.half.compiled(x)[1]
    assert entry.executable.fallbacks == [] and entry.plan is not None
    assert [out.shape for out in entry.executable([x])[:1]] == [selected(x)[0].shape]


def test_repeats_and_their_errors():
    jitted = fx.jit(lambda x, k: np.repeat(x, k) + 1, backend="cpp")
    x, k = np.arange(4.0), np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(jitted(x, k), np.repeat(x, k) + 1)
    np.testing.assert_array_equal(jitted(x, k * 0), [])
    with pytest.raises(ValueError, match="repeats may not contain negative values"):
        jitted(x, k - 1)
    np.testing.assert_array_equal(jitted(x, k), np.repeat(x, k) + 1)


def test_promises_are_checked_by_native_code():
    def f(x):
        y = x[x > 0]
        fx.check(y.shape[0] <= 3)
        return y.sum()

    jitted = fx.jit(f, backend="cpp")
    assert jitted(np.array([1.0, -1.0, 2.0])) == 3.0
    with pytest.raises(fx.errors.DynamicShapeError, match="it does not hold that"):
        jitted(np.ones(4))
    assert jitted(np.array([1.0, -1.0, 2.0])) == 3.0


def test_gradients_of_selections():
    jitted = fx.jit(fx.grad(lambda x: (np.tanh(x[x > 0]) ** 2).sum()), backend="cpp")
    for n in (5, 8, 1):
        x = RNG.standard_normal(n)
        np.testing.assert_allclose(jitted(x), np.where(x > 0, 2 * np.tanh(x) / np.cosh(x) ** 2, 0), atol=1e-12)


def test_arguments_of_any_size_are_updated_in_their_own_buffers():
    def f(x, y):
        x[::2] += y[: (x.shape[0] + 1) // 2]
        y *= 2
        return x[1:], y

    jitted = fx.jit(f, backend="cpp", dynamic=True)
    for n in (6, 9, 300):
        x, y = RNG.standard_normal(n), RNG.standard_normal(n)
        plain_x, plain_y = x.copy(), y.copy()
        tail, same = jitted(x, y)
        f(plain_x, plain_y)
        np.testing.assert_array_equal(x, plain_x)
        np.testing.assert_array_equal(y, plain_y)
        assert same is y and np.shares_memory(tail, x) and tail.shape == (n - 1,)
    assert jitted.cache_info().compilations == 1


LOOPS_AND_SIZES = {
    "a carry of such a size": lambda x: fx.while_loop(lambda c: c.sum() < 50, lambda c: c * c + 1, x[x > 0]).sum(),
    "selected anew in every step": lambda x: fx.fori_loop(
        0, (x[0] * 2).astype(np.int64), lambda i, c: c + (np.sort(x[x > i]) ** 2).sum() * c, x[0]
    ),
    "only the size counts": lambda x: fx.fori_loop(0, 3, lambda i, c: c + x[x > i].shape[0] * x[0], 0.0),
    "in a scan": lambda x: fx.scan(lambda c, v: (c + (x[x > v] * c).sum() / (x[x > v].shape[0] + 1), c), x[0], x)[0],
}  # fmt: skip


@pytest.mark.parametrize("f", LOOPS_AND_SIZES.values(), ids=LOOPS_AND_SIZES)
def test_loops_over_what_data_selects(f):
    """Values and gradients; the reference backend says what is right."""
    value, slope = fx.jit(f, backend="cpp"), fx.jit(fx.grad(f), backend="cpp")
    for x in (np.array([1.0, -1.0, 2.0]), np.array([1.5, 0.5, 2.5])):
        np.testing.assert_allclose(value(x), fx.jit(f, backend="reference")(x), rtol=1e-12)
        np.testing.assert_allclose(slope(x), fx.jit(fx.grad(f), backend="reference")(x), rtol=1e-12)


def test_empty_axes_of_declared_sizes():
    f = fx.jit(lambda x, y: (x.ravel(), x.sum(1) + y.sum()), backend="cpp", dynamic=True)
    for n, m in [(0, 3), (2, 3), (0, 1)]:
        x, y = np.ones((n, m)), np.ones((m, n))
        for got, want in zip(f(x, y), (x.ravel(), x.sum(1) + y.sum()), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_an_extremum_of_nothing_is_an_error(name):
    jitted = fx.jit(lambda x: getattr(x[x > 0], name)(), backend="cpp")
    assert jitted(np.array([-1.0, 2.0, 5.0])) == getattr(np.array([2.0, 5.0]), name)()
    with pytest.raises(ValueError, match="empty sequence"):
        jitted(-np.ones(3))


ROUNDED = [
    lambda x: np.repeat(x[::2], 2)[: x.shape[0]], lambda x: np.repeat(x[::3], 3)[: x.shape[0]] + x, lambda x: np.repeat(x[1::2], 2).sum(),
    lambda x: np.tile(x[::2], 2)[: x.shape[0]], lambda x: x[::2][::2] * 2, lambda x: np.concatenate([x[::2], x[1::2]]).reshape(-1),
]  # fmt: skip


@pytest.mark.parametrize("f", ROUNDED)
@pytest.mark.parametrize("order", [(1, 3, 2, 5, 8), (8, 3, 1, 2, 4), (2, 1, 4, 3)])
def test_code_is_shared_only_where_the_same_is_known_of_sizes(f, order):
    """At one element ``n // 2 == 0`` is known; a graph that prints alike, of which it is not known, has other code."""
    for jitted in (fx.jit(f, backend="cpp", dynamic=True), fx.jit(f, backend="cpp", dynamic=True)):
        for n in order:
            x = RNG.standard_normal(n)
            np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12, err_msg=f"n = {n}")


def empty_carry(x, e, n):
    _, y, _ = fx.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, np.sin(c[1]) + c[2].sum(), np.cos(c[2]) * c[1].sum()), (0, x, e))
    return y.sum()


def empty_rows(x, e, n):
    rows = e[x > 0]
    return (np.sin(x)[x > 0] * (rows * rows).sum(1)).sum() + x.sum() * n


@pytest.mark.parametrize("f", [empty_carry, empty_rows])
def test_memory_of_unknown_length_for_what_has_no_elements(f):
    """As many steps or rows as data says, each of no bytes."""
    x, e = RNG.standard_normal(3), np.zeros((3, 0))
    plain, jitted = fx.value_and_grad(f, (0, 1)), fx.jit(fx.value_and_grad(f, (0, 1)), backend="cpp")
    for n in (3, 0):
        for got, want in zip(fx.tree.leaves(jitted(x, e, n)), fx.tree.leaves(plain(x, e, n)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_reshapes_between_sizes_that_are_equal_by_what_was_decided():
    def f(x):
        rows = x.reshape(-1).reshape(-1, 3)
        if rows.shape[0] % 2 == 0:
            rows[:, 0] = x[:, 1]
        return rows[:, 1] * 2 if rows.shape[0] > 2 else rows[:, 0]

    jitted = fx.jit(f, backend="cpp", dynamic=True)
    for n in (4, 3, 6, 2, 1, 8, 5):
        x = RNG.standard_normal((n, 3))
        mine, theirs = x.copy(), x.copy()
        np.testing.assert_array_equal(jitted(mine), f(theirs))
        np.testing.assert_array_equal(mine, theirs)


def test_selections_from_an_axis_that_turns_out_to_be_empty():
    """It is found to be so by a decision that comes later; other arrays without elements do not share loops with it."""

    def f(x, y):
        chosen = x[x > 0.7][:2].sum()
        summed = np.cumsum(x)
        y[:, 0] = summed
        return chosen, summed * 2 if x.shape[0] == 0 else summed, y

    jitted = fx.jit(f, backend="cpp", dynamic=True)
    for n in (0, 3, 0, 5):
        x, y = np.ones(n), np.ones((n, 3))
        for got, want in zip(fx.tree.leaves(jitted(x, y.copy())), fx.tree.leaves(f(x, y.copy())), strict=True):
            np.testing.assert_array_equal(got, want)
