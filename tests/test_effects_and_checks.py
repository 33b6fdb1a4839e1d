"""Effects and callbacks under every backend: beside checks that fail, in loops that go on by them, with sizes that data decides."""

import numpy as np
import pytest
from test_effects import each_backend

import functx as fx
from functx import errors


@each_backend
@pytest.mark.parametrize("loop", [False, True])
def test_effects_and_a_check_that_fails(loop, backend):
    """Those before it have happened, and none after it; what Python raises comes out as it is."""
    seen = []

    def step(x, i):
        fx.debug.callback(lambda v: seen.append(float(v)), x.sum())
        return x * x[i.astype(np.int64)]

    def f(x, places):
        if loop:
            return fx.scan(lambda c, i: (step(c, i), None), x, places)[0]
        for k in range(3):
            x = step(x, places[k])
        fx.debug.callback(lambda v: seen.append(float(v)), x.sum())
        return x

    jitted = fx.jit(f, backend=backend)
    x = np.ones(4)
    jitted(x, np.array([0.0, 1.0, 2.0]))
    assert seen == [4.0] * (3 + (not loop))
    seen.clear()
    with pytest.raises(
        errors.IndexOutOfBoundsError, match=r"(?s)index 7 is out of bounds for axis 0 with size 4.*return x \* x\[i"
    ) as raised:
        jitted(x, np.array([0.0, 7.0, 2.0]))
    assert raised.value.__suppress_context__ or raised.value.__context__ is None  # one error, not one during another
    assert seen == [4.0] * 2
    jitted(x, np.array([0.0, 1.0, 2.0]))  # nothing of the failure is left

    def fails(x):
        x += 1
        fx.debug.callback(lambda v: {}[float(v)], x.sum())

    with pytest.raises(KeyError, match=r"8\.0"):
        fx.jit(fails, backend=backend)(x)
    np.testing.assert_array_equal(x, 1)


@each_backend
def test_a_loop_goes_on_by_what_is_called_in_it(backend):
    """By callbacks, and by what a backend has no code of its own for."""
    seen = []

    def called(c):
        fx.debug.callback(lambda v: seen.append(float(v)), c)
        return c + 1

    loops = {
        "an effect": lambda x: fx.while_loop(lambda c: c < 5, called, x),
        "a value": lambda x: fx.while_loop(lambda c: c < 5, lambda c: fx.pure_callback(lambda v: v + 1, c, c), x),
        "a condition": lambda x: fx.while_loop(lambda c: fx.pure_callback(lambda v: v < 5, np.bool_(True), c), lambda c: c + 1, x),
        "a sort": lambda x: fx.while_loop(lambda c: np.sort(c + np.zeros(2))[0] < 5, lambda c: np.sort(c + np.zeros(2))[0] + 1, x),
        "a traced length": lambda x: fx.fori_loop(0, x.astype(int) + 1, lambda i, c: called(c), x),
    }
    for name, f in loops.items():
        assert fx.jit(f, backend=backend)(np.float64(2)) == 5, name
        np.testing.assert_array_equal(fx.jit(fx.vmap(f), backend=backend)(np.array([2.0, 2.0])), [5, 5])
    assert seen == [2, 3, 4] * 3 * 2  # under vmap one example after the other


@each_backend
@pytest.mark.parametrize("place", ["before", "in a loop around"])
def test_a_check_that_fails_ends_a_loop_that_would_not_end_without(backend, place):
    def loop(step):
        return fx.while_loop(lambda c: c < 10, lambda c: c + step, 0.0)

    def f(steps, i):
        if place == "before":
            return loop(steps[i])
        return fx.scan(lambda c, k: (c + loop(steps[k]), None), 0.0, np.stack([i, i]))[0]

    jitted, steps = fx.jit(f, backend=backend), np.array([1.0, 0.0])
    assert jitted(steps, np.array(0)) == 10 * (1 + (place != "before"))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 2"):
        jitted(steps, np.array(5))


@each_backend
def test_a_loop_that_is_kept_for_its_effects_only(backend):
    """Of the forward loop of a derivative nobody reads what it keeps."""
    seen = []

    def f(a, n):
        scale = fx.scan(lambda c, x: (c * 0.5 + a, None), a, np.ones(2))[0]

        def body(i, c):
            fx.io_callback(lambda v: seen.append(v), None, a)
            return c * 0.5 + scale

        fx.checkpoint(lambda v: (fx.fori_loop(0, n, body, v), v)[1])(a)
        return scale * scale

    assert fx.jit(fx.grad(f), backend=backend)(1.0, np.array(3)) == 2 * 1.75 * 1.75 and seen == [1.0] * 3


@each_backend
def test_results_of_callbacks_are_values_of_their_own(backend):
    state = np.zeros(2)

    def step(x):
        state[:] += 1
        return state

    a, b, total = fx.jit(lambda x: (lambda a, b: (a, b, a + b))(*(fx.io_callback(step, x, x) for _ in range(2))), backend=backend)(
        state * 0
    )
    np.testing.assert_array_equal([a, b, total], [[1, 1], [2, 2], [3, 3]])


@each_backend
def test_what_a_mask_selects_and_sizes_are_given_to_callbacks(backend, capsys):
    seen = []

    def f(x):
        y = x[x > 1]
        fx.debug.print("{} {} {}", x[x > 2], y.shape, x.shape[0])
        fx.debug.callback(lambda v, n: seen.append((type(v), v.tolist(), n)), y, (y * 2).shape[0])
        return fx.pure_callback(np.sum, np.float64(0), y)

    jitted = fx.jit(f, backend=backend)
    for n in (4, 5, 1):
        assert jitted(np.arange(float(n))) == sum(range(2, n))
    assert seen == [(np.ndarray, [2.0, 3.0], 2), (np.ndarray, [2.0, 3.0, 4.0], 3), (np.ndarray, [], 0)]
    assert capsys.readouterr().out == "[3.] (2,) 4\n[3. 4.] (3,) 5\n[] (0,) 1\n"
