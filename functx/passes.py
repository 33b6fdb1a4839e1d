"""Running passes: every ``Graph -> Graph`` function goes through :func:`run_pass`, which checks, logs, times, keeps and counts it."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence

from functx import config
from functx.check import check_graph
from functx.ir import Graph
from functx.pretty import format_graph

Pass = Callable[[Graph], Graph]

_runs = itertools.count(1)


def run_pass(f: Pass, graph: Graph, name: str = "") -> Graph:
    """Apply one pass. FUNCTX_DEBUG=1 logs it, 2 prints the result, 3 type-checks it; FUNCTX_DUMP keeps it; FUNCTX_FUEL bounds their
    number.
    """
    options, number = config.current(), next(_runs)
    if options.fuel is not None and number > options.fuel:
        return graph
    start = time.perf_counter()
    out = f(graph)
    seconds = time.perf_counter() - start
    name = name or f.__name__
    if options.debug >= 1:
        log(f"pass {number} {name}: {len(graph.eqns)} -> {len(out.eqns)} equations, {seconds * 1e3:.1f} ms")
    if options.debug >= 2:
        log(format_graph(out))
    if options.debug >= 3:
        check_graph(out)
    if options.dump:
        keep(f"{number:05d}_{name}.txt", format_graph(out))
    return out


def run_passes(passes: Sequence[Pass], graph: Graph) -> Graph:
    """Apply passes in order."""
    for f in passes:
        graph = run_pass(f, graph)
    return graph


def log(text: str) -> None:
    """A line of debugging output on stderr."""
    print(f"[functx] {text}", file=sys.stderr)


def keep(name: str, text: str) -> None:
    """Write a file into the FUNCTX_DUMP directory."""
    directory = config.current().dump
    if directory:
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
