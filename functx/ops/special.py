"""Special functions, elementwise on real floats, and on complex numbers where SciPy has them.

SciPy computes the reference, in float32 for floats of 16 bits; it is loaded when one of them runs, for functx does not depend on it.
A derivative that SciPy has a function for uses it, so that nothing cancels where the formula from a textbook would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functx.dtypes import FLOAT32
from functx.errors import MissingDependencyError
from functx.ir import Atom
from functx.ops.families import elementwise, real_float, same_dtype
from functx.primitive import Emitter

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def scipy_special() -> Any:
    """The module scipy.special."""
    try:
        import scipy.special
    except ImportError:
        raise MissingDependencyError(
            "special functions need SciPy, which is not installed",
            why="functx evaluates them by scipy.special",
            fix="pip install functx[scipy]",
        ) from None
    return scipy.special


def _special(
    name: str, partials: Any, *, of: str = "", evaluate: Callable[..., Any] | None = None, result: Callable[..., np.dtype] = real_float
) -> Any:
    """``scipy.special.<of>``, or ``evaluate(scipy.special, *arrays, **params)``."""

    def impl(*arrays: Any, **params: Any) -> Any:
        module, dtype = scipy_special(), np.asarray(arrays[0]).dtype
        wide = [x.astype(FLOAT32) if dtype.itemsize == 2 else x for x in arrays]
        out = evaluate(module, *wide, **params) if evaluate else getattr(module, of or name)(*wide)
        return np.asarray(out).astype(dtype, copy=False)

    return elementwise(name, impl, partials, result=result, cost=32)


def _times(b: Emitter, x: Atom, factor: float) -> Atom:
    return b.mul(x, b.full_like(x, factor))


def _gaussian(b: Emitter, x: Atom, factor: float) -> Atom:
    """factor * exp(-x * x)."""
    return _times(b, b.exp(b.neg(b.mul(x, x))), factor)


# 1 / sqrt(x)
rsqrt = elementwise("rsqrt", lambda x: x.dtype.type(1) / np.sqrt(x), (lambda b, out, x: _times(b, b.div(out, x), -0.5),), cost=8)

# --- the error function and the normal distribution ---------------------------------------------------------------------------------------

erf = _special("erf", (lambda b, out, x: _gaussian(b, x, _TWO_OVER_SQRT_PI),), result=same_dtype)

erfc = _special("erfc", (lambda b, out, x: _gaussian(b, x, -_TWO_OVER_SQRT_PI),), result=same_dtype)

erf_inv = _special("erf_inv", (lambda b, out, x: _times(b, b.exp(b.mul(out, out)), 1 / _TWO_OVER_SQRT_PI),), of="erfinv")

# exp(x * x) * erfc(x)
erfcx = _special("erfcx", (lambda b, out, x: b.sub(_times(b, b.mul(x, out), 2), b.full_like(x, _TWO_OVER_SQRT_PI)),), result=same_dtype)

# log(erfc(-x / sqrt(2)) / 2)
log_ndtr = _special(
    "log_ndtr",
    (lambda b, out, x: b.div(b.full_like(x, math.sqrt(2 / math.pi)), b.erfcx(_times(b, x, -math.sqrt(0.5)))),),
    result=same_dtype,
)

# The inverse of the normal distribution function.
ndtri = _special("ndtri", (lambda b, out, x: _times(b, b.exp(_times(b, b.mul(out, out), 0.5)), math.sqrt(2 * math.pi)),))

# --- the gamma function and its relatives -------------------------------------------------------------------------------------------------

# The derivative of order n + 1 of lgamma.
polygamma = _special(
    "polygamma",
    (lambda b, out, x, *, n: b.polygamma(x, n=n + 1),),
    evaluate=lambda special, x, *, n: special.polygamma(n, x) if n else special.psi(x),
    result=lambda dtype, *, n: real_float(dtype) if n else dtype,
)

# log(abs(gamma(x)))
lgamma = _special("lgamma", (lambda b, out, x: b.polygamma(x, n=0),), of="gammaln")

gamma = _special("gamma", (lambda b, out, x: b.mul(out, b.polygamma(x, n=0)),), result=same_dtype)


def _less_that_of_the_sum(b: Emitter, x: Atom, y: Atom) -> Atom:
    """The derivative by x of lgamma(x) - lgamma(x + y)."""
    return b.sub(b.polygamma(x, n=0), b.polygamma(b.add(x, y), n=0))


# log(abs(gamma(x) * gamma(y) / gamma(x + y)))
betaln = _special("betaln", (lambda b, out, x, y: _less_that_of_the_sum(b, x, y), lambda b, out, x, y: _less_that_of_the_sum(b, y, x)))

beta = _special(
    "beta",
    (
        lambda b, out, x, y: b.mul(out, _less_that_of_the_sum(b, x, y)),
        lambda b, out, x, y: b.mul(out, _less_that_of_the_sum(b, y, x)),
    ),
)

# --- relative entropy ---------------------------------------------------------------------------------------------------------------------


def _difference_of_logarithms(b: Emitter, x: Atom, y: Atom) -> Atom:
    return b.sub(b.log(x), b.log(y))


def _ratio(b: Emitter, x: Atom, y: Atom) -> Atom:
    """x / y, and 0 where x is 0."""
    return b.mul_zero(x, b.div(b.full_like(y, 1), y))


# x log(x / y), 0 where x is 0, inf where an operand is negative
rel_entr = _special(
    "rel_entr",
    (
        lambda b, out, x, y: b.add(_difference_of_logarithms(b, x, y), b.full_like(x, 1)),
        lambda b, out, x, y: b.neg(_ratio(b, x, y)),
    ),
)

# rel_entr(x, y) - x + y
kl_div = _special(
    "kl_div",
    (
        lambda b, out, x, y: _difference_of_logarithms(b, x, y),
        lambda b, out, x, y: b.sub(b.full_like(y, 1), _ratio(b, x, y)),
    ),
)
