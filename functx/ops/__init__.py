"""The primitives, by family. Importing this package registers them."""

from functx.ops import (
    callback,
    collectives,
    cond,
    contraction,
    cumulative,
    elementwise,
    higher_order,
    indexing,
    movement,
    parts,
    reduction,
    scan,
    sorting,
    special,
    transcendental,
    while_loop,
)

__all__ = [
    "callback",
    "collectives",
    "cond",
    "contraction",
    "cumulative",
    "elementwise",
    "higher_order",
    "indexing",
    "movement",
    "parts",
    "reduction",
    "scan",
    "sorting",
    "special",
    "transcendental",
    "while_loop",
]
