// SPDX-License-Identifier: Apache-2.0
// The kernels of these tests, in both binding models: -DADDRESSES, and one of -DAXPY -DGROUPS -DSPIN.
#version 450
#ifdef ADDRESSES
#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint w[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Row { Words buffers[4]; };
layout(push_constant) uniform Push { Row row; uint words[14]; } push;
#define WORD(i, at) push.row.buffers[i].w[at]
#else
layout(push_constant) uniform Push { layout(offset = 8) uint words[14]; } push;
layout(set = 0, binding = 0, std430) buffer B0 { uint w[]; } b0;
layout(set = 0, binding = 1, std430) buffer B1 { uint w[]; } b1;
layout(set = 0, binding = 2, std430) buffer B2 { uint w[]; } b2;
#define WORD(i, at) b##i.w[at]
#endif

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
