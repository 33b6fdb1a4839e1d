"""Sorting, searching and order statistics beyond the sample rows: NaN, ties, complex numbers, in-place sorts, derivatives, counting."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sample import COMPLEX, DTYPES, data

import functx as fx
import functx.numpy as fnp

X = data((4, 5), 3, -1.5, 1.7)
FEW = st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0, np.nan, np.inf, -np.inf])  # ties and special values are likely
ARRAYS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5), elements=FEW)


@given(ARRAYS, st.data())
def test_sorts(x, draw):
    axis = draw.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    oracles.assert_agrees(lambda x: (np.sort(x, axis), np.argsort(x, axis, stable=True)), x)

    def in_place(x):
        if axis is not None:
            x.sort(axis)
            x[..., ::-1].sort(axis)

    oracles.assert_agrees(in_place, x)


@given(ARRAYS, hnp.arrays(np.float64, (6,), elements=FEW), st.sampled_from(["left", "right"]))
def test_searches(x, v, side):
    edges = np.sort(x, axis=None)
    oracles.assert_agrees(lambda a, v: np.searchsorted(a, v, side), edges, v)
    oracles.assert_agrees(lambda a, v: np.searchsorted(a, v[0], side), edges, v)
    known = np.unique(edges[np.isfinite(edges)])
    for bins in (known, known[::-1]):
        if len(bins):
            oracles.assert_agrees(lambda v, bins=bins: np.digitize(v, bins.copy(), right=side == "left"), v)
            oracles.assert_agrees(lambda v, bins: np.digitize(v, bins, right=side == "left"), v, bins)
    oracles.assert_agrees(lambda x, v: (np.isin(v, x), np.isin(x, v, invert=True)), x, v)


@given(ARRAYS, st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_quantiles(x, q):
    if 0 not in x.shape:
        f = lambda x: (np.median(x, -1), np.quantile(x, q, axis=0), np.percentile(x, 100 * q[0]))  # noqa: E731
        oracles.assert_agrees(f, x, rtol=1e-12)
        oracles.assert_agrees(lambda x, q: np.quantile(x, q, axis=-1), x, np.array(q), rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_of_every_dtype(dtype):
    """Sorting is stable, and lexicographic for complex numbers."""
    x = np.array([[2, 1, 1, 0, 2], [0, 0, 1, 1, 0]])
    x = (x + 1j * x[:, ::-1]).astype(dtype) if dtype in COMPLEX else x.astype(np.dtype(dtype))
    oracles.assert_agrees(lambda x: (np.sort(x), np.argsort(x, kind="stable"), np.lexsort((x[0], x[1]))), x)


def test_keys_of_different_dtypes():
    keys = np.array([2, 1, 2, 1]), np.array([True, False, False, True]), np.array([0.5, 0.5, 0.5, 0.25])
    for order in ((0, 1, 2), (2, 1, 0), (1, 0)):
        oracles.assert_agrees(lambda *keys, o=order: np.lexsort(tuple(keys[i] for i in o)), *keys)


def test_a_partition_has_its_elements_in_place():
    for kth in (0, -1, 2, [1, 3]):
        got = oracles.reference_jit(lambda x, k=kth: (np.partition(x, k, axis=0), np.argpartition(x, k)))(X)
        np.testing.assert_array_equal(got[0][kth], np.sort(X, 0)[kth])
        np.testing.assert_array_equal(np.take_along_axis(X, got[1], 1)[:, kth], np.sort(X)[:, kth])


def test_sorting_read_only_memory_and_scalars_raises():
    oracles.assert_agrees(lambda x: np.broadcast_to(x, (2, 4, 5)).sort(), X)
    oracles.assert_agrees(lambda x: x[0, 0].sort(), X)
    oracles.assert_agrees(lambda x: x.sort(order="f"), X)


# --- derivatives --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sort(x)[:, 1:3],
        lambda x: np.median(x, axis=0),
        lambda x: np.quantile(x, 0.3, method="weibull"),
        lambda x: np.partition(x, 2)[:, 2],
        lambda x: np.sort(x, axis=None)[np.searchsorted(np.sort(x, axis=None), 0.1)],
        lambda x: x[np.lexsort((x[:, 0], np.round(x[:, 1])))] * x,
    ],
)
def test_derivatives_follow_the_elements(f):
    t = data(X.shape, 1, -1, 1)
    _, tangent = fx.jvp(f, (X,), (t,))
    np.testing.assert_allclose(tangent, oracles.directional(f, (X,), (t,), step=1e-5), rtol=1e-6, atol=1e-8)
    out, pull = fx.vjp(f, X)
    ct = np.asarray(out) * 2
    np.testing.assert_allclose(np.vdot(pull(ct)[0], t), np.vdot(ct, tangent), rtol=1e-10)


def test_the_derivative_of_a_quantile_in_q_is_the_gap():
    x = np.array([3.0, 1.0, 2.0, 5.0])
    for transform in (lambda f: f, oracles.reference_jit):
        np.testing.assert_allclose(transform(fx.grad(lambda q: np.quantile(fnp.asarray(x), q)))(0.9), 3 * 2.0)
    with pytest.raises(fx.errors.UnsupportedError, match="weibull"):
        fx.grad(lambda q: np.quantile(fnp.asarray(x), q, method="weibull"))(0.9)


def test_sorting_by_a_traced_key_batches_over_every_axis():
    f = lambda x, i: (np.sort(x, 0), np.take_along_axis(x, i[:, None], 1), np.searchsorted(np.sort(x[0]), x[1]))  # noqa: E731
    batch, index = np.stack([X, X[::-1], -X], 1), np.array([[0, 1, 2, 3]] * 3)
    for axes in ((1, 0), (1, None)):
        args = batch, index[0] if axes[1] is None else index
        got, expected = fx.vmap(f, in_axes=axes)(*args), oracles.loop(f, args, axes)
        oracles.assert_same(got, expected)


# --- counting -----------------------------------------------------------------------------------------------------------------------------


@given(hnp.arrays(np.int64, st.integers(0, 8), elements=st.integers(0, 5)), st.integers(6, 9))
def test_bincount(x, length):
    oracles.assert_agrees(lambda x: fnp.bincount(x, length=length), x)
    oracles.assert_same(fnp.bincount(x, length=length), np.bincount(x, minlength=length))
    weights = np.arange(len(x)) / 4
    expected = np.bincount(x, weights, length)
    oracles.assert_same(oracles.reference_jit(lambda x, w: fnp.bincount(x, w, length=length))(x, weights), expected)
    np.testing.assert_array_equal(fx.grad(lambda w: (fnp.bincount(x, w) * np.arange(x.max(initial=-1) + 1.0)).sum())(weights), x)


def test_bincount_refuses_what_does_not_fit():
    f = oracles.reference_jit(lambda x: fnp.bincount(x, length=3))
    for bad in (np.array([0, 3]), np.array([-1, 0])):
        with pytest.raises(IndexError):
            f(bad)
    with pytest.raises(fx.errors.ConcretizationError, match="length=n"):
        oracles.reference_jit(lambda x: np.bincount(x))(np.array([0, 1]))
    with pytest.raises(IndexError):
        fnp.bincount(np.array([0, 3]), length=3)


@pytest.mark.parametrize("options", [{}, {"range": (-1, 1)}, {"range": (0.0, 0.5), "density": True}, {"bins": [-1, 0, 0.25, 2]}])
def test_histograms(options):
    oracles.assert_agrees(lambda x: np.histogram(x, **{"bins": 4, **options}), X, rtol=1e-13)
    oracles.assert_agrees(lambda x, w: np.histogram(x, **{"bins": 4, **options}, weights=w), X, X * X, rtol=1e-13)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=5), elements=FEW), st.booleans())
def test_unique_with_known_and_unknown_values(x, equal_nan):
    flags = {"return_index": True, "return_inverse": True, "return_counts": True}
    values, index, inverse, counts = np.unique(x, **flags, equal_nan=equal_nan)
    n = len(values)
    got = oracles.reference_jit(lambda x: fnp.unique(x, **flags, equal_nan=equal_nan, size=n + 2, fill_value=7))(x)
    oracles.assert_same(got[0], np.append(values, [7, 7]))
    oracles.assert_same((got[1][:n], got[2], got[3]), (index, inverse, np.append(counts, [0, 0])))
    oracles.assert_same(got, fnp.unique(x, **flags, equal_nan=equal_nan, size=n + 2, fill_value=7))
    assert fx.jvp(lambda x: np.unique(x, equal_nan=equal_nan), (x,), (x,))[0].shape == (n,)


@pytest.mark.parametrize("shape", [(4, 1), (1, 5, 1), (3, 4, 1), (2, 3, 1, 1), (0, 1), (5, 1, 2)])
def test_compiled_sorts_along_an_axis_before_others_of_one_element(shape):
    """Rows are what is left of the other axes, wherever these are."""
    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(float)
    for axis in range(x.ndim):
        for f in (np.sort, np.argsort):
            got = fx.jit(lambda x, f=f, axis=axis: f(x, axis=axis), backend="cpp")(x)
            np.testing.assert_array_equal(got, f(x, axis=axis))
