"""Elementwise primitives: one paragraph each. Operands have one shape and one dtype; functx.numpy broadcasts and converts before.

Partials follow the kink table (abs'(0) = 0, sign' = 0, ties of max and min by their ``tie`` parameter). The reverse and forward passes
multiply cotangents and tangents with partials by ``mul_zero``, so that an infinite partial in a branch that was not selected does no harm;
partials that are products use it inside too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.dtypes import BOOL, INT32, UINT8, is_complex, is_inexact
from functx.errors import IntegerOverflowError
from functx.ir import Atom
from functx.ops.families import elementwise, same_dtype, to_bool
from functx.ops.parts import part_dtype
from functx.primitive import Emitter
from functx.shapes import ShapeError


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

sqrt = elementwise("sqrt", np.sqrt, (lambda b, out, x: b.div(b.full_like(out, 0.5), out),), cost=4)


def _half_over(b: Emitter, r: Atom) -> Atom:
    """1 / (2 r), and 0 where r is 0."""
    return b.div(b.full_like(r, 0.5), b.select(b.eq(r, b.zeros_like(r)), b.full_like(r, np.inf), r))


# The square root with derivative 0 at 0: of norms and standard deviations, whose argument is a sum of squares.
sqrt_zero = elementwise("sqrt_zero", np.sqrt, (lambda b, out, x: _half_over(b, out),), cost=4)


def _sign_partial(b: Emitter, out: Atom, x: Atom) -> Any:
    """Flat on the real line. A complex number's sign, z / abs(z), turns with z; at zero it is flat too."""
    if not is_complex(x.aval.dtype):
        return None
    inverse = b.convert(_half_over(b, b.abs(x)), dtype=x.aval.dtype, checked=False)
    return inverse, b.neg(b.mul(b.mul(out, out), inverse))


sign = elementwise("sign", np.sign, (_sign_partial,))


def _abs_partial(b: Emitter, out: Atom, x: Atom) -> Any:
    direction = b.sign(x)
    if not is_complex(x.aval.dtype):
        return direction
    half = b.mul(direction, b.full_like(direction, 0.5))
    return b.conj(half), half


abs = elementwise("abs", np.abs, (_abs_partial,), result=lambda x: part_dtype(x) if is_complex(x) else x)

# Floats only. The magnitude of x with the sign of y; it has the kink of abs.
copysign = elementwise("copysign", np.copysign, (lambda b, out, x, y: b.mul(b.sign(x), b.copysign(b.full_like(y, 1), y)), None))

signbit = elementwise("signbit", np.signbit, result=to_bool)

# The number next to x towards y.
nextafter = elementwise("nextafter", np.nextafter)

# x * 2**n for integers n, exact where 2**n is out of range too. Mantissa and exponent are its inverse: x = mantissa * 2**exponent.
ldexp = elementwise(
    "ldexp",
    lambda x, n: np.ldexp(x, n).astype(x.dtype),
    (lambda b, out, x, n: b.ldexp(b.full_like(x, 1), n), None),
    result=lambda x, n: x,
    cost=4,
)
exponent = elementwise("exponent", lambda x: np.frexp(x)[1].astype(INT32), result=lambda x: INT32, cost=4)
mantissa = elementwise("mantissa", lambda x: np.frexp(x)[0], (lambda b, out, x: b.ldexp(b.full_like(x, 1), b.neg(b.exponent(x))),), cost=4)

# Integers only.
gcd = elementwise("gcd", np.gcd, cost=64)
population_count = elementwise("population_count", np.bitwise_count, result=lambda x: UINT8, cost=4)

# Integers have no use for these.
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
        wins = b.convert(getattr(b, beats)(out, other), dtype=dtype, checked=False)  # the result tells as well, and is kept more often
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
    x = np.asarray(x)
    drops_imaginary_part = is_complex(x.dtype) and not is_complex(dtype) and dtype != BOOL
    out = (x.real if drops_imaginary_part else x).astype(dtype)
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


def _of_same_size(dtype: np.dtype, other: np.dtype) -> np.dtype:
    if dtype.itemsize != other.itemsize:
        raise ShapeError(f"bitcast: {dtype} and {other} have elements of different sizes")
    return other


# The same bits read as another dtype of the same size. They carry no derivative.
bitcast = elementwise("bitcast", lambda x, *, dtype: np.asarray(x).view(dtype), result=lambda x, *, dtype: _of_same_size(x, dtype))

# The identity, with derivative zero.
stop_gradient = elementwise("stop_gradient", lambda x: x)
