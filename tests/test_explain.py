"""The report of explain on small functions."""

import sys

import numpy as np
import pytest

import functx as fx
from functx.backend import CompiledStep
from functx.errors import MissingDependencyError

X, W = np.ones((64, 32)), np.ones((32, 32))


def line_of(report, text):
    """The only line of the report with this text, its spaces joined."""
    (line,) = (line for line in str(report).splitlines() if text in line)
    return " ".join(line.split())


def test_kernels_and_what_is_fused():
    def f(x, w):
        y = np.tanh(x @ w) * 2.0
        return np.sort(y, axis=1), y.sum()

    report = fx.explain(f)(X, W)
    assert str(report).splitlines()[0].startswith("test_kernels_and_what_is_fused.<locals>.f (")
    assert "backend=auto (CppExecutable), partition=minimum_cut" in str(report)
    assert line_of(report, "input 0") == "input 0: f64[64,32]"
    assert line_of(report, "Program:") == "Program: 1 BLAS product, 2 kernels, 1 sort"
    assert [step.kind for step in report.steps] == ["BLAS product", "kernel", "sort", "kernel"]
    line = f"test_explain.py:{f.__code__.co_firstlineno + 1}"
    assert f"1 x (64 x 32) @ (32 x 32) dot_general {line}" in line_of(report, "BLAS product  ")
    assert f"2048 tanh, broadcast, mul {line}" in line_of(report, "tanh")
    assert report.steps[2].sizes == "64 x 32" and report.fallbacks == () and report.regions == ()
    assert line_of(report, "Memory: peak") == (
        f"Memory: peak {report.memory.peak:,} bytes beside the arguments, {report.memory.workspace_bytes:,} of them workspace"
    )


def test_graph_sizes_are_counted_through_calls():
    inner = fx.jit(lambda x: np.sin(x) + np.sin(x))
    report = fx.explain(lambda x: inner(x) * 0.0 + inner(x))(X)
    assert report.traced_equations >= 8 and len(report.graph.eqns) < report.traced_equations
    sizes = f"Graph: {report.traced_equations} equations traced, {len(report.graph.eqns)} compiled"
    assert line_of(report, "Graph:") == f"{sizes}; its code is found again by {report.digest}"
    again = fx.explain(lambda x: inner(x) * 0.0 + inner(x))(X)
    assert again.digest == report.digest != fx.explain(inner)(X).digest


def test_saved_and_recomputed_values_are_those_of_the_compilation():
    def loss(x, w):
        for _ in range(4):
            x = np.tanh(x @ w)
        return (x * x).sum()

    whole, half = (fx.explain(fx.jit(fx.grad(loss, (0, 1)), memory_budget=b))(X, W) for b in (1.0, 0.5))
    (most,), (least,) = whole.regions, half.regions
    assert most.saved_bytes == 4 * X.nbytes and least.saved_bytes <= most.saved_bytes // 2
    assert least.again_flops > most.again_flops
    again = [e.primitive.name for e in half.graph.eqns if e.remat is not None]
    products = again.count("dot_general")
    assert products == sum(not r.saved and r.primitive == "dot_general" for r in least.residuals) > 0
    assert f"Reverse pass 0: {least.saved_bytes:,} bytes are kept for its backward side, {least.again_flops:,} operations" in str(half)
    row = f"{products} x dot_general f64[64,32] computed again 0 {2 * 64 * 32 * 32:,} it is computed from what is kept"
    assert row in line_of(half, "dot_general  f64[64,32]  c")
    assert "memory_budget=0.5 (exact)" in str(half) and half.memory.peak < whole.memory.peak


def test_a_small_region_is_kept_as_it_is():
    report = fx.explain(fx.grad(lambda x, w: np.tanh(x @ w).sum()))(X, W)
    (region,) = report.regions
    assert region.is_small and region.again_flops == 0
    lies = f"Reverse pass 0: {region.saved_bytes:,} bytes lie between its sides; so little is kept as it is"
    assert line_of(report, "Reverse pass 0") == lies


def test_updates_of_arguments():
    def step(x, y, by):
        x *= by
        y[:] = y[::-1] + 1.0

    x, y = np.ones(4000), np.ones(4000)
    report = fx.explain(step)(x, y, 2.0)
    assert (x == 1.0).all() and (y == 1.0).all()
    assert line_of(report, "input 0 (f64") == "input 0 (f64[4000]): its new value is made in place"
    assert line_of(report, "input 1 (f64") == "input 1 (f64[4000]): its new value is copied into it at the end"
    assert "mul, updates input 0 in place" in line_of(report, "updates input 0")


def test_fallbacks_and_calls_back():
    report = fx.explain(fx.jit(lambda x: fx.lax.pure_callback(np.sort, x, x) ** np.arange(32) + 1.0, backend="cpp"))(X)
    assert report.fallbacks == ("callback",) and "reference implementation" in [step.kind for step in report.steps]
    assert line_of(report, "slowly") == "through their reference implementation, slowly: callback"


def test_loops():
    def f(x):
        return fx.scan(lambda c, row: (np.tanh(c) + row, c.sum()), x[0], x)[0]

    report = fx.explain(fx.jit(f, backend="cpp"))(X)
    (loop,) = (step for step in report.steps if step.kind == "loop")
    assert loop.sizes.endswith("inside, 64 times") and "scan" in line_of(report, "64 times")
    assert report.fallbacks == () and report.memory.peak > 0


def test_the_reference_backend():
    report = fx.explain(fx.jit(lambda x: np.sin(x).sum(), backend="reference"))(X)
    assert "Program: evaluated equation by equation" in str(report) and report.steps == ()
    assert report.memory.peak == X.nbytes + 8


def test_what_an_entry_relies_on():
    table = np.ones(32)

    def f(x, n, how):
        return x * n + table if n > 2 and how == "sum" else x

    report = fx.explain(fx.jit(f, static_argnums=2))(X, 3, "sum")
    assert line_of(report, "arguments: ").startswith("arguments: ")
    assert line_of(report, "captured") == "input 2: f64[32], captured"
    assert line_of(report, "static") == "static: number 2: 'sum'"
    assert "leaf 1 of the arguments has the value 3, which the function looks at" in str(report)


def test_explaining_is_compiling_and_not_running():
    calls = []

    @fx.jit
    def f(x):
        calls.append(1)
        return x + 1.0

    report = fx.explain(f)(X)
    np.testing.assert_array_equal(f(X), X + 1.0)
    assert calls == [1] and f.cache_info().traces == 1
    assert repr(report) == str(report) and isinstance(report.steps[0], CompiledStep)


def test_rich_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(MissingDependencyError, match="functx.explain needs rich\n.*fix: pip install rich"):
        fx.explain(np.sin)
