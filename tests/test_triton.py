"""The triton backend through Triton's interpreter: models, forms of kernels, checks, dtypes, control flow, random numbers."""

import copy
import re

import ml_dtypes
import numpy as np
import oracles
import pytest
from models import MODELS, layer_norm, per_sample, per_sample_arguments, softmax

import functx as fx
from functx.errors import BackendError, IndexOutOfBoundsError, IntegerOverflowError, MissingDependencyError

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def triton(f):
    return fx.jit(f, backend="triton")


def source(f, *args):
    return triton(f).code(*args)


def kernels(text):
    return re.findall(r"@kernel\ndef (\w+)", text)


def launches(text):
    return len(re.findall(r"\w+\[\(\d+,\)\]\(", text))


def agrees(f, *args, rtol=1e-12, atol=0.0, like=None):
    """Through the interpreter as on the reference backend: results and changes to arguments."""
    mine, plain = copy.deepcopy(args), copy.deepcopy(args)
    got, want = triton(f)(*mine), (like or oracles.reference_jit(f))(*plain)
    oracles.assert_same(fx.tree.leaves((got, mine)), fx.tree.leaves((want, plain)), rtol=rtol, atol=atol)


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model = MODELS[name]
    agrees(model.f, *model.arguments(model.small), rtol=1e-4, atol=1e-5)


def test_tensors_and_arrays():
    f = triton(lambda x: (x * 2, x.sum()))
    doubled, total = f(np.arange(3.0))
    assert type(doubled) is np.ndarray and doubled.flags.writeable and doubled.base is None and type(total) is np.float64
    doubled, total = f(torch.arange(3.0))
    assert torch.equal(doubled, torch.tensor([0.0, 2, 4])) and total.item() == 3
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    oracles.assert_same(f(frozen), (np.array([0.0, 2, 4]), np.float64(3)))
    oracles.assert_same(f(np.arange(9.0)[::-3]), (np.array([16.0, 10, 4]), np.float64(15)))


def test_arguments_that_are_written():
    def f(x, y):
        x[1:] += y[:-1]
        y *= x
        return x.sum()

    agrees(f, np.arange(5.0), np.arange(5.0))
    agrees(f, np.arange(20.0).reshape(4, 5).T, np.ones((5, 4)))
    agrees(f, np.arange(5.0).reshape(5, 1)[:, ::-1], np.arange(5.0).reshape(5, 1))  # contiguous, with a negative stride
    x, y = torch.arange(5.0), torch.ones(5)
    triton(f)(x, y)
    assert torch.equal(x, torch.tensor([0.0, 2, 3, 4, 5])) and torch.equal(y, x)


# --- the text -----------------------------------------------------------------------------------------------------------------------------


def test_softmax_and_layer_norm_are_one_kernel():
    for n in (16, 700, 3000):
        x = np.ones((64, n), np.float32)
        assert len(kernels(source(softmax, x))) == launches(source(softmax, x)) == 1
        assert len(kernels(source(layer_norm, x, x[0], x[0]))) == 1
        assert source(softmax, x).count("tl.load") == 1


def test_names_lines_and_masks():
    text = source(lambda x: np.tanh(x) + 1, np.ones(1000))
    assert kernels(text) == ["tanh_add"] or kernels(text) == ["add"]
    assert re.search(r"test_triton.py:\d+", text) and "inside = i0 < 1000" in text
    assert "inside" not in source(lambda x: np.tanh(x) + 1, np.ones(2048))


def test_indices_have_64_bits_where_they_need_them():
    big = np.broadcast_to(np.float32(1), (50_000, 50_000))
    assert "tl.int64" in source(lambda x: x + 1, big) and "tl.int64" not in source(lambda x: x + 1, big[:9])


def test_equal_kernels_are_one():
    text = source(lambda x, y: (np.sin(x).sum(), np.sin(y).sum()), np.ones(4000), np.ones(4000))
    assert len(kernels(text)) < launches(text)


