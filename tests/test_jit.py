"""jit: what is part of the key, what is a condition of an entry, what is counted, and where the function may be used."""

import copy
import enum
import functools
import pickle
import threading
import typing
import warnings

import numpy as np
import pytest
from regimes import tree_close

import functx as fx
import functx.transforms.jit as jit_module


def jit(f=None, **options):
    return fx.jit(f, backend="reference", **options)


def array(*values):
    return np.array(values, float)


def traces(f, *calls):
    """How many traces these calls take."""
    jitted = jit(f)
    for args in calls:
        expected, got = f(*args), jitted(*args)
        assert type(got) is type(expected) and np.array_equal(got, expected, equal_nan=True), args
    info = jitted.cache_info()
    assert info.hits == len(calls) - info.traces
    return info.traces


# --- keys ---------------------------------------------------------------------------------------------------------------------------------


def test_types_are_part_of_the_key_and_values_are_not():
    def f(x):
        return x + x

    assert traces(f, (np.ones(2),), (np.zeros(2),), (np.full(2, np.nan),)) == 1
    assert traces(f, (np.ones(2),), (np.ones(3),), (np.ones((2, 1)),), (np.ones(()),)) == 4
    dtypes = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, bool]
    assert traces(f, *((np.ones(2, d),) for d in dtypes)) == len(dtypes)
    kinds = [1.0, np.float64(1), np.array(1.0), 1, np.int64(1), True, np.True_, np.array(True)]
    assert traces(f, *((k,) for k in kinds), *((k,) for k in kinds)) == len(kinds)
    assert traces(f, (1,), (2,), (-5,)) == 1
    assert traces(f, (0.0,), (-0.0,), (float("nan"),), (1e300,)) == 1


def test_weak_and_strong_scalars_promote_as_numpy_says():
    def f(x, s):
        return x * s

    single = np.ones(2, np.float32)
    for s, dtype in [(2.0, np.float32), (np.float64(2), np.float64), (2, np.float32), (np.int64(2), np.float64), (True, np.float32)]:
        assert jit(f)(single, s).dtype == f(single, s).dtype == dtype
    assert traces(f, (single, 2.0), (single, np.float64(2)), (single, 2), (single, 3.0)) == 3


def test_containers_keywords_and_defaults():
    class Pair(typing.NamedTuple):
        a: typing.Any
        b: typing.Any

    def f(p, scale=2.0, *, shift=None):
        total = p[0] * scale + p[1]
        return Pair(total, {"shift": shift, "list": [total, None]}) if shift is None else total + shift

    g = jit(f)
    for args, kwargs in [
        ((Pair(1.0, 2.0),), {}),
        (((1.0, 2.0),), {}),
        (([1.0, 2.0],), {}),
        ((Pair(1.0, 2.0), 3.0), {}),
        ((Pair(1.0, 2.0),), {"scale": 3.0}),
        ((Pair(1.0, 2.0),), {"shift": 1.0}),
        ((Pair(1.0, 2.0),), {"shift": 1.0, "scale": 4.0}),
        ((Pair(1.0, 2.0),), {"scale": 4.0, "shift": 1.0}),
    ]:
        tree_close(g(*args, **kwargs), f(*args, **kwargs))
    assert g.cache_info().traces == 7 and g.cache_info().hits == 1
    assert type(g(Pair(1.0, 2.0))) is Pair


class Mode(enum.Enum):
    UP = 1
    DOWN = 2


def double(x):
    return x * 2


def test_static_leaves_are_part_of_the_key_by_type_and_value():
    def f(x, how):
        if how is None or how == "up" or how is Mode.UP:
            return x + 1
        if callable(how):
            return how(x)
        return x - 1

    one = np.ones(2)
    assert traces(f, *((one, h) for h in (None, "up", "down", Mode.UP, Mode.DOWN, double, np.sin))) == 7
    assert traces(f, (one, "up"), (one, "".join(["u", "p"]))) == 1

    def g(x, n):
        return x + (10 if n is True else 20 if type(n) is float else 30)

    static = jit(g, static_argnums=1)
    values = (1, 1.0, True, 0.0, -0.0, (1,), (1.0,), (True,), frozenset([1]), frozenset([True]), 1j, complex("nan"))
    for n in (*values, *values):
        assert np.array_equal(static(one, n), g(one, n))
    assert static.cache_info().traces == len(values)


