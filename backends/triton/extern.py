"""The table of PyTorch's functions for equations that no kernel computes: complex numbers, sorting, special functions, some scatters.

Each entry takes tensors of the operands' shapes and the equation's parameters. What is not here has no lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from functx.backends.triton.host import host_function
from functx.backends.triton.types import kind, torch_name
from functx.errors import BackendError, IndexOutOfBoundsError
from functx.ir import Eqn

Function = Callable[..., Any]


def torch_dtype(dtype: np.dtype) -> torch.dtype:
    """PyTorch's dtype."""
    return getattr(torch, torch_name(dtype))


# --- movement -----------------------------------------------------------------------------------------------------------------------------


def _index(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    places = [start + step * torch.arange(n, device=x.device) for start, n, step in zip(starts, sizes, steps, strict=True)]
    return torch.meshgrid(*places, indexing="ij") if places else ()


def _broadcast(x: torch.Tensor, shape: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    full = [1] * len(shape)
    for d, axis in zip(x.shape, dims, strict=True):
        full[axis] = d
    return x.reshape(full).expand(tuple(shape))


def _slice(x: torch.Tensor, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> torch.Tensor:
    return x[_index(starts, sizes, steps, x)] if x.ndim else x


def _slice_set(x: torch.Tensor, update: torch.Tensor, starts: Sequence[int], steps: Sequence[int]) -> torch.Tensor:
    out = x.clone()
    out[_index(starts, update.shape, steps, x)] = update
    return out


def _lattice(x: torch.Tensor, axes: Any, starts: Any, sizes: Any, steps: Any, access: str) -> torch.Tensor:
    lanes = torch.meshgrid(*(torch.arange(n, device=x.device) for n in sizes), indexing="ij")
    places = [start + sum(row[k] * i for row, i in zip(steps, lanes, strict=True)) for k, start in enumerate(starts)]
    return torch.movedim(x, tuple(axes), tuple(range(len(axes))))[tuple(places)]


def _pad(x: torch.Tensor, value: torch.Tensor, low: Sequence[int], high: Sequence[int]) -> torch.Tensor:
    out = value.expand([a + d + b for a, d, b in zip(low, x.shape, high, strict=True)]).clone()
    out[tuple(slice(a, a + d) for a, d in zip(low, x.shape, strict=True))] = x
    return out


def _checked(x: torch.Tensor, indices: Sequence[torch.Tensor], axes: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The indices, looked at before PyTorch uses them; this waits for the device."""
    for index, axis in zip(indices, axes, strict=True):
        n = x.shape[axis]
        bad = (index < -n) | (index >= n)
        if bool(bad.any()):
            raise IndexOutOfBoundsError(f"index {int(index[bad][0])} is out of bounds for axis {axis} with size {n}")
    return tuple(torch.where(index < 0, index + x.shape[axis], index) for index, axis in zip(indices, axes, strict=True))


def _moved(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return torch.movedim(x, tuple(axes), tuple(range(len(axes))))


def _gather(x: torch.Tensor, *indices: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return _moved(x, axes)[_checked(x, indices, axes)]


def _scatter(reduce: str) -> Function:
    """Updates by their places in memory; of several for one place all count, or the last one."""

    def scatter(x: torch.Tensor, updates: torch.Tensor, *indices: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        out = x.clone()
        numbers = _moved(torch.arange(out.numel(), device=x.device).reshape(out.shape), axes)
        places = numbers[_checked(x, indices, axes)].reshape(-1)
        signed = _in_order if reduce in ("amin", "amax") else _bits
        values, flat = signed(updates.reshape(-1)), signed(out.view(-1))
        if reduce == "set":
            last = torch.full((out.numel(),), -1, device=x.device, dtype=torch.int64)
            last.scatter_reduce_(0, places, torch.arange(values.numel(), device=x.device), "amax")
            touched = last >= 0
            flat[touched] = values[last[touched]]
        elif reduce == "sum" and x.dtype != torch.bool:
            wide = flat.float() if x.dtype in (torch.float16, torch.bfloat16) else flat
            flat = wide.index_add(0, places, values.to(wide.dtype)).to(flat.dtype)
        else:
            wide = flat.to(torch.uint8) if x.dtype == torch.bool else flat
            name = {"prod": "prod" if x.dtype != torch.bool else "amin", "sum": "amax"}.get(reduce, reduce)
            flat = wide.scatter_reduce(0, places, values.to(wide.dtype), name)
        flat = flat.reshape(x.shape).to(torch.bool) if x.dtype == torch.bool else flat.reshape(x.shape)
        return _in_order(flat.view(x.dtype)).view(x.dtype) if signed is _in_order else flat.view(x.dtype)

    return scatter


def _dynamic(x: torch.Tensor, sizes: Sequence[int], starts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    places = []
    for k, (start, d, n) in enumerate(zip(starts, x.shape, sizes, strict=True)):
        place = start.clamp(0, d - n) + torch.arange(n, device=x.device)
        places.append(place.reshape([n if axis == k else 1 for axis in range(x.ndim)]))
    return tuple(places)


def _dynamic_update_slice(x: torch.Tensor, update: torch.Tensor, *starts: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[_dynamic(x, update.shape, starts)] = update
    return out


def _dot_general(x: torch.Tensor, y: torch.Tensor, contract: Any, batch: Any) -> torch.Tensor:
    free = [[a for a in range(t.ndim) if a not in batch[k] and a not in contract[k]] for k, t in enumerate((x, y))]
    m, n = ([t.shape[a] for a in f] for t, f in zip((x, y), free, strict=True))
    sizes, k = [x.shape[a] for a in batch[0]], math.prod(x.shape[a] for a in contract[0])
    left = x.permute([*batch[0], *free[0], *contract[0]]).reshape(math.prod(sizes), math.prod(m), k)
    right = y.permute([*batch[1], *contract[1], *free[1]]).reshape(math.prod(sizes), k, math.prod(n))
    return torch.bmm(left, right).reshape([*sizes, *m, *n])


# --- numbers ------------------------------------------------------------------------------------------------------------------------------


def _sort(*operands: torch.Tensor, axis: int, num_keys: int) -> tuple[torch.Tensor, ...]:
    order = torch.arange(operands[0].shape[axis], device=operands[0].device)
    order = order.reshape([-1 if a == axis else 1 for a in range(operands[0].ndim)]).expand(operands[0].shape)
    for key in operands[:num_keys][::-1]:
        for part in (key.imag, key.real) if key.is_complex() else (key.to(torch.uint8) if key.dtype == torch.bool else key,):
            order = order.gather(axis, _in_order(part).gather(axis, order).argsort(dim=axis, stable=True))
        if key.is_complex():
            bad = key.real.isnan().to(torch.uint8) * 2 | key.imag.isnan().to(torch.uint8)
            order = order.gather(axis, bad.gather(axis, order).argsort(dim=axis, stable=True))
    return tuple(_bits(x).gather(axis, order).view(x.dtype) for x in operands)


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _bits(x: torch.Tensor) -> torch.Tensor:
    """Unsigned integers as signed ones of the same bits, with which PyTorch can do more."""
    return x.view(_SIGNED[x.dtype]) if x.dtype in _SIGNED else x


def _in_order(x: torch.Tensor) -> torch.Tensor:
    """Unsigned integers as signed ones in the same order."""
    return _bits(x) ^ (-(1 << (8 * x.element_size() - 1))) if x.dtype in _SIGNED else x


def _top_k(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The end of a stable sort of the reversed array, read backwards: equal elements come out in their own order."""
    n = x.shape[-1]
    numbers = torch.arange(n, device=x.device).expand(x.shape)
    order = _sort(_bits(x).flip(-1).view(x.dtype), numbers, axis=x.ndim - 1, num_keys=1)[1]
    places = n - 1 - order.flip(-1)[..., :k]
    return _bits(x).gather(-1, places).view(x.dtype), places


def _complex_sign(x: torch.Tensor) -> torch.Tensor:
    return torch.sgn(x) if x.is_complex() else torch.sign(x)


def _mul_zero(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where((x == 0) | (y == 0), 0, x * y).to(x.dtype)


def _polygamma(x: torch.Tensor, n: int) -> torch.Tensor:
    return (-1) ** (n + 1) * math.factorial(n) * torch.special.zeta(torch.full_like(x, n + 1), x) if n else torch.digamma(x)


def _gamma(x: torch.Tensor) -> torch.Tensor:
    """PyTorch has no sign of the gamma function: it alternates below zero."""
    odd = torch.floor(x).remainder(2) != 0
    value = torch.exp(torch.lgamma(x)) * torch.where((x < 0) & odd, -1.0, 1.0).to(x.dtype)
    value = torch.where(x == 0, torch.copysign(torch.full_like(x, torch.inf), x), value)
    return torch.where((x < 0) & (torch.floor(x) == x), torch.nan, value)


def _betaln(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)
    return torch.where((x == 0) | (y == 0), torch.inf, out)


def _nextafter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of floats of 16 bits, by their bits."""
    bits = x.view(torch.int16)
    step = torch.where((x < y) == (x > 0), 1, -1).to(torch.int16)
    first = torch.where(y < 0, -(2**15) + 1, 1).to(torch.int16)  # from zero
    moved = torch.where(x == 0, first, bits + step).view(x.dtype)
    return torch.where(x.isnan() | y.isnan(), x + y, torch.where(x == y, y, moved))


def _rel_entr(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    inside = torch.where(x == 0, torch.zeros_like(x), x * torch.log(x / y))
    return torch.where(((x > 0) & (y > 0)) | ((x == 0) & (y >= 0)) | x.isnan() | y.isnan(), inside, torch.inf)


def _convert(x: torch.Tensor, dtype: np.dtype, checked: bool) -> torch.Tensor:
    if x.is_complex() and dtype.kind != "c":
        x = (x != 0) if dtype.kind == "b" else x.real
    return x.to(torch_dtype(dtype))


def _extremum(real: Function, better: Function) -> Function:
    """Of complex numbers by their real parts first; NaN wins."""

    def choose(x: torch.Tensor, y: torch.Tensor, tie: str = "") -> torch.Tensor:
        if not x.is_complex():
            return real(x, y)
        first = better(x.real, y.real) | ((x.real == y.real) & better(x.imag, y.imag)) | (x == y)
        return torch.where(x.isnan() | (first & ~y.isnan()), x, y)

    return choose


def _front(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The axes joined to one in front."""
    rest = [a for a in range(x.ndim) if a not in axes]
    return x.permute([*axes, *rest]).reshape(math.prod(x.shape[a] for a in axes), *(x.shape[a] for a in rest))


def _best(choose: Function) -> Function:
    """A reduction of complex numbers, from left to right by halves."""

    def reduce(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        x = _front(x, axes)
        while len(x) > 1:
            half = len(x) // 2
            x = torch.cat([choose(x[: 2 * half : 2], x[1 : 2 * half : 2]), x[2 * half :]])
        return x[0]

    return reduce


def _best_place(choose: Function, of_nothing: Callable[..., Any]) -> Function:
    """Where the first of the best numbers is: complex ones, and those along an axis that may have none, as ``of_nothing`` says."""

    def place(x: torch.Tensor, axis: int) -> torch.Tensor:
        if x.shape[axis] == 0:
            of_nothing(np.empty(x.shape), axis)
        x = x.to(torch.uint8) if x.dtype == torch.bool else _in_order(x)
        best = _best(choose)(x, (axis,)).unsqueeze(axis)
        return ((x == best) | (x.isnan() & best.isnan())).to(torch.uint8).argmax(axis)

    return place


def _running(combine: Function) -> Function:
    """Every intermediate result of an associative operation on tuples of complex numbers, of the last of the tuple."""

    def run(*xs: torch.Tensor, axis: int, reverse: bool) -> torch.Tensor:
        xs, step = tuple((x.flip(axis) if reverse else x).movedim(axis, 0) for x in xs), 1
        while step < len(xs[0]):
            joined = combine(*(x[:-step] for x in xs), *(x[step:] for x in xs))
            xs, step = tuple(torch.cat([x[:step], later]) for x, later in zip(xs, joined, strict=True)), 2 * step
        out = xs[-1].movedim(0, axis)
        return out.flip(axis) if reverse else out

    return run


def _less(strict: bool) -> Function:
    def less(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not x.is_complex():
            return x < y if strict else x <= y
        last = x.imag < y.imag if strict else x.imag <= y.imag
        known = ~(x.imag.isnan() | y.imag.isnan())
        return ((x.real < y.real) & known) | ((x.real == y.real) & last)

    return less


def _orthonormal_columns(x: torch.Tensor) -> torch.Tensor:
    q, r = torch.linalg.qr(x.float() if x.dtype.itemsize == 2 else x)
    return q * torch.sgn(r.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)


def _named(*names: str) -> dict[str, Function]:
    return {name: getattr(torch, name) for name in names}


_lt, _le = _less(True), _less(False)
_greatest, _least = _extremum(torch.maximum, torch.gt), _extremum(torch.minimum, torch.lt)
TABLE: dict[str, Function] = {
    **_named("add", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos"),
    **_named("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "real", "imag", "complex", "eq", "ne"),
    **_named("abs", "pow"),
    "conj": torch.conj_physical,
    "expm1": lambda x: torch.expm1(x) if not x.is_complex() else torch.complex(
        torch.expm1(x.real) * torch.cos(x.imag) - 2 * torch.sin(x.imag / 2) ** 2, torch.exp(x.real) * torch.sin(x.imag)
    ),
    "exp2": lambda x: torch.exp2(x) if not x.is_complex() else torch.exp(x * math.log(2)),
    "logistic": torch.sigmoid,
    "sqrt_zero": torch.sqrt,
    "sign": _complex_sign,
    "mul_zero": _mul_zero,
    "max": _greatest,
    "min": _least,
    "reduce_max": _best(_greatest),
    "reduce_min": _best(_least),
    "reduce_prod": lambda x, axes: _front(x, axes).prod(0),
    "argmax": _best_place(_greatest, np.argmax),
    "argmin": _best_place(_least, np.argmin),
    "cummax": _running(lambda x, y: [_greatest(x, y)]),
    "cummin": _running(lambda x, y: [_least(x, y)]),
    "linear_recurrence": _running(lambda a, x, b, y: (a * b, b * x + y)),
    "lt": _lt,
    "le": _le,
    "gt": lambda x, y: _lt(y, x),
    "ge": lambda x, y: _le(y, x),
    "rint": lambda x: torch.complex(x.real.round(), x.imag.round()) if x.is_complex() else x.round(),
    "select": torch.where,
    "convert": _convert,
    "stop_gradient": lambda x: x,
    "erfcx": torch.special.erfcx,
    "log_ndtr": torch.special.log_ndtr,
    "ndtri": torch.special.ndtri,
    "polygamma": _polygamma,
    "gamma": _gamma,
    "betaln": _betaln,
    "beta": lambda x, y: torch.exp(_betaln(x, y)),
    "rel_entr": _rel_entr,
    "nextafter": _nextafter,
    "kl_div": lambda x, y: _rel_entr(x, y) - x + y,
    "pairs": torch.view_as_real,
    "from_pairs": lambda x: torch.complex(x[..., 0], x[..., 1]),
    "broadcast": _broadcast,
    "reshape": lambda x, shape: x.reshape(tuple(shape)),
    "transpose": lambda x, perm: x.permute(tuple(perm)),
    "slice": _slice,
    "slice_set": _slice_set,
    "lattice": _lattice,
    "pad": _pad,
    "concatenate": lambda *xs, axis: torch.cat(xs, axis),
    "gather": _gather,
    "scatter_set": _scatter("set"),
    "scatter_add": _scatter("sum"),
    "scatter_mul": _scatter("prod"),
    "scatter_max": _scatter("amax"),
    "scatter_min": _scatter("amin"),
    "dynamic_slice": lambda x, *starts, sizes: x[_dynamic(x, sizes, starts)],
    "dynamic_update_slice": _dynamic_update_slice,
    "dot_general": _dot_general,
    "reduce_sum": lambda x, axes: x.sum(tuple(axes)) if axes else x,
    "cumsum": lambda x, axis, reverse: x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis),
    "cumprod": lambda x, axis, reverse: x.flip(axis).cumprod(axis).flip(axis) if reverse else x.cumprod(axis),
    "sort": _sort,
    "top_k": _top_k,
    "orthonormal_columns": _orthonormal_columns,
    "places": lambda mask, count: torch.nonzero(mask).reshape(-1),
    "repeated_places": lambda counts, count: torch.repeat_interleave(counts),
}  # fmt: skip
_IN_DOUBLE = ("erfcx", "log_ndtr", "ndtri", "polygamma", "gamma", "betaln", "beta", "rel_entr", "kl_div")  # differences of large numbers

_ORDERED = ("scatter_max", "scatter_min", "scatter_mul")  # of complex numbers PyTorch has none on GPUs


def function_for(eqn: Eqn) -> Function:
    """PyTorch's function for an equation, or what calls back.

    Raises:
      BackendError: there is none.
    """
    name = eqn.primitive.name
    if name == "promise":
        return lambda difference: eqn.primitive.evaluate([np.int64(difference.item())], eqn.params)
    if eqn.primitive.family == "callback":
        return host_function(eqn)
    if name not in TABLE or name in (*_IN_DOUBLE, *_ORDERED) and kind(eqn.inputs[0].aval.dtype) == "c":
        raise BackendError(
            f"the triton backend has no lowering of '{name}' at {', '.join(str(a.aval) for a in eqn.inputs)}",
            where=eqn.source.describe() if eqn.source else None,
            why="neither a kernel nor a function of PyTorch computes it (backends/triton/ops.py and extern.py)",
            fix="compute this part on the CPU (backend='cpp')",
        )
    function, params = TABLE[name], eqn.params
    dtypes = [torch_dtype(v.aval.dtype) for v in eqn.outputs]

    def compute(*tensors: torch.Tensor) -> list[torch.Tensor]:
        if name == "repeated_places" and bool((tensors[0] < 0).any()):
            eqn.primitive.evaluate([tensors[0].cpu().numpy()], params)  # it raises
        if name in _IN_DOUBLE:
            tensors = tuple(x.double() for x in tensors)
        try:
            out = function(*tensors, **params)
        except IndexOutOfBoundsError as error:
            raise IndexOutOfBoundsError(error.what, where=eqn.source.describe() if eqn.source else None) from None
        outs = out if isinstance(out, (tuple, list)) else [out]
        return [x.to(dtype) for x, dtype in zip(outs, dtypes, strict=True)]

    return compute
