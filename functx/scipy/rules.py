"""The ufuncs of scipy.special by name, in terms of primitives: what NumPy's protocol needs to trace a plain ``scipy.special.erf(x)``.

Operands arrive converted to the ufunc's loop and broadcast to one shape, as in functx.numpy.ufuncs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from functx.ir import Atom
from functx.primitive import Emitter

Rule = Callable[..., Atom]


def _zero_times(b: Emitter, x: Atom, y: Atom, logarithm: Atom) -> Atom:
    """x times the logarithm of a function of y, and 0 where x is 0 and y a number, in the derivative by y too."""
    nothing = b.and_(b.eq(x, b.zeros_like(x)), b.eq(y, y))
    return b.select(nothing, b.mul_zero(x, logarithm), b.mul(x, logarithm))


def _xlogy(b: Emitter, x: Atom, y: Atom) -> Atom:
    return _zero_times(b, x, y, b.log(y))


def _entr(b: Emitter, x: Atom) -> Atom:
    """-x log(x), and -inf for negative x."""
    return b.select(b.lt(x, b.zeros_like(x)), b.full_like(x, -np.inf), b.neg(_xlogy(b, x, x)))


def _logit(b: Emitter, x: Atom) -> Atom:
    """log(x / (1 - x)), without cancellation near 1/2."""
    one = b.full_like(x, 1)
    doubled = b.sub(b.add(x, x), one)
    near = b.lt(b.abs(doubled), b.full_like(x, 0.4))
    return b.select(near, b.sub(b.log1p(doubled), b.log1p(b.neg(doubled))), b.log(b.div(x, b.sub(one, x))))


def _ndtr(b: Emitter, x: Atom) -> Atom:
    half = b.full_like(x, 0.5)
    return b.mul(half, b.erfc(b.mul(x, b.full_like(x, -math.sqrt(0.5)))))


def _primitive(name: str, **params: Any) -> Rule:
    return lambda b, *xs: getattr(b, name)(*xs, **params)


RULES: dict[str, Rule] = {
    **{name: _primitive(name) for name in ("erf", "erfc", "erfcx", "gamma", "beta", "betaln", "log_ndtr", "ndtri", "rel_entr", "kl_div")},
    **{name: _primitive(name) for name in ("cbrt", "exp2", "expm1", "log1p")},
    "erfinv": _primitive("erf_inv"),
    "gammaln": _primitive("lgamma"),
    "psi": _primitive("polygamma", n=0),
    "expit": _primitive("logistic"),
    "log_expit": lambda b, x: b.neg(b.logaddexp(b.neg(x), b.zeros_like(x))),
    "logit": _logit,
    "ndtr": _ndtr,
    "xlogy": _xlogy,
    "xlog1py": lambda b, x, y: _zero_times(b, x, y, b.log1p(y)),
    "entr": _entr,
}


def rule_of(ufunc: np.ufunc) -> Rule | None:
    """The rule of a ufunc of scipy.special; None for any other."""
    module, name = sys.modules.get("scipy.special"), ufunc.__name__
    return RULES.get(name) if getattr(module, name, None) is ufunc else None
