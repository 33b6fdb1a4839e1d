"""grad, value_and_grad, vjp and jvp: forms of arguments and results."""

import typing

import numpy as np
import pytest
from regimes import tree_close

import functx as fx
from functx.errors import StructureError


def jit(f):
    return fx.jit(f, backend="reference")


def array(*values):
    return np.array(values, float)


class Params(typing.NamedTuple):
    w: typing.Any
    b: typing.Any


@fx.tree.dataclass
class Model:
    layers: list
    scale: float
    name: str = "m"


def test_argnums_as_int_sequence_and_negative():
    def f(a, b, c):
        return a * b**2 * c**3

    args, parts = (2.0, 3.0, 1.0), (9.0, 12.0, 54.0)
    for wrap in (lambda g: g, jit):
        assert wrap(fx.grad(f))(*args) == parts[0]
        assert wrap(fx.grad(f, 1))(*args) == parts[1]
        assert wrap(fx.grad(f, -1))(*args) == parts[2]
        assert wrap(fx.grad(f, np.int64(1)))(*args) == parts[1]
        assert wrap(fx.grad(f, (2, 0)))(*args) == (parts[2], parts[0])
        assert wrap(fx.grad(f, [1]))(*args) == (parts[1],)
        assert wrap(fx.grad(f, (-1, -3, 0)))(*args) == (parts[2], parts[0], parts[0])
        assert wrap(fx.grad(f, ()))(*args) == ()
    assert fx.value_and_grad(f, (0, 1))(*args) == (18.0, parts[:2])


def test_keywords_and_defaults_are_not_differentiated():
    def f(a, b=2.0, *, c=3.0):
        return a * b * c

    assert fx.grad(f)(1.0) == 6.0 and fx.grad(f)(1.0, c=5.0) == 10.0 and fx.grad(f, 1)(1.0, 4.0, c=1.0) == 1.0
    tree_close(fx.vmap(fx.grad(f))(array(1, 2), c=array(1, 2)), array(2, 4))


def test_gradients_have_the_containers_of_their_arguments():
    def f(p):
        layer, (x, n, _) = p["layer"], p["rest"]
        return (layer.w * x).sum() * n + layer.b

    p = {"rest": (array(1, 2), 3, None), "layer": Params(array(4, 5), 6.0), "empty": [], "label": "text"}
    expected = {"rest": (array(12, 15), None, None), "layer": Params(array(3, 6), 1.0), "empty": [], "label": None}
    for run in (fx.grad(f), jit(fx.grad(f))):
        got = run(p)
        tree_close({**got, "layer": tuple(got["layer"])}, {**expected, "layer": tuple(expected["layer"])})
        assert type(got["layer"]) is Params
    model = Model([array(1), array(2)], 3.0)
    g = fx.grad(lambda m: sum(x.sum() for x in m.layers) * m.scale)(model)
    assert type(g) is Model and g.name is None and g.scale == 3.0
    tree_close(g.layers, [array(3), array(3)])


def test_integer_leaves_and_unused_arguments():
    p = {"w": array(1, 2), "n": np.array([3, 4]), "flag": np.array([True]), "k": np.int64(2)}
    g = fx.grad(lambda p: (p["w"] * p["n"]).sum())(p)
    tree_close(g, {"w": array(3, 4), "n": None, "flag": None, "k": None})
    for x in (1.0, np.float32(1), array(1, 2), np.ones((2, 2), np.float32), 3):
        zero = fx.grad(lambda x, y: y, 0)(x, 2.0)
        assert type(zero) is (float if isinstance(x, int) else type(x)) and np.all(zero == 0) and np.shape(zero) == np.shape(x)
    tree_close(fx.grad(lambda x: np.float64(4.0))(array(1, 2)), array(0, 0))
    tree_close(fx.grad(lambda x: (x > 0).sum() * 1.0)(array(1, 2)), array(0, 0))
    tree_close(fx.grad(lambda x: x.astype(int).sum() * 1.0)(array(1.5, 2)), array(0, 0))


