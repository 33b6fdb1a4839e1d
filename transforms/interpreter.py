"""The transforms as functions from graphs to graphs, in one object that rules of higher-order primitives receive as ``b.interpreter``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from functx import effects
from functx.dtypes import is_inexact
from functx.ir import AbstractArray, Atom, Graph, Input, InRole, Mark, Output, OutRole, Var
from functx.primitive import Emitter
from functx.transforms.batching import emit_vmap
from functx.transforms.forward import emit_jvp
from functx.transforms.halves import as_joint, partition_joint
from functx.transforms.inline import inline_calls
from functx.transforms.keeping import without
from functx.transforms.reverse import mark_by_dependence, pullback
from functx.util import zip_strict

_regions = itertools.count(1)


class Interpreter:
    """Graph -> Graph. Masks say which inputs have tangents, are batched, or are differentiated.

    ``linear``: graphs must be linear in what they are differentiated by, whose values are not known; they are taken at zero.
    """

    def __init__(self, linear: bool = False):
        self.linear = linear

    def as_linear(self) -> Interpreter:
        """The one for linear graphs."""
        return LINEAR

    def emitter(self) -> Emitter:
        """A builder whose rules see this interpreter."""
        return Emitter(self)

    def new_region(self, b: Emitter) -> tuple[Mark, Mark]:
        """Marks of the forward and the backward side of a new reverse pass."""
        region = next(_regions)
        return Mark(region, "forward"), Mark(region, "backward")

    def jvp(self, graph: Graph, nonzero: Sequence[bool]) -> tuple[Graph, list[bool]]:
        """Inputs and tangents (where ``nonzero``) to outputs and tangents; returns also which outputs have one."""
        b = self.emitter()
        tangents = [Var(v.aval) if flag else None for v, flag in zip_strict(graph.in_vars, nonzero)]
        outs, out_tangents, _ = emit_jvp(b, graph, graph.in_vars, tangents)
        inputs = [*graph.inputs, *(Input(t, InRole.TANGENT) for t in tangents if t is not None)]
        results = [slot.with_atom(atom) for slot, atom in zip_strict(graph.outputs, outs)]
        moved = [Output(t, OutRole.TANGENT) for t in out_tangents if t is not None]
        return b.build(inputs, [*results, *moved]), [t is not None for t in out_tangents]

    def vmap(self, graph: Graph, batched: Sequence[bool], size: Any, wanted: Sequence[bool] | None = None) -> tuple[Graph, list[bool]]:
        """Inputs with a leading lane axis where ``batched``, to outputs likewise (all of ``wanted`` are made so)."""
        b = self.emitter()
        inputs = [Input(lane_var(s.var, flag, size), s.role) for s, flag in zip_strict(graph.inputs, batched)]
        outs, flags, _ = emit_vmap(b, graph, [s.var for s in inputs], batched, size)
        if wanted is not None:
            outs = [b.batched(o, flag, size) if want else o for o, flag, want in zip_strict(outs, flags, wanted)]
            flags = [flag or want for flag, want in zip_strict(flags, wanted)]
        return b.build(inputs, [slot.with_atom(atom) for slot, atom in zip_strict(graph.outputs, outs)]), flags

    def vjp(
        self, graph: Graph, active: Sequence[bool], nonzero: Sequence[bool], kept: Sequence[Var] = ()
    ) -> tuple[Graph, list[bool], list[bool]]:
        """Inputs, values and cotangents (where ``nonzero``) to the cotangents of the active inputs. Effects do not happen again.

        ``kept``: values of the graph that are not computed again. Those that are read are inputs, between the graph's own and cotangents.

        Returns also which inputs get a cotangent, and which of the kept values are read.
        """
        b, graph = self.emitter(), effects.silent(graph)
        forward, backward = self.new_region(b)
        b.mark = forward
        pulled = pullback(b, graph, graph.in_vars, active, linear=self.linear)
        cts = [Var(a.aval.with_kind(s.kind)) if flag else None for a, s, flag in zip_strict(pulled.outs, graph.outputs, nonzero)]
        in_cts = self._pulled_back(b, pulled, cts, forward, backward)
        outputs = [Output(ct, OutRole.GRADIENT) for ct in in_cts if ct is not None]
        values = [pulled.env[v] for v in kept]
        b.eqns, read = without(b.eqns, values, outputs)
        given = [Input(v, InRole.RESIDUAL) for v in itertools.compress(values, read)]
        inputs = [*graph.inputs, *given, *(Input(ct, InRole.COTANGENT) for ct in cts if ct is not None)]
        return b.build(inputs, outputs), [ct is not None for ct in in_cts], read

    def split(
        self, graph: Graph, active: Sequence[bool], priced: Sequence[bool] | None = None
    ) -> tuple[Graph, Graph, list[bool], list[bool]]:
        """Inputs to outputs and residuals; residuals and the cotangents of all outputs that can have one to those of the active inputs.

        ``priced``: which inputs cost memory to keep as residuals. Returns also which inputs get a cotangent, and which outputs have one.
        """
        b = self.emitter()
        forward, backward = self.new_region(b)
        b.mark = forward
        pulled = pullback(b, graph, graph.in_vars, active, linear=self.linear)
        cts = [Var(AbstractArray(a.aval.shape, a.aval.dtype)) if is_inexact(a.aval.dtype) else None for a in pulled.outs]
        in_cts = self._pulled_back(b, pulled, cts, forward, backward)
        inputs = [*graph.inputs, *(Input(ct, InRole.COTANGENT) for ct in cts if ct is not None)]
        outputs = [s.with_atom(a) for s, a in zip_strict(graph.outputs, pulled.outs)]
        joint = b.build(inputs, [*outputs, *(Output(ct, OutRole.GRADIENT) for ct in in_cts if ct is not None)])
        costly = set(itertools.compress(graph.in_vars, priced or ()))
        halves = partition_joint(as_joint(joint, forward.region, len(graph.inputs), len(outputs)), priced=costly)
        return halves.forward, halves.backward, [ct is not None for ct in in_cts], [ct is not None for ct in cts]

    def _pulled_back(self, b: Emitter, pulled: Any, cts: Sequence[Var | None], forward: Mark, backward: Mark) -> list[Atom | None]:
        b.mark, start = backward, len(b.eqns)
        in_cts = pulled.pull(b, cts)
        mark_by_dependence(b, start, [ct for ct in cts if ct is not None], forward)
        return in_cts

    def pullback(self, b: Emitter, graph: Graph, atoms: Sequence[Atom], active: Sequence[bool]) -> Any:
        """Emit ``graph`` into ``b``; returns its results and their pull-back (the vjp rule of a graph that is seen through)."""
        pulled = pullback(b, graph, atoms, active)
        return pulled.outs, pulled.pull

    def transpose(
        self, b: Emitter, graph: Graph, fixed: Sequence[Atom], active: Sequence[bool], cts: Sequence[Atom | None]
    ) -> list[Atom | None]:
        """Transpose a graph that is linear in its last ``len(active)`` inputs, the first ones being ``fixed``, and apply it to ``cts``."""
        graph = inline_calls(effects.silent(graph), [i >= len(fixed) for i in range(len(graph.inputs))])
        placeholders = [Var(v.aval) for v in graph.in_vars[len(fixed) :]]
        flags = [*(False for _ in fixed), *active]
        return pullback(b, graph, [*fixed, *placeholders], flags, linear=True).pull(b, cts)[len(fixed) :]

    def sum_leading(self, graph: Graph, wanted: Sequence[bool]) -> Graph:
        """The graph with the leading axis of the ``wanted`` outputs summed away."""
        b = self.emitter()
        outs = b.inline(graph, graph.in_vars)
        summed = [b.reduce_sum(o, axes=(0,)) if want else o for o, want in zip_strict(outs, wanted)]
        return b.build(graph.inputs, [slot.with_atom(atom) for slot, atom in zip_strict(graph.outputs, summed)])


def lane_var(var: Var, batched: bool, size: Any) -> Var:
    """A variable for an input, with the lane axis in front if it is batched."""
    aval = var.aval
    return Var(type(aval)((size, *aval.shape), aval.dtype)) if batched else Var(aval)


INTERPRETER, LINEAR = Interpreter(), Interpreter(linear=True)
