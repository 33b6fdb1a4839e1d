"""One or more sample rows per primitive, in terms of a size ``n``: tests/test_completeness.py takes it as an int and as a symbolic Dim."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import dtypes
from functx.dtypes import is_inexact
from functx.ir import AbstractArray, GraphBuilder, Input, Output, Var
from functx.ops.callback import HostFunction
from functx.primitive import PRIMITIVES
from functx.trace import current_trace

F8, I8, BOOL, C16 = dtypes.FLOAT64, dtypes.INT64, dtypes.BOOL, np.dtype(complex)


@dataclasses.dataclass(frozen=True)
class PrimitiveSample:
    """One row.

    Attributes:
      name: the primitive.
      operands: ``operands(n)`` gives (shape, dtype) or (shape, dtype, low, high) per operand; integers are below ``high``.
      params: ``params(n)`` gives the parameters.
      smooth: operands with respect to which derivatives are compared with differences.
    """

    name: str
    operands: Callable[[Any], list[tuple[Any, ...]]]
    params: Callable[[Any], dict[str, Any]] = lambda n: {}
    smooth: tuple[int, ...] = ()

    def avals(self, n: Any) -> list[AbstractArray]:
        """The operands' types."""
        return [AbstractArray(tuple(shape), dtype) for shape, dtype, *_ in self.operands(n)]

    def arrays(self, n: int, seed: int = 0) -> list[Any]:
        """Operands: distinct floats of (0.3, 1.9), integers in range, truth values."""
        rng, out = np.random.default_rng(seed), []
        for i, (shape, dtype, *bounds) in enumerate(self.operands(n)):
            low, high = bounds or (0.3, 1.9)
            if is_inexact(dtype):
                size = int(np.prod(shape, dtype=int))
                values = (rng.permutation(np.linspace(low, high, size + 2)[1:-1]) + 0.013 * i).reshape(shape)
                out.append((values + 1j * rng.uniform(low, high, shape) if dtype.kind == "c" else values).astype(dtype))
            else:
                out.append(rng.integers(low if bounds else 0, high if bounds else 2, shape).astype(dtype))
        return out

    def function(self, n: Any) -> Callable[..., Any]:
        """The primitive as a function of traced operands."""

        def f(*args: Any) -> Any:
            trace = current_trace()
            outs = trace.emit.bind(PRIMITIVES[self.name], [trace.handle(a).atom for a in args], self.params(n))
            return tuple(trace.tracer(o) for o in outs) if PRIMITIVES[self.name].multiple else trace.tracer(outs[0])

        return f

    def reference(self, n: int) -> Callable[..., Any]:
        """The reference implementation as a function of arrays."""
        return lambda *arrays: PRIMITIVES[self.name].impl(*arrays, **self.params(n))


def _elementwise() -> list[PrimitiveSample]:
    one, two = (lambda n: [((n, 3), F8)]), (lambda n: [((n, 3), F8), ((n, 3), F8)])
    truths, integers = (lambda n: [((n, 3), BOOL)] * 2), (lambda n: [((n, 3), I8, -4, 9)] * 2)
    smooth = [
        *(
            "neg",
            "abs",
            "sqrt",
            "sqrt_zero",
            "cbrt",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "atan",
            "sinh",
            "cosh",
        ),
        *("tanh", "asinh", "logistic"),
    ]
    rows = [PrimitiveSample(name, one, smooth=(0,)) for name in smooth]
    rows += [PrimitiveSample(name, lambda n: [((n, 3), F8, -0.9, 0.8)], smooth=(0,)) for name in ("asin", "acos", "atanh")]
    rows += [PrimitiveSample("tan", lambda n: [((n, 3), F8, -1.2, 1.1)], smooth=(0,))]
    rows += [PrimitiveSample("acosh", lambda n: [((n, 3), F8, 1.1, 3.0)], smooth=(0,))]
    both_smooth = ["add", "sub", "mul", "mul_zero", "div", "pow", "hypot", "atan2", "logaddexp", "logaddexp2"]
    rows += [PrimitiveSample(name, two, smooth=(0, 1)) for name in both_smooth]
    rows += [PrimitiveSample("copysign", lambda n: [((n, 3), F8), ((n, 3), F8, -1.9, 1.4)], smooth=(0,))]
    # Quotients far from whole numbers.
    rows += [
        PrimitiveSample(name, lambda n: [((n, 3), F8, 2.3, 2.7), ((n, 3), F8, 1.0, 1.08)], smooth=(0, 1)) for name in ("remainder", "fmod")
    ]
    rows += [PrimitiveSample("floor_divide", two)]
    rows += [PrimitiveSample(name, lambda n: [((n, 3), I8, -4, 9), ((n, 3), I8, 1, 9)]) for name in ("floor_divide", "remainder", "fmod")]
    rows += [PrimitiveSample(name, lambda n: [((n, 3), F8, -2.4, 2.2)]) for name in ("floor", "ceil", "trunc", "rint", "signbit")]
    rows += [PrimitiveSample(name, integers) for name in ["add", "sub", "mul", "mul_zero", "shift_left", "shift_right"]]
    rows += [
        PrimitiveSample(name, two, lambda n, tie=tie: {"tie": tie}, (0, 1))
        for name in ("max", "min")
        for tie in ("half", "first", "second")
    ]
    rows += [PrimitiveSample(name, f) for name in ["eq", "ne", "lt", "le", "gt", "ge"] for f in (two, integers, truths)]
    rows += [PrimitiveSample(name, f) for name in ("and_", "or_", "xor") for f in (truths, integers)]
    rows += [PrimitiveSample("not_", lambda n: truths(n)[:1]), PrimitiveSample("sign", one), PrimitiveSample("stop_gradient", one)]
    rows += [
        PrimitiveSample("select", lambda n: [((n,), BOOL), ((n,), F8), ((n,), F8)], smooth=(1, 2)),
        PrimitiveSample("convert", lambda n: [((n, 2), F8)], lambda n: {"dtype": F8, "checked": False}, (0,)),
        PrimitiveSample("convert", lambda n: [((n, 2), F8)], lambda n: {"dtype": dtypes.INT32, "checked": False}),
        PrimitiveSample("convert", lambda n: [((n, 2), I8, 0, 100)], lambda n: {"dtype": np.dtype(np.uint8), "checked": True}),
    ]
    return rows


