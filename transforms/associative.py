"""associative_scan: the running results of an associative operation, by pairs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes, trees
from functx.errors import StructureError
from functx.source import function_source, hides_frames
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

    Raises:
      StructureError: lengths differ, or fn returns another structure or shape than it is given.

    >>> import numpy as np
    >>> associative_scan(np.add, np.array([1, 2, 3, 4]))
    array([ 1,  3,  6, 10])
    """
    leaves, tree = trees.flatten(elems)
    if any(np.ndim(v) == 0 for v in leaves):
        what = "associative_scan: an array among elems has no axis to go along"
        raise StructureError(what, where=where(), fix="give arrays, np.stack(...) of numbers")
    axes = [shapes.canonical_axis(operator.index(axis), np.ndim(v)) for v in leaves]
    moved = [np.moveaxis(np.flip(v, k) if reverse else v, k, 0) for v, k in zip_strict(leaves, axes)]
    if len({v.shape[0] for v in moved}) != 1:
        raise StructureError("associative_scan: lengths along the axis differ", where=where(), fix="give elems of one length")

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        outs, out_tree = trees.flatten(fn(trees.unflatten(tree, a), trees.unflatten(tree, b)))
        given, got = ((of, [np.shape(v) for v in vs]) for of, vs in ((tree, a), (out_tree, outs)))
        if given != got:
            shown = [f"{trees.show(of)} of shapes {sizes}" for of, sizes in (given, got)]
            what = f"associative_scan: {function_source(fn)} takes {shown[0]} and returns {shown[1]}"
            raise StructureError(what, where=where(), fix="return what it takes, combined element by element")
        return outs

    done = [np.moveaxis(v, 0, k) for v, k in zip_strict(_running(combine, moved), axes)]
    return trees.unflatten(tree, [np.flip(v, k) if reverse else v for v, k in zip_strict(done, axes)])


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
