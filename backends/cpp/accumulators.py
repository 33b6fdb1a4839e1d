"""Reductions as C++: how an accumulator is declared, fed with a value, a block or a column, and read. Knows no loops."""

from __future__ import annotations

import numpy as np

from functx.backends.cpp.text import affine_text
from functx.backends.cpp.types import ctype, literal, stored
from functx.backends.loops.affine import LoopVar, substitute, var
from functx.backends.loops.nodes import Accumulate


def operation(e: Accumulate) -> str:
    """The struct that combines two values."""
    if e.value.dtype.kind == "b" and e.position is None:
        return "And" if e.op == "min" else "Or"
    if e.op == "sum":
        return "Add"
    return {"max": "Max", "argmax": "Max", "min": "Min", "argmin": "Min"}[e.op]


def identity(op: str, dtype: np.dtype) -> np.generic:
    largest = op in ("min", "argmin")
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind == "f":
        return dtype.type(np.inf if largest else -np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.max if largest else info.min)


def is_float_sum(e: Accumulate) -> bool:
    return e.op == "sum" and e.value.dtype.kind == "f"


def declare(e: Accumulate, s: str) -> str:
    c = ctype(e.value.dtype)
    if e.position is not None:
        return f"Best<{operation(e)}, {stored(e.value.dtype)}> {s}{{{literal(identity(e.op, e.value.dtype))}}};"
    if is_float_sum(e):
        return f"Sum<{c}> {s};"
    return f"{c} {s} = {'0' if e.op == 'sum' else literal(identity(e.op, e.value.dtype))};"


def accumulate_value(e: Accumulate, s: str, value: str) -> str:
    if e.position is not None:
        return f"{s}.add({value}, {affine_text(e.position)});"
    return f"{s}.add({value});" if is_float_sum(e) else f"{s} = {operation(e)}::of({s}, {value});"


def scan(e: Accumulate, s: str, pointers: list[str], first: str, count: str) -> str:
    if e.position is not None:
        ((v, step),) = [(v, c) for v, c in e.position.terms if isinstance(v, LoopVar)][-1:]
        start = affine_text(substitute(e.position, lambda x: var(LoopVar(first, 2**62)) if x == v else None))
        return f"{s}.scan({pointers[0]}, {count}, {start}, {step})"
    function = f"block<{operation(e)}>" if len(pointers) == 1 else "block_product"
    value = f"{function}({', '.join(pointers)}, {count})"
    return f"{s}.add({value})" if is_float_sum(e) else f"{s} = {operation(e)}::of({s}, {value})"


def accumulate_column(e: Accumulate, total: str, best: str, value: str) -> str:
    if e.position is not None:
        better = f"beats<{operation(e)}, {stored(e.value.dtype)}>({value}, {best})"
        return f"if ({better}) {best} = {value}, {total} = {affine_text(e.position)};"
    return f"{total} = {operation(e)}::of({total}, {value});"


def result(e: Accumulate) -> str:
    return ".place" if e.position is not None else ".result()" if is_float_sum(e) else ""
