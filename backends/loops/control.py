"""Loops and choices as steps: which become native code, their bodies as programs, and how equations inside are numbered.

A body that carries values from step to step is lowered as a program that updates its inputs: so what the planner knows about writing in
place holds for carries too.
"""

from __future__ import annotations

from collections.abc import Iterator

from functx import shapes
from functx.backends.loops.nodes import Call, Check, Kernel, Loop, Program
from functx.ir import Eqn, Graph, Output, OutRole

MAX_CONSTANT = 4096  # bytes of a constant array in a body; the code holds it


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


def is_native(eqn: Eqn) -> bool:
    """Whether an equation of control flow becomes code: all sizes inside are known."""
    if eqn.primitive.name not in ("scan", "while", "cond") or eqn.params.get("steps") is not None:
        return False
    return all(map(_is_static, bodies(eqn).values()))


def _is_static(graph: Graph) -> bool:
    atoms = [*graph.in_vars, *(v for e in graph.eqns for v in e.outputs)]
    small = all(array.nbytes <= MAX_CONSTANT for _, array in graph.consts)
    return small and all(shapes.is_static(a.aval.shape) for a in atoms)


def carried(eqn: Eqn) -> tuple[int, int]:
    """How many constants come before the carry of a loop, and how many values it carries."""
    p = eqn.params
    if eqn.primitive.name == "scan":
        return p["consts"], p["carries"]
    return p["consts"], len(eqn.inputs) - p["conds"] - p["consts"]


def updating(eqn: Eqn, name: str, graph: Graph) -> Graph:
    """A body of a loop as a graph that writes the new carry into the inputs of the old one."""
    if eqn.primitive.name == "cond" or name == "cond":
        return graph
    first, count = carried(eqn)
    written = [Output(slot.atom, OutRole.WRITE, first + k) for k, slot in enumerate(graph.outputs[:count])]
    return graph.replace(outputs=(*written, *graph.outputs[count:]))


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
