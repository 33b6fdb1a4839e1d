"""custom_jvp and custom_vjp under every transform, at every order, with rules that call themselves."""

import functools

import numpy as np
import pytest
from regimes import tree_close

import functx as fx
from functx.errors import ConcretizationError, CustomRuleError, DroppedGradientError, NonLinearError


def jit(f):
    return fx.jit(f, backend="reference")


def array(*values):
    return np.array(values, float)


def sine_vjp():
    """sin whose first derivative is doubled, so that one sees whether the rule is used; the rule calls the function itself."""

    @fx.custom_vjp
    def s(x):
        return np.sin(x)

    s.defvjp(lambda x: (s(x), x), lambda x, g: (2.0 * g * np.cos(x),))
    return s


def sine_jvp():
    @fx.custom_jvp
    def s(x):
        return np.sin(x)

    @s.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return s(x), 2.0 * np.cos(x) * t

    return s


@pytest.mark.parametrize("make", [sine_vjp, sine_jvp])
def test_the_rule_is_used_by_every_transform_and_order(make):
    s, x = make(), array(0.3, 1.1)
    first, second = 2 * np.cos(x), -2 * np.sin(x)

    def total(x):
        return s(x).sum()

    tree_close(s(x), np.sin(x))
    for run in (
        fx.grad(total),
        jit(fx.grad(total)),
        fx.grad(jit(total)),
        fx.grad(fx.checkpoint(total)),
        fx.vmap(fx.grad(s)),
        jit(fx.vmap(fx.grad(jit(s)))),
        fx.grad(lambda x: fx.vmap(s)(x).sum()),
        fx.grad(lambda x: fx.vmap(fx.vmap(s))(x[None]).sum()),
        lambda x: fx.vjp(s, x)[1](np.ones(2))[0],
        lambda x: fx.jvp(s, (x,), (np.ones(2),))[1],
        lambda x: fx.jvp(fx.vmap(s), (x,), (np.ones(2),))[1],
        lambda x: fx.vmap(lambda v, t: fx.jvp(s, (v,), (t,))[1])(x, np.ones(2)),
    ):
        tree_close(run(x), first)
    for run in (
        fx.grad(lambda x: fx.grad(total)(x).sum()),
        jit(fx.grad(lambda x: fx.grad(total)(x).sum())),
        fx.vmap(fx.grad(fx.grad(s))),
        fx.grad(lambda x: fx.vmap(fx.grad(s))(x).sum()),
        lambda x: fx.jvp(fx.grad(total), (x,), (np.ones(2),))[1],
        fx.grad(lambda x: fx.jvp(s, (x,), (np.ones(2),))[1].sum()),
        lambda x: fx.jvp(lambda x: fx.jvp(s, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1],
    ):
        tree_close(run(x), second)


@pytest.mark.parametrize("make", [sine_vjp, sine_jvp])
def test_a_rule_that_uses_its_own_value_is_differentiated_with_the_rule(make):
    if make is sine_vjp:

        @fx.custom_vjp
        def f(x):
            return np.exp(x)

        f.defvjp(lambda x: ((y := f(x)), y), lambda y, g: (3.0 * g * y,))
    else:

        @fx.custom_jvp
        def f(x):
            return np.exp(x)

        f.defjvp(lambda primals, tangents: ((y := f(*primals)), 3.0 * y * tangents[0]))
    derivative, value = f, np.exp(0.5)
    for order in range(1, 4):
        derivative = fx.grad(derivative)
        np.testing.assert_allclose(derivative(0.5), 3.0**order * value)
        np.testing.assert_allclose(jit(derivative)(0.5), 3.0**order * value)
        np.testing.assert_allclose(fx.vmap(derivative)(array(0.5, 0.5)), 3.0**order * value)
    np.testing.assert_allclose(fx.grad(lambda x: fx.grad(lambda x: fx.vmap(f)(x).sum())(x).sum())(array(0.5)), 9 * value)


def swapping():
    """Its rule calls it with the arguments exchanged, so that under vmap other operands depend on the lane than outside."""

    @fx.custom_vjp
    def f(x, y):
        return np.sin(x) * y * y

    def bwd(residuals, g):
        x, y, swapped, same = residuals
        return g * np.cos(x) * y * y + 0.5 * g * swapped, 2 * g * np.sin(x) * y + 0.1 * g * same

    f.defvjp(lambda x, y: (f(x, y), (x, y, f(y, x), f(y, y))), bwd)
    return f


@pytest.mark.parametrize("mapped", [0, 1])
def test_a_rule_that_calls_itself_with_other_operands_under_vmap(mapped):
    f, xs, y = swapping(), array(0.2, 0.7, -0.5), np.float64(0.4)
    in_axes = (0, None) if mapped == 0 else (None, 0)

    def ordered(a, b):
        return (a, b) if mapped == 0 else (b, a)

    def by_vmap(xs, y):
        return fx.vmap(f, in_axes)(*ordered(xs, y)).sum()

    def by_loop(xs, y):
        return sum(f(*ordered(xs[i], y)) for i in range(3))

    def second(f, first, then):
        return fx.grad(lambda *args: np.sum(fx.grad(f, first)(*args)), then)

    for first in (0, 1):
        tree_close(fx.grad(by_vmap, first)(xs, y), fx.grad(by_loop, first)(xs, y))
        for then in (0, 1):
            expected = second(by_loop, first, then)(xs, y)
            tree_close(second(by_vmap, first, then)(xs, y), expected)
            tree_close(jit(second(by_vmap, first, then))(xs, y), expected)


def test_a_derivative_inside_its_own_rule_is_refused():
    @fx.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * fx.grad(f)(x),))
    with pytest.raises(CustomRuleError, match="inside its own custom rule"):
        fx.grad(f)(1.0)


