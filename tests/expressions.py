"""Random expressions as Python source: NumPy calls over arrays of all dtypes, each line having run in NumPy before it is taken.

A line is a template with operands and parameters filled in. What a template's result may depend on is tracked: an operation that jumps
(``floor``, comparisons, sorting, conversion to integers) is only applied to values that every correct backend computes to the same bit,
since elsewhere the last bit decides. Values are such if they come from moves, integers and correctly rounded operations.
"""

import dataclasses
import warnings
from random import Random
from typing import Any

import ml_dtypes  # noqa: F401  (np.dtype("bfloat16"))
import numpy as np
import sample

import functx.numpy as fnp

MAX_SIZE = 200


@dataclasses.dataclass(frozen=True)
class Template:
    """A line of source.

    Attributes:
      text: with ``{a}``, ``{b}``, ``{c}`` for operands, ``{m}`` for a mask of a's shape, and names of PARAMETERS.
      exact: every correct backend gives the same bits from the same operands.
      jumps: small changes of the operands can make large changes of the result.
    """

    text: str
    exact: bool = True
    jumps: bool = False


def _templates(exact: bool, jumps: bool, *texts: str) -> list[Template]:
    return [Template(text, exact, jumps) for text in texts]


_ROUNDED = "negative positive absolute square sqrt reciprocal conjugate fabs"
_LIBM = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt deg2rad rad2deg angle"
)
_JUMPING = "floor ceil trunc rint sign signbit isnan isfinite isinf logical_not invert bitwise_count spacing"
_PAIRS_ROUNDED = "add subtract multiply divide maximum minimum fmax fmin copysign"
_PAIRS_LIBM = "power arctan2 hypot logaddexp logaddexp2 float_power"
_PAIRS_JUMPING = (
    "floor_divide remainder fmod equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor left_shift right_shift heaviside nextafter gcd lcm"
)

