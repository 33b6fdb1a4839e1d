"""The cpp backend against the reference backend: every primitive, dtype and shape; layouts, errors, accuracy, caching, threads."""

import math
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from graph_cases import (
    BOOL,
    DTYPES,
    F32,
    F64,
    FUNCTIONS,
    I64,
    SHAPES,
    Case,
    at_line,
    at_the_edges,
    compare,
    compiled,
    special,
    values,
)

from functx.errors import BackendError, IndexOutOfBoundsError, IntegerOverflowError
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Input, Literal, Output, Var
from functx.primitive import PRIMITIVES, Emitter, Primitive
from functx.shapes import Dim

all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# --- elementwise --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, *map(np.dtype, ("i1", "u1", "i2", "u2", "u4", "u8"))], ids=str)
def test_elementwise_at_the_edges(dtype):
    at_the_edges(dtype).check(ulp=4)


@pytest.mark.parametrize("dtype", [*DTYPES, *map(np.dtype, ("i1", "u1", "i2", "u2", "u4", "u8"))], ids=str)
def test_conversions(dtype):
    case = Case()
    x = case.input(values((1000,), dtype))
    targets = [np.dtype(t) for t in ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]]
    case.output(*(case.b.convert(x, dtype=t, checked=False) for t in targets))
    if dtype.kind == "f":  # NumPy's answer to what does not fit is the processor's, for those targets that it converts to directly
        edge = case.input(special(dtype)[0])
        case.output(*(case.b.convert(edge, dtype=np.dtype(t), checked=False) for t in ("i4", "i8", "?", "f8", "f4")))
    else:
        edge = case.input(special(dtype)[0])
        case.output(*(case.b.convert(edge, dtype=t, checked=False) for t in targets))
    with np.errstate(all="ignore"):
        case.check()


@all_dtypes
def test_elementwise_shapes(dtype):
    case = Case()
    for shape in SHAPES:
        x, y = case.random(shape, dtype), case.random(shape, dtype, 1)
        z = case.b.add(x, case.b.mul(x, y))
        case.output(z, case.b.max(z, y, tie="half"))
        if dtype.kind == "f":
            case.output(case.b.tanh(z), case.b.exp(case.b.neg(case.b.mul(z, z))))
    case.check(ulp=4)


def test_literals_are_exact():
    case = Case()
    for dtype in (F32, F64):
        info = np.finfo(dtype)
        edges = (np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal)
        for value in (0.1, -0.0, 1 / 3, np.pi * 1e10, 1e-7, 123456.789, *edges):
            case.output(Literal(value, dtype), case.b.full((2,), value, dtype))
    for code in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]:
        info = np.iinfo(code)
        for value in (info.min, info.max, 7):
            case.output(Literal(value, np.dtype(code)), case.b.full((2,), value, np.dtype(code)))
    case.output(Literal(True), Literal(1.5 - 2j), case.b.full((2,), 1 + 2j, np.dtype("c8")), Literal(np.float16(1.5)))
    exe = case.check()
    zero = exe([])[2]
    assert zero == 0 and np.signbit(zero)


# --- movement -----------------------------------------------------------------------------------------------------------------------------