def test_arguments_in_containers_static_ones_and_integers():
    @fx.custom_vjp
    def f(p, n, mode):
        return {"out": p["w"] * p["x"] * n if mode == "mul" else p["w"], "n": n}

    def fwd(p, n, mode):
        return f(p, n, mode), (p, n)

    def bwd(residuals, ct):
        p, n = residuals
        return {"w": ct["out"] * p["x"] * n * 10, "x": ct["out"] * 0.0}, None, None

    f.defvjp(fwd, bwd)
    p = {"w": array(1, 2), "x": array(3, 4)}
    for run in (lambda g: g, jit):
        got = run(fx.grad(lambda p: f(p, np.int64(2), "mul")["out"].sum()))(p)
        tree_close(got, {"w": array(60, 80), "x": array(0, 0)})
    tree_close(f(p, 2, "mul"), {"out": array(6, 16), "n": 2})


def test_none_cotangents_and_broadcast_scalars():
    @fx.custom_vjp
    def f(x, y):
        return (x * y).sum()

    f.defvjp(lambda x, y: (f(x, y), None), lambda r, g: (None, 7.0))
    x, y = array(1, 2), array(3, 4)
    tree_close(fx.grad(f, (0, 1))(x, y), (array(0, 0), array(7, 7)))
    single = np.ones(2, np.float32)
    assert fx.grad(f, 1)(x, single).dtype == np.float32


def test_none_stands_for_leaves_and_containers_in_what_a_rule_returns():
    @fx.custom_vjp
    def f(x, p, q):
        return x * p["w"] * q[0], p["n"] + 1

    f.defvjp(lambda x, p, q: (f(x, p, q), (x, p)), lambda r, g: (g[0] * 10, {"w": g[0] * r[0] * 20, "n": None}, None))
    x, p, q = array(1, 2), {"w": array(3, 5), "n": np.int64(3)}, (2.0, array(1, 1))
    expected = (array(10, 10), {"w": array(20, 40), "n": None}, (0.0, array(0, 0)))
    loss = fx.grad(lambda x, p, q: f(x, p, q)[0].sum(), (0, 1, 2))
    for run in (loss, jit(loss), fx.checkpoint(loss)):
        tree_close(run(x, p, q), expected)

    @fx.custom_jvp
    def g(x):
        return {"y": np.sin(x), "place": np.argmax(x), "more": (np.argmin(x), x.sum())}

    @g.defjvp
    def g_jvp(primals, tangents):
        return g(*primals), {"y": 3.0 * tangents[0], "place": None, "more": None}

    expected = {"y": array(3, 3), "place": None, "more": (None, np.float64(0))}
    push = lambda x: fx.jvp(g, (x,), (array(1, 1),))[1]  # noqa: E731 - run in two ways
    tree_close(push(x), expected)
    tree_close(jit(push)(x), expected)
    tree_close(fx.grad(lambda x: g(x)["y"].sum() + g(x)["more"][1])(x), array(3, 3))
    tree_close(fx.vmap(fx.grad(lambda x: g(x)["y"].sum()))(np.stack([x, x])), np.full((2, 2), 3.0))


