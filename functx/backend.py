"""The Backend protocol: what jit asks of a code generator, and the registry by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from functx.errors import BackendError
from functx.ir import Graph


class Executable(Protocol):
    """A compiled graph.

    Attributes:
      source: the generated program, or the printed graph where nothing is generated.
      workspace_bytes: scratch memory per call.
      compiled: False when the code came out of a cache.
    """

    source: str
    workspace_bytes: int
    compiled: bool

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on one array per input slot, of the slot's shape and dtype and of any strides.

        Every result is a new C-contiguous writable array that shares memory with nothing. Raises IndexOutOfBoundsError and
        IntegerOverflowError with the user's line.
        """


class Backend(Protocol):
    """A code generator. Graphs that reach it hold no call, checkpoint or custom-rule equations."""

    name: str

    def compile(self, graph: Graph) -> Executable:
        """Compile a graph; raises CompilerError if the tool chain fails."""


@dataclass
class _Registry:
    factories: dict[str, Callable[[], Backend]] = field(default_factory=dict)
    instances: dict[str, Backend] = field(default_factory=dict)


_registry = _Registry()


def register_backend(name: str, factory: Callable[[], Backend]) -> None:
    """Make ``factory()`` available as ``jit(backend=name)``; it is called once, on first use."""
    _registry.factories[name] = factory
    _registry.instances.pop(name, None)


def get_backend(name: str) -> Backend:
    """The backend of that name; BackendError listing the known ones otherwise."""
    if name not in _registry.factories:
        known = ", ".join(sorted(_registry.factories))
        raise BackendError(f"no backend named {name!r}", fix=f"use one of: {known}; or functx.backend.register_backend({name!r}, ...)")
    if name not in _registry.instances:
        _registry.instances[name] = _registry.factories[name]()
    return _registry.instances[name]


def owned(value: Any) -> np.ndarray:
    """A C-contiguous writable copy of a value."""
    return np.array(value, order="C", copy=True)
