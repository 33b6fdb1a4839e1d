"""One cached compilation of jit: its key, its predicates, and how it runs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functx import trees
from functx.aliasing import Layout, common_layout, memory_at
from functx.backend import Executable
from functx.capture import Reference, byte_bounds, overlaps, repeats
from functx.dtypes import PYTHON_DTYPES, Kind
from functx.ir import AbstractArray, Graph, OutRole
from functx.resize import bind_sizes, resized, resized_params
from functx.shapes import is_static as is_static_shape
from functx.trace import type_of_value
from functx.transforms.boundary import build_results, write_back
from functx.transforms.dynamic import SizePattern
from functx.transforms.staging import Result, Staged, is_static


@dataclass(frozen=True)
class Key:
    """What a call must share with an entry before the predicates are looked at.

    Attributes:
      structure: of the dynamic arguments.
      leaves: the type of each leaf, or the typed value of a static one.
      static: typed values of static arguments.
      options: options of jit that change the result of compiling.
    """

    structure: Any
    leaves: tuple[Any, ...]
    static: Any
    options: Any


def typed_value(value: Any) -> Any:
    """A hashable stand-in that tells 1, 1.0 and True apart, and floats by their bits."""
    if isinstance(value, float):
        return (type(value), struct.pack("<d", value))
    if isinstance(value, complex):
        return (type(value), struct.pack("<dd", value.real, value.imag))
    if isinstance(value, (tuple, frozenset)):
        return (type(value), (frozenset if isinstance(value, frozenset) else tuple)(map(typed_value, value)))
    return (type(value), value)


def family(key: Key) -> Key:
    """The key with all sizes left open: under it stand the entries that serve several."""

    def any_size(leaf: Any) -> Any:
        return AbstractArray((None,) * leaf.ndim, leaf.dtype, leaf.kind) if isinstance(leaf, AbstractArray) else leaf

    return replace(key, leaves=tuple(map(any_size, key.leaves)))


def leaf_key(leaf: Any) -> Any:
    """The part of a key that one leaf contributes."""
    if type(leaf) is np.ndarray or type(leaf) in PYTHON_DTYPES or isinstance(leaf, np.generic):
        return type_of_value(leaf)
    return typed_value(leaf) if is_static(leaf) else type_of_value(leaf)


@dataclass(frozen=True)
class Shared:
    """The memory of several inputs as one array: where it comes from in a call.

    Attributes:
      members: their input numbers.
      layout: how their arrays must lie in it.
    """

    members: tuple[int, ...]
    layout: Layout

    def array(self, inputs: Sequence[Any]) -> np.ndarray | None:
        """The memory; None where the arrays lie otherwise."""
        found = common_layout([inputs[i] for i in self.members])
        return memory_at(found[1], self.layout) if found is not None and found[0] == self.layout else None


@dataclass(frozen=True)
class Predicates:
    """Conditions on the arguments beyond the key; leaves by index.

    Attributes:
      specialized: values of Python scalars that the function looked at.
      layouts: memory layouts that decided between view and copy.
      sizes: where sizes are symbolic, those for which it holds.
      aliases: which leaves are one and the same array, as the index of the first; None where it does not matter.
      written: graph inputs that are written: they must be writeable and overlap nothing else that is read.
      members: graph inputs that are read and written as parts of the memory that they share; the graph does not use them.
      placement: how far arrays that reach into each other begin apart, where the function asks who shares memory; None if it does not.
    """

    specialized: tuple[tuple[int, Any], ...]
    layouts: tuple[tuple[int, Any], ...]
    aliases: tuple[int, ...] | None
    written: tuple[int, ...]
    members: frozenset[int] = frozenset()
    placement: tuple[tuple[int, int, int], ...] | None = None
    sizes: SizePattern | None = None

    def hold(self, leaves: Sequence[Any], inputs: Sequence[Any]) -> bool:
        """Whether a call with these leaves, and arrays behind the graph's inputs, may use the entry."""
        return next(self.broken(leaves, inputs), None) is None

    def broken(self, leaves: Sequence[Any], inputs: Sequence[Any], labels: Sequence[str] | None = None) -> Iterator[str]:
        """The conditions that do not hold, in words."""
        names = labels or range(len(leaves))
        if self.sizes is not None and (obstacle := self.sizes.obstacle(leaves, labels)) is not None:
            yield obstacle
            return
        for i, value in self.specialized:
            if typed_value(leaves[i]) != value:
                yield f"argument {names[i]} has the value {leaves[i]!r}, and the function looks at it"
        for i, seen in self.layouts:
            if not fits_layout(leaves[i], seen):
                yield f"argument {names[i]} has the strides {leaves[i].strides}{'' if leaves[i].flags.writeable else ' and is read-only'}"
        if self.aliases is not None and alias_pattern(leaves) != self.aliases:
            yield "other arguments are one and the same array"
        if self.placement is not None and placement(inputs) != self.placement:
            yield "arrays lie otherwise in memory, and the function asks who shares it"
        if self._conflict(inputs):
            yield "an array that is written is read-only or overlaps another one"

    def _conflict(self, inputs: Sequence[Any]) -> bool:
        """Whether something written is read-only or shares memory with something else, or its elements with each other."""
        if not self.written:
            return False
        if any(not inputs[i].flags.writeable or repeats(inputs[i]) for i in self.written):
            return True
        arrays = [(v, i in self.written) for i, v in enumerate(inputs) if isinstance(v, np.ndarray) and i not in self.members]
        return next(overlaps([v for v, _ in arrays], [flag for _, flag in arrays]), None) is not None


