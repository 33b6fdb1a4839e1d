"""Threads that trace, differentiate, batch and compile at once, and rounds of forked and spawned workers, checked against NumPy.

python benchmarks/stress_threads.py [--seconds 60] [--threads 8] [--rounds 200]
"""

import argparse
import multiprocessing
import threading
import time

import numpy as np

import functx as fx


def loss(w, x):
    """A function with a loop, a branch and a write."""
    h = x.copy()
    for k in range(2):
        h = np.tanh(h * w[k]) if k else h * w[k]
        h[0] += 1
    return (h * h).sum()


def gradient(w, x):
    """Its derivative in w, by hand."""
    a = x * w[0]
    a[0] += 1
    t = np.tanh(a * w[1])
    out = t.copy()
    out[0] += 1
    d = 2 * out * (1 - t * t)
    return np.array([(d * w[1] * x).sum(), (d * a).sum()])


jitted = fx.jit(fx.grad(loss))
per_sample = fx.jit(fx.vmap(fx.grad(loss), in_axes=(None, 0)))
through = fx.grad(lambda w, x: fx.jit(loss)(w, x))


def work(thread, deadline, failures, counts):
    """Random shapes and transforms until the deadline."""
    rng = np.random.default_rng(thread)
    while time.perf_counter() < deadline and not failures:
        n = int(rng.integers(1, 12))
        w, x = rng.normal(size=2), rng.normal(size=(3, n))
        got = [jitted(w, x[0]), through(w, x[1]), per_sample(w, x)]
        expected = [gradient(w, x[0]), gradient(w, x[1]), np.stack([gradient(w, row) for row in x])]
        if not all(np.allclose(g, e) for g, e in zip(got, expected, strict=True)):
            failures.append((thread, n))
        counts[thread] += 1


def child(n):
    """What workers compute: a result of parallel code, and one of new shape."""
    return bool(
        np.allclose(fx.jit(np.exp)(np.zeros(200_000 + n)), 1)
        and np.allclose(jitted(np.ones(2), np.ones(n)), gradient(np.ones(2), np.ones(n)))
    )


def main():
    """Print what was done; exit status 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    failures, counts = [], [0] * arguments.threads
    deadline = time.perf_counter() + arguments.seconds
    threads = [threading.Thread(target=work, args=(k, deadline, failures, counts)) for k in range(arguments.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(arguments.seconds + 120)
    hung = sum(thread.is_alive() for thread in threads)
    print(f"{sum(counts)} rounds in {arguments.threads} threads: {len(failures)} wrong, {hung} hung", flush=True)
    wrong = 0
    child(1)  # OpenMP starts
    for k in range(arguments.rounds):
        with multiprocessing.get_context("fork" if k % 10 else "spawn").Pool(2) as pool:
            wrong += pool.map_async(child, [1 + k % 5, 2 + k % 5]).get(120) != [True, True]
    print(f"{arguments.rounds} rounds of forked and spawned workers: {wrong} wrong")
    raise SystemExit(bool(failures or hung or wrong))


if __name__ == "__main__":
    main()
