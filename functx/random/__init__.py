"""Random numbers as pure functions of a key: the same key always gives the same numbers, on every backend and under every transform.

A key is a plain array of two uint32; ``split`` makes new ones of it. Names, arguments and numbers are those of jax.random with its
default generator and 64-bit types: ``split``, ``fold_in``, ``bits``, ``uniform``, ``bernoulli``, ``randint`` and ``permutation`` give the
same bits, most others the same numbers to rounding (not ``poisson`` and ``binomial``, which draw otherwise).

>>> import functx as fx
>>> first, second = fx.random.split(fx.random.key(42))
>>> fx.random.normal(first, (3,)).round(4)
array([-0.7203, -0.2606,  1.6816])
>>> fx.vmap(lambda k: fx.random.randint(k, (), 0, 10))(fx.random.split(second, 4))
array([0, 7, 7, 8])
"""

from functx.random.continuous import (
    beta,
    cauchy,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    multivariate_normal,
    normal,
    orthogonal,
    rayleigh,
    t,
    truncated_normal,
    uniform,
)
from functx.random.discrete import bernoulli, binomial, categorical, choice, permutation, poisson, rademacher, randint
from functx.random.keys import PRNGKey, bits, fold_in, key, split

__all__ = [
    "PRNGKey", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "choice", "dirichlet", "exponential", "fold_in", "gamma",
    "gumbel", "key", "laplace", "logistic", "multivariate_normal", "normal", "orthogonal", "permutation", "poisson", "rademacher",
    "randint", "rayleigh", "split", "t", "truncated_normal", "uniform",
]  # fmt: skip
