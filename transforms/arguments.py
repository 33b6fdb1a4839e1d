"""The arguments of a transformed function as labelled leaves, and which of them a transform is about."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from functx import tensors, trees
from functx.errors import UnknownOptionError, UnsupportedError
from functx.numpy.promote import ArrayLike
from functx.source import function_source
from functx.trace import Tracer, where
from functx.transforms.staging import is_static
from functx.util import zip_strict


def check_callable(f: Any, transform: str) -> Any:
    """``f`` itself; TypeError at once where a transform is given something that cannot be called."""
    if not callable(f):
        raise TypeError(f"{transform} takes a function, not a {type(f).__name__}")
    return f


@dataclass
class Arguments:
    """Flattened arguments.

    Attributes:
      leaves: all leaves, positional arguments first.
      labels: how messages call each leaf: ``'params['w']'``, ``'x'``.
      spans: the range of leaves of each positional argument.
    """

    leaves: list[Any]
    labels: list[str]
    spans: list[range]
    treedef: Any

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with other leaves."""
        return trees.unflatten(self.treedef, leaves)

    def positional_tree(self, argnum: int) -> Any:
        """The structure of one positional argument."""
        return self.treedef.children()[0].children()[argnum]


def refuse_unknown(transform: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Raise for keywords that a transform does not have, naming those that it has."""
    if unknown:
        options = [p.name for p in inspect.signature(transform).parameters.values() if p.kind is p.KEYWORD_ONLY]
        name = transform.__name__
        raise UnknownOptionError(f"{name} has no option {', '.join(unknown)}", where=where(), fix=f"its options are {', '.join(options)}")


def flatten_arguments(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Leaves, labels and structure of a call's arguments."""
    leaves, treedef = trees.flatten((args, kwargs))
    leaves = [v.as_array() if isinstance(v, ArrayLike) else v for v in leaves]
    names = positional_names(f, len(args))
    labels: list[str] = []
    spans: list[range] = []
    for name, value in [*zip(names, args, strict=True), *((k, kwargs[k]) for k in sorted(kwargs))]:
        paths = trees.leaf_paths(value)
        spans.append(range(len(labels), len(labels) + len(paths)))
        labels += [f"'{name}{path}'" for path in paths]
    return Arguments(leaves, labels, spans[: len(args)], treedef)


def refuse_tensors(arguments: Arguments, transform: str) -> None:
    """Tensors of PyTorch come in through jit, which knows where their memory is and makes results of their kind.

    Raises:
      UnsupportedError: a leaf is one.
    """
    for leaf, label in zip_strict(arguments.leaves, arguments.labels):
        if tensors.any_in([leaf]):
            raise UnsupportedError(
                f"{transform} was called on a torch.Tensor, argument {label}",
                where=where(),
                why="tensors are arguments of jitted functions",
                fix=f"jit the whole: fx.jit(lambda x: fx.{transform}(f)(x)), say; or use its array (x.numpy())",
            )


def positional_names(f: Callable[..., Any], count: int) -> list[str]:
    """Names of the first ``count`` positional parameters (``args[i]`` where there is none)."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"args[{i}]" for i in range(count)]


def with_fixed(f: Callable[..., Any], fixed: Mapping[int, Any], fixed_names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of the other arguments, where some are given already, by position or by name."""
    if not fixed and not fixed_names:
        return f

    @functools.wraps(f)
    def rest_f(*rest: Any, **named: Any) -> Any:
        it = iter(rest)
        count = len(rest) + len(fixed)
        return f(*(fixed[i] if i in fixed else next(it) for i in range(count)), **named, **fixed_names)

    rest_f.__signature__ = _signature_without(f, fixed)  # type: ignore[attr-defined]
    return rest_f


def _signature_without(f: Callable[..., Any], positions: Container[int]) -> inspect.Signature | None:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return None
    return signature.replace(parameters=[p for i, p in enumerate(signature.parameters.values()) if i not in positions])


def argument_numbers(argnums: int | Sequence[int], args: tuple[Any, ...], f: Callable[..., Any], transform: str) -> list[int]:
    """One or several ``argnums`` as positions among the arguments of a call."""
    given = argnums if isinstance(argnums, (tuple, list, range)) else (argnums,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in given):
        raise TypeError(f"{transform}: argnums must be an int or a sequence of ints, not {argnums!r}")
    return [argument_number(n, args, f, transform) for n in given]


def argument_number(n: int, args: tuple[Any, ...], f: Callable[..., Any], transform: str) -> int:
    """``n`` as a non-negative position among the arguments of a call; TypeError if there is no such argument."""
    if not -len(args) <= n < len(args):
        what = f"{transform} with respect to argument {n}, but {function_source(f)} was called with {len(args)} positional arguments"
        raise TypeError(what)
    return n % len(args)


def leaves_or_none(structure: Any, given: Any) -> list[Any] | None:
    """The leaves of ``given``, one per leaf of ``structure``; a None in it stands for a leaf or a container. None if they do not fit."""
    whole = trees.unflatten(structure, range(structure.num_leaves))
    try:
        spread = optree.broadcast_prefix(given, whole, none_is_leaf=True, namespace=trees.NAMESPACE)
    except ValueError:
        return None
    places, _ = trees.flatten_with_none(whole)
    leaves = [v for v, place in zip(spread, places, strict=True) if place is not None]
    return leaves if sum(v is not None for v in leaves) == len(trees.leaves(given)) else None


def is_traced_leaf(value: Any) -> bool:
    """Whether a leaf takes part in the graph (static leaves pass through)."""
    return isinstance(value, Tracer) or not is_static(value)
