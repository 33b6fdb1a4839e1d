"""What easily goes wrong in a tracer: memory, scopes and writes. Each trap beside the plain program that says what is right."""

import contextlib
import gc
import weakref

import numpy as np
import pytest
from regimes import every_way, tree_close

import functx as fx
import functx.numpy as fnp
from functx.errors import ConcretizationError, DroppedGradientError, LeakedTracerError, TracerWriteError


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def array(*values):
    return np.array(values, float)


# --- memory that changes while tracing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_a_scratch_buffer_keeps_what_it_held_at_each_use(whole):
    scratch = np.zeros((2, 2))

    def f(x):
        y = 0.0
        for i in range(3):
            row = scratch if whole else scratch[1]
            row[...] = i + 1
            y = y + x * row
        return y.sum()

    value = 12.0 * (2 if whole else 1)
    every_way(f, array(1, 1), expected=np.float64(value), vmap=False)
    every_way(fx.grad(f), array(1, 1), expected=array(value / 2, value / 2))


def test_a_buffer_changed_back_to_what_it_was_still_keeps_each_use():
    scratch = np.zeros(2)

    def f(x):
        y = x + scratch
        scratch[:] = 7
        y = y * scratch
        scratch[:] = 0
        return y + scratch

    every_way(f, array(1, 2), expected=array(7, 14))


def test_a_captured_temporary_is_a_constant_and_a_held_array_is_not():
    w = np.ones(3)
    g = jit(lambda x: x + w * 2)
    assert len(g.ir(np.zeros(3)).inputs) == 1 and len(g.ir(np.zeros(3)).consts) == 1
    held = {
        "array": lambda x: x + w,
        "view": lambda x: x[:2] + w[::2],
        "view of a view": lambda x: x[:1] + w[::2][1:],
        "element view": lambda x: x + w[0, ...],
    }
    for name, f in held.items():
        assert len(jit(f).ir(np.zeros(3)).inputs) == 2, name
    in_list = [np.ones(3)]
    assert len(jit(lambda x: x + in_list[0]).ir(np.zeros(3)).inputs) == 2
    assert len(jit(lambda x: x + [1.0, 2.0, 3.0]).ir(np.zeros(3)).inputs) == 1


def test_a_view_of_a_held_array_is_read_again():
    w = np.ones((3, 2))
    row = w[1]
    g = jit(lambda x: (x + row, x + w[1], x + w.T[:, 2], x[:1] + w[2, 1:]))
    first = g(np.zeros(2))
    w[:] = [[1, 2], [3, 4], [5, 6]]
    tree_close(g(np.zeros(2)), (array(3, 4), array(3, 4), array(5, 6), array(6)))
    tree_close(first, (array(1, 1), array(1, 1), array(1, 1), array(1)))
    assert g.cache_info().traces == 1


def test_a_fresh_constant_that_is_used_and_returned_is_new_on_every_call():
    def f(x):
        c = np.ones(2)
        return x + c, c, c[1:], {"again": c}

    g = jit(f)
    for _ in range(3):
        total, c, part, more = g(np.zeros(2))
        tree_close((total, c, part, more["again"]), (array(1, 1), array(1, 1), array(1), array(1, 1)))
        for a in (c, part, more["again"], total):
            a[...] = 100


def test_captured_arrays_in_nested_transforms_are_read_at_call_time():
    w = array(1, 2)

    def loss(x):
        return (jit(lambda v: v * w)(x) * fx.checkpoint(lambda v: v + w)(x)).sum()

    def derivative(w):
        return w * (array(1, 1) + w) + w * array(1, 1)

    runs = [fx.grad(loss), jit(fx.grad(loss)), jit(lambda x: fx.vmap(fx.grad(loss))(x[None])[0]), fx.grad(lambda x: jit(loss)(x))]
    for values in ([1, 2], [3, 5], [0, -1]):
        w[:] = values
        for run in runs:
            tree_close(run(np.ones(2)), derivative(w))
    assert all(run.cache_info().traces == 1 for run in runs[1:3])


def test_arguments_are_not_kept_alive_by_the_cache():
    f = jit(lambda x: (x + 1)[::2])
    a = np.ones(1000)
    watch = weakref.ref(a)
    f(a)
    del a
    gc.collect()
    assert watch() is None


# --- derivatives of derivatives -----------------------------------------------------------------------------------------------------------


