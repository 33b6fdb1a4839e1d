"""functx inside PyTorch: a function of CPU tensors whose derivatives PyTorch's autograd asks for.

This module knows torch.autograd.Function and the two compiled halves of a function. How a tensor is an array and an array a tensor is said
in :mod:`functx.tensors`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import config, tensors, trees
from functx.demand import depends_on_differentiated
from functx.dtypes import Kind, is_inexact
from functx.errors import MissingDependencyError, UnknownOptionError, UnsupportedError
from functx.runtime import native
from functx.source import hides_frames
from functx.trace import Tracer, current_trace, where
from functx.transforms.compiled_vjp import CompiledVjp
from functx.transforms.jit import JitOptions, JittedFunction, jit
from functx.transforms.pullbacks import vjp
from functx.util import zip_strict

try:
    import torch
except ImportError as error:
    raise MissingDependencyError("functx.interop.torch needs PyTorch", fix="pip install torch") from error


def wrap(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function of PyTorch's CPU tensors that computes ``f``, compiled, and that PyTorch's autograd can differentiate to any order.

    Arrays that f sees share the memory of the tensors, and tensors that come out share the memory of f's results. Arguments may be tensors
    (parameters of modules too), arrays, numbers, and containers of them; the forward half keeps what the backward half needs. f may write
    to its arguments as NumPy code does: PyTorch then knows that the tensors have changed.

    Args:
      f: a function of NumPy arrays, jitted already or not.
      options: those of :func:`functx.jit`, if f is not jitted yet (``memory_budget=0.5``: keep half as much for the backward half).

    Returns:
      A function with f's arguments. Its results are tensors where f returns arrays or NumPy scalars. They require a gradient where
      derivatives flow into them from an argument that does: not through integers, steps (``np.floor``) and ``functx.stop_gradient``. A
      call without any tensor is a call of the jitted function. In what torch.compile compiles, use ``torch.compiler.disable(wrap(f))``.

    Raises:
      RuntimeError: as PyTorch has it: f writes to a leaf that requires a gradient; a tensor that the backward half needs was changed.
      UnsupportedError: a tensor that is not dense, or not in the CPU's memory.
      UnknownOptionError: options for a function that is jitted already.

    >>> import numpy as np, torch
    >>> import functx.interop.torch
    >>> t = torch.ones(3, requires_grad=True)
    >>> functx.interop.torch.wrap(lambda a: (np.sin(a) * a).sum())(t).backward()
    >>> t.grad
    tensor([1.3818, 1.3818, 1.3818])
    """
    jitted = isinstance(f, native.CompiledFunction)
    if jitted and options:
        raise UnknownOptionError("wrap was given options for a function that is jitted already", where=where(), fix="give them to jit")
    wrapped = _Wrapped(f if jitted else jit(f, **options))

    @hides_frames
    @functools.wraps(f)
    def wrapped_f(*args: Any, **kwargs: Any) -> Any:
        with _always_compiled():
            return wrapped(*args, **kwargs)

    return wrapped_f


def _always_compiled() -> Any:
    """PyTorch calls the halves, of which there is no plain form: where jit is disabled, they are evaluated equation by equation."""
    disabled = config.current().disable_jit
    return config.options(disable_jit=False, backend="reference") if disabled else contextlib.nullcontext()


