"""Who holds a tracer that outlived its trace. Only error messages need this; it may be slow."""

from __future__ import annotations

import gc
import sys
from types import CellType, FrameType, FunctionType
from typing import Any

from functx.source import is_internal


def holder(obj: Any) -> str:
    """``list log, element 0``, ``attribute cache of Model``, ``local variable y``: the place outside functx that refers to ``obj``."""
    names = _user_names()
    for referrer in gc.get_referrers(obj):
        place = _place(referrer, obj, names)
        if place:
            return place
    for name, value in names:
        if value is obj:
            return f"variable {name}"
    return "a place that could not be found"


def _user_names() -> list[tuple[str, Any]]:
    """Names and values visible in the user's frames, innermost first."""
    out: list[tuple[str, Any]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_internal(frame.f_code):
            out += [*frame.f_locals.items(), *frame.f_globals.items()]
        frame = frame.f_back
    return out


def _place(referrer: Any, obj: Any, names: list[tuple[str, Any]]) -> str | None:
    if isinstance(referrer, (list, tuple)):
        index = next((i for i, item in enumerate(referrer) if item is obj), None)
        name = _name_of(referrer, names)
        return f"{type(referrer).__name__} {name}, element {index}" if name and index is not None else None
    if isinstance(referrer, dict):
        return _dict_place(referrer, obj, names)
    if isinstance(referrer, set):
        name = _name_of(referrer, names)
        return f"set {name}" if name else None
    if isinstance(referrer, CellType):
        return _closure_place(referrer)
    return _attribute_place(referrer, obj)


def _attribute_place(referrer: Any, obj: Any) -> str | None:
    """An attribute of an object that keeps it without a dictionary: in slots, or in line as CPython does."""
    kind = type(referrer)
    if kind.__module__.split(".")[0] in ("functx", "builtins"):
        return None
    slots = [name for c in kind.__mro__ for name in getattr(c, "__slots__", ())]
    fields = [*getattr(referrer, "__dict__", {}), *slots]
    name = next((f for f in fields if getattr(referrer, f, None) is obj), None)
    return f"attribute {name} of {kind.__name__}" if name else None


def _closure_place(cell: CellType) -> str | None:
    """The variable that an inner function shares with the function around it."""
    for closure in gc.get_referrers(cell):
        for function in gc.get_referrers(closure) if isinstance(closure, tuple) else ():
            if isinstance(function, FunctionType) and not is_internal(function.__code__):
                variables = zip(function.__code__.co_freevars, closure, strict=True)  # cells compare by what they hold, a tracer
                return f"closure variable {next(name for name, c in variables if c is cell)} of {function.__qualname__}"
    return None


def _dict_place(referrer: dict[Any, Any], obj: Any, names: list[tuple[str, Any]]) -> str | None:
    key = next((k for k, value in referrer.items() if value is obj), None)
    if key is None:
        return None
    name = _name_of(referrer, names)
    if name:
        return f"dict {name}, key {key!r}"
    for owner in gc.get_referrers(referrer):
        if getattr(owner, "__dict__", None) is referrer:
            what = "global variable" if type(owner).__name__ == "module" else "attribute"
            return f"{what} {key} of {getattr(owner, '__name__', type(owner).__name__)}"
    return None


def _name_of(container: Any, names: list[tuple[str, Any]]) -> str | None:
    return next((name for name, value in names if value is container), None)
