"""NumPy's ufuncs on tracers: one table from ufunc to primitives, type resolution by NumPy itself, ``out=`` as a write.

Python operators between Python scalars follow Python: ``True + True`` is an int, and what raises or changes type with the value (a zero
divisor, a negative exponent) demands that value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functx import dtypes, mutation, shapes
from functx.demand import depends_on_differentiated
from functx.dims import Condition
from functx.dtypes import Kind
from functx.errors import ConcretizationError, TracerWriteError, UnsupportedError
from functx.ir import Atom, Literal, Var
from functx.numpy import promote
from functx.primitive import Emitter, conjugate
from functx.scipy.rules import rule_of
from functx.trace import Tracer, current_trace, where

Rule = Callable[..., Atom]

_COMPARISONS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
# The fix for what has no rule here.
WRITE_INSTEAD = "write it with functions that functx traces (docs/coverage.md lists them), or give it a rule with functx.custom_vjp"
_UINT64 = np.dtype(np.uint64)


def _one(b: Emitter, x: Atom) -> Atom:
    return b.full_like(x, 1)


def _extremum(name: str) -> Rule:
    """max and min give the whole derivative at a tie to a Python scalar (of two, to the one written out), else half to each."""

    def rule(b: Emitter, x: Atom, y: Atom, *, operands: Sequence[Tracer]) -> Atom:
        bound = [h.kind is Kind.PYTHON for h in operands]
        if all(bound):
            bound = [isinstance(h.atom, Literal) for h in operands]
        tie = {(True, False): "first", (False, True): "second"}.get(tuple(bound), "half")
        return getattr(b, name)(x, y, tie=tie)

    return rule


def _square(b: Emitter, x: Atom) -> Atom:
    """x * x; of a norm what it is the root of, which has the right derivatives at zero too."""
    trace = current_trace()
    number = trace.producer(x) if isinstance(x, Var) else None
    root = trace.eqns[number] if number is not None else None
    return root.inputs[0] if root is not None and root.primitive.name == "sqrt_zero" else b.mul(x, x)


def _power(b: Emitter, x: Atom, y: Atom, *, operands: Sequence[Tracer]) -> Atom:
    """The exponents that NumPy computes without pow, it being both faster and more exact."""
    exponent = operands[1].atom
    if isinstance(exponent, Literal) and dtypes.is_inexact(x.aval.dtype):
        if exponent.value == 2:
            return _square(b, x)
        if exponent.value == 1:
            return x
        if exponent.value == 0.5:
            return b.sqrt(x)
        if exponent.value == -1:
            return b.div(_one(b, x), x)
    if isinstance(exponent, Literal) and x.aval.dtype.kind in "iu" and exponent.value < 0:
        np.power(1, -1)  # raises NumPy's own error
    return b.pow(x, y)


def _logical(name: str) -> Rule:
    def rule(b: Emitter, *xs: Atom) -> Atom:
        return getattr(b, name)(*(x if x.aval.dtype == dtypes.BOOL else b.ne(x, b.zeros_like(x)) for x in xs))

    return rule


def _ignoring_nan(name: str) -> Rule:
    """max or min of what is a number."""
    extremum = _extremum(name)

    def rule(b: Emitter, x: Atom, y: Atom, *, operands: Sequence[Tracer]) -> Atom:
        chosen = extremum(b, x, y, operands=operands)
        return b.select(b.ne(x, x), y, b.select(b.ne(y, y), x, chosen)) if dtypes.is_inexact(x.aval.dtype) else chosen

    return rule


def _rounding(name: str) -> Rule:
    """Integers are whole already."""
    return lambda b, x: getattr(b, name)(x) if dtypes.is_inexact(x.aval.dtype) else x


def _scaled(numerator: float, denominator: float) -> Rule:
    """x times a ratio that is worked out in x's precision, in float32 for float16."""

    def rule(b: Emitter, x: Atom) -> Atom:
        dtype = x.aval.dtype
        wide = b.convert(x, dtype=dtypes.FLOAT32, checked=False) if dtype.itemsize == 2 else x
        t = wide.aval.dtype.type
        scaled = b.mul(wide, b.full_like(wide, t(numerator) / t(denominator)))
        return b.convert(scaled, dtype=dtype, checked=False) if wide is not x else scaled

    return rule


