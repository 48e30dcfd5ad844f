// SPDX-License-Identifier: Apache-2.0
// What a builder says of itself and puts on instructions beside their meaning.
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/module.h"
#include "program.h"

namespace krafla::testing {
namespace {

XlaOp Vector(XlaBuilder* b, int64_t number) {
  return Parameter(b, number, ShapeUtil::MakeShape(F32, {2}), "x" + std::to_string(number));
}

TEST(BuilderState, ShapesAndConstants) {
  XlaBuilder b("b");
  XlaOp x = Vector(&b, 0);
  XlaOp two = ConstantR0<float>(&b, 2);
  XlaOp y = Mul(x, two);
  EXPECT_EQ(b.GetShape(y)->ToString(false), "f32[2]");
  EXPECT_EQ(b.GetProgramShape(y)->ToString(), "(x0: f32[2]) -> f32[2]");
  EXPECT_EQ(b.GetProgramShape()->ToString(), "(x0: f32[2]) -> f32[2]");
  EXPECT_FALSE(b.IsConstant(y).value());
  EXPECT_TRUE(b.IsConstant(Exp(two)).value());
  EXPECT_FALSE(b.IsConstant(ReplicaId(&b)).value());
  EXPECT_FALSE(b.GetShape(XlaOp()).has_value());
  EXPECT_TRUE(x.IsIdenticalTo(x));
  EXPECT_FALSE(x.IsIdenticalTo(y));
  auto built = b.Build(y);
  ASSERT_TRUE(built.has_value());
  EXPECT_EQ(built->name(), "b");
  EXPECT_EQ(built->GetProgramShape()->ToString(), "(x0: f32[2]) -> f32[2]");
  EXPECT_FALSE(XlaComputation().GetProgramShape().has_value());
}

TEST(BuilderState, WhatInstructionsCarry) {
  XlaBuilder b("b");
  XlaOp x = Vector(&b, 0);
  b.SetOpMetadata({.op_type = "Layer", .op_name = "a \"b\"", .source_file = "net.py", .source_line = 7});
  b.SetFrontendAttributes({{"kind", "test"}});
  b.SetSharding("{replicated}");
  XlaOp y = Exp(x);
  b.SetOneShotOpMetadata({.op_type = "Once", .op_name = "", .source_file = "", .source_line = 0});
  XlaOp once = Neg(y);
  b.ClearOpMetadata();
  b.ClearFrontendAttributes();
  b.ClearSharding();
  {
    XlaScopedShardingAssignment sharding(&b, "{maximal device=0}");
    XlaScopedOpMetadataAssignment metadata(&b,
                                           {.op_type = "Inner", .op_name = "", .source_file = "", .source_line = 0});
    XlaScopedFrontendAttributesAssignment attributes(&b, {{"inner", "yes"}});
    y = Add(once, y);
  }
  XlaOp z = Sqrt(y);
  EXPECT_TRUE(b.SetInstructionFrontendAttribute(z, "own", "1").has_value());
  EXPECT_FALSE(b.SetInstructionFrontendAttribute(z, "not allowed", "1").has_value());
  EXPECT_FALSE(b.SetInstructionFrontendAttribute(XlaOp(), "own", "1").has_value());
  auto built = b.Build();
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  std::string text = ToHloText(*built);
  auto line = [&](std::string_view of) {
    std::size_t at = text.find(of), from = text.rfind('\n', at) + 1;
    return text.substr(from, text.find('\n', at) - from);
  };
  EXPECT_TRUE(line(" exponential(").contains(R"(metadata={op_type="Layer" op_name="a \"b\"" source_file="net.py")"))
      << text;
  EXPECT_TRUE(line(" exponential(").contains("sharding={replicated}")) << text;
  EXPECT_TRUE(line(" exponential(").contains(R"(frontend_attributes={kind="test"})")) << text;
  EXPECT_TRUE(line(" negate(").contains(R"(op_type="Once")")) << text;
  EXPECT_TRUE(line(" add(").contains("maximal device=0")) << text;
  EXPECT_TRUE(line(" add(").contains(R"(inner="yes")")) << text;
  EXPECT_TRUE(line(" add(").contains(R"(op_type="Inner")")) << text;
  EXPECT_FALSE(line(" sqrt(").contains("metadata=")) << text;
  EXPECT_TRUE(line(" sqrt(").contains(R"(own="1")")) << text;
  auto again = ParseHloText(text);
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ(PrintModule(**again), text);
}

TEST(BuilderState, AliasesAndDevices) {
  XlaBuilder b("b");
  b.SetDeviceCounts(2, 1);
  XlaOp x = Vector(&b, 0), y = Vector(&b, 1);
  b.SetUpAlias({0}, 0, {}, true);
  b.AddBufferDonor(1, {});
  Tuple(&b, {Add(x, y), y});
  auto built = b.Build();
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  EXPECT_EQ(built->module()->replica_count, 2);
  ASSERT_EQ(built->module()->input_output_aliases.size(), 1U);
  EXPECT_TRUE(built->module()->input_output_aliases[0].must_alias);
  EXPECT_EQ(built->module()->buffer_donors.size(), 1U);
}

// A computation that calls others comes along with them, once however often it is called.
TEST(BuilderState, CalledComputations) {
  XlaBuilder inner("inner");
  Reduce(Vector(&inner, 0), ConstantR0<float>(&inner, 0), AddF(), {0});
  XlaComputation sum = inner.Build().value();
  XlaBuilder b("b");
  XlaOp x = Vector(&b, 0);
  Add(Call(&b, sum, {x}), Call(&b, sum, {x}));
  auto built = b.Build();
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  EXPECT_EQ(built->module()->computations().size(), 3U);
  auto sub = b.CreateSubBuilder("sub");
  EXPECT_EQ(sub->name(), "sub");
  EXPECT_FALSE(b.ReportErrorOrReturn(InvalidArgument("mine")).valid());
  EXPECT_FALSE(b.Build().has_value());
}

}  // namespace
}  // namespace krafla::testing
