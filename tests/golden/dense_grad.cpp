#include <stdint.h>
#include "call.h"

static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// Zero times anything is zero.
template <class T> static inline T mul_zero(T x, T y) { return (x == 0) | (y == 0) ? T(0) : x * y; }

struct Add { template <class T> static T of(T x, T y) { return x + y; } };

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

extern "C" {
void scipy_cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
void scipy_cblas_dgemm(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);
void scipy_openblas_set_num_threads(int);
}
static void gemm(int tx, int ty, int m, int n, int k, const float* x, int ldx, const float* y, int ldy, float* out, int ldo) {
  scipy_cblas_sgemm(101, tx, ty, m, n, k, 1, x, ldx, y, ldy, 0, out, ldo);
}
static void gemm(int tx, int ty, int m, int n, int k, const double* x, int ldx, const double* y, int ldy, double* out, int ldo) {
  scipy_cblas_dgemm(101, tx, ty, m, n, k, 1, x, ldx, y, ldy, 0, out, ldo);
}
// A matrix inside a buffer: strides in elements along batch, rows and columns; one of the last two is 1.
template <class T> struct Matrix {
  const T* data;
  int64_t batch, row, column;
  const T* at(int64_t b, int64_t r, int64_t c) const { return data + b * batch + r * row + c * column; }
  int transposed() const { return column == 1 ? 111 : 112; }
  int stride() const { return int(column == 1 ? row : column); }
};
// out[b] = x[b] @ y[b] in tiles of tm x tn. BLAS stays single-threaded: the threads are those of the loops around it.
template <class T>
static void matmul(Matrix<T> x, Matrix<T> y, T* out, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t tm, int64_t tn,
                   bool parallel) {
  static const int once = (scipy_openblas_set_num_threads(1), 0);
  (void)once;
  const int64_t rows = (m + tm - 1) / tm, columns = (n + tn - 1) / tn;
#pragma omp parallel for schedule(dynamic) if (parallel)
  for (int64_t tile = 0; tile < batch * rows * columns; ++tile) {
    const int64_t b = tile / (rows * columns), i = tile / columns % rows * tm, j = tile % columns * tn;
    gemm(x.transposed(), y.transposed(), int(smaller(tm, m - i)), int(smaller(tn, n - j)), int(k), x.at(b, i, 0), x.stride(),
         y.at(b, 0, j), y.stride(), out + (b * m + i) * n + j, int(n));
  }
}

extern "C" __attribute__((simd("notinbranch"))) float tanhf(float);
// Whole vectors only, so that a result does not depend on its place: the rest of the last one is filled up.
static void math_tanhf(float* x, float* out, int64_t count) {
  const int64_t vectors = (count + 15) / 16;
  for (int64_t k = count; k < vectors * 16; ++k) x[k] = 1;
#pragma omp simd
  for (int64_t k = 0; k < vectors * 16; ++k) out[k] = tanhf(x[k]);
}

// tanh, sub, mul_zero: flat, 64 x 4
static void kernel0(float* __restrict a0, const float* __restrict a1, const float* __restrict a2, float* __restrict a3) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    const float v6 = 0.00390625f;
    const float v9 = 1.0f;
    for (int64_t i1_begin = 0; i1_begin < 4; i1_begin += 256) {
      const int64_t i1_end = smaller(i1_begin + 256, 4);
      alignas(64) float t2[256];
      alignas(64) float t3[256];
#pragma GCC ivdep
      for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
        const float v0 = a0[i0 * 4 + i1];
        const float v1 = a1[i1];
        const float v2 = v0 + v1;
        t2[i1 - i1_begin] = v2;
      }
      math_tanhf(t2, t3, i1_end - i1_begin);
#pragma GCC ivdep
      for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
        const float v3 = t3[i1 - i1_begin];
        const float v4 = a2[i0 * 4 + i1];
        const float v5 = v3 - v4;
        const float v7 = v5 * v6;
        const float v8 = v7 + v7;
        const float v10 = v3 * v3;
        const float v11 = v9 - v10;
        const float v12 = mul_zero(v8, v11);
        a0[i0 * 4 + i1] = v5;
        a3[i0 * 4 + i1] = v12;
      }
    }
  }
}

// reduce_sum: rows, 256
static void kernel1(const float* __restrict a0, float* __restrict a1) {
  Sum<float> s0;
  {
    for (int64_t i1_begin = 0; i1_begin < 256; i1_begin += 256) {
      const int64_t i1_end = smaller(i1_begin + 256, 256);
      s0.add(block_product(&a0[i1_begin], &a0[i1_begin], i1_end - i1_begin));
    }
  }
  a1[0] = s0.result();
}

// mul: flat, one value
static void kernel2(float* __restrict a0) {
  const float v0 = a0[0];
  const float v1 = 0.00390625f;
  const float v2 = v0 * v1;
  a0[0] = v2;
}

// reduce_sum: columns, 4 x 64
static void kernel3(const float* __restrict a0, float* __restrict a1) {
  for (int64_t task = 0; task < 1; ++task) {
    const int64_t column_begin = task % 1 * 256;
    const int64_t column_end = smaller(column_begin + 256, 4);
    alignas(64) float total0[256];
    for (int64_t k = 0; k < 256; ++k) total0[k] = 0;
    for (int64_t i1 = 0; i1 < 64; ++i1) {
      for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
        const float v0 = a0[i0 + i1 * 4];
        total0[i0 - column_begin] = Add::of(total0[i0 - column_begin], v0);
      }
    }
    for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
      a1[i0] = total0[i0 - column_begin];
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // dot_general: 1 x (64 x 16) @ (16 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[2] + 0, 0, 16, 1}, Matrix<float>{(float*)call->inputs[0] + 0, 0, 4, 1}, (float*)((char*)call->workspace + 0), 1, 64, 4, 16, 64, 4, false);
  // tanh, sub, mul_zero
  kernel0((float*)((char*)call->workspace + 0), (float*)call->inputs[1], (float*)call->inputs[3], (float*)((char*)call->workspace + 1024));
  // reduce_sum
  kernel1((float*)((char*)call->workspace + 0), (float*)call->outputs[0]);
  // mul
  kernel2((float*)call->outputs[0]);
  // reduce_sum
  kernel3((float*)((char*)call->workspace + 1024), (float*)call->outputs[2]);
  // dot_general: 1 x (16 x 64) @ (64 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[2] + 0, 0, 1, 16}, Matrix<float>{(float*)((char*)call->workspace + 1024) + 0, 0, 4, 1}, (float*)call->outputs[1], 1, 16, 4, 64, 16, 4, false);
  return FUNCTX_OK;
}
