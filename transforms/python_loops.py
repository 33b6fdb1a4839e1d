"""Loops on concrete values: plain Python loops, with the conditions that loops in a graph have.

As in a graph carries and xs are values: they share no memory with what a body closes over, nor do leaves of a carry with one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import trees
from functx.dtypes import Kind, python_type
from functx.errors import StructureError
from functx.ir import AbstractArray
from functx.source import function_source
from functx.trace import Tracer, type_of_value, where


def scan(f: Callable[..., Any], init: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """The carry after ``length`` steps, at least one, and the ys stacked."""
    leaves, xs_tree = trees.flatten(owned(xs))
    carry, ys = owned(init), []
    for k in reversed(range(length)) if reverse else range(length):
        out = f(carry, trees.unflatten(xs_tree, [leaf[k] for leaf in leaves]))
        check_pair(f, trees.structure(carry), [trees.structure(v) for v in out] if type(out) is tuple else [])
        _check_step("scan", f, carry, out[0])
        carry = promoted(carry, owned(out[0], carry))
        ys.append(owned(out[1]))
    if reverse:
        ys.reverse()
    return carry, trees.map(lambda *steps: np.stack(steps), *ys)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """The first carry for which the condition does not hold."""
    carry = owned(init)
    while True:
        truth = cond_fun(carry)
        check_condition(cond_fun, np.shape(truth))
        if not truth:
            return carry
        new = body_fun(carry)
        _check_step("while_loop", body_fun, carry, new)
        carry = promoted(carry, owned(new, carry))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """The carry after the steps of a range."""
    carry = owned(init)
    for i in range(lower, upper):
        new = body_fun(i, carry)
        _check_step("fori_loop", body_fun, carry, new)
        carry = promoted(carry, owned(new, carry))
    return carry


def owned(values: Any, before: Any = None) -> Any:
    """Copies of arrays (or handles of them), but for leaves that stand where they stood ``before``: those are updated in place."""
    leaves, tree = trees.flatten(values)
    kept = [None] * len(leaves) if before is None else trees.leaves(before)
    return trees.unflatten(tree, [v.copy() if v is not old and _is_array(v) else v for v, old in zip(leaves, kept, strict=True)])


def promoted(before: Any, after: Any) -> Any:
    """A carry in the types that join those of the one before and its own: a float32 stays one, an int that becomes a float was one."""
    leaves, tree = trees.flatten(after)
    pairs = zip(leaves, trees.leaves(before), strict=True)
    return trees.unflatten(tree, [_typed(v, joined(type_of_value(old), type_of_value(v))) for v, old in pairs])


def _typed(value: Any, aval: AbstractArray) -> Any:
    if type_of_value(value) == aval:
        return value
    array = np.asarray(value, aval.dtype)
    return array.item() if aval.kind is Kind.PYTHON else array[()] if aval.kind is Kind.SCALAR else array


def joined(a: AbstractArray, c: AbstractArray) -> AbstractArray:
    """The type of a carry that goes in as one and comes out as another."""
    kinds = [Kind.PYTHON, Kind.SCALAR, Kind.ARRAY]
    kind = max(a.kind, c.kind, key=kinds.index)
    if a.weak == c.weak:
        dtype = np.promote_types(a.dtype, c.dtype)
    else:
        weak, strong = (a, c) if a.weak else (c, a)
        dtype = np.result_type(python_type(weak.dtype)(1), strong.dtype)
    return AbstractArray(a.shape, dtype, kind)


def _is_array(v: Any) -> bool:
    return isinstance(v, np.ndarray) or (isinstance(v, Tracer) and v.kind is Kind.ARRAY)


def _check_step(kind: str, f: Callable[..., Any], before: Any, after: Any) -> None:
    structure = trees.structure(before)
    check_structure(kind, f, structure, trees.structure(after))
    avals = [[type_of_value(v) for v in trees.leaves(tree)] for tree in (before, after)]
    check_carry(kind, f, *avals, [f"'carry{path}'" for path in trees.leaf_paths(before)])


def check_pair(f: Callable[..., Any], tree: Any, parts: Sequence[Any]) -> None:
    """The body of a scan returns a carry like the one that it takes, and a y."""
    if len(parts) != 2 or parts[0] != tree:
        what = "a pair (carry, y)" if len(parts) != 2 else f"a carry of structure {tree}, and it is {parts[0]}"
        raise StructureError(f"scan: {function_source(f)} must return {what}", where=where(), fix="return carry, y (y may be None)")


def check_structure(kind: str, f: Callable[..., Any], tree: Any, out_tree: Any) -> None:
    """A body returns the structure that it takes."""
    if out_tree != tree:
        what = f"{kind}: {function_source(f)} takes a carry of structure {tree} and returns {out_tree}"
        raise StructureError(what, where=where(), fix="return what it takes")


def check_carry(
    kind: str, f: Callable[..., Any], before: Sequence[AbstractArray], after: Sequence[AbstractArray], labels: Sequence[str]
) -> None:
    """A body returns the shapes that it takes."""
    for a, c, label in zip(before, after, labels, strict=True):
        if a.shape != c.shape:
            raise StructureError(
                f"{kind}: the carry {label} goes in as {a} and comes out as {c}",
                where=function_source(f),
                why="every step must take what the one before gives",
                fix="give the initial value the shape that it keeps",
            )


def check_condition(f: Callable[..., Any], shape: tuple[Any, ...]) -> None:
    """A condition is one bool."""
    if shape != ():
        what = f"while_loop: the condition {function_source(f)} gives an array of shape {shape}"
        raise StructureError(what, where=where(), why="a loop goes on or ends", fix="reduce it, with .any() or .all()")
