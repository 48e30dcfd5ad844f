// SPDX-License-Identifier: Apache-2.0
// Row groups: chains of kernels that run block of rows by block of rows give the bits of the same kernels one by one.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "cpu_fallback/executor/cpu_plan.h"
#include "cpu_fallback/native/native_code.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "numerics/formats.h"
#include "passes/pipeline.h"
#include "plan/plan_log.h"
#include "plan/planner.h"

namespace krafla {
namespace {

constexpr std::string_view kRegions = R"(
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
)";

// The softmax of the rows of `in`, an f32 array of dimensions `dims` with rows of the last one, as `out`.
std::string Softmax(std::string_view in, std::string_view out, const std::vector<int64_t>& dims) {
  std::string all, rows, kept;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    all += Format("{}{}", d > 0 ? "," : "", dims[d]);
    if (d + 1 == dims.size()) break;
    rows += Format("{}{}", d > 0 ? "," : "", dims[d]);
    kept += Format("{}{}", d > 0 ? "," : "", d);
  }
  return Format(R"(
  {0}_low = f32[] constant(-inf)
  {0}_zero = f32[] constant(0)
  {0}_m = f32[{3}] reduce({1}, {0}_low), dimensions={{{5}}}, to_apply=max
  {0}_mb = f32[{2}] broadcast({0}_m), dimensions={{{4}}}
  {0}_d = f32[{2}] subtract({1}, {0}_mb)
  {0}_e = f32[{2}] exponential({0}_d)
  {0}_s = f32[{3}] reduce({0}_e, {0}_zero), dimensions={{{5}}}, to_apply=add
  {0}_sb = f32[{2}] broadcast({0}_s), dimensions={{{4}}}
  {0} = f32[{2}] divide({0}_e, {0}_sb)
)",
                out, in, all, rows, kept, dims.size() - 1);
}

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

// A scale and a mask that compares the row with the column.
std::string Masked(int64_t t, int64_t s, int64_t kv, int64_t group, std::string_view direction, std::string_view low) {
  return Format(R"(
  scale = f32[] constant(0.25)
  scales = f32[{2},{3},{0},{1}] broadcast(scale), dimensions={{}}
  scaled = f32[{2},{3},{0},{1}] multiply(w, scales)
  row = s32[{0},{1}] iota(), iota_dimension=0
  column = s32[{0},{1}] iota(), iota_dimension=1
  keep = pred[{0},{1}] compare(row, column), direction={4}
  keeps = pred[{2},{3},{0},{1}] broadcast(keep), dimensions={{2,3}}
  low = f32[] constant({5})
  lows = f32[{2},{3},{0},{1}] broadcast(low), dimensions={{}}
  x = f32[{2},{3},{0},{1}] select(keeps, scaled, lows)
)",
                t, s, kv, group, direction, low);
}

// The same, of the last `width` columns up to that of the row.
std::string Windowed(int64_t t, int64_t s, int64_t kv, int64_t group, int64_t width) {
  std::string out = Masked(t, s, kv, group, "GE", "-2.3819763e+38");
  const std::string keep = Format("keep = pred[{0},{1}] compare(row, column), direction=GE", t, s);
  out.replace(out.find(keep), keep.size(),
              Format(R"(past = pred[{0},{1}] compare(row, column), direction=GE
  width = s32[] constant({2})
  widths = s32[{0},{1}] broadcast(width), dimensions={{}}
  least = s32[{0},{1}] subtract(row, widths)
  near = pred[{0},{1}] compare(column, least), direction=GT
  keep = pred[{0},{1}] and(past, near))",
                     t, s, width));
  return out;
}

plan::RowGroupOptions SmallBlocks(int64_t block_bytes) {
  return {
      .enabled = true, .least_saved = 1, .block_bytes = block_bytes, .few_rows = 8, .many_rows = 8, .bounded_parts = 0};
}

Result<std::unique_ptr<CpuPlan>> CompileRows(std::string_view text, const plan::RowGroupOptions& options, int threads,
                                             plan::PlanLog* log = nullptr) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  plan::PlanOptions plan_options;
  plan_options.row_groups = options;
  plan_options.fusion.log = log;
  plan_options.fusion.computed_operands = true;
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), plan_options));
  // Without AVX-512 oneDNN sums in an order that depends on how many rows go together.
  const bool own_products = !cpu::native::HasAvx512Code();
  return CpuPlan::Create(std::move(plan), {.threads = threads, .own_products = own_products});
}

