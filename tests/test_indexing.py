"""Reading and writing by NumPy's index expressions: random arrays and indices, NumPy and a loop over elements as oracles."""

import operator

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import functx as fx
import functx.numpy as fnp

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def entries(size: int):
    """One entry of an index for an axis of this size; an integer is sometimes out of range."""
    inside = st.integers(-size, size - 1) if size else st.nothing()
    integers = st.one_of(inside, inside, inside, st.just(size))
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    slices = st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1, -2, -3]))
    shape = st.sampled_from([(1,), (2,), (3,), (2, 2), (1, 2), (2, 1)]) if size else st.just((0,))
    dtypes, places = st.sampled_from([np.int64, np.int32, np.uint8]), st.integers(0, max(size - 1, 0))
    arrays = shape.flatmap(lambda s: hnp.arrays(dtypes, s, elements=places, fill=st.nothing()))
    lists = st.lists(inside, min_size=1, max_size=3) if size else st.just([])
    masks = hnp.arrays(bool, (size,))
    return st.one_of(integers, integers, slices, slices, slices, arrays, lists, masks, masks.map(list))


@st.composite
def indexed(draw, shapes=SHAPES):
    """A shape and an index for it."""
    shape = draw(shapes)
    taken = draw(st.integers(0, len(shape)))
    key = [draw(entries(n)) for n in shape[:taken]]
    if draw(st.booleans()) and taken < len(shape):
        rest = draw(st.integers(0, len(shape) - taken))
        key += [Ellipsis, *(draw(entries(n)) for n in shape[len(shape) - rest :])]
    elif draw(st.integers(0, 9)) == 0:
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
    if draw(st.integers(0, 9)) == 0 and len(shape) >= 2:
        key = [draw(hnp.arrays(bool, shape[:2])), *(draw(entries(n)) for n in shape[2:])]  # a mask over two axes
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        key.insert(draw(st.integers(0, len(key))), None)
    if draw(st.integers(0, 29)) == 0:
        key += [0] * 5  # too many
    return shape, key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


def ramp(shape, dtype=float):
    """Distinct values."""
    return np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype(dtype)


def is_mask_of_everything(shape, key):
    """Whether the index is one mask over all axes, for which NumPy refuses values of more than one dimension whatever their shape."""
    (only,) = key if isinstance(key, tuple) and len(key) == 1 else (key,)
    return isinstance(only, np.ndarray) and only.dtype == bool and only.ndim == len(shape)


def read_shape(shape, key):
    """The shape of ``x[key]``; skips indices that NumPy refuses."""
    picked = oracles.outcome(lambda: np.shape(np.zeros(shape)[key]))
    assume(picked.error is None)
    return picked.value


def values_for(shape):
    """Right-hand sides for a place of this shape: of the shape, broadcast, a number, and one that may not fit."""
    return [ramp(shape) * 10, np.float64(7), 5, ramp((1, *shape)) * 10, ramp(shape[-1:]) * 3, np.ones((*shape, 2))]


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ((1, 0), (None, 0, Ellipsis, [])),  # an Ellipsis for no axes separates index arrays
        ((2, 3), ([0], Ellipsis, [1, 2])),
        ((2, 3), (Ellipsis, [0], [1, 2])),
        ((2, 3, 4), (0, slice(None), [1, 2])),
        ((2, 3, 4), (slice(None), 0, [1, 2])),
        ((0, 1, 0), (Ellipsis, [], np.array([0]))),  # nothing is selected: no index is looked at
        ((3, 2), np.zeros((0, 2), bool)),  # an empty mask fits every axis
        ((3, 2), (slice(None), np.zeros(0, bool))),
        ((3, 2), np.zeros((2, 0), bool)),
        ((3, 2), np.zeros((3, 3), bool)),
        ((0, 2), (np.zeros((0, 2), bool),)),
    ],
)
def test_corners(shape, key):
    oracles.assert_agrees(lambda x: x[key], ramp(shape))
    oracles.assert_agrees(lambda x: x.__setitem__(key, 7.0), ramp(shape))


@given(indexed(), st.sampled_from([np.float64, np.int32, np.bool_]))
def test_read(case, dtype):
    shape, key = case
    oracles.assert_agrees(lambda x: x[key], ramp(shape, dtype), what=f"x{shape}[{key!r}]")