def test_the_inner_backward_pass_inside_the_outer_forward_pass():
    def inner(x, y):
        return (np.sin(x * y) * y).sum()

    def outer(y):
        g = fx.grad(inner)(y * 2.0, y)
        return (g * g * y).sum()

    y = array(0.3, -0.7)
    step = 1e-6
    numeric = [(outer(y + step * e) - outer(y - step * e)) / (2 * step) for e in np.eye(2)]
    every_way(fx.grad(outer), y, expected=np.array(numeric), rtol=1e-6)


def test_the_second_derivative_of_log_squared_at_one_is_two():
    f = fx.grad(fx.grad(lambda x: np.log(x) ** 2))
    assert f(1.0) == 2.0
    assert jit(f)(1.0) == 2.0
    tree_close(fx.vmap(f)(array(1, 1)), array(2, 2))
    forward = fx.jvp(lambda x: fx.jvp(lambda v: np.log(v) ** 2, (x,), (1.0,))[1], (1.0,), (1.0,))[1]
    assert forward == 2.0
    assert fx.grad(fx.grad(lambda x: (x - 1.0) * np.log(x)))(1.0) == 2.0  # one factor is zero at the point


def test_third_derivatives():
    def d(f):
        return fx.grad(f)

    cube = d(d(d(lambda x: x**3)))
    assert cube(2.0) == 6.0 and jit(cube)(2.0) == 6.0
    np.testing.assert_allclose(d(d(d(np.sin)))(0.5), -np.cos(0.5))


@pytest.mark.parametrize("wrap", [lambda f: f, jit, fx.checkpoint])
def test_perturbations_are_not_confused(wrap):
    assert fx.grad(lambda x: x * fx.grad(wrap(lambda y: x + y))(1.0))(1.0) == 1.0
    assert fx.grad(lambda x: x * fx.grad(wrap(lambda y: x * y))(1.0))(3.0) == 6.0
    out, moved = fx.jvp(lambda x: x * fx.jvp(wrap(lambda y: x + y), (2.0,), (1.0,))[1], (3.0,), (1.0,))
    assert (out, moved) == (3.0, 1.0)
    mixed = fx.grad(lambda x: fx.jvp(wrap(lambda y: x * x * y), (2.0,), (1.0,))[1])
    assert mixed(3.0) == 6.0
    assert fx.jvp(lambda x: fx.grad(wrap(lambda y: x * x * y))(2.0), (3.0,), (1.0,)) == (9.0, 6.0)


def test_a_pull_back_under_another_trace():
    def f(x):
        return np.sin(x) * x

    x = array(0.5, 1.5)
    slope = np.cos(x) * x + np.sin(x)
    _, pull = fx.vjp(f, x)
    for _ in range(2):
        tree_close(pull(np.ones(2))[0], slope)
        tree_close(jit(lambda ct: pull(ct)[0])(2 * np.ones(2)), 2 * slope)
        tree_close(fx.grad(lambda ct: (pull(ct)[0] ** 2).sum())(np.ones(2)), 2 * slope**2)
        tree_close(fx.vmap(lambda ct: pull(ct)[0])(np.eye(2)), np.diag(slope))
    jitted = jit(lambda ct: pull(ct)[0])
    tree_close([jitted(i * np.ones(2)) for i in range(3)], [i * slope for i in range(3)])

    def inside(x):
        out, pull = fx.vjp(f, x)
        (first,) = pull(fnp.ones(2))
        (second,) = pull(first)
        return out, first, second

    every_way(inside, x, expected=(f(x), slope, slope**2))
    with pytest.raises(LeakedTracerError, match="pull-back of .*f"):
        jit(lambda x: fx.vjp(f, x)[1])(x)(np.ones(2))


# --- kinds --------------------------------------------------------------------------------------------------------------------------------


def test_op_assign_rebinds_scalars_and_writes_into_arrays():
    def total(x):
        s = x.sum()
        t = s
        t += 1
        return s

    def view(x):
        s = x[0, ...]
        t = s
        t += 1
        return s

    def element(x):
        s = x[0]
        t = s
        t += 1
        return s

    def number(x, n):
        m = n
        m += 1
        return x + n

    every_way(total, array(1, 2), expected=np.float64(3), arguments_after=[array(1, 2)])
    every_way(view, array(1, 2), expected=np.array(2.0), arguments_after=[array(2, 2)])
    every_way(element, array(1, 2), expected=np.float64(1), arguments_after=[array(1, 2)])
    every_way(number, array(1, 2), 5.0, expected=array(6, 7), vmap=False)
    for f in (total, element):
        with pytest.raises(TypeError, match="item assignment"):
            jit(lambda x, f=f: f(x).__setitem__((), 1.0))(array(1, 2))