TEMPLATES = [
    *_templates(True, False, *(f"np.{u}({{a}})" for u in _ROUNDED.split()), *(f"np.{u}({{a}}, {{b}})" for u in _PAIRS_ROUNDED.split())),
    *_templates(False, False, *(f"np.{u}({{a}})" for u in _LIBM.split()), *(f"np.{u}({{a}}, {{b}})" for u in _PAIRS_LIBM.split())),
    *_templates(True, True, *(f"np.{u}({{a}})" for u in _JUMPING.split()), *(f"np.{u}({{a}}, {{b}})" for u in _PAIRS_JUMPING.split())),
    *_templates(
        True,
        False,
        *("{a} + {number}", "{number} - {a}", "{a} * {number}", "{a} / {number}", "-{a}", "abs({a})", "np.clip({a}, -1, 2)"),
        *("{a}[{basic}]", "{a}[{advanced}]", "{a}[{mask}]", "{a}.T", "np.transpose({a})", "np.ravel({a})", "{a}.reshape(-1)"),
        *("np.flip({a}, {axis})", "np.roll({a}, {small}, {axis})", "np.swapaxes({a}, 0, -1)", "np.moveaxis({a}, 0, -1)"),
        *("np.expand_dims({a}, {axis})", "np.squeeze({a})", "np.repeat({a}, 2, {axis})", "np.tile({a}, 2)", "np.pad({a}, 1)"),
        *("np.concatenate([{a}, {b}], {axis})", "np.stack([{a}, {a}], {axis})", "np.vstack([{a}, {b}])", "np.hstack([{a}, {a}])"),
        *("np.broadcast_to({a}, (2, *{a}.shape))", "np.atleast_2d({a})", "np.take({a}, [0, -1], {axis})", "np.split({a}, [1], {axis})[1]"),
        *("np.diagonal({a})", "np.tril({a})", "np.triu({a}, 1)", "np.rot90({a})", "np.append({a}, {b})", "np.diag({a})"),
        *(
            "np.max({a}, {axis})",
            "np.min({a}, {axis}, keepdims=True)",
            "np.maximum.accumulate({a}, {axis})",
            "np.real({a})",
            "np.imag({a})",
        ),
        *("np.where({a}.astype(bool), {b}, {number})", "np.outer({a}, {b})", "np.multiply.outer({a}, {b})", "np.copy({a})"),
        *("np.add({a}, {b}, where={a}.astype(bool), out=np.zeros_like({a}))", "np.take_along_axis({a}, np.zeros_like({a}, int), -1)"),
        *("{a}.astype({wider})", "np.zeros_like({a}) + {b}", "np.full_like({a}, {number})", "1j * {a}", "np.choose([0, 1], [{a}, {b}])"),
    ),
    *_templates(
        False,
        False,
        *("np.sum({a}, {axis})", "np.mean({a}, {axis})", "np.prod({a}, {axis})", "np.var({a}, {axis})", "np.cumsum({a}, {axis})"),
        *("np.std({a})", "np.cumprod({a}, {axis})", "np.sum({a})", "{a} @ {b}", "{a} @ {a}.T", "np.dot({a}, {a})", "np.inner({a}, {a})"),
        *("np.tensordot({a}, {b}, 1)", "np.vdot({a}, {a})", "np.trace({a})", "np.einsum('ij,ij->i', {a}, {a})", "np.add.reduce({a})"),
        *("np.sum({a}, {axis}, keepdims=True) * {a}", "np.einsum('ij,kj->ik', {a}, {a})", "np.diff({a}, axis={axis})", "{a} ** {small}"),
        *("np.ptp({a}, {axis})", "np.average({a}, {axis})", "np.multiply.reduce({a}, {axis})", "np.sum({a}, where={a}.astype(bool))"),
    ),
    *_templates(
        True,
        True,
        *("np.sort({a}, {axis})", "np.argsort({a}, {axis}, kind='stable')", "np.argmax({a}, {axis})", "np.argmin({a}, {axis})"),
        *("{a}.astype({dtype})", "np.any({a}, {axis})", "np.all({a}, {axis})", "np.count_nonzero({a}, {axis})", "{a} > {number}"),
        *("np.isclose({a}, {b})", "np.where({a} > {b}, {a}, {b})", "np.searchsorted(np.sort(np.ravel({a})), {b})", "{a} // {number}"),
        *("np.round({a}, 1)", "np.maximum({a}, {b}) == {a}", "{a} % {number}", "np.select([{a} > 1, {a} > 0], [{a}, {b}], 7)"),
        *("np.add({a}, {b}, where={a} > {number}, out=np.zeros_like({a}))", "np.logical_and.reduce({a}, {axis})"),
    ),
]
WRITES = _templates(
    True,
    False,
    *("{a}[{basic}] = {b}", "{a}[{advanced}] = {number}", "{a}[...] = {a}[::-1]", "{a} += {b}", "{a} *= {number}", "{a}[{basic}] -= {b}"),
    *("np.add.at({a}, [0, 0, -1], {b})", "np.negative({a}, out={a})", "{a}.fill({number})", "np.maximum({a}, {b}, out={a})"),
    *("{a}[{mask}] = {number}", "np.copyto({a}, {b})", "np.put({a}, [0, -1], {number})"),
) + _templates(True, True, "{a}.sort()", "{a}.sort(0)")

_NUMBERS = ("2", "-3", "0.5", "1", "1.25", "True", "np.float32(1.5)", "np.int8(3)", "np.float64(0.75)", "np.uint8(2)")
_BASIC = ("0", "-1", "1:", "::2", "::-1", "..., 0", "None", "..., 1:", ":, ::-1", "0:0", "..., None, ::2", "-1:0:-1")
_ADVANCED = ("[0, 0]", "[[0], [-1]]", "[0], [0]", "..., [0, -1, 0]", ":, [0]", "[[0, 0]], :, [0, 0]", "np.array([0, -1])")


