"""Where every value lives: registers, row buffers, outputs, inputs that are written, one workspace arena, or, where its size becomes known
on the way, a block of its own; which values share memory.

A value may take over the buffer of one that is read for the last time by the same kernel, at the same place. A partial write (slice_set,
scatter) takes over the buffer of its base, or is preceded by a copy. The new value of an input ends in the input's own buffer: it is made
there if the old value is not read any more and nothing that follows can fail, else copied there at the end. Other inputs are never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from functx.backends.loops.affine import Affine, LoopVar, substitute, var
from functx.backends.loops.arena import arrange
from functx.backends.loops.clusters import Group, reduces_into
from functx.backends.loops.nodes import Call, Check, Copy, Form, Kernel, Load, Loop, MatMul, Place, Sort, Stage, Step, Storage, Store
from functx.backends.loops.roots import StoreRoot
from functx.backends.loops.sizes import hint, is_at_least, nbytes, symbols
from functx.ir import Var
from functx.shapes import Size, size
from functx.util import unique

ROW_BYTES = 16384  # a row kept between the stages of a kernel lies on the stack up to this size


def reads(step: Step) -> list[Var]:
    """The buffers that a step reads, once each (of a kernel: possibly values that it also makes)."""
    if isinstance(step, Kernel):
        return unique(node.var for stage in step.stages for node in stage.nodes if isinstance(node, Load))
    if isinstance(step, MatMul):
        return unique([step.x.var, step.y.var])
    return [step.source] if isinstance(step, Copy) else unique(v for v in step.inputs if isinstance(v, Var))


def writes(step: Step) -> list[Var]:
    """The buffers that a step writes, once each."""
    if isinstance(step, Kernel):
        return unique(e.var for stage in step.stages for e in stage.effects if not isinstance(e, Check))
    if isinstance(step, Sort):
        return [*step.outputs, step.order]
    return list(step.outputs) if isinstance(step, Call) else [step.out]


def can_fail(step: Step) -> bool:
    """Whether a step may end the call early."""
    if isinstance(step, Loop):
        return any(can_fail(inner) for body in step.bodies.values() for inner in body.steps)
    return isinstance(step, Call) or isinstance(step, Kernel) and any(isinstance(e, Check) for s in step.stages for e in s.effects)


@dataclass(eq=False)
class _Shared:
    """Values that share one buffer: when the first of them is made and the last is read, and where they have to lie, if that is fixed."""

    members: list[Var]
    born: int
    dies: int
    home: Storage | None


def own_place(offset: Affine, stage: Stage) -> str:
    """An offset as text in which the stage's own axes are numbered, so that stages compare."""
    own = {v: LoopVar(f"#{k}", v.size) for k, v in enumerate(stage.axes)}
    return substitute(offset, lambda v: var(own[v]) if v in own else None).key


def _row_bytes(group: Group, v: Var, stage: int) -> Size:
    return size(group.inner[stage]) * v.aval.dtype.itemsize


def local_places(kernel: Kernel, group: Group, used_outside: set[Var]) -> dict[Var, Storage]:
    """Values of a kernel that need no buffer: read in the stage that makes them, carried from stage to stage, or kept as a row."""
    loaded = set(reads(kernel))
    out: dict[Var, Storage] = {}
    for v, stage in group.stage_of.items():
        if v in used_outside:
            continue
        if v not in loaded:
            out[v] = Storage(Place.REGISTER)
        elif group.form is Form.ROWS and not reduces_into(group, v) and is_at_least(ROW_BYTES, _row_bytes(group, v, stage)):
            out[v] = Storage(Place.ROW)
    return out


def _same_memory(a: Var, b: Var) -> bool:
    return a.aval.dtype == b.aval.dtype and size(a.aval.shape) == size(b.aval.shape)


