"""Checkpoint policies: what is kept and what is computed again, known answers and random programs; looking at residuals."""

import random as random_module

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import Program, scalar, smooth_program

import functx as fx
import functx.numpy as fnp
from functx.errors import UnsupportedError
from functx.parse import parse_graph
from functx.pretty import format_graph

RNG = np.random.default_rng(0)
P = fx.checkpoint_policies


def rand(*shape):
    return RNG.standard_normal(shape)


def kept(f, *args):
    """What is kept beside arguments: what it is, without the line, and its bytes."""
    found = [(what.split(",")[0], s.size * s.dtype.itemsize) for s, what in fx.saved_residuals(f, *args)]
    return sorted((what, nbytes) for what, nbytes in found if not what.startswith("the argument") and what != "a constant")


def sines(graph):
    return sum(e.primitive.name == "sin" for e in graph.eqns)


# --- known answers ------------------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_its_argument_alone():
    f = fx.checkpoint(lambda x: np.sin(np.sin(np.sin(x))))
    x = np.array([0.5, 1.0])
    assert fx.saved_residuals(lambda x: f(x).sum(), x) == [(fx.ShapeDtypeStruct((2,), float), "the argument 'x'")]
    jitted = fx.jit(fx.grad(lambda x: f(x).sum()), backend="reference")
    np.testing.assert_allclose(jitted(x), [0.697266, 0.264508], atol=1e-6)
    assert sines(jitted.ir(x)) == 2 and all(e.remat is not None for e in jitted.ir(x).eqns if e.primitive.name in ("sin", "cos"))


def mlp(x, w, v):
    h = fx.checkpoint_name(np.tanh(x @ w), "h")
    return np.tanh(h @ v)


DOT, TALL, WIDE = "dot_general", 64 * 16 * 8, 64 * 48 * 8
MLP = {
    "none": (None, []),
    "nothing": (P.nothing_saveable, []),
    "everything": (P.everything_saveable, [("tanh", TALL), ("tanh", WIDE)]),  # derivatives of tanh are told from its results
    "dots": (P.dots_saveable, [(DOT, TALL), (DOT, WIDE)]),
    "no batch": (P.dots_with_no_batch_dims_saveable, [(DOT, TALL), (DOT, WIDE)]),
    "only h": (P.save_only_these_names("h", "other"), [("name 'h'", WIDE)]),
    "only other": (P.save_only_these_names("other"), []),
    "all but h": (P.save_anything_except_these_names("h"), [(DOT, WIDE), ("tanh", TALL)]),
    "all but other": (P.save_anything_except_these_names("other"), [("tanh", TALL), ("tanh", WIDE)]),
    "own": (lambda primitive, *avals, **params: primitive.name == "tanh" and avals[0].shape == (64, 16), [("tanh", TALL)]),
}


@pytest.mark.parametrize(("policy", "expected"), MLP.values(), ids=MLP)
def test_policies_of_two_layers(policy, expected):
    args = rand(64, 32), rand(32, 48), rand(48, 16)
    block = fx.checkpoint(mlp, policy=policy)

    def loss(*args):
        return block(*args).sum()

    assert kept(loss, *args) == expected
    assert fx.joint_graph(loss, range(3))(*args).partition().nbytes == sum(nbytes for _, nbytes in expected)
    for budget in (0.5, 0.0):  # a policy is the user's own decision
        parts = fx.joint_graph(loss, range(3))(*args).partition(memory_budget=budget)
        assert parts.nbytes == sum(nbytes for _, nbytes in expected)
    wanted = fx.grad(lambda *args: mlp(*args).sum(), range(3))(*args)
    for run in (fx.grad(loss, range(3)), oracles.reference_jit(fx.grad(loss, range(3)))):
        for got, expected_gradient in zip(run(*args), wanted, strict=True):
            np.testing.assert_allclose(got, expected_gradient, rtol=1e-12, atol=1e-13)


def attention(x, wq, wk, wv, wo):
    q, k, v = ((x @ w).reshape(32, 4, 8).transpose(1, 0, 2) for w in (wq, wk, wv))
    e = np.exp(q @ k.transpose(0, 2, 1) / 8.0)
    weights = fx.checkpoint_name(e / e.sum(-1, keepdims=True), "weights")
    return (weights @ v).transpose(1, 0, 2).reshape(32, 32) @ wo


