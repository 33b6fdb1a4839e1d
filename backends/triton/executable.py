"""Running programs: buffers from PyTorch's allocator, launches on the current stream, failed checks as errors with the user's line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import linecache
import threading
import types
import warnings
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from functx import tensors
from functx.backend import CompiledStep, write_map
from functx.backends.loops.control import flattened, input_sizes
from functx.backends.triton import failures
from functx.backends.triton.extern import function_for, torch_dtype
from functx.backends.triton.failures import FailureTable
from functx.backends.triton.prelude import HEADER, INTERPRETED_HEADER
from functx.backends.triton.program import Source
from functx.dims import Dim
from functx.errors import DeviceMemoryError
from functx.ir import AbstractArray, Eqn, Graph
from functx.memory_plan import MemoryPlan
from functx.resize import at_sizes
from functx.util import zip_strict

SIZES = 64  # for which an equation keeps its function
_lock = threading.Lock()
_loaded = 0


def load(text: str, *, interpreted: bool) -> types.ModuleType:
    """A source as a module: its kernels compiled for a GPU when they are first launched, or run by Triton's interpreter."""
    global _loaded
    if interpreted:
        text = text.replace(HEADER, INTERPRETED_HEADER)
    with _lock:
        _loaded += 1
        name = f"<functx program {_loaded}>"
    module = types.ModuleType(name)
    module.__file__ = name
    linecache.cache[name] = len(text), None, text.splitlines(True), name  # where Triton looks for the source of a kernel
    weakref.finalize(module, linecache.cache.pop, name, None)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


class TritonCode:
    """Code that executables of equal graphs share: a source, loaded for a GPU or for the interpreter."""

    def __init__(self, source: Source):
        self.source = source
        self._modules: dict[bool, types.ModuleType] = {}
        self._constants: dict[torch.device, list[torch.Tensor]] = {}

    def module(self, interpreted: bool) -> types.ModuleType:
        """The loaded program."""
        if interpreted not in self._modules:
            self._modules[interpreted] = load(self.source.text, interpreted=interpreted)
        return self._modules[interpreted]

    def constants(self, device: torch.device) -> list[torch.Tensor]:
        """The arrays that the program reads, in the memory of a device."""
        if device not in self._constants:
            self._constants[device] = [_tensor(np.ascontiguousarray(a)).to(device) for a in self.source.constants]
        return self._constants[device]


