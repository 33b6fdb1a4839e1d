"""Checks for programs: derivatives beside finite differences, and one function under every transform beside NumPy.

Directions are random, with a fixed seed: a check that fails fails again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Any

import numpy as np

from functx import trees
from functx.dtypes import PYTHON_DTYPES, is_complex, is_inexact
from functx.errors import FunctxError, GradientError
from functx.source import function_source, hides_frames
from functx.transforms.jit import jit
from functx.transforms.pullbacks import jvp, vjp
from functx.transforms.vectorize import vmap
from functx.util import spread, zip_strict

LANES = 3
ELEMENTS = 64  # of a leaf whose derivative is wrong, so many are looked at one by one

# By the digits of a dtype: the step of differences, and the tolerance of derivatives beside them and of values.
_STEPS = {np.float64: (1e-3, 1e-6, 1e-9), np.float32: (3e-2, 2e-2, 1e-4), np.float16: (2e-1, 2e-1, 2e-2)}


def _accuracy(leaves: Sequence[Any]) -> tuple[float, float, float]:
    """Those of the coarsest dtype among the leaves."""
    kinds = [np.zeros((), v.dtype).real.dtype.type for v in map(np.asarray, leaves) if is_inexact(v.dtype)]
    return max((_STEPS.get(kind, _STEPS[np.float16]) for kind in kinds), default=_STEPS[np.float64])


# --- derivatives --------------------------------------------------------------------------------------------------------------------------


@hides_frames
def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare the derivatives of a function with central differences (of three steps, by Richardson's extrapolation), leaf by leaf.

    Args:
      f: a function of arrays, smooth near ``args``.
      args: its positional arguments, in any containers; leaves that are no floats stay as they are.
      order: up to which order: derivatives of order 2 are the derivatives of those of order 1, in every mode.
      modes: "fwd" (jvp), "rev" (vjp), or both.
      atol, rtol, eps: the tolerances, and the smallest step. By default what suits the dtypes.

    Raises:
      GradientError: they differ; the message names mode, order, leaf and direction, and both values.

    >>> import numpy as np
    >>> check_grads(lambda x: np.sin(x) * x, (np.array([0.5, 2.0]),), order=2)
    """
    if unknown := [m for m in modes if m not in ("fwd", "rev")]:
        raise ValueError(f"modes are 'fwd' and 'rev', not {unknown[0]!r}")
    step, tolerance, _ = _accuracy(trees.leaves(tuple(args)))
    check = _Check(eps or step, tolerance if atol is None else atol, tolerance if rtol is None else rtol, modes)
    check.run(f, tuple(args), order, function_source(f))