def test_shared_weights_are_never_batched():
    f, (params, x, y) = triton(per_sample), per_sample_arguments(32)
    products = re.findall(r"torch\.\w*mm\(.*", f.code(params, x, y))
    assert products and all(line.startswith("torch.mm(") for line in products)
    gradient = f(params, x, y)[0]
    assert gradient.shape == (64, 32, 32)


def test_products_of_short_floats_are_not_converted():
    a, b = normal(20, 30).astype("float16"), normal(30, 10).astype("float16")
    text = source(lambda a, b: a @ b, a, b)
    assert not kernels(text) and "torch.mm(" in text
    agrees(lambda a, b: a @ b + 1, a, b, rtol=3e-2, atol=3e-2)
    agrees(lambda a, b: a @ b + 1, a.astype("bfloat16"), b.astype("bfloat16"), rtol=1e-5, atol=1e-5)  # float32, as NumPy has it


def test_operands_of_products_are_read_where_they_lie():
    a, b, c = normal(20, 30), normal(10, 30), normal(4, 20, 30)
    assert not kernels(source(lambda a, b: a @ b.T, a, b)) and not kernels(source(lambda c: c @ c.transpose(0, 2, 1), c))
    agrees(lambda a, b, c: (a @ b.T, a.T @ a, c @ c.transpose(0, 2, 1), np.einsum("bij,kj->kib", c, b), a[5:, ::2] @ b[:, ::2].T), a, b, c)


# --- forms --------------------------------------------------------------------------------------------------------------------------------


def statistics(axis):
    return lambda x: (x.sum(axis), x.max(axis), x.min(axis), x.argmax(axis), x.argmin(axis), x.prod(axis), (x * x).mean(axis))


def in_place(A, x):
    s = A.sum(1)
    x *= s
    return A * x[:, None]


def running_mean(A, m):
    m *= 0.9
    m += 0.1 * A.mean(1)
    return A - m[:, None]


def short_rows(A, B):
    B *= A.sum(1, keepdims=True)
    return B.sum(1), A * B.sum(1, keepdims=True)


@pytest.mark.parametrize("f, shape", [(in_place, (64,)), (running_mean, (64,)), (short_rows, (64, 3))])
def test_all_threads_read_before_one_writes(f, shape):
    """Where a stage has fewer places than the block has threads, each place is held by several of them: the interpreter has one."""
    for options in ({}, {"dynamic": True}):
        jitted = fx.jit(f, backend="triton", **options)
        for columns in (4096, 9000):
            args = normal(64, columns), normal(*shape)
            agrees(f, *copy.deepcopy(args), rtol=1e-9, atol=1e-9)
            text = next(k for k in jitted.code(*args).split("@kernel") if "tl.debug_barrier()" in k)
            written = re.search(r"tl.debug_barrier\(\)\n +tl.store\((\w+) ", text)[1]
            assert f"tl.load({written} " in text.partition("tl.debug_barrier()")[0]

    def centred(A):
        A -= A.mean(1, keepdims=True)

    assert source(centred, normal(64, 4096)).count("tl.debug_barrier()") == 1  # between the stages: each place of a row has its thread


@pytest.mark.parametrize("shape, axis", [((7, 33), 1), ((7, 33), 0), ((3, 9000), 1), ((9000, 3), 0), ((30, 2500), 1), ((2, 3, 4), (0, 2))])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_reductions(shape, axis, dtype):
    x = (np.round(normal(*shape) * 8) / 8).astype(dtype)
    x.ravel()[::5] = 1

    def f(x):
        places = (x.argmax(axis), x.argmin(axis)) if isinstance(axis, int) else ()
        return (x.sum(axis), x.max(axis), x.min(axis), (x * x).mean(axis), *places)

    agrees(f, x, rtol=1e-9)


def test_reductions_in_two_steps():
    x = normal(300, 100)
    text = source(lambda x: x.sum(), x)
    assert kernels(text) == ["sum_1", "sum_combine"] or kernels(text) == ["sum", "sum_combine"]
    agrees(lambda x: (x.sum(), x.max(), x.argmin(), (x > 3).any(), np.float64(x.size) * x.mean()), x, rtol=1e-9)
    agrees(lambda x: (x.sum(0), x.argmax(0), (x < 3).all(0)), normal(9000, 5), rtol=1e-9)
    assert "sum_combine" in source(lambda x: x.sum(0), normal(9000, 5))


