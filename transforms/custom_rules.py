"""custom_jvp and custom_vjp: functions with derivative rules of their own.

Rules are traced when the function is called inside a trace, once per types where nothing stands in the way, and kept as graphs in the
parameters of one equation. A call of the same rule with the same types inside its own rule is recorded as an equation whose rule is SELF.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import shapes, trees
from functx.collectives import bound_axes
from functx.dtypes import is_complex, is_inexact
from functx.errors import CustomRuleError
from functx.ir import AbstractArray, Atom, Graph, Input, InRole, Output, Var
from functx.ops import higher_order
from functx.ops.higher_order import SELF
from functx.source import function_source
from functx.trace import Trace, Tracer, current_trace, outermost, where
from functx.transforms.arguments import check_callable, is_traced_leaf, leaves_or_none, positional_names, with_fixed
from functx.transforms.boundary import wrap
from functx.transforms.entries import typed_value
from functx.transforms.self_calls import closing_over
from functx.transforms.staging import Result, Staged, stage
from functx.transforms.subgraphs import SubGraph, stage_subgraph

_serial = itertools.count(1)

# How often a rule may call its own function with ever new static arguments (the Bessel function of order n calls those of n - 1 and n + 1):
# derivatives up to this order exist.
MAX_NESTING = 4


@dataclass
class _Body:
    """One traced function of a rule: its graph, and the outer handles that it closes over (its last inputs)."""

    graph: Graph
    captured: list[Tracer]
    pure: bool  # nothing was looked at or closed over: the graph holds for all arguments of these types

    @classmethod
    def of(cls, staged: Staged, outputs: Sequence[Atom]) -> _Body:
        trace = staged.trace
        captured = [slot.outer for slot in trace.inputs if slot.role is InRole.CAPTURED]
        graph = staged.graph.replace(outputs=tuple(Output(a) for a in outputs))
        binds = any(eqn.primitive.binds for eqn in graph.eqns)  # each use of it has sizes of its own
        return cls(graph, captured, not (trace.demanded or captured or binds))


@dataclass(frozen=True)
class _Call:
    """The arguments of one call: those with derivatives, and by position those that the rule takes as they are."""

    args: tuple[Any, ...]
    fixed: dict[int, Any]

    def key(self) -> tuple[Any, bool]:
        """What tells the fixed arguments apart, and whether it still does when they are gone."""
        parts, lasting = [], True
        for n, value in self.fixed.items():
            part = None if isinstance(value, (Tracer, np.ndarray)) else typed_value(value)
            if part is None or not _is_hashable(part):
                part, lasting = id(value), False
            parts.append((n, part))
        return tuple(parts), lasting


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class _CustomRule:
    """What custom_jvp and custom_vjp share."""

    kind = ""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()):
        functools.update_wrapper(self, check_callable(f, self.kind))
        self._f = f
        self._fixed = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        # By outermost trace: the rule's functions may read Python values that change from one call of a transform to the next.
        self._memo: weakref.WeakKeyDictionary[Trace, dict[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        parent = current_trace()
        if parent is None:
            return self._f(*args, **kwargs)
        call = self._take(self._positional(args, kwargs))
        sub = stage_subgraph(with_fixed(self._f, call.fixed, {}), self.kind, call.args, {}, parent, share=False)
        if any(slot.written for slot in sub.staged.trace.inputs):
            raise self._error("writes to its arguments", "a custom rule describes a pure function", "copy what it changes")
        results = [r for r in sub.staged.results if r.aval is not None]
        primal = _Body.of(sub.staged, [sub.staged.graph.outputs[r.value].atom for r in results])
        params, captured = self._params(sub, primal, call, parent)
        operands = [slot.outer_atom for slot in sub.staged.trace.inputs if slot.role is not InRole.CAPTURED]
        operands += [parent.lift(h).atom for h in captured]
        outs = iter(parent.emit.bind(self._primitive, operands, {**params, "captures": len(captured)}))
        leaves = [r.constant if r.aval is None else wrap(next(outs), r.aval.kind, parent) for r in sub.staged.results]
        return trees.unflatten(sub.staged.out_tree, leaves)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults too, as the functions of a rule take them."""
        try:
            bound = inspect.signature(self._f).bind(*args, **kwargs)
        except ValueError:  # it tells no signature
            return args
        if bound.kwargs:
            what = f"takes {sorted(bound.kwargs)} by keyword only"
            raise self._error(what, "its rule receives arguments by position", "make them positional")
        bound.apply_defaults()
        return bound.args

    def _take(self, args: tuple[Any, ...]) -> _Call:
        """Separate the arguments that the rule takes as they are."""
        odd = [n for n in self._fixed if not -len(args) <= n < len(args)]
        if odd:
            raise self._error(f"was called with {len(args)} arguments, so that nondiff_argnums {odd[0]} names none")
        fixed = {n: args[n] for n in sorted(n % len(args) for n in self._fixed)}
        return _Call(tuple(v for n, v in enumerate(args) if n not in fixed), fixed)

    def _params(self, sub: SubGraph, primal: _Body, call: _Call, parent: Trace) -> tuple[dict[str, Any], list[Tracer]]:
        """The graphs of the rule, and the handles that they close over."""
        leaves = [_leaf_type(v, slot, sub) for v, slot in zip(sub.arguments.leaves, sub.slots, strict=True)]
        fixed, told_apart = call.key()
        sizes = tuple((name, size) for name, (_, size) in bound_axes(parent).items())
        key = (id(self), sub.arguments.treedef, tuple(leaves), fixed, sizes)
        arguments = sum(slot is not None for slot in sub.slots)
        name = _name_while_tracing(parent, key)
        if name is not None:
            rule: dict[str, Any] = {"rule": name, **self._self_rule(sub)}
            return {"graph": _aligned(primal, arguments, primal.captured), **rule}, primal.captured
        nesting = _nesting(parent, id(self))
        memo = self._memo.setdefault(outermost(parent), {})
        if (key, nesting) in memo and primal.pure:
            return memo[key, nesting], []
        name = f"{getattr(self._f, '__name__', 'f')}#{next(_serial)}"
        if nesting == MAX_NESTING:  # SELF without an enclosing equation of this name: a derivative is refused
            return {"graph": _aligned(primal, arguments, primal.captured), "rule": name, **self._self_rule(sub)}, primal.captured
        bodies, extra = self._trace_rule(sub, call, parent, (key, name))
        captured = _distinct([*primal.captured, *(h for body in bodies.values() for h in body.captured)])
        graphs = {key: _aligned(body, self._capture_place(key, arguments), captured) for key, body in bodies.items()}
        whole = _aligned(primal, arguments, captured)
        graphs = {key: closing_over(graph, name, whole, _captured_inputs(graph)) for key, graph in graphs.items()}
        params = {"graph": whole, **graphs, **extra, "rule": name}
        if told_apart and primal.pure and all(body.pure for body in bodies.values()):
            memo[key, nesting] = params
        return params, captured

    def _error(self, what: str, why: str = "", fix: str = "") -> CustomRuleError:
        return CustomRuleError(f"{function_source(self._f)}, which has a {self.kind} rule, {what}", where=where(), why=why, fix=fix)


