"""Functions wrapped for PyTorch: the oracle is the same function written in PyTorch, with its own autograd."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functx as fx

torch = pytest.importorskip("torch")
F = torch.nn.functional
wrap = fx.interop.torch.wrap


def leaf(*shape, dtype=torch.float64, seed=0, low=None):
    """A random leaf that requires a gradient; with ``low`` its elements are at least that."""
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return (x if low is None else x.abs() + low).requires_grad_()


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, w, b):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def stencil(u):
    u = u.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def stencil_in_torch(u):
    for _ in range(3):
        u = torch.cat([u[:1], u[1:-1] + 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:]), u[-1:]])
    return u


def double(x):
    x *= 2
    return x.sum()


def two_results(x, y):
    return {"product": x @ y, "norms": (np.sqrt((x * x).sum()), y[::2])}


def two_results_in_torch(x, y):
    return {"product": x @ y, "norms": ((x * x).sum().sqrt(), y[::2])}


# name: with functx, with PyTorch, shapes, least element.
TWICE = {
    "sin": (lambda x: (np.sin(x) * x).sum(), lambda x: (torch.sin(x) * x).sum(), [(3, 4)], None),
    "linear": (lambda x, w, b: np.tanh(x @ w + b), lambda x, w, b: torch.tanh(x @ w + b), [(5, 3), (3, 2), (2,)], None),
    "broadcast": (lambda x, y: x / y, lambda x, y: x / y, [(2, 1, 3), (4, 1)], 0.5),
    "softmax": (softmax, lambda x: F.softmax(x, -1), [(4, 5)], None),
    "layer_norm": (layer_norm, lambda x, w, b: F.layer_norm(x, (6,), w, b), [(3, 6), (6,), (6,)], None),
    "attention": (
        lambda q, k, v: softmax(q @ k.T / 2.0) @ v,
        lambda q, k, v: F.softmax(q @ k.T / 2.0, -1) @ v,
        [(3, 4), (5, 4), (5, 2)],
        None,
    ),
    "stencil": (stencil, stencil_in_torch, [(9,)], None),
    "cumsum": (lambda x: np.cumsum(x, axis=0) ** 2, lambda x: torch.cumsum(x, 0) ** 2, [(4, 3)], None),
    "where": (lambda x, y: np.where(x > y, x * y, y), lambda x, y: torch.where(x > y, x * y, y), [(7,), (7,)], None),
    "gather": (lambda x: x[[2, 0, 2]] * 3.0, lambda x: x[[2, 0, 2]] * 3.0, [(4, 2)], None),
    "prod": (lambda x: x.prod(axis=1), lambda x: x.prod(1), [(3, 4)], 0.3),
    "log_sum": (lambda x: np.log(np.exp(x).sum(axis=0)), lambda x: torch.logsumexp(x, 0), [(3, 4)], None),
    "two_results": (two_results, two_results_in_torch, [(2, 3), (3,)], None),
    "scalar": (lambda x, y: x * np.exp(-y), lambda x, y: x * torch.exp(-y), [(), ()], None),
}
wrapped = {name: wrap(row[0]) for name, row in TWICE.items()}


def flat(out):
    return fx.tree.flatten(out)[0] if not isinstance(out, torch.Tensor) else [out]


def arguments(name, dtype=torch.float64, seed=0):
    return [leaf(*shape, dtype=dtype, seed=seed + i, low=TWICE[name][3]) for i, shape in enumerate(TWICE[name][2])]


@pytest.mark.parametrize("name", TWICE)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), dtype=st.sampled_from([torch.float64, torch.float32]), data=st.data())
def test_values_and_gradients_are_those_of_pytorch(name, seed, dtype, data):
    args = arguments(name, dtype, seed)
    frozen = data.draw(st.sets(st.integers(0, len(args) - 1), max_size=len(args) - 1))
    args = [x.detach() if i in frozen else x for i, x in enumerate(args)]
    ours, theirs = wrapped[name](*args), TWICE[name][1](*args)
    assert fx.tree.structure(ours) == fx.tree.structure(theirs)
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if dtype is torch.float64 else {"rtol": 2e-4, "atol": 2e-5}
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        torch.testing.assert_close(a, b, **tolerance)
        assert a.requires_grad == b.requires_grad
    used = data.draw(st.sets(st.integers(0, len(flat(ours)) - 1), min_size=1))
    used = {k for k in used if flat(theirs)[k].requires_grad}
    active = [x for x in args if x.requires_grad]
    sums = [sum((flat(out)[k] ** 2).sum() for k in used) for out in (ours, theirs)]
    if used:
        for a, b in zip(*(torch.autograd.grad(s, active, allow_unused=True, materialize_grads=True) for s in sums), strict=True):
            torch.testing.assert_close(a, b, **tolerance)
            assert a.shape == b.shape


@pytest.mark.parametrize("name", TWICE)
def test_gradcheck_and_gradgradcheck(name):
    args = arguments(name)
    assert torch.autograd.gradcheck(lambda *xs: tuple(flat(wrapped[name](*xs))), args)
    assert torch.autograd.gradgradcheck(lambda *xs: tuple(flat(wrapped[name](*xs))), args, fast_mode=True)


def test_known_answer():
    t = torch.ones(3, requires_grad=True)
    wrap(lambda a: (np.sin(a) * a).sum())(t).backward()
    torch.testing.assert_close(t.grad, torch.full((3,), np.sin(1) + np.cos(1), dtype=torch.float32))


def test_the_torch_module_is_loaded_when_it_is_used():
    script = "import sys, functx as fx; assert 'torch' not in sys.modules; fx.interop.torch.wrap; assert 'torch' in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute 'tensorflow'"):
        _ = fx.interop.tensorflow


def test_third_derivatives():
    f = wrap(lambda x: (np.sin(x) * x**2).sum())
    x, y = leaf(3), leaf(3)
    for g, z in ((f, x), (lambda x: (torch.sin(x) * x**2).sum(), y)):
        (first,) = torch.autograd.grad(g(z), z, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), z, create_graph=True)
        second.prod().backward()
    torch.testing.assert_close(x.grad, y.grad)


# --- memory -------------------------------------------------------------------------------------------------------------------------------


def test_memory_is_shared_and_nothing_is_copied():
    seen = []
    big = torch.ones(1000, requires_grad=True)
    identity = wrap(lambda x: (x, x[2:], x * 2))
    same, view, new = identity(big)
    assert same is big and view.data_ptr() == big[2:].data_ptr() and new.data_ptr() != big.data_ptr()
    (view.sum() + new.sum()).backward()
    assert torch.equal(big.grad, torch.cat([torch.full((2,), 2.0), torch.full((998,), 3.0)]))
    f = wrap(lambda x, y: (x * y).sum())
    x, y = leaf(4), leaf(4, seed=1)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        f(x, y)
    assert {t.data_ptr() for t in seen} == {x.data_ptr(), y.data_ptr()}


def test_a_result_that_is_kept_for_the_backward_half_is_not_copied():
    seen = []
    x = leaf(100)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        out = wrap(lambda x: np.exp(x))(x)
    assert [t.data_ptr() for t in seen] == [out.data_ptr()]
    out.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().exp())
    with torch.no_grad():
        out.mul_(2)
    out = wrap(lambda x: np.exp(x))(x)
    out.data.zero_(), out.detach().add_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_results_that_share_memory():
    x = leaf(6)

    def f(x):
        y = x * 2
        return y, y, y[1:], y.reshape(2, 3)

    first, again, part, table = wrap(f)(x)
    assert first is again
    part.mul_(10)  # a copy of its own in PyTorch's graph
    (first.sum() + again.sum() + part.sum() + table[0].sum()).backward()
    assert torch.equal(x.grad, torch.tensor([6.0, 26, 26, 24, 24, 24], dtype=torch.float64))
    with torch.no_grad():
        first, again, part, table = wrap(f)(x)
        assert first is again
        part.zero_()
        assert first[1:].abs().sum() == 0 and table.data_ptr() == first.data_ptr() and first._version == part._version == 1


@pytest.mark.parametrize("make", [lambda x: x.T, lambda x: x[::2, 1:], lambda x: x[:, 0], lambda x: x[0, 0], lambda x: x.expand(3, 4, 5)])
def test_any_layout(make):
    f = wrap(lambda x: np.tanh(x) * 2)
    x, y = leaf(4, 5), leaf(4, 5)
    ours, theirs = f(make(x)), torch.tanh(make(y)) * 2
    torch.testing.assert_close(ours, theirs)
    (ours * ours).sum().backward(), (theirs * theirs).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    x.grad = None
    f(make(x)).sum().backward()  # the cotangent is one number, expanded
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64, torch.complex128])
def test_dtypes(dtype):
    f = wrap(lambda x, y: (x * y + x).sum())
    x, y = leaf(5, dtype=dtype), leaf(5, dtype=dtype, seed=1)
    out = f(x, y)
    assert out.dtype == dtype and out.shape == ()
    torch.testing.assert_close(
        out, (x * y + x).sum(), rtol=2e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-2 if dtype.itemsize == 2 else 1e-5
    )
    grads = torch.autograd.grad(abs(out) ** 2 if dtype.is_complex else out, (x, y), create_graph=True)
    theirs = (x * y + x).sum()
    expected = torch.autograd.grad(abs(theirs) ** 2 if dtype.is_complex else theirs, (x, y), create_graph=True)
    for a, b in zip(grads, expected, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a, b, rtol=2e-2 if dtype.itemsize == 2 else 1e-4, atol=2e-2 if dtype.itemsize == 2 else 1e-4)


def test_complex_conventions_and_conjugates_put_off():
    def functions(m):
        return lambda z, w: m.real(m.conj(z) * w * w + m.abs(z) ** 3).sum()

    ours, theirs = wrap(functions(np)), functions(torch)
    z, w = leaf(4, dtype=torch.complex128), leaf(4, dtype=torch.complex128, seed=1)
    for a, b in zip(torch.autograd.grad(ours(z, w), (z, w)), torch.autograd.grad(theirs(z, w), (z, w)), strict=True):
        torch.testing.assert_close(a, b)
    assert torch.autograd.gradcheck(ours, (z, w)) and torch.autograd.gradgradcheck(ours, (z, w))
    lazy = z.conj()
    assert lazy.is_conj()
    torch.testing.assert_close(ours(lazy, lazy.imag * w), theirs(lazy, lazy.imag * w))
    (product,) = (wrap(lambda z: z * 2j)(z),)
    (a,) = torch.autograd.grad(product, z, lazy.detach())  # a lazily conjugated cotangent
    torch.testing.assert_close(a, lazy.detach() * -2j)
    with pytest.raises(ValueError, match="read-only"):
        wrap(double)(lazy.detach())


# --- arguments and results ----------------------------------------------------------------------------------------------------------------


def test_containers_numbers_arrays_and_static_values():
    def f(params, x, power=2.0, *, how, scale=None):
        h = x @ params["w"] + params["b"][0]
        return {"out": (h**power).sum() if how == "sum" else (h**power).mean(), "how": how, "n": x.shape[0], "rows": h.argmax(axis=1)}

    w, b = leaf(3, 2), leaf(2, seed=1)
    x = np.random.default_rng(0).normal(size=(5, 3))
    out = wrap(f)({"w": w, "b": [b, None]}, x, how="sum")
    assert out["how"] == "sum" and out["n"] == 5 and out["rows"].dtype == torch.int64 and not out["rows"].requires_grad
    expected = ((torch.from_numpy(x) @ w + b) ** 2).sum()
    kept = x.copy()
    x[:] = 0.0  # nobody watches arrays: the call has copied it
    for a, e in zip(
        torch.autograd.grad(out["out"], (w, b), create_graph=True),
        torch.autograd.grad(((torch.from_numpy(kept) @ w + b) ** 2).sum(), (w, b)),
        strict=True,
    ):
        torch.testing.assert_close(a, e)
    torch.testing.assert_close(out["out"], ((torch.from_numpy(kept) @ w + b) ** 2).sum())
    assert expected is not None
    static = wrap(lambda x, n, name: (x[:n] ** 2).sum() if name == "a" else x, static_argnums=(1, 2))
    (g,) = torch.autograd.grad(static(b, 1, "a"), b, create_graph=True)
    assert torch.equal(g, torch.stack([2 * b[0], torch.zeros((), dtype=torch.float64)]))
    (h,) = torch.autograd.grad(g.sum(), b)
    assert h.tolist() == [2, 0]


def test_python_results_and_calls_without_tensors():
    f = wrap(lambda x, n: (x * n, n + 1, n * 0.5, [None, np.arange(3)]))
    y, n, half, (none, numbers) = f(leaf(2), 3)
    assert y.requires_grad and (n, half, none) == (4, 1.5, None) and type(n) is int and numbers.tolist() == [0, 1, 2]
    out = f(np.ones(2), 3)
    assert type(out[0]) is np.ndarray and type(out[1]) is int
    jitted = fx.jit(lambda x: x + 1)
    assert wrap(jitted)(torch.zeros(2)).tolist() == [1, 1]
    with pytest.raises(fx.errors.UnknownOptionError, match="jitted already"):
        wrap(jitted, memory_budget=0.5)
    with pytest.raises(fx.errors.UnknownOptionError):
        wrap(lambda x: x, memory_budgets=0.5)


def test_what_is_not_differentiated_costs_nothing():
    f = wrap(lambda x, w: (np.tanh(x @ w), (x @ w) > 0))
    x, w = leaf(3, 4), leaf(4, 2, seed=1)
    out, mask = f(x.detach(), w)
    assert not mask.requires_grad and mask.dtype == torch.bool
    out.sum().backward()
    assert w.grad is not None and x.grad is None
    assert not f(x.detach(), w.detach())[0].requires_grad
    with torch.no_grad():
        assert not f(x, w)[0].requires_grad
    with torch.inference_mode():
        assert f(x, w)[0].is_inference()
    two = wrap(lambda x, y: (x * 2, np.exp(y)))
    y = leaf(3)
    two(x, y)[0].sum().backward()  # one cotangent is None
    assert torch.equal(y.grad, torch.zeros(3, dtype=torch.float64)) and torch.equal(x.grad, torch.full((3, 4), 2.0, dtype=torch.float64))


def test_the_same_tensor_twice():
    x, y = leaf(3), leaf(3)
    wrap(lambda a, b: (a * b * b).sum())(x, x).backward()
    (y * y * y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_memory_budget_and_the_backward_half_keeps_little():
    def f(x, w):
        for _ in range(4):
            x = np.tanh(x @ w)
        return x.sum()

    def kept(**options):
        seen = {}
        x, w = leaf(8, 8), leaf(8, 8, seed=1)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.setdefault(t.data_ptr(), t), lambda t: t):
            out = wrap(f, **options)(x, w)
        out.backward()
        return len(seen), x.grad

    (all_of_it, a), (some, b), (inputs, c) = kept(partition="save_all"), kept(), kept(memory_budget=0.0)
    assert inputs == 2 < some <= all_of_it
    torch.testing.assert_close(a, b), torch.testing.assert_close(a, c)


# --- the life of a graph ------------------------------------------------------------------------------------------------------------------


def test_retain_graph_and_several_backward_calls():
    x = leaf(3)
    out = wrap(lambda x: (x**3).sum())(x)
    out.backward(retain_graph=True)
    out.backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() ** 2)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_what_is_kept_goes_with_the_graph():
    x = leaf(3)
    middle = x * 2
    alive = weakref.ref(middle)
    out = wrap(lambda a, b: (a * b).sum())(middle, leaf(3))
    del middle
    gc.collect()
    assert alive() is not None
    out.backward()
    gc.collect()
    assert alive() is None
    middle = x * 2
    alive = weakref.ref(middle)
    out = wrap(lambda a: a.sum())(middle)  # needed by derivatives of the derivative only
    del middle
    out.backward()
    gc.collect()
    assert alive() is None


def test_changed_tensors_are_noticed():
    product = wrap(lambda x, y: (x * y).sum())
    x, y = leaf(3), torch.ones(3, dtype=torch.float64)
    out = product(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    total = wrap(lambda x, y: (x + y).sum())
    out = total(x, y)
    y.add_(1)  # not needed
    (g,) = torch.autograd.grad(out, x, retain_graph=True)
    assert torch.equal(g, torch.ones_like(x))
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 2; expected version 1"):
        torch.autograd.grad(out, x, create_graph=True)


def test_hooks_and_checkpoint_of_pytorch():
    f = wrap(lambda x, w: np.tanh(x @ w))
    x, w = leaf(2, 3), leaf(3, 3, seed=1)
    expected = torch.autograd.grad(f(f(x, w), w).sum(), (x, w))
    with torch.autograd.graph.save_on_cpu():
        out = f(f(x, w), w).sum()
    for a, b in zip(torch.autograd.grad(out, (x, w)), expected, strict=True):
        torch.testing.assert_close(a, b)
    out = torch.utils.checkpoint.checkpoint(lambda x, w: f(f(x, w), w).sum(), x, w, use_reentrant=False)
    for a, b in zip(torch.autograd.grad(out, (x, w)), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_in_a_module_with_an_optimizer():
    class Model(torch.nn.Module):
        def __init__(self, wrapped):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second, self.wrapped = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1), wrapped

        def forward(self, x):
            if self.wrapped:
                return loss(dict(self.first.named_parameters()), dict(self.second.named_parameters()), x)
            return (self.second(torch.tanh(self.first(x))) ** 2).mean()

    @wrap
    def loss(first, second, x):
        hidden = np.tanh(x @ first["weight"].T + first["bias"])
        return ((hidden @ second["weight"].T + second["bias"]) ** 2).mean()

    models = [Model(True), Model(False)]
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    for model in models:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    assert models[0](x) < 0.05


def test_disabled_jit_does_not_stop_gradients():
    f = wrap(lambda x: (x**3).sum())
    x = leaf(3)
    with fx.disable_jit():
        out = f(x)
        (g,) = torch.autograd.grad(out, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        assert f(x.detach()) == out
    torch.testing.assert_close(h, 6 * x)


# --- errors -------------------------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_wrapped_says_so():
    f = wrap(lambda x: x + 1)
    with pytest.raises(TypeError, match=r"(?s)on meta.*\.cpu\(\)"):
        f(torch.ones(2, device="meta"))
    with pytest.raises(TypeError, match=r"(?s)sparse.*to_dense"):
        f(torch.eye(3).to_sparse().requires_grad_())
    with pytest.raises(TypeError, match="value of a traced"):
        wrap(lambda x: x if x.sum() > 0 else -x)(leaf(2))
    with pytest.raises(ValueError, match=r"broadcast|shapes"):
        wrap(lambda x, y: x + y)(leaf(2), leaf(3))
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)traces another function.*call the function itself"):
        fx.grad(lambda a: a * f(leaf(1)))(1.0)
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)no memory.*torch\.func"):
        torch.func.grad(lambda x: f(x).sum())(torch.ones(2))
