"""functionalize: the result and the new values of changed arguments, with nothing changed."""

import copy

import numpy as np
import pytest
from oracles import assert_same, directional, loop

import functx as fx
import functx.numpy as fnp
from functx.errors import TracerWriteError
from functx.parse import parse_graph


def push(stack, x):
    stack[1:] = stack[:-1]
    stack[0] = x
    return stack[-1]


def through_views(a, b):
    inner = a[1:-1]
    inner *= b[:2, None]
    a.T[0] += 1.0
    return inner, a, b.sum()


def in_containers(params, rates, *, scale):
    for p, r in zip(params["layers"], rates, strict=True):
        p["w"] -= scale * r
    return params["layers"][0]["w"]


def sorts(x, k):
    x.sort()
    np.add.at(x, [0, 0, 2], k)
    return x.max(), "sorted"


A = np.arange(12.0).reshape(4, 3)
PROGRAMS = {
    "push": (push, (np.array([1.0, 2.0, 3.0]), 9.0), {}),
    "through views": (through_views, (A, np.array([2.0, 3.0, 4.0])), {}),
    "in containers": (
        in_containers,
        ({"layers": [{"w": np.ones(2), "b": np.ones(1)}, {"w": np.zeros(3), "b": np.ones(1)}]}, [0.5, 2]),
        {"scale": np.array(2.0)},
    ),
    "sort": (sorts, (np.array([3, 1, 2]), 5), {}),
    "nothing written": (lambda x, y: x + y, (np.ones(2), 1.0), {}),
    "fortran": (lambda x: np.multiply(x, 2, out=x), (np.asfortranarray(A),), {}),
    "strided": (push, (np.arange(10.0)[::-3], -1.0), {}),
}


def plain(f, args, kwargs):
    """What f returns, and its changed arguments in the shape of ``mutated``."""
    args, kwargs = copy.deepcopy(args), copy.deepcopy(kwargs)
    before = copy.deepcopy((args, kwargs))
    out = f(*args, **kwargs)

    def changed(now, then):
        differs = isinstance(now, np.ndarray) and now.tobytes() != then.tobytes()
        return now if differs else None

    new_args, new_kwargs = fx.tree.map(changed, (args, kwargs), before)
    return out, (*new_args, new_kwargs) if kwargs else new_args


