"""Find what heats a plate from a few thermometers: an inverse problem whose model is NumPy code that updates an array in place.

A plate is heated by a hot spot somewhere and conducts heat with an unknown diffusivity. Twelve thermometers, with noise, are read now and
then. The model (explicit steps, written into one array) is differentiated through time, its gradient checked against differences, and
L-BFGS finds place, size and power of the spot and the diffusivity.

Run: python examples/hotspot.py
"""

import time

import numpy
import scipy.optimize
from rich.console import Console
from rich.table import Table

import functx as fx
import functx.numpy as np

SIZE, STEPS, READ_EVERY = 32, 48, 8  # grid points along an edge of the plate (unit length), time steps
DT = 1e-3
NAMES = ("x", "y", "width", "power", "diffusivity")
TRUTH = numpy.array([0.62, 0.35, 0.12, 3.0, 0.2])
GUESS = numpy.array([0.4, 0.6, 0.25, 1.0, 0.1])
SENSORS = tuple(numpy.array([(i, j) for i in (6, 13, 19, 26) for j in (8, 16, 24)]).T)
NOISE = 1e-4


def readings(parameters):
    """Temperatures (readings, thermometers) of a plate that starts cold and whose edge is kept so."""
    x, y, width, power, diffusivity = parameters
    points = np.linspace(0.0, 1.0, SIZE)
    spot = power * np.exp(-((points[:, None] - x) ** 2 + (points - y) ** 2) / (2 * width**2))
    rate = diffusivity * DT * (SIZE - 1) ** 2
    plate = np.zeros((SIZE, SIZE))
    inner = plate[1:-1, 1:-1]
    seen = np.empty((STEPS // READ_EVERY, len(SENSORS[0])))
    for step in range(STEPS):
        inner += rate * (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:] - 4 * inner)
        inner += DT * spot[1:-1, 1:-1]
        if (step + 1) % READ_EVERY == 0:
            seen[step // READ_EVERY] = plate[SENSORS]
    return seen


def misfit(parameters, observed):
    """Mean square of the readings' errors, in units of the noise."""
    return (((readings(parameters) - observed) / NOISE) ** 2).mean()


misfit_and_gradient = fx.jit(fx.value_and_grad(misfit))


def differences(f, at, step=1e-5):
    """The gradient by central differences with one step of Richardson extrapolation."""
    out = numpy.empty_like(at)
    for i, unit in enumerate(numpy.eye(len(at))):
        near, far = ((f(at + h * unit) - f(at - h * unit)) / (2 * h) for h in (step, 2 * step))
        out[i] = (4 * near - far) / 3
    return out


def main():
    """Observe, check the gradient, and recover the parameters."""
    start = time.perf_counter()
    rng = numpy.random.default_rng(0)
    observed = readings(TRUTH)
    observed += NOISE * rng.normal(size=observed.shape)
    _, gradient = misfit_and_gradient(GUESS, observed)
    error = numpy.abs(gradient / differences(lambda p: misfit(p, observed), GUESS) - 1).max()
    print(f"gradient against differences: relative error {error:.1e} (functx compiled in {time.perf_counter() - start:.1f} s)")
    bounds = [(0.0, 1.0), (0.0, 1.0), (0.05, 0.5), (0.1, 10.0), (0.02, 0.24)]
    found = scipy.optimize.minimize(
        misfit_and_gradient, GUESS, args=(observed,), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "maxfun": 2000}
    )
    table = Table("", *NAMES, "mean square error / noise")
    for name, p in (("guess", GUESS), ("found", found.x), ("true", TRUTH)):
        table.add_row(name, *(f"{v:.4f}" for v in p), f"{misfit(p, observed):.3f}")
    Console().print(table)
    print(f"{found.nfev} evaluations of model and gradient, {time.perf_counter() - start:.1f} s altogether")
    worst = numpy.abs(found.x / TRUTH - 1).max()
    if error > 1e-6 or worst > 0.03:
        raise SystemExit(f"gradient error {error:.1e}, parameters off by {worst:.1%}")
    return error, worst


if __name__ == "__main__":
    main()
