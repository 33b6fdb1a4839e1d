"""The cpp backend against the reference over all dtypes: each elementwise primitive on special values, conversions between all pairs,
reductions and products, running results, sorts, scatters, dynamic slices."""

import ml_dtypes
import mpmath
import numpy as np
import pytest
from graph_cases import Case, compiled

from functx import config, dtypes
from functx.errors import FunctxError
from functx.interpret import eval_graph
from functx.primitive import PRIMITIVES

BF16 = np.dtype(ml_dtypes.bfloat16)
ALL = [np.dtype(c) for c in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")] + [BF16]
HALVES, COMPLEX = [np.dtype(np.float16), BF16], [np.dtype(np.complex64), np.dtype(np.complex128)]
every_dtype = pytest.mark.parametrize("dtype", ALL, ids=dtypes.name)


def some(*codes):
    """A few dtypes, and both floats of 16 bits: one of each kind where the width cannot matter."""
    return pytest.mark.parametrize("dtype", [*map(np.dtype, codes), *HALVES], ids=dtypes.name)


def edges(dtype):
    """Zeros of both signs, ones, extremes, subnormal and special numbers."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        signed = [-1, -2, -7, info.min + 1] if dtype.kind == "i" else []
        return np.array([info.min, info.max, info.max // 2, 0, 1, 2, 3, 7, 8, 63, 100, *signed], dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1, -1, 0.5, -2.5, 10, np.inf, -np.inf, np.nan, 1e-3]
        re, im = np.meshgrid(parts, parts)
        out = np.empty(re.size, dtype)
        out.real, out.imag = re.ravel(), im.ravel()
        return out
    info = ml_dtypes.finfo(dtype)
    special = [np.inf, -np.inf, np.nan, float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal)]
    return np.array([0.0, -0.0, 1, -1, 0.5, -2.5, 3, 10, 100.5, 1e-3, 1 / 3, *special]).astype(dtype)


def randoms(shape, dtype, seed=0):
    """Random values of the dtype's whole range for integers, of moderate size for others; some equal ones among them."""
    rng = np.random.default_rng((seed, *shape))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, rng.integers(0, 5, shape).astype(dtype)).astype(dtype)
    x = np.where(rng.random(shape) < 0.3, rng.integers(-2, 3, shape), rng.standard_normal(shape) * 2)
    return (x + 1j * np.round(rng.standard_normal(shape))).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


def operands(dtype):
    """Pairs of values: edges with edges, edges with random ones, random ones."""
    e = edges(dtype)
    x, y = (v.ravel() for v in np.meshgrid(e, e))
    r, s = randoms((200,), dtype), randoms((200,), dtype, 1)
    some = np.resize(e, 200)
    return np.concatenate([x, some, r, r]), np.concatenate([y, s, some, s])


def eps(dtype):
    part = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}.get(dtype, dtype)
    return float(ml_dtypes.finfo(part).eps)


def assert_near(got, want, ulp, message):
    """Equal kinds of numbers everywhere; numbers within ``ulp`` units in the last place (of a complex number: of its size)."""
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, message
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=message)
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    tiny = float(ml_dtypes.finfo(got.dtype).smallest_subnormal)
    x, y = got.astype(wide), want.astype(wide)
    parts = [(x.real, y.real), (x.imag, y.imag)] if wide is np.complex128 else [(x, y)]
    scale = np.abs(np.where(np.isfinite(y), y, 0))
    with np.errstate(all="ignore"):
        for a, c in parts:
            same = (a == c) | (np.isnan(a) & np.isnan(c)) | (np.abs(a - c) <= ulp * (eps(got.dtype) * scale + tiny))
            if not same.all():
                k = tuple(i[0] for i in np.nonzero(~same))
                raise AssertionError(f"{message}: {got[k]!r} instead of {want[k]!r} at {k} and {(~same).sum()} places")


