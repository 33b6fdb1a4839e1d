"""Arguments of random programs as recipes: memory buffers, and arguments that are views of them in every layout and overlap.

A recipe is text and numbers; a scene is one set of arrays made of it. NumPy's run and functx's run each get a scene of their own with the
same layouts and the same sharing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

SHAPES = [(4,), (3,), (2, 3), (3, 3), (4, 4), (3, 2, 2), (1, 3), (2, 1), (2, 2, 2), (5,), (), (0,), (2, 0)]
DTYPES = ["float64"] * 8 + ["float32", "int64", "int64", "int32", "bool", "complex128"]

# Views of one buffer that arguments may be: texts over B, the shape that B needs (or any).
ALIASES: list[tuple[tuple[str, ...], tuple[int, ...]]] = [
    (("B", "B"), (4,)),
    (("B", "B"), (2, 3)),
    (("B", "B[...]"), (3,)),
    (("B[:-1]", "B[1:]"), (5,)),
    (("B[1:]", "B[:-1]"), (4, 2)),
    (("B[:-1]", "B[1:]", "B[::2]"), (5,)),
    (("B", "B[::-1]"), (4,)),
    (("B", "B[::-1]"), (3, 2)),
    (("B", "B.T"), (3, 3)),
    (("B.T", "B"), (2, 3)),
    (("B", "B.reshape(-1)"), (2, 3)),
    (("B.reshape(3, 2)", "B.reshape(2, 3)", "B"), (6,)),
    (("B[::2]", "B[1::2]"), (6,)),
    (("B[1::2]", "B[::2]"), (4, 3)),
    (("B[:2]", "B[2:]"), (4,)),
    (("B", "B[0]"), (2, 3)),
    (("B[:, 0]", "B[0]"), (3, 3)),
    (("B[1]", "B"), (3, 2)),
    (("B", "B[1:2]"), (4,)),
    (("B", "B[1, ...]"), (3,)),
    (("B[:, ::2]", "B[:, 1::2]"), (3, 4)),
    (("B[1:, 1:]", "B[:-1, :-1]"), (4, 4)),
    (("B", "np.einsum('ii->i', B)"), (3, 3)),
    (("B[0:3]", "B[2:5]", "B[4:7]"), (7,)),
    (("B[0:2]", "B[4:6]", "B[1:5]"), (6,)),
    (("B[::2]", "B[::3]"), (7,)),
    (("B[::-2]", "B[:3]"), (6,)),
    (("B[:0]", "B"), (3,)),
    (("B[:, None]", "B"), (4,)),
    (("B.reshape(2, 2)[:, 0]", "B.reshape(2, 2)[1]"), (4,)),
]


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Memory: C-contiguous, of a shape and dtype, with values drawn from ``seed``."""

    shape: tuple[int, ...]
    dtype: str
    seed: int
    smooth: bool

    def values(self, lane: int = 0) -> np.ndarray:
        """Multiples of 1/8, integers or booleans; for smooth programs, numbers with more digits that no two elements share."""
        rng = np.random.default_rng((self.seed, lane))
        if self.smooth:
            return np.asarray(rng.uniform(-1.5, 1.5, self.shape))
        dtype = np.dtype(self.dtype)
        values = rng.integers(-12, 24, self.shape) / (8 if dtype.kind in "fc" else 4)
        values = values + 1j * rng.integers(-12, 24, self.shape) / 8 if dtype.kind == "c" else values
        return np.asarray(values > 1 if dtype.kind == "b" else values).astype(dtype)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the arguments of a program are.

    Attributes:
      buffers: the memory.
      views: per argument the buffer and the text of the view; the same text means the same object.
      read_only: the arguments that refuse writes.
      number: a Python integer passed last, or None.
      captured: buffer and text of the array that the program closes over, or None.
    """

    buffers: tuple[Buffer, ...]
    views: tuple[tuple[int, str], ...]
    read_only: tuple[int, ...] = ()
    number: int | None = None
    captured: tuple[int, str] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the arguments in the program."""
        return [*"abc"[: len(self.views)], *(["k"] if self.number is not None else [])]

    @property
    def aliased(self) -> bool:
        """Whether an argument shares its buffer with another or with the captured array."""
        used = [i for i, _ in self.views] + ([self.captured[0]] if self.captured else [])
        return len(set(used)) < len(used)

    @property
    def mixed(self) -> bool:
        """Whether an argument has other elements than the buffer that it lies in."""
        return any(".view(" in text or ".real" in text for _, text in self.views)

    def shared(self, argument: int) -> bool:
        """Whether this argument's buffer is also that of another argument or of the captured array."""
        used = [i for i, _ in self.views] + ([self.captured[0]] if self.captured else [])
        return used.count(self.views[argument][0]) > 1

    @property
    def text(self) -> str:
        """For failure messages."""
        lines = [f"B{i}: {b.dtype}{list(b.shape)}, seed {b.seed}{', smooth' if b.smooth else ''}" for i, b in enumerate(self.buffers)]
        for k, (i, view) in enumerate(self.views):
            lines.append(f"{'abc'[k]} = {view.replace('B', f'B{i}')}{' (read-only)' if k in self.read_only else ''}")
        if self.number is not None:
            lines.append(f"k = {self.number}")
        if self.captured:
            lines.append(f"g = {self.captured[1].replace('B', f'B{self.captured[0]}')} (captured)")
        return "\n".join(lines)


