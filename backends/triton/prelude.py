"""The helpers that generated kernels call, each written out only where it is used.

A snippet is found by its name. Helpers must not depend on the graph.
"""

from __future__ import annotations

import re

from functx.ops.random import THREEFRY_ROTATIONS

HEADER = """\
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from functx.backends.triton.device import apply, copy, failed, fresh, grown, helper, kernel, matrix, number, part, piece, shaped, stop
from functx.backends.triton.launches import fit, floor_div, floor_mod, greater, is_wide, length_of, smaller, together, warps
"""
# The same where Triton's interpreter runs the kernels.
INTERPRETED_HEADER = HEADER.replace("from triton.language.extra import libdevice\n", "").replace("helper, kernel, ", "") + (
    "from functx.backends.triton.interpreter import helper, kernel, libdevice\n"
)


def _threefry_rounds() -> str:
    """20 rounds on the words x and y with the keys k0, k1 and k2, as in functx.ops.random."""
    lines = []
    for i in range(5):
        for turn in THREEFRY_ROTATIONS[i % 2]:
            lines.append(f"    x += y\n    y = ((y << {turn}) | (y >> {32 - turn})) ^ x\n")
        lines.append(f"    x += k{(i + 1) % 3}\n    y += k{(i + 2) % 3} + {i + 1}\n")
    return "".join(lines)


