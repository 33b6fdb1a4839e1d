"""Where every value lives: registers, row buffers, outputs, or one workspace arena; which values share memory.

A value may take over the buffer of one that is read for the last time by the same kernel, at the same place. A partial write (slice_set,
scatter) takes over the buffer of its base, or is preceded by a copy. Inputs and constants are never written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from functx.backends.loops.affine import Affine, LoopVar, substitute, var
from functx.backends.loops.clusters import Group, reduces_into
from functx.backends.loops.nodes import Call, Check, Copy, Form, Kernel, Load, MatMul, Place, Sort, Stage, Step, Storage, Store
from functx.backends.loops.packing import Interval, pack
from functx.backends.loops.roots import StoreRoot
from functx.ir import Var
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


@dataclass(eq=False)
class _Shared:
    """Values that share one buffer: when the first of them is made and the last is read, and the output that it is, if any."""

    members: list[Var]
    born: int
    dies: int
    output: int | None


def _place(offset: Affine, stage: Stage) -> str:
    """An offset as text in which the stage's own axes are numbered, so that stages compare."""
    own = {v: LoopVar(f"#{k}", v.size) for k, v in enumerate(stage.axes)}
    return substitute(offset, lambda v: var(own[v]) if v in own else None).key


def _row_bytes(group: Group, v: Var, stage: int) -> int:
    return math.prod(group.inner[stage]) * v.aval.dtype.itemsize


def local_places(kernel: Kernel, group: Group, used_outside: set[Var]) -> dict[Var, Storage]:
    """Values of a kernel that need no buffer: read in the stage that makes them, carried from stage to stage, or kept as a row."""
    loaded = set(reads(kernel))
    out: dict[Var, Storage] = {}
    for v, stage in group.stage_of.items():
        if v in used_outside:
            continue
        if v not in loaded:
            out[v] = Storage(Place.REGISTER)
        elif group.form is Form.ROWS and not reduces_into(group, v) and _row_bytes(group, v, stage) <= ROW_BYTES:
            out[v] = Storage(Place.ROW)
    return out


