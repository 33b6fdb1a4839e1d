"""associative_scan: the running results of an associative operation, by pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import trees
from functx.errors import StructureError
from functx.source import hides_frames
from functx.trace import where
from functx.util import zip_strict


@hides_frames
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Running results of an associative operation along an axis, in a number of rounds that grows with the logarithm of its length.

    Args:
      fn: the operation, on containers like ``elems`` of any length along the axis: it must work element by element.
      elems: an array or a container of arrays of one length along the axis.
      reverse: from the last element to the first.

    Returns:
      What has the structure and shapes of ``elems``: element k combines the elements up to k.

    >>> import numpy as np
    >>> associative_scan(np.add, np.array([1, 2, 3, 4]))
    array([ 1,  3,  6, 10])
    """
    leaves, tree = trees.flatten(elems)
    moved = [np.moveaxis(np.flip(v, axis) if reverse else v, axis, 0) for v in leaves]
    if len({v.shape[0] for v in moved}) != 1:
        raise StructureError("associative_scan: lengths along the axis differ", where=where(), fix="give elems of one length")

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        return trees.leaves(fn(trees.unflatten(tree, a), trees.unflatten(tree, b)))

    done = [np.moveaxis(v, 0, axis) for v in _running(combine, moved)]
    return trees.unflatten(tree, [np.flip(v, axis) if reverse else v for v in done])


def _running(combine: Callable[..., list[Any]], elems: list[Any]) -> list[Any]:
    """Pairs are combined, their running results found, and those in between filled in (Blelloch, "Prefix sums and their applications")."""
    n = elems[0].shape[0]
    if n < 2:
        return [e.copy() for e in elems]  # as longer ones: no view of what was given
    odd = _running(combine, combine([e[: n - 1 : 2] for e in elems], [e[1::2] for e in elems]))
    between = combine([o[: (n - 1) // 2] for o in odd], [e[2::2] for e in elems]) if n > 2 else [e[:0] for e in elems]
    out = []
    for e, o, b in zip_strict(elems, odd, between):
        joined = np.concatenate([e[:1], b])
        rows = np.zeros_like(joined, shape=(n, *e.shape[1:]))
        rows[0::2], rows[1::2] = joined, o
        out.append(rows)
    return out


# --- choices ------------------------------------------------------------------------------------------------------------------------------
