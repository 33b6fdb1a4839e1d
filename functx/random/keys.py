"""Keys, random bits, and what samplers share: shapes, dtypes and the 64 bits of each element."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import functx.numpy as fnp
from functx import dtypes, shapes
from functx.errors import UnsupportedError
from functx.numpy import promote
from functx.ops import random
from functx.ops.random import UINT32, UINT64
from functx.primitive import Primitive
from functx.trace import Tracer, current_trace, where

# --- keys ---------------------------------------------------------------------------------------------------------------------------------


def key(seed: Any) -> Any:
    """The key that an integer gives: a plain array of two uint32, its upper and lower 32 bits. It is never changed: ``split`` it.

    Args:
      seed: an integer of at most 64 bits; it may be traced.

    Raises:
      OverflowError: the seed has more than 64 bits.

    >>> key(7)
    array([0, 7], dtype=uint32)
    """
    if isinstance(seed, Tracer):
        seed = fnp.asarray(seed)
    elif not isinstance(seed, (np.integer, np.ndarray)):
        seed = operator.index(seed)
        if not -(2**63) <= seed < 2**64:
            raise OverflowError(f"the seed {seed} has more than 64 bits")
        seed = np.uint64(seed % 2**64)
    if np.shape(seed) or seed.dtype.kind not in "iu":
        raise _wrong("a seed is one integer", seed, "functx.vmap(functx.random.key) makes a key of each integer of an array")
    upper, lower = random.halves(seed.astype(UINT64))
    return np.stack([upper if seed.dtype.itemsize == 8 else upper * UINT32.type(0), lower])


PRNGKey = key


def _wrong(what: str, value: Any, fix: str) -> UnsupportedError:
    described = f"an array of shape {shapes.show(np.shape(value))}, dtype {value.dtype}" if hasattr(value, "dtype") else f"{value!r}"
    return UnsupportedError(f"{what}, not {described}", where=where(), fix=fix)


def _checked(key: Any) -> Any:
    if getattr(key, "dtype", None) != UINT32 or np.shape(key)[-1:] != (2,):
        raise _wrong("a key is an array of two uint32", key, "make one with functx.random.key(seed)")
    if np.ndim(key) != 1:
        raise _wrong("one key is wanted here", key, "map over keys with functx.vmap")
    return key


def as_shape(shape: Any) -> shapes.Shape:
    """A shape as a tuple."""
    return tuple(d if isinstance(d, shapes.Dim) else operator.index(d) for d in shapes.as_sequence(shape))


def words(key: Any, shape: Any) -> Any:
    """64 random bits per place, as uint64: the hash of the key and the number of the place."""
    key, shape = _checked(key), as_shape(shape)
    n = shapes.size(shape)
    zero = np.uint32(0)
    if not shape:
        upper, lower = zero, zero
    elif isinstance(n, int) and n <= 2**32:
        upper, lower = zero, _positions(key, n, UINT32)
    else:
        upper, lower = random.halves(_positions(key, n, UINT64))
    return np.reshape(_hash(key, upper, lower), shape) if shape else _hash(key, upper, lower)


def _hash(key: Any, upper: Any, lower: Any) -> Any:
    return elementwise(random.threefry2x32, np.shape(lower), key[0], key[1], upper, lower)


def _positions(key: Any, n: shapes.Size, dtype: np.dtype) -> Any:
    """0, 1, ..., n - 1: in the graph where the key is, so that no great constant arises, or n has no value."""
    if not isinstance(key, Tracer) and isinstance(n, int):
        return np.arange(n, dtype=dtype)
    trace = current_trace()
    return trace.tracer(trace.emit.iota(shape=(n,), dtype=dtype, axis=0))


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """Keys that are independent of each other and of this one, which should not be used afterwards: uint32, of shape ``(num, 2)``.

    Args:
      key: uint32 of shape (2,).
      num: how many, or a shape of keys.

    >>> first, second = split(key(0))
    >>> second
    array([ 928981903, 3453687069], dtype=uint32)
    """
    return np.stack(random.halves(words(key, num)), -1)


def fold_in(key: Any, data: Any) -> Any:
    """A key made of a key and an integer of 32 bits, such as the number of a step.

    Args:
      key: uint32 of shape (2,).
      data: one integer, which may be traced; of a longer one the lower 32 bits.

    >>> fold_in(key(0), 3)
    array([2467461003, 3840466878], dtype=uint32)
    """
    if isinstance(data, Tracer):
        data = fnp.asarray(data)
    elif not isinstance(data, (np.integer, np.ndarray)):
        data = np.uint32(operator.index(data) % 2**32)
    if np.shape(data) or data.dtype.kind not in "iu":
        raise _wrong("fold_in takes one integer", data, "functx.vmap(functx.random.fold_in, (None, 0)) folds each integer of an array")
    return np.stack(random.halves(_hash(_checked(key), np.uint32(0), data.astype(UINT32))))


def bits(key: Any, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Random bits as unsigned integers of any width.

    Args:
      key: uint32 of shape (2,).
      shape: of the result.
      dtype: uint8, uint16, uint32 or uint64.

    >>> bits(key(0), (2,), np.uint8)
    array([167, 146], dtype=uint8)
    """
    dtype = np.dtype(dtype)
    if dtype.kind != "u":
        raise TypeError(f"bits: an unsigned integer dtype is wanted, not {dtype}")
    return random.narrow(words(key, shape), 8 * dtype.itemsize)


