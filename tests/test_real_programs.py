"""Real programs with in-place updates do under jit, grad and vmap what they do in NumPy."""

import copy

import numpy as np
import pytest
from oracles import assert_same, directional
from real_programs import PROGRAMS

import functx as fx

ALL = pytest.mark.parametrize("name", PROGRAMS)
SMOOTH = pytest.mark.parametrize("name", [name for name, p in PROGRAMS.items() if p.smooth])


def traceable(program):
    """The program with its np.zeros and np.arange bound to functx.numpy: it is plain NumPy code."""
    return fx.rebind_numpy(program.f)


def run(f, args):
    """The result, and the arguments afterwards."""
    args = copy.deepcopy(args)
    return f(*args), list(args)


@pytest.mark.parametrize("backend", ["reference", "cpp"])
@ALL
def test_jit_is_numpy(name, backend):
    program = PROGRAMS[name]
    jitted = fx.jit(traceable(program), backend=backend)
    for seed in (0, 1):
        got, expected = (run(f, program.small(seed)) for f in (jitted, program.f))
        assert_same(list(got), list(expected), rtol=program.tolerance, atol=program.tolerance, what=name)
    assert jitted.cache_info().traces == 1


@ALL
def test_functionalized(name):
    program = PROGRAMS[name]
    args = program.small(0)
    out, mutated = fx.functionalize(traceable(program))(*args)
    expected, after = run(program.f, args)
    assert_same(out, expected, rtol=program.tolerance, atol=program.tolerance)
    for given, fresh, new, numpys in zip(args, program.small(0), mutated, after, strict=True):
        assert_same(given, fresh)
        assert_same(given if new is None else new, numpys, rtol=program.tolerance, atol=program.tolerance)


def total(f):
    """One number that everything in the results and the arguments afterwards plays a part in."""

    def loss(*args):
        args = [a.copy() if np.ndim(a) else a for a in args]
        out = f(*args)
        leaves = [a for a in fx.tree.leaves((out, args)) if getattr(a, "dtype", None) in (np.float64, np.complex128)]
        parts = [part for a in leaves for part in ((a.real, a.imag) if np.iscomplexobj(a) else (a,))]
        return sum((part * np.cos(1.0 + i + np.arange(part.size)).reshape(part.shape)).sum() for i, part in enumerate(parts))

    return loss


def direction_for(args, smooth):
    rng = np.random.default_rng(5)
    step = [rng.normal(size=np.shape(a)) for a in args]
    step = [s + 1j * rng.normal(size=s.shape) if np.iscomplexobj(a) else s for s, a in zip(step, args, strict=True)]
    return [(s if np.ndim(a) else float(s)) if i in smooth else None for i, (a, s) in enumerate(zip(args, step, strict=True))]


@SMOOTH
def test_gradients_are_differences(name):
    program = PROGRAMS[name]
    args = program.small(0)
    direction = direction_for(args, program.smooth)
    gradients = fx.grad(total(traceable(program)), argnums=program.smooth)(*args)
    along = sum(np.real(np.conj(g) * direction[i]).sum() for g, i in zip(gradients, program.smooth, strict=True))
    np.testing.assert_allclose(along, directional(total(program.f), args, direction, step=1e-4), rtol=1e-6, atol=1e-7)
    for given, fresh in zip(args, program.small(0), strict=True):
        assert_same(given, fresh)


@pytest.mark.parametrize("name", ["heat", "lattice Boltzmann", "particle deposit", "LU", "Cholesky", "Thomas"])
def test_compiled_gradients(name):
    program = PROGRAMS[name]
    args = program.small(0)
    gradient = fx.grad(total(traceable(program)), argnums=program.smooth)
    for got, expected in zip(fx.jit(gradient)(*args), gradient(*args), strict=True):
        assert_same(got, expected, rtol=1e-9, atol=1e-11)


@ALL
def test_vmap_is_the_loop(name):
    program = PROGRAMS[name]
    examples = [program.small(seed) for seed in (0, 1)]
    batch = [np.stack([e[i] for e in examples]) if i in program.mapped else examples[0][i] for i in range(len(examples[0]))]
    shared = [[e[i] if i in program.mapped else examples[0][i] for i in range(len(e))] for e in examples]
    loops = [run(program.f, e) for e in shared]
    axes = tuple(0 if i in program.mapped else None for i in range(len(batch)))
    got, mutated = fx.vmap(fx.functionalize(traceable(program)), in_axes=axes)(*batch)
    for value, *lanes in zip(fx.tree.leaves(got), *(fx.tree.leaves(out) for out, _ in loops), strict=True):
        assert_same(value, np.stack(lanes), rtol=program.tolerance, atol=program.tolerance)
    for i, new in enumerate(mutated):
        if new is not None:
            assert_same(new, np.stack([after[i] for _, after in loops]), rtol=program.tolerance, atol=program.tolerance)
    written = all(i in program.mapped for i, new in enumerate(mutated) if new is not None)
    if written:
        fx.vmap(traceable(program), in_axes=axes)(*batch)
        for i in program.mapped:
            assert_same(batch[i], np.stack([after[i] for _, after in loops]), rtol=program.tolerance, atol=program.tolerance)
