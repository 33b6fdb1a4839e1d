"""grad, value_and_grad and joint_graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import shapes, trees
from functx.dtypes import PYTHON_DTYPES, is_complex, is_inexact
from functx.errors import NonScalarLossError, StructureError
from functx.ir import Literal
from functx.source import hides_frames
from functx.trace import type_of_value, where
from functx.transforms.arguments import argument_numbers, check_callable, flatten_arguments
from functx.transforms.boundary import deliver, execute, input_values, translate
from functx.transforms.differentiation import (
    Differentiated,
    gradient_places,
    gradient_tree,
    joint_graph_of,
    stage_differentiated,
    wanted_leaves,
)
from functx.transforms.halves import JointGraph
from functx.transforms.staging import Staged


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns ``f``'s value and its gradient.

    Args:
      f: a function whose result is a real scalar (with ``has_aux``: a pair of it and anything else).
      argnums: which positional arguments to differentiate; a sequence gives a tuple of gradients.
      has_aux: whether f returns auxiliary data beside the value.

    Returns:
      A function with f's arguments that returns ``(value, gradient)``, or ``((value, aux), gradient)``. A gradient has the structure,
      shapes, dtypes and kinds of its argument; integer leaves have None, Python ints count as floats. Arguments that f changes in place are
      changed as in a plain call, once, and the derivative is taken at the values before the call.

    Raises:
      NonScalarLossError: the result is not a real scalar.
      IntegerGradientError: an argument asked for is an integer array.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    check_callable(f, "grad")

    @hides_frames
    @functools.wraps(f)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        nums = argument_numbers(argnums, args, f, "grad")
        d, joint, env = _joint(f, nums, has_aux, args, kwargs)
        outs = execute(joint, input_values(d.staged, d.parent), d.parent, translate(d.staged.trace.known, env))
        gradients = outs[len(d.staged.graph.outputs) :]
        result = deliver(d.staged, outs, d.parent)
        grads = tuple(gradient_tree(gradient_places(d, n), gradients, d.parent) for n in nums)
        return result, grads[0] if _is_single(argnums) else grads

    return value_and_grad_f


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns ``f``'s gradient (with ``has_aux``: gradient and auxiliary data). See :func:`value_and_grad`.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.grad(lambda x: x * x * x)(2.0)
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @hides_frames
    @functools.wraps(f)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


def joint_graph(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., JointGraph]:
    """A function that returns the joint forward and backward graph of ``f`` instead of running it.

    Its equations are marked by side, its inputs and outputs by role; :meth:`JointGraph.partition` splits it in two.

    >>> import functx as fx
    >>> print(fx.joint_graph(lambda x: x * x)(3.0))  # doctest: +ELLIPSIS
    { lambda a:f64[]~ .
      b:f64[] = mul a a <forward 0>  # ...
      ...
    """

    @functools.wraps(f)
    def joint_graph_f(*args: Any, **kwargs: Any) -> JointGraph:
        nums = argument_numbers(argnums, args, f, "grad")
        return _joint(f, nums, has_aux, args, kwargs)[1]

    return joint_graph_f


def _joint(f: Callable[..., Any], nums: Sequence[int], has_aux: bool, args: Any, kwargs: Any) -> tuple[Differentiated, JointGraph, Any]:
    arguments = flatten_arguments(f, args, kwargs)
    d = stage_differentiated(f, "grad", arguments, wanted_leaves(arguments, nums, "grad"))
    loss = _loss_output(d.staged, has_aux)
    seeds = [] if loss is None else [(loss, Literal(1, d.staged.graph.outputs[loss].atom.aval.dtype))]
    joint, env = joint_graph_of(d.staged, d.active, seeds)
    return d, joint, env


def _is_single(argnums: Any) -> bool:
    return isinstance(argnums, (int, np.integer))


def _loss_output(staged: Staged, has_aux: bool) -> int | None:
    """The graph output that holds the loss; None when it does not depend on anything traced."""
    name, why = staged.trace.name, "a gradient is that of one real scalar"
    tree = staged.out_tree
    if has_aux:
        if tree.type is not tuple or len(tree.children()) != 2:
            raise StructureError(f"has_aux: {name} must return a pair", where=where(), fix="return value, aux")
        tree = tree.children()[0]
    if not tree.is_leaf():
        raise NonScalarLossError(
            f"grad of {name}: the result is a container, {trees.show(tree)}",
            where=where(),
            why=why,
            fix="return the scalar alone, or the rest as auxiliary data (has_aux=True)",
        )
    result = staged.results[0]
    if result.aval is None and not isinstance(result.constant, (np.ndarray, np.generic, *PYTHON_DTYPES)):
        what = f"grad of {name}: the result is a {type(result.constant).__name__}"
        raise NonScalarLossError(what, where=where(), why=why, fix="return a float")
    aval = result.aval or type_of_value(result.constant)
    if aval.shape != ():
        raise NonScalarLossError(
            f"grad of {name}: the result has shape {shapes.show(aval.shape)}, not ()",
            where=where(),
            why=why,
            fix="reduce it with .sum() or .mean(), or take functx.jacrev, the Jacobian",
        )
    if not is_inexact(aval.dtype) or is_complex(aval.dtype):
        fix = "return its real part, .real, or np.abs of it" if is_complex(aval.dtype) else "return a float"
        raise NonScalarLossError(f"grad of {name}: the result has dtype {aval.dtype}", where=where(), why=why, fix=fix)
    return result.value
