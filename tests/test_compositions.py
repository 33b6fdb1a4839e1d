"""Random programs under random compositions of transforms, against differences in long double and loops."""

import random as random_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import derivative, scalar, smooth_program

import functx as fx
import functx.numpy as fnp

LANES = (1.0, 0.9, -0.7)


def composed(random, f, oracle, depth, n):
    """A function of one vector, its oracle in long double, and the text of both; at most three derivatives."""
    text, derivatives = [], 0
    for _ in range(depth):
        kind = random.choice(["grad", "jvp", "vjp", "vmap", "shared vmap", "jit", "checkpoint"])
        if kind in ("grad", "jvp", "vjp") and derivatives == 3:
            continue
        text.append(kind)
        c = np.round(np.sin(np.arange(1, n + 1) * (1.0 + len(text))), 2)
        if kind in ("grad", "jvp", "vjp"):
            derivatives += 1
            oracle = lambda x, g=oracle, c=c: derivative(g, x, c)  # noqa: E731
        if kind == "grad":
            f = lambda x, g=f, c=c: (fx.grad(g)(x) * c).sum()  # noqa: E731
        elif kind == "jvp":
            f = lambda x, g=f, c=c: fx.jvp(g, (x,), (c,))[1]  # noqa: E731
        elif kind == "vjp":
            f = lambda x, g=f, c=c: (fx.vjp(g, x)[1](1.0)[0] * c).sum()  # noqa: E731
        elif kind == "vmap":
            f = lambda x, g=f: fx.vmap(g)(np.stack([s * x for s in LANES])).sum()  # noqa: E731
            oracle = lambda x, g=oracle: sum(g(s * x) for s in LANES)  # noqa: E731
        elif kind == "shared vmap":
            f = lambda x, g=f: fx.vmap(lambda s, x: g(s * x), in_axes=(0, None))(np.array(LANES), x).sum()  # noqa: E731
            oracle = lambda x, g=oracle: sum(g(s * x) for s in LANES)  # noqa: E731
        elif kind == "jit":
            f = fx.jit(f, backend="reference")
        else:
            f = fx.checkpoint(f)
    return f, oracle, " of ".join(text[::-1]), derivatives


def drawn(random, depth):
    """A program with a composition around it."""
    n = random.choice([2, 3, 4])
    x = np.round(np.array([random.uniform(-1.2, 1.2) for _ in range(n)]), 3)
    w = np.round(np.array([[random.uniform(-1, 1) for _ in range(n)] for _ in range(2)]), 3)
    program = smooth_program(random, [x, w], random.randrange(2, 9))

    def f(x):
        return scalar(program.run(x, fnp.asarray(w))) * 0.1

    def plain(x):
        return scalar(program.run(x, w.astype(np.longdouble))) * np.longdouble(0.1)

    composition, oracle, text, derivatives = composed(random, f, plain, depth, n)
    return x, composition, oracle, f"{text or 'plain'} of\n{program.text}\nat {x!r}, {w!r}", derivatives


def check(got, wanted, derivatives, text):
    scale = 1.0 + abs(float(wanted))
    assert abs(float(got) - float(wanted)) <= scale * (1e-11, 1e-10, 1e-8, 1e-6)[derivatives], f"{got} is not {wanted}: {text}"


@given(st.randoms(use_true_random=False), st.integers(0, 4))
@settings(max_examples=3 * settings().max_examples)  # 150 in CI
def test_compositions_agree_with_differences_and_loops(random, depth):
    x, f, oracle, text, derivatives = drawn(random, depth)
    before = x.copy()
    wanted = oracle(x.astype(np.longdouble))
    check(f(x), wanted, derivatives, text)
    jitted = fx.jit(f, backend="reference")
    for _ in range(2):
        check(jitted(x), wanted, derivatives, f"jit of {text}")
    assert jitted.cache_info().traces == 1
    assert (x == before).all()


@given(st.randoms(use_true_random=False))
def test_vmap_over_any_axes_equals_the_loop(random):
    shape, lanes = (2, 3), random.choice([1, 3])
    x = np.round(np.array([random.uniform(-1, 1) for _ in range(lanes * 6)]), 3).reshape(lanes, *shape)
    w = np.arange(1.0, 4.0)
    program = smooth_program(random, [x[0], w], random.randrange(2, 9))
    in_axis, out_axis, share = random.randrange(-3, 3), random.choice([0, -1]), random.randrange(2) == 0

    def f(x, w):
        return program.run(x, w)[-1] * 1.0, scalar(program.run(x, w))

    moved = np.moveaxis(x, 0, in_axis)
    ws = w if share else np.stack([w * (1 + 0.1 * i) for i in range(lanes)])
    looped = [f(x[i], w if share else ws[i]) for i in range(lanes)]
    mapped = fx.vmap(f, in_axes=(in_axis, None if share else 0), out_axes=(out_axis, 0))
    for run in (mapped, fx.jit(mapped, backend="reference")):
        got = run(moved, ws)
        np.testing.assert_allclose(got[0], np.stack([r[0] for r in looped], out_axis), rtol=1e-12, atol=1e-12, err_msg=program.text)
        np.testing.assert_allclose(got[1], [r[1] for r in looped], rtol=1e-12, atol=1e-12, err_msg=program.text)


@given(st.randoms(use_true_random=False))
def test_a_whole_jacobian_by_both_modes(random):
    n = 3
    x = np.round(np.array([random.uniform(-1, 1) for _ in range(n)]), 3)
    program = smooth_program(random, [x, np.eye(3)], random.randrange(3, 9))

    def f(x):
        return program.run(x, fnp.eye(3))[-1] * 1.0

    value, pull = fx.vjp(f, x)
    forward = fx.vmap(lambda t: fx.jvp(f, (x,), (t,))[1], out_axes=-1)(np.eye(n))
    size = np.size(value)
    cotangents = np.eye(size).reshape(size, *np.shape(value))
    backward = fx.vmap(lambda ct: pull(ct)[0])(cotangents).reshape(*np.shape(value), n)
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-9, err_msg=program.text)


@pytest.mark.parametrize("batch", range(6))
def test_a_slice_of_the_compositions_through_cpp(batch):
    drawer = random_module.Random(1000 + batch)
    cases = [drawn(drawer, depth) for depth in (0, 1, 2, 2, 3, 3, 4, 4)]
    jitted = fx.jit(lambda *xs: [f(x) for x, (_, f, *_) in zip(xs, cases, strict=True)], backend="cpp")
    for _ in range(2):
        results = jitted(*(x for x, *_ in cases))
        for got, (x, _, oracle, text, derivatives) in zip(results, cases, strict=True):
            check(got, oracle(x.astype(np.longdouble)), max(derivatives, 1), f"cpp: {text}")