def test_static_arguments_by_position_and_name():
    def power(x, n, *, flip=False):
        out = x
        for _ in range(n - 1):
            out = out * x
        return -out if flip else out

    for g in (
        jit(power, static_argnums=1, static_argnames="flip"),
        jit(power, static_argnames=("n", "flip")),
        jit(power, static_argnums=(-1,)),
    ):
        assert g(2.0, 3) == 8.0 and g(2.0, 2) == 4.0 and g(3.0, 3) == 27.0
        assert g.cache_info().traces == 2
    named = jit(power, static_argnames=("n", "flip"))
    assert named(2.0, n=3, flip=True) == -8.0 and named(x=2.0, n=3) == 8.0
    assert fx.grad(jit(power, static_argnums=1))(2.0, 3) == 12.0


def test_decorators_with_and_without_options():
    @fx.jit
    def plain(x):
        """Doc."""
        return x + 1

    @fx.jit(backend="reference", static_argnames="n")
    def with_options(x, n=2):
        return x * n

    assert plain(1.0) == 2.0 and plain.__name__ == "plain" and plain.__doc__ == "Doc." and "plain" in repr(plain)
    assert with_options(3.0) == 6.0 and with_options(3.0, n=4) == 12.0
    assert jit(functools.partial(with_options, n=5))(1.0) == 5.0
    assert jit(np.sin)(0.0) == 0.0 and jit(np.add)(1.0, 2.0) == 3.0


@fx.tree.dataclass
class Layer:
    w: typing.Any
    name: str = "layer"

    @fx.jit(backend="reference")
    def __call__(self, x):
        return self.w * x

    @functools.partial(fx.jit, backend="reference", static_argnums=0)
    def fixed(self, x):
        return x

    @staticmethod
    @fx.jit(backend="reference")
    def shared(x):
        return x + 1

    @fx.jit(backend="reference")
    def grow(self, x):
        self.w += x


def test_methods_of_registered_objects():
    a, b = Layer(2.0), Layer(np.float64(3), "other")
    assert a(5.0) == 10.0 and b(5.0) == 15.0 and Layer.__call__(a, 1.0) == 2.0 and Layer.shared(1.0) == 2.0
    assert Layer.__call__.cache_info().traces == 2
    tree_close(fx.grad(lambda layer, x: layer(x))(a, 5.0).w, 5.0)
    c = Layer(np.ones(2))
    c.grow(np.ones(2))
    assert c.w.tolist() == [2, 2]


def test_dicts_match_by_keys_and_other_keys_are_another_entry():
    def f(d):
        return d["a"] + d.get("b", 0.0)

    g = jit(f)
    for d in ({"a": 1.0}, {"a": 1.0, "b": 2.0}, {"b": 5.0, "a": 1.0}, {"a": 1.0, "c": 1.0}):
        assert g(d) == f(d)
    assert g.cache_info().traces == 3


# --- conditions of an entry ---------------------------------------------------------------------------------------------------------------


def test_layout_is_a_condition_only_where_it_decides():
    def elementwise(x):
        return x * 2 + x.sum()

    def viewing(x):
        v = x.reshape(-1)
        v[0] = 5.0
        return x.sum()

    layouts = [np.ones((2, 4)), np.asfortranarray(np.ones((2, 4))), np.ones((4, 8))[::2, ::2], np.ones((2, 4))[::-1]]
    g, h = jit(elementwise), jit(viewing)
    for _ in range(2):
        for x in layouts:
            assert np.array_equal(g(x), elementwise(x))
            assert h(x.copy(order="K")) == viewing(x.copy(order="K"))
    assert g.cache_info().traces == 1
    assert h.cache_info().traces >= 2


