// add: flat, 32
static void kernel0(const double* __restrict a0, double* __restrict a1) {
  const double v3 = 1.0;
  for (int64_t i0_begin = 0; i0_begin < 32; i0_begin += 256) {
    const int64_t i0_end = smaller(i0_begin + 256, 32);
    alignas(64) double t0[256];
    alignas(64) double t1[256];
    alignas(64) double t6[256];
    alignas(64) double t9[256];
#pragma GCC ivdep
    for (int64_t i0 = i0_begin; i0 < i0_end; ++i0) {
      const double v0 = a0[i0];
      const double v4 = v3 / v0;
      const double v5 = v4 / v0;
      const double v6 = -v5;
      const double v8 = v4 + v4;
      const double v9 = mul_zero(v8, v4);
      t0[i0 - i0_begin] = v0;
      t6[i0 - i0_begin] = v6;
      t9[i0 - i0_begin] = v9;
    }
    math_log(t0, t1, i0_end - i0_begin);
#pragma GCC ivdep
    for (int64_t i0 = i0_begin; i0 < i0_end; ++i0) {
      const double v1 = t1[i0 - i0_begin];
      const double v2 = v1 + v1;
      const double v6 = t6[i0 - i0_begin];
      const double v7 = mul_zero(v2, v6);
      const double v9 = t9[i0 - i0_begin];
      const double v10 = v7 + v9;
      a1[i0] = v10;
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // add
  kernel0((double*)call->inputs[0], (double*)call->outputs[0]);
  return FUNCTX_OK;
}
