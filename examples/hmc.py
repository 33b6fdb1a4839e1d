"""Hamiltonian Monte Carlo in one compiled call: several chains explore a posterior whose mean and covariance are known.

The posterior is that of a Bayesian linear regression, so that both are given by a formula. A chain is a scan over samples, each a
``fori_loop`` of leapfrog steps along the gradient of the log density and a choice (Neal, "MCMC using Hamiltonian dynamics"); ``vmap`` runs
many chains, and one ``jit`` compiles it all, random numbers included.

Run: python examples/hmc.py
"""

import time

import numpy
from rich.console import Console
from rich.table import Table

import functx as fx
import functx.numpy as np

NAMES = ("level", "slope", "bend")
CHAINS, WARMUP, SAMPLES = 32, 100, 500
STEP, LEAPS = 0.08, 16
NOISE, PRIOR = 0.5, 3.0  # standard deviations of a measurement, and of each coefficient beforehand


def log_density(coefficients, features, measured):
    """Up to a constant: Gaussian noise and a Gaussian prior."""
    off = measured - features @ coefficients
    return -0.5 * (off @ off) / NOISE**2 - 0.5 * (coefficients @ coefficients) / PRIOR**2


def chain(key, features, measured):
    """Samples (SAMPLES, 3) of one chain from a random start, and the part of the proposals that were accepted."""
    density = lambda at: log_density(at, features, measured)  # noqa: E731
    force = fx.grad(density)

    def leap(_, state):
        at, momentum = state
        momentum += STEP / 2 * force(at)
        at += STEP * momentum
        momentum += STEP / 2 * force(at)
        return at, momentum

    def sample(at, key):
        kick, choice = fx.random.split(key)
        momentum = fx.random.normal(kick, (3,))
        new, last = fx.fori_loop(0, LEAPS, leap, (at, momentum))
        gain = density(new) - density(at) + 0.5 * (momentum @ momentum - last @ last)
        accepted = np.log(fx.random.uniform(choice)) < gain
        at = fx.cond(accepted, lambda: new, lambda: at)
        return at, (at, accepted)

    first, rest = fx.random.split(key)
    _, (samples, accepted) = fx.scan(sample, fx.random.normal(first, (3,)), fx.random.split(rest, WARMUP + SAMPLES))
    return samples[WARMUP:], accepted.mean()


chains = fx.jit(fx.vmap(chain, in_axes=(0, None, None)))


def main():
    """Sample, and compare with the formula."""
    rng = numpy.random.default_rng(0)
    x = numpy.sort(rng.uniform(-1, 1, 40))
    features = numpy.stack([x**0, x, x**2], 1)
    measured = features @ numpy.array([0.5, -1.0, 2.0]) + NOISE * rng.standard_normal(len(x))
    covariance = numpy.linalg.inv(features.T @ features / NOISE**2 + numpy.eye(3) / PRIOR**2)
    mean = covariance @ features.T @ measured / NOISE**2
    start = time.perf_counter()
    samples, accepted = chains(fx.random.split(fx.random.key(7), CHAINS), features, measured)
    seconds = time.perf_counter() - start
    flat = samples.reshape(-1, 3)
    table = Table("", *(f"{name}: {what}" for name in NAMES for what in ("mean", "deviation")))
    for name, m, s in (("sampled", flat.mean(0), flat.std(0)), ("formula", mean, numpy.sqrt(covariance.diagonal()))):
        table.add_row(name, *(f"{v:.4f}" for pair in zip(m, s, strict=True) for v in pair))
    Console().print(table)
    print(f"{len(flat)} samples of {CHAINS} chains, {accepted.mean():.0%} accepted, {seconds:.1f} s with compilation")
    deviation = numpy.sqrt(covariance.diagonal())
    off = numpy.abs((flat.mean(0) - mean) / deviation).max()
    spread = numpy.abs(numpy.cov(flat.T) - covariance).max() / covariance.max()
    if off > 0.05 or spread > 0.1 or not 0.6 < accepted.mean() < 1:
        raise SystemExit(f"mean off by {off:.3f} deviations, covariance by {spread:.1%}, {accepted.mean():.0%} accepted")
    return off, spread


if __name__ == "__main__":
    main()