def test_a_gradient_has_the_kind_of_its_argument():
    for x in (3.0, np.float64(3), np.array(3.0), np.float32(3), np.array([3.0]), 3):
        for f in (fx.grad(lambda x: np.sum(x * x)), jit(fx.grad(lambda x: np.sum(x * x)))):
            g = f(x)
            assert type(g) is (float if type(x) is int else type(x)) and np.all(g == 6)
            assert np.shape(g) == np.shape(x) and np.asarray(g).dtype == (np.float64 if type(x) is int else np.asarray(x).dtype)


# --- memory of results --------------------------------------------------------------------------------------------------------------------


def owns(*arrays):
    return all(a.flags.writeable and not any(np.shares_memory(a, b) for b in arrays if b is not a) for a in arrays)


@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_gradients_own_their_memory(transform):
    x, y, w = np.ones(3), np.ones(3), np.ones(3)
    cases = {
        "sum": (lambda x, y: (x + y).sum()),
        "product with a captured array": (lambda x, y: (x * w).sum() + (y * w).sum()),
        "of each other": (lambda x, y: (x * y).sum()),
        "broadcast": (lambda x, y: x.sum() + (y * 1.0).sum()),
        "constant": (lambda x, y: 1.0),
        "reshaped": (lambda x, y: x.reshape(3, 1).T.sum() * y.sum()),
    }
    for name, f in cases.items():
        assert owns(x, y, w, *transform(fx.grad(f, (0, 1)))(x, y)), name
    out, pull = fx.vjp(lambda x, y: (x, y, x), x, y)
    ct = (np.ones(3), np.ones(3), np.zeros(3))
    assert owns(*ct, *pull(ct), *pull(ct)) and out[0] is x and out[1] is y and out[2] is x
    _, moved = fx.jvp(lambda x: (x, x * 1.0), (x,), (y,))
    assert owns(x, y, *moved)


def test_results_that_happen_to_be_equal_do_not_share_memory():
    def f(x):
        return x + 1, x + 1, x * 1, np.zeros_like(x), np.zeros_like(x), x.reshape(1, -1) + 1, x.copy()

    for run in (f, jit(f), fx.vmap(f)):
        x = np.ones((2, 3))
        assert owns(x, *run(x))


def test_results_alias_arguments_and_each_other_as_in_numpy():
    def f(x):
        y = x * 2
        return x, x[1:], x.T, y, y[::2], y, x.reshape(-1)

    x = np.arange(6.0).reshape(3, 2)
    g = jit(f)
    for _ in range(3):
        for run in (f, g):
            x0, tail, turned, y, part, again, flat = run(x)
            assert x0 is x and again is y
            assert all(np.shares_memory(v, x) for v in (tail, turned, flat)) and not np.shares_memory(y, x)
            assert np.shares_memory(part, y)
            y[0] = -1
            assert part[0, 0] == -1


def test_the_same_array_passed_twice_is_one_array():
    def f(a, b):
        a += 1.0
        b *= 2.0
        return a.sum() + b.sum()

    g = jit(f)
    for _ in range(2):
        z, p = np.ones(2), np.ones(2)
        assert g(z, z) == f(p, p) == 16 and z.tolist() == p.tolist() == [4, 4]
        assert g(np.ones(2), np.ones(2)) == 8
    assert g.cache_info().traces == 2
    z = np.ones(2)
    tree_close(fx.grad(lambda c, a, b: f(a, b) * c)(1.0, z, z), 16.0)
    assert z.tolist() == [4, 4]
    z = np.ones((2, 2))
    tree_close(fx.vmap(f)(z, z), array(16, 16))
    assert z.tolist() == [[4, 4], [4, 4]]
    x = array(1, 2)
    tree_close(fx.grad(lambda a, b: (a * b).sum())(x, x), x)  # reading twice is no conflict
    tree_close(fx.grad(lambda a, b: (a * b).sum(), (0, 1))(x, x), (x, x))


