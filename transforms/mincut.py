"""Which values to keep so that others can be computed again: a minimum cut through weighted nodes. It knows nothing of graphs of equations.

Every node is split into an entry and an exit joined by an edge of the node's weight; dependencies are edges that cannot be cut. What the
cut separates is kept (Ford and Fulkerson, "Flows in Networks", 1962; the solver is networkx's).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

INFINITE = float("inf")

_SOURCE, _SINK, _ENTRY, _EXIT = "source", "sink", "entry", "exit"


def cheapest_to_keep(
    weights: Mapping[Hashable, float], depends: Mapping[Hashable, Iterable[Hashable]], given: Iterable[Hashable], needed: Iterable[Hashable]
) -> set[Hashable]:
    """The nodes of least total weight from which all needed ones can be computed.

    Args:
      weights: what keeping a node costs; infinite where it cannot be kept. Every node has one.
      depends: the nodes that a node is computed from; a given one from none.
      given: nodes that cannot be computed again, so that whatever needs one must have it, or something computed from it, kept.
      needed: the nodes that must be there in the end.

    Raises:
      ValueError: a needed node cannot be had, because what it comes from can neither be kept nor computed again.

    >>> sorted(cheapest_to_keep({"x": 8, "big": 64, "mask": 1}, {"big": ["x"], "mask": ["big"]}, ["x"], ["mask"]))
    ['mask']
    """
    import networkx as nx  # loaded when it is needed: importing functx stays quick
    from networkx.algorithms.flow import boykov_kolmogorov

    network = nx.DiGraph()
    network.add_nodes_from([_SOURCE, _SINK])
    for node, weight in weights.items():
        entry, leave = (_ENTRY, node), (_EXIT, node)
        network.add_edge(entry, leave, **({} if weight == INFINITE else {"capacity": weight}))
        network.add_edges_from(((_EXIT, other), entry) for other in depends.get(node, ()))
    network.add_edges_from((_SOURCE, (_ENTRY, node)) for node in given)
    network.add_edges_from(((_EXIT, node), _SINK) for node in needed)
    try:
        _, (before, _) = nx.minimum_cut(network, _SOURCE, _SINK, flow_func=boykov_kolmogorov)
    except nx.NetworkXUnbounded:
        raise ValueError("a needed value comes from one that can neither be kept nor computed again") from None
    return {node for node in weights if (_ENTRY, node) in before and (_EXIT, node) not in before}
