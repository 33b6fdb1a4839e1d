"""Between a transformed function and its caller: evaluate a graph or inline it, write mutated arguments back, and build the results.

Called inside an enclosing trace, values are atoms of that trace and results its tracers; outside, they are arrays, and every result owns
its memory unless NumPy would have returned an argument or a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functx import config, mutation, trees
from functx.capture import copies
from functx.check import check_graph
from functx.dtypes import Kind
from functx.interpret import eval_graph
from functx.ir import Atom, Graph, OutRole, Var
from functx.trace import Trace, Tracer, dataless
from functx.transforms.staging import Result, Staged
from functx.util import invert_permutation


def input_values(staged: Staged, parent: Trace | None) -> list[Any]:
    """The values of a staged function's inputs: atoms of the enclosing trace, or arrays."""
    if parent is None:
        return [slot.array if slot.array is not None else slot.value for slot in staged.trace.inputs]
    return [slot.outer_atom for slot in staged.trace.inputs]


def execute(graph: Graph, values: Sequence[Any], parent: Trace | None, known: Mapping[Var, Any] | None = None) -> list[Any]:
    """The graph's outputs: inlined into the enclosing trace, or evaluated by the reference implementations."""
    if config.current().debug >= 3:
        check_graph(graph)
    if parent is not None:
        return parent.inline(graph, values, known)
    return own(eval_graph(graph, values, known), values)


def own(outs: Sequence[Any], inputs: Sequence[Any]) -> list[np.ndarray]:
    """Each result as a C-contiguous writable array that shares memory with no input, constant or other result."""
    taken = {id(v) for v in inputs}
    owned = []
    for out in outs:
        array = np.asarray(out)
        fresh = array is out and out.base is None and out.flags.writeable and out.flags.c_contiguous and id(out) not in taken
        owned.append(array if fresh else np.array(out, order="C", copy=True))
        taken.add(id(owned[-1]))
    return owned


def translate(known: Mapping[Var, Any], env: Mapping[Var, Atom]) -> dict[Var, Any]:
    """Values known for a trace's variables, for the variables that a transform made of them."""
    return {env[v]: value for v, value in known.items() if isinstance(env.get(v), Var)}


def to_kind(array: np.ndarray, kind: Kind) -> Any:
    """An array as the Python scalar, NumPy scalar or array that is returned."""
    if kind is Kind.ARRAY:
        return array
    return array.item() if kind is Kind.PYTHON else array[()]


def wrap(value: Any, kind: Kind, parent: Trace | None) -> Any:
    """One value for the caller: a tracer of the enclosing trace, or a concrete value of the given kind."""
    return to_kind(value, kind) if parent is None else parent.tracer(value, kind)


def deliver(staged: Staged, outs: Sequence[Any], parent: Trace | None) -> Any:
    """Write mutated arguments back and build the results from the staged graph's outputs (RESULTs, then WRITEs)."""
    targets = [slot.array if parent is None else slot.outer for slot in staged.trace.inputs]
    write_back(staged.graph, outs, targets)
    results = build_results(staged.results, outs, targets, parent)
    staged.trace.release()
    return trees.unflatten(staged.out_tree, results)


def write_back(graph: Graph, outs: Sequence[Any], targets: Sequence[Any]) -> None:
    """Perform the function's writes to its arguments, once, with primal values. ``targets`` are arrays or handles, one per input; a value
    that is the target itself was written there already."""
    for slot, value in zip(graph.outputs, outs, strict=False):
        if slot.role is OutRole.WRITE:
            target = targets[slot.target]
            if isinstance(target, Tracer):
                mutation.write_back(target, value)
            elif value is not target:
                np.copyto(target, value)


def build_results(results: Sequence[Result], outs: Sequence[Any], targets: Sequence[Any], parent: Trace | None) -> list[Any]:
    """The leaves of the results."""
    roots: dict[int, Any] = {}
    fresh = iter(copies([r.constant for r in results if r.fresh]))
    built: dict[int, Any] = {}
    for r in results:
        if r.fresh or id(r) not in built:
            built[id(r)] = next(fresh) if r.fresh else _build(r, outs, targets, roots, parent)
    return [built[id(r)] for r in results]


def _build(result: Result, outs: Sequence[Any], targets: Sequence[Any], roots: dict[int, Any], parent: Trace | None) -> Any:
    if result.argument is not None:
        return view_of(targets[result.argument], result)
    if result.root is not None:
        if result.root not in roots:
            roots[result.root] = _root(outs[result.root], result, parent)
        return view_of(roots[result.root], result)
    return result.constant


def _root(value: Any, result: Result, parent: Trace | None) -> Any:
    """Memory that results are views of, in the order in which NumPy would have it."""
    if result.order is None:
        return wrap(value, result.aval.kind, parent)
    back = invert_permutation(result.order)
    if parent is None:
        return np.array(value.transpose(result.order), order="C").transpose(back)
    shape, dtype = value.aval.shape, value.aval.dtype
    return parent.tracer(value, shadow=dataless([shape[i] for i in result.order], dtype).transpose(back))


def view_of(root: Any, result: Result) -> Any:
    """The view that a result is of its root, by the operations that made it while tracing."""
    for op in result.views:
        if isinstance(root, Tracer):
            root = mutation.make_view(root, op.primitive, op.params, lambda root=root, op=op: op.primitive.impl(root.shadow, **op.params))
        else:
            root = op.primitive.impl(root, **op.params)
    return root