class _Wrapped:
    """A function, and its two halves by which leaves of its arguments are differentiated."""

    def __init__(self, jitted: Any):
        self._jitted, self._f, self._options = jitted, jitted.__wrapped__, jitted.half.options
        self._plain = _jit(_observed(self._f), self._options)
        self._halves: dict[tuple[int, ...], _Halves] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = trees.flatten((args, kwargs))
        places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        if not places:
            return self._jitted(*args, **kwargs)
        wanted = tuple(i for i in places if leaves[i].requires_grad) if torch.is_grad_enabled() else ()
        if wanted and current_trace() is not None:
            raise UnsupportedError(
                "a function wrapped for PyTorch was called on tensors that require a gradient while functx traces another function",
                where=where(),
                why="PyTorch's graph and functx's do not see each other",
                fix="call the function itself, with functx.grad around it",
            )
        arguments = _Arguments(leaves, structure, places, wanted)
        if not wanted:
            return self._without_gradients(arguments)
        if wanted not in self._halves:
            self._halves[wanted] = _Halves(self._f, self._options, wanted)
        call = _Call(self._halves[wanted], arguments)
        return call.finish(_Node.apply(call, *(leaves[i] for i in places)))

    def _without_gradients(self, arguments: _Arguments) -> Any:
        (out, written), _ = arguments.call(self._plain)
        for i in written:
            _mark_changed(arguments.leaves[i])
        results = _Results(arguments)

        def tensor(value: Any) -> Any:
            known = results.existing(value) if _is_array(value) else value
            return results.new(value) if known is None else known

        return trees.map(tensor, out)


def _jit(f: Callable[..., Any], options: JitOptions) -> Any:
    return JittedFunction(f, options).function


def _observed(f: Callable[..., Any], wanted: tuple[int, ...] | None = None) -> Callable[..., Any]:
    """``f`` that returns ``((out, written), (former, flows))``: beside its result the leaves of its arguments that it wrote to, by number;
    what those of them that are not wanted were before (without ``wanted``: nothing); and for each leaf of the first two whether
    derivatives flow into it. (An empty argument may leave no trace in a result, and an argument may be overwritten by a constant: they
    require a gradient all the same, as in PyTorch.)
    """

    @functools.wraps(f)
    def observed_f(*args: Any, **kwargs: Any) -> Any:
        arrays = {i: h for i, h in enumerate(trees.leaves((args, kwargs))) if isinstance(h, Tracer) and h.kind is Kind.ARRAY}
        former = {i: h.stage.tracer(h.atom) for i, h in arrays.items() if wanted is not None and i not in wanted}
        out = f(*args, **kwargs)
        written = {i: h for i, h in arrays.items() if h.root.generation > 0}
        empty = any(0 in h.aval.shape for h in arrays.values())
        flows = [_flows(v) or (empty and isinstance(v, Tracer) and is_inexact(v.aval.dtype)) for v in trees.leaves(out)]
        flows += [_flows(h) or i in (wanted or ()) for i, h in written.items()]
        return (out, written), ({i: former[i] for i in written if i in former}, tuple(flows))

    return observed_f


def _flows(value: Any) -> bool:
    return isinstance(value, Tracer) and depends_on_differentiated(value.stage, value.atom)


class _Halves:
    """The compiled forward and backward half of a function, and its derivative as a function of tensors again."""

    def __init__(self, f: Callable[..., Any], options: JitOptions, wanted: tuple[int, ...]):
        self._f, self._options, self.wanted = f, options, wanted
        options = options.static_sizes()
        halves = CompiledVjp(
            _observed(f, wanted),
            True,
            functools.partial(_jit, options=options),
            options.partition,
            jit_backward=functools.partial(_jit, options=options.plain()),
            wanted=wanted,
            watched=True,
        )
        self.forward = halves.forward

    @functools.cached_property
    def derivative(self) -> _Wrapped:
        """The gradients of the wanted leaves, as a function of ``(args, kwargs, cotangents)``, one cotangent per leaf of the results."""
        f, wanted = self._f, self.wanted

        def derivative_f(args: Any, kwargs: Any, cts: Sequence[Any]) -> list[Any]:
            leaves, structure = trees.flatten((args, kwargs))

            def of_wanted(*chosen: Any) -> Any:
                given = [*leaves]
                for i, v in zip(wanted, chosen, strict=True):
                    given[i] = v
                own = [v.copy(order="K") if isinstance(v, Tracer) and v.kind is Kind.ARRAY else v for v in given]
                own_args, own_kwargs = trees.unflatten(structure, own)
                return f(*own_args, **own_kwargs)

            out, pull = vjp(of_wanted, *(leaves[i] for i in wanted))
            return list(pull(trees.unflatten(trees.structure(out), cts)))

        return _Wrapped(_jit(derivative_f, self._options.plain()))


