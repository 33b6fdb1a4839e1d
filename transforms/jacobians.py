"""jacfwd, jacrev, hessian and hvp: the matrix of a function's linear map, column by column or row by row, in chunks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import shapes, trees
from functx.dtypes import INT64, Kind, is_complex
from functx.errors import ComplexDerivativeError, StructureError
from functx.ir import Atom, Graph, Var
from functx.primitive import Emitter
from functx.source import function_source, hides_frames
from functx.trace import Trace, where
from functx.transforms.arguments import argument_numbers, check_callable, flatten_arguments
from functx.transforms.boundary import deliver, execute, wrap
from functx.transforms.differentiation import Differentiated, stage_differentiated, wanted_leaves
from functx.transforms.gradients import grad
from functx.transforms.interpreter import INTERPRETER
from functx.transforms.linear_maps import LinearMap, constant_tangent, has_tangent, primary_tree, pullback_map, tangent_map
from functx.transforms.pullbacks import jvp
from functx.transforms.staging import Result
from functx.util import zip_strict

# Seeds that are small in any case, in elements: fewer chunks are faster than less memory.
SMALL = 2**17


def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, column by column in forward mode: best where f has fewer inputs than results.

    Args:
      f: a function of arrays.
      argnums: which positional arguments to differentiate; a sequence gives a tuple of Jacobians.
      has_aux: f returns a pair, whose second part is handed through.
      holomorphic: f is a holomorphic function of complex arguments; the result holds its complex derivatives.
      chunk_size: how many columns are computed at once. More need more memory, and give the same numbers. By default so many that what is
        computed at once is no larger than the Jacobian.

    Returns:
      A function with f's arguments that returns, in f's structure of results, for each of them the structure of the argument, whose leaves
      have ``result.shape + argument.shape`` (a number where both are numbers); with ``has_aux`` a pair of it and the second part. None
      stands for integers. Jacobians of real arguments only, unless ``holomorphic``: a complex argument has no complex derivative otherwise.

    Raises:
      ComplexDerivativeError: dtypes that do not fit ``holomorphic``.
      IntegerGradientError: an argument asked for is an integer array.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.jacfwd(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return _jacobian(f, "jacfwd", argnums, has_aux, holomorphic, chunk_size)


def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, row by row in reverse mode: best where f has fewer results than inputs.

    Args and result are those of :func:`jacfwd`; chunks are of rows. Results must be real, unless ``holomorphic``; the row of a real result
    is its gradient as :func:`functx.grad` gives it, of complex arguments too. ``functx.jacobian`` is this function.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.jacrev(lambda x: x[1:] * x[:-1], chunk_size=1)(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return _jacobian(f, "jacrev", argnums, has_aux, holomorphic, chunk_size)


jacobian = jacrev


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the second derivatives of ``f``: the forward-mode Jacobian of its reverse-mode Jacobian.

    Args are those of :func:`jacfwd`. For every result the structure of the argument holds structures of the argument again, whose leaves
    have ``result.shape + argument.shape + argument.shape``.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    options = (argnums, has_aux, holomorphic)
    return jacfwd(jacrev(f, *options, chunk_size=chunk_size), *options, chunk_size=chunk_size)


@hides_frames
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a scalar function times a vector, by forward over reverse mode: about the cost of two gradients.

    Args:
      f: a function whose result is a real scalar.
      primals: a tuple of its positional arguments.
      tangents: a tuple of as many vectors, in the structures of the arguments; None for an argument that is held fixed.

    Returns:
      The product, in the structure of the argument; of several arguments a tuple, with None for those held fixed.

    >>> import numpy as np
    >>> import functx as fx
    >>> fx.hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    array([  6., 120.])
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        raise StructureError("hvp takes a tuple of primals and a tuple of as many tangents", where=where(), fix="hvp(f, (x,), (v,))")
    moving = [i for i, t in enumerate(tangents) if t is not None]
    products = iter(jvp(grad(f, moving), primals, tangents)[1] if moving else ())
    out = tuple(next(products) if i in moving else None for i in range(len(primals)))
    return out[0] if len(out) == 1 else out


# --- the Jacobian of a staged function ----------------------------------------------------------------------------------------------------


def _jacobian(
    f: Callable[..., Any], name: str, argnums: int | Sequence[int], has_aux: bool, holomorphic: bool, chunk_size: int | None
) -> Callable[..., Any]:
    check_callable(f, name)
    if chunk_size is not None and (isinstance(chunk_size, bool) or not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1):
        raise ValueError(f"{name}: chunk_size must be a positive int or None, not {chunk_size!r}")
    single = isinstance(argnums, (int, np.integer))

    @hides_frames
    @functools.wraps(f)
    def jacobian_f(*args: Any, **kwargs: Any) -> Any:
        nums = argument_numbers(argnums, args, f, name)
        arguments = flatten_arguments(f, args, kwargs)
        d = stage_differentiated(f, name, arguments, wanted_leaves(arguments, nums, name))
        out_tree = primary_tree(d.staged, has_aux)
        results = d.staged.results[: out_tree.num_leaves]
        _check_dtypes(f, name, d, results, holomorphic)
        linear, outs = (tangent_map if name == "jacfwd" else pullback_map)(d, results)
        matrix = _Matrix(linear, chunk_size, seeds_last=name == "jacfwd", conjugate=holomorphic and name == "jacrev")
        blocks = _by_result(matrix.blocks(d.parent), transposed=name == "jacfwd")
        leaves = [_argument_trees(d, nums, r, blocks, single) for r in results]
        result = deliver(d.staged, outs, d.parent)
        jacobian = trees.unflatten(out_tree, leaves)
        return (jacobian, result[1]) if has_aux else jacobian

    return jacobian_f


def _by_result(blocks: list[list[Any]], transposed: bool) -> Any:
    """An iterator over the blocks of one result after the other."""
    return iter(zip_strict(*blocks) if transposed else blocks)


def _argument_trees(d: Differentiated, nums: Sequence[int], result: Result, blocks: Any, single: bool) -> Any:
    """The Jacobian of one result, in the structure of the arguments."""
    row: Sequence[Any] | None = next(blocks, ()) if has_tangent(result) else None
    order = {slot: k for k, slot in enumerate(i for i, flag in enumerate(d.active) if flag)}
    out = []
    for argnum in nums:
        leaves = []
        for i in d.arguments.spans[argnum]:
            slot = d.slots[i]
            if slot not in order:
                leaves.append(None)
                continue
            aval = d.staged.trace.inputs[slot].var.aval
            if row is not None:
                block = row[order[slot]]
                shape = np.shape(block) if d.parent is None else block.aval.shape
                leaves.append(wrap(block, aval.kind if shape == () else Kind.ARRAY, d.parent))
            else:
                leaves.append(_constant_derivative(result, aval, d.parent))
        out.append(trees.unflatten(d.arguments.positional_tree(argnum), leaves))
    return out[0] if single else tuple(out)


def _constant_derivative(result: Result, aval: Any, parent: Trace | None) -> Any:
    """Zeros for a float that does not depend on anything traced, None for what has no derivative."""
    tangent = constant_tangent(result.constant)
    if tangent is None:
        return None
    shape = (*np.shape(tangent), *aval.shape)
    zeros = np.zeros(shape, aval.dtype) if parent is None else parent.emit.full(shape, 0, aval.dtype)
    return wrap(zeros, aval.kind if shape == () else Kind.ARRAY, parent)


def _check_dtypes(f: Any, name: str, d: Differentiated, results: Sequence[Result], holomorphic: bool) -> None:
    """``holomorphic`` wants complex arguments and results; otherwise jacfwd wants real arguments and jacrev real results."""
    inputs = [slot.var.aval for slot, flag in zip_strict(d.staged.trace.inputs, d.active) if flag]
    outputs = [r.aval for r in results if has_tangent(r)]
    what = f"{name} of {function_source(f)}"
    if holomorphic:
        if odd := next((a for a in (*inputs, *outputs) if not is_complex(a.dtype)), None):
            why = "holomorphic functions take complex arguments to complex results"
            raise ComplexDerivativeError(f"{what}: a value of type {odd} with holomorphic=True", where=where(), why=why, fix="leave it out")
        return
    side, wrong = ("an argument", inputs) if name == "jacfwd" else ("a result", outputs)
    if odd := next((a for a in wrong if is_complex(a.dtype)), None):
        raise ComplexDerivativeError(
            f"{what}: {side} has type {odd}",
            where=where(),
            why="a complex function has one derivative per direction, unless it is holomorphic",
            fix="give holomorphic=True if it is; or treat z.real and z.imag as two real values",
        )


# --- the matrix of a linear map -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matrix:
    """The matrix of a linear map, got by applying it to unit vectors, some at a time, which are made where they are used.

    Attributes:
      seeds_last: blocks have ``result.shape + argument.shape`` of the map, otherwise the axes of its argument come first.
      conjugate: blocks are conjugated: the adjoint is to be undone.
    """

    linear: LinearMap
    chunk_size: int | None
    seeds_last: bool
    conjugate: bool

    def blocks(self, trace: Trace | None) -> list[list[Any]]:
        """``blocks[i][j]``: of argument i and result j of the map, as arrays, or atoms of the trace."""
        sizes = [shapes.size(v.aval.shape) for v in self.linear.arguments]
        total, held = sum(sizes), self.linear.held(trace)
        chunk = self._chunk(total, trace is not None)
        graph = self._of_chunk(chunk)
        if trace is not None:
            return self._traced(trace, graph, held, total, chunk)
        filled = [[self._empty(v, a) for a in self.linear.graph.out_avals] for v in self.linear.arguments]
        for start in _starts(total, chunk):
            rows = execute(graph, [*held, *_unit_vectors(self.linear.arguments, chunk, start)], None)
            offset = 0
            for n, row in zip_strict(sizes, filled):
                low, high = max(start, offset), min(start + chunk, offset + n)
                if low < high:
                    for block, part in zip_strict(row, rows):
                        self._fill(block, part[low - start : high - start], n, low - offset)
                offset += n
        return filled

    def _chunk(self, total: Any, traced: bool) -> Any:
        """How many unit vectors at once. By default all inside a trace, whose compiler does not store them."""
        if self.chunk_size is not None:
            return max(min(int(self.chunk_size), total), 1)
        if traced:
            return total
        results = sum(shapes.size(a.shape) for a in self.linear.graph.out_avals)
        return max(min(total, max(results, SMALL // max(total, 1))), 1)

    def _of_chunk(self, chunk: Any) -> Graph:
        """The map over a leading axis of its arguments."""
        linear, b = self.linear, INTERPRETER.emitter()
        flags = [i >= len(linear.residuals) for i in range(len(linear.graph.inputs))]
        mapped, _ = INTERPRETER.vmap(linear.graph, flags, chunk, [True] * len(linear.graph.outputs))
        if not self.conjugate:
            return mapped
        outs = b.inline(mapped, mapped.in_vars)
        return b.build(mapped.inputs, [s.with_atom(b.conj(o)) for s, o in zip_strict(mapped.outputs, outs)])

    def _empty(self, var: Var, out: Any) -> np.ndarray:
        parts = (out.shape, var.aval.shape) if self.seeds_last else (var.aval.shape, out.shape)
        return np.empty(parts[0] + parts[1], out.dtype)

    def _fill(self, block: np.ndarray, part: np.ndarray, n: int, at: int) -> None:
        other = part.size // len(part)
        flat = part.reshape(len(part), other)
        if self.seeds_last:
            block.reshape(other, n)[:, at : at + len(part)] = flat.T
        else:
            block.reshape(n, other)[at : at + len(part)] = flat

    def _traced(self, trace: Trace, graph: Graph, held: Sequence[Any], total: Any, chunk: Any) -> list[list[Any]]:
        """One copy of the graph per chunk, and the pieces put together."""
        starts = _starts(total, chunk)
        b, blocks, offset = trace.emit, [], 0
        seeds = [_emit_unit_vectors(b, self.linear.arguments, chunk, start) for start in starts]
        parts = [trace.inline(graph, [*held, *given]) for given in seeds]
        counts = [end - start for start, end in zip(starts, [*starts[1:], total], strict=True)]  # the last chunk overlaps
        whole = [_joined(b, [_rows(b, x, 0, n) for x, n in zip_strict(column, counts)]) for column in zip_strict(*parts)]
        for var in self.linear.arguments:
            n = shapes.size(var.aval.shape)
            blocks.append([self._shaped(b, _rows(b, atom, offset, n), var) for atom in whole])
            offset = offset + n
        return blocks

    def _shaped(self, b: Emitter, rows: Atom, var: Var) -> Atom:
        inner, outer = var.aval.ndim, rows.aval.ndim - 1
        block = b.reshape(rows, shape=(*var.aval.shape, *rows.aval.shape[1:]))
        if not self.seeds_last or not inner or not outer:
            return block
        return b.transpose(block, perm=(*range(inner, inner + outer), *range(inner)))


def _starts(total: Any, chunk: Any) -> list[int]:
    """Where chunks of one size begin; the last one overlaps the one before rather than being shorter."""
    if isinstance(total, shapes.Dim) or total <= chunk:
        return [0]
    return [min(start, total - chunk) for start in range(0, total, chunk)]


def _joined(b: Emitter, parts: Sequence[Atom]) -> Atom:
    return parts[0] if len(parts) == 1 else b.concatenate(*parts, axis=0)


def _rows(b: Emitter, x: Atom, start: Any, count: Any) -> Atom:
    """``count`` entries along the first axis."""
    rest = x.aval.shape[1:]
    if count == x.aval.shape[0]:
        return x
    return b.slice(x, starts=(start, *(0 for _ in rest)), sizes=(count, *rest), steps=(1,) * x.aval.ndim)


def _unit_vectors(variables: Sequence[Var], chunk: int, start: int) -> list[np.ndarray]:
    """The unit vectors ``start``, ``start + 1``, ... of the space of all variables together: for each variable its parts of them."""
    out, offset = [], 0
    for var in variables:
        part = np.zeros((chunk, shapes.size(var.aval.shape)), var.aval.dtype)
        low, high = max(start, offset), min(start + chunk, offset + part.shape[1])
        part[range(low - start, high - start), range(low - offset, high - offset)] = 1
        out.append(part.reshape(chunk, *var.aval.shape))
        offset += part.shape[1]
    return out


def _emit_unit_vectors(b: Emitter, variables: Sequence[Var], chunk: Any, start: int) -> list[Atom]:
    """Likewise inside a trace: conditions on positions, which a compiler need not store."""
    out, offset = [], 0
    for var in variables:
        size = shapes.size(var.aval.shape)
        number = b.add(b.iota(shape=(chunk, size), dtype=INT64, axis=0), b.full((chunk, size), start, INT64))
        place = b.iota(shape=(chunk, size), dtype=INT64, axis=1)
        if offset != 0:
            place = b.add(place, b.full((chunk, size), offset, INT64))
        hit = b.convert(b.eq(number, place), dtype=var.aval.dtype, checked=False)
        out.append(b.reshape(hit, shape=(chunk, *var.aval.shape)))
        offset = offset + size
    return out
