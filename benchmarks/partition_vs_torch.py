"""What the backward side keeps of the forward side: functx beside torch's partitioners, on the same programs.

    python benchmarks/partition_vs_torch.py

For each program: the bytes handed from forward to backward that are neither inputs nor results, and the work of the backward half, by
functx's minimum cut and by torch's ``min_cut_rematerialization_partition`` and ``default_partition`` (through ``aot_function``). Work is
counted alike on both sides: 2mnk for a product, one operation per element for anything else that computes. Needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from functorch.compile import aot_function, default_partition, make_boxed_func, min_cut_rematerialization_partition
from rich.console import Console
from rich.table import Table

import functx as fx

B, N, H = 64, 128, 256  # rows, features, hidden


@dataclass(frozen=True)
class Program:
    """One function written twice, and the shapes of its arguments."""

    numpy: Callable[..., Any]
    torch: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def _layer_norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b


def _layer_norm_torch(x, w, b):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * w + b


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _softmax_torch(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def _gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _gelu_torch(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _lstm(x, h, c, w, u):
    i, f, g, o = np.split(x @ w + h @ u, 4, -1)
    new = fx.nn.sigmoid(f) * c + fx.nn.sigmoid(i) * np.tanh(g)
    return (fx.nn.sigmoid(o) * np.tanh(new)).sum()


def _lstm_torch(x, h, c, w, u):
    i, f, g, o = torch.chunk(x @ w + h @ u, 4, -1)
    new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return (torch.sigmoid(o) * torch.tanh(new)).sum()


PROGRAMS = {
    "three cosines": Program(lambda x: np.cos(np.cos(np.cos(x))).sum(), lambda x: torch.cos(torch.cos(torch.cos(x))).sum(), ((B, N),)),
    "x * x * x": Program(lambda x: (x * x * x).sum(), lambda x: (x * x * x).sum(), ((B, N),)),
    "tanh of a product": Program(lambda x, w: np.tanh(x @ w).sum(), lambda x, w: torch.tanh(x @ w).sum(), ((B, N), (N, H))),
    "relu of a product": Program(lambda x, w: fx.nn.relu(x @ w).sum(), lambda x, w: torch.relu(x @ w).sum(), ((B, N), (N, H))),
    "relu network": Program(
        lambda x, w, v: (fx.nn.relu(x @ w) @ v).sum(), lambda x, w, v: (torch.relu(x @ w) @ v).sum(), ((B, N), (N, H), (H, N))
    ),
    "gelu network": Program(
        lambda x, w, v: (_gelu(x @ w) @ v).sum(), lambda x, w, v: (_gelu_torch(x @ w) @ v).sum(), ((B, N), (N, H), (H, N))
    ),
    "tanh network, 3 layers": Program(
        lambda x, u, v, w: np.tanh(np.tanh(np.tanh(x @ u) @ v) @ w).sum(),
        lambda x, u, v, w: torch.tanh(torch.tanh(torch.tanh(x @ u) @ v) @ w).sum(),
        ((B, N), (N, N), (N, N), (N, N)),
    ),
    "layer norm": Program(
        lambda x, w, b: (_layer_norm(x, w, b) ** 2).sum(), lambda x, w, b: (_layer_norm_torch(x, w, b) ** 2).sum(), ((B, N), (N,), (N,))
    ),
    "softmax": Program(lambda x, y: (_softmax(x) * y).sum(), lambda x, y: (_softmax_torch(x) * y).sum(), ((B, N), (B, N))),
    "cross entropy": Program(
        lambda x, w, y: -((z := x @ w) - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True)) * y).sum(),
        lambda x, w, y: -((z := x @ w) - torch.log(torch.exp(z - z.amax(-1, keepdim=True)).sum(-1, keepdim=True)) * y).sum(),
        ((B, N), (N, H), (B, H)),
    ),
    "attention": Program(
        lambda q, k, v: (_softmax(q @ k.T / 11.3) @ v).sum(),
        lambda q, k, v: (_softmax_torch(q @ k.T / 11.3) @ v).sum(),
        ((B, N), (B, N), (B, N)),
    ),
    "residual block": Program(
        lambda x, w, v, g, b: (x + _gelu(_layer_norm(x, g, b) @ w) @ v).sum(),
        lambda x, w, v, g, b: (x + _gelu_torch(_layer_norm_torch(x, g, b) @ w) @ v).sum(),
        ((B, N), (N, H), (H, N), (N,), (N,)),
    ),
    "LSTM cell": Program(_lstm, _lstm_torch, ((B, N), (B, H), (B, H), (N, 4 * H), (H, 4 * H))),
    "gated unit": Program(
        lambda x, w, v: ((z := x @ w) * fx.nn.sigmoid(z) * (x @ v)).sum(),
        lambda x, w, v: ((z := x @ w) * torch.sigmoid(z) * (x @ v)).sum(),
        ((B, N), (N, H), (N, H)),
    ),
}


def arguments(program: Program) -> list[np.ndarray]:
    """Random float32 arguments."""
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32) for shape in program.shapes]


# --- functx -------------------------------------------------------------------------------------------------------------------------------


def functx_side(program: Program, mode: str = "minimum_cut") -> tuple[int, int]:
    """Bytes kept, and the work of the backward half."""
    args = arguments(program)
    parts = fx.joint_graph(program.numpy, range(len(args)))(*args).partition(mode)
    return parts.nbytes, sum(map(_functx_work, parts.backward.eqns))


def _functx_work(eqn: Any) -> int:
    if eqn.primitive.views or not any(hasattr(a, "aval") and a.aval.ndim for a in eqn.inputs):
        return 0
    if eqn.primitive.name == "dot_general":
        return eqn.primitive.flops(*(a.aval for a in eqn.inputs), **eqn.params)
    return max(math.prod(a.aval.shape) for a in (*eqn.inputs, *eqn.outputs))


# --- torch --------------------------------------------------------------------------------------------------------------------------------


def torch_side(program: Program, partition: Callable[..., Any]) -> tuple[int, int]:
    """Likewise, by one of torch's partitioners."""
    tensors = [torch.from_numpy(a).requires_grad_() for a in arguments(program)]
    graphs: list[Any] = []

    def compiler(graph: Any, example_inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    compiled = aot_function(program.torch, fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition)
    compiled(*tensors).backward()
    forward, backward = graphs
    outputs = next(n for n in forward.graph.nodes if n.op == "output").args[0]
    inputs = {n for n in forward.graph.nodes if n.op == "placeholder"}
    kept = {_base(n) for n in outputs[1:]} - inputs - {outputs[0]}
    nbytes = sum(n.meta["val"].numel() * n.meta["val"].element_size() for n in kept)
    return nbytes, sum(map(_torch_work, backward.graph.nodes))


_VIEWS = ("view", "permute", "transpose", "t.", "expand", "unsqueeze", "squeeze", "slice", "split", "detach", "alias", "_unsafe_view")


def _base(node: Any) -> Any:
    """What a view looks at."""
    while node.op == "call_function" and any(v in str(node.target) for v in _VIEWS) and "val" in node.args[0].meta:
        node = node.args[0]
    return node


def _torch_work(node: Any) -> int:
    if node.op != "call_function" or "val" not in node.meta or any(v in str(node.target) for v in _VIEWS):
        return 0
    operands = [a.meta["val"] for a in node.args if hasattr(a, "meta") and "val" in a.meta]
    if not operands:
        return 0
    out = node.meta["val"]
    if "mm" in str(node.target):
        return 2 * out.numel() * operands[0].shape[-1]
    return max(v.numel() for v in (*operands, out) if isinstance(v, torch.Tensor))


def main() -> None:
    """Print the table."""
    table = Table(title="kept between the halves, KiB (work of the backward half, million operations)")
    for name in ("program", "functx", "torch min cut", "torch default", "bytes / min cut", "work / min cut"):
        table.add_column(name, justify="left" if name == "program" else "right")
    for name, program in PROGRAMS.items():
        ours, cut, default = (
            functx_side(program),
            torch_side(program, min_cut_rematerialization_partition),
            torch_side(program, default_partition),
        )
        cells = [f"{n / 1024:.1f} ({w / 1e6:.2f})" for n, w in (ours, cut, default)]
        ratio = "-" if not cut[0] else f"{ours[0] / cut[0]:.2f}"
        table.add_row(name, *cells, ratio if cut[0] or not ours[0] else "more", f"{ours[1] / max(cut[1], 1):.2f}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
