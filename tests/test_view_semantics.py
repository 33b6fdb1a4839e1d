"""Views and copies as in NumPy, function by function: over all layouts of the argument, in what is shared, written through, read again, and
in the object itself. Derivatives, vmap, and the errors of what cannot be a view here.
"""

import copy
import itertools
import warnings

import numpy as np
import oracles
import pytest
from programs import LAYOUTS, derivative, laid_out

import functx as fx
import functx.numpy as fnp

WINDOWS = np.lib.stride_tricks.sliding_window_view

# Of a (3, 4) array. What NumPy never dispatches stands in CONSTRUCTED below.
VIEWS = {
    "slices": lambda np, x: x[1:, ::-2],
    "row": lambda np, x: x[1],
    "0-d view": lambda np, x: x[1, 2, ...],
    "no rows": lambda np, x: x[3:],
    "whole": lambda np, x: x[:],
    "ellipsis": lambda np, x: x[...],
    "empty tuple": lambda np, x: x[()],
    "true": lambda np, x: x[True],
    "0-d index": lambda np, x: x[INDEX],
    "list": lambda np, x: x[[0, 2]],
    "column list": lambda np, x: x[:, [0, 2, 1]],
    "index matrix": lambda np, x: x.T[[[0, 1], [2, 3]]],
    "known mask": lambda np, x: x[[True, False, True]],
    "chain": lambda np, x: x[::-1].T[1:][::2, None, :].swapaxes(0, 2).squeeze(),
    "transpose by nothing": lambda np, x: x.transpose(0, 1),
    "swapaxes by nothing": lambda np, x: x.swapaxes(0, 0),
    "rollaxis": lambda np, x: np.rollaxis(x, 1),
    "squeeze no axes": lambda np, x: x.squeeze(axis=()),
    "expand no axes": lambda np, x: np.expand_dims(x, ()),
    "flip no axes": lambda np, x: np.flip(x, ()),
    "rot90 back": lambda np, x: np.rot90(x, -1),
    "broadcast_to": lambda np, x: np.broadcast_to(x, (2, 3, 4)),
    "broadcast_arrays, same": lambda np, x: np.broadcast_arrays(x, 1.0)[0],
    "broadcast_arrays, rows": lambda np, x: np.broadcast_arrays(x, x[0])[1],
    "broadcast_arrays, both": lambda np, x: np.broadcast_arrays(x[:1], x[:, :1])[0],
    "broadcast_arrays, nothing repeats": lambda np, x: np.broadcast_arrays(x[0], x[:1])[0],
    "broadcast_arrays, 0-d": lambda np, x: np.broadcast_arrays(x[0, 0, ...], x[:1])[0],
    "diagonal": lambda np, x: x.diagonal(1),
    "diagonal of stacks": lambda np, x: np.diagonal(x[:, None, 1:], 0, 0, 2),
    "linalg.diagonal": lambda np, x: np.linalg.diagonal(x, offset=-1),
    "diag": lambda np, x: np.diag(x),
    "diag of a vector": lambda np, x: np.diag(x[0]),
    "einsum ii->i": lambda np, x: np.einsum("ii->i", x[:3, :3]),
    "einsum ijij->ji": lambda np, x: np.einsum("ijij->ji", x[:2, :, None, None] * [[[[1.0]]], [[[2.0]]]] * np.ones((2, 4))),
    "einsum ij->ji": lambda np, x: np.einsum("ij->ji", x),
    "einsum ij": lambda np, x: np.einsum("ij", x),
    "einsum ...j->j...": lambda np, x: np.einsum("...j->j...", x),
    "einsum of labels": lambda np, x: np.einsum(x, [0, 1], [1, 0]),
    "einsum, another dtype": lambda np, x: np.einsum("ij->ji", x, dtype=complex),
    "real": lambda np, x: x.real,
    "real of a part": lambda np, x: x.T.real[1:],
    "conj": lambda np, x: x.conj(),
    "view": lambda np, x: x.view(),
    "view of its dtype": lambda np, x: x.view(x.dtype),
    "view of ints": lambda np, x: x.view(BITS[x.dtype.itemsize]),
    "view of bits and back": lambda np, x: x.view(BITS[x.dtype.itemsize])[1:].view(x.dtype),
    "view of a type": lambda np, x: x.view(type=NDARRAY),
    "view of parts": lambda np, x: x.view(PARTS[x.dtype.char]),
    "view of parts of a part": lambda np, x: x[1:, :2].view(PARTS[x.dtype.char]).T,
    "windows": lambda np, x: WINDOWS(x, 2, axis=1),
    "windows of both": lambda np, x: WINDOWS(x, (2, 3)),
    "windows of windows": lambda np, x: WINDOWS(x, (2, 2, 2), axis=(0, 1, 0)),
    "copy.copy": lambda np, x: copy.copy(x),
    "deepcopy": lambda np, x: copy.deepcopy(x),
    "astype": lambda np, x: x.astype(x.dtype),
    "astype, no copy": lambda np, x: x.astype(x.dtype, copy=False),
    "astype F, no copy": lambda np, x: x.astype(x.dtype, order="F", copy=False),
    "astype C, no copy": lambda np, x: x.astype(x.dtype, order="C", copy=False),
    "np.astype": lambda np, x: np.astype(x, x.dtype, copy=False),
    "take": lambda np, x: np.take(x, [0, 1], axis=0),
    "take one": lambda np, x: np.take(x, 0, axis=0),
    "flat": lambda np, x: x.flat[2:5],
    "nan_to_num in place": lambda np, x: np.nan_to_num(x, copy=False),
}
CONSTRUCTED = {
    "array of a 0-d view": lambda np, x: np.array(x[1, 1, ...], copy=None),
    "array C, no copy": lambda np, x: np.array(x, copy=False, order="C"),
    "asanyarray": lambda np, x: np.asanyarray(x),
    "asarray of its dtype": lambda np, x: np.asarray(x, dtype=x.dtype),
    "asarray, copy": lambda np, x: np.asarray(x, copy=True),
    "ascontiguousarray of a 0-d view": lambda np, x: np.ascontiguousarray(x[1, 1, ...]),
}
INDEX, NDARRAY = np.array(1), np.ndarray
BITS = {8: "i8", 16: "c16", 4: "i4", 2: "u2", 1: "i1"}
PARTS = {"d": "c16", "D": "f8", "f": "c8", "F": "f4"}


