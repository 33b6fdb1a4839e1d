"""The triton backend: lower, emit, load; with a cache of code by content."""

from __future__ import annotations

import threading

from functx.backends.loops.lower import lower
from functx.backends.loops.report import memory_plan
from functx.backends.triton.executable import TritonCode, TritonExecutable
from functx.backends.triton.ops import TritonTarget
from functx.backends.triton.program import Source, emit
from functx.config import Config
from functx.ir import Graph
from functx.passes import log
from functx.pretty import graph_digest

MAX_PROGRAMS = 512  # kept for graphs that are equal to one seen before


class TritonBackend:
    """Graphs to Triton kernels and PyTorch's functions."""

    name = "triton"
    symbolic_sizes = True

    def __init__(self) -> None:
        self._codes: dict[str, TritonCode] = {}
        self._lock = threading.Lock()

    def compile(self, graph: Graph, options: Config) -> TritonExecutable:
        """Generate the program of a graph, or find it. Triton compiles a kernel when it is first launched, and keeps it on disk.

        Raises:
          BackendError: an equation has no lowering, or no input tells a size.
        """
        digest = graph_digest(graph)
        with self._lock:
            code = self._codes.pop(digest, None)
            generated = code is None
            if code is None:
                code = TritonCode(_generate(graph))
            self._codes[digest] = code
            while len(self._codes) > MAX_PROGRAMS:
                del self._codes[next(iter(self._codes))]
        if generated and options.debug >= 4:
            log(code.source.text)
        return TritonExecutable(graph, code, lambda: _generate(graph), generated)

    def peak_bytes(self, graph: Graph, options: Config) -> int:
        """The memory that a graph would need at most; it is planned, and not compiled."""
        source = _generate(graph)
        return memory_plan(source.program, source.workspace_bytes).peak

    def clear(self) -> None:
        """Forget all code; what executables still hold stays loaded."""
        with self._lock:
            self._codes.clear()


def _generate(graph: Graph) -> Source:
    return emit(lower(graph, TritonTarget()))
