// SPDX-License-Identifier: Apache-2.0
// What the ranges of integers decide is not made.
#include <gtest/gtest.h>

#include "index_text.h"
#include "plan/element_program.h"

namespace krafla::plan {
namespace {

class ElementRangesTest : public ::testing::Test {
 protected:
  NodeId Index(std::string_view text) { return builder_.Index(IndexReader(builder_.space(), text).Read()); }
  NodeId Integer(int64_t value) { return builder_.ConstantInt(ElementType::kS32, value); }
  NodeId S32(Opcode opcode, std::initializer_list<NodeId> operands) {
    return builder_.Hlo(opcode, ElementType::kS32, operands);
  }
  NodeId Less(NodeId a, NodeId b) { return builder_.Compare(ComparisonDirection::kLt, a, b); }
  // "true", "false", or "open" where it is not known before the program runs.
  std::string Known(NodeId pred) {
    const Node& n = builder_.node(pred);
    return n.op != NodeOp::kConstant ? "open" : n.bits != 0 ? "true" : "false";
  }

  ProgramBuilder builder_{Dims{8, 100}};
};

TEST_F(ElementRangesTest, ComparisonsOfIndices) {
  EXPECT_EQ(Known(Less(Index("i0"), Integer(8))), "true");
  EXPECT_EQ(Known(Less(Index("i0"), Integer(0))), "false");
  EXPECT_EQ(Known(Less(Index("i0"), Integer(7))), "open");
  EXPECT_EQ(Known(builder_.Compare(ComparisonDirection::kEq, Index("i0 + 8"), Index("i0"))), "false");
  EXPECT_EQ(Known(builder_.Compare(ComparisonDirection::kNe, Index("i0 + 8"), Integer(3))), "true");
  EXPECT_EQ(Known(builder_.Compare(ComparisonDirection::kGe, Index("i1"), Integer(0))), "true");
  EXPECT_EQ(Known(builder_.Compare(ComparisonDirection::kLe, Index("i1"), Integer(-1))), "false");
}

TEST_F(ElementRangesTest, ChoicesThatAreDecided) {
  const NodeId x = Index("i0"), y = Index("i1");
  EXPECT_EQ(builder_.Select(Less(x, Integer(0)), S32(Opcode::kAdd, {x, Integer(8)}), x), x);
  EXPECT_EQ(S32(Opcode::kClamp, {Integer(0), x, Integer(7)}), x);
  EXPECT_NE(S32(Opcode::kClamp, {Integer(0), x, Integer(6)}), x);
  EXPECT_EQ(S32(Opcode::kMinimum, {y, Integer(99)}), y);
  EXPECT_EQ(S32(Opcode::kMaximum, {Integer(-3), y}), y);
  EXPECT_EQ(builder_.Hlo(Opcode::kAnd, ElementType::kPred, {Less(x, Integer(8)), Less(y, x)}), Less(y, x));
}

TEST_F(ElementRangesTest, ArithmeticHasARangeUnlessItWraps) {
  const NodeId y = Index("i1");
  EXPECT_EQ(Known(Less(S32(Opcode::kMultiply, {y, Integer(3)}), Integer(298))), "true");
  EXPECT_EQ(Known(Less(S32(Opcode::kSubtract, {y, Integer(100)}), Integer(0))), "true");
  EXPECT_EQ(Known(Less(S32(Opcode::kRemainder, {y, Integer(10)}), Integer(10))), "true");
  EXPECT_EQ(Known(Less(Integer(-1), S32(Opcode::kMultiply, {y, Integer(100'000'000)}))), "open");
}

TEST_F(ElementRangesTest, NarrowNumbersAsIndicesNeedNoClamp) {
  const int bytes = builder_.AddBuffer(ElementType::kU8, 8, false);
  const int words = builder_.AddBuffer(ElementType::kS32, 8, false);
  const NodeId byte = builder_.Load(bytes, ElementType::kU8, builder_.space().Iter(0));
  const NodeId word = builder_.Load(words, ElementType::kS32, builder_.space().Iter(0));
  const IndexId at = builder_.ClampedIndex(byte, 0, 1000);
  EXPECT_EQ(builder_.space().RangeOf(at).hi, 255);
  const NodeId wide = builder_.Convert(byte, ElementType::kU8, ElementType::kS32);
  EXPECT_EQ(S32(Opcode::kClamp, {Integer(0), wide, Integer(255)}), wide);
  EXPECT_NE(S32(Opcode::kClamp, {Integer(0), word, Integer(255)}), word);
}

}  // namespace
}  // namespace krafla::plan
