"""What functx.explain_misses says of calls that had to be traced, and the warning about a function that is traced again and again."""

import warnings

import numpy as np
import pytest

import functx as fx
from functx.transforms import misses


def reasons(f, *calls):
    """The reasons of the misses of these calls."""
    misses._recent.clear()  # it is bounded: what earlier tests left must not push these out
    for args, kwargs in calls:
        f(*args, **kwargs)
    return [miss.reason for miss in fx.explain_misses()]


def call(*args, **kwargs):
    return args, kwargs


X = np.ones((2, 3))


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def test_the_first_call_and_one_that_hits():
    f = jit(lambda x: x + 1)
    assert reasons(f, call(X), call(X)) == ["it is the first call"]
    miss = fx.explain_misses()[-1]
    assert "test_misses.py" in miss.function and "test_misses.py" in miss.line and miss.reason in str(miss)


def test_leaves_are_named_by_argument_and_path():
    f = jit(lambda params, k: params["w"] * k)
    first, *rest = reasons(
        f,
        call({"w": X}, 1.0),
        call({"w": X[0]}, 1.0),
        call({"w": X.astype(np.float32)}, 1.0),
        call({"w": X}, 1),
        call({"w": X}, np.float32(1)),
    )
    assert first == "it is the first call"
    assert rest == [
        "argument 'params['w']' is f64[3], before it was f64[2,3]",
        "argument 'params['w']' is f32[2,3], before it was f64[3]",
        "argument 'k' is i64[]~, before it was f64[]~",
        "argument 'k' is f32[]', before it was i64[]~",
    ]


def test_structure_static_arguments_and_options():
    f = jit(lambda x, n: x if n is None else x * n, static_argnums=1)
    assert reasons(f, call(X, 2), call(X, 3))[1] == "the static arguments are number 1: 3, before they were number 1: 2"
    k = jit(lambda x, *, mode, k=1.5: x * k, static_argnames=("mode", "k"))
    _, by_name = reasons(k, call(X, mode="a", k=2.5), call(X, mode="b", k=2.0))
    assert by_name == "the static arguments are k: 2.0, mode: 'b', before they were k: 2.5, mode: 'a'"
    g = jit(lambda x: x["a"])
    assert (
        reasons(g, call({"a": X}), call({"a": X, "b": X}))[1]
        == "the arguments are (({'a': *, 'b': *},), {}), before they were (({'a': *},), {})"
    )
    h = fx.jit(lambda x: x + 1)
    with fx.config.options(backend="reference"):
        h(X)
    with fx.config.options(backend="reference", parallel_threshold=7):
        assert "the options are" in reasons(h, call(X))[0]


def test_conditions_beyond_the_key():
    looks = jit(lambda x, n: x[:n])
    assert reasons(looks, call(X, 1), call(X, 2))[1] == "argument 'n' has the value 2, and the function looks at it"

    def views(x):
        return x.reshape(-1)

    transposed = np.ones((3, 2)).T
    assert reasons(jit(views), call(X.copy()), call(transposed))[1].startswith("argument 'x' has the strides (8, 16)")

    def writes(x, y):
        x += y

    a, b = np.ones(3), np.ones(3)
    assert reasons(jit(writes), call(a, b), call(a, a))[1] == "other arguments are one and the same array"


def test_a_captured_array_that_is_replaced():
    held = [np.ones(3)]
    f = jit(lambda x: x * held[0])
    f(np.ones(3))
    held[0] = np.full(3, 2.0)
    assert reasons(f, call(np.ones(3))) == ["an array that the function reads (f64[3]) was replaced"]


def test_one_warning_for_a_function_that_is_traced_again_and_again():
    f = jit(lambda x: x + 1, dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(40):
            f(np.ones(n))
    texts = [str(w.message) for w in caught if w.category is fx.errors.PerformanceWarning]
    assert len(texts) == 1
    for part in ("has been traced 33 times", "argument 'x' is f64[32], before it was f64[31]", "explain_misses"):
        assert part in texts[0]
    assert caught[0].filename == __file__


def test_few_traces_do_not_warn(recwarn):
    f = jit(lambda x: x + 1)
    for n in range(10):
        f(np.ones(n))
    assert not recwarn.list


@pytest.mark.parametrize("limit", [1, 3])
def test_an_evicted_entry_is_a_miss_that_says_so(limit):
    f = jit(lambda x: x + 1, dynamic=False)
    with fx.config.options(max_entries=limit):
        for n in range(limit + 1):
            f(np.ones(n))
        assert "argument 'x' is f64[0]" in reasons(f, call(np.ones(0)))[0]
