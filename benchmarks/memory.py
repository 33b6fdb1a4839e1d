"""Memory and time of training steps under partitions and budgets, beside JAX and torch.compile where they are installed.

    python benchmarks/memory.py [--pairs 20] [--small] [names...]

A residual network of 24 blocks and a transformer of 6, in float32. For each way to run a step (value, gradients, update in place): the
bytes kept between forward and backward side, the peak by functx's memory plan, the peak that a fresh process shows (growth of the resident
set over the first step that runs, or over the second where a first one compiles), and the median over alternated pairs of its time as a
ratio to save_all. Run on a quiet machine.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import functx as fx

RATE = 1e-3
OURS = {
    "save_all": {"partition": "save_all"},
    "default": {},
    **{f"budget {b}": {"memory_budget": b} for b in (0.8, 0.6, 0.4, 0.2, 0.0)},
}
PEERS = {"jax": "JAX", "torch": "torch.compile"}

# --- the programs, written once for every array module ------------------------------------------------------------------------------------


def mlp(m, params, x):
    """Residual blocks of two layers."""
    for w, v in zip(params[::2], params[1::2], strict=True):
        x = x + m.tanh(x @ w) @ v
    return (x * x).mean()


def normalized(m, x, scale):
    """Layer norm without a shift."""
    centred = x - x.mean(-1)[..., None]
    return centred / m.sqrt((centred * centred).mean(-1)[..., None] + 1e-5) * scale


def attention(m, x, w, v, heads):
    """Self-attention of several heads."""
    batch, tokens, width = x.shape
    q, k, values = ((x @ w[i]).reshape(batch, tokens, heads, width // heads).swapaxes(1, 2) for i in range(3))
    e = m.exp(q @ k.swapaxes(2, 3) / (width // heads) ** 0.5 - 1.0)
    weights = e / e.sum(-1)[..., None]
    return (weights @ values).swapaxes(1, 2).reshape(batch, tokens, width) @ v


def transformer(m, params, x):
    """Blocks of attention and a network of two layers."""
    for k in range(0, len(params), 6):
        first, qkv, out, second, w, v = params[k : k + 6]
        x = x + attention(m, normalized(m, x, first), qkv, out, heads=4)
        x = x + m.tanh(normalized(m, x, second) @ w) @ v
    return (x * x).mean()


@dataclass(frozen=True)
class Program:
    """A loss, the shapes of one block's parameters and of the data, and how many blocks there are."""

    loss: Callable[..., Any]
    block: tuple[tuple[int, ...], ...]
    data: tuple[int, ...]
    blocks: int

    def arguments(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Parameters and data."""
        rng = np.random.default_rng(0)

        def array(shape: tuple[int, ...]) -> np.ndarray:
            return (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

        return [array(shape) for _ in range(self.blocks) for shape in self.block], array(self.data)


def programs(small: bool) -> dict[str, Program]:
    """The two programs; small ones to try the script."""
    d, rows, tokens = (16, 32, 8) if small else (512, 4096, 512)
    mlp_blocks, blocks = (3, 1) if small else (24, 6)
    shapes = ((d,), (3, d, d), (d, d), (d,), (d, 4 * d), (4 * d, d))
    return {
        "mlp": Program(mlp, ((d, d), (d, d)), (rows, d), mlp_blocks),
        "transformer": Program(transformer, shapes, (8, tokens, d), blocks),
    }


# --- steps --------------------------------------------------------------------------------------------------------------------------------


def our_step(program: Program, options: dict[str, Any]) -> Any:
    """The step compiled by functx."""

    def step(params, x):
        value, slopes = fx.value_and_grad(lambda p: program.loss(np, p, x))(params)
        for p, slope in zip(params, slopes, strict=True):
            p -= np.float32(RATE) * slope
        return value

    return fx.jit(step, **options)


def jax_step(program: Program, params: list[np.ndarray], x: np.ndarray) -> Callable[[], Any]:
    """The step compiled by JAX, its parameters given away at each call."""
    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, donate_argnums=0)
    def step(params, x):
        value, slopes = jax.value_and_grad(lambda p: program.loss(jnp, p, x))(params)
        return value, [p - RATE * slope for p, slope in zip(params, slopes, strict=True)]

    state = {"params": [jnp.asarray(p) for p in params]}
    x = jnp.asarray(x)

    def run():
        value, state["params"] = step(state["params"], x)
        return float(value)

    return run


def torch_step(program: Program, params: list[np.ndarray], x: np.ndarray) -> Callable[[], Any]:
    """The step with its loss compiled by torch.compile."""
    import torch

    weights = [torch.from_numpy(p.copy()).requires_grad_() for p in params]
    x = torch.from_numpy(x)
    loss = torch.compile(lambda p, x: program.loss(torch, p, x))

    def run():
        value = loss(weights, x)
        for p, slope in zip(weights, torch.autograd.grad(value, weights), strict=True):
            with torch.no_grad():
                p -= RATE * slope
        return float(value.detach())

    return run


# --- measuring ----------------------------------------------------------------------------------------------------------------------------


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (the peak) of this process in bytes."""
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1))


