"""Which forward values a backward side keeps: known answers, invariants over random programs, budgets."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import scalar, smooth_program

import functx as fx
from functx.errors import UnknownOptionError
from functx.transforms.partition import regions
from functx.transforms.pipeline import simplify
from functx.transforms.planning import MODES, peak_bytes

RNG = np.random.default_rng(0)


def rand(*shape):
    return RNG.standard_normal(shape)


def saved(f, *args, argnums=0, **options):
    """What is kept beside arguments and results: primitive and bytes, largest first."""
    parts = fx.joint_graph(f, argnums)(*args).partition(**options)
    return sorted(((r.primitive, r.nbytes) for r in parts.residuals if r.nbytes), key=lambda r: -r[1])


def again(f, *args, argnums=0, **options):
    """The primitives that the backward half computes again."""
    return {r.primitive for r in fx.joint_graph(f, argnums)(*args).partition(**options).residuals if not r.saved}


# --- known answers ------------------------------------------------------------------------------------------------------------------------


def test_a_product_is_saved_and_the_function_after_it_computed_again():
    def f(x, w):
        return np.tanh(x @ w).sum()

    x, w = rand(64, 32), rand(32, 16)
    assert saved(f, x, w, argnums=(0, 1)) == [("dot_general", 64 * 16 * 8)]
    assert "tanh" in again(f, x, w, argnums=(0, 1))
    assert saved(lambda x, w: np.tanh(np.tanh(x @ w)).sum(), x, w, argnums=(0, 1)) == [("dot_general", 64 * 16 * 8)]


def test_relu_keeps_a_mask_or_nothing_beside_its_result():
    relu = fx.nn.relu

    def weighted(x, y):
        return (relu(x * 3.0) * y).sum()

    assert saved(lambda x, w: relu(x @ w).sum(), rand(64, 32), rand(32, 16), argnums=(0, 1)) == [("gt", 64 * 16)]
    assert saved(lambda x, w: relu(x @ w), rand(8), rand(8)) == []
    result = fx.joint_graph(lambda x, w: ((y := relu(x @ w)).sum(), y), (0, 1), has_aux=True)(rand(64, 32), rand(32, 16)).partition()
    assert result.nbytes == 0 and weighted(np.ones(3), np.ones(3)) == 9.0


def test_layers_keep_what_both_products_read():
    def f(x, w, v):
        return (fx.nn.relu(x @ w) @ v).sum()

    args = rand(64, 32), rand(32, 16), rand(16, 4)
    assert saved(f, *args, argnums=(1, 2)) == [("max", 64 * 16 * 8)]  # the derivative can be told from the result
    assert saved(lambda w, x: fx.nn.relu(x @ w).sum(), args[1], args[0]) == [("gt", 64 * 16)]


def test_layer_norm_keeps_two_numbers_per_row():
    def f(x, w, b):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (((x - mean) / np.sqrt(var + 1e-5) * w + b) ** 2).sum()

    assert sum(n for _, n in saved(f, rand(64, 32), rand(32), rand(32), argnums=(0, 1, 2))) == 2 * 64 * 8


def test_cross_entropy_keeps_numbers_per_row():
    def f(x, target):
        shifted = x - x.max(-1, keepdims=True)
        logits = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        return -logits[np.arange(64), target].mean()

    kept = saved(f, rand(64, 32), RNG.integers(0, 32, 64))
    assert sum(n for _, n in kept) <= 3 * 64 * 8


def test_attention_keeps_the_weights_and_not_the_scores():
    def f(q, k, v):
        scores = q @ k.T / 4.0
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).sum()

    kept = saved(f, rand(64, 16), rand(64, 16), rand(64, 16), argnums=(0, 1, 2))
    assert sum(n >= 64 * 64 * 8 for _, n in kept) == 1


CHAINS = {
    "three cosines": (lambda x: np.cos(np.cos(np.cos(x))).sum(), 0),
    "a sum of four": (lambda x: np.cos(np.cos(x + 1.0 + 2.0)).sum(), 0),
    "a product of three": (lambda x: (x * x * x).sum(), 0),
    "a sum": (lambda x: x.sum(axis=1).sum(), 0),
    "sines of a part": (lambda x: (np.sin(np.sin(x[2:])) + 1.0).sum(), 0),
    "a concatenation": (lambda x: np.concatenate([x, x + 1.0]).sum(), 0),
}


@pytest.mark.parametrize(("f", "nbytes"), CHAINS.values(), ids=CHAINS)
def test_chains_of_cheap_operations_keep_their_input_alone(f, nbytes):
    assert sum(n for _, n in saved(f, rand(16, 8))) == nbytes
    assert sum(n for _, n in saved(f, rand(16, 8), mode="recompute_all")) == nbytes


def test_chained_functions_of_a_computed_value_keep_one_array():
    assert len(saved(lambda x, w: np.sin(np.cos(np.sin(x @ w))).sum(), rand(8, 8), rand(8, 8))) == 1
    assert len(saved(lambda x, w: np.sin(np.cos(np.sin(x @ w))).sum(), rand(8, 8), rand(8, 8), mode="save_all")) == 3


def test_one_array_stands_for_many_that_it_is_computed_from():
    args = [rand(16, 8) for _ in range(4)]
    assert saved(lambda a, b, c, d: np.cos(np.cos(a + b + c + d)).sum(), *args, argnums=range(4)) == [("add", 16 * 8 * 8)]


def test_a_checkpoint_keeps_its_inputs_alone_whatever_the_budget():
    block = fx.checkpoint(lambda x: np.sin(np.sin(np.sin(x) @ np.ones((8, 8)))))
    for options in ({}, {"memory_budget": 0.5}, {"mode": "save_all"}):
        kept = saved(lambda x: block(x * x * x).sum(), rand(16, 8), **options)
        assert all(name == "mul" for name, _ in kept), kept


def test_long_chains_are_cut():
    def f(x):
        for _ in range(100):
            x = np.sin(x)
        return x.sum()

    assert 2 <= len(saved(f, rand(64))) <= 5


def test_a_running_mean_that_is_updated_keeps_its_value_before():
    def f(x, mean):
        loss = ((x - mean) ** 2 * mean).sum()
        mean *= 0.9
        mean += 0.1 * x.mean(0)
        return loss

    x, mean = rand(16, 8), rand(8)
    before = mean.copy()
    out, pull = fx.vjp(fx.jit(f), x, mean)
    np.testing.assert_allclose(pull(1.0)[0], 2 * (x - before) * before)
    np.testing.assert_allclose(mean, 0.9 * before + 0.1 * x.mean(0))


# --- regions ------------------------------------------------------------------------------------------------------------------------------


def test_nested_passes_have_one_cut_each():
    def loss(x):
        return np.tanh(x * x).sum()

    graph = simplify(fx.make_ir(fx.grad(lambda x: (fx.grad(loss)(x) ** 2).sum()))(rand(8)))
    assert len(regions(graph)) == 1

    def step(x):
        y = x - 0.1 * fx.grad(loss)(x)
        return y - 0.1 * fx.grad(loss)(y)

    assert len(regions(simplify(fx.make_ir(step)(rand(8))))) == 2


# --- budgets ------------------------------------------------------------------------------------------------------------------------------


def deep(x, *weights):
    for w in weights:
        x = np.tanh(x @ w)
    return (x * x).sum()


DEEP = [rand(64, 32), *(rand(32, 32) / 6 for _ in range(8))]
BUDGETS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)


@pytest.mark.parametrize("knapsack", ["exact", "greedy"])
def test_a_budget_bounds_what_is_kept_and_changes_no_result(knapsack):
    whole = fx.joint_graph(deep, range(9))(*DEEP).partition().nbytes
    expected = fx.grad(deep, range(9))(*DEEP)
    for budget in BUDGETS:
        assert fx.joint_graph(deep, range(9))(*DEEP).partition(memory_budget=budget, knapsack=knapsack).nbytes <= budget * whole
        for run in (
            fx.jit(fx.grad(deep, range(9)), memory_budget=budget, knapsack=knapsack, backend="reference"),
            lambda *args, b=budget: fx.vjp(fx.jit(deep, memory_budget=b, knapsack=knapsack, backend="reference"), *args)[1](1.0),
        ):
            for got, wanted in zip(run(*DEEP), expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    assert fx.joint_graph(deep, range(9))(*DEEP).partition(memory_budget=3 * 64 * 32 * 8).nbytes == 3 * 64 * 32 * 8


def test_less_budget_never_needs_more_memory():
    peaks = [peak_bytes(fx.jit(fx.grad(deep, range(9)), memory_budget=b).ir(*DEEP)) for b in BUDGETS]
    assert peaks == sorted(peaks, reverse=True)


def test_options_that_are_not_known_raise():
    for options in ({"partition": "some"}, {"knapsack": "other"}, {"memory_budget": -1.0}, {"memory_budget": "half"}):
        with pytest.raises(UnknownOptionError, match="use one of|give a float"):
            fx.jit(np.sin, **options)


# --- two compiled halves ------------------------------------------------------------------------------------------------------------------


def test_vjp_of_a_jitted_function_runs_two_compiled_halves():
    def f(p, x, scale):
        h = np.tanh(x @ p["w"])
        return (h @ p["v"]).sum() * scale, h, "label"

    p = {"w": rand(3, 4), "v": rand(4, 2), "n": np.arange(3)}
    x = rand(5, 3)
    jitted = fx.jit(f)
    for cotangent in ((1.0, None, None), (None, rand(5, 4), None), (2.0, rand(5, 4), None)):
        plain, plain_pull = fx.vjp(f, p, x, 2.0)
        out, pull = fx.vjp(jitted, p, x, 2.0)
        fx.tree.map(lambda a, b: np.testing.assert_allclose(a, b) if not isinstance(a, str) else None, out, plain)
        for _ in range(2):
            got, expected = pull(cotangent), plain_pull(cotangent)
            assert fx.tree.structure(got) == fx.tree.structure(expected) and got[0]["n"] is None and type(got[2]) is float
            fx.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, expected)
    grown = fx.grad(lambda x: pull((x, None, None))[1].sum())(1.0)  # linear in the cotangent, and traced like anything else
    np.testing.assert_allclose(grown, plain_pull((1.0, None, None))[1].sum())
    assert fx.vmap(lambda c: pull((c, None, None))[1])(np.arange(3.0)).shape == (3, 5, 3)


def test_residuals_are_values_of_the_call():
    x = rand(4)
    out, pull = fx.vjp(fx.jit(lambda x: (x**3).sum()), x)
    expected = 3 * x**2
    x[:] = 0.0
    np.testing.assert_allclose(pull(1.0)[0], expected)


def test_auxiliary_data_and_changes_to_arguments():
    def f(x):
        x *= 2.0
        return (x * x).sum(), {"first": x[0]}

    x = np.array([1.0, 2.0])
    out, pull, aux = fx.vjp(fx.jit(f), x, has_aux=True)
    assert out == 20.0 and aux == {"first": 2.0} and x.tolist() == [2, 4] and pull(1.0)[0].tolist() == [8, 16]


# --- random programs ----------------------------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
@settings(max_examples=3 * settings().max_examples // 2)
def test_no_partition_changes_a_result(random):
    inputs = [np.round(np.sin(np.arange(6.0) * (1.3 + i)), 2).reshape(2, 3) for i in range(3)]
    program = smooth_program(random, inputs, random.randrange(4, 14))

    def f(*args):
        return scalar(program.run(*args))

    arguments = range(len(inputs))
    expected = fx.grad(f, arguments)(*inputs)
    options = {
        "partition": random.choice(MODES),
        "memory_budget": random.choice([None, 0.0, 0.3, 0.7, 100, 500]),
        "knapsack": random.choice(["exact", "greedy"]),
    }
    text = f"{options}\n{program.text}"
    jitted = fx.jit(fx.grad(f, arguments), backend="reference", **options)(*inputs)
    value, pull = fx.vjp(fx.jit(f, backend="reference", **options), *inputs)
    second = fx.jit(fx.grad(lambda *args: sum((g**2).sum() for g in fx.grad(f, arguments)(*args))), backend="reference", **options)
    plain_second = fx.grad(lambda *args: sum((g**2).sum() for g in fx.grad(f, arguments)(*args)))(*inputs)
    np.testing.assert_allclose(value, f(*inputs), rtol=1e-12, err_msg=text)
    np.testing.assert_allclose(second(*inputs), plain_second, rtol=1e-10, atol=1e-10, err_msg=text)
    for got, pulled, wanted in zip(jitted, pull(1.0), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12, err_msg=text)
        np.testing.assert_allclose(pulled, wanted, rtol=1e-12, atol=1e-12, err_msg=text)


def test_static_arguments_of_a_jitted_function():
    class Scale:
        def __init__(self, by):
            self.by = by

    @functools.partial(fx.jit, static_argnums=(0, 2))
    def f(scale, x, power):
        return (x**power).sum() * scale.by

    x = np.array([1.0, 2.0])
    for _ in range(2):
        out, pull = fx.vjp(f, Scale(3.0), x, 2)
        gradients = pull(1.0)
        assert out == 15.0 and gradients[0] is None and gradients[2] is None and gradients[1].tolist() == [6, 12]
