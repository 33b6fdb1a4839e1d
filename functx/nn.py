"""Functions of neural networks, in NumPy's terms. They take arrays and tracers alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functx.lax import erfc, logistic, stop_gradient


def relu(x: Any) -> Any:
    """``maximum(x, 0)``, elementwise, with derivative 0 at 0.

    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    return np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """The logistic function ``1 / (1 + exp(-x))``, elementwise; floats only.

    >>> sigmoid(np.array([0.0]))
    array([0.5])
    """
    return logistic(x)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``, elementwise.

    >>> silu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """
    return x * sigmoid(x)


def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``, elementwise, without overflow.

    >>> softplus(np.array([0.0, 1000.0])).round(4)
    array([6.931e-01, 1.000e+03])
    """
    return np.logaddexp(x, 0.0)


def gelu(x: Any, approximate: bool = True) -> Any:
    """``x`` times the normal distribution function at ``x``, elementwise; by a formula with tanh, or exactly (which needs SciPy).

    >>> gelu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8412])
    """
    if not approximate:
        return 0.5 * x * erfc(-math.sqrt(0.5) * x)
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def elu(x: Any, alpha: float = 1.0) -> Any:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``, elementwise.

    >>> elu(np.array([-1.0, 2.0])).round(4)
    array([-0.6321,  2.    ])
    """
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x)))


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """``x`` where it is not negative, else ``negative_slope * x``, elementwise.

    >>> leaky_relu(np.array([-1.0, 2.0]))
    array([-0.01,  2.  ])
    """
    return np.where(x >= 0, x, negative_slope * x)


def _finite_maximum(x: Any, axis: Any) -> Any:
    """What is subtracted before exp: it cancels, so it has no derivative. Of infinities it is 0, so that they stay."""
    top = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return np.where(np.isfinite(top), top, np.zeros_like(top))


def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along an axis, without overflow.

    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(4))
    1000.6931
    """
    top = _finite_maximum(x, axis)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """``x - logsumexp(x)`` along an axis.

    >>> log_softmax(np.array([0.0, 0.0])).round(4)
    array([-0.6931, -0.6931])
    """
    shifted = x - _finite_maximum(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def softmax(x: Any, axis: Any = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along an axis, without overflow.

    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    shifted = np.exp(x - stop_gradient(np.max(x, axis=axis, keepdims=True)))
    return shifted / np.sum(shifted, axis=axis, keepdims=True)


def one_hot(labels: Any, classes: int, dtype: Any = float) -> Any:
    """Rows of the identity: 1 where the class is the label. Labels outside 0..classes-1 give zeros.

    >>> one_hot(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    return (np.expand_dims(labels, -1) == np.arange(classes)).astype(dtype)
