// SPDX-License-Identifier: Apache-2.0
// The kernels of these tests, one of -DAXPY -DGROUPS -DSPIN.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

#ifdef AXPY  // [2] = [0] * words[1] + [1], words[0] elements
layout(local_size_x = 64) in;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < push.words[0]) WORD(2, i) = WORD(0, i) * push.words[1] + WORD(1, i);
}
#endif

#ifdef GROUPS  // adds 1 to the word of each workgroup; words[0], words[1]: the whole grid's x and y
layout(local_size_x = 1) in;
void main() {
  uvec3 g = gl_WorkGroupID;
  atomicAdd(WORD(0, (g.z * push.words[1] + g.y) * push.words[0] + g.x), 1);
}
#endif

#ifdef SPIN  // [1][0] = [0][0] after words[0] turns of a generator that cannot be foreseen
layout(local_size_x = 1) in;
void main() {
  uint x = WORD(0, 0);
  for (uint i = 0; i < push.words[0]; ++i) x = x * 1664525u + 1013904223u + (x >> 7);
  WORD(1, 0) = x;
}
#endif
