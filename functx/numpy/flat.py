"""``x.flat`` of a traced array: its elements in C order, whatever its layout. Reading copies, writing writes into the array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL
from functx.errors import FunctxError
from functx.mutation import check_writeable
from functx.numpy import indexing, promote
from functx.numpy.manipulation import as_row, flatten, ravel, reshape, resize
from functx.trace import Tracer

_WRONG = "only integers, slices (`:`), ellipsis (`...`) and integer or boolean arrays are valid indices"


class FlatIterator(promote.ArrayLike):
    """What ``numpy.flatiter`` is to an array.

    Attributes:
      base: the array.
      index: how many elements have been iterated over.
    """

    __slots__ = ("base", "index")
    __hash__ = None  # type: ignore[assignment]  # it compares element by element

    def __init__(self, base: Tracer):
        self.base, self.index = base, 0

    def as_array(self) -> Tracer:
        """The elements, in memory of their own."""
        return flatten(self.base)

    copy = as_array

    @property
    def coords(self) -> tuple[int, ...]:
        """The place of the next element in the array."""
        return tuple(int(i) for i in np.unravel_index(self.index, tuple(map(operator.index, self.base.shape))))

    def __len__(self) -> int:
        return operator.index(shapes.size(self.base.shape))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.index >= len(self):
            raise StopIteration
        element = self[self.index]
        self.index += 1
        return element

    def __getitem__(self, key: Any) -> Any:
        picked = indexing.getitem(ravel(self.base), _checked(key))
        return picked.copy() if isinstance(picked, Tracer) and picked.parent is not None else picked

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, tuple) and not key:
            raise IndexError("Assigning to a flat iterator with a 0-D index is not supported")
        key = _checked(key)
        if isinstance(key, slice) or np.ndim(key):
            set_flat(self.base, key, value)
        else:
            self._set_element(key, value)

    def _set_element(self, key: Any, value: Any) -> None:
        try:
            if np.ndim(value):
                raise TypeError("a single number is wanted")
            set_flat(self.base, key, value)
        except (OverflowError, TypeError) as error:
            if isinstance(error, FunctxError):
                raise
            raise ValueError("Error setting single item of array.") from error

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_copies(inputs), **kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return func(*_copies(args), **kwargs)

    def _compared(name: str) -> Any:  # type: ignore[misc]
        return lambda self, other: getattr(operator, name)(self.copy(), other)

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(_compared, ("eq", "ne", "lt", "le", "gt", "ge"))


def _checked(key: Any) -> Any:
    """An index of one axis; NumPy's errors for what the elements in a row do not have."""
    if isinstance(key, tuple):
        if len(key) > 1:
            raise IndexError("unsupported iterator index")
        key = key[0] if key else Ellipsis
    if key is Ellipsis:
        return slice(None)
    if key is None or isinstance(key, (str, float, complex)):
        raise IndexError(_WRONG)
    single_truth = isinstance(key, (bool, np.bool)) or (np.ndim(key) == 0 and getattr(key, "dtype", None) == BOOL)
    if single_truth or (isinstance(key, list) and key and all(isinstance(k, (bool, np.bool)) for k in key)):
        raise IndexError("boolean indices for iterators are not supported: give an array of them")
    return key


def _copies(values: Sequence[Any]) -> list[Any]:
    return [v.as_array() if isinstance(v, FlatIterator) else _copies(v) if isinstance(v, (list, tuple)) else v for v in values]


def assign(self: Any, value: Any) -> None:
    """``x.flat = value``: all elements, the values again and again."""
    FlatIterator(self)[...] = value


def set_flat(a: Any, key: Any, values: Any) -> None:
    """``a.flat[key] = values``: (repeated) values into the array's elements in C order."""
    (h,) = promote.handles([indexing.writeable(a)])
    check_writeable(h)
    set_repeated(as_row(h), key, values)


def set_repeated(flat: Tracer, key: Any, values: Any) -> None:
    """Write values, repeated as often as it takes, into a 1-D array."""
    if np.ndim(values):
        values = promote.handles([indexing.as_stored(values, flat.aval.dtype)])[0]
        if shapes.size(values.aval.shape) == 0:
            return
        places = promote.handles([promote.positions(flat.aval.shape[0])])[0]
        values = reshape(values, ()) if shapes.size(values.aval.shape) == 1 else resize(values, places[key].aval.shape)
    indexing.setitem(flat, key, values)