def _parts() -> list[PrimitiveSample]:
    """Complex numbers, and the parts of floats."""
    real, whole = (lambda n: [((n, 3), F8)]), (lambda n: [((n, 3), C16)])
    rows = [PrimitiveSample(name, whole, smooth=(0,)) for name in ("real", "imag", "conj", "abs", "sign", "exp", "sqrt", "asinh")]
    rows += [PrimitiveSample(name, lambda n: [((n, 3), C16)] * 2, smooth=(0, 1)) for name in ("mul", "div", "pow")]
    rows += [
        PrimitiveSample("complex", lambda n: [((n, 3), F8)] * 2, smooth=(0, 1)),
        PrimitiveSample("convert", real, lambda n: {"dtype": C16, "checked": False}, (0,)),
        PrimitiveSample("convert", whole, lambda n: {"dtype": F8, "checked": False}, (0,)),
        PrimitiveSample("pairs", whole, smooth=(0,)),
        PrimitiveSample("from_pairs", lambda n: [((n, 3, 2), F8)], smooth=(0,)),
        PrimitiveSample("bitcast", real, lambda n: {"dtype": I8}),
        PrimitiveSample("bitcast", lambda n: [((n, 3), dtypes.INT32, -9, 20)], lambda n: {"dtype": dtypes.FLOAT32}),
        PrimitiveSample("mantissa", lambda n: [((n, 3), F8, 1.1, 1.9)], smooth=(0,)),
        PrimitiveSample("exponent", real),
        PrimitiveSample("ldexp", lambda n: [((n, 3), F8), ((n, 3), dtypes.INT32, -5, 9)], smooth=(0,)),
        PrimitiveSample("nextafter", lambda n: [((n, 3), F8)] * 2),
        PrimitiveSample("gcd", lambda n: [((n, 3), I8, -9, 20)] * 2),
        PrimitiveSample("population_count", lambda n: [((n, 3), I8, -9, 20)]),
        PrimitiveSample(
            "dot_general", lambda n: [((n, 4), C16), ((4, 3), C16)], lambda n: {"contract": ((1,), (0,)), "batch": ((), ())}, (0, 1)
        ),
    ]
    return rows


def _lattice(axes: Any, starts: Any, sizes: Any, steps: Any) -> dict[str, Any]:
    return {"axes": axes, "starts": starts, "sizes": sizes, "steps": steps, "access": "read"}


