"""What has to exist in memory, and what is computed wherever it is needed.

It classifies equations and decides what to materialize: results, operands of library calls, costly values needed in several places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functx.backend import write_map
from functx.backends.loops import describe, rules
from functx.backends.loops.describe import dot_sizes
from functx.backends.loops.overwrites import Overwrites, Overwritten
from functx.backends.loops.roots import Analysis, CheckRoot, Target
from functx.backends.loops.sizes import is_at_least
from functx.ir import Atom, Eqn, Graph, Literal, OutRole, Var
from functx.shapes import hints, size_hint

MAX_NODES = 64  # values that one root may evaluate in place
WORTH_STORING = 16  # recomputing this much costs more than a store and the loads

# --- classification -----------------------------------------------------------------------------------------------------------------------

INDEX, REDUCE, RUNNING, MATMUL, WRITE, PARTS = "index", "reduce", "running", "matmul", "write", "parts"
SORT, TOP_K, CALL = "sort", "top_k", "call"


def classify(eqn: Eqn, target: Target, definitions: dict[Var, Eqn]) -> str:
    """How an equation is lowered."""
    name = eqn.primitive.name
    if eqn.effect or not target.supports(eqn):
        return CALL
    if name in (SORT, TOP_K):
        return name
    if eqn.primitive.multiple:
        return CALL
    if name in ("argmax", "argmin") and not is_at_least(eqn.inputs[0].aval.shape[eqn.params["axis"]], 1):
        return CALL  # of nothing there is no place: the reference raises
    if name.startswith("reduce_") or name in ("argmax", "argmin"):
        return REDUCE
    if name == "dot_general":
        batch, m, n, k = hints(dot_sizes(eqn))
        if not eqn.params["contract"][0]:
            return INDEX
        large = m * n * k >= 512 and min(m, n) > 1 and k >= 4 and max(m, n, k) < 2**31 and batch > 0
        return MATMUL if large and target.multiplies(eqn.outputs[0].aval.dtype) is not None else REDUCE
    if name in describe.RUNNING:
        return RUNNING
    if name in describe.SCATTER or name == "dynamic_update_slice":
        return WRITE
    if name == "slice_set":
        if 0 in eqn.inputs[1].aval.shape:
            return INDEX
        unit = all(abs(step) == 1 for step in eqn.params["steps"])
        return INDEX if unit and _is_fill(eqn.inputs[0], definitions) else WRITE
    if name == "concatenate":
        return INDEX if size_hint(eqn.outputs[0].aval.shape) <= 64 else PARTS
    return INDEX if rules.rule_of(eqn) else CALL


def _is_fill(atom: Atom, definitions: dict[Var, Eqn]) -> bool:
    while isinstance(atom, Var):
        eqn = definitions.get(atom)
        if eqn is None or eqn.primitive.name not in ("broadcast", "reshape"):
            return False
        atom = eqn.inputs[0]
    return True


# --- the analysis -------------------------------------------------------------------------------------------------------------------------


def analyse(graph: Graph, target: Target, binders: Mapping[str, Var]) -> Analysis:
    """Decide what is materialized, and describe it. ``binders``: sizes that become known on the way -> what tells them."""
    return _Analyser(graph, target, binders).run()


class _Analyser:
    def __init__(self, graph: Graph, target: Target, binders: Mapping[str, Var]):
        self.graph, self.eqns, self.binders, self.target = graph, list(graph.eqns), binders, target
        self.producer = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
        self.numbers = {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
        self.kinds = [classify(eqn, target, self.producer) for eqn in graph.eqns]
        self.given = set(graph.in_vars) | {v for v, _ in graph.consts}
        self.definitions = {v: eqn for v, eqn in self.producer.items() if self.kinds[self.numbers[v]] == INDEX}
        self.memory = set(self.given) | {v for v in self.producer if v not in self.definitions}
        self.memory |= {atom for atom in graph.out_atoms if isinstance(atom, Var)}
        self.checks: dict[int, list[CheckRoot]] = {}

    def run(self) -> Analysis:
        self._check()
        live = self._live()
        self._force(live)
        self._share(live)
        self._bound(live)
        found = self._overwrites(live)
        describer = describe.Describer(self.definitions, self.memory, self.target)
        for number, eqn in enumerate(self.eqns):
            if number in found.saved:
                describer.copy(*found.saved[number])
            describer.roots += self.checks.get(number, ())
            if number in live and (self.kinds[number] != INDEX or eqn.outputs[0] in self.memory):
                describer.describe(number, eqn, self.kinds[number])
        results, repeats = self._results(describer)
        written = {results[k]: self.graph.in_vars[i] for k, i in write_map(self.graph).items() if results[k] not in self.given}
        return Analysis(
            self.graph,
            self.definitions,
            self.memory,
            describer.roots,
            self.checks,
            self.numbers,
            results,
            repeats,
            written,
            self.binders,
            found.bases,
        )

    def _results(self, describer: describe.Describer) -> tuple[list[Var], list[tuple[Var, Var]]]:
        """A variable of its own for every output; new values of inputs come first, for they stay where they are made."""
        results: dict[int, Var] = {}
        repeats: list[tuple[Var, Var]] = []
        taken, outputs = set(self.given), self.graph.outputs
        for k in sorted(range(len(outputs)), key=lambda k: outputs[k].role is not OutRole.WRITE):
            atom, target = outputs[k].atom, outputs[k].target
            if isinstance(atom, Var) and (atom not in taken or target is not None and atom is self.graph.in_vars[target]):
                results[k] = atom
                taken.add(atom)
                continue
            results[k] = copy = Var(atom.aval)
            if isinstance(atom, Var):
                repeats.append((copy, atom))
            else:
                describer.store(-1, copy, lambda scope, index, atom=atom: scope.value(atom, ()), ())
        return [results[k] for k in range(len(outputs))], repeats

    def _overwrites(self, live: set[int]) -> Overwritten:
        """Materialize what has to be computed before arrays are overwritten."""
        numbers = sorted(live)
        writes = [number for number in numbers if self.kinds[number] == WRITE]
        inputs = {self.graph.in_vars[i] for i in write_map(self.graph).values()}
        kept = (self.given | set(self.graph.out_atoms)) - inputs
        found = Overwrites(self.eqns, self.definitions, self.memory, numbers, writes, kept, inputs).run()
        self._check()
        return found

    def _check(self) -> None:
        checks = ((number, list(self._checks(number, eqn))) for number, eqn in enumerate(self.eqns))
        self.checks = {number: found for number, found in checks if found}

    def _checks(self, number: int, eqn: Eqn) -> Sequence[CheckRoot]:
        name = eqn.primitive.name
        if self.kinds[number] == CALL:
            return ()
        if name == "convert" and eqn.params["checked"]:
            return (CheckRoot(number, "overflow", eqn.inputs[0], dtype=eqn.params["dtype"]),)
        if name != "gather" and name not in describe.SCATTER:
            return ()
        shape, indices = eqn.inputs[0].aval.shape, eqn.inputs[1 if name == "gather" else 2 :]
        return [
            CheckRoot(number, "index", index, axis=axis, size=shape[axis])
            for index, axis in zip(indices, eqn.params["axes"], strict=True)
            if not rules.always_fits(index, self.producer, shape[axis])
        ]

    def _live(self) -> set[int]:
        """Equations that results, effects or checks depend on."""
        stack: list[Atom] = list(self.graph.out_atoms)
        stack += [check.atom for checks in self.checks.values() for check in checks]
        live: set[int] = set()
        binders = set(self.binders.values())  # what tells a size may be read by nobody
        pending = [i for i, eqn in enumerate(self.eqns) if eqn.effect or not binders.isdisjoint(eqn.outputs)]
        while stack or pending:
            number = pending.pop() if pending else self.numbers.get(stack.pop())
            if number is not None and number not in live:
                live.add(number)
                stack += self.eqns[number].inputs
        return live

    def _force(self, live: set[int]) -> None:
        """Operands that must lie in memory."""
        for number in live:
            eqn, kind = self.eqns[number], self.kinds[number]
            if kind == CALL:
                self.memory.update(a for a in eqn.inputs if isinstance(a, Var))
            elif kind == MATMUL:
                self.memory.update(a for a in map(self._peel, eqn.inputs) if isinstance(a, Var))

    def _peel(self, atom: Atom) -> Atom:
        """What a chain of views looks at."""
        while atom not in self.memory and atom in self.definitions and self.definitions[atom].primitive.views:
            atom = self.definitions[atom].inputs[0]
        return atom

    def _share(self, live: set[int]) -> None:
        """Materialize what would be recomputed at too many places, last equations first, so that consumers are decided already."""
        costs = self._costs()
        sites: dict[Var, set[int]] = {}
        numbered: dict[tuple[object, ...], int] = {}  # a site is a path from an equation that is evaluated by itself; the path's number
        grown: set[Var] = set()

        def site(*path: object) -> int:
            return numbered.setdefault(path, len(numbered))

        for checks in self.checks.values():
            for check in checks:
                sites.setdefault(check.atom, set()).add(site(check))
        for number in sorted(live, reverse=True):
            eqn, inline, where = self.eqns[number], False, set()
            if self.kinds[number] == INDEX:
                out = eqn.outputs[0]
                where = sites.get(out, set())
                if out not in self.memory:
                    costly = costs[out] * (min(len(where), 32) - 1) >= WORTH_STORING or (out in grown and costs[out] >= 4)
                    inline = not costly
                    if costly:
                        self.memory.add(out)
            base = where if inline else {site(number)}
            for k, atom in enumerate(eqn.inputs):
                if atom in self.memory or isinstance(atom, Literal):
                    continue
                mine = sites.setdefault(atom, set())
                if len(mine) < 32:
                    mine |= base if rules.same_index(eqn) else {site(s, number, k) for s in base}
                if (inline and eqn.outputs[0] in grown) or self._grows(number, eqn, k):
                    grown.add(atom)

    def _grows(self, number: int, eqn: Eqn, operand: int) -> bool:
        """Whether an operand computed in place would be computed more often than it has elements."""
        if self.kinds[number] == REDUCE and eqn.primitive.name == "dot_general":
            _, m, n, _ = hints(dot_sizes(eqn))
            return (n if operand == 0 else m) > 1
        if self.kinds[number] != INDEX or eqn.primitive.name not in ("broadcast", "gather", "lattice", "dot_general"):
            return False
        return size_hint(eqn.outputs[0].aval.shape) > size_hint(eqn.inputs[operand].aval.shape)

    def _costs(self) -> dict[Var, int]:
        """Rough cost per element of computing a value in place from what surely is in memory."""
        costs: dict[Var, int] = {}
        for eqn in self.eqns:
            for out in eqn.outputs:
                if out in self.definitions:
                    own = 0 if eqn.primitive.views else eqn.primitive.cost
                    inputs = {a for a in eqn.inputs if isinstance(a, Var)}
                    costs[out] = min(own + sum(1 if a in self.memory else costs.get(a, 1) for a in inputs), 1000)
        return costs

    def _bound(self, live: set[int]) -> None:
        """Keep the values that one root evaluates in place below MAX_NODES."""
        sizes: dict[Var, frozenset[object]] = {}
        for number in sorted(live):
            eqn = self.eqns[number]
            if self.kinds[number] == PARTS:
                continue  # every operand is a root by itself
            same_index = rules.same_index(eqn)
            atoms = {a for a in eqn.inputs if a in sizes and a not in self.memory}
            while True:
                nodes = frozenset().union(*(sizes[a] if same_index else ((number, n) for n in sizes[a]) for a in atoms))
                if len(nodes) < MAX_NODES or not atoms:
                    break
                largest = max(atoms, key=lambda a: (len(sizes[a]), self.numbers[a]))
                self.memory.add(largest)
                atoms.discard(largest)
            if self.kinds[number] == INDEX:
                sizes[eqn.outputs[0]] = nodes | {number}
