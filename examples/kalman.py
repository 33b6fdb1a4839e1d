"""What moves it, and how well is it seen? A Kalman filter fitted to noisy positions by the gradient of its likelihood.

Something moves in a plane, pushed about by friction and random kicks, and its position is measured with noise. The filter runs along the
measurements by ``fx.scan`` and gives their likelihood; the gradient of that (checked against differences) lets L-BFGS find friction and
both noises, with the errors to expect from the Hessian.

Run: python examples/kalman.py
"""

import time

import numpy
import scipy.optimize
from rich.console import Console
from rich.table import Table

import functx as fx
import functx.numpy as np

DT, STEPS = 0.1, 1500
NAMES = ("friction", "kicks", "noise")
TRUTH = numpy.array([0.5, 1.0, 0.3])
GUESS = numpy.array([2.0, 0.3, 1.0])
SEEN = numpy.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])  # of position and velocity (x, y, vx, vy)


def model(parameters):
    """How a state moves on in one step, and the covariances of the kicks and of a measurement."""
    friction, kicks, noise = parameters
    step, push = np.eye(4), np.zeros((4, 4))
    for axis in (0, 1):
        step[axis, 2 + axis] = DT
        step[2 + axis, 2 + axis] = np.exp(-friction * DT)
        push[2 + axis, 2 + axis] = kicks**2 * DT
    return step, push, noise**2 * np.eye(2)


def surprise(logarithms, measured):
    """Minus the log likelihood of measured (STEPS, 2), by the innovations of the filter (Durbin and Koopman, section 7.2)."""
    step, push, blur = model(np.exp(logarithms))

    def update(belief, seen):
        mean, covariance = step @ belief[0], step @ belief[1] @ step.T + push
        off, spread = seen - SEEN @ mean, SEEN @ covariance @ SEEN.T + blur
        (a, b), (c, d) = spread
        size = a * d - b * c
        inverse = np.stack([np.stack([d, -b]), np.stack([-c, a])]) / size
        gain = covariance @ SEEN.T @ inverse
        cost = 0.5 * (off @ inverse @ off + np.log(size)) + np.log(2 * np.pi)
        return (mean + gain @ off, covariance - gain @ SEEN @ covariance), cost

    return fx.scan(update, (np.zeros(4), np.eye(4)), measured)[1].sum()


surprise_and_gradient = fx.jit(fx.value_and_grad(surprise))
curvature = fx.jit(fx.hessian(surprise))


def observe(rng):
    """Noisy measurements of a random flight."""
    step, push, blur = model(TRUTH)
    state, measured = numpy.zeros(4), numpy.empty((STEPS, 2))
    for k in range(STEPS):
        state = step @ state + numpy.sqrt(push.diagonal()) * rng.standard_normal(4)
        measured[k] = SEEN @ state + numpy.sqrt(blur.diagonal()) * rng.standard_normal(2)
    return measured


def main():
    """Observe, check the gradient, fit, and compare with what made the data."""
    start = time.perf_counter()
    measured = observe(numpy.random.default_rng(3))
    at = numpy.log(GUESS)
    _, gradient = surprise_and_gradient(at, measured)
    ends = [[surprise_and_gradient(at + h * unit, measured)[0] for h in (1e-5, -1e-5)] for unit in numpy.eye(3)]
    error = numpy.abs(gradient / (numpy.diff(ends)[:, 0] / -2e-5) - 1).max()
    print(f"gradient against differences: relative error {error:.1e} (functx compiled in {time.perf_counter() - start:.1f} s)")
    found = scipy.optimize.minimize(surprise_and_gradient, at, args=(measured,), jac=True, method="L-BFGS-B")
    spread = numpy.sqrt(numpy.linalg.inv(curvature(found.x, measured)).diagonal())  # of the logarithms
    table = Table("", *NAMES, "log likelihood")
    for name, p in (("guess", at), ("found", found.x), ("true", numpy.log(TRUTH))):
        own = (f"{v:.3f}" + (f" ± {v * s:.3f}" if name == "found" else "") for v, s in zip(numpy.exp(p), spread, strict=True))
        table.add_row(name, *own, f"{-surprise_and_gradient(p, measured)[0]:.1f}")
    Console().print(table)
    away = numpy.abs(found.x - numpy.log(TRUTH)) / spread
    print(f"{found.nfev} evaluations; at most {away.max():.1f} standard errors from the truth; {time.perf_counter() - start:.1f} s in all")
    if error > 1e-5 or away.max() > 3.5 or not numpy.all(spread < 0.3):
        raise SystemExit(f"gradient error {error:.1e}, {away.max():.1f} standard errors from the truth")
    return error, away.max()


if __name__ == "__main__":
    main()
