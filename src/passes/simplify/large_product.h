// SPDX-License-Identifier: Apache-2.0
// Products that are far larger than what they are made of, as the scores of attention, and what elementwise
// instructions make of them.
#pragma once

#include <algorithm>
#include <vector>

#include "passes/rewrite.h"

namespace krafla {

// Of smaller scores it costs more to compute them again than to keep them: a tenth of a gradient without a mask
// (docs/results/2026-11-29-attention-gradient.md).
inline constexpr int64_t kLeastRecomputed = int64_t{32} << 20;

inline bool IsLargeProduct(const Instruction& i, int64_t least_bytes) {
  // An element is as soon made again as written and read.
  constexpr int64_t kLeastGrowth = 2, kMostDepth = 256;
  if (i.opcode() != Opcode::kDot || !IsStatic(i) || !IsFloat(i.shape().element_type())) return false;
  if (i.shape().byte_size() < least_bytes) return false;
  int64_t operands = 0, depth = 1;
  for (const Instruction* o : i.operands()) operands += o->shape().element_count();
  if (operands > i.shape().element_count() / kLeastGrowth) return false;
  for (int64_t d : i.attr<DotAttributes>().lhs_contracting) depth *= i.operand(0)->shape().dim(d);
  return depth <= kMostDepth;
}

// The large products of a computation, and all of its instructions, operands first. Where there are none, nothing.
struct LargeProducts {
  std::vector<Instruction*> order, dots;
};
inline Result<LargeProducts> FindLargeProducts(Computation& computation, int64_t least_bytes) {
  const auto is_large = [&](const auto& i) { return IsLargeProduct(*i, least_bytes); };
  LargeProducts out;
  if (std::ranges::none_of(computation.instructions(), is_large)) return out;
  KRAFLA_TRY(computation.SortTopologically());
  for (const auto& i : computation.instructions()) {
    out.order.push_back(i.get());
    if (is_large(i)) out.dots.push_back(i.get());
  }
  return out;
}

// Whether each element of the result is made of one element of an operand of the same dimensions, or of the same in
// another order.
inline bool KeepsElements(const Instruction& i) {
  return i.shape().IsArray() && IsStatic(i) &&
         (IsElementwise(i.opcode()) || IsOneOf(i.opcode(), {Opcode::kTranspose, Opcode::kCopy}));
}

// Whether it belongs to a product's values if its operand does.
inline bool StaysAmongValues(const Instruction& i) {
  return KeepsElements(i) || (IsStatic(i) && i.shape().IsArray() &&
                              IsOneOf(i.opcode(), {Opcode::kReshape, Opcode::kBroadcast, Opcode::kReduce}));
}

}  // namespace krafla
