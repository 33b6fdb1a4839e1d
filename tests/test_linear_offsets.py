"""linear_transpose of functions that add something: an offset other than zero is refused, whatever it is made of."""

import numpy as np
import pytest

import functx as fx
import functx.numpy as fnp


@pytest.mark.parametrize(
    "f",
    [
        lambda u, x: u + x,
        lambda u, x: np.concatenate([u, x]),
        lambda u, x: fnp.at(fnp.zeros(3))[0].set(1.0) + u,
        lambda u, x: np.where(x > 0, u, x),
        lambda u, x: (u, x * 2),
        lambda u, x: u - np.sin(x).sum(),
    ],
)
def test_an_affine_function_has_no_linear_transpose(f):
    """Whatever its offset is made of: captured arrays, computed values, results of their own."""
    x = np.arange(3.0)
    with pytest.raises(fx.errors.NonLinearError, match="zero"):
        fx.linear_transpose(lambda u: f(u, x), np.ones(3))


def test_offsets_that_are_zero_are_none():
    x = np.zeros(3)
    for f in (lambda u: u + x, lambda u: np.concatenate([u, x]), lambda u: fnp.at(fnp.zeros(3))[0].set(0.0) + u, lambda u: (u, x * 2)):
        out = f(np.ones(3))
        ct = tuple(np.ones_like(o) for o in out) if isinstance(out, tuple) else np.ones_like(out)
        np.testing.assert_array_equal(fx.linear_transpose(f, np.ones(3))(ct)[0], np.ones(3))
