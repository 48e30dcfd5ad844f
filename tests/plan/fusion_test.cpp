// SPDX-License-Identifier: Apache-2.0
#include "plan/fusion/fusion.h"

#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

namespace krafla::plan {
namespace {

using Kind = FusionGroup::Kind;

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kLoop: return "loop";
    case Kind::kReduce: return "reduce";
    case Kind::kDot: return "dot";
    case Kind::kConvolution: return "convolution";
    case Kind::kDynamicUpdate: return "update";
    case Kind::kConcatenate: return "concatenate";
    case Kind::kRng: return "rng";
    case Kind::kSort: return "sort";
    case Kind::kScan: return "scan";
    case Kind::kScatter: return "scatter";
    case Kind::kFft: return "fft";
    case Kind::kLinalg: return "linalg";
    case Kind::kWhile: return "while";
    case Kind::kConditional: return "conditional";
    case Kind::kCall: return "call";
    case Kind::kHost: return "host";
  }
  return "";
}

// The groups of an entry computation: "kind members; ...". What needs no buffer is in parentheses.
std::string GroupsOf(std::string_view body, const FusionOptions& options = {}) {
  const std::string text = R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
ENTRY main {
)" + std::string(body) + "}\n";
  auto module = ParseHloText(text);
  if (!module) return module.error().ToString();
  if (auto verified = Verify(**module); !verified) return verified.error().ToString();
  auto plan = PlanFusion(*(*module)->entry(), options);
  if (!plan) return plan.error().ToString();
  std::string out;
  for (const FusionGroup& group : plan->groups) {
    out += std::string(out.empty() ? "" : "; ") + std::string(KindName(group.kind));
    std::vector<const Instruction*> members = group.heroes;
    members.insert(members.end(), group.roots.begin(), group.roots.end());
    for (const Instruction* i : members) out += group.internal.contains(i) ? " (" + i->name() + ")" : " " + i->name();
  }
  return out;
}

constexpr std::string_view kSoftmax = R"(  x = f32[64,128] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[64,128] broadcast(m), dimensions={0}
  d = f32[64,128] subtract(x, mb)
  e = f32[64,128] exponential(d)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[64,128] broadcast(s), dimensions={0}
  ROOT r = f32[64,128] divide(e, sb)
)";

constexpr std::string_view kDense = R"(  x = f32[4,64] parameter(0)
  w = f32[64,32] parameter(1)
  b = f32[32] parameter(2)
  d = f32[4,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[4,32] broadcast(b), dimensions={1}
  ROOT s = f32[4,32] add(d, bb)
)";

// A gather is an operand of the dot that reads it where a matrix of the batch is large: small ones would cost more to
// begin than to multiply.
TEST(FusionTest, OperandsOfManySmallMatricesAreStored) {
  FusionOptions options;
  options.computed_operands = true;
  constexpr std::string_view text = R"(  m = f32[{0},{1},{1}] parameter(0)
  v = f32[100,{1},{1}] parameter(1)
  i = s32[{0},1] parameter(2)
  g = f32[{0},{1},{1}] gather(v, i), offset_dims={{1,2}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{1},{1}}}
  ROOT d = f32[{0},{1},{1}] dot(m, g), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
)";
  EXPECT_EQ(GroupsOf(Format(text, 2000, 3), options), "loop g; dot d");
  EXPECT_EQ(GroupsOf(Format(text, 2000, 31), options), "loop g; dot d");
  EXPECT_EQ(GroupsOf(Format(text, 2000, 32), options), "dot d");
}

TEST(FusionTest, CheapValuesAreInlined) {
  EXPECT_EQ(GroupsOf(R"(  x = f32[8,16] parameter(0)
  b = f32[16] parameter(1)
  bb = f32[8,16] broadcast(b), dimensions={1}
  s = f32[8,16] add(x, bb)
  ROOT r = f32[8,16] multiply(s, s)
)"),
            "loop r");
}