def check(case, names, ulp=0, fallbacks=frozenset()):
    """Compile, compare with the reference; ``ulp`` may be a function of the name."""
    graph = case.graph()
    exe = compiled(graph)
    assert set(exe.fallbacks) <= set(fallbacks)
    with np.errstate(all="ignore"):
        for name, got, want in zip(names, exe(case.args), eval_graph(graph, case.args), strict=True):
            assert_near(got, want, ulp(name) if callable(ulp) else ulp, name)
    return exe


# --- elementwise --------------------------------------------------------------------------------------------------------------------------

PARAMS = {"max": {"tie": "half"}, "min": {"tie": "half"}, "polygamma": {"n": 0}}
EXACT = {
    *("add", "sub", "neg", "conj", "real", "imag", "complex", "max", "min", "select", "stop_gradient", "floor", "ceil", "trunc", "rint"),
    *("copysign", "floor_divide", "remainder", "fmod", "mantissa", "ldexp", "nextafter"),
}
BY_SCIPY = {"erf", "erfc", "lgamma", "erf_inv"}  # the reference, whose last bits are not libm's
# No natural native form, or none as accurate.
CALLED_BACK = {"gamma", "beta", "betaln", "erfcx", "log_ndtr", "ndtri", "polygamma", "kl_div", "rel_entr"}


# What functx.numpy uses on bool and integers; the reference takes some others too.
OF_INTEGERS = {
    *("add", "sub", "mul", "mul_zero", "neg", "sign", "abs", "conj", "max", "min", "select", "stop_gradient", "eq", "ne", "lt", "le", "gt"),
    *("ge", "and_", "or_", "xor", "not_", "shift_left", "shift_right", "floor_divide", "remainder", "fmod", "pow", "gcd"),
    "population_count",
}


def elementwise(dtype):
    names = [name for name, p in PRIMITIVES.items() if p.family == "elementwise" and name != "convert" and not name.startswith("test")]
    return sorted(name for name in names if dtype.kind not in "biu" or name in OF_INTEGERS)


def applications(dtype):
    """(name, operand arrays) of each primitive that the reference accepts at this dtype."""
    x, y = operands(dtype)
    pred, whole = np.arange(x.size) % 3 == 0, (np.arange(x.size) % 13 - 6).astype(np.int32)
    for name in elementwise(dtype):
        if dtype.kind == "c" and name in CALLED_BACK | BY_SCIPY:
            continue
        for arrays in ((x,), (x, y), (pred, x, y), (x, whole)):
            try:
                with np.errstate(all="ignore"):
                    p, params = PRIMITIVES[name], PARAMS.get(name, {})
                    avals = [Case().input(a).aval for a in arrays]
                    (out,) = p.out_avals(avals, params)
                    (value,) = p.evaluate(arrays, params)
            except (TypeError, ValueError, AttributeError, KeyError, FunctxError):
                continue
            if name == "lgamma":  # SciPy's is infinite at subnormal numbers, and inaccurate near its zeros
                arrays = (np.where((np.abs(x) < ml_dtypes.finfo(dtype).tiny) | (np.abs(value) < 1), dtype.type(4), x),)
            if value.dtype == out.dtype and (name == "ldexp") == (arrays[-1] is whole) and (name == "select") == (arrays[0] is pred):
                yield name, arrays
                break


def tolerance(dtype):
    def ulp(name):
        if name in EXACT:
            return 0
        if name.startswith("logaddexp"):
            return 64  # the larger operand and the rest may cancel
        return 2 if dtype in HALVES else 16 if dtype in COMPLEX or name in BY_SCIPY else 4

    return ulp