def test_auxiliary_data_comes_back_as_it_is():
    def f(x):
        y = x * 2
        return y.sum(), {"y": y, "x": x, "n": 3, "label": "a", "total": y.sum(), "none": None}

    x = array(1, 2)
    for wrap in (lambda g: g, jit):
        g, aux = wrap(fx.grad(f, has_aux=True))(x)
        tree_close(g, array(2, 2))
        assert aux["n"] == 3 and aux["label"] == "a" and aux["none"] is None and aux["total"] == 6.0
        tree_close(aux["y"], array(2, 4))
        assert aux["x"] is x
        (value, aux), g = wrap(fx.value_and_grad(f, has_aux=True))(x)
        assert value == 6.0 and aux["x"] is x
    out, pull, aux = fx.vjp(lambda x: (x * 2, x * 3), x, has_aux=True)
    tree_close((out, pull(np.ones(2))[0], aux), (array(2, 4), array(2, 2), array(3, 6)))
    second = fx.grad(lambda x: fx.grad(lambda y: (y**2, y * 5), has_aux=True)(x)[1])(3.0)
    assert second == 5.0  # auxiliary data has derivatives outside


def test_value_and_grad_returns_the_plain_value():
    for x in (2.0, np.float64(2), np.array(2.0)):
        value, g = fx.value_and_grad(lambda x: x * x)(x)
        plain = x * x
        assert type(value) is type(plain) and value == 4.0 and type(g) is type(x)


def test_the_dtype_of_a_gradient_is_that_of_its_argument():
    x, y = np.ones(2, np.float32), np.ones(2)
    gx, gy = fx.grad(lambda x, y: (x * y).sum(), (0, 1))(x, y)
    assert gx.dtype == np.float32 and gy.dtype == np.float64
    assert fx.grad(lambda x: x.astype(np.float64).sum())(x).dtype == np.float32
    assert fx.grad(lambda x: np.sum(x.astype(np.float16)) * 2)(np.ones(2, np.float32)).dtype == np.float32


# --- vjp ----------------------------------------------------------------------------------------------------------------------------------


def test_vjp_takes_and_gives_containers():
    def f(p, x):
        return {"a": p["w"] * x, "b": [x.sum(), p["n"]]}

    p, x = {"w": 2.0, "n": 3.0}, array(1, 2)
    out, pull = fx.vjp(f, p, x)
    tree_close(out, f(p, x))
    for _ in range(2):
        gp, gx = pull({"a": array(1, 10), "b": [100.0, 1000.0]})
        tree_close(gp, {"w": 21.0, "n": 1000.0})
        tree_close(gx, array(102, 120))
    tree_close(pull({"b": [0.0, 0.0], "a": np.zeros(2)})[1], array(0, 0))


def test_vjp_of_integer_results_and_of_arguments():
    x = array(1, 2)
    out, pull = fx.vjp(lambda x, n: (x > 1, x, n * 2, 7), x, np.array([1, 2]))
    assert out[0].tolist() == [False, True] and out[1] is x and out[3] == 7
    gx, gn = pull((out[0], array(3, 4), out[2], 7))
    tree_close(gx, array(3, 4))
    assert gn is None


def test_the_writes_of_a_function_happen_at_the_forward_call_only():
    def f(x):
        x *= 2.0
        return (x**2).sum()

    x = array(1, 2)
    out, pull = fx.vjp(f, x)
    assert out == 20 and x.tolist() == [2, 4]
    tree_close(pull(1.0), (array(8, 16),))
    tree_close(pull(2.0), (array(16, 32),))
    assert x.tolist() == [2, 4]
    x = array(1, 2)
    assert fx.jvp(f, (x,), (array(1, 0),)) == (20, 8) and x.tolist() == [2, 4]