def moves(b, x, y):
    """Movements of two arrays of one shape."""
    shape, rank = x.aval.shape, x.aval.ndim
    size = math.prod(shape)
    yield b.reshape(x, shape=(size,))
    yield b.reshape(b.add(x, y), shape=(1, size, 1))
    yield b.transpose(x, perm=tuple(reversed(range(rank))))
    yield b.broadcast(x, shape=(2, *shape), dims=tuple(range(1, rank + 1)))
    yield b.broadcast(b.reshape(x, shape=(*shape, 1)), shape=(*shape, 3), dims=tuple(range(rank + 1)))
    pad = {"low": (1,) * rank, "high": tuple(range(rank))}
    yield b.pad(x, Literal(1, x.aval.dtype), **pad)
    padded = b.pad(b.add(x, y), Literal(1, x.aval.dtype), **pad)
    yield b.add(padded, b.full_like(padded, 1))
    for axis in range(rank):
        yield b.concatenate(x, y, b.add(x, y), axis=axis)
        yield b.iota(shape=shape, dtype=x.aval.dtype if x.aval.dtype.kind != "b" else I64, axis=axis)
        d = shape[axis]
        for start, n, step in ((0, d, 1), (d - 1, d, -1), (d // 3, (d - d // 3 + 1) // 2, 2), (d - 1, (d + 2) // 3, -3)):
            if n and d:
                region = {
                    "starts": tuple(start if k == axis else 0 for k in range(rank)),
                    "steps": tuple(step if k == axis else 1 for k in range(rank)),
                }
                part = b.slice(x, sizes=tuple(n if k == axis else e for k, e in enumerate(shape)), **region)
                yield part
                yield b.slice_set(y, part, **region)
                yield b.slice_set(b.zeros_like(y), b.add(part, part), **region)
    if size > 1 and rank > 1:
        swapped = b.transpose(x, perm=(*range(1, rank), 0))
        yield b.reshape(swapped, shape=shape)  # not expressible by strides
        yield b.transpose(b.reshape(swapped, shape=(size // shape[-1], shape[-1])), perm=(1, 0))


@all_dtypes
def test_movement(dtype):
    case = Case()
    for shape in SHAPES[:-2]:
        x, y = case.random(shape, dtype), case.random(shape, dtype, 1)
        case.output(*moves(case.b, x, y))
    case.check()


def test_movement_of_many_elements():
    case = Case()
    x, y = case.random((250, 301), F32), case.random((250, 301), F32, 1)
    case.output(*moves(case.b, x, y))
    case.check()


@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype("c8"), np.dtype("c16"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_movement_of_other_dtypes(dtype):
    case = Case()
    for shape in ((7,), (3, 5), (2, 3, 4)):
        x, y = (case.input(values(shape, F32, seed).astype(dtype)) for seed in (0, 1))
        case.output(*moves(case.b, x, y))
    case.check()


# --- reductions ---------------------------------------------------------------------------------------------------------------------------

REDUCED = [(5,), (3, 5), (2, 3, 4), (1, 6, 1), (4, 1, 5), (40001,), (300, 257), (257, 3, 101), (70000, 3), (3, 70000), (20, 5, 1000)]


@all_dtypes
def test_reductions(dtype):
    case = Case()
    b = case.b
    for shape in REDUCED:
        x = case.random(shape, dtype)
        rank = len(shape)
        subsets = [tuple(k for k in range(rank) if mask >> k & 1) for mask in range(1, 2**rank)]
        for axes in subsets:
            case.output(b.reduce_sum(x, axes=axes), b.reduce_max(x, axes=axes), b.reduce_min(b.add(x, x), axes=axes))
        for axis in range(rank):
            case.output(b.argmax(x, axis=axis), b.argmin(x, axis=axis))
        case.output(b.reduce_sum(b.transpose(x, perm=tuple(reversed(range(rank)))), axes=(0,)))
    case.check(rtol=1e-5 if dtype == F32 else 1e-13)


@pytest.mark.parametrize("shape", [(2, 3), (30, 30), (3, 700), (400, 400)], ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_reductions_of_a_value_whose_memory_another_result_takes_over(dtype, shape):
    def reduced(b, y, k):
        total = {"sum": lambda: b.reduce_sum(y, axes=(1,)), "max": lambda: b.reduce_max(y, axes=(1,)), "place": lambda: b.argmax(y, axis=1),
                 "squares": lambda: b.reduce_sum(b.mul(y, y), axes=(1,)), "exp": lambda: b.reduce_sum(b.exp(y), axes=(1,)),
                 "columns": lambda: b.reduce_sum(y, axes=(0,)), "all": lambda: b.reduce_sum(y, axes=(0, 1))}  # fmt: skip
        return total[k]()

    for names in (["sum"], ["max"], ["place"], ["squares"], ["exp"], ["columns"], ["all"], ["sum", "place", "squares"], ["exp", "max"]):
        case = Case()
        b = case.b
        y = b.dot_general(case.random(shape, dtype), case.random((shape[1], shape[1]), dtype), contract=((1,), (0,)), batch=((), ()))
        y = b.div(y, b.full(shape, 100.0, dtype))
        case.output(*(reduced(b, y, k) for k in names), b.add(y, y))
        case.check(rtol=1e-4 if dtype == F32 else 1e-12)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_reductions_of_nan_and_infinity(dtype):
    """NaN is the largest and the smallest; the first of equals is taken; infinite sums stay infinite."""
    case = Case()
    for shape in ((7,), (300,), (40, 40), (40, 5), (50000,), (600, 120)):
        for seed in range(2):
            x = values(shape, dtype, seed)
            x.ravel()[:: max(5, x.size // 7)] = np.inf if seed else np.nan
            v = case.input(x)
            for axis in range(len(shape)):
                case.output(*(getattr(case.b, n)(v, axes=(axis,)) for n in ("reduce_sum", "reduce_max", "reduce_min")))
                case.output(case.b.argmax(v, axis=axis), case.b.argmin(v, axis=axis))
    ends = case.input(np.full(9, -np.inf, dtype))
    case.output(case.b.argmax(ends, axis=0), case.b.reduce_max(ends, axes=(0,)), case.b.argmin(case.b.neg(ends), axis=0))
    case.check(rtol=1e-5)


def test_sums_of_nothing():
    case = Case()
    for shape, axes in (((0,), (0,)), ((3, 0), (1,)), ((0, 3), (0,)), ((0, 3), (1,)), ((2, 0, 3), (0, 1))):
        for dtype in (F32, I64, BOOL):
            case.output(case.b.reduce_sum(case.random(shape, dtype), axes=axes))
    case.check()


LONG = [((1 << 20,), 0), ((4, 1 << 18), 1), ((1 << 18, 4), 0), ((3000, 300), 0), ((1 << 16, 3), 0)]


@pytest.mark.parametrize("shape, axis", LONG, ids=str)
def test_sums_are_as_accurate_as_numpy(shape, axis):
    for dtype in (F32, F64):
        case = Case()
        x = np.random.default_rng(1).random(shape).astype(dtype)
        case.output(case.b.reduce_sum(case.input(x), axes=(axis,)))
        got = np.atleast_1d(compiled(case.graph())([x])[0])
        rows = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
        exact = np.array([math.fsum(row.tolist()) for row in rows])
        error = np.abs(got - exact).max() / np.spacing(dtype.type(exact.max()))
        numpy_error = np.abs(np.atleast_1d(np.sum(x, axis)) - exact).max() / np.spacing(dtype.type(exact.max()))
        assert error <= max(2, numpy_error)


def test_threads_do_not_change_results():
    """Work is cut by size, never by the number of threads."""
    script = """
import hashlib, numpy as np, functx.backends, functx.ops
from functx.backend import get_backend
from functx.config import Config
from functx.ir import AbstractArray, Input, Output, Var
from functx.primitive import Emitter
b = Emitter(); x = Var(AbstractArray((500, 1001), np.dtype("f4"))); y = Var(AbstractArray((1001, 300), np.dtype("f4")))
outs = [b.reduce_sum(x, axes=a) for a in ((0,), (1,), (0, 1))] + [b.tanh(x), b.dot_general(x, y, contract=((1,), (0,)), batch=((), ()))]
graph = b.build([Input(x), Input(y)], map(Output, outs))
exe = get_backend("cpp").compile(graph, Config())
rng = np.random.default_rng(0)
args = [rng.standard_normal(v.aval.shape).astype("f4") for v in (x, y)]
print(hashlib.sha256(b"".join(a.tobytes() for a in exe(args))).hexdigest())
"""
    results = set()
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        results.add(subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(results) == 1


# --- contraction --------------------------------------------------------------------------------------------------------------------------

DOTS = [
    ((3, 4), (4, 5), ((1,), (0,)), ((), ())),
    ((20, 30), (30, 25), ((1,), (0,)), ((), ())),
    ((30, 20), (30, 25), ((0,), (0,)), ((), ())),
    ((20, 30), (25, 30), ((1,), (1,)), ((), ())),
    ((30,), (30,), ((0,), (0,)), ((), ())),
    ((20, 30), (30,), ((1,), (0,)), ((), ())),
    ((30,), (30, 20), ((0,), (0,)), ((), ())),
    ((4, 20, 30), (4, 30, 9), ((2,), (1,)), ((0,), (0,))),
    ((20, 4, 30), (30, 9, 4), ((2,), (0,)), ((1,), (2,))),
    ((2, 3, 20, 30), (2, 3, 30, 9), ((3,), (2,)), ((0, 1), (0, 1))),
    ((6, 7, 8), (8, 6, 9), ((0, 2), (1, 0)), ((), ())),
    ((6, 7, 8), (9, 7), ((1,), (1,)), ((), ())),
    ((3,), (4,), ((), ()), ((), ())),
    ((5, 3), (5, 4), ((), ()), ((0,), (0,))),
    ((5, 1), (1, 4), ((1,), (0,)), ((), ())),
    ((0, 3), (3, 2), ((1,), (0,)), ((), ())),
    ((3, 0), (0, 2), ((1,), (0,)), ((), ())),
    ((), (), ((), ()), ((), ())),
    ((200, 300), (300, 150), ((1,), (0,)), ((), ())),
]


@all_dtypes
def test_dot_general(dtype):
    case = Case()
    for a, c, contract, batch in DOTS:
        x, y = case.random(a, dtype), case.random(c, dtype, 1)
        case.output(case.b.dot_general(x, y, contract=contract, batch=batch))
    case.check(rtol=1e-5 if dtype == F32 else 1e-12)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_dot_of_views_and_expressions(dtype):
    case = Case()
    b = case.b
    x, y = case.random((30, 40), dtype), case.random((60, 40), dtype)
    plain = {"contract": ((1,), (0,)), "batch": ((), ())}
    case.output(b.dot_general(x, b.transpose(y, perm=(1, 0)), **plain))
    case.output(b.dot_general(b.transpose(b.exp(x), perm=(1, 0)), b.slice(y, starts=(10, 3), sizes=(30, 20), steps=(1, 1)), **plain))
    backwards = b.slice(x, starts=(29, 0), sizes=(30, 20), steps=(-1, 2))
    case.output(b.dot_general(backwards, b.slice(y, starts=(0, 0), sizes=(20, 40), steps=(3, 1)), **plain))
    case.output(b.dot_general(b.broadcast(b.reduce_sum(x, axes=(0,)), shape=(20, 40), dims=(1,)), b.reshape(y, shape=(40, 60)), **plain))
    product = b.dot_general(x, b.reshape(y, shape=(40, 60)), **plain)
    case.output(b.tanh(b.add(b.transpose(product, perm=(1, 0)), b.full((60, 30), 0.5, dtype))))
    case.output(b.dot_general(product, product, contract=((1,), (1,)), batch=((), ())))
    case.check(rtol=1e-5 if dtype == F32 else 1e-12)


def test_transposed_operands_are_not_copied():
    case = Case()
    x, y = case.random((64, 48), F32), case.random((32, 48), F32)
    case.output(case.b.dot_general(x, case.b.transpose(y, perm=(1, 0)), contract=((1,), (0,)), batch=((), ())))
    exe = case.check(rtol=1e-5)
    assert exe.workspace_bytes == 0 and "kernel0" not in exe.source


# --- gather and scatter -------------------------------------------------------------------------------------------------------------------


TAKEN = [
    ((10,), (0,), (4,)),
    ((10, 6), (0,), (5,)),
    ((10, 6), (1,), (2, 3)),
    ((10, 6), (0, 1), (7,)),
    ((4, 5, 6), (2, 0), (3, 2)),
    ((5, 1), (1,), (2,)),
    ((10,), (0,), ()),
    ((10, 6), (0,), (0,)),
    ((300, 200), (0,), (250,)),
    ((70000,), (0,), (50000,)),
]


@all_dtypes
def test_gather_and_scatter(dtype):
    case = Case()
    b, rng = case.b, np.random.default_rng(3)
    for shape, axes, ishape in TAKEN:
        x = case.random(shape, dtype)
        indices = [case.input(rng.integers(-shape[a], shape[a], ishape)) for a in axes]
        taken = b.gather(x, *indices, axes=axes)
        updates = case.random(taken.aval.shape, dtype, 1)
        case.output(taken, b.add(b.gather(b.add(x, x), *indices, axes=axes), updates))
        case.output(b.scatter_set(x, updates, *indices, axes=axes), b.scatter_add(x, updates, *indices, axes=axes))
        case.output(b.scatter_add(b.zeros_like(x), b.add(updates, updates), *indices, axes=axes))
    case.check(rtol=1e-6)


def test_gather_by_literals_and_iota_needs_no_check():
    case = Case()
    b = case.b
    x = case.random((10, 6), F32)
    ramp = b.iota(shape=(6,), dtype=I64, axis=0)
    case.output(b.gather(x, Literal(-1), axes=(0,)), b.gather(x, ramp, ramp, axes=(0, 1)))
    case.output(b.gather(x, b.full((3,), 2, I64), axes=(1,)))
    assert "fail(" not in case.check().source


@pytest.mark.parametrize("name", ["gather", "scatter_add", "scatter_set", "unused", "sliced away"])
def test_index_out_of_bounds(name):
    def build(line):
        case = Case()
        b = case.b
        x = case.random((10, 3), F32)
        i = case.input(np.array([1, 13, -4, -11]))
        at_line(case, 1)
        y = b.exp(x)
        at_line(case, line)
        if name in ("scatter_add", "scatter_set"):
            z = getattr(b, name)(y, b.full((4, 3), 1.0, F32), i, axes=(0,))
        else:
            z = b.gather(y, i, axes=(0,))
        at_line(case, 99)
        case.output(y, z) if name != "unused" else case.output(y)
        if name == "sliced away":
            case.outputs = [Output(b.slice(z, starts=(0, 0), sizes=(1, 3), steps=(1, 1)))]
        return case

    for line in (7, 8):  # the second comes out of the cache, with its own line
        case = build(line)
        exe = compiled(case.graph())
        before = [a.copy() for a in case.args]
        with pytest.raises(IndexOutOfBoundsError, match="index 13 is out of bounds for axis 0 with size 10") as caught:
            exe(case.args)
        assert f"model.py:{line} in f" in str(caught.value)
        for a, c in zip(before, case.args, strict=True):
            np.testing.assert_array_equal(a, c)
        case.args[1][:] = [0, 9, -10, 3]
        exe(case.args)
    assert not exe.compiled


def test_the_first_bad_index_is_reported():
    case = Case()
    i = np.zeros(200_000, np.int64)
    i[[150_000, 70_000, 199_999]] = [7, 8, 9]
    x, index = case.random((5,), F32), case.input(i)
    case.output(case.b.gather(x, index, axes=(0,)))
    exe = compiled(case.graph())
    for _ in range(5):
        with pytest.raises(IndexOutOfBoundsError, match="index 8 "):
            exe(case.args)


def test_checked_conversion():
    fitting = (("i1", -128, 300), ("u1", 255, -1), ("u8", 5, -1), ("f4", 3, None), ("i4", 2**31 - 1, 2**31), ("f8", 2**60 + 1, None))
    for target, good, bad in fitting:
        case = Case()
        x = case.input(np.array(good))
        at_line(case, 5)
        case.output(case.b.convert(x, dtype=np.dtype(target), checked=True))
        exe = case.check()
        if bad is not None:
            with pytest.raises(IntegerOverflowError, match=rf"Python integer {bad} out of bounds for {np.dtype(target)}(.|\n)*model.py:5"):
                exe([np.array(bad)])


# --- layouts, results, empty graphs -------------------------------------------------------------------------------------------------------


def test_any_strides_alignment_and_byte_order():
    case = Case()
    case.input(np.zeros((6, 8), np.float32))
    x = case.inputs[0].var
    case.output(case.b.tanh(x), case.b.reduce_sum(x, axes=(0,)), case.b.transpose(x, perm=(1, 0)), x)
    exe, base = compiled(case.graph()), values((12, 24), F32)
    misaligned = np.frombuffer(b"x" + base[:6, :8].tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 8)
    read_only = base[:6, :8].copy()
    read_only.flags.writeable = False
    strided = (base[::2, ::3], base[5::-1, 7::-1], base[:8, :6].T, np.broadcast_to(base[0, :8], (6, 8)))
    for a in (*strided, base[:6, :8].astype(">f4"), misaligned, read_only):
        for got, want in zip(exe([a]), eval_graph(case.graph(), [a.astype("f4")]), strict=True):
            compare(got, np.asarray(want), 4, 0, "")


def test_results_that_repeat_something():
    case = Case()
    b = case.b
    x, k = case.random((3, 4), F32), b.const(np.arange(5))
    big = b.const(np.arange(3000.0))
    y = b.neg(x)
    case.output(x, x, y, y, k, k, Literal(2), Literal(2), b.reshape(y, shape=(12,)), b.transpose(y, perm=(0, 1)), big, b.neg(big))
    exe = case.check()
    assert "2999" not in exe.source  # large constants are passed, not printed


def test_empty_graphs():
    Case().check()
    case = Case()
    case.random((3,), F32)
    case.check()
    case.output(Literal(1.0))
    case.check()


def test_sizes_that_no_input_tells_are_refused():
    v = Var(AbstractArray((Dim("n") + 1,), F32))
    with pytest.raises(BackendError, match="the size n is not known before the compiled code runs"):
        compiled(Emitter().build([Input(v)], [Output(v)]))


# --- values do not depend on their place --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_result_does_not_depend_on_its_place(dtype):
    def graph(n):
        case = Case()
        x = case.input(np.zeros(n, dtype))
        case.output(*(getattr(case.b, name)(x) for name in FUNCTIONS), case.b.pow(case.b.abs(x), x))
        case.output(*(getattr(case.b, name)(x, case.b.sin(x)) for name in ("atan2", "hypot", "logaddexp", "remainder", "floor_divide")))
        return compiled(case.graph())

    whole = graph(40_037)
    x = (np.random.default_rng(0).standard_normal(40_037) * 20).astype(dtype)
    x[::97] *= 1e6
    results = whole([x])
    shifted = whole([np.roll(x, 1)])
    for r, s in zip(results, shifted, strict=True):
        np.testing.assert_array_equal(np.roll(r, 1), s)
    for n in (1, 3, 17, 255, 257):
        part = graph(n)
        for start in (0, 1, 1234, 40_037 - n):
            for r, p in zip(results, part([x[start : start + n]]), strict=True):
                np.testing.assert_array_equal(r[start : start + n], p)


def ulps(got, exact, dtype):
    spacing = np.spacing(np.abs(exact).astype(dtype)).astype(np.longdouble)
    ok = np.isfinite(exact.astype(dtype)) & (np.abs(exact) >= np.finfo(dtype).tiny)
    return float((np.abs(got.astype(np.longdouble) - exact) / spacing)[ok].max())


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_accuracy_of_functions(dtype):
    """At most 4 units in the last place over the whole range, large arguments of sin and cos included."""
    rng, n = np.random.default_rng(0), 200_000
    near = np.concatenate([rng.standard_normal(n) * 10.0 ** rng.integers(-8, 3, n), np.linspace(-90, 90, n)])
    far = np.concatenate([near, rng.standard_normal(n) * 10.0 ** rng.integers(0, 30, n)])
    unit = np.concatenate(
        [rng.uniform(-1, 1, n), rng.standard_normal(n) * 10.0 ** rng.integers(-12, -1, n), 1 - np.exp(-rng.uniform(0, 16, n))]
    )
    positive = np.concatenate([np.exp(np.linspace(-85, 85, n)), 1 + unit])
    ranges = {"exp": near, "log": np.exp(np.linspace(-85, 85, n)), "sin": far, "cos": far, "tanh": near, "logistic": near}
    exact = {"exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "logistic": lambda x: 1 / (1 + np.exp(-x))}
    more = {
        **dict.fromkeys((np.exp2, np.expm1, np.sinh, np.cosh), near),
        **dict.fromkeys((np.tan, np.arctan, np.arcsinh, np.cbrt), far),
        **dict.fromkeys((np.arcsin, np.arccos, np.arctanh), unit),
        **dict.fromkeys((np.log2, np.log10), positive),
        np.log1p: np.concatenate([positive, unit]),
        np.arccosh: 1 + positive,
    }
    ranges |= {f.__name__.replace("arc", "a"): x for f, x in more.items()}
    exact |= {f.__name__.replace("arc", "a"): f for f in more}
    case = Case()
    for name, x in ranges.items():
        case.output(getattr(case.b, name)(case.input(x.astype(dtype))))
    for (name, f), x, got in zip(exact.items(), case.args, compiled(case.graph())(case.args), strict=True):
        with np.errstate(all="ignore"):
            assert ulps(got, f(x.astype(np.longdouble)), dtype) <= 4, name


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(("name", "f"), [("hypot", np.hypot), ("atan2", np.arctan2)])
def test_accuracy_of_functions_of_two_operands(name, f, dtype):
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(200_000) * 10.0 ** rng.integers(-8, 8, 200_000)).astype(dtype) for _ in range(2))
    case = Case()
    case.output(getattr(case.b, name)(case.input(x), case.input(y)))
    (got,) = compiled(case.graph())(case.args)
    assert ulps(got, f(x.astype(np.longdouble), y.astype(np.longdouble)), dtype) <= 4


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_quotients_and_roundings_are_numpys_to_the_bit(dtype):
    """The signs of zeros included."""
    rng = np.random.default_rng(0)
    left, right = special(dtype)
    random = [(rng.standard_normal(20_000) * 10.0 ** rng.integers(-3, 6, 20_000)).astype(dtype) for _ in range(2)]
    x, y = np.concatenate([left, random[0], random[0]]), np.concatenate([right, random[1], np.rint(random[1])])
    case = Case()
    a, b = case.input(x), case.input(y)
    names = ["floor_divide", "remainder", "fmod", "copysign"]
    case.output(*(getattr(case.b, n)(a, b) for n in names), *(getattr(case.b, n)(a) for n in ("floor", "ceil", "trunc", "rint")))
    graph = case.graph()
    with np.errstate(all="ignore"):
        for eqn, got, want in zip(graph.eqns, compiled(graph)(case.args), eval_graph(graph, case.args), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(eqn.primitive))
            number = want == want
            np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), err_msg=str(eqn.primitive))


# --- call-backs ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def third_party():
    def impl(x, y, *, scale):
        if x[0] < 0:
            raise ZeroDivisionError("on purpose")
        return np.cumsum(x * y) * scale, x[::-1]

    p = Primitive("test_cumsum", impl, lambda x, y, *, scale: (x, x), multiple=True)
    yield p
    del PRIMITIVES["test_cumsum"]


def test_primitives_without_native_code(third_party):
    case = Case()
    b = case.b
    x = case.input(np.abs(values((50,), F64)) + 1)
    y, z = b.bind(third_party, [b.exp(x), b.slice(x, starts=(49,), sizes=(50,), steps=(-1,))], {"scale": 2.0})
    w = b.pow(case.input(np.arange(6)), case.input(np.arange(6)))
    case.output(b.add(y, z), z, w)
    case.check(ulp=4, fallbacks=["test_cumsum", "pow"])
    failing = Case()
    v = failing.input(-case.args[0])
    failing.output(*failing.b.bind(third_party, [v, v], {"scale": 1.0}))
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        compiled(failing.graph())(failing.args)
