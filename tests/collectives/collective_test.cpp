// SPDX-License-Identifier: Apache-2.0
// Each algorithm against loops over indices.
#include "base/index.h"
#include "group_fixture.h"

namespace krafla {
namespace {

TEST(Collective, AllReduceSumsInTheOrderOfRanks) {
  const DeviceGrid grid{4, 1};
  for (int64_t n : {3, 1024, 1025, 10007}) {
    auto module = ParseFor(std::string("HloModule m\n") + kSum +
                               Format("ENTRY e {{\n  x = f32[{}] parameter(0)\n  ROOT r = f32[{}] all-reduce(x), "
                                      "replica_groups={{{{3,1,0,2}}}}, to_apply=sum\n}}\n",
                                      n, n),
                           grid);
    std::vector<std::vector<Floats>> inputs;
    for (int64_t d = 0; d < 4; ++d) inputs.push_back({Values(d, n)});
    Floats want = inputs[3][0];
    for (std::size_t d : {1u, 0u, 2u})
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += inputs[d][0][i];
    auto got = RunCollective(*module, grid, inputs, 5);
    for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(got[d][0], want) << n << " elements, device " << d;
  }
}

TEST(Collective, AllReduceOfSeveralOperandsInGroups) {
  const DeviceGrid grid{4, 1};
  auto module =
      ParseFor(std::string("HloModule m\n") + kSum +
                   "ENTRY e {\n  x = f32[5] parameter(0)\n  y = f32[3000] parameter(1)\n"
                   "  ROOT r = (f32[5], f32[3000]) all-reduce(x, y), replica_groups={{0,3},{1,2}}, to_apply=sum\n}\n",
               grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 4; ++d) inputs.push_back({Values(d, 5), Values(d, 3000, 1)});
  auto got = RunCollective(*module, grid, inputs);
  for (std::size_t d = 0; d < 4; ++d)
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < got[d][k].size(); ++i)
        ASSERT_EQ(got[d][k][i], inputs[std::min(d, 3 - d)][k][i] + inputs[std::max(d, 3 - d)][k][i]);
}

TEST(Collective, ReduceScatterAlongTheSecondDimension) {
  const DeviceGrid grid{3, 1};
  auto module = ParseFor(std::string("HloModule m\n") + kSum +
                             "ENTRY e {\n  x = f32[4,6,5] parameter(0)\n  ROOT r = f32[4,2,5] reduce-scatter(x), "
                             "replica_groups={{2,0,1}}, dimensions={1}, to_apply=sum\n}\n",
                         grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 3; ++d) inputs.push_back({Values(d, 120)});
  auto got = RunCollective(*module, grid, inputs);
  const int64_t rank[] = {1, 2, 0};
  for (int64_t d = 0; d < 3; ++d)
    for (int64_t a = 0; a < 4; ++a)
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < 5; ++c) {
          std::size_t from = At((a * 6 + rank[d] * 2 + b) * 5 + c);
          float want = inputs[2][0][from] + inputs[0][0][from];
          want += inputs[1][0][from];
          ASSERT_EQ(got[At(d)][0][At((a * 2 + b) * 5 + c)], want);
        }
}

TEST(Collective, AllGatherAlongTheSecondDimension) {
  const DeviceGrid grid{1, 4};  // partitions
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  x = f32[3,2] parameter(0)\n  ROOT r = f32[3,4] all-gather(x), "
      "channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true, dimensions={1}\n}\n",
      grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 4; ++d) inputs.push_back({Values(d, 6)});
  auto got = RunCollective(*module, grid, inputs);
  // [[0,1],[2,3]] transposed: the groups are {0,2} and {1,3}.
  for (int64_t d = 0; d < 4; ++d)
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 4; ++b)
        ASSERT_EQ(got[At(d)][0][At(a * 4 + b)], inputs[At(d % 2 + (b / 2) * 2)][0][At(a * 2 + b % 2)]);
}

