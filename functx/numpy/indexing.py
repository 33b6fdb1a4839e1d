"""Reading and writing by index, with NumPy's rules: basic indices give views, advanced ones copies.

An index is worked out in two steps. :func:`parse` turns what the user wrote into one frozen :class:`Index` (a region, advanced index arrays
with their axes, new axes); :func:`getitem` and :func:`setitem` then emit it. Integers known while tracing are checked then, traced ones by
the compiled code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functx import shapes, tensors
from functx.capture import repeats
from functx.dtypes import BOOL, INT64, Kind
from functx.errors import ConcretizationError, IndexOutOfBoundsError, UnsupportedError
from functx.ir import Atom
from functx.mutation import check_writeable, make_view, same_place, write, write_at, write_where
from functx.numpy import bound, masked, promote
from functx.numpy.ufuncs import write_error
from functx.ops import indexing, movement
from functx.trace import Tracer, current_trace, where
from functx.util import invert_permutation


@dataclass(frozen=True)
class Advanced:
    """An integer array (or a traced integer) that indexes one axis of the operand."""

    axis: int
    handle: Tracer
    position: int  # among the entries of the index, to tell whether advanced ones are adjacent


@dataclass(frozen=True)
class MaskPlaces:
    """Where a mask holds, along one of its axes, of length ``size``."""

    handle: Tracer
    size: int


@dataclass(frozen=True)
class Index:
    """An index worked out for one shape.

    Attributes:
      starts, sizes, steps: the region that its integers and slices select (all axes kept; integers with size 1).
      dropped: axes of the region that known integers remove.
      advanced: index arrays by axis; ``scalars`` says that they are single traced integers.
      layout: the entries in order: the axis each one indexes, or None for a new axis.
      element: every axis is indexed by an integer and no Ellipsis is written: NumPy gives a scalar.
    """

    starts: tuple[Any, ...]
    sizes: tuple[Any, ...]
    steps: tuple[int, ...]
    dropped: tuple[int, ...]
    advanced: tuple[Advanced, ...]
    layout: tuple[int | None, ...]
    element: bool

    @property
    def is_view(self) -> bool:
        """Whether it selects one region: no index arrays but 0-d ones (traced single integers are basic)."""
        return all(a.handle.aval.ndim == 0 for a in self.advanced)

    @property
    def copies(self) -> bool:
        """Whether reading gives a copy even so: NumPy makes one where an integer is a 0-d array."""
        return any(a.handle.kind is Kind.ARRAY for a in self.advanced)


def parse(h: Tracer, key: Any) -> Index:
    """Work out ``h[key]``. Raises as NumPy does for too many indices, known integers out of range, and wrong types."""
    entries = _expand(h, key if isinstance(key, tuple) else (key,))
    shape = h.aval.shape
    starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
    dropped, advanced, layout, axis = [], [], [], 0
    mixed = any(isinstance(e, MaskPlaces) or (isinstance(e, Tracer) and e.aval.ndim) for e in entries)
    for position, entry in enumerate(entries):
        if entry is Ellipsis:
            continue
        if entry is None:
            layout.append(None)
            continue
        layout.append(axis)
        if isinstance(entry, slice):
            starts[axis], sizes[axis], steps[axis] = _slice(entry, shape[axis])
        elif isinstance(entry, (int, shapes.Dim)):
            index = _check_integer(entry, axis, shape[axis])
            if mixed or index is None:  # beside index arrays an integer is one of them, and what compiled code must check is traced
                advanced.append(Advanced(axis, _as_traced(entry), position))
            else:
                starts[axis], sizes[axis] = index, 1
                dropped.append(axis)
        else:
            advanced.append(Advanced(axis, _places(entry, axis, shape[axis]), position))
        axis += 1
    element = len(entries) == len(shape) and not (key is Ellipsis or (isinstance(key, tuple) and any(k is Ellipsis for k in key)))
    element = element and all(isinstance(e, (int, shapes.Dim)) or (isinstance(e, Tracer) and e.aval.ndim == 0) for e in entries)
    return Index(tuple(starts), tuple(sizes), tuple(steps), tuple(dropped), tuple(advanced), tuple(layout), element)


def _expand(h: Tracer, key: tuple[Any, ...]) -> list[Any]:
    """One entry per axis or None: Ellipsis and missing entries become slices, masks become integers, integers become ``int``."""
    entries: list[Any] = []
    for k in key:
        entries += _entry(k) if k is not Ellipsis else [Ellipsis]
    used = sum(e is not None and e is not Ellipsis for e in entries)
    rank = h.aval.ndim
    if used > rank:
        raise IndexError(f"too many indices for array: array is {rank}-dimensional, but {used} were indexed")
    if sum(e is Ellipsis for e in entries) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = [slice(None)] * (rank - used)
    place = next((i for i, e in enumerate(entries) if e is Ellipsis), None)
    if place is None:
        return entries + fill
    return entries[:place] + (fill or [Ellipsis]) + entries[place + 1 :]  # an Ellipsis for no axes still separates index arrays


def _entry(k: Any) -> list[Any]:
    """What one element of the index stands for: None, a slice, an int, or handles of int64 (one per axis for a mask)."""
    if isinstance(k, promote.ArrayLike):
        k = k.as_array()
    if k is None or isinstance(k, slice):
        return [k]
    if isinstance(k, (int, np.integer, shapes.Dim)):
        return [k if isinstance(k, shapes.Dim) else int(k)]
    if not isinstance(k, (Tracer, np.ndarray, list, tuple)):
        if hasattr(k, "__index__"):
            return [operator.index(k)]
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
        )
    if isinstance(k, Tracer) or promote.contains_tracer(k):
        return _traced_entry(promote.handles([k])[0])
    if isinstance(k, np.ndarray) and k.dtype != BOOL:
        return _traced_entry(current_trace().handle(k))
    array = np.asarray(k)
    return _constant_entry(array if array.size or array is k else array.astype(INT64))  # [] is a list of no integers


def _places(entry: Tracer | MaskPlaces, axis: int, size: Any) -> Tracer:
    if isinstance(entry, Tracer):
        return entry
    if entry.size not in (0, size):  # NumPy lets an empty mask select nothing of any axis
        raise IndexError(
            f"boolean index did not match indexed array along axis {axis}; size of axis is {size} but size of corresponding boolean axis "
            f"is {entry.size}"
        )
    return entry.handle


def _constant_entry(array: np.ndarray) -> list[Tracer | MaskPlaces]:
    """Index arrays that nobody else can change: a list, or the places where a mask holds."""
    trace = current_trace()
    if array.dtype.kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if array.dtype != BOOL:
        return [trace.tracer(trace.builder.const(array.astype(INT64)))]
    return [MaskPlaces(trace.tracer(trace.builder.const(i)), n) for i, n in zip(array.nonzero(), array.shape, strict=True)]


def _traced_entry(h: Tracer) -> list[Any]:
    if h.aval.dtype == BOOL:
        try:
            mask = np.asarray(h.value())
        except ConcretizationError:
            flat = current_trace().emit.reshape(h.atom, shape=(shapes.size(h.aval.shape),))
            found = bound.coordinates(bound.places(current_trace().tracer(flat)), h.aval.shape)
            return [MaskPlaces(c, n) for c, n in zip(found, h.aval.shape, strict=True)]
        return _constant_entry(mask)
    if h.aval.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return [_as_int64(h)]


def _as_int64(h: Tracer) -> Tracer:
    if h.aval.dtype == INT64:
        return h
    trace = current_trace()
    return trace.tracer(promote.convert(trace.emit, h, INT64), h.kind, promote.k_order([h], h.aval.shape, INT64))


def _slice(entry: slice, size: Any) -> tuple[Any, Any, int]:
    if entry == slice(None):
        return 0, size, 1
    start, stop, step = (v if v is None or isinstance(v, shapes.Dim) else operator.index(v) for v in (entry.start, entry.stop, entry.step))
    return shapes.slice_region(size, start, stop, step if step is None else operator.index(step))


def _as_traced(index: shapes.Size) -> Tracer:
    return shapes.Dim.as_data(index) if isinstance(index, shapes.Dim) else current_trace().handle(np.int64(index))


def _check_integer(index: shapes.Size, axis: int, size: shapes.Size) -> shapes.Size | None:
    """The index counted from the front; None if it depends on a symbolic size whether it lies inside."""
    from_front = shapes.at_least(index, 0)
    inside = None if from_front is None else shapes.at_least(size, index + 1 if from_front else -index)
    if inside is None:
        return None
    if not inside:
        raise IndexOutOfBoundsError(f"index {index} is out of bounds for axis {axis} with size {size}", where=where())
    return index if from_front else index + size


def _single_bools(h: Tracer, key: Any) -> tuple[Tracer, Any]:
    """A single bool indexes a new axis of size 1: by [0], or by nothing if it is False."""
    entries = key if isinstance(key, tuple) else (key,)
    ranks = [_mask_rank(k) for k in entries]
    if 0 not in ranks:
        return h, key
    axes: list[Any] = []  # of the view with the new axes
    for k, rank in zip(entries, ranks, strict=True):
        if rank == 0 or k is Ellipsis:
            axes.append(None if rank == 0 else Ellipsis)
        elif k is not None:
            axes += [slice(None)] * (1 if rank is None else rank)
    replaced = (k if rank != 0 else [0] if _known_bool(k) else [] for k, rank in zip(entries, ranks, strict=True))
    return getitem(h, tuple(axes)), tuple(replaced)


def _mask_rank(k: Any) -> int | None:
    """How many axes a mask covers; None for what is no mask."""
    if isinstance(k, (bool, np.bool)):
        return 0
    array = k.aval if isinstance(k, Tracer) else k if isinstance(k, np.ndarray) else np.asarray(k) if _is_plain_list(k) else None
    return array.ndim if array is not None and array.dtype == BOOL else None


def _is_plain_list(k: Any) -> bool:
    return isinstance(k, (list, tuple)) and not promote.contains_tracer(k)


def _known_bool(k: Any) -> bool:
    try:
        return bool(k)
    except ConcretizationError as error:
        raise _unknown_selection(error) from None


def _unknown_selection(error: ConcretizationError) -> ConcretizationError:
    return ConcretizationError(
        "a boolean mask whose value is unknown cannot select elements here: the size of the result would depend on it",
        where=where(),
        why=error.why,
        fix="use np.where(mask, a, b), or fnp.nonzero(mask, size=n) (import functx.numpy as fnp) for at most n places; alone, as in "
        "x[mask], it may be computed with, reduced, and assigned to x[mask]",
    )


def pick(h: Tracer, places: np.ndarray, axis: int) -> Tracer:
    """The elements at known places of an axis, in a fresh array."""
    trace = current_trace()
    return trace.tracer(getitem(h, (*(slice(None),) * axis, trace.tracer(trace.builder.const(places.astype(INT64))))).atom)


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def getitem(a: Any, key: Any) -> Any:
    """``a[key]``: a view for basic indices, a NumPy scalar for a single element, a copy for index arrays."""
    (h,) = promote.handles([a])
    if h.kind is not Kind.ARRAY:
        if key == () and h.kind is Kind.SCALAR:
            return h
        if h.kind is Kind.SCALAR and all(k is None or k is Ellipsis for k in (key if isinstance(key, tuple) else (key,))):
            return getitem(current_trace().tracer(h.atom), key)  # an array of its own
        raise IndexError("invalid index to scalar variable.") if h.kind is Kind.SCALAR else TypeError("'float' object is not subscriptable")
    if (mask := unknown_mask(key)) is not None:
        h, lead = _masked_part(h, key, mask)
        selected = masked.select(h, mask)
        return np.moveaxis(selected.as_array(), 0, lead) if lead else selected
    h, key = _single_bools(h, key)
    index = parse(h, key)
    _check_known(h, index)
    if index.is_view:
        out = basic_view(h, index)
        if index.element:
            return current_trace().tracer(out.atom, Kind.SCALAR)
        return current_trace().tracer(out.atom, Kind.ARRAY, promote.k_order([out], out.aval.shape, out.aval.dtype)) if index.copies else out
    base, axes, atoms = _advanced_target(h, index)
    b = current_trace().emit
    gathered, perm = b.gather(base.atom, *atoms, axes=axes), _placement(index, base, atoms)
    layout = _copied_layout(base, axes, [a.handle for a in index.advanced], gathered.aval.shape, perm)
    return current_trace().tracer(b.transpose(gathered, perm=perm) if perm else gathered, Kind.ARRAY, layout)


def basic_view(h: Tracer, index: Index) -> Tracer:
    """The view that a basic index gives (also for a single element, as the target of a write)."""
    view = _region(h, index)
    if index.advanced:
        axes = tuple(a.axis for a in index.advanced)
        pick = tuple(0 if i in axes else slice(None) for i in range(view.aval.ndim))
        parent = view
        atoms = [a.handle.atom for a in index.advanced]
        view = make_view(parent, indexing.gather, {"axes": axes}, lambda: parent.shadow[(*pick, ...)], atoms)
    return _reshaped(view, index, gone=tuple(a.axis for a in index.advanced))


def _region(h: Tracer, index: Index) -> Tracer:
    whole = shapes.same_shape(index.sizes, h.aval.shape) and all(s == 1 for s in index.steps)
    if whole and not index.element and not index.dropped and None not in index.layout and not index.advanced:
        return make_view(h, movement.reshape, {"shape": h.aval.shape}, lambda: h.shadow[...])  # x[:] is a view of its own
    if whole:
        return h
    params = {"starts": index.starts, "sizes": index.sizes, "steps": index.steps}
    return make_view(h, movement.slice_, params, lambda: h.shadow[(*movement.region(*map(shapes.hints, params.values())), ...)])


def _reshaped(view: Tracer, index: Index, gone: tuple[int, ...] = ()) -> Tracer:
    """Drop the axes of integers and put in those of None; ``gone`` axes have left before."""
    if not index.dropped and None not in index.layout:
        return view
    shape = tuple(1 if axis is None else index.sizes[axis] for axis in index.layout if axis not in index.dropped and axis not in gone)
    key = tuple(None if axis is None else 0 if axis in index.dropped else slice(None) for axis in index.layout if axis not in gone)
    return make_view(view, movement.reshape, {"shape": shape}, lambda: view.shadow[(*key, ...)])


def _advanced_target(h: Tracer, index: Index) -> tuple[Tracer, tuple[int, ...], list[Atom]]:
    """The view that the basic part gives (new axes in place), the axes that are gathered, and the indices of one shape."""
    axes = tuple(index.layout.index(a.axis) for a in index.advanced)
    try:
        shape = shapes.broadcast(*(a.handle.aval.shape for a in index.advanced))
    except shapes.ShapeError as error:
        raise IndexError(f"shape mismatch: indexing arrays: {error.what}") from None
    b = current_trace().emit
    return _reshaped(_region(h, index), index), axes, [promote.broadcast(b, a.handle.atom, shape) for a in index.advanced]


def _placement(index: Index, base: Tracer, atoms: Sequence[Atom]) -> tuple[int, ...] | None:
    """Where NumPy puts the dimensions of the index arrays: in their place if they are adjacent, else in front (None: nothing to move)."""
    positions = [a.position for a in index.advanced]
    if positions != list(range(positions[0], positions[0] + len(positions))):
        return None
    before, n = index.layout.index(index.advanced[0].axis), atoms[0].aval.ndim
    if before == 0 or n == 0:
        return None
    rank = n + base.aval.ndim - len(index.advanced)
    return (*range(n, n + before), *range(n), *range(n + before, rank))


def _copied_layout(
    base: Tracer, axes: Sequence[int], places: Sequence[Tracer], shape: shapes.Shape, perm: Sequence[int] | None
) -> Callable[[], np.ndarray] | None:  # fmt: skip
    """How NumPy lays the copy out (None: in C order): first the dimensions of the index arrays (where there is nothing else, in the order
    that those have), then the others in the order of theirs.
    """
    rest = [i for i in range(base.aval.ndim) if i not in axes]
    n, dtype = len(shape) - len(rest), base.aval.dtype
    if all(shapes.same(d, 1) for d in shape[n:]):
        return _beside_ones(promote.k_order(places, shape[:n], dtype), perm, len(rest))
    if perm is None and (base.is_fresh_c_order or len(rest) < 2):
        return None

    def shadow() -> np.ndarray:
        strides = [0] * len(rest) if base.is_fresh_c_order else [base.shadow.strides[i] for i in rest]
        order = [*range(n), *sorted(range(n, len(shape)), key=lambda i: -abs(strides[i - n]))]
        laid_out = promote.in_order(order, shape, dtype)
        return laid_out.transpose(perm) if perm else laid_out

    return shadow


def _beside_ones(
    layout: Callable[[], np.ndarray] | None, perm: Sequence[int] | None, ones: int
) -> Callable[[], np.ndarray] | None:  # fmt: skip
    """A layout with so many axes of size 1 behind, permuted."""
    if layout is None:
        return None

    def shadow() -> np.ndarray:
        laid_out = layout()[(..., *(None,) * ones)]
        return laid_out.transpose(perm) if perm else laid_out

    return shadow


def _check_known(h: Tracer, index: Index) -> None:
    """Constant index arrays are checked while tracing."""
    trace = current_trace()
    if any(shapes.same(d, 0) for a in index.advanced for d in a.handle.aval.shape):
        return  # nothing is selected: NumPy looks at no index
    for a in index.advanced:
        array = trace.builder.consts.get(a.handle.atom)
        slot = trace.input_of(a.handle.atom) if array is None else None
        if slot is not None and slot.array is not None and not tensors.is_ghost(slot.array):
            array = slot.array
        size = h.aval.shape[a.axis]
        if array is not None and isinstance(size, int):
            bad = array[(array < -size) | (array >= size)]
            if bad.size:
                raise IndexOutOfBoundsError(f"index {bad[0]} is out of bounds for axis {a.axis} with size {size}", where=where())


# --- writing ------------------------------------------------------------------------------------------------------------------------------


def setitem(target: Tracer, key: Any, value: Any) -> None:
    """``target[key] = value``, cast as NumPy casts (without regard to safety), the last write winning where an index repeats."""
    (h,) = promote.handles([target])
    check_writeable(h)
    whole_mask = not isinstance(key, tuple) and _mask_rank(key) == h.aval.ndim
    if whole_mask and not isinstance(value, masked.Masked) and np.ndim(value) > 1:
        raise TypeError(
            f"NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has {np.ndim(value)} dimensions"
        )
    if (mask := unknown_mask(key)) is not None:
        h, lead = _masked_part(h, key, mask)
        if lead and (isinstance(value, masked.Masked) or not shapes.same(shapes.size(np.shape(value)), 1)):
            rest = h.aval.ndim - mask.aval.ndim
            value = np.moveaxis(np.broadcast_to(value, _selected_shape(h, mask, lead)), lead, 0) if rest else value
        _set_where(h, mask, value)
        return
    h, key = _single_bools(h, key)
    index = parse(h, key)
    _check_known(h, index)
    if index.element and np.ndim(value):
        if h.aval.dtype != BOOL or np.size(value) != 1:  # NumPy takes the truth of one element
            np.empty(1, h.aval.dtype)[0] = np.ones(np.shape(value))  # raises NumPy's own error for complex numbers
            raise ValueError("setting an array element with a sequence.")
        value = np.reshape(value, ())
    if index.is_view:
        view = basic_view(h, index)
        if isinstance(value, Tracer) and same_place(view, current_trace().lift(value)):
            return  # the last step of `x[i] += y`, which has written already
        write(view, assigned(value, view.aval.shape, h.aval.dtype))
        return
    _check_order(h, value)
    base, axes, atoms = _advanced_target(h, index)
    update = _updates(value, index, base, axes, atoms)
    write_at(base, update, atoms, axes)


def _check_order(h: Tracer, value: Any) -> None:
    """Refuse values of which NumPy writes several to one place in an order that depends on how they lie in memory."""
    lies = value.shadow if isinstance(value, Tracer) else value
    if isinstance(lies, np.ndarray) and lies.size > 1 and min(lies.strides) < 0 and repeats(h.shadow):
        raise UnsupportedError(
            "values that lie backwards in memory are written through an index to an array made by np.broadcast_arrays",
            where=where(),
            why="several of its elements are one place in memory, and NumPy's order of writing depends on how the values lie",
            fix="write to a copy of the array, or write a copy of the values",
        )


def writeable(target: Any) -> Tracer:
    """The target of a write: an error that says what to do if it is a plain ndarray."""
    if not isinstance(target, Tracer):
        raise write_error(target)
    return target


def unknown_mask(key: Any) -> Tracer | None:
    """The boolean mask in a key (alone, or beside integers and slices), if which elements it selects is not known while tracing. A 0-d one,
    which selects all or nothing, stands alone.
    """
    entries = key if isinstance(key, tuple) else (key,)
    masks = [k for k in entries if isinstance(k, Tracer) and k.aval.dtype == BOOL and (k.aval.ndim or not isinstance(key, tuple))]
    basic = sum(k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer)) and not isinstance(k, bool) for k in entries)
    if len(masks) != 1 or basic != len(entries) - 1:
        return None
    (mask,) = promote.handles(masks)
    try:
        mask.value()
    except ConcretizationError:
        return mask
    return None


def _masked_part(h: Tracer, key: Any, mask: Tracer) -> tuple[Tracer, int]:
    """The view of which a mask selects elements by its first axes, and how many axes NumPy would put before the selected ones."""
    if not isinstance(key, tuple):
        return h, 0
    place = next(i for i, k in enumerate(key) if isinstance(k, Tracer) and k.aval.ndim)
    before, after, covered = key[:place], key[place + 1 :], mask.aval.ndim
    dots = any(k is Ellipsis for k in key)
    view = getitem(h, (*before, *(slice(None),) * covered, *after, *(() if dots else (...,))))
    kept_before, kept_after = (sum(k is None or isinstance(k, slice) for k in part) for part in (before, after))
    lead = view.aval.ndim - covered - kept_after if any(k is Ellipsis for k in before) else kept_before
    order = (*range(lead, lead + covered), *range(lead), *range(lead + covered, view.aval.ndim))
    return (view.transpose(order) if lead else view), lead


def _set_where(h: Tracer, mask: Tracer, value: Any) -> None:
    """``h[mask] = value`` for a value that does not depend on how many elements are selected."""
    masked.check_shape(h, mask)
    shape, covered = h.aval.shape, mask.aval.ndim
    b = current_trace().emit
    full = b.broadcast(mask.atom, shape=shape, dims=tuple(range(covered)))
    if isinstance(value, masked.Masked) and not value.is_array and value.has_mask(mask) and value.full.ndim == len(shape):
        write_where(h, full, assigned(value.full, shape, h.aval.dtype))
        return
    (v,) = promote.handles([as_stored(value, h.aval.dtype)])
    if v.aval.ndim == h.aval.ndim - covered + 1 and shapes.fit(v.aval.shape[:1], (1,)):
        v = getitem(v, 0)  # the same for all selected elements
    if v.aval.ndim > h.aval.ndim - covered and not shapes.fit((shapes.size(v.aval.shape),), (1,)):
        _set_each(h, mask, v)
        return
    single = b.reshape(v.atom, shape=()) if v.aval.ndim > h.aval.ndim - covered else v.atom
    new = assigned(current_trace().tracer(single, v.kind if single is v.atom else Kind.ARRAY), shape, h.aval.dtype)
    write_where(h, full, new)


def _set_each(h: Tracer, mask: Tracer, v: Tracer) -> None:
    """``h[mask] = v`` with a value for each selected element."""
    b, shape, covered = current_trace().emit, h.aval.shape, mask.aval.ndim
    total = shapes.size(mask.aval.shape)
    places = bound.places(current_trace().tracer(b.reshape(mask.atom, shape=(total,))))
    rows = b.reshape(h.atom, shape=(total, *shape[covered:]))
    (count,), given = places.aval.shape, v.aval.shape[: v.aval.ndim - h.aval.ndim + covered]
    if not all(shapes.stretches(d, count) for d in given):
        raise ValueError(f"could not broadcast values of shape {shapes.show(given)} to the elements that a mask selects")
    update = assigned(v, (*places.aval.shape, *shape[covered:]), h.aval.dtype)
    write(h, b.reshape(b.scatter_set(rows, update, places.atom, axes=(0,)), shape=shape))


def _selected_shape(h: Tracer, mask: Tracer, lead: int) -> shapes.Shape:
    """The shape of what a mask behind so many axes selects, the mask's axes standing first in ``h``."""
    rest = h.aval.shape[mask.aval.ndim :]
    places = masked.select(h, mask).as_array().aval.shape[:1]
    return (*rest[:lead], *places, *rest[lead:])


