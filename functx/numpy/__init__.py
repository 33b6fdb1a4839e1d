"""``import functx.numpy as np``: NumPy, of which all functions accept traced arrays and the constructors work inside traced functions.

With concrete arguments every function is NumPy's own. With tracers, NumPy dispatches most functions to functx by its protocols, so plain
``import numpy`` works too; what NumPy never dispatches (constructors, ``asarray``, lists that hold tracers) needs this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as _np

from functx.numpy import protocols as _protocols
from functx.numpy.at import at
from functx.numpy.creation import (
    arange,
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    asfortranarray,
    copy,
    empty,
    eye,
    full,
    geomspace,
    identity,
    linspace,
    logspace,
    ones,
    tri,
    zeros,
)
from functx.numpy.positions import argwhere, extract, flatnonzero, nonzero
from functx.numpy.positions import as_array as _as_array
from functx.numpy.selection import sized_where
from functx.numpy.sets import bincount, unique
from functx.tensors import accepting_gpu as _accepting_gpu

_protocols.install_protocols()
where = _accepting_gpu(sized_where)


def _accepting_lists(f: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function whose array arguments may be lists that hold tracers, which NumPy itself would not dispatch."""

    @_accepting_gpu
    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*map(_as_array, args), **{name: value if name == "out" else _as_array(value) for name, value in kwargs.items()})

    if isinstance(f, _np.ufunc):  # np.add.reduce, np.add.at
        call.__dict__.update((member, getattr(f, member)) for member in dir(f) if not member.startswith("_"))
    return call


# Sequences of arrays are these functions' own arguments; NumPy looks inside them.
_SEQUENCES = {
    "concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack", "block", "select", "choose",
    "ravel_multi_index",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    member = getattr(_np, name)
    if name in _SEQUENCES:
        globals()[name] = member = _accepting_gpu(member)
        return member
    if isinstance(member, type) or not callable(member):
        return member
    traced = member in _protocols.FUNCTIONS or isinstance(member, _np.ufunc)
    if traced:
        member = _accepting_lists(member)
        globals()[name] = member
    return member


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_np)})


__all__ = [
    "arange",
    "argwhere",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "asfortranarray",
    "at",
    "bincount",
    "copy",
    "empty",
    "extract",
    "eye",
    "flatnonzero",
    "full",
    "geomspace",
    "identity",
    "linspace",
    "logspace",
    "nonzero",
    "ones",
    "tri",
    "unique",
    "where",
    "zeros",
]
