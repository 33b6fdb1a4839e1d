"""functx.lax and functx.scipy.special: exact values where a formula would divide by zero, ties, orders, call-backs and errors."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import oracles
import pytest
import scipy.special

import functx as fx
import functx.scipy.special
from functx import errors, lax
from functx.primitive import PRIMITIVES

bfloat16 = np.dtype(ml_dtypes.bfloat16)
NAN, INF = np.nan, np.inf
EVERY_DTYPE = [*"?bhilBHILefdFD", bfloat16]


def of_every_kind(dtype, size=40, seed=0):
    """Numbers with repetitions; of floats NaN, infinities and both zeros among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 7, size)
    if np.dtype(dtype).kind not in "efdFDV":
        return values.astype(dtype)
    special = np.array([NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5])
    out = special[values].astype(dtype)
    return out + (1j * special[rng.integers(0, 7, size)]).astype(dtype) if np.dtype(dtype).kind == "c" else out


def comparable(x):
    """The same numbers in a dtype whose NaN NumPy's assertions and sorts know."""
    return x.astype(np.float32) if x.dtype == bfloat16 else x


# --- products ---------------------------------------------------------------------------------------------------------------------------


def prod(x):
    """np.prod of a traced vector."""
    b = fx.trace.current_trace()
    return b.tracer(b.emit.reduce_prod(x.atom, axes=(0,)))


@pytest.mark.parametrize(
    ("x", "gradient", "hessian"),
    [
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
        ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [[0, 3, 0], [3, 0, 0], [0, 0, 0]]),
        ([2.0, 5.0, 3.0], [15.0, 6.0, 10.0], [[0, 3, 5], [3, 0, 2], [5, 2, 0]]),
    ],
)
def test_products_with_zeros(x, gradient, hessian):
    x = np.array(x)
    assert fx.grad(prod)(x).tolist() == gradient
    rows = [fx.jvp(fx.grad(prod), (x,), (e,))[1] for e in np.eye(3)]
    assert np.array_equal(rows, hessian)
    assert np.array_equal(oracles.reference_jit(fx.grad(prod))(x), gradient)


