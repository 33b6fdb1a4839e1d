"""Building graphs for backend tests, with arguments, and comparing the cpp backend with the reference."""

import dataclasses

import numpy as np

import functx.backends  # noqa: F401  registers the backends
import functx.ops  # noqa: F401  registers the primitives
from functx import config
from functx.backend import get_backend
from functx.backends.cpp.functions import TWO_OPERANDS
from functx.backends.cpp.ops import MATH
from functx.interpret import eval_graph
from functx.ir import AbstractArray, Input, Output, Var
from functx.primitive import Emitter
from functx.source import Source

BOOL, I32, I64, F32, F64 = (np.dtype(d) for d in ("?", "i4", "i8", "f4", "f8"))
DTYPES = [BOOL, I32, I64, F32, F64]
# 0-d, empty, one element, odd sizes, and enough for several threads.
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (3, 5), (1, 6, 1), (2, 3, 4), (40000,), (250, 301)]


def values(shape, dtype, seed=0):
    """Random values, small integers among them so that ties and equal elements occur."""
    rng = np.random.default_rng((seed, *shape))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(-9 if dtype.kind == "i" else 0, 10, shape).astype(dtype)
    x = rng.standard_normal(shape) * 2
    return np.where(rng.random(shape) < 0.2, np.round(x), x).astype(dtype)


def compiled(graph, backend="cpp", **options):
    """The executable of a graph, under the options in force but for those given."""
    return get_backend(backend).compile(graph, dataclasses.replace(config.current(), **options))


class Case:
    """A graph under construction together with its arguments."""

    def __init__(self):
        self.b, self.inputs, self.args, self.outputs = Emitter(), [], [], []

    def input(self, array):
        v = Var(AbstractArray(array.shape, array.dtype))
        self.inputs.append(Input(v))
        self.args.append(array)
        return v

    def random(self, shape, dtype, seed=0):
        return self.input(values(shape, np.dtype(dtype), seed))

    def output(self, *atoms):
        self.outputs += map(Output, atoms)

    def graph(self):
        return self.b.build(self.inputs, self.outputs)

    def check(self, ulp=0, rtol=0.0, fallbacks=()):
        """Compile, run, compare with the reference: exactly, within ulps, or within rtol of the largest value."""
        graph = self.graph()
        exe = compiled(graph)
        kept = [a.copy() for a in self.args]
        got, want = exe(self.args), eval_graph(graph, self.args)
        for before, after in zip(kept, self.args, strict=True):
            np.testing.assert_array_equal(before, after, err_msg="an input was written")
        for k, (x, y) in enumerate(zip(got, want, strict=True)):
            y = np.asarray(y)
            aval = graph.out_avals[k]
            assert x.shape == aval.shape and x.dtype == aval.dtype and x.flags.c_contiguous and x.flags.writeable and x.base is None
            compare(x, y, ulp, rtol, f"output {k}")
        for k, x in enumerate(got):
            assert not any(np.shares_memory(x, other) for other in (*got[:k], *self.args))
        assert set(exe.fallbacks) == set(fallbacks)
        return exe


def compare(x, y, ulp, rtol, message):
    if x.dtype.kind in "biu" or (ulp == 0 and rtol == 0):
        np.testing.assert_array_equal(x, y, err_msg=message)
    elif ulp:
        special = ~(np.isfinite(x) & np.isfinite(y))
        np.testing.assert_array_equal(np.where(special, x, 0), np.where(special, y, 0), err_msg=message)
        np.testing.assert_array_max_ulp(np.where(special, 0, x).astype(x.dtype), np.where(special, 0, y).astype(x.dtype), ulp)
    else:
        scale = np.abs(y[np.isfinite(y)]).max(initial=1e-30)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, err_msg=message)