def test_a_rule_returns_the_containers_that_it_should():
    f = fx.custom_vjp(lambda p: p["a"] * p["b"])
    f.defvjp(lambda p: (f(p), None), lambda _, g: ((g, g),))
    with pytest.raises(CustomRuleError, match="cotangent of argument 'p' has structure"):
        fx.grad(f)({"a": 1.0, "b": 2.0})
    g = fx.custom_jvp(lambda x: {"a": x, "b": x})
    for wrong in (lambda p, t: (g(*p), (t[0], t[0])), lambda p, t: (g(*p), {"a": t[0], "c": t[0]}), lambda p, t: ((*p, *p), g(*p))):
        g.defjvp(wrong)
        with pytest.raises(CustomRuleError, match="has a rule"):
            fx.grad(lambda x: g(x)["a"])(1.0)


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_rule_may_use_the_size_of_a_named_axis(how):
    """Two maps of other sizes in one trace call it with the same types."""
    f = fx.custom_vjp(lambda x: x / fx.axis_size("i"))
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * fx.psum(1.0, "i"),))
    g = fx.custom_jvp(lambda x: x / fx.psum(1, "i"))
    g.defjvp(lambda p, t: (g(*p), t[0] * fx.axis_size("i")))
    for rule in (f, g):
        both = how(lambda x, y, rule=rule: (fx.vmap(rule, axis_name="i")(x), fx.vmap(rule, axis_name="i")(y)))
        tree_close(both(np.ones(2), np.ones(4)), (np.full(2, 0.5), np.full(4, 0.25)))
        gradient = how(fx.grad(lambda x, y, both=both: sum(v.sum() for v in both(x, y)), (0, 1)))
        tree_close(gradient(np.ones(2), np.ones(4)), (np.full(2, 2.0), np.full(4, 4.0)))


def test_what_a_rule_closes_over():
    k = array(2, 3)

    def outer(x, scale):
        @fx.custom_vjp
        def f(x):
            return x * k * scale

        f.defvjp(lambda x: (f(x), None), lambda r, g: (g * k * scale * 10,))
        return f(x).sum()

    x = array(1, 1)
    tree_close(fx.grad(outer)(x, 2.0), array(40, 60))
    tree_close(jit(fx.grad(outer))(x, 2.0), array(40, 60))
    tree_close(fx.vmap(fx.grad(outer), in_axes=(None, 0))(x, array(1, 2)), np.array([[20.0, 30.0], [40.0, 60.0]]))
    with pytest.raises(CustomRuleError, match="closes over a value that is being differentiated"):
        fx.grad(outer, 1)(x, 2.0)
    g = jit(fx.grad(outer))
    tree_close(g(x, 2.0), array(40, 60))
    k[:] = 1.0
    tree_close(g(x, 2.0), array(20, 20))  # a captured array is read at every call


def test_python_values_that_a_rule_reads_may_change_between_calls():
    factor = 1.0

    @fx.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda r, g: (g * factor,))
    assert fx.grad(f)(1.0) == 1.0
    factor = 5.0
    assert fx.grad(f)(1.0) == 5.0
    assert fx.vjp(f, 1.0)[1](1.0) == (5.0,)


def test_rules_see_known_values():
    @fx.custom_vjp
    def f(x):
        return x * 2 if x > 0 else x * 3

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * 20 if x > 0 else g * 30,))
    assert fx.grad(f)(1.0) == 20.0 and fx.grad(f)(-1.0) == 30.0 and fx.grad(f)(1.0) == 20.0
    assert fx.grad(lambda x: f(x) + f(-x))(1.0) == 20.0 - 30.0
    assert jit(fx.grad(f))(-1.0) == 30.0  # a Python scalar specializes
    with pytest.raises(ConcretizationError):
        jit(fx.grad(f))(np.float64(1.0))
    with pytest.raises(ConcretizationError):
        fx.vmap(f)(array(1, 2))

    @fx.custom_vjp
    def h(x):
        return float(x)

    h.defvjp(lambda x: (h(x), None), lambda r, g: (g,))
    with pytest.raises(DroppedGradientError):
        fx.grad(h)(1.0)