def growth(run: Callable[[], Any]) -> int:
    """By how much the resident set grows at most during a call."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    run()
    return resident("VmHWM") - before


def child(name: str, way: str, small: bool) -> dict[str, Any]:
    """What a fresh process measures for one way to run a program."""
    program = programs(small)[name]
    params, x = program.arguments()
    if way in OURS:
        fx.jit(lambda a: a @ a)(np.ones((512, 512), np.float32))  # threads, and the buffers of BLAS
        step = our_step(program, OURS[way])
        plan = step.memory_plan(params, x)
        return {"plan": plan.peak, "peak": growth(lambda: step(params, x)), "kept": kept(program, way, params, x)}
    run = (jax_step if way == "jax" else torch_step)(program, params, x)
    run()
    return {"peak": growth(run)}


def kept(program: Program, way: str, params: list[np.ndarray], x: np.ndarray) -> int:
    """The bytes between the sides when they are two programs."""
    options = dict(OURS[way])
    mode = options.pop("partition", "minimum_cut")
    return fx.joint_graph(lambda p, x: program.loss(np, p, x))(params, x).partition(mode, **options).nbytes


def in_fresh_process(name: str, way: str, small: bool) -> dict[str, Any]:
    """The same, in a process of its own."""
    command = [sys.executable, __file__, "--child", way, name, *(["--small"] if small else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}, {way}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratios(program: Program, ways: list[str], pairs: int) -> dict[str, float]:
    """The time of each way as a ratio to save_all: medians of alternated pairs."""

    def prepared(way: str) -> Callable[[], Any]:
        params, x = program.arguments()
        if way not in OURS:
            return (jax_step if way == "jax" else torch_step)(program, params, x)
        step = our_step(program, OURS[way])
        return lambda: step(params, x)

    base = prepared("save_all")
    found = {}
    for way in ways:
        run, times = prepared(way), []
        for f in (base, run) * 2:
            f()
        for i in range(pairs):
            order = (run, base) if i % 2 else (base, run)
            taken = {f: seconds(f) for f in order}
            times.append(taken[run] / taken[base])
        found[way] = statistics.median(times)
    return found


def report(name: str, ways: list[str], pairs: int, small: bool) -> Table:
    """One table."""
    program = programs(small)[name]
    times = ratios(program, ways, pairs)
    table = Table(title=f"{name}: {program.blocks} blocks, data {program.data}")
    for title in ("way", "kept, MiB", "planned peak, MiB", "peak, MiB", "time / save_all"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for way in ways:
        found = in_fresh_process(name, way, small)
        sizes = (f"{found[key] / 2**20:.1f}" if key in found else "" for key in ("kept", "plan", "peak"))
        table.add_row(PEERS.get(way, way), *sizes, f"{times[way]:.2f}")
    return table


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("names", nargs="*", help="programs to run; both by default")
    arguments.add_argument("--pairs", type=int, default=20, help="alternated pairs per way")
    arguments.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    arguments.add_argument("--child", metavar="WAY", help="measure one way in this process and print it as JSON")
    given = arguments.parse_args()
    names = given.names or list(programs(given.small))
    if given.child:
        print(json.dumps(child(names[0], given.child, given.small)))
        return
    ways = [*OURS, *(peer for peer in PEERS if importlib.util.find_spec(peer))]
    for name in names:
        Console(width=120).print(report(name, ways, given.pairs, given.small))


if __name__ == "__main__":
    main()
