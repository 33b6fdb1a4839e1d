"""Kernels of models compiled for GPUs that are not here: valid code for sm_80 and sm_90, without spills; and golden sources."""

import dataclasses
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from models import MODELS, normal
from test_golden import PROGRAMS, compare, without_lines

import functx as fx
from functx.transforms.pipeline import optimize

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

FOLDER = Path(__file__).parent / "golden"
ATOMIC = ("int32", "uint32", "int64", "uint64", "float32", "float64")
# What the models do not have, at sizes that a GPU gets.
FORMS = {
    "long_rows": (lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), (normal(64, 20_000),)),
    "places": (lambda x: (x.argmax(), x.argmax(0), x.max(1)), (normal(3000, 300),)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(1)), (normal(100_000, 40),)),
    "running": (lambda x: (np.cumsum(x, 0), np.cumsum(x, 1), np.maximum.accumulate(x, 1)), (normal(300, 5000),)),
    "transposed": (lambda x: x.T * 2, (normal(1000, 900),)),
    "integers": (lambda i: (i // 7, i % 5, i << 3, i**2, np.gcd(i, 12), i.sum()), (np.arange(5000),)),
    "functions": (lambda x: (np.sin(x) ** 2.5 + np.arctan2(x, 2) // 3, np.frexp(x), np.signbit(x)), (normal(5000),)),
    "short_floats": (lambda x: (x * x + 1, x.sum(0), np.exp(x)), (normal(300, 300).astype("bfloat16"),)),
    "random": (lambda k: fx.random.normal(k, (5000,)), (fx.random.key(0),)),
    "writes": (lambda x, i, v: x.__setitem__(i, v), (normal(5000), np.array([1, 2, 1]), normal(3))),
    "adds": (lambda i, *xs: [np.add.at(x, i, x[:4]) for x in xs], (np.array([1, 2, 1, 0]), *(np.ones(9, d) for d in ATOMIC))),
    "rows": (lambda x: (y := np.exp(x - x.max(-1, keepdims=True)))[:, ::-1] / y.sum(-1, keepdims=True), (normal(100, 3000),)),
    "huge": (lambda x: (x + 1, x.sum(), x.sum(0), x.argmax(1), np.cumsum(x, 1)), (np.broadcast_to(np.float32(1), (70_000, 50_000)),)),
    "checked": (lambda x, n: x + n, (np.arange(5, dtype=np.int8), 3)),
}
MAY_SPILL = {"running"}  # the elementwise kernels and reductions do not


def compile_all(f, args, capability, **options):
    """(name, spilled bytes) of every kernel of a function, compiled; ``options``: of jit."""
    source = fx.jit(f, backend="triton", **options).compiled(*args)[1].executable.code.source
    return [(kernel.name, compile_kernel(source, kernel, capability)) for kernel in source.kernels]


def compile_kernel(source, kernel, capability, **constants):
    """The bytes that a kernel spills. ``constants``: values of those that are known when it is compiled, instead of typical ones."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.compiler import ASTSource

    from functx.backends.triton.device import OPTIONS
    from functx.backends.triton.executable import load

    module = load(source.text, interpreted=False)
    jitted = getattr(module, kernel.name).jitted
    options = {"num_warps": kernel.warps, **OPTIONS}
    values = {name: getattr(tl, v) if isinstance(v, str) else v for name, v in {**kernel.constants, **constants}.items()}
    compiled = triton.compile(ASTSource(jitted, kernel.signature, values), target=GPUTarget("cuda", capability, 32), options=options)
    assert compiled.asm["cubin"][:4] == b"\x7fELF"
    arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    command = [get_ptxas(capability).path, "-v", f"--gpu-name={arch}", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=compiled.asm["ptx"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", done.stderr)))


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", [*MODELS, *FORMS])
def test_kernels_compile(name, capability):
    if name in MODELS:
        model = MODELS[name]
        f, args = model.f, model.arguments(64 if model.large < 2048 or model.flops else 1024)
    else:
        f, args = FORMS[name]
    found = compile_all(f, args, capability)
    assert found
    assert name in MAY_SPILL or all(spilled == 0 for _, spilled in found), found


def reductions(x):
    return x.sum(), x.sum(0), x.max(1), np.cumsum(x, 1), x.T * 2, (x - x.mean(1, keepdims=True)).std(1)


def selected(x):
    y = x[x > 0]
    return y[0] + y[y.shape[0] // 2], y[1:] * 2, y[:2]


def writes(x, i, v):
    x[i] = v
    x[1:] = x[:-1] * 2


SYMBOLIC = {
    "mlp_step": (MODELS["mlp_step"].f, MODELS["mlp_step"].arguments(64)),
    "reductions": (reductions, (normal(300, 200),)),
    "softmax": (MODELS["softmax"].f, MODELS["softmax"].arguments(64)),
    "selected": (selected, (normal(500),)),
    "writes": (writes, (normal(500), np.array([1, 2, 1]), normal(3))),
}


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_kernels_of_symbolic_sizes_compile(name, capability, request):
    """With blocks for typical sizes; in the long mode also with 64-bit indices, and for sizes of 1, which Triton takes for constants."""
    f, args = SYMBOLIC[name]
    source = fx.jit(f, backend="triton", dynamic=True).compiled(*args)[1].executable.code.source
    assert source.sizes and any(kernel.constants for kernel in source.kernels)
    for kernel in source.kernels:
        assert compile_kernel(source, kernel, capability) <= (8 if name == "writes" else 0), kernel.name
        if request.config.getoption("--long"):
            compile_kernel(source, kernel, capability, **({"index": "int64"} if "index" in kernel.constants else {}))
            ones = {name: 1 for name, kind in kernel.signature.items() if kind == "i32"}
            signature = kernel.signature | dict.fromkeys(ones, "constexpr")
            compile_kernel(source, dataclasses.replace(kernel, signature=signature), capability, **ones)


def test_golden_of_symbolic_sizes(request):
    from test_run_time_sizes import compiled, m, n, softmax

    from functx.backends.triton.prelude import HEADER

    text = re.sub(r" \((test_run_time_sizes\.py:\d+(, )?)+\)", "", compiled(softmax, [(n, m)], "triton").source)
    compare(FOLDER / "softmax_symbolic.triton", text.removeprefix(HEADER).lstrip(), request.config.getoption("--update-golden"))


GOLDEN = ("pointwise", "stencil_grad", "softmax", "layer_norm_grad", "dense_grad", "per_sample_grad", "gather_grad", "update_rows")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name, request):
    from functx.backends.loops.lower import lower
    from functx.backends.triton.ops import TritonTarget
    from functx.backends.triton.prelude import HEADER
    from functx.backends.triton.program import emit

    f, args = PROGRAMS[name]
    text = emit(lower(without_lines(optimize(fx.make_ir(f)(*args))), TritonTarget())).text
    compare(FOLDER / f"{name}.triton", text.removeprefix(HEADER).lstrip(), request.config.getoption("--update-golden"))