def _updates(value: Any, index: Index, base: Tracer, axes: Sequence[int], atoms: Sequence[Atom]) -> Atom:
    """A value as the updates of a scatter: broadcast to the shape that the user sees, then the index dimensions moved to the front."""
    shape = (*atoms[0].aval.shape, *shapes.delete(base.aval.shape, axes))
    perm = _placement(index, base, atoms)
    update = assigned(value, shape if perm is None else tuple(shape[p] for p in perm), base.aval.dtype)
    return update if perm is None else current_trace().emit.transpose(update, perm=invert_permutation(perm))


def assigned(value: Any, shape: shapes.Shape, dtype: np.dtype) -> Atom:
    """A value as it is stored into a place of the given shape and dtype."""
    (v,) = promote.handles([as_stored(value, dtype)])
    b = current_trace().emit
    atom = promote.convert(b, v, dtype)
    own = atom.aval.shape
    extra = len(own) - len(shape)
    if extra > 0 and all(shapes.fit((d,), (1,)) for d in own[:extra]):  # NumPy drops leading axes of size 1 here
        atom = b.reshape(atom, shape=own[extra:])
    fits = len(atom.aval.shape) <= len(shape) and all(map(shapes.stretches, atom.aval.shape[::-1], shape[::-1]))
    if not fits:
        raise ValueError(
            f"could not broadcast input array from shape {shapes.show(own)} into shape {shapes.show(shape)}".replace(", ", ",")
        )
    return promote.broadcast(b, atom, shape)


def as_stored(value: Any, dtype: np.dtype) -> Any:
    """Plain numbers as NumPy stores them: lists item by item, each checked for its own; text is read. What else there is stays."""
    if not (value is None or isinstance(value, (str, complex)) or _is_plain_list(value)):
        return value
    array = np.array(value, dtype)  # raises NumPy's own errors
    trace = current_trace()
    return value if isinstance(value, np.generic) else trace.tracer(trace.builder.const(array), Kind.ARRAY)


def scatter_at(target: Tracer, key: Any, value: Any, primitive: str) -> None:
    """Combine values with the elements that index arrays select (``scatter_add`` and the like): repeated indices all count."""
    (h,) = promote.handles([target])
    index = parse(h, key)
    _check_known(h, index)
    _check_order(h, value)
    base, axes, atoms = _advanced_target(h, index)
    update = _updates(value, index, base, axes, atoms)
    write_at(base, update, atoms, axes, primitive)
