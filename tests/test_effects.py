"""Effects happen once per logical execution and in order, as the plain Python function has them, under every transform."""

import io
import re
from contextlib import redirect_stdout
from importlib.util import find_spec

import numpy as np
import oracles
import pytest

import functx as fx
from functx import errors

BACKENDS = ["reference", "cpp", *(["triton"] if find_spec("torch") and find_spec("triton") else [])]
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def printed(f, *args):
    """The lines that a call prints."""
    with redirect_stdout(io.StringIO()) as out:
        f(*args)
    return out.getvalue().splitlines()


# --- functions that print -----------------------------------------------------------------------------------------------------------------


def straight(x):
    fx.debug.print("x {}", x)
    y = np.sin(x)
    fx.debug.print("twice {0} {0} and {two}", y, two=2)
    return y * x


def once(x):
    y = x * x
    fx.debug.print("y={:.3f}", y)
    return y


def unused(x):
    fx.debug.print("nothing")
    fx.debug.print("of x {}", np.exp(x))
    return x * 2.0


def scanned(x):
    def body(c, k):
        fx.debug.print("step {} {}", k, c)
        return c * x, c

    fx.debug.print("before")
    c, ys = fx.scan(body, 1.0, np.arange(3.0))
    fx.debug.print("after {}", c)
    return c + ys.sum()


def unrolled(x):
    return fx.scan(lambda c, k: (fx.debug.print("u {} {}", k, c), (c * x, None))[1], 1.0, np.arange(5), unroll=2)[0]


def scan_of_prints(x):
    fx.scan(lambda c, k: (fx.debug.print("k={}", k), (None, None))[1], None, np.arange(3))
    return x * 3.0


def backwards(x):
    return fx.scan(lambda c, k: (fx.debug.print("{} {}", k, c), (c + x, None))[1], 0.0, np.arange(3), reverse=True)[0]


def looped(x):
    def body(v):
        fx.debug.print("v {}", v)
        return v * 2.0

    return fx.while_loop(lambda v: v < 7.0, body, x)


def scan_of_loops(x):
    return fx.scan(lambda c, k: (looped(c) * 0.2, k), x, np.arange(2.0))[0]


def asked(x):
    def cond(v):
        fx.debug.print("is {} small?", v)
        return v < 7.0

    return fx.while_loop(cond, lambda v: v + 2.0, x)


def counted(x):
    return fx.fori_loop(0, 3, lambda i, v: (fx.debug.print("{} {}", i, v), v + x)[1], x)


def chosen(x):
    fx.debug.print("choose")
    y = fx.cond(x > 1.0, straight, looped, x)
    return fx.switch(1, [once, unused, looped], y)


def kept(x):
    return fx.checkpoint(straight)(x) * fx.checkpoint(scanned)(x)


def nested(x):
    fx.debug.print("outer {}", x)
    y = fx.jit(once)(x) + fx.jit(straight)(x)
    return fx.scan(lambda c, _: (fx.cond(c > 1.0, once, looped, c), None), y, length=2)[0]


@fx.custom_jvp
def with_jvp(x):
    fx.debug.print("rule {}", x)
    return np.sin(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), np.cos(primals[0]) * tangents[0]))


@fx.custom_vjp
def with_vjp(x):
    fx.debug.print("rule {}", x)
    return np.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (np.cos(x) * ct,))


def ruled(x):
    fx.debug.print("start")
    return with_jvp(x) * with_vjp(x)


def mutating(x):
    buf = fx.numpy.zeros(3)
    for i in range(3):
        buf[i] = x * i
        fx.debug.print("buf {}", buf)
    return buf.sum()


PROGRAMS = [
    straight, once, unused, scanned, unrolled, scan_of_prints, backwards, looped,
    scan_of_loops, asked, counted, chosen, kept, nested, ruled, mutating,
]  # fmt: skip

# --- transforms ---------------------------------------------------------------------------------------------------------------------------

LANES = np.array([0.5, 3.0])


def over_lanes(f):
    return lambda x: fx.vmap(f)(LANES * x).sum()