def _heaviside(b: Emitter, x: Atom, at_zero: Atom) -> Atom:
    zero = b.zeros_like(x)
    step = b.select(b.lt(x, zero), zero, _one(b, x))
    return b.select(b.ne(x, x), b.full_like(x, np.nan), b.select(b.eq(x, zero), at_zero, step))


def _compared_to_infinity(name: str, both: str, integers: bool) -> Rule:
    """``abs(x) < inf`` or ``== inf``; integers are all finite, and of a complex number ``both`` parts count."""

    def rule(b: Emitter, x: Atom) -> Atom:
        if dtypes.is_complex(x.aval.dtype):
            return getattr(b, both)(rule(b, b.real(x)), rule(b, b.imag(x)))
        if not dtypes.is_inexact(x.aval.dtype):
            return b.full(x.aval.shape, integers, dtypes.BOOL)
        return getattr(b, name)(b.abs(x), b.full_like(x, np.inf))

    return rule


def _lcm(b: Emitter, x: Atom, y: Atom) -> Atom:
    """abs(x) / gcd(x, y) * abs(y), and 0 where either is."""
    return b.mul(b.floor_divide(b.abs(x), b.gcd(x, y)), b.abs(y))


def _spacing(b: Emitter, x: Atom) -> Atom:
    """The distance to the next number away from zero; of float16 NumPy gives that to the next greater one."""
    infinity = b.full_like(x, np.inf)
    outwards = b.select(b.lt(x, b.zeros_like(x)), b.neg(infinity), infinity)
    return b.sub(b.nextafter(x, infinity if x.aval.dtype == np.float16 else outwards), x)


def _reciprocal(b: Emitter, x: Atom) -> Atom:
    """1 / x, of integers truncated to their dtype."""
    if dtypes.is_inexact(x.aval.dtype):
        return b.div(_one(b, x), x)
    wide = b.convert(x, dtype=dtypes.FLOAT64, checked=False)
    return b.convert(b.div(_one(b, wide), wide), dtype=x.aval.dtype, checked=False)


def _comparison(name: str, ufunc: np.ufunc) -> Rule:
    """NumPy compares int64 with uint64 by true value: a negative number compares the same way with every unsigned one."""

    def rule(b: Emitter, x: Atom, y: Atom) -> Atom:
        if x.aval.dtype == y.aval.dtype:
            return getattr(b, name)(x, y)
        signed = x if x.aval.dtype.kind == "i" else y
        negative = b.lt(signed, b.zeros_like(signed))
        compared = getattr(b, name)(*(b.convert(z, dtype=_UINT64, checked=False) if z is signed else z for z in (x, y)))
        return b.or_(negative, compared) if ufunc(*((-1, 0) if signed is x else (0, -1))) else b.and_(b.not_(negative), compared)

    return rule


def _primitive(name: str) -> Rule:
    return lambda b, *xs: getattr(b, name)(*xs)


