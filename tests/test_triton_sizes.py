"""Sizes that are known only when the code runs, through Triton's interpreter: one program is right for every size, 0 and 1 among them."""

import copy
import re

import numpy as np
import oracles
import pytest
import samples
from test_dynamic_cpp import four_calls, layer, step
from test_dynamic_data import LOSSES, SELECTED
from test_dynamic_programs import run
from test_dynamic_rows import check
from test_found_sizes import PROGRAMS, WRITES, program, writing
from test_found_sizes import check as check_found
from test_run_time_sizes import all_together, check_all, compiled, softmax

import functx as fx
import functx.numpy as fnp
from functx.backends.triton import launches
from functx.errors import BackendError
from functx.shapes import Dim

pytest.importorskip("torch")
pytest.importorskip("triton")

RNG = np.random.default_rng(0)
n, m = Dim("n"), Dim("m")


def same(g, f, *args, rtol=1e-9, atol=1e-11, what=""):
    """Results and changes to arguments are the plain function's."""
    mine, plain = copy.deepcopy(args), copy.deepcopy(args)
    oracles.assert_same(fx.tree.leaves((g(*mine), mine)), fx.tree.leaves((f(*plain), plain)), rtol=rtol, atol=atol, what=what)


# --- calls --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [layer, step])
def test_four_calls(f):
    four_calls(f, "triton", rtol=1e-8)


def test_a_training_step_at_any_batch_size():
    def train(w, v, x, y):
        value, slopes = fx.value_and_grad(lambda w, v: ((np.tanh(x @ w) @ v - y) ** 2).mean(), (0, 1))(w, v)
        w -= 0.1 * slopes[0]
        v -= 0.1 * slopes[1]
        return value

    w, v = RNG.standard_normal((6, 9)), RNG.standard_normal(9)
    jitted = fx.jit(train, backend="triton")
    for size in (16, 20, 3, 33, 1, 2, 300):
        same(jitted, fx.jit(train, backend="reference", dynamic=False), w, v, RNG.standard_normal((size, 6)), RNG.standard_normal(size))
    assert jitted.cache_info().compilations <= 3  # a single example broadcasts


def smoothed(u, v):
    u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
    v *= u[::-1]
    return u.sum(), v[1:]


def centred(x):
    y = np.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True), (x - x.mean(0)) / (1 + x.std(0))


def test_updates_in_place_and_softmax():
    stencil, normalized = fx.jit(smoothed, backend="triton"), fx.jit(centred, backend="triton")
    for size in (7, 11, 3, 2, 40, 3000, 5, 9000):  # rows of 9000 elements are not held in registers
        same(stencil, smoothed, RNG.standard_normal(size), RNG.standard_normal(size))
        same(normalized, centred, RNG.standard_normal((size % 7 + 2, size)))
    assert stencil.cache_info().compilations <= 3 and "updates x0" in stencil.code(np.ones(9), np.ones(9))


def test_rows_are_held_in_registers_where_they_fit():
    executable = compiled(softmax, [(n, m)], "triton")
    assert "if dim_m <= 8192:" in executable.source and executable.source.count("tl.load") == 4  # one, and three of a long row
    for shape in [(3, 5), (2, 9000), (1, 8192), (200, 1), (2, 8193), (0, 4)]:
        x = RNG.standard_normal(shape)
        np.testing.assert_allclose(executable([x])[0], softmax(x), rtol=1e-12)


def reduced(axis):
    def f(x):
        places = (x.argmax(axis), x.argmin(axis)) if isinstance(axis, int) else ()
        return (x.sum(axis), x.max(axis), x.min(axis), x.prod(axis), (x * x).mean(axis), x.any(axis), *places)

    return f


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_reductions(axis, dtype, request):
    """Rows, columns, and what is cut into pieces; places too."""
    f = reduced(axis)
    jitted = fx.jit(f, backend="triton", dynamic=True)
    shapes = [(3, 5, 4), (2, 5000, 2) if axis == 1 else (5000, 2, 2)]
    more = [(7, 33, 2), (1, 2, 1), (2, 3000, 2), (13, 3, 5)] if request.config.getoption("--long") or dtype == "float64" else []
    for shape in shapes + more:
        same(jitted, f, np.rint(RNG.standard_normal(shape) * 3).astype(dtype), what=f"{shape}")


