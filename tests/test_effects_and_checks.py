"""What can fail keeps its place among effects, under every backend."""

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
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"(?s)index 7 is out of bounds for axis 0 with size 4.*return x \* x\[i"):
        jitted(x, np.array([0.0, 7.0, 2.0]))
    assert seen == [4.0] * 2
    jitted(x, np.array([0.0, 1.0, 2.0]))  # nothing of the failure is left

    def fails(x):
        x += 1
        fx.debug.callback(lambda v: {}[float(v)], x.sum())

    with pytest.raises(KeyError, match=r"8\.0"):
        fx.jit(fails, backend=backend)(x)
    np.testing.assert_array_equal(x, 1)
