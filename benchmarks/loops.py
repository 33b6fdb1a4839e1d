"""Loops and choices beside JAX, in one run: alternating pairs, medians, ratios (functx / JAX; below 1 is faster).

Needs the `bench` extra (jax). Run on a quiet machine:  python benchmarks/loops.py [--pairs 20]
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from beside_jax import compare

import functx as fx

LENGTH, BATCH, INPUTS, HIDDEN = 200, 32, 32, 64
STEPS, LANES = 1_000_000, 10_000


def lstm_loss(m, lax, p, xs):
    """Mean squared last state of an LSTM (Hochreiter and Schmidhuber 1997, with a forget gate); written once, for either library."""

    def logistic(v):
        return 0.5 * (m.tanh(0.5 * v) + 1)

    def step(carry, x):
        h, c = carry
        gates = x @ p["into"] + h @ p["back"] + p["bias"]
        i, f, o = (logistic(gates[:, k * HIDDEN : (k + 1) * HIDDEN]) for k in range(3))
        c = f * c + i * m.tanh(gates[:, 3 * HIDDEN :])
        return (o * m.tanh(c), c), None

    start = m.zeros((xs.shape[1], HIDDEN), xs.dtype)
    (h, _), _ = lax.scan(step, (start, start), xs)
    return (h * h).mean()


def lstm_arguments(dtype):
    rng = np.random.default_rng(0)
    sizes = {"into": (INPUTS, 4 * HIDDEN), "back": (HIDDEN, 4 * HIDDEN)}
    p = {name: (rng.standard_normal(size) / size[0] ** 0.5).astype(dtype) for name, size in sizes.items()}
    return p | {"bias": np.zeros(4 * HIDDEN, dtype)}, rng.standard_normal((LENGTH, BATCH, INPUTS)).astype(dtype)


def lstm(pairs):
    p, xs = lstm_arguments(np.float32)

    def ours():
        return fx.jit(fx.value_and_grad(lambda p, xs: lstm_loss(fx.numpy, fx.lax, p, xs)))

    def theirs():
        return jax.jit(jax.value_and_grad(lambda p, xs: lstm_loss(jnp, jax.lax, p, xs)))

    q, ys = jax.tree.map(jnp.array, (p, xs))
    one, other = ours(), theirs()
    for a, b in zip(fx.tree.leaves(one(p, xs)), jax.tree.leaves(other(q, ys)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-5)
    compare(
        f"LSTM T={LENGTH}, batch {BATCH}, hidden {HIDDEN}: value, gradient",
        lambda: one(p, xs),
        lambda: jax.block_until_ready(other(q, ys)),
        pairs,
    )

    # An empty disk cache: the compiler runs each time. JAX keeps what it has compiled by the program, so each gets a new function.
    def first(make, args):
        f = make()
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        return time.perf_counter() - start

    times = []
    for _ in range(3):
        fx.clear_cache()
        times.append((first(ours, (p, xs)), first(theirs, (q, ys))))
    mine, peers = (sorted(t)[1] for t in zip(*times, strict=True))
    print(f"{'  its first call (trace, compile, run), seconds':58} {mine:9.3f} {peers:9.3f}   {mine / peers:6.2f}", flush=True)


def recurrence(pairs):
    def logistic_map(lax, m):
        return lambda r: lax.fori_loop(0, STEPS, lambda i, x: r * x * (1 - x) + 1e-3 * m.sin(x), 0.5)

    ours, theirs = fx.jit(logistic_map(fx.lax, fx.numpy)), jax.jit(logistic_map(jax.lax, jnp))
    np.testing.assert_allclose(ours(2.8), theirs(2.8), rtol=1e-9)
    compare(f"scalar recurrence of {STEPS:,} steps by fori_loop", lambda: ours(2.8), lambda: theirs(2.8).block_until_ready(), pairs)
    numba_recurrence(ours, pairs)


def numba_recurrence(ours, pairs):
    """The same recurrence as a plain loop under Numba, where that is installed."""
    try:
        import numba
    except ImportError:
        print("numba is not installed")
        return

    @numba.njit
    def loop(r):
        x = 0.5
        for _ in range(STEPS):
            x = r * x * (1 - x) + 1e-3 * np.sin(x)
        return x

    compare("  the same, and Numba's loop in the place of JAX", lambda: ours(2.8), lambda: loop(2.8), pairs)


def newton(pairs):
    def root(lax, m):
        def solve(a):
            def going(state):
                return (m.abs(state[1]) > 1e-12) & (state[2] < 50)

            def better(state):
                x, _, n = state
                change = (x * x * x + x - a) / (3 * x * x + 1)
                return x - change, change, n + 1

            return lax.while_loop(going, better, (a, a * 0 + 1.0, 0))[0]

        return solve

    a = np.linspace(-20.0, 20.0, LANES)
    b = jnp.array(a)
    ours, theirs = fx.jit(fx.vmap(root(fx.lax, fx.numpy))), jax.jit(jax.vmap(root(jax.lax, jnp)))
    np.testing.assert_allclose(ours(a), theirs(b), rtol=1e-9, atol=1e-12)
    compare(f"Newton's method by while_loop, {LANES:,} lanes", lambda: ours(a), lambda: theirs(b).block_until_ready(), pairs)


def filled(pairs):
    """A buffer filled in a loop, and the gradient through it: in JAX by scan's stacked results."""

    def ours_loss(x):
        xs = fx.numpy.zeros(100_000)

        def step(i, v):
            xs[i] = v
            return v * 0.999 + x

        fx.fori_loop(0, xs.shape[0], step, x)
        return (xs * xs).mean()

    def theirs_loss(x):
        return (jax.lax.scan(lambda v, _: (v * 0.999 + x, v), x, None, length=100_000)[1] ** 2).mean()

    ours, theirs = fx.jit(fx.value_and_grad(ours_loss)), jax.jit(jax.value_and_grad(theirs_loss))
    np.testing.assert_allclose(ours(0.3), theirs(0.3), rtol=1e-9)
    compare("a buffer of 100,000 filled in a loop: value, gradient", lambda: ours(0.3), lambda: jax.block_until_ready(theirs(0.3)), pairs)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pairs", type=int, default=20, help="alternated pairs per row")
    pairs = arguments.parse_args().pairs
    print(f"{'':58} {'functx ms':>9} {'JAX ms':>9}   ratio")
    for part in (lstm, recurrence, newton, filled):
        part(pairs)


if __name__ == "__main__":
    main()
