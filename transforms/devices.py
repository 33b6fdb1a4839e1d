"""Calls of jitted functions on tensors of a GPU: by a twin of the function that the triton backend compiles.

The twin is traced and found by ghosts of the tensors (:mod:`functx.tensors`), so that keys, aliasing and views are those of arrays; the
tensors themselves go to the executable, and results are made of what comes out. This module never reads memory of a device, except for
Python numbers that the function returns.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import config, tensors, trees
from functx.capture import Reference
from functx.dtypes import Kind
from functx.errors import DeviceError
from functx.ir import AbstractArray, OutRole
from functx.source import function_source
from functx.trace import current_trace, where
from functx.transforms.arguments import flatten_arguments
from functx.transforms.boundary import view_of
from functx.transforms.entries import Entry
from functx.transforms.staging import Result
from functx.util import invert_permutation


def gpu_options(f: Callable[..., Any], options: Any) -> Any:
    """The options of a jitted function, for GPUs."""
    backend = options.backend or "auto"
    if backend in ("cpp", "reference"):
        raise DeviceError(
            f"{function_source(f)} is jitted with backend={backend!r}, and was called on tensors of a GPU",
            where=where(),
            why="that backend computes on the CPU",
            fix="leave backend out, or move the tensors to the CPU (x.cpu())",
        )
    return dataclasses.replace(options, backend="triton" if backend == "auto" else backend)


def call_on_gpu(jitted: Any, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a jitted function with tensors among its arguments that lie on a GPU.

    Raises:
      DeviceError: other arguments lie elsewhere; the function has a backend of its own, which computes on the CPU; or it reads an array
        of the program.
    """
    device = _common_device(f, args, kwargs)
    if config.current().watches_values:
        raise DeviceError(
            f"{function_source(f)} was called on tensors of {device} while functx looks at every value (debug_nans, debug_infs)",
            where=where(),
            why="values are looked at on the CPU",
            fix="move the tensors to the CPU (x.cpu()) to find where it is born",
        )
    if current_trace() is not None:
        raise DeviceError(
            f"{function_source(f)} was called on a tensor of {device} inside a function that is being traced",
            where=where(),
            why="the tensor is no argument of the function around it",
            fix="make it an argument",
        )
    (args, kwargs), given = ghosts(args, kwargs)
    entry, bound = jitted.entry(args, kwargs)
    return _Call(entry, bound, given, device).run()


def ghosts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[int, Any]]:
    """Arguments with ghosts in place of their tensors, and the tensors by the identity of their ghosts."""
    given: dict[int, Any] = {}
    seen: dict[int, np.ndarray] = {}

    def ghost(leaf: Any) -> Any:
        if not tensors.on_gpu(leaf):
            return leaf
        if id(leaf) not in seen:  # a tensor that is passed twice is one array
            seen[id(leaf)] = array = tensors.as_ghost(leaf)
            given[id(array)] = leaf
        return seen[id(leaf)]

    return trees.map(ghost, (args, kwargs)), given


def _common_device(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    leaves = trees.leaves((args, kwargs))
    if len({place for v in leaves if (place := _place(v)) is not None}) == 1:
        return next(v.device for v in leaves if tensors.on_gpu(v))
    arguments = flatten_arguments(f, args, kwargs)
    placed = zip(arguments.labels, map(_place, arguments.leaves), strict=True)
    raise DeviceError(
        f"the arguments of {function_source(f)} lie on different devices: {', '.join(f'{k} on {p}' for k, p in placed if p is not None)}",
        where=where(),
        why="nothing is copied from one to another unasked",
        fix="move them to one device (x.to(device)); Python numbers and 0-d arrays may come from the CPU",
    )


def _place(value: Any) -> Any:
    """The device of an array or tensor; None for what may be used on any."""
    if tensors.any_in([value]):
        return str(value.device) if value.ndim or tensors.on_gpu(value) else None
    return "cpu" if isinstance(value, np.ndarray) and value.ndim else None


@dataclass
class _Call:
    """One call of an entry.

    Attributes:
      bound: what the inputs of the graph stand for: ghosts, numbers, arrays of the program.
      given: the tensors, by the identity of their ghosts.
    """

    entry: Entry
    bound: Sequence[Any]
    given: dict[int, Any]
    device: Any

    def run(self) -> Any:
        """Launch, write back what was not written in place, and build the results."""
        graph = self.entry.traced
        inputs = [self._input(k, v, slot.var.aval) for k, (v, slot) in enumerate(zip(self.bound, graph.inputs, strict=True))]
        outs = self.entry.executable(inputs)
        for slot, value in zip(graph.outputs, outs, strict=True):
            if slot.role is OutRole.WRITE:
                if value is not inputs[slot.target]:
                    inputs[slot.target].copy_(value)
                sys.modules["torch"].autograd.graph.increment_version(inputs[slot.target])
        built: dict[int, Any] = {}
        roots: dict[int, Any] = {}
        for r in self.entry.results:
            if id(r) not in built or r.fresh:
                built[id(r)] = self._result(r, inputs, outs, roots)
        return trees.unflatten(self.entry.out_tree, [built[id(r)] for r in self.entry.results])

    def _input(self, number: int, value: Any, aval: AbstractArray) -> Any:
        if id(value) in self.given:
            return self.given[id(value)]
        if isinstance(self.entry.sources[number], Reference) and value.ndim:
            raise DeviceError(
                f"a function that was called on tensors of {self.device} reads an array of the program, {aval}",
                where=where(),
                why="the array lies in the memory of the CPU, and would be copied at every call",
                fix="pass it as an argument, as a tensor",
            )
        if isinstance(value, np.ndarray) and value.size and aval.ndim:  # memory that several tensors share
            owner = next(t for t in self.given.values() if _holds(t, value))
            return tensors.of_ghost(value, owner)
        return tensors.as_tensor(np.array(value, aval.dtype)).to(self.device, non_blocking=True)

    def _result(self, r: Result, inputs: Sequence[Any], outs: Sequence[Any], roots: dict[int, Any]) -> Any:
        if r.argument is not None:
            return self._view(inputs[r.argument], r)
        if r.root is None:
            plain = isinstance(r.constant, (np.ndarray, np.generic))
            return tensors.as_tensor(np.array(r.constant)).to(self.device) if plain else r.constant
        if r.root not in roots:
            roots[r.root] = outs[r.root] if r.order is None else _in_order(outs[r.root], r.order)
        root = roots[r.root]
        return root.item() if r.aval.kind is Kind.PYTHON else self._view(root, r)

    def _view(self, root: Any, r: Result) -> Any:
        return tensors.of_ghost(view_of(tensors.as_ghost(root), r), root) if r.views else root


def _in_order(tensor: Any, order: Sequence[int]) -> Any:
    """A copy in the order of memory that NumPy would have."""
    return tensor.permute(tuple(order)).contiguous().permute(tuple(invert_permutation(order)))


def _holds(tensor: Any, ghost: np.ndarray) -> bool:
    storage = tensor.untyped_storage()
    first = tensors.address(tensor) - tensor.storage_offset() * tensor.element_size()
    return first <= ghost.__array_interface__["data"][0] < first + storage.nbytes()
