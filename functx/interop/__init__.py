"""Bridges to other packages, which are loaded when they are used: :mod:`functx.interop.torch`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "torch":
        return importlib.import_module("functx.interop.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
