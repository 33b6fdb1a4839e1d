"""From the Earth to Mars: a flight written in NumPy, differentiated through time to hit the planet.

A probe leaves the Earth's orbit and coasts under the gravity of the Sun, Jupiter and Mars (leapfrog steps that update position and velocity
in place). Its miss, where it is minus where Mars is on arrival, is a function of the velocity at departure; Newton's method with the
Jacobian of the whole simulation finds the velocity that brings the miss to nothing. A second function of the same flight, the burn that
leaving and arriving cost, is then minimized over departure date and travel time by its gradient.

Run: python examples/orbit.py
"""

import numpy
import scipy.optimize

import functx as fx
import functx.numpy as np

# Astronomical units and days. The Sun's GM is the square of Gauss's constant; planets run on circles in one plane (radii in au, masses in
# solar masses: NASA planetary fact sheets).
GM = 0.01720209895**2
RADIUS = {"earth": 1.0, "mars": 1.523679, "jupiter": 5.2026}
MASS = {"mars": 1 / 3098708, "jupiter": 1 / 1047.35}
KM_PER_AU = 149597870.7
KM_PER_S = KM_PER_AU / 86400.0  # of one au per day
STEPS = 60


def planet(name, angle, days):
    """Position and velocity of a planet that stood at ``angle`` radians on day 0."""
    r = RADIUS[name]
    speed = (GM / r) ** 0.5
    turned = angle + speed / r * days
    direction = np.stack([np.cos(turned), np.sin(turned)])
    return r * direction, speed * np.stack([-direction[1], direction[0]])


def gravity(position, mars, jupiter):
    """Acceleration of the probe (au/day^2). Mars is softened to a thousandth of an au, about its sphere of influence."""
    pull = -GM * position / (position @ position) ** 1.5
    for body, mass, soft in ((mars, MASS["mars"], 1e-3), (jupiter, MASS["jupiter"], 0.0)):
        away = position - body
        pull -= GM * mass * away / (away @ away + soft**2) ** 1.5
    return pull


def fly(velocity, days, angles):
    """The probe's path (STEPS + 1, 2) and its last velocity, from the Earth with ``velocity`` for ``days``."""
    dt = days / STEPS
    position, velocity = np.copy(planet("earth", 0.0, 0.0)[0]), np.copy(velocity)
    path = np.zeros((STEPS + 1, 2))
    path[0] = position

    def leapfrog(step, _):
        position[:] += velocity * (dt / 2)
        bodies = (planet(name, angles[name], (step + 0.5) * dt)[0] for name in ("mars", "jupiter"))
        velocity[:] += gravity(position, *bodies) * dt
        position[:] += velocity * (dt / 2)
        path[step + 1] = position

    fx.fori_loop(0, STEPS, leapfrog, None)
    return path, velocity


def miss(velocity, days, angles):
    """Where the probe is on arrival, as seen from Mars (au)."""
    return fly(velocity, days, angles)[0][-1] - planet("mars", angles["mars"], days)[0]


def aim(days, angles, rounds=12):
    """The velocity at departure that hits Mars: Newton's method on the miss."""
    velocity = planet("earth", 0.0, 0.0)[1] * 1.1
    for _ in range(rounds):
        error = miss_of(velocity, days, angles)
        velocity = velocity - numpy.linalg.solve(jacobian_of(velocity, days, angles), error)
        if numpy.abs(error).max() < 1e-10:
            break
    return velocity, float(numpy.hypot(*error))


def burn(velocity, days, angles):
    """What departure and arrival cost (au/day): the changes of speed against the Earth and Mars."""
    _, last = fly(velocity, days, angles)
    leave = velocity - planet("earth", 0.0, 0.0)[1]
    arrive = last - planet("mars", angles["mars"], days)[1]
    return (leave @ leave) ** 0.5 + (arrive @ arrive) ** 0.5


def total_derivative(velocity, days, angles):
    """How the burn of flights that hit Mars changes with travel time and Mars's angle at departure.

    The velocity follows from the two by miss = 0, so its part of the derivative comes from the implicit function theorem.
    """
    by_velocity, by_days, by_angle = burn_gradient(velocity, days, angles)
    miss_velocity, miss_days, miss_angle = miss_jacobians(velocity, days, angles)
    price = numpy.linalg.solve(miss_velocity.T, by_velocity)
    return numpy.array([by_days - price @ miss_days, by_angle["mars"] - price @ miss_angle["mars"]])


miss_of = fx.jit(miss)
jacobian_of = fx.jit(fx.jacfwd(miss))
burn_gradient = fx.jit(fx.grad(burn, argnums=(0, 1, 2)))
miss_jacobians = fx.jit(fx.jacfwd(miss, argnums=(0, 1, 2)))


def cheapest(days, mars, jupiter):
    """Travel time and Mars's angle at departure of the flight that burns least, by BFGS from the given one."""
    unit = numpy.array([100.0, 1.0])  # days and radians, so that both slopes are of one size

    def cost_and_slope(point):
        days, mars = (point * unit).tolist()
        angles = {"mars": mars, "jupiter": jupiter}
        velocity, _ = aim(days, angles)
        return burn(velocity, days, angles) * KM_PER_S, total_derivative(velocity, days, angles) * unit * KM_PER_S

    found = scipy.optimize.minimize(cost_and_slope, numpy.array([days, mars]) / unit, jac=True, method="BFGS", options={"gtol": 1e-4})
    return *(found.x * unit).tolist(), float(found.fun)


def main():
    """Hit Mars once, then look for the cheapest flight nearby."""
    days, angles = 220.0, {"mars": 0.9, "jupiter": 2.0}
    velocity, error = aim(days, angles)
    cost = burn(velocity, days, angles) * KM_PER_S
    print(f"aimed: misses Mars by {error * KM_PER_AU:.3f} km after {days:.0f} days, burn {cost:.2f} km/s")
    days, mars, cost = cheapest(days, **angles)
    print(f"cheapest: {days:.0f} days, Mars {numpy.degrees(mars):.1f} degrees ahead at departure, burn {cost:.2f} km/s")
    print("Hohmann's transfer between the circles, without Mars's and Jupiter's pull: 259 days, 44.3 degrees, 5.59 km/s")
    return error, days, mars, cost


if __name__ == "__main__":
    main()
