// tanh, sub, mul_zero: flat, 64 x 4
static void kernel0(float* __restrict a0, const float* __restrict a1, const float* __restrict a2, float* __restrict a3) {
  for (int64_t i0 = 0; i0 < 64; ++i0) {
    const float v6 = 0.00390625f;
    const float v9 = 1.0f;
    for (int64_t i1_begin = 0; i1_begin < 4; i1_begin += 256) {
      const int64_t i1_end = smaller(i1_begin + 256, 4);
      alignas(64) float t2[256];
      alignas(64) float t3[256];
#pragma GCC ivdep
      for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
        const float v0 = a0[i0 * 4 + i1];
        const float v1 = a1[i1];
        const float v2 = v0 + v1;
        t2[i1 - i1_begin] = v2;
      }
      math_tanhf(t2, t3, i1_end - i1_begin);
#pragma GCC ivdep
      for (int64_t i1 = i1_begin; i1 < i1_end; ++i1) {
        const float v3 = t3[i1 - i1_begin];
        const float v4 = a2[i0 * 4 + i1];
        const float v5 = v3 - v4;
        const float v7 = v5 * v6;
        const float v8 = v7 + v7;
        const float v10 = v3 * v3;
        const float v11 = v9 - v10;
        const float v12 = mul_zero(v8, v11);
        a0[i0 * 4 + i1] = v5;
        a3[i0 * 4 + i1] = v12;
      }
    }
  }
}

// reduce_sum: rows, 256
static void kernel1(const float* __restrict a0, float* __restrict a1) {
  Sum<float> s0;
  {
    for (int64_t i1_begin = 0; i1_begin < 256; i1_begin += 256) {
      const int64_t i1_end = smaller(i1_begin + 256, 256);
      s0.add(block_product(&a0[i1_begin], &a0[i1_begin], i1_end - i1_begin));
    }
  }
  a1[0] = s0.result();
}

// mul: flat, one value
static void kernel2(float* __restrict a0) {
  const float v0 = a0[0];
  const float v1 = 0.00390625f;
  const float v2 = v0 * v1;
  a0[0] = v2;
}

// reduce_sum: columns, 4 x 64
static void kernel3(const float* __restrict a0, float* __restrict a1) {
  for (int64_t task = 0; task < 1; ++task) {
    const int64_t column_begin = task % 1 * 256;
    const int64_t column_end = smaller(column_begin + 256, 4);
    alignas(64) float total0[256];
    for (int64_t k = 0; k < 256; ++k) total0[k] = 0;
    for (int64_t i1 = 0; i1 < 64; ++i1) {
      for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
        const float v0 = a0[i0 + i1 * 4];
        total0[i0 - column_begin] = Add::of(total0[i0 - column_begin], v0);
      }
    }
    for (int64_t i0 = column_begin; i0 < column_end; ++i0) {
      a1[i0] = total0[i0 - column_begin];
    }
  }
}

extern "C" int run(FunctxCall* call) {
  // dot_general: 1 x (64 x 16) @ (16 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[2] + 0, 0, 16, 1}, Matrix<float>{(float*)call->inputs[0] + 0, 0, 4, 1}, (float*)((char*)call->workspace + 0), 1, 64, 4, 16);
  // tanh, sub, mul_zero
  kernel0((float*)((char*)call->workspace + 0), (float*)call->inputs[1], (float*)call->inputs[3], (float*)((char*)call->workspace + 1024));
  // reduce_sum
  kernel1((float*)((char*)call->workspace + 0), (float*)call->outputs[0]);
  // mul
  kernel2((float*)call->outputs[0]);
  // reduce_sum
  kernel3((float*)((char*)call->workspace + 1024), (float*)call->outputs[2]);
  // dot_general: 1 x (16 x 64) @ (64 x 4)
  matmul<float>(Matrix<float>{(float*)call->inputs[2] + 0, 0, 1, 16}, Matrix<float>{(float*)((char*)call->workspace + 1024) + 0, 0, 4, 1}, (float*)call->outputs[1], 1, 16, 4, 64);
  return FUNCTX_OK;
}