// Numbers from -2 to 2, of every type.
std::vector<std::vector<std::byte>> NumbersFor(const plan::ProgramPlan& plan) {
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> out;
  for (const Shape& shape : plan.arguments) {
    const auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
    std::vector<std::byte> bytes(static_cast<std::size_t>(shape.byte_size()));
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      const float number = static_cast<float>(random() % 4096) / 1024 - 2;
      uint32_t bits = shape.element_type() == ElementType::kPred ? random() % 2 : random() % 5;
      if (shape.element_type() == ElementType::kF32) bits = std::bit_cast<uint32_t>(number);
      if (shape.element_type() == ElementType::kF16) bits = FloatToF16(number);
      if (shape.element_type() == ElementType::kBF16) bits = std::bit_cast<uint32_t>(number) >> 16;
      std::memcpy(bytes.data() + at, &bits, width);
    }
    out.push_back(std::move(bytes));
  }
  return out;
}

std::vector<std::vector<std::byte>> RunRows(
    CpuPlan& executable, const std::function<void(std::vector<std::vector<std::byte>>&)>& change = {}) {
  auto arguments = NumbersFor(executable.plan());
  if (change) change(arguments);
  std::vector<const std::byte*> given;
  for (const auto& a : arguments) given.push_back(a.data());
  std::vector<std::vector<std::byte>> out;
  for (const Shape& r : executable.plan().results) out.emplace_back(static_cast<std::size_t>(r.byte_size()));
  std::vector<std::byte*> to;
  for (auto& r : out) to.push_back(r.data());
  const Result<> status = executable.Run(given, to);
  EXPECT_TRUE(status) << status.error().ToString();
  return out;
}

int GroupsOf(const plan::StepList& list) {
  int groups = 0;
  for (const plan::Step& step : list.steps) {
    groups += std::holds_alternative<plan::RowGroupStep>(step);
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) groups += GroupsOf(*loop->body);
  }
  return groups;
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

plan::RowGroupOptions Bounded(int64_t block_bytes) {
  plan::RowGroupOptions out = SmallBlocks(block_bytes);
  out.bounded_parts = 8;
  out.least_bound_flops = 1;
  return out;
}

