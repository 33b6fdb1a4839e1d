"""Symbolic sizes under jit: which calls share a compilation, and that all of them do what the plain function does."""

import numpy as np
import oracles
import pytest
import sample

import functx as fx
import functx.numpy as fnp


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def conditions(f):
    """What the symbolic entries of a jitted function ask of sizes, the latest last."""
    entries = [e for group in f.half._entries.values() for e in group if e.predicates.sizes is not None]
    return [str(e.predicates.sizes) for e in sorted(entries, key=lambda e: e.used)]


def agree(f, jitted, *args):
    """The jitted function gives what the plain one gives."""
    oracles.assert_agrees(f, *args, transform=lambda _: jitted, rtol=1e-12, what=str([np.shape(a) for a in args]))


def layer(x, w, b):
    h = x @ w + b
    return np.maximum(h, 0) if x.shape[0] > 64 else np.tanh(h)


W, B = sample.data((32, 16)), sample.data((16,), seed=1)


def test_four_calls_and_three_compilations():
    loss = lambda w, b, x: (layer(x, w, b) ** 2).mean()  # noqa: E731
    f, g = jit(layer), jit(fx.value_and_grad(loss, argnums=(0, 1)))
    plain = fx.value_and_grad(loss, argnums=(0, 1))
    for n, traces in ((128, 1), (256, 2), (512, 2), (32, 3), (1, 3), (65, 3), (64, 3), (100, 3), (128, 3), (0, 3)):
        x = sample.data((n, 32))
        np.testing.assert_allclose(f(x, W, B), layer(x, W, B), rtol=1e-12)
        (value, slopes), (expected, other) = g(W, B, x), plain(W, B, x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for a, c in zip(slopes, other, strict=True):
            np.testing.assert_allclose(a, c, rtol=1e-12)
        assert (f.cache_info().traces, g.cache_info().traces) == (traces, traces), n
    assert conditions(f) == conditions(g) == ["n > 64", "n < 65"]


BRANCHES = {
    "==": (lambda x: x if x.shape[0] == 4 else -x, 2),
    "!=": (lambda x: x if x.shape[0] != 4 else -x, 2),
    ">": (lambda x: x if x.shape[0] > 4 else -x, 2),
    ">=": (lambda x: x if x.shape[0] >= 4 else -x, 2),
    "a chain": (lambda x: x if 2 < x.shape[0] <= 5 else -x, 3),
    "%": (lambda x: x.reshape(-1, 2).sum(1) if x.shape[0] % 2 == 0 else x, 2),
    "//": (lambda x: x[: x.shape[0] // 2], 1),
    "min": (lambda x: x[: min(x.shape[0], 4)], 2),
    "max": (lambda x: x * max(x.shape[0], 4), 2),
    "truth": (lambda x: x / x.shape[0] if x.shape[0] else x, 2),
    "size": (lambda x: x if x.size > 4 else -x, 2),
    "len": (lambda x: x if len(x) > 4 else -x, 12),
    "range": (lambda x: sum((x[i] for i in range(x.shape[0])), 0.0), 12),
    "float": (lambda x: x * float(x.shape[0]), 12),
    "in a tuple": (lambda x: x if x.shape == (4,) else -x, 2),
    "squeeze": (lambda x: np.squeeze(x), 2),
    "broadcasting with 4": (lambda x: x * np.ones(4) if x.shape[0] in (1, 4) else x, 3),
    "slices": (lambda x: x[2:5], 4),
    "the last": (lambda x: x[-1] if x.shape[0] else 0.0, 2),
    "split": (lambda x: np.concatenate(np.split(x, 2)[::-1]) if x.shape[0] % 2 == 0 else x, 2),
    "roll": (lambda x: np.roll(x, 3), 4),
    "two symbols": (lambda x: np.outer(x, fnp.arange(x.shape[0] + 1)), 1),
    "a square": (lambda x: x if x.shape[0] ** 2 > 20 else -x, 2),
    "where on a size": (lambda x: np.where(x > 0, x.shape[0], x), 1),
    "pad": (lambda x: np.pad(x, (1, 2)), 1),
    "mean": (lambda x: x.mean() if x.shape[0] else 0.0, 2),
    "diff": (lambda x: np.diff(x), 2),
    "zeros": (lambda x: fnp.zeros(x.shape) + x, 1),
    "stride": (lambda x: x[::3], 1),
    "reverse": (lambda x: x[::-1] - x, 1),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_both_sides_of_a_decision_become_entries(case):
    """Any sizes in any order: as few entries as there are ways through the function, beside the first call's own."""
    f, ways = BRANCHES[case]
    g = jit(f, dynamic=True)
    for n in (7, 4, 0, 1, 9, 3, 2, 12, 5, 6, 8, 11, 10):
        agree(f, g, sample.data((n,)))
    assert g.cache_info().traces <= ways + 1, conditions(g)
    if ways < 12:
        traces = g.cache_info().traces
        for n in (14, 17, 25, 40):
            agree(f, g, sample.data((n,)))
        assert g.cache_info().traces <= traces + 1, conditions(g)
