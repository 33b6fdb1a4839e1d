"""Programs as scientists write them in NumPy: buffers filled and updated in place, views, ``out=``, ``np.add.at``.

Nothing here knows functx. Each entry of PROGRAMS has arguments small enough to compile in a few seconds (Python loops unroll) and larger
ones, with as many steps, for benchmarks/in_place.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# --- partial differential equations -------------------------------------------------------------------------------------------------------


def heat(u, rate, steps):
    """Heat conduction on a plate whose edge keeps its temperature: explicit steps in place."""
    for _ in range(steps):
        u[1:-1, 1:-1] += rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])


def wave(displacement, speed, steps):
    """A string plucked at rest, by leapfrog over three buffers that change their roles; the record of its middle."""
    old, now, new = displacement.copy(), displacement, np.zeros_like(displacement)
    record = np.empty(steps)
    courant = (speed * 0.5) ** 2
    for t in range(steps):
        new[1:-1] = 2 * now[1:-1] - old[1:-1] + courant[1:-1] * (now[:-2] - 2 * now[1:-1] + now[2:])
        old, now, new = now, new, old
        record[t] = now[now.size // 2]
    displacement[:] = now
    return record


def laplacian(a, out):
    """The five-point Laplacian of a periodic field."""
    np.multiply(a, -4.0, out=out)
    out[1:] += a[:-1]
    out[0] += a[-1]
    out[:-1] += a[1:]
    out[-1] += a[0]
    out[:, 1:] += a[:, :-1]
    out[:, 0] += a[:, -1]
    out[:, :-1] += a[:, 1:]
    out[:, -1] += a[:, 0]


def gray_scott(u, v, feed, kill, steps):
    """Reaction and diffusion of two substances (Gray and Scott 1983), with scratch buffers that every step uses again."""
    lu, lv, uvv = np.empty_like(u), np.empty_like(v), np.empty_like(u)
    for _ in range(steps):
        laplacian(u, lu)
        laplacian(v, lv)
        np.multiply(v, v, out=uvv)
        uvv *= u
        u += 0.16 * lu - uvv + feed * (1 - u)
        v += 0.08 * lv + uvv - (feed + kill) * v
    return v.mean()


def jacobi(u, source, steps):
    """Poisson's equation by Jacobi's iteration between two buffers; the last change."""
    new = u.copy()
    for _ in range(steps):
        new[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - source[1:-1, 1:-1]) / 4
        u, new = new, u
    return u, np.abs(u - new).max()


def red_black(u, source, steps):
    """The same by Gauss and Seidel's iteration in red-black order: four strided sublattices, each reading the others' news."""
    for _ in range(steps):
        for i, j in ((1, 1), (2, 2), (1, 2), (2, 1)):
            rows, columns = slice(i, -1, 2), slice(j, -1, 2)
            up, down = slice(i - 1, -2, 2), slice(i + 1, None, 2)
            left, right = slice(j - 1, -2, 2), slice(j + 1, None, 2)
            u[rows, columns] = (u[up, columns] + u[down, columns] + u[rows, left] + u[rows, right] - source[rows, columns]) / 4


DIRECTIONS = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def lattice_boltzmann(f, solid, relaxation, steps):
    """Flow around a solid, D2Q9 with one relaxation time and bounce-back at the solid; density and velocity at the end."""
    rho = np.empty(f.shape[1:])
    velocity = np.zeros((2, *f.shape[1:]))
    for _ in range(steps):
        for i, (dx, dy) in enumerate(DIRECTIONS):
            f[i] = np.roll(f[i], (dx, dy), axis=(0, 1))
        streamed = f.copy()
        f.sum(axis=0, out=rho)
        velocity[:] = 0.0
        for i, (dx, dy) in enumerate(DIRECTIONS):
            velocity[0] += dx * f[i]
            velocity[1] += dy * f[i]
        velocity /= rho
        square = 1.5 * (velocity**2).sum(axis=0)
        for i, (dx, dy) in enumerate(DIRECTIONS):
            along = 3 * (dx * velocity[0] + dy * velocity[1])
            f[i] -= relaxation * (f[i] - WEIGHTS[i] * rho * (1 + along + 0.5 * along**2 - square))
            f[i][solid] = streamed[OPPOSITE[i]][solid]
    return rho, velocity


# --- particles and ordinary differential equations ----------------------------------------------------------------------------------------


def deposit(x, v, field, dt):
    """Particles in a periodic box: move, deposit their charge on the grid linearly, and be pushed by the field there."""
    n = field.size
    x += v * dt
    x %= n
    cell = np.floor(x).astype(int)
    share = x - cell
    rho = np.zeros(n)
    np.add.at(rho, cell, 1 - share)
    np.add.at(rho, (cell + 1) % n, share)
    field -= dt * (np.roll(rho, -1) - np.roll(rho, 1)) / 2
    v += dt * (field[cell] * (1 - share) + field[(cell + 1) % n] * share)
    return rho


def verlet(position, velocity, mass, dt, steps):
    """Bodies under their own gravity, by velocity Verlet in place; the energy at every step."""

    def accelerate(out):
        away = position[None, :, :] - position[:, None, :]
        distance = np.sqrt((away**2).sum(axis=-1) + 0.01)
        out[:] = (mass[None, :, None] * away / distance[..., None] ** 3).sum(axis=1)
        np.fill_diagonal(distance, np.inf)
        return -0.5 * (np.outer(mass, mass) / distance).sum()

    acceleration, energy = np.zeros_like(position), np.zeros(steps)
    accelerate(acceleration)
    for i in range(steps):
        velocity += 0.5 * dt * acceleration
        position += dt * velocity
        potential = accelerate(acceleration)
        velocity += 0.5 * dt * acceleration
        energy[i] = potential + 0.5 * (mass * (velocity**2).sum(axis=1)).sum()
    return energy


def lotka_volterra(populations, rates, dt, steps):
    """Prey and predators by the classical Runge-Kutta method, recorded in a buffer made beforehand."""
    path = np.empty((steps + 1, *populations.shape))
    path[0] = populations

    def slope(p):
        out = np.empty_like(p)
        out[0] = p[0] * (rates[0] - rates[1] * p[1])
        out[1] = p[1] * (rates[2] * p[0] - rates[3])
        return out

    for i in range(steps):
        k1 = slope(path[i])
        k2 = slope(path[i] + dt / 2 * k1)
        k3 = slope(path[i] + dt / 2 * k2)
        k4 = slope(path[i] + dt * k3)
        path[i + 1] = path[i] + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path


# --- linear algebra -----------------------------------------------------------------------------------------------------------------------


def lu(a):
    """The LU decomposition without pivoting, both factors in the matrix itself."""
    for k in range(len(a) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])


def cholesky(a):
    """The lower Cholesky factor in place, column by column, and the logarithm of the determinant."""
    for j in range(len(a)):
        a[j, j] = np.sqrt(a[j, j] - a[j, :j] @ a[j, :j])
        a[j + 1 :, j] = (a[j + 1 :, j] - a[j + 1 :, :j] @ a[j, :j]) / a[j, j]
        a[:j, j] = 0
    return 2 * np.log(np.diagonal(a)).sum()


def householder(a):
    """QR by Householder's reflections: R in place, Q returned."""
    m, n = a.shape
    q = np.eye(m)
    for k in range(n):
        v = a[k:, k].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        v /= np.sqrt(v @ v)
        a[k:, k:] -= 2 * np.outer(v, v @ a[k:, k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q


def thomas(lower, diagonal, upper, right):
    """A tridiagonal system by Thomas's algorithm; the solution takes the place of the right-hand side."""
    n = len(right)
    for i in range(1, n):
        w = lower[i - 1] / diagonal[i - 1]
        diagonal[i] -= w * upper[i - 1]
        right[i] -= w * right[i - 1]
    right[-1] /= diagonal[-1]
    for i in range(n - 2, -1, -1):
        right[i] = (right[i] - upper[i] * right[i + 1]) / diagonal[i]
    return right


def gauss_seidel(a, b, x, sweeps):
    """A dense system by Gauss and Seidel's iteration, unknown by unknown; the residual after each sweep."""
    residual = np.zeros(sweeps)
    for sweep in range(sweeps):
        for i in range(len(b)):
            x[i] = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
        residual[sweep] = np.sqrt(((a @ x - b) ** 2).sum())
    return residual


def fourier(z):
    """Cooley and Tukey's transform in place, for lengths that are powers of two: butterflies on views of one array."""
    n = len(z)
    order, number = np.zeros(n, int), np.arange(n)
    for bit in range(n.bit_length() - 1):
        order *= 2
        order += number >> bit & 1
    z[:] = z[order]
    half = 1
    while half < n:
        blocks = z.reshape(-1, 2 * half)
        even, odd = blocks[:, :half], blocks[:, half:]
        odd *= np.exp(-1j * np.pi * np.arange(half) / half)
        even += odd
        odd *= -2
        odd += even
        half *= 2


# --- discrete programs --------------------------------------------------------------------------------------------------------------------


def life(cells, steps):
    """Conway's game of life on a torus; how many live at each step."""
    alive = np.zeros(steps, int)
    for t in range(steps):
        neighbours = np.zeros(cells.shape, np.int8)
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                if dx or dy:
                    neighbours += np.roll(cells, (dx, dy), (0, 1))
        cells[...] = (neighbours == 3) | (cells.astype(bool) & (neighbours == 2))
        alive[t] = cells.sum()
    return alive


def automaton(history):
    """Rule 30: every row from the one above, cells beyond the edge being off."""
    for now, after in zip(history, history[1:], strict=False):
        after[1:-1] = now[:-2] ^ (now[1:-1] | now[2:])
        after[0] = now[0] | now[1]
        after[-1] = now[-2] ^ now[-1]
    return history.sum(axis=1)


def floyd_warshall(distance):
    """Shortest paths between all pairs, in place."""
    for k in range(len(distance)):
        np.minimum(distance, distance[:, k, None] + distance[k], out=distance)


def edit_distance(a, b):
    """Levenshtein's distance between two sequences of symbols, by its table."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0] = np.arange(len(a) + 1)
    table[0] = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = np.minimum(np.minimum(table[i - 1, j], table[i, j - 1]) + 1, replaced)
    return table[-1, -1], table


def knapsack(values, capacity):
    """The best value for every capacity, over items that weigh 2, 3, 4, ..."""
    best = np.zeros(capacity + 1)
    for weight, value in enumerate(values, start=2):
        best[weight:] = np.maximum(best[weight:], best[:-weight] + value)
    return best


# --- the table ----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A program and its arguments.

    Attributes:
      small, large: make arguments for tests and for benchmarks; ``small`` takes a random generator's seed.
      smooth: positions of the arguments with respect to which it can be differentiated.
      mapped: positions of the arguments that vmap maps.
      tolerance: of the comparison with NumPy, relative.
    """

    f: Callable[..., Any]
    small: Callable[[int], tuple[Any, ...]]
    large: Callable[[int], tuple[Any, ...]]
    smooth: tuple[int, ...] = ()
    mapped: tuple[int, ...] = (0,)
    tolerance: float = 1e-11


def plate(n):
    return lambda seed: (np.random.default_rng(seed).uniform(size=(n, n)), 0.2, 3)


def string(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        return np.sin(np.linspace(0, np.pi, n)) * rng.uniform(0.5, 1), rng.uniform(0.5, 1.5, n), 6

    return make


def substances(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        return 1 - 0.5 * rng.uniform(size=(n, n)), 0.25 * rng.uniform(size=(n, n)), 0.04, 0.06, 3

    return make


def poisson(n, steps):
    return lambda seed: (*np.random.default_rng(seed).normal(size=(2, n, n)), steps)


def channel(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        solid = np.zeros((n, n), bool)
        solid[n // 3 : n // 2, n // 3 : 2 * n // 3] = True
        return WEIGHTS[:, None, None] * rng.uniform(0.9, 1.1, (9, n, n)), solid, 1.2, 2

    return make


def plasma(particles, cells):
    def make(seed):
        rng = np.random.default_rng(seed)
        return rng.uniform(0, cells, particles), rng.normal(size=particles), rng.normal(size=cells), 0.1

    return make


def bodies(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), rng.uniform(0.5, 1.5, n), 0.05, 3

    return make


def populations(*shape):
    def make(seed):
        rng = np.random.default_rng(seed)
        return rng.uniform(0.5, 2, (2, *shape)), rng.uniform(0.5, 1.5, 4), 0.05, 4

    return make


def definite(n):
    def make(seed):
        a = np.random.default_rng(seed).normal(size=(n, n))
        return (a @ a.T / n + 2 * np.eye(n),)

    return make


def tridiagonal(n):
    def make(seed):
        lower, diagonal, upper, right = np.random.default_rng(seed).uniform(size=(4, n))
        return lower[1:].copy(), diagonal + 3, upper[1:].copy(), right

    return make


def dense(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, n)) + 2 * n * np.eye(n), rng.normal(size=n), np.zeros(n), 2

    return make


def signal(n):
    def make(seed):
        re, im = np.random.default_rng(seed).normal(size=(2, n))
        return (re + 1j * im,)

    return make


def first_generation(steps, n):
    def make(seed):
        history = np.zeros((steps, n), bool)
        history[0] = np.random.default_rng(seed).uniform(size=n) < 0.3
        return (history,)

    return make


def roads(n):
    def make(seed):
        distance = np.random.default_rng(seed).uniform(1, 10, (n, n))
        np.fill_diagonal(distance, 0)
        return (distance,)

    return make


def symbols(n, m):
    return lambda seed: (np.random.default_rng(seed).integers(0, 4, n), np.random.default_rng(seed + 99).integers(0, 4, m))


def items(n, capacity):
    return lambda seed: (np.random.default_rng(seed).uniform(1, 5, n), capacity)


def cells(n):
    return lambda seed: ((np.random.default_rng(seed).uniform(size=(n, n)) < 0.4).astype(np.int8), 3)


PROGRAMS = {
    "heat": Program(heat, plate(7), plate(1000), smooth=(0, 1)),
    "wave": Program(wave, string(9), string(200_000), smooth=(0, 1), mapped=(0, 1)),
    "Gray-Scott": Program(gray_scott, substances(6), substances(600), smooth=(0, 1, 2, 3), mapped=(0, 1)),
    "Jacobi": Program(jacobi, poisson(6, 4), poisson(1000, 4), smooth=(0, 1), mapped=(0, 1)),
    "red-black Gauss-Seidel": Program(red_black, poisson(8, 2), poisson(1000, 2), smooth=(0, 1), mapped=(0, 1)),
    "lattice Boltzmann": Program(lattice_boltzmann, channel(6), channel(300), smooth=(0, 2)),
    "particle deposit": Program(deposit, plasma(12, 5), plasma(200_000, 1000), smooth=(0, 1, 2), mapped=(0, 1)),
    "Verlet": Program(verlet, bodies(4), bodies(300), smooth=(0, 1, 2), mapped=(0, 1)),
    "Lotka-Volterra": Program(lotka_volterra, populations(), populations(50_000), smooth=(0, 1)),
    "LU": Program(lu, definite(5), definite(40), smooth=(0,)),
    "Cholesky": Program(cholesky, definite(5), definite(40), smooth=(0,)),
    "Householder QR": Program(householder, definite(4), definite(30), smooth=(0,), tolerance=1e-10),
    "Thomas": Program(thomas, tridiagonal(6), tridiagonal(60), smooth=(0, 1, 2, 3), mapped=(0, 1, 2, 3)),
    "Gauss-Seidel": Program(gauss_seidel, dense(4), dense(25), smooth=(0, 1, 2), mapped=(0, 1, 2)),
    "Fourier": Program(fourier, signal(16), signal(2**16), smooth=(0,)),
    "game of life": Program(life, cells(6), cells(600)),
    "Rule 30": Program(automaton, first_generation(6, 11), first_generation(20, 100_000)),
    "Floyd-Warshall": Program(floyd_warshall, roads(6), roads(60), smooth=(0,)),
    "edit distance": Program(edit_distance, symbols(5, 6), symbols(12, 12), mapped=(0, 1)),
    "knapsack": Program(knapsack, items(4, 20), items(20, 50_000), smooth=(0,)),
}
