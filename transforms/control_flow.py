"""scan, while_loop, fori_loop, map, cond and switch: loops and choices that stay in the graph.

A body is staged once, for any step: it sees no values. What it closes over becomes an operand; arrays of the enclosing function that it
writes to are carried from step to step, and updated after the last.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from functx import mutation, shapes, tensors, trees
from functx.demand import is_known
from functx.dims import Condition, Dim
from functx.dtypes import BOOL, INT64, Kind
from functx.errors import StructureError
from functx.ir import AbstractArray, Atom, Graph, Input, Literal, Output, Var, freeze
from functx.numpy import promote
from functx.ops import cond as cond_primitive
from functx.ops.scan import scan as scan_primitive
from functx.ops.while_loop import while_ as while_primitive
from functx.source import function_source, hides_frames
from functx.trace import Trace, Tracer, current_trace, type_of_value, where
from functx.transforms import python_loops
from functx.transforms.boundary import deliver, execute, input_values, wrap
from functx.transforms.differentiation import type_of
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.outlook import Told
from functx.transforms.staging import Result, Staged, stage
from functx.transforms.vectorize import vmap
from functx.util import split_list, unique, zip_strict


def _traced(api: Callable[..., Any]) -> Any:
    """The result of ``api()`` on concrete values: what it records is evaluated at once."""
    trace = Trace("a loop", "scan")
    staged = stage(api, trace, (), {})
    return deliver(staged, execute(staged.graph, input_values(staged, None), None, trace.known), None)


# --- bodies -------------------------------------------------------------------------------------------------------------------------------


@dataclass
class _Body:
    """A staged body: own inputs first, then what it closes over.

    Attributes:
      constants, written: the slots of what it closes over, read only and written.
    """

    staged: Staged
    own: int
    constant_arrays: dict[Var, np.ndarray] = field(default_factory=dict)

    @property
    def constants(self) -> list[int]:
        return [i for i, s in enumerate(self.staged.trace.inputs) if i >= self.own and not s.written and s.handle.parent is None]

    @property
    def written(self) -> list[int]:
        return [i for i, s in enumerate(self.staged.trace.inputs) if i >= self.own and s.written]

    @property
    def is_outdated(self) -> bool:
        """Whether something that it closes over has turned out to share memory with something else since it was met (functx.aliasing): then
        it is staged again, and meets the whole.
        """
        return any(s.outer is not None and s.outer.parent is not None for s in self.staged.trace.inputs[self.own :])

    def operands(self, slots: Sequence[int]) -> list[Atom]:
        """The values that slots have in the enclosing trace."""
        return [self.staged.trace.inputs[i].outer_atom for i in slots]

    def atoms(self, results: Sequence[Result]) -> list[Atom]:
        """The atoms of results, in the staged graph."""
        graph = self.staged.graph
        return [self._constant(r.constant) if r.value is None else graph.outputs[r.value].atom for r in results]

    def _constant(self, value: Any) -> Atom:
        array = np.asarray(value)
        if array.ndim == 0:
            return Literal(array)
        var = _variable(type_of_value(array))
        self.constant_arrays[var] = freeze(array)
        return var

    def new_values(self) -> list[Atom]:
        """What the body leaves in what it writes to."""
        return [self.staged.trace.inputs[i].handle.atom for i in self.written]

    def graph(self, order: Sequence[int], outputs: Sequence[Atom], avals: Sequence[AbstractArray]) -> Graph:
        """The body with its inputs in some order, and outputs of exactly these types."""
        b, source = INTERPRETER.emitter(), self.staged.graph
        env = b.enter(source, source.in_vars)
        b.consts.update(self.constant_arrays)
        for eqn in source.eqns:
            b.append(eqn, env)
        atoms = [env.get(a, a) if not isinstance(a, Literal) else a for a in outputs]
        typed = [a if a.aval.dtype == t.dtype else b.convert(a, dtype=t.dtype, checked=False) for a, t in zip_strict(atoms, avals)]
        return b.build([Input(source.in_vars[i]) for i in order], [Output(a) for a in typed])

    def update(self, atoms: Sequence[Atom]) -> None:
        """Write the new values into the enclosing function's arrays."""
        for i, atom in zip_strict(self.written, atoms):
            mutation.write(self.staged.trace.inputs[i].outer, atom)
        self.staged.trace.release()


