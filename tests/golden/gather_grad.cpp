// gather, scatter_add: flat, 3
static void kernel0(const int64_t* __restrict a0, Failure* failure) {
  for (int64_t i0 = 0; i0 < 3; ++i0) {
    const int64_t v0 = a0[i0];
    if ((v0 < -32) | (v0 >= 32)) fail(failure, FUNCTX_INDEX_OUT_OF_BOUNDS, 0, i0, v0, 0, 32);
    if ((v0 < -32) | (v0 >= 32)) fail(failure, FUNCTX_INDEX_OUT_OF_BOUNDS, 2, i0, v0, 0, 32);
    if ((v0 < -32) | (v0 >= 32)) fail(failure, FUNCTX_INDEX_OUT_OF_BOUNDS, 3, i0, v0, 0, 32);
  }
}

// scatter_add: flat, 32
static void kernel1(double* __restrict a0) {
  const double v0 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    a0[i0] = v0;
  }
}

// scatter_add: flat, 3
static void kernel2(const int64_t* __restrict a0, const double* __restrict a1, double* __restrict a2) {
  const int64_t v1 = int64_t(32);
  for (int64_t i0 = 0; i0 < 3; ++i0) {
    const int64_t v0 = a0[i0];
    const int64_t v2 = v0 < 0 ? v0 + v1 : v0;
    const double v3 = a1[v2];
    a2[v2] += v3;
  }
}

extern "C" int run(FunctxCall* call) {
  // gather, scatter_add
  { Failure failure; kernel0((int64_t*)call->inputs[1], &failure); if (failure.kind) return report(call, failure); }
  // scatter_add
  kernel1((double*)call->outputs[0]);
  // scatter_add
  kernel2((int64_t*)call->inputs[1], (double*)call->inputs[0], (double*)call->outputs[0]);
  // scatter_add
  kernel2((int64_t*)call->inputs[1], (double*)call->inputs[0], (double*)call->outputs[0]);
  return FUNCTX_OK;
}
