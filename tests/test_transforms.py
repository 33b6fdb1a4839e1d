"""linearize, linear_transpose, Jacobians and Hessians, and the options of jit, against differences, explicit matrices and loops."""

import os
import subprocess
import sys

import numpy as np
import oracles
import pytest
from regimes import tree_close

import functx as fx
import functx.numpy as fnp
from functx.errors import (
    ComplexDerivativeError,
    IntegerGradientError,
    LeakedTracerError,
    NonLinearError,
    StaticArgumentError,
    StructureError,
    UnknownOptionError,
)


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def array(*values):
    return np.array(values, float)


def smooth(x):
    """From (3,) to (2, 3), no entry of whose Jacobian is zero."""
    return np.stack([np.sin(x) * x.sum(), np.exp(-x) * x[0] + x[1] * x[2]])


def matrix_by_differences(f, x):
    """The Jacobian with the axes of x last."""
    columns = []
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = 1.0
        columns.append(oracles.directional(f, [x], [e]))
    return np.stack(columns, -1).reshape(*np.shape(f(x)), *x.shape)


X = array(0.3, -0.7, 1.1)
DIRECTION = array(1, 2, -1)


# --- linearize ----------------------------------------------------------------------------------------------------------------------------


def test_linearize_gives_the_value_and_the_directional_derivative():
    out, f_jvp = fx.linearize(smooth, X)
    tree_close(out, smooth(X))
    for t in (DIRECTION, np.zeros(3), 2 * DIRECTION):
        tree_close(f_jvp(t), fx.jvp(smooth, (X,), (t,))[1])
    np.testing.assert_allclose(f_jvp(DIRECTION), oracles.directional(smooth, [X], [DIRECTION]), rtol=1e-9)


def test_linearize_runs_the_function_once_and_its_writes_once():
    runs = []

    def f(x, log):
        runs.append(1)
        log += x
        return np.sin(x) * log

    log = np.ones(3)
    out, f_jvp = fx.linearize(f, X, log)
    tree_close(log, 1 + X)
    tree_close(out, np.sin(X) * (1 + X))
    expected = np.cos(X) * DIRECTION * (1 + X) + np.sin(X) * DIRECTION
    for _ in range(2):
        tree_close(f_jvp(DIRECTION, None), expected)
    tree_close(f_jvp(None, DIRECTION), np.sin(X) * DIRECTION)
    assert runs == [1] and log.tolist() == (1 + X).tolist()


def test_linearize_takes_and_gives_containers():
    def f(p, n, flag):
        return {"y": p["a"] * p["b"][0] * n, "n": n + 1, "c": 2.0}, "aux"

    p = {"a": array(1, 2), "b": [3.0, None]}
    out, f_jvp, aux = fx.linearize(f, p, 2, "static", has_aux=True)
    assert aux == "aux"
    tree_close(out, {"y": array(6, 12), "n": 3, "c": 2.0})
    tree_close(f_jvp({"a": array(1, 0), "b": [None, None]}, None, None), {"y": array(6, 0), "n": None, "c": 0.0})
    tree_close(f_jvp({"a": array(1, 0), "b": [1.0, None]}, None, None), {"y": array(8, 4), "n": None, "c": 0.0})
    assert fx.linearize(lambda x: x * x, 3.0)[1](1.0) == 6.0
    assert type(fx.linearize(lambda x: x * x, 3.0)[1](1.0)) is float


LINEARIZED = {
    "jit": lambda x, t: jit(lambda x, t: fx.linearize(smooth, x)[1](t))(x, t),
    "of jit": lambda x, t: fx.linearize(jit(smooth), x)[1](t),
    "of jit apart": lambda x, t: fx.linearize(jit(smooth, inline=False), x)[1](t),
    "of checkpoint": lambda x, t: fx.linearize(fx.checkpoint(smooth), x)[1](t),
    "jit of its function": lambda x, t: jit(fx.linearize(smooth, x)[1])(t),
    "vmap": lambda x, t: fx.vmap(lambda x: fx.linearize(smooth, x)[1](t))(np.stack([x, x]))[0],
    "vmap of its function": lambda x, t: fx.vmap(fx.linearize(smooth, x)[1])(np.stack([t, t]))[1],
    "of vmap": lambda x, t: fx.linearize(fx.vmap(smooth), x[None])[1](t[None])[0],
    "jvp of its function": lambda x, t: fx.jvp(fx.linearize(smooth, x)[1], (x,), (t,))[1],
    "transposed twice": lambda x, t: fx.linear_transpose(lambda ct: fx.vjp(smooth, x)[1](ct)[0], smooth(x))(t)[0],
}


