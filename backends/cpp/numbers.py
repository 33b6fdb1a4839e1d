"""The C++ of the number types that the language lacks: floats of 16 bits and complex numbers, with the functions of complex numbers.

Each snippet defines the name that it stands under.
"""

from __future__ import annotations

TYPES: dict[str, str] = {
    "as_bits": """\
static inline uint32_t as_bits(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
static inline float as_float(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
""",
    "Half": """\
// float16: every assignment rounds to nearest, ties to even. Below the normal numbers adding 0.5 does the rounding.
struct Half {
  uint16_t bits;
  Half() = default;
  Half(float x) {
    const uint32_t u = as_bits(x) & 0x7fffffffu;
    const uint32_t normal = (u + 0xc8000fffu + ((u >> 13) & 1)) >> 13, tiny = as_bits(as_float(u) + 0.5f) - 0x3f000000u;
    const uint32_t special = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t small = u < 0x38800000u ? tiny : normal;
    bits = uint16_t((u >= 0x47800000u ? special : small) | ((as_bits(x) >> 16) & 0x8000u));
  }
  operator float() const {
    const uint32_t u = (bits & 0x7fffu) << 13;
    const uint32_t finite = as_bits(as_float(u) * 5.192296858534828e33f);
    return as_float((u >= 0x0f800000u ? u | 0x7f800000u : finite) | ((bits & 0x8000u) << 16));
  }
};
""",
    "double_to_half": """\
// In one rounding: what float cannot hold is folded into its last bit first.
static inline Half double_to_half(double x) {
  float y = float(x);
  if (double(y) != x && x == x && !(as_bits(y) & 1)) y = as_float(as_bits(y) + ((double(y) < x) == (x > 0) ? 1 : -1));
  return y;
}
""",
    "BFloat16": """\
// bfloat16: the upper half of a float; every assignment rounds to nearest, ties to even.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float x) {
    const uint32_t u = as_bits(x);
    bits = uint16_t(x == x ? (u + 0x7fffu + ((u >> 16) & 1)) >> 16 : (u >> 16) | 0x40u);
  }
  operator float() const { return as_float(uint32_t(bits) << 16); }
};
""",
    "round_all": """\
// Results of the block routines as floats of 16 bits hold them.
template <class T> static void round_all(float* x, int64_t count) {
  for (int64_t k = 0; k < count; ++k) x[k] = float(T(x[k]));
}
""",
    **{
        f"{name}_of": f"""\
static inline float {name}_of(float x) {{ return __builtin_{name}f(x); }}
static inline double {name}_of(double x) {{ return __builtin_{name}(x); }}
"""
        for name in ("exp", "expm1", "log", "log1p", "sin", "cos")
    },
    "Complex": """\
// Complex numbers as in NumPy: products by the plain formula, quotients by Smith's, order by the real part first.
template <class T> struct Complex {
  T re, im;
  Complex() = default;
  Complex(T re, T im = 0) : re(re), im(im) {}
  friend Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  friend Complex operator-(Complex x, Complex y) { return {x.re - y.re, x.im - y.im}; }
  friend Complex operator-(Complex x) { return {-x.re, -x.im}; }
  friend Complex operator*(Complex x, Complex y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
  friend Complex operator/(Complex x, Complex y) {
    const T re = T(__builtin_fabs(y.re)), im = T(__builtin_fabs(y.im));
    if (re >= im) {
      if (re == 0 && im == 0) return {x.re / re, x.im / re};
      const T ratio = y.im / y.re, scale = T(1) / (y.re + y.im * ratio);
      return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};
    }
    const T ratio = y.re / y.im, scale = T(1) / (y.im + y.re * ratio);
    return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};
  }
  Complex& operator+=(Complex y) { return *this = *this + y; }
  friend bool operator==(Complex x, Complex y) { return (x.re == y.re) & (x.im == y.im); }
  friend bool operator!=(Complex x, Complex y) { return (x.re != y.re) | (x.im != y.im); }
  friend bool operator>(Complex x, Complex y) {
    return ((x.re > y.re) & (x.im == x.im) & (y.im == y.im)) | ((x.re == y.re) & (x.im > y.im));
  }
  friend bool operator>=(Complex x, Complex y) {
    return ((x.re > y.re) & (x.im == x.im) & (y.im == y.im)) | ((x.re == y.re) & (x.im >= y.im));
  }
  friend bool operator<(Complex x, Complex y) { return y > x; }
  friend bool operator<=(Complex x, Complex y) { return y >= x; }
};
""",
    "Complex64": "using Complex64 = Complex<float>;\n",
    "Complex128": "using Complex128 = Complex<double>;\n",
    "complex_sign": """\
// x / |x|; of an infinity along an axis its direction, of other infinities NaN.
template <class T> static inline Complex<T> complex_sign(Complex<T> x) {
  const T size = T(__builtin_hypot(x.re, x.im));
  if (size - size == 0) return size == 0 ? Complex<T>(0) : Complex<T>(x.re / size, x.im / size);
  const bool re = __builtin_isinf(x.re), im = __builtin_isinf(x.im), known = (re != im) & (size == size);
  const T nan = T(__builtin_nan(""));
  if (!known) return {nan, nan};
  return re ? Complex<T>(x.re > 0 ? 1 : -1, 0) : Complex<T>(0, x.im > 0 ? 1 : -1);
}
""",
}

