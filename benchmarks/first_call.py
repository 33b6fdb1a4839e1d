"""A new process with a warm cache: import and first call of an MLP step, beside JAX with its persistent cache, alternating.

python benchmarks/first_call.py [--pairs 15]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

DATA = """
import time; start = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
sizes = (784, 512, 512, 10)
params = [((rng.normal(size=s) / s[0] ** 0.5).astype(np.float32), np.zeros(s[1], np.float32)) for s in zip(sizes, sizes[1:])]
x, target = (rng.normal(size=(128, n)).astype(np.float32) for n in (784, 10))
made = time.perf_counter() - start

def loss(params, x, target, xp):
    for i, (w, b) in enumerate(params):
        x = x @ w + b
        if i < len(params) - 1:
            x = xp.tanh(x)
    return ((x - target) ** 2).mean()
"""
FUNCTX = """
import functx as fx

@fx.jit
def step(params, x, target):
    value, slopes = fx.value_and_grad(lambda p: loss(p, x, target, np))(params)
    for pair, slope in zip(params, slopes):
        for array, g in zip(pair, slope):
            array -= 0.01 * g
    return value

step(params, x, target)
"""
JAX = """
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

@jax.jit
def step(params, x, target):
    value, slopes = jax.value_and_grad(lambda p: loss(p, x, target, jnp))(params)
    return value, jax.tree.map(lambda p, g: p - 0.01 * g, params, slopes)

jax.block_until_ready(step(params, x, target))
"""
END = "\nprint(time.perf_counter() - start - made)"


def seconds(library, cache):
    """Import and first call, without importing NumPy and making the data."""
    environment = {**os.environ, "FUNCTX_CACHE_DIR": f"{cache}/functx", "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax"}
    command = [sys.executable, "-c", DATA + library + END]  # in another folder: the checkout's own functx/ lacks its other halves
    done = subprocess.run(command, env=environment, cwd=cache, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as cache:
        cold = [seconds(library, cache) for library in (FUNCTX, JAX)]
        times = [(seconds(FUNCTX, cache), seconds(JAX, cache)) for _ in range(pairs)]
    warm = [statistics.median(t) for t in zip(*times, strict=True)]
    print(f"cold: functx {cold[0]:.2f} s, JAX {cold[1]:.2f} s")
    print(f"warm: functx {warm[0]:.3f} s, JAX {warm[1]:.3f} s, ratio {warm[0] / warm[1]:.2f}")


if __name__ == "__main__":
    main()
