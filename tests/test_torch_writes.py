"""Wrapped functions that write to their tensors: what PyTorch's versions, leaves and views make of it."""

import numpy as np
import pytest
from test_torch_wrap import double, leaf

import functx as fx

torch = pytest.importorskip("torch")
F = torch.nn.functional
wrap = fx.interop.torch.wrap


def test_writes_without_a_gradient():
    x, version = torch.ones(3), 0
    for k in (2, 4):
        assert wrap(double)(x) == 3 * k and torch.equal(x, torch.full((3,), float(k))) and x._version > version
        version = x._version
    parameter = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        wrap(double)(parameter)
    assert parameter.tolist() == [2, 2, 2] and parameter.is_leaf
    y = leaf(3)
    out = (y * x).sum()
    wrap(double)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_writes_to_leaves_are_refused_before_anything_happens():
    x, y = leaf(3), torch.ones(3, dtype=torch.float64)

    def f(y, x):
        y += 1
        x *= 2
        return x.sum()

    before = x.detach().clone()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"(?s)a leaf Variable that requires grad is being used in an in-place operation.*copy"):
            wrap(f)(y, x)
    assert torch.equal(x, before) and torch.equal(y, torch.ones_like(y))


def test_writes_to_what_has_a_gradient():
    x, z = leaf(3), leaf(3)

    def f(a):
        a[1:] *= a[:-1]
        return np.sin(a).sum()

    y = x * 2
    out = wrap(f)(y)
    u = z * 2
    u = torch.cat([u[:1], u[1:] * u[:-1]])
    torch.testing.assert_close(y, u)
    assert y._version == 1 and y.grad_fn is out.grad_fn
    (out + (y**2).sum()).backward(), (torch.sin(u).sum() + (u**2).sum()).backward()
    torch.testing.assert_close(x.grad, z.grad)
    y = x * 2
    out = wrap(f)(y)
    with pytest.raises(RuntimeError, match=r"(?s)derivative of a derivative.*write to a copy"):
        torch.autograd.grad(out, x, create_graph=True)
    y = x * 2
    saved = (y**2).sum()
    wrap(f)(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_what_is_overwritten_by_a_constant_has_a_gradient_of_zero():
    def f(y):
        y[1:] = 2.0
        return y.sum()

    for make in (lambda x: x * 3, lambda x: (x * 3)[:]):
        x = leaf(3)
        y = make(x)
        out = wrap(f)(y)
        (out + (y * y).sum()).backward()
        torch.testing.assert_close(x.grad, torch.cat([3 + 18 * x.detach()[:1], torch.zeros(2, dtype=torch.float64)]))
    x = leaf(3)
    y = x * 3
    wrap(lambda y: np.copyto(y, 0.0))(y)
    assert y.requires_grad and torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 0]


def test_tensors_of_inference_mode():
    with torch.inference_mode():
        y = torch.ones(3, dtype=torch.float64)
        wrap(double)(y)
    x = leaf(3)
    out = wrap(lambda x, y: (x + y).sum())(x, y)
    assert torch.autograd.grad(out, x)[0].tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        wrap(lambda x, y: (x * y).sum())(x, y)


def test_a_buffer_that_becomes_part_of_the_graph_and_one_that_does_not():
    def f(x, total, mean):
        total += x
        mean *= 0.5
        mean += 0.5 * fx.stop_gradient(x)
        return (x * mean).sum()

    x, total, mean = leaf(3), torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    out = wrap(f)(x, total, mean)
    assert total.requires_grad and not mean.requires_grad and mean._version == 1
    now = mean.clone()
    torch.testing.assert_close(mean, 0.5 + 0.5 * x.detach())
    (out + total.sum()).backward()
    torch.testing.assert_close(x.grad, now + 1)

    def g(x, mean):
        mean *= 0.5
        return (x**2 * mean).sum()

    mean = torch.full((3,), 4.0, dtype=torch.float64)
    (first,) = torch.autograd.grad(wrap(g)(x, mean), x, create_graph=True)  # with mean as it was before the call
    assert mean.tolist() == [2, 2, 2]
    torch.testing.assert_close(first, 4 * x)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], torch.full_like(x, 4.0))


def test_writes_to_views():
    def f(x, part):
        part *= x[:3]
        return part.sum(), part[1:]

    x, z = leaf(4), leaf(4)
    for last in (False, True):  # with and without a gradient of their own
        base, other = (x * 3, z * 3) if last else (torch.ones(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64))
        view = base[1:4]
        total, rest = wrap(f)(x, view)
        now = other[1:4] * z[:3]
        other = torch.cat([other[:1], now, other[4:]])
        torch.testing.assert_close(base, other)
        assert view._base is base and view._version == 1
        ours = torch.autograd.grad(total * base.prod() + view.sum() + rest[0], x)
        theirs = torch.autograd.grad(now.sum() * other.prod() + now.sum() + now[1], z)
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        wrap(f)(x.detach(), z[1:])
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        wrap(f)(x.detach(), z[1:])


def test_results_without_outputs_of_their_own():
    x = leaf(4)
    view = wrap(lambda x: x[1:])(x)
    assert view._base is x
    view.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1]
    assert wrap(lambda x: None)(x) is None
    mask, floor, n = wrap(lambda x: (x > 0, np.floor(x), x.size))(x)
    assert not mask.requires_grad and not floor.requires_grad and n == 4
    (empty,) = torch.autograd.grad(wrap(lambda x: (x * 2).sum())(x[:0]), x)
    assert empty.tolist() == [0, 0, 0, 0]
    backwards = wrap(lambda x: x[::-1])(x)  # PyTorch has no such views: a copy
    x.grad = None
    (backwards * torch.arange(4)).sum().backward()
    assert x.grad.tolist() == [3, 2, 1, 0]


def test_arguments_that_share_memory():
    def f(a, b):
        a += 1
        return (a * b).sum()

    base = torch.arange(4.0)
    assert wrap(f)(base[:-1], base[1:]) == np.array([1, 2, 3]) @ np.array([2, 3, 3])
    assert base.tolist() == [1, 2, 3, 3] and base._version > 0