class Planner:
    """Lifetimes and sharing over the steps of one graph."""

    def __init__(self, steps: Sequence[tuple[Step, Group]], given: Iterable[Var], outputs: dict[Var, int]):
        self.given, self.outputs = set(given), outputs
        self.groups = {id(step): group for step, group in steps}
        self.steps = [step for step, _ in steps]
        self.storage: dict[Var, Storage] = {}
        self.shared: dict[Var, _Shared] = {}  # the buffer of every value that is not given

    def run(self) -> tuple[list[Step], dict[Var, Storage], int]:
        """The steps with the copies that partial writes need, the places, and the bytes of the arena."""
        self._lifetimes()
        self._locals()
        for time, step in enumerate(self.steps):
            if isinstance(step, Kernel):
                self._take_over_bases(time, step)
        for time, step in enumerate(self.steps):
            if isinstance(step, Kernel):
                self._take_over(time, step)
        return self._with_copies(), *self._arena()

    def _lifetimes(self) -> None:
        self.born: dict[Var, int] = {}
        self.dies: dict[Var, int] = {}
        for time, step in enumerate(self.steps):
            for v in writes(step):
                self.born.setdefault(v, time)
                self.dies[v] = max(self.dies.get(v, 0), time)
            for v in reads(step) + self._bases(step):
                self.dies[v] = max(self.dies.get(v, 0), time)
        for v in self.outputs:
            self.dies[v] = len(self.steps)
        made = (v for v in self.dies if v not in self.given)
        self.shared = {v: _Shared([v], self.born.get(v, self.dies[v]), self.dies[v], self.outputs.get(v)) for v in made}

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
                made = writes(step)
                outside = {v for v in made if v in self.outputs or readers.get(v, set()) - {time}}
                self.storage.update(local_places(step, self.groups[id(step)], outside))

    # --- sharing --------------------------------------------------------------------------------------------------------------------------

    def _free_to_share(self, old: Var, new: Var, time: int) -> bool:
        """Whether the buffer of ``old`` can pass to ``new`` at this time."""
        if old in self.given or old in self.storage or new in self.storage or self.dies[old] != time or self.born[new] != time:
            return False
        a, b = self.shared[old], self.shared[new]
        return a is not b and (a.output is None or b.output is None) and a.dies <= time <= b.born

    def _join(self, new: Var, old: Var) -> None:
        """Let ``new`` live in the buffer of ``old``."""
        a, b = self.shared[new], self.shared[old]
        large, small = (a, b) if len(a.members) >= len(b.members) else (b, a)
        large.members += small.members
        large.born, large.dies = min(a.born, b.born), max(a.dies, b.dies)
        large.output = a.output if b.output is None else b.output
        self.shared.update(dict.fromkeys(small.members, large))

    def _take_over_bases(self, time: int, step: Kernel) -> None:
        """A partial write may overwrite its base if nothing else of it is read, or only the places that are written, each when it is."""
        for r in self._partial_roots(step):
            alone = r.base is not None and self._bases(step).count(r.base) == 1
            if alone and self._free_to_share(r.base, r.var, time) and self._reads_what_it_writes(step, r):
                self._join(r.var, r.base)

    def _reads_what_it_writes(self, step: Kernel, r: StoreRoot) -> bool:
        for stage in step.stages:
            written = {e.offset for e in stage.effects if isinstance(e, Store) and e.var is r.var}
            read = {n.offset for n in stage.nodes if isinstance(n, Load) and n.var is r.base}
            if read and (r.serial or read != written):
                return False
        return True

    def _take_over(self, time: int, step: Kernel) -> None:
        """A stored value may overwrite one that its row reads at the very place of the store only, and not after it."""
        if step.serial or step.form is Form.COLUMNS:
            return
        partial = {r.var for r in self._partial_roots(step)}
        places: dict[Var, set[str]] = {}
        last: dict[Var, int] = {}
        for k, stage in enumerate(step.stages):
            for node in stage.nodes:
                if isinstance(node, Load):
                    places.setdefault(node.var, set()).add(_place(node.offset, stage))
                    last[node.var] = k
        for k, stage in enumerate(step.stages):
            for effect in stage.effects:
                if isinstance(effect, Store) and effect.var not in partial and effect.var not in self.storage:
                    where = {_place(effect.offset, stage)}
                    old = next((v for v in places if places[v] == where and last[v] <= k and self._fits(v, effect.var, time)), None)
                    if old is not None:
                        self._join(effect.var, old)

    def _fits(self, old: Var, new: Var, time: int) -> bool:
        same = old.aval.dtype == new.aval.dtype and math.prod(old.aval.shape) == math.prod(new.aval.shape)
        return same and self._free_to_share(old, new, time)

    # --- results --------------------------------------------------------------------------------------------------------------------------

    def _with_copies(self) -> list[Step]:
        out: list[Step] = []
        for step in self.steps:
            for r in self._partial_roots(step):
                if r.base is not None and self.shared.get(r.base) is not self.shared[r.var]:
                    out.append(Copy(r.var, r.base, (r.eqn,)))
            out.append(step)
        return out

    def _arena(self) -> tuple[dict[Var, Storage], int]:
        buffers = dict.fromkeys(self.shared[v] for v in self.born if v not in self.storage and v not in self.given)
        intervals = []
        for buffer in buffers:
            if buffer.output is not None:
                self.storage.update(dict.fromkeys(buffer.members, Storage(Place.OUTPUT, buffer.output)))
                continue
            size = max(math.prod(v.aval.shape) * v.aval.dtype.itemsize for v in buffer.members)
            intervals.append(Interval(buffer, size, buffer.born, buffer.dies))
        offsets, total = pack(intervals)
        for buffer, offset in offsets.items():
            self.storage.update(dict.fromkeys(buffer.members, Storage(Place.WORKSPACE, offset)))
        return self.storage, total