def test_forward_mode_needs_a_backward_rule_that_is_linear():
    @fx.custom_vjp
    def clipped(x):
        return x * 1.0

    clipped.defvjp(lambda x: (clipped(x), None), lambda r, g: (np.clip(g, -1.0, 1.0),))
    assert fx.grad(lambda x: 5 * clipped(x))(2.0) == 1.0
    with pytest.raises(NonLinearError, match="linear") as caught:
        fx.jvp(clipped, (1.0,), (1.0,))
    assert "'max'" in str(caught.value) or "'min'" in str(caught.value)
    assert "test_custom_rules.py" in str(caught.value)


def test_methods_and_several_results():
    class Scaled:
        factor = 3.0

        @fx.custom_vjp
        def apply(self, x):
            return x * self.factor, x

    Scaled.apply.defvjp(lambda self, x: (self.apply(x), x), lambda r, g: (None, g[0] * 30 + g[1]))
    fx.tree.dataclass(Scaled)
    a, b = Scaled().apply(2.0)
    assert (a, b) == (6.0, 2.0)
    assert fx.grad(lambda x: Scaled().apply(x)[0])(2.0) == 30.0
    assert fx.grad(lambda x: sum(Scaled().apply(x)))(2.0) == 31.0


ERRORS = {
    "no rule": (lambda f: None, "before its rule was set"),
    "fwd without residuals": (lambda f: f.defvjp(lambda x: x, lambda r, g: (g,)), "return out, residuals"),
    "too many cotangents": (lambda f: f.defvjp(lambda x: (x, None), lambda r, g: (g, g)), "2 cotangents for 1"),
    "cotangent of another shape": (lambda f: f.defvjp(lambda x: (x, None), lambda r, g: (np.ones(3),)), r"\(3,\)"),
    "container cotangent": (lambda f: f.defvjp(lambda x: (x, None), lambda r, g: ({"a": g, "b": g},)), "structure"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_rules_that_do_not_fit_are_refused(name):
    define, message = ERRORS[name]

    @fx.custom_vjp
    def f(x):
        return x * 1.0

    define(f)
    with pytest.raises(CustomRuleError, match=message) as caught:
        fx.grad(lambda x: f(x).sum())(array(1, 2))
    assert "test_custom_rules.py" in str(caught.value) and len(str(caught.value).splitlines()) <= 15
    tree_close(f(array(1, 2)), array(1, 2))


def test_a_rule_for_a_function_that_writes_is_refused():
    @fx.custom_vjp
    def f(x):
        x += 1
        return x.sum()

    f.defvjp(lambda x: (f(x), None), lambda r, g: (g,))
    x = array(1, 2)
    with pytest.raises(CustomRuleError, match="writes to its arguments"):
        fx.grad(f)(x)
    assert x.tolist() == [1, 2]


def test_the_same_rule_for_several_types_and_calls():
    s = sine_vjp()

    def loss(x, y):
        return s(x).sum() + s(y).sum() + s(s(x)).sum() + s(x.reshape(1, -1)).sum()

    x, y = array(0.3, 0.2), np.float64(0.7)
    gx, gy = fx.grad(loss, (0, 1))(x, y)
    tree_close(gy, 2 * np.cos(y))
    tree_close(gx, 2 * np.cos(x) * (2 + 2 * np.cos(np.sin(x))))
    tree_close(jit(fx.grad(loss, (0, 1)))(x, y), (gx, gy))


def applied():
    """Its rule gets a function and a number as they are."""

    @functools.partial(fx.custom_vjp, nondiff_argnums=(0, 2))
    def f(g, x, n=2):
        return g(x) * n

    f.defvjp(lambda g, x, n: (f(g, x, n), g(x)), lambda g, n, y, ct: (ct * n * 100.0 * y,))
    return f


def test_arguments_that_a_rule_takes_as_they_are():
    f = applied()
    assert f(np.sin, 1.0) == 2 * np.sin(1.0)
    for wrap in (lambda g: g, jit):
        np.testing.assert_allclose(wrap(fx.grad(lambda x: f(np.sin, x)))(1.0), 200 * np.sin(1.0))
        np.testing.assert_allclose(wrap(fx.grad(lambda x: f(np.cos, n=5, x=x)))(1.0), 500 * np.cos(1.0))
        np.testing.assert_allclose(wrap(fx.vmap(fx.grad(lambda x: f(np.cos, x, [3][0]))))(array(1, 2)), 300 * np.cos(array(1, 2)))
    both = fx.grad(lambda x: f(np.sin, x, 1) + f(np.cos, x, 1) + f(np.cos, x, 2))(1.0)
    np.testing.assert_allclose(both, 100 * (np.sin(1.0) + 3 * np.cos(1.0)))
    k = array(1, 2)
    np.testing.assert_allclose(fx.grad(lambda x: f(lambda v: v * k, x).sum())(array(1, 1)), 200 * k)
    with pytest.raises(CustomRuleError, match="closes over a value that is being differentiated"):
        fx.grad(lambda x: f(lambda v: v * x, 2.0))(1.0)
    late = fx.custom_jvp(lambda x: x, nondiff_argnums=3)
    with pytest.raises(CustomRuleError, match="called with 1 arguments, so that nondiff_argnums 3 names none"):
        fx.grad(late)(1.0)


def test_a_rule_that_calls_itself_with_other_static_arguments():
    """A family f_n with f_n' = f_(n-1) - f_(n+1): every call of the rule needs two more."""

    @functools.partial(fx.custom_jvp, nondiff_argnums=(0,))
    def f(n, x):
        return np.exp(x * 0.5) * (n + 1)

    @f.defjvp
    def rule(n, primals, tangents):
        (x,), (t,) = primals, tangents
        return f(n, x), (f(n - 1, x) - 2 * f(n + 1, x)) * t

    def derivative(n, order, x):
        if order == 0:
            return np.exp(x * 0.5) * (n + 1)
        return derivative(n - 1, order - 1, x) - 2 * derivative(n + 1, order - 1, x)

    g = lambda x: f(3, x)  # noqa: E731
    for order in range(5):
        np.testing.assert_allclose(g(0.7), derivative(3, order, 0.7), rtol=1e-12)
        if order < 3:
            np.testing.assert_allclose(jit(g)(0.7), derivative(3, order, 0.7), rtol=1e-12)
            np.testing.assert_allclose(fx.vmap(g)(array(0.7, 0.2)), [derivative(3, order, v) for v in (0.7, 0.2)], rtol=1e-12)
        g = fx.grad(g)
    with pytest.raises(CustomRuleError, match="inside its own custom rule"):
        g(0.7)


def test_defaults_are_arguments_of_the_rule():
    @fx.custom_vjp
    def f(x, k=3.0):
        return x * k

    f.defvjp(lambda x, k: (f(x, k), (x, k)), lambda r, g: (10 * g * r[1], 20 * g * r[0]))
    assert fx.grad(f)(2.0) == 30.0 and fx.grad(lambda x: f(x, k=1.0))(2.0) == 10.0
    assert fx.grad(lambda k: f(2.0, k=k))(1.0) == 40.0

    @fx.custom_vjp
    def by_keyword(x, *, k=1.0):
        return x * k

    by_keyword.defvjp(lambda x: (x, None), lambda r, g: (g,))
    assert fx.grad(by_keyword)(2.0) == 1.0
    with pytest.raises(CustomRuleError, match=r"takes \['k'\] by keyword only"):
        fx.grad(lambda x: by_keyword(x, k=2.0))(2.0)


def test_messages_name_the_argument():
    def rule(bwd):
        f = fx.custom_vjp(lambda weights, n: (weights["w"] * n).sum())
        f.defvjp(lambda weights, n: (f(weights, n), None), bwd)
        return f

    w = {"w": array(1, 2)}
    for bwd, parts in [
        (lambda r, g: (None,), ["1 cotangents for 2 arguments", "(weights, n)"]),
        (lambda r, g: ({"w": np.ones(3)}, None), ["'weights['w']'", "(3,)", "(2,)"]),
        (lambda r, g: ({"w": np.ones(2) * 1j}, None), ["'weights['w']'", "complex128", "float64", "real part"]),
        (lambda r, g: ((g, g), None), ["argument 'weights'", "structure"]),
    ]:
        with pytest.raises(CustomRuleError) as caught:
            fx.grad(rule(bwd))(w, 2.0)
        text = str(caught.value)
        assert all(part in text for part in (*parts, "test_custom_rules.py")), text
    with pytest.raises(TypeError, match="custom_vjp takes a function"):
        fx.custom_vjp(3)


def test_rules_under_the_other_transforms():
    s, x = sine_vjp(), array(0.3, 1.1)
    tree_close(fx.jacrev(s)(x), np.diag(2 * np.cos(x)))
    tree_close(fx.jacfwd(s)(x), np.diag(2 * np.cos(x)))
    tree_close(fx.hessian(lambda x: s(x).sum())(x), np.diag(-2 * np.sin(x)))
    tree_close(fx.linearize(s, x)[1](np.ones(2)), 2 * np.cos(x))