@pytest.mark.parametrize("name", LINEARIZED)
def test_linearize_in_every_nesting(name):
    tree_close(LINEARIZED[name](X, DIRECTION), fx.jvp(smooth, (X,), (DIRECTION,))[1])


def test_derivatives_through_linearize():
    def by_linearize(x):
        return (fx.linearize(smooth, x)[1](DIRECTION) ** 2).sum()

    def by_jvp(x):
        return (fx.jvp(smooth, (x,), (DIRECTION,))[1] ** 2).sum()

    tree_close(fx.grad(by_linearize)(X), fx.grad(by_jvp)(X))
    tree_close(jit(fx.grad(by_linearize))(X), fx.grad(by_jvp)(X))
    _, f_jvp = fx.linearize(smooth, X)
    tree_close(fx.grad(lambda t: (f_jvp(t) ** 2).sum())(DIRECTION), 2 * fx.vjp(smooth, X)[1](f_jvp(DIRECTION))[0])


def test_linearize_uses_custom_rules():
    @fx.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (10 * g * np.cos(x),))
    tree_close(fx.linearize(f, X)[1](DIRECTION), 10 * np.cos(X) * DIRECTION)
    h = fx.custom_jvp(np.sin)
    h.defjvp(lambda p, t: (h(p[0]), 7 * np.cos(p[0]) * t[0]))
    tree_close(fx.linearize(lambda x: h(x) * 2, X)[1](DIRECTION), 14 * np.cos(X) * DIRECTION)


def test_tangents_that_do_not_fit_linearize():
    _, f_jvp = fx.linearize(lambda x, d, n: x * d["k"] * n, X, {"k": 2.0}, 3)
    for tangents, message in [
        ((DIRECTION,), "3 tangents"),
        ((np.ones(2), None, None), r"f64\[2\].*f64\[3\]"),
        ((np.ones(3, np.float32), None, None), "f32"),
        ((DIRECTION, {"other": 1.0}, None), "structure"),
        ((DIRECTION, None, 1.0), "'n'"),
    ]:
        with pytest.raises(StructureError, match=message) as caught:
            f_jvp(*tangents)
        assert "test_transforms.py" in str(caught.value)
    kept = []
    jit(lambda x: kept.append(fx.linearize(np.sin, x)[1]) or x)(X)
    with pytest.raises(LeakedTracerError, match="linear function of sin"):
        kept[0](DIRECTION)
    with pytest.raises(StructureError, match="return out, aux"):
        fx.linearize(np.sin, X, has_aux=True)


# --- linear_transpose ---------------------------------------------------------------------------------------------------------------------


def dot(a, b):
    """Re sum(conj(a) * b) over the leaves of two containers."""
    return sum(np.vdot(x, y).real for x, y in zip(fx.tree.leaves(a), fx.tree.leaves(b), strict=True))


A = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])

LINEAR = {
    "matmul": (lambda x: A @ x, (X,)),
    "differences": (lambda x: np.diff(x) * 2.0, (X,)),
    "two arguments": (lambda x, y: {"sum": x + 2 * y, "first": x[0]}, (X, DIRECTION)),
    "containers": (lambda d: (d["a"] * 3.0, d["b"][0] @ X), ({"a": 2.0, "b": [DIRECTION]},)),
    "writes": (lambda x: _written(x), (X,)),
    "a nested jit": (jit(lambda x: jit(lambda x: A @ x)(x) * 2), (X,)),
    "a vmap": (lambda x: fx.vmap(lambda row: row @ x)(fnp.asarray(A)), (X,)),
    "selection": (lambda x: np.where(X > 0, x, 0.0), (X,)),
    "a pull-back": (lambda ct: fx.vjp(smooth, X)[1](ct)[0], (smooth(X),)),
    "a push-forward": (lambda t: fx.linearize(smooth, X)[1](t), (X,)),
    "complex": (lambda z: (1 + 2j) * z, (X + 1j * DIRECTION,)),
    "conjugate": (lambda z: np.conj(z) * 1j + z.real, (X + 1j * DIRECTION,)),
    "from real to complex": (lambda x: x * (1 + 2j), (X,)),
}


