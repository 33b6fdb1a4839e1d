"""Loops on concrete values: plain Python loops, with the conditions that loops in a graph have.

As in a graph carries and xs are values: they share no memory with what a body closes over, nor do leaves of a carry with one another. And
as in a graph a carry has from the beginning the type that it is promoted to, and a choice that to which all its branches are, so far as
functx.transforms.outlook can tell them without running anything twice; otherwise a carry is promoted after its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import tensors, trees
from functx.dtypes import FLOAT64, PYTHON_DTYPES, Kind, python_type
from functx.errors import StructureError
from functx.ir import AbstractArray
from functx.source import function_source
from functx.trace import Tracer, current_trace, type_of_value, where
from functx.transforms.arguments import is_traced_leaf
from functx.transforms.outlook import Told, types_of_result


def scan(f: Callable[..., Any], init: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """The carry after ``length`` steps, at least one, and the ys stacked."""
    leaves, xs_tree = trees.flatten(owned(xs))
    first = trees.unflatten(xs_tree, [leaf[0] for leaf in leaves])
    carry, ys = _settled("scan", f, owned(init), lambda c: (c, first)), []
    for k in reversed(range(length)) if reverse else range(length):
        out = f(carry, trees.unflatten(xs_tree, [leaf[k] for leaf in leaves]))
        check_pair(f, trees.structure(carry), [trees.structure(v) for v in out] if type(out) is tuple else [])
        _check_step("scan", f, carry, out[0])
        check_data(trees.leaves(out[1]), "scan: what the body returns")
        carry = promoted(carry, owned(out[0], carry))
        ys.append(owned(out[1]))
    if reverse:
        ys.reverse()
    return carry, trees.map(lambda *steps: np.stack(steps), *ys)


def scan_of_nothing(f: Callable[..., Any], init: Any, xs: Any) -> tuple[Any, Any] | None:
    """The carry and the ys of a scan without steps, if they can be told without tracing the body itself."""
    leaves, xs_tree = trees.flatten(xs)
    step = trees.unflatten(xs_tree, [np.zeros(np.shape(leaf)[1:], np.asarray(leaf).dtype)[()] for leaf in leaves])
    carry = _settled("scan", f, owned(init), lambda c: (c, step), always=True)
    told = types_of_result("scan", f, (carry, step))
    if told is None:
        return None
    tree = told.tree.children()[1]
    return carry, trees.unflatten(tree, [np.zeros((0, *a.shape), a.dtype) for a in told.avals[len(told.avals) - tree.num_leaves :]])


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """The first carry for which the condition does not hold."""
    carry = _settled("while_loop", body_fun, owned(init), lambda c: (c,), always=True)
    while True:
        truth = cond_fun(carry)
        check_condition(cond_fun, truth)
        if not truth:
            return carry
        new = body_fun(carry)
        _check_step("while_loop", body_fun, carry, new)
        carry = promoted(carry, owned(new, carry))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """The carry after the steps of a range."""
    steps = range(lower, upper)
    carry = _settled("fori_loop", body_fun, owned(init), lambda c: (0, c), always=not steps)
    for i in steps:
        new = body_fun(i, carry)
        _check_step("fori_loop", body_fun, carry, new)
        carry = promoted(carry, owned(new, carry))
    return carry


def choose(kind: str, number: int, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """What the function of that number returns, in the types that join those of all."""
    if tensors.any_in(trees.leaves(operands)):
        return owned(functions[number](*operands))
    told = [types_of_result(kind, f, operands) for f in functions]
    joined_branches(kind, functions, told)  # mistakes are found before anything happens
    leaves, tree = trees.flatten(owned(functions[number](*operands)))
    if tensors.any_in(leaves):
        return trees.unflatten(tree, leaves)
    told[number] = Told(tree, [type_of_value(v) for v in leaves])  # what it is counts, not what it was expected to be
    avals = joined_branches(kind, functions, told)
    return trees.unflatten(tree, list(map(_typed, leaves, avals)))


def joined_branches(kind: str, functions: Sequence[Callable[..., Any]], told: Sequence[Told | None]) -> list[AbstractArray]:
    """The types that join those of branches, as far as these are known."""
    known = [(f, branch) for f, branch in zip(functions, told, strict=True) if branch is not None]
    first, *rest = known or [(None, Told(None, []))]
    avals = list(first[1].avals)
    for f, branch in rest:
        if branch.tree != first[1].tree:
            shown = [f"{function_source(g)} returns {trees.show(tree)}" for g, tree in ((first[0], first[1].tree), (f, branch.tree))]
            raise StructureError(f"{kind}: {', '.join(shown)}", where=where(), fix="return the same structure from all branches")
        for k, other in enumerate(branch.avals):
            if other.shape != avals[k].shape:
                what = f"{kind}: result {k} is {avals[k]} in {function_source(first[0])} and {other} in {function_source(f)}"
                raise StructureError(what, where=where(), why="one equation stands for all branches", fix="give both the same shape")
            avals[k] = joined(avals[k], other)
    return avals


def _settled(kind: str, f: Callable[..., Any], carry: Any, arguments: Callable[[Any], Sequence[Any]], always: bool = False) -> Any:
    """A carry in the types that it keeps. ``always``: there may be no step at all, which could show that it does not keep its structure."""
    leaves, tree = trees.flatten(carry)
    avals = [type_of_value(v) for v in leaves]
    while always or any(a.weak or a.dtype not in (FLOAT64, PYTHON_DTYPES[complex]) for a in avals):
        told = types_of_result(kind, f, arguments(carry))
        if told is None:
            break
        tree_of_carry = told.tree
        if kind == "scan":
            parts = told.tree.children() if told.tree.type is tuple else []
            check_pair(f, tree, parts)
            tree_of_carry = parts[0]
        check_structure(kind, f, tree, tree_of_carry)
        after = told.avals[: len(avals)]
        check_carry(kind, f, avals, after, [f"'carry{path}'" for path in trees.leaf_paths(carry)])
        new = list(map(joined, avals, after))
        if new == avals:
            break
        avals = new
        carry = trees.unflatten(tree, list(map(_typed, trees.leaves(carry), avals)))
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


def check_data(values: Sequence[Any], what: str) -> None:
    """Loops and choices work on arrays and numbers; outside of traces choices hand tensors on, too."""
    for v in values:
        if v is None or not (is_traced_leaf(v) or (current_trace() is None and tensors.any_in([v]))):
            fix = "close over it; loops carry arrays and numbers"
            raise StructureError(f"{what} holds a {type(v).__name__}", where=where(), fix=fix)


def check_pair(f: Callable[..., Any], tree: Any, parts: Sequence[Any]) -> None:
    """The body of a scan returns a carry like the one that it takes, and a y."""
    if len(parts) != 2 or parts[0] != tree:
        what = "a pair (carry, y)" if len(parts) != 2 else f"a carry of structure {trees.show(tree)}, and it is {trees.show(parts[0])}"
        raise StructureError(f"scan: {function_source(f)} must return {what}", where=where(), fix="return carry, y (y may be None)")


def check_structure(kind: str, f: Callable[..., Any], tree: Any, out_tree: Any) -> None:
    """A body returns the structure that it takes."""
    if out_tree != tree:
        what = f"{kind}: {function_source(f)} takes a carry of structure {trees.show(tree)} and returns {trees.show(out_tree)}"
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


def check_condition(f: Callable[..., Any], truth: Any) -> None:
    """A condition is one bool."""
    if len(trees.leaves(truth)) != 1:
        what = f"while_loop: the condition {function_source(f)} returns no single bool"
        raise StructureError(what, where=where(), fix="return one comparison")
    check_truth(f, np.shape(truth))


def check_truth(f: Callable[..., Any], shape: tuple[Any, ...]) -> None:
    """A condition has no axes."""
    if shape != ():
        what = f"while_loop: the condition {function_source(f)} gives an array of shape {shape}"
        raise StructureError(what, where=where(), why="a loop goes on or ends", fix="reduce it, with .any() or .all()")