def _name_while_tracing(trace: Trace | None, key: Any) -> str | None:
    """The name of the rule with this key, if it is the innermost one of its function that is being traced."""
    while trace is not None and (trace.rule is None or trace.rule[0][0] != key[0]):
        trace = trace.parent
    return trace.rule[1] if trace is not None and trace.rule[0] == key else None


def _leaf_type(value: Any, slot: int | None, sub: SubGraph) -> Any:
    return typed_value(value) if slot is None else sub.staged.trace.inputs[slot].var.aval


def _distinct(handles: Sequence[Tracer]) -> list[Tracer]:
    return list({id(h): h for h in handles}.values())


def _aligned(body: _Body, place: int, captured: Sequence[Tracer]) -> Graph:
    """The body's graph with one input for every handle that the rule closes over, at ``place``; its own are its last inputs."""
    inputs = list(body.graph.inputs)
    own = {id(h): slot for h, slot in zip(body.captured, inputs[len(inputs) - len(body.captured) :], strict=True)}
    given = inputs[: len(inputs) - len(body.captured)]
    all_captured = [own.get(id(h)) or Input(Var(h.aval), InRole.CAPTURED) for h in captured]
    return body.graph.replace(inputs=(*given[:place], *all_captured, *given[place:]))


def _captured_inputs(graph: Graph) -> list[Var]:
    return [slot.var for slot in graph.inputs if slot.role is InRole.CAPTURED]


