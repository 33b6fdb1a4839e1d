"""Which roots share a loop nest.

Analysis only. Roots are placed one after the other, each into the earliest group in which everything it reads is ready, or into a new one.
What overwrites an array is placed after what reads it, as far as that goes.
A group is FLAT (one space, everything at the same index), ROWS (outer axes shared; inside them one stage after the other, as in a softmax)
or COLUMNS (reductions that keep the innermost axis). How a root reads others is found by evaluating it once at a symbolic index.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from functx.backends.loops.affine import ZERO, Affine, LoopVar, var
from functx.backends.loops.nodes import Form, Inside, Load, Node, affines_of
from functx.backends.loops.ordering import ordered
from functx.backends.loops.roots import Analysis, CallRoot, CheckRoot, MatMulRoot, ReduceRoot, Root, RunningRoot, SortRoot, StoreRoot
from functx.backends.loops.scope import Index, Scope
from functx.backends.loops.sizes import hint
from functx.ir import Literal, Var
from functx.shapes import Shape, Size, size_hint

MAX_GROUP_NODES = 160  # values in one kernel: compilers are not linear in the length of a loop body
MIN_ROWS = 16  # fewer rows than this are not worth a loop of their own: each stage is parallel by itself
LOOK_BACK = 8  # groups that are tried for a root that could stand in several


EXTERN = (CallRoot, MatMulRoot, SortRoot)  # steps of their own


@dataclass(eq=False)
class View:
    """A root evaluated at its own loop variables: what it reads, where, and how."""

    root: Root
    axes: tuple[LoopVar, ...]  # kept, then reduced; axes of size 1 are left out
    kept: int  # how many of them are kept
    nodes: list[Node]
    loads: dict[Var, list[Index]]
    reads: set[Var]
    after: set[CheckRoot]  # checks that must have passed before
    elsewhere: set[Var]  # what it reads at other places than its own
    overwrites: set[Var]  # arrays in whose memory it could store, by what it reads itself


@dataclass(eq=False)
class Group:
    """Roots that become one step. ``stages`` hold the views of a kernel in order; ``inner[k]`` are the sizes of stage k's own axes."""

    form: Form | None  # None: not a kernel
    outer: Shape
    stages: list[list[View]]
    inner: list[Shape]
    stage_of: dict[Var, int] = field(default_factory=dict)
    nodes: int = 0
    reads: set[Var] = field(default_factory=set)
    overwrites: set[Var] = field(default_factory=set)

    @property
    def roots(self) -> list[Root]:
        """All roots, in order."""
        return [view.root for stage in self.stages for view in stage]


def spaces(shape: Iterable[Size]) -> Shape:
    """A shape without its axes of size 1."""
    return tuple(d for d in shape if d != 1)


def make_groups(analysis: Analysis) -> list[Group]:
    """The groups, in the order in which they can run."""
    return _Placer(analysis).run()


def iteration(root: Root) -> tuple[Shape, Shape]:
    """The kept and the reduced axes of a kernel root. (A running result stays on all of them, but goes along one.)"""
    if isinstance(root, ReduceRoot):
        return root.kept, root.reduced
    if isinstance(root, RunningRoot):
        shape, axis = root.var.aval.shape, root.axis
        return (*shape[:axis], *shape[axis + 1 :]), (shape[axis],)
    return (root.atom.aval.shape if isinstance(root, CheckRoot) else root.shape), ()


def indices(shape: Iterable[Size], variables: Iterable[LoopVar]) -> Index:
    """An index over ``shape`` from variables for its axes of more than one element."""
    rest = iter(variables)
    return tuple(ZERO if d == 1 else var(next(rest)) for d in shape)