TEST(FusionTest, WhatTwoKernelsNeedIsKeptWhereItIsNotCheap) {
  // The two roots run over different dimensions, so that they are two kernels.
  constexpr std::string_view text = R"(  x = f32[{0}] parameter(0)
  y = f32[64] parameter(1)
  e = f32[64] {1}
  n = f32[64] negate(e)
  t = f32[32] slice(e), slice={{[0:64:2]}}
  u = f32[32] negate(t)
  ROOT r = (f32[64], f32[32]) tuple(n, u)
)";
  const auto groups = [&](std::string_view e) { return GroupsOf(Format(text, 64, e)); };
  EXPECT_EQ(groups("exponential(x)"), "loop e n; loop u");
  EXPECT_EQ(groups("negate(x)"), "loop n; loop u");
  EXPECT_EQ(groups("add(x, y)"), "loop e n; loop u");
}

TEST(FusionTest, ConstantsAreNoArraysHoweverManyKernelsReadThem) {
  // More products than FusionLimits::places, each of a matrix less the same eights.
  std::string body =
      "eight = f32[] constant(8)\n eights = f32[64,64] broadcast(eight), dimensions={}\n"
      "x0 = f32[1,64] parameter(0)\n";
  for (int i = 1; i <= 20; ++i)
    body += Format(R"(w{0} = f32[64,64] parameter({0})
  d{0} = f32[64,64] subtract(w{0}, eights)
  x{0} = f32[1,64] dot(x{1}, d{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
)",
                   i, i - 1);
  const std::string groups = GroupsOf(body + "ROOT r = f32[1,64] negate(x20)");
  EXPECT_EQ(groups.find("eights"), std::string::npos) << groups;
  EXPECT_NE(groups.find("loop d7"), std::string::npos) << groups;
}

// A kernel that reads its values on as many ways as FusionLimits::evaluations allows has room for a constant still.
TEST(FusionTest, ConstantsAreNoArraysOnHoweverManyWays) {
  std::string body =
      "two = f32[] constant(2)\n twos = f32[64] broadcast(two), dimensions={}\n x0 = f32[64] parameter(0)\n";
  for (int i = 1; i <= 12; ++i)
    body += Format(R"(y{0} = f32[64] power(x{1}, twos)
  t{0} = f32[64] reverse(y{0}), dimensions={{0}}
  x{0} = f32[64] add(x{1}, t{0})
)",
                   i, i - 1);
  const std::string groups = GroupsOf(body + "ROOT r = f32[64] negate(x12)");
  EXPECT_EQ(groups.find("twos"), std::string::npos) << groups;
  EXPECT_NE(groups.find(";"), std::string::npos) << groups;
}

// Two sums of the same terms, of more formulas than a kernel has, are cut as two sums that one kernel makes.
TEST(FusionTest, LongSumsAreCutAsSums) {
  std::string body = "x = f32[64] parameter(0)\n n0 = f32[64] negate(x)\n d0 = f32[64] negate(x)\n";
  for (int i = 1; i <= 121; ++i)
    body += Format(R"(p{0} = f32[64] parameter({0})
  e{0} = f32[64] exponential(p{0})
  w{0} = f32[64] multiply(e{0}, x)
  n{0} = f32[64] add(n{1}, w{0})
  d{0} = f32[64] add(d{1}, e{0})
)",
                   i, i - 1);
  FusionOptions options;
  options.limits.bindings = 200;
  EXPECT_EQ(GroupsOf(body + "ROOT r = f32[64] divide(n121, d121)", options), "loop n40 d40 e41; loop r");
  // Without a limit on formulas they are one kernel, but for the instructions that it may have.
  options.limits.formulas = 1e9;
  options.limits.inlined = 1000;
  EXPECT_EQ(GroupsOf(body + "ROOT r = f32[64] divide(n121, d121)", options), "loop r");
}

