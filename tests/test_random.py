"""functx.random: the bits of jax.random, the same numbers under every transform and on every backend, distributions, derivatives.

Statistical tests run at fixed keys, so they pass always or never. They ask for a p-value above 1e-3: of the 40 or so of them, one would
fail for an unlucky key with a chance of 4 %.
"""

import inspect
import json
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import ml_dtypes  # noqa: F401  (np.dtype("bfloat16"))
import mpmath
import numpy as np
import oracles
import pytest
import scipy.stats as stats
from scipy.special import gammaincinv

import functx as fx
from functx import errors, random
from functx.ops.fma import fma
from functx.ops.random import igamma_slope, threefry2x32
from functx.random import key, split

RECORDED = json.loads((Path(__file__).parent / "data" / "jax_random.json").read_text())
P_VALUE = 1e-3


def call(text):
    return np.asarray(eval(text, {**vars(random), "np": np}))


def recorded(entry):
    dtype, shape, digits = entry
    return np.frombuffer(bytes.fromhex(digits), dtype).reshape(shape)


# --- against JAX and published values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", RECORDED["exact"])
def test_the_bits_are_those_of_jax(text):
    got, expected = call(text), recorded(RECORDED["exact"][text])
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("text", RECORDED["close"])
def test_the_numbers_are_those_of_jax_to_rounding(text):
    got, expected = call(text), recorded(RECORDED["close"][text])
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=2e-5 if got.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize(
    ("keys", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_values(keys, counter, expected):
    """Known answers of the Random123 library."""
    words = threefry2x32.impl(*(np.array([w], np.uint32) for w in (*keys, *counter)))
    assert [int(w) for w in (words[0] >> 32, words[0] & 0xFFFFFFFF)] == list(expected)


def test_fma_is_rounded_once():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(3000) * 2.0 ** rng.integers(-30, 30, 3000) for _ in range(2))
    z = np.where(rng.random(3000) < 0.5, -(x * y) * (1 + rng.standard_normal(3000) * 2.0 ** -rng.integers(0, 60, 3000)), rng.random(3000))
    exact = [Fraction(a) * Fraction(b) + Fraction(c) for a, b, c in zip(*(v.tolist() for v in (x, y, z)), strict=True)]
    assert fma.impl(x, y, z).tolist() == [float(e) for e in exact]
    x, y, z = np.array([1e300, 1e300, 2.0, 0.0]), np.array([1e10, 10.0, 1.0, np.inf]), np.array([1.0, 1.0, -np.inf, 0.0])
    np.testing.assert_array_equal(fma.impl(x, y, z), [np.inf, 1e301, -np.inf, np.nan])


# --- every function, everywhere -----------------------------------------------------------------------------------------------------------

COV, LOGITS = np.array([[2.0, 0.5], [0.5, 1.0]]), np.log(np.array([0.2, 0.3, 0.5]))
SAMPLERS = {
    "split": lambda k: split(k, (2, 2)),
    "fold_in": lambda k: random.fold_in(k, 5),
    "bits": lambda k: random.bits(k, (2, 3)),
    "bits8": lambda k: random.bits(k, (3,), np.uint8),
    "uniform": lambda k: random.uniform(k, (2, 3)),
    "uniform32": lambda k: random.uniform(k, (5,), np.float32, -2, 3),
    "uniform16": lambda k: random.uniform(k, (5,), np.float16, -2, 3),
    "uniform_bounds": lambda k: random.uniform(k, (), minval=-0.7, maxval=0.1),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (4,)),
    "randint": lambda k: random.randint(k, (6,), -3, 9),
    "randint8": lambda k: random.randint(k, (), -128, 128, np.int8),
    "permutation": lambda k: random.permutation(k, np.arange(12.0).reshape(4, 3)),
    "permutation_independent": lambda k: random.permutation(k, np.arange(12.0).reshape(4, 3), independent=True),
    "rademacher": lambda k: random.rademacher(k, (3,)),
    "choice": lambda k: random.choice(k, np.linspace(0, 1, 5), (2,), replace=False),
    "choice_p": lambda k: random.choice(k, 5, (3,), p=np.arange(5.0)),
    "choice_order": lambda k: random.choice(k, 5, (3,), False, np.arange(5.0)),
    "categorical": lambda k: random.categorical(k, LOGITS, shape=(5,)),
    "poisson": lambda k: random.poisson(k, np.array([0.3, 5.0, 200.0])),
    "binomial": lambda k: random.binomial(k, 40, np.array([0.1, 0.6, 0.99])),
    "normal": lambda k: random.normal(k),
    "normal_complex": lambda k: random.normal(k, (2,), complex),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, np.array([1.0, 2.0])),
    "gumbel": lambda k: random.gumbel(k, (3,)),
    "exponential": lambda k: random.exponential(k, (3,)),
    "laplace": lambda k: random.laplace(k, (3,)),
    "logistic": lambda k: random.logistic(k, (3,)),
    "cauchy": lambda k: random.cauchy(k, (3,)),
    "rayleigh": lambda k: random.rayleigh(k, 2.0, (3,)),
    "gamma": lambda k: random.gamma(k, np.array([0.3, 1.0, 20.0])),
    "beta": lambda k: random.beta(k, 1.0, 2.0, (3,)),
    "dirichlet": lambda k: random.dirichlet(k, np.array([1.0, 2.0])),
    "t": lambda k: random.t(k, 3.0, (2,)),
    "multivariate_normal": lambda k: random.multivariate_normal(k, np.zeros(2), COV, (3,)),
    "orthogonal": lambda k: random.orthogonal(k, 2, (2,), m=3),
}
# No floating-point operations that backends round differently.
SAME_BITS = list(SAMPLERS)[: list(SAMPLERS).index("binomial") + 1]