def _written(x):
    y = fnp.zeros(4)
    y[1:] = x * 2
    y[2] += x[0]
    return y


@pytest.mark.parametrize("name", LINEAR)
def test_linear_transpose_is_the_adjoint(name):
    f, args = LINEAR[name]
    y = fx.tree.map(lambda v: np.sin(1.0 + np.arange(np.size(v)).reshape(np.shape(v))) * (1 + 0.5j if np.iscomplexobj(v) else 1), f(*args))
    y = fx.tree.map(lambda v, like: v if isinstance(like, np.ndarray) else v[()], y, f(*args))
    got = fx.linear_transpose(f, *args)(y)
    np.testing.assert_allclose(dot(got, args), dot(y, f(*args)), rtol=1e-12)
    for like, leaf in zip(fx.tree.leaves(args), fx.tree.leaves(got), strict=True):
        assert type(like) is type(leaf) and np.shape(like) == np.shape(leaf) and np.asarray(like).dtype == np.asarray(leaf).dtype
    abstract = fx.tree.map(lambda v: fx.ShapeDtypeStruct(np.shape(v), np.asarray(v).dtype), args)
    np.testing.assert_allclose(dot(fx.linear_transpose(f, *abstract)(y), args), dot(y, f(*args)), rtol=1e-12)
    inside = jit(lambda args, y: fx.linear_transpose(f, *args)(y))
    np.testing.assert_allclose(dot(inside(args, y), args), dot(y, f(*args)), rtol=1e-12)


def test_the_transpose_of_the_transpose_is_the_function():
    twice = fx.linear_transpose(lambda y: fx.linear_transpose(lambda x: A @ x, X)(y)[0], A @ X)
    tree_close(twice(DIRECTION)[0], A @ DIRECTION)


def test_what_a_linear_function_closes_over_may_be_traced():
    def f(w):
        return (fx.linear_transpose(lambda x: np.sin(w) * x, X)(DIRECTION)[0] ** 2).sum()

    tree_close(fx.grad(f)(X), 2 * np.sin(X) * np.cos(X) * DIRECTION**2)
    tree_close(fx.vmap(lambda w: fx.linear_transpose(lambda x: w * x, 1.0)(1.0)[0])(X), X)


NON_LINEAR = {
    "square": (lambda x: x * x, "'mul'"),
    "sine": (lambda x: np.sin(x), "'sin'"),
    "quotient": (lambda x: 1.0 / x, "'div'"),
    "affine": (lambda x: x + 1.0, "'add'"),
    "affine by an array": (lambda x: x - array(1, 2, 3), "constant"),
    "constant": (lambda x: 3.0, "constant"),
    "maximum": (lambda x: np.maximum(x, 0.0), "'max'"),
}


@pytest.mark.parametrize("name", NON_LINEAR)
def test_what_is_not_linear_has_no_transpose(name):
    f, part = NON_LINEAR[name]
    with pytest.raises(NonLinearError, match=part) as caught:
        fx.linear_transpose(f, X)
    assert "test_transforms.py" in str(caught.value) and len(str(caught.value).splitlines()) <= 15


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["plain", "jit"])
def test_only_the_types_of_examples_count(how):
    x, y = array(1, 2), array(5, 7)
    tree_close(how(lambda x, y: fx.linear_transpose(lambda a, b: a + 3.0 * b, x, x)(y))(x, y), (y, 3 * y))
    tree_close(how(lambda x, y: fx.linear_transpose(lambda a: a * x, x)(y))(x, y), (x * y,))


@pytest.mark.parametrize("f", [lambda u: np.where(u > 0, u, 0), lambda u: u.astype(int), lambda u: (u, np.argmax(u)), fx.stop_gradient])
def test_what_has_no_derivative_is_not_linear(f):
    for g in (f, fx.checkpoint(f), jit(f)):
        with pytest.raises(NonLinearError, match="it applies '"):
            fx.linear_transpose(g, array(1, 2))


