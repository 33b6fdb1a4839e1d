"""What has to be computed before an array is partly overwritten, so that the write can happen in the array itself.

A value that is evaluated where it is needed may be needed after a write into an array that it reads: then the whole array would have to be
copied before. Such values are materialized. Of an input that is written, what is read after the write is saved before. Knows equations and
which of them are evaluated in place; who shares loops or memory is decided later, and a copy is made where this does not suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from functx.backends.loops import rules
from functx.backends.loops.affine import ZERO, LoopVar, linear, var
from functx.backends.loops.describe import writes_places_twice, written_place
from functx.backends.loops.nodes import Load
from functx.backends.loops.ordering import closure
from functx.backends.loops.scope import Scope
from functx.ir import Atom, Eqn, Var


@dataclass
class Overwritten:
    """What was found.

    Attributes:
      bases: arrays that nothing needs after the last write into them (or nothing that could not be computed before), with its number.
      saved: for the number of a partial write the copy that is made before it, and of what.
    """

    bases: dict[Var, int] = field(default_factory=dict)
    saved: dict[int, tuple[Var, Var]] = field(default_factory=dict)


class Overwrites:
    """The partial writes of a graph and what reads their bases.

    Args:
      eqns: all equations; those that have to read a saved array are replaced.
      definitions: the equations that may be evaluated in place, by their results; the same happens to them.
      memory: the variables in memory; values that have to be computed early join them.
      live: the numbers of the equations that count, ascending; ``writes``: of the partial writes among them.
      kept: variables whose buffers must keep their values; ``inputs``: those that are written.
    """

    def __init__(
        self,
        eqns: list[Eqn],
        definitions: dict[Var, Eqn],
        memory: set[Var],
        live: Sequence[int],
        writes: Iterable[int],
        kept: AbstractSet[Atom],
        inputs: AbstractSet[Var],
    ):
        self.eqns, self.definitions, self.memory, self.live, self.inputs = eqns, definitions, memory, live, inputs
        self.numbers = {v: number for number, eqn in enumerate(eqns) for v in eqn.outputs}
        bases = {eqns[number].inputs[0]: number for number in writes}  # the last write of a base is the one that may overwrite it
        self.writer = {v: number for v, number in bases.items() if v in memory and v not in kept}
        self.following: dict[int, set[int]] = {}  # what comes after an equation: what it makes is read, or what it reads is overwritten
        self.after: dict[Var, set[int]] = {}  # what comes after the write into a base
        self.saved: dict[Var, tuple[Var, int]] = {}  # the copy of an input, and the number of the write before which it is made

    def run(self) -> Overwritten:
        """Materialize values, and save inputs."""
        if not self.writer:
            return Overwritten()
        self._follow()
        reads: dict[Var, set[Var]] = {}
        for number in self.live:
            found: set[Var] = set()
            for k, atom in enumerate(self.eqns[number].inputs):
                if atom in self.writer:
                    found |= self._direct(number, k, atom)
                elif atom in reads and atom not in self.memory:
                    found |= self._through(number, k, atom, reads[atom])
            if self._is_inline(number):
                reads[self.eqns[number].outputs[0]] = found
        return Overwritten(self.writer, {number: (copy, x) for x, (copy, number) in self.saved.items()})

    def _is_inline(self, number: int) -> bool:
        outputs = self.eqns[number].outputs
        return len(outputs) == 1 and outputs[0] in self.definitions and outputs[0] not in self.memory

    def _follow(self) -> None:
        """Note for every equation what has to come after it."""
        reads: dict[Var, set[Var]] = {}
        for number in self.live:
            found: set[Var] = set()
            for atom in self.eqns[number].inputs:
                if atom in self.numbers:
                    self.following.setdefault(self.numbers[atom], set()).add(number)
                found |= {atom} if atom in self.writer else reads.get(atom, set())
            if self._is_inline(number):
                reads[self.eqns[number].outputs[0]] = found
            else:
                self.following.setdefault(number, set()).update(self.writer[x] for x in found if self.writer[x] > number)

    def _comes_after(self, number: int, base: Var) -> bool:
        """Whether an equation follows the write into a base. Bases that are no inputs may be many: there the order of the graph counts."""
        write = self.writer[base]
        if number <= write or base not in self.inputs:
            return number > write
        if base not in self.after:
            self.after[base] = closure({write}, lambda n: self.following.get(n, set()))
        return number in self.after[base]

    def _direct(self, number: int, operand: int, base: Var) -> set[Var]:
        """An equation reads a base: after the write it has to read a copy, and if that does not pay, the base is kept."""
        if not self._comes_after(number, base) and not (number == self.writer[base] and operand > 0):
            return {base}
        if base in self.inputs:
            copy, _ = self.saved.setdefault(base, (Var(base.aval), self.writer[base]))
            self.memory.add(copy)
            self._replace(number, base, copy)
        else:
            del self.writer[base]
        return set()

    def _replace(self, number: int, base: Var, copy: Var) -> None:
        first = int(number == self.writer[base])  # a write stays a write into the base
        eqn = self.eqns[number]
        inputs = (*eqn.inputs[:first], *(copy if a is base else a for a in eqn.inputs[first:]))
        self.eqns[number] = eqn = eqn.replace(inputs=inputs)
        self.definitions.update((v, eqn) for v in eqn.outputs if v in self.definitions)

    def _through(self, number: int, operand: int, atom: Var, bases: set[Var]) -> set[Var]:
        """An equation evaluates an operand that reads bases: too late if one of them has been overwritten by then."""
        late = [x for x in bases if x in self.writer and self._is_late(number, operand, atom, x)]
        if any(_bytes(atom) <= _bytes(x) for x in late):
            self.memory.add(atom)
            return set()
        for x in late:
            del self.writer[x]
        return bases

    def _is_late(self, number: int, operand: int, atom: Var, base: Var) -> bool:
        if number == self.writer[base]:
            return not self._reads_its_own_places(self.eqns[number], operand)
        return self._comes_after(number, base) and not self._comes_after(self.numbers[atom], base)

    def _reads_its_own_places(self, eqn: Eqn, operand: int) -> bool:
        """Whether the update of a partial write reads of its base only the places that it writes, each when it is."""
        if operand != 1 or writes_places_twice(eqn):
            return False
        base, update = eqn.inputs[:2]
        scope = Scope(self.definitions, rules.rule_of, self.memory.__contains__)
        index = tuple(ZERO if d == 1 else var(LoopVar(f"x{k}", d)) for k, d in enumerate(update.aval.shape))
        scope.value(update, index)
        read = {node.offset for node in scope.nodes if isinstance(node, Load) and node.var is base}
        return read == {linear(written_place(scope, eqn, index), base.aval.shape)}


def _bytes(atom: Atom) -> int:
    return atom.aval.nbytes_hint
