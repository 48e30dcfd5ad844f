// SPDX-License-Identifier: Apache-2.0
// The kernel of examples/custom_call.cpp: how far each number lies from the last. Buffers are descriptors, in the order of
// the call's arrays: the operand, then the result.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer Operand { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result { float differences[]; };
const uint kElements = 5;  // of the arrays in the example's program
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= kElements) return;
  differences[i] = i == 0 ? x[0] : x[i] - x[i - 1];
}
