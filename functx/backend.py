"""The Backend protocol: what jit asks of a code generator, and the registry by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from functx.config import Config
from functx.errors import BackendError
from functx.ir import AbstractArray, Graph, OutRole
from functx.shapes import Size


@dataclass(frozen=True)
class NativeCode:
    """Compiled code that the runtime can call by itself, by the ABI of functx/runtime/call.h: it leaves new values of inputs in the inputs.

    Attributes:
      library: the loaded library.
      constants: arrays passed after the graph's inputs, C-contiguous.
      callback: ``callback(eqn, input addresses, output addresses)``, or None; where there are sizes, with their address.
      on_error: ``on_error(eqn, kind, values)`` makes the exception for a call that failed.
      found: the symbols of sizes that it finds on the way, in their order after those that its inputs tell.
    """

    library: Any
    workspace_bytes: Size
    constants: Sequence[np.ndarray]
    callback: Callable[..., Any] | None
    on_error: Callable[..., Exception]
    found: Sequence[Any] = ()


@dataclass(frozen=True)
class CompiledStep:
    """One step of a compiled program.

    Attributes:
      kind: "kernel" (a loop nest), "BLAS product", "sort", "loop" (scan, while or cond), "reference implementation",
        "function of PyTorch", or "copy".
      eqns: the numbers of the equations that it computes, of the compiled graph.
      sizes: of its loops, as text.
      updates: the inputs that it updates in place.
    """

    kind: str
    eqns: tuple[int, ...]
    sizes: str = ""
    updates: tuple[int, ...] = ()


class Executable(Protocol):
    """A compiled graph.

    Attributes:
      out_avals: the types of the results.
      workspace_bytes: scratch memory per call.
      writes: which results are new values of inputs: index of the result -> index of the input.
      source: the generated program, or the printed graph where nothing is generated.
      compiled: False when the code came out of a cache.
      native: the code for the runtime, where there is some; may be left out, as may what follows.
      memory_plan: a :class:`functx.memory_plan.MemoryPlan`.
      steps: the program as a sequence of :class:`CompiledStep`.
    """

    out_avals: Sequence[AbstractArray]
    workspace_bytes: int
    writes: Mapping[int, int]
    source: str
    compiled: bool

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on one array per input slot, of the slot's shape and dtype and of any strides.

        Every result is a new C-contiguous writable array that shares memory with nothing. Only a result of ``writes`` may instead be the
        array that was given for its input, updated in place; the caller copies it there if it is another one. Other inputs are never
        written, and none when the call raises. An input that the code cannot read as it lies in memory (not contiguous, misaligned,
        byte-swapped) is copied at every call. Raises IndexOutOfBoundsError and IntegerOverflowError with the user's line.
        """


class Backend(Protocol):
    """A code generator. Graphs that reach it hold no call, checkpoint or custom-rule equations.

    A backend that has ``peak_bytes(graph, options) -> int`` tells what memory a graph would need, the ``peak`` of its memory plan, without
    compiling it: what is chosen under a memory budget is chosen by that.

    A backend whose ``symbolic_sizes`` is true compiles graphs of symbolic sizes (Dims in the shapes of inputs: each plain symbol is one
    whole axis of an input, or bound by an equation). Others get them only where users declare such sizes, and then raise BackendError.
    """

    name: str

    def compile(self, graph: Graph, options: Config) -> Executable:
        """Compile a graph under these options, and no others; raises CompilerError if the tool chain fails."""


@dataclass
class _Registry:
    factories: dict[str, Callable[[], Backend]] = field(default_factory=dict)
    instances: dict[str, Backend] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)  # a factory may ask for another backend


_registry = _Registry()


def register_backend(name: str, factory: Callable[[], Backend]) -> None:
    """Make ``factory()`` available as ``jit(backend=name)``; it is called once, on first use.

    examples/torch_backend.py is a complete backend from outside the package.
    """
    with _registry.lock:
        _registry.factories[name] = factory
        _registry.instances.pop(name, None)


def get_backend(name: str) -> Backend:
    """The backend of that name; BackendError listing the known ones otherwise."""
    with _registry.lock:
        if name not in _registry.factories:
            known = ", ".join(sorted(_registry.factories))
            raise BackendError(f"no backend named {name!r}", fix=f"use one of: {known}; or functx.backend.register_backend({name!r}, ...)")
        if name not in _registry.instances:
            _registry.instances[name] = _registry.factories[name]()
        return _registry.instances[name]


def write_map(graph: Graph) -> dict[int, int]:
    """Outputs that are new values of inputs: index of the output -> index of the input."""
    return {k: out.target for k, out in enumerate(graph.outputs) if out.role is OutRole.WRITE and out.target is not None}


def owned(value: Any) -> np.ndarray:
    """A C-contiguous writable copy of a value."""
    return np.array(value, order="C", copy=True)
