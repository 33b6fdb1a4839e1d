"""Which sizes of a call are symbolic: those that ``dynamic_shapes`` names, and axes that have been met with more than one size.

What the traced function decides by the sizes of the call becomes part of its cache entry (:class:`SizePattern`).
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import optree

from functx import shapes, trees
from functx.dims import Dim
from functx.errors import DynamicShapeError
from functx.ir import AbstractArray, Graph
from functx.resize import resized
from functx.size_algebra import shown
from functx.sizes import Sizes, evaluate, program
from functx.trace import where
from functx.transforms.arguments import positional_names

Place = tuple[int, int]  # leaf, axis


@dataclass(frozen=True)
class SizePattern:
    """The sizes for which an entry holds.

    Attributes:
      shapes: by leaf the shape: numbers, symbols and what follows from them.
      facts: conditions on the symbols.
    """

    shapes: tuple[tuple[int, shapes.Shape], ...]
    facts: tuple[tuple[str, Any], ...]

    @cached_property
    def _axes(self) -> list[tuple[Place, Dim]]:
        return [((leaf, axis), d) for leaf, shape in self.shapes for axis, d in enumerate(shape) if isinstance(d, Dim)]

    @cached_property
    def _first(self) -> dict[Any, Place]:
        return {d.expr: place for place, d in reversed(self._axes) if d.name}

    @cached_property
    def symbols(self) -> list[Any]:
        """The symbols that are whole axes, in their order of appearance."""
        return sorted(self._first, key=self._first.__getitem__)

    @property
    def places(self) -> list[Place]:
        """Where each symbol appears first."""
        return [self._first[symbol] for symbol in self.symbols]

    @cached_property
    def derived(self) -> list[tuple[Place, list[int]]]:
        """The other symbolic axes, as programs of :mod:`functx.sizes`."""
        return [(place, program(d.expr, self.symbols)) for place, d in self._axes if self._first.get(d.expr) != place]

    @cached_property
    def programs(self) -> list[tuple[str, list[int]]]:
        """The conditions likewise: the values are compared with zero."""
        return [(kind, program(expr, self.symbols)) for kind, expr in self.facts]

    def obstacle(self, leaves: Sequence[Any], labels: Sequence[str] | None = None) -> str | None:
        """What does not hold for a call, in words; None if all does."""
        names = labels or range(len(leaves))
        for leaf, shape in self.shapes:
            for axis, (d, n) in enumerate(zip(shape, leaves[leaf].shape, strict=True)):
                if isinstance(d, int) and d != n:
                    return f"argument {names[leaf]} has the size {n} on axis {axis}, before it was {d}"
        present = [leaves[leaf].shape[axis] for leaf, axis in self.places]
        for (leaf, axis), code in self.derived:
            if evaluate(code, present) != leaves[leaf].shape[axis]:
                return f"argument {names[leaf]} has the size {leaves[leaf].shape[axis]} on axis {axis}, before it followed from others"
        for (kind, expr), (_, code) in zip(self.facts, self.programs, strict=True):
            value = evaluate(code, present)
            if not (value >= 0 if kind == ">=" else (value == 0) is (kind == "==")):
                sizes = ", ".join(f"{s} = {n}" for s, n in zip(self.symbols, present, strict=True) if s in expr.free_symbols)
                return f"with {sizes} it does not hold that {shown(kind, expr)}, by which the function decided"
        return None

    def __str__(self) -> str:
        return " and ".join(shown(*fact) for fact in self.facts)


@dataclass
class Symbolic:
    """The symbolic axes of one call that is to be traced."""

    dims: dict[Place, Dim]
    sizes: Sizes

    def aval(self, leaf: int, aval: AbstractArray) -> AbstractArray:
        """The type of a leaf inside."""
        shape = tuple(self.dims.get((leaf, axis), n) for axis, n in enumerate(aval.shape))
        return AbstractArray(shape, aval.dtype, aval.kind)

    def settle(self, graph: Graph) -> Graph:
        """The graph that was traced, without symbols that turned out to be something else."""
        self.sizes.close()
        return resized(graph, self.change) if self.sizes.pins else graph

    def change(self, dim: Dim) -> shapes.Size:
        """What a size turned out to be."""
        return dim.within(self.sizes, dim.hint)

    def specialize(self, why: str) -> None:
        """Take all sizes as numbers."""
        for dim in self.dims.values():
            self.sizes.specialize(dim, why)

    def pattern(self, leaves: Sequence[Any]) -> SizePattern | None:
        """The sizes for which the traced graph holds; None if that is the present call's only."""
        found = []
        for leaf, value in enumerate(leaves):
            if isinstance(value, np.ndarray):
                dims = (self.dims.get((leaf, axis), n) for axis, n in enumerate(value.shape))
                found.append((leaf, tuple(self.change(d) if isinstance(d, Dim) else d for d in dims)))
        if all(shapes.is_static(shape) for _, shape in found):
            return None
        return SizePattern(tuple(found), tuple(self.sizes.facts()))

    def note(self, labels: Sequence[str]) -> str:
        """Which sizes are numbers and why, for the one who asks why the function is traced again."""
        lines = []
        for expr, why in self.sizes.numbers.items():
            places = [f"axis {axis} of argument {labels[leaf]}" for (leaf, axis), d in self.dims.items() if d.expr in expr.free_symbols]
            lines.append(f"the size {expr} ({', '.join(places)}) is not symbolic: {why}")
        return "; ".join(lines)


