"""Rewrites that are exact for every value, NaN, infinity and signed zero included (but for the sign of a zero that mul_zero makes, which no
rule fixes). What is not exact does not belong here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import is_complex
from functx.ir import Atom, Eqn, Graph
from functx.transforms.simplify import Rewriter, is_float, rewrite
from functx.util import invert_permutation

Rule = Callable[[Rewriter, Eqn], "Atom | None"]


def simplify_algebra(graph: Graph) -> Graph:
    """Apply the table below once, front to back."""
    return rewrite(graph, RULES)


def _add(r: Rewriter, eqn: Eqn) -> Atom | None:
    """x + 0 is x for integers; for floats only x + (-0.0) is (0.0 + -0.0 is 0.0, so x + 0.0 changes the sign of a negative zero)."""
    x, y = eqn.inputs
    if _is_neutral_zero(r, y):
        return x
    return y if _is_neutral_zero(r, x) else None


def _is_neutral_zero(r: Rewriter, atom: Atom) -> bool:
    value = r.uniform(atom)
    return value is not None and value == 0 and (not is_float(atom) or _signs(value) == {True})


def _signs(value: np.generic) -> set[bool]:
    """The sign bits of a number's parts."""
    return {bool(np.signbit(part)) for part in ([value.real, value.imag] if is_complex(value.dtype) else [value])}


def _sub(r: Rewriter, eqn: Eqn) -> Atom | None:
    """x - 0 is x, for floats with a positive zero."""
    x, y = eqn.inputs
    value = r.uniform(y)
    return x if value is not None and value == 0 and (not is_float(y) or _signs(value) == {False}) else None


def _mul(r: Rewriter, eqn: Eqn) -> Atom | None:
    """x * 1 is x, x * -1 is -x; not of complex numbers, whose infinities make NaN with the zero imaginary part."""
    if is_complex(eqn.outputs[0].aval.dtype):
        return None
    for x, other in (eqn.inputs, eqn.inputs[::-1]):
        value = r.uniform(other)
        if value is not None and value == 1:
            return x
        if value is not None and value == -1 and is_float(x):
            return r.builder.neg(x)
    return None


def _mul_zero(r: Rewriter, eqn: Eqn) -> Atom | None:
    """With a factor that is a finite constant other than zero it is a product; with zero it is zero."""
    for x, other in (eqn.inputs, eqn.inputs[::-1]):
        value = r.uniform(other)
        if value is None:
            continue
        if value == 0:
            return r.builder.zeros_like(x)
        if np.isfinite(value):
            return x if value == 1 and not is_complex(value.dtype) else r.builder.mul(x, other)
    if any(_nonzero_finite(r, a) for a in eqn.inputs):
        return r.builder.mul(*eqn.inputs)
    return None


def _nonzero_finite(r: Rewriter, atom: Atom) -> bool:
    """A selection between finite constants other than zero."""
    eqn = r.producer(atom)
    if eqn is None or eqn.primitive.name != "select":
        return False
    values = [r.uniform(a) for a in eqn.inputs[1:]]
    return all(v is not None and v != 0 and np.isfinite(v) for v in values)


def _div(r: Rewriter, eqn: Eqn) -> Atom | None:
    """x / 1 is x; division by another power of two is an exact product."""
    x, y = eqn.inputs
    value = r.uniform(y)
    if value is None or not is_float(x) or value.dtype.kind != "f":
        return None
    if value == 1:
        return x
    with np.errstate(all="ignore"):
        reciprocal = 1 / value
    exact = np.abs(np.frexp(value)[0]) == 0.5 and np.isfinite(reciprocal) and np.abs(reciprocal) >= np.finfo(value.dtype).tiny
    return r.builder.mul(x, r.builder.full_like(x, reciprocal)) if exact else None


def _involution(r: Rewriter, eqn: Eqn) -> Atom | None:
    """An operation that undoes itself."""
    inner = r.producer(eqn.inputs[0])
    return inner.inputs[0] if inner is not None and inner.primitive is eqn.primitive else None


