"""Memory plans: which values of a compiled function take memory, from when to when, and where. Data, how it prints, and the plan of a graph
that is evaluated equation by equation. Backends that place values themselves make their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from functx.ir import Graph, Literal, Var
from functx.source import Source


@dataclass(frozen=True)
class Buffer:
    """One value in memory.

    Attributes:
      what: the primitive that computes it, and its type.
      nbytes: its size.
      born, dies: the steps of the program that write it first and that need it last; results die after the last step.
      place: ``workspace + offset``, ``result k``, or ``input k, in place``. Values at one place share it, one after the other.
      source: the user's line, where there is one.
    """

    what: str
    nbytes: int
    born: int
    dies: int
    place: str
    source: Source | None = None


@dataclass(frozen=True)
class MemoryPlan:
    """What a call needs beside its arguments.

    Attributes:
      peak: the most bytes at one time, results included; what lies in the arguments themselves takes none.
      workspace_bytes: of it the scratch memory that is taken and given back as a whole.
      buffers: the values in memory, in the order in which they are made.
    """

    peak: int
    workspace_bytes: int
    buffers: tuple[Buffer, ...]

    def __str__(self) -> str:
        rows = [("bytes", "born", "dies", "place", "what", "line")]
        rows += [(f"{b.nbytes:,}", str(b.born), str(b.dies), b.place, b.what, b.source.short if b.source else "") for b in self.buffers]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"peak: {self.peak:,} bytes beside the arguments, {self.workspace_bytes:,} of them workspace"]
        for row in rows:
            numbers = [text.rjust(w) for text, w in zip(row[:3], widths[:3], strict=True)]
            words = [text.ljust(w) for text, w in zip(row[3:], widths[3:], strict=True)]
            lines.append("  ".join([*numbers, *words]).rstrip())
        return "\n".join(lines)


def evaluation_plan(graph: Graph) -> MemoryPlan:
    """The plan of a graph whose equations run in order, each result in memory of its own until it is read last; views take none. At the
    end the results are copied. What implementations of primitives need for themselves is not known.
    """
    end, producer = len(graph.eqns), {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    buffers = []
    for v, born, dies in _lives(graph):
        eqn = producer[v]
        buffers.append(Buffer(f"{eqn.primitive.name} {v.aval}", v.aval.nbytes_hint, born, dies, "memory", eqn.source))
    for k, aval in enumerate(graph.out_avals):
        buffers.append(Buffer(f"copy {aval}", aval.nbytes_hint, end, end, f"result {k}"))
    return MemoryPlan(highest(buffers), 0, tuple(buffers))


def highest(buffers: Iterable[Buffer]) -> int:
    """The most bytes that buffers take at one time, each in memory of its own."""
    change: Counter[int] = Counter()
    for b in buffers:
        change[b.born] += b.nbytes
        change[b.dies + 1] -= b.nbytes
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def _lives(graph: Graph) -> list[tuple[Var, int, int]]:
    """The values that take memory: which equation makes them, and which is the last that reads them, through views too."""
    base: dict[Var, Var] = {}
    born: dict[Var, int] = {}
    dies: dict[Var, int] = {}
    for i, eqn in enumerate(graph.eqns):
        for a in eqn.inputs:
            if not isinstance(a, Literal):
                dies[base.get(a, a)] = i
        if not eqn.primitive.views:
            born.update(dict.fromkeys(eqn.outputs, i))
            dies.update(dict.fromkeys(eqn.outputs, i))
        elif not isinstance(eqn.inputs[0], Literal):
            base[eqn.outputs[0]] = base.get(eqn.inputs[0], eqn.inputs[0])
    dies.update((base.get(a, a), len(graph.eqns)) for a in graph.out_atoms if not isinstance(a, Literal))
    return [(v, i, dies[v]) for v, i in born.items()]