@given(indexed())
def test_read_is_a_view_when_numpys_is(case):
    shape, key = case

    def f(x):
        y = x.copy()
        v = y[key]
        v += 1  # writes into y through a view, or into a copy
        return y, v

    oracles.assert_agrees(f, ramp(shape), what=f"x{shape}[{key!r}] += 1 through a name")


@given(indexed(), st.integers(0, 5))
def test_write(case, which):
    shape, key = case
    value = values_for(read_shape(shape, key))[which]
    assume(np.ndim(value) <= 1 or not is_mask_of_everything(shape, key))

    def f(x, v):
        y = x.copy()
        y[key] = v
        return y

    for dtype in (float, np.int32):
        oracles.assert_agrees(f, ramp(shape, dtype), value, what=f"x{shape}[{key!r}] = {value!r}")


@given(indexed())
def test_write_with_a_bad_index(case):
    shape, key = case

    def f(x):
        y = x.copy()
        y[key] = 0.5
        return y

    oracles.assert_agrees(f, ramp(shape), what=f"x{shape}[{key!r}] = 0.5")


@given(indexed(), st.integers(0, 5))
def test_update_in_place(case, which):
    shape, key = case
    value = values_for(read_shape(shape, key))[which]
    assume(np.ndim(value) <= 1 or not is_mask_of_everything(shape, key))

    def f(x, v):
        x[key] += v  # the argument itself: the caller's array changes

    oracles.assert_agrees(f, ramp(shape), value, what=f"x{shape}[{key!r}] += {value!r}")


@given(indexed())
def test_add_at(case):
    shape, key = case
    value = ramp(read_shape(shape, key))

    def f(x, v):
        y = x.copy()
        np.add.at(y, key, v)
        np.subtract.at(y, key, 0.5)
        return y

    oracles.assert_agrees(f, ramp(shape), value, what=f"np.add.at(x{shape}, {key!r}, ...)")


@given(indexed())
def test_gradient_of_reading(case):
    """Of sum(x[key] * w): every read of a place adds its weight."""
    shape, key = case
    w = ramp(read_shape(shape, key))
    expected = np.zeros(shape)
    np.add.at(expected, key, w)
    x = ramp(shape)
    oracles.assert_same(fx.grad(lambda x: (x[key] * w).sum())(x), expected, what=f"x{shape}[{key!r}]")
    oracles.assert_same(oracles.reference_jit(fx.grad(lambda x: (x[key] * w).sum()))(x), expected, what=f"jit x{shape}[{key!r}]")


@given(indexed(), st.sampled_from(["set", "add", "at"]))
def test_gradient_of_writing(case, how):
    """Writes are linear in array and value: the gradient of a weighted sum, element by element with one-hot arguments."""
    shape, key = case
    picked = read_shape(shape, key)
    assume(np.prod(shape, dtype=int) + np.prod(picked, dtype=int) <= 40)
    w = ramp(shape)

    def f(x, v):
        y = x.copy()
        if how == "set":
            y[key] = v
        elif how == "add":
            y[key] += v
        else:
            np.add.at(y, key, v)
        return (y * w).sum()

    x, v = np.zeros(shape), np.zeros(picked)
    expected = [np.array([f(*hot(i, k)) for k in range(a.size)]).reshape(a.shape) for i, a in enumerate((x, v)) for hot in [one_hot(x, v)]]
    got = fx.grad(f, (0, 1))(x, v)
    oracles.assert_same(got, tuple(expected), what=f"{how} x{shape}[{key!r}]")


def one_hot(*arrays):
    """A function (i, k) -> the arrays as zeros but for a 1 at flat place k of array i."""

    def at(i, k):
        out = [np.zeros(a.shape) for a in arrays]
        out[i].reshape(-1)[k] = 1
        return out

    return at


