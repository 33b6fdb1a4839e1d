"""The types of what a function would return, told without running it: those of a branch that is not taken, and of a carry before its steps.

A twin of the function is traced, which has handles in place of the arrays and numbers that it closes over, and containers of its own: what
it writes is forgotten. What can do more than that (it reaches an object, a file, a generator) is not traced, and its types stay untold, as
do those of a function that cannot be traced or fails. Types are kept by what the function is made of, so that a loop asks once.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functx import trees
from functx.dtypes import PYTHON_DTYPES
from functx.errors import ConcretizationError, StaticArgumentError
from functx.ir import AbstractArray
from functx.source import function_source
from functx.trace import Trace, dataless, type_of_value
from functx.transforms.staging import stage

# The modules whose functions do nothing but compute, and names of those that do more, wherever they come from.
_PURE = {"cmath", "functools", "functx", "itertools", "math", "numpy", "operator", "scipy"}
_NOT_PURE = {
    "__import__", "breakpoint", "delattr", "dump", "dumps", "eval", "exec", "fromfile", "input", "load", "memmap", "open", "print",
    "random", "save", "savetxt", "savez", "savez_compressed", "seed", "setattr", "tofile",
}  # fmt: skip
_KEPT = 512  # functions whose types are remembered

_NUMPY_FUNCTION = type(np.sum)
_NEEDS_VALUES, _UNASKED = object(), object()

_told: dict[Any, Any] = {}  # what is told; None: cannot be; or that it needs values


@dataclass(frozen=True)
class Told:
    """The structure of a result, and the types of its leaves."""

    tree: Any
    avals: list[AbstractArray]


class _Untold(Exception):
    """A function reaches what has no twin."""


def types_of_result(kind: str, f: Callable[..., Any], args: Sequence[Any]) -> Told | None:
    """What ``f(*args)`` would return, as ``kind`` would trace it; None where only running it can tell.

    Numbers that it closes over change from call to call: they are types, unless their values are needed (for a shape, a number of steps).
    """
    leaves, tree = trees.flatten(tuple(args))
    for exact in (False, True):
        try:
            key = (_essence(f, {}, exact), tree, tuple(map(type_of_value, leaves)), exact)
            told = _told.get(key, _UNASKED)
        except Exception:  # what cannot be traced, nor compared
            return None
        if told is _UNASKED:
            if len(_told) >= _KEPT:
                _told.clear()
            _told[key] = told = _traced(kind, f, tree, key[2], exact)
        if told is not _NEEDS_VALUES:
            return told
    return None


def _traced(kind: str, f: Callable[..., Any], tree: Any, avals: Sequence[AbstractArray], exact: bool) -> Any:
    trace = Trace(function_source(f), kind, opaque=True)
    args = trees.unflatten(tree, [trace.add_input(aval, label="an operand").handle for aval in avals])
    try:
        with np.errstate(all="ignore"):
            staged = stage(_Twins(trace, exact).of(f), trace, args, {})
        return Told(staged.out_tree, [type_of_value(r.constant) if r.aval is None else r.aval for r in staged.results])
    except (ConcretizationError, StaticArgumentError):
        return None if exact else _NEEDS_VALUES
    except Exception:  # a branch that is not taken may fail in any way: that is what choices are for
        return None
    finally:
        trace.release()


# --- what functions are made of -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    """The names that a code object and those inside it look up in their module."""
    found: dict[str, None] = {}
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" or step.argval in _NOT_PURE:
            raise _Untold
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found[step.argval] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= dict.fromkeys(_names(inner))
    return tuple(found)


def _root(name: str | None) -> str:
    return (name or "").partition(".")[0]


def _globals(f: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function of the user's looks up in its module."""
    if _root(f.__module__) in _PURE:
        return
    for name in _names(f.__code__):
        if name in f.__globals__:
            yield name, f.__globals__[name]


def _cells(f: FunctionType) -> Iterator[tuple[int, Any]]:
    """What a function closes over, by the number of its cell; cells may be empty still."""
    for k, cell in enumerate(f.__closure__ or ()):
        try:
            yield k, cell.cell_contents
        except ValueError:
            continue


