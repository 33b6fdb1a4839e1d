"""Arrays whose sizes data decides, in ordinary code: sliced, indexed, combined, sorted and searched as if their sizes were known."""

import copy

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp

# Expressions over x (n,), y = x[x > 0] and z = x[x <= 0]; those of the second table write to a copy c of x.
PROGRAMS = [
    "y[1:]", "y[:2]", "y[-2:]", "y[:-1]", "y[1:][1:]", "y[1:-1]", "y[::-1][:3]", "y[5:1:-2]", "y[::2][1:]", "y[2:] - y[:-2]", "y[y > 1]",
    "y[y > 1][:1]", "y[np.flatnonzero(y > 1)]", "np.diff(y)", "np.pad(y, (0, 2))", "np.pad(y, 1)[1:-1] + y", "np.split(y, [1])",
    "np.append(y, 1.0)", "np.concatenate([y[1:], z[:2], x])", "np.stack([y[1:], y[:-1]])", "np.roll(y, 1)",
    "y[1:].sum(), y[1:].mean() if x.shape[0] > 3 else 0.0", "np.median(y)", "np.searchsorted(np.sort(y), x)",
    "np.searchsorted(np.sort(y), z, side='right')", "np.linspace(0.0, 1.0, y.shape[0])",
    "np.linspace(x[0], 1.0, y.shape[0], endpoint=False)", "np.arange(y.shape[0]), np.ones(y.shape) * y",
    "np.zeros((y.shape[0], 2)) + y[:, None]", "y[:, None] - y[1:]", "np.outer(y, z)[1:]", "np.where(y[1:] > y[:-1], y[1:], 0)",
    "np.cumsum(y)[1:]", "x[y.shape[0]:]", "x[:y.shape[0]] * y", "x[::-1][:y.shape[0]] + y", "np.repeat(y, 2)[1:]",
    "np.minimum(y.shape[0], 2) * x", "np.sort(y)[::-1][:2]", "np.unique(y)[:2]", "y.reshape(-1, 1)[1:]",
    "np.broadcast_to(y[1:], (2, *y[1:].shape))", "np.tile(y, 2)[3:]", "np.isin(x, y[:2])", "np.full_like(y[1:], 3.0)",
    "np.where(y.shape[0] > 2, x, -x)", "np.where(y.shape[0] == z.shape[0], x, -x)", "np.where(y.shape[0] != 3, x, -x)",
    "x[np.argsort(x)[x > 0]]", "np.take(x, np.argsort(x)[x > 0])", "np.meshgrid(y, z)[0]", "x * (y.shape[0] > 3)", "np.array_split(y, 2)",
    "np.ones((2, 3)) @ x[:3][x[:3] > -5]", "np.sort(y)[None] @ y[::-1, None]", "np.clip(y * 2, -1.1, 1.1, out=y * 0)",
    "(y * 2).clip(-1.1, 1.1)", "np.median(np.stack([y, y], 1), axis=0)", "np.compress(x > 0.3, x)",
    "np.hypot(y, 1.0, where=y > 1, out=y * 1)", "np.cumsum(y[1:])[::-1]", "y[1:].sum(), y[1:].prod(), (y[1:] > 1).any()",
    "np.vstack([y, y])[:, 1:]", "np.take(y, np.arange(y.shape[0]))[1:]", "np.delete(x, 0)[:y.shape[0]]", "np.flip(y[1:])",
    "np.sum(y[1:, None] * y[:-1], 0)",
]  # fmt: skip
ELEMENTS = [
    "y[y.shape[0] // 2]", "y[y.shape[0] - 1]", "y[0]", "y[-1]", "y[1:][0]", "np.percentile(y, 30)", "np.sort(y)[y.shape[0] // 2]",
    "y[1:].max()", "np.nonzero(x > 0)[0].max()", "np.sort(y).min()", "np.ptp(y)", "np.argmax(y[1:])", "y.mean()", "np.dot(y[1:], y[:-1])",
    "y[1:].min(initial=0.5)", "y.std()", "np.ptp(y[1:])",
]  # fmt: skip
WRITES = [
    "c[c > 0] = np.arange(c[c > 0].shape[0])", "m = c > 0; c[m] = c[m][::-1]", "m = c > 0; c[m] = np.sort(c[m])",
    "m = c > 0; c[m] = c[m] + np.roll(c[m], 1)", "y = c[c > 0]; y[1:] += y[:-1]; c[:y.shape[0]] = y", "c[:c[c > 0].shape[0]] = 0",
    "y = c[c > 0]; y[y > 1] = 0; c[c > 0] = y", "i = np.nonzero(c > 0)[0]; c[i[1:]] = c[i[:-1]]",
    "y = c[c > 0]; y[:2] = 7; c[-1:] = y[:1]", "np.put(c, np.flatnonzero(c > 0)[1:], 7.0)", "np.add.at(c, np.flatnonzero(c > 0), 1.0)",
    "c[np.flatnonzero(c > 0)] += 1", "c[np.argsort(c)[c > 0]] = 3.0", "np.put(c, np.nonzero(c > 0)[0], [1.0, 2.0])",
    "d = np.stack([c, c]); d[:, c > 0] -= 1; c[:] = d[1]", "d = np.stack([c, c]); d[:, c > 0] = 2.0 * d[:, c > 0]; c[:] = d[1]",
    "c[1:][c[1:] > 0] *= 2", "np.copyto(c[:c[c > 0].shape[0]], c[c > 0])", "y = c[c > 0]; y.sort(); c[:y.shape[0]] += y",
]  # fmt: skip
VALUES = [
    np.array([0.5, -1.0, 2.0, -3.0, 1.5, -2.0]), np.array([0.5, 1.0, 2.0, 3.0, 1.5, 2.0, 0.1]), -np.ones(5), np.array([-1.0, 3.0, -2.0]),
    np.array([2.5]),
]  # fmt: skip


