"""A backend from outside the package: examples/torch_backend.py runs what people jit, and says what it cannot."""

import copy
import sys
from pathlib import Path

import numpy as np
import oracles
import pytest
from models import layer_norm, mlp_arguments, normal, per_sample, per_sample_arguments, softmax

import functx as fx
from functx.errors import BackendError

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def registered():
    fx.backends.register_backend("torch", torch_backend.TorchBackend)


def in_place(params, x):
    w, b = params
    w *= 0.5
    b += (x @ w).sum(axis=0)
    return w.T


def regression(params, x, y):
    (w, b), *_ = params
    return fx.grad(lambda w, b: (np.maximum(x @ w + b, 0) ** 2).mean(), (0, 1))(w, b)


def cumulate(start, xs):
    return fx.scan(lambda c, x: (c * 0.5 + x, np.sin(c)), start, xs, reverse=True)


@pytest.mark.parametrize(
    "f, args",
    [
        (softmax, (normal(6, 9),)),
        (fx.grad(lambda x, s: layer_norm(x, s, s).sum(), (0, 1)), (normal(6, 9), normal(9))),
        (per_sample, per_sample_arguments(4)),
        (regression, mlp_arguments(8)),
        (in_place, ((normal(4, 3), normal(3)), normal(5, 4))),
        (cumulate, (normal(3), normal(5, 3))),
    ],
    ids=["softmax", "layer_norm", "per_sample", "regression", "in_place", "scan"],
)
def test_agrees_with_the_reference(f, args):
    mine, plain = copy.deepcopy(args), copy.deepcopy(args)
    got, want = fx.jit(f, backend="torch")(*mine), oracles.reference_jit(f)(*plain)
    oracles.assert_same(fx.tree.leaves((got, mine)), fx.tree.leaves((want, plain)), rtol=1e-5, atol=1e-6)


def test_what_it_lacks():
    with pytest.raises(BackendError, match=r"(?s)no operator for 'sort'.*test_own_backend.*OPERATORS"):
        fx.jit(np.sort, backend="torch")(np.ones(3))


def test_the_example(capsys):
    torch_backend.main()
    first, last = (float(word) for word in capsys.readouterr().out.split()[1::2])
    assert last < first