class Expression:
    """A random program over given inputs.

    Args:
      random: where choices come from.
      inputs: arrays, named v0, v1, ...
      length: how many lines to take.
    """

    def __init__(self, random: Random, inputs: list[np.ndarray], length: int):
        self.random, self.inputs = random, inputs
        self.values: list[Any] = [x.copy() for x in inputs]
        self.exact = [True] * len(inputs)
        self.lines: list[str] = []
        attempts = 0
        while len(self.lines) < length and attempts < 40 * length:
            attempts += 1
            self._attempt()

    def _attempt(self) -> None:
        writes = self.random.random() < 0.12
        template = self.random.choice(WRITES if writes else TEMPLATES)
        used = sorted({name for name in "abc" if f"{{{name}}}" in template.text})
        chosen = {name: self._operand() for name in used}
        exact = all(self.exact[i] for i in chosen.values())
        if template.jumps and not exact:
            return
        names = {name: f"v{i}" for name, i in chosen.items()}
        line = template.text.format(**names, **self._parameters())
        kinds = {np.asarray(self.values[i]).dtype.kind for i in chosen.values()}
        if "V" in kinds and any(name in template.text for name in ("dot", "inner", "searchsorted")):
            return  # of bfloat16 NumPy's own are not what its documentation says
        exact = exact and (template.exact or kinds <= set("biu")) and "c" not in kinds
        if writes:
            self._write(line, chosen, exact)
        else:
            self._define(line, exact, template.exact)

    def _operand(self) -> int:
        """Recent values more often."""
        n = len(self.values)
        return self.random.choice([self.random.randrange(n), self.random.randrange(max(n - 4, 0), n)])

    def _parameters(self) -> dict[str, str]:
        choose = self.random.choice
        dtype = choose(sample.DTYPES)
        return {
            "axis": choose(("0", "-1", "1", "None")), "number": choose(_NUMBERS), "basic": choose(_BASIC), "advanced": choose(_ADVANCED),
            "small": choose(("1", "-1", "2")), "mask": "np.arange(3) != 1", "dtype": f"np.dtype({dtype!r})",
            "wider": choose(("np.float64", "np.complex128", "np.complex64")),
        }  # fmt: skip

    def _define(self, line: str, exact: bool, always: bool) -> None:
        value = self._run(line, eval)
        if not isinstance(value, (np.ndarray, np.generic)) or value.size > MAX_SIZE or str(value.dtype) not in sample.DTYPES:
            return
        owns = isinstance(value, np.ndarray)  # views are for tests/programs.py
        self.lines.append(f"v{len(self.values)} = ({line}).copy()" if owns else f"v{len(self.values)} = {line}")
        self.values.append(value.copy() if owns else value)
        self.exact.append(exact and (always or value.dtype.kind in "biu"))  # only integer arithmetic is so in every order

    def _write(self, line: str, chosen: dict[str, int], exact: bool) -> None:
        target = chosen["a"]
        before = self.values[target]
        if not isinstance(before, np.ndarray) or target < len(self.inputs):
            return
        self.values[target] = before.copy()
        if self._run(line, exec) is _FAILED or not isinstance(self.values[target], np.ndarray):
            self.values[target] = before
            return
        self.lines.append(line)
        self.exact[target] = exact

    def _run(self, line: str, how: Any) -> Any:
        names = {f"v{i}": v for i, v in enumerate(self.values)}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                out = how(line, {"np": np}, names)
            except Exception:
                return _FAILED
        for i in range(len(self.values)):
            self.values[i] = names[f"v{i}"]
        return out

    @property
    def text(self) -> str:
        """The source of the program as a function of ``np`` and its inputs."""
        arguments = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        results = ", ".join(f"v{i}" for i in range(len(self.inputs), len(self.values)))
        return "\n    ".join([f"def f(np, {arguments}):", *self.lines, f"return ({results},)"]) + "\n"

    def function(self) -> Any:
        """The program."""
        names: dict[str, Any] = {}
        exec(compile(self.text, "<expression>", "exec"), names)
        return lambda *args: names["f"](fnp if any(not isinstance(a, np.ndarray) for a in args) else np, *args)


_FAILED = object()


def draw(seed: int, length: int = 10) -> Expression:
    """The random program of a seed, over three arrays of random dtypes and of shapes that fit together."""
    random = Random(seed)
    rng = np.random.default_rng(seed)
    shape = random.choice([(3,), (3, 3), (2, 3), (3, 1, 3), (1, 3), ()])
    shapes = [shape, random.choice([shape, shape[-1:], (3,)]), random.choice([shape, (), shape[:0]])]
    inputs = []
    for s in shapes:
        dtype = np.dtype(random.choice(sample.DTYPES))
        values = rng.integers(-12, 24, s) / (8 if dtype.kind in "fcV" else 1)
        if dtype.kind == "u":
            values = np.abs(values)
        values = values + 1j * rng.integers(-12, 24, s) / 8 if dtype.kind == "c" else values
        inputs.append(np.asarray(values > 2 if dtype.kind == "b" else values).astype(dtype))
    return Expression(random, inputs, length)
