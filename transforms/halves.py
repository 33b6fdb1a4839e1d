"""A joint graph in two halves: a forward graph that returns residuals, and a backward graph that takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from functx.ir import AbstractArray, Graph, Mark, Var
from functx.ops.higher_order import keep
from functx.source import Source
from functx.transforms.partition import Plan, Sides, analyse, recompute, work
from functx.transforms.pipeline import erase_marks, simplify
from functx.transforms.planning import DEFAULT, PartitionOptions, plan_for
from functx.transforms.simplify import dead_code
from functx.transforms.split import split_at


@dataclass(frozen=True)
class Residual:
    """A forward value that the backward side reads.

    Attributes:
      aval: its shape and dtype.
      primitive: what computes it; "input" for an argument.
      source: the user's line, where there is one.
      saved: whether it is handed over; if not, the backward side computes it again.
      why: the reason.
      nbytes: what keeping it costs: 0 for what is computed again, for arguments and for results.
      flops: the operations of computing it, from what it is computed from directly.
    """

    aval: AbstractArray
    primitive: str
    source: Source | None
    saved: bool
    why: str
    nbytes: int
    flops: int

    def __str__(self) -> str:
        verb = "saved" if self.saved else "computed again"
        line = f", {self.source.short}" if self.source else ""
        return f"{self.aval} {self.primitive}: {verb} ({self.why}), {self.nbytes} bytes{line}"


@dataclass(frozen=True)
class Partition:
    """The two halves of a joint graph.

    Attributes:
      forward: inputs to results, then residuals.
      backward: residuals, then cotangents where they are inputs, to gradients.
      residuals: what the backward half reads of the forward half, saved or computed again.
      plan: the decision behind it.
    """

    forward: Graph
    backward: Graph
    residuals: tuple[Residual, ...]
    plan: Plan

    @property
    def nbytes(self) -> int:
        """Bytes kept between the halves, apart from arguments and results."""
        return self.plan.nbytes


@dataclass(frozen=True, eq=False)
class JointGraph(Graph):
    """Forward and backward side of a function in one graph: equations are marked by side, inputs and outputs by role.

    Attributes:
      region: the number in the marks of its reverse pass.
      forward_inputs, forward_outputs: so many inputs and outputs are the function's own; cotangents and gradients follow.
    """

    region: int = 0
    forward_inputs: int = 0
    forward_outputs: int = 0

    def partition(self, mode: str = "minimum_cut", *, memory_budget: float | None = None, knapsack: str = "exact") -> Partition:
        """The two halves.

        Args:
          mode, memory_budget, knapsack: as of :func:`functx.jit`, where ``mode`` is called ``partition``.

        Raises:
          UnknownOptionError: an option has none of the values that it can have.

        >>> import numpy as np
        >>> import functx as fx
        >>> joint = fx.joint_graph(lambda x, w: np.tanh(x @ w).sum(), argnums=(0, 1))(np.ones((2, 3)), np.ones((3, 4)))
        >>> [(r.primitive, r.saved) for r in joint.partition().residuals if r.nbytes]
        [('dot_general', True)]
        """
        return partition_joint(self, PartitionOptions(mode, memory_budget, knapsack))


def as_joint(graph: Graph, region: int, forward_inputs: int, forward_outputs: int) -> JointGraph:
    """A graph that was built as a joint graph."""
    return JointGraph(graph.inputs, graph.consts, graph.eqns, graph.outputs, region, forward_inputs, forward_outputs)


def partition_joint(joint: JointGraph, options: PartitionOptions = DEFAULT, priced: Collection[Var] = ()) -> Partition:
    """Simplify a joint graph, decide what is kept, and split it. ``priced``: inputs that cost memory to keep."""
    graph = simplify(joint)
    late = set(graph.in_vars[joint.forward_inputs :])
    sides = _sides(graph, Mark(joint.region, "backward"), late)
    problem = analyse(graph, sides, joint.forward_outputs, priced)
    plan = plan_for(problem, options)
    whole, behind = recompute(graph, sides, plan, joint.forward_outputs)
    forward, backward = split_at(whole, behind, joint.forward_inputs, joint.forward_outputs)
    return Partition(*(dead_code(erase_marks(half)) for half in (forward, backward)), tuple(residuals_of(graph, plan, late)), plan)


def _sides(graph: Graph, backward: Mark, late: set[Var]) -> Sides:
    """Backward is what is marked so, and what depends on it or on cotangents."""
    late, numbers = set(late), set()
    for i, eqn in enumerate(graph.eqns):
        depends = any(a in late for a in eqn.inputs)
        if depends or (eqn.mark == backward and (eqn.effect or any(isinstance(a, Var) for a in eqn.inputs))):
            late.update(eqn.outputs)
            numbers.add(i)
    return Sides(frozenset(range(len(graph.eqns))) - numbers, frozenset(numbers))


def residuals_of(graph: Graph, plan: Plan, cotangents: AbstractSet[Var] = frozenset()) -> Iterator[Residual]:
    """What the backward side of a graph reads of the forward side under a plan, apart from cotangents."""
    producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    order = {v: i for i, v in enumerate(v for eqn in graph.eqns for v in eqn.outputs)}
    for v in (*plan.given, *plan.saved, *sorted(plan.again, key=order.__getitem__)):
        if v in cotangents:
            continue
        eqn = producer.get(v)
        nbytes = v.aval.nbytes_hint if v in plan.saved else 0
        name, source = ("input", None) if eqn is None else (eqn.primitive.name, eqn.source)
        name = eqn.params["of"] if eqn is not None and eqn.primitive is keep else name
        yield Residual(v.aval, name, source, v not in plan.again, plan.why[v], nbytes, work(eqn) if eqn else 0)