def _stage_body(
    f: Callable[..., Any], kind: str, trees_of: Sequence[Any], avals: Sequence[AbstractArray], labels: Sequence[str], told: Any = None
) -> _Body:
    """Stage ``f`` on arguments with these structures, whose leaves have these types. ``told``: the function that messages name."""
    trace = Trace(function_source(told or f), kind, opaque=True)
    handles = iter([trace.add_input(aval, label=label).handle for aval, label in zip_strict(avals, labels)])
    args = tuple(trees.unflatten(tree, [next(handles) for _ in range(tree.num_leaves)]) for tree in trees_of)
    before = len(trace.sizes.bound)
    staged = stage(f, trace, args, {})
    bound = set(trace.sizes.bound[before:])
    for aval in (r.aval for r in staged.results if r.aval is not None):
        dim = next((d for d in aval.shape if isinstance(d, Dim) and d.expr.free_symbols & bound), None)
        if dim is not None:
            raise dim.number_needed(f"every run of the body that {kind} is given would return an array of a size of its own ({aval})")
    return _Body(staged, len(avals))


def _release(bodies: Sequence[_Body]) -> None:
    for body in bodies:
        body.staged.trace.release()


def _handles(values: Sequence[Any], what: str) -> list[Tracer]:
    python_loops.check_data(values, what)
    return promote.handles_in(current_trace(), values)


def _labels(tree: Any, name: str) -> list[str]:
    return [f"'{name}{path}'" for path in trees.leaf_paths(trees.unflatten(tree, [0] * tree.num_leaves))]


def _fixed_point(
    f: Callable[..., Any], kind: str, init: Sequence[Tracer], make: Callable[[list[AbstractArray]], tuple[_Body, list[Result]]], labels: Any
) -> tuple[_Body, list[AbstractArray], list[Result]]:
    """Stage a body until the types of its carry come out as they go in: an int that becomes a float is one from the beginning."""
    avals = [h.aval for h in init]
    while True:
        body, results = make(avals)
        outs = [r.aval or type_of_value(r.constant) for r in results]
        python_loops.check_carry(kind, f, avals, outs, labels)
        joined = [python_loops.joined(a, c) for a, c in zip_strict(avals, outs)]
        if joined == avals and not body.is_outdated:
            return body, avals, results
        body.staged.trace.release()
        avals = joined


def _started(init: Sequence[Tracer], avals: Sequence[AbstractArray]) -> list[Atom]:
    """The initial carry in the types that it keeps."""
    b = current_trace().emit
    return [h.atom if h.aval.dtype == a.dtype else promote.convert(b, h, a.dtype) for h, a in zip_strict(init, avals)]


def _wrapped(atoms: Sequence[Atom], avals: Sequence[AbstractArray]) -> list[Any]:
    return [wrap(atom, aval.kind, current_trace()) for atom, aval in zip_strict(atoms, avals)]


# --- loops --------------------------------------------------------------------------------------------------------------------------------


