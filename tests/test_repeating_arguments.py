"""Arguments whose elements share memory with each other: read like any other; writes to them are refused, and nothing is changed."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import functx as fx
from functx import numpy as fnp
from functx.capture import repeats

# name: an array of shape (2, 3) whose elements repeat, made anew.
REPEATING = {
    "rows": lambda: as_strided(np.arange(3.0), (2, 3), (0, 8)),
    "columns": lambda: as_strided(np.arange(2.0), (2, 3), (8, 0)),
    "one place": lambda: as_strided(np.ones(1), (2, 3), (0, 0)),
    "windows": lambda: as_strided(np.arange(4.0), (2, 3), (8, 8)),
    "reversed windows": lambda: as_strided(np.arange(4.0), (2, 3), (8, 8))[::-1],
}

# Views whose elements are places of their own, nested or not.
SINGLE = {
    "fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "steps": lambda: np.arange(24.0).reshape(4, 6)[::-2, ::2],
    "transposed": lambda: np.arange(24.0).reshape(6, 4)[::2, 1:3].T,
    "interleaved": lambda: as_strided(np.arange(8.0), (2, 3), (24, 16)),
    "one row": lambda: as_strided(np.arange(3.0), (1, 3), (0, 8)),
}


def write(x):
    x[0, 0] = 7.0
    return x * 2.0


def through_a_view(x):
    x.T[1:] += 1.0
    return x.sum()


def through_a_row(x):
    for row in x:
        row -= 1.0
    return x.sum()


WAYS = {
    "reference": lambda f: fx.jit(f, backend="reference"),
    "cpp": lambda f: fx.jit(f, backend="cpp"),
    "vjp": lambda f: lambda x: fx.vjp(f, x)[0],
    "vmap": lambda f: fx.vmap(lambda row: f(row[None])),
    "jit in jit": lambda f: fx.jit(lambda x: fx.jit(f)(x)),
}


@pytest.mark.parametrize("make", [pytest.param(f, id=name) for name, f in (REPEATING | SINGLE).items()])
def test_whether_elements_repeat(make):
    x = make()
    marked = {x[i : i + 1, j : j + 1].__array_interface__["data"][0] for i, j in np.ndindex(x.shape)}
    assert repeats(x) == (len(marked) < x.size)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [write, through_a_view, through_a_row])
@pytest.mark.parametrize("name", REPEATING)
def test_writes_are_refused(name, f, way):
    x = REPEATING[name]()
    before = x.copy()
    with pytest.raises(fx.errors.OverlapError, match="(?s)writes to .*several elements of which are one place.*pass a copy"):
        WAYS[way](f)(x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("backend", ["reference", "cpp"])
@pytest.mark.parametrize("name", [*REPEATING, *SINGLE])
def test_an_entry_made_for_others_is_not_used(name, backend):
    """Whatever comes first, the other one is judged by its own memory, also by the native call."""
    run = fx.jit(write, backend=backend)
    for _ in range(3):
        ok = np.zeros((2, 3)).T.copy().T
        run(ok)
        assert ok[0, 0] == 7.0
    x, expected = (REPEATING | SINGLE)[name](), (REPEATING | SINGLE)[name]()
    if name in REPEATING:
        with pytest.raises(fx.errors.OverlapError, match="one place in memory"):
            run(x)
    else:
        np.testing.assert_array_equal(run(x), write(expected))
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("name", REPEATING)
def test_reading_is_as_in_numpy(name):
    x = REPEATING[name]()
    for way in (fx.jit, fx.vmap, lambda f: lambda v: fx.vjp(f, v)[0]):
        np.testing.assert_array_equal(way(lambda v: v * 2.0 + v)(x), x * 3.0)


def test_captured_arrays():
    buf = as_strided(np.zeros(3), (2, 3), (0, 8))

    def f(v):
        b = fnp.asarray(buf)
        b[0] += v
        return b.sum()

    with pytest.raises(fx.errors.OverlapError, match="one place in memory"):
        fx.jit(f)(1.0)
    assert not buf.any()


def test_the_base_may_be_written_and_read_through_windows():
    def f(base, windows):
        base[1:3] += windows[0, 1:]
        return windows * 1.0

    def arguments():
        base = np.arange(4.0)
        return base, as_strided(base, (2, 3), (8, 8))

    got, expected = arguments(), arguments()
    np.testing.assert_array_equal(fx.jit(f)(*got), f(*expected))
    np.testing.assert_array_equal(got[0], expected[0])