@dataclass(frozen=True)
class _Check:
    step: float
    atol: float
    rtol: float
    modes: Sequence[str]

    def run(self, f: Callable[..., Any], args: tuple[Any, ...], order: int, what: str) -> None:
        rng = np.random.default_rng(order)
        leaves = trees.leaves(args)
        labels = [f"args{path}" for path in trees.leaf_paths(args)]
        for i in compress(range(len(leaves)), _float_leaves(leaves)):
            self._leaf(f, args, i, labels[i], what, rng)
        if order > 1:
            tangents = _random_like(args, rng)
            if "fwd" in self.modes:
                self.run(lambda *a: jvp(f, a, tangents)[1], args, order - 1, f"the jvp of {what}")
            if "rev" in self.modes:
                ct = _random_like(f(*copy.deepcopy(args)), rng)
                self.run(lambda *a: vjp(f, *a)[1](ct), args, order - 1, f"the vjp of {what}")

    def _leaf(self, f: Callable[..., Any], args: tuple[Any, ...], i: int, label: str, what: str, rng: np.random.Generator) -> None:
        direction = _random(trees.leaves(args)[i], rng)
        for mode in self.modes:
            found = self._compared(f, args, i, direction, mode)
            if found is None:
                continue
            where = "a random direction"
            for index in islice(np.ndindex(np.shape(direction)), ELEMENTS):
                unit = np.zeros_like(direction)
                unit[index] = 1
                if alone := self._compared(f, args, i, unit, mode):
                    found, where = alone, f"element [{', '.join(map(str, index))}]" if index else "1"
                    break
            raise GradientError(
                f"the derivative of {what} along {label} is wrong in mode {mode!r}",
                where=f"{label}, along {where}: the derivative is {found[0]:.8g}, differences give {found[1]:.8g}",
                why=f"they differ by {found[2]:.3g}, more than atol={self.atol:g} and rtol={self.rtol:g} allow",
                fix="correct the rule (custom_jvp, custom_vjp); near a kink, or with a step that is too large (eps), differences are wrong",
            )

    def _compared(self, f: Callable[..., Any], args: tuple[Any, ...], i: int, direction: np.ndarray, mode: str) -> Any:
        """Derivative, differences and their distance where they differ, along one direction of one leaf; in reverse mode both are weighted
        by a cotangent.
        """
        slopes = differences(f, args, i, direction, self.step)
        if mode == "fwd":
            leaves, tree = trees.flatten(args)
            tangents = [_cast(direction, v) if k == i else _zero_tangent(v) for k, v in enumerate(leaves)]
            moved = trees.leaves(jvp(f, copy.deepcopy(args), trees.unflatten(tree, tangents))[1])
            pairs = list(zip_strict([np.asarray(m) for m in moved], slopes))
        else:
            out, pull = vjp(f, *copy.deepcopy(args))
            cts = [_random(v, np.random.default_rng(k)) for k, v in enumerate(trees.leaves(out)) if is_inexact(np.asarray(v).dtype)]
            pulled = spread(_float_leaves(trees.leaves(args)), trees.leaves(pull(_filled(out, cts))))[i]
            weighted = sum((np.vdot(ct, s).real for ct, s in zip_strict(cts, slopes)), 0.0)
            pairs = [(np.asarray(np.vdot(pulled, direction).real), np.asarray(weighted))]
        for derivative, slope in pairs:
            gap = np.abs(derivative - slope)
            scale = max(np.max(np.abs(slope), initial=0.0), np.max(np.abs(derivative), initial=0.0))
            if not np.all(gap <= self.atol + self.rtol * scale):
                worst = np.unravel_index(np.argmax(np.where(np.isnan(gap), np.inf, gap)), gap.shape)
                return derivative[worst], slope[worst], float(gap[worst])
        return None


def differences(f: Callable[..., Any], args: tuple[Any, ...], i: int, direction: np.ndarray, step: float) -> list[np.ndarray]:
    """The derivatives of the float leaves of f's result along a direction of leaf ``i`` of its arguments (error: step ** 6)."""

    def at(shift: float) -> list[np.ndarray]:
        leaves, tree = trees.flatten(copy.deepcopy(args))
        leaves[i] = _cast(np.asarray(leaves[i]) + shift * direction, leaves[i])
        with np.errstate(all="ignore"):
            return [np.asarray(v) for v in trees.leaves(f(*trees.unflatten(tree, leaves))) if is_inexact(np.asarray(v).dtype)]

    def central(h: float) -> list[np.ndarray]:
        return [(a - c) / (2 * h) for a, c in zip_strict(at(h), at(-h))]

    coarse, middle, fine = (central(step * k) for k in (4, 2, 1))
    rows = zip_strict(coarse, middle, fine)
    return [(16 * (4 * z - y) / 3 - (4 * y - x) / 3) / 15 for x, y, z in rows]


def _cast(value: Any, like: Any) -> Any:
    """A value as what ``like`` is: a Python number, a NumPy scalar or an array of its dtype."""
    if type(like) in PYTHON_DTYPES:
        return type(like)(value)
    return np.asarray(value).astype(like.dtype)[()] if isinstance(like, np.generic) else np.asarray(value).astype(like.dtype)


def _random(like: Any, rng: np.random.Generator) -> np.ndarray:
    array = np.asarray(like)
    parts = rng.standard_normal((2, *array.shape))
    return np.asarray(parts[0] + 1j * parts[1] if is_complex(array.dtype) else parts[0]).astype(array.dtype)


