"""One cached compilation of jit: its key, its predicates, and how it runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import trees
from functx.backend import Executable
from functx.capture import memory_key, overlaps
from functx.dtypes import PYTHON_DTYPES, Kind
from functx.ir import AbstractArray, Graph, OutRole
from functx.trace import type_of_value
from functx.transforms.boundary import build_results, write_back
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


def leaf_key(leaf: Any) -> Any:
    """The part of a key that one leaf contributes."""
    if type(leaf) is np.ndarray or type(leaf) in PYTHON_DTYPES or isinstance(leaf, np.generic):
        return type_of_value(leaf)
    return typed_value(leaf) if is_static(leaf) else type_of_value(leaf)


@dataclass(frozen=True)
class Predicates:
    """Conditions on the arguments beyond the key; leaves by index.

    Attributes:
      specialized: values of Python scalars that the function looked at.
      layouts: memory layouts that decided between view and copy.
      aliases: which leaves are one and the same array, as the index of the first; None where it does not matter.
      written: leaves, by index, and captured arrays that are written: they must be writeable and overlap nothing else that is read.
    """

    specialized: tuple[tuple[int, Any], ...]
    layouts: tuple[tuple[int, Any], ...]
    aliases: tuple[int, ...] | None
    written: tuple[int | np.ndarray, ...]

    def hold(self, leaves: Sequence[Any], captured: Sequence[tuple[AbstractArray, np.ndarray]]) -> bool:
        """Whether a call with these leaves may use the entry."""
        return (
            all(typed_value(leaves[i]) == value for i, value in self.specialized)
            and all(layout(leaves[i]) == seen for i, seen in self.layouts)
            and (self.aliases is None or alias_pattern(leaves) == self.aliases)
            and all(array.shape == aval.shape and array.dtype == aval.dtype for aval, array in captured)
            and not self._conflict(leaves, captured)
        )

    def _conflict(self, leaves: Sequence[Any], captured: Sequence[tuple[AbstractArray, np.ndarray]]) -> bool:
        """Whether something written is read-only or shares memory with something else."""
        if not self.written:
            return False
        written = {id(source if isinstance(source, np.ndarray) else leaves[source]) for source in self.written}
        arrays = [v for i, v in enumerate(leaves) if isinstance(v, np.ndarray) and self.aliases[i] == i]
        arrays += [array for _, array in captured]
        flags = [id(v) in written for v in arrays]
        read_only = any(flag and not v.flags.writeable for v, flag in zip(arrays, flags, strict=True))
        return read_only or next(overlaps(arrays, flags), None) is not None


def layout(array: np.ndarray) -> Any:
    """What a traced function can learn of an array's memory."""
    return array.strides, array.flags.writeable


def alias_pattern(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf the index of the first leaf that is the same array."""
    first: dict[Any, int] = {}
    return tuple(first.setdefault(memory_key(v), i) if isinstance(v, np.ndarray) and v.size else i for i, v in enumerate(leaves))


@dataclass
class Entry:
    """A traced and compiled function for one key under some predicates.

    Attributes:
      graph: what is compiled.
      traced: the graph before simplification, whose outputs say what is written where.
      results, out_tree: how the results are built; see :class:`Staged`, whose trace (and with it the arguments that were traced) is let go.
      sources: for each graph input the index of its leaf, or the captured array.
    """

    graph: Graph
    traced: Graph
    results: list[Result]
    out_tree: Any
    predicates: Predicates
    sources: list[int | np.ndarray]
    executable: Executable | None = None

    @property
    def captured(self) -> list[tuple[AbstractArray, np.ndarray]]:
        """Types and arrays of what is read by reference."""
        inputs = zip(self.traced.in_avals, self.sources, strict=True)
        return [(aval, source) for aval, source in inputs if isinstance(source, np.ndarray)]

    def matches(self, leaves: Sequence[Any]) -> bool:
        """Whether the predicates hold."""
        return self.predicates.hold(leaves, self.captured)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call the compiled code, then write back and build the results. Nothing is written when the code raises."""
        targets = [source if isinstance(source, np.ndarray) else leaves[source] for source in self.sources]
        inputs = [_as_array(v, slot.var.aval) for v, slot in zip(targets, self.traced.inputs, strict=True)]
        outs = self.executable(inputs)
        write_back(self.traced, outs, targets)
        return trees.unflatten(self.out_tree, build_results(self.results, outs, targets, None))


def _as_array(value: Any, aval: AbstractArray) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy()
    return np.asarray(value, aval.dtype)


def make_entry(
    staged: Staged, graph: Graph, leaves: Sequence[Any], slot_of_leaf: Sequence[int | None], specialized: dict[int, Any]
) -> Entry:
    """The entry for a function that was just traced on ``leaves``."""
    leaf_of_slot: dict[int, int] = {}
    for leaf, slot in enumerate(slot_of_leaf):
        if slot is not None:
            leaf_of_slot.setdefault(slot, leaf)
    sources = [leaf_of_slot.get(i, slot.array) for i, slot in enumerate(staged.trace.inputs)]
    written = tuple(sources[slot.target] for slot in staged.graph.outputs_of(OutRole.WRITE))
    pattern = alias_pattern(leaves)
    aliased = pattern != tuple(range(len(leaves)))
    layouts = tuple(
        (leaf_of_slot[i], layout(leaves[leaf_of_slot[i]]))
        for i, slot in enumerate(staged.trace.inputs)
        if id(slot.handle) in staged.trace.layout_used and i in leaf_of_slot and slot.handle.kind is Kind.ARRAY
    )
    predicates = Predicates(tuple(specialized.items()), layouts, pattern if aliased or written else None, written)
    return Entry(graph, staged.graph, staged.results, staged.out_tree, predicates, sources)
