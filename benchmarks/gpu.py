"""The triton backend on a GPU: correctness of the models, then time beside torch.compile and JAX, and as a fraction of what the GPU can do.

    python benchmarks/gpu.py [--minutes 4]    # some minutes; without a GPU a dry run
    python benchmarks/gpu.py --dry            # the same programs in Triton's interpreter, and their kernels compiled for sm_80 and sm_90

Times are medians of alternating runs, from CUDA events. JAX is asked only where it is installed and sees the GPU.
"""

import argparse
import copy
import statistics
import sys
import time
import types
from pathlib import Path

import numpy as np
import torch

import functx as fx

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
import models  # noqa: E402

DRY_SIZE = 128


def to_gpu(tree):
    return fx.tree.map(lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda() if isinstance(a, np.ndarray) else a, tree)


def check(name, f, run, convert, tolerance=2e-3):
    """Compare a model at its small size with the reference backend."""
    model = models.MODELS[name]
    args = model.arguments(model.small)
    mine, plain = convert(copy.deepcopy(args)), copy.deepcopy(args)
    got, want = run(*mine), fx.jit(f, backend="reference")(*plain)
    worst = 0.0
    for g, w in zip(fx.tree.leaves((got, mine)), fx.tree.leaves((want, plain)), strict=True):
        g, w = np.asarray(g.cpu() if isinstance(g, torch.Tensor) else g, float), np.asarray(w, float)
        worst = max(worst, float(np.abs(g - w).max(initial=0) / max(np.abs(w).max(initial=0), 1e-30)))
    if worst > tolerance:
        raise SystemExit(f"{name}: differs from the reference by {worst:.1e}")
    return worst


# --- dry run ------------------------------------------------------------------------------------------------------------------------------


def dry_run():
    from test_triton_compile import compile_all

    for name, model in models.MODELS.items():
        start = time.perf_counter()
        error = check(name, model.f, fx.jit(model.f, backend="triton"), lambda args: args)
        args = model.arguments(DRY_SIZE)
        counts = [len(compile_all(model.f, args, capability)) for capability in (80, 90)]
        seconds = time.perf_counter() - start
        print(f"{name:16} differs by {error:.0e}; {counts[0]} kernels compile for sm_80 and sm_90; {seconds:.1f} s", flush=True)
    print("dry run: there is no GPU here, so nothing was timed")


# --- peers --------------------------------------------------------------------------------------------------------------------------------


def torch_loss(params, x, y):
    for w, b in params[:-1]:
        x = torch.relu(x @ w + b)
    return torch.nn.functional.cross_entropy(x @ params[-1][0] + params[-1][1], y)


def torch_mlp_step(params, x, y):
    gradients, loss = torch.func.grad_and_value(torch_loss)(params, x, y)
    for (w, b), (dw, db) in zip(params, gradients, strict=True):
        w.sub_(0.1 * dw)
        b.sub_(0.1 * db)
    return loss