def _part(operand: int) -> Rule:
    """The part of a complex number that was just put together."""

    def rule(r: Rewriter, eqn: Eqn) -> Atom | None:
        inner = r.producer(eqn.inputs[0])
        return inner.inputs[operand] if inner is not None and inner.primitive.name == "complex" else None

    return rule


def _select(r: Rewriter, eqn: Eqn) -> Atom | None:
    pred, x, y = eqn.inputs
    chosen = r.uniform(pred)
    if chosen is not None:
        return x if chosen else y
    return x if x is y else None


def _convert(r: Rewriter, eqn: Eqn) -> Atom | None:
    x = eqn.inputs[0]
    if x.aval.dtype == eqn.params["dtype"]:
        return x
    return _push_uniform(r, eqn)


def _push_uniform(r: Rewriter, eqn: Eqn) -> Atom | None:
    """A conversion of a uniform constant is a uniform constant."""
    value = r.uniform(eqn.inputs[0])
    if value is None or eqn.params["checked"]:
        return None
    with np.errstate(all="ignore"):
        return r.builder.full(eqn.inputs[0].aval.shape, eqn.primitive.impl(value, **eqn.params)[()], eqn.params["dtype"])


def _reshape(r: Rewriter, eqn: Eqn) -> Atom | None:
    x, shape = eqn.inputs[0], eqn.params["shape"]
    inner = r.producer(x)
    if shapes.same_shape(x.aval.shape, shape) or (inner is not None and inner.primitive.name == "reshape"):
        return _reshape_to(r, x, shape)
    return _rebroadcast(r, eqn)


def _reshape_to(r: Rewriter, x: Atom, shape: tuple[Any, ...]) -> Atom:
    """One reshape for several in a row."""
    inner = r.producer(x)
    while inner is not None and inner.primitive.name == "reshape":
        x, inner = inner.inputs[0], r.producer(inner.inputs[0])
    return x if shapes.same_shape(x.aval.shape, shape) else r.builder.reshape(x, shape=shape)


def _rebroadcast(r: Rewriter, eqn: Eqn) -> Atom | None:
    """Moving the elements of a uniform constant changes its shape only."""
    value = r.uniform(eqn.inputs[0])
    out = eqn.outputs[0].aval
    inner = r.producer(eqn.inputs[0])
    if value is None or inner is None:
        return None
    return r.builder.full(out.shape, value, out.dtype)


def _transpose(r: Rewriter, eqn: Eqn) -> Atom | None:
    x, perm = eqn.inputs[0], eqn.params["perm"]
    if perm == tuple(range(len(perm))):
        return x
    moved = [p for p in perm if not shapes.same(x.aval.shape[p], 1)]
    if moved == sorted(moved):  # only axes of size 1 change places
        return _reshape_to(r, x, eqn.outputs[0].aval.shape)
    inner = r.producer(x)
    if inner is not None and inner.primitive.name == "transpose":
        joint = tuple(inner.params["perm"][p] for p in perm)
        source = inner.inputs[0]
        return source if joint == tuple(range(len(joint))) else r.builder.transpose(source, perm=joint)
    if inner is not None and inner.primitive.name == "slice_set":
        return _written_through_transpose(r, inner, perm)
    return _rebroadcast(r, eqn)


def _written_through_transpose(r: Rewriter, write: Eqn, perm: Sequence[int]) -> Atom | None:
    """A write to a transposed view that is put back: a write of the transposed values to the whole."""
    base, update = r.producer(write.inputs[0]), write.inputs[1]
    if base is None or base.primitive.name != "transpose" or base.params["perm"] != invert_permutation(perm):
        return None
    region = {k: tuple(write.params[k][p] for p in perm) for k in ("starts", "steps")}
    return r.builder.slice_set(base.inputs[0], r.builder.transpose(update, perm=perm), **region)


