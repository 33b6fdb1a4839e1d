"""The lines that random programs of views and writes are made of: templates with operands, indices and numbers to be filled in.

``{v}`` and ``{u}`` are new variables. Operands: ``{a}`` an array, ``{b}`` any value, ``{w}`` an array shaped like a row of a, ``{r}``
something to be written to the place named before. Places: ``{e}`` an element, ``{i}`` a basic index, ``{f}`` an advanced one, ``{m}`` and
``{t}`` masks. ``k`` is an integer argument, ``g`` the captured array.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

# Texts for parameters, in exact programs and in smooth ones; a text that stands there twice is drawn twice as often.
PARAMETERS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "n": (
        ("2", "-1", "3", "0.5", "1.25", "-0.75", "True", "np.float32(1.5)", "np.int64(3)", "np.float64(0.25)", "1j"),
        ("2", "-1", "0.5", "1.25", "-0.75", "0.3"),
    ),
    "op": (("+", "+", "+", "-", "-", "*", "*", "*", "//", "%", "&", "|", "^"), ("+", "-", "*", "/")),
    "uf": (("add", "subtract", "multiply", "maximum", "minimum", "bitwise_xor", "floor_divide"), ("add", "subtract", "multiply")),
    "one": (("negative", "abs", "square", "positive"), ("sin", "tanh", "negative", "square")),
    "in_place": (("abs", "square", "positive"), ("sin", "tanh", "square")),  # NumPy 2.4 negates numbers 64 bytes apart wrongly in place
    "dtype": (("float", "float", "np.float32", "np.int64", "np.int32", "bool", "complex"), ("a.dtype",)),
    "axis": (("0", "0", "-1", "-1", "1", "None"),) * 2,
    "along": (("0", "-1", "1"),) * 2,
    "small": (("3", "4", "6", "8"),) * 2,
}
FANCY = (
    *("[0, -1]", "[0, 0, -1]", "[[0], [-1]]", "[0, -1], [0, -1]", "..., [0, -1, 0]", "1:, [0]", ":, [-1, 0]", "[0], 0:2", "[-1, 0], None"),
    *("np.array([0, -1])", "np.array([[0, -1], [-1, 0]])", "[0, -1], 0", "0, [0, -1]", "[]", "[[0, 1]], :, [0, 0]", "::-1, [0, 1]"),
)


@dataclasses.dataclass(frozen=True)
class Line:
    """A template.

    Attributes:
      text: the source.
      writes: the operands that it changes.
      ndim: how many dimensions ``a`` has at least.
      exact, smooth: the styles of programs in which it may stand.
      valued: it needs values, not only types.
      weight: how often it is drawn, beside others.
    """

    text: str
    writes: str = ""
    ndim: int = 0
    exact: bool = True
    smooth: bool = True
    valued: bool = False
    weight: float = 1.0

    @property
    def words(self) -> set[str]:
        """The names in the text."""
        return set(re.findall(r"(?<!{)\b[a-z_]+\b(?!})", self.text))


def _lines(*texts: str, to: str = "", ndim: int = 0, **facts: Any) -> list[Line]:
    """Lines of one sort; ``to`` is put before each, for those that define variables."""
    return [Line(to + text, ndim=ndim, **facts) for text in texts]


CREATION = [
    *_lines("np.zeros({shape}, {dtype})", "np.ones({shape}, {dtype})", "np.full({shape}, {n}, {dtype})", to="{v} = "),
    *_lines("{v} = np.empty({shape}, {dtype}); {v}.fill({n})", "{v} = np.empty_like({a}); {v}[...] = {r}"),
    *_lines("np.zeros_like({a})", "np.ones_like({a}, order='F')", "np.full_like({a}, {n})", "np.zeros(({small}, 2), {dtype})", to="{v} = "),
    *_lines("np.array({a})", "np.array([{n}, {n}, 1], {dtype})", "np.arange({small}, dtype={dtype})", to="{v} = "),
    *_lines("np.eye(3, dtype={dtype})", "np.zeros((3, 2), {dtype}, order='F')", "np.array([[1, 2, 3], [4, 5, 6]], {dtype})", to="{v} = "),
    *_lines("np.array([{a}[{e}], {n}, {a}[{e}]])", "np.arange({small})", "np.linspace(0, 1, 5)", to="{v} = ", smooth=False),
    *_lines("np.asarray(g)", "np.asarray(g)[...]", "np.asarray(g).T", "{a} + g", to="{v} = ", weight=8),
]

VIEWS = [
    *_lines("{a}[{i}]", to="{v} = ", ndim=1, weight=10),
    *_lines("{a}.reshape({factors})", to="{v} = ", weight=4),
    *_lines("{a}.ravel()", "{a}.reshape(-1)", "{a}.T", "np.transpose({a}, {perm})", to="{v} = ", weight=2),
    *_lines("np.ravel({a}, 'F')", "{a}.flatten()", "{a}.reshape({factors}, order='F')", "{a}.transpose()", "{a}.flatten('F')", to="{v} = "),
    *_lines("np.swapaxes({a}, 0, -1)", "np.moveaxis({a}, -1, 0)", "np.rollaxis({a}, -1)", "np.flip({a}, {axis})", to="{v} = ", ndim=1),
    *_lines("np.squeeze({a})", "{a}.squeeze()", "np.expand_dims({a}, {along})", "{a}[..., None]", "{a}[...]", "{a}[()]", to="{v} = "),
    *_lines("np.broadcast_to({a}, (2, *{a}.shape))", "np.atleast_1d({a})", "np.atleast_2d({a})", "np.atleast_3d({a})", to="{v} = "),
    *_lines("{v}, {u} = np.broadcast_arrays({a}, {b})", "{v}, {u} = np.broadcast_arrays({a}, {a})"),
    *_lines("np.diagonal({a})", "{a}.diagonal(1)", "np.einsum('ij->ji', {a})", to="{v} = ", ndim=2),
    *_lines("np.diag({a})", to="{v} = ", ndim=1),
    *_lines("np.einsum('ii->i', {a}) if {a}.size else {a}", to="{v} = ", ndim=2, weight=2),  # empty ones need not be square in NumPy
    *_lines("np.rot90({a})", "np.rot90({a}, 2)", "np.flipud({a})", "np.fliplr({a})", to="{v} = ", ndim=2),
    *_lines("{a}.real", "{a}.imag", "np.real({a})", "np.imag({a})", to="{v} = ", smooth=False),
    *_lines("{a}.real", to="{v} = ", exact=False, weight=0.5),
    *_lines("{v}, {u} = np.split({a}, [1], {along})", "{v}, {u} = np.split({a}, 2)", "{v}, {u} = np.array_split({a}, 2, {along})", ndim=1),
    *_lines("np.vsplit({a}, 2)[0]", "np.hsplit({a}, 2)[1]", "np.dsplit({a}, 2)[-1]", "{a}.mT", to="{v} = ", ndim=2, weight=0.7),
    *_lines("{v}, {u} = {a}[0], {a}[-1]", "{v} = next(iter({a}))", "{v} = [row for row in {a}][-1]", "{v}, {u} = {a}", ndim=2),
    *_lines("{a}.view({same})", to="{v} = ", smooth=False),
    *_lines("{a}.view()", "np.asarray({a})", "np.ascontiguousarray({a})", "np.asfortranarray({a})", "{a}.copy()", to="{v} = "),
    *_lines("np.copy({a})", "{a}.copy(order='F')", "{a}.astype({a}.dtype, copy=False)", "np.asarray({a}, {a}.dtype)", to="{v} = "),
    *_lines("sliding_window_view({a}, 2, {along})", "sliding_window_view({a}, 2, 0)[..., 0]", to="{v} = ", ndim=1),
]

READS = [
    *_lines("{a}[{e}]", "{a}[{e}, ...]", to="{v} = ", ndim=1, weight=3),
    *_lines("{a}.sum({axis})", "np.sum({a}, 0, keepdims=True)", "{a}[{f}]", "{a}.sum()", to="{v} = ", ndim=1, weight=2),
    *_lines("np.take({a}, [0, -1], {along})", "np.mean({a})", "{a}.mean({axis})", "np.cumsum({a}, 0)", "{a}.flat[0]", to="{v} = ", ndim=1),
    *_lines("np.concatenate([{a}, {b}])", "np.stack([{a}, {a}])", "np.roll({a}, 1)", "{a}[{a}.shape[0] - 1]", to="{v} = ", ndim=1),
    *_lines(
        "np.sort({a}, {along})",
        "np.max({a}, {axis})",
        "{a}.min()",
        "np.argmax({a})",
        "np.any({a} > {n}, 0)",
        to="{v} = ",
        smooth=False,
        ndim=1,
    ),
    *_lines(
        "np.count_nonzero({a})",
        "np.where({a} > {n}, {a}, {b})",
        "{a} > {n}",
        "{a} != {b}",
        "{a}.argsort(0, kind='stable')",
        to="{v} = ",
        smooth=False,
        ndim=1,
    ),
    *_lines("{a}[{t}].sum()", "np.shares_memory({a}, {b})", "np.may_share_memory({a}, {b})", to="{v} = ", smooth=False, ndim=1),
    *_lines("{a}[{t}]", "{a}[np.nonzero({a} > {n})]", to="{v} = ", ndim=1, valued=True, weight=3),
]

ARITHMETIC = [
    *_lines("{a} + {b}", "{a} * {n}", "{a} - {b}", to="{v} = ", weight=2),
    *_lines("-{a}", "{a} * 0.5", "{a} - {a}[::-1]", "{a} + {a}[..., :1]", "{a}[{e}] * {a}", to="{v} = ", ndim=1),
    *_lines(
        "np.sin({a})", "np.tanh({a}) * {b}", "np.exp(-{a} * {a})", "{a} / (2 + np.cos({b}))", "{a} @ {b}", to="{v} = ", exact=False, ndim=1
    ),
    *_lines(
        "np.maximum({a}, {b})", "{a} // 2", "{a} % 3", "abs({a})", "{a} * {b}", "{a}.astype({dtype})", "~{a}", to="{v} = ", smooth=False
    ),
    *_lines("{a} = {a} + {n}", "{a} = {a} * 0.5"),
]

WRITES = [
    *_lines("{a} {op}= {n}", "{a} {op}= {b}", "{a} {op}= {r}", writes="a", weight=2),
    *_lines("{b} {op}= {n}", writes="b", weight=2),
    *_lines("{a}[{i}] = {r}", "{a}[{i}] {op}= {r}", writes="a", ndim=1, weight=5),
    *_lines("{a}[{f}] = {r}", "{a}[{f}] {op}= {r}", writes="a", ndim=1, weight=3),
    *_lines("{a}[{e}] = {r}", "{a}[{e}] {op}= {n}", "{a}[{m}] = {n}", writes="a", ndim=1, weight=2),
    *_lines("{a}[{m}] = {r}", writes="a", ndim=1, weight=0.2),
    *_lines("{a}[{m}] {op}= {n}", "{a}[{m}] = {a}[{m}] * {n}", "{a}[...] = {r}", "{a}[()] = {n}", "{a}[:] = {r}", writes="a", ndim=1),
    *_lines("{a}[...] = {r}", "{a}[{m}] = {n}", writes="a"),
    *_lines("{a}.fill({n})", writes="a", ndim=1),  # NumPy's scalars, which examples of vmap may be, let one fill them in vain
    *_lines("{a}[{i}][...] = {r}", "{a}[{i}][...].fill({n})", "{a}[{i}].T[...] {op}= {n}", "{a} **= 2", writes="a", ndim=1),
    *_lines("{a}[{i}] = {a}[{e}]", "{a}[{f}] = {a}[{e}]", "{a}[..., 0] {op}= {r}", writes="a", ndim=1),
    # out=, where=, at
    *_lines("np.{uf}({a}, {r}, out={a})", "np.{uf}({b}, {r}, {a})", "np.{uf}({a}, {n}, where={m}, out={a})", writes="a"),
    *_lines("np.{in_place}({a}, {a})", "np.{one}({b}, out={a})", "np.{in_place}({a}, where={t}, out={a})", writes="a"),
    *_lines("np.{uf}({a}[{i}], {r}, out={a}[{i}])", "np.cumsum({a}, 0, out={a})", writes="a", ndim=1),
    *_lines("np.sum({a}, 0, out={w})", "np.mean({a}, 0, out={w})", writes="w", ndim=1),
    *_lines("np.add.at({a}, {f}, {r})", "np.subtract.at({a}, {f}, {r})", "np.add.at({a}, [0, 0, -1], {n})", writes="a", ndim=1),
    *_lines("np.multiply.at({a}, {f}, {n})", "np.negative.at({a}, [0, -1])", writes="a", ndim=1),
    *_lines("np.maximum.at({a}, {f}, {r})", "np.clip({a}, 0, 1, out={a})", writes="a", ndim=1, smooth=False),
    *_lines("np.{uf}({a}, {b}, out={a}, casting='unsafe')", writes="a", smooth=False, weight=0.5),
    *_lines("np.sort({a}, 0).sum(0, out={w})", "np.max({a}, 0, out={w})", writes="w", ndim=1, smooth=False, weight=0.5),
    # functions that write
    *_lines("np.copyto({a}, {r})", "np.copyto({a}, {r}, where={t})", "np.putmask({a}, {t}, {r})", writes="a"),
    *_lines("np.copyto({a}[{i}], {r})", "np.put({a}, [0, -1, 0], {r})", writes="a", ndim=1),
    *_lines("{a}.put([1, 0], {n})", "np.put({a}, [0, 5], 1, 'clip')", writes="a", ndim=1),
    *_lines("np.place({a}, {t}, [1, 2])", "np.place({a}, {t}, {n})", writes="a", ndim=1, weight=0.7),
    *_lines("np.fill_diagonal({a}, {n})", "np.fill_diagonal({a}, {a}[0])", writes="a", ndim=2),
    *_lines("np.put_along_axis({a}, np.zeros_like({a}, int), {n}, 0)", writes="a", ndim=1, weight=0.5),
    *_lines("{a}.sort()", "{a}.sort({along})", "{a}[{i}].sort()", writes="a", ndim=1, smooth=False),
    *_lines("{a}.partition(1); {a}[..., 2:].sort()", "{a}.sort(kind='stable')", writes="a", ndim=1, smooth=False),
    *_lines("{a}.flat = {n}", "{a}.flat[0] = {n}", "{a}.flat[...] = {r}", writes="a", ndim=1),
    *_lines("{a}.flat[1:] = {n}", "{a}.flat[[0, -1]] = {n}", writes="a", ndim=1),
    *_lines("{a}.real = {n}", "{a}.imag = {n}", "{a}.real[...] = {r}", "{a}.imag {op}= {n}", writes="a", smooth=False, weight=2),
    # swaps and self-overlapping writes
    *_lines("{a}[[0, 1]] = {a}[[1, 0]]", "{a}[0], {a}[-1] = {a}[-1], {a}[0]", writes="a", ndim=1),
    *_lines("{a}[0], {a}[1] = {a}[1] + 0, {a}[0] + 0", writes="a", ndim=1),
    *_lines("{a}[1:] {op}= {a}[:-1]", "{a}[:-1] {op}= {a}[1:]", "{a}[1:] = {a}[:-1]", writes="a", ndim=1),
    *_lines("{a}[::-1] = {a}", "{a}[...] = {a}[::-1]", writes="a", ndim=1),
    *_lines("{a} {op}= {a}[::-1]", "{a} += {a}.T", "{a} {op}= {a}[0]", writes="a", ndim=1),
    *_lines("np.copyto({a}[1:], {a}[:-1])", "{a}[:, 0] += {a}[0]", writes="a", ndim=1),
    *_lines("np.{uf}({a}[1:], {a}[:-1], out={a}[:-1])", "np.{uf}({a}[:-1], {n}, out={a}[1:])", "{a}[1:] = {a}[0]", writes="a", ndim=1),
    *_lines("{a}[1:-1] = 0.5 * ({a}[:-2] + {a}[2:])", "np.add.at({a}, [0, -1], {a}[-1])", "{a}.T[...] = {a}", writes="a", ndim=1),
    *_lines("{a}[1:, 1:] {op}= {a}[:-1, :-1]", "{a}[:] = {a}.T", "{a}.T[0] = {a}[0]", writes="a", ndim=2),
    *_lines("np.matmul({a}, {a}, out={a})", "{a} @= {a}", writes="a", ndim=2),
    # loops and rows
    *_lines("for row in {a}: row {op}= {n}", "for row in {a}: row[...] = {n}", writes="a", ndim=2),
    *_lines("for row in {a}[::-1]: row[0] {op}= {n}", writes="a", ndim=2),
    *_lines("for i in range(1, len({a})): {a}[i] {op}= {a}[i - 1]", "for i in range(len({a})): {a}[i] = {a}[-i] * {n}", writes="a", ndim=1),
    *_lines("for i, x in enumerate({a}): {a}[i] = x * {n}", "{v} = {a}[1:]; {v} {op}= {n}; {a}[0] = {n}", writes="a", ndim=1),
    *_lines("{a}[k] {op}= {n}", "{a}[k] = {a}[k - 1]", "{v} = {a}[k]; {v} {op}= {n}", "{a}[k:] = {n}", writes="a", ndim=1, weight=2),
    *_lines("if {a}.sum() > {n}: {a}[0] {op}= {n}", "while {a}.sum() > 40: {a} *= 0.5", writes="a", ndim=1, valued=True, weight=3),
]  # fmt: skip

LINES = [*CREATION, *VIEWS, *READS, *ARITHMETIC, *WRITES]
