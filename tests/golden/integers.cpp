// sub, and_, sign: flat, 6
static void kernel0(const int32_t* __restrict a0, int32_t* __restrict a1, uint8_t* __restrict a2, int32_t* __restrict a3) {
  const int32_t v1 = 3;
  const int32_t v3 = 1;
  const int32_t v5 = 2;
  const int32_t v7 = 4;
#pragma GCC ivdep
  for (int64_t i0 = 0; i0 < 6; ++i0) {
    const int32_t v0 = a0[i0];
    const int32_t v2 = v0 * v1;
    const int32_t v4 = v2 - v3;
    const bool v6 = v0 > v5;
    const bool v8 = v0 != v7;
    const bool v9 = v6 & v8;
    const int32_t v10 = sign_of(v0);
    a1[i0] = v4;
    a2[i0] = v9;
    a3[i0] = v10;
  }
}

// reduce_sum: rows, 6
static void kernel1(const int32_t* __restrict a0, int64_t* __restrict a1) {
  int64_t s0 = 0;
  {
    for (int64_t i0_begin = 0; i0_begin < 6; i0_begin += 256) {
      const int64_t i0_end = smaller(i0_begin + 256, 6);
      alignas(64) int64_t t1[256];
#pragma GCC ivdep
      for (int64_t i0 = i0_begin; i0 < i0_end; ++i0) {
        const int32_t v0 = a0[i0];
        const int64_t v1 = (int64_t)v0;
        t1[i0 - i0_begin] = v1;
      }
      s0 = Add::of(s0, block<Add>(t1, i0_end - i0_begin));
    }
  }
  a1[0] = s0;
}

extern "C" int run(FunctxCall* call) {
  // sub, and_, sign
  kernel0((int32_t*)call->inputs[0], (int32_t*)call->outputs[0], (uint8_t*)call->outputs[1], (int32_t*)call->outputs[2]);
  // reduce_sum
  kernel1((int32_t*)call->inputs[0], (int64_t*)call->outputs[3]);
  return FUNCTX_OK;
}