def loop_over_lanes(f):
    return lambda x: sum(f(v) for v in LANES * x)


# Each from a function of a number to one, and what it does to a plain function, as far as effects go.
TRANSFORMS = {
    "jit": (lambda f: fx.jit(f, backend="reference"), lambda f: f),
    "grad": (fx.grad, lambda f: f),
    "jvp": (lambda f: lambda x: fx.jvp(f, (x,), (1.0,))[1], lambda f: f),
    "vjp": (lambda f: lambda x: fx.vjp(f, x)[1](1.0)[0], lambda f: f),
    "linearize": (lambda f: lambda x: fx.linearize(f, x)[1](1.0), lambda f: f),
    "checkpoint": (fx.checkpoint, lambda f: f),
    "vmap": (over_lanes, loop_over_lanes),
    "scan": (
        lambda f: lambda x: fx.scan(lambda c, k: (c + f(x + k), None), 0.0, np.arange(2.0))[0],
        lambda f: lambda x: f(x + 0.0) + f(x + 1.0),
    ),
}
PAIRS = [(a, b) for a in TRANSFORMS for b in TRANSFORMS]


def numbers(lines):
    """Lines with the numbers to nine digits."""
    return [re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda m: f"{float(m.group()):.9g}", line) for line in lines]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compositions_print_what_the_plain_function_prints(program):
    x = 1.25
    for outer, inner in PAIRS:
        f = TRANSFORMS[outer][0](TRANSFORMS[inner][0](program))
        plain = TRANSFORMS[outer][1](TRANSFORMS[inner][1](program))
        assert numbers(printed(f, x)) == numbers(printed(plain, x)), f"{outer} of {inner}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_code_prints_in_every_call(program):
    """All transforms in one compilation."""
    parts = [program, fx.grad(program), over_lanes(program), fx.grad(over_lanes(program))]
    plain = [program, program, loop_over_lanes(program), loop_over_lanes(program)]
    f = fx.jit(lambda x: [part(x) for part in parts], backend="cpp")
    for x in (1.25, 1.25, 1.5):
        assert numbers(printed(f, x)) == numbers(printed(lambda x: [part(x) for part in plain], x))


