"""Failed checks on a device: the table into which kernels enter them, and when it is read.

A table holds a count and, for the first failing blocks, check, place, value, axis and its size. Programs without checks have none. In the
interpreter it is read at the end of the call. On a GPU reading would wait for everything launched before, so the count is copied to the
host behind the call, and looked at, once it has come, when a compiled function is called on a GPU, or by
``functx.debug.synchronize()``, which waits for it. Until then calls of the program that failed leave their arguments as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from functx.errors import IndexOutOfBoundsError, IntegerOverflowError
from functx.ir import Eqn

ROWS = 64  # failing blocks that a table has room for (as in the prelude)

_pending: dict[int, FailureTable] = {}  # tables whose counts are on their way, by identity


class FailureTable:
    """The table of one program on one device and stream; ``eqns``: what the program checks, by number."""

    def __init__(self, device: torch.device, eqns: Sequence[Eqn]):
        self.memory = torch.zeros(1 + 5 * ROWS, dtype=torch.int64, device=device)
        self._eqns, self._event = eqns, None
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.current_stream(device) if on_gpu else None
        self._count = torch.zeros(1, dtype=torch.int64, device="cpu", pin_memory=True) if on_gpu else None

    def after_call(self) -> None:
        """Read the table, or have it read later."""
        if self._count is None:
            self._raise()
            return
        self._count.copy_(self.memory[:1], non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()
        _pending[id(self)] = self

    def look(self, wait: bool) -> None:
        """Raise a failure, if it is known by now: also that of a call before the last one, whose count has come already."""
        if wait:
            self._event.synchronize()
        all_here = wait or self._event.query()
        failed = bool(self._count.item())
        if failed or all_here:
            _pending.pop(id(self), None)
        if failed:
            self._raise()

    def _raise(self) -> None:
        if (failure := self.take()) is not None:
            raise failure

    def take(self) -> Exception | None:
        """What the table tells after all calls that use it, as an error; it is empty then."""
        with torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext():
            table = self.memory.tolist()
            if not table[0]:
                return None
            self.memory.zero_()
        if self._count is not None:
            self._count.zero_()
        number, _, value, axis, size = min(table[1 + 5 * k : 6 + 5 * k] for k in range(min(table[0], ROWS)))
        return _error(self._eqns[number], value, axis, size)


def look(wait: bool = False) -> None:
    """Raise what an earlier call on a GPU has failed with; ``wait``: for all calls so far."""
    for table in list(_pending.values()):
        table.look(wait)


def _error(eqn: Eqn, value: int, axis: int, size: int) -> Exception:
    where = eqn.source.describe() if eqn.source else None
    if eqn.primitive.name == "convert":
        return IntegerOverflowError(f"Python integer {value} out of bounds for {eqn.params['dtype']}", where=where)
    return IndexOutOfBoundsError(f"index {value} is out of bounds for axis {axis} with size {size}", where=where)
