"""NumPy's semantics beyond values: out=, views and memory order, keywords, casting errors, conversions to plain numbers."""

import copy
import itertools
import math
import pickle

import numpy as np
import oracles
import pytest
import sample

import functx as fx
import functx.numpy as fnp
from functx.numpy import protocols

X = sample.data((3, 4))
LAYOUTS = {
    "C": lambda x: x.copy(),
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "a part": lambda x: np.pad(x, 1)[1:-1, 1:-1],
}


def of_layout(name, x=X):
    """The array in a memory layout. (Deep copies lose it: make it anew for each call.)"""
    return LAYOUTS[name](x)


def assert_agrees_in_every_layout(f, x=X):
    """f on the plain array, and jitted: results and what became of the argument."""
    for name in LAYOUTS:
        plain, mine = of_layout(name, x), of_layout(name, x)
        expected = oracles.outcome(f, plain)
        got = oracles.outcome(oracles.reference_jit(f), mine)
        if expected.error is not None:
            oracles.assert_same_error(got.error, expected.error, name)
            continue
        if got.error is not None:
            raise got.error
        oracles.assert_same(got.value, expected.value, what=f"result of {name}")
        oracles.assert_same(mine, plain, what=f"argument of {name}")


# --- views and copies ---------------------------------------------------------------------------------------------------------------------

REARRANGED = {
    "reshape(12)": lambda x: x.reshape(12),
    "reshape(2, 6)": lambda x: x.reshape(2, 6),
    "reshape(3, 2, 2)": lambda x: x.reshape(3, 2, 2),
    "reshape(3, 4)": lambda x: x.reshape(3, 4),
    "np.reshape": lambda x: np.reshape(x, (4, 3)),
    "ravel": lambda x: x.ravel(),
    "np.ravel": lambda x: np.ravel(x),
    "flatten": lambda x: x.flatten(),
    "T": lambda x: x.T,
    "T.ravel": lambda x: x.T.ravel(),
    "T.reshape": lambda x: x.T.reshape(2, 6),
    "transpose.T": lambda x: x.transpose(1, 0).T.reshape(-1),
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "rows": lambda x: x[::2],
    "backwards": lambda x: x[::-1, ::-1].reshape(-1),
    "index array": lambda x: x[[0, 1]],
    "mask": lambda x: x[np.array([True, False, True])],
    "newaxis": lambda x: x[:, None],
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "flip": lambda x: np.flip(x, 0),
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "copy": lambda x: x.copy(),
    "np.copy": lambda x: np.copy(x),
    "astype": lambda x: x.astype(float),
    "take": lambda x: np.take(x, 1, axis=0),
    "asarray": lambda x: fnp.asarray(x),
    "array": lambda x: fnp.array(x),
    "ascontiguousarray": lambda x: fnp.ascontiguousarray(x),
    "atleast_1d": lambda x: np.atleast_1d(x),
    "positive": lambda x: +x,
    "where": lambda x: np.where(True, x, 0.0),
    "concatenate": lambda x: np.concatenate([x]),
    "clip": lambda x: np.clip(x, -9, 9),
    "roll": lambda x: np.roll(x, 0),
    "tile": lambda x: np.tile(x, 1),
    "repeat": lambda x: np.repeat(x, 1),
    "pad": lambda x: np.pad(x, 0),
    "broadcast_to": lambda x: np.broadcast_to(x, (3, 4)),
    "broadcast_to, wider": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "real": lambda x: x.real,
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x)[0],
    "vstack": lambda x: np.vstack([x]),
    "ellipsis": lambda x: x[...],
    "sum over nothing": lambda x: x.sum(axis=()),
    "diagonal by index": lambda x: x[[0, 1], [0, 1]],
    "transpose, reshaped": lambda x: x.T.reshape(4, 3),
}


@pytest.mark.parametrize("case", REARRANGED)
def test_writing_into_a_result_changes_the_base_when_numpys_does(case):
    def f(x):
        y = REARRANGED[case](x)
        y[...] = y * 10 + 1  # where the result is read-only, NumPy's error
        return y.copy()

    assert_agrees_in_every_layout(f)


@pytest.mark.parametrize("case", REARRANGED)
def test_results_see_later_writes_when_numpys_do(case):
    def f(x):
        y = REARRANGED[case](x)
        x[1] += 100.0
        return y + 0

    assert_agrees_in_every_layout(f)


@pytest.mark.parametrize("case", REARRANGED)
def test_memory_order_of_results(case):
    """Whether a further reshape gives a view: the layout is NumPy's all along the way, through fresh results too."""

    def f(x):
        y = REARRANGED[case](x) * 2
        flat = y.reshape(-1)
        flat[0] = -1.0
        z = np.zeros_like(y)
        z.T.ravel()[...] = 5.0
        return y, z

    assert_agrees_in_every_layout(f)


