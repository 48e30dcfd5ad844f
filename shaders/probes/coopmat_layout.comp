// SPDX-License-Identifier: Apache-2.0
// Which lane holds which elements of a cooperative matrix, and whether a product of two is right. -DM, -DN, -DK: the
// size. [0]: A of M x K and B of K x N in f16, row-major, two numbers in a word; [1]: the subgroup's size, how many
// components a lane has of the f32 accumulator, then their values, lane by lane, of a matrix whose elements are their own
// indices; at word push.words[0] the product. The first subgroup works, whatever its size up to 128.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#include "buffers.glsl"
layout(local_size_x = 128) in;
shared float16_t halves[M * K + K * N];
shared float indices[M * N];
void main() {
  uint i = gl_LocalInvocationIndex;
  for (uint at = i; at < (M * K + K * N) / 2; at += gl_WorkGroupSize.x) {
    vec2 pair = unpackHalf2x16(WORD(0, at));
    halves[2 * at] = float16_t(pair.x);
    halves[2 * at + 1] = float16_t(pair.y);
  }
  for (uint at = i; at < M * N; at += gl_WorkGroupSize.x) indices[at] = float(at);
  barrier();
  coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> elements, product;
  coopMatLoad(elements, indices, 0, N, gl_CooperativeMatrixLayoutRowMajor);
  uint length = elements.length();
  if (gl_SubgroupID == 0) {
    if (i == 0) {
      WORD(1, 0) = gl_SubgroupSize;
      WORD(1, 1) = length;
    }
    for (uint c = 0; c < length; ++c) WORD(1, 2 + gl_SubgroupInvocationID * length + c) = uint(elements[c]);
  }
  coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
  coopMatLoad(a, halves, 0, K, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, halves, M * K, N, gl_CooperativeMatrixLayoutRowMajor);
  product = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
  product = coopMatMulAdd(a, b, product);
  barrier();
  if (gl_SubgroupID == 0) coopMatStore(product, indices, 0, N, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint at = i; at < M * N; at += gl_WorkGroupSize.x) WORD(1, push.words[0] + at) = floatBitsToUint(indices[at]);
}
