"""The op table: each elementwise primitive as an expression of Triton, and which equations kernels compute.

To add an elementwise primitive: one row in OPS, or its name in LIBDEVICE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from functx import dtypes
from functx.backends.loops.describe import RUNNING, SCATTER
from functx.backends.loops.nodes import Apply
from functx.backends.loops.rules import MOVES, SPELLED_OUT
from functx.backends.triton.types import in_kernels, is_half, kind, tl_type, widened
from functx.ir import Eqn
from functx.util import zip_strict

# Functions of floats, by their names in libdevice where these are others.
LIBDEVICE = {
    name: name
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
        *("asinh", "acosh", "atanh", "cbrt", "pow", "atan2", "hypot", "erf", "erfc", "lgamma", "copysign", "floor", "ceil", "trunc"),
        *("rint", "nextafter", "fmod", "fma"),
    )
} | {"erf_inv": "erfinv", "abs": "abs"}

_FLOATS, _INTS, _ALL = "f", "iu", "biuf"
Expression = Callable[[Apply, Sequence[str]], str]


def _infix(operator: str) -> Expression:
    return lambda node, args: f"{args[0]} {operator} {args[1]}"


def _call(name: str, *more: str) -> Expression:
    return lambda node, args: f"{name}({', '.join([*args, *more])})"


def _with_bits(name: str) -> Expression:
    return lambda node, args: f"{name}({', '.join(args)}, {8 * node.args[0].dtype.itemsize})"


def _by_kind(**expressions: Expression) -> Expression:
    """One expression per dtype kind of the first operand: ``b``, ``i`` (unsigned too unless there is ``u``) or ``f``."""

    def choose(node: Apply, args: Sequence[str]) -> str:
        k = kind(node.args[0].dtype)
        return expressions["i" if k == "u" and "u" not in expressions else k](node, args)

    return choose


def _same(node: Apply, args: Sequence[str]) -> str:
    return args[0]


def _libdevice(name: str) -> Expression:
    return _call(f"libdevice.{name}")


def _is_double(node: Apply) -> bool:
    return node.args[0].dtype.itemsize == 8


def _div(node: Apply, args: Sequence[str]) -> str:
    return f"{args[0]} / {args[1]}" if _is_double(node) else f"tl.div_rn({args[0]}, {args[1]})"


def _sqrt(node: Apply, args: Sequence[str]) -> str:
    return f"{'tl.sqrt' if _is_double(node) else 'tl.sqrt_rn'}({args[0]})"


def _rsqrt(node: Apply, args: Sequence[str]) -> str:
    """Rounded twice, as in the reference."""
    root = _sqrt(node, args)
    if is_half(node.dtype):
        root = f"{root}.to({tl_type(node.dtype)}).to(tl.float32)"
    return f"1.0 / {root}" if _is_double(node) else f"tl.div_rn(tl.full((), 1.0, tl.float32), {root})"


def convert(source: np.dtype, target: np.dtype, text: str) -> str:
    """A conversion; what does not fit an integer has no defined value, as in C."""
    if source == target:
        return text
    if kind(target) == "b":
        return f"({widened(source, text)} != 0)"
    if is_half(source) and kind(target) != "f":
        text = f"{text}.to(tl.float32)"
    if kind(source) == "b" and kind(target) == "f":
        text = f"{text}.to(tl.int32)"
    if is_half(target) and source != dtypes.FLOAT32 and not (kind(source) == "f" and source.itemsize == 8 and target == np.float16):
        return f"{text}.to(tl.float32).to({tl_type(target)})"
    if kind(source) == "f" and target.kind in "iu" and target.itemsize < 8:
        via = "tl.int64" if target.name == "uint32" else "tl.int32"
        return f"{text}.to({via}).to({tl_type(target)})" if tl_type(target) != via else f"{text}.to({via})"
    return f"{text}.to({tl_type(target)})"


def _bitcast(node: Apply, args: Sequence[str]) -> str:
    """The bits of an element as another type of the same size; a bool is a byte."""
    source, text = node.args[0].dtype, args[0]
    if node.dtype.kind == "b":
        return text if source.kind == "b" else f"{text} != 0"
    if source.kind == "b":
        return f"{text}.to({tl_type(node.dtype)})"
    return f"{text}.to({tl_type(node.dtype)}, bitcast=True)"


# name: (kinds of operand dtypes that have it, the expression)
OPS: dict[str, tuple[str, Expression]] = {
    **{name: (_FLOATS, _libdevice(function)) for name, function in LIBDEVICE.items()},
    "add": (_ALL, _by_kind(b=_infix("|"), i=_infix("+"), f=_infix("+"))),
    "sub": ("iuf", _infix("-")),
    "mul": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_infix("*"))),
    "mul_zero": (_ALL, _by_kind(b=_infix("&"), i=_infix("*"), f=_call("mul_zero"))),
    "div": (_FLOATS, _div),
    "neg": ("iuf", lambda node, args: f"-{args[0]}"),
    "sign": ("iuf", _by_kind(i=_call("sign_of"), u=lambda node, args: f"({args[0]} != 0).to({tl_type(node.dtype)})", f=_call("sign_of"))),
    "abs": (_ALL, _by_kind(b=_same, u=_same, i=_call("tl.abs"), f=_libdevice("abs"))),
    "sqrt": (_FLOATS, _sqrt),
    "sqrt_zero": (_FLOATS, _sqrt),
    "rsqrt": (_FLOATS, _rsqrt),
    "conj": (_ALL, _same),
    "signbit": (_FLOATS, lambda node, args: f"libdevice.signbit({args[0]}) != 0"),
    "ldexp": (_FLOATS, _call("scaled")),
    "mantissa": (_FLOATS, _call("mantissa_of")),
    "exponent": (_FLOATS, _call("exponent_of")),
    "population_count": ("b" + _INTS, _by_kind(b=lambda node, args: f"{args[0]}.to(tl.uint8)", i=_with_bits("bit_count"))),
    "gcd": (_INTS, _call("greatest_divisor")),
    "floor_divide": (_INTS + _FLOATS, _by_kind(i=_call("quotient_of"), u=_call("unsigned_quotient"), f=_call("float_quotient"))),
    "remainder": (_INTS + _FLOATS, _by_kind(i=_call("remainder_of"), u=_call("unsigned_fmod"), f=_call("float_remainder"))),
    "fmod": (_INTS + _FLOATS, _by_kind(i=_call("fmod_of"), u=_call("unsigned_fmod"), f=_libdevice("fmod"))),
    "pow": ("u" + _FLOATS, _by_kind(u=_call("int_power"), f=_libdevice("pow"))),
    "max": (_ALL, _by_kind(b=_infix("|"), i=_call("tl.maximum"), f=_call("max_of"))),
    "min": (_ALL, _by_kind(b=_infix("&"), i=_call("tl.minimum"), f=_call("min_of"))),
    "eq": (_ALL, _infix("==")),
    "ne": (_ALL, _infix("!=")),
    "lt": (_ALL, _by_kind(b=lambda node, args: f"(~{args[0]}) & {args[1]}", i=_infix("<"), f=_infix("<"))),
    "le": (_ALL, _by_kind(b=lambda node, args: f"(~{args[0]}) | {args[1]}", i=_infix("<="), f=_infix("<="))),
    "gt": (_ALL, _by_kind(b=lambda node, args: f"{args[0]} & (~{args[1]})", i=_infix(">"), f=_infix(">"))),
    "ge": (_ALL, _by_kind(b=lambda node, args: f"{args[0]} | (~{args[1]})", i=_infix(">="), f=_infix(">="))),
    "and_": ("b" + _INTS, _infix("&")),
    "or_": ("b" + _INTS, _infix("|")),
    "xor": ("b" + _INTS, _infix("^")),
    "shift_left": (_INTS, _with_bits("shift_left")),
    "shift_right": (_INTS, _by_kind(i=_with_bits("shift_right"), u=_with_bits("unsigned_shift_right"))),
    "not_": ("b" + _INTS, lambda node, args: f"~{args[0]}"),
    "select": (_ALL, _call("tl.where")),
    "convert": (_ALL, lambda node, args: convert(node.args[0].dtype, node.dtype, args[0])),
    "bitcast": (_ALL, _bitcast),
    "threefry2x32": ("u", _call("threefry2x32")),
    "clamp_index": ("i", _call("clamped")),
    "wrap_index": ("i", _call("wrapped")),
}

_REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin")
_STEPS = {*MOVES, *_REDUCTIONS, *RUNNING, *SCATTER, "dynamic_update_slice"}
_ATOMIC_SUMS = ("int32", "uint32", "int64", "uint64", "float32", "float64")


class TritonTarget:
    """What generated kernels compute; PyTorch multiplies matrices of floats."""

    max_constant = 1 << 62

    def supports(self, eqn: Eqn) -> bool:
        """Whether a kernel computes an equation."""
        name = eqn.primitive.name
        inputs, outs = [a.aval.dtype for a in eqn.inputs], [v.aval.dtype for v in eqn.outputs]
        if not all(map(in_kernels, (*inputs, *outs))):
            return False
        if name in SPELLED_OUT or name == "cumlogsumexp":
            return kind(inputs[0]) == "f"
        if name == "convert" and eqn.params["checked"]:
            return inputs[0] == dtypes.INT64 and outs[0].kind in "iuf"
        if name == "nextafter" and is_half(inputs[0]):
            return False
        if name in ("scatter_mul", "scatter_min", "scatter_max") or name == "scatter_add" and inputs[0].name not in _ATOMIC_SUMS:
            return False
        if name in OPS:
            return kind(inputs[1] if name == "select" else inputs[0]) in OPS[name][0]
        return name in _STEPS

    def multiplies(self, dtype: np.dtype) -> np.dtype | None:
        """cuBLAS has the floats; those of 16 bits as PyTorch is set (its default may round partial sums)."""
        return dtype if kind(dtype) == "f" else None


def expression(node: Apply, args: Sequence[str]) -> str:
    """The expression of an operation on operands, of the node's dtype."""
    plain = node.op in ("select", "convert", "bitcast")
    if not plain:
        args = [widened(a.dtype, text) for a, text in zip_strict(node.args, args)]
    text = OPS[node.op][1](node, args)
    rounds = not plain and is_half(node.dtype) and node.op not in ("conj",)
    return f"({text}).to({tl_type(node.dtype)})" if rounds else text