def written_through(f):
    def program(np, x):
        y = f(np, x)
        y *= 2
        return x, y

    return program


def read_again(f):
    def program(np, x):
        y = f(np, x)
        x[0] = 9
        x[:, 1] += x[:, 2]
        return y

    return program


def facts(f):
    def program(np, x):
        y = f(np, x)
        big = all(n > 1 for n in y.shape)  # NumPy leaves the strides of other axes open
        flags = y.flags.writeable and y.ndim > 0, y.flags.c_contiguous, y.flags.f_contiguous
        return y.shape, y.strides if big else None, flags, y is x, np.shares_memory(x, y), np.may_share_memory(y, x[1:])

    return program


def outcome_of(f, module, values, layout, *, jit):
    """What a run gave, its argument, and the buffer that the argument lies in."""
    x, buffer = laid_out(values, layout)
    run = lambda x: f(module, x)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return oracles.outcome(oracles.reference_jit(run) if jit else run, x), x, buffer


def leaves(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def sharing(arrays):
    """Which of them share memory with which; numbers share with nothing."""
    return [[isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b) for b in arrays] for a in arrays]


def assert_as_numpy(f, module, values, layout, what):
    """Results, what they share, which of them is the argument, whether they can be written, and the change of the buffer."""
    expected, plain, plain_buffer = outcome_of(f, np, values, layout, jit=False)
    got, mine, buffer = outcome_of(f, module, values, layout, jit=True)
    if expected.error is not None:
        oracles.assert_same_error(got.error, expected.error, what)
        return
    if got.error is not None:
        raise AssertionError(f"{what}: raised {got.error!r}") from got.error
    oracles.assert_same(got.value, expected.value, what=what)
    gots, wants = leaves(got.value), leaves(expected.value)
    assert sharing([*gots, mine]) == sharing([*wants, plain]), f"{what}: shared memory"
    assert [g is mine for g in gots] == [w is plain for w in wants], f"{what}: the argument itself"
    assert [_writeable(g) for g in gots] == [_writeable(w) for w in wants], f"{what}: writeable"
    oracles.assert_same(buffer, plain_buffer, what=f"{what} argument")


