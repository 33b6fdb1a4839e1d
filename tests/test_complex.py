"""Complex values: NumPy's results, and derivatives as adjoints under Re sum(conj(a) * b) (the gradient points uphill)."""

import numpy as np
import oracles
import pytest
from oracles import reference_jit

import functx as fx
import functx.numpy as fnp
from functx.parse import parse_graph
from functx.pretty import format_graph

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.uniform(0.4, 1.4, shape) * np.exp(1j * RNG.uniform(-2.5, 2.5, shape))


Z, W, M = draw(3, 4), draw(3, 4), draw(4, 2)

UNARY = {
    name: lambda np, z, name=name: getattr(np, name)(z)
    for name in (
        *("negative", "positive", "square", "reciprocal", "absolute", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "conjugate", "sign"),
        *("real", "imag", "angle"),
    )
}
FUNCTIONS = {
    **UNARY,
    "power": lambda np, z: z**3 + z**0.5 + z**-1 + z ** (0.3 - 1j) + (2 + 1j) ** z + 2.0**z,
    "attributes": lambda np, z: z.real * z.imag + z.conj() * z.T.conjugate().T,
    "reductions": lambda np, z: np.sum(z, 0) + np.mean(z, 0) * z[0],
    "var": lambda np, z: np.var(z, axis=1) + np.std(z),
    "where": lambda np, z: np.where(z.real > 0, z * z, 1.5),
    "index": lambda np, z: z[[0, 2, 2], 1:] * z[1, ::-1][:3],
    "mixed": lambda np, z: z * np.abs(z) + z.real * 1j + z.imag,
    "write": lambda np, z: write(np, z),
    "parts written": lambda np, z: parts_written(np, z),
    "matmul": lambda np, z: z @ M + (z @ M).conj(),
    "vdot": lambda np, z: np.vdot(z, W) + np.vdot(W, z * 1j) + np.dot(z[0], W[1]),
    "from parts": lambda np, z: (z.real + 1j * z.imag) * (z.imag - 1j * z.real),
    "astype": lambda np, z: z.real.astype(complex) * z,
}


def write(np, z):
    y = z * 2
    y[0] += y[1].conj()
    y[1:, 0] = z[0, 1:3] * 1j
    return y


def parts_written(np, z):
    y = z.copy()
    y.real[1:] *= 2
    y.imag[0] += y.real[1]
    y[2].imag = 3
    return y


each_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


@each_function
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("backend", ["reference", "cpp"])
def test_values(f, dtype, backend):
    z = Z.astype(dtype)
    tolerance = 1e-12 if dtype == np.complex128 else 1e-5
    with np.errstate(all="ignore"):
        expected = f(np, z)
    got = fx.jit(lambda z: f(fnp, z), backend=backend)(z)
    oracles.assert_same(got, expected, rtol=tolerance, atol=tolerance)


def real_inner(a, b):
    """Re sum(conj(a) * b)."""
    return np.sum(np.conj(a) * b).real


@each_function
def test_derivatives(f):
    """jvp along any complex direction is the difference quotient, vjp its adjoint, and the gradient of a real loss to second order."""
    t, u = draw(*Z.shape), draw(*Z.shape)
    out, tangent = fx.jvp(lambda z: f(fnp, z), (Z,), (t,))
    np.testing.assert_allclose(tangent, oracles.directional(lambda z: f(np, z), (Z,), (t,)), rtol=1e-7, atol=1e-8)
    assert np.asarray(tangent).dtype == np.asarray(out).dtype
    ct = draw(*np.shape(out)) if np.iscomplexobj(out) else RNG.uniform(-1, 1, np.shape(out))
    _, pull = fx.vjp(lambda z: f(fnp, z), Z)
    (gradient,) = pull(ct if np.ndim(out) else np.asarray(ct)[()])
    assert gradient.dtype == Z.dtype
    np.testing.assert_allclose(real_inner(gradient, t), real_inner(ct, tangent), rtol=1e-10, atol=1e-12)

    def loss(z):
        out = f(fnp, z)
        return (np.abs(out) ** 2).sum() + (np.conj(ct) * out).sum().real

    g = fx.grad(loss)
    _, second = fx.jvp(g, (Z,), (u,))
    along = oracles.directional(lambda z: np.asarray(real_inner(t, g(z))), (Z,), (u,))
    np.testing.assert_allclose(real_inner(t, second), along, rtol=1e-6, atol=1e-6)
    _, pull = fx.vjp(g, Z)
    np.testing.assert_allclose(real_inner(pull(t)[0], u), along, rtol=1e-6, atol=1e-6)
    oracles.assert_same(reference_jit(g)(Z), g(Z), rtol=1e-10, atol=1e-11)


