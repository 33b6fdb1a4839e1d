"""Random nestings of loops and choices do what plain Python loops do, under every transform. ``--long`` runs many more."""

import nestings
import numpy as np
import oracles
import pytest
from programs import derivative

import functx as fx

REFERENCE, COMPILED = 5_000, 500  # programs in the long mode
CHUNK, BATCH = 25, 20  # programs per test, and per compilation


def pytest_generate_tests(metafunc):
    long = metafunc.config.getoption("--long")
    if "reference_chunk" in metafunc.fixturenames:
        metafunc.parametrize("reference_chunk", range(REFERENCE // CHUNK if long else 4))
    if "compiled_batch" in metafunc.fixturenames:
        metafunc.parametrize("compiled_batch", range(COMPILED // BATCH if long else 1))


def close(got, wanted, what, tolerance=1e-10):
    """Equal to a tolerance in terms of the largest number."""
    assert np.shape(got) == np.shape(wanted), what
    assert np.all(np.abs(got - wanted) <= tolerance * (1.0 + np.max(np.abs(wanted), initial=0.0))), f"{got} is not {wanted}: {what}"


def slope(program, x, w, n, dx, dw):
    """The derivative along a direction by differences in long double; None where a choice changes on the way."""
    decisions = []

    def moved(t):
        value, taken = program.plain(x + t * dx, w + t * dw, n)
        decisions.append(taken)
        return value

    found = derivative(moved, 0.0, 1.0, 1e-4)
    return float(found) if all(taken == decisions[0] for taken in decisions) else None


def direction(seed):
    rng = np.random.default_rng(seed + 1)
    return rng.standard_normal(3), rng.standard_normal((3, 3))


GRADIENTS = (
    lambda f: fx.value_and_grad(f, (0, 1)),
    lambda f: oracles.reference_jit(fx.value_and_grad(f, (0, 1))),
    lambda f: fx.value_and_grad(fx.checkpoint(f), (0, 1)),
    lambda f: fx.value_and_grad(oracles.reference_jit(f), (0, 1)),
)


def check(seed):
    program, x, w, n = nestings.draw(seed)
    f, what = program.traced, f"n = {n}, seed {seed}:\n{program.text}"
    wanted, _ = program.plain(x, w, n)
    close(f(x, w, n), wanted, f"on concrete values, {what}", 1e-12)
    close(oracles.reference_jit(f)(x, w, n), wanted, f"jit, {what}", 1e-12)
    part = (check_reverse, check_forward, check_lanes, check_slopes_of_lanes)[seed % 4]
    part(seed // 4, program, x, w, n, what)


def check_reverse(seed, program, x, w, n, what):
    dx, dw = direction(seed)
    value, (gx, gw) = GRADIENTS[seed % 4](program.traced)(x, w, n)
    close(value, program.plain(x, w, n)[0], f"value_and_grad {seed % 4}, {what}", 1e-12)
    differences = slope(program, x, w, n, dx, dw)
    if differences is not None:
        close((gx * dx).sum() + (gw * dw).sum(), differences, f"grad {seed % 4} and differences, {what}", 1e-8)


def check_forward(seed, program, x, w, n, what):
    dx, dw = direction(seed)
    moved = lambda x, w: fx.jvp(lambda x, w: program.traced(x, w, n), (x, w), (dx, dw))  # noqa: E731
    value, tangent = (moved if seed % 2 else oracles.reference_jit(moved))(x, w)
    close(value, program.plain(x, w, n)[0], f"jvp, {what}", 1e-12)
    differences = slope(program, x, w, n, dx, dw)
    if differences is not None:
        close(tangent, differences, f"jvp and differences, {what}", 1e-8)


def mapped(seed, x, w, n):
    """Axes for some of the arguments, arguments of two lanes along them, and the arguments of each lane."""
    many = (np.stack([x, 0.9 - x]), np.stack([w, -w]), np.array([n, (n + 2) % 4]))
    axes = [(0, None, None), (None, 0, None), (0, 0, None), (0, None, 0)][seed % 4]
    args = [m if axis == 0 else one for m, axis, one in zip(many, axes, (x, w, n), strict=True)]
    return axes, args, [[a[k] if axis == 0 else a for a, axis in zip(args, axes, strict=True)] for k in range(2)]


def check_lanes(seed, program, x, w, n, what):
    axes, args, lanes = mapped(seed, x, w, n)
    run = fx.vmap(program.traced, axes)
    wanted = np.stack([program.plain(*lane)[0] for lane in lanes])
    close((run if seed % 3 else oracles.reference_jit(run))(*args), wanted, f"vmap over {axes}, {what}", 1e-12)


def check_slopes_of_lanes(seed, program, x, w, n, what):
    """vmap of grad and grad of vmap, in turn."""
    axes, args, lanes = mapped(seed, x, w, n)
    dx = direction(seed)[0]
    differences = [slope(program, *lane, dx, np.zeros((3, 3))) for lane in lanes]
    if None in differences:
        return
    if seed // 4 % 2:
        slopes = fx.vmap(fx.grad(program.traced), axes)(*args)
        close(slopes @ dx, np.array(differences), f"vmap of grad over {axes}, {what}", 1e-8)
    else:
        slopes = fx.grad(lambda x: fx.vmap(program.traced, axes)(x, *args[1:]).sum())(args[0])
        close((slopes @ dx).sum(), sum(differences), f"grad of vmap over {axes}, {what}", 1e-8)


def test_on_the_reference_backend(reference_chunk):
    for seed in range(reference_chunk * CHUNK, (reference_chunk + 1) * CHUNK):
        try:
            check(seed)
        except AssertionError:
            raise
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r} in\n{nestings.draw(seed)[0].text}")


def test_compiled(compiled_batch):
    """Values and gradients of many programs in one compilation."""
    seeds = range(10**6 + compiled_batch * BATCH, 10**6 + (compiled_batch + 1) * BATCH)
    drawn = [nestings.draw(seed) for seed in seeds]
    gradients = [fx.value_and_grad(program.traced, (0, 1)) for program, *_ in drawn]
    together = fx.jit(lambda inputs: [g(*args) for g, args in zip(gradients, inputs, strict=True)], backend="cpp")
    for seed, (program, *args), (value, (gx, gw)) in zip(seeds, drawn, together([args for _, *args in drawn]), strict=True):
        what = f"compiled, n = {args[2]}, seed {seed}:\n{program.text}"
        dx, dw = direction(seed)
        close(value, program.plain(*args)[0], what)
        differences = slope(program, *args, dx, dw)
        if differences is not None:
            close((gx * dx).sum() + (gw * dw).sum(), differences, f"gradient, {what}", 1e-7)