# --- for samplers -------------------------------------------------------------------------------------------------------------------------


def float_dtype(dtype: Any, name: str) -> np.dtype:
    """A dtype of real floats."""
    dtype = np.dtype(dtype)
    if not dtypes.is_inexact(dtype) or dtypes.is_complex(dtype):
        raise TypeError(f"{name}: a dtype of real floats is wanted, not {dtype}")
    return dtype


def parameter(x: Any, dtype: np.dtype) -> Any:
    """A parameter of a distribution in the dtype of the sample."""
    if not promote.is_traced(x):
        return np.asarray(x).astype(dtype)[()]
    (h,) = promote.handles([x])
    trace = current_trace()
    return trace.tracer(promote.convert(trace.emit, h, dtype), promote.result_kind(h.aval.shape))


def common_shape(name: str, shape: Any, *parameters: shapes.Shape) -> shapes.Shape:
    """The shape of a sample: as given, if parameters of these shapes can be broadcast to it; None: theirs."""
    if shape is None:
        return shapes.broadcast(*parameters)
    shape = as_shape(shape)
    given = ", ".join(shapes.show(s) for s in parameters)
    try:
        fits = shapes.broadcast(shape, *parameters) == shape
    except shapes.ShapeError:
        fits = False
    shapes.check(fits, f"{name}: parameters of shape {given} cannot be broadcast to shape={shapes.show(shape)}")
    return shape


def elementwise(primitive: Primitive, shape: shapes.Shape, *operands: Any) -> Any:
    """An elementwise primitive on operands broadcast to a shape; in the graph if one is traced, or the shape is symbolic."""
    if shapes.is_static(shape) and not promote.is_traced(*operands):
        return np.asarray(primitive.impl(*(np.broadcast_to(x, shape) for x in operands)))[()]
    trace = current_trace()
    b = trace.emit
    atoms = [promote.broadcast(b, h.atom, shape) for h in promote.handles_in(trace, operands)]
    return trace.tracer(b.bind(primitive, atoms, {})[0], promote.result_kind(shape))


def sample(primitive: Primitive, key: Any, shape: shapes.Shape, *parameters: Any) -> Any:
    """A sampler on parameters broadcast to a shape, with a key for every element."""
    return elementwise(primitive, shape, *random.halves(words(key, shape)), *parameters)
