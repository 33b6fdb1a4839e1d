"""Stress of the disk cache: processes that fill one cache and are killed, entries that are truncated.

    python benchmarks/stress_disk_cache.py --rounds 50

Each round begins with an empty cache. Two processes fill it at once, one of which is killed at a random moment; a third reads it. Then
every entry is truncated at a random place, and two more read again: the first must compile everything, the second nothing. Any wrong result
and any process that fails makes the script fail.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import functx as fx

FORK = multiprocessing.get_context("fork")  # from a process that has compiled nothing, and has one thread
FUNCTIONS = [
    lambda x: np.tanh(x) * 3 + x.sum(),
    lambda x: x @ x.T,
    lambda x: np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=0),
    lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x**2)[1:].T,
]
X = np.random.default_rng(0).standard_normal((40, 30))


@dataclasses.dataclass
class Tally:
    """What happened in all rounds."""

    finished: int = 0
    killed: int = 0
    compilations: int = 0
    hits: int = 0
    truncated: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


class Worker:
    """A process that calls all functions, in an order of its own, and compares with NumPy."""

    def __init__(self, cache: Path, seed: int):
        self.receiver, sender = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=_work, args=(str(cache), seed, sender))
        self.process.start()
        sender.close()

    def kill(self) -> None:
        """End it at once; it may have ended before."""
        os.kill(self.process.pid, signal.SIGKILL)

    def finish(self, what: str, tally: Tally) -> int:
        """Wait for its end and count; the compilations that it made, -1 if it was killed."""
        self.process.join(300)
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            tally.killed += 1
            return -1
        if code != 0:
            tally.problems.append(f"{what}: exit code {code}")
            return -1
        wrong, compilations = self.receiver.recv()
        tally.finished += 1
        tally.compilations += compilations
        tally.hits += len(FUNCTIONS) - compilations
        tally.problems += [f"{what}: {text}" for text in wrong]
        return compilations


def _work(cache: str, seed: int, sender: Connection) -> None:
    wrong, compilations = [], 0
    with fx.config.options(cache_dir=cache, disk_cache=True, backend="cpp"):
        for k in random.Random(seed).sample(range(len(FUNCTIONS)), len(FUNCTIONS)):
            jitted = fx.jit(FUNCTIONS[k])
            if not np.allclose(jitted(X), FUNCTIONS[k](X), rtol=1e-12, atol=1e-12):
                wrong.append(f"function {k} is wrong")
            compilations += jitted.cache_info().compilations
    sender.send((wrong, compilations))


def play(number: int, cache: Path, patience: float, rng: random.Random, tally: Tally) -> None:
    """One round; the killed process lives for at most so many seconds."""
    workers = [Worker(cache, rng.getrandbits(32)) for _ in range(2)]
    time.sleep(rng.uniform(0, patience))
    workers[0].kill()
    for worker in workers:
        worker.finish(f"round {number}, filling", tally)
    if Worker(cache, number).finish(f"round {number}, reading", tally) > 0:
        tally.problems.append(f"round {number}: an entry was lost")
    entries = sorted(cache.glob("*.so"))
    for path in entries:
        os.truncate(path, rng.randrange(path.stat().st_size))
        tally.truncated += 1
    if Worker(cache, number).finish(f"round {number}, reading what was truncated", tally) != len(entries):
        tally.problems.append(f"round {number}: a truncated entry was used")
    if Worker(cache, number).finish(f"round {number}, reading again", tally) > 0:
        tally.problems.append(f"round {number}: a truncated entry was not replaced")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, tally = random.Random(options.seed), Tally()
    with tempfile.TemporaryDirectory(prefix="functx-stress-") as folder:
        tempfile.tempdir = folder  # where killed processes leave their scratch
        start = time.perf_counter()
        Worker(Path(folder, "first"), 0).finish("first", tally)
        patience = time.perf_counter() - start
        for number in range(options.rounds):
            play(number, Path(folder, f"round{number}"), patience, rng, tally)
    for problem in tally.problems:
        print(problem)
    print(
        f"{options.rounds} rounds: {tally.finished} processes finished, {tally.killed} killed, {tally.compilations} compilations, "
        f"{tally.hits} hits, {tally.truncated} entries truncated, {len(tally.problems)} problems"
    )
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
