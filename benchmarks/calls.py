"""What a call costs: jitted functions beside JAX and NumPy, in one run, alternating, as ratios of medians.

    python benchmarks/calls.py [--pairs 200] [--callgrind]

With --callgrind it prints the instructions of one call (valgrind needed), a figure that can be compared over time on noisy machines.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import functx as fx


def seconds_per_call(f, calls):
    start = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - start) / calls


def ratio(ours, theirs, pairs, calls):
    """Medians of alternated batches: (ratio, ours, theirs)."""
    ours(), theirs(), ours(), theirs()
    mine, other = [], []
    for _ in range(pairs):
        mine.append(seconds_per_call(ours, calls))
        other.append(seconds_per_call(theirs, calls))
    return statistics.median(mine) / statistics.median(other), statistics.median(mine), statistics.median(other)


def report(name, peer, result):
    print(f"{name:32} functx / {peer:5} = {result[0]:.3f}   ({1e6 * result[1]:.2f} us, {1e6 * result[2]:.2f} us)", flush=True)


def small():
    """x * y + 1 on eight elements."""
    x, y = np.arange(8.0), np.ones(8)
    f = fx.jit(lambda x, y: x * y + 1)
    return lambda: f(x, y), x, y


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--callgrind", action="store_true")
    parser.add_argument("--loop", type=int, help="only call the small function this often (what --callgrind runs)")
    arguments = parser.parse_args()
    if arguments.loop is not None:
        call, *_ = small()
        for _ in range(arguments.loop):
            call()
        return
    if arguments.callgrind:
        counts = [instructions(n) for n in (1000, 11000)]
        print(f"instructions of one call of x*y + 1 on 8 elements: {(counts[1] - counts[0]) / 10000:.0f}")
        return

    import jax

    jax.config.update("jax_enable_x64", True)
    call, x, y = small()
    report("x*y + 1, 8 elements", "NumPy", ratio(call, lambda: x * y + 1, arguments.pairs, 2000))
    g = jax.jit(lambda x, y: x * y + 1)
    report("x*y + 1, 8 elements", "JAX", ratio(call, lambda: np.asarray(g(x, y)), arguments.pairs, 500))

    tree = {f"w{i}": np.full(10, float(i)) for i in range(40)}
    double = lambda d: {k: v * 2 for k, v in d.items()}  # noqa: E731
    f, g = fx.jit(double), jax.jit(double)
    peer = lambda: {k: np.asarray(v) for k, v in g(tree).items()}  # noqa: E731
    report("a dict of 40 arrays, in and out", "JAX", ratio(lambda: f(tree), peer, arguments.pairs, 50))

    parameters, gradients = [np.zeros(1000) for _ in range(10)], [np.ones(1000) for _ in range(10)]

    @fx.jit
    def step(parameters, gradients):
        for p, g in zip(parameters, gradients, strict=True):
            p -= 0.01 * g

    def plain():
        for p, g in zip(parameters, gradients, strict=True):
            p -= 0.01 * g

    report("a step on 10 parameters in place", "NumPy", ratio(lambda: step(parameters, gradients), plain, arguments.pairs, 500))


def instructions(calls):
    """Instructions that valgrind counts for a process that makes so many calls."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable, __file__, "--loop", str(calls)]
        subprocess.run(command, check=True, capture_output=True)
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE).group(1))


if __name__ == "__main__":
    main()