class _Arguments:
    """The arguments of one call, as tensors and as arrays.

    Attributes:
      places: which leaves are tensors.
      arrays: the leaves, with arrays in place of the tensors.
    """

    def __init__(self, leaves: list[Any], structure: Any, places: Sequence[int], wanted: Sequence[int]):
        self.leaves, self.structure, self.places = leaves, structure, places
        self.arrays, self._protected = list(leaves), False
        of_tensor: dict[int, np.ndarray] = {}  # a tensor that is passed twice is one array
        for i in places:
            tensor = leaves[i]
            if id(tensor) not in of_tensor:
                of_tensor[id(tensor)] = array = _array(tensor)
                if i in wanted and (tensor._base if tensor._is_view() else tensor).is_leaf:
                    array.setflags(write=False)
                    self._protected = True
            self.arrays[i] = of_tensor[id(tensor)]

    def call(self, f: Callable[..., Any]) -> Any:
        """``f`` of the arrays. Leaves that require a gradient are read-only, so that nothing has happened yet where PyTorch must refuse."""
        args, kwargs = trees.unflatten(self.structure, self.arrays)
        try:
            return f(*args, **kwargs)
        except ValueError as error:
            if not self._protected or "read-only" not in str(error):
                raise
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation.\n"
                f"  why: {error}: a wrapped function writes to an argument of which a gradient is asked\n"
                "  fix: write to a copy in the function, or call it under torch.no_grad()"
            ) from error


def _array(tensor: Any) -> np.ndarray:
    """The memory of a tensor; where PyTorch has put off a conjugation or a change of sign, a read-only copy."""
    tensor = tensor.detach()
    put_off = tensor.is_conj() or tensor.is_neg()
    try:
        array = tensors.as_array(tensor.resolve_conj().resolve_neg() if put_off else tensor)
    except RuntimeError as error:
        raise UnsupportedError(
            f"a tensor of type {type(tensor).__name__} has no memory that an array could share",
            where=where(),
            why=f"PyTorch: {error}",
            fix="where torch.func or torch.compile calls the function, use functx.grad, functx.vmap or functx.jit instead",
        ) from error
    if put_off:
        array.setflags(write=False)
    return array


def _mark_changed(value: Any) -> None:
    if isinstance(value, torch.Tensor) and not value.is_inference():
        torch.autograd.graph.increment_version(value)


def _version(tensor: Any) -> int:
    """How often a tensor was changed; PyTorch does not count the changes of those made in inference mode."""
    return 0 if tensor.is_inference() else tensor._version


class _Results:
    """The tensors of what comes out of a call.

    Args:
      graph: whether the call is a node of PyTorch's graph. If not, results that share memory with each other are views of one tensor.
      changed: leaves of the arguments that get a new value in that graph: a result that shares memory with them is copied.
    """

    def __init__(self, arguments: _Arguments, graph: bool = False, changed: Sequence[int] = ()):
        self.of_array = {id(arguments.arrays[i]): arguments.leaves[i] for i in arguments.places}
        self._graph = graph
        self._owners = [(arguments.arrays[i], None if i in changed else arguments.leaves[i]) for i in arguments.places]

    def existing(self, value: Any) -> Any:
        """The tensor that a result is, or the view that it is of one; None if there is none yet."""
        if id(value) in self.of_array:
            return self.of_array[id(value)]
        owner = self._owner(value)
        return None if owner is None else _view(value, *owner)

    def new(self, value: Any) -> Any:
        """The tensor of a result for which there is none."""
        owner = self._owner(value)
        self.of_array[id(value)] = tensor = tensors.as_tensor(value if owner is None else value.copy())
        self._owners.append((value, None if self._graph else tensor))
        return tensor

    def _owner(self, value: Any) -> tuple[np.ndarray, Any] | None:
        if not isinstance(value, np.ndarray) or value.base is None:
            return None
        return next((pair for pair in self._owners if np.may_share_memory(pair[0], value)), None)


