"""Random programs of views, writes and arithmetic, on arguments of any layout that may overlap: every transform does what NumPy does.

``--long`` runs many more. A failure prints the seed, the mismatch, and the program with all lines removed that it does not need.
"""

import mutation_ways as ways
import mutations
import numpy as np
import pytest
import scenes
from mutation_lines import LINES

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about casts, floating-point errors and broadcast_arrays

REFERENCE, COMPILED = 20_000, 1_000  # programs in the long mode
CHUNK = 50  # programs per test
TOGETHER = 25  # programs per compilation


def pytest_generate_tests(metafunc):
    long = metafunc.config.getoption("--long")
    if "chunk" in metafunc.fixturenames:
        metafunc.parametrize("chunk", range(REFERENCE // CHUNK if long else 8))
    if "compiled_chunk" in metafunc.fixturenames:
        metafunc.parametrize("compiled_chunk", range(COMPILED // TOGETHER if long else 2))


@pytest.fixture(scope="module", autouse=True)
def counts(pytestconfig):
    """How many programs ran in which way and were refused, for ``--long -s``."""
    yield
    if pytestconfig.getoption("--long"):
        print(
            f"\nran {dict(ways.RUN)}", *(f"refused {count} by {way}: {why}" for (way, why), count in ways.REFUSED.most_common()), sep="\n"
        )


def test_every_way_does_what_numpy_does(chunk):
    """On the reference backend: jit, vmap and functionalize, and derivatives of smooth programs."""
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        program = mutations.draw(seed)
        for way in ways.applicable(program):
            ways.check(way, program, seed)


def test_compiled_programs_do_what_numpy_does(compiled_chunk):
    drawn = {}
    seed = 10**6 + 1000 * compiled_chunk
    while len(drawn) < TOGETHER:
        program = mutations.draw(seed, may_fail=False)
        if ways.compilable(program):
            drawn[seed] = program
        seed += 1
    ways.compiled(drawn)


def test_few_programs_are_refused():
    """Of those that NumPy runs, by jit."""
    drawn = {seed: mutations.draw(seed, may_fail=False) for seed in range(5 * 10**6, 5 * 10**6 + 100)}
    before = sum(ways.REFUSED.values())
    for seed, program in drawn.items():
        if not program.valued:
            ways.mismatch(ways.jit, program, seed, count=True)
    assert sum(ways.REFUSED.values()) - before <= 0.04 * len(drawn)


# --- the machine itself -------------------------------------------------------------------------------------------------------------------


def test_programs_are_drawn_again_from_their_seed():
    assert [mutations.draw(seed).text for seed in range(20)] == [mutations.draw(seed).text for seed in range(20)]


def test_numpy_runs_every_program_unless_it_is_to_fail():
    for seed in range(200):
        program = mutations.draw(seed)
        error = ways.plain(program).error
        assert (error is not None) is program.fails, f"{error!r}\n{program.text}"


def test_programs_use_almost_every_line():
    """A line that is never drawn tests nothing. (All of them come up among a few thousand programs.)"""
    drawn = {statement.template for seed in range(CHUNK * 8) for statement in mutations.draw(seed).statements}
    assert len(drawn) >= 0.9 * len({line.text for line in LINES})


def test_scenes_are_alike_and_share_nothing():
    for seed in range(100):
        recipe = mutations.draw(seed).recipe
        one, two = scenes.Scene(recipe), scenes.Scene(recipe)
        for a, b in zip(one.arrays, two.arrays, strict=True):
            assert a.strides == b.strides and a.tobytes() == b.tobytes() and not np.shares_memory(a, b)
        both = [[np.shares_memory(a, b) for b in scene.arrays] for scene in (one, two) for a in scene.arrays]
        assert both[: len(one.arrays)] == both[len(one.arrays) :]


def test_a_mismatch_is_reported_with_the_lines_it_needs():
    """A way that is wrong about sorting is told so, in a program that sorts and does nothing else."""

    def wrong(program, seed):
        if ".sort(" in program.source:
            raise ways.Mismatch("wrong, results", "it sorts")

    program = next(p for p in map(mutations.draw, range(1000)) if ".sort(" in p.source and len(p.statements) > 6 and not p.fails)
    with pytest.raises(AssertionError, match="it sorts") as raised:
        ways.check(wrong, program, 0)
    assert str(raised.value).count("\n    ") <= len(program.statements) - 2 and ".sort(" in str(raised.value)