_BODIES: dict[str, tuple[str, str]] = {
    # name: (parameters, body)
    "add_of": ("x, y", "return x + y"),
    "mul_of": ("x, y", "return x * y"),
    "max_of": ("x, y", "# NaN wins, as in NumPy.\nreturn tl.where((x > y) | (x != x), x, y)"),
    "min_of": ("x, y", "return tl.where((x < y) | (x != x), x, y)"),
    "first_max": (
        "x, i, y, j",
        """\
# The larger value with its place; NaN wins, and of equals the first.
tie = (x == y) | ((x != x) & (y != y))
left = (x > y) | ((x != x) & (y == y)) | (tie & (i < j))
return tl.where(left, x, y), tl.where(left, i, j)""",
    ),
    "first_min": (
        "x, i, y, j",
        """\
tie = (x == y) | ((x != x) & (y != y))
left = (x < y) | ((x != x) & (y == y)) | (tie & (i < j))
return tl.where(left, x, y), tl.where(left, i, j)""",
    ),
    "first_bad": ("i, x, j, y", "# The earlier of two places, with its value.\nreturn tl.minimum(i, j), tl.where(i <= j, x, y)"),
    "logaddexp_of": (
        "x, y",
        """\
rest = -libdevice.abs(x - y)
out = max_of(x, y) + libdevice.log1p(libdevice.exp(rest))
return tl.where(x == y, x + 0.6931471805599453, out)""",
    ),
    "recurrence_of": ("a, x, b, y", "# x, then a step to b * x + y.\nreturn a * b, b * x + y"),
    "mul_zero": ("x, y", "# Zero times anything is zero.\nreturn tl.where((x == 0) | (y == 0), 0, x * y).to(x.dtype)"),
    "sign_of": ("x", "return tl.where(x != x, x, (x > 0).to(x.dtype) - (x < 0).to(x.dtype))"),
    "quotient_of": (
        "x, y",
        """\
# Of signed integers, rounded down; over zero it is zero, and over -1 it wraps.
safe = tl.where((y == 0) | (y == -1), 1, y)
q = x // safe
q = tl.where(((x < 0) != (safe < 0)) & (q * safe != x), q - 1, q)
return tl.where(y == 0, 0, tl.where(y == -1, -x, q)).to(x.dtype)""",
    ),
    "fmod_of": (
        "x, y",
        """\
# Of signed integers, with the sign of x; over zero it is zero.
safe = tl.where((y == 0) | (y == -1), 1, y)
return tl.where((y == 0) | (y == -1), 0, x - (x // safe) * safe).to(x.dtype)""",
    ),
    "remainder_of": (
        "x, y",
        "rest = fmod_of(x, y)\nreturn tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest).to(x.dtype)",
    ),
    "unsigned_quotient": ("x, y", "safe = tl.where(y == 0, 1, y).to(y.dtype)\nreturn tl.where(y == 0, 0, x // safe).to(x.dtype)"),
    "unsigned_fmod": (
        "x, y",
        "safe = tl.where(y == 0, 1, y).to(y.dtype)\nreturn tl.where(y == 0, 0, x - (x // safe) * safe).to(x.dtype)",
    ),
    "float_quotient": (
        "x, y",
        """\
# The whole number nearest to (x - rest) / y, which rounding may have moved; over zero x / y.
rest = libdevice.fmod(x, y)
q = libdevice.div_rn(x - rest, y)
q = tl.where((rest != 0) & ((y < 0) != (rest < 0)), q - 1, q)
down = libdevice.floor(q)
down = tl.where(q - down > 0.5, down + 1, down)
over = libdevice.div_rn(x, y)
return tl.where(y == 0, over, tl.where(q == 0, libdevice.copysign(q * 0, over), down))""",
    ),
    "float_remainder": (
        "x, y",
        """\
# With the sign of y, also where it is zero; over zero NaN.
rest = libdevice.fmod(x, y)
moved = tl.where((y < 0) != (rest < 0), rest + y, rest)
return tl.where(y == 0, rest, tl.where(rest == 0, libdevice.copysign(rest, y), moved))""",
    ),
    "shift_left": (
        "x, y, bits",
        "# All bits are gone if y is the width or more, or negative.\n"
        "inside = (y >= 0) & (y < bits)\nreturn tl.where(inside, x << tl.where(inside, y, 0).to(x.dtype), 0).to(x.dtype)",
    ),
    "shift_right": (
        "x, y, bits",
        "inside = (y >= 0) & (y < bits)\nshifted = x >> tl.where(inside, y, 0).to(x.dtype)\n"
        "return tl.where(inside, shifted, tl.where(x < 0, -1, 0)).to(x.dtype)",
    ),
    "unsigned_shift_right": (
        "x, y, bits",
        "inside = y < bits\nreturn tl.where(inside, x >> tl.where(inside, y, 0).to(x.dtype), 0).to(x.dtype)",
    ),
    "int_power": (
        "x, y",
        """\
out = ((x ^ x) | (y ^ y)) + 1
x = x | (y ^ y)
y = y | (x ^ x)
for _ in range(64):
    out = tl.where((y & 1) != 0, out * x, out).to(out.dtype)
    x = x * x
    y = y >> 1
return out""",
    ),
    "greatest_divisor": (
        "x, y",
        """\
zero = (x ^ x).to(tl.uint64) + (y ^ y).to(tl.uint64)
a = tl.where(x < 0, zero - x.to(tl.uint64), x.to(tl.uint64)) + zero
b = tl.where(y < 0, zero - y.to(tl.uint64), y.to(tl.uint64)) + zero
for _ in range(96):  # Euclid's steps for 64 bits
    rest = unsigned_fmod(b, a)
    b = tl.where(a != 0, a, b)
    a = tl.where(a != 0, rest, a)
return b.to(x.dtype)""",
    ),
    "bit_count": (
        "x, bits",
        """\
# The ones of the absolute value.
u = tl.where(x < 0, -x, x).to(tl.uint64)
u = tl.where(bits < 64, u & ((tl.full((), 1, tl.uint64) << (bits % 64)) - 1), u)
out = (u ^ u).to(tl.uint8)
for k in range(64):
    out += ((u >> k) & 1).to(tl.uint8)
return out""",
    ),
    "scaled": ("x, n", "# x * 2**n\nreturn libdevice.ldexp(x, tl.minimum(tl.maximum(n, -100000), 100000).to(tl.int32))"),
    "exponent_of": (
        "x",
        """\
# x = mantissa * 2**exponent
plain = (x - x == 0) & (x != 0)
return tl.where(plain, libdevice.ilogb(tl.where(plain, x, 1.0).to(x.dtype)) + 1, 0)""",
    ),
    "mantissa_of": ("x", "return libdevice.ldexp(x, -exponent_of(x))"),
    "threefry2x32": (
        "k0, k1, c0, c1",
        "# Both words that a key makes of a counter, the first one in the upper half.\n"
        "k2 = k0 ^ k1 ^ 0x1BD11BDA\nx = c0 + k0 + (c1 ^ c1)\ny = c1 + k1 + (c0 ^ c0)\n"
        + "".join(line[4:] + "\n" for line in _threefry_rounds().splitlines())
        + "return (x.to(tl.uint64) << 32) | y.to(tl.uint64)",
    ),
    "report": (
        "failures, check, axis, size, bad, place, value, rank",
        """\
# Enter the first place of the block where a check fails into the table: a count, then check, place, value, axis and size of each entry.
nowhere = tl.full((), 9223372036854775807, tl.int64)
first, worst = tl.reduce((tl.where(bad, place.to(tl.int64), nowhere), value), None, first_bad)
report_one(failures, check, axis, size, first < nowhere, first, worst)""",
    ),
    "report_one": (
        "failures, check, axis, size, bad, place, value",
        """\
if bad:
    row = tl.atomic_add(failures, 1)
    if row < 64:
        tl.store(failures + 1 + 5 * row, check)
        tl.store(failures + 2 + 5 * row, place)
        tl.store(failures + 3 + 5 * row, value)
        tl.store(failures + 4 + 5 * row, axis)
        tl.store(failures + 5 + 5 * row, size)""",
    ),
    "wrapped": (
        "i, size",
        "# An index from the end if negative; kept inside where a check has found it outside.\n"
        "return tl.minimum(tl.maximum(tl.where(i < 0, i + size, i), 0), size - 1)",
    ),
    "clamped": ("i, last", "return tl.minimum(tl.maximum(i, 0), last)"),
}


LOCAL = ("sizes", "block", "rows", "length", "pieces", "memory", "found")
RESERVED = {*_BODIES, *re.findall(r"\w+", HEADER), *LOCAL, "run", "max", "min"}  # no names for kernels


def _snippet(name: str) -> str:
    parameters, body = _BODIES[name]
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    return f"@helper\ndef {name}({parameters}):\n{indented}\n\n"


def needed_snippets(body: str) -> str:
    """The helpers whose names occur in the program, or in another one that is needed; what is called comes first."""
    needed: set[str] = set()
    pending = [body]
    while pending:
        for name in set(re.findall(r"\w+", pending.pop())) & (_BODIES.keys() - needed):
            needed.add(name)
            pending.append(_BODIES[name][1])
    return "".join(_snippet(name) for name in _BODIES if name in needed)