def _is_array(value: Any) -> bool:
    """Whether a result becomes a tensor; Python numbers and all else stay as they are."""
    return isinstance(value, (np.ndarray, np.generic))


def _view(array: np.ndarray, base: np.ndarray, tensor: Any) -> Any:
    """The view of a tensor that an array is of the tensor's array; None where that cannot be."""
    distance = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    steps = [s // array.itemsize for s in array.strides]
    whole = all(s % array.itemsize == 0 for s in (distance, *array.strides))
    if tensor is None or array.dtype != base.dtype or not whole or any(s < 0 for s in steps):
        return None
    return tensor.as_strided(array.shape, steps, tensor.storage_offset() + distance // array.itemsize)


@dataclass(frozen=True)
class _Saved:
    """A tensor among those that PyTorch saves with a node, where it frees them and notices changes."""

    number: int


@dataclass(frozen=True)
class _Held:
    """A tensor that only derivatives of the derivative need: it may be changed as long as nobody asks for these."""

    tensor: Any
    version: int

    def get(self) -> Any:
        """The tensor; RuntimeError, in PyTorch's words, where it has been changed."""
        t, now = self.tensor, _version(self.tensor)
        if now != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{t.type()} {list(t.shape)}] is at version {now}; expected version {self.version} instead."
            )
        return t


