"""The sample rows through Triton's interpreter: every row in one dtype, in the long mode in all; primitives; random programs."""

import re

import expressions
import mutation_ways
import mutations
import numpy as np
import oracles
import pytest
import sample
import samples
from graph_cases import at_the_edges, compare, compiled
from primitive_samples import PRIMITIVE_SAMPLES

import functx as fx
import functx.numpy as fnp
from functx.errors import BackendError
from functx.interpret import eval_graph

pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about casts and floating-point errors

PARTS = 24  # tests that share the rows
NO_LOWERING = {"poisson_sample", "binomial_sample", "log_gamma_sample", "igamma_slope"}
NOT_COMPLEX = {"erf", "erfc", "erfcx", "gamma", "lgamma", "log_ndtr", "polygamma", "cumlogsumexp"}
NOT_COMPLEX |= {"scatter_max", "scatter_min", "scatter_mul"}


def is_known(error, dtype):
    """Whether an error is that of an operation that has no lowering."""
    named = re.findall(r"no lowering of \\?'(\w+)", f"{error} {error.__cause__}")
    return bool(named) and set(named) <= NO_LOWERING | (NOT_COMPLEX if "complex" in dtype else set())


def check(row, dtype):
    plain, what = (lambda *args: row.f(np, *args)), f"{row.name} {dtype}"
    rtol = max(row.rtol, sample.TOLERANCES.get(dtype, 0.0), 1e-12)
    atol = sample.TOLERANCES[dtype] if "float16" in dtype else 0.0  # intermediate results are not rounded
    if row.name == "lax.cumlogsumexp":
        rtol = max(rtol, 4e-3)  # of small integers it is one of floats of 16 bits

    def jitted(_):
        return fx.jit(lambda *args: row.f(fnp, *args), backend="triton")

    try:
        oracles.assert_agrees(plain, *row.arguments(dtype), transform=jitted, rtol=rtol, atol=atol, what=what)
    except AssertionError as error:
        if not is_known(error, dtype):
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_samples(part, request):
    long = request.config.getoption("--long")
    for i in range(part, len(samples.SAMPLES), PARTS):
        dtypes = sample.DTYPES if long else ("float32", sample.DTYPES[i % len(sample.DTYPES)])[i // 3 % 2 :][:1]
        for dtype in dtypes:
            check(samples.SAMPLES[i], dtype)


@pytest.mark.parametrize("part", range(6))
def test_primitives(part):
    n = 5
    for row in PRIMITIVE_SAMPLES[part::6]:
        args = row.arrays(n)
        dtype = str(np.result_type(*args)) if args else ""
        try:
            got = fx.jit(row.function(n), backend="triton")(*args)
        except BackendError as error:
            assert is_known(error, dtype), row.name
            continue
        reference = row.reference(n) if not row.name.startswith("custom_") else fx.jit(row.function(n), backend="reference")
        want = reference(*args)
        for g, w in zip(fx.tree.leaves(got), fx.tree.leaves(want), strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-11, atol=1e-12, err_msg=row.name)


@pytest.mark.parametrize(
    "dtype", ["bool", "float16", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64"]
)
def test_elementwise_at_the_edges(dtype):
    case = at_the_edges(np.dtype(dtype))
    got, want = compiled(case.graph(), "triton")(case.args), eval_graph(case.graph(), case.args)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        compare(np.asarray(g), np.asarray(w), 4, 0.0, f"{dtype}, output {k}")


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed, request):
    for k in range(25 if request.config.getoption("--long") else 2):
        program = expressions.draw(2 * 10**6 + 100 * seed + k)
        f = fx.jit(program.function(), backend="triton")
        try:
            got = f(*program.inputs)
        except BackendError as error:
            assert is_known(error, "complex")
            continue
        expected = program.values[len(program.inputs) :]
        largest = max((float(np.max(np.abs(np.asarray(v).astype(complex)), initial=0.0)) for v in program.values), default=0.0)
        for g, e, exact in zip(got, expected, program.exact[len(program.inputs) :], strict=True):
            tolerance = 0.0 if exact else max(1e-9, 4 * sample.tolerance("", *program.values))
            oracles.assert_same(g, e, rtol=tolerance, atol=tolerance * min(largest, 1e300), what=program.text)


def test_random_programs_of_views_and_writes(request):
    for seed in range(3000 if request.config.getoption("--long") else 25):
        program = mutations.draw(3 * 10**6 + seed, may_fail=False)
        if mutation_ways.compilable(program):
            try:
                mutation_ways.jit(program, seed, "triton")
            except (BackendError, mutation_ways.Mismatch) as error:
                assert is_known(error, "complex"), error
