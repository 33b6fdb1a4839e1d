"""The loop IR: index algebra, packing, what is fused and what is kept in memory; random programs through C++."""

import math
import sys

import numpy as np
import pytest
from graph_cases import BOOL, F32, F64, I64, Case, apply, compiled, kernels, layer_norm, softmax, values
from hypothesis import given, settings
from hypothesis import strategies as st

import functx as fx
from functx import config
from functx.backends.loops.affine import Affine, LoopVar, divmod_affine, linear, reindex, row_major, substitute, var
from functx.backends.loops.lower import lower
from functx.backends.loops.nodes import Call, Form, Kernel, Place
from functx.backends.loops.packing import ALIGNMENT, Interval, pack
from functx.ir import Literal

# --- index algebra ------------------------------------------------------------------------------------------------------------------------


def evaluate(x, env):
    """The value of an index expression."""
    total = x.const
    for s, c in x.terms:
        inner = env[s] if isinstance(s, LoopVar) else evaluate(s.of, env)
        total += c * (inner if isinstance(s, LoopVar) else inner // s.by if "/" in s.key[len(s.of.key) :] else inner % s.by)
    return total


A, B, C = LoopVar("i", 5), LoopVar("j", 12), LoopVar("k", 7)


def test_exact_quotients():
    q, r = divmod_affine(var(A) * 12 + var(B), 12)
    assert (q, r) == (var(A), var(B))
    q, r = divmod_affine(var(A) * 12 + var(B) + 24, 12)
    assert (q, r) == (var(A) + 2, var(B))
    q, r = divmod_affine(var(B), 4)
    assert q * 4 + r == var(B)
    assert divmod_affine(q, 2)[0] * 8 + divmod_affine(q, 2)[1] * 4 + r == var(B)
    assert substitute(q, lambda v: var(A) * 4 if v == B else None) == var(A)


@st.composite
def expressions(draw):
    x = Affine(draw(st.integers(0, 30)))
    for v in (A, B, C):
        x = x + var(v) * draw(st.integers(0, 15))
    for _ in range(draw(st.integers(0, 3))):
        q, r = divmod_affine(x, draw(st.integers(1, 20)))
        x = draw(st.sampled_from([q, r, q * 3 + r, q * 20 + r * 2 + var(C)]))
    return x


@given(expressions(), st.integers(1, 24), st.integers(0, 4), st.integers(0, 11), st.integers(0, 6))
def test_division_is_right(x, by, i, j, k):
    env = {A: i, B: j, C: k}
    q, r = divmod_affine(x, by)
    assert (evaluate(q, env), evaluate(r, env)) == divmod(evaluate(x, env), by)
    lo, hi = x.bounds()
    assert lo <= evaluate(x, env) <= hi


RESHAPES = [((60,), (5, 12)), ((5, 12), (60,)), ((5, 12), (12, 5)), ((5, 1, 12), (5, 3, 4, 1)), ((), (1, 1)), ((6, 10), (4, 15))]


@pytest.mark.parametrize("new, old", RESHAPES)
def test_reshaped_indices(new, old):
    axes = [LoopVar(f"x{n}", d) for n, d in enumerate(new)]
    index = reindex([var(v) for v in axes], new, old)
    for flat, place in enumerate(np.ndindex(*new)):
        env = dict(zip(axes, place, strict=True))
        assert [evaluate(i, env) for i in index] == list(np.unravel_index(flat, old))
    assert linear(index, old) == linear([var(v) for v in axes], new)
    assert row_major((2, 3, 4)) == [12, 4, 1]


# --- packing ------------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 20), st.integers(0, 10)), max_size=30))
def test_packed_blocks_do_not_overlap(rows):
    intervals = [Interval(k, size, start, start + length) for k, (size, start, length) in enumerate(rows)]
    offsets, total = pack(intervals)
    for a in intervals:
        assert offsets[a.key] % ALIGNMENT == 0 and offsets[a.key] + a.size <= total
        for b in intervals[: a.key]:
            if a.start <= b.stop and b.start <= a.stop and a.size and b.size:
                assert offsets[a.key] + a.size <= offsets[b.key] or offsets[b.key] + b.size <= offsets[a.key]


@given(st.lists(st.tuples(st.integers(0, 9).map(lambda k: 100 * k), st.integers(0, 40), st.integers(0, 20)), max_size=40))
def test_blocks_lie_as_low_as_they_can(rows):
    """Every place that the algorithm might take, tried from below."""
    intervals = [Interval(k, size, start, start + length) for k, (size, start, length) in enumerate(rows)]
    placed = []
    for i in sorted(intervals, key=lambda i: (-i.size, i.start)):
        size = -(-i.size // ALIGNMENT) * ALIGNMENT
        near = [(lo, hi) for lo, hi, j in placed if i.start <= j.stop and j.start <= i.stop]
        free = (at for at in [0, *sorted(hi for _, hi in near)] if all(at + size <= lo or hi <= at for lo, hi in near))
        at = next(free) if size else 0
        placed.append((at, at + size, i))
    assert pack(intervals) == ({i.key: lo for lo, _, i in placed}, max((hi for _, hi, _ in placed), default=0))


def test_packing_reuses_what_is_free():
    chain = [Interval(k, 1000, k, k + 1) for k in range(10)]
    assert pack(chain)[1] == 2 * 1024


# --- lowering -----------------------------------------------------------------------------------------------------------------------------


class NothingNative:
    """A target without any operation of its own."""

    max_constant = 0

    def supports(self, eqn):
        return False

    def multiplies(self, dtype):
        return None


def program(case):
    from functx.backends.cpp.ops import CppTarget

    return lower(case.graph(), CppTarget())


def test_a_target_decides_what_is_native():
    case = Case()
    x = case.random((3,), F32)
    case.output(case.b.add(case.b.exp(x), x))
    steps = lower(case.graph(), NothingNative()).steps
    assert [type(s) for s in steps] == [Call, Call]


def test_axes_are_joined_and_split():
    case = Case()
    b = case.b
    x, y = case.random((4, 5, 6), F32), case.random((6,), F32)
    flat = b.reshape(x, shape=(120,))
    case.output(b.neg(flat), b.add(flat, b.reshape(b.broadcast(y, shape=(4, 5, 6), dims=(2,)), shape=(120,))))
    (kernel,) = program(case).steps
    assert [v.size for v in kernel.stages[0].axes] == [20, 6]
    case = Case()
    case.output(case.b.neg(case.random((4, 5, 6), F32)))
    (kernel,) = program(case).steps
    assert [v.size for v in kernel.stages[0].axes] == [120]


def test_forms_follow_memory():
    for perm, axis, form in (((0, 1), 1, Form.ROWS), ((0, 1), 0, Form.COLUMNS), ((1, 0), 1, Form.COLUMNS), ((1, 0), 0, Form.ROWS)):
        case = Case()
        x = case.b.transpose(case.random((100, 200), F32), perm=perm)
        case.output(case.b.reduce_sum(x, axes=(axis,)))
        (kernel,) = program(case).steps
        assert isinstance(kernel, Kernel) and kernel.form is form


def test_places():
    case = Case()
    b = case.b
    x = case.random((40, 50), F32)
    product = b.dot_general(x, x, contract=((1,), (1,)), batch=((), ()))
    case.output(softmax(b, product))
    lowered = program(case)
    places = {s.place for s in lowered.storage.values()}
    assert places == {Place.INPUT, Place.OUTPUT, Place.ROW, Place.REGISTER}  # the product lies in the result's buffer
    assert lowered.workspace_bytes == 0


# --- fusion and memory --------------------------------------------------------------------------------------------------------------------


def test_softmax_and_layer_norm_are_one_kernel_each():
    for rows, columns in ((64, 100), (300, 1000)):
        case = Case()
        case.output(softmax(case.b, case.random((rows, columns), F32)))
        exe = case.check(ulp=64)
        assert kernels(exe) == 1 and exe.workspace_bytes == 0
        case = Case()
        case.output(layer_norm(case.b, case.random((rows, columns), F32), case.random((columns,), F32), case.random((columns,), F32, 1)))
        exe = case.check(rtol=1e-5)
        assert kernels(exe) == 1 and exe.workspace_bytes == 0


def test_elementwise_chains_and_siblings_are_one_kernel():
    case = Case()
    b = case.b
    x, y = case.random((200, 300), F32), case.random((200, 300), F32, 1)
    t = b.tanh(b.add(b.mul(x, y), b.full_like(x, 1.0)))
    case.output(b.add(t, x), b.mul(t, y), b.exp(t))
    exe = case.check(rtol=1e-6)
    assert kernels(exe) == 1 and exe.workspace_bytes == 0


@pytest.mark.parametrize("shape", [(500, 3000), (7, 20), (3, 5, 40)], ids=str)
def test_column_statistics_are_one_kernel(shape):
    case = Case()
    b = case.b
    x = case.random(shape, F64)
    axis = len(shape) - 2
    kept = tuple(k for k in range(len(shape)) if k != axis)

    def mean(v):
        total = b.reduce_sum(v, axes=(axis,))
        return b.div(total, b.full_like(total, float(shape[axis])))

    centre = mean(x)
    centred = b.sub(x, b.broadcast(centre, shape=shape, dims=kept))
    variance = mean(b.mul(centred, centred))
    case.output(centre, variance, b.sqrt(b.add(variance, b.full_like(variance, 1e-5))))
    assert kernels(case.check(rtol=1e-12)) == 1


def test_buffers_are_reused_in_place():
    """A chain of products and activations needs two buffers, whatever its length."""
    sizes = []
    for depth in (4, 8):
        case = Case()
        b, h, w = case.b, case.random((64, 64), F32), case.random((64, 64), F32)
        for _ in range(depth):
            h = b.tanh(b.dot_general(h, w, contract=((1,), (0,)), batch=((), ())))
        case.output(h)
        sizes.append(case.check(rtol=1e-2).workspace_bytes)
    assert sizes[0] == sizes[1] <= 3 * 64 * 64 * 4


def test_values_that_outlive_their_reuse():
    """Read again after a kernel that could have overwritten them, at other places, and as results."""
    case = Case()
    b = case.b
    x = case.random((40, 40), F32)
    t = b.exp(x)
    u = b.exp(b.neg(t))
    flipped = b.transpose(t, perm=(1, 0))
    v = b.exp(b.mul(u, b.tanh(flipped)))
    w = b.slice_set(t, b.slice(v, starts=(0, 0), sizes=(20, 40), steps=(1, 1)), starts=(20, 0), steps=(1, 1))
    shifted = b.slice_set(w, b.slice(w, starts=(0, 0), sizes=(39, 40), steps=(1, 1)), starts=(1, 0), steps=(1, 1))
    case.output(b.add(w, t), shifted, t, b.reduce_sum(u, axes=(0,)))
    case.check(rtol=1e-5)


def test_partial_writes_happen_in_place():
    case = Case()
    b = case.b
    x = b.exp(case.random((1000, 100), F64))
    for k in range(5):
        x = b.slice_set(x, b.full((1, 100), float(k), F64), starts=(k, 0), steps=(1, 1))
        x = b.scatter_add(x, b.full((100,), 1.0, F64), Literal(-1), axes=(0,))
    case.output(x)
    exe = case.check(ulp=4)
    assert "memcpy" not in exe.source and exe.workspace_bytes == 0


def test_inputs_are_copied_before_a_partial_write():
    case = Case()
    b = case.b
    x, u = case.random((30, 4), F32), case.random((2, 4), F32)
    region = {"starts": (3, 0), "steps": (5, 1)}
    case.output(b.slice_set(x, u, **region), b.slice_set(b.const(values((30, 4), F32, 5)), u, **region), x)
    assert case.check().source.count("memcpy") == 3


def test_repeated_kernels_are_one_function():
    case = Case()
    b, h, w = case.b, case.random((32, 32), F32), case.random((32, 32), F32)
    for _ in range(10):
        h = b.tanh(b.dot_general(h, w, contract=((1,), (0,)), batch=((), ())))
        h = b.slice_set(h, b.slice(h, starts=(0, 0), sizes=(1, 32), steps=(1, 1)), starts=(31, 0), steps=(1, 1))
    case.output(h)
    assert kernels(case.check(rtol=1e-3)) <= 6


def test_long_chains_are_cut():
    case = Case()
    b, x = case.b, case.random((50,), F64)
    y = case.random((50,), F64, 1)
    for k in range(300):
        y = b.add(b.mul(y, x), b.sin(y)) if k % 3 else b.sub(y, x)
    case.output(b.tanh(y))
    exe = compiled(case.graph())
    assert kernels(exe) > 1


def elementwise_chain(b, x, n):
    for _ in range(n):
        x = b.add(b.mul(x, x), b.sin(x))
    return [x]


def in_place_updates(b, x, n):
    for _ in range(n):
        inner = b.sin(b.slice(x, starts=(1,), sizes=(48,), steps=(1,)))
        x = b.slice_set(x, inner, starts=(2,), steps=(1,))
    return [x]


def values_kept_for_later(b, x, n):
    kept = [x]
    for _ in range(n):
        kept.append(b.slice_set(b.sin(kept[-1]), b.slice(kept[-1], starts=(0,), sizes=(9,), steps=(1,)), starts=(7,), steps=(1,)))
    for y in reversed(kept):
        x = b.mul(x, b.cos(y))
    return [x]


def chain_of_views(b, x, n):
    x = b.broadcast(x, shape=(n + 1, 50), dims=(1,))
    for k in range(n):
        x = b.neg(b.slice(x, starts=(1, 0), sizes=(n - k, 50), steps=(1, 1)))
    return [x]


def stacked_rows(b, x, n):
    rows = []
    for _ in range(n):
        x = b.sin(x)
        rows.append(b.reshape(x, shape=(1, 50)))
    return [b.concatenate(*rows, axis=0)]


def many_results(b, x, n):
    return [b.mul(x, b.full_like(x, float(k))) for k in range(n)]


@pytest.mark.parametrize(
    "build",
    [elementwise_chain, in_place_updates, values_kept_for_later, chain_of_views, stacked_rows, many_results],
    ids=lambda f: f.__name__,
)
def test_lowering_is_nearly_linear(build):
    """Counted in calls of functions, which no other process disturbs."""

    def calls(n):
        case = Case()
        case.output(*build(case.b, case.random((50,), F64), n))
        count = 0

        def count_call(frame, event, argument):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            program(case)
        finally:
            sys.setprofile(None)
        return count

    assert calls(480) < 5 * calls(120)


def test_doubling_views_do_not_explode():
    case = Case()
    b, x = case.b, case.random((100,), F64)
    for _ in range(20):
        n = x.aval.shape[0] - 1
        x = b.add(b.slice(x, starts=(0,), sizes=(n,), steps=(1,)), b.slice(x, starts=(1,), sizes=(n,), steps=(1,)))
    case.output(x)
    case.check(rtol=1e-12)


# --- random graphs ------------------------------------------------------------------------------------------------------------------------


I8, U16 = np.dtype(np.int8), np.dtype(np.uint16)


@st.composite
def random_case(draw):
    case = Case()
    b = case.b
    shapes, dtypes = st.sampled_from([(4, 6), (6,), (3, 4, 2), (40, 30)]), st.sampled_from([F64, F64, I64, BOOL, I8, U16])
    pool = [case.random(draw(shapes), draw(dtypes), k) for k in range(3)]
    for _ in range(draw(st.integers(5, 25))):
        pool.append(_random_equation(draw, b, case, pool))
    case.output(*draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4)), pool[-1])
    return case


