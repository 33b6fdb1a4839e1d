"""Ufunc methods and keywords, reductions and products beside the sample rows: every ufunc, every dtype, errors, kinks."""

import warnings

import numpy as np
import oracles
import pytest
from sample import DTYPES, TOLERANCES

import functx as fx
import functx.numpy as fnp
from functx.numpy import ufuncs

TRACED = [*ufuncs.UFUNCS, *ufuncs.OPERAND_UFUNCS]
BINARY = {u.__name__: u for u in TRACED if u.nin == 2 and u is not np.ldexp}
UNARY = {u.__name__: u for u in TRACED if u.nin == 1}
X = np.random.default_rng(0).uniform(0.3, 1.9, (2, 3, 4))
MASK = X > 0.9


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def assert_all_agree(calls, args, rtol=0.0, what="") -> None:
    """Each call does what NumPy does; those that NumPy computes share one trace."""
    plain = {name: oracles.outcome(f, *map(np.copy, args)) for name, f in calls.items()}
    for name, outcome in plain.items():
        if outcome.error is not None:
            got = oracles.outcome(oracles.reference_jit(calls[name]), *map(np.copy, args))
            oracles.assert_same_error(got.error, outcome.error, f"{what}: {name}")
    good = [name for name, outcome in plain.items() if outcome.error is None]
    results = oracles.reference_jit(lambda *args: [calls[name](*args) for name in good])(*map(np.copy, args))
    for name, got in zip(good, results, strict=True):
        oracles.assert_same(got, plain[name].value, rtol=rtol, atol=rtol, what=f"{what}: {name}")


def into(f, like, dtype=None):
    """What ``f(x, out)`` leaves in an array of ones, and whether it returned that array."""

    def write(x):
        out = np.ones_like(like(x), dtype=dtype)
        result = f(x, out)
        return out, result is out

    return write


def _at(u, key, *values):
    def write(x):
        y = x.copy()
        u.at(y, key, *(v(x) for v in values))
        return y

    return write


def binary_forms(u):
    forms = {f"reduce, axis {axis}": lambda x, a=axis: u.reduce(x, axis=a) for axis in (0, 1, -1, None, (0, 2), (), 3, (0, 0))}
    forms |= {
        "reduce": lambda x: (u.reduce(x), u.reduce(x[0, 0]), u.reduce(x[0, 0, 0])),
        "reduce, keepdims": lambda x: u.reduce(x, 1, keepdims=True),
        "reduce, initial": lambda x: u.reduce(x, 1, initial=2),
        "reduce, where": lambda x: u.reduce(x, 1, where=MASK),
        "reduce, where and initial": lambda x: u.reduce(x, 1, where=MASK[0], initial=1),
        "reduce, nothing": lambda x: u.reduce(x[:, :0], 1),
        "reduce, nothing but initial": lambda x: u.reduce(x[:, :0], 1, initial=3),
        "reduce, no initial": lambda x: u.reduce(x, 1, initial=None),
        "reduce, dtype": lambda x: u.reduce(x, 1, dtype=np.float32),
        "reduce, out": into(lambda x, out: u.reduce(x, 1, out=out), lambda x: x[:, 0]),
        "reduce, out of another dtype": into(lambda x, out: u.reduce(x, 1, out=out), lambda x: x[:, 0], np.float64),
        "reduce, out of another shape": into(lambda x, out: u.reduce(x, 1, out=out), lambda x: x[:, :2, 0]),
        "accumulate": lambda x: (u.accumulate(x), u.accumulate(x, -1)),
        "accumulate, nothing": lambda x: u.accumulate(x[:, :0], 1),
        "accumulate, dtype": lambda x: u.accumulate(x, 1, dtype=np.float32),
        "accumulate, out": into(lambda x, out: u.accumulate(x, 1, out=out), lambda x: x),
        "accumulate, scalar": lambda x: u.accumulate(x[0, 0, 0]),
        "accumulate, axes": lambda x: u.accumulate(x, (0, 1)),
        "reduceat": lambda x: (u.reduceat(x, [0, 2, 1], 2), u.reduceat(x, np.array([1, 0])), u.reduceat(x, [], 1)),
        "reduceat, out of range": lambda x: u.reduceat(x, [0, 4]),
        "outer": lambda x: (u.outer(x, x[0, 0]), u.outer(x[0, 0, 0], x[0]), u.outer(x[0, 0, 0], x[0, 0, 1])),
        "outer, numbers": lambda x: u.outer(x[0], 2),
        "at, repeated": _at(u, [1, 0, 1, 1], lambda x: x[0]),
        "at, several": _at(u, (np.array([1, 0, 1]), slice(None), [0, 2, 0]), lambda x: x[0, 0, 0]),
        "at, view": _at(u, (..., slice(1, 3)), lambda x: x[0, 0, :2]),
        "at, other dtype": _at(u, [0, 0], lambda x: np.int8(1)),
        "at, out of range": _at(u, [0, 2], lambda x: x[0]),
        "where, out": into(lambda x, out: u(x, x[0], out=out, where=x[1] > 1), lambda x: x),
        "where, wider out": into(lambda x, out: u(x, x, out=out, where=MASK), lambda x: x, np.float64),
        "where, out of another shape": into(lambda x, out: u(x, x, out=out, where=MASK), lambda x: x[0]),
        "dtype": lambda x: u(x, x[0], dtype=np.float32),
        "signature": lambda x: u(x, x[0], signature="dd->d", casting="unsafe", subok=False),
        "partial signature": lambda x: u(x, x[0], sig=(np.float32, np.float32, None), order="C"),
        "casting": lambda x: u(x, x[0], dtype=np.float32, casting="no"),
    }
    return forms


