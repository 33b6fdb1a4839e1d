"""Graphs with sizes that are known only at run time, through C++: one compilation is right for every size, 0 and 1 among them."""

import numpy as np
import pytest

import functx as fx
from functx import config
from functx.backend import get_backend
from functx.backends.cpp.text import size_text
from functx.backends.loops.affine import LoopVar, divmod_affine, var
from functx.backends.loops.arena import arrange
from functx.shapes import Dim
from functx.transforms.pipeline import optimize
from functx.transforms.planning import DEFAULT

n, m = Dim("n"), Dim("m")
SIZES = [(5, 3), (1, 1), (0, 2), (7, 1), (200, 64), (3, 0), (1, 9), (40_000, 7)]


def softmax(x):
    shifted = np.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def write_rows(x, y):
    out = x.copy()
    out[:, 1] = y
    out[:, ::2] *= 2
    return out


CASES = {
    "pointwise": (lambda x, y: np.tanh(x) * y + 1, [(n, m), (n, m)]),
    "broadcast": (lambda x, y: x + y[:, None], [(n, m), (n,)]),
    "sum of columns": (lambda x: x.sum(0), [(n, m)]),
    "sum of rows": (lambda x: x.sum(1), [(n, m)]),
    "sum": (lambda x: x.sum(), [(n, m)]),
    "largest": (lambda x: x.max(1), [(n, 4)]),
    "place of the largest": (lambda x: np.argmax(x, 1), [(n, 4)]),
    "softmax": (softmax, [(n, 4)]),
    "centred": (lambda x: (x - x.sum(0)) / (x.shape[0] + 1), [(n, m)]),
    "product": (lambda x, w: np.maximum(x @ w, 0), [(n, m), (m, 5)]),
    "product along n": (lambda x, w: x.T @ w, [(n, 40), (n, 50)]),
    "outer product": (np.outer, [(n,), (m,)]),
    "transposed": (lambda x: x.T * 2, [(n, m)]),
    "flat": (lambda x: x.reshape(-1) * 2, [(n, m)]),
    "grouped": (lambda x: x.reshape(-1, 6) + 1, [(n, 2, 3)]),
    "split axis": (lambda x: x.reshape(x.shape[1], x.shape[0])[::-1] * 2, [(n, m)]),
    "repeated": (lambda x: np.repeat(x, 3, axis=0), [(n, 2)]),
    "backwards": (lambda x: x[:, ::-1] - np.flip(x, 0), [(n, m)]),
    "joined": (lambda x, y: np.concatenate([x, y * 2]), [(n, 3), (m, 3)]),
    "padded": (lambda x: np.pad(x, ((1, 2), (0, 3))) * 3, [(n, m)]),
    "running along n": (lambda x: np.cumsum(x, 0), [(n, m)]),
    "running along m": (lambda x: np.cumsum(x, 1), [(n, m)]),
    "sorted along m": (lambda x: np.sort(x, 1), [(n, m)]),
    "sorted along n": (lambda x: np.sort(x, 0), [(n, m)]),
    "gathered": (lambda x: x[:, np.array([0, 1, -1])], [(n, 4)]),
    "written": (write_rows, [(n, 4), (n,)]),
}


def compiled(f, specs, backend="cpp"):
    graph = fx.make_ir(f)(*(fx.ShapeDtypeStruct(shape, np.float64) for shape in specs))
    return get_backend(backend).compile(optimize(graph, DEFAULT, None), config.current())


def drawn(rng, shape, sizes):
    return rng.standard_normal([sizes[str(d)] if isinstance(d, Dim) else d for d in shape])


def all_together(backend):
    """All cases as one compiled graph, with the shapes of its arguments."""
    specs = [shape for _, shapes in CASES.values() for shape in shapes]

    def f(*arrays):
        rest = iter(arrays)
        return [g(*(next(rest) for _ in shapes)) for g, shapes in CASES.values()]

    return compiled(f, specs, backend), specs


