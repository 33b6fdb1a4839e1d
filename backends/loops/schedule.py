"""Which steps there are, and their order: what reads an array comes before what overwrites it; otherwise the order stays.

In a program that writes into its inputs what can fail comes first, for a call that fails must leave them as they were. Analysis of
dependences only: where values live is planned afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from functx.backends.loops.clusters import Group
from functx.backends.loops.nodes import Copy, Step
from functx.backends.loops.ordering import closure, ordered
from functx.backends.loops.plan import can_fail, reads, writes
from functx.backends.loops.roots import CheckRoot, StoreRoot
from functx.ir import Var

Steps = Sequence[tuple[Step, Group]]


def needed(steps: Steps, results: Iterable[Var]) -> list[tuple[Step, Group]]:
    """The steps without those that make nothing for a result: what would read it is empty, and is not a step."""
    read = set(results)
    kept = []
    for step, group in reversed(steps):
        if can_fail(step) or not read.isdisjoint(writes(step)):
            read.update(reads(step), _bases(group))
            kept.append((step, group))
    return kept[::-1]


def in_order(steps: Steps, written: Mapping[Var, Var]) -> list[tuple[Step, Group]]:
    """The steps in an order in which as much as possible can be written in place.

    Args:
      written: the new values of inputs -> the inputs.
    """
    needs = _needs(steps)
    early = closure({k for k, (step, _) in enumerate(steps) if can_fail(step)}, needs.__getitem__)
    later = set(range(len(steps))) - early if written else set()
    return [steps[k] for k in ordered(needs, _readers_before(steps, written), later)]


def _bases(group: Group) -> list[Var]:
    return [r.base for r in group.roots if isinstance(r, StoreRoot) and r.base is not None]


def _needs(steps: Steps) -> list[set[int]]:
    """For each step those that must come before: they make what it reads, check what it relies on, or may fail and stood before it."""
    makers: dict[Var, set[int]] = {}
    checked: dict[CheckRoot, int] = {}
    for k, (step, group) in enumerate(steps):
        for v in writes(step):
            makers.setdefault(v, set()).add(k)
        checked.update((root, k) for root in group.roots if isinstance(root, CheckRoot))
    needs: list[set[int]] = []
    last = None
    for k, (step, group) in enumerate(steps):
        found = {maker for v in {*reads(step), *_bases(group), *group.reads} for maker in makers.get(v, ())}
        found |= {checked[check] for views in group.stages for view in views for check in view.after if check in checked}
        if can_fail(step):
            found |= {last} if last is not None else set()
            last = k
        needs.append(found - {k})
    return needs


def _readers_before(steps: Steps, written: Mapping[Var, Var]) -> list[set[int]]:
    """For each step the readers of what it would overwrite."""
    readers: dict[Var, set[int]] = {}
    for k, (step, group) in enumerate(steps):
        for v in [*reads(step), *_bases(group)]:
            readers.setdefault(v, set()).add(k)
    out = []
    for k, (step, group) in enumerate(steps):
        victims = {written[step.out]} if isinstance(step, Copy) and step.out in written else group.overwrites
        out.append({reader for v in victims for reader in readers.get(v, ())} - {k} if not can_fail(step) else set())
    return out