@dataclass(frozen=True)
class Dense:
    """The layout of an array without gaps: its axes from the outermost in memory to the innermost."""

    order: tuple[int, ...]

    def strides(self, array: np.ndarray) -> tuple[int, ...]:
        """The strides of an array that lies so."""
        strides, step = [0] * array.ndim, array.itemsize
        for axis in reversed(self.order):
            strides[axis] = step
            step *= max(array.shape[axis], 1)
        return tuple(strides)


def layout(array: np.ndarray, symbolic: bool = False) -> Any:
    """What a traced function can learn of an array's memory: strides (for symbolic sizes their order, if there are no gaps), and whether
    it is writeable.
    """
    dense = Dense(tuple(sorted(range(array.ndim), key=lambda i: (-array.strides[i], i))))
    strides = dense if symbolic and dense.strides(array) == array.strides else array.strides
    return strides, array.flags.writeable


def fits_layout(array: np.ndarray, seen: Any) -> bool:
    """Whether an array lies in memory as was seen."""
    strides, writeable = seen
    return array.flags.writeable == writeable and array.strides == (strides.strides(array) if isinstance(strides, Dense) else strides)


def placement(inputs: Sequence[Any]) -> tuple[tuple[int, int, int], ...]:
    """Which arrays reach into each other, and how far apart they begin."""
    places = [(i, *byte_bounds(v), v.__array_interface__["data"][0]) for i, v in enumerate(inputs) if isinstance(v, np.ndarray) and v.size]
    return tuple((i, j, b - a) for k, (i, lo, hi, a) in enumerate(places) for j, low, high, b in places[k + 1 :] if low < hi and lo < high)


def alias_pattern(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf the index of the first leaf that is the same array object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(v), i) if isinstance(v, np.ndarray) else i for i, v in enumerate(leaves))


@dataclass
class Entry:
    """A traced and compiled function for one key under some predicates.

    Attributes:
      graph: what is compiled.
      traced: the graph before simplification, whose outputs say what is written where.
      results, out_tree: how the results are built; see :class:`Staged`, whose trace (and with it the arguments that were traced) is let go.
      sources: for each graph input the index of its leaf, the captured array, or the inputs whose memory it is.
      captured: the captured arrays' input numbers and types.
      used: when it was last found, as a count of the function's calls.
      plan: how the runtime calls the executable, where it can (functx.transforms.native_calls).
    """

    graph: Graph
    traced: Graph
    results: list[Result]
    out_tree: Any
    predicates: Predicates
    sources: list[int | Reference | Shared]
    executable: Executable | None = None
    plan: Any = None
    used: int = 0

    def __post_init__(self) -> None:
        self.results_at = results_at(self.traced, self.results)
        self.captured = [(i, aval) for i, aval in enumerate(self.traced.in_avals) if isinstance(self.sources[i], Reference)]

    @property
    def is_stale(self) -> bool:
        """Whether the program has let go of an array that it reads."""
        return any(self.sources[i]() is None for i, _ in self.captured)

    def bind(self, leaves: Sequence[Any]) -> list[Any] | None:
        """What the graph's inputs stand for in a call with these leaves; None if the entry does not hold for it."""
        inputs, obstacle = self._inputs(leaves)
        return inputs if obstacle is None and self.predicates.hold(leaves, inputs) else None

    def obstacle(self, leaves: Sequence[Any], labels: Sequence[str]) -> str | None:
        """Why the entry does not hold for a call with these leaves, in words."""
        inputs, obstacle = self._inputs(leaves)
        return obstacle or next(self.predicates.broken(leaves, inputs, labels), None)

    def _inputs(self, leaves: Sequence[Any]) -> tuple[list[Any], str | None]:
        """What the graph's inputs stand for in a call, or what is missing, in words."""
        inputs: list[Any] = []
        for source, aval in zip(self.sources, self.traced.in_avals, strict=True):
            if isinstance(source, Shared):
                inputs.append(source.array(inputs))
                if inputs[-1] is None:
                    return inputs, "arrays that are written share memory in another way, or not at all"
                continue
            inputs.append(source() if isinstance(source, Reference) else leaves[source])
            if isinstance(source, Reference) and not _fits(inputs[-1], aval):
                return inputs, f"an array that the function reads ({aval}) was replaced"
        return inputs, None

    def run(self, bound: Sequence[Any]) -> Any:
        """Call the compiled code, then write back and build the results. Nothing is written when the code raises."""
        inputs = [_as_array(v, slot.var.aval) for v, slot in zip(bound, self.traced.inputs, strict=True)]
        outs = self.executable(inputs)
        write_back(self.traced, outs, bound)
        return trees.unflatten(self.out_tree, build_results(self.results_at(inputs, outs), outs, bound, None))


