"""The pipeline from a traced graph to what a backend compiles: one flat list, a pass and its reason per line."""

from __future__ import annotations

from functx import config
from functx.ir import Graph
from functx.passes import Pass, run_passes
from functx.transforms.algebra import simplify_algebra
from functx.transforms.inline import inline_calls, map_bodies
from functx.transforms.keeping import settle_marks
from functx.transforms.planning import DEFAULT, PartitionOptions, Peak, Region, partition_regions, peak_bytes
from functx.transforms.simplify import common_subexpressions, dead_code, fold_constants, rewrite


def erase_marks(graph: Graph) -> Graph:
    """Marks have done their work; without them equal computations have equal text. Where values are watched they tell derivatives apart."""
    if config.current().watches_values:
        return settle_marks(graph)
    return settle_marks(graph.replace(eqns=tuple(e.replace(mark=None) for e in graph.eqns)))


def drop_gradient_stops(graph: Graph) -> Graph:
    """Nothing is differentiated any more."""
    return rewrite(graph, {"stop_gradient": lambda r, eqn: eqn.inputs[0]})


def inline_open(graph: Graph) -> Graph:
    """Everything in line but what has derivatives of its own: the graph may be differentiated again."""
    return inline_calls(graph, keep_rules=True)


SIMPLIFY: tuple[Pass, ...] = (
    inline_calls,  # one flat graph: no call, checkpoint or custom rule is left
    drop_gradient_stops,
    settle_marks,  # names have been looked at; of what checkpoints keep, the values that forward sides compute remain marked
    dead_code,  # most of what a transform emits beside its results
    simplify_algebra,  # identities that derivative rules leave behind
    fold_constants,  # arithmetic on literals
    common_subexpressions,  # forward values that backward rules computed again
    simplify_algebra,  # what the two before uncovered
    common_subexpressions,
)


def simplify_bodies(graph: Graph) -> Graph:
    """The same for the bodies of loops and choices, however deep."""
    return graph.replace(eqns=tuple(map_bodies(e, optimize_body) for e in graph.eqns))


def optimize_body(graph: Graph) -> Graph:
    """A body as it is compiled."""
    return dead_code(erase_marks(simplify_bodies(run_passes(SIMPLIFY, graph))))


def pipeline(options: PartitionOptions = DEFAULT, peak: Peak | None = None, found: list[Region] | None = None) -> tuple[Pass, ...]:
    """All passes of a compilation. ``peak``: the memory that a backend needs for a graph; ``found`` collects what partition decides."""

    def partition(graph: Graph) -> Graph:
        return partition_regions(graph, options, lambda candidate: (peak or peak_bytes)(dead_code(erase_marks(candidate))), found)

    return (
        *SIMPLIFY,
        simplify_bodies,  # loops and choices: their unused results are gone by now
        partition,  # what the backward sides keep, and what they compute again
        erase_marks,
        dead_code,
    )


def simplify(graph: Graph) -> Graph:
    """Run the passes that make a graph smaller, and keep the marks, and what its derivatives are."""
    return run_passes((inline_open, *SIMPLIFY[2:]), graph)


def optimize(graph: Graph, options: PartitionOptions = DEFAULT, peak: Peak | None = None, found: list[Region] | None = None) -> Graph:
    """Run the pipeline."""
    return run_passes(pipeline(options, peak, found), graph)
