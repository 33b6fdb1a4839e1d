"""Writes through np.broadcast_arrays that NumPy orders by how values lie in memory."""

import numpy as np
import oracles
import pytest

from functx.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's, about broadcast_arrays


def test_values_that_lie_backwards_are_refused_through_an_index():
    def f(x, y):
        v = np.broadcast_arrays(x[:, :1], y)[0]
        v[..., [0, -1, 0]] = y[::-1, :3]
        return v

    with pytest.raises(UnsupportedError, match="NumPy's order of writing depends on how the values lie") as caught:
        oracles.reference_jit(f)(np.ones((3, 4)), np.ones((3, 4)))
    assert "v[..., [0, -1, 0]] = y[::-1, :3]" in str(caught.value)
