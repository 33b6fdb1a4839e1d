"""x[mask] where the mask is unknown while tracing, and functions that take the size of their result: NumPy with known masks as oracle."""

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp


def row_mask(x):
    return x[:, 0] > 0


def scaled(x, y):
    m = x > 0
    x[m] *= 2
    x[~m] -= y[~m]


def combined(x, y):
    m = x > 0
    x[m] = x[m] + y[m]
    x[x > 0] = np.sqrt(x[x > 0]) / (y[x > 0] + 2)


def singular(x, y):
    m = x > 0
    x[m] = np.log(x[m]) + 1 / x[m] + np.sqrt(x[m]) + x[m] ** 0.3
    x[~m] = 0.0


def rows(x, y):
    m = row_mask(x)
    x[m] = np.exp(x[m]) * y[m] + np.array([1.0, 2, 3, 4])
    x[m, :] += y[0]
    x[m, ...] *= x[m].mean(axis=1, keepdims=True)


def kept_in_a_name(x, y):
    m = x > 0
    v = x[m]
    v *= 2
    v += 1
    x[m] = v.copy()
    w = v.astype(np.float32)
    x[m] = w * np.float64(2)


def through_a_view(x, y):
    v = x[::2, 1:]
    m = v > 0
    v[m] = v[m] * 3 + v[m].sum()


def at_methods(x, y):
    m = x > 0
    np.add.at(x, m, 5)
    np.multiply.at(x, m, y[0, 0])


def sums(x, y):
    m = x > 0
    return np.sum(x[m] * y[m]) + x[m].prod() + np.mean(x[m]) + x[m].var() + np.std(x[m], ddof=1) + np.add.reduce(x[m]) + 2 * x[m].sum()


def extrema(x, y):
    m = x > -0.2
    return x[m].max() - np.min(x[m]) + np.amax(x[m]) * np.minimum.reduce(y[m])


def row_sums(x, y):
    m = row_mask(x)
    return x[m].sum(0) + y[m].mean(axis=0) + x[m].std(0) * x[m].sum() + np.max(x[m], axis=0, keepdims=True)[0] + x[m].sum(1).sum()


MASKED = [scaled, combined, singular, rows, kept_in_a_name, through_a_view, at_methods, sums, extrema, row_sums]


def applied(f):
    """The result of f on a copy of x, or the copy that f has changed."""

    def g(x, y):
        x = x.copy()
        out = f(x, y)
        return x if out is None else out

    return g


@pytest.mark.parametrize("f", MASKED)
@pytest.mark.parametrize("seed", range(3))
def test_elements_that_an_unknown_mask_selects(f, seed):
    """Under jit and vmap as with known masks; the gradient is that of the known mask, and finite."""
    rng = np.random.default_rng(seed)
    batch = rng.permutation(np.linspace(-1, 1, 36) + 0.01).reshape(3, 3, 4), rng.random((3, 3, 4))
    batch[0][:, 0, 0] = 0.5  # one row at least is selected
    x, y = batch[0][0], batch[1][0]
    g = applied(f)
    for dtype in (np.float64, np.float32):
        oracles.assert_agrees(g, x.astype(dtype), y.astype(dtype), rtol=1e-5 if dtype == np.float32 else 1e-13)
    oracles.assert_same(fx.vmap(g)(*batch), oracles.loop(g, batch, (0, 0)), rtol=1e-13)

    def loss(x, y):
        out = g(x, y)
        return (out * out).sum() if np.ndim(out) else out * out

    gradient = fx.grad(loss, (0, 1))
    expected = gradient(x, y)
    assert all(np.isfinite(e).all() for e in expected)
    oracles.assert_same(oracles.reference_jit(gradient)(x, y), expected, rtol=1e-11, atol=1e-13)
    oracles.assert_same(fx.vmap(gradient)(*batch), oracles.loop(gradient, batch, (0, 0)), rtol=1e-10, atol=1e-12)
    _, tangent = fx.jvp(g, (x, y), (x * 2, y * 3))
    _, compiled = oracles.reference_jit(lambda x, y: fx.jvp(g, (x, y), (x * 2, y * 3)))(x, y)
    oracles.assert_same(compiled, tangent, rtol=1e-11, atol=1e-13)


def test_counts_and_truth_of_what_an_unknown_mask_selects():
    def f(x):
        z, m = x.astype(int), x > 0
        z[m] += 3
        z[m] = x[m] * 10
        return np.count_nonzero(x[m]), x[m].any(), np.all(z[m]), z[m].sum(), z[m].mean(), z[m].max(), (x[m] > 0.5).sum(), abs(-x[m]).min()

    for x in (np.array([0.5, -1.0, 2.0]), np.array([[0.1, 0.2], [-0.3, 0.9]])):
        oracles.assert_agrees(f, x)


def test_a_mask_that_selects_nothing():
    """Sums and products are NumPy's; the maximum of nothing, an error in NumPy, is the least value."""
    x = -np.ones(3)
    oracles.assert_agrees(lambda x: (x[x > 0].sum(), x[x > 0].prod(), x[x > 0].mean(), x[x > 0].any()), x)
    oracles.assert_same(oracles.reference_jit(lambda x: x[x > 0].max())(x), np.float64(-np.inf))


def test_casting_is_numpys_for_masked_writes():
    def f(x):
        x[x > 0] *= 2.5

    oracles.assert_agrees(f, np.array([1, -2, 3]))


