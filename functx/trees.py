"""Containers of arguments and results, by optree. Dicts flatten in sorted key order; results keep the order they were built in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import optree

NAMESPACE = "functx"

TreeDef = optree.PyTreeSpec


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """Leaves and structure of a container; None is an empty container."""
    return optree.tree_flatten(tree, is_leaf=is_leaf, namespace=NAMESPACE)


def flatten_with_none(tree: Any) -> tuple[list[Any], TreeDef]:
    """As :func:`flatten`, with None as a leaf (for axes specifications)."""
    return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)


def unflatten(treedef: TreeDef, leaves: Sequence[Any]) -> Any:
    """Rebuild a container from its structure and leaves."""
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a container."""
    return optree.tree_leaves(tree, namespace=NAMESPACE)


def structure(tree: Any) -> TreeDef:
    """The structure of a container."""
    return optree.tree_structure(tree, namespace=NAMESPACE)


def show(treedef: TreeDef) -> str:
    """A structure as text, ``*`` for a leaf.

    >>> show(structure({"a": 1, "b": (2, None)}))
    "{'a': *, 'b': (*, None)}"
    """
    return str(treedef).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply ``f`` leaf by leaf to containers of one structure.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2, None)}, {"b": (3, None), "a": 4})
    {'a': 5, 'b': (5, None)}
    """
    return optree.tree_map(f, tree, *rest, namespace=NAMESPACE)


def leaf_paths(tree: Any) -> list[str]:
    """One path per leaf, written as Python would index it: ``['w'][0].bias``."""
    return [_path_text(path) for path in optree.tree_accessors(tree, namespace=NAMESPACE)]


def _path_text(accessor: Any) -> str:
    return accessor.codify("")


def dataclass(cls: type) -> type:
    """Make ``cls`` a dataclass whose fields are the children of a registered container.

    Fields declared with ``dataclasses.field(metadata={"static": True})`` are part of the structure: they must be hashable.

    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> map(lambda v: 2 * v, Point(1.0, 2.0))
    Point(x=2.0, y=4.0)
    """
    if not dataclasses.is_dataclass(cls):
        cls = dataclasses.dataclass(cls)
    fields = dataclasses.fields(cls)
    children = [f.name for f in fields if not f.metadata.get("static")]
    static = [f.name for f in fields if f.metadata.get("static")]

    def flatten_instance(instance: Any) -> Any:
        return (
            [getattr(instance, name) for name in children],
            tuple(getattr(instance, name) for name in static),
            children,
        )

    def unflatten_instance(metadata: Any, values: Any) -> Any:
        instance = object.__new__(cls)  # __init__ may convert or check its arguments, which here can be anything
        for name, value in [*zip(children, values, strict=True), *zip(static, metadata, strict=True)]:
            object.__setattr__(instance, name, value)
        return instance

    optree.register_pytree_node(cls, flatten_instance, unflatten_instance, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)
    return cls
