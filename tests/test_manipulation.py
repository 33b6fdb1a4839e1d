"""Manipulation gives views and copies, in the memory order, where NumPy does: each function on arrays of several layouts."""

import itertools

import numpy as np
import oracles
import pytest

import functx as fx
import functx.numpy as fnp

CALLS = {
    "reshape": lambda np, x: np.reshape(x, (4, -1)),
    "reshape F": lambda np, x: np.reshape(x, (4, -1), order="F"),
    "reshape A": lambda np, x: np.reshape(x, (6, -1), order="A"),
    "reshape copy": lambda np, x: x.reshape(x.shape, copy=True),
    "reshape no copy": lambda np, x: np.reshape(x, -1, copy=False),
    "ravel": lambda np, x: x.ravel(),
    "ravel F": lambda np, x: np.ravel(x, "F"),
    "ravel A": lambda np, x: np.ravel(x, "A"),
    "ravel K": lambda np, x: x.ravel("K"),
    "flatten": lambda np, x: x.flatten("F"),
    "transpose": lambda np, x: np.permute_dims(x, (2, 0, 1)),
    "matrix_transpose": lambda np, x: np.matrix_transpose(x),
    "mT": lambda np, x: x.mT,
    "rollaxis": lambda np, x: np.rollaxis(x, 2),
    "rollaxis in place": lambda np, x: np.rollaxis(x, 1, 1),
    "squeeze": lambda np, x: np.squeeze(x[:1]),
    "atleast_3d": lambda np, x: np.atleast_3d(x[0]),
    "flip": lambda np, x: np.flip(x, (0, 2)),
    "fliplr": lambda np, x: np.fliplr(x),
    "flipud": lambda np, x: np.flipud(x),
    "rot90": lambda np, x: np.rot90(x, 1, (1, 2)),
    "rot90 twice": lambda np, x: np.rot90(x, 2),
    "rot90 by nothing": lambda np, x: np.rot90(x, 4),
    "array_split": lambda np, x: np.array_split(x, 3, axis=2)[1],
    "hsplit": lambda np, x: np.hsplit(x, [1])[1],
    "dsplit": lambda np, x: np.dsplit(x, 2)[0],
    "unstack": lambda np, x: np.unstack(x, axis=1)[2],
    "broadcast_arrays": lambda np, x: np.broadcast_arrays(x, x[0])[0],
    "meshgrid": lambda np, x: np.meshgrid(x[0, 0], x[0, :, 0], copy=False, sparse=True)[0],
    "ix_": lambda np, x: np.ix_(x[0, 0], x[0, :, 0])[1],
    "diagonal": lambda np, x: np.diagonal(x, 1),
    "diag": lambda np, x: np.diag(x[0]),
    "a part of a diagonal": lambda np, x: x.diagonal(0, 1, 2)[:, 1:],
    "diag of a vector": lambda np, x: np.diag(x[0, 0]),
    "triu": lambda np, x: np.triu(x),
    "roll": lambda np, x: np.roll(x, 1),
    "repeat": lambda np, x: np.repeat(x, [1, 2, 1], axis=1),
    "sort": lambda np, x: np.sort(x, 0),
    "asarray": lambda np, x: np.asarray(x),
    "asarray F": lambda np, x: np.asarray(x, order="F"),
    "asarray, no copy": lambda np, x: np.asarray(x, order="C", copy=False),
    "array": lambda np, x: np.array(x),
    "array, no copy": lambda np, x: np.array(x, copy=None, ndmin=4),
    "asfortranarray": lambda np, x: np.asfortranarray(x),
    "ascontiguousarray": lambda np, x: np.ascontiguousarray(x),
    "take of a slice": lambda np, x: np.take(x, [1], axis=2),
    "delete": lambda np, x: np.delete(x, 0, axis=1),
    "insert": lambda np, x: np.insert(x, [1, 2], 5, axis=1),
    "where": lambda np, x: np.where(x[0] > 1, x, 0),
}
CONSTRUCTORS = ("asarray", "array", "asfortranarray", "ascontiguousarray")


def layouts():
    """A (2, 3, 4) array in several orders in memory."""
    x = np.arange(24.0)
    yield x.reshape(2, 3, 4)
    yield np.asfortranarray(x.reshape(2, 3, 4))
    yield x.reshape(4, 3, 2).T
    yield x.reshape(3, 2, 4).transpose(1, 0, 2)
    yield np.arange(96.0).reshape(4, 3, 8)[::2, ::-1, ::2]