def test_reductions_of_nan_infinity_and_nothing():
    x = normal(9, 40)
    x[2, 5] = x[7, 3] = np.nan
    x[4, 1], x[5, 2] = np.inf, -np.inf
    for axis in (0, 1, None):
        agrees(lambda x, axis=axis: (x.max(axis), x.min(axis), x.argmax(axis), x.argmin(axis), x.sum(axis)), x)
    agrees(lambda x: (x.argmax(), x.max()), np.full(9, -np.inf))
    agrees(lambda x: (x.sum(0), x.sum(1), (x > 0).any(1)), np.ones((3, 0)))
    agrees(lambda x: x[:0] @ x[:0] + x[1:1].sum(), np.ones(5))


@pytest.mark.parametrize("shape", [(5, 40), (3, 2500)])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_results(shape, axis):
    f = lambda x: (np.cumsum(x, axis), np.cumprod(x, axis), np.maximum.accumulate(x, axis), fx.lax.cumlogsumexp(x, axis))  # noqa: E731
    agrees(f, normal(*shape), rtol=1e-9, atol=1e-9)
    agrees(lambda x: fx.lax.cumsum(x, axis, reverse=True), normal(*shape), rtol=1e-9, atol=1e-9)
    agrees(fx.grad(lambda x: (np.cumsum(x, axis) ** 2).sum()), normal(*shape), rtol=1e-9, atol=1e-9)


def test_transposed_reads_are_squares():
    x = normal(70, 100)
    assert "[:, None]" in source(lambda x: x.T + 1, x) and "[:, None]" not in source(lambda x: x + 1, x)
    agrees(lambda x: x.T + 1, x)
    agrees(lambda x, y: (x.transpose(2, 0, 1) * y, x.transpose(0, 2, 1).copy()), normal(3, 70, 40), normal(40, 3, 70))


def test_rows_that_are_read_at_other_places():
    def f(x):
        y = np.exp(x - x.max(-1, keepdims=True))
        return y[:, ::-1] / y.sum(-1, keepdims=True) + y[:, :1], y

    for n in (12, 3000):
        agrees(f, normal(40, n), rtol=1e-9)
    agrees(lambda x: np.cumsum(softmax(x), -1)[:, ::-1] * x, normal(40, 12), rtol=1e-9)


def test_views_and_broadcasts():
    x = normal(6, 8)

    def f(x):
        y = np.concatenate([x[::-1, 1:], np.pad(x, 1)[2:5, :7]])
        return y, x.reshape(4, 12).T.reshape(-1), x[:, None] * x[1], np.stack([x, x + 1], 1)[..., ::3], np.roll(x, 3), np.eye(6) @ x

    agrees(f, x)


# --- places that are computed -------------------------------------------------------------------------------------------------------------


def test_of_several_values_for_one_place_the_last_is_stored():
    def put(x, i, v):
        x[i] = v

    agrees(put, np.zeros(10), np.array([1, 2, 1, 5, -9]), np.arange(5.0))
    agrees(put, np.zeros((10, 3)), np.array([1, 2, 1, 5, 1]), normal(5, 3))
    many = np.random.default_rng(0).integers(0, 50, 3000)
    agrees(put, np.zeros(50), many, np.arange(3000.0))


def test_values_for_one_place_are_added():
    def add(x, i, v):
        np.add.at(x, i, v)

    for dtype in ("float64", "int64", "float16", "int8", "bool"):
        agrees(add, np.zeros(10, dtype), np.array([1, 2, 1, 5, -9]), np.arange(5).astype(dtype))
    agrees(lambda x, i, v: (np.maximum.at(x, i, v), np.multiply.at(x, i, v))[0], np.ones(10), np.array([1, 2, 1]), np.array([np.nan, 3, 2]))
    agrees(lambda x: np.add.at(x, [1, 1, 2], 0.5), np.zeros(4))
    agrees(lambda x: (np.add.at(x, [0, 0], 0.5), np.put(x, [0, 0], 1))[0], np.zeros(1))
    assert "tl.atomic_add" in source(add, np.zeros(10), np.array([1, 1]), np.ones(2))


