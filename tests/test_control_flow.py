"""Loops and choices in the graph: they do what Python loops do, under every transform."""

import itertools
import warnings

import numpy as np
import oracles
import pytest
from oracles import assert_same

import functx as fx
import functx.numpy as fnp
from functx.errors import StructureError

RNG = np.random.default_rng(0)
WEIGHTS, STEPS = RNG.standard_normal((3, 3)) / 2, RNG.standard_normal((4, 3))

# Each function beside its twin with Python's own loops and choices.


def recurrent(w, xs):
    def step(h, x):
        h = np.tanh(h @ w + x)
        return h, h.sum()

    h, sums = fx.scan(step, np.zeros(3), xs)
    return (h * h).sum() + sums.sum()


def recurrent_plain(w, xs):
    h, total = np.zeros(3), 0.0
    for x in xs:
        h = np.tanh(h @ w + x)
        total = total + h.sum()
    return (h * h).sum() + total


def backwards(w, xs):
    carry, ys = fx.scan(lambda c, x: ((c[0] * 0.5 + (x @ w).sum(), c[1] + 1), c[0] * x), (0.0, 0), xs, reverse=True)
    return carry[0] + ys.sum() + carry[1]


def backwards_plain(w, xs):
    c, n, total = 0.0, 0, 0.0
    for x in xs[::-1]:
        total = total + (c * x).sum()
        c, n = c * 0.5 + (x @ w).sum(), n + 1
    return c + total + n


def doubling(w, xs):
    def body(state):
        v, k = state
        return v * 2.0 + np.sin(v) * w[0, 0], k + 1

    v, k = fx.while_loop(lambda state: (np.abs(state[0]) < 100.0).all(), body, (xs[0] + 1.5, 0))
    return v.sum() * k


def doubling_plain(w, xs):
    v, k = xs[0] + 1.5, 0
    while (np.abs(v) < 100.0).all():
        v, k = v * 2.0 + np.sin(v) * w[0, 0], k + 1
    return v.sum() * k


def filled(w, xs):
    table = fnp.zeros((5, 3))
    table[0] = xs[0]

    def row(i, total):
        table[i] = np.sin(table[i - 1] @ w)
        return total + table[i].sum()

    return fx.fori_loop(1, 5, row, 0.0) + (table * table).sum()


def filled_plain(w, xs):
    table, total = fnp.zeros((5, 3)), 0.0
    table[0] = xs[0]
    for i in range(1, 5):
        table[i] = np.sin(table[i - 1] @ w)
        total = total + table[i].sum()
    return total + (table * table).sum()


def chosen(w, xs):
    first = fx.cond(xs[0, 0] > 0, lambda v: np.sin(v) @ w, lambda v: v * 2.0, xs[1])
    return first.sum() + fx.switch(2, [lambda v: v, lambda v: -v, lambda v: np.exp(v) * w[0]], xs[2]).sum()


def chosen_plain(w, xs):
    first = np.sin(xs[1]) @ w if xs[0, 0] > 0 else xs[1] * 2.0
    return first.sum() + (np.exp(xs[2]) * w[0]).sum()


def nested(w, xs):
    def outer(c, x):
        def inner(v):
            return fx.cond((v * v).sum() < 1.0, lambda q: q * 1.5 + 0.1, lambda q: q + x, v)

        c = fx.fori_loop(0, 3, lambda i, v: inner(v) + 0.1 * i, c)
        return c @ w, c[0]

    c, ys = fx.scan(outer, xs[0], xs)
    return c.sum() + ys.sum()


def nested_plain(w, xs):
    c, total = xs[0], 0.0
    for x in xs:
        for i in range(3):
            c = (c * 1.5 + 0.1 if (c * c).sum() < 1.0 else c + x) + 0.1 * i
        total = total + c[0]
        c = c @ w
    return c.sum() + total


PAIRS = {
    "scan": (recurrent, recurrent_plain),
    "scan in reverse": (backwards, backwards_plain),
    "while": (doubling, doubling_plain),
    "a table filled in a loop": (filled, filled_plain),
    "choices": (chosen, chosen_plain),
    "nested": (nested, nested_plain),
}
each_pair = pytest.mark.parametrize(("f", "plain"), PAIRS.values(), ids=PAIRS)


@each_pair
def test_values_are_those_of_the_python_loop(f, plain):
    expected = plain(WEIGHTS, STEPS)
    for run in (f, oracles.reference_jit(f), fx.jit(f, backend="cpp"), fx.checkpoint(f), oracles.reference_jit(fx.checkpoint(f))):
        np.testing.assert_allclose(run(WEIGHTS, STEPS), expected, rtol=1e-12)