class Scene:
    """Arrays made of a recipe.

    Args:
      recipe: what to make.
      dtype: instead of the recipe's (for plain runs in long double).
      lanes: for vmap, how many examples the mapped buffers hold.
      mapped: the numbers of these buffers.
    """

    def __init__(self, recipe: Recipe, *, dtype: Any = None, lanes: int = 0, mapped: Sequence[int] = ()):
        self.recipe, self.lanes, self.mapped = recipe, lanes, tuple(mapped)
        self.initial = [self._contents(i).astype(dtype or b.dtype) for i, b in enumerate(recipe.buffers)]
        self.buffers = [x.copy() for x in self.initial]
        made: dict[tuple[int, str], np.ndarray] = {}
        for place in [*recipe.views, *([recipe.captured] if recipe.captured else [])]:
            if place not in made:
                made[place] = self._view(*place)
        self.arrays = [made[place] for place in recipe.views]
        self.captured = made[recipe.captured] if recipe.captured else None
        for k in recipe.read_only:
            self.arrays[k] = self.arrays[k].view()
            self.arrays[k].flags.writeable = False

    def _contents(self, i: int) -> np.ndarray:
        buffer = self.recipe.buffers[i]
        return np.stack([buffer.values(k) for k in range(self.lanes)]) if i in self.mapped else buffer.values()

    def _view(self, i: int, text: str) -> np.ndarray:
        buffer = self.buffers[i]
        if i not in self.mapped:
            return eval(text, {"np": np, "B": buffer})
        first = eval(text, {"np": np, "B": buffer[0, ...]})
        return as_strided(first, (self.lanes, *first.shape), (buffer.strides[0], *first.strides), writeable=first.flags.writeable)

    @property
    def arguments(self) -> list[Any]:
        """What the program is called with."""
        return [*self.arrays, *([self.recipe.number] if self.recipe.number is not None else [])]

    def reset(self) -> None:
        """The contents it began with."""
        for buffer, values in zip(self.buffers, self.initial, strict=True):
            buffer[...] = values


# --- drawing ------------------------------------------------------------------------------------------------------------------------------


