"""The op table: each elementwise primitive as a C++ expression, and which equations have native code.

To add an elementwise primitive: one row in OPS (or in MATH for a function of libm), and its name in ``functx.backends.loops.rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from functx import dtypes
from functx.backends.cpp.types import ctype, is_native, literal
from functx.backends.loops.nodes import Apply
from functx.backends.loops.rules import MOVES, SPELLED_OUT
from functx.ir import Eqn

# Functions that run over blocks of values, through vector routines where there are some.
MATH = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "cbrt", "pow", "atan2", "hypot"),
)

_FLOATS, _INTS, _ALL = "f", "iu", "biuf"
Expression = Callable[[Apply, Sequence[str]], str]


def _infix(operator: str) -> Expression:
    return lambda node, args: f"{args[0]} {operator} {args[1]}"


def _call(name: str) -> Expression:
    return lambda node, args: f"{name}({', '.join(args)})"


def _by_kind(**expressions: Expression) -> Expression:
    """One expression per dtype kind of the first operand: ``b``, ``i`` (unsigned too) or ``f``."""
    return lambda node, args: expressions[node.args[0].dtype.kind.replace("u", "i")](node, args)


def _builtin(name: str) -> Expression:
    return lambda node, args: f"__builtin_{name}{'f' if node.args[0].dtype.itemsize == 4 else ''}({', '.join(args)})"


def _abs(node: Apply, args: Sequence[str]) -> str:
    kind = node.dtype.kind
    return _builtin("fabs")(node, args) if kind == "f" else args[0] if kind in "bu" else f"{args[0]} < 0 ? -{args[0]} : {args[0]}"


def convert(source: np.dtype, target: np.dtype, text: str) -> str:
    """A conversion as NumPy does it on x86: what does not fit becomes the least integer, or wraps through a wider one."""
    if source == target:
        return text
    if target.kind == "b":
        return f"{text} != 0"
    if source.kind == "b":  # the form that GCC vectorizes
        return f"{text} ? {literal(target.type(1))} : {literal(target.type(0))}"
    if source.kind == "f" and target.kind in "iu":
        if target.name == "uint64":
            return f"to_uint64({text})"
        via = "int64_t" if target.itemsize == 8 or target.name == "uint32" else "int32_t"
        return f"({ctype(target)})({via}){text}" if ctype(target) != via else f"({via}){text}"
    return f"({ctype(target)}){text}"


# name: (kinds of operand dtypes that have it, the expression)
OPS: dict[str, tuple[str, Expression]] = {
    "add": (_ALL, _by_kind(b=_infix("|"), i=_infix("+"), f=_infix("+"))),
    "sub": (_INTS + _FLOATS, _infix("-")),
    "mul": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_infix("*"))),
    "mul_zero": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_call("mul_zero"))),
    "div": (_FLOATS, _infix("/")),
    "neg": (_INTS + _FLOATS, lambda node, args: f"-{args[0]}"),
    "sign": (_INTS + _FLOATS, _call("sign_of")),
    "abs": (_ALL, _abs),
    "sqrt": (_FLOATS, _builtin("sqrt")),
    "copysign": (_FLOATS, _builtin("copysign")),
    "signbit": (_FLOATS, lambda node, args: f"__builtin_signbit({args[0]}) != 0"),
    "floor": (_FLOATS, _builtin("floor")),
    "ceil": (_FLOATS, _builtin("ceil")),
    "trunc": (_FLOATS, _builtin("trunc")),
    "rint": (_FLOATS, _builtin("rint")),
    "floor_divide": (_INTS + _FLOATS, _by_kind(i=_call("int_quotient"), f=_call("float_quotient"))),
    "remainder": (_INTS + _FLOATS, _by_kind(i=_call("int_remainder"), f=_call("float_remainder"))),
    "fmod": (_INTS + _FLOATS, _by_kind(i=_call("int_fmod"), f=_builtin("fmod"))),
    "max": (_ALL, _call("max_of")),
    "min": (_ALL, _call("min_of")),
    "eq": (_ALL, _infix("==")),
    "ne": (_ALL, _infix("!=")),
    "lt": (_ALL, _infix("<")),
    "le": (_ALL, _infix("<=")),
    "gt": (_ALL, _infix(">")),
    "ge": (_ALL, _infix(">=")),
    "and_": ("b" + _INTS, _infix("&")),
    "or_": ("b" + _INTS, _infix("|")),
    "xor": ("b" + _INTS, _infix("^")),
    "shift_left": (_INTS, _call("shift_left")),
    "shift_right": (_INTS, _call("shift_right")),
    "not_": ("b" + _INTS, _by_kind(b=lambda node, args: f"!{args[0]}", i=lambda node, args: f"~{args[0]}")),
    "select": (_ALL, lambda node, args: f"{args[0]} ? {args[1]} : {args[2]}"),
    "convert": (_ALL, lambda node, args: convert(node.args[0].dtype, node.dtype, args[0])),
    "wrap_index": ("i", lambda node, args: f"{args[0]} < 0 ? {args[0]} + {args[1]} : {args[0]}"),
}

_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin")
_OPAQUE_MOVES = set(MOVES) - {"convert", "dot_general", "iota"} | {"select", "scatter_set"}


class CppTarget:
    """What generated C++ computes natively."""

    def supports(self, eqn: Eqn) -> bool:
        """Whether there is native code for an equation."""
        name = eqn.primitive.name
        inputs, outs = [a.aval.dtype for a in eqn.inputs], [v.aval.dtype for v in eqn.outputs]
        if not all(dtypes.is_supported(d) for d in (*inputs, *outs)):
            return False
        if not all(map(is_native, (*inputs, *outs))):
            return name in _OPAQUE_MOVES or (name == "convert" and inputs == outs)
        if name in MATH or name in SPELLED_OUT:
            return inputs[0].kind == "f"
        if name == "convert" and eqn.params["checked"]:
            return inputs[0] == dtypes.INT64 and outs[0].kind in "iuf"
        if name in OPS:
            return (inputs[1] if name == "select" else inputs[0]).kind in OPS[name][0]
        return name in MOVES or name in _REDUCTIONS or name in ("scatter_add", "scatter_set")

    def multiplies(self, dtype: np.dtype) -> bool:
        """BLAS has two types."""
        return dtype in (dtypes.FLOAT32, dtypes.FLOAT64)


def expression(node: Apply, args: Sequence[str]) -> str:
    """The C++ expression of an operation on operands."""
    return OPS[node.op][1](node, args)
