// SPDX-License-Identifier: Apache-2.0
// [1] = the 256 s32 numbers of [0], ascending: a bitonic sort in shared memory, a workgroup for each 256.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 256) in;
shared int keys[256];
void main() {
  uint lane = gl_LocalInvocationIndex, start = gl_WorkGroupID.x * 256;
  keys[lane] = int(WORD(0, start + lane));
  barrier();
  for (uint length = 2; length <= 256; length *= 2) {
    for (uint distance = length / 2; distance > 0; distance /= 2) {
      uint other = lane ^ distance;
      if (other > lane) {
        int low = min(keys[lane], keys[other]), high = max(keys[lane], keys[other]);
        bool ascending = (lane & length) == 0;
        keys[lane] = ascending ? low : high;
        keys[other] = ascending ? high : low;
      }
      barrier();
    }
  }
  WORD(1, start + lane) = uint(keys[lane]);
}