@each_pair
def test_derivatives_equal_differences_to_second_order(f, plain):
    direction = np.cos(np.arange(9.0)).reshape(3, 3)
    wanted = oracles.directional(plain, (WEIGHTS, STEPS), (direction, None))
    for run in (f, oracles.reference_jit(f), fx.checkpoint(f)):
        np.testing.assert_allclose((fx.grad(run)(WEIGHTS, STEPS) * direction).sum(), wanted, rtol=1e-7)
        np.testing.assert_allclose(fx.jvp(lambda w, run=run: run(w, STEPS), (WEIGHTS,), (direction,))[1], wanted, rtol=1e-7)
    gradient = fx.grad(plain, (0, 1))(WEIGHTS, STEPS)
    for run in (fx.grad(f, (0, 1)), oracles.reference_jit(fx.grad(f, (0, 1))), fx.jit(fx.grad(f, (0, 1)), backend="cpp")):
        for got, expected in zip(run(WEIGHTS, STEPS), gradient, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    second = lambda g: fx.grad(lambda w: (fx.grad(g)(w, STEPS) * direction).sum())(WEIGHTS)  # noqa: E731
    np.testing.assert_allclose(second(f), second(plain), rtol=1e-8, atol=1e-9)


@each_pair
def test_vmap_equals_the_loop_over_examples(f, plain):
    weights = np.stack([WEIGHTS, WEIGHTS * 0.7, -WEIGHTS])
    steps = np.stack([STEPS, -STEPS, STEPS[::-1] * 0.3])
    for axes in ((0, None), (None, 0), (0, 0)):
        args = [a if axis == 0 else a[0] for a, axis in zip((weights, steps), axes, strict=True)]
        lanes = [[a[i] if axis == 0 else a for a, axis in zip(args, axes, strict=True)] for i in range(3)]
        for run in (fx.vmap(f, axes), oracles.reference_jit(fx.vmap(f, axes))):
            np.testing.assert_allclose(run(*args), [plain(*lane) for lane in lanes], rtol=1e-12)
        slopes = [fx.grad(plain)(*lane) for lane in lanes]
        np.testing.assert_allclose(fx.vmap(fx.grad(f), axes)(*args), slopes, rtol=1e-10, atol=1e-12)
        total = fx.grad(lambda *args, axes=axes: fx.vmap(f, axes)(*args).sum())(*args)
        np.testing.assert_allclose(total, slopes if axes[0] == 0 else np.sum(slopes, 0), rtol=1e-10, atol=1e-12)


# --- known answers ------------------------------------------------------------------------------------------------------------------------


def _steps_until(limit):
    def f(x):
        body = lambda s: (s[0] * 1.7 + np.sin(s[0] * s[1]), s[1] + 0.25, s[2] + 1)  # noqa: E731
        return fx.while_loop(lambda s: s[0] < limit, body, (x, 1.0, 0))[0]

    return f


NATIVE_WHILE = {
    "while": _steps_until(100.0),
    "while in scan": lambda x: fx.scan(lambda c, k: (_steps_until(30.0)(c) / 20 + k, c), x, np.arange(3.0))[0],
    "while in cond": lambda x: fx.cond(x > 2, _steps_until(50.0), lambda v: v * 3, x),
    "while in while": lambda x: fx.while_loop(lambda v: v < 50, lambda v: _steps_until(8.0)(v / 9) + v, x),
    "vmapped": lambda x: fx.vmap(_steps_until(80.0))(x * np.array([1.0, 3.0, 200.0])).sum(),
    "no step": _steps_until(0.5),
    "a traced bound": lambda x: fx.fori_loop(0, (x * 2).astype(np.int64), lambda i, v: v * 1.5 + np.sin(v * i), x),
}


@pytest.mark.parametrize("f", NATIVE_WHILE.values(), ids=NATIVE_WHILE)
def test_reverse_mode_through_while_is_native_code(f):
    compiled = fx.jit(fx.grad(f), backend="cpp")
    for x in (np.float64(1.5), np.float64(2.75)):
        np.testing.assert_allclose(compiled(x), fx.grad(f)(x), rtol=1e-9)
        assert compiled.half.compiled(x)[1].executable.fallbacks == []
    second = fx.jit(fx.grad(fx.grad(f)), backend="cpp")
    np.testing.assert_allclose(second(x), fx.grad(fx.grad(f))(x), rtol=1e-7)
    assert second.half.compiled(x)[1].executable.fallbacks == []


def test_reverse_mode_through_while():
    f = lambda x: fx.lax.while_loop(lambda v: v < 100, lambda v: v * 2, x)  # noqa: E731
    assert_same(f(3.0), 192.0)
    assert_same(fx.jit(fx.value_and_grad(f))(3.0), (192.0, 64.0))
    np.testing.assert_array_equal(fx.vmap(fx.grad(f))(np.array([3.0, 5.0])), [64, 32])


def test_a_traced_bound_compiles_once():
    f = lambda x, n: fx.lax.fori_loop(0, n, lambda i, v: v * x, 1.0)  # noqa: E731
    jitted = fx.jit(fx.grad(f))
    assert [jitted(2.0, n) for n in (5, 0, 1)] == [80.0, 0.0, 1.0] and jitted.cache_info().traces == 1


def test_a_buffer_filled_in_a_loop():
    def f(x, n=5):
        ys = fnp.zeros(n)
        ys[0] = x

        def body(i, nothing):
            ys[i] = np.sin(ys[i - 1])
            return nothing

        fx.fori_loop(1, n, body, ())
        return ys.sum()

    for run in (fx.value_and_grad(f), fx.jit(fx.value_and_grad(f))):
        np.testing.assert_allclose(run(1.0), (3.893097, 2.370785), rtol=1e-6)


def test_a_branch_that_is_not_taken_stays_out_of_the_derivative():
    f = lambda e: fx.lax.cond(e > 0, np.sqrt, lambda q: 0.0 * q, e)  # noqa: E731
    for run in (lambda g: g, fx.jit):
        np.testing.assert_array_equal(run(fx.grad(lambda x: fx.vmap(f)(x).sum()))(np.array([0.0, 4.0])), [0, 0.25])


def test_an_array_of_the_caller_is_written_in_a_loop():
    def f(buf, n):
        def body(i, c):
            buf[i] = buf[i] + c
            return c + 1.0

        return fx.fori_loop(0, n, body, 1.0)

    def plain(buf, n):
        c = 1.0
        for i in range(n):
            buf[i] = buf[i] + c
            c = c + 1.0
        return c

    runs = [f, oracles.reference_jit(f), fx.jit(f), lambda b, n: fx.value_and_grad(lambda s, b: f(b, n) * s)(1.0, b)[0], fx.checkpoint(f)]
    for run in runs:
        mine, expected = np.arange(5.0), np.arange(5.0)
        assert run(mine, 3) == plain(expected, 3)
        np.testing.assert_array_equal(mine, expected)


def test_the_carry_is_a_value():
    start = np.zeros(3)

    def body(i, c):
        c[i] += 1.0
        return c

    for run in (lambda f: f, oracles.reference_jit):
        assert run(lambda s: fx.fori_loop(0, 2, body, s))(start).tolist() == [1, 1, 0] and start.tolist() == [0, 0, 0]


def test_a_carry_that_changes_type_is_promoted_once():
    traces = []

    def body(c, x):
        traces.append(np.result_type(c) if not hasattr(c, "dtype") else c.dtype)
        return c + x, c

    for run in (lambda f: f, oracles.reference_jit):
        carry, ys = run(lambda xs: fx.scan(body, 0, xs))(np.array([0.5, 1.5]))
        assert_same(carry, np.float64(2.0))
        assert_same(ys, np.array([0.0, 0.5]))
    assert traces == [np.float64, np.float64, np.int64, np.float64]  # steps, then traces
    assert_same(fx.fori_loop(0, 3, lambda i, v: v * 2, np.float32(1)), np.float32(8))
    assert_same(fx.while_loop(lambda v: v < 5, lambda v: v + 1, 0), 5)


MISTAKES = {
    "the carry changes shape": (lambda x: fx.scan(lambda c, _: (np.append(c, 1.0), None), x, length=2), r"'carry'.*f64\[2\].*f64\[3\]"),
    "no pair": (lambda x: fx.scan(lambda c, v: c, 0.0, x), "must return a pair"),
    "another structure": (lambda x: fx.scan(lambda c, v: ((c, c), v), 0.0, x), "must return a carry of structure"),
    "no length": (lambda x: fx.scan(lambda c, v: (c, v), x), "number of steps is unknown"),
    "lengths differ": (lambda x: fx.scan(lambda c, v: (c, None), 0.0, (x, x[:1])), "lengths differ"),
    "branches of two shapes": (lambda x: fx.cond(True, lambda v: v, lambda v: v[:1], x), r"f64\[1\]|f64\[2\]"),
    "branches of two structures": (lambda x: fx.cond(True, lambda v: v, lambda v: (v, v), x), "same structure"),
    "a predicate of several bools": (lambda x: fx.cond(x > 0, np.sin, np.cos, x), r"np.where\(pred"),
    "a condition of several bools": (lambda x: fx.while_loop(lambda v: v > 0, np.sin, x), r"\.any\(\) or \.all\(\)"),
}


@pytest.mark.parametrize(("run", "text"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_explained(run, text):
    for wrap in (oracles.reference_jit, fx.make_ir):
        with pytest.raises(StructureError, match=text):
            wrap(run)(np.ones(2))
    with pytest.raises(StructureError, match=text):
        run(np.ones(2))


def test_results_and_operands_that_nobody_needs_are_dropped():
    def f(x):
        (a, b), ys = fx.scan(lambda c, v: ((c[0] + v, c[1] * np.sin(v)), np.exp(c[1])), (0.0, 1.0), x)
        return a

    text = str(fx.jit(f, backend="reference").ir(np.ones(3)))
    assert "sin" not in text and "exp" not in text


@pytest.mark.parametrize("length", [0, 1, 5])
def test_any_number_of_steps(length):
    xs = np.arange(float(length))
    carry, ys = fx.scan(lambda c, x: (c + x, c * x), 1.0, xs)
    expected = list(itertools.accumulate(xs, initial=1.0))
    assert carry == expected[-1] and ys.tolist() == [c * x for c, x in zip(expected, xs, strict=False)]
    slope = fx.grad(lambda s: fx.scan(lambda c, x: (c * s + x, None), 1.0, xs)[0])(1.0)
    assert slope == sum(expected[:-1])
    assert fx.map(lambda v: v * 2, np.arange(7), batch_size=3).tolist() == list(range(0, 14, 2))


@pytest.mark.parametrize("unroll", [2, 3, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolled_loops_give_the_same(unroll, reverse):
    xs = np.arange(1.0, 8.0)
    expected = fx.scan(lambda c, x: (c * 0.5 + x, c * x), 1.0, xs, reverse=reverse)
    for run in (lambda f: f, oracles.reference_jit):
        got = run(lambda xs: fx.scan(lambda c, x: (c * 0.5 + x, c * x), 1.0, xs, reverse=reverse, unroll=unroll))(xs)
        np.testing.assert_allclose(got[0], expected[0])
        np.testing.assert_allclose(got[1], expected[1])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_associative_scans(n):
    x = RNG.standard_normal((n, 2))
    matrices = RNG.standard_normal((n, 2, 2))
    products = list(itertools.accumulate(matrices, np.matmul))
    for run in (lambda f: f, oracles.reference_jit):
        np.testing.assert_allclose(run(lambda x: fx.associative_scan(np.add, x))(x), np.cumsum(x, 0))
        np.testing.assert_allclose(run(lambda x: fx.associative_scan(np.add, x.T, axis=1, reverse=True))(x), np.cumsum(x[::-1], 0)[::-1].T)
        np.testing.assert_allclose(run(lambda m: fx.lax.associative_scan(np.matmul, m))(matrices), products)
    slope = fx.grad(lambda x: (fx.associative_scan(np.multiply, x) * np.arange(1.0, n + 1)[:, None]).sum())(x)
    np.testing.assert_allclose(slope, fx.grad(lambda x: (np.cumprod(x, 0) * np.arange(1.0, n + 1)[:, None]).sum())(x), rtol=1e-9)


def test_a_buffer_filled_up_to_a_traced_bound():
    def f(r, x, n):
        orbit = fnp.zeros(6)

        def step(i, x):
            orbit[i] = x
            return r * x * (1 - x)

        fx.fori_loop(0, n, step, x)
        return orbit.sum()

    def plain(r, x, n):
        total = 0.0
        for _ in range(n):
            total, x = total + x, r * x * (1 - x)
        return total

    for transform in (lambda g: g, oracles.reference_jit, lambda g: fx.jit(g, backend="cpp")):
        run = transform(fx.value_and_grad(f, (0, 1)))
        for n in (0, 3, 6):
            got, expected = run(2.9, 0.3, n), fx.value_and_grad(plain, (0, 1))(2.9, 0.3, n)
            np.testing.assert_allclose(got[0], expected[0])
            np.testing.assert_allclose(got[1], expected[1])


def test_a_long_python_loop_is_named_once(monkeypatch):
    monkeypatch.setattr("functx.transforms.jit.LONG_GRAPH", 50)

    def f(x):
        for _ in range(40):
            x = np.sin(x) * 2.0
        return x

    jitted = oracles.reference_jit(f)
    with pytest.warns(fx.errors.PerformanceWarning, match=r"120 equations, 120 of them at .*test_control_flow.py.*fori_loop"):
        jitted(np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jitted(np.ones(3))


def test_derivatives_of_derivatives_see_the_rules_in_a_body():
    stopped = lambda c: fx.scan(lambda c, _: (fx.stop_gradient(c) * c, None), c, length=2)[0]  # noqa: E731
    unrolled = lambda c: (lambda d: fx.stop_gradient(d) * d)(fx.stop_gradient(c) * c)  # noqa: E731
    assert fx.grad(fx.grad(stopped))(3.0) == fx.grad(fx.grad(unrolled))(3.0)

    @fx.custom_vjp
    def steep(w):
        return w * 1.0

    steep.defvjp(lambda w: (steep(w), None), lambda _, ct: (100.0 * ct,))
    for loop in (
        lambda c, w: fx.scan(lambda c, _: (c * steep(w), None), c, length=1)[0],
        lambda c, w: fx.cond(True, lambda c: c * steep(w), lambda c: c, c),
        lambda c, w: fx.while_loop(lambda s: s[1] < 1, lambda s: (s[0] * steep(w), s[1] + 1), (c, 0))[0],
    ):
        assert fx.grad(lambda w, loop=loop: fx.grad(loop)(2.0, w))(3.0) == 100.0


def written_operand(v, yes):
    def scaled(v):
        v *= 2.0
        return v.sum()

    return fx.cond(yes, scaled, lambda v: v.sum(), v), fx.switch(0, [scaled, np.sum], v), v


def written_step(v, yes):
    def body(c, row):
        row *= 2.0
        v[1:] += 1.0
        return c + row.sum(), row

    return fx.scan(body, 0.0, v), fx.scan(body, 0.0, v, reverse=True, unroll=2), fx.map(lambda x: x + body(0.0, v)[0], v), v


def shared_carries(v, yes):
    base = fnp.zeros(3) + v[0]

    def body(c, _):
        a, b, _ = c
        a += 1.0
        b *= 2.0
        return (a, a, base), (a, b)

    return fx.scan(body, (v[0], v[1], v[2]), length=3), fx.scan(body, (v[0], v[1], v[2]), length=3, unroll=2), base


def chosen_array(v, yes):
    chosen = fx.cond(yes, lambda: v, lambda: -v)
    chosen += 1.0
    return chosen, v


@pytest.mark.parametrize("f", [written_operand, written_step, shared_carries, chosen_array])
@pytest.mark.parametrize("yes", [True, False])
def test_what_loops_hand_on_are_values_on_concrete_arrays_too(f, yes):
    """Only operands of a branch, and what is closed over, are written to in place."""
    mapped = lambda f: lambda v, yes: fx.tree.map(lambda r: r[0], fx.vmap(f, (0, None))(v[None], yes))  # noqa: E731
    results = []
    for run in (lambda f: f, oracles.reference_jit, mapped):
        v = np.arange(9.0).reshape(3, 3)
        results.append([run(f)(v, yes), v])
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def test_a_step_number_takes_part_in_integer_arithmetic():
    def f(x, n):
        return fx.fori_loop(0, n, lambda i, c: c + x[i % 2] * (i // 2) + (1 << i), 0.0)

    for run in (f, oracles.reference_jit(f), lambda x, n: fx.vmap(f, (0, None))(x[None], n)[0]):
        assert run(np.array([3.0, 5.0]), 5) == sum([3.0, 5.0][i % 2] * (i // 2) + 2**i for i in range(5))


@pytest.mark.parametrize("run", [lambda f: f, fx.jit, fx.grad], ids=["eager", "jit", "grad"])
def test_messages_name_the_loop_and_the_body_that_were_written(run):
    def body(i, c):
        return c, i

    with pytest.raises(fx.errors.StructureError, match=r"fori_loop: .*body .*test_control_flow.py.* takes a carry of structure"):
        run(lambda x: fx.fori_loop(0, 3, body, x))(1.0)


def test_the_associative_scan_of_one_element_is_no_view():
    x = np.ones((1, 2))
    assert not np.shares_memory(fx.associative_scan(np.add, x), x)
