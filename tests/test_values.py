"""Values of tracers: when they are known, what may be asked, and that nothing is computed twice."""

import math
import warnings

import numpy as np
import pytest
from regimes import every_way, tree_close

import functx as fx
import functx.numpy as fnp
from functx.errors import ConcretizationError, DroppedGradientError
from functx.primitive import PRIMITIVES


def jit(f, **options):
    return fx.jit(f, backend="reference", **options)


def array(*values):
    return np.array(values, float)


# --- numbers that would lose a derivative -------------------------------------------------------------------------------------------------

CONVERSIONS = {
    "float()": lambda x: float(x[0]),
    "complex()": lambda x: complex(x[0]),
    ".item()": lambda x: x[0].item(),
    ".tolist()": lambda x: x.tolist()[0],
    "np.asarray()": lambda x: np.asarray(x)[0],
    "np.array of a list": lambda x: np.array([x[0], 1.0])[0],
    "math.sin": lambda x: math.sin(x[0]),
    "np.sum of a list": lambda x: np.sum([x[0], x[1]]),
}


def under_grad(f):
    return fx.grad(f)(array(1, 2))


def under_jvp(f):
    return fx.jvp(f, (array(1, 2),), (np.ones(2),))


def under_vjp(f):
    return fx.vjp(f, array(1, 2))


def under_grad_of_checkpoint(f):
    return fx.grad(fx.checkpoint(f))(array(1, 2))


def under_grad_of_vmap(f):
    return fx.grad(lambda x: fx.vmap(f)(np.stack([x, x])).sum())(array(1, 2))


def closed_over(f):
    return fx.grad(lambda x: fx.grad(lambda y: y * f(x))(1.0))(array(1, 2))


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("run", [under_grad, under_jvp, under_vjp, under_grad_of_checkpoint, under_grad_of_vmap, closed_over])
def test_a_conversion_that_would_drop_a_gradient_raises(name, run):
    with pytest.raises(DroppedGradientError) as caught:
        run(CONVERSIONS[name])
    text = str(caught.value)
    assert "drop its gradient" in text and "test_values.py" in text
    for advice in ("np.sin", "fnp.zeros", "functx.stop_gradient"):
        assert advice in text


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_same_conversions_work_on_values_without_derivative(name):
    convert = CONVERSIONS[name]
    plain = convert(array(1, 2))
    got = []
    fx.grad(lambda x, k: (got.append(convert(k)), x)[1])(1.0, array(1, 2))
    fx.grad(lambda x: (got.append(convert(fx.stop_gradient(x))), x.sum())[1])(array(1, 2))
    assert got == [plain, plain]


@pytest.mark.parametrize("name", CONVERSIONS)
def test_under_jit_the_same_conversions_of_an_array_say_what_is_unknown(name):
    with pytest.raises(ConcretizationError, match="argument 'x'") as caught:
        jit(CONVERSIONS[name])(array(1, 2))
    assert "fnp.asarray" in str(caught.value) and "test_values.py" in str(caught.value)


# --- values on demand ---------------------------------------------------------------------------------------------------------------------


def branch(x):
    return (x * x).sum() if x[0] > 0 else -(x.sum())


def masked(x):
    return (x[x > 1.5] ** 2).sum()


def halved(x):
    n = 0
    while x.sum() > 1:
        x = x * 0.5
        n += 1
    return x.sum() * n


def sized(x):
    return x[: int(x[0])].sum() * len(x[x > 0])


def ordered(x):
    return sum(x[i] * k for k, i in enumerate(np.argsort(fx.stop_gradient(x).tolist())))


def picked(x):
    return x[np.argmax(x)] * x[int(x[0])]


@pytest.mark.parametrize("f", [branch, masked, halved, sized, ordered, picked])
def test_python_control_flow_on_known_values(f):
    x, step = array(1.3, 2.6, 0.2), 1e-6

    def plain(x):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fx, "stop_gradient", lambda v: v)
            return f(x)

    numeric = array(*((plain(x + step * e) - plain(x - step * e)) / (2 * step) for e in np.eye(3)))
    tree_close(fx.grad(f)(x), numeric, rtol=1e-6)
    tree_close(fx.jvp(f, (x,), (array(1, 2, 3),))[1], np.float64(numeric @ array(1, 2, 3)), rtol=1e-6)
    tree_close(fx.vjp(f, x)[1](1.0)[0], numeric, rtol=1e-6)
    tree_close(fx.grad(fx.checkpoint(f))(x), numeric, rtol=1e-6)
    assert fx.grad(lambda x: fx.grad(f)(x).sum())(x).shape == (3,)
    if f is masked:  # a mask whose value is unknown selects lanes
        tree_close(jit(f)(x), plain(x), rtol=1e-12)
        tree_close(fx.vmap(f)(x[None]), plain(x)[None], rtol=1e-12)
    else:
        with pytest.raises(ConcretizationError):
            jit(f)(x)
        with pytest.raises(ConcretizationError):
            fx.vmap(f)(x[None])
    tree_close(fx.vmap(lambda x, k: fx.grad(f)(x) * k, in_axes=(None, 0))(x, array(1, 2)), np.stack([numeric, 2 * numeric]), rtol=1e-6)


