"""Writes happen in place in compiled code: what is copied, what is allocated, and that the values are those of NumPy."""

import random
import re
import tracemalloc

import numpy as np
import pytest
from programs import LAYOUTS, laid_out

import functx as fx
from functx.backends.cpp.ops import CppTarget
from functx.backends.loops.lower import lower
from functx.backends.loops.nodes import Copy, Place
from functx.transforms.pipeline import optimize

# --- random programs ----------------------------------------------------------------------------------------------------------------------

N, ROWS, COLUMNS = 7, 5, 6


class Names:
    """What a program knows: its arguments u and w of shape (N,), m of (ROWS, COLUMNS), an index array k, an index j, and temporaries."""

    def __init__(self, u, w, m, k, j):
        self.u, self.w, self.m, self.k, self.j = u, w, m, k, j
        self.made = []


def vector(rng):
    """A function of the names that gives a vector of N elements which may be a view."""
    a, s = rng.choice("uw"), rng.uniform(-1, 1)
    return rng.choice(
        [
            lambda n: getattr(n, a),
            lambda n: s * getattr(n, a) + 0.5,
            lambda n: np.tanh(getattr(n, a)[::-1]),
            lambda n: np.tanh(n.m[1:3].sum(axis=0).sum() * getattr(n, a)),
            lambda n: np.cumsum(getattr(n, a)) / N,
            lambda n: next((t for t in reversed(n.made) if t.shape == (N,)), getattr(n, a)),
            lambda n: np.tanh(n.m[:, 1:3].sum() + getattr(n, a)),
        ]
    )


def part(rng):
    """Slices of a vector: (written, read), of one length, either way."""
    start, length, step = rng.randrange(0, 3), rng.randrange(1, 4), rng.choice([1, 1, 2, -1])
    other = rng.randrange(0, N - length)
    stop = start + length * abs(step)
    forward = slice(start, min(stop, N), abs(step))
    count = len(range(*forward.indices(N)))
    written = forward if step > 0 else slice(forward.start + count - 1, forward.start - 1 if forward.start else None, -1)
    return written, slice(other, other + count)


