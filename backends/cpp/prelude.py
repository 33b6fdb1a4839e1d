"""The C++ that generated code stands on: small helpers, each written out only where it is used.

A snippet is found by the names that it defines. Helpers must not depend on the graph.
"""

from __future__ import annotations

import re

from functx.backends.cpp.functions import OWN
from functx.backends.cpp.numbers import COMPLEX_FUNCTIONS, TYPES
from functx.backends.cpp.selections import SNIPPETS as SELECTIONS
from functx.backends.cpp.sorting import SNIPPETS as SORTING
from functx.ops.random import THREEFRY_ROTATIONS

HEADER = """\
#include <stdint.h>
#include "call.h"
"""


def _threefry_rounds() -> str:
    """20 rounds on the words x and y with the keys k0, k1 and k2, as in functx.ops.random."""
    lines = []
    for i in range(5):
        for turn in THREEFRY_ROTATIONS[i % 2]:
            lines.append(f"  x += y, y = (y << {turn} | y >> {32 - turn}) ^ x;\n")
        lines.append(f"  x += k{(i + 1) % 3}, y += k{(i + 2) % 3} + {i + 1}u;\n")
    return "".join(lines)


_ARITHMETIC: dict[str, str] = {
    "smaller": """\
static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
""",
    "greater": """\
static inline int64_t greater(int64_t x, int64_t y) { return x > y ? x : y; }
""",
    "nonzero": """\
// What may be divided by: for a size of zero the quotient does not matter, but must not trap.
static inline int64_t nonzero(int64_t size) { return size ? size : 1; }
""",
    "ceil_div": """\
static inline int64_t ceil_div(int64_t x, int64_t y) { return x / y + (x % y > 0); }
""",
    "floor_div": """\
// Sizes in terms of others: rounded down.
static inline int64_t floor_div(int64_t x, int64_t y) {
  const int64_t q = x / nonzero(y);
  return q * nonzero(y) != x && (x < 0) != (y < 0) ? q - 1 : q;
}
""",
    "floor_mod": """\
static inline int64_t floor_mod(int64_t x, int64_t y) { return x - floor_div(x, y) * y; }
""",
    "Block": """\
// Memory for a value whose size becomes known on the way.
struct Block {
  char* data = nullptr;
  int64_t bytes = 0;
  ~Block() { __builtin_free(data); }
  bool reserve(int64_t wanted) {
    if (data && wanted <= bytes) return true;
    char* more = (char*)__builtin_realloc(data, wanted ? wanted : 1);
    if (!more) return false;
    data = more, bytes = wanted;
    return true;
  }
  void* release() {
    void* memory = data;
    data = nullptr;
    return memory;
  }
  bool grow(int64_t wanted) { return (data && wanted <= bytes) || reserve(wanted < bytes * 2 ? bytes * 2 : wanted); }
};
static int out_of_memory(FunctxCall* call, int64_t bytes) {
  call->error_kind = FUNCTX_OUT_OF_MEMORY, call->error_values[0] = bytes;
  return FUNCTX_OUT_OF_MEMORY;
}
""",
    "max_of": """\
// NaN wins, as in NumPy.
template <class T> static inline T max_of(T x, T y) { return (x > y) | (x != x) ? x : y; }
""",
    "min_of": """\
template <class T> static inline T min_of(T x, T y) { return (x < y) | (x != x) ? x : y; }
""",
    "mul_zero": """\
// Zero times anything is zero.
template <class T> static inline T mul_zero(T x, T y) { return (x == 0) | (y == 0) ? T(0) : T(x * y); }
""",
    "sign_bit": """\
static inline bool sign_bit(float x) { return as_bits(x) >> 31; }
static inline bool sign_bit(double x) { uint64_t u; __builtin_memcpy(&u, &x, 8); return u >> 63; }
""",
    "sign_of": """\
template <class T> static inline T sign_of(T x) { return x != x ? x : T((x > 0) - (x < 0)); }
""",
    "int_quotient": """\
// Rounded down; over zero it is zero, and over -1 it wraps.
template <class T> static inline T int_quotient(T x, T y) {
  if (y == 0) return 0;
  if (T(-1) < 0 && y == T(-1)) return T(-x);
  const T q = T(x / y);
  return (x < 0) != (y < 0) && q * y != x ? T(q - 1) : q;
}
""",
    "int_fmod": """\
// With the sign of x; over zero it is zero.
template <class T> static inline T int_fmod(T x, T y) { return y == 0 || (T(-1) < 0 && y == T(-1)) ? T(0) : T(x % y); }
""",
    "int_remainder": """\
// With the sign of y; over zero it is zero.
template <class T> static inline T int_remainder(T x, T y) {
  const T rest = int_fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? T(rest + y) : rest;
}
""",
    "exact_fmod": """\
static inline float exact_fmod(float x, float y) { return __builtin_fmodf(x, y); }
static inline double exact_fmod(double x, double y) { return __builtin_fmod(x, y); }
""",
    "float_quotient": """\
// The whole number nearest to (x - rest) / y, which rounding may have moved; over zero x / y.
template <class T> static inline T float_quotient(T x, T y) {
  if (y == 0) return x / y;
  const T rest = exact_fmod(x, y);
  T q = (x - rest) / y;
  if (rest != 0 && (y < 0) != (rest < 0)) q -= 1;
  if (q == 0) return T(__builtin_copysign(0.0, double(x / y)));
  const T down = T(__builtin_floor(q));
  return q - down > T(0.5) ? down + 1 : down;
}
""",
    "float_remainder": """\
// With the sign of y, also where it is zero; over zero NaN.
template <class T> static inline T float_remainder(T x, T y) {
  const T rest = exact_fmod(x, y);
  if (y == 0) return rest;
  if (rest == 0) return T(__builtin_copysign(0.0, double(y)));
  return (y < 0) != (rest < 0) ? rest + y : rest;
}
""",
    "shift_left": """\
// All bits are gone if y is the width or more, or negative.
template <class T> static inline T shift_left(T x, T y) { return uint64_t(y) < 8 * sizeof(T) ? T(x << y) : T(0); }
""",
    "shift_right": """\
template <class T> static inline T shift_right(T x, T y) { return uint64_t(y) < 8 * sizeof(T) ? T(x >> y) : x < 0 ? T(-1) : T(0); }
""",
    "int_power": """\
template <class T> static inline T int_power(T x, T y) {
  T out = 1;
  for (; y; y >>= 1, x = T(x * x))
    if (y & 1) out = T(out * x);
  return out;
}
""",
    "greatest_divisor": """\
template <class T> static inline T greatest_divisor(T x, T y) {
  uint64_t a = x < 0 ? -uint64_t(x) : uint64_t(x), b = y < 0 ? -uint64_t(y) : uint64_t(y);
  while (a) {
    const uint64_t rest = b % a;
    b = a, a = rest;
  }
  return T(b);
}
""",
    "bit_count": """\
// The ones of the absolute value.
template <class T> static inline uint8_t bit_count(T x) {
  return uint8_t(__builtin_popcountll(uint64_t(x < 0 ? T(-x) : x) & (~0ull >> (64 - 8 * sizeof(T)))));
}
""",
    "threefry2x32": """\
// Both words that a key makes of a counter, the first one in the upper half. Written out, so that the loop around it is vectorized.
static inline uint64_t threefry2x32(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1) {
  const uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDAu;
  uint32_t x = c0 + k0, y = c1 + k1;
"""
    + _threefry_rounds()
    + """\
  return uint64_t(x) << 32 | y;
}
""",
    "scaled": """\
// x * 2**n
static inline int whole_exponent(int64_t n) { return n < -100000 ? -100000 : n > 100000 ? 100000 : int(n); }
static inline float scaled(float x, int64_t n) { return __builtin_ldexpf(x, whole_exponent(n)); }
static inline double scaled(double x, int64_t n) { return __builtin_ldexp(x, whole_exponent(n)); }
""",
    "mantissa_of": """\
// x = mantissa * 2**exponent
static inline double mantissa_of(double x) { int e; return __builtin_frexp(x, &e); }
static inline int32_t exponent_of(double x) { int e; __builtin_frexp(x, &e); return e; }
""",
    "to_uint64": """\
template <class T> static inline uint64_t to_uint64(T x) {
  return x >= T(9223372036854775808.0) ? uint64_t(int64_t(x - T(9223372036854775808.0))) ^ (1ull << 63) : uint64_t(int64_t(x));
}
""",
    "Add": """\
struct Add { template <class T> static T of(T x, T y) { return x + y; } };
""",
    "Mul": """\
struct Mul { template <class T> static T of(T x, T y) { return x * y; } };
""",
    "LogAddExp": """\
struct LogAddExp {
  template <class T> static T of(T x, T y) {
    if (x == y) return x + T(0.693147180559945309417);
    const T rest = x - y;
    return rest > 0 ? x + log1p_of(exp_of(-rest)) : rest <= 0 ? y + log1p_of(exp_of(rest)) : rest;
  }
};
""",
    "Or": """\
struct Or { static bool of(bool x, bool y) { return x | y; } };
""",
    "And": """\
struct And { static bool of(bool x, bool y) { return x & y; } };
""",
    "Max": """\
struct Max { template <class T> static T of(T x, T y) { return max_of(x, y); } };
""",
    "Min": """\
struct Min { template <class T> static T of(T x, T y) { return min_of(x, y); } };
""",
    "block": """\
// The reduction of up to 256 values: in lanes, then pairwise, in an order that depends on `count` only. (-O3 keeps the lanes in registers.)
template <class Op, class T> __attribute__((noinline, optimize("O3"))) static T block(const T* x, int64_t count) {
  constexpr int kLanes = 128 / sizeof(T);
  if (count < kLanes) {
    T total = x[0];
    for (int64_t k = 1; k < count; ++k) total = Op::of(total, x[k]);
    return total;
  }
  T lane[kLanes];
  for (int l = 0; l < kLanes; ++l) lane[l] = x[l];
  int64_t k = kLanes;
  for (; k + kLanes <= count; k += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] = Op::of(lane[l], x[k + l]);
  for (int l = 0; k + l < count; ++l) lane[l] = Op::of(lane[l], x[k + l]);
  for (int half = kLanes / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = Op::of(lane[l], lane[l + half]);
  return lane[0];
}
""",
    "block_product": """\
// The sum of x[k] * y[k], in the order of `block`.
template <class T> __attribute__((noinline)) static T block_product(const T* x, const T* y, int64_t count) {
  constexpr int kLanes = 128 / sizeof(T);
  T lane[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] += x[k + l] * y[k + l];
  for (int l = 0; k + l < count; ++l) lane[l] += x[k + l] * y[k + l];
  for (int half = kLanes / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}
""",
    "Sum": """\
// A running sum that carries its own rounding error along (Neumaier); an error that is not finite belongs to a sum that is not.
template <class T> struct Sum {
  T total = 0, error = 0;
  void add(T x) {
    const T next = total + x;
    const bool larger = (total < 0 ? -total : total) >= (x < 0 ? -x : x);
    error += larger ? (total - next) + x : (x - next) + total;
    total = next;
  }
  T result() const { return error - error == 0 ? total + error : total; }
};
""",
    "ComplexSum": """\
template <class C> struct ComplexSum {
  Sum<decltype(C::re)> re, im;
  void add(C x) { re.add(x.re), im.add(x.im); }
  C result() const { return {re.result(), im.result()}; }
};
""",
    "beats": """\
// Whether x is a new extremum: NaN counts as one, and the first of equals stays.
template <class Op, class T> static inline bool beats(T x, T best) { return (Op::of(best, x) != best) & (best == best); }
""",
    "Best": """\
// The first place of the largest (or smallest) value.
template <class Op, class T> struct Best {
  T value;
  int64_t place = 0;
  void add(T x, int64_t at) { if (beats<Op>(x, value)) value = x, place = at; }
  // Values at, at + step, ...: the first one that equals the block's extremum.
  void scan(const T* x, int64_t count, int64_t at, int64_t step) {
    const T extremum = block<Op>(x, count);
    if (!beats<Op>(extremum, value)) return;
    int64_t k = 0;
    for (; k + 32 <= count; k += 32) {
      int hits = 0;
      for (int l = 0; l < 32; ++l) hits += (x[k + l] == extremum) | (x[k + l] != x[k + l]) ? 1 : 0;
      if (hits) break;
    }
    while ((x[k] != extremum) & (x[k] == x[k])) ++k;
    value = x[k], place = at + k * step;
  }
};
""",
    "Failure": """\
// The first failed check: of the earliest equation, at the earliest place, whatever thread finds it.
struct Failure { int32_t kind = FUNCTX_OK, eqn = 0; int64_t place = 0, values[3] = {0, 0, 0}; };
__attribute__((noinline, cold)) static void fail(Failure* f, int32_t kind, int32_t eqn, int64_t place, int64_t a, int64_t b, int64_t c) {
#pragma omp critical(functx_failure)
  if (f->kind == FUNCTX_OK || eqn < f->eqn || (eqn == f->eqn && place < f->place)) *f = {kind, eqn, place, {a, b, c}};
}
static int report(FunctxCall* call, const Failure& f) {
  call->error_kind = f.kind, call->error_eqn = f.eqn;
  for (int k = 0; k < 3; ++k) call->error_values[k] = f.values[k];
  return f.kind;
}
""",
    "call_back": """\
static int call_back(FunctxCall* call, int32_t eqn, void* const* inputs, void* const* outputs) {
  if (!call->callback(call->context, eqn, inputs, outputs)) return FUNCTX_OK;
  call->error_kind = FUNCTX_CALLBACK_FAILED, call->error_eqn = eqn;
  return FUNCTX_CALLBACK_FAILED;
}
""",
    "hand_on": """\
// A body has failed: its error becomes that of the call around it.
static int hand_on(FunctxCall* call, const FunctxCall& inner, int status) {
  call->error_kind = inner.error_kind, call->error_eqn = inner.error_eqn;
  __builtin_memcpy(call->error_values, inner.error_values, sizeof call->error_values);
  return status;
}
""",
    "matmul": """\
extern "C" {
void scipy_cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
void scipy_cblas_dgemm(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);
void scipy_cblas_cgemm(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);
void scipy_cblas_zgemm(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);
void scipy_openblas_set_num_threads(int);
}
static void gemm(int tx, int ty, int m, int n, int k, const float* x, int ldx, const float* y, int ldy, float* out, int ldo) {
  scipy_cblas_sgemm(101, tx, ty, m, n, k, 1, x, ldx, y, ldy, 0, out, ldo);
}
static void gemm(int tx, int ty, int m, int n, int k, const double* x, int ldx, const double* y, int ldy, double* out, int ldo) {
  scipy_cblas_dgemm(101, tx, ty, m, n, k, 1, x, ldx, y, ldy, 0, out, ldo);
}
// Complex numbers: as pairs.
template <class T> static void gemm(int tx, int ty, int m, int n, int k, const T* x, int ldx, const T* y, int ldy, T* out, int ldo) {
  const double ones[] = {1, 0}, zeros[] = {0, 0};
  const float one[] = {1, 0}, zero[] = {0, 0};
  if (sizeof(T) == 16) scipy_cblas_zgemm(101, tx, ty, m, n, k, ones, x, ldx, y, ldy, zeros, out, ldo);
  else scipy_cblas_cgemm(101, tx, ty, m, n, k, one, x, ldx, y, ldy, zero, out, ldo);
}
// A matrix inside a buffer: strides in elements along batch, rows and columns; one of the last two is 1.
template <class T> struct Matrix {
  const T* data;
  int64_t batch, row, column;
  const T* at(int64_t b, int64_t r, int64_t c) const { return data + b * batch + r * row + c * column; }
  int transposed() const { return column == 1 ? 111 : 112; }
  int stride() const { return int(greater(column == 1 ? row : column, 1)); }
};
// out[b] = x[b] @ y[b] in tiles of tm x tn, small enough for several threads and large enough for BLAS, which stays
// single-threaded: the threads are those of the loops around it.
template <class T>
static void matmul(Matrix<T> x, Matrix<T> y, T* out, int64_t batch, int64_t m, int64_t n, int64_t k) {
  static const int once = (scipy_openblas_set_num_threads(1), 0);
  (void)once;
  if (batch * m * n == 0) return;
  const int64_t side = 384, work = 1 << 20;  // the largest tile; multiply-adds that are worth a thread
  int64_t tm = ceil_div(m, ceil_div(m, side)), tn = ceil_div(n, ceil_div(n, side));
  while (batch * ceil_div(m, tm) * ceil_div(n, tn) < 8 && tm * tn * k > work && greater(tm, tn) >= 64)
    if (tm >= tn) tm = ceil_div(tm, 2); else tn = ceil_div(tn, 2);
  tm = smaller(m, ceil_div(tm, 16) * 16), tn = smaller(n, ceil_div(tn, 16) * 16);
  const int64_t rows = ceil_div(m, tm), columns = ceil_div(n, tn);
#pragma omp parallel for schedule(dynamic) if (batch * m * n * k > work)
  for (int64_t tile = 0; tile < batch * rows * columns; ++tile) {
    const int64_t b = tile / (rows * columns), i = tile / columns % rows * tm, j = tile % columns * tn;
    gemm(x.transposed(), y.transposed(), int(smaller(tm, m - i)), int(smaller(tn, n - j)), int(k), x.at(b, i, 0), x.stride(),
         y.at(b, 0, j), y.stride(), out + (b * m + i) * n + j, int(n));
  }
}
""",
}
_SNIPPETS = {**TYPES, **COMPLEX_FUNCTIONS, **_ARITHMETIC, **OWN, **SORTING, **SELECTIONS}


def needed_snippets(body: str) -> list[str]:
    """The snippets whose names occur in the program, or in another one that is needed; in the order of the table."""
    names = list(_SNIPPETS)
    needed: set[str] = set()
    pending = [body]
    while pending:
        words = set(re.findall(r"\w+", pending.pop()))
        for name in names:
            if name not in needed and name in words:
                needed.add(name)
                pending.append(_SNIPPETS[name])
    return [_SNIPPETS[name] for name in names if name in needed]
