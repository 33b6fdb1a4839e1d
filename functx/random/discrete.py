"""Truth values, integers, choices and orders. They have no derivatives; nor have the probabilities that they are drawn by."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import functx.numpy as fnp
from functx import lax, shapes
from functx.numpy import promote
from functx.ops import random
from functx.random.continuous import gumbel, uniform
from functx.random.keys import as_shape, common_shape, float_dtype, parameter, sample, split, words
from functx.trace import Tracer


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Truth values that hold with probability ``p``: ``uniform < p``, drawn in the dtype of ``p``.

    Args:
      key: uint32 of shape (2,).
      p: a number or array that can be broadcast to ``shape``.
      shape: of the result, which is bool; by default that of ``p``.

    >>> from functx.random import key
    >>> bernoulli(key(0), 0.5, (4,))
    array([ True,  True, False, False])
    """
    p = parameter(p, _float_dtype(p))
    return uniform(key, common_shape("bernoulli", shape, np.shape(p)), p.dtype) < p


def _float_dtype(x: Any) -> np.dtype:
    """Its dtype if that is one of floats, else float64."""
    dtype = x.dtype if isinstance(x, Tracer) else np.asarray(x).dtype
    return np.dtype(float) if dtype.kind in "biu" else float_dtype(dtype, "probabilities")


