// SPDX-License-Identifier: Apache-2.0
#include "plan/combiner_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace krafla::plan {
namespace {

constexpr ElementType kFloat = ElementType::kF32;

ElementProgram CombinerOf(int sides,
                          const std::function<std::vector<NodeId>(ProgramBuilder&, std::vector<NodeId>)>& f) {
  ProgramBuilder b({});
  std::vector<NodeId> parameters;
  for (int i = 0; i < 2 * sides; ++i) parameters.push_back(b.Param(kFloat, i, 0));
  for (const NodeId result : f(b, parameters)) b.AddResult(result);
  return std::move(b).Finish();
}

TEST(CombinerOrder, SumsOfExponentialsAreCommutative) {
  // (m, s), (n, t) -> (max(m, n), s exp(m - max) + t exp(n - max))
  const ElementProgram combiner = CombinerOf(2, [](ProgramBuilder& b, std::vector<NodeId> p) {
    const auto op = [&](Opcode o, NodeId x, NodeId y) { return b.Hlo(o, kFloat, {x, y}); };
    const NodeId max = op(Opcode::kMaximum, p[0], p[2]);
    const auto scaled = [&](NodeId sum, NodeId of) {
      return op(Opcode::kMultiply, sum, b.Hlo(Opcode::kExp, kFloat, {op(Opcode::kSubtract, of, max)}));
    };
    return std::vector<NodeId>{max, op(Opcode::kAdd, scaled(p[1], p[0]), scaled(p[3], p[2]))};
  });
  EXPECT_TRUE(IsCommutative(combiner));
}

TEST(CombinerOrder, ComparisonsAreReadBothWays) {
  // Whether either is less than the other.
  const ElementProgram combiner = CombinerOf(1, [](ProgramBuilder& b, std::vector<NodeId> p) {
    const NodeId less = b.Compare(ComparisonDirection::kLt, p[0], p[1]);
    const NodeId more = b.Compare(ComparisonDirection::kGt, p[0], p[1]);
    return std::vector<NodeId>{
        b.Convert(b.Hlo(Opcode::kXor, ElementType::kPred, {less, more}), ElementType::kPred, kFloat)};
  });
  EXPECT_TRUE(IsCommutative(combiner));
}

TEST(CombinerOrder, WhatTakesOneSideIsNotCommutative) {
  EXPECT_FALSE(IsCommutative(CombinerOf(1, [](ProgramBuilder&, std::vector<NodeId> p) { return std::vector{p[1]}; })));
  EXPECT_FALSE(IsCommutative(CombinerOf(1, [](ProgramBuilder& b, std::vector<NodeId> p) {
    return std::vector{b.Hlo(Opcode::kSubtract, kFloat, {p[0], p[1]})};
  })));
  EXPECT_FALSE(IsCommutative(CombinerOf(2, [](ProgramBuilder& b, std::vector<NodeId> p) {
    return std::vector{b.Hlo(Opcode::kMultiply, kFloat, {p[0], p[3]}), b.Hlo(Opcode::kMultiply, kFloat, {p[1], p[2]})};
  })));
}

}  // namespace
}  // namespace krafla::plan
