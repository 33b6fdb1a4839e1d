"""A satellite that comes back: the Arenstorf orbit, found by Newton's method through an adaptive Runge-Kutta solver.

A small body moves about the Earth and the Moon (the restricted three-body problem); close to them it needs steps ten thousand times
smaller than far away. The solver chooses its steps in ``fx.while_loop``, so their number is known only afterwards; its derivatives, in
forward and reverse mode, are checked against differences. An orbit that crosses the axis at a right angle after half its period is closed:
Newton's method on that finds speed and period, which are known to many digits (Hairer, Norsett, Wanner: Solving Ordinary Differential
Equations I, page 129).

Run: python examples/adaptive_ode.py
"""

import time

import numpy

import functx as fx
import functx.numpy as np

MOON = 0.012277471  # its part of the mass of both
START = 0.994  # close to the Moon
SPEED, PERIOD = -2.00158510637908, 17.0652165601580
TOLERANCE = 1e-11

# The method of Dormand and Prince, of order 5 with an error estimate of order 4.
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def motion(state):
    """The rate of change of position and velocity (x, y, vx, vy) in a frame that turns with Earth and Moon."""
    x, y, vx, vy = state
    earth = ((x + MOON) ** 2 + y**2) ** 1.5
    moon = ((x - (1 - MOON)) ** 2 + y**2) ** 1.5
    ax = x + 2 * vy - (1 - MOON) * (x + MOON) / earth - MOON * (x - (1 - MOON)) / moon
    ay = y - 2 * vx - (1 - MOON) * y / earth - MOON * y / moon
    return np.stack([vx, vy, ax, ay])


def solve(state, duration):
    """The state after a duration, and the number of steps."""

    def step(carry):
        t, state, size, count = carry
        size = np.minimum(size, duration - t)
        slopes = [motion(state)]
        for weights in STAGES:
            new = state + size * sum(w * k for w, k in zip(weights, slopes, strict=True))
            slopes.append(motion(new))
        off = size * sum(w * k for w, k in zip(ERROR, slopes, strict=True)) / (TOLERANCE * (1 + np.abs(state)))
        off = fx.stop_gradient(np.sqrt((off * off).mean()))  # how steps are chosen is no part of the solution
        good = off <= 1
        factor = np.clip(0.9 * (off + 1e-30) ** -0.2, 0.2, 5.0)
        return np.where(good, t + size, t), np.where(good, new, state), size * factor, count + 1

    _, state, _, count = fx.while_loop(lambda carry: carry[0] < duration, step, (0.0 * duration, state, 1e-4, 0))
    return state, count


def crossing(unknown):
    """Height and horizontal speed at half the period; both are 0 for a closed orbit. Unknown: speed at the start and half the period."""
    speed, half = unknown
    (_, y, vx, _), count = solve(np.stack([START, 0.0, 0.0, speed]), half)
    return np.stack([y, vx]), count


jacobian = fx.jit(fx.jacfwd(lambda unknown: crossing(unknown)[0]))
cross = fx.jit(crossing)
gradient = fx.jit(fx.grad(lambda unknown: crossing(unknown)[0] @ np.array([1.0, 0.3])))


def main():
    """Check the derivatives and find the orbit."""
    start = time.perf_counter()
    unknown = numpy.array([SPEED - 2e-4, PERIOD / 2 + 1e-2])
    rows = jacobian(unknown)
    steps = (2e-8, 1e-5)
    ends = [[cross(unknown + s * h * unit)[0] for s in (1, -1)] for h, unit in zip(steps, numpy.eye(2), strict=True)]
    differences = numpy.stack([(a - b) / (2 * h) for (a, b), h in zip(ends, steps, strict=True)], 1)
    error = numpy.abs(rows / differences - 1).max()
    both = numpy.abs(gradient(unknown) / (numpy.array([1.0, 0.3]) @ rows) - 1).max()
    print(f"Jacobian through {cross(unknown)[1]} steps, against differences: {error:.1e}; reverse against forward mode: {both:.1e}")
    for _ in range(8):
        off, count = cross(unknown)
        print(f"speed {unknown[0]:.10f}, period {2 * unknown[1]:.10f}: misses by {numpy.abs(off).max():.1e} ({count} steps)")
        if numpy.abs(off).max() < 1e-9:
            break
        unknown = unknown - numpy.linalg.solve(jacobian(unknown), off)
    speed, period = unknown[0], 2 * unknown[1]
    print(f"found in {time.perf_counter() - start:.1f} s; known: speed {SPEED:.10f}, period {PERIOD:.10f}")
    wrong = max(abs(speed - SPEED), abs(period - PERIOD))
    if error > 1e-4 or both > 1e-8 or wrong > 1e-7:
        raise SystemExit(f"Jacobian error {error:.1e}, modes differ by {both:.1e}, off by {wrong:.1e}")
    return error, both, wrong


if __name__ == "__main__":
    main()