class Planner:
    """Lifetimes and sharing over the steps of one graph.

    Args:
      given: inputs and constants.
      results: where the results lie. The new value of an input lies where the input does; None where nobody knows the size before.
      written: the new values of inputs -> the inputs.
      known: the names of sizes that are known before the call; what has others does not lie in the arena.
    """

    def __init__(
        self,
        steps: Sequence[tuple[Step, Group]],
        given: Iterable[Var],
        results: Mapping[Var, Storage | None],
        written: Mapping[Var, Var],
        known: AbstractSet[str],
    ):
        self.given, self.results, self.written, self.known = set(given), results, written, known
        self.inputs = {results[new]: old for new, old in written.items()}  # by where they lie
        self.groups = {id(step): group for step, group in steps}
        self.steps = [step for step, _ in steps]
        self.last_failure = max((time for time, step in enumerate(self.steps) if can_fail(step)), default=-1)
        self.storage: dict[Var, Storage] = {}
        self.shared: dict[Var, _Shared] = {}  # the buffer of every value that is made, and of every input that is written
        self.candidates: dict[Var, list[Var]] = {}  # what a value may overwrite by the way in which its kernel reads it

    def run(self) -> tuple[list[Step], dict[Var, Storage], Size, dict[Var, tuple[int, int]]]:
        """The steps with the copies that they need, the places, the bytes of the arena, and from when to when it needs each variable."""
        self._lifetimes()
        self._locals()
        kernels = [(time, step) for time, step in enumerate(self.steps) if isinstance(step, Kernel)]
        candidates = [(time, self._overwritable_bases(step) | self._overwritable(step)) for time, step in kernels]
        self.candidates = {v: old for _, found in candidates for v, old in found.items()}
        for time, found in reversed(candidates):  # backwards: where the last value of a chain has to lie decides for the others
            for v in found:
                self._take_over(time, v)
        steps = [*self._with_copies(), *self._copies_into_inputs()]
        storage, total = self._arena()
        return steps, storage, total, self._lives(steps)

    def _lifetimes(self) -> None:
        self.born: dict[Var, int] = {}
        self.dies: dict[Var, int] = {}
        for time, step in enumerate(self.steps):
            for v in writes(step):
                self.born.setdefault(v, time)
                self.dies[v] = max(self.dies.get(v, 0), time)
            for v in reads(step) + self._bases(step):
                self.dies[v] = max(self.dies.get(v, 0), time)
        for v in self.results:
            self.dies[v] = len(self.steps)
        made = [v for v in self.dies if v not in self.given]
        for v in made:
            self.born.setdefault(v, self.dies[v])  # a value without elements: no step makes it, but some may be given its place
        self.shared = {v: _Shared([v], self.born[v], self.dies[v], self.results.get(v)) for v in made}
        for new, old in self.written.items():
            self.shared[old] = _Shared([old], -1, self.dies.get(old, -1), self.results[new])

    def _bases(self, step: Step) -> list[Var]:
        return [r.base for r in self._partial_roots(step) if r.base is not None]

    def _partial_roots(self, step: Step) -> list[StoreRoot]:
        return [r for r in self.groups[id(step)].roots if isinstance(r, StoreRoot) and not r.whole]

    def _locals(self) -> None:
        readers: dict[Var, set[int]] = {}
        for time, step in enumerate(self.steps):
            for v in reads(step) + self._bases(step):
                readers.setdefault(v, set()).add(time)
        for time, step in enumerate(self.steps):
            if isinstance(step, Kernel):
                outside = {v for v in writes(step) if v in self.results or readers.get(v, set()) - {time}}
                outside |= {r.var for r in self._partial_roots(step) if r.base is not None}  # its base may have to be copied into it
                self.storage.update(local_places(step, self.groups[id(step)], outside))

    # --- sharing --------------------------------------------------------------------------------------------------------------------------

    def _take_over(self, time: int, new: Var) -> None:
        """Let a value live in the buffer of one that it may overwrite, best in one that lies where it has to lie itself."""
        free = [old for old in self.candidates.get(new, ()) if self._free_to_share(old, new, time)]
        if free:
            home = self.shared[new].home
            self._join(new, next((old for old in free if home is not None and self.shared[old].home == home), free[0]))

    def _free_to_share(self, old: Var, new: Var, time: int) -> bool:
        """Whether the buffer of ``old`` can pass to ``new`` at this time."""
        if old not in self.shared or old in self.storage or new in self.storage or self.dies[old] != time or self.born[new] != time:
            return False
        a, b = self.shared[old], self.shared[new]
        if a is b or not a.dies <= time <= b.born or not _same_memory(old, new):
            return False
        if a.home is not None:  # an input that is written
            return a.home == b.home and time > self.last_failure
        return not (self._can_be_made_in_input(b) and self._lives_beside_input(old, b))

    def _can_be_made_in_input(self, buffer: _Shared) -> bool:
        """Whether all values of a buffer are made after the last use of the input in whose buffer they have to end."""
        x = self.inputs.get(buffer.home)
        return x is not None and buffer.born > max(self.shared[x].dies, self.last_failure) and _same_memory(x, buffer.members[0])

    def _lives_beside_input(self, v: Var, buffer: _Shared) -> bool:
        """Whether a value is needed before that input can be overwritten."""
        x = self.inputs[buffer.home]
        return self.born[v] <= self.shared[x].dies and x not in self.candidates.get(v, ())

    def _join(self, new: Var, old: Var) -> None:
        """Let ``new`` live in the buffer of ``old``."""
        a, b = self.shared[new], self.shared[old]
        large, small = (a, b) if len(a.members) >= len(b.members) else (b, a)
        large.members += small.members
        large.born, large.dies = min(a.born, b.born), max(a.dies, b.dies)
        large.home = a.home if b.home is None else b.home
        self.shared.update(dict.fromkeys(small.members, large))

    def _overwritable_bases(self, step: Kernel) -> dict[Var, list[Var]]:
        """A partial write may overwrite its base if nothing else of it is read, or only the places that are written, each when it is."""
        bases = self._bases(step)
        roots = [r for r in self._partial_roots(step) if r.base is not None and bases.count(r.base) == 1]
        return {r.var: [r.base] for r in roots if self._reads_what_it_writes(step, r)}

    def _reads_what_it_writes(self, step: Kernel, r: StoreRoot) -> bool:
        for stage in step.stages:
            written = {e.offset for e in stage.effects if isinstance(e, Store) and e.var is r.var}
            read = {n.offset for n in stage.nodes if isinstance(n, Load) and n.var is r.base}
            if read and (r.serial or read != written):
                return False
        return True

    def _overwritable(self, step: Kernel) -> dict[Var, list[Var]]:
        """A stored value may overwrite one that its row reads at the very place of the store only, and not after it."""
        if step.serial or step.form is Form.COLUMNS:
            return {}
        partial = {r.var for r in self._partial_roots(step)}
        places: dict[Var, set[str]] = {}
        last: dict[Var, int] = {}
        for k, stage in enumerate(step.stages):
            for node in stage.nodes:
                if isinstance(node, Load):
                    places.setdefault(node.var, set()).add(own_place(node.offset, stage))
                    last[node.var] = k
        out: dict[Var, list[Var]] = {}
        for k, stage in enumerate(step.stages):
            for effect in stage.effects:
                if isinstance(effect, Store) and effect.var not in partial:
                    where = {own_place(effect.offset, stage)}
                    out[effect.var] = [v for v in places if places[v] == where and last[v] <= k]
        return out

    # --- results --------------------------------------------------------------------------------------------------------------------------

    def _with_copies(self) -> list[Step]:
        out: list[Step] = []
        for step in self.steps:
            for r in self._partial_roots(step):
                if r.base is not None and self.shared.get(r.base) is not self.shared[r.var]:
                    out.append(Copy(r.var, r.base, (r.eqn,)))
            out.append(step)
        return out

    def _copies_into_inputs(self) -> list[Step]:
        """Copies of the new values that could not be made in their inputs."""
        out: list[Step] = []
        for new, old in self.written.items():
            buffer = self.shared[new]
            if self._can_be_made_in_input(buffer):
                self._join(new, old)
            elif buffer is not self.shared[old]:
                buffer.home = None
                out.append(Copy(old, new))
        return out

    def _arena(self) -> tuple[dict[Var, Storage], Size]:
        buffers = dict.fromkeys(self.shared[v] for v in self.born if v not in self.storage and v not in self.given)
        blocks, late = [], 0
        for buffer in buffers:
            if buffer.home is not None:
                self.storage.update(dict.fromkeys(buffer.members, buffer.home))
                continue
            needed = max(map(nbytes, buffer.members), key=hint)
            if symbols(d for v in buffer.members for d in v.aval.shape) <= self.known:  # not of the bytes: these may be 0 for all sizes
                blocks.append((buffer, needed, buffer.born, buffer.dies))
            else:
                self.storage.update(dict.fromkeys(buffer.members, Storage(Place.HEAP, late)))
                late += 1
        offsets, total = arrange(blocks)
        for buffer, offset in offsets.items():
            self.storage.update(dict.fromkeys(buffer.members, Storage(Place.WORKSPACE, offset)))
        return self.storage, total

    def _lives(self, steps: Sequence[Step]) -> dict[Var, tuple[int, int]]:
        """The first and the last step that need a variable in memory, of all steps."""
        at = {id(step): k for k, step in enumerate(steps)}
        ends = [*(at[id(step)] for step in self.steps), len(steps)]
        lives: dict[Var, tuple[int, int]] = {}
        for k, step in enumerate(steps):
            for v in writes(step):
                if self._is_in_memory(v):
                    lives.setdefault(v, (k, ends[self.dies[v]] if v in self.born else k))
        return lives

    def _is_in_memory(self, v: Var) -> bool:
        storage = self.storage.get(v)
        return storage is None or storage.place not in (Place.REGISTER, Place.ROW)
