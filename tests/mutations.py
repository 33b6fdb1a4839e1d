"""Random programs of views, writes, reads and arithmetic as Python source, each line having run in NumPy before it is taken.

Two styles, so that results can be compared to the last bit without knowing what depends on what:

- *exact*: all dtypes and every operation that jumps (comparisons, sorting, conversions), but all numbers stay multiples of a power of two
  that are small enough for sums and products to be exact in any order;
- *smooth*: float64 and differentiable operations, compared to rounding, and by derivatives.

A line that NumPy refuses is dropped, or kept as the last one: the same class of error is expected then.
"""

from __future__ import annotations

import dataclasses
import math
import re
import string
import warnings
from random import Random
from typing import Any

import numpy as np
import scenes
from mutation_lines import FANCY, LINES, PARAMETERS, Line

import functx.numpy as fnp
from functx.trace import Tracer

MAX_SIZE = 120
CONSTRUCTORS = re.compile(r"np\.(zeros|ones|full|empty|array|arange|eye|linspace|asarray|ascontiguousarray|asfortranarray)\(")
NAMES = {"sliding_window_view": np.lib.stride_tricks.sliding_window_view}


@dataclasses.dataclass(frozen=True)
class Statement:
    """A line of a program, the names that it defines, the template that it was made of, and, if it writes, a text that copies what it
    reads before.
    """

    text: str
    defines: tuple[str, ...] = ()
    template: str = ""
    careful: str = ""


@dataclasses.dataclass(frozen=True)
class Program:
    """Source, and the recipe of its arguments.

    Attributes:
      recipe: of the arguments.
      statements: the body.
      results: names of what is returned, as far as they are defined.
      smooth: its style.
      valued: some lines need values, so that it runs where they are known.
      fails: NumPy refuses the last line.
    """

    recipe: scenes.Recipe
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    smooth: bool
    valued: bool = False
    fails: bool = False

    @property
    def source(self) -> str:
        """``def f(np, a, ...)``."""
        defined = {*self.recipe.names, *(n for s in self.statements for n in s.defines)}
        returned = [n for n in self.results if n in defined]
        head = f"def f({', '.join(['np', *self.recipe.names])}):"
        return "\n    ".join([head, *(s.text for s in self.statements), f"return [{', '.join(returned)}]"]) + "\n"

    @property
    def text(self) -> str:
        """For failure messages."""
        return f"{self.source}{self.recipe.text}"

    def function(self, captured: np.ndarray | None = None) -> Any:
        """The program, for arrays and tracers alike."""
        names: dict[str, Any] = {**NAMES, "g": captured}
        exec(compile(self.source, "<program>", "exec"), names)
        module = fnp if CONSTRUCTORS.search(self.source) else np  # all the rest NumPy hands over to tracers
        return lambda *args: names["f"](module if any(isinstance(x, Tracer) for x in args) else np, *args)

    def carefully(self) -> Program:
        """The program with copies of what is read by lines that write: NumPy may write over what it has yet to read."""
        statements = tuple(dataclasses.replace(s, text=s.careful or s.text) for s in self.statements)
        return dataclasses.replace(self, statements=statements)

    def without(self, index: int) -> Program:
        """The program without one statement."""
        return dataclasses.replace(self, statements=self.statements[:index] + self.statements[index + 1 :])


def exact(value: Any) -> bool:
    """Whether the numbers are such that sums and products of some of them are exact in any order."""
    value = np.asarray(value)
    if value.dtype.kind in "biu":
        return True
    if value.dtype.kind == "c":
        return exact(value.real) and exact(value.imag)
    limit, quantum = (2.0**7, 2.0**6) if value.dtype.itemsize == 4 else (2.0**20, 2.0**14)
    return bool(np.all(np.abs(value) < limit)) and bool(np.all(value * quantum == np.rint(value * quantum)))


def tame(value: Any) -> bool:
    """Whether the numbers of a smooth program are finite, and so small that rounding stays rounding."""
    value = np.asarray(value)
    return value.dtype.kind != "f" or bool(np.all(np.abs(value) < 20))


