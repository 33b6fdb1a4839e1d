"""Index functions: for each primitive that moves or computes place by place, its value at index i in terms of its operands.

A rule gets the scope, the equation, the index, and the guard under which the value is needed. Owns index arithmetic only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functx.backends.loops.affine import ZERO, Affine, Dynamic, divmod_affine, reindex, var
from functx.backends.loops.nodes import Constant, Node, Position
from functx.backends.loops.scope import Index, Rule, Scope
from functx.backends.loops.sizes import is_at_least
from functx.dtypes import BOOL, FLOAT32, INT64, is_inexact
from functx.ir import Atom, Eqn, Literal, Var
from functx.ops.elementwise import convert
from functx.shapes import Shape, Size
from functx.util import zip_strict


def _shape(atom: Atom) -> Shape:
    return atom.aval.shape


def elementwise(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """Operands at the same index, then the operation."""
    args = [scope.value(atom, index, guard) for atom in eqn.inputs]
    return scope.apply(eqn.primitive.name, args, eqn.outputs[0].aval.dtype, eqn.params)


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums and comparisons of a dtype go on: float32 for floats of 16 bits."""
    return FLOAT32 if is_inexact(dtype) and dtype.itemsize == 2 else dtype


def converted(scope: Scope, node: Node, dtype: np.dtype) -> Node:
    """A value in another dtype."""
    if node.dtype == dtype:
        return node
    if isinstance(node, Constant):
        with np.errstate(all="ignore"):
            return scope.constant(convert.impl(node.value, dtype=dtype, checked=False)[()])
    return scope.apply("convert", (node,), dtype)


