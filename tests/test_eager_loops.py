"""Loops and choices on concrete values, outside of any transform, give what they give inside: values, kinds, dtypes, containers, errors.

And they do what they do once: a branch that is not taken, and a body before its steps, is looked at without anything happening.
"""

import builtins
import functools
import operator
from functools import partial

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp
from functx.errors import StructureError
from functx.transforms import outlook

X = np.array([1.0, 2.0, 3.0])
DOUBLE = [lambda v: v, lambda v: v * 2]
DTYPE = np.dtype(np.float64)  # what a test changes


def chosen(first, second):
    """A choice of each of two branches."""
    return lambda x: [fx.cond(yes, first, second, x) for yes in (True, False)] + [fx.switch(k, [first, second], x) for k in (0, 1)]


CHOICES = {
    "int and float": chosen(lambda v: 1, lambda v: 2.5),
    "two floats": chosen(lambda v: v.astype(np.float32), lambda v: v),
    "bool and int": chosen(lambda v: v > 1, lambda v: v.astype(int)),
    "Python and NumPy": chosen(lambda v: 1.0, lambda v: v[0]),
    "scalar and 0-d array": chosen(lambda v: v[0], lambda v: v[0, ...]),
    "weak and narrow": chosen(lambda v: 2, lambda v: np.float32(1)),
    "weak and unsigned": chosen(lambda v: 2.5, lambda v: np.uint8(1)),
    "real and complex": chosen(lambda v: v, lambda v: v * 1j),
    "containers": chosen(lambda v: {"a": (1, v), "b": None}, lambda v: {"a": (v[0], v[:, None].T[0]), "b": None}),
    "no result": chosen(lambda v: None, lambda v: None),
    "three branches": lambda x: [fx.switch(k, [lambda: 1, lambda: np.float32(2), lambda: 2j]) for k in range(3)],
    "one branch": lambda x: fx.switch(1, [lambda v: v], x),
    "closed over": lambda x: fx.cond(True, lambda: x.astype(np.float32), lambda: x),
    "by default and partial": lambda x: fx.cond(True, lambda v=x: v[0], partial(operator.mul, 2j, 1.0)),
    "in a choice": lambda x: fx.cond(True, lambda: fx.cond(False, lambda: x, lambda: np.arange(3)), lambda: x.astype(np.float32)),
    "in a vmap": lambda x: fx.cond(False, lambda: fx.vmap(lambda e: e * 1j)(x), lambda: x),
    "structures": chosen(lambda v: v, lambda v: (v,)),
    "tuple and list": chosen(lambda v: (v,), lambda v: [v]),
    "shapes": chosen(lambda v: v, lambda v: v[:1]),
    "strings": chosen(lambda v: "a", lambda v: "b"),
    "predicates": lambda x: [fx.cond(p, *DOUBLE, x) for p in (2, 0.0, np.nan, 1j, np.array(True), np.int8(0))],
    "no predicate": lambda x: fx.cond(None, *DOUBLE, x),
    "a word for a predicate": lambda x: fx.cond("yes", *DOUBLE, x),
    "several predicates": lambda x: fx.cond(x > 1, *DOUBLE, x),
    "a word for an operand": lambda x: fx.cond(True, lambda v, w: v, lambda v, w: v, x, "w"),
    "outside": lambda x: [fx.switch(k, DOUBLE, x) for k in (-3, 2, 2**70, -(2**70))],
    "kinds of indices": lambda x: [fx.switch(k, DOUBLE, x) for k in (np.int8(1), np.uint8(0), np.array(1), np.uint64(1))],
    "a great index": lambda x: [fx.switch(np.uint64(2**63 + k), DOUBLE, x) for k in range(2)],
    "a bool for an index": lambda x: fx.switch(True, DOUBLE, x),
    "a NumPy bool for an index": lambda x: fx.switch(np.True_, DOUBLE, x),
    "a float for an index": lambda x: fx.switch(1.0, DOUBLE, x),
    "several indices": lambda x: fx.switch(np.array([1]), DOUBLE, x),
    "no branches": lambda x: fx.switch(0, [], x),
}

