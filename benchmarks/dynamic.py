"""Symbolic sizes: how many compilations 200 batch sizes take, and what the one entry that serves them costs beside an entry of its own for
each size (symbolic / static; alternating pairs, medians, ratios).

Needs nothing but functx. Run on a quiet machine:  python benchmarks/dynamic.py [--pairs 40]
"""

import argparse
import statistics
import time

import numpy as np

import functx as fx

RNG = np.random.default_rng(0)
INPUTS, HIDDEN, CLASSES = 64, 128, 10


def mlp_step(p, x, labels):
    """Softmax cross-entropy of a layer of tanh, its gradient, and a step down it, in place."""

    def loss(p):
        scores = np.tanh(x @ p["w"] + p["b"]) @ p["v"]
        shifted = scores - scores.max(1, keepdims=True)
        picked = shifted[fx.numpy.arange(labels.shape[0]), labels]  # np.arange would ask for the number
        return (np.log(np.exp(shifted).sum(1)) - picked).mean()

    value, slope = fx.value_and_grad(loss)(p)
    for name in p:
        p[name] -= 0.01 * slope[name]
    return value


def softmax(x):
    shifted = np.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def stencil(u):
    u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])


def reductions(x):
    return x.sum(), x.mean(0), x.max(1), (x * x).sum(1)


def parameters():
    return {
        "w": RNG.standard_normal((INPUTS, HIDDEN)).astype("f4") / 8,
        "b": np.zeros(HIDDEN, "f4"),
        "v": RNG.standard_normal((HIDDEN, CLASSES)).astype("f4") / 11,
    }


def batch(n):
    return RNG.standard_normal((n, INPUTS)).astype("f4"), RNG.integers(0, CLASSES, n)


PROGRAMS = {
    "MLP step, batch 256": (mlp_step, lambda n: (parameters(), *batch(n)), 256),
    "softmax, 4096 x 128": (softmax, lambda n: (RNG.standard_normal((n, 128)).astype("f4"),), 4096),
    "stencil, 1024 x 1024": (stencil, lambda n: (RNG.standard_normal((n, n)),), 1024),
    "reductions, 4096 x 512": (reductions, lambda n: (RNG.standard_normal((n, 512)).astype("f4"),), 4096),
}


def compilations():
    """A training step called with 200 batch sizes in random order."""
    step, p = fx.jit(mlp_step), parameters()
    for n in RNG.permutation(np.arange(1, 201)):
        step(p, *batch(int(n)))
    return step.cache_info().compilations


def ratio(f, arguments, n, pairs):
    """The symbolic entry's time over that of the entry for this very size."""
    symbolic, static = fx.jit(f, dynamic=True), fx.jit(f, dynamic=False)
    symbolic(*arguments(n + 3))
    args = arguments(n)
    times = {symbolic: [], static: []}
    for g in times:
        g(*args)
    assert symbolic.cache_info().compilations == 1
    for _ in range(pairs):
        for g, found in times.items():
            start = time.perf_counter()
            for _ in range(5):
                g(*args)
            found.append(time.perf_counter() - start)
    return statistics.median(a / b for a, b in zip(times[symbolic], times[static], strict=True))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pairs", type=int, default=40)
    pairs = arguments.parse_args().pairs
    print(f"200 batch sizes in random order: {compilations()} compilations")
    for name, (f, make, n) in PROGRAMS.items():
        print(f"{name:28} {ratio(f, make, n, pairs):.2f}")


if __name__ == "__main__":
    main()