@pytest.mark.parametrize("name", CALLS)
def test_views_and_copies_are_numpys(name):
    """A write through the result changes the array, and a write to the array the result, exactly where they do in NumPy."""
    f = CALLS[name]

    def written_through(np, x):
        y = f(np, x)
        y *= 2
        return x, [stride for stride, n in zip(y.strides, y.shape, strict=True) if n > 1]

    def seen(np, x):
        y = f(np, x)
        x[0, 1] = -1.0
        x[1] += x[0]
        return y, y.flags.writeable

    for x, program in itertools.product(layouts(), (written_through, seen)):
        for module in (fnp,) if name.startswith(CONSTRUCTORS) else (np, fnp):
            traced = lambda x, p=program, m=module: p(m, x)  # noqa: E731
            oracles.assert_agrees(
                lambda x, p=program: p(np, x),
                x,
                transform=lambda _, t=traced: oracles.reference_jit(t),
                what=f"{name}, strides {x.strides}",
            )


@pytest.mark.parametrize(
    "mode", ["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean", "median"]
)
@pytest.mark.parametrize("widths", [0, 1, (2, 1), ((0, 1), (5, 0), (3, 9)), {0: 1, -1: (2, 1)}], ids=repr)
def test_pad(mode, widths):
    x = np.arange(24.0).reshape(2, 3, 4) ** 2 % 17
    for y in (x, x.astype(int), np.asfortranarray(x)):
        oracles.assert_agrees(lambda y: np.pad(y, widths, mode), y, rtol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.pad(x, 1, constant_values=((1, 2), (3, x[0, 0]))),
        lambda x: np.pad(x, 2, "linear_ramp", end_values=(x[0, 0], 3)),
        lambda x: np.pad(x, 2, "mean", stat_length=2),
        lambda x: np.pad(x, 2, "maximum", stat_length=((1, 1), (3, 2))),
    ],
)
def test_values_of_padding(f):
    x = np.random.default_rng(0).random((3, 4))
    oracles.assert_agrees(f, x, rtol=1e-14)
    t = np.ones_like(x)
    np.testing.assert_allclose(fx.jvp(f, (x,), (t,))[1], oracles.directional(f, (x,), (t,), step=1e-4), atol=1e-8)
    oracles.assert_agrees(lambda x: np.pad(x, 1, "maximum", stat_length=0), x)


def test_shifts_that_are_traced():
    x = np.arange(12.0).reshape(3, 4)
    for shift in (0, 5, -1):
        oracles.assert_agrees(lambda x, i: np.roll(x, i, 1), x, np.array(shift))
        oracles.assert_agrees(lambda x, i: np.roll(x, i), x, np.array(shift))
    lanes = np.array([1, -2, 7])
    oracles.assert_same(
        fx.vmap(lambda x, i: np.roll(x, i), in_axes=(None, 0))(x, lanes), oracles.loop(lambda x, i: np.roll(x, i), (x, lanes), (None, 0))
    )


def test_layouts_of_constructors():
    """``order`` is that of the array in memory, as strides and further views see it."""

    def f(np, x):
        arrays = [
            np.zeros((2, 3), order="F"),
            np.ones((2, 3), int, order="F"),
            np.full((2, 3), x[0, 0, 0], order="F"),
            np.eye(3, order="F"),
            np.array(x, order="F"),
            np.array(x.T, order="A"),
            np.zeros_like(x.T),
            np.full_like(x, 1.0, order="F"),
            np.ones_like(x.T, order="C"),
        ]
        return [a.strides for a in arrays], [a.ravel("K") for a in arrays]

    traced = oracles.reference_jit(lambda x: f(fnp, x))
    for x in layouts():
        oracles.assert_agrees(lambda x: f(np, x), x, transform=lambda _: traced)