# Functions that libm has for complex numbers under C's names.
COMPLEX_LIBM = ("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")

_COMPLEX_FUNCTION = """\
extern "C" float _Complex {libm}f({floats}); extern "C" double _Complex {libm}({doubles});
static inline Complex<float> {name}({float_parameters}) {{ return from_libm<float>({libm}f({arguments})); }}
static inline Complex<double> {name}({double_parameters}) {{ return from_libm<double>({libm}({arguments})); }}
"""


def _complex_function(name: str, libm: str, operands: str = "x") -> str:
    return _COMPLEX_FUNCTION.format(
        name=name,
        libm=libm,
        floats=", ".join(["float _Complex"] * len(operands)),
        doubles=", ".join(["double _Complex"] * len(operands)),
        float_parameters=", ".join(f"Complex<float> {x}" for x in operands),
        double_parameters=", ".join(f"Complex<double> {x}" for x in operands),
        arguments=", ".join(f"to_libm({x})" for x in operands),
    )


COMPLEX_FUNCTIONS: dict[str, str] = {
    "to_libm": """\
static inline float _Complex to_libm(Complex<float> x) { float _Complex z; __real__ z = x.re; __imag__ z = x.im; return z; }
static inline double _Complex to_libm(Complex<double> x) { double _Complex z; __real__ z = x.re; __imag__ z = x.im; return z; }
template <class T, class Z> static inline Complex<T> from_libm(Z z) { return {__real__ z, __imag__ z}; }
""",
    **{f"complex_{name}": _complex_function(f"complex_{name}", f"c{name}") for name in COMPLEX_LIBM},
    "complex_libm_pow": _complex_function("complex_libm_pow", "cpow", "xy"),
    "complex_exp2": """\
template <class T> static inline Complex<T> complex_exp2(Complex<T> x) {
  return complex_exp(Complex<T>(x.re * T(0.693147180559945309417), x.im * T(0.693147180559945309417)));
}
""",
    "complex_expm1": """\
template <class T> static inline Complex<T> complex_expm1(Complex<T> x) {
  const T half = sin_of(x.im / 2);
  return {expm1_of(x.re) * cos_of(x.im) - 2 * half * half, exp_of(x.re) * sin_of(x.im)};
}
""",
    "complex_log1p": """\
template <class T> static inline Complex<T> complex_log1p(Complex<T> x) {
  return {log_of(T(__builtin_hypot(x.re + 1, x.im))), T(__builtin_atan2(x.im, x.re + 1))};
}
""",
    "complex_log2": """\
template <class T> static inline Complex<T> complex_log2(Complex<T> x) {
  const Complex<T> y = complex_log(x);
  return {y.re * T(1.442695040888963407359), y.im * T(1.442695040888963407359)};
}
""",
    "complex_log10": """\
template <class T> static inline Complex<T> complex_log10(Complex<T> x) {
  const Complex<T> y = complex_log(x);
  return {y.re * T(0.434294481903251827651), y.im * T(0.434294481903251827651)};
}
""",
    "complex_pow": """\
// Small whole powers by products; of zero only those with a positive real part are known.
template <class T> static inline Complex<T> complex_pow(Complex<T> x, Complex<T> y) {
  if (y == Complex<T>(0)) return 1;
  if (x == Complex<T>(0)) return y.re > 0 ? Complex<T>(0) : Complex<T>(T(__builtin_nan("")), T(__builtin_nan("")));
  if (!(y.im == 0 && y.re > -100 && y.re < 100 && y.re == T(int(y.re)))) return complex_libm_pow(x, y);
  if (y.re == 1) return x;
  if (y.re == 2) return x * x;
  if (y.re == 3) return x * (x * x);
  Complex<T> out = 1, square = x;
  for (int n = y.re < 0 ? -int(y.re) : int(y.re);; square = square * square) {
    if (n & 1) out = out * square;
    if (!(n >>= 1)) break;
  }
  return y.re < 0 ? Complex<T>(1) / out : out;
}
""",
}