@every_dtype
def test_elementwise(dtype):
    case, names = Case(), []
    with np.errstate(all="ignore"):
        for name, arrays in list(applications(dtype)):
            names.append(name)
            case.output(getattr(case.b, name)(*map(case.input, arrays), **PARAMS.get(name, {})))
    assert len(names) > 10
    more = {"pow"} if dtype.kind == "i" else {"nextafter"} if dtype in HALVES else set()
    check(case, names, tolerance(dtype), CALLED_BACK | more)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_accuracy_of_special_functions(dtype):
    """At most 4 units in the last place, by exact values of mpmath."""
    rng, n = np.random.default_rng(0), 200
    small = rng.standard_normal(n) * 10.0 ** rng.integers(-8, 1, n)
    edge = np.concatenate([rng.uniform(-1, 1, n), 1 - 10.0 ** rng.uniform(-7, -1, n)])
    ranges = {"erf": small, "erfc": rng.uniform(-6, 9, n), "lgamma": np.exp(rng.uniform(-20, 20, n)), "erf_inv": edge}
    exact = {"erf": mpmath.erf, "erfc": mpmath.erfc, "lgamma": mpmath.loggamma, "erf_inv": mpmath.erfinv}
    case = Case()
    case.output(*(getattr(case.b, name)(case.input(x.astype(dtype))) for name, x in ranges.items()))
    with mpmath.workprec(120):
        for (name, f), x, got in zip(exact.items(), case.args, compiled(case.graph())(case.args), strict=True):
            for v, y in zip(x, got, strict=True):
                want = f(mpmath.mpf(float(v)))
                assert abs(float(mpmath.mpf(float(y)) - want)) <= 4 * np.spacing(dtype.type(abs(float(want)))), (name, v)


# --- conversions --------------------------------------------------------------------------------------------------------------------------


@every_dtype
def test_conversions(dtype):
    case = Case()
    x = case.input(np.concatenate([edges(dtype), randoms((1000,), dtype), np.array([])]).astype(dtype))
    beyond = [300, -300, 70000, 3e9, -3e9, 1e10, 1e19, -1e19, 65519, 65520, 2049, 2051, 257, 259, 1.9, -1.9, 2.0**63, 1e-8, 6e-8, 3.1e-8]
    most = 1 if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf
    y = case.input(np.array([v for v in beyond if -most < v < most]).astype(dtype))
    for target in ALL:
        case.output(*(case.b.convert(v, dtype=target, checked=False) for v in (x, y)))
    graph = case.graph()
    exe = compiled(graph)
    assert not exe.fallbacks
    with np.errstate(all="ignore"):
        for k, (got, want) in enumerate(zip(exe(case.args), eval_graph(graph, case.args), strict=True)):
            if got.dtype == np.uint32 and dtype.kind in "fcV":  # NumPy's vector code answers otherwise to what does not fit
                arg = case.args[k % 2]
                want = np.concatenate([(v.real if dtype.kind == "c" else v).reshape(1).astype(np.uint32) for v in arg])
            assert_near(got, want, 0, f"{dtypes.name(dtype)} to {dtypes.name(ALL[k // 2])}")


@pytest.mark.parametrize("dtype", HALVES, ids=dtypes.name)
def test_rounding_to_sixteen_bits_is_to_nearest_even(dtype):
    """Every number of 16 bits, its neighbours halfway, and a little beside them."""
    bits = np.arange(2**16, dtype=np.uint16).view(dtype)
    wide = bits.astype(np.float32)
    halfway = (wide[:-1].astype(np.float64) + wide[1:]) / 2
    beside = [np.nextafter(halfway.astype("f4"), np.float32(side)) for side in (np.inf, -np.inf)]
    x = np.concatenate([wide, halfway, *beside])
    case = Case()
    exact, near = case.input(x.astype("f8")), case.input(x.astype("f4"))
    case.output(case.b.convert(near, dtype=dtype, checked=False), case.b.convert(exact, dtype=dtype, checked=False))
    case.output(case.b.convert(case.input(bits), dtype=np.dtype("f4"), checked=False))
    check(case, ["from float32", "from float64", "to float32"])


# --- reductions and products --------------------------------------------------------------------------------------------------------------