class Drawer:
    """Draws statements, running each in NumPy at once.

    Args:
      random: where choices come from.
      recipe: of the arguments.
      length: how many statements to take.
      smooth, valued: see :class:`Program`.
      fails: end with a line that NumPy refuses, if one comes.
    """

    def __init__(self, random: Random, recipe: scenes.Recipe, length: int, *, smooth: bool, valued: bool, fails: bool):
        self.random, self.recipe, self.smooth, self.valued = random, recipe, smooth, valued
        absent = {*([] if recipe.captured else "g"), *([] if recipe.number is not None else "k")}
        lines = [line for line in LINES if (line.smooth if smooth else line.exact) and (valued or not line.valued)]
        self.lines = [line for line in lines if not line.words & absent]
        self.weights = [line.weight for line in self.lines]
        self.statements: list[Statement] = []
        self.count = 0
        self.failed = self.needed = False
        self.restart()
        attempts = 0
        while len(self.statements) < length and attempts < 12 * length and not self.failed:
            attempts += 1
            self.attempt(fails and len(self.statements) >= length // 2)

    def restart(self) -> None:
        """Run what has been taken on fresh arguments."""
        self.scene = scenes.Scene(self.recipe)
        self.values: dict[str, Any] = {**NAMES, "np": np, "g": self.scene.captured}
        self.values.update(zip(self.recipe.names, self.scene.arguments, strict=True))
        for statement in self.statements:
            run(statement.text, self.values)

    def attempt(self, may_fail: bool) -> None:
        """Fill in one line, and take it if NumPy does."""
        line = self.random.choices(self.lines, self.weights)[0]
        try:
            filling = Filling(self, line)
            text, new, targets = filling.done()
        except LookupError:
            return  # nothing fits
        error = run(text, self.values)
        targets = tuple(n for n in targets if isinstance(self.values[n], np.ndarray))
        if error is None and any(not writeable(self.values[n]) for n in targets):
            return self.restart()  # nothing was to be written, or by ufunc.at, which does not look
        if ".at(" in line.text and any(0 in self.values[n].strides for n in targets):
            return self.restart()  # of a broadcast array: again and again
        careful = {filling.copying(targets), filling.copying(targets, shared_only=False)} - {text}
        if error is None and not all(map(self.agrees, careful)):
            return self.restart()  # NumPy writes over what it has yet to read
        good = error is None and all(self.acceptable(self.values[n]) for n in (*new, *targets))
        if good:
            careful = filling.copying(targets, shared_only=False) if targets and not new else ""
            self.statements.append(Statement(text, new, line.text, careful))
            self.count += len(new)
            self.needed |= line.valued
        elif error is not None and may_fail and isinstance(error, (ValueError, TypeError, IndexError)):
            self.statements.append(Statement(text, (), line.text))
            self.failed = True
        elif line.writes:
            self.restart()
        else:
            for n in new:
                self.values.pop(n, None)

    def agrees(self, text: str) -> bool:
        """Whether another text for the line just run does the same."""
        done = self.values
        self.restart()
        run(text, self.values)
        other, self.values = self.values, done
        return all(np.array_equal(v, other[n]) for n, v in self.variables.items())

    def acceptable(self, value: Any) -> bool:
        """Whether a value may live on in the program: a number or array, not too large, of the style's numbers."""
        if not isinstance(value, (np.ndarray, np.generic)):
            return isinstance(value, (bool, int)) and abs(value) < 2**40
        if value.size > MAX_SIZE or value.dtype.name not in scenes.DTYPES:
            return False
        fits = tame if self.smooth else exact
        base = value
        while isinstance(base, np.ndarray) and isinstance(base.base, np.ndarray):
            base = base.base
        return fits(value) and fits(base)

    def pick(self, arrays: bool = True, ndim: int = 0) -> str:
        """The name of a random variable, late ones more often."""
        fitting = [n for n, v in self.variables.items() if self.fits(v, arrays, ndim)]
        if not fitting:
            raise LookupError
        at = self.random.randrange(len(fitting))
        return fitting[max(at, self.random.randrange(len(fitting))) if self.random.random() < 0.7 else at]

    @property
    def variables(self) -> dict[str, Any]:
        """What lines may use: arguments, and what lines defined."""
        return {n: v for n, v in self.values.items() if n in "abc" or (n[0] == "v" and n[1:].isdigit())}

    @staticmethod
    def fits(value: Any, arrays: bool, ndim: int) -> bool:
        """Whether a variable may stand where an array, or any number, of so many dimensions is wanted."""
        if not isinstance(value, np.ndarray):
            return not arrays and isinstance(value, (np.generic, int, float, complex))
        return value.ndim >= ndim


def writeable(array: np.ndarray) -> bool:
    """Whether NumPy lets one write to it, without its warning about broadcast_arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.flags.writeable


def run(text: str, values: dict[str, Any]) -> Exception | None:
    """Execute a statement; the error that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, values)
        except Exception as error:
            return error
        finally:
            values.pop("__builtins__", None)
    return None