EVERY_FORM = {"bool", "int8", "float32", "complex128"}  # the other dtypes meet the main ones only


@pytest.mark.parametrize("name", BINARY)
def test_binary_ufuncs(name):
    u = BINARY[name]
    for dtype in DTYPES:
        x = np.abs(np.rint(X * (1 if "shift" in name or "power" in name else 3))).astype(dtype)
        rounded = 4e-3 if "log" in name or name in ("hypot", "arctan2", "float_power", "power") else 0.0  # in float16, in another order
        forms = binary_forms(u)
        if dtype not in EVERY_FORM:
            forms = {form: forms[form] for form in ("reduce", "accumulate", "reduceat", "outer", "at, repeated", "where, out", "dtype")}
        assert_all_agree(forms, (x,), max(TOLERANCES.get(dtype, 1e-12), rounded), f"{name} of {dtype}")


@pytest.mark.parametrize("name", UNARY)
def test_unary_ufuncs(name):
    u = UNARY[name]
    forms = {
        "at": _at(u, [1, 0, 1]),
        "at, view": _at(u, 0),
        "where": into(lambda x, out: u(x, out=out, where=MASK[1]), lambda x: x),
        "order": lambda x: u(x.transpose(1, 2, 0), order="C").ravel(order="K"),
        "reduce": lambda x: u.reduce(x),
        "outer": lambda x: u.outer(x, x),
    }
    for dtype in DTYPES:
        x = (X / 3 if name in ("arcsin", "arccos", "arctanh") else X + 1).astype(dtype)
        assert_all_agree(forms, (x,), TOLERANCES.get(dtype, 1e-6), f"{name} of {dtype}")


@pytest.mark.parametrize("u", [np.divmod, np.modf, np.frexp])
def test_ufuncs_with_two_results(u):
    def write(x, mask):
        outs = tuple(np.full_like(x, 7, dtype=d) for d in ("f8", "i4" if u is np.frexp else "f8"))
        got = u(*(x, x[0])[: u.nin], out=outs, where=mask)
        return *outs, got[0] is outs[0]

    for x in (X, np.float32(X)):
        oracles.assert_agrees(write, x, MASK[0])


def test_places_that_where_leaves_out_hold_zero():
    """NumPy leaves them unset."""
    got = oracles.reference_jit(lambda x: np.exp(x, where=MASK))(X)
    oracles.assert_same(got, np.where(MASK, np.exp(X), 0), rtol=1e-14)


def test_layouts():
    """``order=`` decides what ravel and reshape of the result see."""
    for order in "CFAK":
        f = lambda x, o=order: (np.add(x.T, 1, order=o).ravel("K"), np.add(x, 1, order=o).ravel("K"), np.add(x.T, 1, order=o, where=True))  # noqa: E731
        oracles.assert_agrees(f, X, what=order)


INDEX = np.array([1, 0, 1, 1])


