"""Memory plans: what they say is what the program does, and what it takes; budgets are chosen by them."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import scalar, smooth_program

import functx as fx
from functx import config
from functx.backend import get_backend, register_backend
from functx.backends.cpp.ops import CppTarget
from functx.backends.loops.lower import lower
from functx.backends.loops.plan import reads, writes
from functx.backends.loops.report import memory_plan
from functx.backends.reference import ReferenceBackend
from functx.errors import BackendError
from functx.transforms.pipeline import optimize
from functx.transforms.planning import PartitionOptions

RNG = np.random.default_rng(0)
BOTH = pytest.mark.parametrize("backend", ["cpp", "reference"])


def chain(x, w):
    for _ in range(12):
        x = np.tanh(x @ w)
    return (x * x).sum()


CHAIN = RNG.standard_normal((256, 64)), RNG.standard_normal((64, 64)) / 8
BUDGETS = [k / 10 for k in range(10, -1, -1)]


# --- what a plan says ---------------------------------------------------------------------------------------------------------------------


def test_known_plan():
    def f(x, w):
        return np.tanh(x @ w) @ w

    x, w = np.ones((32, 64)), np.ones((64, 64))
    plan = fx.jit(f, backend="cpp").memory_plan(x, w)
    assert plan.peak == 2 * x.nbytes and plan.workspace_bytes == x.nbytes
    assert [(b.what, b.nbytes, b.born, b.dies, b.place) for b in plan.buffers] == [
        ("dot_general f64[32,64]", x.nbytes, 0, 1, "workspace + 0"),
        ("tanh f64[32,64]", x.nbytes, 1, 2, "workspace + 0"),
        ("dot_general f64[32,64]", x.nbytes, 2, 3, "result 0"),
    ]
    assert all(b.source.text == "return np.tanh(x @ w) @ w" for b in plan.buffers)
    lines = str(plan).splitlines()
    assert lines[0] == "peak: 32,768 bytes beside the arguments, 16,384 of them workspace"
    assert lines[1].split() == ["bytes", "born", "dies", "place", "what", "line"]
    assert lines[3].split()[:8] == ["16,384", "1", "2", "workspace", "+", "0", "tanh", "f64[32,64]"]


def test_known_plan_of_the_reference_backend():
    def f(x):
        return np.exp(np.sin(x).T).sum(axis=0)

    x = np.ones((30, 40))
    plan = fx.jit(f, backend="reference").memory_plan(x)
    lives = [(b.what.split()[0], b.born, b.dies) for b in plan.buffers]
    assert lives == [("sin", 0, 2), ("exp", 2, 3), ("reduce_sum", 3, 4), ("copy", 4, 4)]
    assert plan.peak == 2 * x.nbytes and plan.workspace_bytes == 0  # the transposed array is a view


def test_updates_in_place_take_no_memory():
    def f(x, by):
        x *= by
        x += 1.0

    x = np.ones((300, 300))
    plan = fx.jit(f, backend="cpp").memory_plan(x, 2.0)
    assert plan.peak == 0 and [b.place for b in plan.buffers] == ["input 0, in place"]
    assert (x == 1.0).all()  # nothing is run


def test_backends_without_a_plan():
    class Bare(ReferenceBackend):
        peak_bytes = None

        def compile(self, graph, options):
            whole = super().compile(graph, options)
            return type("Bare", (), {"compiled": False, "out_avals": whole.out_avals, "__call__": lambda self, inputs: whole(inputs)})()

    register_backend("bare", Bare)
    with pytest.raises(BackendError, match="Bare has no memory plan\n.*use backend='cpp'"):
        fx.jit(np.sin, backend="bare").memory_plan(np.ones(3))
    # Under a budget equations count as they are.
    expected = fx.grad(chain)(*CHAIN)
    np.testing.assert_allclose(fx.jit(fx.grad(chain), backend="bare", memory_budget=0.3)(*CHAIN), expected, rtol=1e-12, atol=1e-12)


# --- random programs ----------------------------------------------------------------------------------------------------------------------


def random_graph(random):
    inputs = [np.round(np.sin(np.arange(6.0) * (1.3 + i)), 2).reshape(2, 3) for i in range(3)]
    program = smooth_program(random, inputs, random.randrange(4, 14))
    return optimize(fx.make_ir(fx.grad(lambda *args: scalar(program.run(*args)), (0, 1, 2)))(*inputs))


@given(st.randoms(use_true_random=False))
@settings(max_examples=2 * settings().max_examples)
def test_what_is_in_memory_is_there_when_it_is_read_and_nothing_else_is(random):
    program = lower(random_graph(random), CppTarget())
    for step, made in enumerate(program.steps):
        for v in {*reads(made), *writes(made)} & program.lives.keys():
            born, dies = program.lives[v]
            assert born <= step <= dies
    plan = memory_plan(program, program.workspace_bytes)
    rows = [(int(b.place.removeprefix("workspace + ")), b) for b in plan.buffers if b.place.startswith("workspace")]
    for at, b in rows:
        assert b.born <= b.dies <= len(program.steps) and at + b.nbytes <= plan.workspace_bytes
    for (i, a), (j, b) in itertools.combinations(rows, 2):
        if i < j + b.nbytes and j < i + a.nbytes:  # one takes over the place of the other at the most
            assert min(a.dies, b.dies) <= max(a.born, b.born)
    live = [sum(b.nbytes for _, b in rows if b.born <= t < b.dies) for t in range(len(program.steps))]
    assert max(live, default=0) <= plan.workspace_bytes


def layers(x, w):
    """All layers together, so that all are kept."""
    kept = [x := np.tanh(x @ w) for _ in range(6)]
    return kept[0] * kept[3] + kept[1] * kept[4], kept[2] * kept[5]


@pytest.mark.parametrize(("backend", "f"), [("cpp", fx.grad(chain, (0, 1))), ("cpp", layers), ("reference", layers)])
def test_the_peak_is_what_a_call_takes(backend, f):
    """NumPy's allocations are counted; the arena of compiled code is one block beside them."""
    x, w = RNG.standard_normal((512, 256)), RNG.standard_normal((256, 256)) / 16
    f = fx.jit(f, backend=backend)
    plan = f.memory_plan(x, w)
    f(x, w)
    tracemalloc.start()
    out = f(x, w)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = plan.peak - plan.workspace_bytes
    assert sum(v.nbytes for v in out) <= peak and abs(peak - arrays) <= 0.05 * arrays


