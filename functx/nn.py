"""Functions of neural networks, in NumPy's terms. They take arrays and tracers alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from functx.lax import stop_gradient
from functx.numpy import promote
from functx.ops import transcendental
from functx.trace import Tracer, current_trace


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
    if not isinstance(x, Tracer):
        array = np.asarray(x)
        return transcendental.logistic.impl(array.astype(_float_dtype(array.dtype)))[()]
    (h,) = promote.handles([x])
    trace = current_trace()
    dtype = _float_dtype(h.aval.dtype)
    b = trace.emit
    atom = b.logistic(promote.convert(b, h, dtype))
    return trace.tracer(atom, promote.result_kind([h], h.aval.shape), promote.k_order([h], h.aval.shape, dtype))


def _float_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy computes exp."""
    return np.exp.resolve_dtypes((dtype, None))[-1]


def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along an axis, without overflow.

    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(4))
    1000.6931
    """
    top = stop_gradient(np.max(x, axis=axis, keepdims=True))
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """``x - logsumexp(x)`` along an axis.

    >>> log_softmax(np.array([0.0, 0.0])).round(4)
    array([-0.6931, -0.6931])
    """
    return x - logsumexp(x, axis, keepdims=True)


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
