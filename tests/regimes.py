"""One case run every way: plain, jitted three times in a row, mapped over a batch of 1 and of 3, and the mapped one jitted."""

import copy

import numpy as np

import functx as fx


def tree_close(got, expected, *, rtol=1e-12, atol=1e-12, what=""):
    """Equal containers and types of leaves; numbers equal to rounding."""
    if isinstance(expected, dict):
        assert type(got) is dict and got.keys() == expected.keys(), f"{what}: {got!r} is not like {expected!r}"
        for k in expected:
            tree_close(got[k], expected[k], rtol=rtol, atol=atol, what=f"{what}[{k!r}]")
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected), f"{what}: {got!r} is not like {expected!r}"
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            tree_close(g, e, rtol=rtol, atol=atol, what=f"{what}[{i}]")
    elif expected is None or isinstance(expected, str):
        assert got == expected, f"{what}: {got!r} is not {expected!r}"
    else:
        assert type(got) is type(expected), f"{what}: {got!r} is a {type(got).__name__}, expected {expected!r}"
        assert np.shape(got) == np.shape(expected), f"{what}: shape {np.shape(got)}, expected {np.shape(expected)}"
        if hasattr(expected, "dtype"):
            assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def batch(tree, n):
    """``n`` copies of every leaf, stacked in front."""
    return fx.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * n), tree)


def every_way(f, *args, expected, plain=True, backend="reference", vmap=True, rtol=1e-12, atol=1e-12, arguments_after=None):
    """``f(*args)`` is ``expected`` however it is run; arguments are fresh for every run.

    ``arguments_after``: what the arguments hold after a call.
    """

    def check(run, given, wanted, after, what):
        tree_close(run(*given), wanted, rtol=rtol, atol=atol, what=what)
        if after is not None:
            tree_close(tuple(given), tuple(after), rtol=rtol, atol=atol, what=f"{what}: arguments")

    if plain:
        check(f, copy.deepcopy(args), expected, arguments_after, "plain")
    jitted = fx.jit(f, backend=backend)
    for call in (1, 2, 3):
        check(jitted, copy.deepcopy(args), expected, arguments_after, f"jit, call {call}")
    assert jitted.cache_info().traces == 1
    if not vmap:
        return
    for n in (1, 3):
        after = None if arguments_after is None else batch(tuple(arguments_after), n)
        wanted = batch(expected, n)
        mapped = fx.vmap(f)
        check(mapped, batch(copy.deepcopy(args), n), wanted, after, f"vmap of {n}")
        jitted_map = fx.jit(mapped, backend=backend)
        for call in (1, 2):
            check(jitted_map, batch(copy.deepcopy(args), n), wanted, after, f"jit of vmap of {n}, call {call}")
