"""Roots from equations: what each equation that is materialized stores, reduces or hands to a library, in terms of index functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from functx.backends.loops import rules
from functx.backends.loops.affine import ZERO, Affine, LoopVar, var
from functx.backends.loops.nodes import Load, Matrix, Node
from functx.backends.loops.roots import CallRoot, MatMulRoot, ReduceRoot, Root, RunningRoot, SortRoot, StoreRoot, Target
from functx.backends.loops.scope import Index, Scope
from functx.backends.loops.sizes import is_at_least
from functx.dtypes import INT64
from functx.ir import AbstractArray, Atom, Eqn, Var
from functx.shapes import Size, delete, size
from functx.util import zip_strict

# By the primitive's name: how an intermediate or a stored value is combined with the next one.
RUNNING = {
    "cumsum": "sum",
    "cumprod": "prod",
    "cummax": "max",
    "cummin": "min",
    "cumlogsumexp": "logaddexp",
    "linear_recurrence": "recurrence",
}
SCATTER = {"scatter_set": None, "scatter_add": "sum", "scatter_mul": "prod", "scatter_min": "min", "scatter_max": "max"}


def dot_sizes(eqn: Eqn) -> tuple[Size, Size, Size, Size]:
    """(batch, m, n, k) of a dot_general."""
    x, y = (a.aval.shape for a in eqn.inputs)
    batch, contract = eqn.params["batch"], eqn.params["contract"]
    m, n = (size(delete(shape, (*batch[side], *contract[side]))) for side, shape in enumerate((x, y)))
    return size(x[a] for a in batch[0]), m, n, size(x[a] for a in contract[0])


def written_place(scope: Scope, eqn: Eqn, index: Index) -> Index:
    """Where a partial write (slice_set, dynamic_update_slice or a scatter) puts the element of its update at an index."""
    x, update, *places = eqn.inputs
    if eqn.primitive.name == "slice_set":
        return tuple(i * step + start for i, start, step in zip_strict(index, eqn.params["starts"], eqn.params["steps"]))
    if eqn.primitive.name in SCATTER:
        return rules.indexed(scope, x, places, eqn.params["axes"], index, None)
    begin = rules.clamped(scope, places, x.aval.shape, update.aval.shape)
    return tuple(i + start for i, start in zip_strict(index, begin))


def writes_places_twice(eqn: Eqn) -> bool:
    """Whether a partial write may write one place more than once."""
    return eqn.primitive.name in SCATTER and size(eqn.inputs[2].aval.shape) != 1


class Describer:
    """Collects the roots of a graph.

    Args:
      definitions: the equations that are evaluated in place.
      memory: the variables in memory; copies that a library call needs join them.
      target: what the code generator can do.
    """

    def __init__(self, definitions: Mapping[Var, Eqn], memory: set[Var], target: Target):
        self.definitions, self.memory, self.target = definitions, memory, target
        self.roots: list[Root] = []

    def describe(self, number: int, eqn: Eqn, kind: str) -> None:
        """Add the roots of an equation."""
        getattr(self, f"_{kind}")(number, eqn)

    def _call(self, number: int, eqn: Eqn) -> None:
        self.roots.append(CallRoot(number, eqn.inputs, eqn.outputs))

    def _index(self, number: int, eqn: Eqn) -> None:
        rule = rules.rule_of(eqn)
        self.store(number, eqn.outputs[0], lambda scope, index: rule(scope, eqn, index, None), eqn.inputs)

    def store(self, number: int, v: Var, value: Callable[[Scope, Index], Node], reads: Sequence[Atom]) -> Var:
        """Materialize a variable by its value at an index."""
        self.memory.add(v)
        self.roots.append(StoreRoot(number, v, v.aval.shape, value, reads=tuple(reads)))
        return v

    def copy(self, out: Var, x: Var) -> None:
        """Materialize the present value of an array once more."""
        self.store(-1, out, lambda scope, index: scope.value(x, index), (x,))

    def _reduce(self, number: int, eqn: Eqn) -> None:
        if eqn.primitive.name == "dot_general":
            return self._dot(number, eqn)
        x, out = eqn.inputs[0], eqn.outputs[0]
        axes = eqn.params["axes"] if "axes" in eqn.params else (eqn.params["axis"],)
        op = eqn.primitive.name.removeprefix("reduce_")

        def value(scope: Scope, kept: Index, reduced: Index) -> Node:
            places = iter(kept)
            inner = dict(zip(axes, reduced, strict=True))
            return _wide(scope, x, tuple(inner[a] if a in inner else next(places) for a in range(x.aval.ndim)))

        self._add_reduction(ReduceRoot(number, out, op, out.aval.shape, tuple(x.aval.shape[a] for a in axes), value, (x,)))
        return None

    def _add_reduction(self, root: ReduceRoot) -> None:
        """A reduction, or what is left of one over a single element."""
        if size(root.reduced) != 1:
            self.roots.append(root)
        elif root.op in ("argmax", "argmin"):
            self.store(root.eqn, root.var, lambda scope, index: scope.integer(0), ())
        else:

            def value(scope: Scope, index: Index) -> Node:
                return rules.converted(scope, root.value(scope, index, (ZERO,) * len(root.reduced)), root.var.aval.dtype)

            self.store(root.eqn, root.var, value, root.reads)

    def _dot(self, number: int, eqn: Eqn) -> None:
        """A product that is too small for the library, or of integers: a sum of products."""
        out = eqn.outputs[0]

        def value(scope: Scope, kept: Index, contracted: Index) -> Node:
            places = rules.dot_operands(eqn, kept, contracted)
            factors = [_wide(scope, a, i) for a, i in zip_strict(eqn.inputs, places)]
            return scope.apply("mul", factors, factors[0].dtype)

        reduced = tuple(eqn.inputs[0].aval.shape[a] for a in eqn.params["contract"][0])
        self._add_reduction(ReduceRoot(number, out, "sum", out.aval.shape, reduced, value, eqn.inputs))

    def _matmul(self, number: int, eqn: Eqn) -> None:
        batch, contract = eqn.params["batch"], eqn.params["contract"]
        out = eqn.outputs[0]
        dtype = self.target.multiplies(out.aval.dtype)
        matrices = []
        for side, atom in enumerate(eqn.inputs):
            free = [a for a in range(atom.aval.ndim) if a not in batch[side] and a not in contract[side]]
            rows, columns = (free, contract[0]) if side == 0 else (contract[1], free)
            matrices.append(self._matrix(number, atom, (batch[side], rows, columns), dtype))
        product = out if dtype == out.aval.dtype else Var(AbstractArray(out.aval.shape, dtype))
        self.memory.add(product)
        self.roots.append(MatMulRoot(number, product, matrices[0], matrices[1], dot_sizes(eqn)))
        if product is not out:
            self.store(number, out, lambda scope, i: rules.converted(scope, scope.value(product, i), out.aval.dtype), (product,))

    def _matrix(self, number: int, atom: Atom, groups: Sequence[Sequence[int]], dtype: np.dtype) -> Matrix:
        """An operand of a dtype as strides into a buffer; copied to (batch, rows, columns) if it cannot be read so."""
        shape = atom.aval.shape
        sizes = [size(shape[a] for a in group) for group in groups]
        axes = [LoopVar(f"a{k}", d) for k, d in enumerate(shape)]
        scope = Scope(self.definitions, rules.rule_of, self.memory.__contains__)
        node = scope.value(atom, tuple(map(var, axes)))
        if isinstance(node, Load) and node.dtype == dtype and node.guard is None and not list(node.offset.opaque()):
            strides = [_collapsed(node.offset, [axes[a] for a in group]) for group in groups]
            if None not in strides and _blas_layout(strides, sizes):
                return Matrix(node.var, node.offset.const, _blas_layout(strides, sizes))
        copy = self._permuted(number, atom, [a for group in groups for a in group], dtype)
        return Matrix(copy, 0, (sizes[1] * sizes[2], sizes[2], 1))

    def _permuted(self, number: int, atom: Atom, order: Sequence[int], dtype: np.dtype) -> Var:
        """A copy with its axes in some order."""
        copy = Var(AbstractArray(tuple(atom.aval.shape[a] for a in order), dtype))

        def value(scope: Scope, index: Index) -> Node:
            place = [ZERO] * len(order)
            for axis, i in zip_strict(order, index):
                place[axis] = i
            return rules.converted(scope, scope.value(atom, tuple(place)), dtype)

        return self.store(number, copy, value, (atom,))

    def _running(self, number: int, eqn: Eqn) -> None:
        out, axis = eqn.outputs[0], eqn.params["axis"]
        operands = eqn.inputs[::-1]  # of a recurrence the factors come first

        def values(scope: Scope, index: Index) -> tuple[Node, ...]:
            return tuple(scope.value(x, index) for x in operands)

        if out.aval.shape[axis] == 1:
            self.store(number, out, lambda scope, index: scope.value(operands[0], index), operands[:1])
        else:
            self.roots.append(
                RunningRoot(number, out, RUNNING[eqn.primitive.name], axis, eqn.params["reverse"], values, reads=tuple(operands))
            )

    def _sort(self, number: int, eqn: Eqn) -> None:
        """Rows are sorted: operands and results along another axis are copied."""
        shape, axis = eqn.inputs[0].aval.shape, eqn.params["axis"]
        last = all(d == 1 for d in shape[axis + 1 :])
        order = [*(a for a in range(len(shape)) if a != axis), axis]
        inputs = [x if last and x in self.memory else self._permuted(number, x, order, x.aval.dtype) for x in eqn.inputs]
        outputs = [v if last else Var(x.aval) for v, x in zip_strict(eqn.outputs, inputs)]
        self._sorted(number, inputs, outputs, (size(delete(shape, (axis,))), shape[axis]), eqn.params["num_keys"])
        if not last:
            for v, rows in zip_strict(eqn.outputs, outputs):

                def value(scope: Scope, index: Index, rows: Var = rows) -> Node:
                    return scope.value(rows, (*index[:axis], *index[axis + 1 :], index[axis]))

                self.store(number, v, value, (rows,))

    def _top_k(self, number: int, eqn: Eqn) -> None:
        (x,) = eqn.inputs
        rows = x if x in self.memory else self._permuted(number, x, range(x.aval.ndim), x.aval.dtype)
        self._sorted(number, [rows], eqn.outputs, (size(x.aval.shape[:-1]), x.aval.shape[-1]), 1, eqn.params["k"])

    def _sorted(
        self, number: int, inputs: Sequence[Var], outputs: Sequence[Var], sizes: tuple[Size, Size], keys: int, top: int | None = None
    ) -> None:
        """``sizes``: how many rows, of how many elements."""
        order = Var(AbstractArray((2, *inputs[0].aval.shape), INT64))
        self.memory.update(outputs)
        self.roots.append(SortRoot(number, tuple(inputs), tuple(outputs), order, *sizes, keys, top))

    def _base(self, number: int, atom: Atom) -> Var:
        """The array that is partly overwritten, in memory."""
        if atom in self.memory:
            return atom
        copy = Var(atom.aval)
        return self.store(number, copy, lambda scope, index: scope.value(atom, index), (atom,))

    def _write(self, number: int, eqn: Eqn) -> None:
        x, update, *places = eqn.inputs
        if 0 in update.aval.shape:
            self.store(number, eqn.outputs[0], lambda scope, index: scope.value(x, index), (x,))
            return

        def target(scope: Scope, index: Index) -> Index:
            return written_place(scope, eqn, index)

        op, serial = SCATTER.get(eqn.primitive.name), writes_places_twice(eqn)
        self._partial(number, eqn, update, target, self._base(number, x), op=op, serial=serial, reads=tuple(places))

    def _parts(self, number: int, eqn: Eqn) -> None:
        axis = eqn.params["axis"]
        start: Size = 0
        for x in eqn.inputs:

            def target(scope: Scope, index: Index, start: Size = start) -> Index:
                return (*index[:axis], index[axis] + start, *index[axis + 1 :])

            self._partial(number, eqn, x, target, None)
            start += x.aval.shape[axis]

    def _partial(self, number: int, eqn: Eqn, x: Atom, target: Callable[..., Index], base: Var | None, **more: object) -> None:
        def value(scope: Scope, index: Index) -> Node:
            return scope.value(x, index)

        self.roots.append(
            StoreRoot(number, eqn.outputs[0], x.aval.shape, value, target, base, whole=False, reads=(x, *more.pop("reads", ())), **more)
        )


def _wide(scope: Scope, atom: Atom, index: Index) -> Node:
    node = scope.value(atom, index)
    return rules.converted(scope, node, rules.wide(node.dtype))


def _collapsed(offset: Affine, axes: Sequence[LoopVar]) -> Size | None:
    """The one stride of several axes taken as one, None if they have none."""
    stride: Size = 0
    expected = None
    for axis in reversed([a for a in axes if a.size != 1]):
        c = offset.coefficient(axis)
        if expected is not None and c != expected:
            return None
        stride, expected = (c if expected is None else stride), c * axis.size
    return stride


def _blas_layout(strides: Sequence[Size], sizes: Sequence[Size]) -> tuple[Size, Size, Size] | None:
    """Strides that BLAS accepts, with sizes of 1 given a stride that fits."""
    batch, rows, columns = strides
    if columns == 1 or sizes[2] == 1:
        rows = rows if sizes[1] != 1 else sizes[2]
        return (batch, rows, 1) if is_at_least(rows, sizes[2]) else None
    if rows == 1 or sizes[1] == 1:
        columns = columns if sizes[2] != 1 else sizes[1]
        return (batch, 1, columns) if is_at_least(columns, sizes[1]) else None
    return None