def test_writeability_is_a_condition_where_it_is_asked():
    def f(x):
        return x + 1 if x.flags.writeable else x - 1

    g, a, b = jit(f), np.ones(2), np.ones(2)
    b.flags.writeable = False
    for _ in range(2):
        assert g(a).tolist() == [2, 2] and g(b).tolist() == [0, 0]
    assert g.cache_info().traces == 2


def test_which_arguments_are_one_array_is_a_condition_where_something_is_written():
    def f(a, b):
        a += 1
        return b.sum()

    def reads(a, b):
        return (a * b).sum()

    g, h, x, y = jit(f), jit(reads), np.ones(2), np.ones(2)
    for _ in range(2):
        x[:] = 1
        assert g(x, x) == 4 and x.tolist() == [2, 2]
        x[:] = 1
        assert g(x, y) == 2 and x.tolist() == [2, 2]
        assert h(x, y) == 4 and h(x, x) == 8
    assert g.cache_info().traces == 2


def test_what_is_not_contiguous_or_aligned_is_read_and_written_right():
    raw = np.zeros(33, np.uint8)
    misaligned = raw[1:].view(np.float64)
    misaligned[:] = [1, 2, 3, 4]

    def f(x):
        x *= 2
        return x.sum()

    for backend in ("reference", "cpp"):
        g = fx.jit(f, backend=backend)
        misaligned[:] = [1, 2, 3, 4]
        assert g(misaligned) == 20 and misaligned.tolist() == [2, 4, 6, 8]
        big = np.arange(10.0)
        assert g(big[::-3]) == 2 * (9 + 6 + 3 + 0) and big[9] == 18 and big[1] == 1


# --- counting -----------------------------------------------------------------------------------------------------------------------------


def test_counts_and_clearing():
    f = jit(lambda x, n: x * n if n > 1 else x)
    for n in (1, 2, 1, 2, 2):
        f(1.0, n)
    info = f.cache_info()
    assert (info.traces, info.hits, info.entries) == (2, 3, 2)
    f.clear_cache()
    assert f.cache_info() == fx.CacheInfo()
    assert f(3.0, 2) == 6.0 and f.cache_info().traces == 1


def test_looking_at_the_graph_and_the_code_runs_nothing_and_traces_once():
    runs = []

    def f(x):
        runs.append(1)
        y = x * 2.0
        y += 1.0
        x[0] = 5.0
        return y

    g, x = jit(f), np.ones(2)
    graph = g.ir(x)
    assert [e.primitive.name for e in graph.eqns].count("mul") <= 1 and "return" in str(graph)
    assert x.tolist() == [1, 1] and g.cache_info().entries == 0
    assert "mul" in g.code(x) or "add" in g.code(x)
    assert g(x).tolist() == [3, 3] and x.tolist() == [5, 1]
    assert len(runs) == 1 and g.cache_info().traces == 1
    native = fx.jit(f, backend="cpp")
    assert "test_jit.py" in native.code(np.ones(2)) and "int run(" in native.code(np.ones(2))


def test_a_new_function_object_is_traced_but_not_compiled_again():
    unusual = 1.0 + 2**-41
    functions = [fx.jit(lambda x: np.sin(x) + unusual, backend="cpp") for _ in range(3)]
    for f in functions:
        f(np.ones(3))
    assert [f.cache_info().compilations for f in functions] == [1, 0, 0]


# --- switching off, falling back ----------------------------------------------------------------------------------------------------------


def test_jit_can_be_switched_off():
    runs = []
    f = jit(lambda x: (runs.append(type(x)), x + 1)[1])
    with fx.config.options(disable_jit=True):
        f(np.ones(2))
        f(np.ones(2))
    assert runs == [np.ndarray, np.ndarray] and f.cache_info().traces == 0
    f(np.ones(2))
    assert len(runs) == 3