def test_after_an_error_the_inputs_are_unchanged_and_the_function_still_works():
    def f(x, i):
        x += 1
        y = x[i]
        x *= 2
        return y

    a = np.ones(3)
    for run in (jit(f), fx.vmap(f, in_axes=(0, None)), fx.grad(lambda x, i: f(x, i).sum())):
        given = a[None] if not hasattr(run, "cache_info") else a
        bad = 7
        with pytest.raises(IndexError):
            run(given if run is not fx.grad else a, bad)
        assert a.tolist() == [1, 1, 1]
    g = jit(f)
    with pytest.raises(IndexError):
        g(a, 7)
    assert g(a, 1) == 2 and a.tolist() == [4, 4, 4]


def test_an_exception_inside_leaves_no_trace_behind():
    def broken(x):
        x[0] = 5.0
        raise KeyError("mine")

    a = np.ones(2)
    for run in (jit(broken), fx.grad(broken), fx.vmap(broken), lambda x: fx.jvp(broken, (x,), (x,)), jit(fx.grad(broken))):
        for _ in range(2):
            with pytest.raises(KeyError, match="mine"):
                run(a[None] if isinstance(run, type(fx.vmap(broken))) else a)
            assert a.tolist() == [1, 1]
            assert isinstance(fnp.zeros(2), np.ndarray)  # outside any trace again

    def survivor(x):
        with contextlib.suppress(KeyError):
            fx.grad(lambda y: (y * 2.0).sum() + broken(y))(x)
        return x * 2

    every_way(survivor, array(1, 2), expected=array(2, 4))


# --- writes into plain arrays -------------------------------------------------------------------------------------------------------------


def _iadd(buf, x):
    buf += x


def _out(buf, x):
    np.add(x, 0.0, out=buf)


def _out_of_reduction(buf, x):
    np.sum(x[None], axis=0, out=buf)


def _setitem(buf, x):
    buf[:] = x


def _set_element(buf, x):
    buf[1] = x[1]


def _copyto(buf, x):
    np.copyto(buf, x)


def _add_at(buf, x):
    np.add.at(buf, [0, 1], x)


WRITES = [_iadd, _out, _out_of_reduction, _setitem, _set_element, _copyto, _add_at]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("transform", ["grad", "jit", "vmap"])
def test_a_traced_value_does_not_go_into_a_plain_array(write, transform):
    buf = np.zeros(2)

    def f(x):
        write(buf, x)  # the write
        return x.sum()

    run = {"grad": fx.grad(f), "jit": jit(f), "vmap": fx.vmap(f)}[transform]
    with pytest.raises((TracerWriteError, DroppedGradientError, ConcretizationError)) as caught:
        run(np.ones((2, 2)) if transform == "vmap" else np.ones(2))
    text = str(caught.value)
    assert "plain ndarray" in text or "float()" in text or "np.asarray()" in text
    assert "buf = fnp.asarray(buf)" in text and "fnp.zeros" in text
    assert "test_traps.py" in text and "buf" in text.split("fix:")[0]
    assert buf.tolist() == [0, 0]


@pytest.mark.parametrize("write", [_iadd, _out, _setitem, _set_element])
def test_a_known_value_without_derivative_is_stored(write):
    plain, buf = np.zeros(2), np.zeros(2)
    write(plain, array(3, 4))
    fx.grad(lambda x, k: (write(buf, k), x)[1])(1.0, array(3, 4))
    assert buf.tolist() == plain.tolist()
    buf[:] = 0
    fx.grad(lambda x: (write(buf, fx.stop_gradient(x)), x.sum())[1])(array(3, 4))
    assert buf.tolist() == plain.tolist()


@pytest.mark.parametrize("write", WRITES)
def test_the_handle_of_a_plain_array_is_read_and_written_back(write):
    def f(buf, x):
        b = fnp.asarray(buf)
        before = b.sum()
        write(b, x)
        b[0] += 1.0
        return (b * b).sum() + before

    x = array(1, 2)
    for transform in (
        lambda g: g,
        jit,
        lambda g: lambda x: fx.value_and_grad(g)(x)[0],
        lambda g: lambda x: jit(fx.value_and_grad(g))(x)[0],
    ):
        expected, plain = [], array(5, 6)
        buf = array(5, 6)
        run = transform(lambda x, buf=buf: f(buf, x))
        for _ in range(3):
            expected.append(f(plain, x))
            assert run(x) == expected[-1]
            assert buf.tolist() == plain.tolist()
    buf = array(5, 6)
    assert fx.grad(lambda x: f(buf, x))(x).shape == (2,)


