// add: flat, 1024
static void kernel0(const float* __restrict a0, const float* __restrict a1, float* __restrict a2) {
  const float v3 = 1.0f;
  for (int64_t i1_begin = 0; i1_begin < 1024; i1_begin += 256) {
    const int64_t i1_end = smaller(i1_begin + 256, 1024);
    alignas(64) float t4[256];
    alignas(64) float t5[256];
    alignas(64) float t7[256];
    alignas(64) float t8[256];
#pragma GCC ivdep
    for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
      const float v0 = a0[i1];
      const float v1 = a1[i1];
      const float v2 = v0 * v1;
      const float v4 = v2 + v3;
      const float v6 = v4 * v4;
      const float v7 = -v6;
      t4[i1 - i1_begin] = v4;
      t7[i1 - i1_begin] = v7;
    }
    math_tanhf(t4, t5, i1_end - i1_begin);
    math_expf(t7, t8, i1_end - i1_begin);
#pragma GCC ivdep
    for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
      const float v5 = t5[i1 - i1_begin];
      const float v8 = t8[i1 - i1_begin];
      const float v9 = v5 + v8;
      a2[i1] = v9;
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // add
  kernel0((float*)call->inputs[0], (float*)call->inputs[1], (float*)call->outputs[0]);
  return FUNCTX_OK;
}