// Steps of an iota, as the shifts that take codes out of words, are made anew wherever they are asked for.
TEST(FusionTest, WhatIsMadeOfIndicesIsNeverStored) {
  EXPECT_EQ(GroupsOf(R"(p = f32[8,16] parameter(0)
 zero = f32[] constant(0)
 four = f32[] constant(4)
 fours = f32[8,16] broadcast(four), dimensions={}
 i = f32[8,16] iota(), iota_dimension=1
 t = f32[8,16] multiply(i, fours)
 a = f32[8,16] add(p, t)
 b = f32[8,16] subtract(p, t)
 rows = f32[8] reduce(a, zero), dimensions={1}, to_apply=add
 columns = f32[16] reduce(b, zero), dimensions={0}, to_apply=add
 ROOT r = (f32[8], f32[16]) tuple(rows, columns)
)"),
            "reduce rows; reduce columns");
}

// A number that several kernels of one element want is stored where it takes long, and the array that it is read from
// may be updated behind it. Kernels of many elements compute it anew.
TEST(FusionTest, ANumberThatTakesLongIsComputedOnce) {
  constexpr std::string_view text = R"(  x = f32[] parameter(0)
  y = f32[{0}] parameter(1)
  e = f32[] {1}
  n = f32[] negate(e)
  b = f32[{0}] broadcast(e), dimensions={{}}
  u = f32[{0}] add(b, y)
  ROOT r = (f32[], f32[{0}]) tuple(n, u)
)";
  const auto groups = [&](int elements, std::string_view e) { return GroupsOf(Format(text, elements, e)); };
  EXPECT_EQ(groups(1, "exponential(x)"), "loop e n; loop u");
  EXPECT_EQ(groups(1, "divide(x, x)"), "loop e n; loop u");
  EXPECT_EQ(groups(1, "add(x, x)"), "loop n; loop u");
  EXPECT_EQ(groups(64, "exponential(x)"), "loop n; loop u");
}

// What many windows have is stored where windows of memory are folded faster.
TEST(FusionTest, ValuesOfManyWindows) {
  const auto groups = [](int size, bool stores) {
    FusionOptions options;
    options.stores_window_values = stores;
    return GroupsOf(Format(R"(x = f32[100] parameter(0)
  zero = f32[] constant(0)
  q = f32[100] multiply(x, x)
  ROOT w = f32[{}] reduce-window(q, zero), window={{size={}}}, to_apply=add
)",
                           101 - size, size),
                    options);
  };
  EXPECT_EQ(groups(20, false), "reduce w");
  EXPECT_EQ(groups(20, true), "loop q; reduce w");
  EXPECT_EQ(groups(3, true), "reduce w");
}

TEST(FusionTest, ReductionsOverTheSameRowsAreOne) {
  EXPECT_EQ(GroupsOf(kSoftmax), "reduce (m) (s) (e) r");
  FusionOptions options;
  options.reduce_regions = false;
  EXPECT_EQ(GroupsOf(kSoftmax, options), "reduce m; loop e; reduce s; loop r");
}

TEST(FusionTest, ADotTakesWhatFollows) {
  EXPECT_EQ(GroupsOf(kDense), "dot (d) s");
  FusionOptions options;
  options.dot_epilogues = false;
  EXPECT_EQ(GroupsOf(kDense, options), "dot d; loop s");
}

// Crops of padded pictures: rows of memory are copied where the padded ones are stored.
TEST(FusionTest, APadThatIsReadAtComputedPlaces) {
  const std::string crops = R"(x = f32[4,8,8,3] parameter(0)
 at = s32[4,3] parameter(1)
 zero = f32[] constant(0)
 p = f32[4,12,12,3] pad(x, zero), padding=0_0x2_2x2_2x0_0
 ROOT g = f32[4,8,8,3] gather(p, at), offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0,1,2}, index_vector_dim=1, slice_sizes={1,8,8,3}
)";
  EXPECT_EQ(GroupsOf(crops), "loop g");
  FusionOptions options;
  options.stores_gathered_pads = true;
  EXPECT_EQ(GroupsOf(crops, options), "loop p; loop g");
  // Of much more than is read it is not stored.
  const std::string one = R"(x = f32[64,64] parameter(0)
 i = s32[] parameter(1)
 zero = f32[] constant(0)
 p = f32[68,68] pad(x, zero), padding=2_2x2_2
 ROOT s = f32[8,8] dynamic-slice(p, i, i), dynamic_slice_sizes={8,8}
)";
  EXPECT_EQ(GroupsOf(one, options), "loop s");
}

