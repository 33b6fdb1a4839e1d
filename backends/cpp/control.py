"""Loops and choices as C++: the state of a loop lies in its results, and each step calls the function of the body.

A body is a function like ``run``, over a call structure of its own that points into the buffers of the enclosing one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from functx.backends.cpp.types import literal, stored
from functx.backends.loops.control import carried
from functx.backends.loops.nodes import Loop
from functx.ir import Literal, Var

Address = Callable[[Var], str]


def loop_lines(step: Loop, names: Mapping[str, str], address: Address, workspace: str) -> list[str]:
    """The block of a step. ``names``: the functions of its bodies; ``address``: where a variable lies."""
    return {"scan": _scan, "while": _while, "cond": _cond}[step.equation.primitive.name](step, names, address, workspace)


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


def _bytes(v: Var) -> int:
    return math.prod(v.aval.shape) * v.aval.dtype.itemsize


def _state(step: Loop, places: Sequence[str], address: Address) -> list[str]:
    """Copies of the initial carry to where the results lie."""
    first, count = carried(step.equation)
    first += step.equation.params.get("conds", 0)
    sizes = [_bytes(v) for v in step.outputs[:count]]
    targets = [address(v) for v in step.outputs[:count]]
    return [f"__builtin_memcpy({t}, {p}, {n});" for t, p, n in zip(targets, places[first : first + count], sizes, strict=True) if n]


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


def _scan(step: Loop, names: Mapping[str, str], address: Address, workspace: str) -> list[str]:
    p = step.equation.params
    consts, carries, length = p["consts"], p["carries"], p["length"]
    declarations, places = _places(step, address)
    state = [f"(char*){address(v)}" for v in step.outputs[:carries]]
    ys = step.outputs[carries:]
    xs = places[consts + carries :]
    x_bytes = [_bytes(a) // max(length, 1) for a in step.inputs[consts + carries :]]
    moving = [f"body_inputs[{consts + carries + k}] = {x} + at * {n};" for k, (x, n) in enumerate(zip(xs, x_bytes, strict=True))]
    moving += [f"body_outputs[{carries + k}] = (char*){address(y)} + at * {_bytes(y) // max(length, 1)};" for k, y in enumerate(ys)]
    at = f"{length - 1} - step" if p["reverse"] else "step"
    loop = [f"const int64_t at = {at};"] if moving else []
    return [
        *declarations,
        *_state(step, places, address),
        *_frame("body", [*places[:consts], *state, *xs], [*state, *(f"(char*){address(y)}" for y in ys)], workspace),
        f"for (int64_t step = 0; step < {length}; ++step) {{",
        *(f"  {line}" for line in [*loop, *moving, _call(names["graph"], "body")]),
        "}",
    ]


def _while(step: Loop, names: Mapping[str, str], address: Address, workspace: str) -> list[str]:
    p = step.equation.params
    conds, consts = p["conds"], p["consts"]
    declarations, places = _places(step, address)
    state = [f"(char*){address(v)}" for v in step.outputs]
    return [
        *declarations,
        *_state(step, places, address),
        "bool goes_on = false;",
        *_frame("condition", [*places[:conds], *state], ["&goes_on"], workspace),
        *_frame("body", [*places[conds : conds + consts], *state], state, workspace),
        "while (true) {",
        f"  {_call(names['cond'], 'condition')}",
        "  if (!goes_on) break;",
        f"  {_call(names['graph'], 'body')}",
        "}",
    ]


def _cond(step: Loop, names: Mapping[str, str], address: Address, workspace: str) -> list[str]:
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