def test_every_function_is_tried():
    tried = {name.partition("_")[0] if name not in random.__all__ else name for name in SAMPLERS}
    tried = {name.rstrip("0123456789") for name in tried}
    assert set(random.__all__) - {"key", "PRNGKey"} == tried


@pytest.mark.parametrize("backend", ["reference", "cpp"])
def test_compiled_samples(backend):
    """One graph of all of them: the same types, and the same bits where no rounding differs."""
    k = key(3)
    got = fx.jit(lambda k: {name: f(k) for name, f in SAMPLERS.items()}, backend=backend)(k)
    for name, f in SAMPLERS.items():
        oracles.assert_same(got[name], f(k), rtol=0 if name in SAME_BITS else 1e-13, what=name)


@pytest.mark.parametrize("name", SAMPLERS)
def test_vmap_over_keys_is_a_loop(name):
    f, keys = SAMPLERS[name], split(key(4), 3)
    expected = np.stack([f(k) for k in keys])
    oracles.assert_same(fx.vmap(f)(keys), expected, rtol=1e-13 if name == "multivariate_normal" else 0, what=name)


def test_vmap_over_keys_and_parameters():
    keys, means = split(key(4), 4), np.array([0.5, 8.0, 30.0, 1e6])
    for f in (random.poisson, random.gamma, lambda k, a: random.randint(k, (2,), 0, a.astype(int))):
        expected = np.stack([f(k, m) for k, m in zip(keys, means, strict=True)])
        oracles.assert_same(fx.vmap(f)(keys, means), expected)
        oracles.assert_same(fx.jit(fx.vmap(f, in_axes=(None, 0)))(keys[0], means), np.stack([f(keys[0], m) for m in means]), rtol=1e-14)


def test_keys_under_vmap():
    """A mapped key gives what each key gives alone; an unmapped one the same noise in each lane."""
    ks = fx.random.split(fx.random.key(0), 4)
    a = fx.vmap(lambda k: fx.random.normal(k, (3,)))(ks)
    b = np.stack([fx.random.normal(k, (3,)) for k in ks])
    c = fx.vmap(lambda x: x + fx.random.normal(ks[0], ()))(np.zeros(4))
    assert a.tobytes() == b.tobytes() and (c == c[0]).all() and c[0] == fx.random.normal(ks[0])
    compiled = fx.jit(lambda k, x: fx.vmap(lambda x: x + fx.random.uniform(k, ()))(x))(ks[0], np.zeros(4))
    assert (compiled == fx.random.uniform(ks[0])).all()


