// SPDX-License-Identifier: Apache-2.0
#include "ir/sharding.h"

#include <gtest/gtest.h>

#include "ir/replica_groups.h"
#include "ir/sdy_rule.h"
#include "ir/sdy_sharding.h"

namespace krafla {
namespace {

std::vector<int32_t> Blocks(std::string_view text, int64_t devices, int64_t dim) {
  auto read = ParseSharding(text, devices);
  if (!read) {
    ADD_FAILURE() << read.error().message();
    return {};
  }
  std::vector<int32_t> out;
  for (int64_t d = 0; d < devices; ++d) out.push_back(read->dim(dim).of(d));
  return out;
}

TEST(Sharding, Tiles) {
  EXPECT_EQ(Blocks("{devices=[4]<=[4]}", 4, 0), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Blocks("{devices=[2,2]0,2,1,3}", 4, 0), (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(Blocks("{devices=[2,2]0,2,1,3}", 4, 1), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(Blocks("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 8, 0),
            (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(Blocks("{devices=[2,4]<=[8] last_tile_dims={replicated}}", 8, 0),
            (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(Blocks("{devices=[2]1,0 metadata={op_name=\"a}b\"}}", 2, 0), (std::vector<int32_t>{1, 0}));
}

TEST(Sharding, ManualSubgroups) {
  auto read = ParseSharding("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", 8);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->dims.size(), 1u);
  ASSERT_EQ(read->manual.size(), 1u);
  EXPECT_EQ(read->manual[0].block, (std::vector<int32_t>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Sharding, TextAndBack) {
  for (const char* text :
       {"{replicated}", "{manual}", "{unknown}", "{maximal device=2}", "{devices=[4,1]<=[4]}",
        "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[4]3,1,0,2}", "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}",
        "{devices=[1,2,2]<=[4] last_tile_dims={unreduced, replicated}}", "{unreduced}",
        "{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"}) {
    auto read = ParseSharding(text, 4);
    ASSERT_TRUE(read) << text << read.error().message();
    const int64_t rank = static_cast<int64_t>(read->dims.size());
    auto again = ParseSharding(ShardingToText(*read, rank, 4), 4);
    ASSERT_TRUE(again) << ShardingToText(*read, rank, 4);
    EXPECT_EQ(*read, *again) << text;
  }
  EXPECT_EQ(ShardingToText(*ParseSharding("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 4), 2, 4),
            "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  auto tuple = ParseShardings("{{replicated}, /*index=1*/{devices=[2]<=[2]}}", 2);
  ASSERT_TRUE(tuple);
  EXPECT_EQ(tuple->size(), 2u);
}

TEST(Sharding, WhatIsWrong) {
  for (const char* text :
       {"", "{", "replicated", "{replicated} x", "{devices=[4]<=[4]}", "{devices=[2]0,0}", "{devices=[2]0,2}",
        "{devices=[0]<=[0]}", "{devices=[2]0}", "{devices=[2]<=[2]T(1)}", "{devices=[2]<=[2]T(0,1)}",
        "{devices=[-2]<=[-2]}", "{maximal device=2}", "{devices=[9223372036854775807,9223372036854775807]<=[1]}",
        "{round}", "{{replicated}", "{devices=[2,1]<=[2] last_tile_dims={manual,manual,manual}}"}) {
    auto read = ParseShardings(text, 2);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseShardings("{devices=[1,2]<=[2] last_tile_dims={other}}", 2).error().code(),
            StatusCode::kUnimplemented);
}

TEST(Sharding, Blocks) {
  const float values[6] = {0, 1, 2, 3, 4, 5};
  Literal whole =
      *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, Dims{2, 3}), std::as_bytes(std::span(values)));
  Sharding by_column = *ParseSharding("{devices=[1,2]<=[2]}", 2);
  const float first[4] = {0, 1, 3, 4}, second[4] = {2, 0, 5, 0};  // zeros behind the end
  EXPECT_EQ(*BlockOf(whole, by_column, 0),
            *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, Dims{2, 2}), std::as_bytes(std::span(first))));
  EXPECT_EQ(*BlockOf(whole, by_column, 1),
            *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, Dims{2, 2}), std::as_bytes(std::span(second))));
}

TEST(SdySharding, Meshes) {
  auto meshes = ParseSdyMeshes(
      R"({xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>, other = #sdy.mesh<["a"=2], device_ids=[1, 0]>}})");
  ASSERT_TRUE(meshes) << meshes.error().message();
  ASSERT_EQ(meshes->size(), 2u);
  EXPECT_EQ(meshes->at("mesh").axes, (std::vector<std::pair<std::string, int64_t>>{{"x", 2}, {"y", 4}}));
  EXPECT_EQ(meshes->at("other").devices, (std::vector<int64_t>{1, 0}));
  auto text = [&](std::string_view sharding, int64_t rank) {
    auto read = ParseSdySharding(sharding, *meshes);
    if (!read) return read.error().message();
    auto made = ShardingOf(*read, 8);
    return made ? ShardingToText(*made, rank, 8) : made.error().message();
  };
  EXPECT_EQ(text(R"(#sdy.sharding<@mesh, [{"x"}, {}]>)", 2), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(text(R"(<@mesh, [{"y", ?}, {"x"}p1], replicated={}>)", 2), "{devices=[4,2]<=[2,4]T(1,0)}");
  EXPECT_EQ(text(R"(<@mesh, [{\"x\", \"y\"}]>)", 1), "{devices=[8]<=[8]}");
  EXPECT_EQ(text(R"(<@mesh, [{"y":(2)2}]>)", 1), "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(text(R"(<mesh<["z"=8]>, [{"z"}]>)", 1), "{devices=[8]<=[8]}");
  EXPECT_EQ(text(R"(<mesh<[], device_ids=[3]>, []>)", 0), "{maximal device=3}");
}

TEST(SdySharding, AlongSomeAxes) {
  SdyMeshes meshes{{"m", {{{"x", 2}, {"y", 2}}, {}}}};
  const std::vector<std::string> axes = *ParseSdyManualAxes(R"(#sdy<manual_axes{"x"}>)");
  EXPECT_EQ(axes, std::vector<std::string>{"x"});
  auto all = ParseSdyShardings(R"(#sdy.sharding_per_value<[<@m, [{"x", "y"}]>, <@m, []>]>)", meshes);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(ShardingOf((*all)[0], 4, &axes)->dim(0).block, (std::vector<int32_t>{0, 0, 1, 1}));
}

TEST(ReplicaGroups, AlongAxesOfAMesh) {
  const DeviceMesh mesh{{2, 2}, {0, 2, 1, 3}};
  const MeshAxisPart x{0}, y{1};
  EXPECT_EQ(*MeshGroups(mesh, {{y}}), (ReplicaGroups{{0, 2}, {1, 3}}));
  EXPECT_EQ(*MeshGroups(mesh, {{x}}), (ReplicaGroups{{0, 1}, {2, 3}}));
  EXPECT_EQ(*MeshGroups(mesh, {{x, y}}), (ReplicaGroups{{0, 2, 1, 3}}));
}

TEST(SdyRule, Factors) {
  auto rule = ParseSdyRule(
      "#sdy.op_sharding_rule<([i, jz_12], [j, _])->([i, z]) {i=8, j=16, z_12=2, z=4} reduction={j} "
      "need_replication={z, z_12}, custom>");
  ASSERT_TRUE(rule) << rule.error().message();
  using Dimensions = SdyRule::Dimensions;
  EXPECT_EQ(rule->operands, (std::vector<Dimensions>{{{"i"}, {"j", "z_12"}}, {{"j"}, {}}}));
  EXPECT_EQ(rule->results, (std::vector<Dimensions>{{{"i"}, {"z"}}}));
  EXPECT_EQ(rule->whole, (std::vector<std::string>{"z", "z_12"}));
  EXPECT_TRUE(ParseSdyRule("#sdy.op_sharding_rule<([i])->([]) {i=4}>"));
  for (const char* text : {"", "([i])->([i])", "#sdy.op_sharding_rule<", "#sdy.op_sharding_rule<([i])",
                           "#sdy.op_sharding_rule<([i])->([i]) {i=4}", "#sdy.op_sharding_rule<([i)->([i]) {i=4}>",
                           "#sdy.op_sharding_rule<([i])->([i]) {i=}>", "#sdy.op_sharding_rule<([i])->([i]) {i=4"})
    EXPECT_FALSE(ParseSdyRule(text)) << text;
}

TEST(SdySharding, WhatIsWrong) {
  SdyMeshes meshes{{"m", {{{"x", 2}, {"y", 2}}, {}}}};
  for (const char* text : {R"(<@n, [{"x"}]>)", R"(<@m, [{"x"])", R"(<@m, [{"x"}]> more)", "<", "", R"(<@m [{"x"}]>)"})
    EXPECT_FALSE(ParseSdySharding(text, meshes)) << text;
  auto made = [&](const char* text) { return ShardingOf(*ParseSdySharding(text, meshes), 4); };
  EXPECT_FALSE(made(R"(<@m, [{"z"}]>)"));
  EXPECT_FALSE(made(R"(<@m, [{"x"}, {"x"}, {"y"}]>)"));
  EXPECT_FALSE(made(R"(<@m, [{"x":(3)2}]>)"));
  EXPECT_FALSE(ShardingOf(*ParseSdySharding(R"(<@m, [{"x"}]>)", meshes), 8));
  EXPECT_FALSE(ParseSdyMesh(R"(<["x"=0]>)"));
  EXPECT_FALSE(ParseSdyMesh(R"(<["x"=2], device_ids=[0, 0]>)"));
  EXPECT_FALSE(ParseSdyMesh(R"(<["x"=2, "x"=2]>)"));
  EXPECT_FALSE(ParseSdyMesh(R"(<["x"=9223372036854775807, "y"=9223372036854775807]>)"));
}

}  // namespace
}  // namespace krafla