def rademacher(key: Any, shape: Any = (), dtype: Any = int) -> Any:
    """-1 or 1, with the same probability.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: of the result, with a sign.

    >>> from functx.random import key
    >>> rademacher(key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    return 2 * bernoulli(key, 0.5, shape).astype(dtype) - 1


def _bound(x: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """A bound as an integer of ``dtype``, the nearest there is, and whether it was greater than all of them."""
    info = np.iinfo(dtype)
    if isinstance(x, int) and not isinstance(x, bool):
        return dtype.type(min(max(x, info.min), info.max)), x > info.max
    own = x.dtype if isinstance(x, Tracer) else np.asarray(x).dtype
    if own.kind not in "iu":
        raise TypeError(f"randint: bounds are integers, not {own}")
    x = parameter(x, own)
    low, high = max(info.min, np.iinfo(own).min), min(info.max, np.iinfo(own).max)
    return np.clip(x, own.type(low), own.type(high)).astype(dtype), x > own.type(high)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int) -> Any:
    """Integers from ``minval`` to below ``maxval``, as the rest of twice as many random bits as they have.

    Where the range is no power of 2, some are more likely than others, by less than one in ``2**(2 * bits) / range``; the least is
    returned where the range is empty.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      minval, maxval: integers or integer arrays that can be broadcast to ``shape``. ``maxval`` may be one more than the dtype holds.
      dtype: of the result: an integer dtype.

    >>> from functx.random import key
    >>> randint(key(0), (5,), 0, 10)
    array([5, 1, 5, 7, 3])
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"randint: an integer dtype is wanted, not {dtype}")
    if dtype.itemsize < 4:  # drawn from more bits
        wide, info = np.dtype(np.int32), np.iinfo(dtype)
        low, high = (np.clip(_bound(x, wide)[0], info.min, info.max + i) for i, x in enumerate((minval, maxval)))
        return randint(key, shape, low, high, wide).astype(dtype)
    (low, _), (high, beyond) = _bound(minval, dtype), _bound(maxval, dtype)
    shape = common_shape("randint", shape, np.shape(low), np.shape(high))
    bits = 8 * dtype.itemsize
    unsigned = np.dtype(f"uint{bits}")
    one, half = unsigned.type(1), unsigned.type(1 << bits // 2)
    upper, lower = (random.narrow(words(k, shape), bits) for k in split(key))
    with np.errstate(over="ignore"):
        span = np.where(high <= low, one, high.astype(unsigned) - low.astype(unsigned) + (beyond & (high > low)))[()]
        everything = span == 0  # the range has 2**bits integers
        span = np.where(everything, one, span)[()]  # a known one stays a scalar: compiled code divides by a constant
        multiplier = half % span
        offset = ((upper % span) * (multiplier * multiplier % span) + lower % span) % span
        if promote.is_traced(everything) or np.any(everything):
            offset = np.where(everything, lower, offset)
        return (low.astype(unsigned) + offset).astype(dtype)[()]


# --- orders and choices -------------------------------------------------------------------------------------------------------------------


def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """Sorts by random keys of 32 bits, as often as it takes for ties to be decided: 3 log(size) / log(2**32) times."""
    rounds = math.ceil(3 * np.log(max(1, shapes.size(np.shape(x)))) / np.log(2**32 - 1))
    for _ in range(rounds):
        key, now = split(key)
        _, x = lax.sort((random.narrow(words(now, np.shape(x)), 32), x), axis)
    return x if rounds else np.copy(x)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """A random order: of 0 to ``x - 1``, or of an array along an axis.

    Args:
      key: uint32 of shape (2,).
      x: an int, or an array.
      axis: along which it is permuted.
      independent: every vector along the axis in an order of its own.

    >>> from functx.random import key
    >>> permutation(key(0), 5)
    array([0, 1, 4, 3, 2])
    """
    if not np.ndim(x):
        return _shuffle(key, np.arange(operator.index(x)), 0)
    axis = shapes.canonical_axis(operator.index(axis), np.ndim(x))
    if independent or np.ndim(x) == 1:
        return _shuffle(key, x, axis)
    return _take(x, _shuffle(key, np.arange(np.shape(x)[axis]), 0), axis)


def _take(x: Any, places: Any, axis: int) -> Any:
    return np.take(fnp.asarray(x) if isinstance(places, Tracer) else x, places, axis)


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Elements of an array, or integers below ``a``, drawn at random.

    Without replacement and by probabilities they are those with the greatest ``log(p)`` plus Gumbel number (Kool, van Hoof, Welling,
    ICML 2019), most probable order first.

    Args:
      key: uint32 of shape (2,).
      a: an int, or an array.
      shape: how many; it takes the place of the axis.
      replace: whether an element can be drawn twice.
      p: probabilities, of the size of the axis; all the same by default.
      axis: along which it is chosen.

    Raises:
      ValueError: there are not as many elements to draw.

    >>> from functx.random import key
    >>> choice(key(0), 5, (3,), replace=False)
    array([0, 1, 4])
    """
    shape, whole = as_shape(shape), not np.ndim(a)
    axis = 0 if whole else shapes.canonical_axis(operator.index(axis), np.ndim(a))
    n, draws = operator.index(a) if whole else np.shape(a)[axis], math.prod(shape)
    if draws and (n <= 0 or not replace and draws > n):
        raise ValueError(f"choice: {draws} elements cannot be drawn from {n}{'' if replace else ' without replacement'}")
    places = _places(key, n, shape, draws, replace, p)
    return places if whole else _take(a, places, axis)


def _places(key: Any, n: int, shape: shapes.Shape, draws: int, replace: bool, p: Any) -> Any:
    if p is None:
        return randint(key, shape, 0, n) if replace else np.reshape(permutation(key, n)[:draws], shape)[()]
    p = parameter(p, _float_dtype(p))
    shapes.check_equal(np.shape(p), (n,), "choice: p")
    if not replace:
        with np.errstate(divide="ignore"):
            scores = gumbel(key, (n,), p.dtype) + np.log(p)
        return np.reshape(lax.top_k(scores, draws)[1], shape)[()]
    upto = np.cumsum(p)
    return np.searchsorted(upto, upto[-1] * (1 - uniform(key, shape, p.dtype)))


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Positions along an axis, with probabilities ``softmax(logits)``: the place of the greatest logit plus Gumbel number.

    Args:
      key: uint32 of shape (2,).
      logits: logarithms of probabilities, up to a constant.
      axis: along which they belong to one distribution.
      shape: of the result, which is int64; that of ``logits`` without the axis must be its end, and is the default.

    >>> from functx.random import key
    >>> categorical(key(0), np.log(np.array([0.2, 0.7, 0.1])), shape=(5,))
    array([2, 1, 0, 1, 1])
    """
    logits = parameter(logits, _float_dtype(logits))
    axis = shapes.canonical_axis(operator.index(axis), np.ndim(logits))
    rest = shapes.delete(np.shape(logits), (axis,))
    shape = common_shape("categorical", shape, rest)
    front = shape[: len(shape) - len(rest)]
    drawn = (*front, *shapes.insert(shape[len(front) :], axis, np.shape(logits)[axis]))
    return np.argmax(gumbel(key, drawn, logits.dtype) + logits, axis=len(front) + axis)


# --- counts -------------------------------------------------------------------------------------------------------------------------------


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = int) -> Any:
    """Poisson numbers: below a mean of 10 by inversion, else by transformed rejection (PTRS: Hörmann, Insurance: Mathematics and
    Economics 12, 1993), in float64.

    Args:
      key: uint32 of shape (2,).
      lam: the mean, 0 to 1e15: a number or array that can be broadcast to ``shape``. -1 is returned for any other.
      shape: of the result; by default that of ``lam``.
      dtype: of the result.

    >>> from functx.random import key
    >>> poisson(key(0), np.array([0.5, 5.0, 500.0]))
    array([  2,   2, 505])
    """
    lam = parameter(lam, np.dtype(float))
    return sample(random.poisson_sample, key, common_shape("poisson", shape, np.shape(lam)), lam).astype(dtype)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Numbers of successes in ``n`` trials: where their mean, or that of failures, is at most 10, by inversion, else by transformed
    rejection (BTRS: Hörmann, Journal of Statistical Computation and Simulation 46, 1993), in float64.

    Args:
      key: uint32 of shape (2,).
      n: trials, 0 to 1e15 (the part after the point is dropped).
      p: the probability of success; NaN is returned where it is none, or ``n`` is out of range.
      shape: of the result; by default that of ``n`` and ``p``.
      dtype: of the result: a float dtype.

    >>> from functx.random import key
    >>> binomial(key(0), 100, np.array([0.02, 0.5, 0.9]))
    array([ 5., 52., 89.])
    """
    n, p = parameter(n, np.dtype(float)), parameter(p, np.dtype(float))
    shape = common_shape("binomial", shape, np.shape(n), np.shape(p))
    return sample(random.binomial_sample, key, shape, n, p).astype(float_dtype(dtype, "binomial"))
