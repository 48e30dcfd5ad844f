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
    if (text.substr(at, end - at).find(word) != std::string::npos) out += text.substr(at, end - at) + "\n";
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
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      R"(xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>})",
                      Lines(**module, "HloModule"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "sharding={devices=[4,1]<=[2,2]T(1,0)}",
                      Lines(**module, " parameter(0), sharding"));
  const std::string constraint = Lines(**module, "unspecified_dims=[1]");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "custom_call_target=\"Sharding\"", constraint);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, R"(xla.sdy.in_shardings="[<@mesh, [{\"x\", \"y\"}, {}]>]")",
                      Lines(**module, "GlobalToLocalShape"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, R"(xla.sdy.manual_axes="{\"x\", \"y\"}")",
                      Lines(**module, "LocalToGlobalShape"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                      Lines(**module, "ROOT"));
}

TEST(StablehloSharding, FrontendAttributesStayWithTheirOperations) {
  auto module = ReadSharded(R"mlir(module {
  func.func public @main(%arg0: tensor<4x3x3xf32>) -> tensor<4x3xf32> {
    %0 = stablehlo.custom_call @mine(%arg0) {mhlo.frontend_attributes = {num_batch_dims = "1", note = "a \"b\""}} : (tensor<4x3x3xf32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
})mlir");
  ASSERT_TRUE(module) << module.error().message();
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, R"(frontend_attributes={num_batch_dims="1",note="a \"b\""})",
                      Lines(**module, "custom_call_target=\"mine\""));
}

TEST(StablehloSharding, RulesStayWithTheirCalls) {
  auto module = ReadSharded(R"mlir(module {
  func.func public @main(%arg0: tensor<4x6xf32>) -> tensor<6x4xf32> {
    %0 = stablehlo.custom_call @mine(%arg0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([j, i]) {i=4, j=6}, custom>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    return %0 : tensor<6x4xf32>
  }
})mlir");
  ASSERT_TRUE(module) << module.error().message();
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      R"(frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i, j])->([j, i]) {i=4, j=6}, custom>"})",
      Lines(**module, "custom_call_target=\"mine\""));
}

TEST(StablehloSharding, GroupsAlongAxes) {
  auto groups = [](std::string_view text) {
    auto module = ReadSharded(WithGroups(text));
    return module ? Lines(**module, "replica_groups") : module.error().message();
  };
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,1},{2,3}}",
      groups(R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,2},{1,3}}",
      groups(R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "{{0,1},{2,3}}",
      groups(
          R"(#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "z", size = 4>]>, axes = [#stablehlo.axis_ref<name = "z", sub_axis_info = (2)2>]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "axis 'w'",
      groups(R"(#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "w">]>)"));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "mesh 'none'",
      groups(R"(#stablehlo.replica_group_mesh_axes<mesh = @none, axes = [#stablehlo.axis_ref<name = "w">]>)"));
}

constexpr std::string_view kGroup = R"mlir(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  sdy.mesh @one = <["x"=1]>
  func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.sharding_constraint %arg1 <@one, [{"x"}]> : tensor<4xf32>
    sdy.sharding_group %arg0 group_id=3 : tensor<4xf32>
    stablehlo.custom_call @control_dep(%arg0, %0) {api_version = 4 : i32, backend_config = {}, has_side_effect = true} : (tensor<4xf32>, tensor<4xf32>) -> ()
    return %0 : tensor<4xf32>
  }
}
)mlir";

TEST(StablehloSharding, Groups) {
  auto module = ReadSharded(kGroup);
  ASSERT_TRUE(module) << module.error().message();
  ASSERT_TRUE(Verify(**module));
  const std::string group = Lines(**module, "xla.sdy.ShardingGroup");
  EXPECT_NE(group.find("= () custom-call(parameter)"), std::string::npos) << group;
  EXPECT_NE(group.find(R"(xla.sdy.sharding_group_id="3 : i64")"), std::string::npos) << group;
  // A sharding over one device, of a program exported for one, cuts nothing; what advises only is gone.
  EXPECT_NE(Lines(**module, "Sharding\"").find("sharding={replicated}"), std::string::npos)
      << Lines(**module, "Sharding");
  EXPECT_EQ(Lines(**module, "control_dep"), "");
}

TEST(StablehloSharding, RaggedAllToAll) {
  const std::string text = R"mlir(
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<6xf32>, %n: tensor<4xi32>) -> tensor<6xf32> {
    %0 = stablehlo.custom_call @ragged_all_to_all(%a, %b, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf32>, tensor<6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}
)mlir";
  auto module = ReadSharded(text);
  ASSERT_TRUE(module) << module.error().message();
  ASSERT_TRUE(Verify(**module));
  const std::string line = Lines(**module, "ragged-all-to-all");
  EXPECT_NE(line.find("replica_groups={{0,1}}"), std::string::npos) << line;
  EXPECT_NE(line.find("channel_id=1"), std::string::npos) << line;
  std::string odd = text;
  for (std::size_t at; (at = odd.find("tensor<4xi32>")) != odd.npos;) odd.replace(at, 13, "tensor<3xi32>");
  auto three = ReadSharded(odd);
  EXPECT_TRUE(!three || !Verify(**three));
  std::string none = text;
  none.replace(none.find("replica_groups"), 14, "groups");
  EXPECT_FALSE(ReadSharded(none));
}

// On one device shardings say nothing, and a manual computation is the program itself.
TEST(StablehloSharding, OneDevice) {
  std::string text = WithGroups("dense<0> : tensor<1x1xi64>");
  text.replace(text.find("num_partitions = 4"), 18, "num_partitions = 1");
  for (std::size_t at; (at = text.find("tensor<1x2xf32>")) != text.npos;) text.replace(at, 15, "tensor<4x2xf32>");
  auto module = ReadSharded(text);
  ASSERT_TRUE(module) << module.error().message();
  EXPECT_EQ(Lines(**module, "sharding"), "");
  EXPECT_EQ(Lines(**module, "custom-call"), "");
}

}  // namespace
}  // namespace krafla
