"""Where in the user's code we are: which frames belong to functx or NumPy, the innermost one that does not, and tracebacks without them."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import optree

from functx import config

F = TypeVar("F", bound=Callable[..., Any])

_here = os.path.dirname(os.path.abspath(__file__))
_root = os.path.dirname(_here)
# transforms/ and backends/ stand beside functx/ in a checkout and below it in a wheel.
_internal = tuple(
    os.path.join(path, "")
    for path in (
        _here,
        os.path.join(_root, "transforms"),
        os.path.join(_root, "backends"),
        *(os.path.dirname(m.__file__) for m in (np, optree)),
    )
)
_is_internal: dict[CodeType, bool] = {}


class Source(NamedTuple):
    """A line of user code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def short(self) -> str:
        """``file.py:12``, as printed beside equations and in generated code."""
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, stripped; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def describe(self) -> str:
        """Position and text, for error messages."""
        return f"{self}: {self.text}" if self.text else str(self)


def is_internal(code: CodeType) -> bool:
    """Whether a code object belongs to functx, or to NumPy or optree, which call back."""
    internal = _is_internal.get(code)
    if internal is None:
        internal = _is_internal[code] = code.co_filename.startswith(_internal)
    return internal


def user_source() -> Source | None:
    """The innermost user frame of the calling thread, or None outside any."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_internal(code):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def hides_frames(f: F) -> F:
    """Let exceptions leave ``f``, a public entry point, without functx's own frames in their traceback: what is left is the user's code.

    FUNCTX_FULL_TRACEBACK=1 keeps all of them.
    """

    @functools.wraps(f)
    def entry(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if not config.current().full_traceback:
                error.__traceback__ = _user_frames(error.__traceback__)
            raise

    return entry  # type: ignore[return-value]


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of functx and NumPy."""
    if traceback is None:
        return None
    rest = _user_frames(traceback.tb_next)
    if is_internal(traceback.tb_frame.f_code):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the user's present line."""
    warn_at(message, category, user_source())


def warn_at(message: str, category: type[Warning], source: Source | None) -> None:
    """A warning at a line of the user's code."""
    warnings.warn_explicit(message, category, source.file if source else "functx", source.line if source else 0)


def function_source(f: object) -> str:
    """``name (file.py:12)`` of a Python function, as far as it can be told."""
    code = getattr(inspect.unwrap(f), "__code__", None) if callable(f) else None
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or type(f).__name__
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)
