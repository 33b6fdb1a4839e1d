"""Continuous distributions. Samples are differentiable functions of their parameters (reparameterized).

Formulas are those of jax.random, so that the same key gives the same numbers, to rounding. A scalar shape gives a NumPy scalar.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from functx import dtypes, lax, nn, shapes
from functx.numpy import promote
from functx.ops import fma, random
from functx.random.keys import as_shape, common_shape, elementwise, float_dtype, parameter, sample, split, words
from functx.trace import current_trace


def uniform(key: Any, shape: Any = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Uniform numbers of ``[minval, maxval)``.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: float16, bfloat16, float32 or float64.
      minval, maxval: numbers or arrays that can be broadcast to ``shape``.

    >>> from functx.random import key
    >>> uniform(key(0), (2,)).round(4)
    array([0.4185, 0.2163])
    """
    dtype = float_dtype(dtype, "uniform")
    low, high = parameter(minval, dtype), parameter(maxval, dtype)
    shape = common_shape("uniform", shape, np.shape(low), np.shape(high))
    unit = random.unit_floats(words(key, shape), dtype)
    if not promote.is_traced(low, high) and np.all(low == 0) and np.all(high == 1):
        return unit
    return np.maximum(low, _stretched(unit, high - low, low))


def _stretched(unit: Any, width: Any, low: Any) -> Any:
    """unit * width + low, rounded once where processors do: compilers fuse it, JAX's among them."""
    if unit.dtype.itemsize < 4:
        return unit * width + low
    return elementwise(fma.fma, np.shape(unit), unit, width, low)


