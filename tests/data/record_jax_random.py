"""Writes jax_random.json: what jax.random gives for some calls, with 64-bit types on. Run where JAX is installed; the tests do not need it.

Values are the bytes of the array in C order, in hexadecimal digits.
"""

import json
import pathlib

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

# Calls whose results are the same bits.
EXACT = [
    *(f"key({seed})" for seed in (0, 42, -1, 2**40 + 7, -(2**63), 2**63 - 1)),
    "key(np.int32(-5))",
    "split(key(0))",
    "split(key(1), 5)",
    "split(key(2), (2, 3))",
    "split(split(key(3))[1], 1)",
    *(f"fold_in(key(4), {data})" for data in (0, 1, 2**31, 2**32 - 1)),
    *(f"bits(key(5), {shape}, 'uint{n}')" for shape in ((), (7,), (2, 3, 4), (0, 3)) for n in (8, 16, 32, 64)),
    "bits(key(6), (3,))",
    *(f"uniform(key(7), {shape}, '{dtype}')" for shape in ((), (9,), (3, 5)) for dtype in ("float16", "bfloat16", "float32", "float64")),
    *(f"uniform(key(8), (40,), '{dtype}', -2.5, 3.7)" for dtype in ("float16", "bfloat16", "float32", "float64")),
    "uniform(key(9), (4, 3), minval=np.arange(3.0), maxval=np.linspace(3, 9, 12).reshape(4, 3))",
    "uniform(key(9), (1000,), minval=0.1, maxval=0.7)[::37]",
    "bernoulli(key(10), 0.3, (30,))",
    "bernoulli(key(10))",
    "bernoulli(key(10), np.linspace(0, 1, 11))",
    "bernoulli(key(10), np.float32(0.4), (4, 5))",
    "randint(key(11), (20,), 0, 10)",
    "randint(key(11), (), -3, 4)",
    *(
        f"randint(key(12), (12,), {low}, {high}, '{dtype}')"
        for dtype, low, high in (
            *(("int8", -128, 128), ("int8", -5, 100), ("uint8", 0, 256), ("uint8", 3, 200), ("int16", -32768, 32768), ("uint16", 0, 65536)),
            *(("int32", -(2**31), 2**31), ("int32", 0, 7), ("uint32", 0, 2**32), ("uint32", 5, 3_000_000_000), ("int64", 0, 3)),
            *(("int64", -(2**63), 2**63 - 1), ("int64", -1000, 10**15), ("int64", 5, 5), ("int64", 5, 2), ("uint64", 1, 2**63 - 1)),
        )
    ),
    "randint(key(13), (3, 4), np.arange(4), np.array([[10], [20], [3]]))",
    "randint(key(13), (5,), np.arange(5, dtype='int8'), np.array(300, 'int32'), 'uint8')",
    *(f"permutation(key(14), {n})" for n in (1, 2, 10, 100, 3000)),
    "permutation(key(15), np.arange(12.0).reshape(4, 3))",
    "permutation(key(15), np.arange(12.0).reshape(4, 3), 1)",
    "permutation(key(15), np.arange(12.0).reshape(4, 3), -1, independent=True)",
    "permutation(key(15), np.arange(40, dtype='int32').reshape(4, 10), independent=True)",
    "choice(key(16), 9, (4, 2))",
    "choice(key(16), np.linspace(0, 1, 7), (3,), replace=False)",
    "choice(key(16), np.arange(30.0).reshape(5, 6), (2, 2), axis=1)",
    "choice(key(16), 9, (5,), replace=False, p=np.arange(9) / 36)",
    "choice(key(16), 9, (20,), p=np.arange(9) / 36)",
    "categorical(key(17), np.log(np.array([0.1, 0.2, 0.7])), shape=(15,))",
    "categorical(key(17), np.linspace(0, 3, 24).reshape(4, 6), 0)",
    "categorical(key(17), np.linspace(0, 3, 24).reshape(4, 6), -1, (3, 4))",
    "rademacher(key(18), (20,))",
]
# Calls whose results are the same to rounding.
CLOSE = [
    *(
        f"{name}(key(19), (12,), '{dtype}')"
        for name in ("normal", "gumbel", "exponential", "laplace", "logistic", "cauchy")
        for dtype in ("float32", "float64")
    ),
    "normal(key(20), (5,), 'complex128')",
    "normal(key(20))",
    "truncated_normal(key(21), -1.0, np.array([0.5, 1.0, np.inf]))",
    "truncated_normal(key(21), 2.0, 3.0, (8,))",
    "rayleigh(key(22), np.array([1.0, 2.0]), (3, 2))",
    "gamma(key(23), np.array([0.01, 0.3, 0.9, 1.0, 1.5, 10.0, 3e4]), (6, 7))",
    "gamma(key(23), np.float32(2.5), (20,), 'float32')",
    "gamma(key(23), 0.7)",
    "beta(key(24), np.array([0.5, 2.0, 0.01]), 1.5, (5, 3))",
    "dirichlet(key(25), np.array([0.2, 1.0, 5.0]), (4,))",
    "t(key(26), np.array([1.0, 4.0]), (5, 2))",
    "multivariate_normal(key(27), np.array([1.0, -2.0]), np.array([[2.0, 0.7], [0.7, 1.0]]), (4,))",
    "orthogonal(key(28), 4)",
    "orthogonal(key(28), 2, (3,), m=5)",
    "orthogonal(key(28), 3, m=2)",
]


def record(call: str) -> list[object]:
    """The dtype, shape and bytes of a call's result."""
    out = np.asarray(eval(call, {**vars(jax.random), "key": jax.random.PRNGKey, "np": np}))
    return [out.dtype.name, list(out.shape), np.ascontiguousarray(out).tobytes().hex()]


if __name__ == "__main__":
    table = {"jax": jax.__version__, **{name: {c: record(c) for c in calls} for name, calls in (("exact", EXACT), ("close", CLOSE))}}
    path = pathlib.Path(__file__).with_name("jax_random.json")
    path.write_text(json.dumps(table, indent=0) + "\n")
