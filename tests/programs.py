"""Random smooth programs as data, for derivatives; and arrays laid out in memory in every way. (Programs of writes: :mod:`mutations`.)

A program is drawn together with a run on plain arrays, which tells the drawer every shape; it is then a list of steps that work on plain
arrays and tracers alike. Plain runs in long double are the oracle of derivatives: differences of them are exact to many more digits than
float64 has.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[list], None]  # reads variables from the list, appends or changes one


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps on a list of variables, and their text for failure messages."""

    steps: tuple[Step, ...]
    text: str

    def run(self, *inputs: Any) -> list:
        """The variables after all steps."""
        variables = list(inputs)
        for step in self.steps:
            step(variables)
        return variables


def scalar(values: list) -> Any:
    """One smooth number that depends on all variables."""
    return sum(np.sum(np.sin(v + 0.1 * k)) for k, v in enumerate(values))


def derivative(f: Callable, x: Any, direction: Any, step: float = 1e-3) -> Any:
    """The derivative of ``f`` along ``direction`` by central differences in long double, the error falling with step**6."""
    x, direction = np.asarray(x, np.longdouble), np.asarray(direction, np.longdouble)

    def central(h: Any) -> Any:
        return (f(x + h * direction) - f(x - h * direction)) / (2 * h)

    coarse, middle, fine = (central(np.longdouble(step) * k) for k in (4, 2, 1))
    return (16 * ((4 * fine - middle) / 3) - ((4 * middle - coarse) / 3)) / 15


class _Drawer:
    """Draws steps, running each on plain arrays at once; a step that NumPy refuses is not taken."""

    def __init__(self, random: Any, inputs: list):
        self.random, self.variables = random, list(inputs)
        self.steps: list[Step] = []
        self.lines: list[str] = []

    def take(self, step: Step, text: str) -> None:
        """Run and record a step, unless it fails or makes something too large."""
        before = len(self.variables)
        try:
            with np.errstate(all="ignore"):
                step(self.variables)
        except (ValueError, IndexError, TypeError):
            del self.variables[before:]
            return
        if any(np.size(v) > 200 or np.size(v) == 0 for v in self.variables[before:]):
            del self.variables[before:]
            return
        self.steps.append(step)
        self.lines.append(text)

    def pick(self, wanted: Callable[[Any], bool] = lambda v: True) -> int | None:
        """The number of a random variable, late ones more often."""
        fitting = [i for i, v in enumerate(self.variables) if wanted(v)]
        return max(self.random.choice(fitting), self.random.choice(fitting)) if fitting else None

    def index(self, shape: tuple[int, ...], *, whole: bool = False) -> tuple:
        """A random basic index: slices of any step, integers, None and Ellipsis."""
        key: list[Any] = []
        for n in shape:
            kind = self.random.randrange(6)
            if kind == 0 and not whole:
                key.append(self.random.randrange(-n, n))
            elif kind in (1, 2) and n > 1:
                lo = self.random.randrange(n - 1)
                key.append(slice(lo, self.random.randrange(lo + 1, n + 1), self.random.choice([None, 1, 2])))
            elif kind == 3:
                key.append(slice(None, None, self.random.choice([-1, -2, 2])))
            else:
                key.append(slice(None))
            if self.random.randrange(8) == 0:
                key.append(None)
        if key and self.random.randrange(4) == 0:
            del key[-1]
            key.append(Ellipsis)
        return tuple(key) or (Ellipsis,)

    def program(self) -> Program:
        return Program(tuple(self.steps), "\n".join(self.lines))


# --- smooth expressions -------------------------------------------------------------------------------------------------------------------