def layout(random: Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """A random layout for an array of a shape: the shape of its buffer, and the text of the view."""
    kinds = ["C", "C", "C", "F", "strided", "negative", "offset", "mixed", "permuted", "picked"]
    kind = random.choice(kinds)
    dims = len(shape)
    if kind == "C" or (dims == 0 and kind not in ("picked",)):
        return shape, "B"
    if kind == "F":
        return shape[::-1], "B.T"
    if kind == "permuted":
        perm = random.sample(range(dims), dims)
        return tuple(shape[perm.index(i)] for i in range(dims)), f"B.transpose({tuple(perm)})"
    if kind == "picked":
        return (*shape, 2), "B[..., 1]" if dims else "B[1, ...]"
    if kind == "strided":
        return tuple(2 * n for n in shape), f"B[{', '.join(['::2'] * dims)}]"
    if kind == "negative":
        return shape, f"B[{', '.join(['::-1'] * dims)}]"
    if kind == "offset":
        return tuple(n + 2 for n in shape), f"B[{', '.join(['1:-1'] * dims)}]"
    parts = [random.choice([("", 0, 1), ("::-1", 0, 1), ("1:", 1, 1), ("::2", 0, 2), ("::-2", 0, 2)]) for _ in shape]
    return tuple(
        n * times + more for n, (_, more, times) in zip(shape, parts, strict=True)
    ), f"B[{', '.join(t or ':' for t, _, _ in parts)}]"


def _single(random: Random, shape: tuple[int, ...], dtype: str, smooth: bool) -> tuple[Buffer, str]:
    buffer, text = layout(random, shape)
    return Buffer(buffer, dtype, random.randrange(10**6), smooth), text


def draw_recipe(random: Random, *, smooth: bool) -> Recipe:
    """Random arguments: layouts, dtypes, aliases, read-only ones, a captured array."""
    buffers: list[Buffer] = []
    views: list[tuple[int, str]] = []

    def dtype() -> str:
        return "float64" if smooth else random.choice(DTYPES)

    if random.random() < 0.45:
        texts, shape = random.choice(ALIASES)
        buffers.append(Buffer(shape, dtype(), random.randrange(10**6), smooth))
        views += [(0, t) for t in texts]
        if random.random() < 0.1 and not smooth and buffers[0].dtype != "bool":  # other elements in the same memory
            views[-1] = (0, _other_elements(random, buffers[0].dtype, views[-1][1]))
    for _ in range(random.choice([1, 1, 2, 3]) if not views else random.choice([0, 1])):
        if len(views) < 3:
            buffer, text = _single(random, random.choice(SHAPES[:10] if smooth or random.random() < 0.8 else SHAPES), dtype(), smooth)
            views.append((len(buffers), text))
            buffers.append(buffer)
    random.shuffle(views)
    captured = None
    if random.random() < 0.2:
        if random.random() < 0.4:
            captured = random.choice(views)
        else:
            buffer, text = _single(random, random.choice(SHAPES[:10]), dtype(), smooth)
            captured = (len(buffers), text)
            buffers.append(buffer)
    read_only = tuple(k for k in range(len(views)) if random.random() < 0.04)
    number = random.choice([0, 1, -1]) if random.random() < 0.2 and not smooth else None
    return Recipe(tuple(buffers), tuple(views), read_only, number, captured)


def _other_elements(random: Random, dtype: str, text: str) -> str:
    if random.random() < 0.3 and text == "B":
        half = np.dtype(dtype).itemsize // 2
        return f"B.reshape(-1).view(np.uint8)[{half}:{-half}].view(np.{dtype})"  # elements across the borders of others
    if dtype == "complex128":
        return f"({text}).real"
    same = {"float64": "int64", "int64": "float64", "float32": "int32", "int32": "float32"}
    return f"({text}).view(np.{same[dtype]})"


def other_layouts(random: Random, recipe: Recipe) -> Recipe:
    """Arguments of the same shapes and dtypes in other layouts and with other overlaps."""
    shapes = [(a.shape, a.dtype) for a in Scene(recipe).arrays]
    buffers: list[Buffer] = []
    views: list[tuple[int, str]] = []
    for k, (shape, dtype) in enumerate(shapes):
        twin = next((views[j] for j in range(k) if shapes[j] == (shape, dtype)), None)
        if twin and random.random() < 0.4:
            views.append(twin)
            continue
        if twin and shape and twin[1] == "B" and random.random() < 0.8:  # one row further
            i = twin[0]
            buffers[i] = dataclasses.replace(buffers[i], shape=(shape[0] + 1, *shape[1:]))
            views = [(i, "B[:-1]") if v == twin else v for v in views] + [(i, "B[1:]")]
            continue
        buffer, text = _single(random, shape, dtype.name, recipe.buffers[recipe.views[k][0]].smooth)
        views.append((len(buffers), text))
        buffers.append(buffer)
    return dataclasses.replace(recipe, buffers=tuple(buffers), views=tuple(views), read_only=(), captured=None)
