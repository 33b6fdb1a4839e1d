"""The examples in docstrings, module by module (not by ``--doctest-modules``: the folders install under functx, away from
their place in the tree)."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def files():
    """The module name of every Python file of the three folders."""
    for folder in ("functx", "transforms", "backends"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if folder == "functx" else ("functx", *parts))
            yield name.removesuffix(".__init__")


MODULES = list(files())
NEEDS = {"functx.interop.torch": ("torch",), "functx.backends.triton": ("torch", "triton")}  # and the modules below


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    for package, needed in NEEDS.items():
        if f"{name}.".startswith(f"{package}."):
            for module in needed:
                pytest.importorskip(module)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_public_functions_have_examples():
    """Every function that the package itself exports, and those of functx.nn, shows one runnable example."""
    finder = doctest.DocTestFinder(recurse=False)
    public = importlib.import_module("functx")
    functions = [getattr(public, name) for name in public.__all__]
    functions += [f for name, f in vars(public.nn).items() if getattr(f, "__module__", "") == "functx.nn" and not name.startswith("_")]
    without = [f.__name__ for f in functions if callable(f) and not isinstance(f, type) and not any(t.examples for t in finder.find(f))]
    assert without == []
