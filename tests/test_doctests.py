"""The examples in docstrings, module by module (an explicit list: the folders install under functx, away from their place in the tree)."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = """
functx functx.backend functx.capture functx.check functx.config functx.demand functx.dtypes functx.errors functx.interpret functx.ir
functx.lax functx.leaks
functx.mutation functx.nn functx.parse functx.passes functx.pretty functx.primitive functx.shapes functx.source functx.trace
functx.trees functx.util functx.runtime functx.numpy functx.numpy.at functx.numpy.creation functx.numpy.indexing functx.numpy.manipulation
functx.numpy.products functx.numpy.promote functx.numpy.protocols functx.numpy.reductions functx.numpy.selection functx.numpy.ufuncs
functx.ops functx.ops.contraction functx.ops.elementwise functx.ops.families functx.ops.higher_order functx.ops.indexing
functx.ops.movement functx.ops.reduction functx.ops.transcendental
functx.transforms functx.transforms.algebra functx.transforms.arguments functx.transforms.batching functx.transforms.boundary
functx.transforms.custom_rules functx.transforms.differentiation functx.transforms.entries functx.transforms.forward
functx.transforms.gradients functx.transforms.inline functx.transforms.inspection functx.transforms.interpreter functx.transforms.jit
functx.transforms.pipeline functx.transforms.pullbacks functx.transforms.remat functx.transforms.reverse functx.transforms.simplify
functx.transforms.split functx.transforms.staging functx.transforms.subgraphs functx.transforms.vectorize
functx.backends functx.backends.reference functx.backends.cpp functx.backends.cpp.accumulators functx.backends.cpp.backend
functx.backends.cpp.body functx.backends.cpp.executable functx.backends.cpp.kernels functx.backends.cpp.ops functx.backends.cpp.prelude
functx.backends.cpp.program functx.backends.cpp.text functx.backends.cpp.toolchain functx.backends.cpp.types
functx.backends.loops functx.backends.loops.affine functx.backends.loops.build functx.backends.loops.clusters functx.backends.loops.lower
functx.backends.loops.nodes functx.backends.loops.packing functx.backends.loops.plan functx.backends.loops.roots
functx.backends.loops.rules functx.backends.loops.scope
""".split()  # noqa: SIM905 - a list of names reads best as words


def files():
    """The module name of every Python file of the three folders."""
    for folder in ("functx", "transforms", "backends"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if folder == "functx" else ("functx", *parts))
            yield name.removesuffix(".__init__")


def test_the_list_is_complete():
    assert sorted(MODULES) == sorted(files())


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
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
