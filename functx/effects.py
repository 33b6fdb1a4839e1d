"""Effects in graphs: how often they happen, and graphs without them, for what is computed again or ahead of its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functx.errors import UnsupportedError
from functx.ir import Atom, Eqn, Graph

MANY = 2


def count(graph: Graph) -> int:
    """How many effects one evaluation of a graph has; what is inside of a loop or choice counts as :data:`MANY`."""
    return sum(_count(eqn) for eqn in graph.eqns if eqn.effect)


def _count(eqn: Eqn) -> int:
    if eqn.primitive.effect:
        return 1
    return count(eqn.params["graph"]) if eqn.primitive.family == "higher-order" else MANY


def contains(graph: Graph, holds: Callable[[Eqn], bool]) -> bool:
    """Whether ``holds`` of an equation, however deep."""
    return any(_contains(eqn, holds) for eqn in graph.eqns)


def _contains(eqn: Eqn, holds: Callable[[Eqn], bool]) -> bool:
    return holds(eqn) or any(contains(value, holds) for value in eqn.params.values() if isinstance(value, Graph))


def gives_values(eqn: Eqn) -> bool:
    """Whether an equation may hand on what an effect returns."""
    return _contains(eqn, lambda e: e.primitive.effect and bool(e.outputs))


def silent(graph: Graph) -> Graph:
    """The same values without the effects.

    Raises:
      UnsupportedError: a value is what an effect returned.
    """
    live: set[Atom] = set(graph.out_atoms)
    kept = []
    for eqn in reversed(graph.eqns):
        if eqn.primitive.effect:
            if not live.isdisjoint(eqn.outputs):
                raise _happens_once(eqn)
            continue
        live.update(eqn.inputs)
        kept.append(silenced(eqn))
    kept.reverse()
    unchanged = len(kept) == len(graph.eqns) and all(a is c for a, c in zip(kept, graph.eqns, strict=True))
    return graph if unchanged else graph.replace(eqns=tuple(kept))


def silenced(eqn: Eqn) -> Eqn:
    """An equation without the effects of its graphs."""
    params = silenced_params(eqn.params)
    return eqn if params is eqn.params else eqn.replace(params=params)


def silenced_params(params: Any) -> Any:
    """Parameters with silent graphs. A rule that runs on the way back is left as it is: wherever its forward side is computed again, it
    runs once.
    """
    quiet = {name: silent(value) for name, value in params.items() if isinstance(value, Graph) and name != "bwd"}
    return {**params, **quiet} if any(graph is not params[name] for name, graph in quiet.items()) else params


def _happens_once(eqn: Eqn) -> UnsupportedError:
    name = str(eqn.params.get("function", eqn.primitive.name)).partition("#")[0]
    return UnsupportedError(
        f"the derivative needs to compute what {eqn.primitive.name} of {name} returned again",
        where=eqn.source and eqn.source.describe(),
        why="reverse mode runs the loop or choice around it a second time, and an effect happens once",
        fix="call it before, and pass in what it returns; or use functx.scan, which keeps it from step to step",
    )
