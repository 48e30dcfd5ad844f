// SPDX-License-Identifier: Apache-2.0
// What StableHLO says of shardings, as HLO.
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

Result<std::unique_ptr<Module>> ReadSharded(std::string_view text) {
  KRAFLA_ASSIGN(auto tree, stablehlo::ParseText(text));
  return stablehlo::ToModule(*tree);
}

// All lines of the module as HLO text that hold `word`.
std::string Lines(const Module& module, std::string_view word) {
  std::string out, text = PrintModule(module);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.substr(at, end - at).find(word) != std::string::npos)
      out += text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

constexpr std::string_view kManual = R"mlir(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>
  func.func public @main(%arg0: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
    %c = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {?}]> : tensor<4x2xf32>
    %0 = sdy.manual_computation(%c) in_shardings=[<@mesh, [{"x", "y"}, {}]>] out_shardings=[<@mesh, [{"x", "y"}, {}]>] manual_axes={"x", "y"} (%arg1: tensor<1x2xf32>) {
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = GROUPS, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %2 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<1x2xf32>) -> tensor<1x2xf32>
      sdy.return %1 : tensor<1x2xf32>
    } : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}
)mlir";

std::string WithGroups(std::string_view groups) {
  std::string out(kManual);
  return out.replace(out.find("GROUPS"), 6, groups);
}

TEST(StablehloSharding, ManualComputation) {
  auto module = ReadSharded(WithGroups("dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"));
  ASSERT_TRUE(module) << module.error().message();
  ASSERT_TRUE(Verify(**module));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      R"(xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>})",
      Lines(**module, "HloModule"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "sharding={devices=[4,1]<=[2,2]T(1,0)}",
                      Lines(**module, " parameter(0), sharding"));
  const std::string constraint = Lines(**module, "unspecified_dims=[1]");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "custom_call_target=\"Sharding\"", constraint);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      R"(xla.sdy.in_shardings="[<@mesh, [{\"x\", \"y\"}, {}]>]")",
                      Lines(**module, "GlobalToLocalShape"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, R"(xla.sdy.manual_axes="{\"x\", \"y\"}")",
                      Lines(**module, "LocalToGlobalShape"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                      Lines(**module, "ROOT"));
}

TEST(StablehloSharding, GroupsAlongAxes) {
  auto groups = [](std::string_view text) {
    auto module = ReadSharded(WithGroups(text));
    return module ? Lines(**module, "replica_groups") : module.error().message();
  };
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,1},{2,3}}",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,2},{1,3}}",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,1},{2,3}}",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "z", size = 4>]>, axes = [#stablehlo.axis_ref<name = "z", sub_axis_info = (2)2>]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "axis 'w'",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "w">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "mesh 'none'",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = @none, axes = [#stablehlo.axis_ref<name = "w">]>)"));
}

// On one device shardings say nothing, and a manual computation is the program itself.
TEST(StablehloSharding, OneDevice) {
  std::string text = WithGroups("dense<0> : tensor<1x1xi64>");
  text.replace(text.find("num_partitions = 4"), 18, "num_partitions = 1");
  for (std::size_t at; (at = text.find("tensor<1x2xf32>")) != text.npos;)
    text.replace(at, 15, "tensor<4x2xf32>");
  auto module = ReadSharded(text);
  ASSERT_TRUE(module) << module.error().message();
  EXPECT_EQ(Lines(**module, "sharding"), "");
  EXPECT_EQ(Lines(**module, "custom-call"), "");
}

}  // namespace
}  // namespace krafla