def test_seeds_and_shapes_that_are_traced():
    assert (fx.jit(key)(12) == key(12)).all() and (fx.vmap(key)(np.arange(3)) == np.stack([key(i) for i in range(3)])).all()
    steps = fx.vmap(random.fold_in, (None, 0))(key(1), np.arange(4))
    assert (steps == np.stack([random.fold_in(key(1), i) for i in range(4)])).all()
    x = fx.ShapeDtypeStruct((fx.Dim("n"), 3), float)
    for k in (key(0), fx.ShapeDtypeStruct((2,), np.uint32)):
        for draw in (random.bits, random.normal, random.bernoulli):
            out = fx.eval_shape(lambda k, x, draw=draw: draw(k, shape=x.shape), k, x)
            assert out.shape == x.shape and out.dtype == draw(key(0), shape=(1,)).dtype
        assert fx.eval_shape(lambda k, x: random.gamma(k, x) + random.randint(k, x.shape, 0, 5), k, x).shape == x.shape
    fresh = fx.jit(lambda x: x + random.uniform(key(0), x.shape))  # a key that is known: so are the numbers
    assert (fresh(np.zeros(3)) == random.uniform(key(0), (3,))).all()


def test_keys_in_a_loop():
    def walk(k, x):
        def step(carry, _):
            k, x = carry
            k, now = split(k)
            return (k, x + random.normal(now)), x

        return fx.scan(step, (k, x), None, length=5)

    k, x, path = key(2), 0.0, []
    for _ in range(5):
        path.append(x)
        k, now = split(k)
        x = x + random.normal(now)
    (last, total), got = fx.jit(walk)(key(2), 0.0)
    np.testing.assert_allclose(got, path, rtol=1e-13)
    assert (last == k).all() and abs(total - x) < 1e-13


# --- distributions ------------------------------------------------------------------------------------------------------------------------

