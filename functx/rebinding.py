"""rebind_numpy: functions of other packages, written with plain NumPy, with NumPy's names bound to functx.numpy instead.

NumPy never asks anyone when it makes an array, so ``np.zeros`` in code that one cannot edit makes a plain array, which traced values cannot
be written into. Here such a function gets a twin: the same code over a mapping of globals that reads the module's own, live, and hands out
functx.numpy for numpy. No module is changed, so other threads and plain calls see nothing of it.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

import functx.numpy as fnp
from functx.dtypes import PYTHON_DTYPES, Kind
from functx.errors import UnsupportedError
from functx.source import function_source
from functx.trace import Tracer, where

_PYTHON_TYPES = {dtype: python for python, dtype in PYTHON_DTYPES.items()}
_GLOBAL_WRITES = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
_KNOWN_HERE = {"numpy", "functx"}  # a function of theirs does not stand for the whole package


def rebind_numpy(f: Any = None, *, modules: str | ModuleType | Iterable[str | ModuleType] = ()) -> Any:
    """``f`` with NumPy bound to functx.numpy, for functions that call ``np.zeros``, ``np.asarray``... and cannot be edited.

    What comes back has f's code, defaults and signature. The names that it and the functions of its package see (as globals, in
    closures, as defaults, by imports in their bodies) are rebound when they are met: the numpy module and its functions to those of
    functx.numpy, functions and classes of the package to twins made in the same way. All other names keep their values and are read live.
    Nothing is changed in any module, so it may be used from several threads, and outside a trace it does what f does. May be used as a
    decorator.

    Args:
      f: a Python function, a bound method, a functools.partial, a class, or an object with ``__call__``.
      modules: one or several further modules or packages, or their names, whose functions are rebound too, beside f's own package.

    Raises:
      TypeError: f is written in C, or something else that has no Python code.
      UnsupportedError: f assigns to a global name.

    Not reached, and so left with plain NumPy: code in C, Cython or Numba; text given to eval and exec; functions in lists, dicts and
    attributes of objects (an object whose bound method is given excepted); what functools.lru_cache wraps, and functions that assign to
    globals, since traced values would stay behind in them; exceptions, dataclasses, and classes with a metaclass or ``__init_subclass__``.
    ``isinstance`` in rebound code takes a traced value for the array, NumPy scalar or number that it stands for; ``type(x) is`` does not.
    Objects made by rebound code are instances of a subclass of their class.

    >>> import numpy as np
    >>> import functx as fx
    >>> def cumulated(x):                       # say, from a package
    ...     out = np.zeros(len(x))
    ...     for i in range(len(x)):
    ...         out[i] = out[i - 1] + x[i] ** 2
    ...     return out
    >>> fx.grad(lambda x: fx.rebind_numpy(cumulated)(x).sum())(np.array([1.0, 2.0, 3.0]))
    array([6., 8., 6.])
    """
    if f is None:
        return functools.partial(rebind_numpy, modules=modules)
    given = [modules] if isinstance(modules, (str, ModuleType)) else modules
    names = {m.__name__ if isinstance(m, ModuleType) else m for m in given}
    inner = _plain_function(f)
    home = _modules_of(inner)
    binder = _Binder(frozenset(names | home | {n.partition(".")[0] for n in home} - _KNOWN_HERE))
    if isinstance(inner, FunctionType) and _writes_globals(inner.__code__):
        raise UnsupportedError(
            f"rebind_numpy: {function_source(inner)} assigns to a global name",
            where=where(),
            why="its twin cannot write to the module, and a traced value must not stay there",
            fix="write the state into an array or object that is passed as an argument",
        )
    return binder.root(f)


def _plain_function(f: Any) -> Any:
    """The Python function or class that an object which can be called leads to."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, MethodType):
            f = f.__func__
        elif isinstance(f, (FunctionType, type)) or _counterpart(f) is not None:
            return f
        elif isinstance(getattr(type(f), "__call__", None), FunctionType):  # noqa: B004 - the function itself is needed
            f = type(f).__call__
        else:
            hint = f"; give rebind_numpy the function that {type(f).__name__} wraps" if hasattr(f, "__wrapped__") else ""
            raise TypeError(f"rebind_numpy takes a function with Python code, not a {type(f).__name__}{hint}")


def _modules_of(f: Any) -> set[str]:
    """Where a function or class comes from: the module that it names, and (decorated functions name another one) that of its globals."""
    names = {getattr(f, "__module__", None), getattr(f, "__globals__", {}).get("__name__")}
    return {n for n in names if isinstance(n, str)}


