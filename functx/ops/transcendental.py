"""Elementwise primitives of libm, under its names: one paragraph each, as in functx.ops.elementwise. Floats and, where NumPy has
them, complex numbers.

Partials keep their infinities where the function has a vertical tangent; at the origin ``hypot`` and ``atan2`` have derivative zero.
"""

from __future__ import annotations

import math

import numpy as np

from functx.dtypes import is_complex
from functx.ir import Atom
from functx.ops.families import elementwise
from functx.primitive import Emitter

_LN2, _LN10 = math.log(2), math.log(10)


def _inverse(b: Emitter, x: Atom, factor: float = 1) -> Atom:
    return b.div(b.full_like(x, factor), x)


def _one_plus(b: Emitter, x: Atom) -> Atom:
    return b.add(b.full_like(x, 1), x)


def _one_minus_square(b: Emitter, x: Atom) -> Atom:
    """Without cancellation near 1."""
    return b.mul(b.sub(b.full_like(x, 1), x), _one_plus(b, x))


def _zero_at_zero(b: Emitter, x: Atom) -> Atom:
    """A divisor x, with inf in place of zeros: quotients are zero there, and so are their derivatives."""
    return b.select(b.eq(x, b.zeros_like(x)), b.full_like(x, np.inf), x)


pow = elementwise(
    "pow",
    np.power,
    (
        lambda b, out, x, y: b.mul_zero(y, b.pow(x, b.sub(y, b.full_like(y, 1)))),
        lambda b, out, x, y: b.mul_zero(out, b.log(x)),
    ),
    cost=16,
)

exp = elementwise("exp", np.exp, (lambda b, out, x: out,), cost=16)

exp2 = elementwise("exp2", np.exp2, (lambda b, out, x: b.mul(out, b.full_like(out, _LN2)),), cost=16)

# The partial is not out + 1, which is zero for large negative x.
expm1 = elementwise("expm1", np.expm1, (lambda b, out, x: b.exp(x),), cost=16)

log = elementwise("log", np.log, (lambda b, out, x: _inverse(b, x),), cost=16)

log2 = elementwise("log2", np.log2, (lambda b, out, x: _inverse(b, x, 1 / _LN2),), cost=16)

log10 = elementwise("log10", np.log10, (lambda b, out, x: _inverse(b, x, 1 / _LN10),), cost=16)

log1p = elementwise("log1p", np.log1p, (lambda b, out, x: _inverse(b, _one_plus(b, x)),), cost=16)

sin = elementwise("sin", np.sin, (lambda b, out, x: b.cos(x),), cost=16)

cos = elementwise("cos", np.cos, (lambda b, out, x: b.neg(b.sin(x)),), cost=16)

tan = elementwise("tan", np.tan, (lambda b, out, x: _one_plus(b, b.mul(out, out)),), cost=16)

asin = elementwise("asin", np.arcsin, (lambda b, out, x: _inverse(b, b.sqrt(_one_minus_square(b, x))),), cost=16)

acos = elementwise("acos", np.arccos, (lambda b, out, x: _inverse(b, b.sqrt(_one_minus_square(b, x)), -1),), cost=16)

atan = elementwise("atan", np.arctan, (lambda b, out, x: _inverse(b, _one_plus(b, b.mul(x, x))),), cost=16)

sinh = elementwise("sinh", np.sinh, (lambda b, out, x: b.cosh(x),), cost=16)

cosh = elementwise("cosh", np.cosh, (lambda b, out, x: b.sinh(x),), cost=16)

tanh = elementwise("tanh", np.tanh, (lambda b, out, x: b.sub(b.full_like(out, 1), b.mul(out, out)),), cost=16)


def _asinh_partial(b: Emitter, out: Atom, x: Atom) -> Atom:
    """1 / sqrt(1 + x * x), where the square of a real x may overflow."""
    return _inverse(b, b.sqrt(_one_plus(b, b.mul(x, x))) if is_complex(x.aval.dtype) else b.hypot(x, b.full_like(x, 1)))


asinh = elementwise("asinh", np.arcsinh, (_asinh_partial,), cost=16)


def _acosh_partial(b: Emitter, out: Atom, x: Atom) -> Atom:
    """1 / sqrt(x * x - 1), where x * x may overflow."""
    one = b.full_like(x, 1)
    return _inverse(b, b.mul(b.sqrt(b.sub(x, one)), b.sqrt(b.add(x, one))))


acosh = elementwise("acosh", np.arccosh, (_acosh_partial,), cost=16)

atanh = elementwise("atanh", np.arctanh, (lambda b, out, x: _inverse(b, _one_minus_square(b, x)),), cost=16)

cbrt = elementwise("cbrt", np.cbrt, (lambda b, out, x: _inverse(b, b.mul(out, out), 1 / 3),), cost=16)

hypot = elementwise(
    "hypot",
    np.hypot,
    (lambda b, out, x, y: b.div(x, _zero_at_zero(b, out)), lambda b, out, x, y: b.div(y, _zero_at_zero(b, out))),
    cost=16,
)


def _over_square(b: Emitter, x: Atom, y: Atom, numerator: Atom) -> Atom:
    """numerator / (x * x + y * y), where the squares may overflow."""
    r = _zero_at_zero(b, b.hypot(x, y))
    return b.div(b.div(numerator, r), r)


atan2 = elementwise(
    "atan2",
    np.arctan2,
    (lambda b, out, y, x: _over_square(b, x, y, x), lambda b, out, y, x: _over_square(b, x, y, b.neg(y))),
    cost=16,
)


def _difference(b: Emitter, x: Atom, y: Atom) -> Atom:
    """x - y, zero for equal infinities."""
    same = b.and_(b.eq(x, y), b.eq(b.abs(x), b.full_like(x, np.inf)))
    return b.select(same, b.zeros_like(x), b.sub(x, y))


def _scaled_difference(b: Emitter, x: Atom, y: Atom) -> Atom:
    return b.mul(_difference(b, x, y), b.full_like(x, _LN2))


logaddexp = elementwise(
    "logaddexp",
    np.logaddexp,
    (lambda b, out, x, y: b.logistic(_difference(b, x, y)), lambda b, out, x, y: b.logistic(_difference(b, y, x))),
    cost=32,
)

logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    (lambda b, out, x, y: b.logistic(_scaled_difference(b, x, y)), lambda b, out, x, y: b.logistic(_scaled_difference(b, y, x))),
    cost=32,
)


def _logistic(x: np.ndarray) -> np.ndarray:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


logistic = elementwise("logistic", _logistic, (lambda b, out, x: b.mul(out, b.sub(b.full_like(out, 1), out)),), cost=16)
