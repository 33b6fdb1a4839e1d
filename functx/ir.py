"""The intermediate representation: typed, in single-assignment form, frozen. Graph order is execution order.

Roles are fields of a graph's inputs and outputs, never parsed from names. The only mutable thing here is the builder.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from functx import shapes
from functx.dtypes import Kind, name
from functx.source import Source
from functx.util import zip_strict


@dataclass(frozen=True, slots=True)
class AbstractArray:
    """The type of a value: shape (ints or Dims), dtype, and its kind at the boundary to Python.

    Equations work on arrays; the kind matters for inputs, results and tracers only.
    """

    shape: shapes.Shape
    dtype: np.dtype
    kind: Kind = Kind.ARRAY

    @property
    def weak(self) -> bool:
        """A Python scalar: weak in promotion (NEP 50)."""
        return self.kind is Kind.PYTHON

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes_hint(self) -> int:
        """Size in bytes, with hints for symbolic dimensions."""
        return shapes.size_hint(self.shape) * self.dtype.itemsize

    def same_array(self, other: AbstractArray) -> bool:
        """Equal shape and dtype, whatever the kind."""
        return self.shape == other.shape and self.dtype == other.dtype

    def with_kind(self, kind: Kind) -> AbstractArray:
        """This type at another kind."""
        return self if kind is self.kind else AbstractArray(self.shape, self.dtype, kind)

    def __str__(self) -> str:
        suffix = {Kind.PYTHON: "~", Kind.SCALAR: "'", Kind.ARRAY: ""}[self.kind]
        return f"{name(self.dtype)}[{','.join(str(d) for d in self.shape)}]{suffix}"


class Var:
    """A value of a graph, identified by itself. Names are given when printing."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class Literal:
    """A 0-d constant. Equal literals have equal dtype and equal bytes, so 1, 1.0 and True differ, and so do 0.0 and -0.0."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, dtype: np.dtype | None = None):
        array = np.asarray(value, dtype)
        self.value: np.generic = array[()]
        self.aval = AbstractArray((), array.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, bytes]:
        return self.value.dtype.str, self.value.tobytes()

    def __repr__(self) -> str:
        return f"Literal({self.value!r})"


Atom = Var | Literal


class Mark(NamedTuple):
    """Which reverse pass an equation belongs to, and on which side."""

    region: int
    phase: str  # "forward" or "backward"


@dataclass(frozen=True, slots=True, eq=False)
class Eqn:
    """``outputs = primitive[params](inputs)``, with the user's line, the reverse pass it belongs to and a recomputation id."""

    primitive: Any
    inputs: tuple[Atom, ...]
    params: Mapping[str, Any]
    outputs: tuple[Var, ...]
    source: Source | None = None
    mark: Mark | None = None
    remat: int | None = None

    @property
    def effect(self) -> bool:
        """Whether running it is seen from outside: it must be kept, once and in order. Of a loop or call its bodies decide."""
        primitive = self.primitive
        return primitive.effect or any(
            isinstance(value, Graph) and value.effect and name not in primitive.rules for name, value in self.params.items()
        )

    @property
    def symbolic(self) -> bool:
        """Whether a parameter depends on a symbolic size."""
        return any(map(_symbolic, self.params.values()))

    def replace(self, **changes: Any) -> Eqn:
        """A copy with other fields."""
        return replace(self, **changes)


class InRole(enum.Enum):
    """Why a graph has an input."""

    PRIMAL = "primal"
    TANGENT = "tangent"
    COTANGENT = "cotangent"
    RESIDUAL = "residual"
    CAPTURED = "captured"  # read by reference; the array lives beside the graph


class OutRole(enum.Enum):
    """Why a graph has an output."""

    RESULT = "result"
    WRITE = "write"  # the new value of input `target`
    TANGENT = "tangent"
    GRADIENT = "gradient"
    RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
class Input:
    """An input slot."""

    var: Var
    role: InRole = InRole.PRIMAL


@dataclass(frozen=True, slots=True)
class Output:
    """An output slot; its kind says as what the value is returned."""

    atom: Atom
    role: OutRole = OutRole.RESULT
    target: int | None = None
    kind: Kind = Kind.ARRAY

    def with_atom(self, atom: Atom) -> Output:
        """The same slot with another atom."""
        return Output(atom, self.role, self.target, self.kind)


