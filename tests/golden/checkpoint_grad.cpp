#include <stdint.h>
#include "call.h"

static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// Zero times anything is zero.
template <class T> static inline T mul_zero(T x, T y) { return (x == 0) | (y == 0) ? T(0) : x * y; }

extern "C" __attribute__((simd("notinbranch"))) double sin(double);
// Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up.
static void math_sin(double* x, double* out, int64_t count) {
  const int64_t vectors = (count + 15) / 16;
  for (int64_t k = count; k < vectors * 16; ++k) x[k] = 1;
#pragma omp simd
  for (int64_t k = 0; k < vectors * 16; ++k) out[k] = sin(x[k]);
}

extern "C" __attribute__((simd("notinbranch"))) double cos(double);
// Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up.
static void math_cos(double* x, double* out, int64_t count) {
  const int64_t vectors = (count + 15) / 16;
  for (int64_t k = count; k < vectors * 16; ++k) x[k] = 1;
#pragma omp simd
  for (int64_t k = 0; k < vectors * 16; ++k) out[k] = cos(x[k]);
}

// mul_zero: flat, 32
static void kernel0(const double* __restrict a0, double* __restrict a1) {
  for (int64_t i0_begin = 0; i0_begin < 32; i0_begin += 256) {
    const int64_t i0_end = smaller(i0_begin + 256, 32);
    alignas(64) double t0[256];
    alignas(64) double t1[256];
    alignas(64) double t2[256];
    alignas(64) double t3[256];
#pragma GCC ivdep
    for (int64_t i0 = i0_begin; i0 < i0_end; ++i0) {
      const double v0 = a0[i0];
      t0[i0 - i0_begin] = v0;
    }
    math_sin(t0, t1, i0_end - i0_begin);
    math_cos(t0, t3, i0_end - i0_begin);
    math_cos(t1, t2, i0_end - i0_begin);
#pragma GCC ivdep
    for (int64_t i0 = i0_begin; i0 < i0_end; ++i0) {
      const double v2 = t2[i0 - i0_begin];
      const double v3 = t3[i0 - i0_begin];
      const double v4 = mul_zero(v2, v3);
      a1[i0] = v4;
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // mul_zero
  kernel0((double*)call->inputs[0], (double*)call->outputs[0]);
  return FUNCTX_OK;
}