def test_running_products_with_zeros():
    total = lambda x: lax.cumprod(x).sum()  # noqa: E731
    assert fx.grad(total)(np.array([1.0, 0.0, 2.0])).tolist() == [1, 3, 0]
    assert fx.grad(lambda x: lax.cumprod(x, reverse=True).sum())(np.array([2.0, 0.0, 3.0])).tolist() == [0, 9, 1]
    hessian = [fx.jvp(fx.grad(total), (np.zeros(3),), (e,))[1] for e in np.eye(3)]
    assert np.array_equal(hessian, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_scattered_products_with_zeros_and_repeated_places():
    def f(x, u):
        trace = fx.trace.current_trace()
        index = trace.handle(np.array([0, -1, 0, 2])).atom
        return trace.tracer(trace.emit.scatter_mul(x.atom, u.atom, index, axes=(0,))).sum()

    x, u = np.array([2.0, 7.0, 3.0]), np.array([0.0, 5.0, 4.0, 0.0])
    by_x, by_u = fx.grad(f, (0, 1))(x, u)
    assert by_x.tolist() == [0, 1, 0] and by_u.tolist() == [8, 0, 0, 15]
    _, second = fx.jvp(lambda u: fx.grad(f, 1)(x, u), (u,), (np.array([0.0, 0.0, 1.0, 0.0]),))
    assert second.tolist() == [2, 0, 0, 0]


# --- extrema ----------------------------------------------------------------------------------------------------------------------------


def test_equal_extrema_share():
    last = lambda f: lambda x: f(x)[-1]  # noqa: E731
    assert fx.grad(last(lax.cummax))(np.array([1.0, 3.0, 3.0, 2.0, 3.0])).tolist() == pytest.approx([0, 1 / 3, 1 / 3, 0, 1 / 3])
    assert fx.grad(last(lax.cummin))(np.array([1.0, 1.0, 2.0])).tolist() == [0.5, 0.5, 0]
    tangents = fx.jvp(lax.cummax, (np.array([1.0, 1.0, 2.0]),), (np.array([1.0, 3.0, 10.0]),))[1]
    assert tangents.tolist() == [1, 2, 10]


def test_scattered_extrema_share_with_the_old_element():
    def f(x, u, name):
        trace = fx.trace.current_trace()
        emit = getattr(trace.emit, name)
        return trace.tracer(emit(x.atom, trace.handle(u).atom, trace.handle(np.array([0, 0, 1])).atom, axes=(0,))).sum()

    x, u = np.array([4.0, 1.0, 9.0]), np.array([4.0, 4.0, 2.0])
    by_x, by_u = fx.grad(lambda x, u: f(x, u, "scatter_max"), (0, 1))(x, u)
    np.testing.assert_allclose(by_x, [1 / 3, 0, 1])
    np.testing.assert_allclose(by_u, [1 / 3, 1 / 3, 1])
    assert fx.grad(lambda x: f(x, u, "scatter_min"))(x).tolist() == pytest.approx([1 / 3, 1, 1])


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_nan_stays_and_does_no_harm_before_it(name):
    x = np.array([1.0, 3.0, NAN, 5.0])
    f = getattr(lax, name)
    oracles.assert_same(f(x), getattr(np, "maximum" if name == "cummax" else "minimum").accumulate(x))
    gradient = fx.grad(lambda x: f(x)[1])(x)
    assert gradient.tolist() == ([0, 1, 0, 0] if name == "cummax" else [1, 0, 0, 0])


def test_clamp_is_flat_at_a_number_and_shares_with_an_array():
    x = np.array([0.0, 0.5, 1.0, 2.0])
    assert fx.grad(lambda x: lax.clamp(0.0, x, 1.0).sum())(x).tolist() == [0, 1, 0, 0]
    assert fx.grad(lambda x: lax.clamp(np.zeros(4), x, np.ones(4)).sum())(x).tolist() == [0.5, 1, 0.5, 0]


def test_cumlogsumexp_does_not_overflow():
    x = np.array([-INF, 1000.0, 1000.0, -1000.0])
    np.testing.assert_allclose(lax.cumlogsumexp(x), [-INF, 1000, 1000 + np.log(2), 1000 + np.log(2)])
    np.testing.assert_allclose(fx.grad(lambda x: lax.cumlogsumexp(x)[-1])(x), [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_running_operations_are_numpys_in_every_dtype(dtype):
    x = of_every_kind(dtype).reshape(4, 10)
    ufuncs = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
    with np.errstate(all="ignore"):
        for (name, ufunc), axis in [(item, axis) for item in ufuncs.items() for axis in (0, 1)]:
            for reverse in (False, True):
                got = getattr(lax, name)(x, axis - 2, reverse=reverse)
                turned = np.flip(x, axis) if reverse else x
                expected = ufunc.accumulate(turned, axis, x.dtype)
                assert got.dtype == x.dtype and got.flags.c_contiguous
                np.testing.assert_array_equal(comparable(got), comparable(np.flip(expected, axis) if reverse else expected))


@pytest.mark.parametrize("dtype", [np.float32, complex, bfloat16])
@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence_is_a_loop(dtype, reverse):
    rng = np.random.default_rng(0)
    a, c = (rng.uniform(-1, 1, (2, 5)).astype(dtype) for _ in range(2))
    h = PRIMITIVES["linear_recurrence"].impl(a, c, axis=1, reverse=reverse)
    steps = range(5)[:: -1 if reverse else 1]
    expected, last = np.zeros_like(c), np.zeros(2, dtype)
    for k in steps:
        expected[:, k] = last = a[:, k] * last + c[:, k]
    np.testing.assert_array_equal(h, expected)


# --- orders -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_sort_is_numpys_stable_sort(dtype):
    x = of_every_kind(dtype)
    wide = comparable(x)  # NumPy's own sort of bfloat16 is wrong where there is a NaN
    order = np.argsort(wide, kind="stable")
    np.testing.assert_array_equal(comparable(lax.sort(x)), wide[order])
    y, positions = lax.sort((x, np.arange(x.size)))
    assert y.dtype == x.dtype and np.array_equal(positions, order)
    np.testing.assert_array_equal(comparable(lax.sort(x.reshape(8, 5), 0)), np.sort(wide.reshape(8, 5), 0))


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_several_keys_are_lexsort(keys):
    operands = [of_every_kind(d, 60, i) for i, d in enumerate("ifB")]
    order = np.lexsort(operands[:keys][::-1])
    *got, positions = lax.sort((*operands, np.arange(60)), num_keys=keys)
    assert np.array_equal(positions, order)
    for g, x in zip(got, operands, strict=True):
        np.testing.assert_array_equal(g, x[order])
    compiled = oracles.reference_jit(lambda *xs: lax.sort(xs, num_keys=keys))(*operands)
    oracles.assert_same(compiled, tuple(got))


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_top_k_is_stable_and_takes_nan_for_the_greatest(dtype):
    x = of_every_kind(dtype).reshape(4, 10)
    values, positions = lax.top_k(x, 4)
    ranks = np.unique(comparable(x), return_inverse=True)[1].reshape(x.shape)  # NaN is one value, the last
    expected = [sorted(range(10), key=lambda i, row=row: -row[i])[:4] for row in ranks]
    assert positions.dtype == np.int64 and positions.tolist() == expected
    np.testing.assert_array_equal(comparable(values), np.take_along_axis(comparable(x), positions, -1))


def test_top_k_by_hand():
    values, positions = lax.top_k(np.array([2.0, NAN, 3.0, 3.0, 2.0]), 4)
    assert positions.tolist() == [1, 2, 3, 0] and np.isnan(values[0]) and values[1:].tolist() == [3, 3, 2]
    assert fx.grad(lambda x: lax.top_k(x, 2)[0] @ np.array([1.0, 10.0]))(np.array([5.0, 7.0, 6.0])).tolist() == [0, 1, 10]
    with pytest.raises(errors.FunctxError, match="there are no 6 elements"):
        lax.top_k(np.zeros(5), 6)


def test_the_derivative_follows_the_elements():
    x, y = np.array([3.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0])
    w = np.array([1.0, 2.0, 4.0])
    assert fx.grad(lambda x, y: lax.sort((x, y))[1] @ w, (0, 1))(x, y)[1].tolist() == [4, 1, 2]
    assert fx.grad(lambda x: lax.sort(x) @ w)(x).tolist() == [4, 1, 2]


# --- slices whose place is data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"), [(0, [0, 1, 2]), (3, [2, 3, 4]), (99, [2, 3, 4]), (-1, [2, 3, 4]), (-4, [1, 2, 3]), (-99, [0, 1, 2])]
)
def test_dynamic_slices_are_moved_to_where_they_fit(start, expected):
    x = np.arange(5.0)
    assert lax.dynamic_slice(x, (start,), (3,)).tolist() == expected
    assert oracles.reference_jit(lambda i: lax.dynamic_slice(x, (i,), (3,)))(np.int32(start)).tolist() == expected
    filled = lax.dynamic_update_slice(x, np.full(3, -1), (start,))
    assert filled.dtype == float and np.flatnonzero(filled == -1).tolist() == expected
    lanes = fx.vmap(lambda i: lax.dynamic_update_slice(x, np.full(3, -1.0), (i,)))(np.array([start, 1]))
    assert np.array_equal(lanes[0], filled)


def test_dynamic_slices_say_what_does_not_fit():
    with pytest.raises(errors.FunctxError, match="does not fit"):
        lax.dynamic_slice(np.zeros(3), (0,), (4,))
    with pytest.raises(errors.FunctxError, match="one per axis"):
        lax.dynamic_slice(np.zeros((3, 3)), (0,), (1, 1))
    with pytest.raises(TypeError, match="begins at an integer"):
        lax.dynamic_slice(np.zeros(3), (0.5,), (1,))


# --- calling back -----------------------------------------------------------------------------------------------------------------------

BACKENDS = ["reference", "cpp"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_callbacks_in_compiled_code(backend):
    seen = []

    def host(x, pair):
        seen.append((x.shape, x.flags.writeable))
        return {"sum": x.sum() + pair[0], "sorted": np.sort(x)}

    def f(x):
        types = {"sum": fx.ShapeDtypeStruct((), float), "sorted": x}
        out = lax.pure_callback(host, types, x, (x[0], 2.0))
        return out["sorted"] * out["sum"]

    x = np.array([3.0, 1.0, 2.0])
    expected = np.sort(x) * (x.sum() + x[0])
    np.testing.assert_array_equal(f(x), expected)
    compiled = fx.jit(f, backend=backend)
    np.testing.assert_array_equal(compiled(x), expected)
    np.testing.assert_array_equal(compiled(x + 1), f(x + 1))
    assert {s for s in seen} == {((3,), False)}


@pytest.mark.parametrize(("method", "calls"), [("sequential", [(3,)] * 4), ("expand_dims", [(4, 3)])])
def test_callbacks_over_lanes(method, calls):
    seen = []

    def host(x, scale):
        seen.append(np.shape(x))
        return np.cumsum(x, -1) * scale[..., None]

    f = lambda x, s: lax.pure_callback(host, x, x, s, vmap_method=method)  # noqa: E731
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(fx.vmap(f, in_axes=(0, None))(x, 2.0), np.cumsum(x, 1) * 2)
    assert seen == calls
    nested = fx.vmap(fx.vmap(f))(np.stack([x, x + 1]), np.ones((2, 4)))
    np.testing.assert_array_equal(nested, np.cumsum(np.stack([x, x + 1]), -1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", [KeyError("mine"), IndexError("mine"), OverflowError("mine"), StopIteration("mine")])
def test_what_a_callback_raises_comes_out(backend, error):
    def host(x):
        raise error

    f = lambda x: lax.pure_callback(host, x, x) * 2  # noqa: E731
    for g in (f, fx.jit(f, backend=backend), fx.vmap(f)):
        with pytest.raises(type(error), match="mine") as raised:
            g(np.ones(3))
        assert raised.value is error


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (lambda x: x[:2], r"shape \(2,\), dtype float64, where one of shape \(3,\), dtype float64"),
        (lambda x: x.astype(np.float32), "dtype float32"),
        (lambda x: (x, x), "was declared"),
    ],
)
def test_callbacks_must_return_what_they_declare(returns, message):
    def host(x):
        return returns(x)

    for transform in (lambda f: f, oracles.reference_jit):
        with pytest.raises(errors.CallbackError, match=message) as raised:
            transform(lambda x: lax.pure_callback(host, x, x))(np.ones(3))
        assert "host" in str(raised.value)


def test_callbacks_have_no_derivative_of_their_own():
    f = lambda x: lax.pure_callback(np.sin, x, x)  # noqa: E731
    for derivative in (fx.grad(lambda x: f(x).sum()), lambda x: fx.jvp(f, (x,), (x,))):
        with pytest.raises(errors.UnsupportedError, match="functx.custom_jvp or functx.custom_vjp"):
            derivative(np.ones(2))
    assert fx.grad(lambda x: (x * fx.stop_gradient(f(fx.stop_gradient(x)))).sum())(np.ones(1)) == np.sin(1.0)

    g = fx.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (g(*primals), np.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(fx.grad(lambda x: g(x).sum())(np.ones(2)), np.cos(np.ones(2)))


def test_a_retraced_callback_has_the_same_text():
    def double(x):
        return 2 * x

    def text(host, result):
        return fx.pretty.format_graph(fx.make_ir(lambda x: lax.pure_callback(host, result, x))(np.ones(2)), sources=False)

    assert text(double, np.ones(2)) == text(double, np.ones(2))
    assert len({text(double, np.ones(2)), text(double, [np.ones(2)]), text(lambda x: 2 * x, np.ones(2))}) == 3
    with pytest.raises(ValueError, match="vmap_method"):
        lax.pure_callback(double, np.ones(1), np.ones(1), vmap_method="loop")


# --- special functions --------------------------------------------------------------------------------------------------------------------


def test_plain_scipy_traces():
    x = np.linspace(0.1, 0.9, 5)
    f = lambda x: scipy.special.xlogy(x, x) + scipy.special.erf(x)  # noqa: E731
    np.testing.assert_array_equal(oracles.reference_jit(f)(x), f(x))
    np.testing.assert_allclose(fx.jvp(f, (x,), (np.ones(5),))[1], np.log(x) + 1 + 2 / np.sqrt(np.pi) * np.exp(-x * x))
    with pytest.raises(errors.UnsupportedError, match="jv"):
        oracles.reference_jit(lambda x: scipy.special.jv(1.0, x))(x)


GRID = np.array([NAN, -INF, -2.5, -1.0, -0.0, 0.0, 1e-300, 0.3, 0.5, 0.50001, 1.0, 7.0, 1e5, INF])


@pytest.mark.parametrize("name", sorted(functx.scipy.rules.RULES))
def test_edges_are_scipys(name):
    f = getattr(scipy.special, name)
    grid = np.meshgrid(GRID, GRID) if f.nin == 2 else [GRID]
    plain = oracles.outcome(f, *grid).value
    oracles.assert_same(oracles.reference_jit(getattr(functx.scipy.special, name))(*grid), plain, rtol=1e-13, what=name)


def test_zero_times_a_logarithm():
    special = functx.scipy.special
    assert fx.grad(special.xlogy, (0, 1))(0.0, 0.0) == (-INF, 0)
    assert fx.grad(special.xlogy, (0, 1))(0.0, 2.0) == (np.log(2), 0)
    assert fx.grad(special.xlog1py, 1)(0.0, -1.0) == 0
    assert fx.grad(special.rel_entr, 1)(0.0, 0.0) == 0 and fx.grad(special.kl_div, (0, 1))(2.0, 2.0) == (0, 0)
    assert fx.grad(special.entr)(0.0) == INF


def test_tails_keep_their_digits():
    derivative = fx.grad(functx.scipy.special.log_ndtr)
    assert derivative(-1e4) == pytest.approx(1e4 + 1e-4, rel=1e-12)
    assert fx.grad(functx.scipy.special.ndtr)(-20.0) == pytest.approx(np.exp(-200) / np.sqrt(2 * np.pi), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_short_floats_are_rounded_once(dtype):
    x = np.linspace(0.3, 0.9, 7).astype(dtype)
    for name in ("erf", "erfc", "erf_inv", "lgamma", "digamma"):
        oracles.assert_same(getattr(lax, name)(x), getattr(lax, name)(x.astype(np.float32)).astype(dtype))


def test_special_functions_without_scipy_say_what_to_install():
    script = """
import sys
sys.modules["scipy"] = sys.modules["scipy.special"] = None
import numpy as np, functx as fx, functx.scipy.special
x = np.ones(3)
print(fx.jit(lambda x: fx.nn.gelu(x) + fx.lax.rsqrt(x), backend="reference")(x).shape)
for f in (lambda: fx.lax.erf(x), lambda: fx.jit(fx.lax.erf, backend="reference")(x), lambda: functx.scipy.special.xlogy(x, x)):
    try:
        f()
    except ImportError as error:
        print(type(error).__name__, "pip install functx[scipy]" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(3,)", *["MissingDependencyError True"] * 3]
