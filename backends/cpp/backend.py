"""The cpp backend: lower, emit, compile, load; with a cache of loaded code by content.

Code does not depend on who asked for it: equal graphs of different functions share a library, and each executable keeps its own lines for
errors. One lock per key, so that different graphs compile at the same time.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from functx.backends.cpp.executable import CppExecutable
from functx.backends.cpp.ops import CppTarget
from functx.backends.cpp.program import Source, emit
from functx.backends.cpp.toolchain import Toolchain, compile_library, find_toolchain
from functx.backends.loops.lower import lower
from functx.config import Config
from functx.ir import Graph
from functx.passes import log
from functx.pretty import graph_digest
from functx.runtime import native

MAX_LIBRARIES = 512  # loaded at a time for the sake of the cache


@dataclass
class _Slot:
    """Room for one compilation, held while it runs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    code: tuple[Any, Source] | None = None


class CppBackend:
    """Graphs to C++ with OpenMP and BLAS."""

    name = "cpp"

    def __init__(self) -> None:
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()

    def compile(self, graph: Graph, options: Config) -> CppExecutable:
        """Compile a graph, or find its code.

        Raises:
          CompilerError: the compiler is missing, fails or takes too long.
          BackendError: a size is symbolic.
        """
        toolchain = find_toolchain(options)
        key = f"{graph_digest(graph)} {toolchain.identity} {options.parallel_threshold}"
        slot = self._slot(key)
        with slot.lock:
            compiled = slot.code is None
            if slot.code is None:
                slot.code = _build(graph, toolchain, options, hashlib.sha256(key.encode()).hexdigest())
            library, source = slot.code
        return CppExecutable(graph, library, source, compiled)

    def _slot(self, key: str) -> _Slot:
        """The slot of a key, now the most recently used one. A library that is dropped stays loaded while an executable holds it."""
        with self._lock:
            slot = self._slots.pop(key, None) or _Slot()
            self._slots[key] = slot
            while len(self._slots) > MAX_LIBRARIES:
                del self._slots[next(iter(self._slots))]
            return slot

    def clear(self) -> None:
        """Forget all code; what executables still hold stays loaded."""
        with self._lock:
            self._slots.clear()


def _build(graph: Graph, toolchain: Toolchain, options: Config, name: str) -> tuple[Any, Source]:
    """Lower, emit, compile and load. ``name`` names the files."""
    start = time.perf_counter()
    source = emit(lower(graph, CppTarget()), options.parallel_threshold, toolchain.vector_math)
    if options.debug >= 4:
        log(source.text)
    generated = time.perf_counter()
    path = compile_library(toolchain, source.text, name, options, blas=source.blas)
    library = _load(str(path))
    path.unlink()
    if options.debug >= 1:
        seconds = f"{generated - start:.2f} s to generate, {time.perf_counter() - generated:.2f} s to compile"
        log(f"cpp: {len(graph.eqns)} equations -> {source.kernels} kernels, {seconds}")
    return library, source


_first_load = threading.Lock()
_loaded = False


def _load(path: str) -> Any:
    """Load a library. The first brings libgomp, which reads once how its threads wait: asleep, for other processes want the cores."""
    global _loaded
    with _first_load:
        if _loaded or "OMP_WAIT_POLICY" in os.environ:
            return native.Library(path)
        os.environ["OMP_WAIT_POLICY"] = "passive"
        try:
            return native.Library(path)
        finally:
            del os.environ["OMP_WAIT_POLICY"]
            _loaded = True