N = 20_000
CONTINUOUS = {
    "uniform": (lambda k: random.uniform(k, (N,), minval=-1.0, maxval=3.0), stats.uniform(-1, 4)),
    "uniform32": (lambda k: random.uniform(k, (N,), np.float32), stats.uniform()),
    "normal": (lambda k: random.normal(k, (N,)), stats.norm()),
    "normal32": (lambda k: random.normal(k, (N,), np.float32), stats.norm()),
    "normal_imaginary": (lambda k: random.normal(k, (N,), complex).imag, stats.norm(scale=np.sqrt(0.5))),
    "truncated_normal": (lambda k: random.truncated_normal(k, -0.5, 2.0, (N,)), stats.truncnorm(-0.5, 2.0)),
    "gumbel": (lambda k: random.gumbel(k, (N,)), stats.gumbel_r()),
    "exponential": (lambda k: random.exponential(k, (N,)), stats.expon()),
    "laplace": (lambda k: random.laplace(k, (N,)), stats.laplace()),
    "logistic": (lambda k: random.logistic(k, (N,)), stats.logistic()),
    "cauchy": (lambda k: random.cauchy(k, (N,)), stats.cauchy()),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (N,)), stats.rayleigh(scale=2)),
    **{f"gamma{a}": (lambda k, a=a: random.gamma(k, a, (N,)), stats.gamma(a)) for a in (0.05, 0.6, 1.0, 3.5, 1e4)},
    "gamma32": (lambda k: random.gamma(k, 2.5, (N,), np.float32), stats.gamma(2.5)),
    "beta": (lambda k: random.beta(k, 0.7, 2.0, (N,)), stats.beta(0.7, 2.0)),
    "dirichlet": (lambda k: random.dirichlet(k, np.array([0.5, 1.0, 2.5]), (N,))[:, 1], stats.beta(1.0, 3.0)),
    "t": (lambda k: random.t(k, 3.0, (N,)), stats.t(3.0)),
    "multivariate_normal": (lambda k: random.multivariate_normal(k, np.ones(2), COV, (N,)) @ [1, 2], stats.norm(3, np.sqrt(8))),
    "orthogonal": (lambda k: random.orthogonal(k, 3, (N,))[:, 1, 2], stats.uniform(-1, 2)),  # Archimedes: a coordinate on the sphere
    "poisson_large": (lambda k: random.poisson(k, 1e12, (N,)), stats.norm(1e12, 1e6)),
}
DISCRETE = {
    "bits": (lambda k: random.bits(k, (N,), np.uint8) % 16, stats.randint(0, 16)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (N,)).astype(int), stats.bernoulli(0.3)),
    "randint": (lambda k: random.randint(k, (N,), -2, 9), stats.randint(-2, 9)),
    "choice": (
        lambda k: random.choice(k, 4, (N,), p=np.array([0.1, 0.2, 0.3, 0.4])),
        stats.rv_discrete(values=(range(4), [0.1, 0.2, 0.3, 0.4])),
    ),
    "categorical": (lambda k: random.categorical(k, LOGITS, shape=(N,)), stats.rv_discrete(values=(range(3), np.exp(LOGITS)))),
    **{f"poisson{m}": (lambda k, m=m: random.poisson(k, m, (N,)), stats.poisson(m)) for m in (0.1, 3.0, 9.9, 10.0, 37.5, 4000.0)},
    **{
        f"binomial{n},{p}": (lambda k, n=n, p=p: random.binomial(k, n, p, (N,)).astype(int), stats.binom(n, p))
        for n, p in ((5, 0.3), (1000, 0.002), (30, 0.5), (200, 0.3), (5000, 0.9), (50, 0.97))
    },
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name):
    """Kolmogorov-Smirnov, and the mean within four standard errors where there is one."""
    draw, law = CONTINUOUS[name]
    x = draw(key(100)).astype(float)
    assert stats.kstest(x, law.cdf).pvalue > P_VALUE
    if np.isfinite(law.std()):
        assert abs(x.mean() - law.mean()) < 4 * law.std() / np.sqrt(N)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    """Chi-square over bins that expect at least 20."""
    draw, law = DISCRETE[name]
    x = draw(key(101))
    edges = np.unique(law.ppf(np.linspace(0, 1, 41)[1:-1]))
    below = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    seen = np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
    expected = N * np.diff(below)
    while (expected < 20).any():  # into the neighbour
        i = int(np.argmin(expected))
        j = i - 1 if i else 1
        expected[j] += expected[i]
        seen[j] += seen[i]
        expected, seen = np.delete(expected, i), np.delete(seen, i)
    assert len(seen) > 1 and stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > P_VALUE


def test_different_keys_are_independent():
    first, second = (random.uniform(k, (N,)) for k in split(key(5)))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(N)
    steps = np.stack([random.uniform(random.fold_in(key(5), i), (200,)) for i in range(100)])
    assert stats.kstest(steps.mean(1), stats.norm(0.5, np.sqrt(1 / 12 / 200)).cdf).pvalue > P_VALUE


def test_all_orders_are_as_likely():
    orders = fx.vmap(lambda k: random.permutation(k, 4))(split(key(6), 6000))
    _, seen = np.unique(orders @ [64, 16, 4, 1], return_counts=True)
    assert len(seen) == 24 and stats.chisquare(seen).pvalue > P_VALUE
    assert (np.sort(random.permutation(key(6), 1000)) == np.arange(1000)).all()
    one = np.ones(1)
    assert random.permutation(key(6), one) is not one and random.permutation(key(6), []).shape == (0,)
    columns = random.permutation(key(6), np.arange(12).reshape(4, 3))
    assert (columns % 3 == [0, 1, 2]).all()  # rows stay together
    mixed = random.permutation(key(6), np.arange(300).reshape(100, 3), independent=True)
    assert (mixed % 3 == [0, 1, 2]).all() and (np.diff(mixed, axis=1) != 1).any()


