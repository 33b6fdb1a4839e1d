"""functx beside JAX, in one run: alternating pairs, medians, ratios (functx / JAX; below 1 is faster).

Needs the `bench` extra (jax). Run on a quiet machine:  python benchmarks/beside_jax.py [--pairs 30]
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import functx as fx

jax.config.update("jax_enable_x64", True)

SIZES = (784, 512, 512, 10)
BATCH, RATE = 128, 0.01


def seconds(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def compare(name, ours, theirs, pairs):
    """Median of the ratios of alternated pairs, and the two medians in milliseconds."""
    for f in (ours, theirs) * 3:
        f()
    times = [(seconds(ours), seconds(theirs)) if i % 2 else (seconds(theirs), seconds(ours))[::-1] for i in range(pairs)]
    ratio = statistics.median(a / b for a, b in times)
    ms = [1e3 * statistics.median(t) for t in zip(*times, strict=True)]
    print(f"{name:58} {ms[0]:9.3f} {ms[1]:9.3f}   {ratio:6.2f}", flush=True)


def mlp(np_, params, x, target):
    """Mean squared error of a tanh network; written once, for either array module."""
    for i, (w, b) in enumerate(params):
        x = x @ w + b
        if i < len(params) - 1:
            x = np_.tanh(x)
    return ((x - target) ** 2).mean()


def mlp_step(pairs):
    rng = np.random.default_rng(0)
    shapes = list(zip(SIZES, SIZES[1:], strict=False))
    params = [((rng.normal(size=s) / s[0] ** 0.5).astype(np.float32), np.zeros(s[1], np.float32)) for s in shapes]
    x, target = (rng.normal(size=(BATCH, n)).astype(np.float32) for n in (SIZES[0], SIZES[-1]))

    @fx.jit
    def step(params, x, target):
        value, slopes = fx.value_and_grad(lambda p: mlp(np, p, x, target))(params)
        for pair, slope in zip(params, slopes, strict=True):
            for array, g in zip(pair, slope, strict=True):
                array -= RATE * g
        return value

    def jax_step(params, x, target):
        value, slopes = jax.value_and_grad(lambda p: mlp(jnp, p, x, target))(params)
        return value, jax.tree.map(lambda p, g: p - RATE * g, params, slopes)

    jitted = jax.jit(jax_step, donate_argnums=0)
    state = [jax.tree.map(jnp.array, params)]
    args = (jnp.array(x), jnp.array(target))

    def theirs():
        value, state[0] = jitted(state[0], *args)
        value.block_until_ready()

    ours_params = [(w.copy(), b.copy()) for w, b in params]
    compare("MLP step 784-512-512-10, batch 128, float32", lambda: step(ours_params, x, target), theirs, pairs)


def pointwise(pairs):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=4_000_000).astype(np.float32) for _ in range(2))
    ours = fx.jit(lambda a, b: np.tanh(a * b + 1) + np.exp(-((a * b + 1) ** 2)))
    theirs = jax.jit(lambda a, b: jnp.tanh(a * b + 1) + jnp.exp(-((a * b + 1) ** 2)))
    ja, jb = jnp.array(a), jnp.array(b)
    np.testing.assert_allclose(ours(a, b), theirs(ja, jb), rtol=1e-5, atol=1e-6)
    compare("tanh(a*b+1) + exp(-(a*b+1)**2), 4M float32", lambda: ours(a, b), lambda: theirs(ja, jb).block_until_ready(), pairs)


def chain(np_, x, length=500):
    """About 1,000 equations."""
    for _ in range(length):
        x = np_.sin(x) * 1.01
    return x


def tracing(pairs):
    compare(
        "trace + grad of 1,000 equations (no compilation)",
        lambda: fx.make_ir(fx.grad(lambda x: chain(np, x)))(1.0),
        lambda: jax.make_jaxpr(jax.grad(lambda x: chain(jnp, x)))(1.0),
        min(pairs, 10),
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pairs", type=int, default=30, help="alternated pairs per figure")
    pairs = arguments.parse_args().pairs
    print(f"jax {jax.__version__}, numpy {np.__version__}")
    print(f"{'':58} {'functx ms':>9} {'JAX ms':>9}   {'ratio':>6}")
    for measure in (mlp_step, pointwise, tracing):
        measure(pairs)


if __name__ == "__main__":
    main()