def test_without_a_compiler_there_is_one_warning_and_the_right_result(monkeypatch):
    monkeypatch.setattr(jit_module, "_no_compiler_warned", False)
    with fx.config.options(cxx="/nonexistent/compiler", backend="auto"):
        with pytest.warns(fx.errors.PerformanceWarning, match="reference") as caught:
            for n in (2, 3, 4):
                assert fx.jit(lambda x: x * 3)(np.ones(n)).tolist() == [3.0] * n
        assert len(caught) == 1
        with pytest.raises(fx.errors.CompilerMissingError):
            fx.jit(lambda x: x * 5, backend="cpp")(np.ones(2))


def test_the_backend_can_be_chosen_by_configuration():
    f = fx.jit(lambda x: x + 1)
    with fx.config.options(backend="reference"):
        assert "lambda" in f.code(1.0)
    with fx.config.options(backend="cpp"):
        assert "int run(" in f.code(1.0)
    assert f.cache_info().traces == 2


# --- nesting, errors, threads -------------------------------------------------------------------------------------------------------------


def test_jit_inside_jit_grad_and_vmap():
    inner = jit(lambda x, y: {"product": x * y, "sum": (x + y).sum()})

    def outer(x):
        r = inner(x, 2.0)
        return (r["product"] * r["sum"]).sum()

    x = array(1, 2)
    plain = 2 * 3 * (3 + 4.0)
    assert jit(outer)(x) == outer(x) == plain
    expected = array(2 * 7 + 6, 2 * 7 + 6)
    for run in (fx.grad(outer), jit(fx.grad(outer)), fx.grad(jit(outer)), fx.grad(fx.checkpoint(jit(outer)))):
        tree_close(run(x), expected)
    tree_close(fx.vmap(jit(outer))(np.stack([x, x])), array(plain, plain))
    tree_close(jit(fx.vmap(jit(fx.grad(jit(outer)))))(np.stack([x, x])), np.stack([expected, expected]))
    assert inner.cache_info().entries >= 0


def test_a_nested_jitted_function_changes_the_callers_arrays():
    @jit
    def bump(v, by):
        v += by
        return v.sum()

    def f(x):
        y = x * 1.0
        s = bump(y[1:], 1.0) + bump(y, 2.0)
        return y, s

    x = array(1, 2, 3)
    for run in (f, jit(f)):
        tree_close(run(x), (array(3, 5, 6), np.float64(7.0 + 14.0)))
    tree_close(fx.grad(lambda x: f(x)[1])(x), array(1, 2, 2))


def test_exceptions_inside_leave_a_usable_function():
    fail = [True]

    def f(x):
        if fail[0]:
            raise RuntimeError("not now")
        return x + 1

    g = jit(f)
    with pytest.raises(RuntimeError, match="not now"):
        g(1.0)
    assert g.cache_info().entries == 0
    fail[0] = False
    assert g(1.0) == 2.0
    checked = jit(lambda x, i: x[i])
    for _ in range(2):
        with pytest.raises(IndexError):
            checked(np.ones(2), 9)
        assert checked(np.ones(2), 1) == 1.0
    assert checked.cache_info().traces == 1


def test_results_that_are_no_arrays_pass_through():
    def f(x):
        return {"x": x, "name": "n", "none": None, "n": 3, "mode": Mode.UP, "f": double, "tuple": (), "dtype": x.dtype, "shape": x.shape}

    g, x = jit(f), np.ones(2)
    for _ in range(3):
        assert g(x) == f(x) or {**g(x), "x": 0} == {**f(x), "x": 0}
    assert g(x)["x"] is x


@pytest.mark.parametrize("backend", ["reference", "cpp"])
def test_threads_call_one_function(backend):
    f = fx.jit(lambda x, t: x * x + t, backend=backend)
    gradient = fx.grad(lambda x, t: f(x, t).sum())
    failures = []

    def work(t):
        try:
            for n in range(6):
                x = np.arange(1.0, n + 2)
                if not np.array_equal(f(x, float(t)), x * x + t):
                    failures.append(("value", t, n))
                if t % 2 and not np.array_equal(gradient(x, float(t)), 2 * x):
                    failures.append(("gradient", t, n))
        except Exception as error:  # a thread must not lose it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures and not any(t.is_alive() for t in threads)
    assert f.cache_info().compilations <= 6


