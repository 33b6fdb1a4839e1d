"""vjp of a jitted function: a compiled forward half that returns residuals, and a compiled backward half.

The forward half is a jitted function itself, found again by the same kind of key. Beside the results it returns the residuals and, as a
constant, the :class:`Backward` half that belongs to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Container, Sequence
from typing import Any

from functx import tensors, trees
from functx.dims import HINT, Dim
from functx.dtypes import UINT8, Kind
from functx.ir import AbstractArray, Atom, Graph, Input, InRole, Var
from functx.resize import fitted, symbols_of
from functx.sizes import Sizes
from functx.source import hides_frames
from functx.trace import Tracer, current_trace, type_of_value
from functx.transforms.arguments import flatten_arguments, with_fixed
from functx.transforms.boundary import deliver, execute, input_values
from functx.transforms.differentiation import (
    Differentiated,
    gradient_places,
    gradient_tree,
    has_derivative,
    joint_graph_of,
    stage_differentiated,
)
from functx.transforms.halves import partition_joint
from functx.transforms.linear_maps import fitting, has_tangent, primary_tree
from functx.transforms.planning import PartitionOptions
from functx.transforms.pullbacks import cotangent_leaves
from functx.util import zip_strict

Jit = Callable[[Callable[..., Any]], Any]


class CompiledVjp:
    """The forward half of a function, for all types of arguments.

    Args:
      f: the function.
      has_aux: whether it returns auxiliary data beside its results.
      jit: compiles a function, under the options of the jitted one.
      options: what is kept between the halves.
      static: the positions of arguments that f takes as they are.
      jit_backward: compiles the backward half, where that takes other options.
      wanted: the leaves of the arguments to differentiate, by number; None: all that have a derivative.
      watched: the caller notices when arguments or results are changed later, so that residuals may be these very arrays, not copies.

    Attributes:
      forward: the compiled forward half. It returns what f returns, the residuals, and the :class:`Backward` half.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        has_aux: bool,
        jit: Jit,
        options: PartitionOptions,
        *,
        static: Sequence[int] = (),
        jit_backward: Jit | None = None,
        wanted: Container[int] | None = None,
        watched: bool = False,
    ):
        self._f, self._has_aux, self._options, self._wanted, self._watched = f, has_aux, options, wanted, watched
        self._static, self._jit_backward = static, jit_backward or jit

        @functools.wraps(f)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._trace(args, kwargs)

        self.forward = jit(forward)

    def __call__(self, primals: Sequence[Any]) -> Any:
        """``(out, pull)``, or ``(out, pull, aux)``."""
        result, residuals, backward = self.forward(*primals)

        @hides_frames
        def pull(ct: Any) -> tuple[Any, ...]:
            return backward.pull(residuals, ct)

        return (result[0], pull, result[1]) if self._has_aux else (result, pull)

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is traced: results, residuals, and the half that takes them."""
        fixed = {i % len(args): args[i] for i in self._static if -len(args) <= i < len(args)}
        f = with_fixed(self._f, fixed, {})
        arguments = flatten_arguments(f, tuple(v for i, v in enumerate(args) if i not in fixed), kwargs)
        chosen = range(len(arguments.leaves)) if self._wanted is None else self._wanted
        d = stage_differentiated(f, "vjp", arguments, {i for i, v in enumerate(arguments.leaves) if i in chosen and has_derivative(v)})
        out_tree = primary_tree(d.staged, self._has_aux)
        targets = [r for r in d.staged.results[: out_tree.num_leaves] if has_tangent(r)]
        cts = [Var(AbstractArray(r.aval.shape, r.aval.dtype)) for r in targets]
        joint, _ = joint_graph_of(d.staged, d.active, [(r.value, ct) for r, ct in zip_strict(targets, cts)], cts)
        halves = partition_joint(joint, self._options)
        outs = execute(halves.forward, input_values(d.staged, d.parent), d.parent)
        count = len(d.staged.graph.outputs)
        graph, sizes = with_sizes(halves.backward, len(outs) - count, d.parent.sizes)
        outs += [d.parent.emit.full(aval.shape, 0, aval.dtype) for aval in sizes]
        backward = Backward(graph, d, out_tree, self._jit_backward, fixed)
        result = deliver(d.staged, outs[:count], d.parent)
        at_hand = _at_hand(d, result) if self._watched else {}
        return result, [at_hand[a] if a in at_hand else d.parent.tracer(a) for a in outs[count:]], backward


def _at_hand(d: Differentiated, result: Any) -> dict[Atom, Tracer]:
    """The handles of arguments that were not written and of results that own their memory, by their values."""
    arguments = [d.staged.trace.inputs[i].outer for i in d.slots if i is not None]
    handles = [h for h in (*arguments, *trees.leaves(result)) if isinstance(h, Tracer) and h.kind is Kind.ARRAY and h.parent is None]
    written = {id(h) for h in arguments if h.root.generation > 0}
    return {h.atom: h for h in reversed(handles) if id(h) not in written}


def with_sizes(graph: Graph, residuals: int, sizes: Sizes) -> tuple[Graph, list[AbstractArray]]:
    """A backward graph all of whose symbolic sizes are seen in its residuals: those that are not get residuals of their own, which have no
    elements. Returns also their types.
    """
    if not graph.symbolic:
        return graph, []
    seen = {d.expr for var in graph.in_vars[:residuals] for d in var.aval.shape if isinstance(d, Dim)}
    missing = [Dim(str(s)).within(sizes, sizes.present.get(s, HINT)) for s in sorted(symbols_of(graph) - seen, key=str)]
    avals = [AbstractArray((dim, 0), UINT8) for dim in missing]
    inputs = (*graph.inputs[:residuals], *(Input(Var(a), InRole.RESIDUAL) for a in avals), *graph.inputs[residuals:])
    return graph.replace(inputs=inputs), avals


def _type_of(value: Any) -> AbstractArray:
    """The type of a residual: a traced value, an array, or a tensor of a GPU."""
    return value.aval if isinstance(value, Tracer) else tensors.type_of(value) or type_of_value(value)


class Backward:
    """A backward half: residuals and cotangents to gradients. It is callable, as constant results of traced functions must be.

    Attributes:
      with_tangent: per leaf of the results whether it has a cotangent.
    """

    def __init__(self, graph: Graph, d: Differentiated, out_tree: Any, jit: Jit, fixed: Collection[int]):
        self._graph, self._out_tree = graph, out_tree
        self.with_tangent = [has_tangent(r) for r in d.staged.results[: out_tree.num_leaves]]
        places = iter([gradient_places(d, n) for n in range(len(d.arguments.spans))])
        self._gradients = [None if n in fixed else next(places) for n in range(len(d.arguments.spans) + len(fixed))]

        def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return self(residuals, cts)

        backward.__name__ = backward.__qualname__ = f"backward of {d.staged.trace.name}"
        self._run = jit(backward)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The gradients, inside a trace. A cotangent of None is zero."""
        trace = current_trace()
        atoms = [trace.handle(r).atom for r in residuals]
        graph = fitted(self._graph, atoms)
        cotangents = graph.in_vars[len(atoms) :]
        atoms += [trace.emit.zeros_like(v) if ct is None else trace.handle(ct).atom for v, ct in zip_strict(cotangents, cts)]
        return [trace.tracer(a) for a in trace.inline(graph, atoms)]

    def gradients(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the differentiated leaves, in order, for arrays that fit the leaves of the results (None: zero)."""
        return self._run(residuals, [ct for ct, flag in zip_strict(cts, self.with_tangent) if flag])

    def pull(self, residuals: Sequence[Any], ct: Any) -> tuple[Any, ...]:
        """The cotangents of all arguments, in their structure."""
        given = [v for v, flag in zip_strict(cotangent_leaves(ct, self._out_tree), self.with_tangent) if flag]
        trace = current_trace()
        types = fitted(self._graph, [Var(_type_of(v)) for v in residuals])
        cotangents = types.in_vars[len(residuals) :]
        cts = [None if v is None else fitting(v, var, "cotangent") for v, var in zip_strict(given, cotangents)]
        values = self._run(residuals, cts)
        done = [v if trace is None else trace.handle(v).atom for v in values]
        return tuple(gradient_tree(places, done, trace) for places in self._gradients)
