"""Arrays without elements: what compiled code makes of them, alone, in reductions, under derivatives, and next to others."""

import copy

import numpy as np
import oracles
import pytest
import samples

import functx as fx
import functx.numpy as fnp

ROWS = samples.SAMPLES
FAMILIES = sorted({row.family for row in ROWS})
NOT_TRACED = {"np.einsum", "np.power"}  # without elements NumPy checks neither a repeated index nor an exponent; tracing does


def empty_arguments(row, dtype):
    """The arguments of a row with their first, and with their last axis emptied."""
    for cut in (np.s_[:0], np.s_[..., :0]):
        yield tuple(a[cut] if a.ndim else a for a in row.arguments(dtype))


def and_its_sum(f):
    """A function's results, and what a reduction over each makes of them: it reads values that no kernel makes."""

    def both(*args):
        out = f(*args)
        return out, [leaf.sum() for leaf in fx.tree.leaves(out) if getattr(leaf, "dtype", None) is not None and np.ndim(leaf)]

    return both


def cases(family, dtype, wrap):
    """Functions of functx.numpy and of NumPy with the arguments that NumPy accepts."""
    for row in (r for r in ROWS if r.family == family and r.name not in NOT_TRACED):
        for args in empty_arguments(row, dtype):
            plain = oracles.outcome(wrap(lambda *a, row=row: row.f(np, *a)), *copy.deepcopy(args))
            if plain.error is None:
                yield row, args, plain.value


@pytest.mark.parametrize("family", FAMILIES)
def test_compiled(family):
    """All rows of a family in one compiled function; what a row reads may be what another one has not made."""
    found = [case for dtype in ("float64", "int64") for case in cases(family, dtype, and_its_sum)]
    functions = [and_its_sum(lambda *a, row=row: row.f(fnp, *a)) for row, _, _ in found]
    got = fx.jit(lambda args: [f(*a) for f, a in zip(functions, args, strict=True)], backend="cpp")([copy.deepcopy(a) for _, a, _ in found])
    for (row, args, expected), value in zip(found, got, strict=True):
        oracles.assert_same(value, expected, rtol=1e-12, what=f"{row.name} of {[a.shape for a in args]}")


def squares(row):
    """A scalar function of a row."""

    def loss(*args):
        out = row.f(fnp, *args)
        return (out * out).sum() if np.ndim(out) else out * out

    return loss


@pytest.mark.parametrize("family", sorted({row.family for row in ROWS if row.smooth}))
def test_compiled_gradients(family):
    found = [case for case in cases(family, "float64", lambda f: f) if case[0].smooth]
    places = [[i for i, a in enumerate(args) if a.dtype == np.float64] for _, args, _ in found]
    gradients = [fx.grad(squares(row), where) for (row, _, _), where in zip(found, places, strict=True)]
    arguments = [args for _, args, _ in found]
    got = fx.jit(lambda args: [g(*a) for g, a in zip(gradients, args, strict=True)], backend="cpp")(arguments)
    for (row, args, _), value, gradient in zip(found, got, gradients, strict=True):
        oracles.assert_same(value, gradient(*args), rtol=1e-12, what=f"{row.name} of {[a.shape for a in args]}")


def test_powers_of_a_view_without_elements():
    def f(a):
        v = a[:, 1:1]
        v **= 2

    oracles.assert_agrees(f, np.arange(12).reshape(3, 4), transform=lambda f: fx.jit(f, backend="cpp"))