def test_printing_shows_values_where_they_are_known(capsys):
    fx.grad(lambda x: (print(x * 2, f"{x[0]:.3f}", str(x.sum())), x.sum())[1])(array(1, 2))
    out = capsys.readouterr().out
    assert "[2., 4.]" in out and "1.000" in out and "3.0" in out
    jit(lambda x: (print(x), x)[1])(array(1, 2))
    assert "f64[2]" in capsys.readouterr().out


@pytest.fixture
def counted(monkeypatch):
    """How often the reference implementation of sin runs."""
    calls = []
    plain = PRIMITIVES["sin"].impl
    monkeypatch.setattr(PRIMITIVES["sin"], "impl", lambda x: (calls.append(1), plain(x))[1])
    return calls


def test_what_was_looked_at_is_not_computed_again(counted):
    def f(x):
        y = np.sin(x)
        if y.sum() > 0 and bool(y[0] > -2) and len(y[y > 0]):
            y = y * 2
        return y.sum()

    runs = {
        "grad": lambda: fx.grad(f)(np.ones(2)),
        "value_and_grad": lambda: fx.value_and_grad(f)(np.ones(2)),
        "jvp": lambda: fx.jvp(f, (np.ones(2),), (np.ones(2),)),
        "vjp": lambda: fx.vjp(f, np.ones(2))[1](1.0),
        "vmap": lambda: fx.vmap(lambda x, k: f(x) * k, in_axes=(None, 0))(np.ones(2), np.ones(3)),
        "grad of vmap": lambda: fx.grad(lambda x: fx.vmap(lambda k: f(x) * k)(np.ones(3)).sum())(np.ones(2)),
        "vmap of grad": lambda: fx.vmap(lambda k, x: fx.grad(f)(x) * k, in_axes=(0, None))(np.ones(3), np.ones(2)),
    }
    for name, run in runs.items():
        counted.clear()
        run()
        assert len(counted) == 1, name


def test_under_vmap_only_unmapped_arguments_are_known():
    f = fx.vmap(lambda x, n: x * 2 if n > 0 else x, in_axes=(0, None))
    tree_close(f(array(1, 2), 1), array(2, 4))
    tree_close(f(array(1, 2), np.array(-1.0)), array(1, 2))
    with pytest.raises(ConcretizationError, match="vmap"):
        fx.vmap(lambda x: x * 2 if x > 0 else x)(array(1, 2))
    w = array(3, 4)
    tree_close(fx.vmap(lambda x: x + w.sum() if fnp.asarray(w)[0] > 0 else x)(array(1, 2)), array(8, 9))


def test_under_jit_python_scalars_that_are_looked_at_become_part_of_the_key():
    @fx.jit(backend="reference")
    def power(x, n, flag):
        y = x
        for _ in range(n - 1):
            y = y * x
        return y if flag else -y

    for n, flag in [(2, True), (3, True), (2, False), (2, True), (3, True)]:
        assert power(np.float64(2), n, flag) == (2**n if flag else -(2**n))
    info = power.cache_info()
    assert info.traces == 3 and info.hits == 2
    floats = jit(lambda x, t: x + 1 if t > 0.5 else x)
    for t in (0.0, -0.0, 1.0, math.nan, math.nan):
        floats(1.0, t)
    assert floats.cache_info().traces == 4  # -0.0 is another value than 0.0, a NaN is itself
    unseen = jit(lambda x, n: x * n)
    assert [unseen(2.0, n) for n in (1, 2, 3)] == [2, 4, 6]
    assert unseen.cache_info().traces == 1


def test_many_specializations_warn_once_with_the_line():
    f = jit(lambda x, n: x * 2 if n > 3 else x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(8):
            f(1.0, n)
    with pytest.warns(fx.errors.PerformanceWarning, match="argument 'n'") as caught:
        for n in range(8, 14):
            f(1.0, n)
    assert len(caught) == 1
    assert "test_values.py" in str(caught[0].message) and "n > 3" in str(caught[0].message)


def test_a_value_that_reaches_no_unknown_input_is_known_under_jit():
    def f(x):
        ramp = fnp.arange(3) * 2.0
        total = fnp.zeros(2)
        total += 4
        return x + 1 if ramp.sum() > 5 and total[0] == 4 and fnp.array([1, 2])[1] == 2 else x

    every_way(f, array(1, 2), expected=array(2, 3))
    w = np.ones(2)
    with pytest.raises(ConcretizationError, match="surrounding program"):
        jit(lambda x: x if fnp.asarray(w)[0] > 0 else -x)(array(1, 2))


def test_scalars_known_outside_are_known_in_a_nested_jit():
    inner = jit(lambda x, n: sum((x**k for k in range(n)), 0.0))
    assert fx.grad(lambda x: inner(x, 3))(2.0) == 5.0
    assert jit(lambda x, n: inner(x, n))(2.0, 3) == 7.0
    assert jit(lambda x, n: fx.grad(inner)(x, n))(2.0, 3) == 5.0
    with pytest.raises(ConcretizationError):
        fx.vmap(lambda x, n: inner(x, n))(array(1, 2), np.array([1, 2]))
