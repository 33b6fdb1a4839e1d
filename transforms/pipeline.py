"""The pipeline from a traced graph to what a backend compiles: one flat list, a pass and its reason per line."""

from __future__ import annotations

from functx.ir import Graph
from functx.passes import Pass, run_passes
from functx.transforms.algebra import simplify_algebra
from functx.transforms.inline import inline_calls
from functx.transforms.planning import DEFAULT, PartitionOptions, Peak, partition_regions
from functx.transforms.simplify import common_subexpressions, dead_code, fold_constants


def erase_marks(graph: Graph) -> Graph:
    """Marks have done their work; without them equal computations have equal text."""
    return graph.replace(eqns=tuple(e.replace(mark=None) for e in graph.eqns))


SIMPLIFY: tuple[Pass, ...] = (
    inline_calls,  # one flat graph: no call, checkpoint or custom rule is left
    dead_code,  # most of what a transform emits beside its results
    simplify_algebra,  # identities that derivative rules leave behind
    fold_constants,  # arithmetic on literals
    common_subexpressions,  # forward values that backward rules computed again
    simplify_algebra,  # what the two before uncovered
    common_subexpressions,
)


def pipeline(options: PartitionOptions = DEFAULT, peak: Peak | None = None) -> tuple[Pass, ...]:
    """All passes of a compilation. ``peak``: the memory that a backend needs for a graph."""

    def partition(graph: Graph) -> Graph:
        return partition_regions(graph, options, peak)

    return (
        *SIMPLIFY,
        partition,  # what the backward sides keep, and what they compute again
        erase_marks,
        dead_code,
    )


def simplify(graph: Graph) -> Graph:
    """Run the passes that make a graph smaller, and keep the marks."""
    return run_passes(SIMPLIFY, graph)


def optimize(graph: Graph, options: PartitionOptions = DEFAULT, peak: Peak | None = None) -> Graph:
    """Run the pipeline."""
    return run_passes(pipeline(options, peak), graph)