TEST(Collective, AllToAllOfOneArrayAndOfSeveral) {
  const DeviceGrid grid{3, 1};
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  x = f32[2,6] parameter(0)\n  ROOT r = f32[2,6] all-to-all(x), "
      "replica_groups={}, dimensions={1}\n}\n",
      grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 3; ++d) inputs.push_back({Values(d, 12)});
  auto got = RunCollective(*module, grid, inputs);
  for (int64_t d = 0; d < 3; ++d)
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 6; ++b)
        ASSERT_EQ(got[At(d)][0][At(a * 6 + b)], inputs[At(b / 2)][0][At(a * 6 + d * 2 + b % 2)]);

  module = ParseFor(
      "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n  c = f32[4] "
      "parameter(2)\n  ROOT r = (f32[4], f32[4], f32[4]) all-to-all(a, b, c), replica_groups={{2,1,0}}\n}\n",
      grid);
  inputs.clear();
  for (int64_t d = 0; d < 3; ++d) inputs.push_back({Values(d, 4, 0), Values(d, 4, 1), Values(d, 4, 2)});
  got = RunCollective(*module, grid, inputs);
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t s = 0; s < 3; ++s) ASSERT_EQ(got[d][s], inputs[2 - s][2 - d]);
}

TEST(Collective, PermuteLeavesZerosWhereNobodySends) {
  const DeviceGrid grid{4, 1};
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[2] parameter(1)\n  ROOT r = "
      "(f32[4], f32[2]) collective-permute(a, b), source_target_pairs={{0,1},{1,2}}\n}\n",
      grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 4; ++d) inputs.push_back({Values(d, 4), Values(d, 2, 1)});
  auto got = RunCollective(*module, grid, inputs);
  EXPECT_EQ(got[0], (std::vector<Floats>{Floats(4), Floats(2)}));
  EXPECT_EQ(got[1], inputs[0]);
  EXPECT_EQ(got[2], inputs[1]);
  EXPECT_EQ(got[3], (std::vector<Floats>{Floats(4), Floats(2)}));
}

TEST(Collective, BroadcastComesFromTheFirstOfAGroup) {
  const DeviceGrid grid{4, 1};
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] collective-broadcast(a), "
      "replica_groups={{2,0,3}}\n}\n",
      grid);
  std::vector<std::vector<Floats>> inputs;
  for (int64_t d = 0; d < 4; ++d) inputs.push_back({Values(d, 4)});
  auto got = RunCollective(*module, grid, inputs);
  for (std::size_t d : {0u, 2u, 3u}) EXPECT_EQ(got[d], inputs[2]);
  EXPECT_EQ(got[1][0], Floats(4));
}

float Bits(int32_t v) {
  float out;
  std::memcpy(&out, &v, 4);
  return out;
}

TEST(Collective, RaggedRowsGoWhereTheSenderSays) {
  const DeviceGrid grid{2, 1};
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  x = f32[4,2] parameter(0)\n  o = f32[4,2] parameter(1)\n  io = s32[2] "
      "parameter(2)\n  sz = s32[2] parameter(3)\n  oo = s32[2] parameter(4)\n  rz = s32[2] "
      "parameter(5)\n  ROOT r = f32[4,2] ragged-all-to-all(x, o, io, sz, oo, rz), "
      "replica_groups={{0,1}}\n}\n",
      grid);
  auto ints = [](int a, int b) { return Floats{Bits(a), Bits(b)}; };
  std::vector<std::vector<Floats>> inputs = {
      {Values(0, 8), Floats(8, 9.0f), ints(0, 1), ints(1, 2), ints(0, 0), ints(1, 1)},
      {Values(1, 8), Floats(8, 8.0f), ints(0, 1), ints(1, 100), ints(1, 2), ints(2, 3)}};
  auto got = RunCollective(*module, grid, inputs);
  const Floats &a = inputs[0][0], &b = inputs[1][0];
  EXPECT_EQ(got[0][0], (Floats{a[0], a[1], b[0], b[1], 9, 9, 9, 9}));
  // 100 rows are more than there are: as many as fit are moved.
  EXPECT_EQ(got[1][0], (Floats{a[2], a[3], a[4], a[5], b[2], b[3], b[4], b[5]}));
}