UNKNOWN_SIZES = {
    "len()": lambda x: len(x[x > 0]),
    "iteration": lambda x: list(x[x > 0]),
    "truth": lambda x: 1 if x[x > 0] else 2,
    "a number": lambda x: 1 if x[x > 0].shape[0] == 3 else 2,
    "different masks": lambda x: x[x > 0] + x[x < 0],
    "writing what another mask selects": lambda x: x.__setitem__(x > 0, x[x < 0]),
    "an array of another size": lambda x: x[x > 0] + np.ones(12),
    "a number of columns": lambda x: x[:, x[0] > 0] + np.ones((3, 2)),
}


@pytest.mark.parametrize("case", UNKNOWN_SIZES)
def test_what_depends_on_the_number_of_selected_elements_is_an_error(case):
    """As in NumPy if the sizes do not fit; otherwise it says that the size is unknown, and names the way out."""
    with pytest.raises((fx.errors.ConcretizationError, ValueError)) as caught:
        oracles.reference_jit(UNKNOWN_SIZES[case])(np.arange(12.0).reshape(3, 4) - 4)
    text = str(caught.value)
    assert "broadcast" in text or ("np.where" in text and "functx.check" in text and "test_masked.py" in text)


# --- results of a given size --------------------------------------------------------------------------------------------------------------

SIZED = {
    "nonzero": lambda x, n: fnp.nonzero(x > 0, size=n, fill_value=-1),
    "nonzero, per axis": lambda x, n: fnp.nonzero(x > 0, size=n, fill_value=(7, 8)),
    "where": lambda x, n: fnp.where(x > 0, size=n),
    "argwhere": lambda x, n: fnp.argwhere(x > 0, size=n, fill_value=-2),
    "flatnonzero": lambda x, n: fnp.flatnonzero(x, size=n),
    "extract": lambda x, n: fnp.extract(x > 0, x, size=n, fill_value=5),
    "unique": lambda x, n: fnp.unique(np.round(x * 3), size=n),
    "unique, all": lambda x, n: fnp.unique(np.round(x * 3), True, True, True, size=n, fill_value=9),
}


@pytest.mark.parametrize("case", SIZED)
@pytest.mark.parametrize("size", [1, 3, 20])
def test_results_of_a_given_size(case, size):
    """Unknown values give what plain ones give, which is NumPy's result cut or filled up."""
    f = lambda x: SIZED[case](x, size)  # noqa: E731
    batch = np.random.default_rng(1).uniform(-1, 1, (3, 3, 4))
    oracles.assert_agrees(f, batch[0])
    expected = [f(x) for x in batch]
    got = fx.vmap(f)(batch)
    for k, one in enumerate(expected):
        oracles.assert_same([g[k] for g in got] if isinstance(got, tuple) else got[k], list(one) if isinstance(one, tuple) else one)
    first, plain = (expected[0][0], np.nonzero(batch[0] > 0)[0]) if case.startswith(("nonzero", "where")) else (None, None)
    if first is not None:
        np.testing.assert_array_equal(first[: len(plain)], plain[:size])
        assert len(first) == size


def test_lists_that_hold_tracers():
    def f(x):
        chosen = fnp.where([x[0] > 1, x[1] > 1], [x[0], x[2]], [2.0, x[1]])
        return (
            chosen,
            fnp.flatnonzero([x[0], 0.0], size=2),
            fnp.argwhere([x[0], x[1]], size=1),
            fnp.extract([x[0] > 0, True], [x[1], x[2]], size=2),
        )

    x = np.array([0.5, 1.5, 2.5])
    expected = np.array([2.0, 2.5]), np.array([0, 0]), np.array([[0]]), np.array([1.5, 2.5])
    oracles.assert_same(oracles.reference_jit(f)(x), expected)


def test_size_works_where_numpy_dispatches_only_without_it():
    x = np.array([0.0, 1.0, 0.0, 2.0])
    oracles.assert_same(fx.grad(lambda x: (x[np.nonzero(x)] ** 2).sum() + x[np.where(x > 1)].sum())(x), np.array([0.0, 2.0, 0.0, 5.0]))
    oracles.assert_same(fx.grad(lambda x: (np.unique(x) ** 2).sum() + np.extract(x > 1, x).sum())(x), np.array([0.0, 2.0, 0.0, 5.0]))
    with pytest.raises(TypeError, match="size"):
        oracles.reference_jit(lambda x: np.nonzero(x, size=2))(x)
    with pytest.raises(TypeError, match="one-argument"):
        oracles.reference_jit(lambda x: fnp.where(x > 0, x, 1.0, size=2))(x)
    with pytest.raises(TypeError, match="axis"):
        oracles.reference_jit(lambda x: fnp.unique(x[None], axis=0, size=2))(x)


def test_deviations_of_selected_elements_are_real_and_smooth():
    """Of complex numbers too; that of equal ones has derivative 0, as np.std's."""
    m = np.array([True, False, True])
    for dtype in (complex, np.complex64, np.float16, int):
        x = np.array([1, 5, 3]).astype(dtype)
        oracles.assert_agrees(lambda x, m: (x[m].std(), x[m].var(ddof=1)), x, m, rtol=1e-3 if dtype == np.float16 else 1e-6)
    gradient = oracles.reference_jit(fx.grad(lambda x: x[x > 2].std()))
    oracles.assert_same(gradient(np.array([3.0, 1.0, 3.0])), np.zeros(3))


def test_options_of_reductions_that_masks_do_not_take():
    for x in (np.arange(5.0) - 2, -np.ones(3)):
        oracles.assert_agrees(lambda x: (x[x > 0].max(initial=3.0), np.sum(x[x > 0], where=x[x > 0] > 1)), x)


@pytest.mark.parametrize("known", [True, False])
def test_a_full_mask_takes_one_axis_of_values(known):
    def f(x, m):
        x[np.array([[True, False]]) if known else m] = [[7.0]]

    oracles.assert_agrees(f, np.ones((1, 2)), np.array([[True, False]]))
