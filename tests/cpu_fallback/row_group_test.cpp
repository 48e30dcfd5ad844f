// SPDX-License-Identifier: Apache-2.0
// Row groups: chains of kernels that run block of rows by block of rows give the bits of the same kernels one by one.
#include <limits>

#include "row_group_runs.h"

namespace krafla {
namespace {

// Queries q[t,kv,group,hd] over keys and values [s,kv,hd]; `scores` makes x of w, both f32[kv,group,t,s].
std::string Attention(int64_t t, int64_t s, int64_t kv, int64_t group, int64_t hd, std::string_view type,
                      std::string_view more_parameters, std::string_view scores) {
  return Format(R"(HloModule attention
{8}
ENTRY main {{
  q = {5}[{0},{2},{3},{4}] parameter(0)
  k = {5}[{1},{2},{4}] parameter(1)
  v = {5}[{1},{2},{4}] parameter(2)
  {6}
  d = f32[{2},{0},{3},{1}] dot(q, k), lhs_batch_dims={{1}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{2}}
  w = f32[{2},{3},{0},{1}] transpose(d), dimensions={{0,2,1,3}}
  {7}
  {9}
  pc = {5}[{2},{3},{0},{1}] convert(p)
  o = {5}[{2},{3},{0},{4}] dot(pc, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = {5}[{0},{2},{3},{4}] transpose(o), dimensions={{2,0,1,3}}
}})",
                t, s, kv, group, hd, type, more_parameters, scores, kRegions, Softmax("x", "p", {kv, group, t, s}));
}

// Compares blocks of several sizes, on one thread and on three, with the kernels one by one. `groups`: that there are
// at least.
void ExpectSameRows(std::string_view text, int groups) {
  auto whole = CompileRows(text, {}, 1);
  ASSERT_TRUE(whole) << whole.error().ToString();
  ASSERT_EQ(GroupsOf((*whole)->plan().steps), 0);
  const auto expected = RunRows(**whole);
  for (const int64_t block_bytes : {1, 6000, 30000})
    for (const int threads : {1, 3}) {
      auto grouped = CompileRows(text, SmallBlocks(block_bytes), threads);
      ASSERT_TRUE(grouped) << grouped.error().ToString();
      EXPECT_GE(GroupsOf((*grouped)->plan().steps), groups) << plan::ToString((*grouped)->plan());
      EXPECT_LE((*grouped)->plan().arena_size, (*whole)->plan().arena_size);
      for (int run = 0; run < 2; ++run) EXPECT_EQ(RunRows(**grouped), expected) << "blocks of " << block_bytes;
    }
}

TEST(RowGroupTest, CausalAttention) {
  for (std::string_view type : {"f32", "bf16"})
    for (std::string_view low : {"-inf", "-2.3819763e+38"})
      ExpectSameRows(Attention(96, 96, 2, 3, 32, type, "", Masked(96, 96, 2, 3, "GE", low)), 1);
}

// 101 rows fall into no equal blocks.
TEST(RowGroupTest, RowsThatAreLeftOver) {
  ExpectSameRows(Attention(101, 67, 2, 3, 32, "f32", "", Masked(101, 67, 2, 3, "LT", "-1e30")), 1);
  ExpectSameRows(Attention(127, 64, 1, 1, 64, "bf16", "", Masked(127, 64, 1, 1, "GE", "-inf")), 1);
}

TEST(RowGroupTest, BiasesAndSoftCaps) {
  ExpectSameRows(Attention(48, 64, 2, 2, 32, "bf16", "slope = f32[2,2] parameter(3)", R"(
  slopes = f32[2,2,48,64] broadcast(slope), dimensions={0,1}
  row = s32[48,64] iota(), iota_dimension=0
  column = s32[48,64] iota(), iota_dimension=1
  far = s32[48,64] subtract(column, row)
  farf = f32[48,64] convert(far)
  fars = f32[2,2,48,64] broadcast(farf), dimensions={2,3}
  bias = f32[2,2,48,64] multiply(slopes, fars)
  biased = f32[2,2,48,64] add(w, bias)
  cap = f32[] constant(5)
  caps = f32[2,2,48,64] broadcast(cap), dimensions={}
  part = f32[2,2,48,64] divide(biased, caps)
  bent = f32[2,2,48,64] tanh(part)
  x = f32[2,2,48,64] multiply(bent, caps)
)"),
                 1);
}

// A mask that is an argument, and a bias that rows read by another order.
TEST(RowGroupTest, MasksFromMemory) {
  ExpectSameRows(Attention(48, 64, 2, 2, 32, "f32", R"(mask = pred[48,64] parameter(3)
  table = f32[48,2,2,64] parameter(4))",
                           R"(
  masks = pred[2,2,48,64] broadcast(mask), dimensions={2,3}
  rev = f32[48,2,2,64] reverse(table), dimensions={0}
  bias = f32[2,2,48,64] transpose(rev), dimensions={1,2,0,3}
  biased = f32[2,2,48,64] add(w, bias)
  low = f32[] constant(-1e9)
  lows = f32[2,2,48,64] broadcast(low), dimensions={}
  x = f32[2,2,48,64] select(masks, biased, lows)
)"),
                 1);
}

// Rows that read a table by an index that no stride says: quotients, a pad, a gather.
TEST(RowGroupTest, IndicesThatAreNotAffine) {
  ExpectSameRows(Attention(96, 64, 1, 2, 32, "f32", R"(table = f32[25,64] parameter(3)
  shifted = f32[92,64] parameter(4)
  which = s32[96,1] parameter(5))",
                           R"(
  row = s32[96] iota(), iota_dimension=0
  three = s32[] constant(4)
  threes = s32[96] broadcast(three), dimensions={}
  at = s32[96] divide(row, threes)
  at1 = s32[96,1] reshape(at)
  near = f32[96,64] gather(table, at1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
  far = f32[96,64] gather(table, which), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
  zero = f32[] constant(0)
  padded = f32[96,64] pad(shifted, zero), padding=3_1x0_0
  sum = f32[96,64] add(near, far)
  sum2 = f32[96,64] add(sum, padded)
  sums = f32[1,2,96,64] broadcast(sum2), dimensions={2,3}
  x = f32[1,2,96,64] add(w, sums)
)"),
                 1);
}

TEST(RowGroupTest, ClassifiersAndLayers) {
  ExpectSameRows(Format(R"(HloModule head
{}
ENTRY main {{
  x = f32[64,48] parameter(0)
  w = f32[48,160] parameter(1)
  x1 = f32[64,160] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {}
  u = f32[160,32] parameter(2)
  r = f32[64,32] dot(p, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT out = (f32[64,32], f32[64]) tuple(r, p_m)
}})",
                        kRegions, Softmax("x1", "p", {64, 160})),
                 1);
  ExpectSameRows(R"(HloModule layers
ENTRY main {
  x = f32[8,8,48] parameter(0)
  w = f32[48,160] parameter(1)
  u = f32[160,32] parameter(2)
  h = f32[8,8,160] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  g = f32[8,8,160] tanh(h)
  ROOT r = f32[8,8,32] dot(g, u), lhs_contracting_dims={2}, rhs_contracting_dims={0}
})",
                 1);
}