def test_pull_backs_inside_every_transform():
    def f(x):
        return np.sin(x) * x.sum()

    def through(x):
        out, pull = fx.vjp(f, x)
        return pull(out)[0]

    x = array(0.5, 1.0)
    plain = through(x)
    for run in (
        jit(through),
        fx.checkpoint(through),
        lambda x: jit(fx.vmap(through))(x[None])[0],
        lambda x: fx.jvp(through, (x,), (x,))[0],
    ):
        tree_close(run(x), plain)
    step = 1e-6
    numeric = np.array([(through(x + step * e).sum() - through(x - step * e).sum()) / (2 * step) for e in np.eye(2)])
    tree_close(fx.grad(lambda x: through(x).sum())(x), numeric, rtol=1e-7)

    def outside(x):
        _, pull = fx.vjp(f, x)
        return jit(lambda ct: pull(ct)[0])(x) + fx.vmap(lambda ct: pull(ct)[0])(np.stack([x, x])).sum(0)

    tree_close(jit(outside)(x), outside(x))
    tree_close(outside(x), 3 * fx.vjp(f, x)[1](x)[0])


# --- jvp ----------------------------------------------------------------------------------------------------------------------------------


def test_jvp_takes_and_gives_containers_and_none():
    def f(p, x):
        return {"a": p["w"] * x, "n": p["n"], "big": x > 1}

    p, x = {"w": 2.0, "n": np.int64(3)}, array(1, 2)
    out, moved = fx.jvp(f, (p, x), ({"w": 10.0, "n": None}, array(1, 0)))
    tree_close(out, f(p, x))
    tree_close(moved, {"a": array(12, 20), "n": None, "big": None})
    tree_close(fx.jvp(f, (p, x), (None, array(1, 0)))[1]["a"], array(2, 0))
    tree_close(fx.jvp(lambda x: (x * 0 + 1.0, 5.0), (x,), (x,))[1], (array(0, 0), 0.0))
    tree_close(fx.jvp(lambda x, y: x + y, (x, x), (None, None)), (array(2, 4), array(0, 0)))
    tree_close(fx.jvp(lambda x: x * x, (3,), (2.0,)), (9.0, 12.0))


def test_constant_results_have_zero_tangents_of_their_kind_and_integers_none():
    def f(x):
        return x, 2.0, np.float32(3), np.ones(3, np.float32)[::2], 1j, 4, True, "text", np.arange(2)

    zeros = (0.0, np.float32(0), np.zeros(2, np.float32), 0j, None, None, None, None)
    tree_close(fx.jvp(f, (1.0,), (5.0,))[1], (5.0, *zeros))
    tree_close(fx.linearize(f, 1.0)[1](5.0), (5.0, *zeros))
    tree_close(fx.grad(lambda x: x * fx.jvp(lambda _: 2.0, (x,), (x,))[1])(3.0), 0.0)


def test_none_is_a_cotangent_of_zero():
    def f(x):
        return {"y": x * 2.0, "n": np.argmax(x), "z": (x.sum(), None)}

    pull = fx.vjp(f, array(1, 2))[1]
    tree_close(pull({"y": array(1, 1), "n": None, "z": (3.0, None)}), (array(5, 5),))
    tree_close(pull({"y": None, "n": None, "z": (1.0, None)}), (array(1, 1),))
    tree_close(pull({"y": array(1, 1), "n": None, "z": None}), (array(2, 2),))
    tree_close(pull(None), (array(0, 0),))
    tree_close(fx.jit(lambda ct: pull({"y": ct, "n": None, "z": None}), backend="reference")(array(1, 1)), (array(2, 2),))
    with pytest.raises(StructureError, match="has structure"):
        pull({"y": array(1, 1), "z": None})


@pytest.mark.parametrize("number", [1j, np.complex128(1j), np.array(1j)])
def test_a_real_value_has_no_complex_tangent_or_cotangent(number):
    for call in (
        lambda c: fx.jvp(lambda x: 2.0 * x, (1.0,), (c,)),
        lambda c: fx.vjp(lambda x: 2.0 * x, 1.0)[1](c),
        lambda c: fx.linearize(lambda x: 2.0 * x, 1.0)[1](c),
        lambda c: fx.linear_transpose(lambda x: 2.0 * x, 1.0)(c),
    ):
        for run in (call, fx.jit(call, backend="reference")):
            with pytest.raises(StructureError, match="does not fit"):
                run(number)