@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_indices_are_checked(bad):
    def f(x, i):
        return x[i]

    for i in (np.array([0, bad, 1]), np.array(bad), np.where(np.arange(3000) == 2500, bad, 0)):
        with pytest.raises(IndexOutOfBoundsError, match=rf"(?s)index {bad} is out of bounds for axis 0 with size 4.*return x\[i\]"):
            triton(f)(np.ones((4, 3)), i)
    with pytest.raises(IndexOutOfBoundsError, match="index 7 is out of bounds for axis 1 with size 3"):
        triton(lambda x, i: fx.grad(lambda x: x[:, i].sum())(x))(np.ones((4, 3)), np.array([1, 7]))


def test_a_failed_check_leaves_arguments_as_they_were():
    def f(x, table, i):
        y = table[i] * 2
        x += y
        x[::2] = x.sum()
        return y

    x = np.arange(3.0)
    with pytest.raises(IndexError):
        triton(f)(x, np.ones(5), np.array([0, 9, 1]))
    oracles.assert_same(x, np.arange(3.0))
    agrees(f, x, np.ones(5), np.array([0, -1, 1]))


def test_integers_that_do_not_fit():
    f = triton(lambda x, n: x + n)
    oracles.assert_same(f(np.ones(3, np.int8), 4), np.full(3, 5, np.int8))
    with pytest.raises(IntegerOverflowError, match=r"(?s)Python integer 400 out of bounds for int8"):
        f(np.ones(3, np.int8), 400)


# --- control flow, randomness, dtypes -----------------------------------------------------------------------------------------------------


def test_loops_and_choices():
    agrees(lambda x: fx.while_loop(lambda s: s[0].sum() < 50, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0)), np.ones(4))
    agrees(lambda x: fx.fori_loop(0, 5, lambda i, s: np.sin(s) + i, x), normal(3))
    agrees(lambda x, k: fx.switch(k, [np.sin, np.cos, lambda x: x * 2], x), normal(3), 2)
    agrees(lambda x: fx.scan(lambda c, v: (c + v, c * v), x[0], x, reverse=True), normal(5, 3))
    agrees(fx.grad(lambda x: fx.cond(x.sum() > 0, lambda x: (x * x).sum(), lambda x: x.sum(), x)), np.ones(3))
    table = np.sin(np.arange(3000.0))
    agrees(lambda x: fx.scan(lambda c, v: (c + v * np.array(table).sum(), None), 0.0, x)[0], normal(4))
    agrees(lambda x: fx.fori_loop(0, 3, lambda i, s: s * fx.numpy.asarray(np.cos(table))[i] + 1, x), normal(3))
    agrees(fx.vmap(lambda x: fx.while_loop(lambda s: s < 9, lambda s: s * 2, x)), np.array([1.0, 3.0, 20.0]))
    with pytest.raises(IndexError, match="index 9"):
        triton(lambda x, i: fx.scan(lambda c, k: (c + x[k], None), 0.0, i)[0])(np.ones(4), np.array([1, 9, 2]))


def test_random_numbers_are_the_same_everywhere():
    key = fx.random.key(7)
    exact = lambda k: (fx.random.bits(k, (33,)), fx.random.uniform(k, (5, 7)), fx.random.randint(k, (9,), 0, 100), fx.random.split(k, 3))  # noqa: E731
    agrees(exact, key, rtol=0)
    agrees(lambda k: fx.random.normal(k, (40,)), key, rtol=1e-6)