@pytest.mark.parametrize("u", [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.divide, np.hypot, np.power, np.arctan2])
def test_at_with_unknown_indices(u):
    """Indices that are arguments: repeated ones count in order."""

    def f(x, i, v):
        y = x.copy()
        u.at(y, i, v)
        u.at(y, (i[0], ...), v[0])
        return y

    oracles.assert_agrees(f, X, INDEX, np.stack([X[0], X[1], X[0] + 1, X[1] / 2]), rtol=1e-14)
    oracles.assert_agrees(f, X, np.array([0, 5, 0, 0]), np.stack([X[0]] * 4))
    _, tangent = fx.jvp(lambda x, v: f(x, INDEX, v), (X, X[[0, 1, 0, 0]]), (X - 1, X[[1, 0, 0, 1]]))
    expected = oracles.directional(lambda x, v: f(x, INDEX, v), (X, X[[0, 1, 0, 0]]), (X - 1, X[[1, 0, 0, 1]]))
    if u not in (np.maximum, np.minimum):  # the second value is met again: a tie
        np.testing.assert_allclose(tangent, expected, rtol=1e-8)


# --- reductions ---------------------------------------------------------------------------------------------------------------------------


def _reduction_forms(f, name):
    start = {"initial": 1} if name in ("max", "min", "nanmax", "nanmin") else {}
    forms = {
        "where": lambda x: f(x, axis=1, where=MASK | (X < 0.6), **start),
        "where of rows": lambda x: f(x, where=[[True], [False], [True]], **start),
        "broadcast by where": lambda x: f(x[:, :1], axis=1, where=MASK | (X < 0.6), **start),
        "where of too many axes": lambda x: f(x, where=MASK[None], **start),
        "where that does not fit": lambda x: f(x, where=[True, False], **start),
        "out": into(lambda x, out: f(x, axis=1, out=out), lambda x: x[:, 0], np.float64),
        "out of whole numbers": into(lambda x, out: f(x, axis=1, out=out), lambda x: x[:, 0], np.int64),
    }
    if name in ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd"):
        dtypes = (np.float32, np.complex128) if "va" in name or "std" in name else (np.float32, np.complex128, np.int32)
        forms |= {f"dtype {d.__name__}": lambda x, d=d: f(x, 1, dtype=d) for d in dtypes}
    if "var" in name or "std" in name:
        forms["ddof"] = lambda x: (f(x, ddof=1), f(x, 1, ddof=3), f(x, 0, correction=0.5), f(x, 1, mean=np.mean(x, 1, keepdims=True)))
        forms["ddof and correction"] = lambda x: f(x, ddof=1, correction=1)
    if name in ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin"):
        forms["initial"] = lambda x: (f(x, 1, initial=2), f(x, initial=np.float32(3.5)))
        forms["array as initial"] = lambda x: f(x, 1, initial=x[0, 0])
        forms["nothing"] = lambda x: f(x[:0])
    return forms


REDUCTIONS = "sum prod mean var std max min all any nansum nanprod nanmean nanvar nanstd nanmax nanmin".split()  # noqa: SIM905


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for dtype in DTYPES:
        x = np.rint(X * 4).astype(dtype)
        holes = np.where(X > 1.7, np.nan, x).astype(dtype) if x.dtype.kind in "fc" else x
        for array in (x, holes):
            assert_all_agree(_reduction_forms(getattr(np, name), name), (array,), max(TOLERANCES.get(dtype, 0), 1e-6), f"{name} of {dtype}")


def test_reductions_with_traced_masks_and_initial_values():
    f = lambda x, mask, start: (np.sum(x, 1, where=mask, initial=start), np.max(x, where=mask[0], initial=start), np.var(x, 1, where=mask))  # noqa: E731
    for start in (2, 0.5, np.float32(1.5), np.array(3)):
        oracles.assert_agrees(f, X, MASK | (X < 0.7), start, rtol=1e-14)
    masks = np.stack([MASK, ~MASK])
    got = fx.vmap(lambda mask: fnp.mean(X, 2, where=mask), in_axes=0)(masks | (X < 0.7))
    oracles.assert_same(got, np.stack([np.mean(X, 2, where=m | (X < 0.7)) for m in masks]), rtol=1e-14)