def special(dtype):
    """Values at the edges of a dtype, each combined with each: two arrays."""
    if dtype.kind == "b":
        edge = np.array([False, True])
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        edge = np.array([info.min, info.max, 0, 1, 2, 3, 100] + ([-1, -7] if dtype.kind == "i" else []), dtype)
    else:
        info = np.finfo(dtype)
        edge = [0.0, -0.0, 1, -1, 0.5, -2.5, 3, 10, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, info.smallest_subnormal, 1e-3]
        edge = np.array(edge, dtype)
    x, y = np.meshgrid(edge, edge)
    return x.ravel().copy(), y.ravel().copy()


def apply(b, name, *args):
    """Emit a primitive by name."""
    return getattr(b, name)(*args, **({"tie": "half"} if name in ("max", "min") else {}))


ROUNDING = ["floor", "ceil", "trunc", "rint", "signbit"]
BY_SCIPY = {"erf", "erfc", "lgamma", "erf_inv"}  # in the reference; tests/test_cpp_dtypes.py compares them
FUNCTIONS = ["sqrt", "logistic", *(name for name in MATH if name not in TWO_OPERANDS and name not in BY_SCIPY)]
UNARY = ["neg", "sign", "abs", "not_", "stop_gradient", *ROUNDING, *FUNCTIONS]
BINARY = [
    *("add", "sub", "mul", "mul_zero", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "shift_left"),
    *("shift_right", "floor_divide", "remainder", "fmod", "copysign", "logaddexp", "logaddexp2", *TWO_OPERANDS),
]
ONLY_FLOAT = {*FUNCTIONS, *ROUNDING, *TWO_OPERANDS, "div", "copysign", "logaddexp", "logaddexp2"}
NOT_BOOL = {"neg", "sign", "sub", "floor_divide", "remainder", "fmod", "shift_left", "shift_right"}
ONLY_DISCRETE = {"and_", "or_", "xor", "not_", "shift_left", "shift_right"}


def accepts(name, dtype):
    if name in ONLY_FLOAT:
        return dtype.kind == "f"
    return not (name in NOT_BOOL and dtype.kind == "b") and not (name in ONLY_DISCRETE and dtype.kind == "f")


def at_the_edges(dtype):
    """Every elementwise primitive that takes a dtype, at its edges."""
    case = Case()
    left, right = special(dtype)
    x, y, p = case.input(left), case.input(right), case.input(np.arange(left.size) % 3 == 0)
    case.output(*(apply(case.b, n, x) for n in UNARY if accepts(n, dtype)))
    case.output(*(apply(case.b, n, x, y) for n in BINARY if accepts(n, dtype)))
    case.output(case.b.select(p, x, y))
    return case


def at_line(case, line):
    """What follows comes from that line of model.py."""
    case.b.source = Source("model.py", line, "f")


def kernels(exe):
    """How many kernels a program has."""
    return exe.source.count("static void kernel")


def row_statistic(b, f, x):
    """f of every row, broadcast back."""
    return b.broadcast(f(x), shape=x.aval.shape, dims=tuple(range(x.aval.ndim - 1)))


def softmax(b, x):
    """Along the last axis."""
    last = (x.aval.ndim - 1,)
    e = b.exp(b.sub(x, row_statistic(b, lambda v: b.reduce_max(v, axes=last), x)))
    return b.div(e, row_statistic(b, lambda v: b.reduce_sum(v, axes=last), e))


def layer_norm(b, x, scale, shift):
    """Along the last axis."""
    last, n = (x.aval.ndim - 1,), x.aval.shape[-1]

    def mean(v):
        total = b.reduce_sum(v, axes=last)
        return b.mul(total, b.full_like(total, 1 / n))

    centred = b.sub(x, row_statistic(b, mean, x))
    variance = mean(b.mul(centred, centred))
    factor = b.div(b.full_like(variance, 1.0), b.sqrt(b.add(variance, b.full_like(variance, 1e-5))))
    scaled = b.mul(centred, b.broadcast(factor, shape=x.aval.shape, dims=tuple(range(x.aval.ndim - 1))))
    return b.add(b.mul(scaled, b.broadcast(scale, shape=x.aval.shape, dims=last)), b.broadcast(shift, shape=x.aval.shape, dims=last))