def _random_like(tree: Any, rng: np.random.Generator) -> Any:
    """A random tangent for every float leaf, None for the others."""
    return trees.map(lambda v: _cast(_random(v, rng), v) if is_inexact(np.asarray(v).dtype) else None, tree)


def _zero_tangent(leaf: Any) -> Any:
    return _cast(np.zeros(np.shape(leaf)), leaf) if is_inexact(np.asarray(leaf).dtype) else None


def _filled(tree: Any, values: Sequence[np.ndarray]) -> Any:
    """A container with these in the places of its float leaves, None in the others."""
    leaves, structure = trees.flatten(tree)
    floats = _float_leaves(leaves)
    return trees.unflatten(structure, spread(floats, [_cast(v, like) for v, like in zip_strict(values, compress(leaves, floats))]))


def _float_leaves(leaves: Sequence[Any]) -> list[bool]:
    return [is_inexact(np.asarray(v).dtype) for v in leaves]


# --- all transforms -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
      name: what is compared with what.
      agrees: whether it is the same to rounding; None where there is nothing to compare.
      error: the largest difference, relative to the largest value; None where there is no number.
      note: what is wrong, or why nothing was compared.
    """

    name: str
    agrees: bool | None
    error: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """The rows of :func:`compare`. It is true if all of them agree, and prints as their table."""

    function: str
    rows: tuple[Row, ...]

    def __bool__(self) -> bool:
        return all(row.agrees is not False for row in self.rows)

    def __str__(self) -> str:
        words = {True: "agrees", False: "DIFFERS", None: "-"}
        cells = [
            (r.name, words[r.agrees], "" if r.error is None else f"{r.error:.1e}", r.note.splitlines()[0] if r.note else "")
            for r in self.rows
        ]
        header = ("", "", "largest error", "")
        widths = [max(len(row[k]) for row in (header, *cells)) for k in range(4)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip_strict(row, widths)).rstrip() for row in (header, *cells)]
        return "\n".join([self.function, *lines])


@hides_frames
def compare(f: Callable[..., Any], *args: Any, show: bool = True) -> Comparison:
    """Run a function under every transform beside what it should give, and print one table.

    The plain function on NumPy arrays is compared with jit on the reference backend and in C++ (results, and arguments that it changes);
    vmap with a loop over examples near the arguments; derivatives in both modes with differences.

    Args:
      f: a function of arrays; it is called often, on copies of its arguments.
      args: its positional arguments.
      show: print the table, by rich if it is installed.

    Returns:
      A :class:`Comparison`, which is true if everything agrees.

    >>> import numpy as np
    >>> bool(compare(lambda x: np.sin(x).sum(), np.array([0.5, 2.0]), show=False))
    True
    """
    comparison = Comparison(function_source(f), tuple(_rows(f, args)))
    if show:
        _print(comparison)
    return comparison


def _rows(f: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[Row]:
    expected = _outcome(f, args)
    if isinstance(expected, Exception):
        yield Row("NumPy", False, note=_named(expected))
        return
    yield Row("NumPy", True)
    for name, backend in (("jit, reference", "reference"), ("jit, C++", "cpp")):
        yield _beside(name, expected, lambda backend=backend: _outcome(jit(f, backend=backend), args))
    yield _mapped(f, args)
    smooth = all(any(_float_leaves(trees.leaves(values))) for values in (args, expected[0]))
    for mode, name in (("fwd", "jvp, differences"), ("rev", "vjp, differences")):
        if not smooth:
            yield Row(name, None, note="there are no floats among arguments or results")
            continue
        try:
            check_grads(f, args, modes=(mode,))
            yield Row(name, True)
        except Exception as error:
            yield Row(name, False, note=str(error.where) if isinstance(error, GradientError) else _named(error))


def _mapped(f: Callable[..., Any], args: tuple[Any, ...]) -> Row:
    """vmap over the float leaves of the arguments beside a loop over examples near them."""
    leaves, structure = trees.flatten(args)
    floats, rng = _float_leaves(leaves), np.random.default_rng(0)
    if not any(floats):
        return Row("vmap, loop", None, note="there are no floats among the arguments")
    near = [
        [_cast(np.asarray(v) * (1 + 0.01 * rng.random(np.shape(v))), v) if flag else v for v, flag in zip_strict(leaves, floats)]
        for _ in range(LANES)
    ]
    loop = [_outcome(f, trees.unflatten(structure, example)) for example in near]
    if failed := next((r for r in loop if isinstance(r, Exception)), None):
        return Row("vmap, loop", None, note=f"the loop raises {type(failed).__name__}")
    batch = [np.stack(column) if flag else column[0] for column, flag in zip_strict(zip_strict(*near), floats)]
    axes = trees.unflatten(structure, [0 if flag else None for flag in floats])

    def mapped(outcome: Any) -> Any:
        """The result, and those arguments that differ between examples."""
        return outcome if isinstance(outcome, Exception) else (outcome[0], list(compress(trees.leaves(outcome[1]), floats)))

    expected = trees.map(lambda *values: np.stack(values), *map(mapped, loop))
    return _beside("vmap, loop", expected, lambda: mapped(_outcome(vmap(f, in_axes=axes), trees.unflatten(structure, batch))))


def _outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result, and the arguments as they are then; or what was raised."""
    own = copy.deepcopy(args)
    try:
        with np.errstate(all="ignore"):
            return f(*own), own
    except Exception as error:
        return error