def results_at(graph: Graph, results: list[Result]) -> Callable[[Sequence[Any], Sequence[Any]], list[Result]]:
    """How the results are built, by the inputs and outputs of a call: where sizes are symbolic, so are the places of views."""
    if not graph.symbolic or not any(result.views for result in results):
        return lambda inputs, outs: results

    def at(inputs: Sequence[Any], outs: Sequence[Any]) -> list[Result]:
        sizes: dict[Any, int] = {}
        bind_sizes(graph.in_vars, inputs, sizes)
        bind_sizes(graph.out_atoms, outs, sizes)
        return resized_results(results, lambda dim: dim.at(sizes))

    return at


def resized_results(results: Sequence[Result], change: Any) -> list[Result]:
    """The results at other sizes; one that is delivered twice stays one."""
    seen: dict[int, Result] = {}
    for r in results:
        views = tuple(replace(op, params=resized_params(op.params, change)) for op in r.views)
        seen.setdefault(id(r), replace(r, aval=resized(r.aval, change), views=views))
    return [seen[id(r)] for r in results]


def _fits(array: np.ndarray | None, aval: AbstractArray) -> bool:
    return array is not None and array.shape == aval.shape and array.dtype == aval.dtype


def _as_array(value: Any, aval: AbstractArray) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy()
    return np.asarray(value, aval.dtype)


def make_entry(
    staged: Staged,
    graph: Graph,
    leaves: Sequence[Any],
    slot_of_leaf: Sequence[int | None],
    specialized: dict[int, Any],
    sizes: SizePattern | None = None,
) -> Entry:
    """The entry for a function that was just traced on ``leaves``."""
    leaf_of_slot: dict[int, int] = {}
    for leaf, slot in enumerate(slot_of_leaf):
        if slot is not None:
            leaf_of_slot.setdefault(slot, leaf)
    slots = staged.trace.inputs
    shared = {i: Shared(tuple(map(slots.index, slot.base.members)), slot.base.layout) for i, slot in enumerate(slots) if slot.base}
    sources = [leaf_of_slot[i] if i in leaf_of_slot else shared.get(i) or Reference(slot.array) for i, slot in enumerate(slots)]
    written = tuple(slot.target for slot in staged.graph.outputs_of(OutRole.WRITE))
    pattern = alias_pattern(leaves)
    aliased = pattern != tuple(range(len(leaves)))
    layouts = tuple(
        (leaf_of_slot[i], layout(leaves[leaf_of_slot[i]], not is_static_shape(slot.var.aval.shape)))
        for i, slot in enumerate(slots)
        if id(slot.handle) in staged.trace.layout_used and i in leaf_of_slot and slot.handle.kind is Kind.ARRAY
    )
    members = frozenset(i for base in shared.values() for i in base.members)
    asked = placement([slot.array for slot in slots]) if staged.trace.placement_used else None
    aliases = pattern if aliased or written else None
    predicates = Predicates(tuple(specialized.items()), layouts, aliases, written, members, asked, sizes)
    return Entry(graph, staged.graph, staged.results, staged.out_tree, predicates, sources)
