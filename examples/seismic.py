"""Look into the ground with sound: the speeds of its layers from a seismogram, by the gradient of a wave simulation in NumPy.

A pulse at the surface runs down a column of ground and is recorded by geophones in a borehole. The simulation is leapfrog over three
buffers that change their roles, all written in place. Its derivative with respect to the speed in every layer, checked against
differences, tells Gauss and Newton's method how to correct the layers until the simulated seismogram is the recorded one.

Run: python examples/seismic.py
"""

import time

import numpy
import scipy.optimize
from rich.console import Console
from rich.table import Table

import functx as fx
import functx.numpy as np

LAYERS, CELLS = 6, 6  # layers of ground, cells in each
DEPTH = LAYERS * CELLS
DX, DT, STEPS = 20.0, 6.4e-3, 110  # metres, seconds
FREQUENCY = 8.0  # of the pulse, Hz
GEOPHONES = numpy.arange(4, DEPTH, 4)
TRUTH = numpy.array([1500.0, 1620.0, 1800.0, 1740.0, 2050.0, 2300.0])  # m/s
NOISE = 0.01  # of the largest amplitude


def pulse(t):
    """Ricker's wavelet."""
    a = (numpy.pi * FREQUENCY * (t - 0.15)) ** 2
    return (1 - 2 * a) * numpy.exp(-a)


def seismogram(speeds):
    """Pressure (time steps, geophones) for the speed of sound in every layer, m/s. The surface reflects, the bottom absorbs."""
    courant = np.repeat(speeds, CELLS) * (DT / DX)
    old, now, new = np.zeros(DEPTH), np.zeros(DEPTH), np.zeros(DEPTH)
    record = np.empty((STEPS, len(GEOPHONES)))

    def leapfrog(step, buffers):
        old, now, new = buffers
        new[1:-1] = 2 * now[1:-1] - old[1:-1] + courant[1:-1] ** 2 * (now[:-2] - 2 * now[1:-1] + now[2:])
        new[1] += pulse(step * DT)
        new[-1] = now[-2] + (courant[-1] - 1) / (courant[-1] + 1) * (new[-2] - now[-1])
        record[step] = new[GEOPHONES]
        return now, new, old

    fx.fori_loop(0, STEPS, leapfrog, (old, now, new))
    return record


def misfit(speeds, recorded):
    """Half the sum of squares of what the simulation gets wrong."""
    return 0.5 * ((seismogram(speeds) - recorded) ** 2).sum()


model = fx.jit(seismogram)
model_jacobian = fx.jit(fx.jacfwd(seismogram))


def invert(recorded, speeds):
    """Nonlinear least squares from ``speeds``, by SciPy's trust-region method with our Jacobian."""
    return scipy.optimize.least_squares(
        lambda speeds: (model(speeds) - recorded).ravel(),
        speeds,
        jac=lambda speeds: model_jacobian(speeds).reshape(-1, LAYERS),
        bounds=(1000.0, 3000.0),
        x_scale=1000.0,
    )


def main():
    """Record, check the gradient, and invert."""
    start = time.perf_counter()
    recorded = seismogram(TRUTH)
    recorded += NOISE * numpy.abs(recorded).max() * numpy.random.default_rng(0).normal(size=recorded.shape)
    guess = numpy.linspace(1500.0, 2400.0, LAYERS)
    slope, h = fx.grad(misfit)(guess, recorded), 0.05  # used once: not worth compiling
    differences = [(misfit(guess + h * unit, recorded) - misfit(guess - h * unit, recorded)) / (2 * h) for unit in numpy.eye(LAYERS)]
    error = numpy.abs(slope - differences).max() / numpy.abs(slope).max()
    print(f"gradient against differences: relative error {error:.1e}")
    solution = invert(recorded, guess)
    found = solution.x
    table = Table("layer", "depth m", "guess m/s", "found m/s", "true m/s")
    for i, speeds in enumerate(zip(guess, found, TRUTH, strict=True)):
        table.add_row(str(i + 1), f"{i * CELLS * DX:.0f}", *(f"{v:.0f}" for v in speeds))
    Console().print(table)
    noise = misfit(TRUTH, recorded)
    print(f"misfit: {misfit(guess, recorded):.2f} before, {solution.cost:.2f} after {solution.nfev} steps, {noise:.2f} of the noise alone")
    worst = numpy.abs(found / TRUTH - 1).max()
    print(f"every speed is right to {worst:.2%}; {time.perf_counter() - start:.1f} s altogether")
    if error > 1e-5 or worst > 0.01:
        raise SystemExit(f"gradient error {error:.1e}, speeds off by {worst:.1%}")
    return error, worst


if __name__ == "__main__":
    main()
