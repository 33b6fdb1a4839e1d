// concatenate: flat, 32
static void kernel0(const double* __restrict a0, double* __restrict a1) {
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    const double v0 = a0[i0 * (-1) + 31];
    a1[i0] = v0;
  }
}

// concatenate: flat, 34
static void kernel1(const double* __restrict a0, double* __restrict a1) {
  const double v2 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 34; ++i0) {
    const bool v0 = (i0 - 1 >= 0) & (i0 - 1 < 32);
    const double v1 = v0 ? a0[i0 - 1] : double(0);
    const double v3 = v0 ? v1 : v2;
    a1[i0 + 32] = v3;
  }
}

// concatenate: flat, 8 x 4
static void kernel2(const double* __restrict a0, double* __restrict a1) {
  for (int64_t i1 = 0; i1 < 8; ++i1) {
#pragma GCC ivdep
    for (int64_t i2 = 0; i2 < 4; ++i2) {
      const double v0 = a0[i1 + i2 * 8];
      a1[i1 * 4 + i2 + 66] = v0;
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // concatenate
  kernel0((double*)call->inputs[0], (double*)call->outputs[0]);
  // concatenate
  kernel1((double*)call->inputs[0], (double*)call->outputs[0]);
  // concatenate
  kernel2((double*)call->inputs[0], (double*)call->outputs[0]);
  return FUNCTX_OK;
}
