"""The primitives, by family. Importing this package registers them."""

from functx.ops import (
    callback,
    collectives,
    contraction,
    cumulative,
    elementwise,
    higher_order,
    indexing,
    movement,
    parts,
    reduction,
    sorting,
    special,
    transcendental,
)

__all__ = [
    "callback",
    "collectives",
    "contraction",
    "cumulative",
    "elementwise",
    "higher_order",
    "indexing",
    "movement",
    "parts",
    "reduction",
    "sorting",
    "special",
    "transcendental",
]
