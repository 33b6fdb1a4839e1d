"""Calls on tensors of a GPU, on machines without one: CPU tensors pass for a GPU's, and Triton's interpreter for the GPU.

Their ghosts get addresses where no memory is: whoever looked into one would crash.
"""

from typing import ClassVar

import numpy as np
import pytest

import functx as fx
import functx.numpy as fnp
from functx import tensors
from functx.errors import BackendError, DeviceError, DeviceMemoryError, UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

NOWHERE = 1 << 46


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(tensors, "on_gpu", lambda v: isinstance(v, torch.Tensor) and not v.is_meta)
    monkeypatch.setattr(tensors, "address", lambda t: t.data_ptr() + NOWHERE)


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def test_tensors_go_to_triton():
    f = fx.jit(lambda d, s: {"y": np.tanh(d["x"]) * s, "total": d["x"].sum(), "n": 3, "none": None})
    x = normal(5, 7)
    for s in (2.0, np.float32(2), np.array(2.0, np.float32), torch.tensor(2.0)):
        out = f({"x": x}, s)
        assert torch.allclose(out["y"], torch.tanh(x) * 2) and out["y"].dtype == torch.float32
        assert torch.allclose(out["total"], x.sum()) and out["total"].shape == ()
        assert out["n"] == 3 and out["none"] is None
    assert "@kernel" in f.code({"x": x}, 2.0) and "tanh" in str(f.ir({"x": x}, 2.0))
    assert "static void kernel" in f.code({"x": np.ones(3)}, 2.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_dtypes(dtype):
    x = torch.tensor([[1, 0, 3], [1, 1, 2]]).to(dtype)
    y = fx.jit(lambda x: x + x)(x)
    assert y.dtype == dtype and torch.equal(y, x + x)


def test_calls_are_counted():
    f = fx.jit(lambda x: x + 1)
    for x in (torch.ones(2), torch.ones(2), np.ones(2), torch.ones(3)):
        f(x)
    info = f.cache_info()
    assert (info.hits, info.traces, info.entries) == (1, 3, 3)
    f.clear_cache()
    assert f.cache_info().entries == 0 and torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def test_sizes_of_tensors_become_symbolic():
    def f(x, i):
        y = x[x > 0]
        x *= 2
        return y, x[i], np.tanh(x) / x.shape[0] if x.shape[0] > 64 else x.sum()

    jitted = fx.jit(f)
    for n in (128, 256, 100, 10, 3, 65):
        x, i = normal(n), torch.arange(n - 1, -1, -2)
        expected_x = x.numpy().copy()
        expected = f(expected_x, i.numpy())
        for got, want in zip((*jitted(x, i), x), (*expected, expected_x), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    assert jitted.cache_info().compilations == 3
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        jitted(normal(9), torch.tensor([0, 9, 1]))
        fx.debug.synchronize()


def test_writes_views_and_identity():
    @fx.jit
    def f(x, y):
        x *= 2
        return x, x[1:], x[::2], x[::-1], y, y

    x, y = torch.arange(4.0), torch.ones(2)
    version = x._version
    same, tail, even, backwards, other, again = f(x, y)
    assert same is x and other is y and again is y and torch.equal(x, 2 * torch.arange(4.0))
    assert tail.data_ptr() == x[1:].data_ptr() and torch.equal(even, x[::2]) and torch.equal(backwards, x.flip(0))
    tail.zero_()
    assert torch.equal(x, torch.tensor([0.0, 0, 0, 0])) and x._version > version


def test_layouts():
    base = normal(6, 4)
    f = fx.jit(lambda x: x + 1)
    for x in (base.T, base[1:, 1:3], base[::2], base[:, None, 2], base.expand(3, 6, 4), torch.ones(0, 3)):
        assert torch.equal(f(x), x + 1)

    @fx.jit
    def double(x):
        x *= 2

    want = base.clone()
    want.T[1:] *= 2
    double(base.T[1:])
    assert torch.equal(base, want)


def test_results_in_another_order_and_shared_results():
    twice, column = fx.jit(lambda x: (z := x.T * 2, z[:, 0]))(normal(3, 4))
    assert twice.stride() == (1, 4) and torch.equal(twice, normal(3, 4).T * 2) and column.data_ptr() == twice.data_ptr()
    y, part = fx.jit(lambda x: (z := x * 2, z[1]))(normal(3, 4))
    assert part.data_ptr() == y[1].data_ptr()


def test_arguments_that_share_memory():
    def f(x, y):
        x += 1
        return y * 2

    memory = torch.arange(6.0)
    want = np.arange(6.0, dtype=np.float32)
    assert torch.equal(fx.jit(f)(memory[:4], memory[2:]), torch.from_numpy(f(want[:4], want[2:])))
    assert torch.equal(memory, torch.from_numpy(want))
    x = torch.zeros(3)
    assert torch.equal(fx.jit(f)(x, x), torch.full((3,), 2.0))


def test_transforms():
    x = normal(4, 3)

    def loss(x):
        return (np.sin(x) * x).sum()

    gradient = torch.sin(x) + x * torch.cos(x)
    assert torch.allclose(fx.jit(fx.grad(loss))(x), gradient, atol=1e-6)
    assert torch.allclose(fx.jit(fx.vmap(fx.grad(loss)))(x), gradient, atol=1e-6)
    assert torch.allclose(fx.jit(fx.grad(lambda x: fx.checkpoint(loss)(x)), memory_budget=0.0)(x), gradient, atol=1e-6)
    out, pull = fx.vjp(fx.jit(lambda x: np.sin(x) * x), x)
    assert torch.allclose(out, torch.sin(x) * x, atol=1e-6)
    assert torch.allclose(pull(torch.ones_like(x))[0], gradient, atol=1e-6)
    assert pull(None)[0].abs().max() == 0


def test_loops_and_choices():
    def step(h, x):
        return np.tanh(h + x), h.sum()

    h, xs = normal(3), normal(5, 3)
    last, sums = fx.jit(lambda h, xs: fx.scan(step, h, xs))(h, xs)
    want = h
    for k in range(5):
        assert torch.allclose(sums[k], want.sum(), atol=1e-6)
        want = torch.tanh(want + xs[k])
    assert torch.allclose(last, want, atol=1e-6)
    halved = fx.jit(lambda x: fx.while_loop(lambda s: s.sum() > 1, lambda s: s / 2, x))(torch.ones(8))
    assert torch.equal(halved, torch.full((8,), 0.125))
    chosen = fx.jit(lambda x: fx.cond(x[0] > 0, lambda x: x * 2, lambda x: -x, x))(torch.tensor([-1.0, 2.0]))
    assert torch.equal(chosen, torch.tensor([1.0, -2.0]))


def test_eager_calls_of_functx_numpy():
    x = normal(3, 4)
    assert torch.allclose(fnp.sum(x, axis=1), x.sum(1)) and torch.equal(fnp.where(x > 0, x, 0.0), x.relu())
    assert torch.equal(fnp.concatenate([x, x], axis=0), torch.cat([x, x])) and torch.allclose(fnp.sin(x), torch.sin(x), atol=1e-6)
    out = torch.empty_like(x)
    assert fnp.add(x, 1.0, out=out) is out and torch.equal(out, x + 1)
    assert isinstance(fnp.sum(np.ones(3)), np.float64)


# --- errors -------------------------------------------------------------------------------------------------------------------------------


def test_mixed_devices():
    f = fx.jit(lambda x, params: x + params["w"])
    with pytest.raises(DeviceError, match=r"(?s)'x' on cpu, 'params\['w'\]' on meta.*one device"):
        f(torch.ones(2), {"w": torch.ones(2, device="meta")})
    with pytest.raises(DeviceError, match=r"(?s)reads an array of the program, f64\[2\].*argument"):
        w = np.ones(2)
        fx.jit(lambda x: x * w)(torch.ones(2))


def test_what_cannot_be():
    for x in (torch.ones(1, dtype=torch.complex64).conj(), torch.ones(1, dtype=torch.complex64).conj().imag):
        with pytest.raises(UnsupportedError, match=r"(?s)conjugate or the negative.*resolve_conj"):
            fx.jit(lambda x: x * 2)(x)
    with pytest.raises(UnsupportedError, match="requires a gradient"):
        fx.jit(lambda x: x)(torch.ones(2, requires_grad=True))
    with pytest.raises(UnsupportedError, match=r"(?s)sparse.*to_dense"):
        fx.jit(lambda x: x)(torch.eye(3).to_sparse())
    with pytest.raises(UnsupportedError, match=r"(?s)float8.*x\.float"):
        fx.jit(lambda x: x)(torch.ones(2).to(torch.float8_e5m2))
    with pytest.raises(DeviceError, match=r"(?s)backend='cpp'.*leave backend out"):
        fx.jit(lambda x: x, backend="cpp")(torch.ones(2))
    with pytest.raises(DeviceError, match="inside a function that is being traced"):
        t, inner = torch.ones(2), fx.jit(lambda x: x * 2)
        fx.jit(lambda x: x + inner(t))(np.ones(2))
    with pytest.raises(BackendError, match=r"(?s)no lowering of 'poisson_sample'.*extern"):
        fx.jit(lambda k, x: fx.random.poisson(k, x))(torch.tensor([0, 3], dtype=torch.uint32), torch.ones(2))


def test_an_index_out_of_range_leaves_arguments_as_they_were():
    def f(x, i):
        y = x[i]
        x += 1
        return y

    x = torch.arange(4.0)
    with pytest.raises(IndexError, match=r"(?s)index 7 is out of bounds for axis 0 with size 4.*y = x\[i\]"):
        fx.jit(f)(x, torch.tensor([1, 7, 9]))
    assert torch.equal(x, torch.arange(4.0))
    assert torch.equal(fx.jit(f)(x, torch.tensor([1, -1])), torch.tensor([1.0, 3.0])) and torch.equal(x, torch.arange(4.0) + 1)


def test_no_memory_left(monkeypatch):
    @fx.jit
    def f(x):
        x += 1
        return x * 2

    x = torch.ones(3)
    f(x)
    with monkeypatch.context() as patch:
        empty = torch.empty

        def refuse(*args, **kwargs):
            if kwargs.get("dtype") == torch.uint8:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return empty(*args, **kwargs)

        patch.setattr(torch, "empty", refuse)
        with pytest.raises(DeviceMemoryError, match=r"(?s)no memory left.*memory_budget") as raised:
            f(x)
        assert isinstance(raised.value, MemoryError) and torch.equal(x, torch.full((3,), 2.0))
    assert torch.equal(f(x), torch.full((3,), 6.0))


class Count:
    """Memory of the host into which a GPU copies that is a call behind."""

    all: ClassVar = []

    def __init__(self):
        self.here = self.coming = 0
        Count.all.append(self)

    def copy_(self, count, non_blocking):
        self.here, self.coming = self.coming, int(count)

    def item(self):
        return self.here

    def zero_(self):
        self.here = self.coming = 0


class Event:
    """The end of a call, which is never there already."""

    def record(self):
        pass

    def query(self):
        return False

    def synchronize(self):
        for count in Count.all:
            count.here = count.coming


@pytest.fixture
def behind(monkeypatch):
    """A GPU that is a call behind; every program has one table."""
    from functx.backends.triton import failures
    from functx.backends.triton.executable import TritonExecutable

    def table(self, device):
        if device not in self._tables:
            self._tables[device] = failures.FailureTable(device, self._eqns)
            self._tables[device]._count = Count()
        return self._tables[device]

    monkeypatch.setattr(TritonExecutable, "_table", table)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(failures, "_pending", {})


def test_failures_are_read_when_they_have_come(behind):
    """On a GPU: the count is copied behind the call, and raised by a later one, or by waiting."""

    @fx.jit
    def pick(x, i):
        return x[i]

    x, other = torch.arange(4.0), fx.jit(lambda x: x + 1)
    assert pick(x, torch.tensor([1, 9])).shape == (2,)  # the call returns: nobody knows yet
    assert torch.equal(other(x), x + 1)
    assert torch.equal(pick(x, torch.tensor([1, 2])), torch.tensor([1.0, 2]))
    with pytest.raises(IndexError, match=r"(?s)index 9 is out of bounds.*return x\[i\]"):
        other(x)
    assert torch.equal(other(x), x + 1)
    pick(x, torch.tensor([-5, 0]))
    with pytest.raises(IndexError, match="index -5"):
        fx.debug.synchronize()
    fx.debug.synchronize()


def test_a_host_that_is_always_ahead_gets_the_failure(behind):
    """The count of the last call has never come; until it is raised, calls change nothing."""

    @fx.jit
    def add(w, i):
        w[i] += 1.0

    w = torch.zeros(4)
    add(w, torch.tensor([1, 7]))
    with pytest.raises(IndexError, match="index 7"):
        for _ in range(3):
            add(w, torch.tensor([1, 2]))
    assert torch.equal(w, torch.zeros(4))
    add(w, torch.tensor([1, 2]))
    assert torch.equal(w, torch.tensor([0.0, 1, 1, 0]))


def test_values_that_are_looked_at_lie_on_the_cpu():
    with fx.debug_nans(), pytest.raises(DeviceError, match=r"(?s)looks at every value.*x\.cpu\(\)"):
        fx.jit(np.log)(torch.ones(2))
