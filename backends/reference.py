"""The reference backend: a graph is evaluated equation by equation by the primitives' NumPy implementations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functx.backend import owned, write_map
from functx.config import Config
from functx.interpret import eval_graph
from functx.ir import Graph
from functx.memory_plan import MemoryPlan, evaluation_plan


class ReferenceExecutable:
    """A graph that is interpreted."""

    workspace_bytes = 0
    compiled = False

    def __init__(self, graph: Graph):
        self.graph, self.out_avals, self.writes = graph, graph.out_avals, write_map(graph)

    @property
    def memory_plan(self) -> MemoryPlan:
        """Each value in memory of its own, from the equation that makes it to the last that reads it."""
        return evaluation_plan(self.graph)

    @property
    def source(self) -> str:
        """The printed graph."""
        return str(self.graph)

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on one array per input; every result is a new C-contiguous array."""
        return [owned(value) for value in eval_graph(self.graph, inputs)]


class ReferenceBackend:
    """The definition of what a graph means."""

    name = "reference"
    symbolic_sizes = True

    def compile(self, graph: Graph, options: Config) -> ReferenceExecutable:
        """Nothing is compiled, and no option matters."""
        return ReferenceExecutable(graph)

    def peak_bytes(self, graph: Graph, options: Config) -> int:
        """The memory that evaluating a graph needs at most."""
        return evaluation_plan(graph).peak
