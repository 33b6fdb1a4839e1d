"""Loops and choices as steps: which become native code, their bodies as programs, and how equations inside are numbered.

A body that carries values from step to step is lowered as a program that updates its inputs: so what the planner knows about writing in
place holds for carries too.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from functx.backends.loops.build import elements
from functx.backends.loops.nodes import Call, Check, Kernel, Loop, MatMul, Program
from functx.backends.loops.sizes import hint, symbols
from functx.ir import Eqn, Graph, Output, OutRole
from functx.shapes import Dim, size_hint


def bodies(eqn: Eqn) -> dict[str, Graph]:
    """The graphs of an equation of control flow, by parameter."""
    return {name: value for name, value in eqn.params.items() if isinstance(value, Graph)} if eqn.primitive.family == "control" else {}


def flattened(graph: Graph) -> list[Eqn]:
    """The equations of a graph, then those of its bodies, however deep: the numbers by which compiled code tells where it failed."""
    out = list(graph.eqns)
    for eqn in graph.eqns:
        for body in bodies(eqn).values():
            out += flattened(body)
    return out


def first_numbers(graph: Graph, base: int) -> Iterator[dict[str, int]]:
    """For each equation the numbers at which its bodies begin, ``base`` being that of the graph itself."""
    at = base + len(graph.eqns)
    for eqn in graph.eqns:
        begins = {}
        for name, body in bodies(eqn).items():
            begins[name] = at
            at += len(flattened(body))
        yield begins


def is_native(eqn: Eqn, max_constant: int) -> bool:
    """Whether an equation of control flow becomes code. ``max_constant``: the bytes of a constant array that bodies may hold."""
    known = eqn.primitive.name in ("scan", "while", "cond", "whole")
    return known and all(array.nbytes <= max_constant for body in bodies(eqn).values() for _, array in body.consts)


def input_sizes(graph: Graph) -> dict[str, tuple[int, int]]:
    """The sizes that the inputs of a graph tell: by name the input and the axis that is of that size."""
    found: dict[str, tuple[int, int]] = {}
    for k, v in enumerate(graph.in_vars):
        for axis, d in enumerate(v.aval.shape):
            if isinstance(d, Dim) and d.expr.is_Symbol:
                found.setdefault(d.expr.name, (k, axis))
    return found


def bound_sizes(graph: Graph, known: AbstractSet[str]) -> dict[str, int]:
    """The sizes that equations of a graph bind, not counting bodies: by name the number of the equation."""
    found: dict[str, int] = {}
    for number, eqn in enumerate(graph.eqns):
        own = eqn.params.get(eqn.primitive.binds)  # also of a loop whose stacks nobody reads
        for name in sorted(symbols([*(d for v in eqn.outputs for d in v.aval.shape), *([own] if own is not None else [])])):
            if name not in known:
                found.setdefault(name, number)
    return found


def all_sizes(graph: Graph) -> tuple[str, ...]:
    """The names of all sizes in a graph, in the order in which compiled code keeps their values: inputs tell the first, the others are
    bound, in bodies too."""
    names = dict.fromkeys(input_sizes(graph))

    def collect(graph: Graph) -> None:
        names.update(dict.fromkeys(bound_sizes(graph, names.keys())))
        for eqn in graph.eqns:
            for body in bodies(eqn).values():
                collect(body)

    collect(graph)
    return tuple(names)


def carried(eqn: Eqn) -> tuple[int, int]:
    """How many constants come before the carry of a loop, and how many values it carries."""
    p = eqn.params
    if eqn.primitive.name == "scan":
        return p["consts"], p["carries"]
    return p["consts"], len(eqn.inputs) - p["conds"] - p["consts"]


def updating(eqn: Eqn, name: str, graph: Graph) -> Graph:
    """A body of a loop as a graph that writes the new carry into the inputs of the old one."""
    if eqn.primitive.name in ("cond", "whole") or name == "cond":
        return graph
    first, count = carried(eqn)
    written = [Output(slot.atom, OutRole.WRITE, first + k) for k, slot in enumerate(graph.outputs[:count])]
    return graph.replace(outputs=(*written, *graph.outputs[count:]))


def work(program: Program) -> int:
    """A rough count of the elements that a program visits; what a while loop does is taken for sixteen steps of it."""
    total = 0
    for step in program.steps:
        if isinstance(step, Kernel):
            total += hint(elements(step))
        elif isinstance(step, Loop):
            times = step.equation.params.get("length", 16)
            total += hint(times) * sum(map(work, step.bodies.values()))
        elif isinstance(step, MatMul):
            total += size_hint(step.sizes)
    return total


def has_lanes(step: Loop, threshold: int) -> bool:
    """Whether the steps of a loop are worth being shared by threads: none needs another, none calls back, and none has enough work for
    several threads by itself.
    """
    if step.equation.primitive.name != "scan" or step.equation.params["carries"]:
        return False
    (body,) = step.bodies.values()
    once = work(body)
    return not _calls_back(body) and once <= threshold < once * hint(step.equation.params["length"])


def _calls_back(program: Program) -> bool:
    return any(any(map(_calls_back, step.bodies.values())) if isinstance(step, Loop) else isinstance(step, Call) for step in program.steps)


def shift(program: Program, base: int) -> None:
    """Number checks and calls of a program from ``base`` on."""
    for step in program.steps:
        if isinstance(step, Kernel):
            for stage in step.stages:
                for effect in stage.effects:
                    if isinstance(effect, Check):
                        effect.eqn += base
        elif isinstance(step, Call) and not isinstance(step, Loop):
            step.number += base
