#include <stdint.h>
#include "call.h"

static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

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

// add: flat, 256
static void kernel0(float* __restrict a0) {
#pragma GCC ivdep
  for (int64_t i1 = 0; i1 < 256; ++i1) {
    const float v0 = a0[i1];
    const float v1 = v0 + v0;
    a0[i1] = v1;
  }
}

// sub: flat, 64
static void kernel1(const float* __restrict a0, float* __restrict a1) {
  const float v1 = 0.1f;
#pragma GCC ivdep
  for (int64_t i1 = 0; i1 < 64; ++i1) {
    const float v0 = a0[i1];
    const float v2 = a1[i1];
    const float v3 = v1 * v2;
    const float v4 = v0 - v3;
    a1[i1] = v4;
  }
}

extern "C" int run(FunctxCall* call) {
  // dot_general: 1 x (64 x 16) @ (16 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[1] + 0, 0, 16, 1}, Matrix<float>{(float*)call->inputs[0] + 0, 0, 4, 1}, (float*)((char*)call->workspace + 0), 1, 64, 4, 16, 64, 4, false);
  // add
  kernel0((float*)((char*)call->workspace + 0));
  // dot_general: 1 x (16 x 64) @ (64 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[1] + 0, 0, 1, 16}, Matrix<float>{(float*)((char*)call->workspace + 0) + 0, 0, 4, 1}, (float*)call->outputs[0], 1, 16, 4, 64, 16, 4, false);
  // sub
  kernel1((float*)call->inputs[0], (float*)call->outputs[0]);
  return FUNCTX_OK;
}
