"""Loops and choices on the host: the state of a loop lies in its results, and each step calls the function of the body.

A while loop looks at its condition after every step, and a choice at its index: both wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from functx.backends.loops.control import carried
from functx.backends.loops.formulas import size_name
from functx.backends.loops.nodes import Loop
from functx.backends.triton.text import host_text
from functx.backends.triton.types import number, torch_name
from functx.ir import Literal, Var
from functx.shapes import size


@dataclass(frozen=True)
class Setting:
    """What a loop finds around it.

    Attributes:
      names: the functions of its bodies.
      buffer: the name of a variable's buffer.
      workspace: the memory of the bodies.
      slots: where the values of sizes are kept, by name.
      has_checks: whether a kernel of the source can fail: in a loop, before it or around it.
    """

    names: Mapping[str, str]
    buffer: Callable[[Var], str]
    workspace: str
    slots: Mapping[str, int]
    has_checks: bool

    def call(self, function: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
        """A call of the function of a body."""
        sizes = ", sizes" if self.slots else ""
        return f"{function}({_list(inputs)}, {_list(outputs)}, constants, {self.workspace}, failures, functions{sizes})"


def loop_lines(step: Loop, setting: Setting) -> list[str]:
    """The lines of a step."""
    return {"scan": _scan, "while": _while, "cond": _cond, "whole": _whole}[step.equation.primitive.name](step, setting)


def _operands(step: Loop, setting: Setting) -> list[str]:
    return [
        f"number(workspace, {number(a.value)}, torch.{torch_name(a.aval.dtype)})" if isinstance(a, Literal) else setting.buffer(a)
        for a in step.inputs
    ]


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _row(v: Var | Literal) -> str:
    """How many elements an entry of a stack has."""
    return host_text(size(v.aval.shape[1:]))


def _state(step: Loop, operands: Sequence[str], setting: Setting) -> list[str]:
    """Copies of the initial carry to where the results lie."""
    first, count = carried(step.equation)
    first += step.equation.params.get("conds", 0)
    pairs = zip(step.outputs[:count], operands[first : first + count], strict=True)
    return [f"copy({setting.buffer(v)}, {given})" for v, given in pairs if size(v.aval.shape) != 0]


def _scan(step: Loop, setting: Setting) -> list[str]:
    p = step.equation.params
    consts, carries, length = p["consts"], p["carries"], p["length"]
    operands, state = _operands(step, setting), [setting.buffer(v) for v in step.outputs[:carries]]
    xs = zip(operands[consts + carries :], step.inputs[consts + carries :], strict=True)
    moving = [f"piece({name}, step, {_row(v)})" for name, v in xs]
    ys = [f"piece({setting.buffer(v)}, step, {_row(v)})" for v in step.outputs[carries:]]
    steps = f"range({host_text(length - 1)}, -1, -1)" if p["reverse"] else f"range({host_text(length)})"
    call = setting.call(setting.names["graph"], [*operands[:consts], *state, *moving], [*state, *ys])
    return [*_state(step, operands, setting), f"for step in {steps}:", f"    {call}"]


def _while(step: Loop, setting: Setting) -> list[str]:
    """A loop that leaves stacks lets them grow, and tells how many steps they have. It ends where a check has failed, in it or before:
    with values that are not right it may have no end.
    """
    p = step.equation.params
    conds, consts = p["conds"], p["consts"]
    _, carries = carried(step.equation)
    operands, state = _operands(step, setting), [setting.buffer(v) for v in step.outputs[:carries]]
    stacks = [(setting.buffer(v), _row(v), torch_name(v.aval.dtype)) for v in step.outputs[carries:]]
    rows = [f"piece({name}, step, {row})" for name, row, _ in stacks]
    lines = [
        *_state(step, operands, setting),
        "goes_on = number(workspace, False, torch.bool)",
        *(f"{name} = fresh(workspace, 0, torch.{dtype})" for name, _, dtype in stacks),
        *(["step = 0"] if step.binds is not None else []),
        "while True:",
        f"    {setting.call(setting.names['cond'], [*operands[:conds], *state], ['goes_on'])}",
        f"    if not goes_on.item(){' or failed(failures)' if setting.has_checks else ''}:",
        "        break",
        *(f"    {name} = grown({name}, (step + 1) * {row})" for name, row, _ in stacks),
        f"    {setting.call(setting.names['graph'], [*operands[conds : conds + consts], *state], [*state, *rows])}",
    ]
    if step.binds is None:
        return lines
    name = step.binds.name
    return [
        *lines,
        "    step += 1",
        f"{size_name(name)} = sizes[{setting.slots[name]}] = step",
        *(f"{name} = {name}[: step * {row}]" for name, row, _ in stacks),
    ]


def _whole(step: Loop, setting: Setting) -> list[str]:
    return [setting.call(setting.names["graph"], _operands(step, setting), [setting.buffer(v) for v in step.outputs])]


def _cond(step: Loop, setting: Setting) -> list[str]:
    operands, last = _operands(step, setting), len(setting.names) - 1
    branches = _list([setting.names[f"branch{k}"] for k in range(len(setting.names))])
    call = setting.call("branch", operands[1:], [setting.buffer(v) for v in step.outputs])
    return [f"branch = {branches}[min(max(int({operands[0]}.item()), 0), {last})]", call]