@each_function
def test_vmap_is_a_loop(f):
    lanes = np.stack([Z, W, Z[::-1]])
    oracles.assert_same(fx.vmap(lambda z: f(fnp, z))(lanes), oracles.loop(lambda z: f(np, z), (lanes,), (0,)), rtol=1e-12, atol=1e-12)


def test_the_gradient_points_uphill():
    f = lambda z: z.real**2 + z.imag**2  # noqa: E731
    assert fx.grad(f)(3.0 + 4j) == 6 + 8j and type(fx.grad(f)(3.0 + 4j)) is complex
    z = Z.copy()
    loss = lambda z: (np.abs(z * W - 1) ** 2).sum()  # noqa: E731
    for _ in range(60):
        z -= 0.2 * fx.grad(loss)(z)
    assert loss(z) < 1e-3 * loss(Z)


def test_real_arguments_keep_real_gradients():
    """What passes through complex numbers on the way comes back real."""
    x = np.array([0.5, 1.5])
    g = fx.grad(lambda x: np.abs(np.exp(1j * x) + x).sum())(x)
    expected = [oracles.directional(lambda x: np.abs(np.exp(1j * x) + x).sum(), (x,), (e,)) for e in np.eye(2)]
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, expected, rtol=1e-8)


def test_at_zero_the_absolute_value_is_flat():
    for f in (lambda z: np.abs(z).sum(), lambda z: np.abs(np.sign(z)).sum()):
        oracles.assert_same(fx.grad(f)(np.zeros(2, complex)), np.zeros(2, complex))
    assert fx.grad(abs)(0j) == 0 and fx.jvp(abs, (0j,), (1 + 1j,))[1] == 0


def test_a_complex_loss_is_refused():
    with pytest.raises(fx.errors.NonScalarLossError, match=r"(?s)complex128.*\.real"):
        fx.grad(lambda z: (z * z).sum())(Z)


SPECIAL = np.array([complex(a, b) for a in (0.0, -0.0, 1.5, np.inf, -np.inf, np.nan) for b in (0.0, -0.0, -2.0, np.inf, np.nan)])


@pytest.mark.parametrize("ufunc", [np.isnan, np.isfinite, np.isinf, np.logical_not, np.conjugate, np.negative, np.absolute, np.square])
def test_special_values(ufunc):
    with np.errstate(all="ignore"):
        expected = ufunc(SPECIAL)
    for backend in ("reference", "cpp"):
        oracles.assert_same(fx.jit(ufunc, backend=backend)(SPECIAL), expected, rtol=1e-15)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.equal, np.less, np.greater_equal, np.fmax])
def test_special_pairs(ufunc):
    a, b = SPECIAL[:, None], SPECIAL[None, :]
    with np.errstate(all="ignore"):
        expected = ufunc(a, b)
    oracles.assert_same(reference_jit(ufunc)(a, b), expected, rtol=1e-15)


PYTHON = [
    lambda z, w: z + w * 2 - 1,
    lambda z, w: z / w,
    lambda z, w: z**w + z**2 + w**-1,
    lambda z, w: (z.real, z.imag, z.conjugate(), abs(z)),
    lambda z, w: (z == w, z != w, -z, +z, bool(z)),
    lambda z, w: 2**z.real + abs(w) ** 0.5,
    lambda z, w: z < w,
    lambda z, w: z // w,
    lambda z, w: z % 2,
    lambda z, w: (-abs(z)) ** 0.5,
]


@pytest.mark.parametrize("f", PYTHON)
def test_python_numbers(f):
    oracles.assert_agrees(f, 1.5 - 2j, 0.5 + 1j, rtol=1e-14)


def test_printing_round_trips():
    graph = fx.make_ir(lambda z: (z * (1 + 2j) + complex(np.inf, -0.0)) * complex(np.nan, 1) * complex(-1.5, np.nan))(Z)
    assert format_graph(parse_graph(str(graph)), sources=False) == format_graph(graph, sources=False)