def _nesting(trace: Trace | None, owner: int) -> int:
    """How many of a trace and those that enclose it trace rules of one function."""
    if trace is None:
        return 0
    return (trace.rule is not None and trace.rule[0][0] == owner) + _nesting(trace.parent, owner)


class custom_jvp(_CustomRule):  # noqa: N801 - a function in all but implementation
    """A function with a forward-mode rule: ``@custom_jvp``, then ``@f.defjvp``.

    The rule ``jvp(primals, tangents) -> (out, out_tangent)`` must be linear in the tangents; reverse mode follows by transposing it.
    Tangents of integer arguments are None. Arguments numbered in ``nondiff_argnums`` (``custom_jvp(f, nondiff_argnums=(1,))``) have no
    derivative and may be anything: the rule gets them first, ``jvp(*nondiff, primals, tangents)``, and the others in the tuples.

    >>> import numpy as np
    >>> import functx as fx
    >>> @fx.custom_jvp
    ... def f(x):
    ...     return np.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 2.0 * np.cos(x) * t
    >>> fx.grad(f)(0.0)
    2.0
    """

    kind = "custom_jvp"
    _primitive = higher_order.custom_jvp
    _rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; returns it, so that it works as a decorator."""
        self._rule = jvp
        return jvp

    def _self_rule(self, sub: SubGraph) -> dict[str, Any]:
        return {"jvp": SELF}

    def _capture_place(self, name: str, arguments: int) -> int:
        return arguments

    def _trace_rule(self, sub: SubGraph, call: _Call, parent: Trace, rule: Any) -> tuple[dict[str, _Body], dict[str, Any]]:
        if self._rule is None:
            raise self._error("was called before its rule was set", fix="set it with @f.defjvp")
        values = _Inputs(self._rule, self.kind, call, rule)
        primals = values.like(sub)
        tangents = [values.unknown(h.aval) if isinstance(h, Tracer) else None for h in primals]
        shown = [t if t is not None and is_inexact(t.aval.dtype) else None for t in tangents]
        staged = values.stage(trees.unflatten(_args_tree(sub), primals), trees.unflatten(_args_tree(sub), shown))
        children = staged.out_tree.children() if staged.out_tree.type in (tuple, list) else []
        count = len(sub.staged.results)
        if len(children) != 2 or children[0] != sub.staged.out_tree:
            raise self._error("has a rule that does not return a pair of results and tangents", fix="return out, out_tangent")
        moved = _spread(sub.staged.out_tree, children[1], staged.results[count:])
        if moved is None:
            raise self._error(
                f"has a rule whose tangents have structure {trees.show(children[1])}; the results have {trees.show(sub.staged.out_tree)}"
            )
        outputs = _matching(self, sub.staged, staged, staged.results[:count], "result")
        outputs += _matching(self, sub.staged, staged, [Result(constant=0.0) if r is None else r for r in moved], "tangent")
        return {"jvp": _Body.of(staged, outputs)}, {}


class custom_vjp(_CustomRule):  # noqa: N801
    """A function with a reverse-mode rule: ``@custom_vjp``, then ``f.defvjp(fwd, bwd)``.

    ``fwd(*args) -> (out, residuals)`` and ``bwd(residuals, ct) -> cotangents``, a tuple with one entry per argument (None: zero). Forward
    mode follows by transposing ``bwd``, which must then be linear in ``ct``. Arguments numbered in ``nondiff_argnums`` have no derivative
    and may be anything: ``fwd`` gets them in their places, ``bwd`` first, ``bwd(*nondiff, residuals, ct)``, with no cotangents for them.

    >>> import numpy as np
    >>> import functx as fx
    >>> @fx.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    >>> fx.grad(lambda x: 5.0 * clipped(x))(2.0)
    1.0
    """

    kind = "custom_vjp"
    _primitive = higher_order.custom_vjp
    _fwd: Callable[..., Any] | None = None
    _bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule."""
        self._fwd, self._bwd = fwd, bwd

    def _self_rule(self, sub: SubGraph) -> dict[str, Any]:
        return {"fwd": SELF, "bwd": SELF, "positions": ()}

    def _capture_place(self, name: str, arguments: int) -> int:
        return arguments if name == "fwd" else 0

    def _trace_rule(self, sub: SubGraph, call: _Call, parent: Trace, rule: Any) -> tuple[dict[str, _Body], dict[str, Any]]:
        if self._fwd is None or self._bwd is None:
            raise self._error("was called before its rule was set", fix="set it with f.defvjp(fwd, bwd)")
        fwd = with_fixed(self._fwd, call.fixed, {})
        forward = stage_subgraph(fwd, self.kind, call.args, {}, parent, share=False, rule=rule).staged
        children = forward.out_tree.children() if forward.out_tree.type is tuple else []
        if len(children) != 2 or children[0] != sub.staged.out_tree:
            raise self._error("has a fwd that does not return its results and residuals", fix="return out, residuals")
        count = children[0].num_leaves
        residuals = [r for r in forward.results[count:] if r.aval is not None]
        outputs = _matching(self, sub.staged, forward, forward.results[:count], "result")
        outputs += [forward.graph.outputs[r.value].atom for r in residuals]
        values = _Inputs(self._bwd, self.kind, call, rule)
        saved = [r.constant if r.aval is None else values.known(r.aval, forward, r.value) for r in forward.results[count:]]
        cts = [r.constant if r.aval is None else values.unknown(r.aval) for r in sub.staged.results]
        backward = values.stage(trees.unflatten(children[1], saved), trees.unflatten(sub.staged.out_tree, cts))
        positions, gradients = self._cotangents(sub, backward)
        return {"fwd": _Body.of(forward, outputs), "bwd": _Body.of(backward, gradients)}, {"positions": positions}

    def _cotangents(self, sub: SubGraph, backward: Staged) -> tuple[tuple[int, ...], list[Atom]]:
        """Which inputs get a cotangent, and its atom, of the input's type."""
        given = _cotangent_results(backward)
        expected = _args_tree(sub).children()
        if len(given) != len(expected):
            names = ", ".join(positional_names(sub.f, len(expected)))
            raise self._error(
                f"has a bwd that returns {len(given)} cotangents for {len(expected)} arguments",
                fix=f"return a tuple with one per argument ({names}), None for one without derivative",
            )
        per_leaf: list[Any] = []
        for i, (tree, (own, results)) in enumerate(zip(expected, given, strict=True)):
            spread = _spread(tree, own, results)
            if spread is None:
                name = positional_names(sub.f, len(expected))[i]
                raise self._error(
                    f"has a bwd whose cotangent of argument '{name}' has structure {trees.show(own)}; the argument has {trees.show(tree)}"
                )
            per_leaf += spread
        positions, atoms = [], []
        for result, slot, label in zip(per_leaf, sub.slots, sub.arguments.labels, strict=True):
            aval = None if slot is None else sub.staged.trace.inputs[slot].var.aval
            if result is not None and aval is not None and is_inexact(aval.dtype):
                positions.append(slot)
                atoms.append(_typed(self, backward, result, aval, f"cotangent of argument {label}"))
        return tuple(positions), atoms


