"""Calls that the runtime answers by itself: they do what the first call did, in Python, and what NumPy does."""

import collections
import copy
import gc
import operator
import pickle
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functx as fx
import functx.numpy as fnp

Pair = collections.namedtuple("Pair", "left right")


def native(f, *args, **kwargs):
    """The result of a call that must not enter Python."""
    before = f._native_hits
    out = f(*args, **kwargs)
    assert f._native_hits == before + 1, "the runtime did not answer this call"
    return out


def python(f, *args, **kwargs):
    """The result of a call that the runtime must leave to Python."""
    before = f._native_hits
    out = f(*args, **kwargs)
    assert f._native_hits == before, "the runtime answered this call"
    return out


# --- containers and leaves ----------------------------------------------------------------------------------------------------------------

LEAVES = st.sampled_from([np.arange(3.0), np.ones((2, 2), np.float32), np.array(2), 1.5, 3, True, 2j, np.float32(1), np.int8(4), "text"])
TREES = st.recursive(
    LEAVES | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("zyxab"), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda p: Pair(*p))
    ),
    max_leaves=8,
)


def negated(tree):
    """A tree of results in the containers of the arguments; strings and None as they are."""
    if isinstance(tree, dict):
        return {k: negated(v) for k, v in tree.items()}
    if isinstance(tree, Pair):
        return Pair(*map(negated, tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(negated, tree))
    if tree is None or isinstance(tree, str):
        return tree
    return tree * 2


@given(TREES, TREES)
def test_containers_of_arguments_and_results(tree, other):
    f = fx.jit(lambda a, *, b: (negated(a), [negated(b), b]), backend="cpp")
    expected = negated(tree), [negated(other), other]
    for call in (python, native, native):
        assert_equal_trees(call(f, tree, b=other), expected)


def assert_equal_trees(got, expected):
    if isinstance(expected, dict):
        assert type(got) is dict and list(got) == list(expected)
        for key in expected:
            assert_equal_trees(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert_equal_trees(g, e)
    else:
        oracles.assert_same(got, expected)


def test_the_order_of_a_dict_does_not_matter():
    f = fx.jit(lambda d: d["a"] - d["b"], backend="cpp")
    a, b = np.array([5.0]), np.array([2.0])
    f({"a": a, "b": b})
    for d in ({"a": a, "b": b}, {"b": b, "a": a}, {"b": b, "a": a}, {"a": a, "b": b}):
        oracles.assert_same(f(d), np.array([3.0]))
    assert f.cache_info().traces == 1 and f._native_hits == 3


def test_equal_keys_that_are_other_objects():
    f = fx.jit(lambda d: d["long name"] * 2, backend="cpp")
    f({"long name": np.ones(2)})
    native(f, {"".join(["long", " ", "name"]): np.ones(2)})


@pytest.mark.parametrize("dtype", [*"?bBhHiIlLefdFD", ml_dtypes.bfloat16])
def test_scalars_of_every_dtype(dtype):
    f = fx.jit(lambda x, y: (x, y * 1, x == y), backend="cpp")
    values = [np.dtype(dtype).type(v) for v in (0, 1, 2)]
    f(values[0], np.ones(2, dtype))
    for x in values:
        oracles.assert_same(native(f, x, np.ones(2, dtype)), (x, np.ones(2, dtype) * 1, x == np.ones(2, dtype)))


def test_python_numbers():
    f = fx.jit(lambda a, b, c, d: (a, b + 1, c * 2, d * 2, a * b), backend="cpp")
    for args in ((True, 3, 1.5, 2j), (False, -(2**62), -0.0, 1 - 1j), (True, 0, float("nan"), complex("nan"))):
        oracles.assert_same(f(*args), (args[0], args[1] + 1, args[2] * 2, args[3] * 2, args[0] * args[1]))
    assert f._native_hits == 2
    with pytest.raises(OverflowError):
        f(True, 2**70, 1.0, 1j)


def test_keywords_defaults_and_static_arguments():
    def f(x, n=2, *, mode="double", scale=1.0):
        return x * (n if mode == "double" else -n) * scale

    g = fx.jit(f, static_argnames=("n", "mode"), backend="cpp")
    x = np.arange(3.0)
    for args, kwargs in (
        ((x,), {}),
        ((x, 3), {}),
        ((x,), {"n": 3}),
        ((x,), {"mode": "single"}),
        ((x,), {"scale": 2.5}),
        ((x, 2), {"scale": 0.5}),
    ):
        for _ in range(2):
            oracles.assert_same(g(*args, **kwargs), f(*args, **kwargs))
    assert g._native_hits == 6
    with pytest.raises(TypeError):
        g(x, wrong=1)


def test_static_values_of_other_types_are_other_values():
    g = fx.jit(lambda x, n: x * n, static_argnums=-1, backend="cpp")
    x = np.ones(2, np.float32)
    for n in (1, 1.0, True, np.float64(1), 1, 1.0, True):
        oracles.assert_same(g(x, n), x * n)


class Scale:
    """An object that is static: it compares by identity."""

    def __init__(self, by):
        self.by = by

    @fx.jit
    def traced(self, x):
        return x * 2

    @staticmethod
    @fx.jit
    def free(x):
        return x * 3


def test_methods():
    class Model:
        def __init__(self, by):
            self.by = by

        @property
        def key(self):
            return self.by

        apply = fx.jit(lambda self, x: x * self.by, static_argnums=0, backend="cpp")

    a, b, x = Model(2.0), Model(3.0), np.ones(2)
    for _ in range(2):
        oracles.assert_same(a.apply(x), x * 2)
        oracles.assert_same(b.apply(x), x * 3)
    assert Model.apply._native_hits == 2
    oracles.assert_same(Scale.free(x), x * 3)
    assert Scale.traced.__name__ == "traced" and Scale.traced.__wrapped__ is not None


# --- arrays -------------------------------------------------------------------------------------------------------------------------------


def layouts(x):
    """The same values in other memory."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    misaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    misaligned[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    return {
        "strided": wide[..., ::2],
        "fortran": np.asfortranarray(x),
        "reversed": x[::-1].copy()[::-1],
        "misaligned": misaligned,
        "frozen": frozen,
    }


@pytest.mark.parametrize("name", ["strided", "fortran", "reversed", "misaligned", "frozen"])
def test_arrays_in_any_memory(name):
    x = np.arange(12.0).reshape(3, 4)
    f = fx.jit(lambda x: x * 2 + 1, backend="cpp")
    f(x)
    oracles.assert_same(native(f, layouts(x)[name]), x * 2 + 1)
    swapped = x.astype(">f8")
    with pytest.raises(fx.errors.UnsupportedError):
        f(swapped)


@pytest.mark.parametrize("name", ["strided", "fortran", "reversed", "misaligned"])
def test_writes_go_back_into_any_memory(name):
    def f(x, y):
        x += y
        x[0] = 7

    x, y = np.arange(12.0).reshape(3, 4), np.ones((3, 4))
    g, expected = fx.jit(f, backend="cpp"), x.copy()
    f(expected, y)
    for _ in range(3):
        mine = layouts(x)[name]
        g(mine, y)
        np.testing.assert_array_equal(mine, expected)
    assert g._native_hits == 2


def test_results_that_are_arguments_or_views_of_them():
    f = fx.jit(lambda x: (x, x[1:], x.T, (x * 2)[::2]), backend="cpp")
    x = np.arange(4.0)
    for call in (python, native, native):
        same, view, transposed, fresh = call(f, x)
        assert same is x and np.shares_memory(view, x) and view.base is x and np.shares_memory(transposed, x)
        oracles.assert_same(fresh, np.array([0.0, 4.0]))
        assert not np.shares_memory(fresh, x)


def test_conditions_of_an_entry_are_looked_at():
    def f(x, y, n):
        x += y * n
        return x.reshape(-1)[0] if n > 2 else x.ravel()

    g = fx.jit(f, backend="cpp")
    base = np.arange(12.0)
    cases = [
        lambda: (np.ones((2, 3)), np.ones((2, 3)), 1),
        lambda: (np.ones((2, 3)), np.ones((2, 3)), 5),
        lambda: (np.ones((3, 2)).T, np.ones((2, 3)), 1),
        lambda: (lambda a: (a, a, 1))(np.ones((2, 3))),
        lambda: (base[:6].reshape(2, 3).copy(), base[6:].reshape(2, 3), 1),
        lambda: (lambda whole: (whole[:6].reshape(2, 3), whole[3:9].reshape(2, 3), 1))(base.copy()),  # overlapping: Python runs it
    ]
    for _ in range(3):
        for make in cases:
            plain, mine = make(), make()
            expected, got = f(*plain), g(*mine)
            oracles.assert_same(got, expected)
            np.testing.assert_array_equal(mine[0], plain[0])
    frozen = np.ones((2, 3))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        g(frozen, np.ones((2, 3)), 1)
    np.testing.assert_array_equal(base, np.arange(12.0))
    assert g._native_hits >= 10


def test_captured_arrays_are_followed():
    weights = np.ones(3)
    f = fx.jit(lambda x: x * weights, backend="cpp")
    x = np.arange(3.0)
    f(x)
    weights[:] = 5
    oracles.assert_same(native(f, x), x * 5)
    weights = np.full(3, 7.0)
    oracles.assert_same(f(x), x * 7)
    oracles.assert_same(native(f, x), x * 7)


def test_a_captured_array_is_written_back():
    buffer = np.zeros(3)

    def f(x):
        total = fnp.asarray(buffer)
        total += x

    g = fx.jit(f, backend="cpp")
    for k in range(1, 4):
        g(np.ones(3))
        np.testing.assert_array_equal(buffer, np.full(3, float(k)))
    assert g._native_hits == 2


# --- failures -----------------------------------------------------------------------------------------------------------------------------


def test_errors_name_the_line_and_leave_the_arguments_alone():
    def f(x, i):
        x += 1
        return x[i]

    g, x = fx.jit(f, backend="cpp"), np.arange(4.0)
    g(x, 1)
    before = x.copy()
    for index in (9, -5):
        with pytest.raises(IndexError, match=r"(?s)out of bounds.*return x\[i\]"):
            g(x, index)
        np.testing.assert_array_equal(x, before)
    oracles.assert_same(native(g, x, 3), np.float64(5.0))


def test_what_a_callback_raises_comes_out():
    def check(x):
        if x.sum() < 0:
            raise KeyError("negative")
        return x * 2

    f = fx.jit(lambda x: fx.lax.pure_callback(check, x, x) + 1, backend="cpp")
    x = np.ones(3)
    f(x)
    with pytest.raises(KeyError, match="negative"):
        f(-x)
    oracles.assert_same(native(f, x), x * 2 + 1)


def test_a_callback_may_call_the_function_again():
    def inner(x):
        return f(x - 1) if x[0] > 0 else x

    f = fx.jit(lambda x: fx.lax.pure_callback(inner, x, x) + 10, backend="cpp")
    oracles.assert_same(f(np.array([3.0])), np.array([40.0]))
    oracles.assert_same(f(np.array([3.0])), np.array([40.0]))


# --- context, threads, memory -------------------------------------------------------------------------------------------------------------


def test_inside_a_trace_and_under_other_options_python_decides():
    f = fx.jit(lambda x: x * 3, backend="cpp")
    x = np.arange(3.0)
    f(x)
    oracles.assert_same(fx.grad(lambda x: f(x).sum())(x), np.full(3, 3.0))
    with fx.disable_jit():
        python(f, x)
    native(f, x)


def test_entries_are_dropped_and_come_back():
    f = fx.jit(lambda x: x + 1, backend="cpp", dynamic=False)
    with fx.config.options(max_entries=2):
        for n in (1, 2, 3, 1, 2, 3):
            oracles.assert_same(f(np.zeros(n)), np.ones(n))
        info = f.cache_info()
        assert info.entries == 2 and info.traces == 6
        native(f, np.zeros(3))
        native(f, np.zeros(2))
        f(np.zeros(1))  # drops the entry for 3, used before that for 2
        native(f, np.zeros(2))
    f.clear_cache()
    assert f.cache_info().hits == 0 and f.cache_info().entries == 0
    python(f, np.zeros(2))


def test_many_threads_call_one_function():
    f = fx.jit(lambda x, k: np.sin(x) * k + x.sum(), backend="cpp")
    failures = []

    def work(k):
        x = np.linspace(0, 1, 1000 + k)
        expected = np.sin(x) * k + x.sum()
        for _ in range(200):
            if not np.allclose(f(x, k), expected, rtol=1e-12):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and f.cache_info().traces <= 8


def test_references_stay_balanced():
    """Many calls of every kind: no argument, result, key or constant gains or loses a reference."""
    f = fx.jit(lambda d, n: ({"y": d["x"] * n, "same": d["x"], "text": "constant"}, [d["x"].sum()], None), backend="cpp")
    x, key = np.ones(3), "x"
    f({key: x}, 2.0)
    before = sys.getrefcount(x), sys.getrefcount(key), sys.getrefcount(None)
    for _ in range(20_000):
        out = f({key: x}, 2.0)
    del out
    after = sys.getrefcount(x), sys.getrefcount(key), sys.getrefcount(None)
    assert all(abs(a - b) <= 20 for a, b in zip(after, before, strict=True))
    strided = np.ones(6)[::2]
    f({key: strided}, 2.0)
    count = sys.getrefcount(strided)
    for _ in range(1000):
        f({key: strided}, 2.0)
    assert sys.getrefcount(strided) == count


def test_functions_are_collected():
    def make():
        def f(x):
            return x + 1

        g = fx.jit(f, backend="cpp")
        f.itself = g  # a cycle
        g(np.ones(2))
        g(np.ones(2))
        return weakref.ref(g)

    ref = make()
    gc.collect()
    assert ref() is None


def test_large_results_come_from_a_pool_and_own_their_memory():
    f = fx.jit(lambda x: x + 1, backend="cpp")
    x = np.zeros(1 << 16)
    held = [f(x) for _ in range(3)]
    addresses = {a.ctypes.data for a in held}
    assert len(addresses) == 3 and all(a.flags.owndata and a.flags.writeable and a.base is None for a in held)
    for k, a in enumerate(held):
        a += k
    assert [a[0] for a in held] == [1, 2, 3]
    del held, a
    assert f(x).ctypes.data in addresses
    grown = f(x)
    grown.resize(1 << 17, refcheck=False)
    assert grown[0] == 1 and grown[-1] == 0


def test_attributes():
    def scale(x):
        """Twice x."""
        return x * 2

    f = fx.jit(scale)
    assert f.__name__ == "scale" and f.__doc__ == "Twice x." and f.__wrapped__ is scale and "scale" in repr(f)
    f.note = "mine"
    assert f.note == "mine" and callable(f) and not hasattr(f, "nothing")
    with pytest.raises(AttributeError, match="nothing"):
        operator.attrgetter("nothing")(f)
    assert "mul" in str(f.ir(np.ones(2)))


@fx.jit
def decorated(x):
    return x + 1


def plain(x):
    return x * 2


jitted_elsewhere = fx.jit(plain, static_argnames=("n",))


def test_pickling():
    x = np.arange(3.0)
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    again = pickle.loads(pickle.dumps(jitted_elsewhere))
    oracles.assert_same(again(x), x * 2)
    oracles.assert_same(pickle.loads(pickle.dumps(fx.jit(np.sin)))(x), np.sin(x), rtol=1e-15)
    assert again is not jitted_elsewhere and copy.deepcopy(decorated) is decorated
