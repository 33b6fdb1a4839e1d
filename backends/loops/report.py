"""What there is to tell about a program: where its values lie and for how long, and which equations each step computes."""

from __future__ import annotations

from functx.backend import CompiledStep, write_map
from functx.backends.loops.nodes import Call, Copy, Kernel, Loop, MatMul, Place, Program, Selection, Sort, Step, Storage
from functx.backends.loops.plan import writes
from functx.backends.loops.sizes import hint, text
from functx.ir import Eqn, Var
from functx.memory_plan import Buffer, MemoryPlan
from functx.shapes import Size

_KINDS = {
    Kernel: "kernel",
    MatMul: "BLAS product",
    Sort: "sort",
    Call: "reference implementation",
    Selection: "selection",
    Loop: "loop",
    Copy: "copy",
}
_PLACES = {Place.WORKSPACE: "workspace + {}", Place.OUTPUT: "result {}", Place.INPUT: "input {}, in place", Place.HEAP: "block {}"}


def memory_plan(program: Program, workspace_bytes: Size) -> MemoryPlan:
    """The plan of a program. Its workspace (the arena and the scratch memory of kernels) and the results are there from the beginning."""
    graph = program.graph
    producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    maker = {v: step for step in reversed(program.steps) for v in writes(step)}
    buffers = []
    for v, (born, dies) in sorted(program.lives.items(), key=lambda item: item[1]):
        eqn = producer.get(v) or _reader(program, maker[v])
        helps = "" if v in producer or eqn is None else "for "
        what = f"{helps}{eqn.primitive.name if eqn else 'copy'} {v.aval}"
        buffers.append(Buffer(what, v.aval.nbytes_hint, born, dies, _place(program.storage[v]), eqn and eqn.source))
    scratch = hint(workspace_bytes) - hint(program.workspace_bytes)
    if scratch > 0 and program.steps:
        place = f"workspace + {text(program.workspace_bytes)}"
        buffers.append(Buffer("scratch memory of kernels and loops", scratch, 0, len(program.steps) - 1, place))
    in_place = write_map(graph)
    results = sum(aval.nbytes_hint for k, aval in enumerate(graph.out_avals) if k not in in_place)
    return MemoryPlan(hint(workspace_bytes) + results, hint(workspace_bytes), tuple(buffers))


def _reader(program: Program, step: Step) -> Eqn | None:
    """The equation for whose sake a step makes what is no value of the graph."""
    return next((program.graph.eqns[i] for i in step.eqns if i >= 0), None)


def _place(storage: Storage) -> str:
    return _PLACES[storage.place].format(text(storage.index))


def sizes_of(step: Step) -> str:
    """The sizes of a step's loops."""
    if isinstance(step, Kernel):
        return " x ".join(text(v.size) for v in (*step.outer, *max((s.axes for s in step.stages), key=len))) or "one value"
    if isinstance(step, MatMul):
        batch, m, n, k = step.sizes
        return f"{batch} x ({m} x {k}) @ ({k} x {n})"
    if isinstance(step, Loop):
        inside, times = sum(len(body.steps) for body in step.bodies.values()), step.equation.params.get("length")
        return f"{inside} step{'' if inside == 1 else 's'} inside" + (f", {times} times" if times is not None else "")
    return f"{step.rows} x {step.n}" if isinstance(step, Sort) else ""


def steps_of(program: Program) -> tuple[CompiledStep, ...]:
    """Each step with the equations that it computes, those evaluated in place of a buffer among them."""
    producer = {v: i for i, eqn in enumerate(program.graph.eqns) for v in eqn.outputs}
    found = []
    for step in program.steps:
        places = (program.storage[v] for v in writes(step))
        updates = dict.fromkeys(s.index for s in places if s.place is Place.INPUT)
        found.append(CompiledStep(_KINDS[type(step)], _equations(program, step, producer), sizes_of(step), tuple(updates)))
    return tuple(found)


def _equations(program: Program, step: Step, producer: dict[Var, int]) -> tuple[int, ...]:
    stack = [i for i in step.eqns if i >= 0]
    found = set(stack)
    while stack:
        inputs = (a for a in program.graph.eqns[stack.pop()].inputs if a in producer and a not in program.storage)
        fresh = {producer[a] for a in inputs} - found
        found |= fresh
        stack += fresh
    return tuple(sorted(found))