ROWS, SCORES = 32 * 32 * 8, 4 * 32 * 32 * 8
ATTENTION = {
    "nothing": (P.nothing_saveable, []),
    "dots": (P.dots_saveable, [(DOT, ROWS)] * 4 + [(DOT, SCORES)]),
    "no batch": (P.dots_with_no_batch_dims_saveable, [(DOT, ROWS)] * 3),
    "weights": (P.save_only_these_names("weights"), [("name 'weights'", SCORES)]),
}


@pytest.mark.parametrize(("policy", "expected"), ATTENTION.values(), ids=ATTENTION)
def test_policies_of_attention(policy, expected):
    args = rand(32, 32), *(rand(32, 32) / 6 for _ in range(4))
    block = fx.checkpoint(attention, policy=policy)
    assert kept(lambda *args: block(*args).sum(), *args) == expected
    wanted = fx.grad(lambda *args: attention(*args).sum(), range(5))(*args)
    for got, gradient in zip(fx.grad(lambda *args: block(*args).sum(), range(5))(*args), wanted, strict=True):
        np.testing.assert_allclose(got, gradient, rtol=1e-11, atol=1e-12)


def test_only_what_the_backward_pass_reads_is_kept():
    f = fx.checkpoint(lambda x: np.sin(x * 2.0) + 3.0, policy=P.everything_saveable)
    assert kept(f, rand(5)) == [("mul", 40)]
    linear = fx.checkpoint(lambda x: (x * 2.0 + 3.0)[::2].sum(), policy=P.everything_saveable)
    assert fx.saved_residuals(linear, rand(5)) == []


def test_views_of_what_is_there_are_not_kept_beside_it():
    f = fx.checkpoint(lambda x, s: np.sin(x.T * s).T * x, policy=P.everything_saveable)
    assert [nbytes for _, nbytes in kept(f, rand(3, 4), 2.0)] == [96, 96]  # the product and its sine
    named = fx.checkpoint(lambda x: np.sin(fx.checkpoint_name(x.T, "t") * 2.0), policy=P.save_only_these_names("t"))
    assert kept(named, rand(3, 4)) == []


def test_masks_and_integers_are_kept():
    def f(x):
        mask = fx.checkpoint_name(x > 0.5, "mask")
        order = fx.checkpoint_name(np.argsort(np.sin(x)), "order")
        return (np.where(mask, np.sin(x), x)[order] * np.arange(6.0)).sum()

    x = rand(6)
    g = fx.checkpoint(f, policy=P.save_only_these_names("mask", "order"))
    assert kept(g, x) == [("name 'mask'", 6), ("name 'order'", 48)]
    np.testing.assert_allclose(fx.grad(g)(x), fx.grad(f)(x), rtol=1e-13)
    np.testing.assert_allclose(oracles.reference_jit(fx.grad(g))(x), fx.grad(f)(x), rtol=1e-13)


def test_a_value_that_is_returned_costs_nothing():
    def f(x):
        y = fx.checkpoint_name(np.sin(np.sin(x)), "y")
        return y, np.sin(np.sin(y))

    args = rand(7)
    g = fx.checkpoint(f, policy=P.save_only_these_names("y"))
    parts = fx.joint_graph(lambda x: ((r := g(x))[1].sum(), r[0]), has_aux=True)(args).partition()
    assert parts.nbytes == 0 and [r.why for r in parts.residuals if r.saved and r.primitive == "sin"] == ["it is a result"]


def test_policies_see_through_nested_jits():
    f = fx.checkpoint(lambda x, w: np.sin(fx.jit(lambda a: np.sin(a @ w))(np.sin(x))), policy=P.dots_saveable)
    assert kept(f, rand(3, 4), rand(4, 5)) == [(DOT, 3 * 5 * 8)]


# --- names --------------------------------------------------------------------------------------------------------------------------------


def test_a_named_value_is_the_value():
    x = np.arange(3.0)
    assert fx.checkpoint_name(x, "x") is x and fx.checkpoint_name({"a": (1, "s", None)}, "x") == {"a": (1, "s", None)}

    def f(x, k):
        y = fx.checkpoint_name({"x": x, "k": k}, "both")
        y["x"][0] *= 2.0  # in the argument's own memory
        return y["x"] * x, y["k"]

    for transform in (
        oracles.reference_jit,
        fx.checkpoint,
        lambda f: oracles.reference_jit(fx.checkpoint(f, policy=P.everything_saveable)),
    ):
        oracles.assert_agrees(f, np.arange(1.0, 4.0), 2, transform=transform)
    assert not any(e.primitive.family == "mark" for e in fx.jit(f).ir(x, 2).eqns)


