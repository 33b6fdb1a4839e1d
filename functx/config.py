"""Every option of functx and its environment variable, in one table.

The current configuration is a context variable, so threads and tasks do not disturb each other.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
from collections.abc import Iterator
from typing import Any


def _option(env: str, default: Any, parse: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"env": env, "parse": parse, "help": help})


def _flag(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "false", "no", "off")


@dataclasses.dataclass(frozen=True)
class Config:
    """One value per option; see :func:`describe` for the table."""

    debug: int = _option("FUNCTX_DEBUG", 0, int, "1: passes and compilations, 2: + graphs between passes, 3: + type checks, 4: + sources")
    dump: str | None = _option("FUNCTX_DUMP", None, str, "directory that receives the graph after every pass and the generated sources")
    fuel: int | None = _option("FUNCTX_FUEL", None, int, "run only the first N graph passes of the process (for bisecting)")
    backend: str = _option("FUNCTX_BACKEND", "auto", str, "backend of jit: auto, cpp, reference, triton")
    cxx: str = _option("FUNCTX_CXX", "", str, "C++ compiler; empty: $CXX, then c++, g++, clang++")
    compile_timeout: float = _option("FUNCTX_COMPILE_TIMEOUT", 120.0, float, "seconds after which a compilation is given up")
    parallel_threshold: int = _option(
        "FUNCTX_PARALLEL_THRESHOLD", 32768, int, "elements above which a kernel runs on several threads (measured: docs/measurements.md)"
    )
    disk_cache: bool = _option("FUNCTX_DISK_CACHE", True, _flag, "keep compiled code on disk, for the next process")
    cache_dir: str = _option("FUNCTX_CACHE_DIR", "", str, "directory of that code; empty: $XDG_CACHE_HOME/functx, then ~/.cache/functx")
    cache_limit: int = _option("FUNCTX_CACHE_LIMIT", 1 << 30, int, "bytes that all of it may take; the least recently used code makes room")
    max_entries: int = _option("FUNCTX_MAX_ENTRIES", 256, int, "entries of one jitted function; the least recently used is dropped")
    full_traceback: bool = _option("FUNCTX_FULL_TRACEBACK", False, _flag, "keep functx's own frames in tracebacks")
    disable_jit: bool = _option("FUNCTX_DISABLE_JIT", False, _flag, "run jitted functions as plain Python")
    debug_nans: bool = _option("FUNCTX_DEBUG_NANS", False, _flag, "raise where a NaN is born; jit runs on the reference backend")
    debug_infs: bool = _option("FUNCTX_DEBUG_INFS", False, _flag, "the same for infinities")

    @property
    def watches_values(self) -> bool:
        """Whether every result is looked at."""
        return self.debug_nans or self.debug_infs

    @classmethod
    def from_environment(cls) -> Config:
        """Defaults overridden by environment variables; a value that does not parse raises ValueError naming the variable."""
        values = {}
        for field in dataclasses.fields(cls):
            text = os.environ.get(field.metadata["env"])
            if text is None:
                continue
            try:
                values[field.name] = field.metadata["parse"](text)
            except ValueError as error:
                raise ValueError(f"{field.metadata['env']}={text!r}: {error}") from None
        return cls(**values)


CURRENT: contextvars.ContextVar[Config | None] = contextvars.ContextVar("functx_config", default=None)
_from_environment: Config | None = None


def current() -> Config:
    """The configuration in force here."""
    global _from_environment
    config = CURRENT.get()
    if config is not None:
        return config
    if _from_environment is None:
        _from_environment = Config.from_environment()
    return _from_environment


@contextlib.contextmanager
def options(**changes: Any) -> Iterator[Config]:
    """Change options inside a ``with`` block, for this thread or task only.

    >>> with options(debug=0) as config:
    ...     config.debug
    0
    """
    config = dataclasses.replace(current(), **changes)
    token = CURRENT.set(config)
    try:
        yield config
    finally:
        CURRENT.reset(token)


@contextlib.contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Run jitted functions as plain Python inside a ``with`` block, on NumPy arrays: to step through them in a debugger.

    Inside grad, vmap and the others a jitted function is then as if jit were not there. FUNCTX_DISABLE_JIT=1 does it everywhere.

    >>> import functx as fx
    >>> f = fx.jit(lambda x: x + 1 if x > 0 else x)
    >>> with fx.disable_jit():
    ...     f(2.0)
    3.0
    >>> f.cache_info().traces
    0
    """
    with options(disable_jit=disable):
        yield


@contextlib.contextmanager
def debug_nans(on: bool = True) -> Iterator[None]:
    """Inside a ``with`` block, raise NonFiniteError where an operation makes a NaN of operands that have none, naming your line.

    It watches what transformed functions compute, values and derivatives; jitted ones are then run equation by equation, slowly.
    FUNCTX_DEBUG_NANS=1 does it everywhere.

    >>> import numpy as np
    >>> import functx as fx
    >>> with fx.debug_nans():
    ...     fx.jit(lambda x: np.log(x) + 1)(np.array([1.0, -1.0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    functx.errors.NonFiniteError: 'log' gave nan at index 1, for -1.0
    ...
    """
    with options(debug_nans=on):
        yield


@contextlib.contextmanager
def debug_infs(on: bool = True) -> Iterator[None]:
    """As :func:`debug_nans`, for infinities. FUNCTX_DEBUG_INFS=1 does it everywhere.

    >>> import numpy as np
    >>> import functx as fx
    >>> with fx.debug_infs():
    ...     fx.grad(np.sqrt)(0.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    functx.errors.NonFiniteError: ...
    """
    with options(debug_infs=on):
        yield


def describe() -> str:
    """The table of options: name, environment variable, default, meaning."""
    return "\n".join(f"{f.name:20} {f.metadata['env']:28} {f.default!s:8} {f.metadata['help']}" for f in dataclasses.fields(Config))
