"""rebind_numpy: functions of other packages traced without editing them, and without changing anything that others see."""

import functools
import inspect
import sys
import threading
import types

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.special
from oracles import assert_same, directional
from sklearn.gaussian_process.kernels import DotProduct

import functx as fx
import functx.numpy as fnp
from functx.errors import FunctxError, UnsupportedError

HELPERS = """
import numpy

def ramp(n, xp=numpy):
    return xp.arange(n) + 1.0

def table(x):
    out = numpy.zeros((2, len(x)))
    out[0] = x
    return out
"""

MODULE = '''
import functools
import numpy as np
import numpy.linalg as la
from functools import partial, lru_cache, wraps
from numpy import empty, asarray as as_array, multiply
from . import helpers
from .helpers import ramp

scale = 2.0
calls = 0

def weights(n):
    w = np.zeros(n)
    w[...] = scale
    return w

def direct(x):
    out = np.zeros(len(x))
    out[1:] = x[:-1] * x[1:]
    return out + weights(len(x))

def by_name(x):
    out = empty(len(x))
    multiply(x, 2, out=out)
    return as_array([out[0], x[1], 1.0]) * ramp(3)

def through_module(x):
    return helpers.table(x)[0] + la.norm(x)

def even(x, n):
    if n == 0:
        out = np.ones(len(x))
        out *= x
        return out
    return odd(x, n - 1)

def odd(x, n):
    return even(x, n - 1) * 2

def imports(x):
    import numpy as xp
    from numpy import zeros
    import numpy.linalg as la
    from .helpers import table as tabulated
    out = zeros(3)
    out[:] = x
    return xp.array([tabulated(out)[0, 1], la.norm(out), x[0]])

def make(power):
    def inner(x):
        out = np.zeros(3)
        out[:] = x ** power
        return out
    return inner

cubed = make(3)
doubled_cubes = (lambda g: lambda x: g(x) * 2)(cubed)

def closes_over(xp, helper, count):
    steps = []
    def inner(x):
        nonlocal count
        count += 1
        steps.append(count)
        out = xp.zeros(3)
        out[:] = x
        return helper(out) if count < 100 else inner
    inner.steps = steps
    return inner

local = closes_over(np, direct, 0)

def logged(f):
    @wraps(f)
    def call(*args, **kwargs):
        call.count += 1
        return f(*args, **kwargs)
    call.count = 0
    return call

@logged
def decorated(x, *, by=3.0):
    out = np.zeros(3)
    out += x * by
    return out

tripled = partial(decorated, by=9.0)

class Base:
    def __init__(self, n):
        self.buffer = np.zeros(n)
        self.calls = 0

    def add(self, x):
        self.buffer += x
        return self.buffer

class Solver(Base):
    """Adds up."""

    def __init__(self, n, rate):
        super().__init__(n)
        self.rate = rate

    @property
    def total(self):
        return np.asarray([self.buffer.sum()])

    @classmethod
    def of(cls, n):
        return cls(n, 2.0)

    @staticmethod
    def start(x):
        return np.zeros(len(x)) + x

    def run(self, x):
        self.calls += 1
        assert isinstance(self, Solver) and isinstance(self, Base)
        return super().add(self.start(x) * self.rate) * self.total

    def fresh(self, x):
        out = np.zeros(3)
        out[1:] = x[1:] * self.rate
        return self.start(out)

    def __call__(self, x):
        return self.fresh(x) + 1

def uses_class(x):
    return Solver.of(3).run(x) + Solver(3, 1.0).run(x)

solver = Solver(3, 5.0)

def checks(x):
    if not isinstance(x, np.ndarray):
        raise TypeError(type(x))
    if isinstance(x[0], np.floating) and isinstance(x, (list, np.ndarray)) and not isinstance(x, float):
        return np.array([x[0], 1.0])
    return None

@lru_cache
def nodes(n):
    return np.linspace(0.0, 1.0, n)

def cached(x):
    out = np.zeros(3)
    out[:] = nodes(3) * x
    return out

def counts(x):
    global calls
    calls += 1
    return x * calls

def calls_counts(x):
    out = np.zeros(3)
    out[:] = counts(x)
    return out

def inner_class(x):
    class Box:
        xp = np
        factor = scale
        def get(self):
            out = self.xp.zeros(3)
            out[:] = x * self.factor
            return out
    return Box().get()

def generates(x):
    parts = [np.array([v, v]) for v in x]
    return np.concatenate([*(p * w for p, w in zip(parts, weights(3)))])

def read_only(x):
    out = np.broadcast_to(np.zeros(1), (3,))
    out[0] = x[0]
'''