# --- budgets ------------------------------------------------------------------------------------------------------------------------------


@BOTH
def test_less_budget_never_needs_more_memory(backend):
    expected = fx.grad(chain, (0, 1))(*CHAIN)
    peaks = []
    for budget in BUDGETS:
        f = fx.jit(fx.grad(chain, (0, 1)), memory_budget=budget, backend=backend)
        peaks.append(f.memory_plan(*CHAIN).peak)
        for got, wanted in zip(f(*CHAIN), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    assert peaks == sorted(peaks, reverse=True) and peaks[-1] < 0.75 * peaks[0]


@given(st.randoms(use_true_random=False))
@settings(max_examples=max(2, settings().max_examples // 4))
def test_less_budget_never_needs_more_memory_in_random_programs(random):
    """With one and with two reverse passes, planned by either backend."""
    inputs = [np.round(np.sin(np.arange(600.0) * (1.3 + i)), 2).reshape(20, 30) for i in range(3)]
    program = smooth_program(random, inputs, random.randrange(4, 14))
    slopes = fx.grad(lambda *args: scalar(program.run(*args)), (0, 1, 2))

    def steps(*args):
        return slopes(*(x - 0.1 * slope for x, slope in zip(args, slopes(*args), strict=True)))

    graph = fx.make_ir(random.choice([slopes, steps]))(*inputs)
    for name in ("cpp", "reference"):

        def peak(graph, name=name):
            return get_backend(name).peak_bytes(graph, config.current())

        peaks = [peak(optimize(graph, PartitionOptions(memory_budget=b), peak)) for b in (1.0, 0.6, 0.3, 0.0)]
        assert peaks == sorted(peaks, reverse=True), program.text


def test_the_backend_tells_the_peak_that_the_plan_has():
    for budget in (1.0, 0.4):
        f = fx.jit(fx.grad(chain, (0, 1)), memory_budget=budget, backend="cpp")
        graph = f.ir(*CHAIN)
        for name in ("cpp", "reference"):
            executable = get_backend(name).compile(graph, config.current())
            assert get_backend(name).peak_bytes(graph, config.current()) == executable.memory_plan.peak
