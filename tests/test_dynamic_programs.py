"""Random programs x 10 random sizes, 0 and 1 among them: what is compiled for several sizes gives what NumPy gives."""

import copy
from random import Random

import numpy as np
import oracles
import pytest
import sample
from size_programs import draw

import functx as fx

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12)


def function(source):
    names = {"np": np}
    exec(compile(source, "<program>", "exec"), names)
    return names["f"]


def arguments(n, m, seed):
    return tuple(sample.data(shape, seed + k) for k, shape in enumerate([(n,), (n, 3), (m,)]))


def run(seed, dynamic, backend="reference"):
    """One program at ten sizes. It is traced once for every way through it, for what slices and broadcasting make of sizes
    below 3, and for which of two sizes is the greater (``min`` asks). In automatic mode the first call is compiled for its very sizes, and
    one more may be where only one of the two sizes has changed yet.
    """
    random = Random(seed)
    source = draw(random)
    f = function(source)
    g = fx.jit(f, backend=backend, dynamic=dynamic)
    classes = set()
    for call in range(10):
        n, m = random.choice(SIZES), random.choice(SIZES)
        args = arguments(n, m, call)
        expected = oracles.outcome(f, *copy.deepcopy(args))
        what = f"seed {seed}, n = {n}, m = {m}\n{source}"
        oracles.assert_agrees(f, *args, transform=lambda _: g, rtol=1e-9, atol=1e-9, what=what)
        ways = tuple(expected.value[-1]) if expected.error is None else type(expected.error)
        classes.add((ways, min(n, 3), min(m, 3), (n > m) - (n < m)))
    assert g.cache_info().traces <= len(classes) + 2 * (dynamic is None), f"seed {seed}: {g.cache_info().traces} > {len(classes)}\n{source}"


@pytest.mark.parametrize("part", range(10))
def test_programs(pytestconfig, part):
    count = 500 if pytestconfig.getoption("--long") else 4
    for k in range(count):
        run(part + 10 * k, dynamic=[None, True][k % 2])


def test_programs_compiled(pytestconfig):
    """Through C++: sizes are run-time integers, what data selects has a size that is found on the way."""
    for seed in range(10_000, 10_000 + (500 if pytestconfig.getoption("--long") else 4)):
        run(seed, [None, True][seed % 2], "cpp")


def test_gradients_of_programs(pytestconfig):
    for seed in range(500 if pytestconfig.getoption("--long") else 10):
        random = Random(seed)
        f = function(draw(random))

        def loss(*args, f=f):
            *results, _ = f(*args)
            return sum(np.sum(np.sin(v)) for v in results)

        plain = fx.grad(loss, (0, 1, 2))
        g = fx.jit(plain, backend="reference", dynamic=True)
        for call in range(4):
            args = arguments(random.choice(SIZES), random.choice(SIZES), call)
            expected, got = (oracles.outcome(h, *copy.deepcopy(args)) for h in (plain, g))
            assert (expected.error is None) == (got.error is None), f"seed {seed}: {expected.error!r} {got.error!r}"
            if expected.error is None:
                oracles.assert_same(got.value, expected.value, rtol=1e-7, atol=1e-9, what=f"seed {seed}")