def test_orthogonal_matrices():
    for n, m in ((4, 4), (2, 5), (5, 2)):
        q = random.orthogonal(key(7), n, (3,), m=m)
        gram = q @ q.swapaxes(-1, -2) if n <= m else q.swapaxes(-1, -2) @ q
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(min(n, m)), gram.shape), atol=1e-14)
    u = random.orthogonal(key(7), 3, dtype=complex)
    np.testing.assert_allclose(u @ u.conj().T, np.eye(3), atol=1e-14)


def test_where_there_is_no_such_distribution():
    nan, inf = np.nan, np.inf
    assert random.poisson(key(0), np.array([0.0, -1.0, nan, inf, 1e16])).tolist() == [0, -1, -1, -1, -1]
    n, p = np.array([5, -1, 5, 5, nan, 5, 0, 7, 7]), np.array([nan, 0.5, -0.1, 1.1, 0.5, 0.0, 0.5, 1.0, 0.0])
    np.testing.assert_array_equal(random.binomial(key(0), n, p), [nan, nan, nan, nan, nan, 0, 0, 7, 0])
    np.testing.assert_array_equal(random.gamma(key(0), np.array([-1.0, nan, 0.0, inf])), [nan, nan, 0, inf])
    assert np.isfinite(random.dirichlet(key(0), np.full(50, 1e-4), (200,))).all()  # gamma numbers alone would underflow to 0 / 0


# --- derivatives --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda k, x: random.uniform(k, (4,), minval=x[0], maxval=x[1]), [0.3, 1.2]),
        (lambda k, x: random.truncated_normal(k, x[0], x[1], (4,)), [-0.4, 1.2]),
        (lambda k, x: random.rayleigh(k, x), [0.5, 2.0]),
        (lambda k, x: x[0] + np.exp(x[1]) * random.normal(k, (4,)), [0.3, -0.2]),
        (lambda k, x: x * random.laplace(k, (2,)) + random.gumbel(k, (2,)) / x, [0.3, 1.2]),
        (lambda k, x: x * random.logistic(k, (2,)) + random.exponential(k, (2,)) / x + x * random.cauchy(k, (2,)), [0.3, 1.2]),
        (lambda k, x: random.multivariate_normal(k, x, np.eye(2) + x[0] * np.outer(x, x)), [0.5, 1.2]),
    ],
)
def test_derivatives_of_samples(f, x):
    x, k = np.array(x), key(8)
    expected = np.stack([oracles.directional(lambda x: f(k, x), (x,), (e,)) for e in np.eye(len(x))], -1)
    np.testing.assert_allclose(fx.jacfwd(lambda x: f(k, x))(x), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fx.jit(fx.jacrev(lambda x: f(k, x)))(x), expected, rtol=1e-7, atol=1e-9)