def make_package(name="plainpkg"):
    """A package of plain NumPy code that nobody has imported before."""
    package = types.ModuleType(name)
    package.__path__ = []
    helpers, module = types.ModuleType(f"{name}.helpers"), types.ModuleType(f"{name}.module")
    for m, text in ((helpers, HELPERS), (module, MODULE)):
        m.__package__ = name
        sys.modules.update({name: package, f"{name}.helpers": helpers})
        package.helpers = helpers
        exec(compile(text, f"/{m.__name__.replace('.', '/')}.py", "exec"), m.__dict__)
    return module


@pytest.fixture
def module():
    yield make_package()
    for name in ("plainpkg", "plainpkg.helpers"):
        del sys.modules[name]


X = np.array([1.0, 2.0, 4.0])

# What is called, by an expression over the module; arguments beside x.
CALLS = {
    "direct": (),
    "by_name": (),
    "through_module": (),
    "even": (4,),
    "imports": (),
    "cubed": (),
    "doubled_cubes": (),
    "local": (),
    "decorated": (),
    "tripled": (),
    "uses_class": (),
    "solver.fresh": (),
    "solver": (),
    "Solver.start": (),
    "checks": (),
    "cached": (),
    "inner_class": (),
    "generates": (),
}


def found(module, path):
    return functools.reduce(getattr, path.split("."), module)


@pytest.mark.parametrize("path", CALLS)
def test_traced_as_it_is_run(module, path):
    f, rest = found(module, path), CALLS[path]
    expected = f(X, *rest)
    g = fx.rebind_numpy(f)
    assert_same(g(X, *rest), expected)  # outside a trace
    for h in (g, fx.jit(g, static_argnums=(1,) if rest else (), backend="reference")):
        assert_same(h(X.copy(), *rest), expected)
    direction, weight = np.array([1.0, -2.0, 0.5]), np.cos(np.arange(np.size(expected)))
    gradient = fx.grad(lambda x: (g(x, *rest).ravel() * weight).sum())(X)
    slope = directional(lambda x: f(x, *rest).ravel() @ weight, (X,), (direction,))
    np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-7, atol=1e-7)
    batch = np.stack([X, X + 1])
    np.testing.assert_allclose(fx.vmap(lambda x: g(x, *rest))(batch), np.stack([f(x, *rest) for x in batch]))


@pytest.mark.parametrize("path", ["direct", "by_name", "even", "local", "decorated", "uses_class", "solver.fresh", "imports"])
def test_these_need_it(module, path):
    with pytest.raises(FunctxError, match="traced"):
        fx.jit(found(module, path), static_argnums=(1,), backend="reference")(X, *CALLS[path])


def test_nothing_is_changed_in_the_module(module):
    before = {name: dict(vars(m)) for name, m in (("module", module), ("helpers", module.helpers))}
    classes = {name: dict(vars(v)) for name, v in vars(module).items() if isinstance(v, type)}
    cell = module.cubed.__closure__[0].cell_contents
    for path, rest in CALLS.items():
        g = fx.rebind_numpy(found(module, path))
        fx.grad(lambda x, g=g, rest=rest: g(x, *rest).sum())(X)
    assert before == {name: dict(vars(m)) for name, m in (("module", module), ("helpers", module.helpers))}
    assert classes == {name: dict(vars(v)) for name, v in vars(module).items() if isinstance(v, type)}
    assert module.cubed.__closure__[0].cell_contents is cell
    assert module.np is np
    assert type(module.weights(2)) is np.ndarray


