"""np.einsum: sums of products by labels, contracted in pairs, each pair by one dot_general, in the order that opt_einsum finds.

A label is a letter, or a number for a dimension that ``...`` stands for. No operand is broadcast: an axis of size 1 that meets a longer one
is dropped.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from functx import shapes
from functx.dtypes import BOOL, Kind
from functx.ir import Atom
from functx.numpy import manipulation, promote, ufuncs
from functx.numpy.views import diagonal_view
from functx.primitive import Emitter
from functx.trace import Tracer, current_trace

Label = str | int
Labels = tuple[Label, ...]


def einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: str = "K", casting: str = "safe"
) -> Any:  # fmt: skip
    """np.einsum, with subscripts or lists of labels, not of bfloat16. ``optimize`` may be a path; otherwise opt_einsum chooses one."""
    subscripts, values = _subscripts(operands)
    handles = promote.handles(values)
    out = out[0] if isinstance(out, tuple) else out
    given = {} if out is None else {"out": np.empty((1,) * out.ndim, out.dtype)}
    plain = [np.ones((1,) * h.aval.ndim, h.aval.dtype) for h in handles]
    result = np.einsum(subscripts, *plain, dtype=dtype, casting=casting, **given)  # NumPy's own errors, and the dtype
    inputs, output = parse(subscripts, [h.aval.ndim for h in handles])
    if len(handles) == 1 and out is None and set(inputs[0]) == set(output):
        return _rearranged(handles[0], inputs[0], output)
    loop = np.dtype(dtype) if dtype is not None else np.result_type(result, *([] if out is None else plain))
    atom = contract(handles, inputs, output, loop, _path(optimize))
    if out is not None:
        return ufuncs.store(np.add, [loop, loop], loop, atom, out, casting)
    shape = atom.aval.shape
    in_memory = _layout(handles, inputs, output, loop, order) if order in ("K", "A") else manipulation.layout(order, shape, loop)
    return current_trace().tracer(atom, promote.result_kind(shape), in_memory)


def _layout(
    handles: Sequence[Tracer], inputs: Sequence[Labels], output: Labels, dtype: np.dtype, order: str
) -> Callable[[], np.ndarray] | None:  # fmt: skip
    """How NumPy lays the result out: its loop runs over the labels of the result, then the others."""
    if len(output) < 2 or all(h.is_fresh_c_order for h in handles):
        return None
    views = [_diagonal(h, labels) for h, labels in zip(handles, inputs, strict=True)]
    loop = [*output, *sorted({label for _, labels in views for label in labels} - set(output), key=str)]

    axes = [[labels.index(label) if label in labels else -1 for label in loop] for labels in (*(labels for _, labels in views), output)]
    return lambda: promote.loop_result([view.shadow for view, _ in views], axes, dtype, order)


def _subscripts(operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The subscripts as a string, and the operands."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    letters = string.ascii_uppercase + string.ascii_lowercase

    def text(labels: Any) -> str:
        return "".join("..." if i is Ellipsis else letters[i] for i in labels)

    count = len(operands) // 2
    terms = ",".join(text(labels) for labels in operands[1 : 2 * count : 2])
    return terms + (f"->{text(operands[-1])}" if len(operands) % 2 else ""), operands[: 2 * count : 2]


def parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result.

    >>> parse("...ij,jk", [3, 2])
    ([(-1, 'i', 'j'), ('j', 'k')], (-1, 'i', 'k'))
    """
    left, arrow, right = subscripts.partition("->")
    terms = left.split(",")
    dots = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    inputs = [_labels(term, n) for term, n in zip(terms, dots, strict=True)]
    if arrow:
        return inputs, _labels(right, max(dots))
    letters = left.replace("...", "").replace(",", "")
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return inputs, (*range(-max(dots), 0), *once)


def _labels(term: str, dots: int) -> Labels:
    before, found, after = term.partition("...")
    return (*before, *(range(-dots, 0) if found else ()), *after)


def _path(optimize: Any) -> Any:
    """What opt_einsum is asked for: a path of the user's own, or a way to look for one."""
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        return [tuple(step) for step in optimize[1:]]
    chosen = optimize[0] if isinstance(optimize, (list, tuple)) and optimize else optimize
    return chosen if chosen in ("greedy", "optimal") else "auto"


def _diagonal(h: Tracer, labels: Labels) -> tuple[Tracer, Labels]:
    """The view in which every label occurs once; the axes that were joined come first."""
    for label in dict.fromkeys(labels):
        axes = tuple(i for i, other in enumerate(labels) if other == label)
        if len(axes) > 1:
            size, *others = (h.aval.shape[i] for i in axes)
            if not all(shapes.fit((size,), (other,)) for other in others):
                sizes = " != ".join(str(h.aval.shape[i]) for i in axes)
                raise ValueError(f"dimensions in single operand for collapsing index '{label}' don't match ({sizes})")
            h = diagonal_view(h, axes, (0,) * len(axes), size, "write")
            labels = (label, *(other for other in labels if other != label))
    return h, labels


