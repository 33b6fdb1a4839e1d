// gather, scatter_set: flat, 2
static void kernel0(const int64_t* __restrict a0, Failure* failure) {
  for (int64_t i0 = 0; i0 < 2; ++i0) {
    const int64_t v0 = a0[i0];
    if ((v0 < -5) | (v0 >= 5)) fail(failure, FUNCTX_INDEX_OUT_OF_BOUNDS, 0, i0, v0, 0, 5);
    if ((v0 < -5) | (v0 >= 5)) fail(failure, FUNCTX_INDEX_OUT_OF_BOUNDS, 2, i0, v0, 0, 5);
  }
}

// add: flat, 2 x 3
static void kernel1(const int64_t* __restrict a0, const double* __restrict a1, const double* __restrict a2, double* __restrict a3) {
  for (int64_t i0 = 0; i0 < 2; ++i0) {
    const int64_t v0 = a0[i0];
    const int64_t v1 = int64_t(5);
    const int64_t v2 = v0 < 0 ? v0 + v1 : v0;
#pragma GCC ivdep
    for (int64_t i1 = 0; i1 < 3; ++i1) {
      const double v3 = a1[i1 + v2 * 3];
      const double v4 = a2[i0 * 3 + i1];
      const double v5 = v3 + v4;
      a3[i0 * 3 + i1] = v5;
    }
  }
}

// scatter_set: flat, 2 x 3
static void kernel2(const int64_t* __restrict a0, const double* __restrict a1, double* __restrict a2) {
  for (int64_t i0 = 0; i0 < 2; ++i0) {
    const int64_t v1 = a0[i0];
    const int64_t v2 = int64_t(5);
    const int64_t v3 = v1 < 0 ? v1 + v2 : v1;
#pragma GCC ivdep
    for (int64_t i1 = 0; i1 < 3; ++i1) {
      const double v0 = a1[i0 * 3 + i1];
      a2[i1 + v3 * 3] = v0;
    }
  }
}

// reduce_sum: columns, 3 x 5
static void kernel3(const double* __restrict a0, double* __restrict a1) {
  for (int64_t task = 0; task < 1; ++task) {
    const int64_t column_begin = task % 1 * 256;
    const int64_t column_end = smaller(column_begin + 256, 3);
    alignas(64) double total0[256];
    for (int64_t k = 0; k < 256; ++k) total0[k] = 0;
    for (int64_t i1 = 0; i1 < 5; ++i1) {
      for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
        const double v0 = a0[i0 + i1 * 3];
        total0[i0 - column_begin] = Add::of(total0[i0 - column_begin], v0);
      }
    }
    for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
      a1[i0] = total0[i0 - column_begin];
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // gather, scatter_set
  { Failure failure; kernel0((int64_t*)call->inputs[1], &failure); if (failure.kind) return report(call, failure); }
  // add
  kernel1((int64_t*)call->inputs[1], (double*)call->inputs[0], (double*)call->inputs[2], (double*)((char*)call->workspace + 0));
  // scatter_set: updates inputs[0] in place
  kernel2((int64_t*)call->inputs[1], (double*)((char*)call->workspace + 0), (double*)call->inputs[0]);
  // reduce_sum
  kernel3((double*)call->inputs[0], (double*)call->outputs[0]);
  return FUNCTX_OK;
}