def _movement() -> list[PrimitiveSample]:
    x = lambda n: [((n, 4), F8)]  # noqa: E731
    region = {"starts": (1, 3), "steps": (2, -1)}
    return [
        PrimitiveSample("broadcast", x, lambda n: {"shape": (2, n, 4), "dims": (1, 2)}, (0,)),
        PrimitiveSample("broadcast", lambda n: [((1, 4), F8)], lambda n: {"shape": (n, 4, 2), "dims": (0, 1)}, (0,)),
        PrimitiveSample("broadcast", lambda n: [((), F8)], lambda n: {"shape": (n,), "dims": ()}, (0,)),
        PrimitiveSample("reshape", x, lambda n: {"shape": (2, n * 2)}, (0,)),
        PrimitiveSample("transpose", lambda n: [((2, n, 4), F8)], lambda n: {"perm": (2, 0, 1)}, (0,)),
        PrimitiveSample("slice", x, lambda n: {"sizes": (2, 3), **region}, (0,)),
        PrimitiveSample("slice", x, lambda n: {"starts": (0, 1), "sizes": (n, 2), "steps": (1, 2)}, (0,)),
        PrimitiveSample("lattice", x, lambda n: _lattice((0, 1), (0, 1), (3,), ((1, 1),)), (0,)),
        PrimitiveSample("lattice", x, lambda n: _lattice((0,), (0,), (n - 2, 3), ((1,), (1,))), (0,)),
        PrimitiveSample("lattice", lambda n: [((2, 1, n), F8)], lambda n: _lattice((1, 2), (0, n - 1), (4, n), ((0, 0), (0, -1))), (0,)),
        PrimitiveSample("slice_set", lambda n: [((n, 4), F8), ((2, 3), F8)], lambda n: region, (0, 1)),
        PrimitiveSample("slice_set", lambda n: [((n, 4), F8), ((n, 1), F8)], lambda n: {"starts": (0, 2), "steps": (1, 1)}, (0, 1)),
        PrimitiveSample("pad", lambda n: [((n, 4), F8), ((), F8)], lambda n: {"low": (1, 0), "high": (2, 1)}, (0, 1)),
        PrimitiveSample("concatenate", lambda n: [((n, 2), F8), ((3, 2), F8), ((n, 2), F8)], lambda n: {"axis": 0}, (0, 1, 2)),
        PrimitiveSample("concatenate", lambda n: [((n, 2), F8), ((n, 1), F8)], lambda n: {"axis": 1}, (0, 1)),
        PrimitiveSample("iota", lambda n: [], lambda n: {"shape": (2, n), "dtype": I8, "axis": 1}),
        PrimitiveSample("iota", lambda n: [], lambda n: {"shape": (3, n), "dtype": F8, "axis": 0}),
        PrimitiveSample("size", lambda n: [], lambda n: {"value": n}),
    ]


def _contracting() -> list[PrimitiveSample]:
    rows = [
        PrimitiveSample(name, lambda n: [((2, n, 3), F8)], lambda n, axes=axes: {"axes": axes}, (0,))
        for name in ("reduce_sum", "reduce_max", "reduce_min")
        for axes in ((1,), (0, 2), (0, 1, 2))
    ]
    rows += [PrimitiveSample(name, lambda n: [((n, 3), F8)], lambda n: {"axis": 1}) for name in ("argmax", "argmin")]
    dots = [
        (lambda n: [((n, 4), F8), ((4, 3), F8)], {"contract": ((1,), (0,)), "batch": ((), ())}),
        (lambda n: [((2, n, 4), F8), ((4, n, 2), F8)], {"contract": ((2,), (0,)), "batch": ((0, 1), (2, 1))}),
        (lambda n: [((2, n, 3), F8), ((3, 4, n), F8)], {"contract": ((2, 1), (0, 2)), "batch": ((), ())}),
        (lambda n: [((n,), F8), ((3,), F8)], {"contract": ((), ()), "batch": ((), ())}),
        (lambda n: [((n,), F8), ((n,), F8)], {"contract": ((0,), (0,)), "batch": ((), ())}),
    ]
    return rows + [PrimitiveSample("dot_general", operands, lambda n, p=params: p, (0, 1)) for operands, params in dots]