@given(indexed(), st.integers(0, 2))
def test_vmap_of_reading_and_writing(case, axis):
    shape, key = case
    assume(shape)  # examples of a batch of numbers are scalars, which have no places to write to
    picked = read_shape(shape, key)
    axis = min(axis, len(shape))
    batch = np.moveaxis(np.stack([ramp(shape), ramp(shape) * 2, -ramp(shape)]), 0, axis)
    values = np.stack([ramp(picked), ramp(picked) + 100, ramp(picked) - 100])

    def f(x, v):
        y = x.copy()
        y[key] = v
        np.add.at(y, key, v)
        return x[key], y

    for x, v, axes in ((batch, values, (axis, 0)), (batch, values[0], (axis, None)), (ramp(shape), values, (None, 0))):
        oracles.assert_same(fx.vmap(f, in_axes=axes)(x, v), oracles.loop(f, (x, v), axes), what=f"x{shape}[{key!r}] in_axes {axes}")


TRACED = [
    lambda x, i: x[i], lambda x, i: x[i, 1], lambda x, i: x[1, i], lambda x, i: x[i, i], lambda x, i: x[i, ...],
    lambda x, i: x[i, None, ::-1], lambda x, i: x[:, i], lambda x, i: x[i][1:3], lambda x, i: x[:, ::2][:, i], lambda x, i: x[i, [0, 2]],
    lambda x, i: x[[0, 2, 1], i], lambda x, i: x[[0, 2, 1], i][::-1],
]  # fmt: skip


@pytest.mark.parametrize("program", range(len(TRACED)))
def test_traced_integers(program):
    """Integers that are arguments: of any kind, negative, out of range, among slices and arrays."""
    f, x = TRACED[program], ramp((3, 4))
    integers = [
        0,
        2,
        -1,
        3,
        4,
        -4,
        np.int64(1),
        np.int8(-2),
        np.uint8(1),
        np.int64(-9),
        np.array(1),
        np.array([0, 2, -1]),
        np.array([7, 0, 0]),
    ]
    for i in integers:
        oracles.assert_agrees(f, x, i, what=f"program {program} at {i!r}")
    lanes = np.array([0, 1, -1])
    oracles.assert_same(fx.vmap(f, in_axes=(None, 0))(x, lanes), oracles.loop(f, (x, lanes), (None, 0)), what=f"vmap: program {program}")


def test_writes_at_traced_integers():
    def f(x, i, v):
        y = x.copy()
        y[i] = v
        y[:, i] += 1
        row = y[i]
        row *= 2 if np.ndim(row) else 1
        y[i, 1:] -= v
        y[i, i] = 7
        return y

    for i in (0, 2, -1, np.int64(1), np.array(2), np.array([0, 2]), np.array([1, 1])):
        for v in (1.5, np.float64(2), np.array(3.0)):
            oracles.assert_agrees(f, ramp((3, 4)), i, v, what=f"at {i!r} value {v!r}")


@pytest.mark.parametrize("i", [3, -4, np.int64(5), np.array([0, 7]), np.array([-9, 0])])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("transform", ["jit", "jit, known index", "jvp", "vmap"])
def test_out_of_range_names_the_line(i, write, transform):
    def f(x, i):
        y = x.copy()
        if write:
            y[i] = 1.0  # the line
            return y
        return y[i]  # the line

    x = ramp((3, 2))
    run = {
        "jit": lambda: oracles.reference_jit(f)(x, i),
        "jit, known index": lambda: oracles.reference_jit(lambda x: f(x, i))(x),
        "jvp": lambda: fx.jvp(lambda x: f(x, i), (x,), (x,)),
        "vmap": lambda: fx.vmap(f, in_axes=(0, None))(np.stack([x, x]), i),
    }[transform]
    with pytest.raises(IndexError, match=r"out of bounds for axis [01] with size 3(.|\n)*the line"):
        run()


def test_index_arrays_of_the_program_are_read_by_reference():
    """An index array of the program is read at call time."""
    index = np.array([0, 1])
    f = oracles.reference_jit(lambda x: x[index])
    x = ramp((3,))
    oracles.assert_same(f(x), x[[0, 1]])
    index[:] = [2, 0]
    oracles.assert_same(f(x), x[[2, 0]])
    index[0] = 3
    with pytest.raises(IndexError):
        f(x)


