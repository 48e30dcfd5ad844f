// SPDX-License-Identifier: Apache-2.0
// [2] = the convolution of [0] with [1], f32, input b01f, filter 01io, output b01f, window 3 x 3, stride 1, padding 1:
// push.words = height, width, features in, features out, elements of the result.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 64) in;
void main() {
  int height = int(push.words[0]), width = int(push.words[1]), from = int(push.words[2]), to = int(push.words[3]);
  int i = int(gl_GlobalInvocationID.x);
  if (i >= int(push.words[4])) return;
  int feature = i % to, x = i / to % width, y = i / to / width % height, image = i / to / width / height;
  precise float sum = 0;
  for (int dy = 0; dy < 3; ++dy) {
    for (int dx = 0; dx < 3; ++dx) {
      int row = y + dy - 1, column = x + dx - 1;
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      for (int f = 0; f < from; ++f)
        sum += FLOAT(0, ((image * height + row) * width + column) * from + f) * FLOAT(1, ((dy * 3 + dx) * from + f) * to + feature);
    }
  }
  WORD(2, i) = floatBitsToUint(sum);
}
