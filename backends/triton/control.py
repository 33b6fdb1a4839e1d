"""Loops and choices on the host: the state of a loop lies in its results, and each step calls the function of the body.

A while loop looks at its condition after every step, and a choice at its index: both wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from functx.backends.loops.control import carried
from functx.backends.loops.nodes import Loop
from functx.backends.loops.plan import can_fail
from functx.backends.triton.types import number, torch_name
from functx.ir import Literal, Var

BufferOf = Callable[[Var], str]


def loop_lines(step: Loop, names: Mapping[str, str], buffer: BufferOf, workspace: str) -> list[str]:
    """The lines of a step. ``names``: the functions of its bodies; ``buffer``: the name of a variable's buffer."""
    return {"scan": _scan, "while": _while, "cond": _cond, "whole": _whole}[step.equation.primitive.name](step, names, buffer, workspace)


def _operands(step: Loop, buffer: BufferOf) -> list[str]:
    return [
        f"number(workspace, {number(a.value)}, torch.{torch_name(a.aval.dtype)})" if isinstance(a, Literal) else buffer(a)
        for a in step.inputs
    ]


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _call(function: str, inputs: Sequence[str], outputs: Sequence[str], workspace: str) -> str:
    return f"{function}({_list(inputs)}, {_list(outputs)}, constants, {workspace}, failures, functions)"


def _state(step: Loop, operands: Sequence[str], buffer: BufferOf) -> list[str]:
    """Copies of the initial carry to where the results lie."""
    first, count = carried(step.equation)
    first += step.equation.params.get("conds", 0)
    pairs = zip(step.outputs[:count], operands[first : first + count], strict=True)
    return [f"copy({buffer(v)}, {given})" for v, given in pairs if math.prod(v.aval.shape)]


def _scan(step: Loop, names: Mapping[str, str], buffer: BufferOf, workspace: str) -> list[str]:
    p = step.equation.params
    consts, carries, length = p["consts"], p["carries"], p["length"]
    operands, state = _operands(step, buffer), [buffer(v) for v in step.outputs[:carries]]

    def of_step(name: str, v: Var | Literal) -> str:
        return f"piece({name}, step, {math.prod(v.aval.shape[1:])})"

    xs = [of_step(name, v) for name, v in zip(operands[consts + carries :], step.inputs[consts + carries :], strict=True)]
    ys = [of_step(buffer(v), v) for v in step.outputs[carries:]]
    steps = f"range({length - 1}, -1, -1)" if p["reverse"] else f"range({length})"
    call = _call(names["graph"], [*operands[:consts], *state, *xs], [*state, *ys], workspace)
    return [*_state(step, operands, buffer), f"for step in {steps}:", f"    {call}"]


def _while(step: Loop, names: Mapping[str, str], buffer: BufferOf, workspace: str) -> list[str]:
    p = step.equation.params
    conds, consts = p["conds"], p["consts"]
    operands, state = _operands(step, buffer), [buffer(v) for v in step.outputs]
    checked = any(can_fail(inner) for body in step.bodies.values() for inner in body.steps)
    return [
        *_state(step, operands, buffer),
        "goes_on = number(workspace, False, torch.bool)",
        "while True:",
        f"    {_call(names['cond'], [*operands[:conds], *state], ['goes_on'], workspace)}",
        f"    if not goes_on.item(){' or failed(failures)' if checked else ''}:",
        "        break",
        f"    {_call(names['graph'], [*operands[conds : conds + consts], *state], state, workspace)}",
    ]


def _whole(step: Loop, names: Mapping[str, str], buffer: BufferOf, workspace: str) -> list[str]:
    return [_call(names["graph"], _operands(step, buffer), [buffer(v) for v in step.outputs], workspace)]


def _cond(step: Loop, names: Mapping[str, str], buffer: BufferOf, workspace: str) -> list[str]:
    operands, last = _operands(step, buffer), len(names) - 1
    branches = _list([names[f"branch{k}"] for k in range(len(names))])
    outputs = [buffer(v) for v in step.outputs]
    call = _call("branch", operands[1:], outputs, workspace)
    return [f"branch = {branches}[min(max(int({operands[0]}.item()), 0), {last})]", call]