# Ufuncs that are one primitive.
_FUNCTIONS = {
    **{getattr(np, name): name for name in "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh cbrt hypot".split()},  # noqa: SIM905
    **{getattr(np, "arc" + name[1:]): name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    **{getattr(np, name): name for name in ("logaddexp", "logaddexp2", "copysign", "signbit", "floor_divide", "remainder", "fmod")},
    np.left_shift: "shift_left", np.right_shift: "shift_right", np.float_power: "pow", np.gcd: "gcd", np.nextafter: "nextafter",
    np.bitwise_count: "population_count",
}  # fmt: skip

# The primitives behind each ufunc. Operands arrive converted to the loop's dtypes and broadcast to one shape.
UFUNCS: dict[np.ufunc, Rule] = {
    np.add: lambda b, x, y: b.or_(x, y) if x.aval.dtype == dtypes.BOOL else b.add(x, y),
    np.subtract: lambda b, x, y: b.sub(x, y),
    np.multiply: lambda b, x, y: b.and_(x, y) if x.aval.dtype == dtypes.BOOL else b.mul(x, y),
    np.divide: lambda b, x, y: b.div(x, y),
    np.negative: lambda b, x: b.neg(x),
    np.positive: lambda b, x: x,
    np.square: _square,
    np.reciprocal: _reciprocal,
    **{ufunc: _primitive(name) for ufunc, name in _FUNCTIONS.items()},
    **{ufunc: _rounding(ufunc.__name__) for ufunc in (np.floor, np.ceil, np.trunc, np.rint)},
    **dict.fromkeys((np.deg2rad, np.radians), _scaled(np.pi, 180)),
    **dict.fromkeys((np.rad2deg, np.degrees), _scaled(180, np.pi)),
    np.heaviside: _heaviside,
    np.absolute: lambda b, x: x if x.aval.dtype == dtypes.BOOL else b.abs(x),
    np.fabs: lambda b, x: b.abs(x),
    np.sign: lambda b, x: b.sign(x),
    **{getattr(np, name): _comparison(primitive, getattr(np, name)) for name, primitive in _COMPARISONS.items()},
    np.logical_and: _logical("and_"),
    np.logical_or: _logical("or_"),
    np.logical_not: _logical("not_"),
    np.logical_xor: lambda b, x, y: b.ne(*(z if z.aval.dtype == dtypes.BOOL else b.ne(z, b.zeros_like(z)) for z in (x, y))),
    np.bitwise_and: lambda b, x, y: b.and_(x, y),
    np.bitwise_or: lambda b, x, y: b.or_(x, y),
    np.bitwise_xor: lambda b, x, y: b.xor(x, y),
    np.invert: lambda b, x: b.not_(x),
    np.isnan: lambda b, x: b.ne(x, x),
    np.isfinite: _compared_to_infinity("lt", "and_", integers=True),
    np.isinf: _compared_to_infinity("eq", "or_", integers=False),
    np.conjugate: lambda b, x: conjugate(b, x),
    np.lcm: _lcm,
    np.spacing: _spacing,
    np.ldexp: lambda b, x, n: b.ldexp(x, n),
}

# Rules that look at the operands as the user gave them: a Python scalar, a literal exponent.
OPERAND_UFUNCS: dict[np.ufunc, Rule] = {
    np.power: _power, np.maximum: _extremum("max"), np.minimum: _extremum("min"), np.fmax: _ignoring_nan("max"),
    np.fmin: _ignoring_nan("min"),
}  # fmt: skip


def is_traced(ufunc: np.ufunc) -> bool:
    """Whether functx has a rule for this ufunc, of NumPy or of scipy.special."""
    return ufunc in UFUNCS or ufunc in OPERAND_UFUNCS or rule_of(ufunc) is not None


def _emit(ufunc: np.ufunc, b: Emitter, atoms: Sequence[Atom], operands: Sequence[Tracer]) -> Atom:
    if ufunc in OPERAND_UFUNCS:
        return OPERAND_UFUNCS[ufunc](b, *atoms, operands=operands)
    return (UFUNCS.get(ufunc) or rule_of(ufunc))(b, *atoms)


def apply(ufunc: np.ufunc, inputs: Sequence[Any], *, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    """``ufunc(*inputs, out=out, dtype=dtype)`` where an operand or ``out`` is a tracer."""
    if not is_traced(ufunc):
        raise UnsupportedError(f"np.{ufunc.__name__} is not traced by functx", where=where(), fix=WRITE_INSTEAD)
    operands = promote.handles(inputs)
    target = out[0] if isinstance(out, tuple) else out
    *loop, result = _resolve(ufunc, operands, dtype, casting)
    if isinstance(target, Tracer):
        _check_cast(ufunc, loop, result, target, casting)
    shape = promote.broadcast_shapes(operands)
    b = current_trace().emit
    comparison = ufunc.__name__ in _COMPARISONS
    if comparison:
        loop = _exact_integers(operands, loop)
    if comparison and (constant := _out_of_range(ufunc, operands, loop)) is not None:
        atom = b.full(shape, constant, dtypes.BOOL)
    else:
        atoms = [promote.broadcast(b, promote.convert(b, h, d), shape) for h, d in zip(operands, loop, strict=True)]
        atom = _emit(ufunc, b, atoms, operands)
    if target is not None:
        return store(ufunc, loop, result, atom, target, casting)
    return current_trace().tracer(atom, promote.result_kind(shape), promote.k_order(operands, shape, atom.aval.dtype))


def _fraction(b: Emitter, x: Atom) -> Atom:
    """What is left of x without its whole part, with the sign of x."""
    infinite = b.eq(b.abs(x), b.full_like(x, np.inf))
    return b.copysign(b.select(infinite, b.zeros_like(x), b.sub(x, b.trunc(x))), x)


# Ufuncs with two results.
PAIRS: dict[np.ufunc, tuple[Rule, Rule]] = {
    np.divmod: (_primitive("floor_divide"), _primitive("remainder")),
    np.modf: (_fraction, _primitive("trunc")),
    np.frexp: (_primitive("mantissa"), _primitive("exponent")),
}


def apply_pair(
    ufunc: np.ufunc, inputs: Sequence[Any], *, out: Any = (None, None), dtype: Any = None, casting: str = "same_kind"
) -> tuple[Any, ...]:
    """``ufunc(*inputs, out=(first, second))`` for a ufunc with two results."""
    operands = promote.handles(inputs)
    loop = _resolve(ufunc, operands, dtype, casting)[: ufunc.nin]
    shape = promote.broadcast_shapes(operands)
    b = current_trace().emit
    atoms = [promote.broadcast(b, promote.convert(b, h, d), shape) for h, d in zip(operands, loop, strict=True)]
    results = [rule(b, *atoms) for rule in PAIRS[ufunc]]
    return tuple(
        current_trace().tracer(atom, promote.result_kind(shape), promote.k_order(operands, shape, atom.aval.dtype))
        if target is None
        else store(np.positive, [atom.aval.dtype], atom.aval.dtype, atom, target, casting)
        for atom, target in zip(results, out, strict=True)
    )


def _resolve(ufunc: np.ufunc, operands: Sequence[Tracer], dtype: Any, casting: str) -> list[np.dtype]:
    """The dtypes of the loop that NumPy would run."""
    given = [promote.loop_dtype(h) for h in operands]
    if all(isinstance(d, type) for d in given):  # only Python scalars: they become arrays of their default dtypes
        given = [h.aval.dtype for h in operands]
    signature = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, *(np.dtype(dtype),) * ufunc.nout)}
    try:
        return list(ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), casting=casting, **signature))
    except TypeError as error:
        error.add_note(f"  at:  {where()}")
        raise


