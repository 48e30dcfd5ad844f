// SPDX-License-Identifier: Apache-2.0
// What f32 arithmetic makes of subnormal numbers, NaNs, infinities and signed zeros. [0]: operands; [1]: bits of results.
// The operands come from a buffer, so that the compiler cannot know them. No execution mode is declared (DenormPreserve,
// SignedZeroInfNanPreserve), as krafla's kernels do where the device has them: these are the driver's own ways.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
layout(local_size_x = 1) in;
void main() {
  precise float subnormal = FLOAT(0, 0), one = FLOAT(0, 1), nan = FLOAT(0, 2), infinity = FLOAT(0, 3);
  precise float negative_zero = FLOAT(0, 4), a = FLOAT(0, 5), b = FLOAT(0, 6), c = FLOAT(0, 7);
  precise float another_infinity = FLOAT(0, 8);
  precise float product = subnormal * one, sum = subnormal + subnormal, difference = infinity - another_infinity;
  precise float zero = negative_zero * one, chain = a * b + c, quotient = one / (negative_zero * one);
  WORD(1, 0) = floatBitsToUint(product);
  WORD(1, 1) = floatBitsToUint(sum);
  WORD(1, 2) = floatBitsToUint(difference);
  WORD(1, 3) = floatBitsToUint(zero);
  WORD(1, 4) = nan != nan ? 1 : 0;
  WORD(1, 5) = nan < one || nan >= one ? 1 : 0;
  WORD(1, 6) = floatBitsToUint(chain);
  WORD(1, 7) = floatBitsToUint(quotient);
  WORD(1, 8) = subnormal > 0.0 ? 1 : 0;
  WORD(1, 9) = WORD(0, 2);
  precise float itself = infinity - infinity;
  WORD(1, 10) = floatBitsToUint(itself);
}
