"""Small helpers with no knowledge of functx: strict sequences and graph order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def zip_strict(*sequences: Iterable[Any]) -> list[tuple[Any, ...]]:
    """``list(zip(*sequences))`` that refuses sequences of different lengths."""
    return list(zip(*sequences, strict=True))


def split_list(items: Sequence[T], *sizes: int) -> list[list[T]]:
    """Split ``items`` into lists of the given sizes and a last one with the rest."""
    out, start = [], 0
    for size in sizes:
        out.append(list(items[start : start + size]))
        start += size
    out.append(list(items[start:]))
    return out


def spread(present: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """``values`` in the places where ``present``, None elsewhere."""
    it = iter(values)
    return [next(it) if p else None for p in present]


def unique(items: Iterable[Hashable]) -> list[Any]:
    """Items in first-seen order without repetitions."""
    return list(dict.fromkeys(items))


def invert_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``perm``."""
    inverse = [0] * len(perm)
    for i, p in enumerate(perm):
        inverse[p] = i
    return tuple(inverse)
