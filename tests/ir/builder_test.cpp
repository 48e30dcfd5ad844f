// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace krafla {
namespace {

TEST(Builder, InfersAndRefuses) {
  Module m("m");
  Computation* c = m.AddComputation("c");
  Instruction* x = AddParameter(*c, 0, Shape::MakeArray(ElementType::kF32, Dims{2, 3}).value(), "x");
  auto t = AddTranspose(*c, x, {1, 0});
  ASSERT_TRUE(t.has_value());
  EXPECT_EQ((*t)->shape().ToString(), "f32[3,2]{1,0}");
  std::size_t count = c->instructions().size();
  EXPECT_FALSE(AddInferred(*c, Opcode::kAdd, {x, *t}).has_value());
  Shape wrong = Shape::MakeArray(ElementType::kF32, Dims{7}).value();
  EXPECT_FALSE(AddInferred(*c, Opcode::kNegate, {x}, {}, {}, &wrong).has_value());
  EXPECT_FALSE(AddReshape(*c, x, Dims{7}).has_value());
  EXPECT_EQ(c->instructions().size(), count);  // nothing was added by what failed
}

TEST(Builder, KeepsADeclaredLayout) {
  Module m("m");
  Computation* c = m.AddComputation("c");
  Shape column = Shape::MakeArray(ElementType::kF32, Dims{2, 3}).value();
  Instruction* x = AddParameter(*c, 0, column, "x");
  ASSERT_TRUE(column.SetLayout(Layout{{0, 1}, ""}).has_value());
  auto copy = AddInferred(*c, Opcode::kCopy, {x}, {}, {}, &column, "y");
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ((*copy)->shape().ToString(), "f32[2,3]{0,1}");
  EXPECT_EQ((*copy)->name(), "y");
}

TEST(Builder, Conveniences) {
  Module m("m");
  Computation* c = m.AddComputation("c");
  Instruction* half = AddScalarConstant(*c, ElementType::kBF16, 0.5);
  Instruction* b = AddBroadcastScalar(*c, half, Dims{2, 3}).value();
  EXPECT_EQ(b->shape().ToString(false), "bf16[2,3]");
  EXPECT_EQ(AddReshape(*c, b, Dims{6}).value()->shape().ToString(false), "bf16[6]");
  EXPECT_EQ(AddConvert(*c, b, ElementType::kBF16).value(), b);
  Instruction* wide = AddConvert(*c, b, ElementType::kF32).value();
  EXPECT_EQ(wide->shape().ToString(false), "f32[2,3]");
  Instruction* t = AddTuple(*c, {b, wide}).value();
  EXPECT_EQ(AddGetTupleElement(*c, t, 1).value()->shape().ToString(false), "f32[2,3]");
  EXPECT_FALSE(AddGetTupleElement(*c, t, 2).has_value());
  Shape bounded = b->shape().WithDynamicDim(1, true);
  Instruction* p = AddParameter(*c, 0, bounded);
  EXPECT_EQ(AddBroadcast(*c, p, Dims{4, 2, 3}, {1, 2}).value()->shape().ToString(false), "bf16[4,2,<=3]");
}

template <typename T>
T Scalar(ElementType type, double value) {
  Literal l = ScalarLiteral(type, value);
  return l.data<T>()[0];
}

TEST(Builder, ScalarConstants) {
  EXPECT_EQ(Scalar<float>(ElementType::kF32, -1.5), -1.5f);
  EXPECT_EQ(Scalar<double>(ElementType::kF64, 1e300), 1e300);
  EXPECT_EQ(Scalar<uint16_t>(ElementType::kF16, 1.0), 0x3c00);
  EXPECT_EQ(Scalar<uint16_t>(ElementType::kBF16, -2.0), 0xc000);
  EXPECT_EQ(Scalar<uint8_t>(ElementType::kF8E5M2, 1.0), 0x3c);
  EXPECT_EQ(Scalar<uint8_t>(ElementType::kF8E4M3FN, 1.0), 0x38);
  EXPECT_EQ(Scalar<uint8_t>(ElementType::kPred, 3), 1);
  EXPECT_EQ(Scalar<int8_t>(ElementType::kS4, -100), -8);
  EXPECT_EQ(Scalar<uint8_t>(ElementType::kU2, 100), 3);
  EXPECT_EQ(Scalar<int32_t>(ElementType::kS32, std::nan("")), 0);
  EXPECT_EQ(Scalar<int32_t>(ElementType::kS32, -7), -7);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Scalar<int64_t>(ElementType::kS64, kInfinity), INT64_MAX);
  EXPECT_EQ(Scalar<int64_t>(ElementType::kS64, -kInfinity), INT64_MIN);
  EXPECT_EQ(Scalar<uint64_t>(ElementType::kU64, kInfinity), UINT64_MAX);
  EXPECT_EQ(Scalar<uint64_t>(ElementType::kU64, -1), 0u);
  Literal c = ScalarLiteral(ElementType::kC64, 2);
  const float* parts = reinterpret_cast<const float*>(c.bytes().data());
  EXPECT_EQ(parts[0], 2.0f);
  EXPECT_EQ(parts[1], 0.0f);
}

}  // namespace
}  // namespace krafla
