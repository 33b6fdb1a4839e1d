"""The 0-1 knapsack problem: what to take along under a limit of weight. Pure algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MAX_STEPS = 16384


def exact(weights: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """The items of the greatest total value whose total weight is at most ``limit``, by dynamic programming.

    Bellman's recursion over capacities, in units of the weights' greatest common divisor. Where those are more than MAX_STEPS, the unit is
    larger and weights are rounded up, so that the limit holds all the same.

    >>> exact([2, 3, 4], [3, 4, 5], 5)
    [0, 1]
    """
    unit = max(math.gcd(*weights), -(-limit // MAX_STEPS), 1)
    steps, capacity = [-(-w // unit) for w in weights], max(limit // unit, 0)
    best = np.zeros(capacity + 1)
    taken = np.zeros((len(steps), capacity + 1), bool)
    for i, (step, value) in enumerate(zip(steps, values, strict=True)):
        if step <= capacity:
            candidate = np.full(capacity + 1, -np.inf)
            candidate[step:] = best[: capacity + 1 - step] + value
            taken[i] = candidate > best
            best = np.maximum(best, candidate)
    chosen, room = [], capacity
    for i in reversed(range(len(steps))):
        if taken[i, room]:
            chosen.append(i)
            room -= steps[i]
    return chosen[::-1]


def greedy(weights: Sequence[int], values: Sequence[float], limit: int) -> list[int]:
    """Items by value per weight as long as they fit: at least half as good as the exact solution, or one single item is.

    >>> greedy([2, 3, 4], [3, 4, 5], 5)
    [0, 1]
    """
    order = sorted(range(len(weights)), key=lambda i: -values[i] / max(weights[i], 1e-300))
    chosen, total = [], 0
    for i in order:
        if total + weights[i] <= limit:
            chosen.append(i)
            total += weights[i]
    return sorted(chosen)


SOLVERS = {"exact": exact, "greedy": greedy}