@pytest.mark.parametrize("checkpoint", [False, True])
@each_backend
def test_print_inside_scan_inside_grad(backend, checkpoint):
    def body(c, _):
        fx.debug.print("c={}", c)
        return c + 1, None

    step = fx.checkpoint(body) if checkpoint else body
    f = fx.jit(fx.grad(lambda x: fx.lax.scan(step, x, length=2)[0]), backend=backend)
    assert printed(f, 1.0) == printed(f, 1.0) == ["c=1.0", "c=2.0"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_pull_backs_and_tangents_do_not_print_again(program):
    expected = printed(program, 1.25)
    for make in (
        lambda: fx.vjp(program, 1.25)[1],
        lambda: fx.vjp(fx.jit(program, backend="reference"), 1.25)[1],
        lambda: fx.linearize(program, 1.25)[1],
    ):
        maps = []
        assert numbers(printed(lambda: maps.append(make()))) == numbers(expected)  # noqa: B023
        assert printed(lambda: (maps[0](1.0), maps[0](2.0))) == []  # noqa: B023
    for transform in (fx.jacfwd, fx.jacrev, fx.hessian, lambda f: fx.grad(fx.grad(f))):
        assert numbers(printed(transform(program), 1.25)) == numbers(expected)


def test_values_are_those_without_effects():
    for program in PROGRAMS:
        with redirect_stdout(io.StringIO()):
            slope = oracles.directional(program, [1.25], [1.0])
            for transform in (fx.grad, lambda f: fx.jit(fx.grad(f), backend="reference")):
                np.testing.assert_allclose(transform(program)(1.25), slope, rtol=1e-7)
            np.testing.assert_allclose(fx.vmap(program)(LANES), [program(v) for v in LANES], rtol=1e-12)


# --- kinds, formats, rules ----------------------------------------------------------------------------------------------------------------


def test_print_shows_what_the_plain_call_shows():
    def f(n, x, a):
        fx.debug.print("{} {!r} {:>4} {}", n, x, n + 1, a)
        fx.debug.print("{}", {"a": [x, "text", None]})
        fx.debug.print("{x.dtype} {a[1]}", x=a, a=a)
        fx.debug.print("{} {}", a[0], a > 1)
        return x

    class Thing:
        def __str__(self):
            return "thing"

    assert printed(fx.jit(lambda x: fx.debug.print("{} {} {}", Thing(), x, max)), 1) == ["thing 1 <built-in function max>"]
    args = 3, np.float32(0.5), np.arange(3.0)
    assert printed(fx.jit(f), *args) == printed(f, *args)
    assert printed(fx.jit(lambda: fx.debug.print("{}", np.ones(2)))) == ["[1. 1.]"]


def test_a_format_that_does_not_fit():
    for transform in (lambda f: f, fx.jit):
        with pytest.raises(ValueError, match="no place for argument 1"):
            transform(lambda x: fx.debug.print("{}", x, x))(1.0)
        with pytest.raises(IndexError):
            transform(lambda x: fx.debug.print("{} {}", x))(1.0)
        with pytest.raises(KeyError):
            transform(lambda x: fx.debug.print("{y}", x=x))(1.0)


def test_a_callback_gets_arrays_of_its_own():
    seen = []

    def f(x):
        fx.debug.callback(seen.append, x * 2)
        fx.debug.callback(lambda v, name: seen.append((v, name)), x[0], name="first")
        return x + 1

    jitted = fx.jit(f)
    jitted(np.ones(2)), jitted(np.zeros(2))
    np.testing.assert_array_equal(seen[0], [2, 2])
    np.testing.assert_array_equal(seen[2], [0, 0])
    assert seen[1] == (1.0, "first") and type(seen[1][0]) is np.float64 and seen[0].flags.writeable


def test_backward_rules_may_print():
    @fx.custom_vjp
    def f(x):
        return x * x

    def bwd(x, ct):
        fx.debug.print("backward")
        fx.debug.print("ct {}", ct)
        return (2 * x * ct,)

    f.defvjp(lambda x: (f(x), x), bwd)
    assert printed(f, 2.0) == printed(fx.jit(f), 2.0) == []
    loss = lambda x: f(x) * 3.0  # noqa: E731
    for g in (fx.grad(loss), fx.jit(fx.grad(loss)), fx.grad(fx.checkpoint(loss)), fx.jit(fx.grad(fx.checkpoint(loss)), memory_budget=0.0)):
        assert printed(g, 2.0) == ["backward", "ct 3.0"]
    out, pull = fx.vjp(loss, 2.0)
    compiled = fx.vjp(fx.jit(loss), 2.0)[1]
    for g in (pull, compiled):
        assert printed(g, 1.0) == printed(g, 1.0) == ["backward", "ct 3.0"]
    steps = lambda x: fx.scan(lambda c, _: (f(c), None), x, length=2)[0]  # noqa: E731
    assert printed(fx.jit(fx.grad(steps)), 1.0) == ["backward", "ct 1.0", "backward", "ct 2.0"]


def test_effects_of_loops_whose_results_nobody_reads():
    def f(x):
        scanned(x)
        looped(x)
        fx.cond(x > 0, once, once, x)
        fx.jit(once)(x)
        fx.checkpoint(once)(x)
        return x

    for transform in (fx.jit, lambda f: fx.jit(fx.grad(f)), fx.grad):
        assert printed(transform(f), 1.25) == printed(f, 1.25)


@each_backend
def test_what_was_printed_before_an_error_is_printed(backend):
    def f(x, i):
        fx.debug.print("first")
        y = x[i]
        fx.debug.print("second {}", y)
        return y

    jitted = fx.jit(f, backend=backend)
    assert printed(jitted, np.ones(2), np.int64(1)) == ["first", "second 1.0"]
    with redirect_stdout(io.StringIO()) as out, pytest.raises(IndexError):
        jitted(np.ones(2), np.int64(5))
    assert out.getvalue() == "first\n"


def test_order_holds_beside_writes_to_arguments():
    def f(x):
        fx.debug.print("{}", x)
        x *= 2
        fx.debug.print("{}", x)
        x[0] = 0
        fx.debug.print("{}", x)

    mine, plain = np.ones(2), np.ones(2)
    assert printed(fx.jit(f), mine) == printed(f, plain)
    np.testing.assert_array_equal(mine, plain)


# --- values that effects return -----------------------------------------------------------------------------------------------------------


def counter():
    """A function that returns 1.0, 2.0, ..."""
    calls = iter(range(1, 1000))
    return lambda *_: np.float64(next(calls))


F8 = fx.ShapeDtypeStruct((), float)


@each_backend
def test_io_callback_is_called_in_order(backend):
    def make(number):
        def f(x):
            a = fx.io_callback(number, F8, x)
            ys = fx.scan(lambda c, _: (c, fx.io_callback(number, F8)), 0.0, length=2)[1]
            b = fx.io_callback(number, F8)
            fx.io_callback(number, F8)  # its result is not needed
            return x * np.stack([a, ys[0], ys[1], b, fx.io_callback(number, F8)])

        return f

    np.testing.assert_array_equal(make(counter())(1.0), [1, 2, 3, 4, 6])
    jitted = fx.jit(make(counter()), backend=backend)
    np.testing.assert_array_equal(jitted(1.0), [1, 2, 3, 4, 6])
    np.testing.assert_array_equal(jitted(1.0), [7, 8, 9, 10, 12])
    np.testing.assert_array_equal(fx.vmap(make(counter()))(np.ones(2)), [[1, 2, 3, 4, 6], [7, 8, 9, 10, 12]])


@pytest.mark.parametrize("around", [lambda f: f, fx.checkpoint, fx.jit], ids=["plain", "checkpoint", "jit"])
def test_derivatives_call_it_once(around):
    for transform in (lambda f: f, fx.jit):
        number = counter()
        f = around(lambda x: np.sin(x * fx.io_callback(number, F8)) * x)  # noqa: B023
        k = 1.0
        np.testing.assert_allclose(transform(fx.grad(f))(0.5), np.sin(k * 0.5) + 0.5 * k * np.cos(k * 0.5))
        assert number() == 2.0
    number = counter()
    steps = lambda x: fx.scan(lambda c, _: (c * around(lambda v: v * fx.io_callback(number, F8))(x), None), 1.0, length=3)[0]  # noqa: E731
    np.testing.assert_allclose(fx.jit(fx.grad(steps))(2.0), 3 * 2.0**2 * 6)
    assert number() == 4.0


def test_one_result_for_all_examples_and_those_that_differ():
    def f(x, w):
        fx.debug.print("{}", x)
        fx.debug.print("{}", w)
        return x * w, w * 2, fx.io_callback(lambda: np.float64(5), F8)

    out = fx.vmap(f, in_axes=(0, None), out_axes=(0, None, 0))
    with redirect_stdout(io.StringIO()):
        oracles.assert_same(out(LANES, 2.0), (LANES * 2, 4.0, np.array([5.0, 5.0])))
    assert printed(fx.vmap(f, in_axes=(0, None)), LANES, 2.0) == ["0.5", "2.0", "3.0", "2.0"]
    assert printed(fx.vmap(lambda x: fx.debug.print("same")), LANES) == ["same"] * 2
    assert printed(fx.vmap(f, in_axes=(0, None)), np.zeros(0), 2.0) == []


def test_effects_beside_collectives():
    def f(x):
        fx.debug.print("{}", x)
        total = fx.psum(x, "i")
        fx.debug.print("total {}", total)
        return x / total

    assert printed(fx.vmap(f, axis_name="i"), LANES) == ["0.5", "3.0", "total 3.5", "total 3.5"]


def test_values_that_python_looks_at():
    def f(x):
        fx.debug.print("a")
        y = fx.scan(lambda c, _: (fx.debug.print("c {}", c), (c * 2, None))[1], x, length=2)[0]
        fx.debug.print("b")
        return y * x if y > 3 else y

    for g in (fx.grad(f), fx.grad(fx.checkpoint(f)), fx.vmap(fx.grad(f), in_axes=None, axis_size=1)):
        assert printed(g, 1.25) == printed(f, 1.25)
        np.testing.assert_array_equal(g(1.25), 8 * 1.25)


@pytest.mark.parametrize("transform", [fx.grad, fx.jit, lambda f: fx.grad(fx.checkpoint(f))])
def test_what_an_effect_returns_is_unknown_while_tracing(transform):
    def f(x):
        return x if fx.io_callback(counter(), F8) > 0 else -x

    with pytest.raises(errors.ConcretizationError, match="has not happened yet") as raised:
        transform(f)(1.0)
    assert "np.where" in str(raised.value) and "test_effects.py" in str(raised.value)


def test_effects_cannot_be_differentiated_or_called_again():
    number = counter()
    with pytest.raises(errors.UnsupportedError, match="cannot be differentiated"):
        fx.grad(lambda x: fx.io_callback(lambda v: v, F8, x))(1.0)
    loop = lambda x: fx.while_loop(lambda v: v < 5.0, lambda v: v * (1.0 + fx.io_callback(number, F8)), x)  # noqa: E731
    twice = lambda x: fx.scan(lambda c, _: (loop(c * 0.1), None), x, length=2)[0]  # noqa: E731
    # Steps of a loop that keep stacks of lengths of their own, lanes likewise, or a branch that is not taken: they would run again.
    for f in (twice, lambda x: fx.cond(x > 0, loop, np.sin, x), lambda x: fx.vmap(loop)(x * np.ones(2)).sum()):
        with pytest.raises(errors.UnsupportedError, match="happens once") as raised:
            fx.grad(f)(1.0)
        assert "functx.scan" in str(raised.value) and "test_effects.py" in str(raised.value)
    assert number() == 1.0  # it was refused before anything happened
    assert fx.jvp(loop, (1.0,), (1.0,))[0] == 12.0
    with pytest.raises(errors.CallbackError, match="declared"):
        fx.jit(lambda x: fx.io_callback(lambda v: (v, v), F8, x))(1.0)


@each_backend
def test_what_an_effect_raises_comes_out(backend):
    def host(x):
        raise KeyError("mine")

    for g in (lambda x: fx.debug.callback(host, x), fx.jit(lambda x: fx.debug.callback(host, x), backend=backend)):
        with pytest.raises(KeyError, match="mine"):
            g(np.ones(3))


def test_graphs_keep_effects():
    def f(x):
        fx.debug.print("same {}", x)
        fx.debug.print("same {}", x)
        return x

    graph = fx.jit(f).ir(1.0)
    assert [e.primitive.name for e in graph.eqns] == ["io_callback"] * 2 and graph.effect and all(e.effect for e in graph.eqns)
    body = fx.make_ir(lambda x: fx.scan(lambda c, _: (f(c), None), x, length=2)[0])(1.0)
    assert [(e.primitive.name, e.effect) for e in body.eqns] == [("scan", True)]
    text = lambda: fx.pretty.format_graph(fx.make_ir(f)(1.0), sources=False)  # noqa: E731
    assert text() == text()


# --- pure callbacks -----------------------------------------------------------------------------------------------------------------------


@each_backend
def test_a_pure_callback_with_a_derivative(backend):
    def host(args, ct):
        x, n, rest = args
        return ct * n * x ** (n - 1), None, {"a": ct.sum() * np.ones(()), "k": None}

    def f(x, rest, method="sequential"):
        return fx.pure_callback(lambda x, n, rest: x**n + rest["a"], x, x, 3, rest, vjp=host, vmap_method=method)

    x, rest = np.array([1.0, 2.0]), {"a": 0.5, "k": 2}
    gradient = fx.jit(fx.grad(lambda x, rest: (f(x, rest) * x).sum(), argnums=(0, 1)), backend=backend)
    gx, gr = gradient(x, rest)
    np.testing.assert_allclose(gx, 4 * x**3 + 0.5)
    assert gr == {"a": 3.0, "k": None}
    np.testing.assert_allclose(fx.vmap(fx.grad(lambda v: f(v, rest).sum()))(np.stack([x, x])), [3 * x**2] * 2)
    with pytest.raises(errors.UnsupportedError, match="cannot be differentiated"):
        fx.grad(lambda x: fx.pure_callback(np.sin, x, x))(1.0)


def test_broadcast_all():
    seen = []

    def host(x, w):
        seen.append((x.shape, w.shape))
        return x * w

    f = lambda x, w: fx.pure_callback(host, x, x, w, vmap_method="broadcast_all")  # noqa: E731
    np.testing.assert_array_equal(fx.vmap(f, in_axes=(0, None))(LANES, 2.0), LANES * 2)
    assert seen == [((2,), (2,))]
    nested = fx.vmap(lambda w: fx.vmap(f, in_axes=(0, None))(LANES, w))(np.ones(3))
    np.testing.assert_array_equal(nested, [LANES] * 3)
    assert seen[1:] == [((3, 2), (3, 2))]
    with pytest.raises(ValueError, match="broadcast_all"):
        fx.pure_callback(host, LANES, LANES, vmap_method="loop")


# --- watching for NaN ---------------------------------------------------------------------------------------------------------------------


def root(x):
    return np.sqrt(x) * 2.0


WATCHED = [
    (lambda x: fx.jvp(root, (x,), (x,)), np.array([1.0, -2.0]), fx.debug_nans, "'sqrt' gave nan at index 1, for -2.0", "computed on"),
    (fx.grad(lambda x: root(x).sum()), np.array([1.0, 0.0]), fx.debug_infs, "'div' gave inf at index 1", "derivative"),
    (fx.grad(lambda x: fx.scan(lambda c, v: (c + root(v), None), 0.0, x)[0]), np.array([1.0, 0.0]), fx.debug_infs, "'div'", "derivative"),
    (
        fx.grad(lambda x: fx.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + root(x[s[0]])), (0, 0.0))[1]),
        np.array([1.0, 0.0]),
        fx.debug_infs,
        "'div'",
        "derivative",
    ),
    (fx.grad(lambda x: fx.checkpoint(lambda v: root(v).sum())(x)), np.zeros(2), fx.debug_infs, "'div'", "derivative"),
    (fx.vmap(root), np.array([1.0, -1.0]), fx.debug_nans, "'sqrt'", "computed on"),
]