class _Placer:
    def __init__(self, analysis: Analysis):
        self.analysis = analysis
        self.groups: list[Group] = []
        self.home: dict[Var, int] = {}
        self.check_home: dict[CheckRoot, int] = {}
        self.checks_of: dict[Var, frozenset[CheckRoot]] = {}
        self.last_effect = -1
        self.last_reader: dict[Var, int] = {}
        self.last_elsewhere: dict[Var, int] = {}  # the last group that reads a variable at other places than its own

    def run(self) -> list[Group]:
        views = [self._view(root) for root in self.analysis.roots]
        for k in ordered(*_before(views)):
            if isinstance(views[k].root, EXTERN):
                self._place_extern(views[k])
            else:
                self._place(views[k])
        return self.groups

    # --- what a root reads ----------------------------------------------------------------------------------------------------------------

    def _checks_before(self, atoms: Iterable[Var | Literal]) -> frozenset[CheckRoot]:
        """Checks of the equations that are evaluated in place for these atoms."""
        found: set[CheckRoot] = set()
        for atom in atoms:
            if isinstance(atom, Literal) or atom in self.analysis.memory:
                continue
            if atom not in self.checks_of:
                eqn = self.analysis.definitions[atom]
                own = self.analysis.checks.get(self.analysis.numbers[atom], ())
                self.checks_of[atom] = self._checks_before(eqn.inputs) | frozenset(own)
            found |= self.checks_of[atom]
        return frozenset(found)

    def _view(self, root: Root) -> View:
        if isinstance(root, EXTERN):
            reads = {a for a in root.reads if isinstance(a, Var)}
            made = outputs(root)
            needs = reads | self.analysis.binders_of(d for v in made for d in v.aval.shape) - set(made)
            return View(root, (), 0, [], {}, needs, set(), reads, self._overwrites(root, reads))
        kept, reduced = iteration(root)
        axes = [LoopVar(f"x{k}", d) for k, d in enumerate(spaces((*kept, *reduced)))]
        n = len(spaces(kept))
        scope = self.analysis.scope()
        evaluate(scope, root, indices(kept, axes[:n]), indices(reduced, axes[n:]))
        loads: dict[Var, list[Index]] = {}
        for node in scope.nodes:
            if isinstance(node, Load):
                loads.setdefault(node.var, []).append(node.index)
        reads = set(loads) | self._binders(root, scope, (*kept, *reduced))
        base = getattr(root, "base", None)
        if base is not None:
            reads.add(base)
        after = set(self._checks_before(root.reads))
        if not isinstance(root, CheckRoot):
            after |= set(self.analysis.checks.get(root.eqn, ()))
        own = [var(a) for a in axes]
        elsewhere = {v for v, places in loads.items() if any(_places(v, i) != own for i in places)}
        return View(root, tuple(axes), n, scope.nodes, loads, reads, after, elsewhere, self._overwrites(root, elsewhere))

    def _binders(self, root: Root, scope: Scope, iteration: Shape) -> set[Var]:
        """What tells sizes that a root computes with."""
        if not self.analysis.binders:
            return set()
        sizes = [*iteration, *(d for v in outputs(root) for d in v.aval.shape)]
        for node in scope.nodes:
            sizes += [d for a in affines_of(node) for d in (a.const, *(c for _, c in a.terms))]
            sizes += [d for d in (node.lo, node.hi) if d is not None] if isinstance(node, Inside) else []
        return self.analysis.binders_of(sizes)

    def _overwrites(self, root: Root, elsewhere: set[Var]) -> set[Var]:
        written, base = self.analysis.written, getattr(root, "base", None)
        found = {written[v] for v in outputs(root) if v in written} - elsewhere
        return found | {base} if self.analysis.overwritten.get(base) == root.eqn else found

    # --- placing --------------------------------------------------------------------------------------------------------------------------

    def _place_extern(self, view: View) -> None:
        # Always a new group at the end, so effects keep their order.
        if isinstance(view.root, CallRoot) and self.analysis.graph.eqns[view.root.eqn].effect:
            self.last_effect = len(self.groups)
        self._register(view, len(self.groups))
        self.groups.append(Group(None, (), [[view]], [()], reads=view.reads, overwrites=view.overwrites))

    def _register(self, view: View, position: int) -> None:
        if isinstance(view.root, CheckRoot):
            self.check_home[view.root] = position
        for v in outputs(view.root):
            self.home[v] = max(position, self.home.get(v, -1))
        for v in view.reads:
            self.last_reader[v] = max(position, self.last_reader.get(v, -1))
        for v in view.elsewhere:
            self.last_elsewhere[v] = max(position, self.last_elsewhere.get(v, -1))

    def _place(self, view: View) -> None:
        ready = max((self.home.get(v, -1) for v in view.reads), default=-1)
        strict = max((self.check_home[c] for c in view.after), default=-1)
        if isinstance(view.root, CheckRoot):
            strict = max(strict, self.last_effect)  # effects before a check that fails have happened
        strict = max(strict, self.home.get(view.root.base, -1) if isinstance(view.root, StoreRoot) and view.root.base else -1)
        readers = self.last_elsewhere if isinstance(view.root, StoreRoot) and view.root.whole else self.last_reader
        strict = max([strict, *(readers.get(v, -1) for v in view.overwrites)])
        first = max(ready, strict + 1, 0)
        candidates = itertools.chain([first], range(max(first + 1, len(self.groups) - LOOK_BACK), len(self.groups)))
        for position in candidates:
            if position < len(self.groups) and self._join(self.groups[position], view, position == ready):
                self._register(view, position)
                return
        self._register(view, len(self.groups))
        self.groups.append(new_group(view))

    def _join(self, group: Group, view: View, depends: bool) -> bool:
        """Add the view to the group if its loops fit."""
        if group.form is None or group.nodes + len(view.nodes) > MAX_GROUP_NODES or any(getattr(r, "serial", False) for r in group.roots):
            return False
        if getattr(view.root, "serial", False) or any(v in group.stage_of for v in outputs(view.root)):
            return False
        if group.overwrites & view.elsewhere:
            return False
        if (group.overwrites or view.overwrites) and any(isinstance(r, CheckRoot) for r in (*group.roots, view.root)):
            return False  # a check has to fail before anything is overwritten
        if not depends and not (group.reads & view.reads):
            return False  # nothing to share
        if group.form is Form.FLAT and not _join_flat(group, view):
            return _as_rows(group, view) and _join_staged(group, view)
        return group.form is Form.FLAT or _join_staged(group, view)


