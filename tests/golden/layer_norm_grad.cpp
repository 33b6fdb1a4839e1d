// reduce_sum, sqrt, reshape, add: rows, 64 x 16
static void kernel0(const float* __restrict a0, float* __restrict a1, float* __restrict a2, const float* __restrict a3, float* __restrict a4) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    alignas(64) float row0[16];
    Sum<float> s0;
    {
      for (int64_t i1_begin = 0; i1_begin < 16; i1_begin += 256) {
        const int64_t i1_end = smaller(i1_begin + 256, 16);
        s0.add(block<Add>(&a0[i0 * 16 + i1_begin], i1_end - i1_begin));
      }
    }
    const float r0 = s0.result();
    a1[i0] = r0;
    Sum<float> s1;
    {
      const float v1 = r0;
      const float v2 = 0.0625f;
      const float v3 = v1 * v2;
      for (int64_t i2_begin = 0; i2_begin < 16; i2_begin += 256) {
        const int64_t i2_end = smaller(i2_begin + 256, 16);
        alignas(64) float t5[256];
#pragma GCC ivdep
        for (int64_t i2 = i2_begin; i2 < i2_end; ++i2) {
          const float v0 = a0[i0 * 16 + i2];
          const float v4 = v0 - v3;
          const float v5 = v4 * v4;
          t5[i2 - i2_begin] = v5;
        }
        s1.add(block<Add>(t5, i2_end - i2_begin));
      }
    }
    const float r1 = s1.result();
    float r2;
    {
      const float v0 = r1;
      const float v1 = 0.0625f;
      const float v2 = v0 * v1;
      const float v3 = 1e-05f;
      const float v4 = v2 + v3;
      const float v5 = __builtin_sqrtf(v4);
      r2 = v5;
      a2[i0] = v5;
    }
    Sum<float> s2;
    {
      const float v2 = r0;
      const float v3 = 0.0625f;
      const float v4 = v2 * v3;
      const float v6 = r2;
      for (int64_t i3_begin = 0; i3_begin < 16; i3_begin += 256) {
        const int64_t i3_end = smaller(i3_begin + 256, 16);
        alignas(64) float t10[256];
#pragma GCC ivdep
        for (int64_t i3 = i3_begin; i3 < i3_end; ++i3) {
          const float v0 = a3[i3];
          const float v1 = a0[i0 * 16 + i3];
          const float v5 = v1 - v4;
          const float v7 = v5 / v6;
          const float v8 = v7 / v6;
          const float v9 = -v8;
          const float v10 = mul_zero(v0, v9);
          t10[i3 - i3_begin] = v10;
        }
        s2.add(block<Add>(t10, i3_end - i3_begin));
      }
    }
    const float r3 = s2.result();
    float r4;
    {
      const float v0 = r3;
      const float v1 = 0.5f;
      const float v2 = r2;
      const float v3 = v1 / v2;
      const float v4 = mul_zero(v0, v3);
      const float v5 = 0.0625f;
      const float v6 = v4 * v5;
      r4 = v6;
    }
    Sum<float> s3;
    {
      const float v1 = 1.0f;
      const float v2 = r2;
      const float v3 = v1 / v2;
      const float v5 = r4;
      const float v7 = r0;
      const float v8 = 0.0625f;
      const float v9 = v7 * v8;
      for (int64_t i4_begin = 0; i4_begin < 16; i4_begin += 256) {
        const int64_t i4_end = smaller(i4_begin + 256, 16);
        alignas(64) float t14[256];
#pragma GCC ivdep
        for (int64_t i4 = i4_begin; i4 < i4_end; ++i4) {
          const float v0 = a3[i4];
          const float v4 = mul_zero(v0, v3);
          const float v6 = a0[i0 * 16 + i4];
          const float v10 = v6 - v9;
          const float v11 = mul_zero(v5, v10);
          const float v12 = v4 + v11;
          const float v13 = v12 + v11;
          const float v14 = -v13;
          t14[i4 - i4_begin] = v14;
          row0[i4] = v13;
        }
        s3.add(block<Add>(t14, i4_end - i4_begin));
      }
    }
    const float r5 = s3.result();
    {
      const float v1 = r5;
      const float v2 = 0.0625f;
      const float v3 = v1 * v2;
#pragma GCC ivdep
      for (int64_t i5 = 0; i5 < 16; ++i5) {
        const float v0 = row0[i5];
        const float v4 = v0 + v3;
        a4[i0 * 16 + i5] = v4;
      }
    }
  }
}

// reduce_sum: columns, 16 x 64
static void kernel1(const float* __restrict a0, const float* __restrict a1, const float* __restrict a2, float* __restrict a3) {
  for (int64_t task = 0; task < 1; ++task) {
    const int64_t column_begin = task % 1 * 256;
    const int64_t column_end = smaller(column_begin + 256, 16);
    alignas(64) float total0[256];
    for (int64_t k = 0; k < 256; ++k) total0[k] = 0;
    for (int64_t i1 = 0; i1 < 64; ++i1) {
      const float v1 = a0[i1];
      const float v2 = 0.0625f;
      const float v3 = v1 * v2;
      const float v5 = a1[i1];
      for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
        const float v0 = a2[i0 + i1 * 16];
        const float v4 = v0 - v3;
        const float v6 = v4 / v5;
        total0[i0 - column_begin] = Add::of(total0[i0 - column_begin], v6);
      }
    }
    for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
      a3[i0] = total0[i0 - column_begin];
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // reduce_sum, sqrt, reshape, add
  kernel0((float*)call->inputs[0], (float*)((char*)call->workspace + 0), (float*)((char*)call->workspace + 256), (float*)call->inputs[1], (float*)call->outputs[0]);
  // reduce_sum
  kernel1((float*)((char*)call->workspace + 0), (float*)((char*)call->workspace + 256), (float*)call->inputs[0], (float*)call->outputs[1]);
  return FUNCTX_OK;
}