def test_examples_and_cotangents_that_do_not_fit_linear_transpose():
    with pytest.raises(StructureError, match="'n' has type i64"):
        fx.linear_transpose(lambda x, n: x, X, np.arange(2))
    g = fx.linear_transpose(lambda x: A @ x, X)
    with pytest.raises(StructureError, match=r"f64\[3\]"):
        g(X)
    with pytest.raises(StructureError, match="structure"):
        g((X,))


# --- Jacobians ----------------------------------------------------------------------------------------------------------------------------

JACOBIANS = {"jacfwd": fx.jacfwd, "jacrev": fx.jacrev, "jacobian": fx.jacobian}
each_jacobian = pytest.mark.parametrize("jac", JACOBIANS.values(), ids=JACOBIANS)


@each_jacobian
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 4, 6, 100])
def test_a_jacobian_is_the_matrix_of_derivatives(jac, chunk_size):
    expected = matrix_by_differences(smooth, X)
    J = jac(smooth, chunk_size=chunk_size)
    for run in (J, jit(J), jit(jac(jit(smooth), chunk_size=chunk_size)), lambda x: fx.vmap(J)(np.stack([x, x]))[1]):
        got = run(X)
        assert got.shape == (2, 3, 3) and got.dtype == np.float64
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
    tree_close(jit(J)(X), fx.jacrev(smooth)(X))
    assert J(X).flags.writeable and J(X).flags.c_contiguous


def test_a_jacobian_by_chunks():
    x = np.arange(1.0, 6.0)
    expected = np.zeros((4, 5))
    for i in range(4):
        expected[i, i], expected[i, i + 1] = x[i + 1], x[i]
    for chunk_size in (None, 1, 2, 3, 4, 5):
        tree_close(fx.jacrev(lambda x: x[1:] * x[:-1], chunk_size=chunk_size)(x), expected)
        tree_close(fx.jacfwd(lambda x: x[1:] * x[:-1], chunk_size=chunk_size)(x), expected)


def test_a_tall_jacobian_needs_no_identity(monkeypatch):
    """No array on the way has more elements than the result."""
    import functx.interpret as interpret

    largest = []
    plain = interpret.eval_eqn

    def watched(eqn, env):
        outs = plain(eqn, env)
        largest.extend(o.size for o in map(np.asarray, outs) if o.base is None or 0 not in o.strides)
        return outs

    monkeypatch.setattr(interpret, "eval_eqn", watched)
    f = lambda x: np.tile(x, 128) * x.sum()  # noqa: E731
    x = np.linspace(0.0, 1.0, 20)
    for chunk_size in (None, 7):
        J = fx.jacrev(f, chunk_size=chunk_size)(x)
        tree_close(J, np.tile(np.eye(20), (128, 1)) * x.sum() + np.tile(x, 128)[:, None])
    assert max(largest) <= 2**17  # a small block in any case; the identity would have 2560 * 2560
    with monkeypatch.context() as patch:
        patch.setattr("functx.transforms.jacobians.SMALL", 1)
        largest.clear()
        fx.jacrev(f)(x)
    assert max(largest) <= 2560 * 20


@each_jacobian
@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_containers_in_and_out(jac, chunk_size):
    def f(p, y, n):
        return {"a": p["w"] @ y * n, "b": (p["b"] * y.sum(), 3.0), "i": n}, p["w"].sum()

    p, y = {"w": np.arange(6.0).reshape(2, 3), "b": 2.0, "k": 7}, array(1, 2, 3)
    J = jac(f, (1, 0), has_aux=True, chunk_size=chunk_size)
    d_a = {"w": np.zeros((2, 2, 3)), "b": np.zeros(2), "k": None}
    d_a["w"][0, 0] = d_a["w"][1, 1] = 2 * y
    expected = {
        "a": (2 * p["w"], d_a),
        "b": ((np.full(3, 2.0), {"w": np.zeros((2, 3)), "b": 6.0, "k": None}), (np.zeros(3), {"w": np.zeros((2, 3)), "b": 0.0, "k": None})),
        "i": (None, {"w": None, "b": None, "k": None}),
    }
    for run in (J, jit(J)):
        got, aux = run(p, y, 2)
        tree_close(got, expected)
        assert aux == 15.0
    tree_close(jac(lambda x, y: x * y, 1)(X, DIRECTION), np.diag(X))
    tree_close(jac(lambda x, y: x * y, -1)(X, DIRECTION), np.diag(X))
    tree_close(jac(lambda x, *, y: x * y)(X, y=DIRECTION), np.diag(DIRECTION))


