"""One cached compilation of jit: its key, its predicates, and how it runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import trees
from functx.backend import Executable
from functx.capture import memory_key, overlap
from functx.dtypes import PYTHON_DTYPES, Kind
from functx.ir import AbstractArray, Graph, OutRole
from functx.transforms.boundary import build_results, write_back
from functx.transforms.staging import Staged, is_static, leaf_type


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
    if isinstance(value, tuple):
        return (type(value), tuple(typed_value(v) for v in value))
    return (type(value), value)


def leaf_key(leaf: Any) -> Any:
    """The part of a key that one leaf contributes."""
    if type(leaf) is np.ndarray or type(leaf) in PYTHON_DTYPES or isinstance(leaf, np.generic):
        return leaf_type(leaf)
    return typed_value(leaf) if is_static(leaf) else leaf_type(leaf)


@dataclass(frozen=True)
class Predicates:
    """Conditions on the arguments beyond the key; leaves by index.

    Attributes:
      specialized: values of Python scalars that the function looked at.
      strides: memory layouts that decided between view and copy.
      aliases: which leaves are one and the same array, as the index of the first; None where it does not matter.
      written: leaves that are written, which must be writeable and overlap no other argument or captured array.
    """

    specialized: tuple[tuple[int, Any], ...]
    strides: tuple[tuple[int, tuple[int, ...]], ...]
    aliases: tuple[int, ...] | None
    written: tuple[int, ...]

    def hold(self, leaves: Sequence[Any], captured: Sequence[tuple[AbstractArray, np.ndarray]]) -> bool:
        """Whether a call with these leaves may use the entry."""
        return (
            all(typed_value(leaves[i]) == value for i, value in self.specialized)
            and all(leaves[i].strides == strides for i, strides in self.strides)
            and (self.aliases is None or alias_pattern(leaves) == self.aliases)
            and all(array.shape == aval.shape and array.dtype == aval.dtype for aval, array in captured)
            and not self._conflict(leaves, captured)
        )

    def _conflict(self, leaves: Sequence[Any], captured: Sequence[tuple[AbstractArray, np.ndarray]]) -> bool:
        for i in self.written:
            target = leaves[i]
            if not target.flags.writeable:
                return True
            others = [v for j, v in enumerate(leaves) if isinstance(v, np.ndarray) and self.aliases[j] != self.aliases[i]]
            if any(overlap(target, other) for other in [*others, *(array for _, array in captured)]):
                return True
        return False


def alias_pattern(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf the index of the first leaf that is the same array."""
    first: dict[Any, int] = {}
    return tuple(first.setdefault(memory_key(v), i) if isinstance(v, np.ndarray) and v.size else i for i, v in enumerate(leaves))


@dataclass
class Entry:
    """A traced and compiled function for one key under some predicates.

    Attributes:
      sources: for each graph input the index of its leaf, or the captured array.
    """

    staged: Staged
    graph: Graph
    predicates: Predicates
    sources: list[int | np.ndarray]
    executable: Executable | None = None

    @property
    def captured(self) -> list[tuple[AbstractArray, np.ndarray]]:
        """Types and arrays of what is read by reference."""
        inputs = zip(self.staged.graph.in_avals, self.sources, strict=True)
        return [(aval, source) for aval, source in inputs if isinstance(source, np.ndarray)]

    def matches(self, leaves: Sequence[Any]) -> bool:
        """Whether the predicates hold."""
        return self.predicates.hold(leaves, self.captured)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call the compiled code, then write back and build the results. Nothing is written when the code raises."""
        targets = [source if isinstance(source, np.ndarray) else leaves[source] for source in self.sources]
        inputs = [_as_array(v, slot.var.aval) for v, slot in zip(targets, self.staged.graph.inputs, strict=True)]
        outs = self.executable(inputs)
        write_back(self.staged.graph, outs, targets)
        return trees.unflatten(self.staged.out_tree, build_results(self.staged.results, outs, targets, None))


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
    written = tuple(
        leaf_of_slot[slot.target] for slot in staged.graph.outputs if slot.role is OutRole.WRITE and slot.target in leaf_of_slot
    )
    pattern = alias_pattern(leaves)
    aliased = pattern != tuple(range(len(leaves)))
    strides = tuple(
        (leaf_of_slot[i], leaves[leaf_of_slot[i]].strides)
        for i, slot in enumerate(staged.trace.inputs)
        if id(slot.handle) in staged.trace.layout_used and i in leaf_of_slot and slot.handle.kind is Kind.ARRAY
    )
    predicates = Predicates(tuple(specialized.items()), strides, pattern if aliased or staged.trace.writes else None, written)
    return Entry(staged, graph, predicates, sources)