def _indexing() -> list[PrimitiveSample]:
    index = ((3,), I8, -4, 4)
    cases = [
        (lambda n: [((n, 4), F8), index], lambda n: [((n, 4), F8), ((3, n), F8), index], (1,)),
        (lambda n: [((4, n, 4), F8), index, index], lambda n: [((4, n, 4), F8), ((3, n), F8), index, index], (2, 0)),
        (lambda n: [((4, n), F8), ((2, n), I8, 0, 4)], lambda n: [((4, n), F8), ((2, n, n), F8), ((2, n), I8, 0, 4)], (0,)),
        (lambda n: [((4, n), F8), ((), I8, -4, 4)], lambda n: [((4, n), F8), ((n,), F8), ((), I8, -4, 4)], (0,)),
    ]
    rows = []
    for reading, writing, axes in cases:
        rows.append(PrimitiveSample("gather", reading, lambda n, a=axes: {"axes": a}, (0,)))
        writes = ("add", "set", "mul", "min", "max")
        rows += [PrimitiveSample(f"scatter_{name}", writing, lambda n, a=axes: {"axes": a}, (0, 1)) for name in writes]
    rows.append(PrimitiveSample("scatter_mul", lambda n: [((4, n), C16), ((3, n), C16), index], lambda n: {"axes": (0,)}, (0, 1)))
    start = ((), I8, -1, 4)
    rows += [
        PrimitiveSample("dynamic_slice", lambda n: [((n, 4), F8), start, start], lambda n: {"sizes": (2, 3)}, (0,)),
        PrimitiveSample("dynamic_slice", lambda n: [((4, n), F8), start, start], lambda n: {"sizes": (3, n)}, (0,)),
        PrimitiveSample("dynamic_update_slice", lambda n: [((n, 4), F8), ((2, 3), F8), start, start], smooth=(0, 1)),
    ]
    return rows


def _cumulative() -> list[PrimitiveSample]:
    names, numbers = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), ("cumsum", "cumprod", "cummax", "cummin")
    ways = [(axis, reverse) for axis in (0, 1, 2) for reverse in (False, True)]
    rows = [
        PrimitiveSample(name, lambda n: [((2, n, 3), F8)], lambda n, w=way: {"axis": w[0], "reverse": w[1]}, (0,))
        for name in names
        for way in ways
    ]
    rows += [PrimitiveSample(name, lambda n: [((n,), I8, -3, 4)], lambda n: {"axis": 0, "reverse": True}) for name in numbers]
    rows += [
        PrimitiveSample(name, lambda n: [((n, 2), C16)], lambda n: {"axis": 0, "reverse": True}, (0,)) for name in ("cumsum", "cumprod")
    ]
    rows += [
        PrimitiveSample(
            "linear_recurrence", lambda n, d=dtype: [((2, n, 3), d)] * 2, lambda n, w=way: {"axis": w[0], "reverse": w[1]}, (0, 1)
        )
        for way in ways
        for dtype in (F8, C16)
    ]
    rows += [
        PrimitiveSample("reduce_prod", lambda n: [((2, n, 3), F8)], lambda n, a=a: {"axes": a}, (0,)) for a in ((1,), (0, 2), (0, 1, 2))
    ]
    return [*rows, PrimitiveSample("reduce_prod", lambda n: [((n, 3), C16)], lambda n: {"axes": (0,)}, (0,))]


def _sorting() -> list[PrimitiveSample]:
    return [
        PrimitiveSample("sort", lambda n: [((2, n, 3), F8)], lambda n: {"axis": 1, "num_keys": 1}, (0,)),
        PrimitiveSample("sort", lambda n: [((n, 4), C16)], lambda n: {"axis": 0, "num_keys": 1}, (0,)),
        PrimitiveSample("sort", lambda n: [((n, 4), F8), ((n, 4), F8)], lambda n: {"axis": 1, "num_keys": 1}, (0, 1)),
        PrimitiveSample("sort", lambda n: [((n,), I8, 0, 2), ((n,), I8, 0, 2), ((n,), F8)], lambda n: {"axis": 0, "num_keys": 2}),
        PrimitiveSample("top_k", lambda n: [((n, 4), F8)], lambda n: {"k": 3}, (0,)),
        PrimitiveSample("top_k", lambda n: [((2, n), I8, 0, 3)], lambda n: {"k": 2}),
    ]


def _special() -> list[PrimitiveSample]:
    one, two = (lambda n: [((n, 3), F8, -1.3, 1.6)]), (lambda n: [((n, 3), F8, 0.4, 2.9)] * 2)
    rows = [PrimitiveSample(name, one, smooth=(0,)) for name in ("erf", "erfc", "erfcx", "log_ndtr")]
    rows += [PrimitiveSample(name, lambda n: two(n)[:1], smooth=(0,)) for name in ("rsqrt", "lgamma", "gamma")]
    rows += [PrimitiveSample(name, two, smooth=(0, 1)) for name in ("beta", "betaln", "rel_entr", "kl_div")]
    rows += [PrimitiveSample(name, lambda n: [((n, 2), C16)], smooth=(0,)) for name in ("erf", "erfc", "erfcx", "log_ndtr", "rsqrt")]
    rows += [
        PrimitiveSample("erf_inv", lambda n: [((n, 3), F8, -0.8, 0.7)], smooth=(0,)),
        PrimitiveSample("ndtri", lambda n: [((n, 3), F8, 0.1, 0.9)], smooth=(0,)),
        *(PrimitiveSample("polygamma", lambda n: two(n)[:1], lambda n, k=k: {"n": k}, (0,)) for k in (0, 1, 3)),
    ]
    return rows


