"""The op table: each elementwise primitive as a C++ expression, and which equations have native code.

To add an elementwise primitive: one row in OPS (or its name in MATH, for a function that runs over blocks of values).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from functx import dtypes
from functx.backends.cpp.numbers import COMPLEX_FUNCTIONS
from functx.backends.cpp.types import ctype, is_half, kind, literal, stored, suffix, widened
from functx.backends.loops.describe import RUNNING, SCATTER
from functx.backends.loops.nodes import Apply
from functx.backends.loops.rules import MOVES, SPELLED_OUT, wide
from functx.ir import Eqn
from functx.util import zip_strict

# Functions of floats that run over blocks of values, through vector routines where there are some.
MATH = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "cbrt", "pow", "atan2", "hypot", "erf", "erfc", "lgamma", "erf_inv"),
)
# Those of them that complex numbers have too.
COMPLEX_MATH = {name for name in MATH if f"complex_{name}" in COMPLEX_FUNCTIONS}

_FLOATS, _INTS, _ALL = "f", "iu", "biufc"
Expression = Callable[[Apply, Sequence[str]], str]


def _infix(operator: str) -> Expression:
    return lambda node, args: f"{args[0]} {operator} {args[1]}"


def _call(name: str) -> Expression:
    return lambda node, args: f"{name}({', '.join(args)})"


def _by_kind(**expressions: Expression) -> Expression:
    """One expression per dtype kind of the first operand: ``b``, ``i`` (unsigned too unless there is ``u``), ``f`` or ``c``."""

    def choose(node: Apply, args: Sequence[str]) -> str:
        k = kind(node.args[0].dtype)
        return expressions["i" if k == "u" and "u" not in expressions else k](node, args)

    return choose


def _builtin(name: str) -> Expression:
    return lambda node, args: f"__builtin_{name}{suffix(node.args[0].dtype)}({', '.join(args)})"


def _of_parts(part: str) -> Expression:
    """A complex number from what ``part`` makes of the real and the imaginary one, ``{}``."""
    return lambda node, args: f"{ctype(node.dtype)}({part.format(f'{args[0]}.re')}, {part.format(f'{args[0]}.im')})"


def convert(source: np.dtype, target: np.dtype, text: str) -> str:
    """A conversion as NumPy does it on x86: what does not fit becomes the least integer, or wraps through a wider one."""
    if source == target:
        return text
    if kind(target) == "b":
        return f"{widened(source, text)} != 0"
    if source.kind == "b":  # the form that GCC vectorizes
        return f"{text} ? {literal(target.type(1))} : {literal(target.type(0))}"
    if source.kind == "c" and target.kind == "c":
        part = "float" if target.itemsize == 8 else "double"
        return f"{ctype(target)}({part}({text}.re), {part}({text}.im))"
    if source.kind == "c":
        part = np.dtype(np.float32 if source.itemsize == 8 else np.float64)
        return convert(part, target, f"{text}.re")
    if is_half(source):
        return convert(dtypes.FLOAT32, target, f"float({text})")
    if target == np.float16 and source == dtypes.FLOAT64:
        return f"double_to_half({text})"
    if is_half(target):
        return f"{ctype(target)}({text if source == dtypes.FLOAT32 else f'float({text})'})"
    if target.kind == "c":
        return f"{ctype(target)}({'float' if target.itemsize == 8 else 'double'}({text}))"
    if source.kind == "f" and target.kind in "iu":
        if target.name == "uint64":
            return f"to_uint64({text})"
        via = "int64_t" if target.itemsize == 8 or target.name == "uint32" else "int32_t"
        return f"({ctype(target)})({via}){text}" if ctype(target) != via else f"({via}){text}"
    return f"({ctype(target)}){text}"


def _bitcast(node: Apply, args: Sequence[str]) -> str:
    """The bits of an element as another type of the same size; a bool is a byte."""
    source, text = node.args[0].dtype, args[0]
    if node.dtype.kind == "b":
        return text if source.kind == "b" else f"{text} != 0"
    return f"__builtin_bit_cast({ctype(node.dtype)}, {stored(source)}({text}))"


def _same(node: Apply, args: Sequence[str]) -> str:
    return args[0]


def _int_abs(node: Apply, args: Sequence[str]) -> str:
    return f"{args[0]} < 0 ? -{args[0]} : {args[0]}"


def _complex_abs(node: Apply, args: Sequence[str]) -> str:
    return f"__builtin_hypot{suffix(node.dtype)}({args[0]}.re, {args[0]}.im)"


def _rsqrt(node: Apply, args: Sequence[str]) -> str:
    """Rounded twice, as in the reference."""
    root = f"{ctype(node.dtype)}({_builtin('sqrt')(node, args)})"
    return f"{'1.0f' if node.dtype.itemsize <= 4 else '1.0'} / {widened(node.dtype, root)}"


# name: (kinds of operand dtypes that have it, the expression)
OPS: dict[str, tuple[str, Expression]] = {
    "add": (_ALL, _by_kind(b=_infix("|"), i=_infix("+"), f=_infix("+"), c=_infix("+"))),
    "sub": ("iufc", _infix("-")),
    "mul": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_infix("*"), c=_infix("*"))),
    "mul_zero": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_call("mul_zero"), c=_call("mul_zero"))),
    "div": ("fc", _infix("/")),
    "neg": ("iufc", lambda node, args: f"-{args[0]}"),
    "sign": ("iufc", _by_kind(i=_call("sign_of"), f=_call("sign_of"), c=_call("complex_sign"))),
    "abs": (_ALL, _by_kind(b=_same, u=_same, i=_int_abs, f=_builtin("fabs"), c=_complex_abs)),
    "sqrt": ("fc", _by_kind(f=_builtin("sqrt"), c=_call("complex_sqrt"))),
    "sqrt_zero": ("fc", _by_kind(f=_builtin("sqrt"), c=_call("complex_sqrt"))),
    "rsqrt": ("fc", _by_kind(f=_rsqrt, c=lambda node, args: f"{ctype(node.dtype)}(1) / complex_sqrt({args[0]})")),
    "real": ("c", lambda node, args: f"{args[0]}.re"),
    "imag": ("c", lambda node, args: f"{args[0]}.im"),
    "complex": (_FLOATS, lambda node, args: f"{ctype(node.dtype)}({', '.join(args)})"),
    "conj": (_ALL, lambda node, args: f"{ctype(node.dtype)}({args[0]}.re, -{args[0]}.im)" if node.dtype.kind == "c" else args[0]),
    "copysign": (_FLOATS, _builtin("copysign")),
    "signbit": (_FLOATS, _call("sign_bit")),
    "floor": (_FLOATS, _builtin("floor")),
    "ceil": (_FLOATS, _builtin("ceil")),
    "trunc": (_FLOATS, _builtin("trunc")),
    "rint": ("fc", _by_kind(f=_builtin("rint"), c=_of_parts("__builtin_rint({})"))),
    "nextafter": (_FLOATS, _builtin("nextafter")),
    "ldexp": (_FLOATS, _call("scaled")),
    "mantissa": (_FLOATS, _call("mantissa_of")),
    "exponent": (_FLOATS, _call("exponent_of")),
    "population_count": ("b" + _INTS, _by_kind(b=_call("uint8_t"), i=_call("bit_count"))),
    "gcd": (_INTS, _call("greatest_divisor")),
    "pow": ("uc", _by_kind(u=_call("int_power"), c=_call("complex_pow"))),
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
    "bitcast": (_ALL, _bitcast),
    "fma": (_FLOATS, _builtin("fma")),
    "threefry2x32": ("u", _call("threefry2x32")),
    "clamp_index": ("i", lambda node, args: f"{args[0]} < 0 ? 0 : smaller({args[0]}, {args[1]})"),
    "wrap_index": ("i", lambda node, args: f"{args[0]} < 0 ? {args[0]} + {args[1]} : {args[0]}"),
}

OPS |= {name: ("c", _call(f"complex_{name}")) for name in COMPLEX_MATH - {"pow"}}

_REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin")
_STEPS = {*MOVES, *_REDUCTIONS, *RUNNING, *SCATTER, "sort", "top_k", "dynamic_update_slice"}


class CppTarget:
    """What generated C++ computes natively."""

    max_constant = 4096  # the code holds it

    def supports(self, eqn: Eqn) -> bool:
        """Whether there is native code for an equation."""
        name = eqn.primitive.name
        inputs, outs = [a.aval.dtype for a in eqn.inputs], [v.aval.dtype for v in eqn.outputs]
        if not all(dtypes.is_supported(d) for d in (*inputs, *outs)):
            return False
        if name in MATH and kind(inputs[0]) == "f":
            return True
        if name in SPELLED_OUT or name == "cumlogsumexp":
            return kind(inputs[0]) == "f" or name == "logistic"
        if name == "convert" and eqn.params["checked"]:
            return inputs[0] == dtypes.INT64 and outs[0].kind in "iuf"
        if name == "nextafter" and is_half(inputs[0]):
            return False
        if name in OPS:
            return kind(inputs[1] if name == "select" else inputs[0]) in OPS[name][0]
        return name in _STEPS

    def multiplies(self, dtype: np.dtype) -> np.dtype | None:
        """BLAS has four types; floats of 16 bits are multiplied as float32."""
        return wide(dtype) if kind(dtype) in "fc" else None


def is_block_routine(node: Apply) -> bool:
    """Whether an operation runs over blocks of values."""
    return node.op in MATH and kind(node.dtype) == "f"


def expression(node: Apply, args: Sequence[str]) -> str:
    """The C++ expression of an operation on operands."""
    if node.op not in ("select", "convert", "bitcast"):
        args = [widened(a.dtype, text) for a, text in zip_strict(node.args, args)]
    return OPS[node.op][1](node, args)