LOOPS = {
    "an int that becomes a float": lambda x: fx.scan(lambda c, v: (c + v, c), 0, x),
    "no steps": lambda x: fx.scan(lambda c, v: (c + v, (c, v, 1)), 0, x[:0]),
    "no steps back": lambda x: fx.scan(lambda c, v: (c + v, {"a": c, "b": None}), {"c": 1}["c"], x[:0], reverse=True),
    "a narrow carry": lambda x: fx.scan(lambda c, v: (np.sin(c) + v, c), np.float32(0.3), x),
    "a product that a narrow type cannot hold": lambda x: fx.scan(lambda c, v: (c * c + v, c), np.int8(20), x),
    "a carry that becomes complex": lambda x: fx.scan(lambda c, v: (c * 1j, c), 1.0, x),
    "half precision": lambda x: fx.scan(lambda c, v: (c * np.float16(1.1), c), np.float16(1), x),
    "truth": lambda x: fx.scan(lambda c, v: (np.logical_not(c), c), True, x),
    "an int in turns with another": lambda x: fx.scan(lambda c, v: ((c[1], c[0] * v), c), (1, 2), x),
    "steps that do not divide": lambda x: fx.scan(lambda c, v: (c + v, {"c": c, "n": None}), 0, x, unroll=2),
    "steps that do not divide, back": lambda x: fx.scan(lambda c, v: (c + v, c), 0, x, unroll=2, reverse=True),
    "no xs": lambda x: fx.scan(lambda c, _: (c + 1.5, [c]), 0, length=5, reverse=True),
    "a while": lambda x: fx.while_loop(lambda c: c < 10, lambda c: c * 1.5, 1),
    "a while without steps": lambda x: fx.while_loop(lambda c: c[0] < 0, lambda c: (c[0] * np.float32(1.5), c[1] + x), (1, 2)),
    "a range without steps": lambda x: fx.fori_loop(5, 0, lambda i, c: c * 1.5 + i, 1),
    "a number of the step": lambda x: fx.fori_loop(0, 3, lambda i, c: (c[0] + i, i), (np.float32(1), 0)),
    "bounds of NumPy": lambda x: fx.fori_loop(np.int8(0), np.int32(3), lambda i, c: c + i, np.int8(1)),
    "map": lambda x: [fx.map(lambda v: (v * 2, 1, None), x, batch_size=size) for size in (None, 1, 2, 3, 7)],
    "map of nothing": lambda x: [fx.map(lambda v: (v * 2, 1), x[:0], batch_size=size) for size in (None, 2)],
    "an associative scan": lambda x: fx.associative_scan(lambda a, b: (a[0] + b[0], a[1] * b[1]), (x, x.astype(int)), reverse=True),
    "an associative scan of nothing": lambda x: fx.associative_scan(np.add, x[:0]),
    "another shape": lambda x: fx.scan(lambda c, v: (np.append(c, v), None), x, x),
    "another shape without steps": lambda x: fx.scan(lambda c, v: (c[:1], None), x, x[:0]),
    "another structure without steps": lambda x: fx.while_loop(lambda c: False, lambda c: (c, c), x),
    "another shape in a range without steps": lambda x: fx.fori_loop(0, 0, lambda i, c: c[:1], x),
    "no pair": lambda x: fx.scan(lambda c, v: [c, v], 0, x[:0]),
    "a word for a carry": lambda x: fx.scan(lambda c, v: (c, v), "a", x),
    "a word for a y": lambda x: fx.scan(lambda c, v: (c, "a"), 0, x),
    "a word in a while": lambda x: fx.while_loop(lambda c: False, lambda c: c, "a"),
    "no condition": lambda x: fx.while_loop(lambda c: None, lambda c: c - 1, 3),
    "two conditions": lambda x: fx.while_loop(lambda c: (c < 1, c < 2), lambda c: c - 1, 3),
    "conditions in an array": lambda x: fx.while_loop(lambda c: c < 1, lambda c: c - 1, x),
    "a float for a bound": lambda x: fx.fori_loop(0, 3.0, lambda i, c: c + i, 1),
    "a float for a length": lambda x: fx.scan(lambda c, _: (c, c), 0, length=2.0),
    "a number for xs": lambda x: fx.scan(lambda c, v: (c, v), 0, 3.0),
    "an operation of another structure": lambda x: fx.associative_scan(lambda a, b: (a, b), x),
    "an operation of another container": lambda x: fx.associative_scan(lambda a, b: list(a), (x, x)),
    "an operation of another shape": lambda x: fx.associative_scan(lambda a, b: a.sum(), x),
    "an operation without result": lambda x: fx.associative_scan(lambda a, b: None, x),
    "no such axis": lambda x: fx.associative_scan(np.add, x, axis=3),
    "no axis": lambda x: fx.associative_scan(np.add, [1.0, 2.0]),
}

