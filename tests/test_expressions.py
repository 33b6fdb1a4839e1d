"""Random programs over everything that functx traces, in all dtypes: jit does what NumPy does. ``--long`` runs many more."""

import expressions
import numpy as np
import oracles
import pytest
import sample

import functx as fx

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about casts and floating-point errors

REFERENCE, COMPILED = 10_000, 1_000  # programs in the long mode
CHUNK = 25  # programs per test, and per compilation


def chunks(config, count, few):
    return range(count // CHUNK if config.getoption("--long") else few)


def pytest_generate_tests(metafunc):
    if "reference_chunk" in metafunc.fixturenames:
        metafunc.parametrize("reference_chunk", chunks(metafunc.config, REFERENCE, 8))
    if "compiled_chunk" in metafunc.fixturenames:
        metafunc.parametrize("compiled_chunk", chunks(metafunc.config, COMPILED, 2))


def compare(program, got, rtol):
    """Each result with that of NumPy; where rounding may differ, to a tolerance in terms of the largest number of the program."""
    expected = program.values[len(program.inputs) :]
    largest = max((_largest(v) for v in program.values), default=0.0)
    for k, (g, e, exact) in enumerate(zip(got, expected, program.exact[len(program.inputs) :], strict=True)):
        tolerance = 0.0 if exact else max(rtol, 4 * sample.tolerance("", *program.values))
        oracles.assert_same(g, e, rtol=tolerance, atol=tolerance * largest, what=f"v{k + len(program.inputs)} of\n{program.text}")


def _largest(value):
    magnitude = np.abs(np.asarray(value).astype(complex))
    return float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))


def test_jit_on_the_reference_backend(reference_chunk):
    for seed in range(reference_chunk * CHUNK, (reference_chunk + 1) * CHUNK):
        program = expressions.draw(seed)
        try:
            got = oracles.reference_jit(program.function())(*program.inputs)
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r} in\n{program.text}")
        compare(program, got, 1e-12)


def test_jit_compiled(compiled_chunk):
    """Many programs in one compilation."""
    programs = [expressions.draw(10**6 + compiled_chunk * CHUNK + k) for k in range(CHUNK)]
    functions = [p.function() for p in programs]
    together = fx.jit(lambda inputs: [f(*args) for f, args in zip(functions, inputs, strict=True)], backend="cpp")
    for program, got in zip(programs, together([p.inputs for p in programs]), strict=True):
        compare(program, got, 1e-9)