class Filling:
    """One line with its names and parameters filled in; a parameter that occurs twice is the same in both places."""

    def __init__(self, drawer: Drawer, line: Line):
        self.drawer, self.random, self.line = drawer, drawer.random, line
        self.filled: dict[str, str] = {}

    def done(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The text, the variables that it defines, and those that it writes."""
        for _, name, _, _ in string.Formatter().parse(self.line.text):
            if name and name not in self.filled:
                self.filled[name] = self.parameter(name) if name in PARAMETERS else getattr(self, f"_{name}")()
        new = tuple(self.filled[n] for n in "vu" if n in self.filled)
        return self.line.text.format(**self.filled), new, tuple(self.filled[n] for n in self.line.writes)

    def copying(self, targets: tuple[str, ...], *, shared_only: bool = True) -> str:
        """The text with copies of the operands (of those that share memory with a target)."""
        values, filled = self.drawer.values, dict(self.filled)
        written = [values[n] for n in targets if isinstance(values[n], np.ndarray)]
        for name in set("brm") & set(filled) - set(self.line.writes):
            operand = values.get(filled[name].removesuffix("[::-1]"))
            if isinstance(operand, np.ndarray) and not (shared_only and not any(np.shares_memory(operand, w) for w in written)):
                filled[name] += ".copy()"
        return self.line.text.format(**filled)

    def value(self, name: str) -> Any:
        """The value of an operand chosen before."""
        return self.drawer.values[self.filled[name]]

    def parameter(self, name: str) -> str:
        """One of the texts in the table of the style."""
        exact, smooth = PARAMETERS[name]
        return self.random.choice(smooth if self.drawer.smooth else exact)

    def choose(self, *options: str) -> str:
        return self.random.choice(options)

    # --- operands -----------------------------------------------------------------------------------------------------------------------

    def _v(self) -> str:
        return f"v{self.drawer.count}"

    def _u(self) -> str:
        return f"v{self.drawer.count + 1}"

    def _a(self) -> str:
        return self.drawer.pick(ndim=self.line.ndim)

    def _b(self) -> str:
        return self.drawer.pick(arrays=self.random.random() < 0.8)

    def _w(self) -> str:
        """A new target of its own, of the shape that a reduction of ``a`` along its first axis has."""
        shape = np.shape(self.value("a"))[1:]
        fitting = [n for n, v in self.drawer.variables.items() if isinstance(v, np.ndarray) and v.shape == shape]
        if not fitting:
            raise LookupError
        return self.random.choice(fitting)

    def _r(self) -> str:
        """Something to be written: mostly what fits the place, sometimes anything."""
        place = next((p for p in ("i", "f") if p in self.filled), None)
        if self.random.random() < 0.4:
            return self.parameter("n")
        at = ".at(" in self.line.text  # NumPy's ufunc.at goes wrong where it should broadcast
        if self.random.random() < 0.15 and not at:
            return self._b()
        where = f"{self.filled['a']}[{self.filled[place]}]" if place else self.filled["a"]
        try:
            shape = np.shape(eval(where, {**self.drawer.values}))
        except Exception:
            return self.parameter("n")
        fits = _is_shaped if at else _spreads
        fitting = [n for n, v in self.drawer.variables.items() if isinstance(v, (np.ndarray, np.generic)) and fits(v, shape)]
        if not fitting:
            return self.parameter("n")
        chosen = self.random.choice(fitting)
        return self.choose(
            chosen, chosen, f"{chosen} * {self.parameter('n')}", f"{chosen}[::-1]" if np.ndim(self.drawer.values[chosen]) else chosen
        )

    def _x(self) -> str:
        """An integer array, for indices."""
        fitting = [n for n, v in self.drawer.variables.items() if isinstance(v, np.ndarray) and v.dtype.kind == "i"]
        if not fitting:
            raise LookupError
        return self.random.choice(fitting)

    # --- parameters ---------------------------------------------------------------------------------------------------------------------

    def _same(self) -> str:
        """A dtype of the same size."""
        name = self.value("a").dtype.name
        return {"float64": "np.int64", "int64": "np.float64", "float32": "np.int32", "int32": "np.float32"}.get(name, name)

    def _shape(self) -> str:
        own = f"{self.drawer.pick()}.shape"
        return self.choose("(3,)", "(4,)", "(2, 3)", "(3, 3)", "(2, 2, 2)", "(1, 3)", "()", "(0,)", own, own, own)

    def _factors(self) -> str:
        n = self.value("a").size
        divisors = [d for d in range(1, n + 1) if n % d == 0] or [0]
        d = self.random.choice(divisors)
        e = self.random.choice([x for x in divisors if x and n % (d * x or 1) == 0] or [1])
        whole = [f"({n},)", "-1", "(-1, 1)", f"({d}, {n // d if d else 3})", f"({d}, -1)", f"({d}, {e}, {n // (d * e) if d else 1})"]
        return self.choose(*whole)

    def _perm(self) -> str:
        dims = self.value("a").ndim
        return str(tuple(self.random.sample(range(dims), dims)))

    def _e(self) -> str:
        """An element."""
        shape = np.shape(self.value("a"))
        if 0 in shape:
            raise LookupError
        return ", ".join(str(self.random.randrange(-n, n)) for n in shape) or "()"

    def _i(self) -> str:
        """A random basic index: slices of any step, integers, None and Ellipsis."""
        parts: list[str] = []
        for n in np.shape(self.value("a")):
            kind = self.random.randrange(8)
            if kind == 0 and n:
                parts.append(str(self.random.randrange(-n, n)))
            elif kind == 1 and n > 1 and self.drawer.recipe.number is not None:
                parts.append("k")
            elif kind in (2, 3):
                lo, hi = self.random.randrange(-1, n + 1), self.random.randrange(n + 2)
                parts.append(f"{lo or ''}:{hi if hi <= n else ''}{self.choose('', '', '', ':2')}")
            elif kind in (4, 5):
                parts.append(self.choose("::-1", "::2", "::-2", "-1:0:-1", "1:", ":-1", "1:-1"))
            else:
                parts.append(":")
            if self.random.randrange(10) == 0:
                parts.append("None")
        if parts and self.random.randrange(4) == 0:
            parts[-1 if self.random.randrange(2) else 0] = "..."
        if self.random.randrange(80) == 0:
            parts = [str(self.random.choice([7, -9]))]
        return ", ".join(parts) or "..."

    def _f(self) -> str:
        """A random advanced index, or one of the two mixed."""
        n = np.shape(self.value("a"))[0] if np.ndim(self.value("a")) else 1
        if self.random.random() < 0.15 and not self.drawer.smooth:
            return f"abs({self._x()}) % {max(n, 1)}"
        return self.choose(*FANCY, self._m_constant(n))

    def _m_constant(self, n: int) -> str:
        return self.choose(str([self.random.random() < 0.6 for _ in range(n)]) if n else "np.arange(0) > 0", f"np.arange({n}) % 2 == 0")

    def _m(self) -> str:
        """A mask of the shape of ``a`` (or of its first axis)."""
        name, value = self.filled["a"], self.value("a")
        constant = [self._m_constant(value.shape[0])] if value.ndim else ["True"]
        if self.drawer.smooth:
            return self.choose(*constant, f"np.arange({name}.size).reshape({name}.shape) % 2 == 0")
        arrays = {n: v for n, v in self.drawer.variables.items() if isinstance(v, np.ndarray)}
        masks = [n for n, v in arrays.items() if v.dtype == bool and v.shape == value.shape]
        return self.choose(*constant, f"{name} > {self._real()}", f"{name} == {name}", f"{name} <= {self._real()}", *masks)

    def _t(self) -> str:
        """A mask of exactly the shape of ``a``."""
        name = self.filled["a"]
        if self.drawer.smooth:
            return f"np.arange({name}.size).reshape({name}.shape) % 2 == 0"
        return self.choose(f"{name} > {self._real()}", f"{name} != {self._real()}")

    def _real(self) -> str:
        return self.choose("0", "1", "0.5")


def _is_shaped(value: Any, shape: tuple[int, ...]) -> bool:
    return np.shape(value) == shape


def _spreads(value: Any, shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        return False


def draw(seed: int, *, smooth: bool | None = None, may_fail: bool = True) -> Program:
    """The random program of a seed.

    Args:
      seed: of everything.
      smooth: the style; by default the seed chooses.
      may_fail: sometimes end with a line that NumPy refuses.
    """
    random = Random(seed)
    chosen = random.random() < 0.4
    smooth = chosen if smooth is None else smooth
    valued = smooth and random.random() < 0.2
    fails = may_fail and random.random() < 0.12
    recipe = scenes.draw_recipe(random, smooth=smooth)
    length = 1 + math.floor(24 * random.random() ** 1.3)
    drawer = Drawer(random, recipe, length, smooth=smooth, valued=valued, fails=fails)
    names = [n for n in drawer.variables if n not in recipe.names]
    random.shuffle(names)
    results = [*names[: random.choice([3, 6, 30])], *(n for n in recipe.names if n != "k" and random.random() < 0.4)]
    random.shuffle(results)
    return Program(recipe, tuple(drawer.statements), tuple(results), smooth, drawer.needed, drawer.failed)
