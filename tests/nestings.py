"""Random nestings of loops and choices as Python source, written against a small namespace: functx's own, or plain Python loops.

Values are numbers ``s``, vectors ``v`` of 3 and matrices ``m`` of 3 by 3; integers are steps, counters and the traced bound ``n`` (0 to 3).
Bodies close over what is around them, and write to arrays of the functions around them and to their own carries.
"""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np

import functx as fx
import functx.numpy as fnp

SHAPES: dict[str, tuple[int, ...]] = {"s": (), "v": (3,), "m": (3, 3)}

# {s}, {v}, {m} stand for more of that type, {i} for an integer. All are smooth, and tame where they are repeated.
_S = """np.sin({s}); {s} * np.cos({s}); 0.5 * {s} - {s}; np.tanh({v}).sum(); ({v} * {v}).mean(); {v}[{i}]; np.exp(-{s} * {s});
{m}[{i}, {i}]; np.sin({v} @ {v}); np.sqrt(1.5 + np.sin({s})); np.cos({m}).mean(); {i} * 0.25; np.sum({v} * {i}) * 0.1"""
_V = """np.tanh({v}); {s} * np.sin({v}); {v} * 0.5 + {s}; 0.3 * {m} @ {v}; {m}[{i}]; {m}[:, {i}]; {v}[::-1]; np.roll({v}, 1); {v} - {v};
{v} / (2.0 + np.cos({v})); {m}.mean(axis=0); {v}[[0, 2, 0]]; np.where(np.arange(3) == {i}, {v}, {s})"""
_M = """np.outer({v}, {v}); np.sin({m} @ {m}); {m}.T; np.tanh({m}) * {v}; {m} * 0.5 + {s}; np.cos({m} - {m}); np.stack([{v}, {v}, {v}])"""
# Writes to {a}.
_INTO_V = "{a}[{i}] = np.sin({s}); {a}[...] += np.sin({v}); {a}[1:] *= np.cos({s}); {a}[:] = np.tanh({v}); np.multiply({a}, 0.5, out={a})"
_INTO_M = """{a}[{i}] = np.sin({v}); {a}[{i}, {i}] = np.sin({s}); np.multiply({a}, np.cos({v}), out={a}); {a}[:, {i}] += np.tanh({v});
{a}[{i}][1:] = np.cos({s}); {a}.T[{i}] -= np.sin({v}); np.add.at({a}, [0, 2, 0], np.tanh({v}))"""


def _forms(text: str) -> list[str]:
    return [form.strip() for form in text.split(";")]


FORMS = {"s": _forms(_S), "v": _forms(_V), "m": _forms(_M)}
WRITES = {"v": _forms(_INTO_V), "m": _forms(_INTO_M)}
VIEWS = {"v": "{a}[::-1]; {a}[...]", "m": "{a}.T; {a}[:, ::-1]; {a}[::-1]"}
LINES = ("value", "view", "array", "write", "write")
CONTROL = ("scan", "fori", "fori_traced", "while", "cond", "switch", "map")


class PlainLoops:
    """What functx's functions of these names mean, in plain Python; values that loops hand on share no memory.

    Attributes:
      decisions: every choice and number of steps so far.
    """

    def __init__(self) -> None:
        self.decisions: list[Any] = []

    def checkpoint(self, f):
        return f

    def scan(self, f, init, xs=None, length=None, reverse=False, unroll=1):
        xs = _copied(xs)
        leaves = fx.tree.leaves(xs)
        steps = range(len(leaves[0]) if leaves else length)
        carry, ys = _copied(init), []
        for k in reversed(steps) if reverse else steps:
            carry, y = (_copied(part) for part in f(carry, fx.tree.map(lambda v, k=k: v[k], xs)))
            ys.append(y)
        return carry, fx.tree.map(lambda *rows: np.stack(rows), *(ys[::-1] if reverse else ys))

    def map(self, f, xs):
        return self.scan(lambda _, x: (None, f(x)), None, xs)[1]

    def fori_loop(self, lower, upper, f, init):
        carry = _copied(init)
        self.decisions.append(upper - lower)
        for i in range(lower, upper):
            carry = _copied(f(i, carry))
        return carry

    def while_loop(self, condition, f, init):
        carry = _copied(init)
        while condition(carry):
            self.decisions.append("again")
            carry = _copied(f(carry))
        self.decisions.append("done")
        return carry

    def cond(self, pred, true, false, *operands):
        self.decisions.append(bool(pred))
        return _copied((true if pred else false)(*operands))

    def switch(self, index, branches, *operands):
        self.decisions.append(int(index))
        return _copied(branches[min(max(index, 0), len(branches) - 1)](*operands))