def _broadcast(r: Rewriter, eqn: Eqn) -> Atom | None:
    x = eqn.inputs[0]
    if shapes.same_shape(x.aval.shape, eqn.params["shape"]):
        return x
    inner = r.producer(x)
    if inner is not None and inner.primitive.name == "broadcast":
        dims = tuple(eqn.params["dims"][d] for d in inner.params["dims"])
        return r.builder.broadcast(inner.inputs[0], shape=eqn.params["shape"], dims=dims)
    if inner is not None and inner.primitive.name == "reshape":
        kept = _inserted_axes(inner.inputs[0].aval.shape, x.aval.shape)
        if kept is not None:
            return r.builder.broadcast(inner.inputs[0], shape=eqn.params["shape"], dims=tuple(eqn.params["dims"][k] for k in kept))
    return None


def _inserted_axes(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Where the axes of ``old`` are in ``new``, if a reshape from one to the other only inserts axes of size 1."""
    places: list[int] = []
    for axis, d in enumerate(new):
        if len(places) < len(old) and shapes.same(d, old[len(places)]):
            places.append(axis)
        elif not shapes.same(d, 1):
            return None
    return tuple(places) if len(places) == len(old) else None


def _slice(r: Rewriter, eqn: Eqn) -> Atom | None:
    x, p = eqn.inputs[0], eqn.params
    if shapes.same_shape(x.aval.shape, p["sizes"]) and all(s == 1 for s in p["steps"]):
        return x
    inner = r.producer(x)
    if inner is None:
        return None
    if inner.primitive.name == "slice":
        q = inner.params
        starts = tuple(a + b * s for a, b, s in zip(q["starts"], p["starts"], q["steps"], strict=True))
        steps = tuple(a * b for a, b in zip(q["steps"], p["steps"], strict=True))
        return r.builder.slice(inner.inputs[0], starts=starts, sizes=p["sizes"], steps=steps)
    if inner.primitive.name == "slice_set" and _same_region(inner, p):
        return inner.inputs[1]  # reading back what was just written
    if inner.primitive.name == "reshape":
        return _slice_of_reshape(r, eqn, inner)
    if inner.primitive.name == "transpose":
        back, perm = invert_permutation(inner.params["perm"]), inner.params["perm"]
        region = {k: tuple(p[k][axis] for axis in back) for k in ("starts", "sizes", "steps")}
        return r.builder.transpose(r.builder.slice(inner.inputs[0], **region), perm=perm)
    return _rebroadcast(r, eqn)


def _slice_of_reshape(r: Rewriter, eqn: Eqn, inner: Eqn) -> Atom | None:
    """A part of a slice from which integers have removed axes (a row): a slice of the whole."""
    source, p = r.producer(inner.inputs[0]), eqn.params
    kept = _inserted_axes(eqn.inputs[0].aval.shape, inner.inputs[0].aval.shape)
    if source is None or source.primitive.name != "slice" or kept is None:
        return None
    region = _composed(source.params, p, kept)
    sizes = _spread(p["sizes"], kept, len(region["starts"]))
    return r.builder.reshape(r.builder.slice(source.inputs[0], sizes=sizes, **region), shape=p["sizes"])


def _composed(outer: Any, inner: Any, axes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Starts and steps in the whole of a region of a region; ``axes``: those of the outer region that the inner one counts."""
    starts, steps = list(outer["starts"]), list(outer["steps"])
    for axis, start, step in zip(axes, inner["starts"], inner["steps"], strict=True):
        starts[axis] += start * steps[axis]
        steps[axis] *= step
    return {"starts": tuple(starts), "steps": tuple(steps)}


def _spread(sizes: Sequence[int], axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """A shape with axes of size 1 in the places that are not among ``axes``."""
    out = [1] * rank
    for axis, n in zip(axes, sizes, strict=True):
        out[axis] = n
    return tuple(out)


def _same_region(inner: Eqn, p: Any) -> bool:
    region = {**inner.params, "sizes": inner.inputs[1].aval.shape}
    return shapes.same_params(region, {k: p[k] for k in region})


def _slice_set(r: Rewriter, eqn: Eqn) -> Atom | None:
    """A write that covers everything is what was written; a second write to the same region hides the first."""
    x, update = eqn.inputs
    if shapes.same_shape(update.aval.shape, x.aval.shape) and all(s == 1 for s in eqn.params["steps"]):
        return update
    inner = r.producer(x)
    if inner is not None and inner.primitive.name == "slice_set" and _same_region(inner, {**eqn.params, "sizes": update.aval.shape}):
        return r.builder.slice_set(inner.inputs[0], update, **eqn.params)
    return _written_through(r, eqn)


def _written_through(r: Rewriter, eqn: Eqn) -> Atom | None:
    """A write to a part of a view that is put back into its place: a write to that part of the whole."""
    x, update = eqn.inputs
    write = r.producer(_before_reshape(r, update))
    if write is None or write.primitive.name != "slice_set":
        return None
    view, part = write.inputs
    read = r.producer(_before_reshape(r, view))
    kept = _inserted_axes(view.aval.shape, update.aval.shape)
    if kept is None or read is None or read.primitive.name != "slice" or not shapes.same_shape(read.params["sizes"], update.aval.shape):
        return None
    whole, outer = r.producer(x), {k: eqn.params[k] for k in ("starts", "steps")}
    every = tuple(range(x.aval.ndim))
    direct = read.inputs[0] is x and shapes.same_params(outer, {k: read.params[k] for k in outer})
    within = whole is not None and whole.primitive.name == "slice" and read.inputs[0] is whole.inputs[0]
    if not direct and not (within and shapes.same_params(_composed(whole.params, outer, every), {k: read.params[k] for k in outer})):
        return None
    region = _composed(outer, write.params, kept)
    return r.builder.slice_set(x, _reshape_to(r, part, _spread(part.aval.shape, kept, x.aval.ndim)), **region)


def _before_reshape(r: Rewriter, atom: Atom) -> Atom:
    eqn = r.producer(atom)
    return eqn.inputs[0] if eqn is not None and eqn.primitive.name == "reshape" else atom


def _reduce_sum(r: Rewriter, eqn: Eqn) -> Atom | None:
    return eqn.inputs[0] if not eqn.params["axes"] else None


def _concatenate(r: Rewriter, eqn: Eqn) -> Atom | None:
    return eqn.inputs[0] if len(eqn.inputs) == 1 else None


def _elementwise(r: Rewriter, eqn: Eqn) -> Atom | None:
    """Work on values without the axes of size 1 that keepdims left: elementwise of reshapes is the reshape of elementwise."""
    old = None
    for atom in eqn.inputs:
        inner = r.producer(atom)
        if inner is not None and inner.primitive.name == "reshape":
            source = inner.inputs[0].aval.shape
            if _inserted_axes(source, atom.aval.shape) is None or old not in (None, source):
                return None
            old = source
        elif r.uniform(atom) is None:
            return None
    if old is None:
        return None
    operands = [_without_reshape(r, atom, old) for atom in eqn.inputs]
    (out,) = r.builder.bind(eqn.primitive, operands, eqn.params)
    return r.builder.reshape(out, shape=eqn.outputs[0].aval.shape)


def _without_reshape(r: Rewriter, atom: Atom, shape: tuple[Any, ...]) -> Atom:
    value = r.uniform(atom)
    return r.producer(atom).inputs[0] if value is None else r.builder.full(shape, value, atom.aval.dtype)


# By primitive, or by family.
RULES: dict[str, Rule] = {
    "elementwise": _elementwise,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "mul_zero": _mul_zero,
    "div": _div,
    "neg": _involution,
    "conj": _involution,
    "real": _part(0),
    "imag": _part(1),
    "select": _select,
    "convert": _convert,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "slice_set": _slice_set,
    "reduce_sum": _reduce_sum,
    "concatenate": _concatenate,
}
