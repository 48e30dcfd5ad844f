// SPDX-License-Identifier: Apache-2.0
// Reads and writes of 16 bytes through addresses: at the start of a buffer, and at an address that was computed. [0]: 128
// words; [1]: the same words, moved by vectors. With ADDRESSES alone.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "buffers.glsl"
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { uvec4 v[]; };
layout(local_size_x = 16) in;

Vectors Further(uvec2 address, uint bytes) {
  uint carry;
  uint low = uaddCarry(address.x, bytes, carry);
  return Vectors(uvec2(low, address.y + carry));
}

void main() {
  uint i = gl_LocalInvocationIndex;
  uvec2 from = uvec2(push.row.buffers[0]), to = uvec2(push.row.buffers[1]);
  Vectors(to).v[i] = Vectors(from).v[i];
  Further(to, 256 + 16 * i).v[0] = Further(from, 256 + 16 * i).v[0];
}
