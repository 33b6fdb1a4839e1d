"""Policies of checkpoints: functions ``policy(primitive, *avals, **params) -> bool`` that say what may be saved for the backward pass.

Users see this module as ``functx.checkpoint_policies``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from functx.ops.contraction import dot_general
from functx.ops.higher_order import named
from functx.primitive import Primitive

__all__ = [
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "save_anything_except_these_names",
    "save_only_these_names",
]


def everything_saveable(primitive: Primitive, *avals: Any, **params: Any) -> bool:
    """Save all that the backward pass reads, as without a checkpoint.

    >>> import numpy as np
    >>> import functx as fx
    >>> f = fx.checkpoint(lambda x: np.sin(np.sin(np.sin(x))), policy=fx.checkpoint_policies.everything_saveable)
    >>> [what for _, what in fx.saved_residuals(f, 1.0)]    # doctest: +ELLIPSIS
    ["the argument 'x'", 'sin, ...', 'sin, ...']
    """
    return True


def nothing_saveable(primitive: Primitive, *avals: Any, **params: Any) -> bool:
    """Save the arguments only: what a checkpoint without a policy does.

    >>> import numpy as np
    >>> import functx as fx
    >>> f = fx.checkpoint(lambda x: np.sin(np.sin(np.sin(x))), policy=fx.checkpoint_policies.nothing_saveable)
    >>> [what for _, what in fx.saved_residuals(f, 1.0)]
    ["the argument 'x'"]
    """
    return False


def dots_saveable(primitive: Primitive, *avals: Any, **params: Any) -> bool:
    """Save products of matrices.

    >>> import numpy as np
    >>> import functx as fx
    >>> f = fx.checkpoint(lambda x, w: np.sin(np.sin(x @ w)), policy=fx.checkpoint_policies.dots_saveable)
    >>> [what for _, what in fx.saved_residuals(f, np.eye(2), np.eye(2))]    # doctest: +ELLIPSIS
    ["the argument 'x'", "the argument 'w'", 'dot_general, ...']
    """
    return primitive is dot_general


def dots_with_no_batch_dims_saveable(primitive: Primitive, *avals: Any, **params: Any) -> bool:
    """Save products of two matrices, but not of stacks of them (attention scores).

    >>> import numpy as np
    >>> import functx as fx
    >>> f = fx.checkpoint(lambda x, y: np.sin(x @ y), policy=fx.checkpoint_policies.dots_with_no_batch_dims_saveable)
    >>> [what for _, what in fx.saved_residuals(f, np.ones((3, 2, 2)), np.ones((3, 2, 2)))]
    ["the argument 'x'", "the argument 'y'"]
    """
    return primitive is dot_general and params["batch"] == ((), ())


def save_only_these_names(*names: str) -> Callable[..., bool]:
    """A policy: save what :func:`functx.checkpoint_name` gives one of these names, nothing else.

    >>> import numpy as np
    >>> import functx as fx
    >>> def f(x):
    ...     y = fx.checkpoint_name(np.sin(x), "y")
    ...     return np.sin(np.sin(y))
    >>> f = fx.checkpoint(f, policy=fx.checkpoint_policies.save_only_these_names("y"))
    >>> [what for _, what in fx.saved_residuals(f, 1.0)]    # doctest: +ELLIPSIS
    ["the argument 'x'", "name 'y', ..."]
    """
    return _OnlyNames(_names(names))


def save_anything_except_these_names(*names: str) -> Callable[..., bool]:
    """A policy: save everything but values of these names. Such a value is not saved without its name or as a view either.

    >>> import numpy as np
    >>> import functx as fx
    >>> def f(x):
    ...     y = fx.checkpoint_name(np.sin(x), "y")
    ...     return np.sin(np.sin(y))
    >>> f = fx.checkpoint(f, policy=fx.checkpoint_policies.save_anything_except_these_names("y"))
    >>> [what for _, what in fx.saved_residuals(f, 1.0)]    # doctest: +ELLIPSIS
    ["the argument 'x'", 'sin, ...']
    """
    return _AllButNames(_names(names))


@dataclass(frozen=True)
class _OnlyNames:
    names: frozenset[str]

    def __call__(self, primitive: Primitive, *avals: Any, **params: Any) -> bool:
        return primitive is named and params["name"] in self.names


@dataclass(frozen=True)
class _AllButNames:
    never: frozenset[str]

    def __call__(self, primitive: Primitive, *avals: Any, **params: Any) -> bool:
        return primitive is not named or params["name"] not in self.never


def check_name(name: Any) -> str:
    """``name`` itself; TypeError unless it is a string."""
    if not isinstance(name, str):
        raise TypeError(f"names of values are strings, not {type(name).__name__} ({name!r})")
    return name


def _names(names: tuple[Any, ...]) -> frozenset[str]:
    return frozenset(map(check_name, names))