@dataclass
class DynamicShapes:
    """Decides for one jitted function.

    Attributes:
      mode: None: axes that were met with a second size; True: all axes; False: none but declared ones.
      declared: Dims by argument name, or in containers like the arguments'.
    """

    f: Callable[..., Any]
    mode: bool | None
    declared: Any
    _met: dict[Any, dict[Place, int | None]] = field(default_factory=dict)  # None: several sizes
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check_names(self) -> None:
        """Refuse names that the function does not have.

        Raises:
          DynamicShapeError: there is one.
        """
        if isinstance(self.declared, Mapping):
            _check_names(self.f, self.declared)

    @property
    def is_off(self) -> bool:
        """Whether no size ever is symbolic."""
        return self.mode is False and self.declared is None

    def forget(self) -> None:
        """Forget the sizes that were met."""
        self._met.clear()

    def choose(
        self, family: Any, f: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any], labels: Sequence[str]
    ) -> Symbolic | None:
        """The symbolic axes of a call that finds no entry, of which note is taken; None if all sizes are numbers.

        Raises:
          DynamicShapeError: a size is outside of what its Dim allows, or a Dim has several sizes.
        """
        declared = {} if self.declared is None else self._declared(f, args, kwargs, leaves, labels)
        first = {id(v): i for i, v in reversed(list(enumerate(leaves)))}  # an array that is passed twice is one
        with self._lock:
            varied = self._varied(family, leaves)
        places = [p for p in varied if p not in declared]
        present: dict[Any, int] = {}
        ranges: dict[Any, Any] = {}
        for (leaf, axis), dim in declared.items():
            ranges.update(dim.sizes.ranges if dim.sizes is not None else {})
            present[dim.expr] = leaves[leaf].shape[axis]
        names = (n for n in _names() if n not in {str(s) for s in present})
        dims = dict(declared)
        for leaf, axis in places:
            twin = (first[id(leaves[leaf])], axis)
            dims[leaf, axis] = dims[twin] if twin in dims else Dim(next(names))
            present.setdefault(dims[leaf, axis].expr, leaves[leaf].shape[axis])
        if not dims:
            return None
        sizes = Sizes(ranges, present)
        return Symbolic({(leaf, axis): d.within(sizes, leaves[leaf].shape[axis]) for (leaf, axis), d in dims.items()}, sizes)

    def _varied(self, family: Any, leaves: Sequence[Any]) -> list[Place]:
        """The axes of a call that are symbolic without having been declared."""
        shown = [((i, axis), n) for i, v in enumerate(leaves) if isinstance(v, np.ndarray) for axis, n in enumerate(v.shape)]
        if self.mode is not None:
            return [place for place, _ in shown] if self.mode else []
        met = self._met.setdefault(family, {})
        for place, n in shown:
            met[place] = n if met.get(place, n) == n else None
        return [place for place, _ in shown if met[place] is None]

    def _declared(self, f: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any], labels: Sequence[str]) -> dict[Place, Dim]:
        """The declared axes, whose sizes are checked."""
        named = [*zip(positional_names(f, len(args)), args, strict=True), *((k, kwargs[k]) for k in sorted(kwargs))]
        if not isinstance(self.declared, Mapping):
            if len(self.declared) > len(args):
                raise _error(f"dynamic_shapes has {len(self.declared)} entries, but there are {len(args)} positional arguments")
            given = dict(zip((name for name, _ in named), self.declared, strict=False))
        else:
            given = self.declared
        dims: dict[Place, Dim] = {}
        start = 0
        for name, value in named:
            for leaf, axis, dim in _axes(given.get(name), value, itertools.count(start), labels):
                dims[leaf, axis] = dim
            start += len(trees.leaves(value))
        _check_sizes(dims, leaves, labels)
        return dims