def statement(rng):
    """A statement as a function of the names, and its text."""
    a, b, s = rng.choice("uw"), rng.choice("uw"), round(rng.uniform(-1, 1), 2)
    (to, of), v, r, c = part(rng), vector(rng), rng.randrange(ROWS - 1), rng.randrange(COLUMNS - 1)

    def get(n, name):
        return getattr(n, name)

    def moved(x):
        """NumPy itself goes wrong where it copies between overlapping parts of a vector at different steps: ``u[0:6:2] = u[0:3]``."""
        return x if to.step in (1, -1) else x.copy()

    def write(index, value):
        def run(n):
            target, new = get(n, a), value(n)
            target[index(n)] = new

        return run

    def keep(value):
        return lambda n: n.made.append(value(n))

    def swap(n):
        x, y = (n.u, n.w) if s > 0 else (n.u[of], n.w[of])
        x[...], y[...] = y, x.copy()

    def stencil(n):
        x = get(n, a)
        x[1:-1] += 0.3 * (x[:-2] - 2 * x[1:-1] + x[2:])

    def plane(n):
        n.m[1:-1, 1:-1] = 0.25 * (n.m[:-2, 1:-1] + n.m[2:, 1:-1] + n.m[1:-1, :-2] + n.m[1:-1, 2:])

    def augmented(n):
        x = get(n, a)
        x *= 0.5
        x -= s * v(n)

    def region(n):
        x = get(n, a)
        x[to] += s * get(n, b)[of]

    def scatter(n):
        get(n, a)[n.k] += s * get(n, b)[n.k[::-1]]

    def added(n):
        np.add.at(get(n, a), n.k, 0.1 * get(n, b)[: len(n.k)])

    def element(n):
        x = get(n, a)
        x[n.j] = s + 0.5 * get(n, b)[n.j - 1]
        x[n.j] += x[0]

    def row(n):
        n.m[n.j] = 0.5 * n.m[n.j - 1]
        n.m[r : r + 2] *= s

    def rows(n):
        n.m[[r, r + 1]] = n.m[[r + 1, r]]

    def columns(n):
        n.m[:, c] -= n.m.mean(axis=1)
        n.m[:, ::2] += 0.1 * n.m[:, 1::2][::-1]

    def centred(n):
        x = n.m
        x -= x.mean(axis=0) if s > 0 else x.mean(axis=1, keepdims=True)

    def softmax(n):
        x = n.m
        x -= x.max(axis=1, keepdims=True)
        np.exp(x, out=x)
        x /= x.sum(axis=1, keepdims=True)

    def masked(n):
        x = get(n, a)
        x[x > 0.3] = s

    def sort(n):
        get(n, a).sort()

    def product(n):
        n.m[:] = np.tanh(n.m @ np.ones((COLUMNS, COLUMNS)) / COLUMNS)

    def momentum(n):
        u, w = n.u, n.w
        w[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
        u += 0.1 * w

    return rng.choice(
        [
            (write(lambda n: to, lambda n: moved(get(n, b)[of])), f"{a}[{to}] = {b}[{of}]"),
            (write(lambda n: to, lambda n: s * get(n, b)[of] + v(n)[of]), f"{a}[{to}] = {s}*{b}[{of}] + v"),
            (write(lambda n: to, lambda n: s), f"{a}[{to}] = {s}"),
            (write(lambda n: slice(None), v), f"{a}[:] = v"),
            (write(lambda n: slice(None), lambda n: get(n, a)[::-1]), f"{a}[:] = {a}[::-1]"),
            (write(lambda n: slice(1, None), lambda n: get(n, a)[:-1]), f"{a}[1:] = {a}[:-1]"),
            (write(lambda n: n.k, lambda n: get(n, b)[: n.k.size]), f"{a}[k] = {b}[:]"),
            (swap, f"swap {s > 0} {of}"),
            (stencil, f"stencil of {a}"),
            (plane, "stencil of m"),
            (augmented, f"{a} *= 0.5; {a} -= {s} * v"),
            (region, f"{a}[{to}] += {s} * {b}[{of}]"),
            (scatter, f"{a}[k] += {s} * {b}[k[::-1]]"),
            (added, f"add.at({a}, k, {b})"),
            (element, f"{a}[j] = {s} + 0.5*{b}[j-1]; {a}[j] += {a}[0]"),
            (row, f"m[j] = 0.5*m[j-1]; m[{r}:{r + 2}] *= {s}"),
            (rows, f"m[[{r}, {r + 1}]] = m[[{r + 1}, {r}]]"),
            (columns, f"m[:, {c}] -= mean; m[:, ::2] += m[:, 1::2][::-1]"),
            (centred, f"m -= mean {s > 0}"),
            (softmax, "softmax of m"),
            (masked, f"{a}[{a} > 0.3] = {s}"),
            (sort, f"sort {a}"),
            (product, "m[:] = m @ ones"),
            (momentum, "w += lap(u); u += w"),
            (keep(lambda n: get(n, a).copy()), f"keep {a}.copy()"),
            (keep(lambda n: s * get(n, a)), f"keep {s} * {a}"),
            (keep(lambda n: n.m[1] + n.m.sum(axis=0)), "keep m[1] + column sums"),
            (keep(lambda n: get(n, a)[2:5] * get(n, b)[1:4]), f"keep {a}[2:5]*{b}[1:4]"),
        ]
    )


class Program:
    """A random program; it returns the temporaries that it made, some changed afterwards."""

    def __init__(self, rng, length):
        self.steps = [statement(rng) for _ in range(length)]
        self.late = rng.random() < 0.5
        self.text = "\n".join(text for _, text in self.steps)

    def __call__(self, u, w, m, k, j):
        names = Names(u, w, m, k, j)
        for run, _ in self.steps:
            run(names)
        return [t + names.u[0] for t in names.made] if self.late else names.made


def arguments(rng, layouts):
    values = np.random.default_rng(rng.randrange(1000))
    shapes = [(N,), (N,), (ROWS, COLUMNS)]
    pairs = [laid_out(values.uniform(-1, 1, s), layout) for s, layout in zip(shapes, layouts, strict=True)]
    return [v for v, _ in pairs] + [values.integers(-N, N, 3), rng.randrange(1 - ROWS, ROWS)], [buffer for _, buffer in pairs]


def agree(got, expected, message):
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11, err_msg=message)


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_in_place_updates_equal_numpy(seed):
    """Sixteen programs per compilation; contiguous and other arguments; the first call goes through Python, the others do not."""
    rng = random.Random(seed)
    programs = [Program(rng, rng.randrange(1, 9)) for _ in range(16)]
    draws = [rng.randrange(1000) for _ in programs]

    def together(args):
        return [program(*own) for program, own in zip(programs, args, strict=True)]

    jitted = fx.jit(together, backend="cpp")
    for plainly in (True, False, True):
        layouts = [["C"] * 3 if plainly else [rng.choice(LAYOUTS) for _ in range(3)] for _ in programs]

        def fresh(layouts=layouts):
            return [arguments(random.Random(d), own) for d, own in zip(draws, layouts, strict=True)]

        for _ in range(2):
            plain, mine = fresh(), fresh()
            expected, got = together([a for a, _ in plain]), jitted([a for a, _ in mine])
            for k, program in enumerate(programs):
                message = f"{program.text}\non {layouts[k]}"
                for x, y in zip(got[k], expected[k], strict=True):
                    agree(x, y, message)
                    assert x.base is None and not any(np.shares_memory(x, a) for a in mine[k][1])
                for x, y in zip(mine[k][1], plain[k][1], strict=True):
                    agree(x, y, message)
    assert jitted._native_hits >= 2
    for k, program in enumerate(programs):  # a wrong index in one of them leaves the arguments of all as they were
        mine = [arguments(random.Random(d), ["C"] * 3) for d in draws]
        kept = [[buffer.copy() for buffer in buffers] for _, buffers in mine]
        mine[k][0][3][1], mine[k][0][4] = N + 3, 40
        if not re.search(r"\b[kj]\b", program.text):
            continue
        with pytest.raises(IndexError):
            jitted([a for a, _ in mine])
        for (_, buffers), before in zip(mine, kept, strict=True):
            for x, y in zip(buffers, before, strict=True):
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", [(300, 400), (100_003,)], ids=str)
def test_updates_of_many_elements_on_several_threads(shape):
    rng = np.random.default_rng(0)

    def f(x, y, rows):
        x[1:-1] += 0.1 * (x[:-2] - 2 * x[1:-1] + x[2:])
        x[rows] *= 0.5
        x[2:] = x[:-2]
        y[::-1] = 2 * y
        y -= y.mean(axis=0)
        x[:] = x[::-1] + y
        x[::-2] += 1.0
        np.sqrt(np.abs(x), out=x)

    jitted = fx.jit(f, backend="cpp")
    values = rng.standard_normal(shape), rng.standard_normal(shape), rng.integers(0, shape[0], 1000)
    for _ in range(3):
        plain, mine = [v.copy() for v in values], [v.copy() for v in values]
        f(*plain)
        jitted(*mine)
        for a, b in zip(mine, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# --- errors -------------------------------------------------------------------------------------------------------------------------------


def refuse(x):
    if x.sum() > 100:
        raise ZeroDivisionError("too much")
    return x


def wrong_index_last(x, y, i):
    x += 1
    y[1:] = x[:-1]
    y[i] = 0.0


def wrong_index_by_a_written_value(x, y, i):
    x[0] = i
    y[x[:2].astype(np.int64)] += 1.0
    x[1] = 5.0


def wrong_callback_last(x, y, i):
    x[:2] = 3.0
    x *= 2
    y += fx.lax.pure_callback(refuse, y * i, y * i)


def wrong_callback_of_a_written_value(x, y, i):
    x += i
    y[0] = fx.lax.pure_callback(refuse, x, x)[0]


@pytest.mark.parametrize(
    "f",
    [wrong_index_last, wrong_index_by_a_written_value, wrong_callback_last, wrong_callback_of_a_written_value],
    ids=lambda f: f.__name__,
)
def test_after_an_error_the_arguments_are_unchanged(f):
    jitted = fx.jit(f, backend="cpp")
    for layout in ("C", "C", "strided", "strided"):
        for i in (1, 1000, 1, -1000, 2):
            mine, plain = [laid_out(np.arange(4.0), layout)[0] for _ in range(2)], [np.arange(4.0) for _ in range(2)]
            fails = i == 1000 or i == -1000 and "index" in f.__name__
            if not fails:
                f(*plain, i)
                jitted(*mine, i)
            else:
                with pytest.raises((IndexError, ZeroDivisionError)):
                    jitted(*mine, i)
            for a, b in zip(mine, plain, strict=True):
                np.testing.assert_array_equal(a, b)
    assert jitted._native_hits > 10


def test_what_can_fail_runs_before_the_first_write():
    def f(x, y, i, j):
        x += 1
        y[i] = 2.0
        y[j] = 3.0
        x[j] = y[0]

    def g(x, y, i, j):
        x[i] = j * 2.0
        y[j] = 1.0
        x[j] += y[i]

    for h in (f, g):
        lowered = program(h, np.ones(4), np.ones(5), 1, 2)
        assert copies(lowered) == 0 and lowered.workspace_bytes == 0


# --- what is copied and allocated ---------------------------------------------------------------------------------------------------------


def program(f, *args):
    return lower(optimize(fx.make_ir(f)(*args)), CppTarget())


def copies(lowered):
    return sum(isinstance(step, Copy) for step in lowered.steps)


def allocated(f, *args):
    """The most bytes of arrays alive at a time that a native call makes."""
    jitted = fx.jit(f, backend="cpp")
    jitted(*args)
    before = jitted._native_hits
    tracemalloc.start()
    try:
        jitted(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert jitted._native_hits == before + 1


U, M = np.linspace(0, 1, 2000), np.ones((40, 50))


def sgd(params, grads):
    for p, g in zip(params, grads, strict=True):
        p -= 0.1 * g


def adam(p, g, m, v):
    m *= 0.9
    m += 0.1 * g
    v *= 0.99
    v += 0.01 * g * g
    p -= 0.1 * m / (np.sqrt(v) + 1e-8)


def set_element(x, i, v):
    x[i] = v


def chain(u, i, v):
    u[1:5] = 2.0
    u[i] = v
    u[7::3] += u[7::3]
    u[i] *= 2
    np.add.at(u, np.array([1, 1, 2]), 1.0)
    u[5:8] = 0.0


def leapfrog(u, v):
    v[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
    u += 0.1 * v


def centre(m):
    m -= m.mean(axis=1, keepdims=True)
    m -= m.mean(axis=0)


def overwrite(x, y):
    s = x.sum()
    x[:] = y * y
    return s


def by_product(m, w):
    t = m @ w
    s = m[0] + 0.0
    m[:] = t
    return s


WITHOUT_MEMORY = {
    "sgd": (sgd, ([U.copy(), M.copy()], [U.copy(), M.copy()])),
    "adam": (adam, (U.copy(), U.copy(), U.copy(), U.copy())),
    "set_element": (set_element, (U.copy(), 3, 1.0)),
    "chain": (chain, (U.copy(), 3, 1.0)),
    "leapfrog": (leapfrog, (U.copy(), U.copy())),
    "overwrite": (overwrite, (U.copy(), U.copy())),
}


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
def test_no_copy_and_no_scratch_memory(name):
    f, args = WITHOUT_MEMORY[name]
    lowered = program(f, *args)
    assert copies(lowered) == 0 and lowered.workspace_bytes == 0
    assert not any(s.place is Place.OUTPUT and v.aval.shape for v, s in lowered.storage.items())
    assert allocated(f, *args) < 1000  # numbers and a list; the arrays have 16000 bytes


def test_a_stencil_needs_one_temporary_of_the_written_region():
    def heat(u):
        u[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])

    def inside(m):
        m[10:20, 1:-1] = 0.25 * (m[9:19, 1:-1] + m[11:21, 1:-1] + m[10:20, :-2] + m[10:20, 2:])

    def shifted(u):
        u[1:] = u[:-1]

    for f, args, elements in ((heat, (U.copy(),), 1998), (inside, (M.copy(),), 480), (shifted, (U.copy(),), 1999)):
        lowered = program(f, *args)
        assert copies(lowered) == 0 and elements * 8 <= lowered.workspace_bytes < elements * 8 + 64
    assert allocated(heat, U.copy()) < 1000


def test_stencils_of_two_arrays_that_read_each_other():
    """Gray-Scott: one temporary each, though both new values need both old ones."""

    def react(u, v):
        reaction = u[1:-1] * v[1:-1] ** 2
        du = 0.2 * (u[:-2] - 2 * u[1:-1] + u[2:]) - reaction
        dv = 0.1 * (v[:-2] - 2 * v[1:-1] + v[2:]) + reaction
        u[1:-1] += du
        v[1:-1] += dv

    lowered = program(react, U.copy(), U.copy())
    assert copies(lowered) == 0 and lowered.workspace_bytes <= 2 * 16000


def test_a_small_temporary_instead_of_a_copy():
    """A value read before a write and used after it is kept, not the array from which it came."""

    def f(u):
        first = u[0] + 1.0
        u[5:] = 2.0
        return first * u[7]

    def scattered(u, k):
        u[k] += u[k[::-1]]

    assert copies(program(f, U.copy())) == 0 and program(f, U.copy()).workspace_bytes <= 64
    lowered = program(scattered, U.copy(), np.array([1, 2, 2]))
    assert copies(lowered) == 0 and lowered.workspace_bytes <= 64


def test_products_and_statistics_are_placed_around_the_old_value():
    lowered = program(by_product, np.ones((40, 40)), np.ones((40, 40)))
    assert copies(lowered) <= 1 and lowered.workspace_bytes <= 40 * 40 * 8
    lowered = program(centre, M.copy())
    assert copies(lowered) == 0 and lowered.workspace_bytes <= 4 * 64 + 2 * 50 * 8


def test_what_is_also_returned_is_a_copy():
    def f(x):
        before = x.copy()
        x *= 2
        return before, x.copy(), x

    jitted = fx.jit(f, backend="cpp")
    for _ in range(3):
        x = np.arange(5.0)
        before, after, same = jitted(x)
        assert same is x and not np.shares_memory(after, x) and not np.shares_memory(before, x)
        assert before.tolist() == [0, 1, 2, 3, 4] and after.tolist() == x.tolist() == [0, 2, 4, 6, 8]
    assert jitted.code(np.arange(5.0)).count("memcpy") == 2


def test_only_arguments_that_are_written_are_touched():
    def f(x, y):
        z = x * y
        z[1:3] = 0.0
        z[0] += 1.0
        return z

    jitted = fx.jit(f, backend="cpp")
    x, y = np.arange(5.0), np.ones(5)
    x.flags.writeable = y.flags.writeable = False
    for _ in range(3):
        assert jitted(x, y).tolist() == [1, 0, 0, 3, 4]


def test_the_code_says_what_is_updated_in_place():
    code = fx.jit(leapfrog, backend="cpp").code(U.copy(), U.copy())
    assert "updates inputs[1] in place" in code and "updates inputs[0] in place" in code and "memcpy" not in code
