// reduce_max, exp, reduce_sum, div: rows, 64 x 16
static void kernel0(const float* __restrict a0, float* __restrict a1) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    alignas(64) float row0[16];
    float s0 = -__builtin_inff();
    {
      for (int64_t i1_begin = 0; i1_begin < 16; i1_begin += 256) {
        const int64_t i1_end = smaller(i1_begin + 256, 16);
        s0 = Max::of(s0, block<Max>(&a0[i0 * 16 + i1_begin], i1_end - i1_begin));
      }
    }
    const float r0 = s0;
    Sum<float> s1;
    {
      const float v1 = r0;
      for (int64_t i2_begin = 0; i2_begin < 16; i2_begin += 256) {
        const int64_t i2_end = smaller(i2_begin + 256, 16);
        alignas(64) float t2[256];
        alignas(64) float t3[256];
#pragma GCC ivdep
        for (int64_t i2 = i2_begin; i2 < i2_end; ++i2) {
          const float v0 = a0[i0 * 16 + i2];
          const float v2 = v0 - v1;
          t2[i2 - i2_begin] = v2;
        }
        math_expf(t2, t3, i2_end - i2_begin);
#pragma GCC ivdep
        for (int64_t i2 = i2_begin; i2 < i2_end; ++i2) {
          const float v3 = t3[i2 - i2_begin];
          row0[i2] = v3;
        }
        s1.add(block<Add>(t3, i2_end - i2_begin));
      }
    }
    const float r1 = s1.result();
    {
      const float v1 = r1;
#pragma GCC ivdep
      for (int64_t i3 = 0; i3 < 16; ++i3) {
        const float v0 = row0[i3];
        const float v2 = v0 / v1;
        a1[i0 * 16 + i3] = v2;
      }
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // reduce_max, exp, reduce_sum, div
  kernel0((float*)call->inputs[0], (float*)call->outputs[0]);
  return FUNCTX_OK;
}