def test_no_warning_on_the_ordinary_path():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = fx.jit(lambda x: np.log(x) / x)
        assert np.isnan(f(np.zeros(2))).all() or np.isinf(f(np.zeros(2))).all()
        fx.grad(lambda x: np.sqrt(x).sum())(np.zeros(2))


def test_disjoint_views_of_one_array_may_be_written():
    def f(a, b):
        a += b
        b[:] = 7.0

    base, expected = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    f(expected[:, 0], expected[:, 2])
    g = fx.jit(f, backend="reference")
    for _ in range(2):
        fresh = base.copy()
        g(fresh[:, 0], fresh[:, 2])
        np.testing.assert_array_equal(fresh, expected)
    assert g.cache_info().traces == 1


def test_one_array_passed_twice_is_one_handle_for_every_way_of_tracing():
    def f(a, b):
        a += 1.0
        return b.sum()

    x = np.zeros(3)
    assert fx.jit(f, backend="reference")(x, x) == 3.0
    assert fx.jit(f, backend="reference")(x, x[:]) == 6.0
    assert len(fx.make_ir(f)(x, x).inputs) == 1
    assert fx.eval_shape(f, x, x[:]).shape == ()
    assert fx.vmap(f)(np.zeros((2, 3)), np.ones((2, 3))).tolist() == [3.0, 3.0]
    batch = np.zeros((2, 3))
    assert fx.vmap(f)(batch, batch[:]).tolist() == [3.0, 3.0]


def test_threads_that_trace_the_same_call_keep_one_entry():
    g = fx.jit(lambda x: np.sin(x) * 2, backend="reference", dynamic=False)
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for n in range(1, 6):
            np.testing.assert_allclose(g(np.ones(n)), 2 * np.sin(np.ones(n)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert g.cache_info().entries == 5


def test_a_captured_array_that_the_program_replaced_is_not_read_any_more():
    class Model:
        pass

    model, weights, cell = Model(), {"w": np.ones(2)}, [np.ones(4)]
    model.w = np.ones(2)
    for read, put in (
        (lambda: weights["w"], lambda a: weights.update(w=a)),
        (lambda: model.w, lambda a: setattr(model, "w", a)),
        (lambda: cell[0][::2], lambda a: cell.__setitem__(0, np.repeat(a, 2))),
    ):
        f = fx.jit(lambda x, read=read: x * read(), static_argnames="read", backend="reference")
        x = np.ones(2)
        before = read().tolist()  # not inside the assertion, which would hold the array until the test ends
        assert f(x).tolist() == before
        for value in (2.0, 3.0):
            put(np.full(2, value))
            assert f(x).tolist() == [value, value]
            read()[:] = value + 10
            assert f(x).tolist() == [value + 10, value + 10]
        assert f.cache_info().traces == 3
        assert f.cache_info().entries == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_views_of_captured_arrays_are_read_by_reference_whatever_their_layout(order):
    base = np.array(np.arange(24.0).reshape(4, 6), order=order)
    views = [lambda: base[1:, ::-2], lambda: base.T[2], lambda: base[::-1], lambda: base[:, None, 3:4]]
    for view in views:
        f = fx.jit(lambda x, view=view: x + view(), static_argnames="view", backend="reference")
        for _ in range(3):
            np.testing.assert_array_equal(f(0.0), view())
            base += 1.0
        assert f.cache_info().traces == 1


def test_a_jitted_function_can_be_pickled_and_copied():
    f = fx.jit(np.cumsum, backend="reference")
    assert pickle.loads(pickle.dumps(f))._f is np.cumsum
    assert copy.deepcopy(f)._options == f._options


@pytest.mark.parametrize("transform", [fx.jit, fx.grad, fx.value_and_grad, fx.vmap])
def test_what_is_no_function_is_refused_at_once(transform):
    with pytest.raises(TypeError, match=r"takes a function, not a int"):
        transform(3)
