"""Promotion (NEP 50): dtype, value and error of every operation on every pair of dtypes and Python scalars are NumPy's."""

import math
import operator

import numpy as np
import oracles
import pytest
import sample

DTYPES = [*sample.DTYPES]
PYTHON = {"py_bool": True, "py_int": 3, "py_float": 1.5}

UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "float_power": np.float_power,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "arctan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "heaviside": np.heaviside,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
OTHERS = {
    "where": lambda x, y: np.where(np.array([True, False, True]), x, y),
    "concatenate": lambda x, y: np.concatenate([np.atleast_1d(x), np.atleast_1d(y)]),
    "stack": lambda x, y: np.stack([x, y]),
    "matmul": lambda x, y: np.matmul(np.atleast_1d(x), np.atleast_1d(y)),
}
UNARY = {
    "negative": np.negative,
    "positive": np.positive,
    "absolute": np.absolute,
    "fabs": np.fabs,
    "sign": np.sign,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    **{name: getattr(np, name) for name in "floor ceil trunc rint signbit log1p expm1 exp2 log2 log10 tan sinh cosh".split()},  # noqa: SIM905
    **{name: getattr(np, name) for name in "arcsin arccos arctan arcsinh arccosh arctanh cbrt deg2rad rad2deg".split()},  # noqa: SIM905
    "round": np.round,
    "round_tenths": lambda x: np.round(x, 1),
    "round_tens": lambda x: np.round(x, -1),
    "invert": np.invert,
    "logical_not": np.logical_not,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "all": np.all,
    "any": np.any,
    "var": np.var,
    "std": np.std,
    "argmax": np.argmax,
    "count_nonzero": np.count_nonzero,
    "clip_py": lambda x: np.clip(x, 1, 2),
    "clip_float": lambda x: np.clip(x, 0.5, 2),
}


def samples(name):
    """An array, a 0-d array and a NumPy scalar of the dtype, or the Python scalar."""
    if name in PYTHON:
        return [PYTHON[name]]
    array = np.array([1, 0, 3]).astype(name)
    return [array, array[1:2].reshape(()), array[2]]


def assert_all_agree(f, cases, what) -> None:
    """As ``assert_agrees`` for each case, with one trace for all those that NumPy computes."""
    outcomes = [oracles.outcome(f, *case) for case in cases]
    for case, plain in zip(cases, outcomes, strict=True):
        if plain.error is not None:
            oracles.assert_same_error(oracles.outcome(oracles.reference_jit(f), *case).error, plain.error, f"{what}{case}")
    good = [(case, plain.value) for case, plain in zip(cases, outcomes, strict=True) if plain.error is None]
    results = oracles.reference_jit(lambda cases: [f(*case) for case in cases])([case for case, _ in good])
    for (case, expected), got in zip(good, results, strict=True):
        oracles.assert_same(got, expected, what=f"{what}{case}")


EVERY_KIND = {"add", "power", "less", "maximum", "where"}  # the others meet arrays with arrays, scalars and 0-d arrays only


@pytest.mark.parametrize("operation", [*UFUNCS, *OTHERS])
@pytest.mark.parametrize("left", [*DTYPES, *PYTHON])
def test_pairs(operation, left):
    some = slice(None) if operation in EVERY_KIND else slice(1)
    cases = [(x, y) for right in [*DTYPES, *PYTHON] for x in samples(left)[some] for y in samples(right)]
    assert_all_agree({**UFUNCS, **OTHERS}[operation], cases, operation)


IN_FLOAT32 = ("round_tenths", "round_tens", "clip_py")  # where NumPy and functx change bfloat16 to float32 in different places


@pytest.mark.parametrize("operation", UNARY)
def test_one_operand(operation):
    names = [name for name in [*DTYPES, *PYTHON] if name != "bfloat16" or operation not in IN_FLOAT32]
    assert_all_agree(UNARY[operation], [(x,) for name in names for x in samples(name)], operation)


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
EXPONENTS = [0, 1, 2, 3, True, 2.0, 0.5]


@pytest.mark.parametrize("name", DTYPES)
def test_powers_that_numpys_operator_computes_another_way(name):
    """``x ** 2`` is a square, in another dtype than np.power for bools; on arrays, 0-d arrays and scalars."""
    for x in samples(name):
        for n in EXPONENTS:
            oracles.assert_agrees(lambda x, n=n: x**n, x, rtol=1e-15 if np.iscomplexobj(x) else 0.0, what=f"{x!r} ** {n!r}")


NUMBERS = [True, False, 0, 2, -3, 7, 0.0, -0.0, 0.5, -1.5, 2.0]