def _rearranged(h: Tracer, labels: Labels, output: Labels) -> Tracer:
    """One operand of which nothing is summed: a view, as in NumPy."""
    if not output:
        return current_trace().tracer(h.atom, Kind.SCALAR)
    view, labels = _diagonal(h, labels)
    return manipulation.transpose(view if view is not h else h[...], [labels.index(label) for label in output])


def contract(handles: Sequence[Tracer], inputs: Sequence[Labels], output: Labels, dtype: np.dtype, path: Any = "auto") -> Atom:
    """The sum over all labels that are not in ``output`` of the products of the operands, computed in ``dtype``."""
    b = current_trace().emit
    sizes = _sizes(handles, inputs)
    parts = [_prepared(b, h, labels, sizes, dtype) for h, labels in zip(handles, inputs, strict=True)]
    for step in _steps([labels for _, labels in parts], output, sizes, path):
        group = [parts.pop(i) for i in sorted(step, reverse=True)][::-1]
        while len(group) > 1:
            x, y, *group = group
            kept = {*output, *(label for _, labels in (*parts, *group) for label in labels)}
            group.insert(0, _pair(b, x, y, kept))
        parts += group
    ((atom, labels),) = parts
    atom, labels = _sum_alone(b, atom, labels, set(output))
    order = tuple(labels.index(label) for label in output)
    return atom if order == tuple(range(len(order))) else b.transpose(atom, perm=order)


def _sizes(handles: Sequence[Tracer], inputs: Sequence[Labels]) -> dict[Label, shapes.Size]:
    """The size of each label; an axis of size 1 fits every other."""
    sizes: dict[Label, shapes.Size] = {}
    for h, labels in zip(handles, inputs, strict=True):
        for label, size in zip(labels, h.aval.shape, strict=True):
            try:
                (sizes[label],) = shapes.broadcast((sizes.setdefault(label, size),), (size,))
            except shapes.ShapeError:
                listed = "; ".join(promote.describe(h) for h in handles)
                raise ValueError(
                    f"operands could not be broadcast together: label {label!r} has sizes {sizes[label]} and {size} ({listed})"
                ) from None
    return sizes


def _prepared(b: Emitter, h: Tracer, labels: Labels, sizes: dict[Label, Any], dtype: np.dtype) -> tuple[Atom, Labels]:
    """An operand with each label once, without the axes that would have to be broadcast."""
    view, labels = _diagonal(h, labels)
    atom, shape = promote.convert(b, view, dtype), view.aval.shape
    wide = [sizes[label] for label in labels]
    kept = [i for i, d in enumerate(shape) if shapes.same(d, wide[i]) or (not shapes.same(d, 1) and shapes.fit((d,), (wide[i],)))]
    if len(kept) < len(labels):
        atom, labels = b.reshape(atom, shape=tuple(shape[i] for i in kept)), tuple(labels[i] for i in kept)
    return atom, labels


def _steps(terms: Sequence[Labels], output: Labels, sizes: dict[Label, Any], path: Any) -> Sequence[Sequence[int]]:
    """Which operands are contracted, one group after another; what comes out goes to the end."""
    if isinstance(path, str) and len(terms) < 3:
        return [tuple(range(len(terms)))]
    import opt_einsum  # only where there is a choice

    names = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}

    def text(labels: Labels) -> str:
        return "".join(names[label] for label in labels)

    hints = [shapes.hints(sizes[label] for label in labels) for labels in terms]
    equation = f"{','.join(map(text, terms))}->{text(output)}"
    return opt_einsum.contract_path(equation, *hints, shapes=True, optimize=path)[0]


def _sum_alone(b: Emitter, atom: Atom, labels: Labels, kept: Set[Label]) -> tuple[Atom, Labels]:
    """Sum over what nobody else has."""
    axes = tuple(i for i, label in enumerate(labels) if label not in kept)
    if not axes:
        return atom, labels
    total = b.reduce_max(atom, axes=axes) if atom.aval.dtype == BOOL else b.reduce_sum(atom, axes=axes)
    return total, tuple(label for label in labels if label in kept)


def _pair(b: Emitter, left: tuple[Atom, Labels], right: tuple[Atom, Labels], kept: Set[Label]) -> tuple[Atom, Labels]:
    """Two operands by one dot_general."""
    x, xs = _sum_alone(b, *left, kept | set(right[1]))
    y, ys = _sum_alone(b, *right, kept | set(xs))
    shared = [label for label in xs if label in ys]
    axes = [
        tuple(tuple(labels.index(label) for label in shared if (label in kept) == is_kept) for labels in (xs, ys))
        for is_kept in (False, True)
    ]
    batch = [label for label in shared if label in kept]
    free = [label for label in (*xs, *ys) if label not in shared]
    return b.dot_general(x, y, contract=axes[0], batch=axes[1]), (*batch, *free)


def multiply_vectors(subscripts: str, x: Tracer, y: Tracer, dtype: np.dtype) -> Atom:
    """A contraction of two operands whose ``...`` broadcasts."""
    inputs, output = parse(subscripts, [x.aval.ndim, y.aval.ndim])
    return contract([x, y], inputs, output, dtype)
