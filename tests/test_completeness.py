"""Every primitive has every rule, and every function that functx traces has a sample row. Rules are checked against the reference."""

import inspect

import numpy as np
import oracles
import pytest
import samples
from primitive_samples import PRIMITIVE_SAMPLES

import functx as fx
import functx.numpy as fnp
from functx import lax, nn
from functx.dtypes import is_inexact
from functx.numpy import protocols, ufuncs
from functx.primitive import PRIMITIVES
from functx.scipy import special

N = 5
IDS = [f"{row.name}#{i}" for i, row in enumerate(PRIMITIVE_SAMPLES)]
each_row = pytest.mark.parametrize("row", PRIMITIVE_SAMPLES, ids=IDS)
smooth = [(i, r) for i, r in zip(IDS, PRIMITIVE_SAMPLES, strict=True) if r.smooth]
each_smooth_row = pytest.mark.parametrize("row", [r for _, r in smooth], ids=[i for i, _ in smooth])


# Collectives mean something over lanes only: tests/test_collectives.py. Loops and choices hold graphs: tests/test_control_flow.py.
# Selections bind the size of their result: tests/test_dynamic_data.py.
NAMES = sorted(name for name, p in PRIMITIVES.items() if p.family not in ("collective", "control", "selection"))


def test_every_primitive_has_a_row():
    assert set(NAMES) == {row.name for row in PRIMITIVE_SAMPLES}


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_there(name):
    p = PRIMITIVES[name]
    assert callable(p.impl) and callable(p.type_rule) and p.family != "other"
    assert p.recompute in ("cheap", "costly", "never")
    takes_arrays = any(row.operands(N) for row in PRIMITIVE_SAMPLES if row.name == name)
    assert callable(p.batch) or not takes_arrays
    derivative = p.partials is not None or p.transpose is not None or p.jvp is not None or (p.joint_jvp is not None and p.vjp is not None)
    assert derivative == p.differentiable
    rows = [row for row in PRIMITIVE_SAMPLES if row.name == name]
    assert not p.differentiable or p.family in ("callback", "sampling") or any(row.smooth for row in rows)  # see their tests
    for row in rows:
        assert not any(p.is_linear_in(i) and is_inexact(a.dtype) and i not in row.smooth for i, a in enumerate(row.avals(N)) if row.smooth)
        assert p.flops(*row.avals(N), **row.params(N)) >= 0 and p.flops(*row.avals(fx.Dim("n")), **row.params(fx.Dim("n"))) >= 0


def _named(namespace, prefix):
    """The public functions that a module of functx defines."""
    functions = [n for n, f in vars(namespace).items() if inspect.isfunction(f) and f.__module__ == namespace.__name__]
    return {f"{prefix}.{n}" for n in functions if not n.startswith("_")}


def _namespace(f):
    """``np`` or ``np.linalg``."""
    return "np.linalg" if f.__module__ == "numpy.linalg" else "np"


def test_every_traced_function_has_a_row():
    rows = {row.name for row in samples.SAMPLES}
    aliases = {np.amax: "max", np.amin: "min"}
    functions = {f"{_namespace(f)}.{aliases.get(f, f.__name__)}" for f in protocols.FUNCTIONS}
    wanted = functions | {f"np.{u.__name__}" for u in (*ufuncs.UFUNCS, *ufuncs.OPERAND_UFUNCS)} | {"np.matmul", "np.divmod"}
    wanted |= {f"ndarray.{name}" for name in protocols.METHODS}
    wanted |= {f"fnp.{name}" for name in fnp.__all__} | _named(nn, "nn") | _named(lax, "lax") | _named(special, "special")
    assert wanted - rows == set()


# --- types --------------------------------------------------------------------------------------------------------------------------------


@each_row
def test_the_type_rule_is_what_the_reference_returns(row):
    p, arrays = PRIMITIVES[row.name], row.arrays(N)
    outs = p.evaluate(arrays, row.params(N))
    avals = p.out_avals(row.avals(N), row.params(N))
    assert [(np.shape(o), np.asarray(o).dtype) for o in outs] == [(a.shape, a.dtype) for a in avals]


@each_row
def test_the_type_rule_takes_symbolic_dimensions(row):
    """With a Dim for n the result has the shape that an int gives, after putting the int in."""
    n = fx.Dim("n")
    symbolic = PRIMITIVES[row.name].out_avals(row.avals(n), row.params(n))
    for value in (4, N):
        concrete = PRIMITIVES[row.name].out_avals(row.avals(value), row.params(value))
        assert [tuple(_with(d, value) for d in a.shape) for a in symbolic] == [a.shape for a in concrete]
        assert [a.dtype for a in symbolic] == [a.dtype for a in concrete]


def _with(d, value):
    return int(d.expr.subs({s: value for s in d.expr.free_symbols})) if isinstance(d, fx.Dim) else d