def torch_block(p, x):
    functional = torch.nn.functional
    batch, length, width = x.shape
    h = functional.layer_norm(x, (width,), p["scale1"], p["shift1"])
    q, k, v = ((h @ p[w]).reshape(batch, length, 4, width // 4).transpose(1, 2) for w in ("wq", "wk", "wv"))
    x = x + (torch.softmax(q @ k.mT * (width // 4) ** -0.5, -1) @ v).transpose(1, 2).reshape(x.shape) @ p["wo"]
    h = functional.layer_norm(x, (width,), p["scale2"], p["shift2"])
    return x + functional.gelu(h @ p["up"], approximate="tanh") @ p["down"]


TORCH = {
    "pointwise": lambda a, b: torch.tanh(a * b + 1) + torch.exp(-((a * b + 1) ** 2)),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x, s, b: torch.nn.functional.layer_norm(x, x.shape[-1:], s, b),
    "mlp_step": torch_mlp_step,
    "block": torch_block,
    "block_gradient": lambda p, x: torch.func.grad_and_value(lambda p: (torch_block(p, x) ** 2).mean())(p),
    "per_sample": torch.func.vmap(
        torch.func.grad(lambda p, x, y: ((torch.tanh(x @ p[0] + p[1]) - y) ** 2).sum()), in_dims=(None, 0, 0)
    ),
}  # fmt: skip


def jax_models():
    """The models as JAX has them, None where there is no JAX on a GPU: the source is the same but for the two modules."""
    try:
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")  # as PyTorch and functx: no TF32
        jax.devices("gpu")
    except (ImportError, RuntimeError):
        return None
    text = (TESTS / "models.py").read_text().partition("MODELS = {")[0]
    text = text.replace("import functx as fx", "import jax as fx").replace("import numpy as np", "import jax.numpy as np")
    module = types.ModuleType("jax_models")
    exec(text, module.__dict__)
    return module


def peers(name, args):
    """(name, function without arguments) of each peer that has the model; functions give the time of one run in seconds."""
    gpu = to_gpu(copy.deepcopy(args))
    found = []
    if name in TORCH:
        compiled = torch.compile(TORCH[name])
        found.append(("torch.compile", timed(lambda: compiled(*gpu))))
    jax_module = jax_models() if name in ("pointwise", "softmax", "layer_norm", "block", "block_gradient", "per_sample") else None
    if jax_module is not None:
        import jax

        run, values = jax.jit(getattr(jax_module, name)), jax.device_put(args, jax.devices("gpu")[0])
        found.append(("JAX", by_clock(lambda: run(*values), jax.block_until_ready)))
    return found


def timed(run, repeats=5):
    """Seconds per run on the GPU, of several runs in a row."""

    def measure():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / repeats / 1e3

    return measure


def by_clock(run, wait, repeats=5):
    """The same by the clock of the host, which waits for the last."""

    def measure():
        start = time.perf_counter()
        for _ in range(repeats):
            out = run()
        wait(out)
        return (time.perf_counter() - start) / repeats

    return measure


def medians(runs, seconds):
    """The median of each, measured in turn."""
    for run in runs:
        run()
    times, end = [[] for _ in runs], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for run, out in zip(runs, times, strict=True):
            out.append(run())
    return [statistics.median(t) for t in times]


# --- on a GPU -----------------------------------------------------------------------------------------------------------------------------


def rates():
    """Bytes per second of a copy, and operations per second of a float32 product."""
    x, m = torch.empty(1 << 28, device="cuda"), torch.randn(4096, 4096, device="cuda")
    y = torch.empty_like(x)
    copied, product = medians([timed(lambda: y.copy_(x)), timed(lambda: m @ m)], 1)
    return 2 * x.nbytes / copied, 2 * 4096**3 / product


def run_on_gpu(minutes):
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, model in models.MODELS.items():
        print(f"{name:16} differs from the reference by {check(name, model.f, fx.jit(model.f), to_gpu):.0e}", flush=True)
    fx.debug.synchronize()
    bandwidth, rate = rates()
    print(f"copy {bandwidth / 1e9:.0f} GB/s, float32 product {rate / 1e12:.1f} Tflop/s")
    tiny, increment = torch.ones(8, device="cuda"), fx.jit(lambda x: x + 1)
    (host,) = medians([by_clock(lambda: [increment(tiny) for _ in range(100)])], 1)
    print(f"a call of one small kernel takes {host * 1e4:.0f} us of the host")
    for name, model in models.MODELS.items():
        args = model.arguments(model.large)
        f, gpu = fx.jit(model.f), to_gpu(copy.deepcopy(args))
        others = peers(name, args)
        own, *times = medians([timed(lambda f=f, gpu=gpu: f(*gpu)), *(run for _, run in others)], minutes * 60 / len(models.MODELS))
        parts = [f"{own * 1e3:.3f} ms"]
        if model.memory:
            parts.append(f"{model.memory(*args) / own / bandwidth:.2f} of copy bandwidth")
        if model.flops:
            parts.append(f"{model.flops(*args) / own / rate:.2f} of the matrix rate")
        parts += [f"{own / t:.2f} of {peer}" for (peer, _), t in zip(others, times, strict=True)]
        print(f"{name:16} {', '.join(parts)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="without a GPU")
    parser.add_argument("--minutes", type=float, default=4.0, help="for the timings together")
    args = parser.parse_args()
    if args.dry or not torch.cuda.is_available():
        dry_run()
    else:
        run_on_gpu(args.minutes)


if __name__ == "__main__":
    main()
