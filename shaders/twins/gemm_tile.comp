// SPDX-License-Identifier: Apache-2.0
// [2] = [0] . [1], f32, m x k by k x n (push.words[0..2]), by tiles of 16 x 16 in shared memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 16, local_size_y = 16) in;
shared float left[16][16], right[16][16];
void main() {
  uint m = push.words[0], n = push.words[1], k = push.words[2];
  uint column = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
  uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  precise float sum = 0;
  for (uint at = 0; at < k; at += 16) {
    left[y][x] = row < m && at + x < k ? FLOAT(0, row * k + at + x) : 0;
    right[y][x] = column < n && at + y < k ? FLOAT(1, (at + y) * n + column) : 0;
    barrier();
    for (uint i = 0; i < 16; ++i) sum += left[y][i] * right[i][x];
    barrier();
  }
  if (row < m && column < n) WORD(2, row * n + column) = floatBitsToUint(sum);
}
