"""Collectives over named axes of vmap, against NumPy on the whole batch, in every nesting of transforms."""

import numpy as np
import pytest
from regimes import tree_close

import functx as fx
import functx.numpy as fnp
from functx.errors import UnboundAxisError
from functx.primitive import PRIMITIVES


def jit(f):
    return fx.jit(f, backend="reference")


def array(*values):
    return np.array(values, float)


X = np.array([[1.0, 5.0], [4.0, 2.0], [3.0, 3.0]])

COLLECTIVES = {
    "psum": (fx.psum, lambda x: x.sum(0)),
    "pmean": (fx.pmean, lambda x: x.mean(0)),
    "pmax": (fx.pmax, lambda x: x.max(0)),
    "pmin": (fx.pmin, lambda x: x.min(0)),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_each_collective_is_a_reduction_over_the_batch(name):
    collective, reduction = COLLECTIVES[name]
    expected = np.stack([reduction(X)] * 3)
    for wrap in (lambda f: f, jit):
        tree_close(wrap(fx.vmap(lambda x: collective(x, "i"), axis_name="i"))(X), expected)
        tree_close(wrap(fx.vmap(jit(lambda x: collective(x, "i")), axis_name="i"))(X), expected)
        tree_close(wrap(fx.vmap(fx.checkpoint(lambda x: collective(x, "i")), axis_name="i"))(X), expected)
        tree_close(wrap(fx.vmap(lambda x: collective(x, "i"), axis_name="i", in_axes=1))(X.T), expected)
        tree_close(wrap(fx.vmap(lambda x: collective(x, "i"), axis_name="i", out_axes=None))(X), reduction(X))
    containers = fx.vmap(lambda d: collective({"a": d["a"], "b": [d["a"][0]]}, "i"), axis_name="i", out_axes=None)({"a": X})
    tree_close(containers, {"a": reduction(X), "b": [reduction(X)[0]]})


def test_dtypes_and_kinds_are_kept():
    for dtype in (np.int8, np.int64, np.float32, np.float64, np.complex64):
        x = np.array([1, 2, 3], dtype)
        assert fx.vmap(lambda v: fx.psum(v, "i"), axis_name="i")(x).dtype == dtype
    counted = fx.vmap(lambda v: fx.psum(v, "i"), axis_name="i")(np.array([True, False, True]))
    tree_close(counted, np.array([2, 2, 2]))
    assert fx.vmap(lambda v: fx.pmean(v, "i"), axis_name="i")(np.ones(2, np.float32)).dtype == np.float32
    assert fx.vmap(lambda v: fx.pmean(v, "i"), axis_name="i")(np.array([1, 2])).tolist() == [1.5, 1.5]


def test_numbers_and_arrays_that_all_examples_share():
    seen = []

    def f(x):
        seen.append((fx.psum(1, "i"), fx.psum(2.5, "i"), fx.pmean(2.0, "i"), fx.pmax(7, "i"), fx.axis_size("i")))
        return fx.psum(array(1, 2), "i") + fx.pmax(array(1, 2), "i") + x

    tree_close(fx.vmap(f, axis_name="i")(X), X + array(3, 6) + array(1, 2))
    assert seen == [(3, 7.5, 2.0, 7, 3)] and all(type(a) is type(b) for a, b in zip(seen[0], (3, 7.5, 2.0, 7, 3), strict=True))
    tree_close(fx.vmap(lambda x, w: fx.psum(w, "i"), (0, None), axis_name="i", out_axes=None)(X, 2.0), 6.0)


def test_the_index_of_the_example():
    tree_close(fx.vmap(lambda x: fx.axis_index("i"), axis_name="i")(X), np.arange(3))
    tree_close(jit(fx.vmap(jit(lambda x: x * fx.axis_index("i")), axis_name="i"))(X), X * np.arange(3.0)[:, None])
    tree_close(fx.vmap(lambda: fx.axis_index("i"), axis_name="i", axis_size=4)(), np.arange(4))
    tree_close(fx.vmap(lambda x: fnp.asarray(X)[fx.axis_index("i")], axis_name="i")(X), X)
    pairs = fx.vmap(lambda x: fx.vmap(lambda v: fx.axis_index(("i", "j")), axis_name="j")(x), axis_name="i")(X)
    tree_close(pairs, np.arange(6).reshape(3, 2))


def test_several_axes_and_axes_of_the_other_level():
    def both(f):
        return fx.vmap(fx.vmap(f, axis_name="j"), axis_name="i")

    for wrap in (lambda f: f, jit):
        tree_close(wrap(both(lambda v: fx.psum(v, "i")))(X), np.broadcast_to(X.sum(0), (3, 2)).copy())
        tree_close(wrap(both(lambda v: fx.psum(v, "j")))(X), np.broadcast_to(X.sum(1, keepdims=True), (3, 2)).copy())
        tree_close(wrap(both(lambda v: fx.psum(v, ("i", "j"))))(X), np.full((3, 2), X.sum()))
        tree_close(wrap(both(lambda v: fx.pmax(v, ["j", "i"])))(X), np.full((3, 2), X.max()))
        tree_close(wrap(both(lambda v: fx.pmean(v, ("i", "j"))))(X), np.full((3, 2), X.mean()))
        tree_close(wrap(both(lambda v: fx.axis_size(("i", "j")) + 0 * v))(X), np.full((3, 2), 6.0))
    # An inner vmap of another name, or of none, is passed through.
    tree_close(fx.vmap(lambda x: fx.vmap(lambda v: fx.psum(v * v, "i"))(x), axis_name="i", out_axes=None)(X), (X * X).sum(0))
    # An inner axis hides an outer one of the same name.
    tree_close(fx.vmap(lambda x: fx.vmap(lambda v: fx.psum(v, "i"), axis_name="i")(x), axis_name="i")(X)[:, 0], X.sum(1))


def test_derivatives_inside_the_axis():
    """Every example differentiates the sum of what all of them return: psum transposes to psum."""
    x = array(0.5, 1.0, 2.0)
    for wrap in (lambda f: f, jit):
        tree_close(wrap(fx.vmap(fx.grad(lambda v: fx.psum(v * v, "i")), axis_name="i"))(x), 3 * 2 * x)
        tree_close(wrap(fx.vmap(fx.grad(lambda v: fx.pmean(v * v, "i")), axis_name="i"))(x), 2 * x)
        tree_close(wrap(fx.vmap(fx.grad(lambda v: v * fx.psum(v, "i")), axis_name="i"))(x), np.full(3, 2 * x.sum()))
        tree_close(
            wrap(fx.vmap(lambda v: fx.jvp(lambda v: fx.psum(v * v, "i"), (v,), (v,))[1], axis_name="i"))(x), np.full(3, (2 * x * x).sum())
        )
        tree_close(wrap(fx.vmap(lambda v: fx.vjp(lambda v: fx.psum(v * v, "i"), v)[1](v)[0], axis_name="i"))(x), x.sum() * 2 * x)
        tree_close(
            wrap(fx.vmap(lambda v: fx.linearize(lambda v: fx.psum(v * v, "i"), v)[1](v), axis_name="i"))(x), np.full(3, (2 * x * x).sum())
        )
        adjoint = fx.vmap(lambda v: fx.linear_transpose(lambda v: fx.psum(2 * v, "i"), v)(v)[0], axis_name="i")
        tree_close(wrap(adjoint)(x), np.full(3, 2 * x.sum()))


def numpy_softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def softmax(x):
    def f(v):
        e = np.exp(v - fx.stop_gradient(fx.pmax(v, "i")))
        return e / fx.psum(e, "i")

    return fx.vmap(f, axis_name="i")(x)


def test_derivatives_outside_the_axis():
    x, w = array(0.5, 1.0, 2.0), array(1, -2, 3)
    expected = np.diag(numpy_softmax(x)) - np.outer(numpy_softmax(x), numpy_softmax(x))
    tree_close(softmax(x), numpy_softmax(x))
    for run in (lambda f: f(x), lambda f: jit(f)(x), lambda f: fx.vmap(f)(np.stack([x, x]))[0]):
        tree_close(run(fx.jacrev(softmax)), expected)
        tree_close(run(fx.jacfwd(softmax)), expected)
        tree_close(run(fx.grad(lambda x: (softmax(x) * w).sum())), expected @ w)
    step, h = fx.hessian(lambda x: (softmax(x) * w).sum()), 1e-5
    for i, e in enumerate(np.eye(3)):
        g = fx.grad(lambda x: (softmax(x) * w).sum())
        np.testing.assert_allclose(step(x)[i], (g(x + h * e) - g(x - h * e)) / (2 * h), atol=1e-8)


def test_extrema_share_their_derivative_among_equal_examples():
    x = array(2, 1, 2)
    tree_close(fx.grad(lambda x: fx.vmap(lambda v: fx.pmax(v, "i"), axis_name="i", out_axes=None)(x))(x), array(0.5, 0, 0.5))
    tree_close(fx.grad(lambda x: fx.vmap(lambda v: fx.pmin(v, "i"), axis_name="i", out_axes=None)(x))(x), array(0, 1, 0))
    tree_close(fx.jvp(lambda x: fx.vmap(lambda v: fx.pmax(v, "i"), axis_name="i")(x), (x,), (array(1, 5, 3),))[1], array(2, 2, 2))


def test_custom_rules_with_collectives():
    @fx.custom_vjp
    def mean(v):
        return fx.pmean(v, "i")

    mean.defvjp(lambda v: (mean(v), None), lambda r, g: (10 * fx.pmean(g, "i"),))
    x = array(1, 2, 6)
    for wrap in (lambda f: f, jit):
        tree_close(wrap(fx.vmap(mean, axis_name="i"))(x), array(3, 3, 3))
        tree_close(wrap(fx.grad(lambda x: (fx.vmap(mean, axis_name="i")(x) * x).sum()))(x), array(3, 3, 3) + 10 * x.mean())

    @fx.custom_jvp
    def total(v):
        return fx.psum(v, "i")

    total.defjvp(lambda p, t: (fx.psum(p[0], "i"), 5 * fx.psum(t[0], "i")))
    tree_close(fx.grad(lambda x: fx.vmap(total, axis_name="i")(x)[0])(x), array(5, 5, 5))
    tree_close(fx.vmap(fx.grad(total), axis_name="i")(x), array(15, 15, 15))


def test_batch_normalization_updates_its_statistics():
    def layer(x, running):
        mean = fx.pmean(x, "batch")
        variance = fx.pmean((x - mean) ** 2, "batch")
        running["mean"] += 0.5 * (mean - running["mean"])
        return (x - mean) / np.sqrt(variance + 1e-5)

    running = {"mean": np.zeros(2)}
    normal = fx.vmap(layer, (0, None), axis_name="batch")(X, running)
    tree_close(normal, (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5))
    tree_close(running, {"mean": 0.5 * X.mean(0)})


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_an_unknown_axis_names_the_known_ones(wrap):
    with pytest.raises(UnboundAxisError, match="no axis is named 'k'") as caught:
        wrap(fx.vmap(lambda x: fx.vmap(lambda v: fx.psum(v, "k"), axis_name="j")(x), axis_name="i"))(X)
    text = str(caught.value)
    assert "'i', 'j'" in text and "test_collectives.py" in text and "axis_name='k'" in text
    with pytest.raises(NameError, match="no enclosing vmap has an axis_name"):
        wrap(fx.vmap(lambda x: fx.axis_index("i")))(X)
    with pytest.raises(NameError, match="functx.vmap"):
        fx.psum(1.0, "i")


def test_an_axis_is_bound_only_inside_its_vmap():
    tree_close(fx.vmap(lambda x: fx.psum(x, "i"), axis_name="i")(X)[0], X.sum(0))
    with pytest.raises(UnboundAxisError):
        fx.axis_size("i")
    tree_close(fx.vmap(lambda x: fx.psum(x, 1), axis_name=1)(X)[0], X.sum(0))


def test_a_collective_evaluated_for_one_example_alone_says_so():
    with pytest.raises(UnboundAxisError, match="psum over axis 'i' was evaluated for one example alone") as caught:
        PRIMITIVES["psum"].impl(1.0, 0, axis="i")
    assert "move it out of the branch or loop" in str(caught.value)
