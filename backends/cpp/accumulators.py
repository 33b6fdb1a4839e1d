"""Reductions as C++: how an accumulator is declared, fed with a value, a block or a column, and read; and how two values are combined in
place. Knows no loops."""

from __future__ import annotations

import numpy as np

from functx.backends.cpp.text import affine_text
from functx.backends.cpp.types import ctype, is_half, literal, stored, widened
from functx.backends.loops.affine import LoopVar, substitute, var
from functx.backends.loops.nodes import Accumulate, Running, Store

_STRUCTS = {"sum": "Add", "prod": "Mul", "max": "Max", "argmax": "Max", "min": "Min", "argmin": "Min", "logaddexp": "LogAddExp"}


def operation(e: Accumulate | Running | Store) -> str:
    """The struct that combines two values."""
    if e.value.dtype.kind == "b" and not e.op.startswith("arg"):
        return "And" if e.op in ("min", "prod") else "Or"
    return _STRUCTS[e.op]


def identity(op: str, dtype: np.dtype) -> np.generic:
    largest = op in ("min", "argmin")
    if op == "prod":
        return dtype.type(1)
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind in "fc":
        edge = np.inf if largest else -np.inf
        return dtype.type(complex(edge, edge) if dtype.kind == "c" else edge)
    info = np.iinfo(dtype)
    return dtype.type(info.max if largest else info.min)


def initial(e: Accumulate) -> str:
    """What an accumulator holds at first."""
    return "0" if e.op == "sum" else literal(identity(e.op, e.value.dtype))


def is_float_sum(e: Accumulate) -> bool:
    """Whether a running sum carries its rounding error along."""
    return e.op == "sum" and e.value.dtype.kind in "fc"


def declare(e: Accumulate, s: str) -> str:
    c = ctype(e.value.dtype)
    if e.position is not None:
        return f"Best<{operation(e)}, {stored(e.value.dtype)}> {s}{{{initial(e)}}};"
    if is_float_sum(e):
        return f"{f'ComplexSum<{c}>' if e.value.dtype.kind == 'c' else f'Sum<{c}>'} {s};"
    return f"{c} {s} = {initial(e)};"


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


def assignment(e: Store, place: str, value: str) -> str:
    """The statement that stores a value, or combines it with what its place holds."""
    if e.op == "sum" and not is_half(e.value.dtype):
        return f"{place} {'|=' if e.value.dtype.kind == 'b' else '+='} {value};"
    return f"{place} = {_combined(e, place, value) if e.op else value};"


def _combined(e: Store | Running, place: str, value: str) -> str:
    return f"{operation(e)}::of({widened(e.value.dtype, place)}, {widened(e.value.dtype, value)})"


def advanced(e: Running, state: str, value: str) -> str:
    """The next intermediate result."""
    if e.op != "recurrence":
        return _combined(e, state, value)
    dtype = e.value.dtype
    times, plus = ("&", "|") if dtype.kind == "b" else ("*", "+")
    product = f"{widened(dtype, f'v{e.factor.id}')} {times} {widened(dtype, state)}"
    return f"{widened(dtype, f'{ctype(dtype)}({product})')} {plus} {widened(dtype, value)}"


def result(e: Accumulate) -> str:
    return ".place" if e.position is not None else ".result()" if is_float_sum(e) else ""