def _exact_integers(operands: Sequence[Tracer], loop: Sequence[np.dtype]) -> list[np.dtype]:
    """NumPy compares a Python int by its true value: a traced one stays int64, which the array's dtype may not hold."""
    if not any(h.aval.weak and h.aval.dtype == dtypes.INT64 and not isinstance(h.atom, Literal) for h in operands):
        return list(loop)
    return [dtypes.INT64 if d.kind in "iu" and (h.aval.weak or d != _UINT64) else d for h, d in zip(operands, loop, strict=True)]


def _out_of_range(ufunc: np.ufunc, operands: Sequence[Tracer], loop: Sequence[np.dtype]) -> bool | None:
    """A Python int that the other operand's dtype cannot hold compares as NumPy does it: by its true value, the same for all elements."""
    for i, (h, dtype) in enumerate(zip(operands, loop, strict=True)):
        if isinstance(h.atom, Literal) and h.aval.weak and dtype.kind in "iu":
            value, info = h.atom.value.item(), np.iinfo(dtype)
            if not info.min <= value <= info.max:
                any_element = info.max if value > info.max else info.min
                return bool(ufunc(*([any_element, value] if i == 1 else [value, any_element])))
    return None


def store(ufunc: np.ufunc, loop: Sequence[np.dtype], result: np.dtype, atom: Atom, target: Any, casting: str) -> Any:
    """Write a result into ``out``. A plain ndarray takes it only if its value is known and no gradient is lost."""
    if not isinstance(target, Tracer):
        return _store_plain(atom, target, casting)
    trace = current_trace()
    handle = trace.lift(target)
    mutation.check_writeable(handle)
    _check_cast(ufunc, loop, result, handle, casting)
    shape = handle.aval.shape
    if promote.shapes.broadcast(atom.aval.shape, shape) != shape:
        raise ValueError(f"non-broadcastable output operand with shape {shape} doesn't match the broadcast shape {atom.aval.shape}")
    b = trace.emit
    value = atom if atom.aval.dtype == handle.aval.dtype else b.convert(atom, dtype=handle.aval.dtype, checked=False)
    mutation.write(handle, promote.broadcast(b, value, shape))
    return target


def _check_cast(ufunc: np.ufunc, loop: Sequence[np.dtype], result: np.dtype, target: Tracer, casting: str) -> None:
    if not np.can_cast(result, target.aval.dtype, casting):
        ufunc(*(np.empty(0, d) for d in loop), out=np.empty(0, target.aval.dtype), casting=casting)  # raises NumPy's own error


