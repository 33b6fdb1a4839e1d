"""One or more sample rows per primitive, in terms of a size ``n``: tests/test_completeness.py takes it as an int and as a symbolic Dim."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from functx import dtypes
from functx.ir import AbstractArray, GraphBuilder, Input, Output, Var
from functx.primitive import PRIMITIVES
from functx.trace import current_trace

F8, I8, BOOL = dtypes.FLOAT64, dtypes.INT64, dtypes.BOOL


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
            if dtype.kind == "f":
                size = int(np.prod(shape, dtype=int))
                out.append((rng.permutation(np.linspace(low, high, size + 2)[1:-1]) + 0.013 * i).reshape(shape).astype(dtype))
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
        *("neg", "abs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "atan", "sinh", "cosh"),
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
        PrimitiveSample("slice_set", lambda n: [((n, 4), F8), ((2, 3), F8)], lambda n: region, (0, 1)),
        PrimitiveSample("slice_set", lambda n: [((n, 4), F8), ((n, 1), F8)], lambda n: {"starts": (0, 2), "steps": (1, 1)}, (0, 1)),
        PrimitiveSample("pad", lambda n: [((n, 4), F8), ((), F8)], lambda n: {"low": (1, 0), "high": (2, 1)}, (0, 1)),
        PrimitiveSample("concatenate", lambda n: [((n, 2), F8), ((3, 2), F8), ((n, 2), F8)], lambda n: {"axis": 0}, (0, 1, 2)),
        PrimitiveSample("concatenate", lambda n: [((n, 2), F8), ((n, 1), F8)], lambda n: {"axis": 1}, (0, 1)),
        PrimitiveSample("iota", lambda n: [], lambda n: {"shape": (2, n), "dtype": I8, "axis": 1}),
        PrimitiveSample("iota", lambda n: [], lambda n: {"shape": (3, n), "dtype": F8, "axis": 0}),
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
        rows += [PrimitiveSample(name, writing, lambda n, a=axes: {"axes": a}, (0, 1)) for name in ("scatter_add", "scatter_set")]
    return rows


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


PRIMITIVE_SAMPLES = [*_elementwise(), *_movement(), *_contracting(), *_indexing(), *_higher_order()]
