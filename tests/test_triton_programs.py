"""Real programs that update arrays in place, through Triton's interpreter."""

import pytest
from real_programs import PROGRAMS
from test_real_programs import assert_same, run, traceable

import functx as fx

pytest.importorskip("torch")
pytest.importorskip("triton")


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_place_programs(name):
    program = PROGRAMS[name]
    jitted = fx.jit(traceable(program), backend="triton")
    got, expected = (run(f, program.small(0)) for f in (jitted, program.f))
    assert_same(list(got), list(expected), rtol=program.tolerance, atol=program.tolerance, what=name)
