"""Failed checks on a device: the table into which kernels enter them, and when it is read.

A table holds a count and, for the first failing blocks, check, place and value. Programs without checks have none. In the interpreter it is
read at the end of the call. On a GPU reading would wait for everything launched before, so the count is copied to the host behind the
call, and looked at when the next program with checks is called and that copy has come, or by ``functx.debug.synchronize()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from functx.errors import IndexOutOfBoundsError, IntegerOverflowError
from functx.ir import Eqn

ROWS = 64  # failing blocks that a table has room for


class FailureTable:
    """The table of one device and stream."""

    _tables: dict[Any, FailureTable] = {}

    def __init__(self, device: torch.device):
        self.memory = torch.zeros(1 + 3 * ROWS, dtype=torch.int64, device=device)
        self._waits = device.type == "cpu"
        self._pending: tuple[Any, torch.Tensor, Sequence[Eqn]] | None = None

    @classmethod
    def of(cls, device: torch.device) -> FailureTable:
        """The table of a device and its current stream. Raises what an earlier call there has failed with."""
        if device.type == "cpu":
            return cls(device)
        key = device, torch.cuda.current_stream(device)
        table = cls._tables.setdefault(key, None) or cls(device)
        cls._tables[key] = table
        table.look(wait=False)
        return table

    @classmethod
    def synchronize(cls) -> None:
        """Wait for all calls on GPUs, and raise what one of them has failed with."""
        for table in list(cls._tables.values()):
            table.look(wait=True)

    def after_call(self, eqns: Sequence[Eqn]) -> None:
        """Read the table, or have it read later."""
        if self._waits:
            self._raise(self.memory, eqns)
            return
        count = torch.empty(1, dtype=torch.int64, pin_memory=True)
        count.copy_(self.memory[:1], non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._pending = event, count, eqns

    def look(self, wait: bool) -> None:
        """Raise the failure of the last call, if it is known by now."""
        if self._pending is None:
            return
        event, count, eqns = self._pending
        if wait:
            event.synchronize()
        elif not event.query():
            return
        self._pending = None
        if count.item():
            self._raise(self.memory, eqns)

    def _raise(self, memory: torch.Tensor, eqns: Sequence[Eqn]) -> None:
        table = memory.tolist()
        if not table[0]:
            return
        memory.zero_()
        rows = [table[1 + 3 * k : 4 + 3 * k] for k in range(min(table[0], ROWS))]
        number, _, value = min(rows)
        raise _error(eqns[number], value, number)


def _error(eqn: Eqn, value: int, number: int) -> Exception:
    where = eqn.source.describe() if eqn.source else None
    if eqn.primitive.name == "convert":
        return IntegerOverflowError(f"Python integer {value} out of bounds for {eqn.params['dtype']}", where=where)
    sizes = eqn.inputs[0].aval.shape
    axis = next((a for a in eqn.params["axes"] if not -sizes[a] <= value < sizes[a]), eqn.params["axes"][0])
    return IndexOutOfBoundsError(f"index {value} is out of bounds for axis {axis} with size {sizes[axis]}", where=where)