// What had to be built to decide is not built again.
TEST(FusionTest, MergedGroupsHaveTheirKernel) {
  auto module = ParseHloText("HloModule m\nENTRY main {\n" + std::string(kDense) + "}\n");
  ASSERT_TRUE(module) << module.error().ToString();
  auto plan = PlanFusion(*(*module)->entry(), {});
  ASSERT_TRUE(plan) << plan.error().ToString();
  ASSERT_EQ(plan->groups.size(), 1u);
  ASSERT_TRUE(plan->groups[0].kernel.has_value());
  EXPECT_TRUE(std::holds_alternative<DotKernel>(plan->groups[0].kernel->kernel.body));
}

TEST(FusionTest, ADotThatIsReadTwiceHasNoEpilogue) {
  EXPECT_EQ(GroupsOf(R"(  x = f32[4,64] parameter(0)
  w = f32[64,32] parameter(1)
  d = f32[4,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,32] tanh(d)
  t = f32[32,4] transpose(d), dimensions={1,0}
  ROOT r = (f32[4,32], f32[32,4]) tuple(s, t)
)"),
            "dot d; loop s; loop t");
}

// A row of a cache is written where it belongs, in the shape that the cache has.
TEST(FusionTest, AnUpdateFollowsADot) {
  const std::string dot = R"(  x = f32[1,64] parameter(0)
  w = f32[64,32] parameter(1)
  c = f32[16,4,8] parameter(2)
  p = s32[] parameter(3)
  z = s32[] constant(0)
  d = f32[1,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)";
  const std::string row = "  t = f32[1,32] tanh(d)\n  v = f32[1,4,8] reshape(t)\n";
  const std::string update = "f32[16,4,8] dynamic-update-slice(c, v, p, z, z)\n";
  EXPECT_EQ(GroupsOf(dot + "  v = f32[1,4,8] reshape(d)\n  ROOT r = " + update), "dot (d) r");
  EXPECT_EQ(GroupsOf(dot + row + "  ROOT r = " + update), "dot (d) r");
  EXPECT_EQ(GroupsOf(dot + row + "  u = " + update + "  ROOT r = (f32[16,4,8], f32[1,32]) tuple(u, d)\n"),
            "dot d; update u");
}

TEST(FusionTest, SiblingsOverTheSameDimensionsAreOne) {
  constexpr std::string_view text = R"(  x = f32[64,32] parameter(0)
  a = f32[64,32] negate(x)
  b = f32[64,32] tanh(x)
  ROOT r = (f32[64,32], f32[64,32]) tuple(a, b)
)";
  EXPECT_EQ(GroupsOf(text), "loop a b");
  FusionOptions options;
  options.multi_output = false;
  EXPECT_EQ(GroupsOf(text, options), "loop a; loop b");
}

TEST(FusionTest, WithoutFusionEachInstructionIsAKernel) {
  FusionOptions options;
  options.fuse = false;
  EXPECT_EQ(GroupsOf(kDense, options), "dot d; loop bb; loop s");
}

TEST(FusionTest, WhatOverwritesABufferRunsAfterItsReaders) {
  EXPECT_EQ(GroupsOf(R"(  x = f32[64] parameter(0)
  u = f32[8] parameter(1)
  at = s32[] parameter(2)
  a = f32[64] tanh(x)
  w = f32[64] dynamic-update-slice(a, u, at)
  rev = f32[64] reverse(a), dimensions={0}
  two = f32[32] slice(rev), slice={[0:64:2]}
  n = f32[32] negate(two)
  ROOT r = (f32[64], f32[32]) tuple(w, n)
)"),
            "loop a; loop n; update w");
}

