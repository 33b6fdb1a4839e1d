"""Writes as in NumPy, statement by statement: over all layouts of the argument, in results, changes, shared memory and error classes; with
derivatives and under vmap; and augmented operators for all dtypes.
"""

import operator
import warnings

import numpy as np
import oracles
import pytest
from programs import LAYOUTS, derivative, laid_out
from sample import DTYPES
from write_lines import TABLES

import functx as fx
import functx.numpy as fnp
from functx.trace import Tracer

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about casts and broadcast_arrays

TEXTS = {name: table.splitlines() for name, table in TABLES.items()}
ALL = [text for table in TEXTS.values() for text in table]
OWN = ("np.zeros(", "np.array(", "np.asarray(", "np.ascont")  # what NumPy never dispatches
ROUGH = "// % modf frexp divmod astype i8 u8 c16 dtype round isnan argm None partition ny( exp(".split()  # noqa: SIM905
ROUGH += ["**= y", "is x"]


def program(text):
    """A line as a function of the module that stands for NumPy, and of x and y."""
    scope = {"N": np}
    exec("def f(np, x, y):\n" + "\n".join(f"    {line.strip()}" for line in text.split(";")), scope)
    return scope["f"]


def arguments(dtype=float):
    x, y = np.arange(12.0).reshape(3, 4) * 1.5 + 0.25, np.cos(np.arange(12.0)).reshape(3, 4) * 6 + 1
    return (x * (1 + 0.5j), y * (1 - 0.25j)) if dtype is complex else (x, y)


def leaves(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def sharing(arrays):
    """Which of them share memory with which; numbers share with nothing."""
    return [[isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b) for b in arrays] for a in arrays]


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("text", ALL)
def test_writes_do_what_numpy_does(text, dtype):
    f, values = program(text), arguments(dtype)
    jitted = oracles.reference_jit(lambda x, y: f(fnp if any(name in text for name in OWN) else np, x, y))
    for layout in LAYOUTS:
        x, buffer = laid_out(values[0], layout)
        plain, plain_buffer = laid_out(values[0], layout)
        y, plain_y = values[1].copy(), values[1].copy()
        expected, got = oracles.outcome(lambda f=f, a=plain, b=plain_y: f(np, a, b)), oracles.outcome(jitted, x, y)
        if expected.error is not None:
            oracles.assert_same_error(got.error, expected.error, layout)
            continue
        if got.error is not None:
            raise AssertionError(f"{layout}: raised {got.error!r}, expected {expected.value!r}") from got.error
        close = {"rtol": 1e-12, "atol": 1e-12, "what": layout}
        oracles.assert_same(got.value, expected.value, **close)
        oracles.assert_same([buffer, y], [plain_buffer, plain_y], **close)
        gots, wants = leaves(got.value), leaves(expected.value)
        assert sharing([*gots, x, y]) == sharing([*wants, plain, plain_y]), f"{layout}: shared memory"
        assert [[g is a for a in (x, y)] for g in gots] == [[w is a for a in (plain, plain_y)] for w in wants], (
            f"{layout}: the argument itself"
        )


def numbers(value):
    """The numeric leaves of a result."""
    return [v for v in leaves(value) if isinstance(v, (np.ndarray, np.generic, Tracer))]


