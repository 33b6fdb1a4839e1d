"""Oracles shared by the tests: NumPy running the plain function, central differences, and a Python loop over examples.

Values are compared with their kind (Python number, NumPy scalar or array), dtype, shape and contents; errors by their class.
"""

import copy
import dataclasses
import warnings

import numpy as np

import functx as fx


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call did: its value, or the exception that it raised."""

    value: object = None
    error: BaseException | None = None


def outcome(f, *args) -> Outcome:
    """Call ``f``; NumPy's floating-point warnings are off, since compiled code gives none."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return Outcome(f(*args))
        except Exception as error:
            return Outcome(error=error)


def kind(value) -> str:
    """``python``, ``scalar`` or ``array``."""
    if isinstance(value, np.generic):
        return "scalar"
    return "array" if isinstance(value, np.ndarray) else "python"


def assert_same(got, expected, *, rtol=0.0, atol=0.0, what="") -> None:
    """Equal in container, kind, dtype, shape and (to a tolerance, NaN equal to NaN) in value."""
    if isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected), f"{what}: {got!r} is not like {expected!r}"
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            assert_same(g, e, rtol=rtol, atol=atol, what=f"{what}[{i}]")
        return
    assert kind(got) == kind(expected), f"{what}: {got!r} is of kind {kind(got)}, expected {expected!r} of kind {kind(expected)}"
    if kind(expected) == "python":
        assert type(got) is type(expected), f"{what}: {got!r} is a {type(got).__name__}, expected {expected!r}"
        if expected is None or isinstance(expected, str):
            assert got == expected, f"{what}: {got!r} is not {expected!r}"
            return
    else:
        assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
        assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    got, expected = (np.asarray(v) if np.asarray(v).dtype.kind in "biufc" else np.asarray(v, float) for v in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def assert_same_error(got, expected, what="") -> None:
    """The class that NumPy raises, or one derived from it."""
    assert got is not None, f"{what}: nothing raised, expected {expected!r}"
    assert isinstance(got, type(expected)), f"{what}: raised {got!r}, expected {expected!r}"


def assert_agrees(f, *args, transform=None, rtol=0.0, atol=0.0, what="") -> object:
    """``transform(f)`` (jit on the reference backend) does what the plain call does: results, errors and changes to its arguments."""
    transform = transform or reference_jit
    mine, plain = copy.deepcopy(args), copy.deepcopy(args)
    expected, got = outcome(f, *plain), outcome(transform(f), *mine)
    if expected.error is not None:
        assert_same_error(got.error, expected.error, what)
        return None
    if got.error is not None:
        raise AssertionError(f"{what}: raised {got.error!r}, expected {expected.value!r}") from got.error
    assert_same(got.value, expected.value, rtol=rtol, atol=atol, what=what)
    assert_same(list(mine), list(plain), rtol=rtol, atol=atol, what=f"{what} arguments")
    return got.value


def reference_jit(f):
    """``f`` jitted on the reference backend."""
    return fx.jit(f, backend="reference")


def directional(f, args, directions, *, step=1e-3):
    """The derivative of ``f`` along ``directions`` by central differences with two steps of Richardson extrapolation (error ~ step**6).

    ``directions`` has None for arguments that do not move. ``f`` returns one float64 array or scalar.
    """

    def central(h):
        at = [[a if d is None else a + s * h * d for a, d in zip(args, directions, strict=True)] for s in (1, -1)]
        return (np.asarray(f(*at[0])) - np.asarray(f(*at[1]))) / (2 * h)

    coarse, middle, fine = (central(step * k) for k in (4, 2, 1))
    first = [(4 * b - a) / 3 for a, b in ((coarse, middle), (middle, fine))]
    return (16 * first[1] - first[0]) / 15


def loop(f, args, in_axes):
    """``f`` over the examples of a batch, one by one, stacked in front: what vmap means."""
    sizes = {np.shape(a)[axis] for a, axis in zip(args, in_axes, strict=True) if axis is not None}
    (size,) = sizes
    results = []
    for i in range(size):
        example = [a if axis is None else np.moveaxis(a, axis, 0)[i] for a, axis in zip(args, in_axes, strict=True)]
        results.append(f(*example))
    if isinstance(results[0], (tuple, list)):
        return type(results[0])(np.stack([np.asarray(r[k]) for r in results]) for k in range(len(results[0])))
    return np.stack([np.asarray(r) for r in results])