def _random() -> list[PrimitiveSample]:
    """Samplers have a derivative which is not that of their steps: tests/test_random.py."""
    word, mean = np.dtype(np.uint32), (F8, 0.3, 30.0)
    words = lambda n: [((n, 2), word, 0, 2**32)] * 2  # noqa: E731
    return [
        PrimitiveSample("threefry2x32", lambda n: words(n) * 2),
        PrimitiveSample("fma", lambda n: [((n, 3), F8)] * 3, smooth=(0, 1, 2)),
        PrimitiveSample("log_gamma_sample", lambda n: [*words(n), ((n, 2), F8)]),
        PrimitiveSample("poisson_sample", lambda n: [*words(n), ((n, 2), *mean)]),
        PrimitiveSample("binomial_sample", lambda n: [*words(n), ((n, 2), *mean), ((n, 2), F8, 0.0, 1.0)]),
        PrimitiveSample("igamma_slope", lambda n: [((n, 3), F8, 0.4, 2.9), ((n, 3), F8, -1.5, 1.4)], lambda n: {"order": 1}, (0, 1)),
        PrimitiveSample("orthonormal_columns", lambda n: [((2, n, 3), F8)]),
    ]


def _callbacks() -> list[PrimitiveSample]:
    pair = HostFunction(np.add, lambda x, y: (np.cumsum(x + y, -1), (x * y).astype(np.float32)))
    return [
        PrimitiveSample(
            "callback",
            lambda n: [((n, 3), F8)] * 2,
            lambda n, v=vectorized: {"function": pair, "avals": (((n, 3), F8), ((n, 3), dtypes.FLOAT32)), "vectorized": v, "lanes": ()},
        )
        for vectorized in (False, True)
    ] + [
        PrimitiveSample(
            "io_callback",
            lambda n: [((n, 3), F8)] * 2,
            lambda n: {"function": pair, "avals": (((n, 3), F8), ((n, 3), dtypes.FLOAT32)), "lanes": ()},
        )
    ]


def _body(n: Any, *, tangents: bool = False, cotangent: bool = False) -> Any:
    """x * x for x of shape (n, 2); with a tangent also 2 x dx; or from x and a cotangent 2 x ct."""
    b, x, t = GraphBuilder(), Var(AbstractArray((n, 2), F8)), Var(AbstractArray((n, 2), F8))
    bind = lambda name, *atoms: b.bind(PRIMITIVES[name], atoms, {})[0]  # noqa: E731
    square = bind("mul", x, x)
    if not tangents and not cotangent:
        return b.build([Input(x)], [Output(square)])
    double = bind("mul", bind("add", x, x), t)
    return b.build([Input(x), Input(t)], [Output(double)] if cotangent else [Output(square), Output(double)])


def _forward(n: Any) -> Any:
    """x * x and the residual x."""
    graph = _body(n)
    return graph.replace(outputs=(*graph.outputs, Output(graph.in_vars[0])))


def _higher_order() -> list[PrimitiveSample]:
    x = lambda n: [((n, 2), F8)]  # noqa: E731
    return [
        PrimitiveSample("call", x, lambda n: {"graph": _body(n), "name": "f"}, (0,)),
        PrimitiveSample("checkpoint", x, lambda n: {"graph": _body(n)}, (0,)),
        PrimitiveSample("name", x, lambda n: {"name": "h"}, (0,)),
        PrimitiveSample("keep", x, lambda n: {"of": "sin"}, (0,)),
        PrimitiveSample(
            "custom_jvp", x, lambda n: {"graph": _body(n), "jvp": _body(n, tangents=True), "rule": "square#1", "captures": 0}, (0,)
        ),
        PrimitiveSample(
            "custom_vjp",
            x,
            lambda n: {
                "graph": _body(n),
                "fwd": _forward(n),
                "bwd": _body(n, cotangent=True),
                "rule": "square#2",
                "captures": 0,
                "positions": (0,),
            },  # fmt: skip
            (0,),
        ),
    ]


PRIMITIVE_SAMPLES = [
    *_elementwise(),
    *_parts(),
    *_movement(),
    *_contracting(),
    *_indexing(),
    *_cumulative(),
    *_sorting(),
    *_special(),
    *_random(),
    *_callbacks(),
    *_higher_order(),
]
