"""NumPy functions on arrays with symbolic sizes (functx.Dim): what holds for all sizes is traced, the rest says that a number is needed."""

import numpy as np
import oracles
import pytest
import sample

import functx as fx
import functx.numpy as fnp
from functx.ir import Literal
from functx.parse import parse_graph
from functx.pretty import graph_digest

N, M = fx.Dim("n"), fx.Dim("m")

SYMBOLIC = {
    "x + 1": (lambda x: x + 1, "f64[n,3]"),
    "x - row": (lambda x: x - x[0], "f64[n,3]"),
    "x[:]": (lambda x: x[:], "f64[n,3]"),
    "x[...]": (lambda x: x[..., None], "f64[n,3,1]"),
    "x[:, None]": (lambda x: x[:, None] * x[None], "f64[n,n,3]"),
    "x[:, 0]": (lambda x: x[:, 0], "f64[n]"),
    "x[:, 1:]": (lambda x: x[:, 1:], "f64[n,2]"),
    "x[0]": (lambda x: x[0], "f64[3]"),
    "x[-1]": (lambda x: x[-1], "f64[3]"),
    "x[0:]": (lambda x: x[0:], "f64[n,3]"),
    "x[::-1]": (lambda x: x[::-1], "f64[n,3]"),
    "x[::2]": (lambda x: x[::2], "f64[floor(n/2 + 1/2),3]"),
    "x[:n]": (lambda x: x[: x.shape[0]], "f64[n,3]"),
    "x[:0]": (lambda x: x[:0], "f64[0,3]"),
    "longer[1:]": (lambda x: np.concatenate([x, fnp.ones((2, 3))])[1:], "f64[n + 1,3]"),
    "longer[:-2]": (lambda x: np.concatenate([x, fnp.ones((2, 3))])[:-2], "f64[n,3]"),
    "longer[2::-1]": (lambda x: np.concatenate([x, fnp.ones((3, 3))])[2::-1], "f64[3,3]"),
    "longer[n:]": (lambda x: np.concatenate([x, fnp.ones((2, 3))])[x.shape[0] :], "f64[2,3]"),
    "x[[0, 1]]": (lambda x: x[[0, 1]], "f64[2,3]"),
    "x.T": (lambda x: x.T, "f64[3,n]"),
    "flip": (np.flip, "f64[n,3]"),
    "ravel": (np.ravel, "f64[3*n]"),
    "reshape": (lambda x: x.reshape(-1), "f64[3*n]"),
    "reshape by shape": (lambda x: x.reshape(3, x.shape[0]), "f64[3,n]"),
    "sum": (np.sum, "f64[]"),
    "sum, axis 0": (lambda x: x.sum(0), "f64[3]"),
    "sum, keepdims": (lambda x: x.sum(1, keepdims=True), "f64[n,1]"),
    "mean": (np.mean, "f64[]"),
    "mean, axis 0": (lambda x: x.mean(0), "f64[3]"),
    "mean, axis 1": (lambda x: x.mean(axis=1), "f64[n]"),
    "var": (lambda x: x.var(0), "f64[3]"),
    "std": (lambda x: np.std(x, 0, ddof=1), "f64[3]"),
    "max": (lambda x: x.max(1), "f64[n]"),
    "argmax": (lambda x: x.argmax(1), "i64[n]"),
    "softmax": (lambda x: fx.nn.softmax(x), "f64[n,3]"),
    "where": (lambda x: np.where(x > 0, x, 0), "f64[n,3]"),
    "matmul": (lambda x: x @ x.T, "f64[n,n]"),
    "matmul, contracting n": (lambda x: x.T @ x, "f64[3,3]"),
    "dot": (lambda x: x.dot(np.ones((3, 2))), "f64[n,2]"),
    "trace": (lambda x: np.trace(x @ x.T), "f64[]"),
    "take_along_axis": (lambda x: np.take_along_axis(x, x.argmax(1)[:, None], 1), "f64[n,1]"),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, *x.shape)), "f64[2,n,3]"),
    "stack": (lambda x: np.stack([x, x]), "f64[2,n,3]"),
    "concatenate": (lambda x: np.concatenate([x, x]), "f64[2*n,3]"),
    "split": (lambda x: np.split(np.concatenate([x, x]), 2)[1], "f64[n,3]"),
    "tile": (lambda x: np.tile(x, 2), "f64[n,6]"),
    "repeat": (lambda x: np.repeat(x, 2, 0), "f64[2*n,3]"),
    "pad": (lambda x: np.pad(x, 1), "f64[n + 2,5]"),
    "roll": (lambda x: np.roll(np.concatenate([x, fnp.ones((2, 3))]), -1, 0), "f64[n + 2,3]"),
    "roll another axis": (lambda x: np.roll(x, 1, 1), "f64[n,3]"),
    "slice, first": (lambda x: x[:2], "f64[Min(2, n),3]"),
    "slice, without the first": (lambda x: x[1:], "f64[Max(0, n - 1),3]"),
    "slice, last": (lambda x: x[-1:], "f64[Min(1, n),3]"),
    "slice, without the last": (lambda x: x[:-1], "f64[Max(0, n - 1),3]"),
    "slice, both ends": (lambda x: x[1:-1][1:], "f64[Max(0, n - 3),3]"),
    "slice, backwards": (lambda x: x[3:0:-1], "f64[-Max(0, n - 4) + Max(0, n - 1),3]"),
    "slice, step": (lambda x: x[1::2], "f64[floor(Max(1, n)/2),3]"),
    "slice, two parts": (lambda x: np.concatenate([x[1:], x[:1]]), "f64[n,3]"),
    "roll all": (lambda x: np.roll(x, 1), "f64[n,3]"),
    "roll an axis": (lambda x: np.roll(x, -2, 0), "f64[n,3]"),
    "arange, from a number": (lambda x: fnp.arange(-2, x.shape[0] - 3), "i64[Max(0, n - 1)]"),
    "linspace": (lambda x: fnp.linspace(0, 1, x.shape[0]), "f64[n]"),
    "squeeze": (lambda x: x[None].squeeze(0), "f64[n,3]"),
    "x / n": (lambda x: x / x.shape[0], "f64[n,3]"),
    "n * x": (lambda x: x.size * x, "f64[n,3]"),
    "x / (n - 1)": (lambda x: x / (x.shape[0] - 1), "f64[n,3]"),
    "arange": (lambda x: fnp.arange(x.shape[0]), "i64[n]"),
    "arange, start and step": (lambda x: fnp.arange(1, 2 * x.shape[0] + 1, 2, dtype=float), "f64[n]"),
    "zeros": (lambda x: fnp.zeros(x.shape), "f64[n,3]"),
    "eye": (lambda x: fnp.eye(x.shape[0]), "f64[n,n]"),
    "zeros_like": (np.zeros_like, "f64[n,3]"),
    "writing": (lambda x: fnp.at(x)[:, 0].set(1.0), "f64[n,3]"),
    "writing backwards": (lambda x: fnp.at(x)[::-1].set(x), "f64[n,3]"),
    "if": (lambda x: x if x.shape[0] + 1 else -x, "f64[n,3]"),
    "comparing sizes": (lambda x: x if x.shape[0] + 2 > x.shape[0] >= 0 else x.T, "f64[n,3]"),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_symbolic_sizes(case):
    """The type says what sizes of the plain function are, for every n; the graph computes what the plain function gives."""
    f, printed = SYMBOLIC[case]
    graph = fx.make_ir(f)(fx.ShapeDtypeStruct((N, 3), float))
    aval = graph.outputs[0].atom.aval
    assert str(aval) == printed
    assert graph_digest(parse_graph(str(graph), [array for _, array in graph.consts])) == graph_digest(graph)
    for n in (0, 1, 2, 5):
        x = sample.data((n, 3))
        expected = oracles.outcome(lambda x: f(x), x)
        got = oracles.outcome(evaluate, graph, n, x)
        if expected.error is not None:
            oracles.assert_same_error(got.error, expected.error, f"n = {n}")
        else:
            assert got.error is None, f"n = {n}: {got.error!r}"
            np.testing.assert_allclose(got.value, expected.value, rtol=1e-14, err_msg=f"n = {n}")


