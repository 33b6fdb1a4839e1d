"""The cpp backend: lower, emit, compile, load; with a cache of loaded code by content, before the one on disk.

Code does not depend on who asked for it: equal graphs of different functions share a library, and each executable keeps its own lines for
errors. One lock per key, so that different graphs compile at the same time.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from functx.backends.cpp.disk_cache import DiskCache, code_key, entry_name, generator, open_cache
from functx.backends.cpp.executable import CppExecutable, Interface
from functx.backends.cpp.toolchain import Toolchain, compile_library, find_toolchain
from functx.config import Config
from functx.ir import Graph
from functx.passes import log
from functx.pretty import graph_digest
from functx.runtime import native
from functx.shapes import Dim

if TYPE_CHECKING:
    from functx.backends.cpp.program import Source

MAX_LIBRARIES = 512  # loaded at a time for the sake of the cache
Code = tuple[Any, Interface]  # a loaded library


@dataclass
class _Slot:
    """Room for one compilation, held while it runs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    code: Code | None = None


class CppBackend:
    """Graphs to C++ with OpenMP and BLAS."""

    name = "cpp"
    symbolic_sizes = True

    def __init__(self) -> None:
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_locks)

    def compile(self, graph: Graph, options: Config) -> CppExecutable:
        """Compile a graph, or find its code.

        Raises:
          CompilerError: the compiler is missing, fails or takes too long.
          BackendError: no input tells a size, or a result has one that is found on the way.
        """
        toolchain = find_toolchain(options)
        key = code_key(graph_digest(graph), toolchain, options.parallel_threshold)
        slot, compiled = self._slot(key), False
        with slot.lock:
            if slot.code is None:
                slot.code, compiled = _obtain(graph, toolchain, options, key)
            library, interface = slot.code
        return CppExecutable(graph, library, interface, lambda: _generate(graph, toolchain.vector_math, options), compiled)

    def peak_bytes(self, graph: Graph, options: Config) -> int:
        """The memory that a graph would need at most; it is planned, and not compiled."""
        from functx.backends.loops.report import memory_plan

        source = _generate(graph, frozenset(), options)
        return memory_plan(source.program, source.interface.workspace_bytes).peak

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

    def _forget_locks(self) -> None:
        """In a forked child: threads that held a lock do not exist there."""
        self._lock = threading.Lock()
        self._slots = {key: _Slot(code=slot.code) for key, slot in self._slots.items()}


def _obtain(graph: Graph, toolchain: Toolchain, options: Config, key: str) -> tuple[Code, bool]:
    """The code of a graph, and whether it was compiled: otherwise it lay on disk."""
    cache = _disk_cache(options)
    if cache is None:
        return _build(graph, toolchain, options, key, None), True
    if code := _find(cache, key):
        return code, False
    with cache.lock(key, options.compile_timeout):
        if code := _find(cache, key):  # another process has compiled it since
            return code, False
        return _build(graph, toolchain, options, key, cache), True


def _disk_cache(options: Config) -> DiskCache | None:
    """The cache on disk; None if it is switched off, if nobody knows which sources generate the code, or if somebody wants to see it."""
    if not options.disk_cache or generator() is None or options.dump or options.debug >= 4:
        return None
    return open_cache(options)


def _find(cache: DiskCache, key: str) -> Code | None:
    """Code from the disk, loaded."""
    found = cache.find(key)
    if found is None:
        return None
    path, facts = found
    try:
        workspace = facts["workspace_bytes"]
        workspace = Dim.parse(workspace) if isinstance(workspace, str) else workspace
        return _load(str(path)), Interface(workspace, tuple(facts["passed_constants"]), tuple(facts["calls"]))
    except OSError as error:
        cache.reject(key, error)
        return None


def _generate(graph: Graph, vector_math: frozenset[str], options: Config) -> Source:
    """The source of a graph. What generates it is loaded here: a hit on disk needs none of it."""
    from functx.backends.cpp.ops import CppTarget
    from functx.backends.cpp.program import emit
    from functx.backends.loops.lower import lower

    return emit(lower(graph, CppTarget()), options.parallel_threshold, vector_math)


def _build(graph: Graph, toolchain: Toolchain, options: Config, key: str, cache: DiskCache | None) -> Code:
    """Generate, compile, load and store."""
    start = time.perf_counter()
    source = _generate(graph, toolchain.vector_math, options)
    if options.debug >= 4:
        log(source.text)
    generated = time.perf_counter()
    path = compile_library(toolchain, source.text, entry_name(key), options, blas=source.blas)
    library = _load(str(path))
    if cache is not None:
        workspace = source.interface.workspace_bytes
        written = workspace if isinstance(workspace, int) else str(workspace)
        cache.store(key, path, {**asdict(source.interface), "workspace_bytes": written})
    path.unlink()
    if options.debug >= 1:
        seconds = f"{generated - start:.2f} s to generate, {time.perf_counter() - generated:.2f} s to compile"
        log(f"cpp: {len(graph.eqns)} equations -> {source.kernels} kernels, {seconds}")
    return library, source.interface


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