def test_bounds_of_ranges_are_differentiated_or_refused():
    gradient = fx.grad(lambda a, b: (fnp.linspace(a, b, 5) * np.arange(5.0)).sum(), (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(gradient, (2.5, 7.5))
    with pytest.raises(fx.errors.DroppedGradientError, match="np.arange"):
        fx.grad(lambda a: fnp.arange(0, a).sum())(3.0)
    with pytest.raises(fx.errors.ConcretizationError, match="np.arange"):
        oracles.reference_jit(lambda a: fnp.arange(0, a).sum())(np.array(3.0))


def test_unknown_keywords_raise():
    x = np.ones((2, 3))
    for f in (
        lambda x: np.pad(x, 1, mod="edge"),
        lambda x: fnp.linspace(x[0], 1, number=3),
        lambda x: fnp.zeros(3, ordr="F"),
        lambda x: x.sort(kid="stable"),
        lambda x: np.concatenate([x, x], axs=1),
    ):
        with pytest.raises(TypeError):
            oracles.reference_jit(f)(x)


def test_functx_numpy_lists_what_it_has():
    assert {"sort", "nonzero", "linspace", "pad", "at", "block"} <= set(dir(fnp))
    assert set(fnp.__all__) <= set(dir(fnp))


PYTHON_OPERAND = {
    "flip": lambda a: np.flip(a),
    "transpose": lambda a: np.transpose(a),
    "squeeze": lambda a: np.squeeze(a),
    "median": lambda a: np.median(a, keepdims=True),
    "percentile": lambda a: np.percentile(a, [20, 90]),
    "nanargmax": lambda a: np.nanargmax(a),
    "clip": lambda a: np.clip(a, np.float32(0), np.array([1, 300], np.uint8)),
    "broadcast_arrays": lambda a: np.broadcast_arrays(a, np.float32(2)),
    "isreal": lambda a: (np.isreal(a), np.iscomplex(a)),
}


@pytest.mark.parametrize("name", PYTHON_OPERAND)
@pytest.mark.parametrize("number", [2, 2.5, True])
def test_python_numbers_are_arrays_to_functions_of_arrays(name, number):
    """Not weak ones: np.clip(2, bounds of uint8) has int64 elements."""
    oracles.assert_agrees(PYTHON_OPERAND[name], number)


NOTHING = np.zeros((2, 3, 0))
EMPTY_AND_SINGLE = {
    "median of no rows": lambda x, s: np.median(NOTHING * x[0], axis=0),
    "quantile of no rows": lambda x, s: np.quantile(NOTHING * x[0], 0.3, axis=1, keepdims=True),
    "partition": lambda x, s: (np.partition(NOTHING * x[0], 5), np.argpartition(NOTHING * x[0], 5, axis=0)),
    "take": lambda x, s: (np.take(x, []), np.take(x, [], mode="clip")),
    "full_like": lambda x, s: (np.full_like(s, x[:1]), np.full_like(x, [[2]])),
    "reshape of a scalar": lambda x, s: np.reshape(x[0], ()),
}


@pytest.mark.parametrize("name", EMPTY_AND_SINGLE)
def test_functions_of_no_elements_and_of_one(name):
    oracles.assert_agrees(EMPTY_AND_SINGLE[name], np.array([3.0, 1.0]), np.array(5.0))


@pytest.mark.parametrize("value", [300, -1, 2.7, 200])
def test_inserted_python_ints_must_fit(value):
    oracles.assert_agrees(lambda x: np.insert(x, 1, value), np.array([1, 2], np.uint8))
    oracles.assert_agrees(lambda x, v: np.insert(x, [0, 1], v, axis=1), np.array([[1, 2]], np.uint8), value)


PLACES = {
    "ravel_multi_index": (lambda i: np.ravel_multi_index((i % 2, i), (2, 4)), [0, 3], [4, -1]),
    "ravel_multi_index by axis": (lambda i: np.ravel_multi_index((i, i), (2, 4), mode=("wrap", "raise")), [0, 3], [4, -1]),
    "unravel_index": (lambda i: np.unravel_index(i, (2, 4)), [0, 7], [8, -1]),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_that_an_array_does_not_have_are_refused(name):
    f, good, bad = PLACES[name]
    for i in good:
        oracles.assert_agrees(f, np.array([i, 0]))
    for i in bad:
        with pytest.raises(ValueError):
            f(np.array([i, 0]))
        with pytest.raises(IndexError, match="out of bounds"):
            fx.jit(f, backend="reference")(np.array([i, 0]))


def test_compress_of_a_scalar_and_matrix_transpose_of_a_vector():
    oracles.assert_agrees(lambda x: np.compress([True], x, axis=0), np.array(5.0))
    oracles.assert_agrees(lambda x: np.compress([True], x, axis=1), np.array(5.0))
    oracles.assert_agrees(lambda x: np.linalg.matrix_transpose(x), np.arange(3.0))


@pytest.mark.parametrize(
    "f",
    [
        lambda np, x: x.transpose(INDEX([1, 0, 2])),
        lambda np, x: np.transpose(x, INDEX([2, 0, 1])),
        lambda np, x: np.reshape(x, INDEX([6, 4])),
        lambda np, x: np.moveaxis(x, INDEX([0, 1]), INDEX([2, 1])),
        lambda np, x: np.roll(x, INDEX([1, 2]), axis=(0, 1)),
        lambda np, x: np.roll(x, NUMBER(1), axis=NUMBER(2)),
        lambda np, x: np.tile(x, INDEX([1, 2, 1])),
        lambda np, x: np.broadcast_to(x, INDEX([2, 2, 3, 4])) * 1,
        lambda np, x: x + np.zeros(INDEX([2, 3, 4])),
        lambda np, x: np.concatenate([x, x], NUMBER(1)),
        lambda np, x: np.stack([x, x], NUMBER(1)),
        lambda np, x: np.diagonal(x, NUMBER(1), NUMBER(1), NUMBER(2)) * 1,
        lambda np, x: np.tensordot(x, x, axes=(INDEX([0]), INDEX([0]))),
    ],
)
def test_sizes_and_axes_may_be_integer_arrays_and_numpy_integers(f):
    """Wherever NumPy takes them; what comes into the graph are plain ints."""
    x = np.arange(24.0).reshape(2, 3, 4)
    oracles.assert_agrees(lambda x: f(np, x), x, transform=lambda _: oracles.reference_jit(lambda x: f(fnp, x)))


INDEX, NUMBER = np.array, np.int64
