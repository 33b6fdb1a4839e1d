"""Loops and choices as C++: the state of a loop lies in its results, and each step calls the function of the body.

A body is a function like ``run``, over a call structure of its own that points into the buffers of the enclosing one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from functx.backends.cpp.text import size_text
from functx.backends.cpp.types import literal, stored
from functx.backends.loops.control import carried
from functx.backends.loops.formulas import size_name
from functx.backends.loops.nodes import Loop
from functx.backends.loops.sizes import nbytes
from functx.ir import Literal, Var
from functx.shapes import Size, size

Address = Callable[[Var], str]

TASKS = 16  # into which lanes are divided: their number must not depend on that of the threads


@dataclass(frozen=True)
class Setting:
    """What a loop finds around it.

    Attributes:
      names: the functions of its bodies.
      address: where a variable lies.
      workspace: the memory of the bodies.
      slots: where the call keeps the values of sizes, by name.
      lane_bytes: the memory of one body, where threads share the steps and each task has its own; else None.
    """

    names: Mapping[str, str]
    address: Address
    workspace: str
    slots: Mapping[str, int]
    lane_bytes: Size | None


def loop_lines(step: Loop, setting: Setting) -> list[str]:
    """The block of a step."""
    lines = {"scan": _scan, "while": _while, "cond": _cond, "whole": _whole}[step.equation.primitive.name]
    return lines(step, setting)


def _places(step: Loop, address: Address) -> tuple[list[str], list[str]]:
    """Where the operands lie, and the declarations that this takes."""
    declarations, places = [], []
    for k, a in enumerate(step.inputs):
        if isinstance(a, Literal):
            declarations.append(f"static const {stored(a.aval.dtype)} operand{k} = {literal(a.value)};")
            places.append(f"(char*)&operand{k}")
        else:
            places.append(f"(char*){address(a)}")
    return declarations, places


def _state(step: Loop, places: Sequence[str], address: Address) -> list[str]:
    """Copies of the initial carry to where the results lie."""
    first, count = carried(step.equation)
    first += step.equation.params.get("conds", 0)
    sizes = [nbytes(v) for v in step.outputs[:count]]
    targets = [address(v) for v in step.outputs[:count]]
    found = zip(targets, places[first : first + count], sizes, strict=True)
    return [f"__builtin_memcpy({t}, {p}, {size_text(n)});" for t, p, n in found if n != 0]


def _frame(name: str, inputs: Sequence[str], outputs: Sequence[str], workspace: str) -> list[str]:
    """A call structure for a body: its pointers, and the rest of the enclosing one."""
    return [
        f"void* {name}_inputs[] = {{{', '.join([*inputs, 'nullptr'])}}};",
        f"void* {name}_outputs[] = {{{', '.join([*outputs, 'nullptr'])}}};",
        f"FunctxCall {name} = *call;",
        f"{name}.inputs = {name}_inputs, {name}.outputs = {name}_outputs, {name}.workspace = {workspace};",
    ]


def _call(function: str, frame: str) -> str:
    return f"if (int status = {function}(&{frame})) return hand_on(call, {frame}, status);"


def _row_bytes(v: Var) -> str:
    """The bytes of one entry of a stack."""
    return size_text(size(v.aval.shape[1:]) * v.aval.dtype.itemsize)


def _scan(step: Loop, setting: Setting) -> list[str]:
    p, address = step.equation.params, setting.address
    consts, carries, length = p["consts"], p["carries"], p["length"]
    declarations, places = _places(step, address)
    state = [f"(char*){address(v)}" for v in step.outputs[:carries]]
    ys = step.outputs[carries:]
    xs, rows = places[consts + carries :], map(_row_bytes, step.inputs[consts + carries :])
    moving = [f"body_inputs[{consts + carries + k}] = {x} + at * {n};" for k, (x, n) in enumerate(zip(xs, rows, strict=True))]
    moving += [f"body_outputs[{carries + k}] = (char*){address(y)} + at * {_row_bytes(y)};" for k, y in enumerate(ys)]
    at = f"{size_text(length - 1)} - step" if p["reverse"] else "step"
    moving = [f"const int64_t at = {at};", *moving] if moving else []
    inputs, outputs = [*places[:consts], *state, *xs], [*state, *(f"(char*){address(y)}" for y in ys)]
    if setting.lane_bytes is not None:
        return [*declarations, *_shared(setting, inputs, outputs, size_text(length), moving)]
    return [
        *declarations,
        *_state(step, places, address),
        *_frame("body", inputs, outputs, setting.workspace),
        f"for (int64_t step = 0; step < {size_text(length)}; ++step) {{",
        *(f"  {line}" for line in [*moving, _call(setting.names["graph"], "body")]),
        "}",
    ]


def _shared(setting: Setting, inputs: Sequence[str], outputs: Sequence[str], length: str, moving: Sequence[str]) -> list[str]:
    """Steps that do not depend on each other, shared by threads; of those that fail the first one counts."""
    workspace = f"{setting.workspace} + task * {size_text(setting.lane_bytes)}"
    own = [f"int64_t dims[{len(setting.slots)}];", "__builtin_memcpy(dims, call->dims, sizeof dims);", "body.dims = dims;"]
    function = setting.names["graph"]
    return [
        f"const int64_t each = ceil_div({length}, {TASKS});",
        f"FunctxCall failed[{TASKS}];",
        f"int statuses[{TASKS}] = {{}};",
        "#pragma omp parallel for schedule(dynamic)",
        f"for (int64_t task = 0; task < {TASKS}; ++task) {{",
        *(f"  {line}" for line in _frame("body", inputs, outputs, workspace)),
        *(f"  {line}" for line in own if setting.slots),
        f"  for (int64_t step = task * each; step < smaller((task + 1) * each, {length}) && !statuses[task]; ++step) {{",
        *(f"    {line}" for line in moving),
        f"    if (int status = {function}(&body)) statuses[task] = status, failed[task] = body;",
        "  }",
        "}",
        f"for (int64_t task = 0; task < {TASKS}; ++task)",
        "  if (statuses[task]) return hand_on(call, failed[task], statuses[task]);",
    ]


def _while(step: Loop, setting: Setting) -> list[str]:
    names, address, workspace = setting.names, setting.address, setting.workspace
    p = step.equation.params
    conds, consts = p["conds"], p["consts"]
    _, carries = carried(step.equation)
    declarations, places = _places(step, address)
    state = [f"(char*){address(v)}" for v in step.outputs[:carries]]
    stacks = [address(v).removesuffix(".data") for v in step.outputs[carries:]]
    rows = [_row_bytes(v) for v in step.outputs[carries:]]
    grow = [
        line
        for k, (stack, n) in enumerate(zip(stacks, rows, strict=True))
        for line in (
            f"if (!{stack}.grow((step + 1) * {n})) return out_of_memory(call, (step + 1) * {n});",
            f"body_outputs[{carries + k}] = {stack}.data + step * {n};",
        )
    ]
    counted = step.binds is not None
    return [
        *declarations,
        *_state(step, places, address),
        "bool goes_on = false;",
        *_frame("condition", [*places[:conds], *state], ["&goes_on"], workspace),
        *_frame("body", [*places[conds : conds + consts], *state], [*state, *("nullptr" for _ in stacks)], workspace),
        "for (int64_t step = 0;; ++step) {" if counted else "while (true) {",
        f"  {_call(names['cond'], 'condition')}",
        f"  {_break(step, setting.slots)}",
        *(f"  {line}" for line in grow),
        f"  {_call(names['graph'], 'body')}",
        "}",
        *(f"if (!{stack}.reserve(1)) return out_of_memory(call, 1);" for stack in stacks),
    ]


def _break(step: Loop, slots: Mapping[str, int]) -> str:
    """The end of a while loop. One that leaves stacks tells how many steps they have."""
    if step.binds is None:
        return "if (!goes_on) break;"
    name = step.binds.expr.name
    return f"if (!goes_on) {{ {size_name(name)} = call->dims[{slots[name]}] = step; break; }}"


def _whole(step: Loop, setting: Setting) -> list[str]:
    names, address, workspace = setting.names, setting.address, setting.workspace
    declarations, places = _places(step, address)
    outputs = [f"(char*){address(v)}" for v in step.outputs]
    return [*declarations, *_frame("body", places, outputs, workspace), _call(names["graph"], "body")]


def _cond(step: Loop, setting: Setting) -> list[str]:
    names, address, workspace = setting.names, setting.address, setting.workspace
    declarations, places = _places(step, address)
    last = len(names) - 1
    index = stored(step.inputs[0].aval.dtype)
    cases = [f"  case {k}: {_call(names[f'branch{k}'], 'branch')} break;" for k in range(len(names))]
    return [
        *declarations,
        *_frame("branch", places[1:], [f"(char*){address(v)}" for v in step.outputs], workspace),
        f"const int64_t index = *(const {index}*){places[0]};",
        f"switch (index < 0 ? 0 : index > {last} ? {last} : index) {{",
        *cases,
        "}",
    ]