@pytest.mark.parametrize(
    ("name", "shapes", "params"),
    [
        ("add", [(3,), (4,)], {}), ("add", [(fx.Dim("n"),), (fx.Dim("m"),)], {}), ("reshape", [(3, 4)], {"shape": (5, 2)}),
        ("reshape", [(fx.Dim("n"), 4)], {"shape": (fx.Dim("n"), 5)}), ("transpose", [(2, 3)], {"perm": (0, 0)}),
        ("broadcast", [(3,)], {"shape": (4,), "dims": (0,)}), ("broadcast", [(3,)], {"shape": (3, 3), "dims": (1, 0)}),
        ("slice", [(4,)], {"starts": (3,), "sizes": (2,), "steps": (1,)}),
        ("slice", [(4,)], {"starts": (0,), "sizes": (2,), "steps": (0,)}),
        ("slice_set", [(4,), (5,)], {"starts": (0,), "steps": (1,)}), ("concatenate", [(2, 3), (2, 4)], {"axis": 0}),
        ("pad", [(2,), (2,)], {"low": (0,), "high": (0,)}), ("pad", [(2,), ()], {"low": (-1,), "high": (0,)}),
        ("dot_general", [(2, 3), (4, 5)], {"contract": ((1,), (0,)), "batch": ((), ())}),
        ("scatter_add", [(3,), (2,), (3,)], {"axes": (0,)}),
    ],
)  # fmt: skip
def test_type_rules_refuse_what_does_not_fit(name, shapes, params):
    from functx.ir import AbstractArray

    dtypes = [np.dtype(np.int64) if name == "scatter_add" and i == 2 else np.dtype(float) for i in range(len(shapes))]
    with pytest.raises(fx.errors.FunctxError):
        PRIMITIVES[name].out_avals([AbstractArray(s, d) for s, d in zip(shapes, dtypes, strict=True)], params)


# --- rules --------------------------------------------------------------------------------------------------------------------------------


@each_row
def test_printing(row):
    graph = fx.make_ir(row.function(N))(*row.arrays(N))
    assert f"= {row.name}" in str(graph)


@each_row
def test_batch_rule(row):
    """vmap over every non-empty choice of operands is a loop over examples."""
    lanes = [row.arrays(N, seed) for seed in range(3)]
    count = len(lanes[0])
    for choice in range(1, 2**count):
        axes = tuple(0 if choice >> i & 1 else None for i in range(count))
        args = [np.stack([lane[i] for lane in lanes]) if axes[i] == 0 else lanes[0][i] for i in range(count)]
        got = fx.vmap(row.function(N), in_axes=axes)(*args)
        expected = oracles.loop(row.reference(N), args, axes)
        expected = tuple(expected) if isinstance(expected, list) else expected
        oracles.assert_same(got, expected, rtol=1e-13, what=f"in_axes {axes}")


def inner(a, b):
    """Re sum(conj(a) * b), over pairs of arrays where the second one is not None."""
    return sum(np.vdot(x, y).real for x, y in zip(a, b, strict=True) if y is not None)


def direction(rng, x):
    """A random direction in the space of x, which may be complex."""
    return rng.uniform(-1, 1, np.shape(x)) + (1j * rng.uniform(-1, 1, np.shape(x)) if np.iscomplexobj(x) else 0)


@each_smooth_row
def test_derivative_rules(row):
    """jvp is the difference quotient, vjp its adjoint, for every choice of moving operands; second order likewise; under vmap too."""
    args, f = row.arrays(N), row.function(N)
    first = lambda *a: np.asarray(out[0] if isinstance(out := row.reference(N)(*a), (tuple, list)) else out)  # noqa: E731
    g = lambda *a: out[0] if isinstance(out := f(*a), tuple) else out  # noqa: E731
    rng = np.random.default_rng(1)
    full = [direction(rng, a) if i in row.smooth else None for i, a in enumerate(args)]
    for moving in ({*row.smooth}, *({i} for i in row.smooth)):
        t = tuple(d if i in moving else None for i, d in enumerate(full))
        _, tangent = fx.jvp(g, tuple(args), t)
        np.testing.assert_allclose(tangent, oracles.directional(first, args, t), rtol=1e-8, atol=1e-9)
    out, pull = fx.vjp(g, *args)
    ct = direction(rng, out)
    _, tangent = fx.jvp(g, tuple(args), tuple(full))
    np.testing.assert_allclose(inner(pull(ct), full), inner([ct], [tangent]), rtol=1e-12, atol=1e-13)

    gradient = fx.grad(lambda *a: (g(*a) * g(*a) * ct).sum().real, row.smooth)
    along = [full[i] for i in row.smooth]
    _, second = fx.jvp(gradient, tuple(args), tuple(full))
    slope = oracles.directional(lambda *a: np.asarray(inner(gradient(*a), along)), args, full)
    np.testing.assert_allclose(inner(second, along), slope, rtol=1e-7, atol=1e-7)
    lanes = [row.arrays(N, seed) for seed in range(2)]
    stacked = [np.stack(column) for column in zip(*lanes, strict=True)]
    oracles.assert_same(fx.vmap(gradient)(*stacked), oracles.loop(gradient, stacked, (0,) * len(args)), rtol=1e-12, atol=1e-13)