@pytest.mark.parametrize("symbol", OPERATORS)
def test_python_operators_between_python_numbers_are_pythons(symbol):
    for x in NUMBERS:
        for y in NUMBERS:
            if isinstance(oracles.outcome(OPERATORS[symbol], x, y).value, complex):
                continue  # (-3) ** 0.5: refused, naming np.power (test below)
            oracles.assert_agrees(OPERATORS[symbol], x, y, what=f"{x!r} {symbol} {y!r}")


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "**", "<", "=="])
def test_python_operators_with_a_literal(symbol):
    """One side known while tracing: the same types and errors."""
    for x in NUMBERS:
        for y in NUMBERS:
            if isinstance(oracles.outcome(OPERATORS[symbol], x, y).value, complex):
                continue
            oracles.assert_agrees(lambda a, y=y: OPERATORS[symbol](a, y), x, what=f"traced {x!r} {symbol} {y!r}")
            oracles.assert_agrees(lambda b, x=x: OPERATORS[symbol](x, b), y, what=f"{x!r} {symbol} traced {y!r}")


@pytest.mark.parametrize("f", [operator.neg, operator.pos, abs, operator.invert])
def test_python_unary_operators(f):
    for x in NUMBERS:
        oracles.assert_agrees(f, x, what=f"{f.__name__}({x!r})")


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "**", "//", "%", "<<", ">>", "^", "<", "=="])
def test_operators_between_arrays_and_numbers(symbol):
    pairs = [(x, y) for name in DTYPES for x in samples(name) for y in PYTHON.values()]
    assert_all_agree(OPERATORS[symbol], [*pairs, *((y, x) for x, y in pairs)], symbol)


@pytest.mark.parametrize("f", [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.less, np.equal, np.greater_equal])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int32", "uint64"])
def test_python_ints_out_of_bounds(f, dtype):
    """u8 + 300 is an OverflowError, u8 < 300 a comparison by true value; traced Python ints are checked when the code runs."""
    x = np.array([0, 1, 100], dtype)
    for n in (300, -1, -129, 255, 127, 2**31, 2**62):
        oracles.assert_agrees(lambda a, n=n: f(a, n), x, what=f"{f.__name__}({dtype}, {n})")
        oracles.assert_agrees(lambda a, n=n: f(n, a), x, what=f"{f.__name__}({n}, {dtype})")
        oracles.assert_agrees(f, x, n, what=f"{f.__name__}({dtype}, traced {n})")


IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "**=": operator.ipow,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "<<=": operator.ilshift,
}


@pytest.mark.parametrize("symbol", IN_PLACE)
def test_in_place_operators_keep_the_dtype_or_raise(symbol):
    for left in DTYPES:
        for right in [*DTYPES, *PYTHON]:
            for x in samples(left)[::2]:
                for y in samples(right)[-1:]:
                    oracles.assert_agrees(IN_PLACE[symbol], x, y, what=f"{x!r} {symbol} {y!r}")


def test_kinds_through_operators_and_functions():
    """Python stays Python through operators; np functions make strong; 0-d operands of ufuncs give scalars; where gives 0-d arrays."""
    programs = [
        lambda n: n + 1,
        lambda n: -n * 2,
        lambda n: n < 3,
        lambda n: np.add(n, 1),
        lambda n: np.sin(n),
        lambda n: abs(n),
        lambda n: np.where(n > 1, n, 0),
        lambda n: np.float32(1) * n,
        lambda n: (n + 1) * np.float32(2),
        lambda n: np.ones(2, np.float32) * n,
        lambda n: np.ones(2, np.float32) * np.multiply(n, 1),
        lambda n: np.int8(3) + n,
        lambda n: n,
        lambda n: np.square(n) + n,
    ]
    for i, f in enumerate(programs):
        for n in (True, 2, 2.5, np.float32(2), np.float64(2), np.int8(2), np.array(2.0), np.array([2.0])):
            oracles.assert_agrees(f, n, what=f"program {i} of {n!r}")


@pytest.mark.parametrize("x", [1e300, 1e17, 5.0, -5.5, 0.0, math.inf, math.nan, 3])
@pytest.mark.parametrize("y", [300, 0.1, -0.1, math.inf, -math.inf, 0.0])
def test_remainders_of_python_numbers_are_pythons(x, y):
    """Exact, also where the quotient is not."""
    oracles.assert_agrees(lambda x, y: (x % y, divmod(x, y)), x, y)


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("x", [1j, 2.5, True])
def test_conversions_of_python_numbers_are_pythons(convert, x):
    oracles.assert_agrees(convert, x)


def test_the_least_common_multiple_overflows_as_numpys():
    x = np.array([-7, 100, -128, 7, 0], np.int8)
    oracles.assert_agrees(lambda x: np.lcm(x[:, None], x), x)