using Groups = std::vector<std::vector<int64_t>>;

Groups GroupsOf(const std::string& attributes, const DeviceGrid& grid) {
  auto module = ParseFor(std::string("HloModule m\n") + kSum +
                             "ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] "
                             "all-reduce(x), to_apply=sum" +
                             attributes + "\n}\n",
                         grid);
  if (module == nullptr) return {};
  auto groups = DeviceGroups(*module->entry()->root(), grid);
  EXPECT_TRUE(groups) << groups.error().ToString();
  return groups ? *groups : Groups{};
}

TEST(Participants, ModesOfAnAllReduce) {
  const DeviceGrid grid{2, 3};
  EXPECT_EQ(GroupsOf(", replica_groups={{1,0}}", grid), (Groups{{3, 0}, {4, 1}, {5, 2}}));
  EXPECT_EQ(GroupsOf("", grid), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(GroupsOf(", channel_id=1, replica_groups={{1},{0}}", grid), (Groups{{3, 4, 5}, {0, 1, 2}}));
  EXPECT_EQ(GroupsOf(", channel_id=1, replica_groups={}", grid), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(GroupsOf(", channel_id=1, use_global_device_ids=true, replica_groups=[3,2]<=[2,3]T(1,0)", grid),
            (Groups{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(Participants, AChannelMeansPartitionsToOthers) {
  const DeviceGrid grid{2, 2};
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] collective-permute(x), "
      "channel_id=1, source_target_pairs={{0,1}}\n}\n",
      grid);
  auto pairs = DevicePairs(*module->entry()->root(), grid);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(*pairs, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {2, 3}}));
}

TEST(Participants, IdsThatTheGridLacksAreErrors) {
  // The verifier lets ids pass where the module's counts are 1; who runs it does not.
  auto module = ParseFor(
      "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[8] all-gather(x), "
      "replica_groups={{0,1}}, dimensions={0}\n}\n",
      {1, 1});
  EXPECT_EQ(DeviceGroups(*module->entry()->root(), {1, 1}).error().code(), StatusCode::kInvalidArgument);
  auto other = Collective::Make(*module->entry()->root(), {4, 1}, nullptr);
  EXPECT_TRUE(other) << other.error().ToString();  // devices 2 and 3 may not call it
  std::byte bytes[32];
  const std::byte* from[] = {bytes};
  std::byte* to[] = {bytes};
  Rendezvous rendezvous(4, {});
  EXPECT_EQ(rendezvous.Meet(2, **other, {from, to}).error().code(), StatusCode::kInvalidArgument);
}

TEST(Participants, SendsNeedPairsBeyondTwoDevices) {
  const char* text =
      "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  t = token[] after-all()\n  s = (f32[4], u32[], "
      "token[]) send(x, t), channel_id=1%s\n  ROOT d = token[] send-done(s), channel_id=1\n}\n";
  auto with = [&](const char* attributes) {
    std::string out = text;
    return out.replace(out.find("%s"), 2, attributes);
  };
  auto send = [](const Module& m) { return m.entry()->root()->operand(0); };
  auto module = ParseFor(with(""), {3, 1});
  EXPECT_EQ(DevicePairs(*send(*module), {3, 1}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DevicePairs(*send(*module), {2, 1})->size(), 2u);
  module = ParseFor(with(", frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,2},{1,0}}\"}"), {3, 1});
  EXPECT_EQ(*DevicePairs(*send(*module), {3, 1}), (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 0}}));
  for (const char* bad : {"{{0,2},{1}}", "{{0,9}}", "{0,1", "{{0,1},{0,2}}", "x", "{{99999999999999999999,1}}"}) {
    module = ParseFor(with(Format(", frontend_attributes={{_xla_send_recv_source_target_pairs=\"{}\"}}", bad).c_str()),
                      {3, 1});
    EXPECT_FALSE(DevicePairs(*send(*module), {3, 1})) << bad;
  }
}

}  // namespace
}  // namespace krafla