def _writeable(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return isinstance(value, np.ndarray) and value.flags.writeable


@pytest.mark.parametrize("name", [*VIEWS, *CONSTRUCTED])
@pytest.mark.parametrize("dtype", [float, complex])
def test_views_and_copies_are_numpys(name, dtype):
    f = VIEWS.get(name) or CONSTRUCTED[name]
    values = (np.arange(12.0) * (1 + 2j if dtype is complex else 1)).reshape(3, 4)
    for layout, program in itertools.product(LAYOUTS, (lambda f: f, written_through, read_again, facts)):
        for module in (np, fnp) if name in VIEWS else (fnp,):
            assert_as_numpy(program(f), module, values, layout, f"{name}, {layout}, {program.__name__}")


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (2, 3, 4)], ids=str)
@pytest.mark.parametrize(
    "name", sorted({*VIEWS} - {"einsum ii->i", "einsum ijij->ji"})
)  # of an empty array NumPy's reads what is not there
def test_views_of_other_shapes(name, shape):
    values = np.arange(float(np.prod(shape))).reshape(shape)
    for layout, program in itertools.product(("C", "F", "negative"), (lambda f: f, facts)):
        assert_as_numpy(program(VIEWS[name]), np, values, layout, f"{name}, {layout}, {program.__name__}")


# --- the order of fresh results in memory, which decides what is a view of them -----------------------------------------------------------

