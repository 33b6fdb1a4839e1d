"""Random programs of views and writes on arrays of any layout: NumPy running the same program is the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import LAYOUTS, derivative, laid_out, scalar, view_program

import functx as fx
import functx.numpy as fnp


def drawn(random, inputs=2):
    """A program on freshly laid out arrays, and a function that makes such arrays again."""
    shapes = [random.choice([(4,), (2, 3), (3, 2, 2), (4, 4), (1, 3)]) for _ in range(inputs)]
    layouts = [random.choice(LAYOUTS) for _ in shapes]
    values = [np.round(np.sin(np.arange(np.prod(s)) * (1.7 + i)), 2).reshape(s) for i, s in enumerate(shapes)]

    def fresh(dtype=float, layouts=layouts):
        pairs = [laid_out(v.astype(dtype), layout) for v, layout in zip(values, layouts, strict=True)]
        return [view for view, _ in pairs], [buffer for _, buffer in pairs]

    program = view_program(random, fresh()[0], random.randrange(3, 12))
    return program, fresh, f"{program.text}\non {list(zip(shapes, layouts, strict=True))}"


def sharing(arrays):
    """Which of the arrays share memory with which; numbers share with nothing."""
    return [[isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b) for b in arrays] for a in arrays]


def agree(got, expected, text):
    assert len(got) == len(expected)
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        assert type(g) is type(e), f"v{i} is a {type(g).__name__}, not a {type(e).__name__}:\n{text}"
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-12, err_msg=f"v{i} of\n{text}")


@given(st.randoms(use_true_random=False))
@settings(max_examples=2 * settings().max_examples)  # 100 in CI
def test_jit_equals_numpy_in_results_changes_and_sharing(random):
    program, fresh, text = drawn(random)
    jitted = fx.jit(lambda *args: program.run(*args), backend="reference")
    others = [random.choice(LAYOUTS) for _ in range(2)]
    for layouts in ({}, {}, {"layouts": others}, {}):
        plain_args, plain_buffers = fresh(**layouts)
        args, buffers = fresh(**layouts)
        expected, got = program.run(*plain_args), jitted(*args)
        agree(got, expected, text)
        for mine, theirs in zip(buffers, plain_buffers, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=f"arguments of\n{text}")
        assert sharing([*got, *args]) == sharing([*expected, *plain_args]), f"shared memory of {layouts}:\n{text}"
        assert [g is a for g in got for a in args] == [e is a for e in expected for a in plain_args], text
    assert jitted.cache_info().traces <= 2


@given(st.randoms(use_true_random=False))
def test_gradients_equal_differences_and_arguments_change_once(random):
    program, fresh, text = drawn(random)
    (a, b), buffers = fresh()
    da = np.cos(np.arange(a.size)).reshape(a.shape)

    def plain(x):
        fresh_a, fresh_b = fresh(np.longdouble)[0]
        fresh_a[...] = x
        return scalar(program.run(fresh_a, fresh_b))

    wanted = float(derivative(plain, a.copy(), da))
    value, gradient = fx.value_and_grad(lambda a, b: scalar(program.run(a, b)))(a, b)
    (plain_a, plain_b), plain_buffers = fresh()
    np.testing.assert_allclose(value, scalar(program.run(plain_a, plain_b)), rtol=1e-12, err_msg=text)
    np.testing.assert_allclose((gradient * da).sum(), wanted, rtol=1e-9, atol=1e-9, err_msg=text)
    (c, d), _ = fresh()
    out, moved = fx.jvp(lambda a, b: scalar(program.run(a, b)), (c, d), (da, None))
    np.testing.assert_allclose((out, moved), (value, wanted), rtol=1e-9, atol=1e-9, err_msg=text)
    (e, f), jit_buffers = fresh()
    jitted = fx.jit(fx.grad(lambda a, b: scalar(program.run(a, b))), backend="reference")(e, f)
    np.testing.assert_allclose(jitted, gradient, rtol=1e-12, atol=1e-12, err_msg=text)
    for changed in (buffers, jit_buffers):
        for mine, theirs in zip(changed, plain_buffers, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=f"arguments of\n{text}")


@given(st.randoms(use_true_random=False))
def test_vmap_equals_the_loop_in_results_and_changes(random):
    program, fresh, text = drawn(random)
    lanes, axes, share = random.choice([1, 3]), [random.randrange(2), random.randrange(2)], random.randrange(3) == 0

    def batches():
        out = []
        for example, axis in zip(fresh()[0], axes, strict=True):
            values = np.stack([example * (1 + 0.5 * i) for i in range(lanes)], min(axis, example.ndim))
            out.append(laid_out(values, LAYOUTS[(axis + lanes) % len(LAYOUTS)])[0])
        return [out[0], fresh()[0][1]] if share else out

    def loop(first, second):
        results = []
        for i in range(lanes):
            one = np.moveaxis(first, axes[0], 0)[i]
            # vmap refuses different writes to what all examples share; equal ones it does once, so every example gets the original
            two = fresh()[0][1] if share else np.moveaxis(second, min(axes[1], second.ndim - 1), 0)[i]
            results.append(program.run(one, two))
        return [np.stack([np.asarray(r[k]) for r in results]) for k in range(len(results[0]))]

    mine, plain = batches(), batches()
    expected = loop(*plain)
    in_axes = (axes[0], None if share else min(axes[1], mine[1].ndim - 1))
    for run in (fx.vmap(program.run, in_axes), fx.jit(fx.vmap(program.run, in_axes), backend="reference")):
        given = batches()
        try:
            got = run(*given)
        except fx.errors.OverlapError:
            assert share
            return
        for k, (g, e) in enumerate(zip(got, expected, strict=True)):
            np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-12, err_msg=f"v{k} of\n{text}\n{in_axes} {lanes}")
        np.testing.assert_allclose(given[0], plain[0], rtol=1e-12, atol=1e-12, err_msg=f"argument of\n{text}")
        if not share:
            np.testing.assert_allclose(given[1], plain[1], rtol=1e-12, atol=1e-12, err_msg=f"argument of\n{text}")


@pytest.mark.parametrize("batch", range(4))
def test_a_slice_of_the_programs_through_cpp(batch):
    import random as random_module

    drawer = random_module.Random(50 + batch)
    cases = [drawn(drawer) for _ in range(8)]

    def together(*args):
        return [program.run(*args[2 * k : 2 * k + 2]) for k, (program, _, _) in enumerate(cases)]

    jitted = fx.jit(together, backend="cpp")
    for _ in range(3):
        args = [a for _, fresh, _ in cases for a in fresh()[0]]
        plain = [a for _, fresh, _ in cases for a in fresh()[0]]
        expected, got = together(*plain), jitted(*args)
        for g, e, (_, _, text) in zip(got, expected, cases, strict=True):
            agree(g, e, text)
        for k, (mine, theirs) in enumerate(zip(args, plain, strict=True)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=f"argument of\n{cases[k // 2][2]}")
    assert jitted.cache_info().traces == 1


# --- single facts -------------------------------------------------------------------------------------------------------------------------


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