TEST(RowGroupTest, InLoops) {
  ExpectSameRows(Format(R"(HloModule loop
{}
body {{
  s = (s32[], f32[96,48]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[96,48] get-tuple-element(s), index=1
  x = f32[96,96] dot(y, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  {}
  z = f32[96,48] dot(p, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT t = (s32[], f32[96,48]) tuple(next, z)
}}
cond {{
  s = (s32[], f32[96,48]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  y = f32[96,48] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[96,48]) tuple(zero, y)
  end = (s32[], f32[96,48]) while(start), condition=cond, body=body
  ROOT r = f32[96,48] get-tuple-element(end), index=1
}})",
                        kRegions, Softmax("x", "p", {96, 96})),
                 1);
}

// What a second result needs stays whole; what reads columns ends the group.
TEST(RowGroupTest, ColumnsAndOtherReaders) {
  ExpectSameRows(Format(R"(HloModule columns
{}
ENTRY main {{
  q = f32[96,48] parameter(0)
  x = f32[96,96] dot(q, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  {}
  forth = f32[96,48] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  back = f32[96,48] dot(p, q), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT r = (f32[96,48], f32[96,48], f32[96,96]) tuple(forth, back, p)
}})",
                        kRegions, Softmax("x", "p", {96, 96})),
                 1);
}

// With bounds and without; `change` is called on the arguments before the runs.
void ExpectSameBounded(std::string_view text,
                       const std::function<void(std::vector<std::vector<std::byte>>&)>& change = {}) {
  auto whole = CompileRows(text, {}, 1);
  ASSERT_TRUE(whole) << whole.error().ToString();
  const auto expected = RunRows(**whole, change);
  for (const int64_t block_bytes : {1, 40000}) {
    auto bounded = CompileRows(text, Bounded(block_bytes), 2);
    ASSERT_TRUE(bounded) << bounded.error().ToString();
    EXPECT_TRUE(IsBounded((*bounded)->plan())) << plan::ToString((*bounded)->plan());
    EXPECT_EQ(RunRows(**bounded, change), expected) << "blocks of " << block_bytes;
  }
}

TEST(RowGroupTest, MaskedColumnsAreLeftOut) {
  for (std::string_view type : {"f32", "bf16"})
    for (std::string_view low : {"-inf", "-2.3819763e+38", "-3.4028235e+38", "-1e9"})
      ExpectSameBounded(Attention(256, 256, 1, 2, 32, type, "", Masked(256, 256, 1, 2, "GE", low)));
  // More columns than rows: the last ones are never seen.
  ExpectSameBounded(Attention(192, 512, 2, 1, 32, "bf16", "", Masked(192, 512, 2, 1, "GT", "-1e30")));
  // Windows.
  for (std::string_view type : {"f32", "bf16"}) {
    ExpectSameBounded(Attention(320, 320, 1, 2, 32, type, "", Windowed(320, 320, 1, 2, 40)));
  }
  // Products of bf16 by AMX have other sums.
  ExpectSameBounded(Attention(3072, 3072, 1, 1, 16, "f32", "", Windowed(3072, 3072, 1, 1, 700)));
}

// Scores, the mask's constant and the softmax in a narrow type, as layers have them that compute in bf16: `wide` sums
// in f32.
std::string NarrowAttention(std::string_view type, std::string_view low, bool wide) {
  constexpr std::string_view kNarrow = R"(
  m = T[2,256] reduce(x, least), dimensions={2}, to_apply=top
  mb = T[2,256,256] broadcast(m), dimensions={0,1}
  d = T[2,256,256] subtract(x, mb)
  e = T[2,256,256] exponential(d)
  ef = f32[2,256,256] convert(e)
  s = f32[2,256] reduce(ef, zero), dimensions={2}, to_apply=add
  sn = T[2,256] convert(s)
  sb = T[2,256,256] broadcast(sn), dimensions={0,1}
  p = T[2,256,256] divide(e, sb))";
  const std::string softmax =
      wide ? "xf = f32[2,256,256] convert(x)" + Softmax("xf", "pf", {2, 256, 256}) + "p = T[2,256,256] convert(pf)"
           : std::string(kNarrow);
  std::string text = Format(R"(HloModule narrow
{0}
top {{ a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] maximum(a, b) }}
ENTRY main {{
  q = T[256,2,32] parameter(0)
  k = T[256,2,32] parameter(1)
  v = T[256,2,32] parameter(2)
  w = T[2,256,256] dot(q, k), lhs_batch_dims={{1}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{2}}
  row = s32[256,256] iota(), iota_dimension=0
  column = s32[256,256] iota(), iota_dimension=1
  keep = pred[256,256] compare(row, column), direction=GE
  keeps = pred[2,256,256] broadcast(keep), dimensions={{1,2}}
  low = T[] constant({1})
  lows = T[2,256,256] broadcast(low), dimensions={{}}
  x = T[2,256,256] select(keeps, w, lows)
  least = T[] constant(-inf)
  zero = f32[] constant(0)
  {2}
  o = T[2,256,32] dot(p, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = T[256,2,32] transpose(o), dimensions={{1,0,2}}
}})",
                            kRegions, low, softmax);
  for (std::size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at)) text.replace(at, 1, type);
  return text;
}