def check_all(executable, specs, a, b):
    """Every case gives what NumPy gives where n is a and m is b."""
    rng = np.random.default_rng(a * 100 + b)
    arrays = [drawn(rng, shape, {"n": a, "m": b}) for shape in specs]
    got, rest = executable(arrays), iter(arrays)
    for (name, (f, shapes)), out in zip(CASES.items(), got, strict=True):
        want = f(*(next(rest) for _ in shapes))
        assert out.shape == want.shape, name
        np.testing.assert_allclose(out, want, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.fixture(scope="module")
def together():
    return all_together("cpp")


@pytest.mark.parametrize("a, b", SIZES)
def test_every_size_gives_what_numpy_gives(together, a, b):
    check_all(*together, a, b)


def test_gradients_at_every_size():
    def loss(x, w, b):
        return (np.tanh(x @ w + b) ** 2).sum(1).mean()

    def step(x, w, b):
        return fx.value_and_grad(loss, (0, 1, 2))(x, w, b)

    executable = compiled(step, [(n, m), (m, 3), (3,)])
    for a, b in [(4, 3), (1, 1), (300, 20)]:
        rng = np.random.default_rng(a)
        arrays = [drawn(rng, shape, {"n": a, "m": b}) for shape in ((n, m), (m, 3), (3,))]
        value, (dx, dw, db) = step(*arrays)
        for got, want in zip(executable(arrays), (value, dx, dw, db), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_an_index_that_does_not_fit_the_size_of_the_call_raises():
    executable = compiled(lambda x, i: x[i.astype(np.int64)], [(n,), (m,)])
    x = np.arange(4.0)
    np.testing.assert_array_equal(executable([x, np.array([3.0, -4.0])])[0], [3.0, 0.0])
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        executable([x, np.array([0.0, 4.0])])


def test_loops_over_run_time_sizes():
    def f(x):
        def body(carry, row):
            return carry + row.sum(), carry * row

        return fx.scan(body, np.float64(1), x)

    executable = compiled(f, [(n, m)])
    for a, b in [(3, 4), (0, 2), (1, 0), (50, 7)]:
        x = np.random.default_rng(a).standard_normal((a, b))
        carry, wanted = 1.0, []
        for row in x:
            wanted.append(carry * row)
            carry += row.sum()
        got = executable([x])
        np.testing.assert_allclose(got[0], carry, rtol=1e-12)
        np.testing.assert_allclose(got[1], np.array(wanted).reshape(a, b), rtol=1e-12)


def test_the_arena_packs_multiples_of_one_size_densely():
    blocks = [("a", 640 * n, 0, 1), ("b", 64 * n, 2, 3), ("c", 128, 0, 3), ("d", 64 * n, 0, 0)]
    offsets, total = arrange(blocks)
    assert total == 704 * n + 128
    assert offsets == {"c": 0, "a": 128, "b": 128, "d": 640 * n + 128}


def test_quotients_that_are_exact_for_all_sizes():
    i, j = LoopVar("i", n), LoopVar("j", m)
    flat = var(i) * m + var(j)
    assert divmod_affine(flat, m) == (var(i), var(j))
    assert divmod_affine(var(i) * (12 * m), 4 * m)[0] == var(i) * 3


@pytest.mark.parametrize("size", [n + 1, n * m - 3, (n + 1) // 2, n % 4, 2 * (n // 3) + m, (3 * n + 7) // 4 - m, n * n + 2 * m])
def test_sizes_as_code(size):
    """C++ computes what sympy does."""
    code = size_text(size).replace("floor_div", "int_div").replace("floor_mod", "int_mod")
    names = {"int_div": lambda x, y: x // y, "int_mod": lambda x, y: x % y}
    for a, b in [(0, 0), (1, 5), (6, 2), (101, 33)]:
        by_name = {s: {"n": a, "m": b}[s.name] for s in size.expr.free_symbols}
        assert eval(code, {**names, "dim_n": a, "dim_m": b}) == int(size.expr.subs(by_name))
