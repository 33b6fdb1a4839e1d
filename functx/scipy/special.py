"""scipy.special on arrays and tracers: ``from functx.scipy.special import erf, xlogy, logsumexp``.

Its ufuncs are SciPy's own, which reach functx by NumPy's protocol: ``scipy.special.erf`` of a tracer is traced as well. Those of
``functx.scipy.rules`` are. What SciPy computes in Python is written here.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functx import lax, nn
from functx.ops.special import scipy_special
from functx.scipy.rules import RULES
from functx.trace import Tracer

_ALIASES = {"digamma": "psi"}

__all__ = [  # noqa: F822 - the ufuncs are looked up in SciPy
    "beta", "betaln", "cbrt", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gamma", "gammaln", "kl_div",
    "log1p", "log_expit", "log_ndtr", "log_softmax", "logit", "logsumexp", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "softmax",
    "xlog1py", "xlogy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if _ALIASES.get(name, name) not in RULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_special(), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def polygamma(n: int, x: Any) -> Any:
    """The derivative of order ``n + 1`` of ``log(abs(gamma(x)))``; for a tracer ``x``, one number ``n``.

    >>> float(polygamma(1, 1.0).round(4))
    1.6449
    """
    if not isinstance(x, Tracer):
        return scipy_special().polygamma(n, x)
    wide = np.result_type(x.dtype, float)  # SciPy's dtype for every x
    return (lax.polygamma(n, x.astype(wide)) if operator.index(n) else scipy_special().psi(x)).astype(wide)


def logsumexp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``log(sum(exp(a)))``, over all axes by default, without overflow.

    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(4))
    1000.6931
    """
    if not isinstance(a, Tracer):
        return scipy_special().logsumexp(a, axis, keepdims=keepdims)
    wide = a if a.dtype.kind in "fc" else a.astype(float)  # as SciPy does
    total = nn.logsumexp(wide, axis, keepdims)
    return total if total.ndim else total[()]


def softmax(x: Any, axis: Any = None) -> Any:
    """``exp(x) / sum(exp(x))``, over all axes by default, without overflow.

    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    return nn.softmax(x, axis) if isinstance(x, Tracer) else scipy_special().softmax(x, axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """``log(softmax(x))``, over all axes by default.

    >>> log_softmax(np.array([0.0, 0.0])).round(4)
    array([-0.6931, -0.6931])
    """
    return nn.log_softmax(x, axis) if isinstance(x, Tracer) else scipy_special().log_softmax(x, axis)