def _before(views: Sequence[View]) -> tuple[list[set[int]], list[set[int]]]:
    """For each root those that must come before (they make what it reads, check what it relies on, or can fail and stand before it), and
    those that should: they read what it overwrites."""
    makers: dict[Var, set[int]] = {}
    readers: dict[Var, set[int]] = {}
    checks: dict[Root, int] = {}
    for k, view in enumerate(views):
        for v in outputs(view.root):
            makers.setdefault(v, set()).add(k)
        for v in view.reads:
            readers.setdefault(v, set()).add(k)
        if isinstance(view.root, CheckRoot):
            checks[view.root] = k
    needs, wishes, last = [], [], set()
    for k, view in enumerate(views):
        found = {maker for v in view.reads for maker in makers.get(v, ())} | {checks[check] for check in view.after}
        if isinstance(view.root, (CheckRoot, CallRoot)):
            found, last = found | last, {k}
        needs.append(found - {k})
        wishes.append({reader for v in view.overwrites for reader in readers.get(v, ())} - {k})
    return needs, wishes


def new_group(view: View) -> Group:
    """A group of one root."""
    sizes = tuple(a.size for a in view.axes)
    if view.kept == len(sizes):
        group = Group(Form.FLAT, (), [[]], [sizes])
    else:
        kept, reduced = sizes[: view.kept], sizes[view.kept :]
        group = Group(Form.COLUMNS if _wants_columns(view) else Form.ROWS, kept, [[]], [reduced])
    add(group, view, 0)
    return group


def _wants_columns(view: View) -> bool:
    """Whether a reduction should run along its last kept axis: more memory is contiguous along it, or the reduced axes are tiny."""
    if view.kept == 0:
        return False
    kept, reduced = view.axes[: view.kept], view.axes[view.kept :]
    along_kept = along_reduced = 0
    for node in view.nodes:
        if isinstance(node, Load):
            traffic = size_hint(a.size for a in view.axes if a in node.loop_vars)
            along_kept += traffic * is_unit(node.offset.coefficient(kept[-1]))
            along_reduced += traffic * any(is_unit(node.offset.coefficient(a)) for a in reduced)
    if along_reduced > along_kept:
        return size_hint(a.size for a in reduced) < 16 <= hint(kept[-1].size)
    return along_kept > along_reduced or hint(kept[-1].size) >= 16


def is_unit(stride: Size) -> bool:
    """Whether elements at this stride lie side by side."""
    return stride in (1, -1)


def add(group: Group, view: View, stage: int) -> None:
    """Put a view at the end of a stage."""
    group.stages[stage].append(view)
    group.nodes += len(view.nodes)
    group.reads |= view.reads
    group.overwrites |= view.overwrites
    for v in outputs(view.root):
        group.stage_of[v] = stage


def outputs(root: Root) -> tuple[Var, ...]:
    """The variables that a root writes."""
    if isinstance(root, CallRoot):
        return root.outputs
    if isinstance(root, SortRoot):
        return (*root.outputs, root.order)
    return () if isinstance(root, CheckRoot) else (root.var,)


def _places(v: Var, index: Index) -> list[Affine]:
    return [i for i, d in zip(index, v.aval.shape, strict=True) if d != 1]


def _reads_same_index(group: Group, view: View) -> bool:
    """Whether the view reads the group's values only at its own index."""
    own = [var(a) for a in view.axes]
    whole = {r.var for r in group.roots if isinstance(r, StoreRoot) and r.whole}
    return all(v in whole and all(_places(v, i) == own for i in places) for v, places in view.loads.items() if v in group.stage_of)


