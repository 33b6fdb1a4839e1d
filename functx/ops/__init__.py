"""The primitives, by family. Importing this package registers them."""

from functx.ops import contraction, elementwise, higher_order, indexing, movement, reduction, transcendental

__all__ = ["contraction", "elementwise", "higher_order", "indexing", "movement", "reduction", "transcendental"]