TEST(RowGroupTest, MaskedColumnsOfNarrowScoresAreLeftOut) {
  for (const bool wide : {true, false}) {
    for (std::string_view low : {"-inf", "-3.3895314e+38", "-1e9"})
      ExpectSameBounded(NarrowAttention("bf16", low, wide));
    for (std::string_view low : {"-inf", "-65504", "-1e4"}) ExpectSameBounded(NarrowAttention("f16", low, wide));
  }
}

// Whatever the arguments are: values that are not finite, and rows whose scores are as low as the mask.
TEST(RowGroupTest, BoundsThatDoNotHold) {
  const std::string text = Attention(256, 256, 1, 2, 32, "f32", "", Masked(256, 256, 1, 2, "GE", "-2.3819763e+38"));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    ExpectSameBounded(text, [&](std::vector<std::vector<std::byte>>& arguments) {
      std::memcpy(arguments[2].data() + 4 * 32 * 250, &bad, 4);
    });
  ExpectSameBounded(text, [](std::vector<std::vector<std::byte>>& arguments) {
    const float huge = 3e38f, less = -3e38f;
    for (int d = 0; d < 32; ++d) {
      std::memcpy(arguments[0].data() + 4 * (3 * 64 + d), &huge, 4);
      for (int k = 0; k < 4; ++k) std::memcpy(arguments[1].data() + 4 * (32 * k + d), &less, 4);
    }
  });
  // Row 0 keeps no column.
  ExpectSameBounded(Attention(256, 256, 1, 2, 32, "f32", "", Masked(256, 256, 1, 2, "GT", "-inf")));
  ExpectSameBounded(Attention(256, 256, 1, 2, 32, "f32", "", Masked(256, 256, 1, 2, "GT", "-1e9")));
}

// The columns of the softmax are summed up, each over all rows.
TEST(RowGroupTest, SaysWhyNot) {
  const std::string text = Format(R"(HloModule columns
{}
ENTRY main {{
  q = f32[96,48] parameter(0)
  k = f32[112,48] parameter(1)
  x = f32[96,112] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  {}
  zero = f32[] constant(0)
  ROOT r = f32[112] reduce(p, zero), dimensions={{0}}, to_apply=add
}})",
                                  kRegions, Softmax("x", "p", {96, 112}));
  ExpectSameRows(text, 1);
  plan::PlanLog log;
  auto made = CompileRows(text, SmallBlocks(1), 1, &log);
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_EQ(log.row_groups.size(), 1u);
  EXPECT_EQ(log.row_groups[0].kernels.size(), 2u);
  EXPECT_EQ(log.row_groups[0].why_not_next, plan::Ungrouped::kRows);
  ASSERT_NE(log.row_groups[0].next, nullptr);
  EXPECT_EQ(log.row_groups[0].next->opcode(), Opcode::kReduce);
}

}  // namespace
}  // namespace krafla
