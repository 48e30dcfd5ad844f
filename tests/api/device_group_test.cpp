// SPDX-License-Identifier: Apache-2.0
// Groups of virtual devices on the CPU; tests/check_models.sh runs whole programs on every device there is.
#include "api/group/device_group.h"

#include <gtest/gtest.h>

#include "hlo_io/read_module.h"

namespace krafla {
namespace {

struct Outcome {
  Result<> run;
  std::vector<std::vector<Literal>> results;
  CompileReport report;
};

// The program without arguments on `devices`, or its error.
Outcome RunOn(const std::string& selector, const std::string& text, GroupOptions options = {}) {
  Outcome out;
  out.run = [&]() -> Result<> {
    KRAFLA_ASSIGN(auto group, DeviceGroup::Create(selector));
    KRAFLA_ASSIGN(auto module, ReadModule(text, "test"));
    KRAFLA_ASSIGN(auto executable, group->Compile(std::move(module), {}, options));
    out.report = executable->report();
    for (int64_t d = 0; d < executable->device_count(); ++d) KRAFLA_TRY(executable->SetArguments(d, {}));
    KRAFLA_TRY(executable->Execute());
    for (int64_t d = 0; d < executable->device_count(); ++d) {
      KRAFLA_ASSIGN(auto results, executable->Results(d));
      out.results.push_back(std::move(results));
    }
    return {};
  }();
  return out;
}

TEST(DeviceGroup, Selectors) {
  auto size = [](std::string_view selector) { return (*DeviceGroup::Create(selector))->size(); };
  EXPECT_EQ(size("cpu"), 1);
  EXPECT_EQ(size("cpu*8"), 8);
  EXPECT_EQ(size("cpu*2,cpu"), 3);
  EXPECT_EQ((*DeviceGroup::Create("cpu*2,cpu"))->selector(), "cpu*3");
  for (const char* bad : {"cpu*", "cpu*0", "cpu*x", "cpu*99999", ",cpu", "cpu,", "cpu*-1", "gpu*2"})
    EXPECT_EQ(DeviceGroup::Create(bad).error().code(), StatusCode::kInvalidArgument) << bad;
}

constexpr const char* kLoop = R"(
HloModule loop, replica_count=2, num_partitions=3
sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}
turn {
  p = (s32[], s32[2]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  x = s32[2] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = s32[2] all-reduce(x), channel_id=1, replica_groups={{0,1,2},{3,4,5}}, use_global_device_ids=true, to_apply=sum
  ROOT t = (s32[], s32[2]) tuple(next, y)
}
again {
  p = (s32[], s32[2]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  id = u32[] replica-id()
  sid = s32[] convert(id)
  three = s32[] constant(3)
  limit = s32[] add(three, sid)
  ROOT c = pred[] compare(n, limit), direction=LT
}
left {
  x = s32[2] parameter(0)
  ROOT r = s32[2] collective-permute(x), source_target_pairs={{0,1},{1,0}}
}
right {
  x = s32[2] parameter(0)
  ROOT r = s32[2] negate(x)
}
ENTRY e {
  replica = u32[] replica-id()
  partition = u32[] partition-id()
  r = s32[] convert(replica)
  p = s32[] convert(partition)
  ten = s32[] constant(10)
  scaled = s32[] multiply(r, ten)
  id = s32[] add(scaled, p)
  both = s32[2] broadcast(id), dimensions={}
  zero = s32[] constant(0)
  init = (s32[], s32[2]) tuple(zero, both)
  looped = (s32[], s32[2]) while(init), condition=again, body=turn
  x = s32[2] get-tuple-element(looped), index=1
  last = s32[] constant(2)
  is_last = pred[] compare(p, last), direction=EQ
  ROOT out = s32[2] conditional(is_last, x, x), true_computation=left, false_computation=right
}
)";

// A loop that turns more often on one replica than on the other, with a sum over partitions in it, and a branch that
// only some take, with an exchange over replicas.
TEST(DeviceGroup, CollectivesInLoopsAndBranches) {
  Outcome out = RunOn("cpu*6", kLoop);
  ASSERT_TRUE(out.run) << out.run.error().ToString();
  auto looped = [](int64_t replica) {
    int64_t sum = replica * 30 + 3;  // of the ids
    for (int64_t n = 1; n < 3 + replica; ++n) sum *= 3;
    return static_cast<int32_t>(sum);
  };
  for (int64_t d = 0; d < 6; ++d) {
    int32_t want = d % 3 == 2 ? looped(1 - d / 3) : -looped(d / 3);
    EXPECT_EQ(out.results[static_cast<std::size_t>(d)][0].data<int32_t>()[1], want) << "device " << d;
  }
  EXPECT_EQ(out.report.exchanges, 2);
}

TEST(DeviceGroup, OneDeviceMakesAsManyVirtualOnesAsAreNeededAGroupDoesNot) {
  EXPECT_TRUE(RunOn("cpu", kLoop).run);
  EXPECT_TRUE(RunOn("cpu*7", kLoop).run);
  Outcome out = RunOn("cpu*5", kLoop);
  EXPECT_EQ(out.run.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(out.run.error().message().find("6 devices"), std::string::npos);
}

// Two replicas with 1 and 3 of 4 elements: 1 and 11 12 13.
std::string OfRunTimeSize(std::string_view body) {
  return Format(R"(
HloModule sized, replica_count=2
sum {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}}
again {{
  p = (s32[], s32[<=4], token[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT more = pred[] compare(n, three), direction=LT
}}
turn {{
  p = (s32[], s32[<=4], token[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  t = token[] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  replica = u32[] replica-id()
  r = s32[] convert(replica)
  ten = s32[] constant(10)
  tens = s32[] multiply(r, ten)
  base = s32[4] broadcast(tens), dimensions={{}}
  count = s32[4] constant({{1, 2, 3, 4}})
  whole = s32[4] add(base, count)
  x = s32[<=4] set-dimension-size(whole, next), dimensions={{0}}
  s = (s32[<=4], u32[], token[]) send(x, t), channel_id=3
  q = token[] send-done(s), channel_id=3
  v = (s32[<=4], u32[], token[]) recv(q), channel_id=3
  w = (s32[<=4], token[]) recv-done(v), channel_id=3
  y = s32[<=4] get-tuple-element(w), index=0
  u = token[] get-tuple-element(w), index=1
  ROOT out = (s32[], s32[<=4], token[]) tuple(next, y, u)
}}
ENTRY e {{
  replica = u32[] replica-id()
  r = s32[] convert(replica)
  one = s32[] constant(1)
  two = s32[] constant(2)
  ten = s32[] constant(10)
  twice = s32[] multiply(r, two)
  n = s32[] add(twice, one)
  tens = s32[] multiply(r, ten)
  base = s32[4] broadcast(tens), dimensions={{}}
  count = s32[4] constant({{1, 2, 3, 4}})
  whole = s32[4] add(base, count)
  x = s32[<=4] set-dimension-size(whole, n), dimensions={{0}}
  {}
}}
)",
                body);
}

// Two virtual devices on the CPU, and on the GPU that is here.
class GroupOfRunTimeSize : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto group = DeviceGroup::Create(GetParam());
    if (!group) GTEST_SKIP() << group.error().ToString();
  }
  void ExpectOnBoth(std::string_view body, const std::vector<int32_t>& first, const std::vector<int32_t>& second) {
    SCOPED_TRACE(body);
    Outcome out = RunOn(std::string(GetParam()) + "*2", OfRunTimeSize(body));
    ASSERT_TRUE(out.run) << out.run.error().ToString();
    for (std::size_t d = 0; d < 2; ++d) {
      ASSERT_EQ(out.results[d].size(), 1u);
      const auto got = out.results[d][0].data<int32_t>();
      EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), d == 0 ? first : second) << "device " << d;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, GroupOfRunTimeSize, ::testing::Values("cpu", "vulkan"));

// Every device has its own sizes, and what travels brings its size along.
TEST_P(GroupOfRunTimeSize, Collectives) {
  ExpectOnBoth("ROOT y = s32[<=8] all-gather(x), replica_groups={{0,1}}, dimensions={0}", {1, 11, 12, 13},
               {1, 11, 12, 13});
  ExpectOnBoth("ROOT y = s32[<=4] collective-permute(x), source_target_pairs={{0,1},{1,0}}", {11, 12, 13}, {1});
  ExpectOnBoth("ROOT y = s32[<=4] collective-permute(x), source_target_pairs={{0,1}}", {0}, {1});
  ExpectOnBoth("ROOT y = s32[<=4] collective-broadcast(x), replica_groups={{1,0}}", {11, 12, 13}, {11, 12, 13});
  ExpectOnBoth(
      "xx = s32[<=8] concatenate(x, x), dimensions={0}\n"
      "ROOT y = s32[<=8] all-to-all(xx), replica_groups={{0,1}}, dimensions={0}",
      {1, 11, 12, 13}, {1, 11, 12, 13});
  ExpectOnBoth(
      "v = s32[<=4] reverse(x), dimensions={0}\n"
      "both = (s32[<=4], s32[<=4]) all-to-all(x, v), replica_groups={{0,1}}\n"
      "a = s32[<=4] get-tuple-element(both), index=0\n b = s32[<=4] get-tuple-element(both), index=1\n"
      "ROOT y = s32[<=8] concatenate(a, b), dimensions={0}",
      {1, 11, 12, 13}, {1, 13, 12, 11});
  ExpectOnBoth(
      "same = s32[<=4] set-dimension-size(whole, two), dimensions={0}\n"
      "ROOT y = s32[<=2] reduce-scatter(same), replica_groups={{0,1}}, dimensions={0}, to_apply=sum",
      {12}, {14});
  ExpectOnBoth(
      "same = s32[<=4] set-dimension-size(whole, two), dimensions={0}\n"
      "ROOT y = s32[<=4] all-reduce(same), replica_groups={{0,1}}, to_apply=sum",
      {12, 14}, {12, 14});
}

TEST_P(GroupOfRunTimeSize, SendAndRecv) {
  ExpectOnBoth(
      "t = token[] after-all()\n"
      "s = (s32[<=4], u32[], token[]) send(x, t), channel_id=1\n q = token[] send-done(s), channel_id=1\n"
      "v = (s32[<=4], u32[], token[]) recv(t), channel_id=1\n"
      "w = (s32[<=4], token[]) recv-done(v), channel_id=1\n"
      "y = s32[<=4] get-tuple-element(w), index=0\n ROOT z = s32[<=4] negate(y)",
      {-11, -12, -13}, {-1});
  // From the second device to the first only: what does not come is empty.
  ExpectOnBoth(
      "t = token[] after-all()\n"
      "s = (s32[<=4], u32[], token[]) send(x, t), channel_id=1,\n"
      "  frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
      "q = token[] send-done(s), channel_id=1\n"
      "v = (s32[<=4], u32[], token[]) recv(t), channel_id=1,\n"
      "  frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
      "w = (s32[<=4], token[]) recv-done(v), channel_id=1\n"
      "y = s32[<=4] get-tuple-element(w), index=0\n"
      "ROOT z = s32[<=8] concatenate(x, y), dimensions={0}",
      {1, 11, 12, 13}, {11, 12, 13});
  // A tuple, with an array of two such dimensions.
  ExpectOnBoth(
      "t = token[] after-all()\n"
      "b = s32[<=4,4] broadcast(x), dimensions={0}\n"
      "b2 = s32[<=4,<=4] set-dimension-size(b, two), dimensions={1}\n"
      "xs = (s32[<=4,<=4], s32[], s32[<=4]) tuple(b2, r, x)\n"
      "s = ((s32[<=4,<=4], s32[], s32[<=4]), u32[], token[]) send(xs, t), channel_id=7\n"
      "q = token[] send-done(s), channel_id=7\n"
      "v = ((s32[<=4,<=4], s32[], s32[<=4]), u32[], token[]) recv(t), channel_id=7\n"
      "w = ((s32[<=4,<=4], s32[], s32[<=4]), token[]) recv-done(v), channel_id=7\n"
      "y = (s32[<=4,<=4], s32[], s32[<=4]) get-tuple-element(w), index=0\n"
      "y0 = s32[<=4,<=4] get-tuple-element(y), index=0\n y1 = s32[] get-tuple-element(y), index=1\n"
      "y2 = s32[<=4] get-tuple-element(y), index=2\n"
      "zero = s32[] constant(0)\n sums = s32[<=4] reduce(y0, zero), dimensions={1}, to_apply=sum\n"
      "one_more = s32[1] reshape(y1)\n"
      "ROOT r2 = s32[<=9] concatenate(sums, one_more, y2), dimensions={0}",
      {22, 24, 26, 1, 11, 12, 13}, {2, 0, 1});
  // Turn by turn of a loop, a row longer each time.
  ExpectOnBoth(
      "zero = s32[] constant(0)\n none = s32[<=4] set-dimension-size(whole, zero), dimensions={0}\n"
      "t = token[] after-all()\n init = (s32[], s32[<=4], token[]) tuple(zero, none, t)\n"
      "out = (s32[], s32[<=4], token[]) while(init), condition=again, body=turn\n"
      "ROOT y = s32[<=4] get-tuple-element(out), index=1",
      {11, 12, 13}, {1, 2, 3});
}

TEST_P(GroupOfRunTimeSize, RaggedAllToAll) {
  // Rows of x behind its size are not sent, though the sizes ask for three of each.
  ExpectOnBoth(
      "o = s32[6] constant({7, 7, 7, 7, 7, 7})\n at = s32[2] constant({0, 0})\n"
      "three = s32[] constant(3)\n many = s32[2] broadcast(three), dimensions={}\n"
      "rows = s32[] multiply(r, three)\n to = s32[2] broadcast(rows), dimensions={}\n"
      "ROOT y = s32[6] ragged-all-to-all(x, o, at, many, to, many), replica_groups={{0,1}}",
      {1, 7, 7, 11, 12, 13}, {1, 7, 7, 11, 12, 13});
  // What is received has the size of one's own output: 2 + 2 r.
  ExpectOnBoth(
      "o = s32[4] constant({7, 7, 7, 7})\n more = s32[] add(n, one)\n"
      "os = s32[<=4] set-dimension-size(o, more), dimensions={0}\n at = s32[2] constant({0, 0})\n"
      "rs = s32[2] broadcast(r), dimensions={}\n ones = s32[2] constant({1, 1})\n"
      "ROOT y = s32[<=4] ragged-all-to-all(x, os, at, ones, rs, ones), replica_groups={{0,1}}",
      {1, 11}, {1, 11, 7, 7});
  // Offsets and sizes of which the first counts on the first device, both on the second.
  ExpectOnBoth(
      "o = s32[4] constant({7, 7, 7, 7})\n at = u8[2] constant({0, 0})\n"
      "many = s32[] add(r, one)\n ats = u8[<=2] set-dimension-size(at, many), dimensions={0}\n"
      "size = u8[2] constant({1, 2})\n sizes = u8[<=2] set-dimension-size(size, many), dimensions={0}\n"
      "place = s32[] multiply(r, two)\n places = s32[2] broadcast(place), dimensions={}\n"
      "to = u8[2] convert(places)\n tos = u8[<=2] set-dimension-size(to, many), dimensions={0}\n"
      "ROOT y = s32[4] ragged-all-to-all(x, o, ats, sizes, tos, sizes), replica_groups={{0,1}}",
      {1, 7, 11, 7}, {7, 7, 11, 12});
  // Two updates for each member, of which the second counts on the second device.
  ExpectOnBoth(
      "o = s32[4] constant({7, 7, 7, 7})\n at = s64[2,2] constant({{0, 0}, {0, 2}})\n"
      "many = s32[] add(r, one)\n ats = s64[2,<=2] set-dimension-size(at, many), dimensions={1}\n"
      "size = s64[2,2] constant({{1, 1}, {1, 1}})\n"
      "sizes = s64[2,<=2] set-dimension-size(size, many), dimensions={1}\n"
      "to = s64[2,2] constant({{0, 1}, {2, 3}})\n r64 = s64[] convert(r)\n"
      "shift = s64[2,2] broadcast(r64), dimensions={}\n to2 = s64[2,2] add(to, shift)\n"
      "tos = s64[2,<=2] set-dimension-size(to2, many), dimensions={1}\n"
      "ROOT y = s32[4] ragged-all-to-all(x, o, ats, sizes, tos, sizes), replica_groups={{0,1}}",
      {1, 11, 11, 7}, {7, 7, 1, 11});
}

// The ends of a channel do not agree: an error before anything runs.
TEST(DeviceGroup, WhatIsSentIsWhatIsReceived) {
  Outcome out = RunOn(
      "cpu*2", OfRunTimeSize(
                   "t = token[] after-all()\n"
                   "s = (s32[<=4], u32[], token[]) send(x, t), channel_id=1\n q = token[] send-done(s), channel_id=1\n"
                   "v = (s32[4], u32[], token[]) recv(t), channel_id=1\n"
                   "w = (s32[4], token[]) recv-done(v), channel_id=1\n ROOT y = s32[4] get-tuple-element(w), index=0"));
  EXPECT_EQ(out.run.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(out.run.error().message().find("channel 1"), std::string::npos) << out.run.error().ToString();
}

// StableHLO's collectives with a root, on two replicas of two partitions with 1, 2, 3 and 4.
std::string Rooted(std::string_view body) {
  return Format(R"mlir(
module attributes {{mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32}} {{
  func.func @main() -> tensor<1xi32> {{
    %r = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.partition_id : tensor<ui32>
    %c1 = stablehlo.constant dense<1> : tensor<ui32>
    %c2 = stablehlo.constant dense<2> : tensor<ui32>
    %rr = stablehlo.multiply %r, %c2 : tensor<ui32>
    %rp = stablehlo.add %rr, %p : tensor<ui32>
    %id = stablehlo.add %rp, %c1 : tensor<ui32>
    %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %x = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %one = stablehlo.constant dense<1> : tensor<1xi64>
    %y = {} -> tensor<1xi32>
    return %y : tensor<1xi32>
  }}
}}
)mlir",
                body);
}

TEST(DeviceGroup, CollectivesWithARoot) {
  auto expect = [](std::string_view body, const std::vector<int32_t>& want) {
    Outcome out = RunOn("cpu*4", Rooted(body));
    ASSERT_TRUE(out.run) << out.run.error().ToString() << body;
    std::vector<int32_t> got;
    for (const auto& results : out.results) got.push_back(results[0].data<int32_t>()[0]);
    EXPECT_EQ(got, want) << body;
  };
  const std::string sum =
      "({ ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n %s = stablehlo.add %a, %b : tensor<i32>\n"
      " stablehlo.return %s : tensor<i32> })";
  const std::string reduce = "\"stablehlo.collective_reduce\"(%x) " + sum;
  const std::string reduce_at = "\"stablehlo.collective_reduce\"(%x, %one) " + sum;
  const std::string broadcast = "\"stablehlo.collective_broadcast\"(%x, %one) ";
  const std::string channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
  // Replicas; replicas and their partitions; devices.
  expect(reduce + " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>)", {4, 6, 0, 0});
  expect(reduce_at +
             " {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, has_dynamic_root} : "
             "(tensor<1xi32>, tensor<1xi64>)",
         {4, 6, 0, 0});
  expect(reduce + " {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, " + channel + "} : (tensor<1xi32>)",
         {0, 0, 10, 0});
  expect(reduce_at +
             " {replica_groups = dense<[[3, 0], [2, 1]]> : tensor<2x2xi64>, has_dynamic_root, "
             "use_global_device_ids, " +
             channel + "} : (tensor<1xi32>, tensor<1xi64>)",
         {5, 5, 0, 0});
  // Replicas; partitions.
  expect(broadcast +
             " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root} : "
             "(tensor<1xi32>, tensor<1xi64>)",
         {3, 4, 3, 4});
  expect(broadcast + " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root, " + channel +
             "} : "
             "(tensor<1xi32>, tensor<1xi64>)",
         {2, 2, 4, 4});
}

// Devices that take different branches, each with a collective over all of them.
TEST(DeviceGroup, WhatNeverMeetsEndsInAnError) {
  Outcome out = RunOn("cpu*2", R"(
HloModule never, replica_count=2
left {
  x = f32[2] parameter(0)
  ROOT r = f32[4] all-gather(x), replica_groups={}, dimensions={0}
}
right {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  ROOT s = f32[4] all-gather(n), replica_groups={}, dimensions={0}
}
ENTRY e {
  id = u32[] replica-id()
  s = s32[] convert(id)
  x = f32[2] constant({1, 2})
  ROOT c = f32[4] conditional(s, x, x), branch_computations={left, right}
}
)");
  ASSERT_FALSE(out.run);
  EXPECT_EQ(out.run.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(out.run.error().message().find("waits in all-gather"), std::string::npos) << out.run.error().ToString();
}

TEST(DeviceGroup, TheTimeLimitEndsTheWaitForADeviceThatLoopsOn) {
  // Replica 1 never comes to the sum, and hears that the others have given up.
  Outcome out = RunOn("cpu*2", R"(
HloModule slow, replica_count=2
step {
  p = (s32[], f32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = f32[] sine(x)
  ROOT t = (s32[], f32[]) tuple(next, y)
}
more {
  p = (s32[], f32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  id = u32[] replica-id()
  sid = s32[] convert(id)
  many = s32[] constant(2000000000)
  limit = s32[] multiply(sid, many)
  ROOT c = pred[] compare(n, limit), direction=LT
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[] constant(0.5)
  init = (s32[], f32[]) tuple(zero, x)
  w = (s32[], f32[]) while(init), condition=more, body=step
  y = f32[] get-tuple-element(w), index=1
  ROOT r = f32[] all-reduce(y), replica_groups={}, to_apply=sum
}
)",
                      {.time_limit = std::chrono::milliseconds(20)});
  ASSERT_FALSE(out.run);
  EXPECT_EQ(out.run.error().code(), StatusCode::kDeadlineExceeded) << out.run.error().ToString();
  EXPECT_NE(out.run.error().message().find("device 1 is still at work"), std::string::npos)
      << out.run.error().ToString();
}

// Any computation may reduce, not only one op: here the larger magnitude with its sign, and bf16 sums made in f32.
TEST(DeviceGroup, ReductionsOfSeveralInstructions) {
  Outcome out = RunOn("cpu*3", R"(
HloModule odd, replica_count=3
larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  aa = f32[] abs(a)
  ab = f32[] abs(b)
  c = pred[] compare(aa, ab), direction=GE
  ROOT r = f32[] select(c, a, b)
}
wide {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  fa = f32[] convert(a)
  fb = f32[] convert(b)
  s = f32[] add(fa, fb)
  ROOT r = bf16[] convert(s)
}
second {
  a = s32[] parameter(0)
  ROOT b = s32[] parameter(1)
}
ENTRY e {
  id = u32[] replica-id()
  i = s32[] convert(id)
  f = f32[] convert(id)
  two = f32[] constant(2)
  shifted = f32[] subtract(f, two)
  x = f32[4099] broadcast(shifted), dimensions={}
  b = bf16[] convert(f)
  r0 = f32[4099] all-reduce(x), replica_groups={}, to_apply=larger
  r1 = bf16[] all-reduce(b), replica_groups={}, to_apply=wide
  r2 = s32[] all-reduce(i), replica_groups={{2,0,1}}, to_apply=second
  ROOT t = (f32[4099], bf16[], s32[]) tuple(r0, r1, r2)
}
)");
  ASSERT_TRUE(out.run) << out.run.error().ToString();
  for (const auto& device : out.results) {
    for (float v : device[0].data<float>()) ASSERT_EQ(v, -2.0f);
    EXPECT_EQ(device[1].data<uint16_t>()[0], 0x4040);  // 3
    EXPECT_EQ(device[2].data<int32_t>()[0], 1);
  }
}

TEST(DeviceGroup, AnErrorOnOneDeviceIsTheErrorOfTheRun) {
  auto group = *DeviceGroup::Create("cpu*2");
  auto module = *ReadModule(
      "HloModule m, replica_count=2\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[4] "
      "all-gather(x), replica_groups={}, dimensions={0}\n}\n",
      "test");
  auto executable = group->Compile(std::move(module), {});
  ASSERT_TRUE(executable) << executable.error().ToString();
  auto x = *Literal::Create((*executable)->arguments()[0]);
  const Literal* arguments[] = {&x};
  ASSERT_TRUE((*executable)->SetArguments(0, arguments));
  EXPECT_FALSE((*executable)->SetArguments(2, arguments));
  EXPECT_FALSE((*executable)->Execute());  // device 1 has no arguments
  ASSERT_TRUE((*executable)->SetArguments(1, arguments));
  auto again = (*executable)->Execute();
  EXPECT_TRUE(again) << again.error().ToString();
}

}  // namespace
}  // namespace krafla
