"""Arguments and captured arrays that share memory: written in any combination, as in NumPy."""

import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functx as fx
import functx.numpy as fnp
from functx.aliasing import common_layout, memory_at, view_ops
from functx.errors import OverlapError
from functx.ir import GraphBuilder

# Two arrays that share elements of one buffer of 24 (the last rows: they share none).
PAIRS = {
    "shifted": lambda x: (x[:-1], x[1:]),
    "reversed": lambda x: (x, x[::-1]),
    "itself": lambda x: (x, x[:]),
    "transposed": lambda x: (x.reshape(4, 6), x.reshape(4, 6).T),
    "corners": lambda x: (x.reshape(4, 6)[:-1, :-1], x.reshape(4, 6)[1:, 1:]),
    "steps": lambda x: (x[::2], x[::3]),
    "three axes": lambda x: (x.reshape(2, 3, 4)[:, 1:, ::2], x.reshape(2, 3, 4)[::-1, ::2, ::-1]),
    "new axis": lambda x: (x[:, None], x),
    "diagonal": lambda x: (x[:16].reshape(4, 4), np.einsum("ii->i", x[:16].reshape(4, 4))),
    "an element": lambda x: (x, x[3, ...]),
    "one element": lambda x: (x[3:4], x.reshape(4, 6)),
    "Fortran": lambda x: (x.reshape(4, 6, order="F"), x[2:9]),
    "crossing strides": lambda x: (np.lib.stride_tricks.as_strided(x, (3, 3), (40, 24)), x[4:10]),
    "interleaved": lambda x: (x[::2], x[1::2]),
    "neighbours": lambda x: (x[:12], x[12:]),
}


def _both(a, b):
    a += 1.0
    b *= 2.0
    return a.sum() + b.sum()


def _after_reading(a, b):
    before, view = a.sum() + b.sum(), a[...]
    view += b.sum()
    other = b.T
    other -= 1.0
    return before + view.sum() + other.sum()


def _one(a, b):
    a[0] = 5.0
    return (a * 3.0).sum() + b.ravel()[0] + b.T.ravel()[-1]


FUNCTIONS = [_both, _after_reading, _one]


def _with_gradient(f):
    return lambda *args: fx.value_and_grad(lambda s, *rest: f(*rest) * s)(1.0, *args)[0]