def test_large_counts_in_small_dtypes():
    for dtype in ("float16", "bfloat16"):
        x = np.full(3001, 0.25).astype(dtype)
        oracles.assert_agrees(lambda x: (np.mean(x), x.mean(keepdims=True), np.mean(x, dtype=x.dtype)), x, rtol=1e-2)


def test_averages():
    calls = {
        "weights": lambda x: (np.average(x, 1, [1, 2, 3.0]), np.average(x, (2, 1), X[0].T), np.average(x, weights=x)),
        "returned": lambda x: (
            np.average(x, 1, [1, 2, 3], returned=True),
            np.average(x, (0, 1), returned=True),
            np.average(x, returned=True),
        ),
        "keepdims": lambda x: np.average(x, 1, [1, 2, 3], keepdims=True),
        "weights of another shape": lambda x: np.average(x, 1, [1, 2]),
        "weights without axis": lambda x: np.average(x, weights=[1, 2, 3]),
        "weights that cancel": lambda x: np.average(x, 1, [1, -1, 0]),
    }
    for dtype in DTYPES:
        assert_all_agree(calls, (np.rint(X * 4).astype(dtype),), TOLERANCES.get(dtype, 1e-12), dtype)


# --- kinks --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f", [np.std, lambda x: fnp.nanstd(x), lambda x: fnp.hypot.reduce(x - 1), lambda x: fnp.std(x, where=[True, False, True])]
)
def test_the_deviation_of_equal_numbers_has_derivative_zero(f):
    x = np.ones(3)
    oracles.assert_same(fx.grad(f)(x), np.zeros(3))
    oracles.assert_same(fx.jvp(f, (x,), (np.arange(3.0),))[1], np.float64(0))
    if f is np.std:
        oracles.assert_same(fx.hessian(f)(x), np.zeros((3, 3)))
    oracles.assert_same(oracles.reference_jit(fx.grad(f))(x), np.zeros(3))


def test_ties_share_the_derivative():
    x = np.array([2.0, 1.0, 2.0, np.nan])
    oracles.assert_same(fx.grad(np.nanmax)(x), np.array([0.5, 0, 0.5, 0]))
    oracles.assert_same(fx.grad(lambda x: np.max(x, where=[True, True, False, False], initial=0))(x), np.array([1.0, 0, 0, 0]))
    oracles.assert_same(fx.grad(lambda x: np.maximum.reduce(x[:3], initial=0))(x), np.array([0.5, 0, 0.5, 0]))


def test_what_is_left_out_contributes_no_nan():
    x = np.array([1.0, np.nan, 3.0, np.inf])
    for f in (np.nansum, np.nanmean, np.nanvar, np.nanstd, np.nanprod, np.nancumsum):
        gradient = fx.grad(lambda x, f=f: f(x[:3]).sum())(x)
        assert np.isfinite(gradient).all() and gradient[1] == 0
    gradient = fx.grad(lambda x: np.var(x, where=[True, False, True, False]))(x)
    oracles.assert_same(gradient, np.array([-1.0, 0, 1, 0]))
    oracles.assert_same(fx.grad(lambda x: np.sqrt(x, where=x > 1, out=np.zeros_like(x)).sum())(np.array([0.0, 4.0])), np.array([0, 0.25]))


def test_product_and_logaddexp_where_a_division_would_fail():
    oracles.assert_same(fx.grad(np.prod)(np.array([0.0, 2.0, 3.0])), np.array([6.0, 0, 0]))
    oracles.assert_same(fx.grad(np.prod)(np.array([0.0, 2.0, 0.0])), np.zeros(3))
    oracles.assert_same(fx.grad(np.logaddexp.reduce)(np.array([-np.inf, 1.0, 1.0])), np.array([0, 0.5, 0.5]))


def test_complex_reductions_have_real_variances():
    z = np.array([1 + 1j, 2 - 1j, 0.5j])
    oracles.assert_agrees(lambda z: (np.var(z), np.std(z), z.mean(), z.max(), z.min(), np.prod(z)), z, rtol=1e-14)
    oracles.assert_same(fx.grad(np.var)(z), 2 * (z - z.mean()) / 3, rtol=1e-14)


# --- products -----------------------------------------------------------------------------------------------------------------------------