@pytest.mark.parametrize("transform", [lambda f: f, fx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(("f", "x", "watch", "what", "why"), WATCHED)
def test_the_line_where_a_value_is_born(f, x, watch, what, why, transform):
    g = transform(f)
    with watch(), pytest.raises(errors.NonFiniteError, match=re.escape(what)) as raised:
        g(x)
    assert "return np.sqrt(x) * 2.0" in str(raised.value) and why in str(raised.value)
    assert isinstance(raised.value, FloatingPointError)
    g(x)  # outside of the block nothing is raised


def test_what_is_not_born_is_not_reported():
    f = fx.jit(lambda x: np.where(x > 0, x, np.nan) + 1)
    with fx.debug_nans(), fx.debug_infs():
        f(np.array([1.0, np.inf]))
        f(np.array([np.nan, 1.0]))
        np.testing.assert_array_equal(fx.jit(fx.vmap(lambda x: x.astype(int) // 2))(np.ones(2)), [0, 0])
        with fx.debug_nans(False):
            fx.jit(np.log)(np.array(-1.0)[None])


def test_watching_is_part_of_the_key():
    f = fx.jit(lambda x: np.log(x))
    assert np.isnan(f(np.array([-1.0])))[0]
    for _ in range(2):
        with fx.debug_nans(), pytest.raises(errors.NonFiniteError):
            f(np.array([-1.0]))
        assert np.isnan(f(np.array([-1.0])))[0]
    assert f.cache_info().traces == 2