TRANSFORMS = {
    "jit": oracles.reference_jit,
    "grad with respect to something else": _with_gradient,
    "jit of grad": lambda f: oracles.reference_jit(_with_gradient(f)),
    "jit in grad": lambda f: _with_gradient(oracles.reference_jit(f)),
    "checkpoint in jit": lambda f: oracles.reference_jit(fx.checkpoint(f)),
    "jit in jit": lambda f: oracles.reference_jit(lambda *args: oracles.reference_jit(f)(*args)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_overlapping_arguments_do_what_numpy_does(pair, transform):
    for f in FUNCTIONS:
        run = transform(f)
        for _ in range(3):
            plain, mine = np.arange(24.0) * 0.5, np.arange(24.0) * 0.5
            expected = f(*pair(plain))
            np.testing.assert_allclose(run(*pair(mine)), expected)
            np.testing.assert_array_equal(mine, plain)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_overlapping_arguments_of_compiled_code(f):
    jitted = fx.jit(f, backend="cpp")
    for _ in range(2):
        for name in ("shifted", "reversed", "steps", "diagonal", "interleaved", "neighbours"):  # one entry for each way of sharing
            plain, mine = np.arange(24.0) * 0.5, np.arange(24.0) * 0.5
            expected = f(*PAIRS[name](plain))
            np.testing.assert_allclose(jitted(*PAIRS[name](mine)), expected)
            np.testing.assert_array_equal(mine, plain)


@st.composite
def strided_views(draw):
    """A view of some elements of a buffer: any rank, steps and order of axes."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    view = np.arange(math.prod(shape)).reshape(shape)
    key = tuple(slice(draw(st.integers(0, n - 1)), None, draw(st.integers(1, 3))) for n in shape)
    back = tuple(slice(None, None, draw(st.sampled_from([1, -1]))) for _ in shape)
    return view[key][back].transpose(draw(st.permutations(range(len(shape)))))


@given(strided_views())
def test_view_operations_lead_to_any_piece(view):
    layout, address = common_layout([view, view.base if view.base is not None else view])
    builder = GraphBuilder()
    flat = memory_at(address, layout)
    out = flat
    for op in view_ops(layout.pieces[0], layout.length, builder):
        out = op.primitive.impl(out, *(builder.consts[a] for a in op.operands), **op.params)
    np.testing.assert_array_equal(out, view)
    assert flat.size == 0 or np.shares_memory(flat, view)


CAPTURES = {"the argument": lambda x: x, "reversed": lambda x: x[::-1], "a part": lambda x: x[1:]}


@pytest.mark.parametrize("argument", CAPTURES.values(), ids=CAPTURES)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_an_argument_that_is_also_captured(transform, argument):
    def make(buffer):
        def f(a):
            total = a.sum()
            a += 1.0
            b = fnp.asarray(buffer)
            total = total + b.sum()
            b[0] = 10.0
            return total + a[0]

        return f

    plain, mine = np.arange(4.0), np.arange(4.0)
    f, run = make(plain), transform(make(mine))
    for _ in range(3):
        assert run(argument(mine)) == f(argument(plain))
        np.testing.assert_array_equal(mine, plain)


def test_whether_a_captured_array_is_the_argument_is_a_condition_of_the_entry():
    buffer = np.zeros(3)

    def f(x):
        b = fnp.asarray(buffer)
        b += 1
        return x.sum()

    jitted = oracles.reference_jit(f)
    for given_array, total in ((np.ones(3), 3), (buffer, 6), (buffer[::-1], 9), (np.ones(3), 3), (buffer[1:], 10), (np.ones(3), 3)):
        assert jitted(given_array) == total
    assert buffer.tolist() == [6, 6, 6] and jitted.cache_info().traces == 4


def test_views_of_a_value_of_the_enclosing_function():
    def f(x, inner):
        y = x * 1.0
        return inner(y[:-1], y[1:]) + (y * np.arange(4.0)).sum()

    x = np.arange(4.0)
    for inner in (oracles.reference_jit(_both), fx.checkpoint(_both), _with_gradient(_both)):
        assert oracles.reference_jit(lambda x, inner=inner: f(x, inner))(x) == f(x, _both)
        np.testing.assert_allclose(fx.grad(f)(x, inner), [1.0, 6.0, 8.0, 8.0])


def test_views_of_arguments_with_names_of_their_own():
    """What a result is a view of: the argument, not the memory that it shares."""

    def f(a, b):
        a += 1.0
        return a, b, a[1:], b[:1]

    jitted = oracles.reference_jit(f)
    for _ in range(2):
        x = np.zeros(4)
        a, b = x[:-1], x[1:]
        first, second, part, other = jitted(a, b)
        assert first is a and second is b and np.shares_memory(part, x) and np.shares_memory(other, x)
        assert x.tolist() == [1, 1, 1, 0] and part.base is not None


def _shift(a, b):
    a[1:] += b[:-1]
    b *= 2.0
    return a.sum()


ROWS = {
    "columns": lambda x: (x[:, :-1], x[:, 1:]),
    "each row reversed": lambda x: (x, x[:, ::-1]),
    "the same twice": lambda x: (x, x),
    "rows from the last": lambda x: (x[::-1, :-1], x[::-1, 1:]),
}


MAPS = {"vmap": lambda f: f, "jit of vmap": oracles.reference_jit, "grad of vmap": lambda f: _with_gradient(lambda *args: f(*args).sum())}


@pytest.mark.parametrize("transform", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("pair", ROWS.values(), ids=ROWS)
def test_examples_that_share_memory_within_each(pair, transform):
    plain, mine = np.arange(12.0).reshape(2, 6), np.arange(12.0).reshape(2, 6)
    expected = [_shift(a, b) for a, b in zip(*pair(plain), strict=True)]
    total = np.sum(transform(fx.vmap(_shift))(*pair(mine)))
    np.testing.assert_allclose(total, np.sum(expected))
    np.testing.assert_array_equal(mine, plain)
    mine, mapped = np.arange(12.0).reshape(2, 6), transform(fx.vmap(_shift, in_axes=(1, 1)))
    np.testing.assert_allclose(np.sum(mapped(*(np.moveaxis(v, 0, 1) for v in pair(mine)))), np.sum(expected))
    np.testing.assert_array_equal(mine, plain)


REFUSED = {
    "examples that write into others": (lambda x: fx.vmap(_shift)(x.reshape(2, 12), x.reshape(2, 12)[::-1]), "each other's memory"),
    "examples of views of a value of the enclosing function": (
        lambda x: oracles.reference_jit(lambda x: fx.vmap(_shift)((y := x.reshape(4, 6) * 1.0)[:, 1:], y[:, :-1]))(x),
        "examples of views",
    ),
    "one mapped, one shared": (lambda x: fx.vmap(_shift, in_axes=(0, None))(x.reshape(2, 12), x[:12]), "one is mapped"),
    "differentiated": (lambda x: fx.grad(_shift)(x, x[:]), "derivative"),
    "differentiated, under jit": (lambda x: oracles.reference_jit(fx.grad(_shift))(x, x[::-1]), "derivative"),
    "another dtype": (lambda x: oracles.reference_jit(_shift)(x, x.view(np.int64)), "different elements"),
    "parts of elements": (
        lambda x: oracles.reference_jit(_shift)(x[:4], np.ndarray(4, float, x, offset=4)),
        "different elements",
    ),
}


@pytest.mark.parametrize(("run", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_says_so_and_changes_nothing(run, why):
    x = np.arange(24.0)
    with pytest.raises(OverlapError, match=rf"writes to 'a', which shares memory with 'b'[\s\S]*at: .*test_aliasing.py[\s\S]*{why}"):
        run(x)
    np.testing.assert_array_equal(x, np.arange(24.0))


def test_arrays_that_are_only_read_may_overlap_in_any_way():
    x = np.arange(24.0)
    f = oracles.reference_jit(lambda a, b: (a[:4] * b[:4]).sum())
    for view in (x, x[1:], x.view(np.int64)[::-1][:24]):
        assert f(x, view) == (x[:4] * view[:4]).sum()
    assert fx.grad(lambda a, b: (a * b).sum())(x, x).tolist() == x.tolist()


def test_a_read_only_view_sees_the_write_and_cannot_write():
    x = np.arange(4.0)
    frozen = x[1:]
    frozen.flags.writeable = False

    def f(a, b):
        a += 1.0
        return b.sum()

    jitted = oracles.reference_jit(f)
    assert jitted(x, frozen) == 9.0 and jitted(x, frozen) == 12.0
    with pytest.raises(ValueError, match="read-only"):
        jitted(frozen, x)
    assert x.tolist() == [2, 3, 4, 5]


def test_two_arrays_at_the_same_place_are_two_arrays():
    x = np.arange(4.0)
    same, frozen = x[:], x.view()
    frozen.flags.writeable = False

    def second(a, b):
        b += 1.0
        return a.sum(), b

    for run in (oracles.reference_jit(second), fx.jit(second)):
        for other in (x, same):
            for first in (x, same, frozen):
                before = x.sum()
                total, returned = run(first, other)
                assert returned is other and total == before + 4
        with pytest.raises(ValueError, match="read-only"):
            run(x, frozen)
    assert oracles.reference_jit(lambda a, b: b)(x, same) is same and oracles.reference_jit(lambda a, b: b)(x, x) is x


def test_memory_between_the_pieces_keeps_what_is_written_there():
    """An array whose elements lie between those of overlapping ones, and is written too."""

    def f(a, b, c):
        a += 1.0
        c *= 10.0
        b += 0.5

    jitted = oracles.reference_jit(f)
    for _ in range(2):
        plain, mine = np.arange(12.0), np.arange(12.0)
        f(plain[::2], plain[2::2], plain[1::2])
        jitted(mine[::2], mine[2::2], mine[1::2])
        np.testing.assert_array_equal(mine, plain)


def test_empty_arrays_share_nothing():
    x = np.zeros(4)
    assert oracles.reference_jit(_both)(x[:0], x[2:2]) == 0.0
    assert oracles.reference_jit(_both)(x[:0], x) == 0.0


def test_who_shares_memory_is_a_condition_of_the_entry():
    x, calls = np.arange(6.0), [lambda x: (x[:4], x[2:]), lambda x: (x[:2], x[2:4]), lambda x: (x[:4], x[1:5]), lambda x: (x[:3], x[3:])]
    jitted = fx.jit(lambda a, b: np.shares_memory(a, b))
    for _ in range(2):
        for make in calls:
            assert jitted(*make(x)) == np.shares_memory(*make(x))


def test_read_only_examples_that_share_memory_are_not_written():
    def f(a, b):
        a[1:] += a[:-1]
        b[()] = 0.3

    for transform in (lambda f: f, oracles.reference_jit):
        x = np.arange(6.0).reshape(2, 3)
        frozen = x[:]
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            transform(fx.vmap(f))(x, frozen)
        assert x.ravel().tolist() == list(range(6))