INSIDE = {
    "jit": oracles.reference_jit,
    "grad": lambda f: lambda x: fx.grad(lambda s, x: (s * 2.0, f(x)), has_aux=True)(1.0, x)[1],
    "vmap": lambda f: lambda x: fx.tree.map(lambda v: v[0], fx.vmap(lambda s: f(x))(np.zeros(1))),
}


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("name", [*CHOICES, *LOOPS])
def test_eager_loops_are_traced_ones(name, inside):
    f = (CHOICES | LOOPS)[name]
    eager, traced = oracles.outcome(f, X.copy()), oracles.outcome(INSIDE[inside](f), X.copy())
    if eager.error or traced.error:
        assert type(eager.error) is type(traced.error) and str(eager.error) == str(traced.error)
        return
    (got, got_tree), (wanted, wanted_tree) = fx.tree.flatten(eager.value), fx.tree.flatten(traced.value)
    assert got_tree == wanted_tree
    if inside == "vmap":  # which makes arrays of all results
        got, wanted = list(map(np.asarray, got)), list(map(np.asarray, wanted))
    oracles.assert_same(got, wanted, rtol=1e-12)


# --- what is not taken does not happen ----------------------------------------------------------------------------------------------------

LINES: list[int] = []
TABLE = np.zeros(3)


class Model:
    """An object with an array."""

    table = np.zeros(3)


def untaken(name):
    """A function that does something to the world, and one that tells what has happened."""
    buffer, lines, number, model, generator = np.zeros(3), [], 0, Model(), np.random.default_rng(0)
    model.table = np.zeros(3)
    held = {"a": [np.zeros(2)]}

    def rebinds():
        nonlocal number
        number += 1
        return 1.5

    def fills_global():
        TABLE[...] = 1.0
        LINES.append(1)
        return 1.5

    functions = {
        "fills": (lambda: (buffer.fill(1.0), 1.5)[1], lambda: buffer.sum()),
        "fills in a helper": (lambda helper=lambda: buffer.fill(1.0): (helper(), 1.5)[1], lambda: buffer.sum()),
        "adds": (lambda: (np.add(buffer, 1.0, out=buffer), 1.5)[1], lambda: buffer.sum()),
        "appends": (lambda: (lines.append(1), 1.5)[1], lambda: len(lines)),
        "fills what a container holds": (
            lambda: (held["a"][0].fill(1.0), held.clear(), 1.5)[2],
            lambda: held["a"][0].sum(),
        ),
        "rebinds": (rebinds, lambda: number),
        "an object's": (lambda: (model.table.fill(1.0), 1.5)[1], lambda: model.table.sum()),
        "a global array": (fills_global, lambda: TABLE.sum() + len(LINES)),
        "draws": (lambda: generator.random(), lambda: generator.random() - np.random.default_rng(0).random()),
        "prints": (lambda: (print("never"), 1.5)[1], lambda: 0),
        "fails": (lambda: 1 / number, lambda: 0),
        "imports": (lambda: __import__("this"), lambda: 0),
        "calls back": (lambda: fx.io_callback(lambda: lines.append(1), None) or 1.5, lambda: len(lines)),
        "draws for all": (lambda: np.random.random(), lambda: 0),
    }
    return functions[name]


UNTAKEN = ["fills", "fills in a helper", "adds", "appends", "fills what a container holds", "rebinds", "an object's", "a global array",
           "draws", "prints", "fails", "imports", "calls back", "draws for all"]  # fmt: skip


@pytest.mark.parametrize("name", UNTAKEN)
def test_a_branch_that_is_not_taken_does_nothing(name, capsys):
    f, happened = untaken(name)
    state = np.random.get_state(legacy=False)
    fx.cond(True, lambda: 2.5, f)
    fx.switch(1, [f, lambda: 2.5, f])
    fx.while_loop(lambda c: c < 0, lambda c: c + f(), 2.5)
    fx.fori_loop(0, 0, lambda i, c: c + f(), 2.5)
    assert happened() == 0 and capsys.readouterr().out == ""
    np.testing.assert_equal(np.random.get_state(legacy=False), state)


@pytest.mark.parametrize("name", ["fills", "fills in a helper", "appends", "rebinds", "a global array", "fills what a container holds"])
def test_a_scan_without_steps_does_nothing(name):
    f, happened = untaken(name)
    fx.scan(lambda c, _: (c + f(), c), 0, length=0)
    assert happened() == 0


def test_a_body_runs_once_per_step():
    seen = []
    fx.fori_loop(0, 3, lambda i, c: (seen.append(i), c + 1.5)[1], 0)
    fx.scan(lambda c, v: (seen.append(v), (c + v, c))[1], 0, np.arange(2.0))
    fx.while_loop(lambda c: c < 2, lambda c: (seen.append(c), c + 1.0)[1], 0)
    assert seen == [0, 1, 2, 0.0, 1.0, 0.0, 1.0]