class _Inputs:
    """Inputs of a rule that are no arguments of the caller: residuals, tangents, cotangents."""

    def __init__(self, f: Callable[..., Any], transform: str, call: _Call, rule: Any):
        self.f, self.trace, self.fixed = f, Trace(function_source(f), transform), tuple(call.fixed.values())
        self.trace.rule = rule

    def unknown(self, aval: AbstractArray) -> Tracer:
        return self.trace.add_input(aval, hidden=True, label="of the rule").handle

    def known(self, aval: AbstractArray, staged: Staged, output: int) -> Tracer:
        """A residual: its value can be had where the forward rule's is."""
        atom = staged.graph.outputs[output].atom
        return self.trace.add_input(aval, specialize=lambda: staged.trace.demand(atom), label="a residual").handle

    def like(self, sub: SubGraph) -> list[Any]:
        """Handles for the argument leaves of a sub-graph."""
        out = []
        for value, slot in zip(sub.arguments.leaves, sub.slots, strict=True):
            if slot is None:
                out.append(value)
                continue
            source = sub.staged.trace.inputs[slot]
            out.append(self.trace.add_input(source.var.aval, outer=source.outer, outer_atom=source.outer_atom, label=source.label).handle)
        return out

    def stage(self, *args: Any) -> Staged:
        return stage(self.f, self.trace, (*self.fixed, *args), {})


