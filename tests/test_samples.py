"""Every check of every sample row: jit, one trace per key, derivatives to order 2, vmap; on the reference backend and compiled."""

import copy
import itertools

import numpy as np
import oracles
import pytest
import sample
import samples

import functx as fx
import functx.numpy as fnp

ROWS = samples.SAMPLES
IDS = [f"{row.name}#{i}" for i, row in enumerate(ROWS)]
each_row = pytest.mark.parametrize("row", ROWS, ids=IDS)
each_smooth_row = pytest.mark.parametrize("row", [r for r in ROWS if r.smooth], ids=[i for i, r in zip(IDS, ROWS, strict=True) if r.smooth])


def traced(row, module=fnp):
    """The row's function of its arguments alone."""
    return lambda *args: row.f(module, *args)


@each_row
def test_concrete_values_are_numpys(row):
    """Law 1: functx.numpy on arrays is NumPy."""
    for dtype in sample.DTYPES:
        oracles.assert_agrees(lambda *args: row.f(np, *args), *row.arguments(dtype), transform=lambda _: traced(row), what=dtype)


@each_row
def test_jit_does_what_the_plain_function_does(row):
    """Value, dtype, shape, kind, changes to arguments and error class, for every dtype and for both modules."""
    for dtype, module in itertools.product(sample.DTYPES, [fnp] if row.own_module else [np, fnp]):
        rtol = max(row.rtol, sample.TOLERANCES.get(dtype, 0.0))
        transform = lambda _, m=module: oracles.reference_jit(traced(row, m))  # noqa: E731
        oracles.assert_agrees(lambda *args: row.f(np, *args), *row.arguments(dtype), transform=transform, rtol=rtol, what=dtype)


@each_row
def test_one_trace_per_key(row):
    f = oracles.reference_jit(traced(row))
    for _ in range(2):
        f(*copy.deepcopy(row.arguments()))
    info = f.cache_info()
    assert (info.hits, info.traces, info.entries) == (1, 1, 1)


# --- derivatives --------------------------------------------------------------------------------------------------------------------------


def floats(row):
    """Positions of the arguments that are differentiated."""
    return [i for i, a in enumerate(row.args) if a.dtype == np.float64]


def directions(row, seed):
    """A direction for each float argument, None for the others."""
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(-1, 1, a.shape) if a.dtype == np.float64 else None for a in row.args)


def weighted(row):
    """A scalar function with derivatives of all orders in the row's results."""
    result = np.asarray(row.f(np, *copy.deepcopy(row.args)))
    w = np.random.default_rng(7).uniform(0.5, 1.5, result.shape)

    def loss(*args):
        out = row.f(fnp, *args)
        return (out * out * w).sum() if out.ndim else out * out * w

    return loss


def inner(a, b):
    return sum(np.vdot(x, y) for x, y in zip(a, b, strict=True) if y is not None)


@each_smooth_row
def test_first_derivatives(row):
    """jvp is the difference quotient, and vjp its transpose."""
    t = directions(row, 1)
    out, tangent = fx.jvp(traced(row), row.args, t)
    np.testing.assert_allclose(out, row.f(np, *row.args), rtol=1e-12)
    expected = oracles.directional(lambda *args: row.f(np, *args), row.args, t)
    np.testing.assert_allclose(tangent, expected, rtol=1e-7, atol=1e-8)
    assert np.shape(tangent) == np.shape(out) and np.asarray(tangent).dtype == np.asarray(out).dtype
    ct = np.random.default_rng(2).uniform(-1, 1, np.shape(out))
    out, pull = fx.vjp(traced(row), *row.args)
    gradients = pull(ct if np.ndim(out) else np.float64(ct))
    np.testing.assert_allclose(inner(gradients, t), np.vdot(ct, tangent), rtol=1e-10, atol=1e-12)
    for g, a in zip(gradients, row.args, strict=True):
        assert g is None or (g.shape == a.shape and g.dtype == a.dtype and g.flags.writeable)


@each_smooth_row
def test_second_derivatives(row):
    """Forward over reverse is the difference quotient of the gradient; reverse over reverse and jit agree with it."""
    loss, t, u = weighted(row), directions(row, 3), directions(row, 4)
    gradient = fx.grad(loss, floats(row))
    along = [t[i] for i in floats(row)]
    _, forward = fx.jvp(gradient, row.args, u)
    expected = oracles.directional(lambda *args: np.asarray(inner(gradient(*args), along)), row.args, u)
    np.testing.assert_allclose(inner(forward, along), expected, rtol=1e-6, atol=1e-6)

    def slope(*args):
        return sum((g * d).sum() if np.ndim(g) else g * d for g, d in zip(gradient(*args), along, strict=True))

    reverse = fx.grad(slope, floats(row))(*row.args)
    np.testing.assert_allclose(inner(reverse, [u[i] for i in floats(row)]), inner(forward, along), rtol=1e-9, atol=1e-10)
    compiled = oracles.reference_jit(gradient)(*row.args)
    oracles.assert_same(compiled, gradient(*row.args), rtol=1e-10, atol=1e-12)