def moderate(shape, dtype, seed=0):
    """Values whose sums and products stay in range; small whole numbers in floats of 16 bits, which hold their sums exactly."""
    if dtype in HALVES:
        return np.random.default_rng((seed, *shape)).integers(-2, 3, shape).astype(dtype)
    x = randoms(shape, dtype, seed)
    return (x % 3 + 1).astype(dtype) if dtype.kind in "iu" else x


def bound(dtype, n=1):
    """How far results may lie apart that add up n rounded terms in another order, as a part of the largest."""
    return 0 if dtype.kind in "biu" else 4 * n**0.5 * eps(dtype)


def check_close(case, rtol):
    graph = case.graph()
    exe = compiled(graph)
    assert not exe.fallbacks
    with np.errstate(all="ignore"):
        for k, (got, want) in enumerate(zip(exe(case.args), eval_graph(graph, case.args), strict=True)):
            want, exact = np.asarray(want), got.dtype.kind in "biu"
            assert got.dtype == want.dtype and got.shape == want.shape
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            if exact or rtol == 0:
                x, y = (got, want) if exact else (got.astype(wide), want.astype(wide))
                np.testing.assert_array_equal(x, y, err_msg=f"output {k}")
                continue
            x, y = got.astype(wide), want.astype(wide)
            scale = np.abs(y[np.isfinite(y)]).max(initial=1e-30)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, err_msg=f"output {k}: {graph.eqns[k].primitive}")
    return exe


@some("?", "i1", "u2", "i8", "f4", "c8", "c16")
def test_reductions(dtype):
    case = Case()
    b = case.b
    for shape in [(5,), (7, 4), (3, 40, 5), (33, 300), (20000,), (300, 130)]:
        x = case.input(moderate(shape, dtype))
        for axes in [(0,), (len(shape) - 1,), tuple(range(len(shape)))]:
            case.output(b.reduce_sum(x, axes=axes), b.reduce_max(x, axes=axes), b.reduce_min(x, axes=axes))
        small = b.slice(x, starts=(0,) * len(shape), sizes=tuple(min(d, 6) for d in shape), steps=(1,) * len(shape))
        case.output(*(b.reduce_prod(small, axes=axes) for axes in [(0,), (len(shape) - 1,)]))
        case.output(*(f(x, axis=axis) for f in (b.argmax, b.argmin) for axis in range(len(shape))))
    if dtype.kind not in "biu":
        nan = moderate((8, 6), dtype)
        nan[2, 3], nan[5, 3], nan[6, :] = np.nan, np.inf, -np.inf
        x = case.input(nan)
        case.output(*(f(x, axis=axis) for f in (b.argmax, b.argmin) for axis in (0, 1)))
        case.output(*(f(x, axes=(axis,)) for f in (b.reduce_max, b.reduce_min, b.reduce_sum) for axis in (0, 1)))
    check_close(case, bound(dtype, 300))


@pytest.mark.parametrize("dtype", [*HALVES, *COMPLEX, np.dtype("i2"), np.dtype("u8")], ids=dtypes.name)
def test_products(dtype):
    case = Case()
    b = case.b
    for x, y, contract, batch in [
        ((4, 5), (5, 6), ((1,), (0,)), ((), ())),
        ((40, 50), (50, 60), ((1,), (0,)), ((), ())),
        ((50, 40), (60, 50), ((0,), (1,)), ((), ())),
        ((3, 20, 30), (3, 30, 20), ((2,), (1,)), ((0,), (0,))),
        ((7,), (7,), ((0,), (0,)), ((), ())),
        ((5,), (6,), ((), ()), ((), ())),
    ]:
        left, right = case.input(moderate(x, dtype)), case.input(moderate(y, dtype, 1))
        case.output(b.dot_general(left, right, contract=contract, batch=batch))
        case.output(b.dot_general(b.add(left, left), right, contract=contract, batch=batch))
    exe = check_close(case, bound(dtype, 60))
    assert ("gemm" in exe.source) == (dtype.kind not in "iu")


