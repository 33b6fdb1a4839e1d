// slice_set: flat, 30
static void kernel0(const double* __restrict a0, double* __restrict a1) {
  const double v0 = 0.5;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 30; ++i0) {
    const double v1 = a0[i0];
    const double v2 = a0[i0 + 2];
    const double v3 = v1 + v2;
    const double v4 = v0 * v3;
    a1[i0 + 1] = v4;
  }
}

// slice_set: flat, 32
static void kernel1(const double* __restrict a0, double* __restrict a1) {
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    const double v0 = a0[i0];
    const double v1 = v0 + v0;
    a1[i0] = v1;
  }
}

// slice_set: flat, 30
static void kernel2(double* __restrict a0) {
  const double v0 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 30; ++i0) {
    a0[i0 + 1] = v0;
  }
}

// add: flat, 32
static void kernel3(double* __restrict a0, const double* __restrict a1) {
  const double v4 = 0.5;
  const double v6 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    const double v0 = a0[i0];
    const bool v1 = (i0 - 2 >= 0);
    const double v2 = v1 ? a1[i0 - 1] : double(0);
    const double v3 = v2 + v2;
    const double v5 = v3 * v4;
    const double v7 = v1 ? v5 : v6;
    const double v8 = v0 + v7;
    const bool v9 = (i0 < 30);
    const double v10 = v9 ? a1[i0 + 1] : double(0);
    const double v11 = v10 + v10;
    const double v12 = v11 * v4;
    const double v13 = v9 ? v12 : v6;
    const double v14 = v8 + v13;
    a0[i0] = v14;
  }
}

// add: flat, 32
static void kernel4(double* __restrict a0, const double* __restrict a1) {
  const double v3 = 0.5;
  const double v5 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    const double v0 = a0[i0];
    const bool v1 = (i0 - 2 >= 0);
    const double v2 = v1 ? a1[i0 - 1] : double(0);
    const double v4 = v2 * v3;
    const double v6 = v1 ? v4 : v5;
    const double v7 = v0 + v6;
    const bool v8 = (i0 < 30);
    const double v9 = v8 ? a1[i0 + 1] : double(0);
    const double v10 = v9 * v3;
    const double v11 = v8 ? v10 : v5;
    const double v12 = v7 + v11;
    a0[i0] = v12;
  }
}

// slice_set, mul: flat, 30
static void kernel5(double* __restrict a0, double* __restrict a1) {
  const double v0 = 0.0;
  const double v2 = 0.5;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 30; ++i0) {
    const double v1 = a0[i0 + 1];
    const double v3 = v1 * v2;
    a0[i0 + 1] = v0;
    a1[i0] = v3;
  }
}

// add: flat, 32
static void kernel6(double* __restrict a0, const double* __restrict a1) {
  const double v3 = 0.0;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 32; ++i0) {
    const double v0 = a0[i0];
    const bool v1 = (i0 - 2 >= 0);
    const double v2 = v1 ? a1[i0 - 2] : double(0);
    const double v4 = v1 ? v2 : v3;
    const double v5 = v0 + v4;
    const bool v6 = (i0 < 30);
    const double v7 = v6 ? a1[i0] : double(0);
    const double v8 = v6 ? v7 : v3;
    const double v9 = v5 + v8;
    a0[i0] = v9;
  }
}

extern "C" int run(FunctxCall* call) {
  __builtin_memcpy((double*)((char*)call->workspace + 0), (double*)call->inputs[0], 256);
  // slice_set
  kernel0((double*)call->inputs[0], (double*)((char*)call->workspace + 0));
  __builtin_memcpy((double*)((char*)call->workspace + 256), (double*)call->inputs[0], 256);
  // slice_set
  kernel0((double*)((char*)call->workspace + 0), (double*)((char*)call->workspace + 256));
  __builtin_memcpy((double*)((char*)call->workspace + 0), (double*)call->inputs[0], 256);
  // slice_set
  kernel0((double*)((char*)call->workspace + 256), (double*)((char*)call->workspace + 0));
  // slice_set
  kernel1((double*)((char*)call->workspace + 0), (double*)((char*)call->workspace + 256));
  // slice_set
  kernel2((double*)((char*)call->workspace + 256));
  // add
  kernel3((double*)((char*)call->workspace + 256), (double*)((char*)call->workspace + 0));
  __builtin_memcpy((double*)call->outputs[0], (double*)((char*)call->workspace + 256), 256);
  // slice_set
  kernel2((double*)call->outputs[0]);
  // add
  kernel4((double*)call->outputs[0], (double*)((char*)call->workspace + 256));
  // slice_set, mul
  kernel5((double*)call->outputs[0], (double*)((char*)call->workspace + 0));
  // add
  kernel6((double*)call->outputs[0], (double*)((char*)call->workspace + 0));
  return FUNCTX_OK;
}