def test_names_disappear_from_compiled_code():
    f = fx.checkpoint(mlp, policy=P.save_only_these_names("h"))
    args = rand(4, 3), rand(3, 5), rand(5, 2)
    for run in (f, fx.grad(lambda *args: f(*args).sum(), (0, 1, 2)), fx.vmap(f, in_axes=(0, None, None))):
        assert not any(e.primitive.family == "mark" for e in fx.jit(run).ir(*args).eqns)


def test_the_text_of_marked_graphs_reads_back():
    f = fx.checkpoint(mlp, policy=P.save_only_these_names("h"))
    graph = fx.make_ir(fx.grad(lambda *args: f(*args).sum()))(rand(4, 3), rand(3, 5), rand(5, 2))
    text = format_graph(graph, sources=False)
    assert "name[name='h']" in text and "keep[of=\"name 'h'\"]" in text
    assert format_graph(parse_graph(text), sources=False) == text


# --- composition --------------------------------------------------------------------------------------------------------------------------


def test_a_policy_looks_into_checkpoints_inside():
    def inner(x):
        return np.sin(np.sin(fx.checkpoint_name(np.sin(np.sin(x)), "h")))

    def outer(x, policy=None, inside=None):
        return fx.checkpoint(lambda x: fx.checkpoint(inner, policy=inside)(np.cos(x)) ** 2, policy=policy)(x).sum()

    x, only = rand(4), P.save_only_these_names("h")
    assert kept(lambda x: outer(x, only), x) == [("name 'h'", 32)]
    assert kept(lambda x: outer(x, None, only), x) == []
    assert len(kept(lambda x: outer(x, P.everything_saveable), x)) == 5
    parts = fx.joint_graph(lambda x: outer(x, only))(x).partition()
    assert sines(parts.backward) == 5  # of the four inside, two after the name in each backward pass and one before it; one for the cosine
    expected, curvature = fx.grad(outer)(x), fx.hessian(outer)(x)
    for policies in (
        (only, None),
        (None, only),
        (only, only),
        (P.everything_saveable, None),
        (P.save_anything_except_these_names("h"), only),
    ):
        f = lambda x, policies=policies: outer(x, *policies)  # noqa: E731
        for wrap in (lambda g: g, oracles.reference_jit):
            np.testing.assert_allclose(wrap(fx.grad(f))(x), expected, rtol=1e-12)
            np.testing.assert_allclose(wrap(fx.hessian(f))(x), curvature, rtol=1e-11, atol=1e-13)


def test_a_mapped_checkpoint_keeps_the_same():
    args = rand(10, 64, 32), rand(32, 48), rand(48, 16)
    for policy, expected in ((P.save_only_these_names("h"), [10 * WIDE]), (P.dots_with_no_batch_dims_saveable, [10 * TALL, 10 * WIDE])):
        f = fx.vmap(fx.checkpoint(mlp, policy=policy), in_axes=(0, None, None))
        assert sorted(nbytes for _, nbytes in kept(lambda *args, f=f: f(*args).sum(), *args)) == expected


