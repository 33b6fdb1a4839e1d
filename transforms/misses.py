"""Why a call of a jitted function found no entry: which part of the key, or which condition, no entry shares with it.

Misses are remembered for :func:`explain_misses`; a function that is traced again and again gets one warning.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from functx import trees
from functx.errors import PerformanceWarning
from functx.source import user_source, warn
from functx.transforms.entries import Entry, Key, family

MAX_REMEMBERED = 256
QUIET_TRACES = 32  # traces of one function before the warning


@dataclass(frozen=True)
class Miss:
    """A call that had to be traced.

    Attributes:
      function: the jitted function, with its line.
      line: the caller's line.
      reason: what differs from the entry that comes nearest; for a first call that it is the first.
    """

    function: str
    line: str
    reason: str

    def __str__(self) -> str:
        return f"{self.function}, called at {self.line}: {self.reason}"


_recent: deque[Miss] = deque(maxlen=MAX_REMEMBERED)
_lock = threading.Lock()


def explain_misses() -> list[Miss]:
    """The last calls of jitted functions that had to be traced, the latest last, each with what it does not share with earlier calls.

    >>> import numpy as np
    >>> import functx as fx
    >>> f = fx.jit(lambda x: x + 1, backend="reference")
    >>> y = f(np.ones(2)), f(np.ones(3))
    >>> fx.explain_misses()[-1].reason
    "argument 'x' is f64[3], before it was f64[2]"
    """
    with _lock:
        return list(_recent)


def record(function: str, reason: str, traces: int) -> Miss:
    """Remember a miss; the trace that is one too many is warned of."""
    source = user_source()
    miss = Miss(function, source.describe() if source else "an unknown line", reason)
    with _lock:
        _recent.append(miss)
    if traces == QUIET_TRACES + 1:
        warn(
            f"jit of {function} has been traced {traces} times. This time {reason}. Each trace costs compile time: pad or group the sizes, "
            "pass what varies as arrays, or see functx.explain_misses().",
            PerformanceWarning,
        )
    return miss


def amend(miss: Miss, note: str) -> None:
    """Add what tracing found out."""
    with _lock:
        place = next((i for i, m in enumerate(_recent) if m is miss), None)
        if place is not None:
            _recent[place] = replace(miss, reason=f"{miss.reason}; {note}")


def reason_for(key: Key, leaves: Sequence[Any], labels: Sequence[str], entries: Mapping[Key, Sequence[Entry]]) -> str:
    """What a call with this key and these leaves does not share with the entry that comes nearest."""
    known = [(k, entry) for k, group in entries.items() for entry in group]
    if not known:
        return "it is the first call"
    reasons = [(key.structure != k.structure, list(_differences(key, k, entry, leaves, labels))) for k, entry in reversed(known)]
    return "; ".join(min(reasons, key=lambda item: (item[0], len(item[1])))[1][:3])


def _differences(key: Key, other: Key, entry: Entry, leaves: Sequence[Any], labels: Sequence[str]) -> Iterator[str]:
    if key.options != other.options:
        yield f"the options are {key.options}, before they were {other.options}"
    if key.static != other.static:
        yield f"the static arguments are {shown(key.static)}, before they were {shown(other.static)}"
    if key.structure != other.structure:
        yield f"the arguments are {trees.show(key.structure)}, before they were {trees.show(other.structure)}"
        return
    own = key if entry.predicates.sizes is None else family(key)
    for label, present, mine, theirs in zip(labels, key.leaves, own.leaves, other.leaves, strict=True):
        if mine != theirs:
            yield f"argument {label} is {shown(present)}, before it was {shown(theirs)}"
    if own == other:
        yield entry.obstacle(leaves, labels) or "an entry that fits was made meanwhile"


def shown(part: Any) -> str:
    """A typed value as the user wrote it; static arguments by position or name."""
    if not isinstance(part, tuple):
        return str(part)
    if len(part) == 2 and isinstance(part[0], type):
        kind, value = part
        if isinstance(value, bytes) and kind in (float, complex):
            numbers = struct.unpack(f"<{len(value) // 8}d", value)
            return repr(kind(*numbers))
        return repr(value) if kind not in (tuple, frozenset) else f"({', '.join(map(shown, value))})"
    return ", ".join(f"{name if isinstance(name, str) else f'number {name}'}: {shown(value)}" for name, value in part)