def test_fresh_results_are_independent():
    """Equal results are not one array, arguments come back as themselves, views as views."""
    x = X.copy()
    a, b, same, view = oracles.reference_jit(lambda x: (x + 1, x + 1, x, x[1:]))(x)
    assert same is x and np.shares_memory(view, x) and not np.shares_memory(a, b)
    a[0, 0] = -7
    assert b[0, 0] == x[0, 0] + 1 and a.flags.writeable and b.flags.writeable


# --- out= ---------------------------------------------------------------------------------------------------------------------------------

OUTS = {
    "add": lambda x, out: np.add(x, 1.0, out=out),
    "a tuple": lambda x, out: np.multiply(x, x, out=(out,)),
    "exp": lambda x, out: np.exp(x, out),
    "into an operand": lambda x, out: np.add(x, out, out=out),
    "sum": lambda x, out: np.sum(x, axis=0, out=out[0]),
    "mean": lambda x, out: x.mean(0, out=out[1]),
    "var": lambda x, out: np.var(x, axis=0, out=out[1]),
    "std": lambda x, out: x.std(axis=0, out=out[1]),
    "max": lambda x, out: np.max(x, 1, out=out[:, 0]),
    "ptp": lambda x, out: np.ptp(x, 0, out=out[2]),
    "clip": lambda x, out: np.clip(x, 0.5, 1.0, out=out),
    "clip, one bound": lambda x, out: np.clip(x, 0.5, None, out=out),
    "clip, method": lambda x, out: x.clip(0.5, 1.0, out=out),
    "matmul": lambda x, out: np.matmul(x, np.eye(4), out=out),
    "dot": lambda x, out: np.dot(x, np.eye(4), out=out),
    "outer": lambda x, out: np.outer(x[:, 0], x[0], out=out),
    "concatenate": lambda x, out: np.concatenate([x[:1], x[1:]], out=out),
    "stack": lambda x, out: np.stack([x[0], x[1], x[2]], out=out),
    "broadcast into": lambda x, out: np.add(x[0], 1, out=out),
    "a smaller out": lambda x, out: np.add(x, 1, out=out[0]),
    "comparison": lambda x, out: np.less(x, 1, out=out),
    "maximum": lambda x, out: np.maximum(x, out, out=out),
    "argmax": lambda x, out: np.argmax(x, 0, out=out[0]),
    "through a view": lambda x, out: np.add(x[:, :2], 1, out=out[:, ::2]),
    "itself shifted": lambda x, out: np.add(out[:-1], x[1:], out=out[1:]),
}


@pytest.mark.parametrize("case", OUTS)
@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_out(case, dtype):
    """The write, the returned array (out itself), and the casting error where the result does not fit."""

    def f(x, out):
        result = OUTS[case](x, out)
        result += 1
        return out * 1

    oracles.assert_agrees(f, X, np.ones((3, 4), dtype), what=case)


def test_out_in_a_gradient():
    def f(x):
        y = fnp.zeros((3, 4))
        np.multiply(x, 3.0, out=y)
        np.add(y[0], x[1], out=y[0])
        np.sum(x, axis=0, out=y[2])
        return (y * X).sum()

    expected = np.stack([3 * X[0] + X[2], 3 * X[1] + X[0] + X[2], X[2]])
    oracles.assert_same(fx.grad(f)(X), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "f", [lambda x, b: b.__iadd__(x), lambda x, b: np.add(x, 1, out=b), lambda x, b: b.__setitem__(0, x[0]), lambda x, b: np.copyto(b, x)]
)
def test_a_traced_value_is_not_written_into_a_plain_array(f):
    buffer = np.zeros((3, 4))
    with pytest.raises(TypeError, match=r"fnp\.zeros"):
        oracles.reference_jit(lambda x: f(x, buffer))(X)
    with pytest.raises(TypeError, match=r"fnp\.zeros"):
        fx.grad(lambda x: f(x, buffer).sum())(X)
    assert not buffer.any()


# --- keywords, methods --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("order", lambda x: np.stack([x, x], order="F")),
        ("reflect_type", lambda x: np.pad(x, 1, "reflect", reflect_type="odd")),
        ("sections", lambda x: np.split(x, sections=2)),
        ("axes", lambda x: np.matmul(x, x.T, axes=[(0, 1), (0, 1), (0, 1)])),
    ],
)
def test_keywords_that_are_not_traced_are_named(name, call):
    with pytest.raises(TypeError, match=name):
        oracles.reference_jit(call)(X)


