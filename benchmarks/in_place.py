"""Programs with in-place updates (tests/real_programs.py), compiled beside plain NumPy: alternating pairs in one run, medians, ratios.

Run on a quiet machine:  python benchmarks/in_place.py [--pairs 15] [--small] [names...]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import functx as fx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from real_programs import PROGRAMS


def fresh(args):
    """The arguments again: every run changes them."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def seconds(f, args):
    args = fresh(args)
    start = time.perf_counter()
    f(*args)
    return time.perf_counter() - start


def agree(compiled, plain, args):
    """Raise unless both leave the same results and arguments."""
    ours, numpys = fresh(args), fresh(args)
    results = [(f(*a), a) for f, a in ((compiled, ours), (plain, numpys))]
    for got, expected in zip(*map(fx.tree.leaves, results), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)


def measure(program, args, pairs):
    """Seconds to compile, and the median over pairs of the times of both and of their ratio."""
    compiled = fx.jit(fx.rebind_numpy(program.f))
    first = seconds(compiled, args)
    agree(compiled, program.f, args)
    times = []
    for i in range(pairs):
        pair = [(compiled, 0), (program.f, 1)][:: 1 if i % 2 else -1]
        taken = {which: seconds(f, args) for f, which in pair}
        times.append((taken[0], taken[1]))
    ours, numpys = (statistics.median(t) for t in zip(*times, strict=True))
    return first, ours, numpys, statistics.median(b / a for a, b in times)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("names", nargs="*", help="programs to run; all by default")
    arguments.add_argument("--pairs", type=int, default=15, help="alternated pairs per program")
    arguments.add_argument("--small", action="store_true", help="the arguments of the tests")
    options = arguments.parse_args()
    table = Table("program", "first call s", "functx ms", "NumPy ms", "NumPy / functx", title=f"numpy {np.__version__}")
    for column in table.columns[1:]:
        column.justify = "right"
    ratios = []
    for name in options.names or PROGRAMS:
        program = PROGRAMS[name]
        args = (program.small if options.small else program.large)(0)
        first, ours, numpys, ratio = measure(program, args, options.pairs)
        ratios.append(ratio)
        table.add_row(name, f"{first:.2f}", f"{1e3 * ours:.3f}", f"{1e3 * numpys:.3f}", f"{ratio:.2f}")
    table.add_section()
    table.add_row("geometric mean", "", "", "", f"{statistics.geometric_mean(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
