"""Jitted functions of PyTorch's CPU tensors: tensors in, tensors out, in shared memory."""

import numpy as np
import pytest

import functx as fx

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "bool", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("backend", ["reference", "cpp"])
def test_tensors_in_and_out(dtype, backend):
    f = fx.jit(lambda d: {"y": d["x"] + d["x"], "total": d["x"].sum(), "n": 3, "none": None}, backend=backend)
    x = torch.tensor([[1, 0], [1, 1]]).to(getattr(torch, dtype))
    for _ in range(3):
        out = f({"x": x})
        assert isinstance(out["y"], torch.Tensor) and out["y"].dtype == x.dtype and torch.equal(out["y"], x + x)
        assert isinstance(out["total"], torch.Tensor) and out["total"].shape == () and out["total"].item() == 3
        assert out["n"] == 3 and out["none"] is None


def test_memory_is_shared():
    @fx.jit
    def f(x, y):
        x *= 2
        return x, x[1:], y

    x, y = torch.arange(4.0), torch.ones(2)
    for k in (2, 4):
        same, view, other = f(x, y)
        assert same is x and other is y and torch.equal(x, k * torch.arange(4.0))
        assert view.data_ptr() == x[1:].data_ptr()
    transposed = torch.arange(6.0).reshape(2, 3).T
    f(transposed, y)
    assert torch.equal(transposed, 2 * torch.arange(6.0).reshape(2, 3).T)


def test_the_same_tensor_twice_and_arrays_beside_tensors():
    @fx.jit
    def f(x, y, z):
        x += 1
        return y * z

    x = torch.zeros(3)
    assert torch.equal(f(x, x, np.full(3, 5.0, np.float32)), torch.full((3,), 5.0))


def test_gradients_and_views_with_negative_strides():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(fx.jit(fx.grad(lambda x: (x**3).sum()))(x), 3 * x**2)
    assert torch.equal(fx.jit(lambda x: x[::-1])(x), x.flip(0))


def test_transforms_take_tensors_through_jit():
    def f(x):
        return (x * x).sum()

    x = torch.arange(3.0)
    for transform in (fx.grad, fx.value_and_grad, fx.vmap, fx.jacrev, fx.hessian):
        with pytest.raises(
            fx.errors.UnsupportedError, match=r"(?s)torch.Tensor, argument 'x'.*test_tensors.py.*fx.jit\(lambda x: fx\.\w+\(f\)"
        ):
            transform(f)(x)
        got = fx.tree.leaves(fx.jit(lambda x, transform=transform: transform(f)(x))(x[:, None]))
        want = fx.tree.leaves(transform(f)(x[:, None].numpy()))
        assert all(torch.equal(torch.as_tensor(g), torch.as_tensor(w)) for g, w in zip(got, want, strict=True))
    for call in (lambda: fx.jvp(f, (x,), (x,)), lambda: fx.vjp(f, x), lambda: fx.linearize(f, x)):
        with pytest.raises(fx.errors.UnsupportedError, match=r"torch.Tensor, argument 'x'"):
            call()


def test_what_cannot_be_shared_says_so():
    f = fx.jit(lambda x: x + 1)
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)requires a gradient.*detach"):
        f(torch.ones(2, requires_grad=True))
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)sparse.*to_dense"):
        f(torch.eye(3).to_sparse())
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)meta"):
        f(torch.ones(2, device="meta"))
    for x in (torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2, dtype=torch.complex64).conj().imag):
        with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)conjugate or the negative.*resolve_conj"):
            f(x)
    with pytest.raises(fx.errors.UnsupportedError, match=r"(?s)torch.float8_e4m3fn.*NumPy has no such dtype.*to\(dtype\)"):
        f(torch.ones(2).to(torch.float8_e4m3fn))