@each_jacobian
def test_kinds_and_shapes_of_the_empty_and_the_single(jac):
    for x, expected in (
        (2.0, 4.0),
        (3, 6.0),
        (np.float64(2), np.float64(4)),
        (np.float32(2), np.float32(4)),
        (np.array(2.0), np.array(4.0)),
    ):
        for run in (jac(lambda x: x * x), jit(jac(lambda x: x * x))):
            tree_close(run(x), expected)
    tree_close(jac(lambda x: x * np.ones(3))(2.0), np.ones(3))
    tree_close(jac(lambda x: x.sum())(X), np.ones(3))
    for run in (lambda f: f, jit, lambda f: jit(lambda *args: f(*args))):
        for options in ({}, {"chunk_size": 1}, {"chunk_size": np.int64(2)}):
            tree_close(run(jac(lambda x: x * 2, **options))(np.ones(0)), np.ones((0, 0)))
            tree_close(run(jac(lambda x: x[:0] * 2, **options))(X), np.ones((0, 3)))
            tree_close(run(jac(lambda x: x.sum() * np.ones(2), **options))(np.ones((0, 3))), np.ones((2, 0, 3)))
            tree_close(run(fx.hessian(lambda x: x[:0] ** 2, **options))(X), np.ones((0, 3, 3)))
            tree_close(run(jac(lambda p: (p[0] * 2, p[1]), **options))((2.0, np.ones(0)))[0], (2.0, np.ones(0)))
    tree_close(jac(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    assert jac(lambda x: x > 0)(X) is None
    tree_close(jac(lambda x: x.astype(np.float32) * 2)(np.ones(2)).shape, (2, 2))


@each_jacobian
def test_a_jacobian_of_a_function_that_writes(jac):
    def f(x):
        x[1:] *= x[:-1]
        return x

    x = X.copy()
    got = jac(f)(x)
    tree_close(x, f(X.copy()))
    np.testing.assert_allclose(got, matrix_by_differences(lambda v: f(v.copy()), X), rtol=1e-8, atol=1e-9)


@each_jacobian
def test_what_a_jacobian_refuses(jac):
    with pytest.raises(IntegerGradientError, match="argument 0"):
        jac(lambda x: x * 2.0)(np.arange(3))
    with pytest.raises(TypeError, match="argument 2, but .* 1 positional"):
        jac(lambda x: x, 2)(X)
    with pytest.raises(TypeError, match="takes a function"):
        jac(3)
    for chunk_size in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="chunk_size"):
            jac(lambda x: x, chunk_size=chunk_size)
    with pytest.raises(StructureError, match="return out, aux"):
        jac(lambda x: x, has_aux=True)(X)


def test_complex_jacobians():
    z = np.array([1 + 2j, -0.5j])
    f = lambda z: z * z * z.sum()  # noqa: E731
    expected = np.diag(2 * z * z.sum()) + (z * z)[:, None]
    for jac in (fx.jacfwd, fx.jacrev):
        tree_close(jac(f, holomorphic=True)(z), expected)
        tree_close(jit(jac(f, holomorphic=True, chunk_size=1))(z), expected)
    h = fx.hessian(lambda z: (z**3).sum(), holomorphic=True)(z)
    tree_close(h, np.diag(6 * z))
    tree_close(fx.jacfwd(lambda x: x * (1 + 2j))(X), np.eye(3) * (1 + 2j))  # real to complex
    tree_close(fx.jacrev(lambda z: (z * np.conj(z)).real)(z), np.diag(2 * z))  # each row as grad has it
    with pytest.raises(ComplexDerivativeError, match="an argument has type c128") as caught:
        fx.jacfwd(f)(z)
    assert "holomorphic=True" in str(caught.value) and "test_transforms.py" in str(caught.value)
    with pytest.raises(ComplexDerivativeError, match="a result has type c128"):
        fx.jacrev(f)(z)
    for jac in (fx.jacfwd, fx.jacrev):
        with pytest.raises(ComplexDerivativeError, match="holomorphic=True"):
            jac(lambda x: x * 2, holomorphic=True)(X)


# --- Hessians -----------------------------------------------------------------------------------------------------------------------------


def scalar(x):
    return (smooth(x) ** 2).sum()


HESSIANS = {
    "hessian": fx.hessian(scalar),
    "chunks": fx.hessian(scalar, chunk_size=2),
    "jit of hessian": jit(fx.hessian(scalar)),
    "jit of chunks": jit(fx.hessian(scalar, chunk_size=1)),
    "hessian of jit": fx.hessian(jit(scalar)),
    "hessian of jit apart": fx.hessian(jit(scalar, inline=False)),
    "hessian of checkpoint": fx.hessian(fx.checkpoint(scalar)),
    "forward over reverse": fx.jacfwd(fx.jacrev(scalar)),
    "reverse over forward": fx.jacrev(fx.jacfwd(scalar)),
    "reverse over reverse": fx.jacrev(fx.jacrev(scalar)),
    "forward over forward": fx.jacfwd(fx.jacfwd(scalar)),
    "jacobian of grad": fx.jacobian(fx.grad(scalar)),
    "vmap": lambda x: fx.vmap(fx.hessian(scalar))(np.stack([x, 2 * x]))[0],
    "hvp of unit vectors": lambda x: fx.vmap(lambda v: fx.hvp(scalar, (x,), (v,)))(np.eye(3)),
    "linearized gradient": lambda x: fx.vmap(fx.linearize(fx.grad(scalar), x)[1])(np.eye(3)),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_in_every_nesting(name):
    expected = matrix_by_differences(lambda x: fx.grad(scalar)(x), X)
    got = HESSIANS[name](X)
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(got, got.T, rtol=1e-12, atol=1e-12)


def test_a_hessian_through_a_custom_rule():
    @fx.custom_vjp
    def f(x, y):
        return np.sin(x) * y

    f.defvjp(lambda x, y: (f(x, y), (np.cos(x), np.sin(x), y)), lambda r, g: (r[0] * g * r[2], r[1] * g))
    expected = ((-np.sin(1.0) * 2, np.cos(1.0)), (np.cos(1.0), 0.0))
    got = fx.hessian(f, argnums=(0, 1))(1.0, 2.0)
    tree_close(got, tuple(tuple(float(v) for v in row) for row in expected))
    tree_close(jit(fx.hessian(f, argnums=(0, 1)))(1.0, 2.0), got)
    np.testing.assert_allclose(fx.jvp(f, (1.0, 2.0), (1.0, 0.0))[1], 2 * np.cos(1.0))


def test_hessians_of_containers_with_auxiliary_data():
    def f(p, y):
        return (p["a"] ** 2 * p["b"]).sum() * y, {"seen": p["b"]}

    p = {"a": array(1, 2), "b": 3.0}
    h, aux = fx.hessian(f, has_aux=True)(p, 2.0)
    tree_close(h, {"a": {"a": np.diag(array(12, 12)), "b": array(4, 8)}, "b": {"a": array(4, 8), "b": 0.0}})
    tree_close(aux, {"seen": 3.0})
    third = fx.jacfwd(fx.hessian(lambda x: (x**4).sum()))(X)
    tree_close(third, np.einsum("ij,jk->ijk", np.eye(3), np.eye(3)) * (24 * X))


def test_hvp():
    h = fx.hessian(scalar)(X)
    for run in (lambda x, v: fx.hvp(scalar, (x,), (v,)), jit(lambda x, v: fx.hvp(scalar, (x,), (v,)))):
        tree_close(run(X, DIRECTION), h @ DIRECTION)
    f = lambda x, y: x * x * y  # noqa: E731
    assert fx.hvp(f, (2.0, 3.0), (1.0, 1.0)) == (6.0 + 4.0, 4.0)
    assert fx.hvp(f, (2.0, 3.0), (1.0, None)) == (6.0, None)
    p = {"w": X, "b": 1.0}
    got = fx.hvp(lambda p, n: (p["w"] ** n).sum() * p["b"], (p, 3), ({"w": DIRECTION, "b": 0.0}, None))
    tree_close(got, ({"w": 6 * X * DIRECTION, "b": float((3 * X**2) @ DIRECTION)}, None))
    with pytest.raises(StructureError, match=r"hvp\(f, \(x,\), \(v,\)\)"):
        fx.hvp(scalar, X, DIRECTION)


# --- jit ----------------------------------------------------------------------------------------------------------------------------------


def test_a_call_that_is_kept_apart():
    inner = jit(lambda x, k: (np.sin(x) * k, 3 * x, np.int64(2) * 1), inline=False)

    def f(x, k):
        a, b, n = inner(x, k)
        return (a * b).sum() * n

    def plain(x, k):
        return (np.sin(x) * k * 3 * x).sum() * 2

    names = [e.primitive.name for e in fx.joint_graph(f)(X, DIRECTION).eqns]
    assert names.count("call") == 2  # one on the forward side and one on the backward side
    assert "call" not in [e.primitive.name for e in fx.joint_graph(jit(plain))(X, DIRECTION).eqns]
    tree_close(fx.grad(f, (0, 1))(X, DIRECTION), fx.grad(plain, (0, 1))(X, DIRECTION))
    tree_close(jit(fx.grad(f, (0, 1)))(X, DIRECTION), fx.grad(plain, (0, 1))(X, DIRECTION))
    tree_close(fx.jvp(f, (X, DIRECTION), (DIRECTION, None))[1], fx.jvp(plain, (X, DIRECTION), (DIRECTION, None))[1])
    tree_close(fx.vmap(fx.grad(f), (0, None))(np.stack([X, X]), DIRECTION)[0], fx.grad(plain)(X, DIRECTION))
    tree_close(fx.hessian(f)(X, DIRECTION), fx.hessian(plain)(X, DIRECTION))
    tree_close(fx.grad(f, 1)(X, DIRECTION), fx.grad(plain, 1)(X, DIRECTION))


def test_without_jit_a_function_is_plain_python():
    seen = []

    @jit
    def f(x):
        seen.append(type(x))
        return x * 2 if x.sum() > 0 else x

    class Scaled:
        @fx.jit(static_argnums=0)
        def method(self, x):
            seen.append(type(x))
            return x * 3

    with fx.disable_jit():
        tree_close(f(array(1, 2)), array(2, 4))
        tree_close(fx.grad(lambda x: f(x).sum())(array(1, 2)), array(2, 2))  # a branch on a value: under jit it would raise
        tree_close(Scaled().method(array(1, 2)), array(3, 6))
        with fx.disable_jit(False), pytest.raises(TypeError):
            f(array(1, 2))
    assert seen[0] is np.ndarray and f.cache_info().traces == 0
    with pytest.raises(TypeError):
        f(array(1, 2))


def test_the_environment_can_turn_jit_off(tmp_path):
    program = "import functx as fx, numpy as np; print(fx.jit(lambda x: type(x).__name__)(np.ones(2)))"
    env = {**os.environ, "FUNCTX_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "ndarray", done.stderr


def test_an_option_that_jit_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(UnknownOptionError, match="no option donate_argnums") as caught:
        fx.jit(lambda x: x, donate_argnums=0)
    text = str(caught.value)
    assert "static_argnums" in text and "backend" in text and "test_transforms.py" in text
    with pytest.raises(TypeError, match="no option statics"):

        @fx.jit(statics=(0,))
        def f(x):
            return x


def test_static_arguments_must_be_hashable():
    f = jit(lambda x, shape: x.reshape(shape), static_argnums=1)
    tree_close(f(np.ones(4), (2, 2)), np.ones((2, 2)))
    for call in (lambda: f(np.ones(4), [2, 2]), lambda: fx.grad(lambda x: f(x, [2, 2]).sum())(np.ones(4))):
        with pytest.raises(StaticArgumentError, match="is a list, which cannot be hashed") as caught:
            call()
        assert "tuple instead of a list" in str(caught.value) and "test_transforms.py" in str(caught.value)
    with pytest.raises(StaticArgumentError, match="a traced value was given for a static argument"):
        fx.grad(lambda x: f(x, x).sum())(np.ones(4))


@pytest.mark.parametrize("transform", [jit, lambda f: fx.jacrev(f), lambda f: lambda *args: fx.linearize(f, *args)])
def test_a_function_must_not_change_the_containers_among_its_arguments(transform):
    def f(params, x):
        params["w"] = params["w"] * 2
        return params["w"] * x

    with pytest.raises(StructureError, match=r"changes what a container among its arguments holds, at args\[0\]\['w'\]") as caught:
        transform(f)({"w": 2.0}, X)
    assert "return the new container" in str(caught.value)