@dataclass(frozen=True, eq=False)
class Graph:
    """A pure function over arrays: equations between input and output slots. ``consts`` are frozen arrays."""

    inputs: tuple[Input, ...]
    consts: tuple[tuple[Var, np.ndarray], ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Output, ...]

    @property
    def in_vars(self) -> list[Var]:
        """The variables of the input slots."""
        return [slot.var for slot in self.inputs]

    @property
    def in_avals(self) -> list[AbstractArray]:
        """The types of the inputs."""
        return [slot.var.aval for slot in self.inputs]

    @property
    def out_atoms(self) -> list[Atom]:
        """The atoms of the output slots."""
        return [slot.atom for slot in self.outputs]

    @property
    def out_avals(self) -> list[AbstractArray]:
        """The types of the outputs, with their kinds."""
        return [slot.atom.aval.with_kind(slot.kind) for slot in self.outputs]

    def outputs_of(self, role: OutRole) -> list[Output]:
        """The output slots of one role."""
        return [slot for slot in self.outputs if slot.role is role]

    def outputs_in(self, env: Mapping[Var, Atom]) -> tuple[Output, ...]:
        """The output slots with their atoms read from an environment."""
        return tuple(slot.with_atom(read(env, slot.atom)) for slot in self.outputs)

    @cached_property
    def effect(self) -> bool:
        """Whether evaluating it is seen from outside."""
        return any(eqn.effect for eqn in self.eqns)

    @cached_property
    def symbolic(self) -> bool:
        """Whether a size in it is symbolic."""
        avals = [*self.in_avals, *(v.aval for eqn in self.eqns for v in eqn.outputs)]
        return not all(shapes.is_static(a.shape) for a in avals) or any(eqn.symbolic for eqn in self.eqns)

    def replace(self, **changes: Any) -> Graph:
        """A copy with other fields."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return _formatter(self) if _formatter else repr(self)


def _symbolic(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_symbolic, value))
    return isinstance(value, shapes.Dim) or (isinstance(value, Graph) and value.symbolic)


_formatter: Callable[[Graph], str] | None = None


def set_formatter(f: Callable[[Graph], str]) -> None:
    """Let ``str(graph)`` print by ``f``; printing sits a room higher (functx.pretty)."""
    global _formatter
    _formatter = f


def freeze(array: np.ndarray) -> np.ndarray:
    """A read-only C-contiguous copy that nobody else holds."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


class GraphBuilder:
    """Collects equations. Transforms emit through it; a trace owns one.

    ``source``, ``mark`` and ``remat`` are stamped on every new equation.
    """

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.consts: dict[Var, np.ndarray] = {}
        self.source: Source | None = None
        self.mark: Mark | None = None
        self.remat: int | None = None

    def bind(self, primitive: Any, inputs: Sequence[Atom], params: Mapping[str, Any]) -> tuple[Var, ...]:
        """Append ``primitive`` applied to ``inputs``; returns the new output variables."""
        avals = primitive.out_avals([atom.aval for atom in inputs], params)
        outputs = tuple(Var(aval) for aval in avals)
        self.eqns.append(Eqn(primitive, tuple(inputs), params, outputs, self.source, self.mark, self.remat))
        return outputs

    def const(self, array: np.ndarray) -> Atom:
        """An atom for a constant array (a literal when it is 0-d)."""
        if array.ndim == 0:
            return Literal(array)
        var = Var(AbstractArray(array.shape, array.dtype))
        self.consts[var] = freeze(array)
        return var

    def inline(self, graph: Graph, atoms: Sequence[Atom], *, keep_marks: bool = True) -> list[Atom]:
        """Append a copy of ``graph`` applied to ``atoms``; returns the atoms of its outputs.

        The copied equations keep their own source lines, and their marks unless ``keep_marks`` is false.
        """
        env = self.enter(graph, atoms)
        for eqn in graph.eqns:
            self.append(eqn, env, keep_marks=keep_marks)
        return [read(env, atom) for atom in graph.out_atoms]

    def enter(self, graph: Graph, atoms: Sequence[Atom]) -> dict[Var, Atom]:
        """The environment in which to walk ``graph``: its inputs stand for ``atoms``, its constants are taken over."""
        env: dict[Var, Atom] = dict(zip_strict(graph.in_vars, atoms))
        for var, array in graph.consts:
            env[var] = fresh = Var(var.aval)
            self.consts[fresh] = array
        return env

    def append(self, eqn: Eqn, env: dict[Var, Atom], *, keep_marks: bool = True) -> None:
        """Append a copy of ``eqn`` with inputs read from ``env`` and fresh outputs written to it."""
        outputs = tuple(Var(v.aval) for v in eqn.outputs)
        inputs = tuple(read(env, a) for a in eqn.inputs)
        mark = (eqn.mark or self.mark) if keep_marks else self.mark
        remat = eqn.remat if eqn.remat is not None else self.remat
        self.eqns.append(Eqn(eqn.primitive, inputs, eqn.params, outputs, eqn.source or self.source, mark, remat))
        env.update(zip_strict(eqn.outputs, outputs))

    def build(self, inputs: Iterable[Input], outputs: Iterable[Output]) -> Graph:
        """The finished graph, with the constants that it uses."""
        eqns, inputs, outputs = tuple(self.eqns), tuple(inputs), tuple(outputs)
        used = {atom for eqn in eqns for atom in eqn.inputs} | {slot.atom for slot in outputs}
        consts = tuple((var, array) for var, array in self.consts.items() if var in used)
        return Graph(inputs, consts, eqns, outputs)


def read(env: Mapping[Var, Any], atom: Atom) -> Any:
    """The entry of a variable in an environment of atoms; a literal, or a variable that was not replaced, stands for itself."""
    return atom if isinstance(atom, Literal) else env.get(atom, atom)
