"""``x.at[index].set(v)``: changed copies, for code in which arrays are values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functx.numpy import manipulation
from functx.trace import Tracer


class Place:
    """The place ``index`` of an array, to make changed copies. Where an index repeats, every repetition counts, as in ``np.add.at``."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any):
        self._array, self._index = array, index

    def get(self) -> Any:
        """What is there: ``x[index]``, never a view."""
        picked = self._array[self._index]
        return picked.copy() if isinstance(picked, (np.ndarray, Tracer)) else picked

    def set(self, value: Any) -> Any:
        """A copy of the array in which ``copy[index] = value`` was done."""
        out = self._copy(value)
        out[self._index] = value
        return out

    def add(self, value: Any) -> Any:
        """A copy with ``value`` added there."""
        return self._updated(np.add, value)

    def subtract(self, value: Any) -> Any:
        """A copy with ``value`` subtracted there."""
        return self._updated(np.subtract, value)

    def multiply(self, value: Any) -> Any:
        """A copy multiplied by ``value`` there."""
        return self._updated(np.multiply, value)

    def divide(self, value: Any) -> Any:
        """A copy divided by ``value`` there."""
        return self._updated(np.divide, value)

    def power(self, value: Any) -> Any:
        """A copy raised to the power ``value`` there."""
        return self._updated(np.power, value)

    def min(self, value: Any) -> Any:
        """A copy that is ``value`` there where that is less."""
        return self._updated(np.minimum, value)

    def max(self, value: Any) -> Any:
        """A copy that is ``value`` there where that is greater."""
        return self._updated(np.maximum, value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """A copy in which ``copy[index] = function(copy[index])`` was done: a repeated index counts once."""
        out = self._copy(None)
        changed = function(out[self._index])
        out = self._copy(changed)
        out[self._index] = changed
        return out

    def _updated(self, ufunc: np.ufunc, value: Any) -> Any:
        out = self._copy(value)
        ufunc.at(out, self._index, value)
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
    """Changed copies of an array, plain or traced: ``at(x)[index].set(value)``, ``.add``, ``.subtract``, ``.multiply``, ``.divide``,
    ``.power``, ``.min``, ``.max`` and ``.apply(function)``; ``x`` stays as it is. ``.get()`` reads.

    >>> x = np.zeros(3)
    >>> at(x)[1:].set(2.0)
    array([0., 2., 2.])
    >>> at(x)[[0, 0]].add(1.0)
    array([2., 0., 0.])
    >>> at(x)[0].max(5.0)
    array([5., 0., 0.])
    >>> x
    array([0., 0., 0.])
    """
    return At(x)