@functools.cache
def _counterparts() -> dict[int, Any]:
    """By id, numpy's modules and functions that functx.numpy has a version of."""
    found: dict[int, Any] = {id(np): fnp}
    pairs = [(np, fnp)]
    for plain, ours in pairs:
        for name in dir(plain):
            theirs, mine = getattr(plain, name, None), getattr(ours, name, None)
            if mine is None or mine is theirs or name.startswith("_") or id(theirs) in found:
                continue
            found[id(theirs)] = mine
            if isinstance(theirs, ModuleType):
                pairs.append((theirs, mine))
    return found


def _counterpart(value: Any) -> Any:
    return _counterparts().get(id(value))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions and classes inside."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _writes_globals(code: CodeType) -> bool:
    return any(not _GLOBAL_WRITES.isdisjoint(c.co_code[::2]) for c in _codes(code))


def _isinstance(value: Any, kinds: Any) -> bool:
    """isinstance, for which a tracer is what it stands for."""
    if builtins.isinstance(value, kinds):
        return True
    if not builtins.isinstance(value, Tracer):
        return False
    if value.kind is Kind.ARRAY:
        return issubclass(np.ndarray, kinds)
    return issubclass(value.aval.dtype.type if value.kind is Kind.SCALAR else _PYTHON_TYPES[value.aval.dtype], kinds)


class _Namespace(dict):
    """Globals of rebound functions. CPython asks ``__getitem__`` of globals that are no exact dict (``LOAD_GLOBAL``); what it reads from
    the dict's own storage, by C calls, is the module's identity, the builtins, and the names that bodies of inner classes look up.
    """

    def __init__(self, original: dict[str, Any], binder: _Binder):
        super().__init__({k: original[k] for k in ("__name__", "__package__", "__spec__", "__file__") if k in original})
        super().__setitem__("__builtins__", binder.builtins)
        self.original, self.binder = original, binder

    def __getitem__(self, name: str) -> Any:
        return self.binder.rebind(self.original[name])

    def prepare(self, code: CodeType) -> None:
        """Put the names that class bodies inside ``code`` look up where they look."""
        for body in _codes(code):
            if not body.co_flags & inspect.CO_OPTIMIZED:
                self.update({name: self[name] for name in body.co_names if name in self.original})


