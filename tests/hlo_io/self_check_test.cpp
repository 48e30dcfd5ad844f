// SPDX-License-Identifier: Apache-2.0
#include "recorded/self_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/verifier.h"

namespace krafla {
namespace {

constexpr std::string_view kParts = R"mlir(
// A comment is no part.

// -----

func.func @add_works() {
  %0 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>
  %1 = stablehlo.add %0, %0 : tensor<2xi4>
  check.expect_eq_const %1, dense<[2, -4]> : tensor<2xi4>
  check.expect_eq %1, %1 : tensor<2xi4>
  func.return
}

// -----

module @close {
  func.func public @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%0, %0) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    check.expect_close %0, %0, max_ulp_difference = 5, min_ulp_difference = 1 : tensor<2xf32>, tensor<2xf32>
    check.expect_almost_eq_const %0, dense<1.0> : tensor<2xf32>, tolerance = 0.25
    return %0 : tensor<2xf32>
  }
}

// -----

module @devices {
  func.func @sum(%a : tensor<2xi64>) -> tensor<2xi64> {
    %r = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<i64>, %y: tensor<i64>):
        %s = stablehlo.add %x, %y : tensor<i64>
        stablehlo.return %s : tensor<i64>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi64>) -> tensor<2xi64>
    return %r : tensor<2xi64>
  }
  func.func @main() {
    %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %1:2 = "interpreter.run_parallel"(%0, %0) {programs=[[@sum], [@sum]]} : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %1#1, dense<[2, 4]> : tensor<2xi64>
    func.return
  }
}

// -----

func.func @probed() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = interpreter.probe %0, probe_id = "here" : tensor<2xi32>
  %2 = stablehlo.add %1, %1 : tensor<2xi32>
  check.expect_serialized_eq %2, probe_id = "here" : tensor<2xi32>
  func.return
}

// -----

module @two_programs {
  func.func @abs(%a : tensor<2xf32>) -> tensor<2xf32> {
    %r = stablehlo.abs %a : tensor<2xf32>
    return %r : tensor<2xf32>
  }
  func.func @none() -> tensor<f32> {
    %r = stablehlo.constant dense<1.0> : tensor<f32>
    return %r : tensor<f32>
  }
  func.func @main() {
    %0 = stablehlo.constant dense<-1.0> : tensor<2xf32>
    %1:2 = "interpreter.run_parallel"(%0) {programs=[[@abs], [@none]]} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>)
    check.expect_eq_const %1#0, dense<1.0> : tensor<2xf32>
    func.return
  }
}

// -----

func.func @broken() { %0 = stablehlo.nothing : tensor<f32> }
)mlir";

TEST(SelfCheck, PartsOfAFile) {
  ASSERT_TRUE(HasChecks(kParts));
  std::vector<SelfCheckPart> parts = ReadSelfChecks(kParts, "parts.mlir");
  ASSERT_EQ(parts.size(), 6u);
  ASSERT_TRUE(parts[0].check) << parts[0].check.error().ToString();
  EXPECT_EQ(parts[0].name, "add_works");
  ASSERT_EQ(parts[0].check->rules.size(), 2u);
  EXPECT_EQ(parts[0].check->module->entry()->root()->shape().tuple_elements().size(), 4u);

  ASSERT_TRUE(parts[1].check) << parts[1].check.error().ToString();
  const std::vector<CheckRule>& rules = parts[1].check->rules;
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].max_ulp, 3);
  EXPECT_EQ(rules[1].min_ulp, 1);
  EXPECT_EQ(rules[1].max_ulp, 5);
  EXPECT_EQ(rules[2].kind, CheckRule::Kind::kAlmost);
  EXPECT_EQ(rules[2].tolerance, 0.25);

  ASSERT_TRUE(parts[2].check) << parts[2].check.error().ToString();
  ASSERT_TRUE(parts[2].check->parallel);
  EXPECT_EQ(parts[2].check->parallel->module->replica_count, 2);
  EXPECT_EQ(parts[2].check->module->entry()->parameters().size(), 2u);

  ASSERT_TRUE(parts[3].check) << parts[3].check.error().ToString();
  const auto& compared = parts[3].check->module->entry()->root()->operands();
  EXPECT_EQ(compared[0]->opcode(), Opcode::kAdd);
  EXPECT_EQ(compared[1]->opcode(), Opcode::kConstant);
  ASSERT_TRUE(parts[4].check) << parts[4].check.error().ToString();
  EXPECT_EQ(parts[4].check->parallel->module, nullptr);
  EXPECT_EQ(parts[4].check->parallel->alone.size(), 2u);
  EXPECT_FALSE(parts[5].check);
  for (int i = 0; i < 5; ++i) {
    auto verified = Verify(*parts[static_cast<std::size_t>(i)].check->module);
    EXPECT_TRUE(verified) << verified.error().ToString();
  }
}

Literal Floats(std::vector<float> values) {
  Literal out = *Literal::Create(*Shape::MakeArray(ElementType::kF32, Dims{static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), out.data<float>().begin());
  return out;
}

TEST(SelfCheck, Rules) {
  const float one_up = std::nextafterf(1, 2), inf = INFINITY, nan = NAN;
  auto passes = [](float a, float e, CheckRule rule) { return CompareByRule(Floats({a}), Floats({e}), rule).passed; };
  const CheckRule equal;
  EXPECT_TRUE(passes(0.0f, -0.0f, equal));
  EXPECT_FALSE(passes(nan, nan, equal));
  EXPECT_FALSE(passes(one_up, 1, equal));
  CheckRule close;
  close.kind = CheckRule::Kind::kClose;
  close.max_ulp = 1;
  EXPECT_TRUE(passes(one_up, 1, close));
  EXPECT_FALSE(passes(std::nextafterf(one_up, 2), 1, close));
  EXPECT_TRUE(passes(nan, nan, close));
  EXPECT_TRUE(passes(inf, inf, close));
  EXPECT_FALSE(passes(inf, std::numeric_limits<float>::max(), close));
  EXPECT_TRUE(passes(0.0f, -0.0f, close));
  close.min_ulp = 1;
  EXPECT_FALSE(passes(1, 1, close));
  CheckRule almost;
  almost.kind = CheckRule::Kind::kAlmost;
  almost.tolerance = 0.5;
  EXPECT_TRUE(passes(1.5f, 1, almost));
  EXPECT_FALSE(passes(1.75f, 1, almost));
  EXPECT_FALSE(passes(inf, 1, almost));
  EXPECT_TRUE(passes(nan, nan, almost));
  EXPECT_FALSE(passes(nan, 1, almost));
  const Comparison wrong = CompareByRule(Floats({1, 2}), Floats({1, 3}), equal);
  EXPECT_NE(wrong.reason.find("first at 1: got 2, expected 3"), std::string::npos) << wrong.reason;
}

}  // namespace
}  // namespace krafla
