"""Plans under the options of jit: how a region is partitioned, and what a memory budget changes.

A budget is a fraction of what the default keeps, or bytes. What is kept under it is a knapsack of the recomputation that keeping a value
saves. The plans of all budgets from 1 down to the given one are compared by the memory that the whole graph then needs at its peak, and the
best is taken: so a smaller budget never needs more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from functx.errors import UnknownOptionError
from functx.ir import Graph, Var
from functx.memory_plan import evaluation_plan
from functx.transforms.knapsack import SOLVERS
from functx.transforms.partition import Plan, Problem, analyse, choose, recompute, regions, settle, sides_of, work

MODES = ("minimum_cut", "save_all", "recompute_all")
FRACTIONS = tuple(k / 10 for k in range(10, -1, -1))
WORTH_A_CUT = 1 << 20  # bytes between the sides below which nothing is computed again: they stay in the cache

Peak = Callable[[Graph], int]


@dataclass(frozen=True)
class PartitionOptions:
    """How forward and backward sides are parted.

    Attributes:
      mode: "minimum_cut"; "save_all" keeps what a tape would keep; "recompute_all" only what cannot be computed again.
      memory_budget: a float is a fraction of the bytes that the mode keeps (0.0: inputs only), an int above 1 is bytes; None: no budget.
      knapsack: "exact" (dynamic programming) or "greedy".
    """

    mode: str = "minimum_cut"
    memory_budget: float | None = None
    knapsack: str = "exact"

    def __post_init__(self) -> None:
        for value, known, name in ((self.mode, MODES, "partition"), (self.knapsack, tuple(SOLVERS), "knapsack")):
            if value not in known:
                raise UnknownOptionError(f"{name}={value!r} is not known", fix=f"use one of: {', '.join(map(repr, known))}")
        budget = self.memory_budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer)) or not budget >= 0):
            what = f"memory_budget={budget!r} is neither a fraction nor a number of bytes"
            raise UnknownOptionError(what, fix="give a float from 0.0 to 1.0, or bytes as an int")

    def limit(self, nbytes: int) -> int | None:
        """The bytes that may be kept of ``nbytes``; None: all."""
        budget = self.memory_budget
        if budget is None:
            return None
        limit = budget * nbytes if isinstance(budget, float) or budget <= 1 else budget
        return int(limit) if limit < nbytes else None


DEFAULT = PartitionOptions()


@dataclass(frozen=True)
class Region:
    """One reverse pass and what was decided for it. ``is_small``: so little lies between its sides that all of it is kept."""

    number: int
    problem: Problem
    plan: Plan
    is_small: bool


def partition_regions(graph: Graph, options: PartitionOptions, peak: Peak | None = None, found: list[Region] | None = None) -> Graph:
    """Let the backward side of every reverse pass compute again what its plan does not keep.

    Args:
      peak: the memory that a graph needs.
      found: collects what was decided.
    """
    measure = peak or peak_bytes
    for number in regions(graph):
        sides = sides_of(graph, number)
        problem = analyse(graph, sides)
        everything = choose(problem, "save_all") if options == DEFAULT else None
        is_small = everything is not None and everything.nbytes < WORTH_A_CUT
        if is_small:
            plan = everything
        else:
            plan = plan_for(problem, options, lambda plan, sides=sides, graph=graph: measure(recompute(graph, sides, plan)[0]))
            graph, _ = recompute(graph, sides, plan)
        if found is not None:
            found.append(Region(number, problem, plan, is_small))
    return graph


def plan_for(problem: Problem, options: PartitionOptions, peak: Callable[[Plan], int] | None = None) -> Plan:
    """The plan for a problem. With ``peak``, which tells what the whole needs under a plan, the best of all budgets down to this one."""
    plan = choose(problem, options.mode)
    limit = options.limit(plan.nbytes)
    if limit is None:
        return plan
    if peak is None:
        return within(problem, plan, limit, options.knapsack)
    plans: dict[tuple[Var, ...], Plan] = {}
    for fraction in FRACTIONS:  # the same steps for every budget, so that a smaller one has all the choices of a larger one
        candidate = within(problem, plan, int(fraction * plan.nbytes), options.knapsack)
        plans.setdefault(candidate.saved, candidate)
        if fraction * plan.nbytes <= limit:
            break
    return min(plans.values(), key=peak)  # the first of equals, with the largest budget


def within(problem: Problem, plan: Plan, limit: int, solver: str = "exact") -> Plan:
    """A plan that keeps at most ``limit`` bytes, apart from what happens only once, of what another keeps."""
    values = problem.values
    always = [v for v in plan.saved if values[v].always]
    free = [v for v in plan.saved if not values[v].always]
    room = max(limit - sum(values[v].nbytes for v in always), 0)
    kept = {*plan.saved, *plan.given}
    costs = [_work_without(problem, v, kept) for v in free]
    chosen = SOLVERS[solver]([values[v].nbytes for v in free], costs, room)
    return settle(problem, [*always, *(free[i] for i in chosen), *plan.given])


def _work_without(problem: Problem, v: Var, kept: set[Var]) -> int:
    """The work of computing one kept value again, the others still being kept."""
    stack, seen, eqns = [v], {v}, set()
    while stack:
        u = stack.pop()
        eqns.add(problem.producer[u])
        fresh = [a for a in problem.values[u].depends if a not in seen and a not in kept and not problem.values[a].always]
        seen.update(fresh)
        stack += fresh
    return sum(work(problem.graph.eqns[i]) for i in eqns)


def peak_bytes(graph: Graph) -> int:
    """The memory that a graph needs when its equations run in order: a stand-in for backends that do not tell theirs."""
    return evaluation_plan(graph).peak