def normal(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Standard normal numbers, ``sqrt(2) * erf_inv(u)`` for uniform u of (-1, 1); complex ones have variance 1 too. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float or complex dtype.

    >>> from functx.random import key
    >>> normal(key(0), (2,)).round(4)
    array([-0.2058, -0.7848])
    """
    if dtypes.is_complex(np.dtype(dtype)):
        part = np.empty(0, dtype).real.dtype
        real, imaginary = (normal(k, shape, part) for k in split(key))
        return ((real + 1j * imaginary) / part.type(math.sqrt(2))).astype(dtype)
    dtype = float_dtype(dtype, "normal")
    u = uniform(key, shape, dtype, np.nextafter(dtype.type(-1), dtype.type(0)), 1)
    return dtype.type(math.sqrt(2)) * lax.erf_inv(u)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Standard normal numbers between two bounds, by the inverse of the distribution function. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      lower, upper: numbers or arrays that can be broadcast to ``shape``; infinities are allowed.
      shape: of the result; by default that of the bounds.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> truncated_normal(key(0), 1.0, 2.0, (2,)).round(4)
    array([1.2714, 1.1299])
    """
    dtype = float_dtype(dtype, "truncated_normal")
    lower, upper = parameter(lower, dtype), parameter(upper, dtype)
    shape = common_shape("truncated_normal", shape, np.shape(lower), np.shape(upper))
    root = dtype.type(math.sqrt(2))
    u = uniform(key, shape, dtype, lax.erf(lower / root), lax.erf(upper / root))
    least = np.nextafter(lax.stop_gradient(lower), dtype.type(np.inf))
    return np.clip(root * lax.erf_inv(u), least, np.nextafter(lax.stop_gradient(upper), dtype.type(-np.inf)))


def _positive_uniform(key: Any, shape: Any, dtype: np.dtype) -> Any:
    """Uniform numbers of (0, 1)."""
    return uniform(key, shape, dtype, ml_dtypes.finfo(dtype).tiny, 1)


def gumbel(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Standard Gumbel numbers, ``-log(-log(u))``.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> gumbel(key(0), (2,)).round(4)
    array([ 0.1379, -0.426 ])
    """
    return -np.log(-np.log(_positive_uniform(key, shape, float_dtype(dtype, "gumbel"))))


def exponential(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Exponential numbers of mean 1, ``-log1p(-u)``.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> exponential(key(0), (2,)).round(4)
    array([0.5421, 0.2437])
    """
    return -np.log1p(-uniform(key, shape, float_dtype(dtype, "exponential")))


def laplace(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Standard Laplace numbers, ``sign(u) * log1p(-abs(u))`` for uniform u of (-1, 1).

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> laplace(key(0), (2,)).round(4)
    array([0.178, 0.838])
    """
    dtype = float_dtype(dtype, "laplace")
    u = uniform(key, shape, dtype, -1.0 + float(ml_dtypes.finfo(dtype).epsneg), 1)
    return np.sign(u) * np.log1p(-np.abs(u))


def logistic(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Standard logistic numbers, ``log(u) - log1p(-u)``.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> logistic(key(0), (2,)).round(4)
    array([-0.3291, -1.2874])
    """
    u = _positive_uniform(key, shape, float_dtype(dtype, "logistic"))
    return np.log(u) - np.log1p(-u)


def cauchy(key: Any, shape: Any = (), dtype: Any = float) -> Any:
    """Standard Cauchy numbers, ``tan(pi * (u - 1/2))``.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> cauchy(key(0), (2,)).round(4)
    array([-0.2619, -1.2378])
    """
    dtype = float_dtype(dtype, "cauchy")
    u = uniform(key, shape, dtype, float(ml_dtypes.finfo(dtype).eps), 1)
    return np.tan(dtype.type(np.pi) * (u - dtype.type(0.5)))


def rayleigh(key: Any, scale: Any = 1.0, shape: Any = None, dtype: Any = float) -> Any:
    """Rayleigh numbers, ``scale * sqrt(-2 * log(u))``.

    Args:
      key: uint32 of shape (2,).
      scale: a number or array that can be broadcast to ``shape``.
      shape: of the result; by default that of ``scale``.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> rayleigh(key(0), 2.0, (2,)).round(4)
    array([2.64  , 3.4998])
    """
    dtype = float_dtype(dtype, "rayleigh")
    scale = parameter(scale, dtype)
    shape = common_shape("rayleigh", shape, np.shape(scale))
    return scale * np.sqrt(np.log(_positive_uniform(key, shape, dtype)) * dtype.type(-2))


# --- with gamma variables -----------------------------------------------------------------------------------------------------------------


def _log_gamma(key: Any, a: Any, shape: shapes.Shape) -> Any:
    return sample(random.log_gamma_sample, key, shape, a)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Gamma numbers of scale 1, by the method of Marsaglia and Tsang (ACM TOMS 26, 2000). Needs SciPy.

    The derivative by ``a`` is that of the sample at a fixed value of the distribution function, ``-(dP/da) / density`` (implicit
    reparameterization: Figurnov, Mohamed, Mnih, NeurIPS 2018).

    Args:
      key: uint32 of shape (2,).
      a: the shape parameter, positive (NaN for a negative one): a number or array that can be broadcast to ``shape``.
      shape: of the result; by default that of ``a``.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> gamma(key(0), np.array([0.5, 3.0])).round(4)
    array([0.0981, 1.9621])
    """
    a = parameter(a, float_dtype(dtype, "gamma"))
    return np.exp(_log_gamma(key, a, common_shape("gamma", shape, np.shape(a))))


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Beta numbers: ``x / (x + y)`` of gamma numbers with parameters ``a`` and ``b``. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      a, b: positive numbers or arrays that can be broadcast to ``shape``.
      shape: of the result; by default that of ``a`` and ``b``.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> beta(key(0), 2.0, 3.0, (2,)).round(4)
    array([0.328 , 0.6138])
    """
    dtype = float_dtype(dtype, "beta")
    a, b = parameter(a, dtype), parameter(b, dtype)
    shape = common_shape("beta", shape, np.shape(a), np.shape(b))
    x, y = (_log_gamma(k, p, shape) for k, p in zip(split(key), (a, b), strict=True))
    top = lax.stop_gradient(np.maximum(x, y))
    x, y = np.exp(x - top), np.exp(y - top)
    return x / (x + y)


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Points of a simplex: gamma numbers over their sum, along the last axis. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      alpha: positive, of shape ``(..., n)``.
      shape: of the result without its last axis; by default that of ``alpha`` without its last axis.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> dirichlet(key(0), np.array([1.0, 2.0, 3.0])).round(4)
    array([0.0707, 0.1671, 0.7623])
    """
    alpha = parameter(alpha, float_dtype(dtype, "dirichlet"))
    shapes.check(np.ndim(alpha) > 0, "dirichlet: alpha is one number, where an array of shape (..., n) is wanted")
    shape = common_shape("dirichlet", shape, np.shape(alpha)[:-1])
    return nn.softmax(_log_gamma(key, alpha, (*shape, np.shape(alpha)[-1])))


def t(key: Any, df: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Numbers of Student's distribution: a normal one times ``sqrt(df / 2 / g)`` for a gamma number g of parameter ``df / 2``. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      df: degrees of freedom, positive: a number or array that can be broadcast to ``shape``.
      shape: of the result; by default that of ``df``.
      dtype: a float dtype.

    >>> from functx.random import key
    >>> t(key(0), 3.0, (2,)).round(4)
    array([ 1.4012, -0.6072])
    """
    dtype = float_dtype(dtype, "t")
    df = parameter(df, dtype)
    shape = common_shape("t", shape, np.shape(df))
    for_normal, for_gamma = split(key)
    half = df / dtype.type(2)
    return normal(for_normal, shape, dtype) * np.sqrt(half / np.exp(_log_gamma(for_gamma, half, shape)))


# --- of matrices --------------------------------------------------------------------------------------------------------------------------


def _cholesky(cov: Any) -> Any:
    """The lower triangular factor. Of tracers column by column: NaN where they are not positive definite."""
    if not promote.is_traced(cov):
        return np.linalg.cholesky(cov)
    n = np.shape(cov)[-1]
    cov = (cov + np.swapaxes(cov, -1, -2)) * 0.5
    columns: list[Any] = []
    for j in range(n):
        rest = cov[..., :, j]
        if columns:
            left = np.stack(columns, -1)
            rest = rest - (left @ left[..., j, :, None])[..., 0]
        columns.append(np.where(np.arange(n) >= j, rest / np.sqrt(rest[..., j : j + 1]), 0))
    return np.stack(columns, -1)


def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Normal vectors ``mean + L z``, where L is the Cholesky factor of the covariance and z standard normal. Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      mean: of shape ``(..., n)``.
      cov: symmetric positive definite, of shape ``(..., n, n)``.
      shape: of the result without its last axis; by default that of ``mean`` and ``cov`` broadcast.
      dtype: a float dtype.

    Raises:
      numpy.linalg.LinAlgError: a covariance is not positive definite (traced ones give NaN).

    >>> from functx.random import key
    >>> multivariate_normal(key(0), np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    array([-0.2911, -1.1067])
    """
    dtype = float_dtype(dtype, "multivariate_normal")
    mean, cov = parameter(mean, dtype), parameter(cov, dtype)
    shapes.check(
        np.ndim(mean) >= 1 and np.ndim(cov) >= 2, "multivariate_normal: mean of shape (..., n) and cov of shape (..., n, n) are wanted"
    )
    n = np.shape(mean)[-1]
    shapes.check_equal(np.shape(cov)[-2:], (n, n), "multivariate_normal: cov")
    shape = common_shape("multivariate_normal", shape, np.shape(mean)[:-1], np.shape(cov)[:-2])
    z = normal(key, (*shape, n), dtype)
    return mean + (_cholesky(cov) @ z[..., None])[..., 0]


def _orthonormal_columns(x: Any) -> Any:
    if not promote.is_traced(x):
        return random.orthonormal_columns.impl(x)
    (h,) = promote.handles([x])
    return current_trace().tracer(current_trace().emit.orthonormal_columns(h.atom))


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = float, m: int | None = None) -> Any:
    """Uniformly distributed orthogonal (unitary) matrices: Q of a QR decomposition of normal numbers, the diagonal of R made positive
    (Mezzadri: How to generate random matrices from the classical compact groups, Notices of the AMS 54, 2007). Needs SciPy.

    Args:
      key: uint32 of shape (2,).
      n, m: rows and columns, by default as many. Where they differ, the longer ones are not complete: rows or columns are orthonormal.
      shape: of the result without its last two axes.
      dtype: a float or complex dtype.

    >>> from functx.random import key
    >>> q = orthogonal(key(0), 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    m = n if m is None else m
    z = normal(key, (*as_shape(shape), max(n, m), min(n, m)), dtype)
    q = _orthonormal_columns(z)
    return np.swapaxes(q, -1, -2) if n < m else q