def _random_equation(draw, b, case, pool):
    x = draw(st.sampled_from(pool))
    peers = [v for v in pool if v.aval.same_array(x.aval)]
    make = draw(st.sampled_from([_binary, _binary, _view, _view, _reduction, _normalized, *EQUATIONS]))
    out = make(draw, b, case, x, peers) if x.aval.ndim or make in (_binary, _unary) else None
    return b.select(b.lt(x, draw(st.sampled_from(peers))), x, draw(st.sampled_from(peers))) if out is None else out


def _unary(draw, b, case, x, peers):
    return draw(st.sampled_from([b.tanh, b.sin, b.neg, b.abs]))(x) if x.aval.dtype.kind == "f" else b.not_(x)


def _binary(draw, b, case, x, peers):
    return apply(b, draw(st.sampled_from(["add", "mul", "max", "min"])), x, draw(st.sampled_from(peers)))


def _axis(draw, x):
    return draw(st.integers(0, x.aval.ndim - 1))


def _view(draw, b, case, x, peers):
    return draw(st.sampled_from([_transposed, _reshaped, _sliced, _padded]))(draw, b, x)


def _transposed(draw, b, x):
    return b.transpose(x, perm=tuple(draw(st.permutations(range(x.aval.ndim)))))


def _reshaped(draw, b, x):
    d, size = x.aval.shape[0], math.prod(x.aval.shape)
    return b.reshape(x, shape=(size,) if x.aval.ndim > 1 else (d // 2, 2) if d % 2 == 0 else (d, 1))


def _sliced(draw, b, x):
    axis, rank = _axis(draw, x), x.aval.ndim
    d, step = x.aval.shape[axis], draw(st.sampled_from([1, -1, 2, -2]))
    n = draw(st.integers(1, (d + abs(step) - 1) // abs(step)))
    reach = (n - 1) * abs(step)
    start = draw(st.integers(0, d - 1 - reach) if step > 0 else st.integers(reach, d - 1))
    starts, sizes, steps = [0] * rank, list(x.aval.shape), [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, n, step
    return b.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))


def _padded(draw, b, x):
    if math.prod(x.aval.shape) > 3000:
        return b.neg(x) if x.aval.dtype.kind != "b" else b.not_(x)
    low, high = (tuple(draw(st.integers(0, 2)) for _ in x.aval.shape) for _ in range(2))
    return b.pad(x, Literal(1, x.aval.dtype), low=low, high=high)


def _reduction(draw, b, case, x, peers):
    """Of some axes; half of the time spread over them again, as a softmax does."""
    rank = x.aval.ndim
    axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    y = getattr(b, draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_min"])))(x, axes=axes)
    kept = tuple(k for k in range(rank) if k not in axes)
    return y if draw(st.booleans()) else apply(b, "max", x, b.broadcast(y, shape=x.aval.shape, dims=kept))


def _normalized(draw, b, case, x, peers):
    """Two reductions, the second of what the first one made: rows or columns in several stages."""
    rank = x.aval.ndim
    axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    kept = tuple(k for k in range(rank) if k not in axes)

    def spread(y):
        return b.broadcast(y, shape=x.aval.shape, dims=kept)

    centred = apply(b, "mul" if x.aval.dtype.kind == "b" else "sub", x, spread(b.reduce_max(x, axes=axes)))
    total = b.reduce_sum(centred, axes=axes)
    scaled = b.tanh(total) if x.aval.dtype.kind == "f" else total
    return draw(st.sampled_from([scaled, b.add(centred, spread(scaled)), spread(total)]))


def _spread(draw, b, case, x, peers):
    shape, rank = x.aval.shape, x.aval.ndim
    at = draw(st.integers(0, rank))
    dims = tuple(k + (k >= at) for k in range(rank))
    return b.broadcast(x, shape=(*shape[:at], 3, *shape[at:]), dims=dims) if rank < 3 and math.prod(shape) < 500 else None


def _dot(draw, b, case, x, peers):
    if x.aval.ndim != 2 or math.prod(x.aval.shape) > 1500:
        return None
    axis = _axis(draw, x)
    out = b.dot_general(x, draw(st.sampled_from(peers)), contract=((axis,), (axis,)), batch=((), ()))
    return b.mul(out, b.full_like(out, 0.125)) if x.aval.dtype.kind == "f" else out


def _indexed(draw, b, case, x, peers):
    axis = _axis(draw, x)
    d = x.aval.shape[axis]
    i = case.input(np.array(draw(st.lists(st.integers(-d, d - 1), min_size=1, max_size=4))))
    taken = b.gather(draw(st.sampled_from(peers)), i, axes=(axis,))
    how = draw(st.sampled_from(["gather", "scatter_add", "scatter_set", "scatter_min", "scatter_max"]))
    return taken if how == "gather" else getattr(b, how)(x, taken, i, axes=(axis,))


def _write(draw, b, case, x, peers):
    shape, rank = x.aval.shape, x.aval.ndim
    sizes = tuple(draw(st.integers(1, d)) for d in shape)
    starts = tuple(draw(st.integers(0, d - n)) for d, n in zip(shape, sizes, strict=True))
    part = b.slice(draw(st.sampled_from(peers)), starts=(0,) * rank, sizes=sizes, steps=(1,) * rank)
    return b.slice_set(x if draw(st.booleans()) else b.zeros_like(x), part, starts=starts, steps=(1,) * rank)


def _join(draw, b, case, x, peers):
    return b.concatenate(x, draw(st.sampled_from(peers)), axis=_axis(draw, x)) if math.prod(x.aval.shape) < 3000 else None


def _convert(draw, b, case, x, peers):
    return b.convert(x, dtype=draw(st.sampled_from([F64, I64, BOOL, I8, U16])), checked=False) if x.aval.dtype.kind != "f" else None


def _running(draw, b, case, x, peers):
    way = {"axis": _axis(draw, x), "reverse": draw(st.booleans())}
    if x.aval.dtype.kind != "f" and draw(st.booleans()):
        return b.linear_recurrence(draw(st.sampled_from(peers)), x, **way)
    return getattr(b, draw(st.sampled_from(["cumsum", "cummax", "cummin"])))(x, **way)


def _sorted(draw, b, case, x, peers):
    """The elements, or of those that no rounding orders otherwise the places."""
    axis = _axis(draw, x)
    if x.aval.dtype.kind == "f" or draw(st.booleans()):
        return b.sort(x, axis=axis, num_keys=1)[0]
    return b.sort(x, b.iota(shape=x.aval.shape, dtype=I64, axis=axis), axis=axis, num_keys=1)[1]


def _placed(draw, b, case, x, peers):
    """A region at places that are data, read or written."""
    sizes = tuple(draw(st.integers(1, d)) for d in x.aval.shape)
    starts = [case.input(np.asarray(draw(st.integers(-1, d)))) for d in x.aval.shape]
    part = b.dynamic_slice(draw(st.sampled_from(peers)), *starts, sizes=sizes)
    return part if draw(st.booleans()) else b.dynamic_update_slice(x, part, *starts)


EQUATIONS = [_unary, _spread, _dot, _indexed, _write, _join, _convert, _running, _sorted, _placed]


@settings(max_examples=settings().max_examples // 2)  # each compiles
@given(random_case())
def test_random_graphs(case):
    with config.options(parallel_threshold=500):
        case.check(rtol=1e-9)


@pytest.mark.parametrize("step", [-1, -2, -3, 1, 2])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_slices_of_repetitions_run_backwards_too(step, count):
    """Index expressions that are divided are never negative, whatever the direction."""
    x = np.arange(12.0).reshape(3, 4)

    def f(x):
        turned = x.reshape(2, 6).T.reshape(-1)[::step]
        return (
            np.repeat(x, count)[::step] * 1,
            np.tile(x, count)[:, ::step] * 1,
            np.repeat(x, count, 1)[::-1, ::step].ravel()[::step] * 1,
            turned * 1,
        )

    for got, expected in zip(fx.jit(f, backend="cpp")(x), f(x), strict=True):
        np.testing.assert_array_equal(got, expected)