def test_types_are_asked_once_per_kind_of_call(monkeypatch):
    def f(x, k):
        return fx.cond(x[0] > k, lambda v: v * k, lambda v: v.astype(np.float32) + k, x)

    f(X, 1.0)
    monkeypatch.setattr(outlook, "stage", lambda *_: pytest.fail("traced again"))
    for k in range(3):
        assert f(X + k, float(k) * 2).dtype == np.float64


@pytest.mark.parametrize("number", [int, np.int64])
def test_numbers_that_decide_shapes_count(number):
    shaped = [
        lambda n: fx.cond(True, lambda: fnp.zeros(2), lambda: fnp.zeros(n)),
        lambda n: fx.cond(True, lambda v: v[:2], lambda v: v[:n], X),
        lambda n: fx.cond(True, lambda: np.zeros(2), lambda: np.stack([X[0] for _ in range(n)])),
        lambda n: fx.cond(True, lambda: np.zeros(2), lambda sizes={"n": [n]}: X[: sizes["n"][0]]),  # noqa: B006
    ]
    for f in shaped:
        for n in (2, 1, 3, 2):
            if n == 2:
                assert f(number(n)).shape == (2,)
            else:
                with pytest.raises(StructureError, match="result 0 is"):
                    f(number(n))


def test_what_changed_at_module_level_is_asked_again(monkeypatch):
    for dtype in (np.complex64, np.complex128):
        monkeypatch.setitem(globals(), "DTYPE", dtype)
        assert fx.cond(True, lambda v: v, lambda v: v.astype(DTYPE), np.float32(1)).dtype == dtype


def test_recursion_by_choices_ends():
    def factorial(n):
        return fx.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))

    assert factorial(5) == 120


def test_branches_may_need_values():
    """What could not be traced is still run."""
    assert fx.cond(True, lambda v: v[: int(v[0])], lambda v: v[:1], X).shape == (1,)
    buffer = np.zeros(3)
    assert fx.fori_loop(0, 3, lambda i, c: (operator.setitem(buffer, i, c), c + 1)[1], 0) == 3 and buffer.tolist() == [0, 1, 2]


def test_a_read_only_array_stays_read_only():
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    table = fnp.ones(3)
    for run in (lambda f: f, oracles.reference_jit):
        with pytest.raises(ValueError, match="read-only"):
            run(lambda yes: fx.cond(yes, lambda: (frozen.fill(1.0), table)[1], lambda: table))(True)


def test_choices_hand_tensors_on():
    torch = pytest.importorskip("torch")
    t = torch.ones(3)
    for chosen in (
        fx.cond(t.sum() > 1, lambda: t * 2, lambda: t),
        fx.cond(False, lambda v: v, lambda v: v * 2, t),
        fx.switch(torch.tensor(1), [lambda: t, lambda: t * 2]),
        fx.switch(7, [lambda v: v, lambda v: v * 2], t),
    ):
        assert torch.equal(chosen, t * 2)


def test_the_branch_that_runs_has_its_own_type():
    """What was told of it before counts no longer: values, classes and parts may be others."""

    def power(k):
        return fx.cond(True, lambda x: x**k, lambda x: x, 2)

    class Scale:
        by = 1

    def parts(a, b):
        first, second = functools.partial(lambda a, x: a * x, a), functools.partial(lambda a, x: a * x, b)
        return lambda x: first(x) * second(x)

    assert [power(1), power(-1)] == [2, 0.5]
    found = []
    for by in (1, 1.25):
        Scale.by = by
        found.append(fx.cond(True, lambda x: x * Scale.by, lambda x: x, 2))
    assert found == [2, 2.5]
    assert [fx.cond(True, parts(1, b), lambda x: x, 2) for b in (1, 1.5)] == [4, 6.0]


def test_nothing_happens_in_branches_that_are_not_taken(tmp_path, capsys):
    log = []

    class Log:
        entries = log

        @staticmethod
        def step(x):
            log.append(1)
            return x + 1.0

    path = tmp_path / "written.npy"
    fx.cond(False, lambda x: Log.step(x), lambda x: x, 2.0)
    fx.cond(False, lambda x: (np.save(path, np.ones(2)), x)[1], lambda x: x, 2.0)
    fx.cond(False, lambda x: (builtins.print("out"), x)[1], lambda x: x, 2.0)
    fx.cond(False, lambda x: x + np.random.normal(), lambda x: x, 2.0)
    fx.while_loop(lambda c: c < 3.0, Log.step, 0.0)
    assert len(log) == 3 and not path.exists() and not capsys.readouterr().out