def _is_plain(value: Any) -> bool:
    """Whether a value is the same in a twin: it does not change, and does nothing to the world."""
    if value is None or isinstance(value, (bool, str, bytes, np.dtype, np.ufunc, _NUMPY_FUNCTION)):
        return True
    if isinstance(value, type):
        return _root(value.__module__) in _PURE | {"builtins"}
    if isinstance(value, ModuleType):
        return _root(value.__name__) in _PURE and value is not np.random
    return isinstance(value, BuiltinFunctionType) and (value.__self__ is None or isinstance(value.__self__, ModuleType))


def _essence(value: Any, seen: dict[int, tuple[int, Any]], constant: bool = False) -> Any:
    """What a value is made of, for comparison: arrays and numbers are types, but numbers at module level are themselves. ``seen`` holds
    what was met, by its id, which is nobody else's as long as it is held.
    """
    kind = type(value)
    number = isinstance(value, np.generic) or kind in PYTHON_DTYPES
    if isinstance(value, np.ndarray) or (number and kind is not bool and not constant):
        return type_of_value(value)
    if number or _is_plain(value):
        return kind, value
    if id(value) in seen:
        return seen[id(value)][0]
    seen[id(value)] = len(seen), value
    if kind is FunctionType:
        inner = tuple((k, _essence(v, seen, constant)) for k, v in _cells(value))
        outer = tuple((name, _essence(v, seen, constant=True)) for name, v in _globals(value))
        return value.__code__, inner, outer, _essence((value.__defaults__, value.__kwdefaults__), seen, constant)
    if kind is functools.partial:
        return kind, _essence((value.func, value.args, value.keywords), seen, constant)
    if kind is dict:
        return kind, tuple(value), tuple(_essence(v, seen, constant) for v in value.values())
    if kind in (list, tuple):
        return kind, tuple(_essence(v, seen, constant) for v in value)
    raise _Untold


@dataclass
class _Twins:
    """Makes twins of values for a trace; a value that is reached twice has one twin. ``exact``: numbers stay themselves."""

    trace: Trace
    exact: bool
    made: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    modules: dict[int, dict[str, Any]] = field(default_factory=dict)

    def of(self, value: Any, constant: bool = False) -> Any:
        kind = type(value)
        if _is_plain(value) or ((constant or self.exact) and (kind in PYTHON_DTYPES or isinstance(value, np.generic))):
            return value
        if id(value) not in self.made:
            if kind is FunctionType:
                return self._function(value)
            twin = self._handle(value) if isinstance(value, (np.ndarray, np.generic, *PYTHON_DTYPES)) else self._container(value, constant)
            self.made[id(value)] = value, twin
        return self.made[id(value)][1]

    def _handle(self, value: Any) -> Any:
        layout = dataless(value.shape, value.dtype, value.strides, value.flags.writeable) if isinstance(value, np.ndarray) else None
        return self.trace.add_input(type_of_value(value), shadow=layout, label="a value that it closes over").handle

    def _container(self, value: Any, constant: bool) -> Any:
        if type(value) is functools.partial:
            return functools.partial(self.of(value.func), *self.of(value.args), **self.of(value.keywords))
        if type(value) is dict:
            return {k: self.of(v, constant) for k, v in value.items()}
        return type(value)(self.of(v, constant) for v in value)

    def _function(self, f: FunctionType) -> FunctionType:
        module = self.modules.setdefault(id(f.__globals__), {**f.__globals__})
        cells = tuple(CellType() for _ in f.__closure__ or ())
        twin = FunctionType(f.__code__, module, f.__name__, None, cells)
        self.made[id(f)] = f, twin
        twin.__defaults__, twin.__kwdefaults__, twin.__qualname__ = self.of(f.__defaults__), self.of(f.__kwdefaults__), f.__qualname__
        for k, value in _cells(f):
            cells[k].cell_contents = self.of(value)
        for name, value in _globals(f):
            module[name] = self.of(value, constant=True)
        return twin
