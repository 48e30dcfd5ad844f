// SPDX-License-Identifier: Apache-2.0
// mhlo.layout_mode and mhlo.memory_kind: the layouts of the entry.
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

Result<std::unique_ptr<Module>> Read(std::string_view argument, std::string_view result, std::string_view body) {
  auto mode = [](std::string_view what) { return what.empty() ? std::string() : Format("{{{}}}", what); };
  const std::string text = Format(R"mlir(module @m attributes {{mhlo.num_partitions = 4 : i32}} {{
  func.func public @main(%arg0: tensor<2x3x4xf32> {}) -> (tensor<4x3x2xf32> {}) {{
{}
  }}
}})mlir",
                                  mode(argument), mode(result), body);
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadModule(text, "test"));
  KRAFLA_TRY(Verify(*module));
  return module;
}

constexpr std::string_view kTransposed =
    "    %0 = stablehlo.transpose %arg0, dims = [2, 1, 0] : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>\n"
    "    %1 = stablehlo.negate %0 : tensor<4x3x2xf32>\n"
    "    return %1 : tensor<4x3x2xf32>";

// "(argument)->result"; the sentence of an error.
std::string Layouts(std::string_view argument, std::string_view result, std::string_view body = kTransposed) {
  const auto module = Read(argument, result, body);
  if (!module) return module.error().message();
  if (!(*module)->entry_layout_result) return "none";
  return Format("{}->{}", (*module)->entry_layout_parameters[0].ToString(), (*module)->entry_layout_result->ToString());
}

TEST(StablehloLayouts, AsTheyAreAskedFor) {
  EXPECT_EQ(Layouts("", ""), "none");
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"default\"", "mhlo.layout_mode = \"default\""), "none");
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"{2,1,0}\"", ""), "none");
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"{0,2,1}\"", ""), "f32[2,3,4]{0,2,1}->f32[4,3,2]{2,1,0}");
  EXPECT_EQ(Layouts("", "mhlo.layout_mode = \"{1,2,0}\""), "f32[2,3,4]{2,1,0}->f32[4,3,2]{1,2,0}");
  EXPECT_EQ(Layouts("", "mhlo.layout_mode = \"{1,2,0}\", mhlo.memory_kind = \"pinned_host\""),
            "f32[2,3,4]{2,1,0}->f32[4,3,2]{1,2,0:S(5)}");
}

TEST(StablehloLayouts, LeftToUsResultsLieAsTheyCostNothing) {
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"auto\"", ""), "none");
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"auto\"", "mhlo.layout_mode = \"auto\""),
            "f32[2,3,4]{2,1,0}->f32[4,3,2]{0,1,2}");
  // Dimension d of the result is dimension 2-d of the argument.
  EXPECT_EQ(Layouts("mhlo.layout_mode = \"{0,2,1}\"", "mhlo.layout_mode = \"auto\""),
            "f32[2,3,4]{0,2,1}->f32[4,3,2]{2,0,1}");
  EXPECT_EQ(Layouts("", "mhlo.layout_mode = \"auto\"",
                    "    %0 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>\n"
                    "    return %0 : tensor<4x3x2xf32>"),
            "none");
}

TEST(StablehloLayouts, AConstraintDecides) {
  constexpr std::string_view kConstrained =
      "    %0 = stablehlo.transpose %arg0, dims = [2, 1, 0] : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>\n"
      "    %1 = stablehlo.custom_call @LayoutConstraint(%0) {operand_layouts = [dense<[0, 1, 2]> : tensor<3xindex>], "
      "result_layouts = [dense<[1, 0, 2]> : tensor<3xindex>]} : (tensor<4x3x2xf32>) -> tensor<4x3x2xf32>\n"
      "    return %1 : tensor<4x3x2xf32>";
  EXPECT_EQ(Layouts("", "mhlo.layout_mode = \"auto\"", kConstrained), "f32[2,3,4]{2,1,0}->f32[4,3,2]{1,0,2}");
  // Only where the layout is left to us.
  EXPECT_EQ(Layouts("", "", kConstrained), "f32[2,3,4]{2,1,0}->f32[4,3,2]{2,1,0}");
}

TEST(StablehloLayouts, WhatIsNoOrderIsAnError) {
  for (std::string_view wrong : {"{0,1}", "{0,1,1}", "{0,1,3}", "{0,1,2,}", "{0,,1,2}", "{}", "0,1,2", "x", "{0;1;2}"})
    EXPECT_NE(Layouts(Format("mhlo.layout_mode = \"{}\"", wrong), "").find("is not an order of 3 dimensions"),
              std::string::npos)
        << wrong;
  EXPECT_NE(Layouts("", "mhlo.layout_mode = \"{2,1,0:T(8,128)}\"").find("has more than that"), std::string::npos);
}

}  // namespace
}  // namespace krafla