class _ModuleView(ModuleType):
    """A module of the package, whose members are rebound when they are read."""

    def __init__(self, module: ModuleType, binder: _Binder):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(_module=module, _binder=binder)

    def __getattr__(self, name: str) -> Any:
        return self._binder.rebind(getattr(self._module, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


class _Twin(type):
    """The metaclass of twins: objects of the class itself are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1])


class _Binder:
    """Makes and remembers the twins of one root function.

    Twins are published only when they are complete (``pending`` holds those in the making), so threads need no lock: two that race make
    two equal twins.
    """

    def __init__(self, packages: frozenset[str]):
        self.packages = packages
        self.builtins = {**vars(builtins), "__import__": self._import, "isinstance": _isinstance}
        self.namespaces: dict[int, _Namespace] = {}
        self.twins: dict[int, tuple[Any, Any]] = {}  # by id: the original, kept alive, and its twin

    def root(self, f: Any) -> Any:
        """The twin of what the user gave, wherever it comes from."""
        if _counterpart(f) is not None:
            return _counterpart(f)
        if isinstance(f, (FunctionType, MethodType, functools.partial, type)):
            return self.rebind(f)
        return self.rebind(f.__call__)

    def rebind(self, value: Any) -> Any:
        """What rebound code sees instead of ``value``."""
        pending: dict[int, tuple[Any, Any]] = {}
        twin = self._twin(value, pending)
        self.twins.update(pending)
        return twin

    def _twin(self, value: Any, pending: dict[int, tuple[Any, Any]]) -> Any:
        known = self.twins.get(id(value)) or pending.get(id(value))
        if known is not None:
            return known[1]
        other = _counterpart(value)
        if other is not None:
            return other
        if isinstance(value, functools.partial) and type(value) is functools.partial:
            parts = [self._twin(v, pending) for v in (value.func, *value.args)]
            return functools.partial(*parts, **{k: self._twin(v, pending) for k, v in value.keywords.items()})
        if isinstance(value, MethodType):
            return self._method(value, pending)
        if isinstance(value, FunctionType) and self._is_ours(value) and not _writes_globals(value.__code__):
            return self._function(value, pending)
        if isinstance(value, ModuleType) and not isinstance(value, _ModuleView) and self._holds(value.__name__):
            pending[id(value)] = value, _ModuleView(value, self)
            return pending[id(value)][1]
        if isinstance(value, type) and self._is_ours(value) and not dataclasses.is_dataclass(value):
            return self._twin_class(value, pending)
        return value

    def _is_ours(self, f: Any) -> bool:
        return any(map(self._holds, _modules_of(f)))

    def _holds(self, module: str) -> bool:
        return any(module == p or module.startswith(p + ".") for p in self.packages)

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """``import`` inside a rebound function."""
        return self.rebind(builtins.__import__(name, globals, locals, fromlist, level))

    # --- twins ----------------------------------------------------------------------------------------------------------------------------

    def _function(self, f: FunctionType, pending: dict[int, tuple[Any, Any]]) -> FunctionType:
        """The same code over the rebound globals; cells are shared but for those whose contents are rebound."""
        names, cells = f.__code__.co_freevars, f.__closure__ or ()
        fresh = [name != "__class__" and _may_change(cell) for name, cell in zip(names, cells, strict=True)]
        closure = tuple(CellType() if new else cell for cell, new in zip(cells, fresh, strict=True))
        namespace = self.namespaces.get(id(f.__globals__))
        if namespace is None:
            namespace = self.namespaces.setdefault(id(f.__globals__), _Namespace(f.__globals__, self))
        twin = FunctionType(f.__code__, namespace, f.__name__, None, closure)
        pending[id(f)] = f, twin  # before what follows, which may lead back here
        namespace.prepare(f.__code__)
        functools.update_wrapper(twin, f)
        if "__wrapped__" in f.__dict__:
            twin.__wrapped__ = self._twin(f.__wrapped__, pending)
        else:
            del twin.__wrapped__
        if f.__defaults__ is not None:
            twin.__defaults__ = tuple(self._twin(v, pending) for v in f.__defaults__)
        if f.__kwdefaults__ is not None:
            twin.__kwdefaults__ = {k: self._twin(v, pending) for k, v in f.__kwdefaults__.items()}
        for cell, new, own in zip(cells, closure, fresh, strict=True):
            if own:
                new.cell_contents = self._twin(cell.cell_contents, pending)
        return twin

    def _method(self, method: MethodType, pending: dict[int, tuple[Any, Any]]) -> Any:
        """A bound method, on a second object of the twin class that shares the attributes of the first."""
        instance, function = method.__self__, method.__func__
        if isinstance(instance, type):
            return getattr(self._twin(instance, pending), method.__name__, method)
        if not isinstance(function, FunctionType) or not self._is_ours(function):
            return method
        twin_class = self._twin_class(type(instance), pending) if self._is_ours(type(instance)) else type(instance)
        attributes = getattr(instance, "__dict__", None)
        if twin_class is not type(instance) and attributes is not None and type(instance).__basicsize__ == _PLAIN_SIZE:
            instance = object.__new__(twin_class)
            instance.__dict__ = attributes
        return MethodType(self._twin(function, pending), instance)

    def _twin_class(self, cls: type, pending: dict[int, tuple[Any, Any]]) -> type:
        """A subclass whose methods are rebound; ``super()`` in them finds rebound methods of its bases."""
        known = self.twins.get(id(cls)) or pending.get(id(cls))
        if known is not None:
            return known[1]
        special = type(cls) is not type or issubclass(cls, BaseException) or hasattr(cls.__init_subclass__, "__func__")
        if special:
            return cls
        bases = [b for base in cls.__bases__ if (b := self._twin(base, pending)) is not base]
        identity = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, "__slots__": ()}
        twin = _Twin(cls.__name__, (cls, *bases), identity)
        pending[id(cls)] = cls, twin
        for name, member in vars(cls).items():
            new = self._member(member, pending)
            if new is not member:
                setattr(twin, name, new)
        return twin

    def _member(self, member: Any, pending: dict[int, tuple[Any, Any]]) -> Any:
        """A method, static or class method, or property, rebound."""
        if isinstance(member, FunctionType):
            return self._twin(member, pending)
        if type(member) in (staticmethod, classmethod):
            return type(member)(self._twin(member.__func__, pending))
        if type(member) is property:
            return property(*(self._twin(part, pending) for part in (member.fget, member.fset, member.fdel)), member.__doc__)
        return member


class _Plain:
    """An object with nothing but attributes."""


_PLAIN_SIZE = _Plain.__basicsize__


def _may_change(cell: CellType) -> bool:
    """Whether what a closure holds might be rebound."""
    try:
        value = cell.cell_contents
    except ValueError:  # not assigned yet
        return False
    return isinstance(value, (ModuleType, type)) or callable(value)
