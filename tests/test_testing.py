"""check_grads and compare find what is wrong, say where, and let pass what is right."""

import sys

import numpy as np
import pytest

import functx as fx
from functx.errors import GradientError
from functx.testing import check_grads, compare


def wrong(factor):
    """sin, with a derivative that is wrong by a factor per element."""
    f = fx.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (np.sin(*primals), np.cos(primals[0]) * factor * tangents[0]))
    return f


RIGHT = [
    (lambda x: np.sin(x) * x, (np.array([0.5, 2.0]),)),
    (lambda p, n: {"y": (p["w"] @ p["b"][0]).sum() * n, "n": n}, ({"w": np.array([[1.0, 2.0]]), "b": [np.array([0.5, 1.0])]}, 3)),
    (lambda z: (z * z, np.abs(z)), (np.array([1 + 2j, -0.5j]),)),
    (lambda x: np.tanh(x), (0.5,)),
    (lambda x, y: np.exp(x) * y, (np.float32(0.5), np.ones(2, np.float32))),
    (lambda x: fx.scan(lambda c, v: (c * v, c), 1.0, x)[0], (np.array([0.5, 1.5]),)),
]


@pytest.mark.parametrize(("f", "args"), RIGHT)
def test_right_derivatives_pass(f, args):
    check_grads(f, args, order=2)
    assert compare(f, *args, show=False)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_the_leaf_and_the_element_that_are_wrong(mode):
    f = wrong(np.array([1.0, 1.1, 1.0]))
    args = {"a": [np.array([0.1, 0.2, 0.3])], "k": 3}, np.ones(3)
    with pytest.raises(GradientError, match=rf"in mode '{mode}'") as raised:
        check_grads(lambda d, y: f(d["a"][0]) * y, args, modes=(mode,))
    assert "args[0]['a'][0], along element [1]" in str(raised.value)
    check_grads(lambda d, y: f(d["a"][0]) * y, args, modes=(mode,), rtol=0.2)


def test_the_second_order_is_looked_at():
    f = fx.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), fx.stop_gradient(np.cos(primals[0])) * tangents[0]))
    check_grads(f, (0.5,))
    with pytest.raises(GradientError, match="the jvp of"):
        check_grads(f, (0.5,), order=2, modes=("fwd",))
    with pytest.raises(GradientError, match="the vjp of"):
        check_grads(f, (0.5,), order=2, modes=("rev",))


def test_modes_are_checked():
    with pytest.raises(ValueError, match="'forward'"):
        check_grads(np.sin, (0.5,), modes=("forward",))


def test_nan_differs():
    f = fx.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), np.nan * tangents[0]))
    with pytest.raises(GradientError):
        check_grads(f, (0.5,))


def rows(comparison):
    return {row.name: row.agrees for row in comparison.rows}


def test_compare_names_what_differs():
    found = compare(lambda x: wrong(np.array([1.0, 1.5]))(x), np.array([0.1, 0.2]), show=False)
    assert not found
    assert [name for name, agrees in rows(found).items() if not agrees] == ["jvp, differences", "vjp, differences"]
    assert "DIFFERS" in str(found) and "along element [1]" in str(found)


def test_compare_sees_values_that_differ():
    calls = iter(range(100))
    found = compare(lambda x: x + next(calls), np.ones(2), show=False)
    assert rows(found)["jit, reference"] is False
    assert rows(compare(lambda x: x * float(x), 2.0, show=False))["jvp, differences"] is False

    def kinds(x):
        return 1.0 if type(x) is np.ndarray else np.ones(1)

    found = compare(kinds, np.ones(1), show=False)
    assert not found and "result is ndarray of shape (1,)" in str(found)


def test_compare_looks_at_arguments():
    def f(x, n):
        x *= 2
        n += 1
        return x[:1]

    x, n = np.ones(2), np.ones(2, int)
    assert compare(f, x, n, show=False)
    assert x[0] == 1 and n[0] == 1
    odd = lambda x: x.fill(3.0) if type(x) is np.ndarray else None  # noqa: E731 - a tracer is left as it is
    found = compare(odd, np.ones(2), show=False)
    assert rows(found)["jit, reference"] is False and found.rows[1].note == "" and found.rows[1].error > 0


def test_what_cannot_be_compared():
    found = compare(lambda n: n + 1, 3, show=False)
    assert found and rows(found) == {
        "NumPy": True, "jit, reference": True, "jit, C++": True, "vmap, loop": None, "jvp, differences": None, "vjp, differences": None
    }  # fmt: skip
    found = compare(lambda x: x[5], np.ones(2), show=False)
    assert not found and "IndexError" in str(found)


@pytest.mark.parametrize("rich", [True, False])
def test_one_table_is_printed(rich, capsys, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    compare(np.sin, np.ones(2))
    out = capsys.readouterr().out
    assert all(name in out for name in ("NumPy", "jit, C++", "vmap, loop", "vjp, differences")) and ("┃" in out) == rich
