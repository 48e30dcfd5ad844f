// SPDX-License-Identifier: Apache-2.0
// [2] = max([0] * [1] + [0], -[1]) - [1] / [0] over push.words[0] f32 numbers, without a fused multiply-add.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 64) in;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= push.words[0]) return;
  precise float x = FLOAT(0, i), y = FLOAT(1, i);
  precise float product = x * y, sum = product + x, quotient = y / x;
  precise float result = max(sum, -y) - quotient;
  WORD(2, i) = floatBitsToUint(result);
}