def test_gamma_samples_move_with_their_quantiles():
    """z(a) at a fixed value of the distribution function, its first two derivatives by differences of SciPy's quantile function."""
    a = np.array([0.2, 0.9, 1.0, 3.0, 40.0, 1e3])
    k = key(9)
    z = random.gamma(k, a)
    level = stats.gamma(a).cdf(z)
    d = fx.grad(lambda a: random.gamma(k, a).sum())
    np.testing.assert_allclose(d(a), oracles.directional(lambda a: gammaincinv(a, level), (a,), (np.ones(6),)), rtol=1e-6)
    second = fx.jvp(d, (a,), (np.ones(6),))[1]
    h = 1e-3 * a
    difference = (gammaincinv(a + h, level) - 2 * z + gammaincinv(a - h, level)) / h**2
    np.testing.assert_allclose(second[:4], difference[:4], rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(fx.jit(d)(a), d(a), rtol=1e-13)


@pytest.mark.parametrize(("a", "z"), [(0.02, 1e-9), (0.5, 0.3), (1.0, 6.0), (3.0, 2.0), (3.0, 15.0), (60.0, 52.0), (60.0, 95.0)])
def test_the_slope_of_the_incomplete_gamma_function(a, z):
    """Derivatives of the distribution function by a, over the density of the logarithm, with 40 digits."""
    with mpmath.workdps(40):
        a, z = mpmath.mpf(a), mpmath.mpf(z)
        density = z**a * mpmath.exp(-z) / mpmath.gamma(a)
        for order in (1, 2, 3):
            expected = mpmath.diff(lambda a: mpmath.gammainc(a, 0, z, regularized=True), a, order) / density
            got = igamma_slope.impl(np.array(float(a)), np.array(float(mpmath.log(z))), order=order)
            np.testing.assert_allclose(got, float(expected), rtol=1e-9)


def test_where_the_ways_to_the_slope_meet():
    """The series, the continued fraction and the approximation for large parameters; and the far tails."""
    for a in (0.03, 1.0, 7.0, 500.0):
        z = (a + 2 + 2 * np.sqrt(a)) * np.array([1 - 1e-9, 1 + 1e-9])
        for order in (1, 2):
            low, high = igamma_slope.impl(np.full(2, a), np.log(z), order=order)
            np.testing.assert_allclose(low, high, rtol=1e-6, atol=1e-9)
    a = np.array([1e6, 1e6 + 1e-4])
    for w in (-3, 0, 3):
        low, high = igamma_slope.impl(a, np.log(1e6 + w * 1e3 * np.ones(2)), order=1)
        np.testing.assert_allclose(low, high, rtol=1e-8)
    assert np.isfinite(igamma_slope.impl(np.full(4, 1e-4), np.array([-1e6, -700.0, 1.0, 6.0]), order=1)).all()


@pytest.mark.parametrize(
    ("moment", "x", "expected"),
    [
        (lambda k, x: (random.gamma(k, x[0], (N,)) ** 2).mean(), [1.5], [4.0]),
        (lambda k, x: random.beta(k, x[0], x[1], (N,)).mean(), [0.8, 2.0], [2.0 / 2.8**2, -0.8 / 2.8**2]),
        (lambda k, x: random.dirichlet(k, x, (N,))[:, 0].mean(), [0.7, 1.0, 2.0], [3.0 / 3.7**2, -0.7 / 3.7**2, -0.7 / 3.7**2]),
        (lambda k, x: (random.t(k, x[0], (N,)) ** 2).mean(), [12.0], [-2 / 100]),
    ],
)
def test_derivatives_of_moments(moment, x, expected):
    """The mean of the samples' derivatives is the derivative of the mean, to the noise of N samples."""
    got = fx.grad(lambda x: moment(key(10), x))(np.array(x))
    np.testing.assert_allclose(got, expected, rtol=0.05, atol=0.003)


def test_counts_have_no_derivative():
    f = lambda x: (x * random.poisson(key(0), x) + x * random.bernoulli(key(0), x / 9)).sum()  # noqa: E731
    x = np.array([2.0, 5.0])
    np.testing.assert_array_equal(fx.grad(f)(x), random.poisson(key(0), x) + random.bernoulli(key(0), x / 9))


@pytest.mark.parametrize("budget", [1.0, 0.5, 0.0])
def test_a_mask_is_the_same_when_computed_again(budget):
    def f(x, k):
        return (x * fx.random.bernoulli(k, 0.5, x.shape)).sum()

    k = fx.random.key(0)
    m = fx.random.bernoulli(k, 0.5, (16,))
    got = fx.jit(fx.grad(f), memory_budget=budget)(np.ones(16), k)
    assert (got == m).all() and 0 < m.sum() < 16


def test_noise_is_computed_again_rather_than_kept():
    def f(x, k):
        return (np.sin(x) * np.exp(fx.random.uniform(k, x.shape)) * np.cos(x)).sum()

    x, k = np.linspace(0, 1, 1000), key(1)
    for budget in (1.0, 0.0):
        got = fx.jit(fx.grad(f), memory_budget=budget)(x, k)
        np.testing.assert_allclose(got, np.cos(2 * x) * np.exp(random.uniform(k, (1000,))), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fx.grad(fx.checkpoint(f))(x, k), got, rtol=1e-12, atol=1e-15)


# --- errors and warnings ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: random.normal(0), errors.UnsupportedError, "a key is an array of two uint32, not 0"),
        (lambda: random.normal(np.zeros(2)), errors.UnsupportedError, "functx.random.key"),
        (lambda: random.normal(split(key(0), 3)), errors.UnsupportedError, "functx.vmap"),
        (lambda: key(2**64), OverflowError, "64 bits"),
        (lambda: key(1.5), TypeError, "integer"),
        (lambda: key(np.arange(2)), errors.UnsupportedError, "a seed is one integer"),
        (lambda: random.fold_in(key(0), np.arange(2)), errors.UnsupportedError, "functx.vmap"),
        (lambda: random.bits(key(0), (), int), TypeError, "unsigned"),
        (lambda: random.uniform(key(0), (), int), TypeError, "real floats"),
        (lambda: random.uniform(key(0), (2,), minval=np.zeros(3)), ValueError, "cannot be broadcast"),
        (lambda: random.gamma(key(0), np.ones((2, 3)), (3,)), ValueError, "cannot be broadcast"),
        (lambda: random.randint(key(0), (), 0, 2.5), TypeError, "bounds are integers"),
        (lambda: random.randint(key(0), (), 0, 2, float), TypeError, "integer dtype"),
        (lambda: random.choice(key(0), 3, (4,), replace=False), ValueError, "4 elements cannot be drawn from 3"),
        (lambda: random.choice(key(0), 3, p=np.ones(4)), ValueError, "p"),
        (lambda: random.dirichlet(key(0), 1.0), ValueError, "one number"),
        (lambda: random.multivariate_normal(key(0), np.zeros(2), np.eye(3)), ValueError, "cov"),
        (lambda: random.multivariate_normal(key(0), np.zeros(2), -np.eye(2)), np.linalg.LinAlgError, "positive definite"),
        (lambda: random.permutation(key(0), 2.5), TypeError, "integer"),
    ],
)
def test_errors(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_public_functions_are_documented():
    for name in random.__all__:
        doc = getattr(random, name).__doc__
        assert ">>>" in doc and "Args:" in doc


def _noisy(x):
    return x + np.random.normal(size=3)


def test_numpys_random_numbers_in_a_traced_function():
    """One warning for a place, naming its line, however often it is traced."""
    f, line = fx.jit(lambda x: _noisy(x) * 2), inspect.getsourcelines(_noisy)[1] + 1
    with pytest.warns(errors.DrawWarning, match="functx.random") as seen:
        f(np.zeros(3))
        f(np.zeros(3, np.float32))
        fx.vmap(_noisy)(np.zeros((2, 3)))
    assert [(w.filename, w.lineno) for w in seen] == [(__file__, line)]


def test_numpys_random_numbers_where_no_line_is_known():
    draw = {"normal": np.random.normal}
    f = fx.jit(lambda x: x + draw["normal"]())
    with pytest.warns(errors.DrawWarning, match="test_random.py"):
        f(0.0)


def test_numpys_random_numbers_of_other_threads_are_no_reason_to_warn():
    drawn, traced = threading.Event(), threading.Event()
    draw = {"random": np.random.random}

    def elsewhere():
        draw["random"]()
        drawn.set()
        traced.wait(60)

    thread = threading.Thread(target=elsewhere)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.make_ir(lambda x: (thread.start(), drawn.wait(60), x + 1)[-1])(0.0)
    traced.set()
    thread.join()
    assert drawn.is_set()


def test_no_warning_where_numpys_random_numbers_are_drawn_anew():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b = (fx.grad(lambda x: x * np.random.normal())(1.0) for _ in range(2))
        fx.jit(lambda x: x + np.random.default_rng(0).normal())(0.0)
    assert a != b