# Of an array of three axes.
FRESH = """\
c + 1
c + c[0]
c + c.swapaxes(0, 1)[:2, :, :3] if c.shape[0] == 2 else c * 1
c[:, None] * c[0, 0]
np.where(c > 0, c, 1)
c.copy()
np.copy(c)
c.copy("A")
c.astype("f4")
np.zeros_like(c)
np.full_like(c, 2, shape=(2, 5, 3))
np.full_like(c, 2, shape=(2, 3), order="A")
c.argsort(0)
np.argsort(c)
np.argpartition(c, 1, 1)
np.sort(c, 1)
np.partition(c, 1, 0)
np.cumsum(c, 1)
np.roll(c, 1, 0)
np.roll(c, (1, 2), (0, 2))
np.roll(c, 1)
np.concatenate([c, c], 1)
np.concatenate([c, c.copy()], -1)
np.stack([c, c])
np.stack([c, c, c], 2)
np.stack([c, c.copy()], -1)
np.vstack([c[0], c[1]])
np.dstack([c[0], c[0]])
np.column_stack([c[0], c[0]])
np.append(c, c, 1)
np.delete(c, 0, 2)
np.repeat(c, 2, 1)
np.tile(c, 2)
np.triu(c)
np.sum(c, 0)
np.sum(c, 2)
c.sum(1, keepdims=True)
c.max((0,), keepdims=True)
np.mean(c, 1)
np.mean(c, 0, where=c > 1)
np.std(c, 0)
np.var(c, 1, keepdims=True)
np.nansum(c, 0)
np.nanmean(c, 0)
np.nanstd(c, 1)
np.count_nonzero(c, 1, keepdims=True)
np.median(c, 1)
np.median(c, 1, keepdims=True)
np.percentile(c, 50, 0)
np.quantile(c, [0.2, 0.5], 1)
np.add.reduceat(c, [0, 1], 1)
np.multiply.outer(c, c[0, 0])
np.add(c, 1, order="F")
np.take(c, [0, 1], 1)
np.take_along_axis(c, np.argsort(c, 1), 1)
np.take_along_axis(c, np.zeros_like(c, int), 2)
np.choose((c > 1).astype(int), [c, c + 1])
c[[0, 1]]
c[:, [0, 1]]
c[..., [0, 1]]
c[[0, 1], :, [0, 1]]
c[0, (c > 9).astype(int)]
c[(c > 9).astype(int), 0, 0]
c[(c > 9).astype("i4"), 0, 0, None]
c[(c.T > 9).astype(int), 0, (c.T > 9).astype(int)]
np.einsum("ijk->jk", c)
np.einsum("ijk->kj", c)
np.einsum("ijk,k->ij", c, c[0, 0])
np.einsum("ijk,ljk->il", c, c)
np.einsum("ijk,l->lkij", c, c[0, 0])
np.einsum("ijk->ij", c, order="A")
np.einsum("ijk->ij", c, order="F")
np.cross(c[..., :2], c[..., :2])
np.round(c, 1)
np.clip(c, 0, 1)
c.imag
np.imag(c.T[::2])
np.meshgrid(c[0, 0], c[0, 0])[0]
np.cbrt(np.broadcast_to(c, (2, *c.shape)))
np.broadcast_to(c, (2, *c.shape)).copy("K")
np.concatenate([np.broadcast_to(c, (2, *c.shape))] * 2)
np.broadcast_to(c, (2, *c.shape))[[0, 1]]
np.sort(np.broadcast_to(c, (2, *c.shape)), 1)
""".splitlines()
IN_MEMORY = {
    "C": lambda b: b[:3, :4].copy(),
    "part": lambda b: b[1::2, ::-2],
    "F": lambda b: b[:2, :3].copy("F"),
    "mT": lambda b: b[:2].mT,
    "turned": lambda b: b.transpose(1, 2, 0),
    "turned, part": lambda b: b[:2, 1:4].transpose(1, 0, 2),
    "turned, backwards": lambda b: b.T[::-1, ::2],
    "one row": lambda b: b[:, :1].T[:2],
    "repeated": lambda b: np.broadcast_to(b[0, :, :4], (3, 6, 4)),
    "repeated rows": lambda b: np.broadcast_to(b[:, :1, :2].T, (2, 3, 6)),
}


@pytest.mark.filterwarnings("ignore")  # NumPy's, about casts
@pytest.mark.parametrize("layout", IN_MEMORY)
def test_fresh_results_lie_in_memory_as_numpys(layout):
    argument = IN_MEMORY[layout](np.arange(216.0).reshape(6, 6, 6))
    for text in FRESH:
        if "count" in text and "repeated" in layout:
            continue  # NumPy counts in a copy
        f = eval(f"lambda c: {text}", {"np": np})
        wanted = oracles.outcome(f, argument)
        if wanted.error is not None:
            continue  # too short an axis
        strides = []
        oracles.reference_jit(lambda c, f=f, into=strides: into.append(f(c).strides))(argument)
        got, expected = ([s for s, n in zip(by, wanted.value.shape, strict=True) if n > 1] for by in (*strides, wanted.value.strides))
        assert got == expected, f"{text}: strides {got}, in NumPy {expected}"


OF_0_D = [
    *(lambda x: x.T, lambda x: x.reshape(1), lambda x: np.squeeze(x), lambda x: x.view("i8"), lambda x: x.flat[0], np.atleast_2d),
    *(lambda x: x.ravel(), lambda x: x[...], lambda x: np.broadcast_arrays(x, [1, 2])[0], lambda x: np.einsum("...->...", x)),
]


