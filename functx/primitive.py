"""Primitives: rule slots, declared facts, the registry, and the emitter through which rules write equations.

Each derivative is written once. An elementwise primitive gives partial derivatives, a (bi)linear one its transposes, a higher-order one its
``jvp`` and ``vjp`` through the running interpreter; anything else gives ``jvp``, and reverse mode follows by transposing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functx.dtypes import is_complex
from functx.errors import MissingRuleError
from functx.ir import AbstractArray, Atom, Eqn, GraphBuilder, Literal

PRIMITIVES: dict[str, Primitive] = {}

_RECENT = 24  # equations among which the maker of a cotangent is looked for


@dataclass(eq=False, repr=False)
class Primitive:
    """An operation of the IR.

    Rules (``b`` is an :class:`Emitter`; ``ins`` and ``outs`` are atoms):
      impl(*arrays, **params): the reference implementation in NumPy.
      type_rule(*avals, **params): the type, or tuple of types, of the results.
      partials: per operand None (no derivative), a number, or ``f(b, out, *ins, **params)``, which may return None too. Where a function
        of complex numbers is not holomorphic, it gives the pair of the derivatives with respect to z and to its conjugate.
      transpose: ``{operand: f(b, ct, *ins, **params)}``, or ``f(b, ct, operand, *ins, **params)`` for any number of operands. The operands
        it is asked for are linear: only their types may be used.
      jvp(b, outs, ins, tangents, **params): tangents of the results (None: zero). Beside a transpose: where it is linear in some operands
        only.
      joint_jvp(b, ins, tangents, **params): results and their tangents at once; higher-order primitives only.
      vjp(b, ins, active, **params): results and a pull-back ``pull(b, cts) -> cts of ins``; higher-order primitives only.
      batch(b, ins, batched, size, **params): results and which of them are batched. Batch axes are always axis 0.
      add_to(b, x, *ins, **params): ``x`` plus the result where operand 0 is zeros, in place; None where that does not pay.
      prune(ins, used, **params): operands, parameters and which results remain, where only the ``used`` ones are wanted; control flow only.

    Facts:
      family: elementwise, reduction, linear, indexing, contraction, higher-order, ...
      linear: operands in which it is linear (jointly, unless ``bilinear``).
      recompute: "cheap", "costly" or "never", for the partitioner.
      views: the result can be a view of operand 0.
      cost: computing one element of the result, in additions; what decides whether a backend stores a value or computes it again.
      effect: must be kept and kept in order (of an equation: ``Eqn.effect``).
      rules: parameters with graphs of derivatives, which evaluating it does not run.
      checks(ins, **params): what running it verifies, as a hashable key (None: it cannot fail). An equation without use is kept for its
        check, unless another one checks the same.
      binds: the parameter that is a Dim which the equation binds: its size is known when it has run.
      flops(*avals, **params): floating-point operations.
    """

    name: str
    impl: Callable[..., Any]
    type_rule: Callable[..., Any]
    partials: Sequence[Any] | None = None
    transpose: Mapping[int, Callable[..., Any]] | Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    joint_jvp: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    add_to: Callable[..., Any] | None = None
    prune: Callable[..., Any] | None = None
    family: str = "other"
    linear: Sequence[int] | Callable[[int], bool] = ()
    bilinear: bool = False
    recompute: str = "cheap"
    views: bool = False
    cost: int = 1
    effect: bool = False
    rules: Sequence[str] = ()
    checks: Callable[..., Any] = field(default=lambda ins, **params: None)
    differentiable: bool = True
    multiple: bool = False
    binds: str = ""
    flops: Callable[..., int] = field(default=lambda *avals, **params: avals[0].nbytes_hint // avals[0].dtype.itemsize if avals else 0)

    def __post_init__(self) -> None:
        if self.name in PRIMITIVES:
            raise ValueError(f"a primitive named {self.name!r} exists already")
        PRIMITIVES[self.name] = self

    def out_avals(self, avals: Sequence[AbstractArray], params: Mapping[str, Any]) -> tuple[AbstractArray, ...]:
        """The types of the results."""
        out = self.type_rule(*avals, **params)
        return tuple(out) if self.multiple else (out,)

    def evaluate(self, arrays: Sequence[Any], params: Mapping[str, Any]) -> Sequence[Any]:
        """The results by the reference implementation."""
        out = self.impl(*arrays, **params)
        return out if self.multiple else (out,)

    def is_linear_in(self, operand: int) -> bool:
        """Whether the result is linear in this operand, the other non-linear operands fixed."""
        return self.linear(operand) if callable(self.linear) else operand in self.linear

    def transposed(self, b: Emitter, ct: Atom, operand: int, ins: Sequence[Atom], params: Mapping[str, Any]) -> Atom | None:
        """The cotangent of a linear operand."""
        if callable(self.transpose):
            return self.transpose(b, ct, operand, *ins, **params)
        if self.transpose is None or operand not in self.transpose:
            raise self.missing("transpose", f"operand {operand} of ")
        return self.transpose[operand](b, ct, *ins, **params)

    def missing(self, rule: str, of: str = "") -> MissingRuleError:
        """The error for a rule that is not there, naming the file to edit."""
        file = getattr(getattr(self.impl, "__code__", None), "co_filename", "the module that defines it")
        return MissingRuleError(
            f"no {rule} rule for {of}primitive '{self.name}'",
            why="the primitive was registered without it",
            fix=f"give Primitive('{self.name}', ..., {rule}=...) in {file}",
        )

    def __repr__(self) -> str:
        return self.name


def conjugate(b: Emitter, x: Atom) -> Atom:
    """The complex conjugate, which is x itself where x is real."""
    return b.conj(x) if is_complex(x.aval.dtype) else x


class Emitter(GraphBuilder):
    """A graph builder with one method per primitive: ``b.mul(x, y)``, ``b.reshape(x, shape=(3,))``.

    ``interpreter`` is the running transform. Rules of higher-order primitives call its ``jvp``, ``vjp`` and ``vmap`` on their sub-graphs.
    """

    def __init__(self, interpreter: Any = None) -> None:
        super().__init__()
        self.interpreter = interpreter

    def __getattr__(self, name: str) -> Callable[..., Any]:
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            raise AttributeError(f"no primitive named {name!r}")

        def emit(*inputs: Atom, **params: Any) -> Any:
            outputs = self.bind(primitive, inputs, params)
            return outputs if primitive.multiple else outputs[0]

        return emit

    def full(self, shape: tuple[Any, ...], value: Any, dtype: np.dtype) -> Atom:
        """A constant of one value in every place."""
        literal = Literal(value, dtype)
        return self.broadcast(literal, shape=tuple(shape), dims=()) if shape else literal

    def full_like(self, x: Atom, value: Any) -> Atom:
        """A constant with the shape and dtype of ``x``."""
        return self.full(x.aval.shape, value, x.aval.dtype)

    def zeros_like(self, x: Atom) -> Atom:
        """Zeros with the shape and dtype of ``x``."""
        return self.full_like(x, 0)

    def batched(self, x: Atom, is_batched: bool, size: Any) -> Atom:
        """``x`` with a batch axis in front, broadcast if it has none."""
        if is_batched:
            return x
        shape = x.aval.shape
        return self.broadcast(x, shape=(size, *shape), dims=tuple(range(1, len(shape) + 1)))

    def add_cotangents(self, a: Atom | None, c: Atom | None) -> Atom | None:
        """Their sum, where None is zero. What is zero but for a few places is added in these places only."""
        if a is None or c is None:
            return c if a is None else a
        for x, y in ((a, c), (c, a)):
            added = self._added_in_place(x, y)
            if added is not None:
                return added
        return self.add(a, c)

    def _added_in_place(self, x: Atom, y: Atom) -> Atom | None:
        """``x + y`` for a ``y`` that was just put into zeros: by a slice or by indices."""
        eqn = self._recent(y)
        if eqn is None or eqn.primitive.add_to is None or not self._is_zero(eqn.inputs[0]):
            return None
        return eqn.primitive.add_to(self, x, *eqn.inputs, **eqn.params)

    def _recent(self, atom: Atom) -> Eqn | None:
        """The equation that computes an atom, if it is one of the last few."""
        return next((e for e in reversed(self.eqns[-_RECENT:]) if atom in e.outputs), None)

    def _is_zero(self, atom: Atom) -> bool:
        eqn = self._recent(atom)
        fill = eqn.inputs[0] if eqn is not None and eqn.primitive.name == "broadcast" else atom
        return isinstance(fill, Literal) and fill.value == 0
