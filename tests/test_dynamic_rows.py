"""Every sample row under symbolic sizes: traced at its own shapes, then called at others, 0 and 1 among them."""

import copy

import numpy as np
import oracles
import pytest
import sample
import samples

import functx as fx
import functx.numpy as fnp

# Sizes are replaced by others; all arguments of a row change together, so that those that fitted mostly still do.
OTHERS = [{2: 3, 3: 5, 4: 7}, {3: 1}, {4: 1}, {3: 0}, {4: 0}, {2: 1}, {3: 4, 4: 3}, {3: 9, 4: 2}]


def resized(array, sizes, seed):
    shape = tuple(sizes.get(d, d) for d in array.shape)
    return sample.data(shape, seed) if array.dtype == np.float64 else np.resize(array, shape)


def check(f, row, rtol, atol=0.0, backend="reference"):
    """One function whose sizes are symbolic does what is compiled for each shape alone: values, changes to arguments, errors."""
    symbolic = fx.jit(f, backend=backend, dynamic=True)
    for sizes in ({}, *OTHERS):
        args = tuple(resized(a, sizes, k) for k, a in enumerate(row.arguments()))
        if sizes and all(a.shape == b.shape for a, b in zip(args, row.args, strict=True)):
            continue
        alone = fx.jit(f, backend="reference", dynamic=False)
        mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
        expected, got = oracles.outcome(alone, *theirs), oracles.outcome(symbolic, *mine)
        what = f"{row.name} at {[a.shape for a in args]}"
        if expected.error is not None:
            assert got.error is not None, f"{what}: nothing raised, expected {expected.error!r}"
            continue  # of several errors another one may be found first
        assert got.error is None, f"{what}: {got.error!r}"
        oracles.assert_same(got.value, expected.value, rtol=rtol, atol=atol, what=what)
        oracles.assert_same(list(mine), list(theirs), rtol=rtol, atol=atol, what=f"{what}: arguments")


def rows(config, smooth=False):
    chosen = [row for row in samples.SAMPLES if row.smooth or not smooth]
    return chosen if config.getoption("--long") else chosen[::12]


@pytest.mark.parametrize("part", range(8))
def test_values(pytestconfig, part):
    for row in rows(pytestconfig)[part::8]:
        check(lambda *args, row=row: row.f(fnp, *args), row, rtol=1e-14)


@pytest.mark.parametrize("part", range(8))
def test_gradients(pytestconfig, part):
    for row in rows(pytestconfig, smooth=True)[part::8]:

        def loss(*args, row=row):
            out = row.f(fnp, *args)
            return (out * out).sum() if np.ndim(out) else out * out

        floats = [i for i, a in enumerate(row.args) if a.dtype == np.float64]
        check(fx.grad(loss, floats), row, rtol=1e-9, atol=1e-12)
