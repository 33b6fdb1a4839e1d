"""A backend of one's own: graphs of functx run by PyTorch's operators, one by one.

    python examples/torch_backend.py

A backend has a name and ``compile(graph, options)``, which gives an executable: called with one array per input, it returns one new array
per output (functx.backend says the rest). Registered by name, it is used by ``functx.jit(f, backend="torch")``. What reaches it are graphs
without nested calls, checkpoints and custom rules; loops and choices (scan, while, cond) hold graphs in their parameters, which are run by
the same means here.
"""

import numpy as np
import torch

import functx as fx
from functx.backend import register_backend, write_map
from functx.errors import BackendError
from functx.ir import Literal


def torch_dtype(dtype):
    return getattr(torch, dtype.name)


def broadcast(x, shape, dims):
    """Axis k of x becomes axis dims[k] of the result."""
    return x.reshape([x.shape[dims.index(a)] if a in dims else 1 for a in range(len(shape))]).expand(shape)


def dot_general(x, y, contract, batch):
    """A product with letters for axes: those of the batch, those that are summed, and the rest."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    shared = [next(letters) for _ in batch[0]], [next(letters) for _ in contract[0]]
    names = []
    for side, t in enumerate((x, y)):
        own = dict(zip((*batch[side], *contract[side]), (*shared[0], *shared[1]), strict=True))
        names.append([own[a] if a in own else next(letters) for a in range(t.ndim)])
    free = [n for side in names for n in side if n not in (*shared[0], *shared[1])]
    return torch.einsum(f"{''.join(names[0])},{''.join(names[1])}->{''.join([*shared[0], *free])}", x, y)


def scan(run, *args, graph, length, reverse, consts, carries, **_):
    """The body on every step; what it carries, then what it collects."""
    fixed, carry, xs = args[:consts], args[consts : consts + carries], args[consts + carries :]
    rows = []
    for k in reversed(range(length)) if reverse else range(length):
        outs = run(graph, [*fixed, *carry, *(x[k] for x in xs)])
        carry, collected = outs[:carries], outs[carries:]
        rows.append(collected)
    ordered = rows[::-1] if reverse else rows
    return [*carry, *(torch.stack(column) for column in zip(*ordered, strict=True))]


OPERATORS = {
    **{
        name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "neg", "exp", "log", "sin", "cos", "tanh", "sqrt", "abs", "pow")
    },
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "sign", "floor")},
    "mul_zero": lambda x, y: torch.where((x == 0) | (y == 0), torch.zeros_like(x), x * y),
    "logistic": torch.sigmoid,
    "max": lambda x, y, tie: torch.maximum(x, y),
    "min": lambda x, y, tie: torch.minimum(x, y),
    "select": torch.where,
    "convert": lambda x, dtype, checked: x.to(torch_dtype(dtype)),
    "broadcast": broadcast,
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, perm: x.permute(perm),
    "reduce_sum": lambda x, axes: x.sum(axes) if axes else x,
    "reduce_max": lambda x, axes: x.amax(axes),
    "iota": lambda shape, dtype, axis: broadcast(torch.arange(shape[axis], dtype=torch_dtype(dtype)), shape, (axis,)),
    "dot_general": dot_general,
}


def run(graph, inputs):
    """The outputs of a graph for tensors, equation by equation."""
    known = dict(zip(graph.in_vars, inputs, strict=True)) | {v: torch.from_numpy(np.array(array)) for v, array in graph.consts}

    def value(atom):
        return torch.from_numpy(np.array(atom.value)) if isinstance(atom, Literal) else known[atom]

    for eqn in graph.eqns:
        args, name = [value(a) for a in eqn.inputs], eqn.primitive.name
        if name == "scan":
            outs = scan(run, *args, **eqn.params)
        elif name in OPERATORS:
            outs = [OPERATORS[name](*args, **eqn.params)]
        else:
            raise BackendError(
                f"the torch backend has no operator for '{name}'", where=eqn.source and eqn.source.describe(), fix="add one to OPERATORS"
            )
        known.update(zip(eqn.outputs, outs, strict=True))
    return [value(atom) for atom in graph.out_atoms]


class TorchExecutable:
    """A graph that PyTorch runs."""

    workspace_bytes, compiled = 0, False

    def __init__(self, graph):
        self.graph, self.out_avals, self.writes, self.source = graph, graph.out_avals, write_map(graph), str(graph)

    def __call__(self, inputs):
        tensors = [torch.from_numpy(np.array(x)) for x in inputs]
        return [np.array(out.numpy(), dtype=aval.dtype) for out, aval in zip(run(self.graph, tensors), self.out_avals, strict=True)]


class TorchBackend:
    """Graphs to executables; there is nothing to compile."""

    name = "torch"

    def compile(self, graph, options):
        return TorchExecutable(graph)


register_backend("torch", TorchBackend)


def loss(w, x, y):
    return ((np.tanh(x @ w) - y) ** 2).mean()


def main():
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=(5, 3)), rng.normal(size=(20, 5)), rng.normal(size=(20, 3))
    step = fx.jit(lambda w: w - 0.5 * fx.grad(loss)(w, x, y), backend="torch")
    first = loss(w, x, y)
    for _ in range(100):
        w = step(w)
    print(f"loss {first:.3f} -> {loss(w, x, y):.3f}")


if __name__ == "__main__":
    main()