def test_argnums_that_are_no_ints_are_refused():
    for argnums in ("x", 1.0, True, (0, "x"), None):
        for transform in (fx.grad, fx.value_and_grad, fx.jacfwd, fx.jacrev, fx.hessian):
            with pytest.raises(TypeError, match="argnums must be an int or a sequence of ints"):
                transform(lambda x: x, argnums)(1.0)
    tree_close(fx.grad(lambda x, y: x * y, np.int64(1))(2.0, 3.0), 2.0)


def test_jvp_shares_arguments_and_gives_tangents_of_their_own():
    x, t = array(1, 2), array(3, 4)
    out, moved = fx.jvp(lambda x: x, (x,), (t,))
    assert out is x and moved is not t and not np.shares_memory(moved, t)
    moved[0] = 100
    assert t[0] == 3


def test_forward_over_reverse_equals_reverse_over_reverse():
    def f(x):
        return np.sum(np.tanh(x) * np.exp(-x[::-1]))

    x, v = array(0.1, -0.4, 0.8), array(1, 2, 3)
    forward = fx.jvp(fx.grad(f), (x,), (v,))[1]
    tree_close(forward, fx.grad(lambda x: fx.grad(f)(x) @ v)(x), rtol=1e-10)
    tree_close(forward, fx.grad(lambda x: fx.jvp(f, (x,), (v,))[1])(x), rtol=1e-10)
    tree_close(jit(lambda x: fx.jvp(fx.grad(f), (x,), (v,))[1])(x), forward, rtol=1e-12)


def test_stop_gradient_and_checkpoint():
    assert fx.grad(lambda x: x * fx.stop_gradient(x))(3.0) == 3.0
    tree_close(fx.grad(lambda d: d["a"] * fx.stop_gradient(d)["b"])({"a": 2.0, "b": 5.0}), {"a": 5.0, "b": 0.0})
    assert fx.stop_gradient({"a": 1.0}) == {"a": 1.0}

    def write_through(x):
        y = fx.stop_gradient(x[1:])
        y *= 2
        return y, x.sum()

    for run in (write_through, jit(write_through), lambda x: fx.vjp(write_through, x)[0]):
        x = array(1, 2, 3)
        y, total = run(x)
        assert np.shares_memory(y, x) and total == 11.0
        tree_close(x, array(1, 4, 6))

    def body(x, y):
        x[0] = y
        return {"s": np.sin(x).sum()}

    for x in (array(1, 2),):
        g = fx.grad(lambda x, y: fx.checkpoint(body)(x, y)["s"], (0, 1))(x, 3.0)
        tree_close(g, (array(0, np.cos(2)), float(np.cos(3))))
        assert x.tolist() == [3, 2]


def test_meta_learning_takes_gradients_of_updated_parameters():
    def inner_loss(w, x):
        return ((w * x - 1.0) ** 2).sum()

    def outer(w, x):
        for _ in range(3):
            w = w - 0.1 * fx.grad(inner_loss)(w, x)
        return inner_loss(w, x)

    w, x, step = array(0.5, -0.2), array(1.0, 2.0), 1e-6
    numeric = array(*((outer(w + step * e, x) - outer(w - step * e, x)) / (2 * step) for e in np.eye(2)))
    for run in (fx.grad(outer), jit(fx.grad(outer))):
        tree_close(run(w, x), numeric, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1])
def test_empty_and_single_arrays(n):
    tree_close(fx.grad(lambda x: (x * x).sum())(np.ones(n)), 2 * np.ones(n))
    tree_close(fx.jvp(lambda x: x * 3, (np.ones(n),), (np.ones(n),)), (3 * np.ones(n), 3 * np.ones(n)))
    tree_close(fx.grad(lambda x: np.concatenate([x, x]).sum())(np.ones((n, 2))), 2 * np.ones((n, 2)))


def test_python_ints_in_containers_and_under_vjp_stay_ints():
    power_sum = lambda p: sum(p["w"] ** i for i in range(p["n"]))  # noqa: E731
    for run in (fx.grad(power_sum), fx.jit(fx.grad(power_sum), backend="reference")):
        tree_close(run({"w": 2.0, "n": 3}), {"w": 5.0, "n": None})
    out, pull = fx.vjp(lambda x, n: sum(x**i for i in range(n)), 2.0, 3)
    tree_close((out, pull(1.0)), (7.0, (5.0, None)))
