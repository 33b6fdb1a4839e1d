#include <stdint.h>
#include "call.h"

static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// Zero times anything is zero.
template <class T> static inline T mul_zero(T x, T y) { return (x == 0) | (y == 0) ? T(0) : x * y; }

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

// mul_zero: flat, 64 x 4
static void kernel0(float* __restrict a0, const float* __restrict a1, const float* __restrict a2) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    const float v6 = 0.25f;
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
        a0[i0 * 4 + i1] = v12;
      }
    }
  }
}

// dot_general: flat, 64 x 16 x 4
static void kernel1(const float* __restrict a0, const float* __restrict a1, float* __restrict a2) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    for (int64_t i1 = 0; i1 < 16; ++i1) {
      const float v0 = a0[i0 * 16 + i1];
#pragma GCC ivdep
      for (int64_t i2 = 0; i2 < 4; ++i2) {
        const float v1 = a1[i0 * 4 + i2];
        const float v2 = v0 * v1;
        a2[i0 * 64 + i1 * 4 + i2] = v2;
      }
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // dot_general: 1 x (64 x 16) @ (16 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[2] + 0, 0, 16, 1}, Matrix<float>{(float*)call->inputs[0] + 0, 0, 4, 1}, (float*)call->outputs[1], 1, 64, 4, 16, 64, 4, false);
  // mul_zero
  kernel0((float*)call->outputs[1], (float*)call->inputs[1], (float*)call->inputs[3]);
  // dot_general
  kernel1((float*)call->inputs[2], (float*)call->outputs[1], (float*)call->outputs[0]);
  return FUNCTX_OK;
}