def evaluate(graph, n, x):
    """The first result of a graph at one size, by the reference implementations."""

    def at_size(v):
        if isinstance(v, tuple):
            return tuple(map(at_size, v))
        return int(v.expr.subs(dict.fromkeys(v.expr.free_symbols, n))) if isinstance(v, fx.Dim) else v

    env = {slot.var: array for slot, array in zip(graph.inputs, [x], strict=True)} | dict(graph.consts)
    for eqn in graph.eqns:
        inputs = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        outs = eqn.primitive.evaluate(inputs, {k: at_size(v) for k, v in eqn.params.items()})
        env.update(zip(eqn.outputs, outs, strict=True))
    return env[graph.outputs[0].atom]


@pytest.mark.parametrize(
    "f",
    [
        len, list, lambda x: range(x.shape[0]),
        lambda x: np.split(x, 2), lambda x: np.arange(x.shape[0]), lambda x: np.zeros(x.shape), lambda x: float(x.shape[0]),
        lambda x: 1 / x.shape[0], lambda x: x if x.shape[0] > 3 else -x, lambda x: x if x.shape[0] else -x,
        lambda x: "abc"[x.shape[0]], lambda x: 7 % x.shape[0], lambda x: fnp.arange(0, x.shape[0], 0.5),
    ],
)  # fmt: skip
def test_a_number_is_needed_of_a_symbolic_size(f):
    with pytest.raises(fx.errors.UnsupportedError, match=r"number is needed here.* size .*n.* is symbolic\n  at: (.|\n)*fix:"):
        fx.make_ir(f)(fx.ShapeDtypeStruct((N, 3), float))


def test_different_symbolic_sizes_do_not_broadcast():
    with pytest.raises(ValueError, match=r"\(n,\) \(m,\)"):
        fx.make_ir(np.add)(fx.ShapeDtypeStruct((N,), float), fx.ShapeDtypeStruct((M,), float))