@pytest.mark.parametrize("f", [np.linalg.svd, np.trim_zeros, np.histogram2d, np.interp, np.unwrap, np.isnat])
def test_functions_that_are_not_traced_are_named(f):
    with pytest.raises(fx.errors.UnsupportedError, match=rf"{f.__name__}(.|\n)*fix:"):
        oracles.reference_jit(lambda x: f(x, x, x) if f is np.interp else f(x) if f in (np.linalg.svd, np.sort, np.median) else f(x, x))(X)


@pytest.mark.parametrize("name", sorted(protocols.REFUSED))
def test_refused_members_say_what_to_write(name):
    """A method when it is called, an attribute when it is read; both name the line and a fix."""
    with pytest.raises(fx.errors.UnsupportedError, match=rf"ndarray\.{name} (.|\n)*the line(.|\n)*fix:"):
        oracles.reference_jit(lambda x: getattr(x, name)())(X)  # the line


def test_every_member_of_ndarray_is_there():
    assert [name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(fx.trace.Tracer, name)] == []


def test_hasattr_answers_as_for_the_plain_value():
    """For a refused attribute of an array or scalar it raises; numbers and scalars lack what they lack in Python and NumPy."""
    names = sorted({*protocols.METHODS, *protocols.ATTRIBUTES, *protocols.REFUSED, "no_such_member"} - {"at"})
    methods = [n for n in names if callable(getattr(np.ndarray, n, None)) or n not in protocols.REFUSED]
    for value, asked in ((1.5, names), (2, names), (True, names), (np.float64(1.5), methods), (np.int32(2), methods), (X, methods)):
        answers = []
        oracles.reference_jit(lambda v, a=answers, asked=asked: a.append({n: hasattr(v, n) for n in asked}))(value)
        assert answers[0] == {n: hasattr(value, n) for n in asked}, repr(value)
    with pytest.raises(fx.errors.UnsupportedError, match=r"ndarray\.data"):
        oracles.reference_jit(lambda x: hasattr(x, "data"))(X)


@pytest.mark.parametrize("name", ["real", "imag", "conjugate"])
def test_members_of_python_numbers(name):
    for n in (1.5, -2, True, float("nan")):
        oracles.assert_agrees(lambda n: v() if callable(v := getattr(n, name)) else v, n, what=name)


def test_assigning_to_an_attribute_is_refused():
    with pytest.raises(fx.errors.UnsupportedError, match=r"ndarray\.shape(.|\n)*reshape"):
        oracles.reference_jit(lambda x: setattr(x, "shape", (12,)))(X)
    with pytest.raises(AttributeError):
        oracles.reference_jit(lambda n: setattr(n, "shape", ()))(1.5)


@pytest.mark.parametrize("name", sorted({*protocols.METHODS, *protocols.ATTRIBUTES}))
def test_python_numbers_have_no_array_members(name):
    for n in (1.5, 2, True):
        if not hasattr(n, name):
            oracles.assert_agrees(lambda n: getattr(n, name)(), n, what=name)


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "min", "all", "any", "argmax", "argmin"])
def test_reductions_take_numpys_positional_arguments(name):
    """The method and the function, axis and dtype by position, of empty and 0-d arrays too."""
    for shape in ((3, 4), (0, 4), (4, 0), (0,), ()):
        x = sample.data(shape)
        for axis in (None, 0, -1, (0,), (0, 1)):
            oracles.assert_agrees(lambda x, a=axis: getattr(np, name)(x, a), x, rtol=1e-15, what=f"np.{name} {shape} {axis}")
            oracles.assert_agrees(lambda x, a=axis: getattr(x, name)(a, keepdims=True), x, rtol=1e-15, what=f"method {shape} {axis}")
    if name in ("sum", "mean", "var", "std"):
        for dtype in (np.float32, np.float64, np.float16):
            oracles.assert_agrees(lambda x, d=dtype: getattr(np, name)(x, 0, d), X.astype(np.float32), rtol=1e-6, what=f"{name} in {dtype}")
            oracles.assert_agrees(
                lambda x, d=dtype: getattr(np, name)(x, dtype=d), np.arange(5), rtol=1e-6, what=f"{name} of ints in {dtype}"
            )