@pytest.mark.parametrize("around", ["plain", "jit", "make_ir's graph"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_new_arguments_are_numpys_and_nothing_changes(name, around):
    f, args, kwargs = PROGRAMS[name]
    pure = fx.functionalize(f)
    given = copy.deepcopy(args)
    if around == "jit":
        pure = fx.jit(pure, backend="reference")
    elif around == "make_ir's graph":
        graph = fx.make_ir(pure)(*given, **kwargs)
        assert all(output.role.value == "result" for output in graph.outputs)
        assert str(parse_graph(str(graph), [c for _, c in graph.consts])).split("\n")[-1] == str(graph).split("\n")[-1]
    got = pure(*given, **kwargs)
    expected = plain(f, args, kwargs)
    assert fx.tree.structure(got) == fx.tree.structure(expected)
    for value, numpys in zip(fx.tree.leaves(got), fx.tree.leaves(expected), strict=True):
        assert_same(value, numpys)
    for now, before in zip(fx.tree.leaves(given), fx.tree.leaves(args), strict=True):
        assert_same(now, before)


def test_structure_says_what_is_written():
    params = {"w": np.ones(2), "b": np.ones(1)}

    def step(params, rate, *, by, note):
        params["w"] -= rate * by
        return note

    out, mutated = fx.functionalize(step)(params, 0.5, note="done", by=np.ones(2))
    assert out == "done"
    assert_same(mutated[0]["w"], np.full(2, 0.5))
    assert mutated[0]["b"] is None
    assert mutated[1:] == (None, {"by": None, "note": None})


def test_results_own_their_memory():
    table = np.arange(3.0)

    def f(x):
        x += 1
        return x, x[1:], x.T, table

    x = np.zeros((2, 2))
    (a, b, c, d), (new,) = fx.functionalize(f)(x)
    arrays = [x, a, b, c, d, new, table]
    assert not any(np.shares_memory(p, q) for i, p in enumerate(arrays) for q in arrays[:i])
    assert all(v.flags.owndata and v.flags.writeable for v in arrays[1:])
    assert x.sum() == 0


def test_zero_size_arguments_count_as_written():
    x = np.ones((0, 2))
    _, (new,) = fx.functionalize(lambda x: x.fill(3.0))(x)
    assert_same(new, x)
    assert new is not x


def test_one_array_twice_is_one():
    def f(a, b):
        a += 1
        b *= 2

    x = np.ones(2)
    _, (a, b) = fx.functionalize(f)(x, x)
    assert_same([a, b], [np.full(2, 4.0)] * 2)
    assert not np.shares_memory(a, b)


def overlapping(a, b):
    a += 1
    b *= 2
    return a, b.sum()


@pytest.mark.parametrize("around", [lambda f: f, lambda f: fx.jit(f, backend="reference"), fx.functionalize])
def test_arguments_that_share_memory(around):
    x = np.arange(5.0)
    got = around(fx.functionalize(overlapping))(x[:-1], x[1:])
    (out, total), new = got if around is not fx.functionalize else got[0]
    y = np.arange(5.0)
    assert_same((out, total), overlapping(y[:-1], y[1:]))
    assert_same(new, (y[:-1], y[1:]))
    assert_same(x, np.arange(5.0))


TABLE = np.arange(5.0)


def through_both(a):
    a += 1
    table = fnp.asarray(TABLE)
    table *= 2
    return a.sum()


def test_an_argument_that_is_captured_too():
    got = fx.functionalize(through_both)(TABLE)
    new = (np.arange(5.0) + 1) * 2
    assert_same(got, (new.sum(), (new,)))
    with pytest.raises(TracerWriteError, match="closes over"):
        fx.functionalize(through_both)(TABLE[1:])
    assert_same(TABLE, np.arange(5.0))


def test_read_only_arguments_raise_as_in_numpy():
    x = np.ones(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fx.functionalize(push)(x, 1.0)


def test_known_values_steer():
    def f(x):
        while x.sum() < 10:
            x *= 2
        return int(x[0])

    out, (new,) = fx.functionalize(f)(np.ones(3))
    assert out == 4
    assert_same(new, np.full(3, 4.0))


def smooth(u, k):
    u[1:-1] += k * (u[:-2] - 2 * u[1:-1] + u[2:])
    u *= np.cos(u)
    return u[1] * k


def miss(u, k):
    out, (new, _) = fx.functionalize(smooth)(u, k)
    return out + (new * new).sum() + u.sum()


def numpy_miss(u, k):
    new = u.copy()
    out = smooth(new, k)
    return out + (new * new).sum() + u.sum()


U = np.linspace(0.2, 1.0, 6)


def test_grad_through_results_and_new_values():
    reference, compiled = (lambda f: fx.jit(f, backend="reference")), (lambda f: fx.jit(f))
    for around, inside in ((None, None), (reference, None), (compiled, None), (None, reference), (None, fx.checkpoint)):
        u, k = U.copy(), 0.3
        gradient = fx.grad(inside(miss) if inside else miss, argnums=(0, 1))
        gu, gk = (around(gradient) if around else gradient)(u, k)
        direction = np.cos(np.arange(6.0))
        np.testing.assert_allclose(gu @ direction + 0.7 * gk, directional(numpy_miss, (u, k), (direction, 0.7)), rtol=1e-8)
        assert_same(u, U)


def test_jvp_and_hessian():
    _, tangent = fx.jvp(lambda u: miss(u, 0.3), (U,), (np.ones(6),))
    np.testing.assert_allclose(tangent, directional(lambda u: numpy_miss(u, 0.3), (U,), (np.ones(6),)), rtol=1e-8)
    h = fx.hessian(lambda u: miss(u, 0.3))(U)
    np.testing.assert_allclose(h, h.T)


def test_vmap_inside_and_outside():
    batch = np.stack([U, U[::-1], U * 2])
    assert_same(fx.vmap(lambda u: miss(u, 0.3))(batch), loop(lambda u: numpy_miss(u, 0.3), [batch], [0]), rtol=1e-12)
    _, (new, _) = fx.vmap(fx.functionalize(smooth), in_axes=(0, None))(batch, 0.3)

    def one(u):
        u = u.copy()
        smooth(u, 0.3)
        return u

    assert_same(new, loop(one, [batch], [0]), rtol=1e-12)
    _, (u, k) = fx.functionalize(fx.vmap(smooth, in_axes=(0, None)))(batch, 0.3)
    assert_same(u, loop(one, [batch], [0]), rtol=1e-12)
    assert k is None


def test_a_mapped_write_into_one_argument_becomes_batched():
    """Lanes cannot write into one array of the caller, but each has a new value of its own."""

    def f(buffer, x):
        buffer[0] = x

    _, (new, _) = fx.vmap(fx.functionalize(f), in_axes=(None, 0))(np.zeros(2), np.arange(3.0))
    assert_same(new, np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))


def test_of_jitted_and_nested():
    a = np.array([1.0, 2.0, 3.0])
    inner, outer = fx.functionalize(fx.jit(push, backend="reference")), fx.functionalize(fx.functionalize(push))
    assert_same(inner(a, 9.0), (np.float64(2.0), (np.array([9.0, 1.0, 2.0]), None)))
    assert_same(outer(a, 9.0), ((np.float64(2.0), (np.array([9.0, 1.0, 2.0]), None)), (None, None)))
    assert_same(a, np.array([1.0, 2.0, 3.0]))


BUFFER = np.zeros(3)


def writes_captured(x):
    buffer = fnp.asarray(BUFFER)
    buffer += x
    return buffer.sum()


@pytest.mark.parametrize("around", [lambda f: f, lambda f: fx.jit(f, backend="reference"), fx.grad, fx.functionalize])
def test_writes_to_captured_arrays_are_refused(around):
    with pytest.raises(TracerWriteError, match="closes over.*f64\\[3\\]") as caught:
        around(fx.functionalize(writes_captured))(2.0)
    assert "pass the array as an argument" in caught.value.fix
    assert not BUFFER.any()


@pytest.mark.parametrize("around", [lambda f: f, lambda f: fx.jit(f, backend="reference"), lambda f: fx.vmap(f, in_axes=None, axis_size=2)])
def test_captured_temporaries_are_the_functions_own(around):
    def f(x):
        buffer = fnp.asarray(np.arange(3.0) * 2)
        buffer += x
        return buffer

    out, mutated = around(fx.functionalize(f))(1.0)
    assert_same(out.reshape(-1, 3)[-1], np.array([1.0, 3.0, 5.0]))
    assert mutated == (None,)


def test_writing_to_a_buffer_of_the_enclosing_function_is_refused():
    def outer(x):
        buffer = fnp.zeros(3)

        def inner(y):
            buffer[0] = y

        fx.functionalize(inner)(x)
        return buffer.sum()

    with pytest.raises(TracerWriteError, match="closes over"):
        fx.grad(outer)(1.0)


def test_captured_arrays_that_are_only_read_are_fine():
    table = np.arange(3.0)
    pure = fx.functionalize(lambda x: x * table)
    table[0] = 7.0
    assert_same(pure(2.0), (np.array([14.0, 2.0, 4.0]), (None,)))


def test_only_functions():
    with pytest.raises(TypeError, match="functionalize takes a function"):
        fx.functionalize(3)


def test_write_backs_are_the_epilogue_of_the_graph():
    """jit's graph names after its results the new value of each changed argument, by the argument's position."""

    def f(u, v):
        u[1:-1] += v[2:]
        v *= 2
        return u.sum()

    graph = fx.jit(f, backend="reference").ir(np.ones(4), np.ones(4))
    last = str(graph).splitlines()[-1].split()
    assert last[0] == "return" and last[-1] == "}"
    result, first, second = last[1:-1]
    assert result.endswith("'")  # NumPy's scalar
    assert first.endswith("<write>@0") and second.endswith("<write>@1")
    assert str(parse_graph(str(graph))).splitlines()[-1] == str(graph).splitlines()[-1]
    pure = fx.make_ir(fx.functionalize(f))(np.ones(4), np.ones(4))
    assert "<write>" not in str(pure) and len(pure.outputs) == 3