def _join_flat(group: Group, view: View) -> bool:
    if view.kept != len(view.axes) or tuple(a.size for a in view.axes) != group.inner[0] or not _reads_same_index(group, view):
        return False
    add(group, view, 0)
    return True


def _as_rows(group: Group, view: View) -> bool:
    """Turn a flat group into rows for a row reduction of its space, or of what it computes."""
    if view.kept == len(view.axes) or _wants_columns(view):
        return False
    sizes = tuple(a.size for a in view.axes)
    outer = sizes[: view.kept]
    if size_hint(outer) < MIN_ROWS or group.inner[0][: len(outer)] != outer or size_hint(group.inner[0][len(outer) :]) > 2**20:
        return False
    if not all(isinstance(r, StoreRoot) and r.whole for r in group.roots) or not _row_aligned(group, view, len(outer)):
        return False
    group.form, group.outer, group.inner = Form.ROWS, outer, [group.inner[0][len(outer) :]]
    return True


def _row_aligned(group: Group, view: View, outer: int) -> bool:
    """Whether the view reads the group's values in its own row only."""
    if any(isinstance(r, RunningRoot) and r.var in view.loads and not r.in_order for r in group.roots):
        return False
    own = [var(a) for a in view.axes[:outer]]
    inside = [(v, index) for v, places in view.loads.items() if v in group.stage_of for index in places]
    return all(_places(v, index)[:outer] == own for v, index in inside)


def _join_staged(group: Group, view: View) -> bool:
    """Join rows or columns: the outer axes agree, and what is read of the group belongs to the same row."""
    outer, sizes = len(group.outer), tuple(a.size for a in view.axes)
    if sizes[:outer] != group.outer or view.kept < outer or not _row_aligned(group, view, outer):
        return False
    if isinstance(view.root, StoreRoot) and not view.root.whole or isinstance(view.root, CheckRoot):
        return False
    reduces = view.kept < len(sizes)
    if reduces and (view.kept != outer or _wants_columns(view) != (group.form is Form.COLUMNS)):
        return False
    if group.form is Form.COLUMNS and not reduces and len(sizes) != outer:
        return False
    if splits(group.form, size_hint(group.outer), size_hint(group.inner[0])) and not _only_sibling(group, view):
        return False
    inner, own = sizes[outer:], [var(a) for a in view.axes]
    least = 0
    for v, places in view.loads.items():
        if v in group.stage_of:
            stage = group.stage_of[v]
            same = _stores(group, v) and group.inner[stage] == inner and all(_places(v, i) == own for i in places)
            least = max(least, stage if same else stage + 1)
    for stage in range(least, len(group.stages)):
        if group.inner[stage] == inner and _same_kind(group.stages[stage], reduces, group.form):
            add(group, view, stage)
            return True
    group.stages.append([])
    group.inner.append(inner)
    add(group, view, len(group.stages) - 1)
    return True


def splits(form: Form, kept: int, reduced: int) -> bool:
    """Whether a reduction has too few results to be parallel over them: then its reduced axes are cut, and nothing follows inside."""
    if form is Form.ROWS:
        return kept < MIN_ROWS
    return kept < 2048 and kept * reduced > 65536 or kept < 16384 and reduced > 512


def _only_sibling(group: Group, view: View) -> bool:
    """Whether the view fits beside the only stage of a group."""
    inner = tuple(a.size for a in view.axes)[len(group.outer) :]
    return len(group.stages) == 1 and group.inner[0] == inner and not any(v in group.stage_of for v in view.loads)


def _same_kind(stage: list[View], reduces: bool, form: Form) -> bool:
    """In columns, reductions and plain stages do not mix: their loops differ."""
    return form is not Form.COLUMNS or all(isinstance(view.root, (ReduceRoot, RunningRoot)) == reduces for view in stage)


def _stores(group: Group, v: Var) -> bool:
    """Whether every place of a variable of the group gets its value when its index comes."""
    return any(isinstance(view.root, StoreRoot) and view.root.var is v for view in group.stages[group.stage_of[v]])


def reduces_into(group: Group, v: Var) -> bool:
    """Whether a variable of the group is the result of a reduction."""
    return any(isinstance(view.root, ReduceRoot) and view.root.var is v for view in group.stages[group.stage_of[v]])


def evaluate(scope: Scope, root: Root, kept: Index, reduced: Index) -> None:
    """What a root computes at a place."""
    if isinstance(root, ReduceRoot):
        root.value(scope, kept, reduced)
    elif isinstance(root, RunningRoot):
        root.values(scope, root.place(kept, reduced))
    elif isinstance(root, CheckRoot):
        scope.value(root.atom, kept)
    else:
        root.value(scope, kept)
        root.target(scope, kept)
