"""Random bits as a pure function of a key, and the samplers that draw until they accept.

Bits are the counter-based hash threefry2x32 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011), so a value
depends on its key and its place only. A sampler is elementwise: every element has a key of its own, which it splits for each new attempt.
Compiled code calls the reference implementation of samplers back, so they give the same numbers everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx.dtypes import FLOAT32, FLOAT64, INT64
from functx.ir import AbstractArray, Atom
from functx.ops.families import elementwise
from functx.ops.special import scipy_special
from functx.primitive import Emitter, Primitive
from functx.shapes import ShapeError, check

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _hash(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """The two words that a key makes of a counter of two words: 20 rounds."""
    keys = k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)
    x, y = c0 + k0, c1 + k1
    for i in range(5):
        for turn in THREEFRY_ROTATIONS[i % 2]:
            x += y
            carried = y >> np.uint32(32 - turn)
            y <<= np.uint32(turn)
            y |= carried
            y ^= x
        x += keys[(i + 1) % 3]
        y += keys[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _threefry(*words: Any) -> Any:
    with np.errstate(over="ignore"):
        first, second = _hash(*words)
    return (first.astype(UINT64) << np.uint64(32)) | second.astype(UINT64)


def _words_only(*dtypes: np.dtype) -> np.dtype:
    if set(dtypes) != {UINT32}:
        raise ShapeError(f"threefry2x32: four operands of dtype uint32 are wanted, not {', '.join(map(str, dtypes))}")
    return UINT64


# threefry2x32(key0, key1, counter0, counter1): both words of the hash, the first one in the upper half.
threefry2x32 = elementwise("threefry2x32", _threefry, result=_words_only, cost=80)


def halves(words: Any) -> tuple[Any, Any]:
    """The upper and the lower 32 bits of uint64, as uint32. Arrays and tracers."""
    return (words >> 32).astype(UINT32), words.astype(UINT32)


def narrow(words: Any, bits: int) -> Any:
    """As many random bits as wanted out of 64: all, or those of both halves mixed. Arrays and tracers."""
    if bits == 64:
        return words
    first, second = halves(words)
    return (first ^ second).astype(f"uint{bits}")


def unit_floats(words: Any, dtype: np.dtype) -> Any:
    """Floats of [0, 1) from 64 random bits each: random bits as the mantissa of a number of [1, 2), less 1. Arrays and tracers."""
    mantissa, width = _mantissa_bits(dtype), 8 * dtype.itemsize
    drawn = width if mantissa >= 8 else 8
    one = np.ones((), dtype)
    pattern = (narrow(words, drawn).astype(f"uint{width}") >> (drawn - mantissa)) | one.view(f"uint{width}")[()]
    return pattern.view(dtype) - one[()]


def _mantissa_bits(dtype: np.dtype) -> int:
    return round(-math.log2(float(np.nextafter(np.ones((), dtype), dtype.type(2)) - dtype.type(1))))


# --- drawing on the host: a key is a pair of arrays, one key per element ------------------------------------------------------------------

Keys = tuple[Any, Any]
_ZERO = np.uint32(0)


def _split(keys: Keys, n: int) -> list[Keys]:
    return [halves(_threefry(*keys, _ZERO, np.uint32(i))) for i in range(n)]


def _uniform(keys: Keys, dtype: np.dtype) -> Any:
    return unit_floats(_threefry(*keys, _ZERO, _ZERO), dtype)


def _normal(keys: Keys, dtype: np.dtype) -> Any:
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    u = _uniform(keys, dtype) * (dtype.type(1) - low) + low
    return dtype.type(math.sqrt(2)) * scipy_special().erfinv(u)


def _sampler(
    name: str, draw: Callable[..., Any], partials: Sequence[Any] | None = None, *, result: Callable[[np.dtype], np.dtype] = lambda d: d
) -> Primitive:
    """An elementwise primitive ``name(key0, key1, *parameters)``: ``draw(keys, *parameters)`` of flat arrays, floats of 32 or 64 bits."""

    def impl(k0: Any, k1: Any, *parameters: Any) -> Any:
        shape, dtype = np.shape(k0), np.asarray(parameters[0]).dtype
        wide = FLOAT64 if dtype == FLOAT64 else FLOAT32
        flat = [np.ravel(p).astype(wide) for p in parameters]
        with np.errstate(all="ignore"):
            return draw((np.ravel(k0), np.ravel(k1)), *flat).reshape(shape).astype(result(dtype))

    return elementwise(
        name, impl, partials, result=lambda k0, k1, dtype, *_: result(dtype), family="sampling", recompute="costly", cost=512
    )  # fmt: skip


def _until_accepted(keys: Keys, out: Any, attempt: Callable[[Sequence[Keys], Any], tuple[Any, Any]], todo: Any, draws: int) -> Any:
    """Fill ``out`` at the places ``todo``. A round splits each key into the next one and ``draws`` others;
    ``attempt(those, places)`` gives values and where they are accepted.
    """
    keys = keys[0][todo], keys[1][todo]
    while todo.size:
        keys, *fresh = _split(keys, draws + 1)
        values, accepted = attempt(fresh, todo)
        out[todo[accepted]] = values[accepted]
        todo, keys = todo[~accepted], (keys[0][~accepted], keys[1][~accepted])
    return out


# --- log_gamma_sample: the logarithm of a gamma variable, which does not underflow for a small shape parameter ----------------------------


def _positive_cube(keys: Keys, c: Any) -> tuple[Any, Any]:
    """Normal x with 1 + c x > 0, and that."""
    x, v = np.empty_like(c), np.empty_like(c)
    todo = np.arange(c.size)
    while todo.size:
        keys, fresh = _split(keys, 2)
        x[todo] = _normal(fresh, c.dtype)
        v[todo] = 1 + x[todo] * c[todo]
        again = v[todo] <= 0
        todo, keys = todo[again], (keys[0][again], keys[1][again])
    return x, v


def _log_gamma(keys: Keys, a: Any) -> Any:
    """Marsaglia, Tsang: A simple method for generating gamma variables, ACM TOMS 26 (2000); a < 1 by gamma(a + 1) * uniform**(1 / a)."""
    dtype, small = a.dtype.type, a < 1
    d = np.where(small, a + 1, a) - dtype(1 / 3)
    c = dtype(1 / 3) / np.sqrt(d)

    def attempt(fresh: Sequence[Keys], at: Any) -> tuple[Any, Any]:
        x, v = _positive_cube(fresh[0], c[at])
        u = _uniform(fresh[1], a.dtype)
        x, v = x * x, v * v * v
        refused = (u >= 1 - dtype(0.0331) * (x * x)) & (np.log(u) >= x / 2 + d[at] * (1 - v + np.log(v)))
        return v, ~refused

    keys, boosts = _split(keys, 2)
    v = _until_accepted(keys, np.empty_like(a), attempt, np.arange(a.size), 2)
    log_u = np.log1p(-_uniform(boosts, a.dtype))
    boost = np.where(small & (log_u != 0), log_u * (1 / a), dtype(0))
    return np.where(a < 0, dtype(np.nan), np.log(d) + np.log(v) + boost)


# Its derivative is that of the sample whose distribution function stays as it is (implicit reparameterization: Figurnov, Mohamed, Mnih,
# NeurIPS 2018), not that of the steps that drew it: those accept by comparisons, whose derivative is lost.
log_gamma_sample = _sampler("log_gamma_sample", _log_gamma, (None, None, lambda b, out, k0, k1, a: b.neg(b.igamma_slope(a, out, order=1))))

# --- igamma_slope(a, y, order): derivatives by a of the distribution function of log_gamma_sample at y, over its density there ------------
#
# With z = exp(y), P(a, z) the regularized incomplete gamma function and f = z**a exp(-z) / gamma(a), the density: P = f * S and
# 1 - P = f * C, where S is the series sum z**k / (a (a + 1) ... (a + k)) and C the continued fraction of Legendre (DLMF 8.11.4, 8.9.2).
# Derivatives by a come from both in Taylor arithmetic, cut off after ``order``. Beyond a = 1e6 there is the first one only.

_TINY = 1e-17


def _product(p: Sequence[Any], q: Sequence[Any]) -> list[Any]:
    return [sum(p[j] * q[i - j] for j in range(i + 1)) for i in range(len(p))]


def _reciprocal(p: Sequence[Any]) -> list[Any]:
    out: list[Any] = [1 / p[0]]
    for i in range(1, len(p)):
        out.append(-sum(p[j] * out[i - j] for j in range(1, i + 1)) / p[0])
    return out


def _series(a: Any, z: Any, order: int) -> list[Any]:
    """Taylor coefficients of S in a."""
    term = [(-1) ** i / a ** (i + 1) for i in range(order + 1)]
    total, k = list(term), 0
    while any((np.abs(t) > _TINY * np.abs(s)).any() for t, s in zip(term, total, strict=True)):
        k += 1
        quotient: list[Any] = []
        for t in term:  # term * z / (a + k), as a polynomial
            quotient.append((t * z - (quotient[-1] if quotient else 0)) / (a + k))
        term = quotient
        total = [s + t for s, t in zip(total, term, strict=True)]
    return total


def _fraction(a: Any, z: Any, order: int) -> list[Any]:
    """Taylor coefficients of C in a, the fraction from its end."""
    steps = 40 + int(6 * math.sqrt(a.max(initial=1)))
    zeros = [np.zeros_like(a)] * order
    tail = [z + 2 * steps + 1 - a, *zeros]
    for j in range(steps, 0, -1):
        numerator, denominator = [j * (j - a), -j + zeros[0], *zeros][: order + 1], [z + 2 * j - 1 - a, zeros[0] - 1, *zeros][: order + 1]
        tail = [d - q for d, q in zip(denominator, _product(numerator, _reciprocal(tail)), strict=True)]
    return _reciprocal(tail)


def _density_ratio(a: Any, y: Any, order: int) -> list[Any]:
    """Taylor coefficients in a of the density at y, over the density."""
    polygamma = scipy_special().polygamma
    log = [None, y - scipy_special().psi(a), *(-polygamma(i - 1, a) / math.factorial(i) for i in range(2, order + 1))]
    out: list[Any] = [np.ones_like(a)]
    for n in range(1, order + 1):  # of an exponential: n r_n = sum of k l_k r_(n - k)
        out.append(sum(k * log[k] * out[n - k] for k in range(1, n + 1)) / n)
    return out


_LARGE = 1e6  # series and fraction take some sqrt(a) steps


def _slope_of_large(a: Any, y: Any) -> Any:
    """That of Wilson and Hilferty's approximation (the cube root of a gamma variable is normal), to a relative 1e-10 for large a; NaN for
    others.
    """
    d = a - 1 / 3
    root = np.exp((y - np.log(d)) / 3)
    return np.where(a > _LARGE, -(1.5 / root - 0.5) / d, np.nan)


def _igamma_slope(a: Any, y: Any, *, order: int) -> Any:
    shape, dtype = np.shape(a), np.asarray(a).dtype
    a, y = np.ravel(a).astype(FLOAT64), np.ravel(y).astype(FLOAT64)
    with np.errstate(all="ignore"):
        out, z = _slope_of_large(a, y) if order == 1 else np.full(a.shape, np.nan), np.exp(y)
        valid = np.isfinite(z) & (a > 0) & (a <= _LARGE)
        low = valid & (z <= a + 2 + 2 * np.sqrt(a))
        for where, expand, sign in ((low, _series, 1), (valid & ~low, _fraction, -1)):
            part = _product(_density_ratio(a[where], y[where], order), expand(a[where], z[where], order))[order]
            out[where] = sign * math.factorial(order) * part
    return out.reshape(shape).astype(dtype)


def _slope_by_a(b: Emitter, out: Atom, a: Atom, y: Atom, *, order: int) -> Atom:
    return b.sub(b.igamma_slope(a, y, order=order + 1), b.mul(out, b.sub(y, b.polygamma(a, n=0))))


def _slope_by_y(b: Emitter, out: Atom, a: Atom, y: Atom, *, order: int) -> Atom:
    """Derivatives of the density by a, over the density, less what the density in the denominator gives."""
    logs = [b.sub(y, b.polygamma(a, n=0)), *(b.neg(b.polygamma(a, n=n)) for n in range(1, order))]
    bell = [b.full_like(a, 1)]
    for n in range(order):
        terms = [b.mul(b.mul(bell[n - k], logs[k]), b.full_like(a, math.comb(n, k))) for k in range(n + 1)]
        total = terms[0]
        for term in terms[1:]:
            total = b.add(total, term)
        bell.append(total)
    return b.sub(bell[order], b.mul(out, b.sub(a, b.exp(y))))


igamma_slope = elementwise(
    "igamma_slope", _igamma_slope, (_slope_by_a, _slope_by_y), result=lambda a, y, *, order: a, recompute="costly", cost=512
)  # fmt: skip

# --- counts -------------------------------------------------------------------------------------------------------------------------------


def _by_inversion(keys: Keys, first: Any, ratio: Callable[[int], Any], mean: Any) -> Any:
    """The least k where the distribution function exceeds a uniform number, by sequential search (Devroye: Non-uniform random variate
    generation, 1986, X.1.3). ``first`` is the probability of 0, ``ratio(k)`` that of k over that of k - 1.

    A uniform number has 52 bits: the search ends where less than that is left.
    """
    u, out, k = _uniform(keys, FLOAT64), np.zeros(first.shape), 0
    probability, below = first, first
    going = u >= below
    while going.any():
        k += 1
        probability = probability * ratio(k)
        below = below + probability
        out[going] = k
        going = going & (u >= below) & ((probability > 1e-18) | (k < mean))
    return out


def _stirling_rest(k: Any) -> Any:
    """log(k!) - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2"""
    n = k + 1
    square = n * n
    large = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / n
    exact = [math.lgamma(i + 1) - (i + 0.5) * math.log(i + 1) + (i + 1) - 0.5 * math.log(2 * math.pi) for i in range(10)]
    return np.where(k < 10, np.take(exact, np.clip(np.nan_to_num(k), 0, 9).astype(int)), large)


def _two_uniforms(fresh: Sequence[Keys]) -> tuple[Any, Any, Any]:
    """u of [-1/2, 1/2), its distance to the ends, and v of [0, 1)."""
    u = _uniform(fresh[0], FLOAT64) - 0.5
    return u, 0.5 - np.abs(u), _uniform(fresh[1], FLOAT64)


_LARGEST_MEAN = 1e15  # beyond, a count is no whole number of float64 any more


def _poisson(keys: Keys, mean: Any) -> Any:
    """Inversion below 10; else transformed rejection, PTRS of Hörmann: The transformed rejection method for generating Poisson random
    variables, Insurance: Mathematics and Economics 12 (1993). -1 where there is no such distribution.
    """
    mean = mean.astype(FLOAT64)
    valid = (mean >= 0) & (mean <= _LARGEST_MEAN)
    small = valid & (mean < 10)
    out = np.full(mean.shape, -1.0)
    few = mean[small]
    out[small] = _by_inversion((keys[0][small], keys[1][small]), np.exp(-few), lambda k: few / k, few)

    def attempt(fresh: Sequence[Keys], at: Any) -> tuple[Any, Any]:
        lam, (u, us, v) = mean[at], _two_uniforms(fresh)
        b = 0.931 + 2.53 * np.sqrt(lam)
        a = -0.059 + 0.02483 * b
        k = np.floor((2 * a / us + b) * u + lam + 0.43)
        height = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
        log_probability = k * np.log(lam / (k + 1)) - 0.5 * np.log(2 * np.pi * (k + 1)) + (k + 1 - lam) - _stirling_rest(k)
        at_once = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        hopeless = (k < 0) | ((us < 0.013) & (v > us))
        return k, at_once | (~hopeless & (height <= log_probability))

    return _until_accepted(keys, out, attempt, np.flatnonzero(valid & ~small), 2)


poisson_sample = _sampler("poisson_sample", _poisson, result=lambda dtype: INT64)


def _binomial(keys: Keys, n: Any, p: Any) -> Any:
    """Of the less likely outcome: inversion where its mean is at most 10; else transformed rejection, BTRS of Hörmann: The generation of
    binomial random variates, Journal of Statistical Computation and Simulation 46 (1993). NaN where there is no such distribution.
    """
    n, p = np.floor(n.astype(FLOAT64)), p.astype(FLOAT64)
    valid = (n >= 0) & (n <= _LARGEST_MEAN) & (p >= 0) & (p <= 1)
    q = np.minimum(p, 1 - p)
    small = valid & (n * q <= 10)
    out = np.full(n.shape, np.nan)
    few, odds = n[small], q[small] / (1 - q[small])
    none = np.exp(few * np.log1p(-q[small]))
    out[small] = _by_inversion((keys[0][small], keys[1][small]), none, lambda k: (few - k + 1) / k * odds, few * q[small])

    def attempt(fresh: Sequence[Keys], at: Any) -> tuple[Any, Any]:
        count, prob, (u, us, v) = n[at], q[at], _two_uniforms(fresh)
        deviation, ratio = np.sqrt(count * prob * (1 - prob)), prob / (1 - prob)
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * prob
        k, mode = np.floor((2 * a / us + b) * u + count * prob + 0.5), np.floor((count + 1) * prob)
        height = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b))
        log_probability = (
            (mode + 0.5) * np.log((mode + 1) / (ratio * (count - mode + 1)))
            + (count + 1) * np.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * np.log(ratio * (count - k + 1) / (k + 1))
            + (_stirling_rest(mode) + _stirling_rest(count - mode) - _stirling_rest(k) - _stirling_rest(count - k))
        )
        at_once = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        possible = (k >= 0) & (k <= count)
        return k, possible & (at_once | (height <= log_probability))

    out = _until_accepted(keys, out, attempt, np.flatnonzero(valid & ~small), 2)
    return np.where(p > 0.5, n - out, out)


binomial_sample = _sampler("binomial_sample", _binomial)

# --- orthonormal_columns(x): the factor Q of x = Q R, where the diagonal of R is positive -------------------------------------------------


def _orthonormal_columns(x: Any) -> Any:
    q, r = np.linalg.qr(x.astype(FLOAT32) if x.dtype.itemsize == 2 else x)
    return (q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]).astype(x.dtype)


def _columns_type(x: AbstractArray) -> AbstractArray:
    check(x.ndim >= 2, f"orthonormal_columns: a matrix is wanted, not {x}")
    return AbstractArray(x.shape, x.dtype)


orthonormal_columns = Primitive(
    "orthonormal_columns",
    _orthonormal_columns,
    _columns_type,
    batch=lambda b, ins, batched, size: ((b.orthonormal_columns(*ins),), (True,)),
    family="sampling",
    recompute="costly",
    cost=512,
    differentiable=False,
)
