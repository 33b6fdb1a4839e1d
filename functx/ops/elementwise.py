"""Elementwise primitives: one paragraph each. Operands have one shape and one dtype; functx.numpy broadcasts and converts before.

Partials follow the kink table (abs'(0) = 0, sign' = 0, ties of max and min by their ``tie`` parameter). The reverse and forward passes
multiply cotangents and tangents with partials by ``mul_zero``, so that an infinite partial in a branch that was not selected does no harm;
partials that are products use it inside too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.dtypes import is_inexact
from functx.errors import IntegerOverflowError
from functx.ir import Atom
from functx.ops.families import elementwise, same_dtype, to_bool
from functx.primitive import Emitter


def _mul_zero(x: Any, y: Any) -> Any:
    return np.where((x == 0) | (y == 0), np.zeros((), x.dtype), x * y)


add = elementwise("add", np.add, (1, 1), linear=(0, 1))

sub = elementwise("sub", np.subtract, (1, -1), linear=(0, 1))

neg = elementwise("neg", np.negative, (-1,), linear=(0,))

mul = elementwise("mul", np.multiply, (lambda b, out, x, y: y, lambda b, out, x, y: x), linear=(0, 1), bilinear=True)

# Zero times anything, inf and NaN included, is zero. Bilinear, and its own transpose in both operands: never a select on a cotangent's
# value, which would lose second derivatives.
mul_zero = elementwise("mul_zero", _mul_zero, (lambda b, out, x, y: y, lambda b, out, x, y: x), linear=(0, 1), bilinear=True)

div = elementwise(
    "div",
    np.divide,
    (lambda b, out, x, y: b.div(b.full_like(y, 1), y), lambda b, out, x, y: b.neg(b.div(out, y))),
    linear=(0,),
    cost=4,
)

sign = elementwise("sign", np.sign)

sqrt = elementwise("sqrt", np.sqrt, (lambda b, out, x: b.div(b.full_like(out, 0.5), out),), cost=4)

abs = elementwise("abs", np.abs, (lambda b, out, x: b.sign(x),))

# Floats only. The magnitude of x with the sign of y; it has the kink of abs.
copysign = elementwise("copysign", np.copysign, (lambda b, out, x, y: b.mul(b.sign(x), b.copysign(b.full_like(y, 1), y)), None))

signbit = elementwise("signbit", np.signbit, result=to_bool)

# Floats only; integers have no use for them.
floor = elementwise("floor", np.floor)
ceil = elementwise("ceil", np.ceil)
trunc = elementwise("trunc", np.trunc)
rint = elementwise("rint", np.rint)

# NumPy's division with rest: of integers by zero it gives zeros, and the most negative one over -1 wraps.
floor_divide = elementwise("floor_divide", np.floor_divide, cost=8)

# The rest has the sign of the divisor (remainder) or of the dividend (fmod).
remainder = elementwise("remainder", np.remainder, (1, lambda b, out, x, y: b.neg(b.floor_divide(x, y))), cost=8)
fmod = elementwise("fmod", np.fmod, (1, lambda b, out, x, y: b.neg(b.trunc(b.div(x, y)))), cost=8)


def _share(beats: str, beats_or_ties: str, operand: int) -> Any:
    """The part of the derivative that one operand of max or min gets: all where it wins, at ties as ``tie`` says."""

    def partial(b: Emitter, out: Atom, x: Atom, y: Atom, *, tie: str) -> Atom:
        mine, other = (x, y) if operand == 0 else (y, x)
        dtype = out.aval.dtype
        wins = b.convert(getattr(b, beats)(mine, other), dtype=dtype, checked=False)
        if tie == "half":
            not_worse = b.convert(getattr(b, beats_or_ties)(mine, other), dtype=dtype, checked=False)
            return b.mul(b.full_like(out, 0.5), b.add(wins, not_worse))
        if (tie == "first") == (operand == 0):
            return b.convert(getattr(b, beats_or_ties)(mine, other), dtype=dtype, checked=False)
        return wins

    return partial


def _tied(x: np.dtype, y: np.dtype, *, tie: str) -> np.dtype:
    return same_dtype(x, y)


max = elementwise("max", lambda x, y, *, tie: np.maximum(x, y), (_share("gt", "ge", 0), _share("gt", "ge", 1)), result=_tied)

min = elementwise("min", lambda x, y, *, tie: np.minimum(x, y), (_share("lt", "le", 0), _share("lt", "le", 1)), result=_tied)

eq = elementwise("eq", np.equal, result=to_bool)
ne = elementwise("ne", np.not_equal, result=to_bool)
lt = elementwise("lt", np.less, result=to_bool)
le = elementwise("le", np.less_equal, result=to_bool)
gt = elementwise("gt", np.greater, result=to_bool)
ge = elementwise("ge", np.greater_equal, result=to_bool)

# Bitwise on integers, logical on bool.
and_ = elementwise("and_", np.bitwise_and)
or_ = elementwise("or_", np.bitwise_or)
xor = elementwise("xor", np.bitwise_xor)
not_ = elementwise("not_", np.invert)

# Integers only. Shifted by their width or more, or by a negative number, all bits are gone.
shift_left = elementwise("shift_left", np.left_shift)
shift_right = elementwise("shift_right", np.right_shift)

# select(pred, x, y): x where pred holds, else y.
select = elementwise(
    "select",
    np.where,
    result=lambda pred, x, y: same_dtype(x, y),
    linear=(1, 2),
    transpose={
        1: lambda b, ct, pred, x, y: b.select(pred, ct, b.zeros_like(ct)),
        2: lambda b, ct, pred, x, y: b.select(pred, b.zeros_like(ct), ct),
    },
)


def _convert(x: Any, *, dtype: np.dtype, checked: bool) -> Any:
    out = np.asarray(x).astype(dtype)
    if checked and (out != x).any():
        raise IntegerOverflowError(f"Python integer {int(np.asarray(x).max())} out of bounds for {dtype}")
    return out


# convert(x): x in another dtype. ``checked``: a Python int that does not fit raises OverflowError, as in NumPy.
convert = elementwise(
    "convert",
    _convert,
    result=lambda x, *, dtype, checked: dtype,
    linear=(0,),
    transpose={0: lambda b, ct, x, **_: b.convert(ct, dtype=x.aval.dtype, checked=False) if is_inexact(x.aval.dtype) else None},
    checks=lambda ins, *, dtype, checked: (ins[0], dtype) if checked else None,
)

# The identity, with derivative zero.
stop_gradient = elementwise("stop_gradient", lambda x: x)
