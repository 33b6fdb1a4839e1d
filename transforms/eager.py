"""Calls of functions of functx.numpy on tensors of a GPU: each is jitted by itself, once per types of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import tensors, trees
from functx.source import hides_frames
from functx.transforms.jit import jit

_DATA = (np.ndarray, np.generic, float, complex)  # other arguments (axes, names, truth values) are part of the key


@dataclass(frozen=True)
class _Eager:
    """A function and what it is called with apart from data, whose places hold None."""

    f: Callable[..., Any]
    structure: Any
    rest: tuple[Any, ...]
    data: tuple[bool, ...]


def _apply(call: _Eager, *data: Any) -> Any:
    given = iter(data)
    leaves = [next(given) if is_data else v for v, is_data in zip(call.rest, call.data, strict=True)]
    args, kwargs = trees.unflatten(call.structure, leaves)
    return call.f(*args, **kwargs)


_jitted = jit(_apply, static_argnums=0)


@hides_frames
def compute(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``f(*args, **kwargs)``, compiled."""
    leaves, structure = trees.flatten((args, kwargs))
    data = tuple(tensors.on_gpu(v) or isinstance(v, _DATA) for v in leaves)
    rest = tuple(None if is_data else v for v, is_data in zip(leaves, data, strict=True))
    return _jitted(_Eager(f, structure, rest, data), *(v for v, is_data in zip(leaves, data, strict=True) if is_data))


tensors.compute_eagerly(compute)
