// SPDX-License-Identifier: Apache-2.0
// Whether lanes of a subgroup get what other lanes hold. [0]: a word for each invocation; [1]: the subgroup's size, how
// many invocations a subgroup had at least, then by invocation how many of its exchanges went wrong.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "buffers.glsl"
layout(local_size_x = 64) in;
void main() {
  uint i = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
  uint mine = WORD(0, i), wrong = 0;
  uvec4 present = subgroupBallot(true);
  if (i == 0) {
    WORD(1, 0) = gl_SubgroupSize;
    WORD(1, 1) = subgroupBallotBitCount(present);
  }
  // Nothing says which invocations are neighbours in a subgroup, so each tells its index beside its word.
  for (uint distance = 1; distance < gl_SubgroupSize; distance *= 2) {
    uint other = lane ^ distance;
    uint there = subgroupShuffleXor(i, distance), word = subgroupShuffleXor(mine, distance);
    if (other < gl_SubgroupSize && subgroupBallotBitExtract(present, other) && word != WORD(0, there)) ++wrong;
  }
  uint first = subgroupShuffle(mine, 0), owner = subgroupShuffle(i, 0);
  if (subgroupBallotBitExtract(present, 0) && first != WORD(0, owner)) ++wrong;
  WORD(1, 2 + i) = wrong;
}
