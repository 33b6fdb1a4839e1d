"""Notices that a function drew from NumPy's global generator while it was traced once for many runs: its numbers are then always the same.

The state of the generator before and after tells; nothing is patched. A generator of the user's own (``np.random.default_rng``) is not
seen.
"""

from __future__ import annotations

import ctypes
import dis
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from functx.errors import DrawWarning
from functx.source import Source, function_source, is_internal, user_source, warn_at
from functx.trace import Trace

_STATE_BYTES = 624 * 4 + 4  # of the Mersenne twister: the key and the position in it

_told: set[Any] = set()  # the places that have been warned of, and the state after the last of those draws
_last: list[bytes] = []


def _generator_state(quickly: bool) -> bytes:
    """All of it takes some 0.1 ms; quickly it lacks the one normal number that may be left over from the last pair."""
    generator = np.random.get_bit_generator()
    if quickly and type(generator) is np.random.MT19937:
        return ctypes.string_at(generator.ctypes.state_address, _STATE_BYTES)
    return pickle.dumps(np.random.get_state(legacy=False))


def state_before(trace: Trace) -> bytes | None:
    """The state of NumPy's global generator, if one run under ``trace`` stands for many: those of a compiled function, the steps of a
    loop, the lanes of vmap.
    """
    if trace.opaque:
        return _generator_state(quickly=False)
    return _generator_state(quickly=True) if trace.transform == "vmap" else None


def warn_of_draws(f: Callable[..., Any], trace: Trace, before: bytes | None) -> None:
    """Warn once per place if the generator has moved since."""
    if before is None or (after := _generator_state(not trace.opaque)) == before or after in _last:
        return
    _last[:] = [after]
    place = next(_drawing_lines(f), None)
    name = function_source(f)
    if (place or name) in _told or (place is None and threading.active_count() > 1):  # another thread may have drawn
        return
    _told.add(place or name)
    warn_at(
        f"numpy.random was called while {trace.transform} traced {name}"
        + (f"\n  at:  {place.describe()}" if place else "")
        + "\n  why: the function runs once to be traced, so every call, step or lane gets the numbers drawn then"
        + "\n  fix: draw with functx.random from a key that is an argument, or draw outside and pass the numbers in",
        DrawWarning,
        place or user_source(),
    )


def _drawing_lines(f: Any, seen: set[Any] | None = None) -> Iterator[Source]:
    """Lines of a function, and of those that it refers to, that name numpy.random or a function of its global generator."""
    seen = set() if seen is None else seen
    f = inspect.unwrap(f) if callable(f) else f
    f = getattr(f, "__func__", f)
    if not isinstance(f, FunctionType) or f.__code__ in seen or is_internal(f.__code__):
        return
    names = {**f.__globals__}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    mentioned: list[Any] = []
    for code in _codes(f.__code__):
        seen.add(code)
        line, value = code.co_firstlineno, None
        for step in dis.get_instructions(code):
            line = (step.positions and step.positions.lineno) or line
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                value = names.get(step.argval)
                mentioned.append(value)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and value is np:
                value = getattr(np, step.argval, None) if step.argval == "random" else None
            else:
                value = None
            if value is np.random or (value is not None and getattr(value, "__self__", None) is np.random.mtrand._rand):
                yield Source(code.co_filename, line, code.co_name)
    for other in mentioned:
        if isinstance(other, FunctionType):
            yield from _drawing_lines(other, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