def test_a_value_written_into_itself():
    """Overlapping reads and writes of one array behave as if the right side were read first."""

    def f(x):
        x[1:] = x[:-1]
        x[::-1] = x
        x[[0, 1]] = x[[1, 0]]
        x[1:] += x[:-1]
        return x.copy()

    oracles.assert_agrees(f, ramp((5,)))
    oracles.assert_agrees(f, ramp((3, 2)))


ERRORS = {
    "a float index": lambda x: x[1.0],
    "a string": lambda x: x["a"],
    "a float array": lambda x: x[np.array([0.0])],
    "two ellipses": lambda x: x[..., ...],
    "too many": lambda x: x[0, 0, 0],
    "index arrays that do not broadcast": lambda x: x[[0, 1], [0, 1, 0]],
    "a mask of another length": lambda x: x[np.array([True, False])],
    "a step of zero": lambda x: x[::0],
    "a float slice bound": lambda x: x[1.0:],
    "of a scalar": lambda x: x[0, 0][0],
    "writing a scalar": lambda x: operator.setitem(x[0, 0], 0, 1),
    "values that do not fit": lambda x: x.__setitem__(0, [1.0, 2.0, 3.0, 4.0]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_numpys(case):
    plain = oracles.outcome(ERRORS[case], ramp((3, 2)))
    assert plain.error is not None
    got = oracles.outcome(oracles.reference_jit(ERRORS[case]), ramp((3, 2)))
    oracles.assert_same_error(got.error, plain.error, case)


def test_known_masks_under_grad():
    def f(x):
        y = x.copy()
        y[y > 2] = 0.0
        return (y * y).sum() + x[x > 2].sum()

    oracles.assert_same(fx.grad(f)(ramp((4,))), np.array([2.0, 4.0, 1.0, 1.0]))


def test_constructed_arrays_take_traced_values():
    def f(x):
        y = fnp.zeros((2, 3))
        y[0] = x
        y[1, 1:] = x[0]
        y[:, -1] += 1
        return y

    oracles.assert_agrees(f, ramp((3,)))


# --- changed copies -----------------------------------------------------------------------------------------------------------------------

PLACES = {
    "one": np.index_exp[1, 2], "negative": np.index_exp[-1], "slice": np.index_exp[::-2, 1:], "ellipsis": np.index_exp[...],
    "new axis": np.index_exp[:, None, 0], "repeated": np.index_exp[[0, 0, 2]], "mask": np.index_exp[np.array([True, False, True])],
    "none": np.index_exp[:0],
}  # fmt: skip


def copied_and_set(x, key, v):
    out = x.copy()
    out[key] = v
    return out


def copied_and_added(x, key, v):
    out = x.copy()
    np.add.at(out, key, v)
    return out


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize(("method", "plain"), [("set", copied_and_set), ("add", copied_and_added)])
def test_changed_copies(case, method, plain):
    """fnp.at and x.at against a copy that is written: plain and traced, with its derivatives, and leaving the array as it is."""
    key, x = PLACES[case], ramp((3, 4))
    changed = lambda x, v: getattr(fnp.at(x)[key], method)(v)  # noqa: E731
    by_member = lambda x, v: (getattr(x.at[key], method)(v), x + 0)  # noqa: E731
    for v in (2.5, 3, np.float32(1.5), np.float64(-1) * ramp(x[key].shape), np.arange(4.0) if x[key].shape[-1:] == (4,) else 1):
        expected = plain(x, key, v)
        oracles.assert_same(changed(x, v), expected, what="plain")
        oracles.assert_agrees(lambda x, v: plain(x, key, v), x, v, transform=lambda _: oracles.reference_jit(changed), what="jit")
        oracles.assert_same(oracles.reference_jit(by_member)(x, v), (expected, x), what="x.at")
    v = ramp(x[key].shape) + 0.5
    for argnum in (0, 1):
        got = fx.grad(lambda x, v: (changed(x, v) ** 2).sum(), argnum)(x, v)
        oracles.assert_same(got, fx.grad(lambda x, v: (plain(x, key, v) ** 2).sum(), argnum)(x, v), what=f"gradient {argnum}")
    oracles.assert_same(x, ramp((3, 4)))


def test_changed_copies_of_plain_arrays():
    """They are traced where a value, an index or a slice bound is; plain otherwise, also inside a trace."""
    x, seen = ramp((3, 2)), []

    def f(v, i):
        seen.append(fnp.at(x)[0].set(1.0))
        return fnp.at(x)[0].set(v), fnp.at(x)[i].add(1), fnp.at(x)[i:].set(5), fnp.at([1, 2, 3])[i].set(v), fnp.at(np.float64(2))[()].set(v)

    expected = (
        copied_and_set(x, 0, 2.5),
        copied_and_added(x, 1, 1),
        copied_and_set(x, slice(1, None), 5),
        np.array([1, 2, 3]),
        np.array(2.5),
    )
    oracles.assert_same(oracles.reference_jit(f)(2.5, 1), expected)
    assert type(seen[0]) is np.ndarray
    oracles.assert_same(f(2.5, 1), expected)
    with pytest.raises(IndexError):
        oracles.reference_jit(lambda v: fnp.at(x)[3].set(v))(1.0)
    with pytest.raises(AttributeError):
        oracles.reference_jit(lambda v: v.at)(1.0)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
def test_at_casts_as_numpy_does_or_raises(ufunc):
    for dtype in (np.float32, np.int32, np.int8):
        for v in (1.5, 2, True, np.float64(1), np.float32(1), np.array([1, 2]), np.array([1.5, 2.0]), np.True_):

            def f(x, v):
                ufunc.at(x, [0, 0], v)
                return x

            oracles.assert_agrees(f, ramp((3,)).astype(dtype), v, what=f"{np.dtype(dtype)} and {v!r}")


MASKED_WRITES = {
    "a scalar": (lambda x: x > 0.5, 0.25),
    "a list of one": (lambda x: x > 0.5, [7]),
    "a value of another dtype": (lambda x: x < 0.5, np.int32(3)),
    "rows by one value each column": (lambda x: x[:, 0] > 0.5, np.array([1.0, 2.0, 3.0])),
    "rows by a traced scalar": (lambda x: x[:, 1] < 0.5, 0.5),
}


@pytest.mark.parametrize("name", MASKED_WRITES)
def test_writes_through_a_mask_that_is_unknown_while_tracing(name):
    mask, value = MASKED_WRITES[name]

    def f(x, scale):
        y = x * scale
        y[mask(y)] = value
        y[::2][y[::2] > 0.9] = scale  # through a view
        return y

    rng = np.random.default_rng(0)
    x = rng.random((4, 3))
    for dtype in (np.float64, np.float32):
        a = x.astype(dtype)
        expected = f(a, 1.0)
        for backend in ("reference", "cpp"):
            got = fx.jit(f, backend=backend)(a, 1.0)
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype
    batch = rng.random((3, 4, 3))
    np.testing.assert_array_equal(fx.vmap(f, in_axes=(0, None))(batch, 1.0), np.stack([f(b, 1.0) for b in batch]))
    slope = fx.jit(fx.grad(lambda x: f(x, 1.0).sum()), backend="reference")(x)
    np.testing.assert_array_equal(slope, fx.grad(lambda x: f(x, 1.0).sum())(x))  # there the mask is known


def test_masks_that_do_not_fit_say_so():
    with pytest.raises(IndexError, match="boolean index did not match"):
        fx.jit(lambda x: x.__setitem__(x[:2] > 0.5, 1.0), backend="reference")(np.ones(3))


# --- more of at ---------------------------------------------------------------------------------------------------------------------------

AT_UFUNCS = {
    "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize("method", AT_UFUNCS)
def test_changed_copies_by_ufuncs(case, method):
    key, x, ufunc = PLACES[case], ramp((3, 4)), AT_UFUNCS[method]

    def plain(x, v):
        out = x.copy()
        ufunc.at(out, key, v)
        return out

    changed = lambda x, v: getattr(fnp.at(x)[key], method)(v)  # noqa: E731
    for v in (2.5, np.float64(1.5), 0.25 + ramp(x[key].shape) / 8):
        oracles.assert_agrees(plain, x, v, transform=lambda _: changed, what="plain", rtol=1e-14)
        oracles.assert_agrees(plain, x, v, transform=lambda _: oracles.reference_jit(changed), what="jit", rtol=1e-14)


def test_apply_and_get_at_places():
    x = ramp((3, 4))
    for key in PLACES.values():
        expected = x.copy()
        expected[key] = np.sqrt(expected[key])
        oracles.assert_same(fnp.at(x)[key].apply(np.sqrt), expected)
        oracles.assert_same(oracles.reference_jit(lambda x, key=key: x.at[key].apply(np.sqrt))(x), expected)
        oracles.assert_same(oracles.reference_jit(lambda x, key=key: x.at[key].get())(x), x[key])
    got = oracles.reference_jit(lambda x: (x.at[x > 3].set(0.0), x.at[x > 3].add(1.0), x.at[x > 3].multiply(2.0)))(x)
    oracles.assert_same(got, (np.where(x > 3, 0.0, x), np.where(x > 3, x + 1, x), np.where(x > 3, x * 2, x)))
    oracles.assert_same(x, ramp((3, 4)))


# --- single bools -------------------------------------------------------------------------------------------------------------------------

SINGLE_BOOLS = [
    True, False, (slice(None), True), (False, 0), (None, True, Ellipsis, 0), (np.array(True), [0, 1]), (0, 0, True), (True, True, 0),
    (0, True), (Ellipsis, np.True_), (True, np.array([True, False, True])), (slice(None, None, -1), False), (True, [True, False, True]),
]  # fmt: skip


@pytest.mark.parametrize("key", SINGLE_BOOLS, ids=repr)
def test_single_bools(key):
    def write(x):
        y = x.copy()
        y[key] = 7
        return y

    oracles.assert_agrees(lambda x: x[key], ramp((3, 4)))
    oracles.assert_agrees(write, ramp((3, 4)))


class Place:
    """An object that says where by ``__index__``."""

    def __index__(self):
        return 1


def test_indices_of_all_integer_types():
    x = ramp((3, 4))
    for dtype in (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)):
        oracles.assert_agrees(lambda x, i: x[i], x, np.array([1, 2], dtype))
        oracles.assert_agrees(lambda x, d=dtype: x[np.array([1, 2], d), np.dtype(d).type(3)], x)
    oracles.assert_agrees(lambda x: x[Place(), Place() :], x)
    oracles.assert_agrees(lambda x: x[([0, 1], (2, 3))], x)


# --- vmap over any axis -------------------------------------------------------------------------------------------------------------------


def test_scatter_with_the_batch_on_any_axis():
    x = np.arange(24.0).reshape(2, 3, 4)

    def f(a):
        a = a.copy()
        a[1] += 10.0 * np.arange(1, a.shape[1] + 1)
        return a

    np.testing.assert_array_equal(fx.vmap(f, in_axes=2)(x)[0], [[0, 4, 8], [22, 36, 50]])
    for axis in range(3):
        for out in range(3):
            expected = np.moveaxis(oracles.loop(f, (x,), (axis,)), 0, out)
            oracles.assert_same(fx.vmap(f, in_axes=axis, out_axes=out)(x), expected, what=f"in_axes {axis}, out_axes {out}")


def test_arrays_of_traced_scalars_and_constants():
    f = lambda s: fnp.array([s[0], 0.0, 0.0, 0.0, s[1], 0.0, 0.0, 0.0, s[2]]).reshape(3, 3)  # noqa: E731
    s = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    oracles.assert_same(fx.vmap(f)(s), np.stack([np.diag(row) for row in s]))


def test_functions_that_numpy_never_dispatches():
    def f(x):
        return fnp.stack([x, fnp.flip(x)]).sum() + fnp.take(x, [0, 0]).sum() + fnp.asarray(x)[1] + fnp.ndim([x]) + len(x)

    value, gradient = oracles.reference_jit(fx.value_and_grad(f))(np.array([1.0, 2.0]))
    oracles.assert_same((value, gradient), (np.float64(14), np.array([4.0, 3.0])))
    for g in (lambda x: np.ndim([x]) + x.sum(), lambda x: np.asarray(x).sum()):
        for transform in (oracles.reference_jit, fx.grad):
            with pytest.raises(TypeError, match=r"np\.asarray\(\)(.|\n)*fnp\.asarray"):
                transform(g)(np.array([1.0, 2.0]))