def test_globals_are_read_live(module):
    g = fx.rebind_numpy(module.direct)
    first = g(X)
    module.scale = 7.0
    assert_same(g(X), first + 5.0)
    module.weights = lambda n: np.full(n, 1.0)
    assert_same(g(X), first - 1.0)


def test_names_that_do_not_exist_stay_so(module):
    def f():
        return undefined_name  # noqa: F821

    with pytest.raises(NameError, match="undefined_name"):
        fx.rebind_numpy(f)()


def test_state_of_closures_and_objects_is_shared(module):
    local = fx.rebind_numpy(module.local)
    local(X)
    module.local(X)
    local(X)
    assert module.local.steps == [1, 2, 3]
    run = fx.rebind_numpy(module.solver.run)
    run(X)
    assert module.solver.calls == 1
    assert module.solver.buffer.any()


def test_signature_and_names(module):
    g = fx.rebind_numpy(module.decorated)
    assert inspect.signature(g) == inspect.signature(module.decorated)
    assert (g.__name__, g.__qualname__, g.__module__) == ("decorated", "decorated", "plainpkg.module")
    h = fx.rebind_numpy(module.helpers.ramp)
    assert h.__defaults__ == (fnp,)
    assert not hasattr(h, "__wrapped__")
    solver = fx.rebind_numpy(module.Solver)
    assert issubclass(solver, module.Solver) and solver.__doc__ == "Adds up."


def test_lines_of_errors_are_the_packages(module):
    with pytest.raises(ValueError, match="read-only") as caught:
        fx.jit(fx.rebind_numpy(module.read_only), backend="reference")(X)
    assert caught.traceback[-1].frame.code.name == "read_only" or "plainpkg" in str(caught.traceback[-1].path)


def test_functions_that_assign_globals_run_as_they_are(module):
    x = 3.0
    out = fx.grad(lambda x: fx.rebind_numpy(module.calls_counts)(x).sum())(x)
    assert (out, module.calls) == (3.0, 1)
    with pytest.raises(UnsupportedError, match="assigns to a global name"):
        fx.rebind_numpy(module.counts)


def test_caches_hold_no_traced_values(module):
    g = fx.rebind_numpy(module.cached)
    fx.jit(g, backend="reference")(X)
    assert type(module.nodes(3)) is np.ndarray


def test_other_packages_only_when_named():
    module, other = make_package("plainpkg"), make_package("otherpkg")

    def f(x):
        return other.direct(x) + 0 * module.direct(x)

    try:
        with pytest.raises(FunctxError, match="traced"):
            fx.grad(lambda x: fx.rebind_numpy(f)(x).sum())(X)
        for modules in (["plainpkg", "otherpkg"], [module, other], ["plainpkg.module", "otherpkg.module"]):
            assert_same(fx.grad(lambda x, m=modules: fx.rebind_numpy(f, modules=m)(x).sum())(X), np.array([2.0, 5.0, 2.0]))
        with pytest.raises(FunctxError, match="traced"):
            fx.grad(lambda x: fx.rebind_numpy(f, modules=["plainpkg", "otherpk"])(x).sum())(X)
    finally:
        for name in ("plainpkg", "otherpkg"):
            del sys.modules[name], sys.modules[name + ".helpers"]


def test_as_a_decorator():
    @fx.rebind_numpy
    def f(x):
        out = np.zeros(2)
        out[:] = x
        return out.sum()

    @fx.rebind_numpy(modules="scipy")
    def g(x):
        return scipy.optimize.rosen(x)

    assert fx.grad(f)(3.0) == 2.0
    assert_same(fx.grad(g)(X), scipy.optimize.rosen_der(X))