# --- running results ----------------------------------------------------------------------------------------------------------------------

RUN = [(1,), (9,), (4, 7), (3, 5, 4), (6, 1, 2), (300, 40), (40, 700), (0, 3), (3, 0)]


@some("?", "i1", "u8", "f4", "f8", "c8")
def test_running_results(dtype):
    case = Case()
    b = case.b
    for shape in RUN:
        x, a = case.input(moderate(shape, dtype)), case.input(moderate(shape, dtype, 1))
        for axis in range(len(shape)):
            for reverse in (False, True):
                way = {"axis": axis, "reverse": reverse}
                case.output(b.cumsum(x, **way), b.cummax(x, **way), b.cummin(b.max(x, a, tie="half"), **way))
                if shape[axis] < 10:
                    case.output(b.cumprod(x, **way), b.linear_recurrence(a, x, **way))
                if dtype in (np.float32, np.float64):
                    case.output(b.cumlogsumexp(x, **way), b.exp(b.neg(b.cumlogsumexp(b.tanh(x), **way))))
    check_close(case, 0 if dtype in HALVES else bound(dtype, 1000))


@pytest.mark.parametrize("dtype", [np.dtype(d) for d in ("f2", "f4", "f8", "c8")], ids=dtypes.name)
def test_running_results_of_special_numbers(dtype):
    """A zero keeps its sign, a NaN stays."""
    case = Case()
    b = case.b
    x = case.input(np.array([-0.0, -0.0, 3, -np.inf, 1, np.nan, 2, np.inf]).astype(dtype))
    a = case.input(np.array([np.inf, 1, 0, 2, np.nan, 1, 1, 1]).astype(dtype))
    for reverse in (False, True):
        way = {"axis": 0, "reverse": reverse}
        case.output(b.cumsum(x, **way), b.cumprod(x, **way), b.cummax(x, **way), b.cummin(x, **way), b.linear_recurrence(a, x, **way))
    graph = case.graph()
    with np.errstate(all="ignore"):
        for k, (got, want) in enumerate(zip(compiled(graph)(case.args), eval_graph(graph, case.args), strict=True)):
            np.testing.assert_array_equal(got, want, err_msg=f"output {k}")
            np.testing.assert_array_equal(np.signbit(got.real[got == got]), np.signbit(want.real[got == got]), err_msg=f"output {k}")


def test_running_results_share_loops():
    """With what they are computed from, and with what is computed from their rows."""
    case = Case()
    b = case.b
    x = case.input(moderate((50, 60), np.dtype("f4")))
    total = b.cumsum(b.exp(x), axis=1, reverse=False)
    last = b.broadcast(b.reduce_max(total, axes=(1,)), shape=(50, 60), dims=(0,))
    case.output(b.div(total, last))
    backwards = b.cumsum(x, axis=1, reverse=True)
    case.output(b.mul(backwards, x), b.cumsum(b.add(backwards, x), axis=0, reverse=False), b.cumsum(backwards, axis=1, reverse=False))
    exe = check_close(case, 1e-5)
    assert exe.workspace_bytes < 3 * x.aval.nbytes_hint
    square = Case()  # the axes are of one size: rows must not be taken for columns
    x = square.input(moderate((20, 20), np.dtype("f8")))
    down = square.b.cumsum(x, axis=0, reverse=False)
    square.output(square.b.add(down, x), square.b.reduce_sum(down, axes=(1,)), square.b.cumsum(down, axis=1, reverse=True))
    check_close(square, 1e-13)


# --- sorts --------------------------------------------------------------------------------------------------------------------------------