@hides_frames
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: int = 1
) -> tuple[Any, Any]:
    """A loop over the leading axis of ``xs`` that carries a value and collects others.

    Args:
      f: the body, ``carry, y = f(carry, x)``; run once on tracers, for any step.
      init: the carry before the first step: a number, an array or a container of them. It is not changed: the carry is a value.
      xs: an array or a container of arrays with one leading size, or None; not changed either.
      length: the number of steps, needed where there are no xs.
      reverse: from the last to the first; ys keep the places of their xs.
      unroll: how many steps to put into one pass of the compiled loop.

    Returns:
      ``(carry, ys)``: the last carry, and the ys stacked along a new leading axis. A carry whose type changes is promoted once.

    Raises:
      StructureError: f returns no pair, the carry changes structure or shape, or lengths differ.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.scan(lambda c, x: (c + x, c), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    if not isinstance(unroll, int) or unroll < 1:
        raise ValueError(f"scan: unroll must be a positive int, not {unroll!r}")
    leaves, xs_tree = trees.flatten(xs)
    count = _length([np.shape(v) for v in leaves], length)
    if unroll > 1 and isinstance(count, int) and count >= unroll:
        return _unrolled(f, init, xs, count, reverse, unroll)
    if current_trace() is None:
        python_loops.check_data(trees.leaves(init), "scan: init")
        if count:
            return python_loops.scan(f, init, xs, count, reverse)
        done = python_loops.scan_of_nothing(f, init, xs)  # without any step only tracing can tell what ys are
        return _traced(lambda: _staged_scan(f, init, xs, count, reverse)) if done is None else done
    return _staged_scan(f, init, xs, count, reverse)


@dataclass(frozen=True)
class _Told:
    """As what messages speak of a loop: its name, the user's function, and what it gets per step."""

    kind: str
    function: Callable[..., Any]
    step: str


def _staged_scan(f: Callable[..., Any], init: Any, xs: Any, count: Any, reverse: bool, told: _Told | None = None) -> tuple[Any, Any]:
    """The loop as one equation of the present trace."""
    kind, function = ("scan", f) if told is None else (told.kind, told.function)
    leaves, xs_tree = trees.flatten(xs)
    steps = _handles(leaves, f"{kind}: xs")
    init_leaves, tree = trees.flatten(init)
    start = _handles(init_leaves, f"{kind}: init")
    slices = [_slice_type(h.aval) for h in steps]
    labels = [*_labels(tree, "carry"), *_labels(xs_tree, "x" if told is None else told.step)]
    ys_tree: Any = None

    def make(avals: list[AbstractArray]) -> tuple[_Body, list[Result]]:
        nonlocal ys_tree
        body = _stage_body(f, kind, (tree, xs_tree), [*avals, *slices], labels, function)
        parts = body.staged.out_tree.children() if body.staged.out_tree.type is tuple else []
        if kind == "fori_loop":
            python_loops.check_structure(kind, function, tree, parts[0])
        python_loops.check_pair(function, tree, parts)
        ys = body.staged.results[tree.num_leaves :]
        python_loops.check_data([r.constant for r in ys if r.aval is None], f"{kind}: what the body returns")
        ys_tree = parts[1]
        return body, body.staged.results[: tree.num_leaves]

    body, avals, results = _fixed_point(function, kind, start, make, labels[: len(avals_of(start))])
    ys = body.staged.results[tree.num_leaves :]
    carried, extra = len(avals), body.written
    order = [*body.constants, *range(carried), *extra, *range(carried, body.own)]
    new, y_atoms = body.new_values(), body.atoms(ys)
    outputs = [*body.atoms(results), *new, *y_atoms]
    graph = body.graph(order, outputs, [*avals, *(a.aval for a in new), *(a.aval for a in y_atoms)])
    operands = [*body.operands(body.constants), *_started(start, avals), *body.operands(extra), *(h.atom for h in steps)]
    params = {"graph": graph, "length": count, "reverse": reverse, "consts": len(body.constants), "carries": carried + len(extra)}
    outs = current_trace().emit.bind(scan_primitive, operands, params)
    state, updated, stacks = split_list(outs, carried, len(extra))
    body.update(updated)
    return trees.unflatten(tree, _wrapped(state, avals)), trees.unflatten(ys_tree, [wrap(a, Kind.ARRAY, current_trace()) for a in stacks])