def test_gradient_of_rows_that_are_flat_is_zero():
    """Where nothing depends on the argument the gradient is zero, not an error."""
    for f in (lambda x: np.sign(x).sum(), lambda x: (x > 0).sum() * 1.0, lambda x: x.argmax() * 1.0, lambda x: fx.stop_gradient(x).sum()):
        oracles.assert_same(fx.grad(f)(sample.data((3,))), np.zeros(3))


# --- vmap ---------------------------------------------------------------------------------------------------------------------------------


def batches(row):
    """Pairs of in_axes and arguments: every axis of every argument alone, all in front, and the last axis of all."""
    count, ranks = len(row.args), [a.ndim for a in row.args]
    choices = [tuple(axis if i == j else None for j in range(count)) for i in range(count) for axis in range(ranks[i] + 1)]
    choices += [(0,) * count, tuple(ranks)]
    for axes in dict.fromkeys(choices):
        args = []
        for a, axis in zip(row.arguments(), axes, strict=True):
            lanes = [a, a[..., ::-1], np.roll(a, 1)]
            args.append(a if axis is None else np.stack(lanes, axis))
        yield axes, tuple(args)


@each_row
def test_vmap_is_a_loop(row):
    for axes, args in batches(row):
        if any(axis is None for axis in axes) and row.name == "ndarray.__iadd__":
            continue  # examples may not write into what they share (an error of its own)
        expected = oracles.loop(lambda *a: row.f(np, *a), copy.deepcopy(args), axes)
        got = fx.vmap(traced(row), in_axes=axes)(*copy.deepcopy(args))
        oracles.assert_same(got, expected, rtol=1e-12, atol=1e-13, what=f"in_axes {axes}")
    last = fx.vmap(traced(row), in_axes=axes, out_axes=-1)(*copy.deepcopy(args))
    oracles.assert_same(last, np.moveaxis(expected, 0, -1), rtol=1e-12, atol=1e-13, what="out_axes -1")
    compiled = oracles.reference_jit(fx.vmap(traced(row), in_axes=axes))(*copy.deepcopy(args))
    oracles.assert_same(compiled, expected, rtol=1e-12, atol=1e-13, what="jit of vmap")


@each_smooth_row
def test_vmap_of_the_gradient_is_a_loop(row):
    loss = weighted(row)
    gradient = fx.grad(loss, floats(row))
    for axes, args in list(batches(row))[-2:]:
        oracles.assert_same(
            fx.vmap(gradient, in_axes=axes)(*args), oracles.loop(gradient, args, axes), rtol=1e-10, atol=1e-11, what=f"in_axes {axes}"
        )


# --- errors -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", samples.ERRORS)
@pytest.mark.parametrize("transform", [oracles.reference_jit, lambda f: lambda x: fx.jvp(f, (x,), (x,))], ids=["jit", "jvp"])
def test_errors_are_numpys(case, transform):
    f, x = samples.ERRORS[case], sample.data((2, 3, 4))
    plain = oracles.outcome(f, np, x)
    assert plain.error is not None, "NumPy accepts this row"
    oracles.assert_same_error(oracles.outcome(transform(lambda x: f(np, x)), x).error, plain.error, case)


# --- compiled -----------------------------------------------------------------------------------------------------------------------------

FAMILIES = sorted({row.family for row in ROWS})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", sample.DTYPES)
def test_compiled(family, dtype):
    """All rows of a family in one compiled function."""
    rows, args, expected = [], [], []
    for row in (r for r in ROWS if r.family == family):
        plain = oracles.outcome(lambda *a, row=row: row.f(np, *a), *row.arguments(dtype))
        if plain.error is None:
            rows.append(row)
            args.append(row.arguments(dtype))
            expected.append(plain.value)
    got = fx.jit(lambda args: [row.f(fnp, *a) for row, a in zip(rows, args, strict=True)], backend="cpp")(args)
    for row, g, e in zip(rows, got, expected, strict=True):
        rtol = max(2 * sample.tolerance(dtype, e), 1e-12)
        oracles.assert_same(g, e, rtol=rtol, atol=rtol / 100, what=f"{row.name} of {dtype}")


@pytest.mark.parametrize("family", sorted({row.family for row in ROWS if row.smooth}))
def test_compiled_gradients(family):
    rows = [row for row in ROWS if row.family == family and row.smooth]
    gradients = [fx.grad(weighted(row), floats(row)) for row in rows]
    args = [row.args for row in rows]
    got = fx.jit(lambda args: [g(*a) for g, a in zip(gradients, args, strict=True)], backend="cpp")(args)
    for row, value, gradient in zip(rows, got, gradients, strict=True):
        oracles.assert_same(value, gradient(*row.args), rtol=1e-10, atol=1e-12, what=row.name)
