"""Running compiled code: inputs in the form that it reads, outputs, call-backs to Python, errors with the user's line."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from functx.backend import CompiledStep, NativeCode, write_map
from functx.backends.loops.control import all_sizes, flattened, input_sizes
from functx.backends.loops.sizes import symbols
from functx.dims import Dim
from functx.errors import FunctxError, IndexOutOfBoundsError, IntegerOverflowError
from functx.interpret import eval_eqn
from functx.ir import AbstractArray, Graph, Literal, Var
from functx.memory_plan import MemoryPlan
from functx.resize import at_sizes
from functx.runtime import native
from functx.shapes import Size
from functx.util import zip_strict

if TYPE_CHECKING:
    from functx.backends.cpp.program import Source

_OK, _INDEX, _CALLBACK, _MEMORY, _OVERFLOW = range(5)  # functx/runtime/call.h


@dataclass(frozen=True)
class Interface:
    """What the caller of compiled code must provide."""

    workspace_bytes: Size
    passed_constants: tuple[int, ...]  # constants of the graph that come as inputs, after the graph's own
    calls: tuple[int, ...]  # equations that it calls back


class CppExecutable:
    """A compiled graph, with the attributes of :class:`functx.backend.Executable`.

    Args:
      generate: writes the program, with the lines of this graph: the code may have been compiled for an equal one.

    Attributes:
      fallbacks: primitives that run through their reference implementation.
    """

    def __init__(self, graph: Graph, library: Any, interface: Interface, generate: Callable[[], Source], compiled: bool):
        self.graph, self.library, self._generate = graph, library, generate
        self.workspace_bytes, self.compiled = interface.workspace_bytes, compiled
        self._sources = list(input_sizes(graph).values())
        self._symbols = [Dim(name).expr for name in all_sizes(graph)]
        self._eqns = flattened(graph)  # by the numbers that the code has for them
        self.fallbacks = list(dict.fromkeys(self._eqns[k].primitive.name for k in interface.calls))
        self._passed = [graph.consts[k][1] for k in interface.passed_constants]
        self._in_avals = graph.in_avals
        self.out_avals, self.writes = graph.out_avals, write_map(graph)
        self._outs = [(aval.shape, aval.dtype) for aval in self.out_avals]
        asked = interface.calls or any(eqn.primitive.family == "selection" for eqn in self._eqns)
        self._callback = self._call_back if asked else None
        found = self._symbols[len(self._sources) :]
        # results of sizes that the code finds: it leaves their memory
        self._left = [k for k, (shape, _) in enumerate(self._outs) if k not in self.writes and symbols(shape) & {s.name for s in found}]
        self.native = NativeCode(library, self.workspace_bytes, self._passed, self._callback, self._error, found)

    @cached_property
    def source(self) -> str:
        """The program, generated again when it is asked for."""
        return self._generate().text

    @cached_property
    def memory_plan(self) -> MemoryPlan:
        """Where values live and for how long; planned again when it is asked for, as is what follows."""
        from functx.backends.loops.report import memory_plan

        return memory_plan(self._generate().program, self.workspace_bytes)

    @cached_property
    def steps(self) -> tuple[CompiledStep, ...]:
        """The steps of the program."""
        from functx.backends.loops.report import steps_of

        return steps_of(self._generate().program)

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on one array per input. New values of inputs are left in the arrays that the code read, every other result is a new one."""
        arrays = [_readable(x, aval) for x, aval in zip_strict(inputs, self._in_avals)]
        dims = [arrays[k].shape[axis] for k, axis in self._sources] + [0] * len(self.native.found)
        known = dict(zip(self._symbols, dims[: len(self._sources)], strict=False))
        outputs = [
            arrays[self.writes[k]] if k in self.writes else None if k in self._left else np.empty(_at(shape, known), dtype)
            for k, (shape, dtype) in enumerate(self._outs)
        ]
        (workspace,) = _at((self.workspace_bytes,), known)
        status, eqn, kind, values = self.library.run(arrays + self._passed, outputs, workspace, self._callback, dims)
        if status != _OK:
            raise self._error(eqn, kind, values)
        known = dict(zip(self._symbols, dims, strict=True))
        for k in self._left:
            address, (shape, dtype) = outputs[k], self._outs[k]
            outputs[k] = np.empty(_at(shape, known), dtype)
            native.take(address, outputs[k])
        return outputs

    def _error(self, number: int, kind: int, values: Sequence[int]) -> Exception:
        eqn = self._eqns[number]
        where = eqn.source.describe() if eqn.source else None
        if kind == _INDEX:
            index, axis, size = values[:3]
            return IndexOutOfBoundsError(f"index {index} is out of bounds for axis {axis} with size {size}", where=where)
        if kind == _OVERFLOW:
            return IntegerOverflowError(f"Python integer {values[0]} out of bounds for {eqn.params['dtype']}", where=where)
        if kind == _MEMORY:
            return MemoryError(f"cannot allocate {values[0]} bytes")
        return FunctxError(f"compiled code failed with status {kind}", where=where)

    def _call_back(self, number: int, inputs: Sequence[int], outputs: Sequence[int], dims: int = 0) -> None:
        """Evaluate an equation between buffers that are given by address."""
        eqn = self._eqns[number]
        values = (ctypes.c_int64 * len(self._symbols)).from_address(dims) if dims else ()
        known = dict(zip(self._symbols, values, strict=True))
        variables = [a for a in eqn.inputs if not isinstance(a, Literal)]
        env: dict[Var, np.ndarray] = {v: _array_at(address, v.aval, known, False) for v, address in zip_strict(variables, inputs)}
        for v, address, value in zip_strict(eqn.outputs, outputs, eval_eqn(at_sizes(eqn, known), env)):
            _array_at(address, v.aval, known, True)[...] = value


def _at(sizes: Sequence[Size], known: Mapping[Any, int]) -> tuple[int, ...]:
    """Sizes as numbers, given those that they are made of."""
    return tuple(d.at(known) if isinstance(d, Dim) else d for d in sizes)


def _readable(x: np.ndarray, aval: AbstractArray) -> np.ndarray:
    """The array itself if generated code can read it, else a C-contiguous copy."""
    if isinstance(x, np.ndarray) and x.dtype == aval.dtype:  # unequal if the bytes are swapped
        flags = x.flags
        if flags.c_contiguous and flags.aligned:
            return x
    return np.array(x, dtype=aval.dtype, order="C", copy=True)


def _array_at(address: int, aval: AbstractArray, known: Mapping[Any, int], writable: bool) -> np.ndarray:
    shape = _at(aval.shape, known)
    size = math.prod(shape) * aval.dtype.itemsize
    if size == 0:
        return np.empty(shape, aval.dtype)
    array = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8).view(aval.dtype).reshape(shape)
    array.flags.writeable = writable
    return array