UNARY = {
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "exp(-x*x)": lambda x: np.exp(-x * x),
    "log(2+cos)": lambda x: np.log(2.0 + np.cos(x)),
    "sqrt(1+x*x)": lambda x: np.sqrt(1.0 + x * x),
    "square": np.square,
    "x/(2+sin)": lambda x: x / (2.0 + np.sin(x)),
    "-x": lambda x: -x,
    "x**3": lambda x: x**3 * 0.1,
    "x.T": lambda x: x.T,
    "ravel": lambda x: x.ravel(),
    "x[None]": lambda x: x[None],
    "flip": np.flip,
    "copy": lambda x: x.copy(),
    "sum": lambda x: x.sum(),
    "mean0": lambda x: x.mean(axis=0),
    "sum-1": lambda x: np.sum(x, axis=-1, keepdims=True),
    "softmax": lambda x: np.exp(np.sin(x)) / np.sum(np.exp(np.sin(x)), axis=-1, keepdims=True),
    "gram": lambda x: np.tanh(x @ x.T),
    "take": lambda x: x[[0, -1, 0]],
    "roll": lambda x: np.roll(x, 1, axis=0),
    "first": lambda x: x[0],
}

BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: 0.5 * x - y,
    "mul": lambda x, y: np.sin(x) * y,
    "div": lambda x, y: x / (2.0 + np.cos(y)),
    "where": lambda x, y: np.where(np.arange(x.shape[-1]) % 2 == 0, x, y),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "stack": lambda x, y: np.stack([x, y]),
    "dot": lambda x, y: np.dot(x, y) * 0.3,
}


def _set(values, i, key, j):
    values[i][key] = np.mean(values[j]) if np.shape(values[j]) != np.shape(values[i][key]) else values[j]


def _scale(values, i, key, j):
    values[i][key] *= np.cos(np.sum(values[j]))


def _shift(values, i, key, j):
    part = values[i][key]
    part += np.sin(np.sum(values[j]))


def _add_at(values, i, key, j):
    np.add.at(values[i], np.array([0, -1, 0]), np.mean(values[j]))


def _out(values, i, key, j):
    np.multiply(values[i], np.tanh(np.mean(values[j])), out=values[i])


IN_PLACE = {"set": _set, "scale": _scale, "shift": _shift, "add_at": _add_at, "out": _out}


def smooth_program(random: Any, inputs: list, length: int) -> Program:
    """A program of smooth operations, with writes into arrays of its own (inputs are never changed)."""
    d = _Drawer(random, inputs)
    owned: set[int] = set()
    for _ in range(length):
        kind = random.randrange(4)
        i, j = d.pick(), d.pick()
        if kind == 0:
            name = random.choice(list(BINARY))
            d.take(lambda v, f=BINARY[name], i=i, j=j: v.append(f(v[i], v[j])), f"v{len(d.variables)} = {name}(v{i}, v{j})")
        elif kind == 1 and owned:
            i, name = random.choice(sorted(owned)), random.choice(list(IN_PLACE))
            key = d.index(np.shape(d.variables[i]))
            d.take(lambda v, f=IN_PLACE[name], i=i, k=key, j=j: f(v, i, k, j), f"{name}(v{i}[{key}], v{j})")
        elif kind == 2 and np.ndim(d.variables[i]):
            owned.add(len(d.variables))
            d.take(lambda v, i=i: v.append(v[i].copy()), f"v{len(d.variables)} = v{i}.copy()")
        else:
            name = random.choice(list(UNARY))
            d.take(lambda v, f=UNARY[name], i=i: v.append(f(v[i])), f"v{len(d.variables)} = {name}(v{i})")
        owned = {i for i in owned if i < len(d.variables)}
    return d.program()


# --- layouts ------------------------------------------------------------------------------------------------------------------------------

LAYOUTS = ["C", "F", "strided", "negative", "transposed", "offset"]


def laid_out(values: np.ndarray, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """An array with these values in that layout, and the buffer that it is a part of."""
    shape, dtype = values.shape, values.dtype
    if layout in "CF":
        buffer = np.array(values, order=layout)
        return buffer, buffer
    if layout == "transposed":
        buffer = np.zeros(shape[::-1], dtype)
        view = buffer.T
    elif layout == "strided":
        buffer = np.zeros([2 * n for n in shape], dtype)
        view = buffer[tuple(slice(None, None, 2) for _ in shape)]
    elif layout == "negative":
        buffer = np.zeros(shape, dtype)
        view = buffer[tuple(slice(None, None, -1) for _ in shape)]
    else:
        buffer = np.zeros([n + 2 for n in shape], dtype)
        view = buffer[tuple(slice(1, -1) for _ in shape)]
    view[...] = values
    return view, buffer