def _args_tree(sub: SubGraph) -> Any:
    return sub.arguments.treedef.children()[0]


def _cotangent_results(staged: Staged) -> list[tuple[Any, list[Result]]]:
    """Per returned cotangent its structure and the results of its leaves."""
    trees_ = staged.out_tree.children() if staged.out_tree.type in (tuple, list) else [staged.out_tree]
    out, start = [], 0
    for tree in trees_:
        results = staged.results[start : start + tree.num_leaves]
        out.append((tree, results))
        start += tree.num_leaves
    return out


def _spread(expected: Any, tree: Any, results: Sequence[Result]) -> list[Result | None] | None:
    """The results for the leaves of a structure, None where a None stands for some; None if they do not fit."""
    return leaves_or_none(expected, trees.unflatten(tree, results))


def _matching(rule: _CustomRule, primal: Staged, staged: Staged, results: Sequence[Result], what: str) -> list[Atom]:
    """The atoms of some results of a rule, of the types of the primal results that they stand for."""
    return [_typed(rule, staged, own, r.aval, what) for r, own in zip(primal.results, results, strict=True) if r.aval is not None]


def _typed(rule: _CustomRule, staged: Staged, result: Result, aval: AbstractArray, what: str) -> Atom:
    """A rule's result as an atom of exactly the type wanted: floats are converted, 0-d zeros broadcast, other shapes refused."""
    b = staged.trace.builder
    if result.aval is None:
        constant = staged.trace.handle(result.constant) if is_traced_leaf(result.constant) else None
        atom = constant.atom if constant is not None else None
    else:
        atom = staged.graph.outputs[result.value].atom
    if atom is None or (atom.aval.shape != aval.shape and atom.aval.shape != ()):
        is_what = "is no array" if atom is None else f"has shape {shapes.show(atom.aval.shape)}"
        raise rule._error(f"has a rule whose {what} {is_what} where shape {shapes.show(aval.shape)} is needed")
    if is_complex(atom.aval.dtype) and not is_complex(aval.dtype):
        raise rule._error(f"has a rule whose {what} has dtype {atom.aval.dtype} where {aval.dtype} is needed", fix="take its real part")
    if atom.aval.dtype != aval.dtype:
        atom = b.convert(atom, dtype=aval.dtype, checked=False)
    if atom.aval.shape != aval.shape:
        atom = b.broadcast(atom, shape=aval.shape, dims=())
    staged.graph = b.build(staged.graph.inputs, staged.graph.outputs)
    return atom