def _names() -> Iterator[str]:
    yield from "nmklpqr"
    yield from (f"n{i}" for i in itertools.count(1))


def _axes(spec: Any, value: Any, numbers: Iterator[int], labels: Sequence[str]) -> Iterator[tuple[int, int, Dim]]:
    """Leaf, axis and Dim of what a specification says of an argument, leaves numbered by ``numbers``."""
    if optree.tree_is_leaf(value, namespace=trees.NAMESPACE):
        leaf = next(numbers)
        if spec is not None:
            yield from ((leaf, axis, dim) for axis, dim in _leaf_axes(spec, value, labels[leaf]))
        return
    children, meta, *_ = optree.tree_flatten_one_level(value, namespace=trees.NAMESPACE)
    if spec is None:
        specs: Sequence[Any] = [None] * len(children)
    elif isinstance(value, dict) and isinstance(spec, Mapping):
        specs = [spec.get(k) for k in meta]
    else:
        same = type(spec) is type(value) or (isinstance(spec, (tuple, list)) and isinstance(value, (tuple, list)))
        specs = optree.tree_flatten_one_level(spec, namespace=trees.NAMESPACE, none_is_leaf=True)[0] if same else []
        if len(specs) != len(children):
            raise _error(f"dynamic_shapes has {spec!r} for an argument of type {type(value).__name__} with {len(children)} items")
    for sub, child in zip(specs, children, strict=True):
        yield from _axes(sub, child, numbers, labels)


def _leaf_axes(spec: Any, value: Any, label: str) -> Iterator[tuple[int, Dim]]:
    items = dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else spec
    if not isinstance(items, Mapping) or not all(isinstance(axis, int) and isinstance(d, (Dim, type(None))) for axis, d in items.items()):
        raise _error(f"dynamic_shapes has {spec!r} for argument {label}", "write {axis: functx.Dim(...)}, or one Dim or None per axis")
    rank = np.ndim(value)
    for axis, dim in items.items():
        if not -rank <= axis < rank:
            raise _error(f"dynamic_shapes names axis {axis} of argument {label}, which has {rank} axes")
        if dim is not None and dim.name is None:
            raise _error(f"dynamic_shapes has {dim} for axis {axis} of argument {label}", "give a plain Dim; others follow by themselves")
        if dim is not None:
            yield axis % rank, dim


def _check_sizes(dims: Mapping[Place, Dim], leaves: Sequence[Any], labels: Sequence[str]) -> None:
    first: dict[Any, Place] = {}
    for (leaf, axis), dim in dims.items():
        n, where_to = leaves[leaf].shape[axis], f"argument {labels[leaf]}, axis {axis}"
        low, high = (dim.sizes.ranges if dim.sizes is not None else {}).get(dim.expr, (0, None))
        if n < low:
            raise _error(f"{where_to}: the size {n} is below min={low} of Dim {dim}")
        if high is not None and n > high:
            raise _error(f"{where_to}: the size {n} is above max={high} of Dim {dim}")
        other, at = first.setdefault(dim.expr, (leaf, axis))
        if leaves[other].shape[at] != n:
            raise _error(f"{where_to}: the size is {n}, but Dim {dim} is {leaves[other].shape[at]} in argument {labels[other]}, axis {at}",
                         "use another Dim where sizes may differ")  # fmt: skip


def _check_names(f: Callable[..., Any], declared: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    odd = [name for name in declared if name not in known]
    if odd and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise _error(f"dynamic_shapes names {odd[0]!r}, but the arguments are {', '.join(known)}")


def _error(what: str, fix: str = "") -> DynamicShapeError:
    return DynamicShapeError(what, where=where(), fix=fix)