def test_forward_mode_through_a_policy():
    f = fx.checkpoint(lambda x: np.sin(fx.checkpoint_name(np.sin(x), "s")), policy=P.save_only_these_names("s"))
    plain = lambda x: np.sin(np.sin(x))  # noqa: E731
    x, t = rand(3), rand(3)
    for got, wanted in zip(fx.jvp(f, (x,), (t,)), fx.jvp(plain, (x,), (t,)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    along = lambda g: lambda x: fx.jvp(g, (x,), (t,))[1].sum()  # noqa: E731
    np.testing.assert_allclose(fx.grad(along(f))(x), fx.grad(along(plain))(x), rtol=1e-13)
    np.testing.assert_allclose(fx.linearize(f, x)[1](t), fx.jvp(plain, (x,), (t,))[1], rtol=1e-14)


def test_closures_and_writes():
    w = rand(3)

    def body(x):
        y = np.sin(x * w)
        y[1:] += fx.checkpoint_name(np.sin(y[:-1]), "y")
        x *= 2.0
        return y * x

    for policy in (None, P.everything_saveable, P.save_only_these_names("y")):
        f = fx.checkpoint(body, policy=policy)
        for wrap in (lambda g: g, oracles.reference_jit):
            mine, plain = np.arange(1.0, 4.0), np.arange(1.0, 4.0)
            got = wrap(fx.grad(lambda x, f=f: f(x).sum()))(mine)
            np.testing.assert_allclose(got, fx.grad(lambda x: body(x).sum())(plain), rtol=1e-13)
            assert mine.tolist() == plain.tolist() == [2.0, 4.0, 6.0]


def test_the_backward_half_reads_what_was_kept():
    """Values of the call: what happens to the arguments later does not matter."""
    f = fx.checkpoint(lambda x: np.sin(fx.checkpoint_name(np.exp(x), "e")), policy=P.save_only_these_names("e"))
    x = rand(4)
    expected = np.cos(np.exp(x)) * np.exp(x)
    out, pull = fx.vjp(fx.jit(lambda x: f(x).sum(), backend="reference"), x)
    x[:] = 0.0
    np.testing.assert_allclose(pull(1.0)[0], expected, rtol=1e-13)


# --- random programs ----------------------------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")


def drawn_policy(random):
    some = random.sample(NAMES, random.randrange(3))
    choices = [None, P.nothing_saveable, P.everything_saveable, P.dots_saveable, P.dots_with_no_batch_dims_saveable]
    choices += [P.save_only_these_names(*some), P.save_anything_except_these_names(*some)]
    choices += [lambda p, *avals, **params: len(p.name) % 2 == 0]
    return random.choice(choices)


def checkpointed(random, program):
    """The program in pieces, some of them in checkpoints, which may hold one another; and values named on the way."""
    steps, pieces = list(program.steps), []
    while steps:
        n = random.randrange(1, 4)
        pieces.append((Program(tuple(steps[:n]), ""), random.choice(NAMES), random.randrange(8), random.randrange(4)))
        del steps[:n]
    policies = [drawn_policy(random) for _ in pieces]

    def run_from(k, *values):
        if k == len(pieces):
            return list(values)
        piece, name, place, kind = pieces[k]

        def body(*values):
            values = piece.run(*values)
            values[place % len(values)] = fx.checkpoint_name(values[place % len(values)], name)
            return run_from(k + 1, *values) if kind == 1 else values

        values = fx.checkpoint(body, policy=policies[k])(*values) if kind else body(*values)
        return values if kind == 1 else run_from(k + 1, *values)

    return lambda *values: run_from(0, *values)


def drawn(random):
    n = random.choice([2, 3])
    x = np.round(np.array([random.uniform(-1.2, 1.2) for _ in range(n)]), 3)
    w = np.round(np.array([[random.uniform(-1, 1) for _ in range(n)] for _ in range(2)]), 3)
    program = smooth_program(random, [x, w], random.randrange(3, 10))
    wrapped = checkpointed(random, program)
    return (
        x,
        lambda x: scalar(program.run(x, fnp.asarray(w))) * 0.1,
        lambda x: scalar(wrapped(x, fnp.asarray(w))) * 0.1,
        program.text,
    )


def weighted(g):
    return lambda x: (g(x) * np.arange(1.0, x.size + 1)).sum()


TRANSFORMS = {
    "value": lambda f: f,
    "grad": fx.grad,
    "grad of grad": lambda f: fx.grad(weighted(fx.grad(f))),
    "jvp of grad": lambda f: lambda x: fx.jvp(fx.grad(f), (x,), (np.cos(x),))[1],
    "grad of jvp": lambda f: fx.grad(lambda x: fx.jvp(f, (x,), (np.ones(x.shape),))[1]),
    "grad of vmap": lambda f: fx.grad(lambda x: fx.vmap(f)(np.stack([x, 0.5 * x])).sum()),
    "vmap of grad": lambda f: lambda x: fx.vmap(fx.grad(f))(np.stack([x, 0.5 * x])),
    "halves": lambda f: lambda x: fx.vjp(fx.jit(f, backend="reference"), x)[1](1.0)[0],
    "grad of jit": lambda f: fx.grad(fx.jit(f, backend="reference")),
    "budget": lambda f: fx.jit(fx.grad(f), memory_budget=0.3, backend="reference"),
}


@given(st.randoms(use_true_random=False), st.sampled_from(list(TRANSFORMS)))
def test_random_programs_in_checkpoints_equal_the_plain_ones(random, name):
    x, plain, wrapped, text = drawn(random)
    transform = TRANSFORMS[name]
    expected = transform(plain)(x)
    tolerance = 1e-12 * (1.0 + np.max(np.abs(expected)))
    np.testing.assert_allclose(transform(wrapped)(x), expected, rtol=1e-12, atol=tolerance, err_msg=f"{name} of\n{text}")
    if name not in ("halves", "budget"):
        jitted = fx.jit(transform(wrapped), backend="reference")
        np.testing.assert_allclose(jitted(x), expected, rtol=1e-12, atol=tolerance, err_msg=f"jit of {name} of\n{text}")


def test_a_slice_through_cpp():
    random = random_module.Random(3)
    cases = [drawn(random) for _ in range(12)]
    jitted = fx.jit(lambda *xs: [fx.grad(wrapped)(x) for x, (_, _, wrapped, _) in zip(xs, cases, strict=True)], backend="cpp")
    for got, (x, plain, _, text) in zip(jitted(*(case[0] for case in cases)), cases, strict=True):
        np.testing.assert_allclose(got, fx.grad(plain)(x), rtol=1e-11, atol=1e-12, err_msg=text)


# --- looking at residuals, and errors -----------------------------------------------------------------------------------------------------


def test_saved_residuals_say_what_each_value_is():
    w = rand(3)

    def f(p, n, x):
        y = fx.checkpoint_name(np.tanh(x @ p["w"]), "y")
        return (y * w).sum() * n

    found = fx.saved_residuals(f, {"w": rand(4, 3)}, 2, x=fx.ShapeDtypeStruct((5, 4), float))
    kinds = [what.split(",")[0] for _, what in found]
    assert kinds == ["the argument 'p['w']'", "the argument 'n'", "the argument 'x'", "a captured array", DOT]
    assert found[-1][1].startswith("dot_general, test_policies.py:") and found[-1][0] == fx.ShapeDtypeStruct((5, 3), float)
    assert fx.saved_residuals(lambda n: n * 2, 3) == [] and fx.saved_residuals(lambda x: 5.0, 1.0) == []


def test_printing_residuals(capsys):
    fx.print_saved_residuals(lambda x, w: np.tanh(x @ w).sum(), rand(3), rand(3, 4))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines[:4]] == ["f64[3]", "f64[3,4]", "f64[4]", "f64[4]"]
    assert "the argument 'w': saved (it is an input), 0 bytes" in lines[1]
    assert "dot_general" in lines[2] and "saved (dot_general is costly), 32 bytes" in lines[2]
    assert "tanh" in lines[3] and "computed again (it is computed from what is kept)" in lines[3]


def test_errors():
    for policy in ("dots_saveable", 3, [P.dots_saveable]):
        with pytest.raises(TypeError, match=r"policy of checkpoint takes a function policy\(primitive"):
            fx.checkpoint(np.sin, policy=policy)
    with pytest.raises(TypeError, match="checkpoint takes a function, not a int"):
        fx.checkpoint(3)
    with pytest.raises(TypeError, match="prevent_cse"):
        fx.checkpoint(np.sin, prevent_cse=False)
    for give in (
        lambda: P.save_only_these_names("a", 3),
        lambda: P.save_anything_except_these_names(3),
        lambda: fx.checkpoint_name(1.0, 3),
    ):
        with pytest.raises(TypeError, match=r"names of values are strings, not int \(3\)"):
            give()
    with pytest.raises(UnsupportedError, match="answered None for 'sin'"):
        fx.grad(fx.checkpoint(np.sin, policy=lambda *_, **__: None))(1.0)
    with pytest.raises(TypeError, match="saved_residuals takes a function"):
        fx.saved_residuals(3)


def test_a_decorator_with_options():
    @fx.checkpoint(policy=P.save_only_these_names("s"))
    def f(x):
        """Doc."""
        return np.sin(fx.checkpoint_name(np.sin(x), "s"))

    assert f.__name__ == "f" and f.__doc__ == "Doc." and f(0.0) == 0.0
    assert kept(f, 1.0) == [("name 's'", 8)]
