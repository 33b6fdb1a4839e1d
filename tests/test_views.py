"""Single facts about views and writes. (Random programs of them: tests/test_mutations.py.)"""

import numpy as np
import pytest
from programs import LAYOUTS, laid_out

import functx as fx
import functx.numpy as fnp


def test_a_write_to_a_read_only_array_raises_as_in_numpy():
    frozen = np.ones(3)
    frozen.flags.writeable = False

    def element(x):
        x[0] = 1.0

    def op_assign(x):
        x += 1.0

    def out(x):
        np.add(x, 1.0, out=x)

    def through_view(x):
        x[1:][...] = 2.0

    for f in (element, op_assign, out, through_view, lambda x: x.fill(0.0)):
        for run in (f, fx.jit(f, backend="reference"), lambda x, f=f: fx.grad(lambda x: (f(x), x.sum())[1])(x), fx.vmap(f)):
            argument = np.broadcast_to(1.0, (2, 3)) if hasattr(run, "__wrapped__") and not hasattr(run, "cache_info") else frozen
            with pytest.raises(ValueError, match="read-only"):
                run(argument)
    good = fx.jit(op_assign, backend="reference")
    good(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        good(frozen)  # writeability is a condition of the entry
    assert frozen.tolist() == [1, 1, 1]


def test_broadcast_views_are_read_only_and_track_their_base():
    def f(x):
        wide = np.broadcast_to(x, (2, 3))
        x[0] = 5.0
        return wide + 0.0

    x = np.ones(3)
    assert fx.jit(f, backend="reference")(x).tolist() == [[5, 1, 1], [5, 1, 1]] and x[0] == 5
    with pytest.raises(ValueError, match="read-only"):
        fx.jit(lambda x: np.broadcast_to(x, (2, 3)).__setitem__(0, 1.0), backend="reference")(np.ones(3))


def test_a_view_at_a_traced_place_reads_and_writes_through():
    def f(x, i):
        row = x[i]
        row *= 2.0
        x[i, 0] += 1.0
        x[:, i] = row.sum()
        return row + 0.0, x.sum()

    jitted = fx.jit(f, backend="reference")
    for i in (0, 1, -1, 2):
        mine, plain = np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)
        expected, got = f(plain, i), jitted(mine, i)
        np.testing.assert_allclose(got[0], expected[0])
        assert got[1] == expected[1] and (mine == plain).all()
    assert jitted.cache_info().traces == 1


def test_views_of_an_outer_value_inside_a_nested_transform():
    def f(x, inner):
        y = x * 1.0
        part = y[1:]
        inner(part)
        return y.sum() * 1.0 + part[0]

    def write(v):
        v[0] = v[1] * 3.0
        w = v[::-1]
        w += 1.0

    transforms = [fx.jit(write, backend="reference"), fx.checkpoint(write), lambda v: fx.grad(lambda s, v: (write(v), s)[1])(1.0, v), write]
    for inner in transforms:
        x = np.array([1.0, 2.0, 3.0])
        assert fx.jit(f, static_argnums=1, backend="reference")(x, inner) == f(x, write)
        np.testing.assert_allclose(fx.grad(f)(x, inner), [1.0, 0.0, 7.0])


def test_layout_questions_answer_as_numpy_does():
    def f(x):
        return x.flags.c_contiguous, x.T.flags.c_contiguous, x.strides, x[::2].strides, (x + 1).strides, x.copy().strides, x.base is None

    for layout in LAYOUTS:
        x, _ = laid_out(np.ones((4, 3)), layout)
        assert fx.jit(f, backend="reference")(x)[:-1] == f(x)[:-1], layout


def test_handles_of_buffers_are_views_too():
    buffer = np.arange(6.0)

    def f(x):
        b = fnp.asarray(buffer)
        m = b.reshape(2, 3)
        m[1] = x
        m.T[0, 0] = 9.0
        return b[3:] * 1.0

    g = fx.jit(f, backend="reference")
    for _ in range(2):
        assert g(np.ones(3)).tolist() == [1, 1, 1] and buffer.tolist() == [9, 1, 2, 1, 1, 1]
        buffer[:] = np.arange(6.0)


def test_one_object_returned_twice_is_one_object():
    def f(x):
        part, own = x[1:], x * 2.0
        return part, own, part, own, x, own[:1], x

    x = np.arange(3.0)
    for run in (fx.jit(f, backend="reference"), fx.jit(f), lambda x: fx.jvp(f, (x,), (x,))[0], lambda x: fx.vjp(f, x)[0]):
        for _ in range(2):
            got, expected = run(x), f(x)
            assert [[a is b for b in got] for a in got] == [[a is b for b in expected] for a in expected]