def _identity(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    return scope.value(eqn.inputs[0], index, guard)


def _convert(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """The check, if one is asked for, runs beforehand."""
    return converted(scope, scope.value(eqn.inputs[0], index, guard), eqn.outputs[0].aval.dtype)


def _broadcast(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    x, dims = eqn.inputs[0], eqn.params["dims"]
    return scope.value(x, tuple(ZERO if d == 1 else index[axis] for d, axis in zip_strict(_shape(x), dims)), guard)


def _transpose(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    source = [ZERO] * len(index)
    for axis, i in zip_strict(eqn.params["perm"], index):
        source[axis] = i
    return scope.value(eqn.inputs[0], tuple(source), guard)


def _reshape(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    return scope.value(eqn.inputs[0], reindex(index, eqn.params["shape"], _shape(eqn.inputs[0])), guard)


def _slice(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    source = tuple(i * step + start for i, start, step in zip_strict(index, eqn.params["starts"], eqn.params["steps"]))
    return scope.value(eqn.inputs[0], source, guard)


def _lattice(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    p, x = eqn.params, eqn.inputs[0]
    n = len(p["sizes"])
    rest = iter(index[n:])
    source = [next(rest) if axis not in p["axes"] else ZERO for axis in range(x.aval.ndim)]
    for k, (axis, start) in enumerate(zip_strict(p["axes"], p["starts"])):
        source[axis] = sum((i * row[k] for i, row in zip_strict(index[:n], p["steps"])), ZERO + start)
    return scope.value(x, tuple(source), guard)


def _pairs(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """The real part of an even place, the imaginary one of an odd."""
    z, dtype = scope.value(eqn.inputs[0], index[:-1], guard), eqn.outputs[0].aval.dtype
    first = scope.inside(index[-1], 0, 1, guard)
    return _choose(scope, first, scope.apply("real", (z,), dtype), scope.apply("imag", (z,), dtype))


def _from_pairs(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    args = [scope.value(eqn.inputs[0], (*index, ZERO + part), guard) for part in (0, 1)]
    return scope.apply("complex", args, eqn.outputs[0].aval.dtype)


def _iota(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    return scope.position(index[eqn.params["axis"]], eqn.outputs[0].aval.dtype)


def _size(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    return scope.position(Affine(eqn.params["value"]), eqn.outputs[0].aval.dtype)


def _outer_product(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """A dot_general that contracts nothing."""
    x, y = dot_operands(eqn, index, ())
    args = scope.value(eqn.inputs[0], x, guard), scope.value(eqn.inputs[1], y, guard)
    return scope.apply("mul", args, eqn.outputs[0].aval.dtype)


def dot_operands(eqn: Eqn, kept: Sequence[Affine], contracted: Sequence[Affine]) -> tuple[Index, Index]:
    """Where the operands of a dot_general are read for a place of the result and a place of the contracted axes."""
    batch, contract = eqn.params["batch"], eqn.params["contract"]
    position = len(batch[0])
    out = []
    for side, operand in enumerate(eqn.inputs):
        index: list[Affine | None] = [None] * operand.aval.ndim
        for axis, i in zip_strict(batch[side], kept[: len(batch[0])]):
            index[axis] = i
        for axis, i in zip_strict(contract[side], contracted):
            index[axis] = i
        for axis in range(operand.aval.ndim):
            if index[axis] is None:
                index[axis], position = kept[position], position + 1
        out.append(tuple(index))
    return out[0], out[1]


def region(scope: Scope, index: Index, starts: Sequence[Size], steps: Sequence[int], sizes: Sequence[Size], guard: Node | None):
    """Which part of an index lies in a region: (condition, guard, index into the region). A condition of None is always true."""
    condition, source = None, []
    for i, start, step, n in zip_strict(index, starts, steps, sizes):
        offset = i - start if step > 0 else i * -1 + start
        inside = scope.inside(offset, 0, (n - 1) * abs(step) + 1, guard)
        condition = scope.both(condition, inside)
        if abs(step) != 1:
            offset, rest = divmod_affine(offset, abs(step))
            condition = scope.both(condition, scope.inside(rest, 0, 1, guard))
        source.append(offset if n != 1 else ZERO)
    guard = scope.both(guard, condition)
    for i, n in zip_strict(source, sizes):
        scope.assume(i, guard, n)
    return condition, guard, tuple(source)


def _pad(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    x, value = eqn.inputs
    if 0 in _shape(x):
        return scope.value(value, (), guard)
    condition, inner, source = region(scope, index, eqn.params["low"], (1,) * len(index), _shape(x), guard)
    return _choose(scope, condition, scope.value(x, source, inner), scope.value(value, (), guard))


def _slice_set(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    x, update = eqn.inputs
    if 0 in _shape(update):
        return scope.value(x, index, guard)
    condition, inner, source = region(scope, index, eqn.params["starts"], eqn.params["steps"], _shape(update), guard)
    return _choose(scope, condition, scope.value(update, source, inner), scope.value(x, index, guard))


def _concatenate(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    axis, parts = eqn.params["axis"], []
    start: Size = 0
    for x in eqn.inputs:
        n = _shape(x)[axis]
        if n != 0:
            offset = index[axis] - start if n != 1 else ZERO
            below = scope.inside(index[axis], None, start + n, guard)
            inner = scope.both(guard, scope.inside(index[axis], None if start == 0 else start, start + n, guard))
            scope.assume(offset, inner, n)
            parts.append((below, scope.value(x, (*index[:axis], offset, *index[axis + 1 :]), inner)))
        start += n
    if not parts:
        return scope.constant(eqn.outputs[0].aval.dtype.type(0))  # never evaluated: there are no elements
    out = parts[-1][1]
    for below, value in reversed(parts[:-1]):
        out = _choose(scope, below, value, out)
    return out


def _choose(scope: Scope, condition: Node | None, x: Node, y: Node) -> Node:
    return x if condition is None else scope.apply("select", (condition, x, y), x.dtype)


def _gather(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """Indices were checked before; here they only wrap."""
    x, *indices = eqn.inputs
    return scope.value(x, indexed(scope, x, indices, eqn.params["axes"], index, guard), guard)


def indexed(scope: Scope, x: Atom, indices: Sequence[Atom], axes: Sequence[int], index: Index, guard: Node | None) -> Index:
    """The place in x that gather reads, or scatter writes, for a place of the result, or of the updates."""
    rank = indices[0].aval.ndim
    rest = list(index[rank:])
    chosen = {a: wrapped(scope, i, index[:rank], _shape(x)[a], guard) for a, i in zip_strict(axes, indices)}
    return tuple(chosen[a] if a in chosen else rest.pop(0) for a in range(len(_shape(x))))


def wrapped(scope: Scope, atom: Atom, index: Index, size: Size, guard: Node | None) -> Affine:
    """An integer operand as an index that counts from the end when negative."""
    node = scope.value(atom, index, guard)
    if isinstance(node, Constant):
        value = int(node.value)
        return Affine(value + size if value < 0 else value)
    if isinstance(node, Position) and _is_natural(node.index):
        return node.index
    if size == 1:
        return ZERO
    return var(Dynamic(scope.apply("wrap_index", (node, scope.integer(size)), INT64), size))


def _is_natural(index: Affine) -> bool:
    """Whether an index is surely not negative."""
    least, _ = index.bounds()
    return least is not None and is_at_least(least, 0)


def clamped(scope: Scope, starts: Sequence[Atom], shape: Sequence[Size], sizes: Sequence[Size]) -> list[Affine]:
    """Where a region of some size begins that is moved to where it fits."""
    out = []
    for start, d, n in zip_strict(starts, shape, sizes):
        node, last = scope.value(start, ()), d - n
        if last == 0:
            out.append(ZERO)
        elif isinstance(node, Constant) and (isinstance(last, int) or node.value <= 0):
            out.append(Affine(min(max(int(node.value), 0), last) if isinstance(last, int) else 0))
        else:
            out.append(var(Dynamic(scope.apply("clamp_index", (node, scope.integer(last)), INT64), last + 1)))
    return out


def _dynamic_slice(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    x, *starts = eqn.inputs
    begin = clamped(scope, starts, _shape(x), eqn.params["sizes"])
    return scope.value(x, tuple(i + start for i, start in zip_strict(index, begin)), guard)


def always_fits(atom: Atom, definitions: dict[Var, Eqn], size: Size) -> bool:
    """Whether an index operand needs no check: a constant or an iota in range."""
    while isinstance(atom, Var) and atom in definitions and definitions[atom].primitive.name in ("broadcast", "reshape"):
        atom = definitions[atom].inputs[0]
    if isinstance(atom, Literal):
        value = int(atom.value)
        return is_at_least(size, -value) and is_at_least(size - 1, value)
    eqn = definitions.get(atom)
    return eqn is not None and eqn.primitive.name == "iota" and is_at_least(size, eqn.params["shape"][eqn.params["axis"]])


def _logistic(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
    """Spelled as its definition, so that only exp has to be a vector routine."""
    x = scope.value(eqn.inputs[0], index, guard)
    one = scope.constant(x.dtype.type(1))
    exp = scope.apply("exp", (scope.apply("neg", (x,), x.dtype),), x.dtype)
    return scope.apply("div", (one, scope.apply("add", (one, exp), x.dtype)), x.dtype)


def _logaddexp(exp: str, log1p: str, scale: float) -> Rule:
    """Spelled out as NumPy's: max + log1p(exp(-|x - y|)), and x + log(2) for equal ones, infinities too. In base 2 the logarithm scales."""

    def rule(scope: Scope, eqn: Eqn, index: Index, guard: Node | None) -> Node:
        dtype = wide(eqn.inputs[0].aval.dtype)
        x, y = (converted(scope, scope.value(atom, index, guard), dtype) for atom in eqn.inputs)

        def number(value: float) -> Node:
            return scope.constant(dtype.type(value))

        def op(name: str, *args: Node) -> Node:
            return scope.apply(name, args, dtype)

        power = op(exp, op("neg", op("abs", op("sub", x, y))))
        small = op("mul", op(log1p, power), number(scale))
        greater = scope.apply("max", (x, y), dtype, {"tie": "half"})
        equal = scope.apply("eq", (x, y), BOOL)
        out = op("select", equal, op("add", x, number(np.log(2) * scale)), op("add", greater, small))
        return converted(scope, out, eqn.inputs[0].aval.dtype)

    return rule


MOVES: dict[str, Rule] = {
    "stop_gradient": _identity,
    "convert": _convert,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "lattice": _lattice,
    "pairs": _pairs,
    "from_pairs": _from_pairs,
    "iota": _iota,
    "size": _size,
    "dot_general": _outer_product,
    "pad": _pad,
    "slice_set": _slice_set,
    "concatenate": _concatenate,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
}
# Functions of floats in terms of simpler ones.
SPELLED_OUT: dict[str, Rule] = {
    "logistic": _logistic,
    "logaddexp": _logaddexp("exp", "log1p", 1.0),
    "logaddexp2": _logaddexp("exp2", "log1p", 1 / np.log(2)),
}
RULES: dict[str, Rule] = {**MOVES, **SPELLED_OUT}


def rule_of(eqn: Eqn) -> Rule | None:
    """The index function of an equation, None if it has none."""
    return RULES.get(eqn.primitive.name) or (elementwise if same_index(eqn) else None)


def same_index(eqn: Eqn) -> bool:
    """Whether operands are read where the result is wanted."""
    return eqn.primitive.family == "elementwise"
