#include <stdint.h>
#include "call.h"

static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// NaN wins, as in NumPy.
template <class T> static inline T max_of(T x, T y) { return (x > y) | (x != x) ? x : y; }

struct Add { template <class T> static T of(T x, T y) { return x + y; } };

struct Max { template <class T> static T of(T x, T y) { return max_of(x, y); } };

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

extern "C" __attribute__((simd("notinbranch"))) float expf(float);
// Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up.
static void math_expf(float* x, float* out, int64_t count) {
  const int64_t vectors = (count + 15) / 16;
  for (int64_t k = count; k < vectors * 16; ++k) x[k] = 1;
#pragma omp simd
  for (int64_t k = 0; k < vectors * 16; ++k) out[k] = expf(x[k]);
}

// reduce_max, exp, reduce_sum, div: rows, 64 x 16
static void kernel0(const float* __restrict a0, float* __restrict a1) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    alignas(64) float row0[16];
    float s0 = -__builtin_inff();
    {
      for (int64_t i1_begin = 0; i1_begin < 16; i1_begin += 256) {
        const int64_t i1_end = smaller(i1_begin + 256, 16);
        s0 = Max::of(s0, block<Max>(&a0[i0 * 16 + i1_begin], i1_end - i1_begin));
      }
    }
    const float r0 = s0;
    Sum<float> s1;
    {
      const float v1 = r0;
      for (int64_t i2_begin = 0; i2_begin < 16; i2_begin += 256) {
        const int64_t i2_end = smaller(i2_begin + 256, 16);
        alignas(64) float t2[256];
        alignas(64) float t3[256];
#pragma GCC ivdep
        for (int64_t i2 = i2_begin; i2 < i2_end; ++i2) {
          const float v0 = a0[i0 * 16 + i2];
          const float v2 = v0 - v1;
          t2[i2 - i2_begin] = v2;
        }
        math_expf(t2, t3, i2_end - i2_begin);
#pragma GCC ivdep
        for (int64_t i2 = i2_begin; i2 < i2_end; ++i2) {
          const float v3 = t3[i2 - i2_begin];
          row0[i2] = v3;
        }
        s1.add(block<Add>(t3, i2_end - i2_begin));
      }
    }
    const float r1 = s1.result();
    {
      const float v1 = r1;
#pragma GCC ivdep
      for (int64_t i3 = 0; i3 < 16; ++i3) {
        const float v0 = row0[i3];
        const float v2 = v0 / v1;
        a1[i0 * 16 + i3] = v2;
      }
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // reduce_max, exp, reduce_sum, div
  kernel0((float*)call->inputs[0], (float*)call->outputs[0]);
  return FUNCTX_OK;
}