class TritonExecutable:
    """A compiled graph, with the attributes of :class:`functx.backend.Executable`.

    Called with arrays it runs in Triton's interpreter, and returns arrays; with tensors it runs where they are, and returns tensors.
    """

    def __init__(self, graph: Graph, code: TritonCode, generate: Any, compiled: bool):
        self.graph, self.code, self._generate, self.compiled = graph, code, generate, compiled
        self.workspace_bytes = code.source.workspace_bytes
        self._eqns = flattened(graph)
        self._sources = list(input_sizes(graph).values())
        self._symbols = [Dim(name).expr for name in code.source.sizes]
        self._functions = {k: self._function(self._eqns[k]) for k in code.source.calls}
        self._tables: dict[Any, FailureTable] = {}
        self._in_avals = graph.in_avals
        self.out_avals, self.writes = graph.out_avals, write_map(graph)
        self._dtypes = [torch_dtype(aval.dtype) for aval in self.out_avals]

    @cached_property
    def source(self) -> str:
        """The program, generated again when it is asked for: with the lines of this graph."""
        return self._generate().text

    @cached_property
    def memory_plan(self) -> MemoryPlan:
        """Where values live and for how long."""
        from functx.backends.loops.report import memory_plan

        return memory_plan(self.code.source.program, self.workspace_bytes)

    @cached_property
    def steps(self) -> tuple[CompiledStep, ...]:
        """The steps of the program."""
        from functx.backends.loops.report import steps_of

        def named(step: CompiledStep) -> CompiledStep:
            is_function = step.kind == "reference implementation" and self._eqns[step.eqns[0]].primitive.family != "callback"
            return dataclasses.replace(step, kind="function of PyTorch") if is_function else step

        return tuple(map(named, steps_of(self._generate().program)))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on one array, or one tensor of a GPU, per input. New values of inputs are left in what was read."""
        device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), None)
        if device is not None:
            return self._run_on(device, inputs)
        arrays = [_readable_array(x, aval) for x, aval in zip_strict(inputs, self._in_avals)]
        given, sizes = [_tensor(x) for x in arrays], self._sizes(arrays)
        needed, shapes = self._needs(sizes, True)
        fresh = [
            None if k in self.writes or shape is None else np.empty(shape, aval.dtype)
            for k, (shape, aval) in enumerate(zip_strict(shapes, self.out_avals))
        ]
        outputs = [given[self.writes[k]] if k in self.writes else None if x is None else _tensor(x) for k, x in enumerate(fresh)]
        outputs = self._run(given, outputs, sizes, needed, torch.device("cpu"))
        for k, x in enumerate(outputs):
            if fresh[k] is None:
                fresh[k] = arrays[self.writes[k]] if k in self.writes else np.array(tensors.as_array(x))
        return fresh

    def _run_on(self, device: torch.device, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """On a device, whose memory holds inputs and results. Results and the workspace are taken before anything is launched; what comes
        to need memory later stands before all writes into inputs, as what can fail does.
        """
        failures.look()
        with _device(device):
            try:
                given = [x.contiguous() for x in inputs]
                sizes = self._sizes(given)
                needed, shapes = self._needs(sizes, device.type == "cpu")
                outputs = [
                    given[self.writes[k]] if k in self.writes else None if shape is None else torch.empty(shape, dtype=dtype, device=device)
                    for k, (shape, dtype) in enumerate(zip_strict(shapes, self._dtypes))
                ]
                return self._run(given, outputs, sizes, needed, device)
            except torch.OutOfMemoryError as error:
                raise DeviceMemoryError(
                    f"{device} has no memory left for a compiled function",
                    why=f"it needs {self.memory_plan.peak} bytes beside its arguments ({self.workspace_bytes} of them workspace); {error}",
                    fix="free tensors (torch.cuda.empty_cache() gives cached memory back), or give jit a memory_budget",
                ) from None

    def _sizes(self, inputs: Sequence[Any]) -> list[int]:
        """The values of sizes: those that the inputs tell; the program notes the others as it finds them."""
        told = [inputs[k].shape[axis] for k, axis in self._sources]
        return told + [0] * (len(self._symbols) - len(told))

    def _function(self, eqn: Eqn) -> Any:
        """PyTorch's function for an equation, or what gives it for sizes that are parameters of the equation."""
        if not eqn.symbolic or eqn.primitive.family == "selection":
            return function_for(eqn)
        at = functools.lru_cache(SIZES)(lambda *sizes: function_for(at_sizes(eqn, dict(zip(self._symbols, sizes, strict=True)))))
        return lambda sizes: at(*sizes)

    def _needs(self, sizes: list[int], interpreted: bool) -> tuple[int, list[Any]]:
        """The bytes of the workspace, and the shapes of results; None where nobody knows it before."""
        if not sizes:
            return self.workspace_bytes, [aval.shape for aval in self.out_avals]
        return self.code.module(interpreted).memory(sizes)

    def _run(self, inputs: list[Any], outputs: list[Any], sizes: list[int], needed: int, device: torch.device) -> list[torch.Tensor]:
        """Run the program. Results whose size it finds are its own."""
        module, constants = self.code.module(device.type == "cpu"), self.code.constants(device)
        workspace = torch.empty(max(needed, 1), dtype=torch.uint8, device=device)
        table = self._table(device) if self.code.source.checks else None
        known = [k for k, out in enumerate(outputs) if out is not None]
        try:
            module.run(inputs, outputs, constants, workspace, table and table.memory, self._functions, *([sizes] if sizes else []))
        except Exception:
            # Whatever ended the program (it stops itself, or a callback raises), a check that failed before comes first; and the table,
            # which the next call uses too, must be empty.
            if table is not None and (failure := table.take()) is not None:
                raise failure from None
            raise
        if table is not None:
            table.after_call()
        if len(known) == len(outputs):
            return outputs
        shapes = module.found(sizes)
        return [out if k in known else out.view(shapes[k]) for k, out in enumerate(outputs)]

    def _table(self, device: torch.device) -> FailureTable:
        if device.type == "cpu":
            return FailureTable(device, self._eqns)
        place = device, torch.cuda.current_stream(device).cuda_stream
        if place not in self._tables:
            self._tables[place] = FailureTable(device, self._eqns)
        return self._tables[place]


def _device(device: torch.device) -> Any:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _readable_array(x: Any, aval: AbstractArray) -> np.ndarray:
    """The array itself if generated code can read it, else a C-contiguous copy."""
    if isinstance(x, np.ndarray) and x.dtype == aval.dtype and x.flags.c_contiguous and x.flags.aligned:
        return x
    return np.array(x, dtype=aval.dtype, order="C", copy=True)


def _tensor(array: np.ndarray) -> torch.Tensor:
    """The elements of a C-contiguous array as a tensor in its memory. What is read-only is not written by programs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return tensors.as_tensor(array.reshape(-1))  # an axis of one element may have any stride