@pytest.mark.parametrize("f", [len, np.sin, np.linalg.norm, 3, functools.lru_cache(lambda x: x)])
def test_what_is_no_python_code(f):
    if f is np.sin:
        assert fx.rebind_numpy(f) is fnp.sin
    else:
        with pytest.raises(TypeError, match="rebind_numpy takes a function with Python code"):
            fx.rebind_numpy(f)


def test_threads_and_plain_calls_at_once(module):
    """Each thread traces by itself; those that call the package plainly see plain NumPy all the while."""
    g = fx.rebind_numpy(module.uses_class)
    expected, slope = module.uses_class(X), fx.grad(lambda x: g(x).sum())(X)
    problems, start = [], threading.Barrier(6)

    def traced():
        start.wait()
        for _ in range(15):
            mine = fx.rebind_numpy(module.uses_class)
            for f in (g, mine):
                np.testing.assert_array_equal(fx.grad(lambda x, f=f: f(x).sum())(X), slope)

    def plain():
        start.wait()
        for _ in range(150):
            np.testing.assert_array_equal(module.uses_class(X), expected)
            assert type(module.weights(3)) is np.ndarray

    def guarded(work):
        try:
            work()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (traced, plain) * 3]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert problems == []


X6 = np.linspace(0.3, 1.5, 6)
NINE = np.linspace(0.0, 2.0, 9) ** 2
SQUARE = np.arange(9.0).reshape(3, 3) + 5 * np.eye(3)

INSTALLED = {
    "rosen": (scipy.optimize.rosen, (X6,)),
    "rosen_der": (scipy.optimize.rosen_der, (X6,)),
    "rosen_hess": (scipy.optimize.rosen_hess, (X6,)),
    "rosen_hess_prod": (scipy.optimize.rosen_hess_prod, (X6, X6 * 2)),
    "trapezoid": (scipy.integrate.trapezoid, (X6,)),
    "simpson": (scipy.integrate.simpson, (X6,)),
    "cumulative_trapezoid": (scipy.integrate.cumulative_trapezoid, (X6,)),
    "romb": (scipy.integrate.romb, (NINE,)),
    "leslie": (scipy.linalg.leslie, (X6, X6[:-1])),
    "fiedler": (scipy.linalg.fiedler, (X6,)),
    "block_diag": (scipy.linalg.block_diag, (SQUARE, SQUARE * 2)),
    "khatri_rao": (scipy.linalg.khatri_rao, (SQUARE, SQUARE * 2)),
    "general_cosine": (lambda a: scipy.signal.windows.general_cosine(7, a), (X6,)),
    "krogh_interpolate": (lambda y: scipy.interpolate.krogh_interpolate(X6, y, 0.7), (X6**2,)),
    "softmax": (scipy.special.softmax, (X6,)),
    "logsumexp": (scipy.special.logsumexp, (X6,)),
    "scikit-learn's DotProduct": (DotProduct(0.7), (SQUARE, SQUARE * 2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INSTALLED)
def test_functions_of_installed_packages(name):
    f, args = INSTALLED[name]
    g = fx.rebind_numpy(f, modules=["scipy", "sklearn"])
    expected = np.asarray(f(*args))
    np.testing.assert_allclose(fx.jit(g, backend="reference")(*args), expected, rtol=1e-12)
    weight = np.cos(np.arange(expected.size)).reshape(expected.shape)
    directions = [np.sin(np.arange(a.size)).reshape(a.shape) for a in args]
    gradients = fx.grad(lambda *a: (g(*a) * weight).sum(), argnums=tuple(range(len(args))))(*args)
    slope = directional(lambda *a: (f(*a) * weight).sum(), args, directions)
    np.testing.assert_allclose(sum((p * d).sum() for p, d in zip(gradients, directions, strict=True)), slope, rtol=1e-6, atol=1e-6)
