"""Looking into traced and compiled functions: print and callback, which see values as they are when the function runs.

Both are effects: they happen in order, once per logical execution (see :func:`functx.io_callback`).
"""

from __future__ import annotations

import builtins
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functx.callbacks import perform
from functx.source import hides_frames
from functx.trace import current_trace


class _Formatter(string.Formatter):
    """str.format that refuses values without a place."""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        unused = [*(n for n in range(len(args)) if n not in used_args), *(repr(k) for k in kwargs if k not in used_args)]
        if unused:
            raise ValueError(f"functx.debug.print: the format has no place for argument {unused[0]}")


@hides_frames
def print(fmt: str, *args: Any, **kwargs: Any) -> None:
    """Print values when the function runs: ``print(fmt.format(*args, **kwargs))``, under every transform.

    Args:
      fmt: a format string. (A traced value put into an f-string shows what it stands for, its type: the string is made while tracing.)
      args, kwargs: what it names: arrays, numbers, containers of them, and anything else that is the same in every call.

    Raises:
      ValueError, IndexError, KeyError: the format does not fit the values; while tracing already.

    >>> import functx as fx
    >>> def f(x):
    ...     fx.debug.print("x = {:.1f}", x)
    ...     return x * x
    >>> fx.jit(fx.grad(f))(3.0)
    x = 3.0
    6.0
    """

    def show(*args: Any, **kwargs: Any) -> None:
        builtins.print(_Formatter().vformat(fmt, args, kwargs))

    if current_trace() is None:
        show(*args, **kwargs)
        return
    _Formatter().vformat(fmt, [_Anything()] * len(args), dict.fromkeys(kwargs, _Anything()))
    perform(print, show, None, args, kwargs, form=fmt)


class _Anything:
    """Stands for a value whose type and attributes are unknown, to try a format on."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self


@hides_frames
def callback(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call ``f(*args, **kwargs)`` for what it does, when the function runs. What it returns is dropped.

    Args:
      f: any function. It gets arrays of its own, which it may keep, and Python and NumPy scalars where the caller has such.
      args, kwargs: arrays, numbers, containers of them, and anything else that is the same in every call.

    >>> import numpy as np
    >>> import functx as fx
    >>> seen = []
    >>> def body(c, x):
    ...     fx.debug.callback(seen.append, c)
    ...     return c + x, None
    >>> fx.jit(lambda xs: fx.scan(body, 0.0, xs)[0])(np.ones(3))
    np.float64(3.0)
    >>> seen
    [np.float64(0.0), np.float64(1.0), np.float64(2.0)]
    """

    def call(*args: Any, **kwargs: Any) -> None:
        f(*args, **kwargs)

    if current_trace() is None:
        call(*args, **kwargs)
        return
    perform(f, call, None, args, kwargs, form="callback")


def synchronize() -> None:
    """Wait for what was launched on GPUs, and raise the error of a call whose check has failed there (an index out of range).

    On a GPU such a call returns before its checks have run: without this, its error is raised when the next compiled function is called
    after they have. Calls on the CPU raise at once.

    >>> synchronize()
    """
    if failures := sys.modules.get("functx.backends.triton.failures"):
        failures.look(wait=True)