@pytest.mark.parametrize("f", OF_0_D)
def test_views_of_0_d_arrays(f):
    for g in (f, lambda x: (f(x), np.add(x, 1, out=x))[0], lambda x: f(x) is x):
        mine, plain = np.array(2.5), np.array(2.5)
        expected, got = g(plain), oracles.reference_jit(g)(mine)
        oracles.assert_same((got, mine), (expected, plain))
        if isinstance(expected, np.ndarray):
            assert sharing([got, mine]) == sharing([expected, plain])


SMOOTH = [name for name in VIEWS if "bit" not in name and "ints" not in name and name != "view of parts of a part"]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_through_views(name):
    """Of what is written through a view, and of what a view shows after a write to the array, in both modes."""
    f = VIEWS[name]
    x, t = np.cos(np.arange(12.0)).reshape(3, 4), np.sin(np.arange(12.0)).reshape(3, 4)
    if name == "view of parts":
        f = lambda np, x: (x * (1 + 2j)).view(x.real.dtype)  # noqa: E731

    def program(x):
        x = x * 1
        y = f(np, x)
        x[1] *= x[2]
        if y.flags.writeable and y.ndim:
            y *= np.sin(y)
        return np.sum(np.sin(x)) + np.sum(np.cos(2 * (y.real + y.imag)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        direction = 1.0
        wanted = float(derivative(lambda s: program(np.asarray(x + s * t, np.longdouble)), 0.0, direction)) if "view" not in name else None
        wanted = wanted if wanted is not None else oracles.directional(program, (x,), (t,))
        gradient = fx.grad(program)(x)
        np.testing.assert_allclose((gradient * t).sum(), wanted, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(fx.jvp(program, (x,), (t,))[1], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", VIEWS)
def test_vmap_is_a_loop(name):
    lanes = np.cos(np.arange(36.0)).reshape(3, 3, 4)

    def program(x):
        y = VIEWS[name](np, x)
        x[0] += x[1]
        y = y * 2 if not y.flags.writeable or y.ndim == 0 else np.multiply(y, 2, out=y)
        return y * 1, x * 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for axis in (0, 2):
            mine, plain = np.moveaxis(lanes, 0, axis).copy(), np.moveaxis(lanes, 0, axis).copy()
            expected = oracles.outcome(lambda p=plain, a=axis: oracles.loop(program, (p,), (a,)))
            got = oracles.outcome(lambda m=mine, a=axis: fx.vmap(program, in_axes=a)(m))
            if expected.error is not None:
                oracles.assert_same_error(got.error, expected.error)
                continue
            oracles.assert_same((*got.value, mine), (*expected.value, plain), rtol=1e-15)


# --- bits, parts and windows --------------------------------------------------------------------------------------------------------------


def test_bits_carry_no_derivative_and_elements_whose_bits_stay_keep_theirs():
    def f(x):
        y = x * 1
        y.view("i8")[0] = 0
        y[1:].view("u8")[...] ^= 0
        return (y * y).sum()

    np.testing.assert_array_equal(fx.grad(f)(np.array([1.0, 2.0, 3.0])), [0.0, 4.0, 6.0])
    assert fx.grad(lambda x: (x.view("i8") >> 52).sum() + x.sum())(np.ones(2)).tolist() == [1.0, 1.0]


def test_derivatives_are_not_lost_in_the_bits_of_other_memory():
    def f(x):
        kept = fnp.zeros(2, int)
        kept.view("f8")[...] = x
        return kept.view("f8").sum()

    assert oracles.reference_jit(f)(np.array([1.5, 2.5])) == 4.0
    with pytest.raises(fx.errors.DroppedGradientError, match="float64(.|\n)*stop_gradient"):
        fx.grad(f)(np.array([1.5, 2.5]))
    assert fx.grad(lambda x: f(fx.stop_gradient(x)) * x[0])(np.array([1.5, 2.5])).tolist() == [4.0, 0.0]


SAME_SIZE = [("?", "u1", "i1"), ("f2", "u2", "i2", "bfloat16"), ("f4", "u4", "i4"), ("f8", "i8", "u8", "c8")]


def reinterpreted(x):
    """x seen as every dtype of its size, written through one of them."""
    group = next(g for g in SAME_SIZE if x.dtype in map(np.dtype, g))
    views = [x.view(d) for d in group]
    unsigned = x.view(f"u{x.itemsize}")
    out = [v.copy() for v in views]
    unsigned[1:] = unsigned[:-1] if x.dtype != bool else 1 - unsigned[:-1]
    return *out, *(v[::-1].copy() for v in views)


REINTERPRETED = [np.array([0, 1, 1, 0], bool), np.arange(-2, 2, dtype="i1"), np.array([0.5, -2.0, 3.0, np.inf], "f2"),
                 np.array([0.5, -2.0, 3.0, 1e30], "bfloat16"), np.array([1.5, -0.0, 3.0, 1e-40], "f4"), np.arange(4, dtype="u4") << 29,
                 np.array([1.5, -0.0, np.nan, 1e-310]), np.array([1 + 2j, -0.5j, 3, 1e30], "c8"), np.arange(4) << 60]  # fmt: skip


def test_bits_of_all_dtypes():
    for x in REINTERPRETED:
        oracles.assert_agrees(reinterpreted, x, what=str(x.dtype))


def test_bits_parts_and_windows_in_compiled_code():
    """One graph of all of them."""

    def together(z, *arrays):
        parts = z.view("f8")
        parts[1::2] *= 3.0
        whole = parts[2:].view("c16")
        whole += 1j
        windows = WINDOWS(z.real, 3)
        d = np.einsum("ii->i", np.multiply.outer(z, z))
        d += windows.sum()
        return *(reinterpreted(x) for x in arrays), z * 1, windows.max(axis=-1), d, np.diagonal(np.multiply.outer(z, z), 1) * 2

    def gradient(z):
        return fx.grad(lambda z: WINDOWS(z.view("f8"), 2).prod(axis=-1).sum() + np.diag(np.outer(z, z)).real.sum())(z)

    z = np.arange(5.0) * (1 - 0.5j)
    mine, plain = copy.deepcopy([z, *REINTERPRETED]), copy.deepcopy([z, *REINTERPRETED])
    got, expected = fx.jit(together, backend="cpp")(*mine), together(*plain)
    oracles.assert_same((*got, *mine), (*expected, *plain), rtol=1e-14)
    np.testing.assert_allclose(fx.jit(gradient, backend="cpp")(z), gradient(z), rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x.view("f4"), "astype"),
        (lambda x: x.view("M8[s]"), "outside"),
        (lambda x: x.view(np.matrix), "outside"),
        (lambda x: WINDOWS(x, 2, axis=0, writeable=True), "copy"),
        (lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)), "sliding_window_view"),
        (lambda x: setattr(x, "shape", (4, 3)), "x = x.reshape"),
        (lambda x: setattr(x, "dtype", "i8"), "x = x.view"),
        (lambda x: setattr(x, "strides", (8, 8)), "transpose"),
        (lambda x: setattr(x.flags, "writeable", False), "outside"),
        (lambda x: x.setflags(write=False), "outside"),
        (lambda x: x.resize((2, 2)), "np.resize"),
        (lambda x: x.data, "outside"),
        (lambda x: x.real.__setattr__("imag", 0) or x.view("c16")[0].view("i8"), "astype"),
    ],
)
@pytest.mark.parametrize("transform", [oracles.reference_jit, lambda f: lambda x: fx.jvp(f, (x,), (x,))], ids=["jit", "jvp"])
def test_what_cannot_be_a_view_here_says_what_to_write(f, text, transform):
    with pytest.raises(TypeError) as caught:
        transform(f)(np.ones((3, 4)))
    if isinstance(caught.value, fx.errors.UnsupportedError):
        assert text in str(caught.value) and "test_view_semantics.py" in str(caught.value)
    else:
        assert "imaginary" in str(caught.value)