@some("?", "i2", "u8", "f4", "f8", "c16")
def test_sorts(dtype):
    case = Case()
    b = case.b
    arrays = [moderate(shape, dtype) for shape in [(1,), (3, 5, 4), (6, 1, 2), (300, 40), (0, 3)]]
    for array in [*arrays, np.resize(edges(dtype), 150)]:
        x, key = case.input(array), case.input(moderate(array.shape, np.dtype("i4"), 1))
        for axis in range(array.ndim):
            place = b.iota(shape=array.shape, dtype=np.dtype("i8"), axis=axis)
            case.output(*b.sort(x, axis=axis, num_keys=1), b.sort(x, place, axis=axis, num_keys=1)[1])
            if axis == 0:
                case.output(*b.sort(key, b.max(x, x, tie="half"), place, axis=axis, num_keys=2))
        n = array.shape[-1]
        case.output(*(out for k in sorted({0, n // 2, n}) for out in b.top_k(x, k=k)))
    check_close(case, 0)


def test_rows_are_shared_by_threads():
    case = Case()
    b = case.b
    x = case.input(moderate((70, 90), np.dtype("f4")))
    for axis in (0, 1):
        place = b.iota(shape=(70, 90), dtype=np.dtype("i8"), axis=axis)
        case.output(*b.sort(x, place, axis=axis, num_keys=1), b.cummax(x, axis=axis, reverse=True), b.cumsum(x, axis=axis, reverse=False))
    case.output(*b.top_k(x, k=70))
    with config.options(parallel_threshold=100):
        assert check_close(case, 1e-5).source.count("#pragma omp parallel") > 6


# --- scatters, dynamic slices -------------------------------------------------------------------------------------------------------------


@some("?", "i1", "u4", "i8", "f8", "c8")
def test_scatters(dtype):
    case = Case()
    b, rng = case.b, np.random.default_rng(3)
    for shape, axes, ishape in [((10,), (0,), (14,)), ((10, 6), (1,), (2, 3)), ((4, 5, 6), (2, 0), (3, 2)), ((5, 1), (1,), (0,))]:
        x = case.input(moderate(shape, dtype))
        indices = [case.input(rng.integers(-shape[a], shape[a], ishape)) for a in axes]
        taken = b.gather(x, *indices, axes=axes)
        updates = case.input(moderate(taken.aval.shape, dtype, 1))
        case.output(taken)
        for name in ("scatter_set", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"):
            case.output(getattr(b, name)(x, updates, *indices, axes=axes))
            case.output(getattr(b, name)(b.max(x, x, tie="half"), b.max(updates, taken, tie="half"), *indices, axes=axes))
    check_close(case, bound(dtype))


@some("?", "i2", "c16")
def test_dynamic_slices(dtype):
    case = Case()
    b = case.b
    for shape, sizes in [
        ((9,), (4,)),
        ((6, 8), (2, 8)),
        ((6, 8), (6, 3)),
        ((4, 5, 6), (1, 5, 2)),
        ((30, 40), (20, 30)),
        ((3,), (0,)),
        ((), ()),
    ]:
        x, update = case.input(moderate(shape, dtype)), case.input(moderate(sizes, dtype, 1))
        for start in (0, 1, 3, -2, 100):
            starts = [case.input(np.asarray(start)) for _ in shape]
            case.output(b.dynamic_slice(x, *starts, sizes=sizes), b.dynamic_update_slice(x, update, *starts))
            doubled = b.max(x, x, tie="half")
            case.output(b.dynamic_slice(doubled, *starts, sizes=sizes))
            case.output(b.dynamic_update_slice(doubled, b.max(update, update, tie="half"), *starts))
    check_close(case, 0)


def test_a_dynamic_update_is_in_place():
    case = Case()
    b, x = case.b, case.input(np.zeros((100, 100)))
    start = case.input(np.asarray(3))
    for _ in range(3):
        x = b.dynamic_update_slice(x, b.neg(b.dynamic_slice(x, start, start, sizes=(5, 5))), start, start)
    case.output(x)
    exe = check_close(case, 0)
    assert exe.source.count("__builtin_memcpy(") == 1