def _unrolled(f: Callable[..., Any], init: Any, xs: Any, count: int, reverse: bool, unroll: int) -> tuple[Any, Any]:
    """Several steps per pass; those that are left over by themselves."""
    whole = count // unroll * unroll
    xs = python_loops.owned(xs)  # a body may write to the arrays that it goes along

    def several(carry: Any, chunk: Any) -> tuple[Any, Any]:
        ys = [None] * unroll
        for k in reversed(range(unroll)) if reverse else range(unroll):
            out = f(carry, python_loops.owned(trees.map(lambda v, k=k: v[k], chunk)))
            python_loops.check_pair(f, trees.structure(carry), [trees.structure(v) for v in out] if type(out) is tuple else [])
            carry, ys[k] = python_loops.owned(out[0], carry), python_loops.owned(out[1])
        return carry, trees.map(lambda *steps: np.stack(steps), *ys)

    chunks = trees.map(lambda v: v[:whole].reshape(whole // unroll, unroll, *np.shape(v)[1:]), xs)
    rest = trees.map(lambda v: v[whole:], xs)
    parts: list[Any] = [None, None]
    carry = init
    for part in (1, 0) if reverse else (0, 1):
        if part == 0:
            carry, ys = scan(several, carry, chunks, whole // unroll, reverse)
            parts[0] = trees.map(lambda v: v.reshape(whole, *np.shape(v)[2:]), ys)
        elif whole < count:
            carry, parts[1] = scan(f, carry, rest, count - whole, reverse)
    done = [p for k, p in enumerate(parts) if k == 0 or whole < count]
    return carry, done[0] if len(done) == 1 else trees.map(lambda *vs: np.concatenate(vs), *done)


def avals_of(handles: Sequence[Tracer]) -> list[AbstractArray]:
    """Their types."""
    return [h.aval for h in handles]


def _slice_type(aval: AbstractArray) -> AbstractArray:
    shape = aval.shape[1:]
    return AbstractArray(shape, aval.dtype, Kind.ARRAY if shape else Kind.SCALAR)


def _length(given: Sequence[tuple[Any, ...]], length: Any) -> Any:
    if length is not None:
        length = length if isinstance(length, Dim) else operator.index(length)
        if length < 0:
            raise StructureError(f"scan: length is {length}", where=where(), fix="give the number of steps")
    if any(not s for s in given):
        raise StructureError("scan: an array among xs has no axis to go along", where=where(), fix="give it one, or close over it")
    sizes = [*(s[0] for s in given), *([] if length is None else [length])]
    if not sizes or any(d != sizes[0] for d in sizes):
        what = f"lengths differ: {', '.join(str(n) for n in unique(sizes))}" if sizes else "the number of steps is unknown"
        raise StructureError(f"scan: {what}", where=where(), fix="give xs of one leading size, or length=")
    return sizes[0]


@hides_frames
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """A loop as long as a condition of the carry holds. It has derivatives in both modes.

    Args:
      cond_fun: from the carry to a bool.
      body_fun: from the carry to the next one, of the same structure and shapes.
      init_val: the carry to begin with; it is not changed.

    Returns:
      The first carry for which the condition does not hold.

    Raises:
      StructureError: the carry changes structure or shape, or the condition is no single bool.

    >>> import functx as fx
    >>> fx.while_loop(lambda v: v < 100, lambda v: v * 2, 3.0)
    192.0
    >>> fx.grad(lambda x: fx.while_loop(lambda v: v < 100, lambda v: v * 2, x))(3.0)
    64.0
    """
    if current_trace() is None:
        python_loops.check_data(trees.leaves(init_val), "while_loop: init_val")
        return python_loops.while_loop(cond_fun, body_fun, init_val)
    leaves, tree = trees.flatten(init_val)
    start, labels = _handles(leaves, "while_loop: init_val"), _labels(tree, "carry")

    def make(avals: list[AbstractArray]) -> tuple[_Body, list[Result]]:
        body = _stage_body(body_fun, "while_loop", (tree,), avals, labels)
        python_loops.check_structure("while_loop", body_fun, tree, body.staged.out_tree)
        return body, body.staged.results

    while True:
        body, avals, results = _fixed_point(body_fun, "while_loop", start, make, labels)
        asked = _stage_body(cond_fun, "while_loop", (tree,), avals, labels)
        if not (body.is_outdated or asked.is_outdated):
            break
        _release([body, asked])
    extra, new = body.written, body.new_values()
    held = [body.staged.trace.inputs[i] for i in extra]
    order = [*body.constants, *range(len(avals)), *extra]
    graph = body.graph(order, [*body.atoms(results), *new], [*avals, *(a.aval for a in new)])
    test, conds = _condition(asked, cond_fun, [s.outer for s in held], [s.var.aval for s in held])
    operands = [*asked.operands(conds), *body.operands(body.constants), *_started(start, avals), *body.operands(extra)]
    params = {"cond": test, "graph": graph, "conds": len(conds), "consts": len(body.constants), "steps": None}
    state, updated = split_list(current_trace().emit.bind(while_primitive, operands, params), len(avals))
    body.update(updated)
    return trees.unflatten(tree, _wrapped(state, avals))


def _condition(asked: _Body, f: Callable[..., Any], carried: Sequence[Any], avals: Sequence[AbstractArray]) -> tuple[Graph, list[int]]:
    """The condition as a graph of its constants, the carry, and the arrays that the body carries beside it."""
    if len(asked.staged.results) != 1 or asked.written:
        what = "returns no single bool" if len(asked.staged.results) != 1 else "writes to an array"
        raise StructureError(f"while_loop: the condition {function_source(f)} {what}", where=where(), fix="return one comparison")
    (atom,) = asked.atoms(asked.staged.results)
    python_loops.check_truth(f, atom.aval.shape)
    slots = asked.staged.trace.inputs
    place = {id(outer): k for k, outer in enumerate(carried)}
    shared = {i: place[id(slots[i].outer)] for i in asked.constants if id(slots[i].outer) in place}
    conds = [i for i in asked.constants if i not in shared]
    graph = asked.graph(range(len(slots)), [atom], [AbstractArray((), BOOL)])
    by_place = {k: i for i, k in shared.items()}
    rest = [graph.inputs[by_place[k]] if k in by_place else Input(_variable(a)) for k, a in enumerate(avals)]
    return graph.replace(inputs=tuple([*(graph.inputs[i] for i in conds), *graph.inputs[: asked.own], *rest])), conds


def _variable(aval: AbstractArray) -> Var:
    return Var(AbstractArray(aval.shape, aval.dtype))


@hides_frames
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """``for i in range(lower, upper): val = body_fun(i, val)``, with bounds that may be traced.

    Args:
      lower, upper: ints.
      body_fun: from the number of the step and the carry to the next carry.
      init_val: the carry to begin with; it is not changed.

    Returns:
      The carry after the last step.

    Raises:
      StructureError: the carry changes structure or shape.

    >>> import functx as fx
    >>> fx.fori_loop(0, 5, lambda i, v: v + i, 0)
    10
    """
    if current_trace() is None:
        python_loops.check_data(trees.leaves(init_val), "fori_loop: init")
        return python_loops.fori_loop(lower, upper, body_fun, init_val)
    lower, upper = (_known_int(_bound_of_range(v)) for v in (lower, upper))
    if all(isinstance(v, (int, Dim)) for v in (lower, upper)):
        count = shapes.count(lower, upper, 1)
        told = _Told("fori_loop", body_fun, "step")
        steps = promote.positions(count) + lower
        carry, _ = _staged_scan(lambda c, i: (body_fun(_as_python(i), c), None), init_val, steps, count, False, told)
        return carry
    (first,) = promote.handles([lower])
    start = first if first.kind is Kind.PYTHON else first + 0
    return while_loop(lambda s: s[0] < upper, lambda s: (s[0] + 1, body_fun(s[0], s[1])), (start, init_val))[1]


def _bound_of_range(v: Any) -> Any:
    """An integer, traced or not; TypeError for what range would not take either."""
    if isinstance(v, Tracer) and (v.aval.shape != () or v.aval.dtype.kind not in "iu"):
        raise TypeError(f"fori_loop: the bounds are integers, and one of them is a {v.aval}")
    return v if isinstance(v, (Tracer, Dim)) else operator.index(v)


def _known_int(v: Any) -> Any:
    """A traced int as a plain one where its value is known anyway."""
    return int(v.value()) if isinstance(v, Tracer) and v.aval.dtype.kind in "iu" and is_known(v.stage, v.atom) else v


def _as_python(i: Tracer) -> Tracer:
    """A step's number as the Python int that range would give."""
    return current_trace().tracer(i.atom, Kind.PYTHON)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """``f`` of every element along the leading axis, stacked.

    Args:
      f: a function of one element; run once on tracers, for any of them.
      xs: an array or a container of arrays with one leading size.
      batch_size: None: one element after the other. An int: so many at a time, by vmap.

    Returns:
      The results with a new leading axis.

    Raises:
      StructureError: leading sizes differ, or an array has no axis.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.map(lambda x: x * 2, np.arange(3))
    array([0, 2, 4])
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    if operator.index(batch_size) < 1:
        raise ValueError(f"map: batch_size must be a positive int, not {batch_size!r}")
    n = _length([np.shape(v) for v in trees.leaves(xs)], None)
    if not n:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    whole = n // batch_size * batch_size
    parts, rest = [], python_loops.owned(trees.map(lambda v: v[whole:], xs))
    if whole:
        chunks = trees.map(lambda v: v[:whole].reshape(n // batch_size, batch_size, *np.shape(v)[1:]), xs)
        done = scan(lambda _, x: (None, vmap(f)(x)), None, chunks)[1]
        parts.append(trees.map(lambda v: v.reshape(whole, *np.shape(v)[2:]), done))
    if whole < n:
        parts.append(vmap(f)(rest))
    return parts[0] if len(parts) == 1 else trees.map(lambda *vs: np.concatenate(vs), *parts)


@hides_frames
def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """``true_fun(*operands)`` where ``pred`` holds, else ``false_fun(*operands)``; only that one is run. The result owns its memory.

    On concrete values too it has the types that join those of both branches, where the other one's can be told without running it.

    Args:
      pred: one bool.
      true_fun, false_fun: functions with results of one structure and of the same shapes; dtypes are promoted.
      operands: what they are called with: arrays, numbers and containers of them.

    Raises:
      StructureError: the results differ in structure or shape, or pred is no single bool.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.grad(lambda x: fx.cond(x > 0, np.sqrt, lambda v: 0.0 * v, x))(4.0)
    0.25
    """
    trace = current_trace()
    if np.shape(pred) != ():
        what = f"cond: pred is an array of shape {np.shape(pred)}"
        raise StructureError(what, where=where(), why="one branch is taken or the other", fix="np.where(pred, a, b) chooses per element")
    if isinstance(pred, Condition):
        pred = promote.as_handle(trace, pred)
    python_loops.check_data([pred], "cond: pred")
    python_loops.check_data(trees.leaves(operands), "cond: operands")
    if trace is None:
        return python_loops.choose("cond", bool(pred), [false_fun, true_fun], operands)
    (h,) = promote.handles_in(trace, [pred])
    truth = h.atom if h.aval.dtype == BOOL else trace.emit.ne(h.atom, trace.emit.zeros_like(h.atom))
    index = trace.emit.convert(truth, dtype=INT64, checked=False)
    return _choose("cond", index, [false_fun, true_fun], operands)


@hides_frames
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index outside takes the nearest branch. Only that one is run, and the result owns its memory.

    Args:
      index: one integer.
      branches: functions with results of one structure and of the same shapes; dtypes are promoted.
      operands: what they are called with: arrays, numbers and containers of them.

    Raises:
      StructureError: the results differ in structure or shape, the index is no single integer, or there is no branch.

    >>> import functx as fx
    >>> fx.switch(1, [lambda x: x, lambda x: -x], 2.0)
    -2.0
    """
    if isinstance(index, Dim):
        index = promote.as_handle(current_trace(), index)
    python_loops.check_data([index], "switch: index")
    python_loops.check_data(trees.leaves(operands), "switch: operands")
    branches, fix = list(branches), "give one integer, and at least one branch"
    if not branches:
        raise StructureError("switch: there is no branch", where=where(), fix=fix)
    if type(index) is int:
        index = _nearest(index, len(branches))
    aval = tensors.type_of(index) or type_of(index)
    if aval.shape != () or aval.dtype.kind not in "iu":
        raise StructureError(f"switch: the index is a {aval}", where=where(), fix=fix)
    if current_trace() is None:
        return python_loops.choose("switch", _nearest(int(index), len(branches)), branches, operands)
    if aval.dtype == np.uint64:  # half of them are no int64
        index = np.minimum(index, np.uint64(len(branches)))
    (h,) = promote.handles_in(current_trace(), [index])
    return _choose("switch", promote.convert(current_trace().emit, h, INT64), branches, operands)


def _nearest(number: int, count: int) -> int:
    """The number of the branch that an index outside of them takes."""
    return min(max(number, 0), count - 1)


def _choose(kind: str, index: Atom, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    leaves, tree = trees.flatten(tuple(operands))
    given = trees.unflatten(tree, _handles(leaves, f"{kind}: operands"))
    # A branch may write to operands, as it may to what it closes over.
    branches = [update_wrapper(partial(f, *given), f) for f in functions]
    bodies = [_stage_body(f, kind, (), (), ()) for f in branches]
    while any(body.is_outdated for body in bodies):
        _release(bodies)
        bodies = [_stage_body(f, kind, (), (), ()) for f in branches]
    told = [Told(b.staged.out_tree, [r.aval or type_of_value(r.constant) for r in b.staged.results]) for b in bodies]
    avals = python_loops.joined_branches(kind, functions, told)
    return _bound(index, bodies, avals, told[0].tree)


def _bound(index: Atom, bodies: Sequence[_Body], avals: Sequence[AbstractArray], out_tree: Any) -> Any:
    """One equation for all branches: each takes what any of them reads, and hands on what any of them writes."""
    outer: dict[int, Any] = {}
    for body in bodies:
        slots = body.staged.trace.inputs
        outer.update((id(slots[i].outer), slots[i]) for i in [*body.constants, *body.written])
    written = {id(body.staged.trace.inputs[i].outer) for body in bodies for i in body.written}
    graphs = {}
    for k, body in enumerate(bodies):
        slots = body.staged.trace.inputs
        mine = {id(slots[i].outer): i for i in [*body.constants, *body.written]}
        new = dict(zip_strict((id(slots[i].outer) for i in body.written), body.new_values()))
        extra = {key: Input(_variable(slot.var.aval)) for key, slot in outer.items() if key not in mine}
        kept = [new.get(key) or (slots[mine[key]].var if key in mine else extra[key].var) for key in outer if key in written]
        types = [*avals, *(outer[key].var.aval for key in outer if key in written)]
        graph = body.graph(range(len(slots)), [*body.atoms(body.staged.results), *kept], types)
        inputs = [graph.inputs[mine[key]] if key in mine else extra[key] for key in outer]
        graphs[f"branch{k}"] = graph.replace(inputs=tuple(inputs))
    operands = [index, *(slot.outer_atom for slot in outer.values())]
    outs = current_trace().emit.bind(cond_primitive.cond, operands, graphs)
    results, updated = split_list(outs, len(avals))
    for key, atom in zip_strict([key for key in outer if key in written], updated):
        mutation.write(outer[key].outer, atom)
    _release(bodies)
    return trees.unflatten(out_tree, _wrapped(results, avals))
