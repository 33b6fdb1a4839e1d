"""From a cache entry to a native plan: how the runtime calls compiled code without entering Python.

The plan says nothing new: it is the entry's sources, predicates and results in the form that functx/runtime/plan.h reads. Results that are
views, and containers that the runtime does not know, are built by Python after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functx import config, trace, trees
from functx.capture import Reference
from functx.dims import Dim
from functx.dtypes import Kind
from functx.ir import OutRole
from functx.runtime import native
from functx.sizes import program
from functx.transforms.boundary import build_results
from functx.transforms.dynamic import SizePattern
from functx.transforms.entries import Dense, Entry
from functx.transforms.staging import Result

# The kinds of functx::BuildStep, in its order.
ARRAY, SCALAR, PYTHON, INPUT, CONSTANT, TUPLE, LIST, DICT, NAMED_TUPLE = range(9)
_FACTS = (">=", "==", "!=")  # the kinds of functx::SizeChecks::Fact, in its order
_OF_KIND = {Kind.ARRAY: ARRAY, Kind.SCALAR: SCALAR, Kind.PYTHON: PYTHON}

MAX_ALIASES = 256  # signatures of one function under which plans are found

Step = tuple[int, int, Any]

native.set_context_variables(trace.CURRENT, config.CURRENT)


def make_plan(entry: Entry, leaves: Sequence[Any]) -> Any:
    """The native plan of an entry that holds for ``leaves``; None where its executable is not native, or where arrays lie decides."""
    code = getattr(entry.executable, "native", None)
    if code is None or entry.predicates.members or entry.predicates.placement is not None:
        return None
    p = entry.predicates
    symbols = p.sizes.symbols if p.sizes is not None else []
    every = [*symbols, *code.found]
    build = _build_steps(entry)
    scalars = {} if build is None else {index for kind, index, _ in build if kind in (SCALAR, PYTHON)}
    outputs = [
        (
            aval.dtype,
            tuple(_formula(d, every) for d in aval.shape),
            slot.target if slot.role is OutRole.WRITE else -1,
            k in scalars,
            any(not d.expr.free_symbols <= set(symbols) for d in aval.shape if isinstance(d, Dim)),
        )
        for k, (slot, aval) in enumerate(zip(entry.traced.outputs, entry.traced.out_avals, strict=True))
    ]
    return native.make_plan(
        library=code.library,
        workspace_bytes=program(getattr(code.workspace_bytes, "expr", code.workspace_bytes), symbols),
        callback=code.callback,
        on_error=code.on_error,
        constants=list(code.constants),
        inputs=[_source(source, aval) for source, aval in zip(entry.sources, entry.traced.in_avals, strict=True)],
        outputs=outputs,
        values=[(i, leaves[i]) for i, _ in p.specialized],
        layouts=[_layout(i, strides, writeable) for i, (strides, writeable) in p.layouts],
        written=list(p.written),
        aliases=None if p.aliases is None else list(p.aliases),
        build=build or [],
        finish=_finisher(entry) if build is None else None,
        sizes=_size_checks(p.sizes),
        found=len(code.found),
    )


def install(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], structure: Any, plan: Any) -> None:
    """Let calls with the signature of this one run ``plan``."""
    numbered_args, numbered_kwargs = trees.unflatten(structure, list(range(structure.num_leaves)))
    function._install(args, kwargs, numbered_args, numbered_kwargs, plan, MAX_ALIASES)


def _source(source: int | Reference, aval: Any) -> tuple[int, Any, Any, Any]:
    leaf, captured = (-1, source.native()) if isinstance(source, Reference) else (source, None)
    return leaf, captured, aval.dtype, aval.shape if captured is not None else ()


def _formula(d: int | Dim, symbols: Sequence[Any]) -> int | list[int]:
    return program(d.expr, symbols) if isinstance(d, Dim) else d


def _layout(leaf: int, strides: Any, writeable: bool) -> tuple[int, Any, bool, bool]:
    return leaf, strides.order if isinstance(strides, Dense) else strides, writeable, isinstance(strides, Dense)


def _size_checks(sizes: SizePattern | None) -> tuple[list[Any], list[Any], list[Any]]:
    """Where the symbols are to be read, which other axes follow from them, and what must hold of them."""
    if sizes is None:
        return [], [], []
    return sizes.places, sizes.derived, [(_FACTS.index(kind), code) for kind, code in sizes.programs]


def _finisher(entry: Entry) -> Callable[..., Any]:
    """What builds the results after the call; it holds what it needs of the entry, which holds the plan."""
    results, out_tree = entry.results_at, entry.out_tree
    return lambda outs, bound: trees.unflatten(out_tree, build_results(results(bound, outs), outs, bound, None))


def _build_steps(entry: Entry) -> list[Step] | None:
    """The steps that build the results; None where Python has to."""
    steps: list[Step] = []
    leaves = [_leaf_step(result) for result in entry.results]
    if None in leaves:
        return None
    tree = trees.unflatten(entry.out_tree, [_Leaf(step) for step in leaves])
    return steps if _container_steps(tree, steps) else None


class _Leaf:
    """A result's place in the container of results."""

    def __init__(self, step: Step):
        self.step = step


def _leaf_step(result: Result) -> Step | None:
    if result.fresh or result.views or result.order is not None:
        return None
    if result.argument is not None:
        return INPUT, result.argument, None
    if result.root is not None:
        return _OF_KIND[result.aval.kind], result.root, None
    return CONSTANT, 0, result.constant


def _container_steps(tree: Any, steps: list[Step]) -> bool:
    """Append the steps for a container, its items first. False: it is of a type that the runtime does not build."""
    if isinstance(tree, _Leaf):
        steps.append(tree.step)
        return True
    if tree is None:
        steps.append((CONSTANT, 0, None))
        return True
    items = list(tree.values()) if type(tree) is dict else list(tree) if isinstance(tree, (tuple, list)) else None
    if items is None or not all(_container_steps(item, steps) for item in items):
        return False
    if type(tree) is dict:
        steps.append((DICT, len(items), tuple(tree)))
    elif type(tree) in (tuple, list):
        steps.append((TUPLE if type(tree) is tuple else LIST, len(items), None))
    elif hasattr(tree, "_fields"):
        steps.append((NAMED_TUPLE, len(items), type(tree)))
    else:
        return False
    return True