// What replaces a part of an array is computed where it is put in, if of that array it reads just what it replaces.
TEST(FusionTest, AnUpdateComputesWhatItReplaces) {
  const auto groups = [](std::string_view read, std::string_view start) {
    return GroupsOf(Format(R"(  a = f32[64,8] parameter(0)
  x = f32[16,8] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  four = s32[] constant(4)
  far = s32[] constant(99)
  s = f32[16,8] {}
  u = f32[16,8] add(s, x)
  ROOT w = f32[64,8] dynamic-update-slice(a, u, {}, zero)
)",
                           read, start));
  };
  const std::string_view at_four = "slice(a), slice={[4:20], [0:8]}";
  EXPECT_EQ(groups(at_four, "four"), "update w");
  EXPECT_EQ(groups(at_four, "zero"), "loop u; update w");
  EXPECT_EQ(groups(at_four, "at"), "loop u; update w");
  EXPECT_EQ(groups("slice(a), slice={[48:64], [0:8]}", "far"), "update w");
  EXPECT_EQ(groups("slice(a), slice={[4:36:2], [0:8]}", "four"), "loop u; update w");
  EXPECT_EQ(groups("dynamic-slice(a, at, zero), dynamic_slice_sizes={16,8}", "at"), "update w");
  EXPECT_EQ(groups("dynamic-slice(a, four, zero), dynamic_slice_sizes={16,8}", "four"), "update w");
  EXPECT_EQ(groups("dynamic-slice(a, at, zero), dynamic_slice_sizes={16,8}", "four"), "loop u; update w");
}

TEST(FusionTest, AnUpdateReadsOneElementTwice) {
  // The same slice in its place and reversed.
  EXPECT_EQ(GroupsOf(R"(  a = f32[64] parameter(0)
  z = s32[] constant(0)
  s = f32[16] slice(a), slice={[0:16]}
  rev = f32[16] reverse(s), dimensions={0}
  u = f32[16] add(s, rev)
  ROOT w = f32[64] dynamic-update-slice(a, u, z)
)"),
            "loop u; update w");
}

// Of two updates that each read what the other one overwrites, one is computed before both.
TEST(FusionTest, UpdatesThatReadEachOthersArrays) {
  const auto groups = [](std::string_view more, std::string_view b) {
    return GroupsOf(Format(R"(  s = (f32[64], f32[64]) parameter(0)
  a = f32[64] get-tuple-element(s), index=0
  b = f32[64] get-tuple-element(s), index=1
  z = s32[] constant(0)
  p = f32[16] slice(a), slice={{[0:16]}}
  q = f32[16] slice(b), slice={{[0:16]}}
  u = f32[16] add(p, q)
  a2 = f32[64] dynamic-update-slice(a, u, z)
{}  ROOT r = (f32[64], f32[64]) tuple(a2, {})
)",
                           more, b));
  };
  EXPECT_EQ(groups("  v = f32[16] subtract(p, q)\n  b2 = f32[64] dynamic-update-slice(b, v, z)\n", "b2"),
            "loop v; update a2; update b2");
  // The next state is computed anew.
  EXPECT_EQ(groups("  b2 = f32[64] subtract(b, a)\n", "b2"), "loop u; loop b2; update a2");
  EXPECT_EQ(groups("  b2 = f32[64] negate(b)\n", "b2"), "update a2; loop b2");
  EXPECT_EQ(groups("", "b"), "update a2");
}

TEST(FusionTest, WhatNoFamilyTakesIsTheHosts) {
  EXPECT_EQ(GroupsOf(R"(  x = f32[8] parameter(0)
  ROOT y = f32[8] custom-call(x), custom_call_target="somewhere"
)"),
            "host y");
}

}  // namespace
}  // namespace krafla::plan