@dataclass
class _State:
    """What a node keeps for its backward side.

    Attributes:
      places: which leaves of the arguments are tensors.
      results: how many leaves the results have.
      cotangents: for these, and for the arguments that were written, the number of the output whose cotangent they get, or None.
      residuals, primals: what the backward half, and what derivatives of it are computed from: :class:`_Saved`, :class:`_Held`, or values.
      overwritten: an argument that takes part in the graph was written, so that its former value is gone.
    """

    halves: _Halves
    backward: Any
    structure: Any
    places: Sequence[int]
    results: int
    cotangents: list[int | None]
    residuals: list[Any]
    primals: list[Any] | None
    overwritten: bool

    def gradients(self, saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The gradients of the wanted leaves, computed by the backward half."""
        residuals = [_array(saved[r.number]) if isinstance(r, _Saved) else r for r in self.residuals]
        arrays = self.backward.gradients(residuals, [None if ct is None else _array(ct) for ct in cts])
        return [tensors.as_tensor(a) for a in arrays]

    def differentiable_gradients(self, saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The same as part of PyTorch's graph, computed from the arguments."""
        if self.overwritten:
            raise RuntimeError(
                "a derivative of a derivative was asked of a function that writes to an argument which takes part in the graph\n"
                "  why: the former value of the argument is gone\n"
                "  fix: write to a copy in the function, and return it"
            )
        if self.primals is None:
            raise RuntimeError("Trying to backward through the graph a second time: specify retain_graph=True the first time.")
        got = [saved[p.number] if isinstance(p, _Saved) else p.get() if isinstance(p, _Held) else p for p in self.primals]
        return self.halves.derivative(*trees.unflatten(self.structure, got), cts[: self.results])


class _Call:
    """What one differentiated call brings into PyTorch's graph, and out of it."""

    def __init__(self, halves: _Halves, arguments: _Arguments):
        self._halves, self._arguments = halves, arguments

    def run(self, ctx: Any) -> tuple[Any, ...]:
        """Run the forward half. The outputs of the node are the new tensors among the results, then the arguments that were written."""
        ((out, written), (former, flows)), residuals, backward = self._arguments.call(self._halves.forward)
        self._leaves, self._structure = trees.flatten(out)
        dirty = self._changed_in_graph(written, flows[len(self._leaves) :])
        self._results = results = _Results(self._arguments, graph=True, changed=dirty)
        made = [results.new(v) if _is_array(v) and results.existing(v) is None else None for v in self._leaves]
        given = self._arguments.leaves
        views = [i for i in dirty if given[i]._is_view()]  # of these PyTorch wants no other input before and no other output beside
        made += [tensors.as_tensor(v.copy()) if i in views else given[i] if i in dirty else None for i, v in written.items()]
        outputs = list({id(t): t for t in made if t is not None}.values())
        number_of = {id(t): k for k, t in enumerate(outputs)}
        self._numbers = [number_of.get(id(t)) for t in made]
        self._views = [(given[i], k) for i, k in zip_strict(written, self._numbers[len(self._leaves) :]) if i in views]
        cotangents: list[int | None] = []
        for k, flag in zip_strict(self._numbers, flows):
            cotangents.append(k if flag and k not in cotangents else None)
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(*(given[i] for i in dirty if i not in views))
        ctx.mark_non_differentiable(*(t for k, t in enumerate(outputs) if k not in cotangents))
        ctx.state = self._keep(ctx, residuals, former, bool(dirty), backward, cotangents)
        return tuple(outputs)

    def finish(self, outputs: Sequence[Any]) -> Any:
        """The results, from the outputs of the node."""
        for view, k in self._views:
            view.copy_(outputs[k])
        pairs = zip(self._leaves, self._numbers, strict=False)  # numbers of written arguments follow
        leaves = [outputs[k] if k is not None else self._results.existing(v) if _is_array(v) else v for v, k in pairs]
        return trees.unflatten(self._structure, leaves)

    def _changed_in_graph(self, written: Sequence[int], flows: Sequence[bool]) -> list[int]:
        """The written tensors that have a derivative; of the others PyTorch is only told that they have changed."""
        dirty = [i for i, flag in zip_strict(written, flows) if flag and i in self._arguments.places]
        for i in written:
            if i not in dirty:
                _mark_changed(self._arguments.leaves[i])
        return dirty

    def _keep(self, ctx: Any, residuals: Any, former: Any, overwritten: bool, backward: Any, cotangents: list[int | None]) -> _State:
        leaves = self._arguments.leaves
        copies = {id(v): v.copy() for i, v in enumerate(leaves) if isinstance(v, np.ndarray) and i not in former}  # PyTorch watches tensors
        numbers: dict[int, _Saved] = {}
        saved: list[Any] = []

        def residual(value: Any) -> Any:
            if id(value) in copies:
                return copies[id(value)]
            tensor = self._results.of_array.get(id(value))
            if tensor is None:
                tensor = tensors.as_tensor(value)
            if id(tensor) not in numbers:
                numbers[id(tensor)] = _Saved(len(saved))
                saved.append(tensor)
            return numbers[id(tensor)]

        def primal(i: int, v: Any) -> Any:
            if not isinstance(v, torch.Tensor) or i in former:
                return former.get(i, copies.get(id(v), v))
            return numbers.get(id(v)) or _Held(v, _version(v))

        kept = [residual(r) for r in residuals]
        ctx.save_for_backward(*saved)
        primals = [primal(i, v) for i, v in enumerate(leaves)]
        structure, places, results = self._arguments.structure, self._arguments.places, len(self._leaves)
        return _State(self._halves, backward, structure, places, results, cotangents, kept, primals, overwritten)


class _Node(torch.autograd.Function):
    """One call in PyTorch's graph, of all tensors among its arguments."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *_: Any) -> tuple[Any, ...]:
        return call.run(ctx)

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> tuple[Any, ...]:
        state, saved = ctx.state, ctx.saved_tensors  # PyTorch raises here if one of them was changed
        of_leaves = [None if k is None else cts[k] for k in state.cotangents]
        with _always_compiled():
            compute = state.differentiable_gradients if torch.is_grad_enabled() else state.gradients
            gradients = compute(saved, of_leaves) if any(ct is not None for ct in of_leaves) else [None] * len(state.halves.wanted)
        of_place = dict(zip_strict(state.halves.wanted, gradients))
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            state.primals = None  # PyTorch frees what is saved, too
        return (None, *(of_place.get(i) if needed else None for i, needed in zip_strict(state.places, ctx.needs_input_grad[1:])))