def test_derivatives():
    x = normal(6)
    agrees(fx.hessian(lambda v: (np.sin(v) * v**2).sum()), x, rtol=1e-9, atol=1e-9)
    agrees(fx.vmap(fx.grad(fx.grad(lambda v: np.log(v) ** 2))), x + 5)
    agrees(fx.grad(lambda v: fx.checkpoint(lambda v: np.sin(np.sin(v)))(v).sum()), x)
    for budget in (0.0, 0.5, 1.0):
        f = fx.jit(fx.grad(lambda v: np.tanh(np.sin(np.exp(v))).sum()), backend="triton", memory_budget=budget)
        np.testing.assert_allclose(f(x), fx.grad(lambda v: np.tanh(np.sin(np.exp(v))).sum())(x), rtol=1e-12)
    out, pull = fx.vjp(triton(lambda v: np.sin(v) * v), x)
    np.testing.assert_allclose(pull(np.ones(6))[0], np.sin(x) + x * np.cos(x), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_rounded_as_in_numpy(dtype):
    x = normal(50).astype(dtype)
    agrees(lambda x: (x * x + x, x / (x * x + x.dtype.type(1)), np.maximum(x, 0), -x, x > 0, x.astype(np.float64)), x, rtol=0)
    agrees(lambda x: (x.sum(), x.mean(), np.exp(x), softmax(x)), x, rtol=1e-2)
    agrees(lambda x: x.astype(dtype), normal(50), rtol=0)


def test_complex_numbers_sorting_and_special_functions_go_through_torch():
    z = normal(3, 4) + 1j * normal(3, 4, seed=1)
    agrees(lambda z: (np.exp(z) * z, z @ z.T, z.sum(0), z[::-1].conj(), abs(z), z.max(1)), z, rtol=1e-9)
    agrees(lambda x: (np.sort(x, 0), np.argsort(x), fx.lax.top_k(x, 2)), normal(5, 4))
    agrees(lambda x: fx.scipy.special.digamma(x), normal(5) ** 2 + 1, rtol=1e-9)
    assert "PyTorch's" in source(np.sort, normal(4))


# --- what there is to ask, and errors -----------------------------------------------------------------------------------------------------


def test_plans_steps_and_counts():
    f, x = triton(lambda x: softmax(x @ x).sum()), normal(32, 32)
    assert f.memory_plan(x).peak >= 32 * 32 * 8
    executable = f.compiled(x)[1].executable
    assert [step.kind for step in executable.steps][0] == "BLAS product" and executable.workspace_bytes >= 32 * 32 * 8
    f(x)
    f(x + 1)
    assert f.cache_info().traces == 1 and triton(lambda x: softmax(x @ x).sum()).compiled(x)[1].executable.compiled is False


def test_no_lowering():
    with pytest.raises(BackendError, match=r"(?s)no lowering of 'poisson_sample' at .*test_triton.py.*backend='cpp'"):
        triton(lambda x: fx.random.poisson(fx.random.key(0), x, x.shape))(np.ones(3))


# --- callbacks ----------------------------------------------------------------------------------------------------------------------------


def test_callbacks_get_arrays_and_their_results_go_on():
    seen = []

    def host(x, k):
        seen.append((type(x), x.dtype.name, k))
        return np.flip(x) * k

    for dtype in ("float32", "bfloat16", "complex128", "uint16", "bool"):
        x = np.ones((2, 3)).astype(getattr(ml_dtypes, dtype, dtype))
        f = triton(lambda x: fx.pure_callback(host, fx.ShapeDtypeStruct(x.shape, x.dtype), x, np.asarray(1, x.dtype)) + x[::-1])
        oracles.assert_same(f(x), x + x)
        assert seen[-1][:2] == (np.ndarray, dtype)
    steps = f.compiled(x)[1].executable.steps
    assert "reference implementation" in [step.kind for step in steps] and "callback (test_triton.py" in f.code(x)
    assert torch.equal(f(torch.ones(2, 3, dtype=torch.bool)), torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize("module", ["torch", "triton"])
def test_a_package_that_is_missing(module, monkeypatch):
    import importlib.util

    from functx import backend

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == module else find(name, *rest))
    monkeypatch.setattr(backend._registry, "instances", {})
    with pytest.raises(MissingDependencyError, match=rf"(?s)triton backend needs {module}.*pip install {module}"):
        triton(lambda x: x + 1)(np.ones(2))
