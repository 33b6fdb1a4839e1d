"""Block routines: the functions that run over up to 256 values at a time, ``math_<name>``.

Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up. libm's vector versions do the work
where the platform has them, routines of our own where they are faster.
"""

from __future__ import annotations

# The functions that take two numbers.
TWO_OPERANDS = ("pow", "atan2", "hypot")

_ERF_INV = """\
// Wichura's rational approximations of the normal quantile (Applied Statistics 37, 1988, AS 241): the middle, the tails, the far tails.
// A step of Newton's method follows.
static double own_erf_inv(double x) {
  static const double table[6][8] = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
      3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3},
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
      1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9},
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
      1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};
  const double size = __builtin_fabs(x);
  if (!(size < 1)) return size == 1 ? x / 0.0 : x == x ? __builtin_nan("") : x;
  const bool middle = size <= 0.85;
  const double tail = middle ? 0 : __builtin_sqrt(-__builtin_log((1 - size) / 2));
  const double r = middle ? 0.180625 - x * x / 4 : tail <= 5 ? tail - 1.6 : tail - 5;
  const double(*const rows)[8] = table + (middle ? 0 : tail <= 5 ? 2 : 4);
  double above = 0, below = 0;
  for (int k = 7; k >= 0; --k) above = above * r + rows[0][k], below = below * r + rows[1][k];
  const double y = (middle ? x / 2 : 1) * (above / below) * 0.70710678118654752440;
  const double rest = middle ? x - __builtin_erf(y) : __builtin_erfc(y) - (1 - size);
  return __builtin_copysign(y + rest * __builtin_exp(y * y) * 0.88622692545275801365, x);
}
static inline float own_erf_inv(float x) { return float(own_erf_inv(double(x))); }
"""

# Functions that libm does not have, or not so. As SciPy's, lgamma of minus infinity is minus infinity.
OWN: dict[str, str] = {
    "own_erf_inv": _ERF_INV,
    "own_lgamma": """\
static inline double own_lgamma(double x) { int sign; return x < -1.7976931348623157e308 ? x : __builtin_lgamma_r(x, &sign); }
static inline float own_lgamma(float x) { int sign; return x < -3.4028234663852886e38f ? x : __builtin_lgammaf_r(x, &sign); }
""",
}

_LIBM = """\
{declaration}// Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up.
static void math_{name}({buffers}, {c}* out, int64_t count) {{
  const int64_t whole = {whole};
  for (int64_t k = count; k < whole; ++k) {fill};
#pragma omp simd
  for (int64_t k = 0; k < whole; ++k) out[k] = {function}({arguments});
}}
"""


def math_snippet(name: str, vector: bool) -> str:
    """The block routine ``math_<name>`` of a libm function such as ``expf``; ``vector``: the platform has a vector version."""
    c = "float" if name.endswith("f") and name != "erf" else "double"
    base = name[:-1] if c == "float" else name
    operands = "xy"[: 2 if base in TWO_OPERANDS else 1]
    simd = '__attribute__((simd("notinbranch"))) ' if vector else ""
    libm = f'extern "C" {simd}{c} {name}({", ".join([c] * len(operands))});\n'
    lanes = (16 if c == "float" else 8) if vector or f"own_{base}" in OWN else 1  # a vector has at most 64 bytes
    return _LIBM.format(
        declaration="" if f"own_{base}" in OWN else libm,
        whole=f"(count + {lanes - 1}) / {lanes} * {lanes}" if lanes > 1 else "count",
        fill=", ".join(f"{x}[k] = 1" for x in operands),
        function=f"own_{base}" if f"own_{base}" in OWN else name,
        c=c,
        name=name,
        buffers=", ".join(f"{c}* {x}" for x in operands),
        arguments=", ".join(f"{x}[k]" for x in operands),
    )
