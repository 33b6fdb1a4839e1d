"""Custom rules that call their own function, and close over arrays and traced values."""

import numpy as np
import oracles
import pytest

import functx as fx
from functx.errors import CustomRuleError

X, K, ONES = np.array([0.3, -0.7, 1.1]), np.array([1.0, 2.0, 0.5]), np.ones(3)

# Where the rule calls its function: each gives f(x).
PLACES = {
    "at once": lambda f, x: f(x),
    "in a scan": lambda f, x: fx.scan(lambda c, w: (c + f(x) * w, None), np.zeros(3), np.full(4, 0.25))[0],
    "in a choice": lambda f, x: fx.cond(x[0] > -5, lambda v: f(v), lambda v: v, x),
    "in a while": lambda f, x: fx.while_loop(lambda s: s[1] < 1, lambda s: (f(x), s[1] + 1), (x, 0))[0],
    "in a loop in a choice": lambda f, x: fx.cond(x[0] > -5, lambda v: fx.fori_loop(0, 2, lambda i, c: f(v), v), lambda v: v, x),
    "in a jit": lambda f, x: fx.jit(lambda x: f(x))(x),
    "in a checkpoint": lambda f, x: fx.checkpoint(lambda x: f(x))(x),
}


def by_vjp(place, k):
    @fx.custom_vjp
    def f(x):
        return np.sin(x) * ONES

    f.defvjp(lambda x: (PLACES[place](f, x), x), lambda x, ct: (ct * np.sqrt(1 - PLACES[place](f, x) ** 2) * k,))
    return f


def by_jvp(place, k):
    @fx.custom_jvp
    def f(x):
        return np.sin(x) * ONES

    f.defjvp(lambda primals, tangents: (PLACES[place](f, *primals), np.sqrt(1 - PLACES[place](f, *primals) ** 2) * k * tangents[0]))
    return f


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", [by_vjp, by_jvp])
def test_a_rule_that_calls_its_function_may_close_over_values(rule, place):
    for k in (K, 2.0):

        def g(x, k=k):
            return rule(place, k)(x).sum()

        for run in (lambda f: f, oracles.reference_jit):
            np.testing.assert_allclose(run(fx.grad(g))(X), np.cos(X) * k)
            np.testing.assert_allclose(run(fx.vmap(fx.grad(g)))(np.stack([X, -X])), [np.cos(X) * k] * 2)
            np.testing.assert_allclose(run(lambda x, g=g: fx.jvp(g, (x,), (K,))[1])(X), (np.cos(X) * k * K).sum())
        second = fx.grad(lambda x, g=g: (fx.grad(g)(x) * K).sum())(X)  # of sqrt(1 - f**2) with f' = cos * k
        np.testing.assert_allclose(second, -np.sin(X) / np.cos(X) * np.cos(X) * k * k * K)
    traced = oracles.reference_jit(lambda x, k: fx.vmap(lambda k: fx.grad(lambda x: rule(place, k)(x).sum())(x))(k))
    np.testing.assert_allclose(traced(X, np.array([1.0, 3.0])), np.outer([1.0, 3.0], np.cos(X)))


@pytest.mark.parametrize("rule", [by_vjp, by_jvp])
def test_where_it_cannot_be_handed_on_is_an_error(rule, monkeypatch):
    def inside(f, x):
        other = fx.custom_jvp(lambda x: f(x) * 1.0)
        other.defjvp(lambda primals, tangents: (other(*primals), tangents[0]))
        return other(x)

    monkeypatch.setitem(PLACES, "in another rule", inside)
    with pytest.raises(CustomRuleError, match="calls f inside another custom rule") as caught:
        fx.grad(lambda x: rule("in another rule", K)(x).sum())(X)
    assert "pass the value as an argument" in str(caught.value)