def fails(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return oracles.outcome(program(text), fnp, *arguments()).error is not None


WORKING = [text for text in ALL if not fails(text) and not any(name in text for name in OWN)]


@pytest.mark.parametrize("text", [text for text in WORKING if not any(word in text for word in ROUGH)])
def test_derivatives_of_writes(text):
    """In both modes, of everything that the program leaves behind: also where an index repeats."""
    f, (x, y) = program(text), arguments()
    t, s = np.sin(np.arange(12.0)).reshape(3, 4), np.cos(3 * np.arange(12.0)).reshape(3, 4)

    def total(x, y):
        return sum(np.sum(np.sin(0.3 * v)) for v in [*numbers(f(np, x, y)), x, y])

    def plain(h):
        return total(np.asarray(x + h * t, np.longdouble), np.asarray(y + h * s, np.longdouble))

    wanted = float(derivative(plain, 0.0, 1.0))
    along_x, along_y = fx.grad(total, (0, 1))(x.copy(), y.copy())
    np.testing.assert_allclose((along_x * t).sum() + (along_y * s).sum(), wanted, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fx.jvp(total, (x.copy(), y.copy()), (t, s))[1], wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("text", WORKING)
def test_vmap_of_writes_is_a_loop(text):
    f, (x, y) = program(text), arguments()

    def run(x, y):
        return [*numbers(f(np, x, y)), x * 1, y * 1]

    def loop(xs, ys):
        results = [run(a, b) for a, b in zip(xs, ys, strict=True)]
        return [np.stack([np.asarray(r[k]) for r in results]) for k in range(len(results[0]))]

    mine, plain = ([np.stack([x, x[::-1] + 0.1, y]), np.stack([y, 2 * y, x])] for _ in range(2))
    with np.errstate(all="ignore"):
        expected = loop(*plain)
    oracles.assert_same((*fx.vmap(run)(*mine), *mine), (*expected, *plain), rtol=1e-12, atol=1e-12)


# --- augmented operators ------------------------------------------------------------------------------------------------------------------

OPERATORS = "iadd isub imul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor imatmul".split()  # noqa: SIM905
NUMBERS = [2, True, 2.0, 1j, -1, 300, 0, np.int64(2), np.float32(2), np.bool(True), np.uint8(3), np.float16(1.5)]
SIGNED = ("int8", "int16", "int32", "int64")
ARRAYS = [[1, 2, 3], np.array(2.0), np.ones((1, 3)), np.ones((2, 3), bool), [1.5, 2, 3], np.ones(2)]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_augmented_operators_keep_the_dtype_and_raise_numpys_errors(name, dtype):
    """Among them UFuncTypeError for casts that are not of the same kind, and OverflowError for Python numbers that do not fit."""
    matrix = name == "imatmul"
    array = np.array([[3, 1], [2, 1]] if matrix else [3, 1, 2]).astype(dtype)
    others = [np.array([[1, 2], [2, 1]] if matrix else [1, 2, 1]).astype(d) for d in DTYPES]
    far = [2**63, -(2**64)] if dtype in SIGNED and name != "itruediv" else []  # a graph's Python ints are int64
    for other in others if matrix else [*others, *ARRAYS, *NUMBERS, *far]:
        f = lambda x, other=other: ((y := getattr(operator, name)(x, other)), y is x)  # noqa: E731
        rtol = 1e-2 if "16" in dtype else 1e-6
        oracles.assert_agrees(f, array, rtol=rtol, what=f"{name} {other!r}")


def test_errors_of_writes_show_the_users_line():
    def cast(x):
        x += 1j

    def overflow(x):
        x.view("u8")[...] += -1

    def read_only(x):
        np.diagonal(x[:3, :3])[0] = 1

    for f, error in ((cast, np._core._exceptions._UFuncOutputCastingError), (overflow, OverflowError), (read_only, ValueError)):
        with pytest.raises(error) as caught:
            oracles.reference_jit(f)(np.ones((3, 4)))
        assert any(frame.path.name == "test_write_semantics.py" and frame.name == f.__name__ for frame in caught.traceback)


def test_the_last_write_wins_in_the_gradient_too():
    def f(x, v):
        x[[0, 2, 0]] = v
        x.flat[[1, 1]] = v[:2] * 3.0
        np.put(x, [2, 2], v[1:])
        return (x * np.arange(1.0, 4.0)).sum()

    gradients = fx.grad(f, (0, 1))(np.ones(3), np.ones(3))
    np.testing.assert_array_equal(gradients[0], np.zeros(3))
    np.testing.assert_array_equal(gradients[1], [0.0, 6.0, 4.0])


def test_integers_have_no_negative_powers():
    for f in (lambda x: x**-1, lambda x: operator.ipow(x, -2), lambda x: np.power(x, -1, out=x), lambda x: x**-1.0):
        oracles.assert_agrees(f, np.array([1, 2, 4]))