# --- repetition, and who shares memory ----------------------------------------------------------------------------------------------------


def test_writing_to_broadcast_arrays_warns_as_numpy_does_and_the_last_element_stays():
    def f(x, y):
        a, b = np.broadcast_arrays(x[:, :1], y)
        a[:, 1:3] = y[:, 1:3]
        a.T[...] += b.T
        return a * 1

    for run in (f, oracles.reference_jit(f)):
        x, y = np.arange(12.0).reshape(3, 4), np.cos(np.arange(12.0)).reshape(3, 4)
        with pytest.warns(DeprecationWarning, match="broadcast_arrays") as caught:
            out = run(x, y)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(out, np.broadcast_to((y[:, 2] + y[:, 3])[:, None], (3, 4)))
        np.testing.assert_array_equal(x[:, 0], y[:, 2] + y[:, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gradients = fx.grad(lambda x, y: (f(x, y) * np.arange(4.0)).sum(), (0, 1))(x, y)
        with pytest.raises(fx.errors.UnsupportedError, match=r"x\.copy"):
            oracles.reference_jit(lambda z: np.broadcast_arrays(z, np.ones((2, 3)))[0].real.fill(0))(np.ones(3, complex))
        with pytest.raises(fx.errors.UnsupportedError, match="pass a copy"):  # inside, each element has a place of its own
            oracles.reference_jit(lambda z: fx.jit(lambda v: v.fill(0))(np.broadcast_arrays(z, np.ones((2, 3)))[0]))(np.ones(3))
    np.testing.assert_array_equal(gradients[0], np.zeros((3, 4)))
    np.testing.assert_array_equal(gradients[1], np.broadcast_to([0.0, 0.0, 6.0, 6.0], (3, 4)))


SHARING = {
    "parts": lambda x, y: [(x, x[1:]), (x[:1], x[1:]), (x[::2], x[1::2]), (x[:, ::2], x[:, 1::2]), (x[3:], x), (x, y), (x, x.copy())],
    "layouts": lambda x, y: [(x.T, x), (x.reshape(-1), x), (x.ravel("F"), x), (x + 0, x), (x[::-1], x[:1]), (x.ravel("K")[:2], x[0])],
    "numbers": lambda x, y: [(x[0, 0], x), (x[0, 0, ...], x), (x, 1.0), (1.0, x.T), (np.ones(3), x), ([1.0], x)],
    "diagonals": lambda x, y: [
        (x.diagonal(), x[1:, :1]),
        (x.diagonal(), x[:2, :2]),
        (np.diag(x, 1), x[1:, 1:]),
        (WINDOWS(x, 2, 0)[0], x[2]),
    ],
    "fresh": lambda x, y: [((u := x * 1), u[1:]), (u[1:2], u[:1]), (u.T[::-1], u[:, 0]), (u, x)],
    "views of dtypes": lambda x, y: [(x.view("i8"), x[1:]), (x[:1].view("u8"), x[1:]), (x.real, x), (x.flat[:2], x)],
}


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("ask", [np.shares_memory, np.may_share_memory])
def test_who_shares_memory(name, ask):
    f = lambda x, y: [ask(a, b) for a, b in SHARING[name](x, y)]  # noqa: E731
    for layout in LAYOUTS:
        x, y = laid_out(np.ones((3, 4)), layout)[0], np.ones((3, 4))
        assert oracles.reference_jit(f)(x, y) == f(x, y), layout
        answers = []
        fx.jvp(lambda x, y: (answers.append(f(x, y)), x * 1)[1], (x, y), (x, None))  # noqa: B023
        assert answers == [f(x, y)], layout


def asked(a, b):
    return np.shares_memory(a, b[-1:]), np.may_share_memory(a[1:], b), np.shares_memory(b.view("i8"), a)


def asked_in_lanes(a, b):
    answers = []
    fx.vmap(lambda x: (answers.append(asked(a, b)), x)[1])(np.ones(2))
    return answers[0]


def test_who_shares_memory_with_arrays_of_the_surroundings_and_with_other_arguments():
    buffer = np.ones(8)
    for a, b in ((buffer[:4], buffer[3:]), (buffer[:4], buffer[4:]), (buffer[::2], buffer[1::2]), (buffer, buffer), (buffer, buffer[2:3])):
        for f in (asked, lambda a, b: fx.checkpoint(asked)(a, b), lambda a, b: oracles.reference_jit(asked)(a, b)):
            assert oracles.reference_jit(f)(a, b) == asked(a, b)
        whole = lambda a, b=b: np.shares_memory(a, b)  # noqa: E731
        assert oracles.reference_jit(whole)(a) == whole(a)
        assert asked_in_lanes(a, b) == asked(a, b)
        lanes = np.stack([a, a])
        shared = []
        fx.vmap(lambda x, y, s=shared: (s.append(np.shares_memory(x, y)), x)[1])(lanes, lanes[:, :1])
        assert shared == [True]
    after_a_write = lambda a, b: (a.fill(2.0), np.shares_memory(a, b), np.shares_memory(a[:2], b), np.may_share_memory(a, b[1:]))  # noqa: E731
    for a, b in ((buffer[:2], buffer[4:6]), (buffer[:4], buffer[3:]), (buffer[:4], buffer[1:])):
        oracles.assert_same(oracles.reference_jit(lambda a, b, c: after_a_write(a, b))(a, b, buffer[1:5]), after_a_write(a, b))
    for view, answer in ((lambda x: x[:, 1:], True), (lambda x: x[:, :1], False), (lambda x: x * 1, False)):
        shared = []
        in_lanes = fx.vmap(lambda x, y, s=shared: (s.append(np.shares_memory(x[1:], y)), x)[1], in_axes=(1, 0))
        oracles.reference_jit(lambda x, f=in_lanes, v=view: f(x.T, v(x)))(np.ones((3, 4)))
        in_lanes(lanes := np.ones((4, 3)), view(lanes.T))
        assert shared == [answer, answer]


def test_views_at_traced_places():
    """Who shares memory is known of such a view and what it is a view of; of two of them it depends on the places."""

    def f(x, i):
        row = x[i]
        return np.shares_memory(row, x), np.shares_memory(row, row[1:]), np.shares_memory(row[:1], x * 1)

    x, i = np.ones((3, 4)), np.int64(1)
    assert oracles.reference_jit(f)(x, i) == f(x, i)
    with pytest.raises(fx.errors.ConcretizationError, match="i == j"):
        oracles.reference_jit(lambda x, i: np.shares_memory(x[i], x[0]))(x, i)


def test_chains_of_views_at_traced_places_are_written_through():
    def f(x, i, j):
        row = x[1:][i].T
        part = row[::-1][j : j + 1] if isinstance(j, int) else row[::-1][j, None]
        part[...] = 7.0
        row.reshape(2, -1)[i] *= 2.0
        x[i].flat[j] = -1.0
        for r in x[i:] if isinstance(i, int) else (x[i], x[i + 1]):
            r[0] += 1.0
        return row * 1, part * 1

    jitted = oracles.reference_jit(lambda x, i, j: f(x, i, j))
    for i, j in ((0, 1), (1, 3), (1, 0)):
        x, plain = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
        expected = f(plain, np.int64(i), np.int64(j))
        oracles.assert_same(jitted(x, np.int64(i), np.int64(j)), expected)
        np.testing.assert_array_equal(x, plain)
    assert jitted.cache_info().traces == 1


def test_views_without_elements_share_with_nothing():
    def f(x, k):
        return np.may_share_memory(x[2:2], x[k, 1:]), np.shares_memory(x[k, 1:], x[:, 4:]), np.shares_memory(x[:0], x)

    x = np.ones((3, 4))
    assert oracles.reference_jit(f)(x, 1) == f(x, 1) == (False, False, False)