bool IsBounded(const plan::ProgramPlan& plan) {
  return std::ranges::any_of(
      plan.steps.steps, [](const plan::Step& step) { return std::holds_alternative<plan::ConditionalStep>(step); });
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

// The gradients of attention, as jax.vjp has them: q[t,kv,group,hd], do of the same dimensions, k and v[s,kv,hd].
std::string Gradients(int64_t t, int64_t s, int64_t kv, int64_t group, int64_t hd, std::string_view type,
                      int64_t width = 0) {
  return Format(R"(HloModule gradients
{6}
ENTRY main {{
  q = {5}[{2},{3},{0},{4}] parameter(0)
  k = {5}[{2},{1},{4}] parameter(1)
  v = {5}[{2},{1},{4}] parameter(2)
  g = {5}[{2},{3},{0},{4}] parameter(3)
  w = f32[{2},{3},{0},{1}] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  {7}
  {8}
  pc = {5}[{2},{3},{0},{1}] convert(p)
  o = {5}[{2},{3},{0},{4}] dot(pc, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  dp = f32[{2},{3},{0},{1}] dot(g, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  pdp = f32[{2},{3},{0},{1}] multiply(p, dp)
  none = f32[] constant(0)
  sum = f32[{2},{3},{0}] reduce(pdp, none), dimensions={{3}}, to_apply=add
  sums = f32[{2},{3},{0},{1}] broadcast(sum), dimensions={{0,1,2}}
  less = f32[{2},{3},{0},{1}] subtract(dp, sums)
  ds = f32[{2},{3},{0},{1}] multiply(p, less)
  dsc = {5}[{2},{3},{0},{1}] convert(ds)
  dq = {5}[{2},{3},{0},{4}] dot(dsc, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  dk = {5}[{2},{1},{4}] dot(dsc, q), lhs_batch_dims={{0}}, lhs_contracting_dims={{1,2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1,2}}
  dv = {5}[{2},{1},{4}] dot(pc, g), lhs_batch_dims={{0}}, lhs_contracting_dims={{1,2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1,2}}
  ROOT r = ({5}[{2},{3},{0},{4}], {5}[{2},{3},{0},{4}], {5}[{2},{1},{4}], {5}[{2},{1},{4}]) tuple(o, dq, dk, dv)
}})",
                t, s, kv, group, hd, type, kRegions,
                width > 0 ? Windowed(t, s, kv, group, width) : Masked(t, s, kv, group, "GE", "-1e30"),
                Softmax("x", "p", {kv, group, t, s}));
}

std::vector<float> Floats(const std::vector<std::byte>& bytes, ElementType type) {
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(StorageBytes(type)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    if (type == ElementType::kF32) std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    else std::memcpy(&half, bytes.data() + 2 * i, 2), out[i] = BF16ToFloat(half);
  }
  return out;
}

// All of it is one group: what sums over rows adds block after block to what lies in memory. The bits are those of any
// number of threads; sums have another order than that of one product, within a sum's bound.
void ExpectGradients(const std::string& text, ElementType type, double bound) {
  auto whole = CompileRows(text, {}, 1);
  ASSERT_TRUE(whole) << whole.error().ToString();
  const auto expected = RunRows(**whole);
  for (const int64_t block_bytes : {1, 6000, 30000}) {
    std::vector<std::vector<std::byte>> first;
    for (const int threads : {1, 2, 5}) {
      auto grouped = CompileRows(text, SmallBlocks(block_bytes), threads);
      ASSERT_TRUE(grouped) << grouped.error().ToString();
      const plan::ProgramPlan& plan = (*grouped)->plan();
      EXPECT_GE(GroupsOf(plan.steps), 1) << plan::ToString(plan);
      EXPECT_LT(plan.arena_size, (*whole)->plan().arena_size / 2) << plan::ToString(plan);
      const auto got = RunRows(**grouped);
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads";
    }
    ASSERT_EQ(first.size(), expected.size());
    for (std::size_t r = 0; r < first.size(); ++r) {
      const std::vector<float> a = Floats(first[r], type), b = Floats(expected[r], type);
      double most = 0, scale = 0;
      for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max<double>(most, std::abs(a[i] - b[i])), scale = std::max<double>(scale, std::abs(b[i]));
      EXPECT_LE(most, bound * scale) << "result " << r << ", blocks of " << block_bytes;
    }
  }
}

TEST(RowGroupTest, Gradients) {
  ExpectGradients(Gradients(96, 112, 2, 3, 16, "f32"), ElementType::kF32, 1e-6);
  ExpectGradients(Gradients(128, 96, 3, 1, 16, "bf16"), ElementType::kBF16, 0.01);
}

// Rows that fall into no equal blocks, and one head alone, whose blocks fall into runs that are summed apart.
TEST(RowGroupTest, GradientsOfOneHead) {
  ExpectGradients(Gradients(101, 128, 1, 1, 8, "f32"), ElementType::kF32, 1e-6);
  ExpectGradients(Gradients(512, 128, 1, 1, 8, "f32"), ElementType::kF32, 1e-6);
}

using Change = std::function<void(std::vector<std::vector<std::byte>>&)>;

// Gradients with bounds and without have the same bits, whatever the arguments are; sums go on in the same order.
void ExpectBoundedGradients(const std::string& text, const Change& change = {}) {
  for (const int64_t block_bytes : {1, 40000})
    for (const int threads : {1, 3}) {
      auto grouped = CompileRows(text, SmallBlocks(block_bytes), 2),
           bounded = CompileRows(text, Bounded(block_bytes), threads);
      ASSERT_TRUE(grouped) << grouped.error().ToString();
      ASSERT_TRUE(bounded) << bounded.error().ToString();
      EXPECT_TRUE(IsBounded((*bounded)->plan())) << plan::ToString((*bounded)->plan());
      EXPECT_EQ(RunRows(**bounded, change), RunRows(**grouped, change)) << "blocks of " << block_bytes;
    }
}

TEST(RowGroupTest, MaskedColumnsOfGradientsAreLeftOut) {
  for (std::string_view type : {"f32", "bf16"}) {
    ExpectBoundedGradients(Gradients(256, 256, 2, 4, 16, type));
    ExpectBoundedGradients(Gradients(192, 320, 8, 1, 16, type));
  }
  // Windows, which hide columns on both sides.
  for (std::string_view type : {"f32", "bf16"}) {
    ExpectBoundedGradients(Gradients(320, 320, 8, 1, 16, type, 70));
    ExpectBoundedGradients(Gradients(256, 256, 2, 4, 16, type, 33));
    if (type == "f32") ExpectBoundedGradients(Gradients(2048, 2048, 8, 1, 4, type, 500));
  }
}

// What is hidden shows where it is not finite, or makes something that is not: an element of each argument, of the last
// row, key and value, and products that are infinite though nothing else is.
TEST(RowGroupTest, BoundsOfGradientsThatDoNotHold) {
  constexpr int kRows = 256, kHead = 16;
  const std::string text = Gradients(kRows, kRows, 2, 4, kHead, "f32");
  const auto set = [](std::vector<std::byte>& argument, int row, float value) {
    std::memcpy(argument.data() + 4 * (row * kHead + 3), &value, 4);
  };
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f})
    for (std::size_t argument = 0; argument < 4; ++argument)
      for (const int row : {0, kRows - 1})
        ExpectBoundedGradients(text, [&](auto& arguments) { set(arguments[argument], row, bad); });
  ExpectBoundedGradients(text, [&](auto& arguments) {
    set(arguments[2], kRows - 1, 1e30f);
    set(arguments[3], 5, 1e30f);
  });
}

}  // namespace
}  // namespace krafla