P, Q, R = X[0], X[1].T, X[:, 0, :].T
EINSUMS = [
    ("ij,jk", P, Q), ("ij,jk,kl->li", P, Q, P), ("ij,jk,ki->", P, Q, np.ones((3, 3))), ("ij,kj,lj->j", P, P, X[1]), ("ijk->k", X),
    ("ii", P[:, :3]),
    ("...i->...", X), ("...ij,jk->...ik", X, Q), ("i...,i...->...", X, X), (",ij", np.array(2), P), ("iij->ij", np.stack([P[:, :3]] * 3)),
    ("ij,ij->", P[:1], P), ("ij,ij->ij", P[:, :1], P), ("a,b,c->cab", P[0], P[1], P[2]), (" i j , j k -> k ", P, Q), ("->", np.array(3)),
    ("ij,k->ijl", P, P[0]), ("i,i", P[0], P[:, 0]), ("iij->ij", X), ("...i->i", P), ("ij->ii", P), ("i.j", P), ("i1", P), ("ijk", P),
    ("ij,jk", P),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case):
    subscripts, *arrays = case
    calls = {
        "plain": lambda *xs: np.einsum(subscripts, *xs),
        "dtype": lambda *xs: np.einsum(subscripts, *xs, dtype=np.complex128),
    }
    for dtype in set(DTYPES) - {"bfloat16"}:
        assert_all_agree(calls, [np.rint(a * 3).astype(dtype) for a in arrays], TOLERANCES.get(dtype, 1e-12), f"{subscripts} of {dtype}")


def test_einsum_has_no_bfloat16_as_in_numpy():
    oracles.assert_agrees(lambda x: np.einsum("ij,ij->i", x, x), P.astype("bfloat16"))


def test_einsum_by_lists_paths_and_out():
    calls = {
        "lists": lambda x, y: (
            np.einsum(x, [0, 1], y, [1, 2]),
            np.einsum(x, [0, 1], y, [1, 30], [30, 0]),
            np.einsum(x, [..., 1], y, [1, 2]),
        ),
        "path": lambda x, y: np.einsum("ij,jk,kl", x, y, x, optimize=["einsum_path", (1, 2), (0, 1)]),
        "optimal path": lambda x, y: np.einsum("ij,jk,lk", x, y, x, optimize=True) + np.einsum("ij,jk,lk", x, y, x, optimize="greedy"),
        "path of one step": lambda x, y: np.einsum("ij,jk,kl", x, y, x, optimize=["einsum_path", (0, 1, 2)]),
        "out": lambda x, y: _einsum_out(x, y, np.float64),
        "out, casting": lambda x, y: _einsum_out(x, y, np.float32),
        "dtype, casting": lambda x, y: np.einsum("ij,jk", x, y, dtype=np.float32),
        "dtype": lambda x, y: np.einsum("ij,jk", x, y, dtype=np.float32, casting="same_kind"),
        "number": lambda x, y: np.einsum("ij,", x, 2),
    }
    assert_all_agree(calls, (P, Q), 1e-6)


def _einsum_out(x, y, dtype):
    out = np.ones_like(x, shape=(3, 3), dtype=dtype)
    return np.einsum("ij,jk", x, y, out=out), out


