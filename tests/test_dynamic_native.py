"""Symbolic sizes in the runtime: formulas, and plans that serve several sizes, by a backend whose code is written by hand."""

import itertools
import random

import numpy as np
import pytest
import sympy
from test_native import compile_library

import functx as fx
from functx import sizes
from functx.backend import NativeCode, register_backend
from functx.backends.reference import ReferenceExecutable
from functx.runtime import native


def random_size(rng, symbols, depth):
    """An expression as sizes are made of: sums, products, divisions with remainder."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*symbols, *symbols, rng.randint(-3, 9)])
    a, b = (random_size(rng, symbols, depth - 1) for _ in range(2))
    k = rng.randint(2, 5)
    return rng.choice([lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // k, lambda: a % k, lambda: -a, lambda: (a + b) ** 2])()


@pytest.mark.parametrize("seed", range(40))
def test_formulas(seed):
    """The program in Python and in the runtime has the value of the expression."""
    rng = random.Random(seed)
    symbols = [fx.Dim(name).expr for name in ("n", "m", "k")]
    expr = sympy.expand(random_size(rng, symbols, 4))
    program = sizes.program(expr, symbols)
    for _ in range(20):
        values = [rng.randint(0, 50) for _ in symbols]
        expected = int(expr.subs(dict(zip(symbols, values, strict=True)))) if isinstance(expr, sympy.Expr) else expr
        assert sizes.evaluate(program, values) == expected
        assert native.evaluate(program, values) == expected


def test_formulas_that_have_no_value():
    n = fx.Dim("n").expr
    assert native.evaluate(sizes.program(n**4, [n]), [2**20]) is None
    assert native.evaluate([sizes.CONSTANT, 3, sizes.SIZE, 0, sizes.FLOOR_DIVIDE], [0]) is None
    assert native.evaluate([sizes.CONSTANT, 3, sizes.SIZE, 0, sizes.MODULO], [0]) is None
    for broken in ([], [sizes.CONSTANT], [sizes.SIZE, 1], [sizes.ADD], [sizes.CONSTANT, 1, sizes.CONSTANT, 2], [9]):
        with pytest.raises(ValueError, match="formula"):
            native.evaluate(broken, [1])


# out = x repeated twice, with scratch memory of as many elements; sizes come from the symbols alone.
TWICE = """
  int64_t n = call->dims[0], m = call->dims[1];
  double* scratch = (double*)call->workspace;
  for (int64_t i = 0; i < n * m; ++i) scratch[i] = ((const double*)call->inputs[0])[i];
  for (int64_t i = 0; i < 2 * n * m; ++i) ((double*)call->outputs[0])[i] = scratch[i % (n * m)];
  return FUNCTX_OK;
"""


class HandWritten:
    """Runs the graph in Python, and a library written by hand where the runtime can call it."""

    name = "hand-written"
    symbolic_sizes = True

    def __init__(self, folder):
        source = f'#include "call.h"\nint run(FunctxCall* call) {{\n{TWICE}\n}}\n'
        self.library = native.Library(compile_library(folder / "twice.so", source, "-xc++", "-std=c++17"))

    def compile(self, graph, options):
        executable = ReferenceExecutable(graph)
        n, m = graph.in_avals[0].shape
        if isinstance(n, fx.Dim) and isinstance(m, fx.Dim):
            executable.native = NativeCode(self.library, 8 * n * m, [], None, lambda *error: RuntimeError(error))
        return executable


names = (f"hand-written {i}" for i in itertools.count())


@pytest.fixture
def jit(tmp_path):
    name = next(names)
    register_backend(name, lambda: HandWritten(tmp_path))
    return lambda f, **options: fx.jit(f, backend=name, **options)


def hits(f):
    return f.half.function._native_hits


def test_a_plan_serves_all_sizes(jit):
    f = jit(lambda x: np.concatenate([x, x]), dynamic=True)
    for k, (n, m) in enumerate([(3, 4), (5, 4), (5, 7), (100, 1), (1, 100), (2, 2), (0, 3)]):
        x = np.arange(float(n * m)).reshape(n, m)
        np.testing.assert_array_equal(f(x), np.concatenate([x, x]))
        assert hits(f) == k
    assert f.cache_info().traces == 1


def test_conditions_are_looked_at(jit):
    f = jit(lambda x: np.concatenate([x, x]) if x.shape[0] > 3 and x.shape[1] % 2 == 0 else -x, dynamic=True)
    for n, m in [(4, 2), (8, 4), (5, 6)]:
        x = np.ones((n, m))
        assert f(x).shape == (2 * n, m)
    assert hits(f) == 2
    for n, m in [(3, 2), (8, 3)]:
        x = np.ones((n, m))
        before = f.cache_info().traces
        # the library by hand knows one branch only, so these are asked for in Python
        entry = f.half.compiled(x)[1]
        np.testing.assert_array_equal(entry.executable([x])[0], -x)
        assert f.cache_info().traces == before + 1 and hits(f) == 2
    assert f(np.ones((6, 8))).shape == (12, 8)
    assert hits(f) == 3


def test_tied_sizes(jit):
    f = jit(lambda x, y: np.concatenate([x, x + y - y]), dynamic=True)
    for n, m in [(3, 4), (5, 2)]:
        x = np.ones((n, m))
        np.testing.assert_array_equal(f(x, x.copy()), np.ones((2 * n, m)))
    assert (hits(f), f.cache_info().traces) == (1, 1)
    with pytest.raises(ValueError, match="broadcast"):
        f(np.ones((3, 4)), np.ones((2, 4)))


def test_other_memory_is_another_entry_or_a_copy(jit):
    f = jit(lambda x: np.concatenate([x, x]), dynamic=True)
    f(np.ones((3, 4)))
    for x in (np.arange(12.0).reshape(3, 4).T, np.arange(24.0).reshape(4, 6)[:, ::2], np.arange(30.0)[::-1].reshape(5, 6)):
        np.testing.assert_array_equal(f(x), np.concatenate([x, x]))


def test_static_and_symbolic_plans_side_by_side(jit):
    f = jit(lambda x: np.concatenate([x, x]))
    for n in (3, 4, 5, 3, 4, 5, 6, 3):
        x = np.ones((n, n + 1))
        assert f(x).shape == (2 * n, n + 1)
    assert f.cache_info().traces == 2


def test_a_forgotten_plan_is_not_found(jit):
    f = jit(lambda x: np.concatenate([x, x]), dynamic=True)
    f(np.ones((3, 4)))
    f(np.ones((4, 4)))
    f.clear_cache()
    f(np.ones((5, 4)))
    assert (hits(f), f.cache_info().traces) == (0, 1)


def test_conditions_of_sizes_that_are_fractions_of_others():
    """``reshape(-1, 3)`` leaves (m - m % 3) / 3 rows, a whole number; what asks for its remainder is a condition too."""

    def f(x):
        rows = x.reshape(-1, 3)[:, 0]
        return rows * 2 if rows.shape[0] % 2 == 0 else -rows

    for backend in ("reference", "cpp"):
        jitted = fx.jit(f, backend=backend, dynamic=True)
        for n in (6, 9, 12, 3, 15, 0, 18, 21):
            x = np.arange(float(n))
            np.testing.assert_array_equal(jitted(x), f(x))
        assert jitted.cache_info().traces <= 4