def _copied(tree: Any) -> Any:
    return fx.tree.map(lambda v: v.copy() if isinstance(v, np.ndarray) else v, tree)


@dataclasses.dataclass
class Scope:
    """The names that a function can read (by type), and the arrays among them that it can write to."""

    values: dict[str, str]
    integers: tuple[str, ...]
    writable: tuple[str, ...] = ()

    def inner(self) -> Scope:
        return Scope(dict(self.values), self.integers, self.writable)


class Nesting:
    """A random program of ``x`` (3,), ``w`` (3, 3) and an int ``n``: its source, and what it is as functx's and as plain Python loops.

    Args:
      random: where choices come from.
      depth: how deep loops and choices are nested.
    """

    def __init__(self, random: Random, depth: int):
        self.random, self.count = random, 0
        scope = Scope({"x": "v", "w": "m"}, ("n",))
        lines = self.statements(scope, depth, top=True)
        total = " + ".join(f"np.sum(np.sin({name} + {0.1 * k:.1f}))" for k, name in enumerate(scope.values))
        self.text = "\n".join(["def f(lib, np, x, w, n):", *_indented([*lines, f"return {total}"])]) + "\n"
        names: dict[str, Any] = {}
        exec(compile(self.text, "<nesting>", "exec"), names)
        self._f = names["f"]

    def traced(self, x: Any, w: Any, n: Any) -> Any:
        return self._f(fx, fnp, x, w, n)

    def plain(self, x: Any, w: Any, n: int) -> tuple[Any, list[Any]]:
        """The value, and the decisions on the way to it."""
        loops = PlainLoops()
        return self._f(loops, np, x, w, n), loops.decisions

    # --- drawing ---

    def name(self, kind: str = "v") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def integer(self, scope: Scope) -> str:
        """An index of an axis of 3."""
        name = self.random.choice((*scope.integers, "0", "1", "2"))
        return name if name.isdigit() else self.random.choice((f"{name} % 3", f"(2 - {name}) % 3", f"({name} + 1) % 3 - 3"))

    def expression(self, scope: Scope, kind: str, depth: int = 2) -> str:
        names = [name for name, k in scope.values.items() if k == kind]
        if names and self.random.random() < (0.3, 0.6, 1.0)[2 - depth]:
            return self.random.choice(names[-4:])
        if depth == 0:
            return {"s": "0.7", "v": "x", "m": "w"}[kind]
        fill = {k: _Again(lambda k=k: self.expression(scope, k, depth - 1)) for k in SHAPES}
        return "(" + self.random.choice(FORMS[kind]).format(**fill, i=_Again(lambda: self.integer(scope))) + ")"

    def statements(self, scope: Scope, depth: int, top: bool = False) -> list[str]:
        """A few lines, at least one of them a loop or choice if there is depth left, and the names that they define."""
        lines, left = [], self.random.choice((1, 1, 1, 2)) if depth else 0
        kinds = ["control"] * left + [self.random.choice(LINES) for _ in range(self.random.randrange(1, 3))]
        self.random.shuffle(kinds)
        for kind in ["array", *kinds] if top else kinds:
            lines += getattr(self, f"_{kind}")(scope, *([depth] if kind == "control" else []))
        return lines

    def _value(self, scope: Scope) -> list[str]:
        kind, name = self.random.choice("svvm"), self.name()
        line = f"{name} = {self.expression(scope, kind)}"
        scope.values[name] = kind
        return [line]

    def _array(self, scope: Scope) -> list[str]:
        kind, name = self.random.choice("vm"), self.name("a")
        scope.values[name] = kind
        scope.writable += (name,)
        return [f"{name} = np.zeros({SHAPES[kind]}, x.dtype)"]

    def _view(self, scope: Scope) -> list[str]:
        """A view of an array that can be written to, which can be written to itself."""
        if not scope.writable:
            return self._value(scope)
        base, name = self.random.choice(scope.writable), self.name()
        kind = scope.values[base]
        forms = {kind: _forms(VIEWS[kind])} | ({"v": ["{a}[{i}]", "{a}[:, {i}]"]} if kind == "m" else {})
        kind = self.random.choice(sorted(forms))
        scope.values[name] = kind
        scope.writable += (name,)
        return [f"{name} = {self.random.choice(forms[kind]).format(a=base, i=self.integer(scope))}"]

    def _write(self, scope: Scope) -> list[str]:
        if not scope.writable:
            return self._value(scope)
        name = self.random.choice(scope.writable)
        fill = {k: _Again(lambda k=k: self.expression(scope, k, 1)) for k in SHAPES}
        text = self.random.choice(WRITES[scope.values[name]])
        return [text.format(a=name, i=_Again(lambda: self.integer(scope)), **fill)]

    def _control(self, scope: Scope, depth: int) -> list[str]:
        return getattr(self, f"_{self.random.choice(CONTROL)}")(scope, depth)

    def function(self, scope: Scope, depth: int, header: str, takes: list[str], more: dict[str, str], result: str) -> list[str]:
        """A body: lines that unpack, the names that these bring (with types), more lines, and its result, with ``<kind>`` for values.

        Names with a ``c`` are of arrays that the body may write to.
        """
        inner = scope.inner()
        inner.values.update({name: kind for name, kind in more.items() if kind in SHAPES})
        inner.integers += tuple(name for name, kind in more.items() if kind == "i")
        inner.writable += tuple(name for name in more if name.startswith("c") and more[name] in WRITES)
        lines = self.statements(inner, depth - 1)
        for kind in SHAPES:
            while f"<{kind}>" in result:
                result = result.replace(f"<{kind}>", self._handed_on(inner, kind), 1)
        lines = [header, *_indented([*takes, *lines, f"return {result}"])]
        return ["@lib.checkpoint", *lines] if self.random.random() < 0.1 else lines

    def _handed_on(self, inner: Scope, kind: str) -> str:
        """An array as it is, most often the function's own, or something new."""
        arrays = [name for name in inner.writable if inner.values[name] == kind]
        if arrays and self.random.random() < 0.6:
            return self.random.choice(arrays[-2:])
        return f"np.sin({self.expression(inner, kind)})"

    def carry(self, scope: Scope) -> tuple[str, str, dict[str, str], str]:
        """A carry: its initial value, a pattern of names, their types, and the template of the next one."""
        kinds = [self.random.choice("svm") for _ in range(self.random.randrange(1, 4))]
        names = [self.name("c") for _ in kinds]
        starts = [self.random.choice((self.expression(scope, k), "0" if k == "s" else "x" if k == "v" else "w")) for k in kinds]
        types = dict(zip(names, kinds, strict=True))
        if len(kinds) == 1:
            return starts[0], names[0], types, f"<{kinds[0]}>"
        if self.random.random() < 0.3:
            return f"[{', '.join(starts)}]", f"[{', '.join(names)}]", types, f"[{', '.join(f'<{k}>' for k in kinds)}]"
        return f"({', '.join(starts)})", f"({', '.join(names)})", types, f"({', '.join(f'<{k}>' for k in kinds)})"

    def xs(self, scope: Scope) -> tuple[str, str, dict[str, str]]:
        """Something to go along, a pattern of names of one step, and their types."""
        one, two = self.name("c"), self.name("i")
        rows, numbers = self.expression(scope, "m", 1), self.expression(scope, "v", 1)
        choices = [
            (rows, one, {one: "v"}),
            (numbers, two, {two: "s"}),
            ("np.arange(3)", two, {two: "i"}),
            (f"({rows}, {numbers})", f"({one}, {two})", {one: "v", two: "s"}),
            (f"[{rows}, np.arange(3)]", f"[{one}, {two}]", {one: "v", two: "i"}),
        ]
        return self.random.choice(choices)

    def _scan(self, scope: Scope, depth: int) -> list[str]:
        body, carry, ys = self.name("f"), self.name(), self.name()
        start, pattern, types, template = self.carry(scope)
        y = self.random.choice("sv")
        ending = self.random.choice((", reverse=True", "", "")) + self.random.choice((", unroll=2", "", ""))
        if self.random.random() < 0.2:
            given, steps, stepped = f"None, 3{ending}", "_", {}
        else:
            given, steps, stepped = self.xs(scope)
            given += ending
        takes = [f"{pattern} = carry", f"{steps} = step"]
        lines = self.function(scope, depth, f"def {body}(carry, step):", takes, {**types, **stepped}, f"{template}, <{y}>")
        lines.append(f"{carry}, {ys} = lib.scan({body}, {start}, {given})")
        scope.values[ys] = "v" if y == "s" else "m"
        return lines + self._unpacked(scope, carry, types)

    def _map(self, scope: Scope, depth: int) -> list[str]:
        body, ys = self.name("f"), self.name()
        given, steps, stepped = self.xs(scope)
        y = self.random.choice("sv")
        lines = self.function(scope, depth, f"def {body}(step):", [f"{steps} = step"], stepped, f"<{y}>")
        scope.values[ys] = "v" if y == "s" else "m"
        return [*lines, f"{ys} = lib.map({body}, {given})"]

    def _loop(self, scope: Scope, depth: int, bounds: str) -> list[str]:
        body, carry, i = self.name("f"), self.name(), self.name("i")
        start, pattern, types, template = self.carry(scope)
        lines = self.function(scope, depth, f"def {body}({i}, carry):", [f"{pattern} = carry"], {**types, i: "i"}, template)
        return [*lines, f"{carry} = lib.fori_loop({bounds}, {body}, {start})", *self._unpacked(scope, carry, types)]

    def _fori(self, scope: Scope, depth: int) -> list[str]:
        return self._loop(scope, depth, self.random.choice(("0, 3", "1, 3", "-1, 2", "2, 2", "0, 2")))

    def _fori_traced(self, scope: Scope, depth: int) -> list[str]:
        bound = self.random.choice(scope.integers)
        return self._loop(scope, depth, self.random.choice(("0, {0}", "{0}, 3", "1, {0} + 1", "0, {0} % 3")).format(bound))

    def _while(self, scope: Scope, depth: int) -> list[str]:
        """A counter goes first in the carry, so that the loop ends."""
        body, test, carry, k = self.name("f"), self.name("f"), self.name(), self.name("k")
        start, pattern, types, template = self.carry(scope)
        asked = scope.inner()
        asked.values.update(types)
        limits = (f"({self.expression(asked, 's')} < 0.8137)", f"({self.expression(asked, 'v')}.sum() > -0.6139)")
        asks = f"return ({k} < {self.random.choice(('3', '2', 'n'))})" + self.random.choice(("", *(f" & {limit}" for limit in limits)))
        lines = [f"def {test}(carry):", *_indented([f"{k}, {pattern} = carry", asks])]
        lines += self.function(scope, depth, f"def {body}(carry):", [f"{k}, {pattern} = carry"], {**types, k: "i"}, f"{k} + 1, {template}")
        return [*lines, f"{carry} = lib.while_loop({test}, {body}, (0, {start}))[1]", *self._unpacked(scope, carry, types)]

    def _branches(self, scope: Scope, depth: int, count: int) -> tuple[list[str], list[str], str, str]:
        kind, operand, result = self.random.choice("svm"), self.name("c"), self.random.choice("svm")
        given = self.random.choice([name for name in scope.writable if scope.values[name] == kind] or [self.expression(scope, kind)])
        if given not in scope.writable:  # branches may write to operands
            given = f"({given} * 1.0)"
        names = [self.name("f") for _ in range(count)]
        lines = []
        for name in names:
            lines += self.function(scope, depth, f"def {name}({operand}):", [], {operand: kind}, f"<{result}>")
        return lines, names, given, result

    def _cond(self, scope: Scope, depth: int) -> list[str]:
        lines, (yes, no), given, kind = self._branches(scope, depth, 2)
        pred = self.random.choice(
            (f"{self.expression(scope, 's')} > 0.1237", f"{self.expression(scope, 'v')}[1] < 0.2631", f"{self.integer(scope)} == 1")
        )
        name = self.name()
        scope.values[name] = kind
        return [*lines, f"{name} = lib.cond({pred}, {yes}, {no}, {given})"]

    def _switch(self, scope: Scope, depth: int) -> list[str]:
        lines, names, given, kind = self._branches(scope, depth, self.random.choice((1, 2, 2, 3)))
        index = self.random.choice((*scope.integers, "1", f"{self.random.choice(scope.integers)} - 1"))
        name = self.name()
        scope.values[name] = kind
        return [*lines, f"{name} = lib.switch({index}, [{', '.join(names)}], {given})"]

    def _unpacked(self, scope: Scope, carry: str, types: dict[str, str]) -> list[str]:
        """The parts of a last carry as names of the function around."""
        names = [self.name() for _ in types]
        scope.values.update(zip(names, types.values(), strict=True))
        return [f"{', '.join(names)} = {carry}"]


class _Again:
    """Formats as something new each time."""

    def __init__(self, draw: Any):
        self.draw = draw

    def __format__(self, spec: str) -> str:
        return self.draw()


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def draw(seed: int) -> tuple[Nesting, np.ndarray, np.ndarray, int]:
    """The program of a seed, one to three deep, and its arguments."""
    random = Random(seed)
    rng = np.random.default_rng(seed)
    program = Nesting(random, random.choice((1, 2, 2, 3)))
    return program, rng.uniform(-1, 1, 3).round(3), rng.uniform(-1, 1, (3, 3)).round(3), random.randrange(4)
