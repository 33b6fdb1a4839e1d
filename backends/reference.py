"""The reference backend: a graph is evaluated equation by equation by the primitives' NumPy implementations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functx.backend import owned, write_map
from functx.config import Config
from functx.interpret import eval_graph
from functx.ir import Graph


class ReferenceExecutable:
    """A graph that is interpreted."""

    workspace_bytes = 0
    compiled = False

    def __init__(self, graph: Graph):
        self.graph, self.out_avals, self.writes = graph, graph.out_avals, write_map(graph)

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

    def compile(self, graph: Graph, options: Config) -> ReferenceExecutable:
        """Nothing is compiled, and no option matters."""
        return ReferenceExecutable(graph)