@pytest.mark.parametrize("count", [0, 1, 15, 2048, 4097, 100_000, 10**9])
@pytest.mark.parametrize("block, across, programs", [(2048, 1, 1), (16, 64, 3), (64, 32, 0)])
def test_pieces_cover_a_reduction(count, block, across, programs):
    length = launches.length_of(count, block, across, programs)
    pieces = max(1, -(-count // length))
    assert length % block == 0 and pieces * length >= count and pieces <= launches.MAX_PIECES
    assert pieces <= -(-4 * launches.FEW // max(programs, 1))
    chosen = launches.fit(count, 2048)
    rows = launches.together(chosen)
    assert rows == 1 or launches.length_of(count, chosen, rows, programs) >= count


# --- every size ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def together():
    return all_together("triton")


def pytest_generate_tests(metafunc):
    if "a" in metafunc.fixturenames:
        large = [(200, 64), (4000, 7)] if metafunc.config.getoption("--long") else []
        metafunc.parametrize("a, b", [(5, 3), (0, 2), (1, 1), (3, 0), (7, 1), *large])


def test_every_size_gives_what_numpy_gives(together, a, b):
    check_all(*together, a, b)


def test_the_text_has_sizes_as_arguments():
    text = compiled(lambda x: np.tanh(x.T) + x.sum(), [(n, m)], "triton").source
    assert "dim_n = sizes[0]" in text and "dim_m = sizes[1]" in text and "block = fit(" in text
    assert re.search(r"def \w+\(.*dim_n.*index: tl.constexpr", text)
    assert re.search(r"tl.int64 if is_wide\(\(?dim_m \* dim_n", text)
    assert launches.is_wide(2**31) and not launches.is_wide(5, 2**30)


def test_indices_are_checked_against_the_size_of_the_call():
    executable = compiled(lambda x, i: x[i.astype(np.int64)], [(n,), (m,)], "triton")
    x = np.arange(4.0)
    np.testing.assert_array_equal(executable([x, np.array([3.0, -4.0])])[0], [3.0, 0.0])
    np.testing.assert_array_equal(executable([x[:0], x[:0]])[0], [])
    for size, index in ((4, 4), (4, -5), (0, 0), (1, 1)):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds for axis 0 with size {size}"):
            executable([x[:size], np.array([0.0, index][-1 if size == 0 else 0 :])])


@pytest.mark.parametrize("size", [0, 1, 4])
def test_writes_at_indices_of_what_may_be_empty(size):
    def f(x, i, v):
        y = x.copy()
        y[i] = v
        np.add.at(x, i, v)
        return y, x.take(i, mode="clip") if len(x) else v

    jitted = fx.jit(f, backend="triton", dynamic=True)
    for count in (0, 3):
        i, v = np.arange(count) % max(size, 1), RNG.standard_normal(count)
        if count and not size:
            with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
                jitted(np.zeros(0), i, v)
        else:
            same(jitted, f, RNG.standard_normal(size), i, v)


def test_the_place_of_the_largest_of_nothing_is_an_error():
    for name in ("argmax", "argmin"):
        for dtype in ("float32", "float64", "uint16", "uint64", "bool", "complex64"):
            f = fx.jit(lambda x, name=name: getattr(np, name)(x, 0), backend="triton", dynamic=True)
            same(f, lambda x, name=name: getattr(np, name)(x, 0), np.rint(RNG.standard_normal((5, 3)) * 2).astype(dtype))
            with pytest.raises(ValueError, match=f"attempt to get {name} of an empty sequence"):
                f(np.zeros((0, 3), dtype))


def test_loops_over_sizes():
    def f(x):
        carry, products = fx.scan(lambda c, row: (c + row.sum(), c * row), np.float64(1), x)
        doubled = fx.while_loop(lambda s: s[0] < s[1].shape[0], lambda s: (s[0] + 1, s[1] * 2), (0, x[:, 0]))[1]
        return carry, products, doubled, fx.cond(carry > 0, lambda v: v[::-1] * 2, lambda v: v + 1, x)

    jitted = fx.jit(f, backend="triton", dynamic=True)
    for a, b in [(3, 4), (5, 1), (2, 7)]:
        same(jitted, fx.jit(f, backend="reference", dynamic=False), RNG.standard_normal((a, b)))


# --- sizes that data decides --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SELECTED)
def test_true_sizes(case, request):
    f, make = SELECTED[case]
    g = fx.jit(f, backend="triton")
    for size in (5, 8, 13, 2, 1, 0, 30, 7) if request.config.getoption("--long") else (5, 8, 1, 0):
        for sign in (1, -1):
            oracles.assert_agrees(f, sign * make(size), transform=lambda _: g, rtol=1e-12, what=f"n = {size}")
    assert g.cache_info().traces <= 4


@pytest.mark.parametrize("case", LOSSES)
def test_derivatives_of_what_data_selects(case, request):
    f, make = LOSSES[case]
    transforms = [fx.grad, lambda f: lambda x: fx.jvp(f, (x,), (np.cos(x),)), lambda f: fx.grad(lambda x: (fx.grad(f)(x) ** 2).sum())]
    for transform in transforms if request.config.getoption("--long") else transforms[:1]:
        plain, g = transform(f), fx.jit(transform(f), backend="triton")
        for size in (5, 8, 13, 2, 1):
            oracles.assert_same(g(make(size)), plain(make(size)), rtol=1e-10, atol=1e-12)


def test_a_size_that_a_step_of_a_loop_finds():
    def f(x):
        return fx.scan(lambda c, row: (c + np.sort(row[row > 0]).sum(), row[row > 0].shape[0]), 0.0, x)

    jitted = fx.jit(f, backend="triton")
    for a, b in [(3, 5), (4, 6), (2, 9)]:
        same(jitted, fx.jit(f, backend="reference", dynamic=False), RNG.standard_normal((a, b)))


def test_promises_and_counts_are_checked():
    def f(x, counts):
        y = x[x > 0]
        fx.check(y.shape[0] <= 3)
        return np.repeat(x, counts) + y.sum()

    jitted = fx.jit(f, backend="triton")
    x, counts = np.array([1.0, -1.0, 2.0, -1.0]), np.array([2, 0, 1, 3])
    same(jitted, lambda x, counts: np.repeat(x, counts) + x[x > 0].sum(), x, counts)
    with pytest.raises(fx.errors.DynamicShapeError, match="it does not hold that"):
        jitted(np.ones(4), counts)
    with pytest.raises(ValueError, match="repeats may not contain negative values"):
        jitted(x, counts - 1)
    same(jitted, lambda x, counts: np.repeat(x, counts) + x[x > 0].sum(), x, counts)


def test_the_derivative_of_a_loop_keeps_as_much_as_it_has_steps():
    def f(x, most):
        return fx.while_loop(lambda s: np.sum(s) < most, lambda s: s * s * 1.5, x).sum()

    gradient = fx.grad(f)
    jitted = fx.jit(gradient, backend="triton")
    for size in (1, 2, 3, 5):
        for most in (0.5, 3.0, 40.0, 1e9):
            same(jitted, gradient, np.full(size, 1.5), most)


def test_ordinary_code_with_sizes_that_data_decides(request):
    for make, texts in ((program, PROGRAMS), (writing, WRITES)):
        for text in texts if request.config.getoption("--long") else texts[::8]:
            check_found(make, text, "triton", True)


# --- many programs ------------------------------------------------------------------------------------------------------------------------


def test_random_programs_at_any_sizes(request):
    for seed in range(20_000, 20_000 + (100 if request.config.getoption("--long") else 3)):
        run(seed, [None, True][seed % 2], "triton")


@pytest.mark.parametrize("part", range(4))
def test_sample_rows(part, request):
    """Every row in the long mode, and gradients."""
    long = request.config.getoption("--long")
    for row in samples.SAMPLES[part::4] if long else samples.SAMPLES[7 * part :: 61]:

        def loss(*args, row=row):
            out = row.f(fnp, *args)
            return (out * out).sum() if np.ndim(out) else out * out

        floats = [i for i, a in enumerate(row.args) if a.dtype == np.float64]
        try:
            check(lambda *args, row=row: row.f(fnp, *args), row, max(row.rtol, 1e-9), 1e-10, "triton")
            if row.smooth and long:
                check(fx.grad(loss, floats), row, max(row.rtol, 1e-7), 1e-9, "triton")
        except (AssertionError, BackendError) as error:
            if "no lowering of" not in str(error):
                raise
