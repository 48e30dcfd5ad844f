// SPDX-License-Identifier: Apache-2.0
#include "pass_harness.h"

namespace krafla {
namespace {

// The root after the pass, on parameters x and y: f32[3], z: f32[2], k: s32[3].
std::string Combined(std::string_view body) {
  auto module = RunOn(Format(R"(HloModule m, num_partitions=4
sum {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }}
add {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(b, a) }}
max {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }}
isum {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = s32[] add(a, b) }}
ENTRY main {{ x = f32[3] parameter(0)
 y = f32[3] parameter(1)
 z = f32[2] parameter(2)
 k = s32[3] parameter(3)
{} }})",
                             body),
                      {"all_reduce_combiner"});
  return module ? Expression(*module->entry()->root()) : "";
}
constexpr std::string_view kAll = ", replica_groups={{0,1},{2,3}}, channel_id=1, use_global_device_ids=true, to_apply=";

TEST(AllReduceCombiner, TheyMeetOnce) {
  EXPECT_EQ(Combined(Format(R"( a = f32[3] all-reduce(x){0}sum
 b = f32[2] all-reduce(z){0}add
 ROOT r = (f32[3], f32[2]) tuple(a, b))",
                            kAll)),
            Format("(get-tuple-element{{0}} f32[3]({0}), get-tuple-element{{1}} f32[2]({0}))",
                   "all-reduce (f32[3], f32[2])(p0, p2)"));
}

TEST(AllReduceCombiner, NotThoseThatWaitForOthers) {
  const std::string chain = Format(R"( a = f32[3] all-reduce(x){0}sum
 n = f32[3] negate(a)
 b = f32[3] all-reduce(n){0}sum
 ROOT r = f32[3] negate(b))",
                                   kAll);
  EXPECT_EQ(Combined(chain), "negate f32[3](all-reduce f32[3](negate f32[3](all-reduce f32[3](p0))))");
}

TEST(AllReduceCombiner, NorThoseThatDiffer) {
  auto combined = [](std::string_view groups, std::string_view computation) {
    return Combined(
               Format(" a = f32[3] all-reduce(x){}sum\n b = f32[3] all-reduce(y), replica_groups={}, channel_id=2, "
                      "use_global_device_ids=true, to_apply={}\n ROOT r = f32[3] subtract(a, b)",
                      kAll, groups, computation))
               .find("get-tuple-element") != std::string::npos;
  };
  EXPECT_TRUE(combined("{{0,1},{2,3}}", "sum"));
  EXPECT_FALSE(combined("{{0,1},{2,3}}", "max"));
  EXPECT_FALSE(combined("{{0,2},{1,3}}", "sum"));
  EXPECT_EQ(Combined(Format(R"( a = f32[3] all-reduce(x){0}sum
 b = s32[3] all-reduce(k){0}isum
 ROOT r = (f32[3], s32[3]) tuple(a, b))",
                            kAll)),
            "(all-reduce f32[3](p0), all-reduce s32[3](p3))");
}

TEST(AllReduceCombiner, NorLargeOnes) {
  EXPECT_EQ(Combined(Format(R"( c = f32[] constant(1)
 f = f32[1048576] broadcast(c), dimensions={{}}
 a = f32[1048576] all-reduce(f){0}sum
 b = f32[3] all-reduce(x){0}sum
 ROOT r = (f32[1048576], f32[3]) tuple(a, b))",
                            kAll))
                .find("get-tuple-element"),
            std::string::npos);
}

}  // namespace
}  // namespace krafla