def _beside(name: str, expected: Any, run: Callable[[], Any]) -> Row:
    """A row for values that should be the same."""
    got = run()
    if isinstance(got, Exception):
        return Row(name, False, note=_named(got))
    wanted, structure = trees.flatten(expected)
    leaves, own = trees.flatten(got)
    if own != structure:
        return Row(name, False, note=f"the result is {trees.show(own)}, expected {trees.show(structure)}")
    error = 0.0
    for path, g, e in zip_strict(trees.leaf_paths(expected), leaves, wanted):
        if np.shape(g) != np.shape(e) or np.asarray(g).dtype != np.asarray(e).dtype or type(g) is not type(e):
            return Row(name, False, note=f"{_place(path)} is {_kind(g)}, expected {_kind(e)}")
        error = max(error, _distance(g, e))
    return Row(name, error <= _accuracy(wanted)[2], error)


def _named(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error.what if isinstance(error, FunctxError) else error}"


def _place(path: str) -> str:
    return f"result{path[3:]}" if path.startswith("[0]") else f"argument {path[4:-1]}"


def _kind(value: Any) -> str:
    array = np.asarray(value)
    return f"{type(value).__name__} of shape {array.shape}, dtype {array.dtype}"


def _distance(got: Any, expected: Any) -> float:
    """The largest difference, relative to the largest finite value; NaN and infinities must be in the same places."""
    g, e = np.asarray(got), np.asarray(expected)
    if not is_inexact(e.dtype):
        return 0.0 if np.array_equal(g, e) else float("inf")
    finite = np.isfinite(e)
    if not np.array_equal(g[~finite], e[~finite], equal_nan=True) or not np.isfinite(g[finite]).all():
        return float("inf")
    wide = np.result_type(e.dtype, np.float64)
    scale = max(float(np.max(np.abs(e[finite]), initial=0.0)), np.finfo(np.float64).tiny)
    return float(np.max(np.abs(g[finite].astype(wide) - e[finite].astype(wide)), initial=0.0)) / scale


def _print(comparison: Comparison) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        print(comparison)
        return
    table = Table(title=comparison.function, title_justify="left")
    for column in ("", "", "largest error", "note"):
        table.add_column(column)
    style = {True: "[green]agrees[/]", False: "[red]differs[/]", None: "-"}
    for r in comparison.rows:
        table.add_row(r.name, style[r.agrees], "" if r.error is None else f"{r.error:.1e}", Text(r.note))
    Console().print(table)
