"""``x.at[index].set(v)``: changed copies, for code in which arrays are values."""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.numpy import manipulation
from functx.trace import Tracer


class Place:
    """The place ``index`` of an array, to make changed copies."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any):
        self._array, self._index = array, index

    def set(self, value: Any) -> Any:
        """A copy of the array in which ``copy[index] = value`` was done."""
        out = self._copy(value)
        out[self._index] = value
        return out

    def add(self, value: Any) -> Any:
        """A copy of the array in which ``np.add.at(copy, index, value)`` was done: repeated indices add up."""
        out = self._copy(value)
        np.add.at(out, self._index, value)
        return out

    def _copy(self, value: Any) -> Any:
        """Memory of its own, of a traced array if anything here is traced."""
        traced = any(_is_traced(v) for v in (self._array, self._index, value))
        return manipulation.copy(self._array) if traced else np.array(self._array)


def _is_traced(value: Any) -> bool:
    parts = (value.start, value.stop, value.step) if isinstance(value, slice) else value
    return isinstance(parts, Tracer) or (isinstance(parts, (list, tuple)) and any(_is_traced(v) for v in parts))


class At:
    """``At(x)[index]`` is a :class:`Place`."""

    __slots__ = ("_array",)

    def __init__(self, array: Any):
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)


def at(x: Any) -> At:
    """Changed copies of an array, plain or traced: ``at(x)[index].set(value)`` and ``at(x)[index].add(value)``; ``x`` stays as it is.

    >>> x = np.zeros(3)
    >>> at(x)[1:].set(2.0)
    array([0., 2., 2.])
    >>> at(x)[[0, 0]].add(1.0)
    array([2., 0., 0.])
    >>> x
    array([0., 0., 0.])
    """
    return At(x)
