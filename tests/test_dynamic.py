"""Symbolic sizes under jit: which calls share a compilation, and that all of them do what the plain function does."""

import numpy as np
import oracles
import pytest
import sample

import functx as fx
import functx.numpy as fnp
from functx.errors import DynamicShapeError


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def conditions(f):
    """What the symbolic entries of a jitted function ask of sizes, the latest last."""
    entries = [e for group in f.half._entries.values() for e in group if e.predicates.sizes is not None]
    return [str(e.predicates.sizes) for e in sorted(entries, key=lambda e: e.used)]


def agree(f, jitted, *args):
    """The jitted function gives what the plain one gives."""
    oracles.assert_agrees(f, *args, transform=lambda _: jitted, rtol=1e-12, what=str([np.shape(a) for a in args]))


def layer(x, w, b):
    h = x @ w + b
    return np.maximum(h, 0) if x.shape[0] > 64 else np.tanh(h)


W, B = sample.data((32, 16)), sample.data((16,), seed=1)


def test_four_calls_and_three_compilations():
    loss = lambda w, b, x: (layer(x, w, b) ** 2).mean()  # noqa: E731
    f, g = jit(layer), jit(fx.value_and_grad(loss, argnums=(0, 1)))
    plain = fx.value_and_grad(loss, argnums=(0, 1))
    for n, traces in ((128, 1), (256, 2), (512, 2), (32, 3), (1, 3), (65, 3), (64, 3), (100, 3), (128, 3), (0, 3)):
        x = sample.data((n, 32))
        np.testing.assert_allclose(f(x, W, B), layer(x, W, B), rtol=1e-12)
        (value, slopes), (expected, other) = g(W, B, x), plain(W, B, x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for a, c in zip(slopes, other, strict=True):
            np.testing.assert_allclose(a, c, rtol=1e-12)
        assert (f.cache_info().traces, g.cache_info().traces) == (traces, traces), n
    assert conditions(f) == conditions(g) == ["n > 64", "n < 65"]


BRANCHES = {
    "==": (lambda x: x if x.shape[0] == 4 else -x, 2),
    "!=": (lambda x: x if x.shape[0] != 4 else -x, 2),
    ">": (lambda x: x if x.shape[0] > 4 else -x, 2),
    ">=": (lambda x: x if x.shape[0] >= 4 else -x, 2),
    "a chain": (lambda x: x if 2 < x.shape[0] <= 5 else -x, 3),
    "%": (lambda x: x.reshape(-1, 2).sum(1) if x.shape[0] % 2 == 0 else x, 2),
    "//": (lambda x: x[: x.shape[0] // 2], 1),
    "min": (lambda x: x[: min(x.shape[0], 4)], 2),
    "max": (lambda x: x * max(x.shape[0], 4), 2),
    "truth": (lambda x: x / x.shape[0] if x.shape[0] else x, 2),
    "size": (lambda x: x if x.size > 4 else -x, 2),
    "len": (lambda x: x if len(x) > 4 else -x, 12),
    "range": (lambda x: sum((x[i] for i in range(x.shape[0])), 0.0), 12),
    "float": (lambda x: x * float(x.shape[0]), 12),
    "in a tuple": (lambda x: x if x.shape == (4,) else -x, 2),
    "squeeze": (lambda x: np.squeeze(x), 2),
    "broadcasting with 4": (lambda x: x * np.ones(4) if x.shape[0] in (1, 4) else x, 3),
    "slices": (lambda x: x[2:5], 4),
    "the last": (lambda x: x[-1] if x.shape[0] else 0.0, 2),
    "split": (lambda x: np.concatenate(np.split(x, 2)[::-1]) if x.shape[0] % 2 == 0 else x, 2),
    "roll": (lambda x: np.roll(x, 3), 4),
    "two symbols": (lambda x: np.outer(x, fnp.arange(x.shape[0] + 1)), 1),
    "a square": (lambda x: x if x.shape[0] ** 2 > 20 else -x, 2),
    "where on a size": (lambda x: np.where(x > 0, x.shape[0], x), 1),
    "pad": (lambda x: np.pad(x, (1, 2)), 1),
    "mean": (lambda x: x.mean() if x.shape[0] else 0.0, 2),
    "diff": (lambda x: np.diff(x), 2),
    "zeros": (lambda x: fnp.zeros(x.shape) + x, 1),
    "stride": (lambda x: x[::3], 1),
    "reverse": (lambda x: x[::-1] - x, 1),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_both_sides_of_a_decision_become_entries(case):
    """Any sizes in any order: as few entries as there are ways through the function, beside the first call's own."""
    f, ways = BRANCHES[case]
    g = jit(f, dynamic=True)
    for n in (7, 4, 0, 1, 9, 3, 2, 12, 5, 6, 8, 11, 10):
        agree(f, g, sample.data((n,)))
    assert g.cache_info().traces <= ways + 1, conditions(g)
    if ways < 12:
        traces = g.cache_info().traces
        for n in (14, 17, 25, 40):
            agree(f, g, sample.data((n,)))
        assert g.cache_info().traces <= traces + 1, conditions(g)


# --- transforms, loops, writes ------------------------------------------------------------------------------------------------------------


def vector(n):
    return (np.random.default_rng(n).standard_normal(n),)


def matrix(n):
    return (np.random.default_rng(n).standard_normal((n, 3)),)


def step(c, v):
    return np.tanh(c * 0.5 + v), c * v


@fx.custom_vjp
def slow_sine(x):
    return np.sin(x)


slow_sine.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x),))


def in_place(x):
    x[1:-1] = 0.5 * (x[:-2] + x[2:])
    x += 1
    x[::2] *= 3
    halves = x[: x.shape[0] // 2 * 2].reshape(2, -1)
    halves[0] -= 1
    return halves, x.sum()


def doubling(x):
    return fx.while_loop(lambda s: s[0] < 5.0, lambda s: (s[0] + 1.0, np.sin(s[1] + x)), (np.float64(0.0), fnp.zeros_like(x)))[1].sum()


PROGRAMS = {
    "grad": (fx.grad(lambda x: (np.sin(x) ** 2).sum()), vector, 2),
    "hessian": (fx.hessian(lambda x: (np.sin(x) ** 2).sum()), vector, 2),
    "jacrev": (fx.jacrev(lambda x: np.cumsum(x) ** 2), vector, 3),
    "jvp": (lambda x: fx.jvp(lambda v: np.sin(v).sum(), (x,), (x,)), vector, 2),
    "vjp": (lambda x: (lambda out, pull: pull(out))(*fx.vjp(np.sin, x)), vector, 2),
    "vmap": (fx.vmap(lambda x: x * x.sum()), matrix, 2),
    "vmap of grad": (fx.vmap(fx.grad(lambda x: (np.sin(x) ** 2).sum())), matrix, 2),
    "nested jit": (lambda x: fx.jit(lambda v: v * 2 if v.shape[0] > 4 else -v)(x), vector, 3),
    "scan": (lambda x: fx.scan(step, np.float64(0.0), x), vector, 2),
    "grad of scan": (fx.grad(lambda x: fx.scan(step, np.float64(0.0), x)[1].sum()), vector, 2),
    "vmap of scan": (fx.vmap(lambda x: fx.scan(step, np.float64(0.0), x)[1]), matrix, 2),
    "fori_loop": (lambda x: fx.fori_loop(0, x.shape[0], lambda i, c: c + x[i], np.float64(0.0)), vector, 2),
    "grad of fori_loop": (fx.grad(lambda x: fx.fori_loop(1, x.shape[0], lambda i, c: np.sin(c + x[i]), np.float64(0.0))), vector, 3),
    "grad of while_loop": (fx.grad(doubling), vector, 2),
    "cond": (fx.grad(lambda x: fx.cond(x.sum() > 0, lambda v: (v * v).sum(), lambda v: np.cumsum(v).sum(), x)), vector, 3),
    "map": (lambda x: fx.map(lambda v: np.sin(v).sum(), x), matrix, 2),
    "checkpoint": (fx.grad(lambda x: fx.checkpoint(lambda v: np.sin(np.sin(v)))(x).sum()), vector, 2),
    "custom rule": (fx.vmap(fx.grad(lambda x: (slow_sine(x) * x).sum())), matrix, 2),
    "random": (lambda x: fx.random.normal(fx.random.key(0), x.shape) + x, vector, 2),
    "softmax": (lambda x: fx.nn.softmax(x @ x.T), matrix, 3),
    "stencil": (lambda x: x[1:-1] * 2 - x[:-2] - x[2:], vector, 4),
    "in place": (in_place, vector, 6),
    "linspace": (lambda x: x + fnp.linspace(0, 1, x.shape[0]), vector, 3),
    "quotients": (lambda x: (x * (1.0 / x.shape[0]) + x / np.sqrt(x.shape[0])) if x.shape[0] else x, vector, 3),
    "returned sizes": (lambda x: (x.shape, x.size, x.shape[0] / 2, x.shape[0] > 4), matrix, 3),
}


COMPILED = ("grad", "vmap of scan", "softmax", "in place", "quotients")  # of which compiled code is looked at without --long


@pytest.mark.parametrize("backend", ["reference", "cpp"])
@pytest.mark.parametrize("case", PROGRAMS)
def test_all_of_functx_at_symbolic_sizes(case, backend, pytestconfig):
    if backend == "cpp" and case not in COMPILED and not pytestconfig.getoption("--long"):
        pytest.skip("takes a compilation per entry")
    f, make, traces = PROGRAMS[case]
    g = fx.jit(f, backend=backend)
    for n in (5, 8, 3, 12, 1, 2, 0, 7):
        oracles.assert_agrees(f, *make(n), transform=lambda _: g, rtol=1e-10, atol=1e-12, what=f"n = {n}")
    assert g.cache_info().traces <= traces, conditions(g)


@pytest.mark.parametrize(
    "f", [lambda x: np.tanh(x) * 2, lambda x: x.mean(), lambda x: np.cumsum(x[x > 0]), lambda x: x if x.shape[0] > 4 else x * x]
)
def test_vjp_of_a_jitted_function(f):
    g = jit(f)
    for n in (5, 8, 3, 12, 1, 2, 9):
        (x,) = vector(n)
        (out, pull), (expected, plain) = fx.vjp(g, x), fx.vjp(f, x)
        np.testing.assert_allclose(out, expected, rtol=1e-12)
        np.testing.assert_allclose(pull(out)[0], plain(out)[0], rtol=1e-12)
    assert g.half._vjps[False].forward.cache_info().traces <= 3


def test_a_training_step_at_200_batch_sizes():
    def train(w, x, y):
        loss, slope = fx.value_and_grad(lambda w: ((np.tanh(x @ w) @ w.T[:, 0] - y) ** 2).mean())(w)
        w -= 0.01 * slope
        return loss

    g, w = jit(train), sample.data((4, 4))
    other = w.copy()
    for n in np.random.default_rng(0).permutation(200) + 1:
        x, y = sample.data((n, 4)), sample.data((n,), 1)
        np.testing.assert_allclose(g(w, x, y), train(other, x, y), rtol=1e-9)
        np.testing.assert_allclose(w, other, rtol=1e-9)
    assert g.cache_info().traces <= 3


def test_arguments_that_share_memory():
    def f(x, y):
        x[1:] += y[:-1]
        return x.sum()

    g = jit(f)
    for n in (4, 6, 8):
        mine, plain = np.arange(3.0 * n), np.arange(3.0 * n)
        np.testing.assert_allclose(g(mine[: 2 * n], mine[n:]), f(plain[: 2 * n], plain[n:]))
        np.testing.assert_array_equal(mine, plain)


def test_arrays_in_any_memory():
    g = jit(lambda x: (x.reshape(-1), x.T, x[::2], x.ravel()))
    for n in (3, 5, 1, 4, 0, 2):
        base = np.arange(2.0 * 3 * max(n, 1)).reshape(-1, 6)[:n]
        for x in (base.copy(), np.asfortranarray(base), base[:, ::2], base[::-1]):
            mine, plain = g(x), (x.reshape(-1), x.T, x[::2], x.ravel())
            for a, b in zip(mine, plain, strict=True):
                np.testing.assert_array_equal(a, b)
                assert np.shares_memory(a, x) == np.shares_memory(b, x), (n, x.strides)


# --- what users declare -------------------------------------------------------------------------------------------------------------------

N, M = fx.Dim("n", min=2, max=8), fx.Dim("m")


def test_declared_sizes():
    f = jit(np.matmul, dynamic_shapes=({0: N, 1: M}, {0: M}), dynamic=False)
    for n, m in ((3, 4), (2, 7), (8, 1)):
        agree(np.matmul, f, sample.data((n, m)), sample.data((m, 5)))
    assert f.cache_info().traces == 1
    f(np.ones((3, 4)), np.ones((4, 6)))  # an axis that is not declared
    assert f.cache_info().traces == 2
    assert str(f.ir(np.ones((3, 4)), np.ones((4, 5)))).startswith("{ lambda a:f64[n,m] b:f64[m,5] .")


def test_containers_of_declared_sizes():
    def f(p, *, scale):
        return p["w"] @ p["b"][0] * scale

    g = jit(f, dynamic_shapes={"p": {"w": {-1: M}, "b": [(M,)]}, "scale": None})
    for m in (3, 5, 9):
        assert g({"w": np.ones((2, m)), "b": [np.ones(m)]}, scale=2.0).tolist() == [2.0 * m] * 2
    assert g.cache_info().traces == 1


DECLARATIONS = {
    "argument 'x', axis 0: the size 9 is above max=8 of Dim n": ({"x": {0: N}}, 9, 4),
    "argument 'x', axis 0: the size 1 is below min=2 of Dim n": ({"x": {0: N}}, 1, 4),
    "argument 'y', axis 0: the size is 5, but Dim m is 4 in argument 'x', axis 0": ({"x": {0: M}, "y": {0: M}}, 4, 5),
    "names 'z', but the arguments are x, y": ({"z": {0: N}}, 3, 3),
    "names axis 1 of argument 'x', which has 1 axes": ({"x": {1: N}}, 3, 3),
    "for argument 'x'": ({"x": N}, 3, 3),
    "has n + 1 for axis 0 of argument 'x'": ({"x": {0: N + 1}}, 3, 3),
    "has 3 entries, but there are 2 positional arguments": ((None, None, None), 3, 3),
}


@pytest.mark.parametrize("text", DECLARATIONS)
def test_sizes_that_do_not_fit_what_was_declared(text):
    declared, n, m = DECLARATIONS[text]
    with pytest.raises(DynamicShapeError) as caught:
        jit(lambda x, y: (x, y), dynamic_shapes=declared)(np.ones(n), np.ones(m))
    assert text in str(caught.value) and "test_dynamic.py" in str(caught.value)


def test_dims():
    for bad in (dict(min=-1), dict(min=3, max=2), dict(max=-1)):
        with pytest.raises(ValueError, match="no size lies between"):
            fx.Dim("n", **bad)
    with pytest.raises(ValueError, match="no identifier"):
        fx.Dim("n + 1")
    assert N > 1 and N < 9 and N + M >= 2 and not N > 8 and N != 1 and N != 9
    assert str(fx.eval_shape(lambda x: np.concatenate([x, x])[1:], fx.ShapeDtypeStruct((N,), float)).shape) == "(Dim('2*n - 1'),)"
    assert "neg" not in str(fx.make_ir(lambda x: x if x.shape[0] > 1 else -x)(fx.ShapeDtypeStruct((N,), float)))
    with pytest.raises(fx.errors.UnsupportedError, match="n == 3 depends on the size"):
        fx.make_ir(lambda x: x if x.shape[0] == 3 else -x)(fx.ShapeDtypeStruct((N,), float))


def test_every_shape_alone():
    f = jit(lambda x: x + 1, dynamic=False)
    for n in range(5):
        f(np.ones(n))
    assert f.cache_info().traces == 5


def test_a_backend_for_numbers_only_gets_no_symbols():
    class Numbers:
        name = "numbers only"

        def compile(self, graph, options):
            assert not graph.symbolic
            return fx.backend.get_backend("reference").compile(graph, options)

    fx.backend.register_backend("numbers only", Numbers)
    f = fx.jit(lambda x: x + 1, backend="numbers only")
    for n in range(5):
        f(np.ones(n))
    assert f.cache_info().traces == 5


# --- what is said of it -------------------------------------------------------------------------------------------------------------------


def test_misses_name_conditions_and_numbers(capfd):
    f = jit(lambda x: x if x.shape[0] > 4 else sum(x[i] for i in range(x.shape[0])))
    with fx.config.options(debug=1):
        for n in (8, 9, 3, 2):
            f(np.ones(n))
    reasons = [miss.reason for miss in fx.explain_misses()[-4:]]
    assert reasons[0] == "it is the first call" and reasons[1] == "argument 'x' is f64[9], before it was f64[8]"
    assert reasons[2].startswith(
        "with n = 3 it does not hold that n > 4, by which the function decided; the size n (axis 0 of argument 'x')"
    )
    assert "is needed as a number at" in reasons[2] and "test_dynamic.py" in reasons[2]
    assert "is needed as a number at" in capfd.readouterr().err


def test_many_ways_warn():
    f = jit(lambda x: x * float(x.shape[0]), dynamic=True)
    with pytest.warns(fx.errors.PerformanceWarning, match="has been traced 33 times"):
        for n in range(40):
            f(np.ones(n))