def test_einsum_of_one_operand_is_a_view():
    def f(x):
        np.einsum("ij->ji", x)[0] = 7
        diagonal = np.einsum("ii->i", x[:, :3])
        diagonal += 1
        return np.einsum("ij", x)

    oracles.assert_agrees(f, P.copy())
    oracles.assert_agrees(lambda x: np.einsum("ji", x), P)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    p, q, v, stack = (np.rint(a * 3).astype(dtype) for a in (P, Q, P[0], X))
    calls = {
        "bool and integers": lambda p, q, v, s: (p @ q, p @ v, v @ q, s @ q, np.dot(p, q), np.dot(v, v), np.inner(p, p), np.vdot(p, p)),
        "dtype": lambda p, q, v, s: np.matmul(p, q, dtype=np.float64),
        "casting": lambda p, q, v, s: np.matmul(p, q, dtype=np.int8, casting="unsafe"),
        "stacks": lambda p, q, v, s: (s[:1] @ s.swapaxes(1, 2), s[:, None] @ s.swapaxes(1, 2), s @ s.swapaxes(1, 2)),
        "vecdot": lambda p, q, v, s: (np.vecdot(s, v), np.vecdot(s, s, axis=0), np.vecdot(p, p[0])),
        "tensordot": lambda p, q, v, s: (np.tensordot(s, q, 1), np.tensordot(s, p, ([1, 2], [0, 1])), np.tensordot(v, v, 0)),
        "trace": lambda p, q, v, s: (np.trace(s), np.trace(s, 1, 1, 2), s.trace(-1, 2, 0, np.float32), np.trace(p, 9)),
        "kron": lambda p, q, v, s: (np.kron(p, v), np.kron(v[0], v[1]), np.kron(v, s)),
        "cross": lambda p, q, v, s: (np.cross(s, s[::-1], axis=1), np.cross(v[:3], p[:, :3]), np.cross(p[:, :3], v[1:], axisc=0)),
        "shapes": lambda p, q, v, s: p @ p,
        "vecdot, shapes": lambda p, q, v, s: np.vecdot(p, v[:3]),
        "cross, shapes": lambda p, q, v, s: np.cross(v, v),
        "matmul of numbers": lambda p, q, v, s: np.matmul(p, 2),
    }
    if hasattr(np, "matvec"):
        calls["matvec"] = lambda p, q, v, s: (np.matvec(s, v), np.vecmat(v[:3], s), np.matvec(s, p[:2]))
    assert_all_agree(calls, (p, q, v, stack), TOLERANCES.get(dtype, 1e-12), dtype)


def test_shared_operands_are_not_broadcast():
    """One matrix for all lanes stays one: no equation has it in a batched form."""
    graphs = [
        fx.make_ir(lambda w, x: np.matmul(x, w))(np.ones((1, 4, 5)), np.ones((7, 3, 4))),
        fx.make_ir(lambda w, x: np.einsum("ij,...j->...i", w, x))(np.ones((5, 4)), np.ones((7, 4))),
        fx.make_ir(fx.vmap(lambda x, w: np.einsum("ij,j->i", w, x), in_axes=(0, None)))(np.ones((7, 4)), np.ones((5, 4))),
    ]
    for graph in graphs:
        assert not any(e.primitive.name == "broadcast" for e in graph.eqns)
        assert sum(e.primitive.name == "dot_general" for e in graph.eqns) == 1


# --- errors and keywords ------------------------------------------------------------------------------------------------------------------

ERRORS = {
    "unknown keyword of a ufunc": lambda x: np.add(x, 1, foo=1),
    "unknown keyword of reduce": lambda x: np.add.reduce(x, foo=1),
    "unknown keyword of a function": lambda x: np.cumsum(x, foo=1),
    "method without correction": lambda x: x.std(correction=1),
    "reduce of a unary ufunc": lambda x: np.sin.reduce(x),
    "reduce of two results": lambda x: np.divmod.reduce(x),
    "reduce of matmul": lambda x: np.matmul.reduce(x),
    "outer of matmul": lambda x: np.matmul.outer(x, x),
    "at of two results": lambda x: np.divmod.at(x, 0, 1),
    "at into a read-only view": lambda x: np.add.at(np.broadcast_to(x, (2, *x.shape)), 0, 1),
    "at of too many indices": lambda x: np.add.at(x, (0, 0, 0, 0), 1),
    "at of values that do not fit": lambda x: np.divide.at(x, [0, 1], np.ones(3)),
    "diff of a number": lambda x: np.diff(x[0, 0, 0]),
    "diff, order": lambda x: np.diff(x, -1),
    "cumulative_sum without axis": lambda x: np.cumulative_sum(x),
    "cumsum, axis": lambda x: np.cumsum(x, 3),
    "ediff1d, dtype": lambda x: np.ediff1d(x.astype(int), to_end=0.5 + x[0, 0, 0]),
    "signature of another length": lambda x: np.add(x, 1, signature="d->d"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_numpys(case):
    plain = oracles.outcome(ERRORS[case], X.copy())
    assert plain.error is not None, "NumPy accepts this"
    oracles.assert_same_error(oracles.outcome(oracles.reference_jit(ERRORS[case]), X.copy()).error, plain.error, case)


def test_keywords_that_are_not_traced_are_named():
    with pytest.raises(fx.errors.UnsupportedError, match="np.matmul: keyword 'axes'"):
        oracles.reference_jit(lambda x: np.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)]))(np.ones((2, 2)))