def program(text, module, indent="    return "):
    names = {"np": module}
    body = f"def f(x):\n    y, z = x[x > 0], x[x <= 0]\n{indent}{text}\n"
    exec(compile(body, "<program>", "exec"), names)
    return names["f"]


def writing(text, module):
    return program(f"{text}; return c", module, indent="    c = x.copy(); ")


def check(make, text, backend, dynamic):
    plain, jitted = make(text, np), fx.jit(make(text, fnp), backend=backend, dynamic=dynamic)
    for x in VALUES:
        expected, got = (oracles.outcome(f, copy.deepcopy(x)) for f in (plain, jitted))
        what = f"{text} of {x}"
        if expected.error is not None:
            oracles.assert_same_error(got.error, expected.error, what=what)
        elif got.error is not None:
            assert isinstance(got.error, fx.errors.DynamicShapeError) and "happens to be 1" in str(got.error), f"{what}: {got.error}"
        else:
            oracles.assert_same(got.value, expected.value, rtol=1e-12, atol=1e-12, what=what)


@pytest.mark.parametrize("text", PROGRAMS + ELEMENTS)
def test_reads(text):
    for dynamic in (False, True):
        check(program, text, "reference", dynamic)


@pytest.mark.parametrize("text", WRITES)
def test_writes(text):
    for dynamic in (False, True):
        check(writing, text, "reference", dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    """Through C++: all that can run in one function."""
    for make, texts in ((program, PROGRAMS[::3] + ELEMENTS[::3]), (writing, WRITES[::3])):
        for text in texts:
            check(make, text, "cpp", dynamic)


def test_masked_writes_of_other_numbers_of_values_say_so():
    def f(x, v):
        x[x > 0.5] = v

    jitted, x = fx.jit(f, backend="reference"), np.array([1.0, 0.0, 2.0, 3.0])
    jitted(x, np.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(x, [5.0, 0.0, 6.0, 7.0])
    x[:] = 0.0
    with pytest.raises(ValueError, match=r"(?s)sizes that depend on data differ: 3 and s0 must be equal.*selected at .*x > 0.5"):
        jitted(x, np.ones(3))
    np.testing.assert_array_equal(x, np.zeros(4))


def check_gradient(make, text, backend):
    """Each result is weighted by place, so that it matters what stands where."""
    f, plain = make(text, fnp), make(text, np)

    def loss(f, module):
        def total(x):
            leaves = [v for v in fx.tree.leaves(f(x)) if np.dtype(v.dtype).kind == "f"]
            return sum(module.sum(module.sin(v * (1.0 + module.arange(v.size).reshape(v.shape)))) for v in leaves)

        return total

    x = VALUES[0]
    steps = 1e-6 * np.eye(x.size)
    expected = [(loss(plain, np)(x + h) - loss(plain, np)(x - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(fx.jit(fx.grad(loss(f, fnp)), backend=backend)(x), expected, rtol=1e-6, atol=1e-7, err_msg=text)


@pytest.mark.parametrize("text", [text for text in PROGRAMS if "searchsorted" not in text and "isin" not in text])
def test_gradients(text):
    check_gradient(program, text, "reference")


@pytest.mark.parametrize("text", WRITES)
def test_gradients_of_writes(text):
    check_gradient(writing, text, "reference")


def test_compiled_gradients():
    for text in PROGRAMS[1::8]:
        check_gradient(program, text, "cpp")
    for text in WRITES[1::4]:
        check_gradient(writing, text, "cpp")


def test_choices_by_the_number_of_what_is_selected():
    def f(x):
        y = x[x > 0]
        doubled = fx.cond(y.shape[0] > 2, lambda: 2.0 * x, lambda: x)
        halved = fx.while_loop(lambda i: i < y.shape[0], lambda i: i + 1, 0)
        return doubled, halved

    for backend in ("reference", "cpp"):
        jitted = fx.jit(f, backend=backend)
        for x in VALUES:
            doubled, halved = jitted(x)
            np.testing.assert_array_equal(doubled, 2.0 * x if (x > 0).sum() > 2 else x)
            assert halved == (x > 0).sum()


def test_questions_without_an_answer_say_what_to_do():
    def f(x):
        return x if x[x > 0].shape[0] > 2 else -x

    with pytest.raises(fx.errors.ConcretizationError, match=r"(?s)whether s0 > 2 depends.*functx.cond"):
        fx.jit(f, backend="reference")(VALUES[0])


# A selection that is first used as an array inside something that is traced for itself, and then again outside.
INSIDE = {
    "fori_loop": lambda x, y: (fx.fori_loop(0, 2, lambda i, c: c + y[i], 0.0), y[0]),
    "scan": lambda x, y: (fx.scan(lambda c, i: (c + y[i], None), 0.0, np.arange(2))[0], y[0]),
    "cond": lambda x, y: (fx.cond(x[0] > 0, lambda: y[0], lambda: y[1]), y[1]),
    "while_loop": lambda x, y: (fx.while_loop(lambda s: s < y[0] * 9, lambda s: s + y[1], 0.5), y.shape[0]),
    "checkpoint": lambda x, y: (fx.checkpoint(lambda z: z * y[0])(x), y[1]),
    "jit": lambda x, y: (fx.jit(lambda z: z * y[0])(x), y[1]),
    "vmap": lambda x, y: (fx.vmap(lambda z: z * y[0])(x), y[1]),
    "grad": lambda x, y: (fx.grad(lambda z: (z * y[0]).sum())(x), y[1]),
    "grad of the selection": lambda x, y: (fx.grad(lambda z: (z * z).sum())(y), y),
    "written": lambda x, y: (fx.fori_loop(0, 2, lambda i, c: (y.__setitem__(i, c), c + 1.0)[1], 0.0), y),
    "written in place": lambda x, y: (fx.fori_loop(0, 2, lambda i, c: (y.__imul__(2.0), c + y[0])[1], 0.0), y),
    "switch": lambda x, y: (fx.switch(np.minimum(y.shape[0], 1), [lambda: y[0], lambda: y[1]]), y),
}


@pytest.mark.parametrize("case", INSIDE)
def test_selections_inside_bodies(case):
    f, x = lambda x: INSIDE[case](x, x[x > 0]), np.array([1.0, -2.0, 3.0, 4.0])
    expected = f(x.copy())
    for backend in ("reference", "cpp"):
        for got, want in zip(fx.tree.leaves(fx.jit(f, backend=backend)(x.copy())), fx.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


SPLIT = [
    lambda x: np.sin(x[x > 0][1:]).sum(), lambda x: np.tanh(np.outer(x[x > 0], x[x > 0])).sum(), lambda x: (np.diff(x[x > 0]) ** 2).sum(),
    lambda x: fx.fori_loop(0, 2, lambda i, c: c + np.sin(x[x > i][1:]).sum(), 0.0), lambda x: np.sort(x[x > 0])[::-1][:2].sum() ** 2,
]  # fmt: skip


@pytest.mark.parametrize("f", SPLIT)
def test_reverse_mode_in_two_halves(f):
    x = np.array([1.0, -2.0, 3.0, 4.0])
    expected = fx.jit(fx.grad(f), backend="reference")(x)
    for backend in ("reference", "cpp"):
        np.testing.assert_allclose(fx.vjp(fx.jit(f, backend=backend), x)[1](1.0)[0], expected, rtol=1e-12)
        np.testing.assert_allclose(fx.jit(fx.grad(fx.jit(f, inline=False)), backend=backend)(x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "f", [lambda x: np.compress(x > 0.3, x), lambda x: np.take(x, np.nonzero(x > 0)[0]), lambda x: x[x > 0] * 2, lambda x: np.nonzero(x)[0]]
)
def test_selections_from_nothing(f):
    for dynamic in (False, True):
        got = fx.jit(f, backend="cpp", dynamic=dynamic)(np.zeros(0))
        np.testing.assert_array_equal(got, f(np.zeros(0)))
    checked = fx.jit(lambda x: (fx.check(f(x).shape[0] <= 0), f(x))[1], backend="cpp")
    assert checked(-np.zeros(3)).shape == (0,)


@fx.custom_vjp
def product(a, b):
    return (a * b).sum()


product.defvjp(lambda a, b: ((a * b).sum(), (a, b)), lambda kept, ct: (kept[1] * ct, kept[0] * ct))
total = fx.jit(lambda a, b: (a + b).sum())


def checked_in_a_loop(a, b):
    def body(i, c):
        fx.check(a.shape[0] >= 3)
        return c + a[2]

    return fx.fori_loop(0, 1, body, 0) + b.sum()


# What is known of sizes after a place that may never run, or is traced again, or forgotten: a (2,) and b (3,) are refused, not read beyond.
KNOWN_AFTER = {
    "a branch": lambda a, b, p: fx.cond(p, lambda: (a + b).sum(), lambda: 0.0) + (a * b).sum(),
    "the other branch": lambda a, b, p: fx.cond(p, lambda: (a * b).sum(), lambda: (a + b).sum()),
    "a body that is traced twice": lambda a, b, p: fx.fori_loop(0, 3, lambda i, c: c + (a + b).sum(), 0),
    "a loop without steps": lambda a, b, p: (fx.while_loop(lambda c: c < 0, lambda c: c + (a + b).sum(), 0.0), (a * b).sum()),
    "a check in a body": lambda a, b, p: checked_in_a_loop(a, b),
    "eval_shape": lambda a, b, p: (fx.eval_shape(lambda: (a + b).sum()), (a + b).sum())[1],
    "a custom rule": lambda a, b, p: fx.value_and_grad(product)(a, b),
    "jit in a branch": lambda a, b, p: fx.cond(p, lambda: total(a, b), lambda: 0.0) + total(a, b),
    "jit of others": lambda a, b, p: total(a, a) + total(a, b),
    "steps of a scan": lambda a, b, p: fx.grad(lambda a: fx.scan(lambda c, i: (c, (a + b).sum()), 0.0, np.arange(2))[1].sum())(a),
}


@pytest.mark.parametrize("case", KNOWN_AFTER)
def test_what_is_known_of_sizes_is_checked_where_they_are_found(case):
    def f(x, m, k, p):
        return KNOWN_AFTER[case](np.sort(x[m]), np.sort(x[k]), p)

    x = np.arange(6.0)
    for backend in ("reference", "cpp"):
        jitted = fx.jit(f, backend=backend)
        for p in (False, True):
            with pytest.raises(fx.errors.DynamicShapeError):
                jitted(x, x < 2, x > 2, p)
            for got, want in zip(fx.tree.leaves(jitted(x, x < 3, x > 2, p)), fx.tree.leaves(f(x, x < 3, x > 2, p)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12)


def test_remainders_of_what_may_be_negative():
    def f(x):
        k = (3 - x.shape[0]) // 2
        return x.sum() + (0.0 if k >= 0 else 100.0)

    for order in ((1, 2, 4, 5, 3), (5, 4, 1)):
        jitted = fx.jit(f, backend="reference")
        assert [float(jitted(np.ones(n))) for n in order] == [f(np.ones(n)) for n in order]
    s = fx.jit(lambda x: np.minimum(0, -np.maximum(0, 1 - x[x < 3].shape[0] % 3)), backend="reference")(np.arange(8.0))
    assert s == -1
