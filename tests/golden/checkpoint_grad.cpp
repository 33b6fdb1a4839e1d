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