def _store_plain(atom: Atom, target: np.ndarray, casting: str) -> np.ndarray:
    trace = current_trace()
    if not depends_on_differentiated(trace, atom):
        try:
            value = trace.demand(atom)
        except ConcretizationError:
            pass
        else:
            np.copyto(target, value, casting=casting)
            return target
    raise write_error(target)


def write_error(target: np.ndarray) -> TracerWriteError:
    """The error for a traced value on its way into a plain ndarray."""
    return TracerWriteError(
        f"a traced value cannot be written into a plain ndarray (here one of shape {target.shape}, dtype {target.dtype})",
        where=where(),
        why="NumPy owns that array and would lose the value's derivative and trace",
        fix="make the array with fnp.zeros(...) (import functx.numpy as fnp), or, if it exists already, write buf = fnp.asarray(buf) "
        "before: a handle that is read and written back like an argument",
    )


# --- Python operators ---------------------------------------------------------------------------------------------------------------------

BINARY: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power, "floordiv": np.floor_divide,
    "mod": np.remainder, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift, "matmul": np.matmul,
}  # fmt: skip
COMPARE: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
UNARY: dict[str, np.ufunc] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def operator_call(ufunc: np.ufunc, inputs: Sequence[Any], name: str) -> Any:
    """A Python operator with a tracer among its operands."""
    if ufunc is np.matmul:
        return ufunc(*inputs)
    if not all(is_array_like(v) for v in inputs):
        return NotImplemented
    operands = promote.handles(inputs)
    if all(h.kind is Kind.PYTHON for h in operands):
        return _python_operator(ufunc, operands, name)
    if name == "pow" and operands[0].kind is Kind.ARRAY and operands[1].aval.weak and operands[1].atom == Literal(2):
        return apply(np.square, operands[:1])  # as NumPy's operator does; bools have a square and no such power
    return apply(ufunc, operands)


def is_array_like(value: Any) -> bool:
    """Whether Python operators take it together with a traced array."""
    return isinstance(value, (Tracer, np.ndarray, np.generic, bool, int, float, complex, list, tuple, shapes.Dim, Condition))


def _python_operator(ufunc: np.ufunc, operands: Sequence[Tracer], name: str) -> Any:
    """An operator between Python scalars gives what Python gives."""
    trace, f = current_trace(), getattr(operator, name + "_" if name in ("and", "or") else name)
    types = [dtypes.python_type(h.aval.dtype) for h in operands]
    result = type(f(*(t(1) for t in types)))
    try:
        if name in ("floordiv", "mod", "lshift", "rshift"):
            return _by_value(name, f, operands)
        if (name == "pow" and not _plain_power(operands)) or name == "truediv":
            result = _checked_type(f, operands, name)
    except ConcretizationError:
        return apply(ufunc, operands)  # the value cannot be known here: NumPy's rules
    own = name in COMPARE or types == [complex]  # computed in the operands' type, whatever the result's is
    dtype = np.result_type(*(dtypes.PYTHON_DTYPES[t] for t in types)) if own else np.dtype(result)
    b = trace.emit
    atom = _emit(ufunc, b, [promote.convert(b, h, dtype) for h in operands], operands)
    return trace.tracer(atom, Kind.PYTHON)


def _checked_type(f: Callable[..., Any], operands: Sequence[Tracer], name: str) -> type:
    """The type of a result that depends on values; Python's own error for the values that have one."""
    if name == "truediv":
        return type(f(dtypes.python_type(operands[0].aval.dtype)(1), _python_value(operands[1])))
    return type(f(*(_python_value(h) for h in operands)))


def _by_value(name: str, f: Callable[..., Any], operands: Sequence[Tracer]) -> Any:
    """Integer-valued operators: the result is a plain number. Only the remainder of floats has a derivative."""
    x, y = (_python_value(h) for h in operands)
    if name == "mod" and isinstance(f(x, y), float):
        trace = current_trace()
        return trace.tracer(trace.emit.remainder(*(promote.convert(trace.emit, h, np.dtype(float)) for h in operands)), Kind.PYTHON)
    return f(x, y)


def _python_value(handle: Tracer) -> Any:
    """The value as Python's own type, also of a differentiated one: it decides the type of the result, an error, or a piecewise
    constant.
    """
    value = handle.value()
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def _plain_power(operands: Sequence[Tracer]) -> bool:
    """Whether ``x ** n`` has the same type for all x and never fails: n is a known non-negative whole number."""
    atom = operands[1].atom
    return isinstance(atom, Literal) and atom.value >= 0 and atom.value == int(atom.value)