@pytest.mark.parametrize("name", ["mean", "var", "std", "sum"])
def test_float16_is_averaged_in_float32(name):
    x = np.linspace(200, 400, 1000).astype(np.float16)
    oracles.assert_agrees(getattr(np, name), x)
    oracles.assert_agrees(lambda x: getattr(x.reshape(10, 100), name)(axis=1), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint8", "float16", "float32", "float64"])
def test_astype(dtype):
    for source, casting in itertools.product(
        ["bool", "int8", "int64", "uint8", "float32", "float64"], ["no", "equiv", "safe", "same_kind", "unsafe"]
    ):
        x = np.array([0, 1, 2, 100]).astype(source)
        oracles.assert_agrees(lambda x, c=casting: x.astype(dtype, casting=c), x, what=f"{source} to {dtype}, {casting}")
        oracles.assert_agrees(lambda x: x.astype(dtype), x[1], what=f"scalar {source} to {dtype}")


@pytest.mark.parametrize("case", ["dst", "scalar", "row", "cast", "same_kind", "unsafe"])
def test_copyto(case):
    source = {"scalar": 2.5, "row": X[0], "cast": np.ones((3, 4), complex).real}.get(case, X)
    dtype = {"cast": int, "same_kind": np.float32, "unsafe": int}.get(case, float)
    casting = "unsafe" if case == "unsafe" else "same_kind"

    def f(dst, src):
        np.copyto(dst, src, casting=casting)

    oracles.assert_agrees(f, np.zeros((3, 4), dtype), source)


def test_joining_tracers_with_arrays():
    """Lists of traced, plain and Python values, nested too."""
    row = np.arange(4.0)
    programs = [
        lambda x: np.concatenate([x, np.ones((1, 4), np.float32)]),
        lambda x: np.stack([row, x[0], [1, 2, 3, 4]]),
        lambda x: np.vstack([x, row]),
        lambda x: np.hstack([x[0], 5.0, row]),
        lambda x: np.concatenate([x[0], [1, 2]]),
        lambda x: np.concatenate([x, 2.0], axis=None),
        lambda x: fnp.sum([x[0], row]),
        lambda x: fnp.maximum([x[0, 0], 1], [0.5, x[1, 1]]),
        lambda x: fnp.array([x[0], row]) @ x[0],
        lambda x: x + [1, 2, 3, 4],
        lambda x: [1, 2, 3, 4] * x,
        lambda x: fnp.array([[x[0, 0], 2], [3, 4]]),
        lambda x: np.where([True, False, True, True], x, 0),
        lambda x: x[0] @ [1, 2, 3, 4],
        lambda x: fnp.array(x, ndmin=3),
        lambda x: fnp.array([x[0, 0], x[0, 1]], dtype=np.float32),
    ]
    for i, f in enumerate(programs):
        for dtype in (np.float64, np.float32, np.int32):
            oracles.assert_agrees(f, (X * 4).astype(dtype), rtol=1e-15, what=f"program {i} of {dtype.__name__}")


# --- plain Python values ------------------------------------------------------------------------------------------------------------------

CONVERSIONS = {
    "float": float,
    "int": int,
    "bool": bool,
    "complex": complex,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "len": len,
    "list": list,
    "iter": lambda x: sum(x),
    "format": lambda x: f"{x:.3f}",
    "index": lambda x: list(range(9))[x],
    "hash": hash,
    "round trip": lambda x: np.array(x.tolist()),
    "unpack": lambda x: (lambda a, *rest: a)(*x),
    "in": lambda x: 1.0 in x,
    "str": lambda x: bool(str(x)),
    "divmod by int": lambda x: [0] * int(x),
    "round": round,
    "round to digits": lambda x: round(x, 1),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_conversions_of_known_values(case):
    """Without jit values are known: what NumPy gives, or its error. (What stays traced, as the items of list(x) do, is not compared.)"""
    for value in (1.5, 2, True, np.float64(2.5), np.int32(3), np.array(2.0), np.array([1.5]), np.array([3, 1]), np.array([[1.0, 2.0]])):
        seen = []

        def f(x, v, seen=seen):
            seen.append(CONVERSIONS[case](v))
            return x

        expected = oracles.outcome(CONVERSIONS[case], value)
        got = oracles.outcome(lambda v, f=f: fx.jvp(f, (1.0, v), (1.0, None)), value)
        if expected.error is not None:
            oracles.assert_same_error(got.error, expected.error, f"{case} of {value!r}")
            continue
        assert got.error is None, f"{case} of {value!r}: {got.error!r}"
        if not any(isinstance(v, fx.trace.Tracer) for v in (seen[0] if isinstance(seen[0], list) else [seen[0]])):
            oracles.assert_same(seen[0], expected.value, what=f"{case} of {value!r}")


@pytest.mark.parametrize("case", [c for c in CONVERSIONS if c not in ("len", "list", "iter", "unpack", "str")])
def test_conversions_of_unknown_arrays_raise_under_jit(case):
    value = (
        np.array(2)
        if case in ("index", "divmod by int")
        else np.array([[1.0]])
        if case in ("tolist", "round trip", "in")
        else np.float64(2.0)
    )
    with pytest.raises(TypeError):
        oracles.reference_jit(CONVERSIONS[case])(value)


@pytest.mark.parametrize("case", ["float", "complex", "item", "tolist"])
def test_conversions_of_differentiated_values_raise(case):
    for f in (fx.grad, lambda f: oracles.reference_jit(fx.grad(f))):
        with pytest.raises(TypeError, match="gradient"):
            f(lambda x: x * (CONVERSIONS[case](x * 2.0), 1.0)[1])(np.float64(2.0))


def test_divmod():
    for a, b in ((7, 3), (-7.5, 2), (7, -2.5), (True, 2)):
        oracles.assert_agrees(divmod, a, b)
        oracles.assert_agrees(lambda a, b=b: divmod(a, b) + divmod(b, a), a)
    oracles.assert_agrees(divmod, 1, 0)
    oracles.assert_agrees(lambda n: divmod(n, "a"), 1)
    oracles.assert_same(fx.grad(lambda x: divmod(x, 2.0)[1] * x)(7.5), 1.5 + 7.5)
    for x, y in ((X, 2), (X, -X[::-1]), (np.int32(7), np.array([0, 2, -3])), (np.float32(2.5), 0)):
        oracles.assert_agrees(lambda x, y: (divmod(x, y), divmod(y, x), np.divmod(x, y)), x, y)
        oracles.assert_agrees(lambda x, y: np.divmod(x, y, dtype=np.float64), x, y)


def test_divmod_writes_both_results():
    def f(x):
        y = np.zeros_like(x)
        results = np.divmod(x, 2, out=(y, x))
        return y, results[0] + results[1]

    oracles.assert_agrees(f, np.array([1.5, -7.0, 4.0]))


# --- copies, pickles, items ---------------------------------------------------------------------------------------------------------------

COPIES = {
    "copy of a view": lambda x: copy.copy(x[0]),
    "deepcopy of a view": lambda x: copy.deepcopy(x[0]),
    "copy": lambda x: copy.copy(x),
    "copy of a transposed view": lambda x: copy.copy(x.T),
    "copy of a scalar": lambda x: copy.copy(x[0, 0]),
    "copy of a 0-d array": lambda x: copy.copy(x[0, 0, ...]),
    "deepcopy of containers": lambda x: copy.deepcopy({"a": [x[0], x[1]], "b": x})["a"][1],
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_have_memory_of_their_own(case):
    def f(x):
        y = COPIES[case](x)
        y += 1
        return y

    assert_agrees_in_every_layout(f)
    oracles.assert_same(fx.grad(lambda x: (f(x) * 3).sum())(X), fx.grad(lambda x: (COPIES[case](x) * 3).sum())(X))


def test_deepcopy_keeps_what_is_shared():
    def f(x):
        a, b = copy.deepcopy([x, x])
        a += 1
        return a - x, b

    oracles.assert_agrees(f, X)
    oracles.assert_agrees(lambda n: copy.deepcopy([n, copy.copy(n)]), 1.5)


def test_tracers_are_not_pickled():
    for value in (X, 1.5):
        with pytest.raises(fx.errors.UnsupportedError, match=r"pickled(.|\n)*fix:"):
            oracles.reference_jit(pickle.dumps)(value)


def test_items_are_not_deleted():
    oracles.assert_agrees(lambda x: x.__delitem__(0), X)


def test_python_arguments_are_specialized_when_looked_at():
    f = oracles.reference_jit(lambda x, n, p: x[:n] * 2 if p else x + n)
    for n, p in ((1, True), (2, True), (2, False), (1, True)):
        oracles.assert_same(f(X, n, p), X[:n] * 2 if p else X + n)
    assert f.cache_info().traces == 3


def test_printing_a_tracer_never_fails():
    seen = []

    def f(x):
        seen.append((str(x), repr(x[0]), f"{x}"))
        return x.sum()

    oracles.reference_jit(f)(X)
    fx.grad(f)(X)
    assert all("f64[3,4]" in text for texts in seen for text in (texts[0], texts[2])) and "f64[4]" in seen[0][1]


def test_arguments_survive_an_error():
    """After an error inputs are unchanged, also those that would have been written before it."""

    def f(x, i):
        x += 1
        return x[i]

    x = X.copy()
    with pytest.raises(IndexError):
        oracles.reference_jit(f)(x, 5)
    oracles.assert_same(x, X)
    oracles.assert_agrees(f, copy.deepcopy(X), 2)
