// SPDX-License-Identifier: Apache-2.0
// Row groups of gradients of attention: products that sum over rows, and bounds of columns.
#include <algorithm>
#include <limits>
#include <regex>

#include "row_group_runs.h"

namespace krafla {
namespace {

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

TEST(RowGradientTest, Gradients) {
  ExpectGradients(Gradients(96, 112, 2, 3, 16, "f32"), ElementType::kF32, 1e-6);
  ExpectGradients(Gradients(128, 96, 3, 1, 16, "bf16"), ElementType::kBF16, 0.01);
}

// Rows that fall into no equal blocks, and one head alone, whose blocks fall into runs that are summed apart.
TEST(RowGradientTest, GradientsOfOneHead) {
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

TEST(RowGradientTest, MaskedColumnsOfGradientsAreLeftOut) {
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
TEST(RowGradientTest, BoundsOfGradientsThatDoNotHold) {
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

// Sums of few terms may have another order than long ones have: no part of long rows has so few columns.
TEST(RowGradientTest, PartsHaveSumsOfOneOrder) {
  plan::RowGroupOptions options = Bounded(1);
  options.sums_in_runs = false;
  for (const int64_t short_sum : {0, 160, 320}) {
    options.short_sum = short_sum;
    plan::PlanLog log;
    auto made = CompileRows(Gradients(320, 320, 8, 1, 16, "f32"), options, 1, &log);
    ASSERT_TRUE(made) << made.error().ToString();
    ASSERT_EQ(log.row_groups.size(), 1u);
    const std::vector<int64_t>& bounds = log.row_groups[0].bounds;
    ASSERT_FALSE(bounds.empty());
    EXPECT_EQ(std::ranges::min(bounds), short_sum == 160 ? 192 : 128);
    EXPECT_EQ(std::ranges::max(bounds), 320);
  }
}

// Of one layer of three: queries, keys and values are rows of arrays that products compute where they read them, as in
// the loop of gradients of a loop over layers.
std::string OfLayers(const std::string& gradients) {
  const std::regex queries(R"(  q = (\w+)\[([\d,]+)\] parameter\(0\))"),
      others(R"(  ([kv]) = (\w+)\[([\d,]+)\] parameter\((\d)\))");
  // A product that sums over rows is in no chain where it computes an operand.
  std::string text = gradients;
  text.replace(text.find("dot(dsc, q)"), 11, "dot(dsc, g)");
  const std::string with_queries = std::regex_replace(text, queries, R"(  layer = s32[] parameter(4)
  first = s32[] constant(0)
  qs = $1[3,$2] parameter(0)
  q1 = $1[1,$2] dynamic-slice(qs, layer, first, first, first, first), dynamic_slice_sizes={1,$2}
  q = $1[$2] reshape(q1))");
  return std::regex_replace(with_queries, others, R"(  $1s = $2[3,$3] parameter($4)
  $1w = $2[1,$3] dynamic-slice($1s, layer, first, first, first), dynamic_slice_sizes={1,$3}
  $1 = $2[$3] reshape($1w))");
}

// Whether a product of a group computes an operand.
bool ComputesOperands(const plan::ProgramPlan& plan) {
  for (const plan::Step& step : plan.steps.steps)
    if (const auto* group = std::get_if<plan::RowGroupStep>(&step))
      for (const plan::BlockLaunch& launch : group->launches) {
        const auto* dot = std::get_if<plan::DotKernel>(&plan.kernels[static_cast<std::size_t>(launch.kernel)].body);
        if (dot != nullptr && (dot->computes_lhs() || dot->computes_rhs())) return true;
      }
  return false;
}

TEST(RowGradientTest, BoundsOfGradientsWhoseOperandsAreComputed) {
  constexpr int kRows = 256, kHead = 16;
  for (std::string_view type : {"f32", "bf16"}) {
    const std::string text = OfLayers(Gradients(kRows, kRows, 2, 4, kHead, type));
    auto bounded = CompileRows(text, Bounded(1), 1);
    ASSERT_TRUE(bounded) << bounded.error().ToString();
    EXPECT_TRUE(ComputesOperands((*bounded)->plan())) << plan::ToString((*bounded)->plan());
    ExpectBoundedGradients(text);
    ExpectBoundedGradients(OfLayers(Gradients(192, 320, 8, 1, kHead, type, 70)));
  }
  // Values that are not finite, in a layer that is read and in another one.
  const std::string text = OfLayers(Gradients(kRows, kRows, 2, 4, kHead, "f32"));
  constexpr int kRowsOfLayer[] = {8 * kRows, 2 * kRows, 2 * kRows};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f})
    for (std::size_t argument = 0; argument < 3; ++argument)
      for (const int layer : {1, 2})
        ExpectBoundedGradients(text, [&](std::vector<std::vector<std::byte>>& arguments) {
          const int32_t read = 1;
          std::memcpy(arguments[4].data(), &read, sizeof(read));
          const int row = layer * kRowsOfLayer[argument] + kRows - 1;
          std::memcpy(arguments[argument].data() + 4 * (row * kHead + 3), &bad, sizeof(bad));
        });
}

}  // namespace
}  // namespace krafla
