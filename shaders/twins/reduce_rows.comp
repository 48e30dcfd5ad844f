// SPDX-License-Identifier: Apache-2.0
// [1] = the sums of the rows of [0], of push.words[1] f32 numbers each; a workgroup for each row, halved in shared memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 64) in;
shared float partial[64];
void main() {
  uint lane = gl_LocalInvocationIndex, row = gl_WorkGroupID.x, length = push.words[1];
  precise float sum = 0;
  for (uint i = lane; i < length; i += 64) sum += FLOAT(0, row * length + i);
  partial[lane] = sum;
  barrier();
  for (uint half_of = 32; half_of > 0; half_of /= 2) {
    if (lane < half_of) partial[lane] += partial[lane + half_of];
    barrier();
  }
  if (lane == 0) WORD(1, row) = floatBitsToUint(partial[0]);
}