def test_lanes_that_write_different_values_into_one_shared_array_are_refused():
    buf = np.zeros(2)

    def f(x, shared):
        b = fnp.asarray(shared)
        b += x
        return x

    with pytest.raises(fx.errors.OverlapError, match="share"):
        fx.vmap(lambda x: f(x, buf))(np.ones((3, 2)))
    with pytest.raises(fx.errors.OverlapError, match="'shared'"):
        fx.vmap(f, in_axes=(0, None))(np.ones((3, 2)), buf)
    assert buf.tolist() == [0, 0]
    fx.vmap(lambda x: (f(array(1, 2), buf), x)[1])(np.ones((3, 2)))  # the same for all lanes: once
    assert buf.tolist() == [1, 2]


# --- containers ---------------------------------------------------------------------------------------------------------------------------


def test_dicts_with_keys_in_another_order_hit_and_mean_their_keys():
    f = jit(lambda d: {"difference": d["a"] - d["b"], "first": d["a"]})
    tree_close(f({"a": 5.0, "b": 2.0}), {"difference": 3.0, "first": 5.0})
    tree_close(f({"b": 2.0, "a": 5.0}), {"difference": 3.0, "first": 5.0})
    assert list(f({"b": 2.0, "a": 5.0})) == ["difference", "first"]
    info = f.cache_info()
    assert info.traces == 1 and info.hits == 2
    g = fx.grad(lambda d: d["a"] * d["b"] ** 2)
    tree_close(g({"b": 3.0, "a": 2.0}), {"b": 12.0, "a": 9.0})
    tree_close(
        fx.vmap(lambda d, e: d["a"] - e["a"])({"a": array(1, 2), "b": array(0, 0)}, {"b": array(5, 5), "a": array(1, 0)}), array(0, 2)
    )
    _, pull = fx.vjp(lambda d: {"z": d["a"] * 2, "y": d["b"] * 3}, {"b": 1.0, "a": 1.0})
    tree_close(pull({"y": 1.0, "z": 10.0})[0], {"b": 3.0, "a": 20.0})
    _, moved = fx.jvp(lambda d: d["a"] * 10 + d["b"], ({"b": 1.0, "a": 1.0},), ({"a": 1.0, "b": 2.0},))
    assert moved == 12.0


# --- constructors -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda x: fnp.zeros(2), lambda x: np.zeros_like(x), lambda x: fnp.empty(2) * 0, lambda x: fnp.full(2, 0.0)]
)
def test_arrays_made_inside_receive_traced_values(make):
    def f(x):
        y = make(x)
        y[0] = x[1]
        y += x
        return y

    every_way(f, array(1, 2), expected=array(3, 2))


def test_constructors_outside_and_builtins_stay_plain():
    assert type(fnp.zeros(2)) is np.ndarray and type(fnp.asarray([1.0])) is np.ndarray
    assert fnp.sin(0.0) == 0
    a = np.ones(2)
    assert fnp.asarray(a) is a


def test_constant_results_share_memory_with_each_other_as_in_numpy_and_with_nothing_else():
    def f(x):
        a, b = np.arange(6.0).reshape(2, 3).T, np.ones(2)
        return a, a[::-1, 1:], a, {"b": b, "again": b}, x

    for run in (f, fx.jit(f, backend="reference"), fx.jit(f, backend="cpp")):
        previous = None
        for _ in range(3):
            a, part, same, named, _ = run(1.0)
            assert a is same and named["b"] is named["again"] and a.flags.f_contiguous
            a += 10.0
            np.testing.assert_array_equal(part, a[::-1, 1:])
            assert not np.shares_memory(a, named["b"]) and (previous is None or not np.shares_memory(a, previous))
            assert a[0, 0] == 10.0
            previous = a


def test_code_that_asks_for_arrays_finds_them():
    def f(a):
        if isinstance(a, np.ndarray):
            a = a * 2
        return a.sum()

    assert fx.jit(f)(np.ones(2)) == 4.0
    assert fx.grad(f)(np.ones(2)).tolist() == [2, 2] and fx.vmap(f)(np.ones((3, 2))).tolist() == [4, 4, 4]
    assert fx.jit(lambda a: pow(a, 2, 3))(5) == 1
