// SPDX-License-Identifier: Apache-2.0
// Attention in several forms against sums in double, and chains of kernels that run block of rows by block of rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../attention_masks.h"
#include "api_fixture.h"

namespace krafla::testing {
namespace {

struct Sizes {
  int64_t rows = 0, columns = 0, heads = 0, group = 0, depth = 0;
};

struct AttentionForm {
  std::string name;
  Sizes sizes;
  // Instructions that make x, f32[H,G,T,S], of w, the scaled scores; parameter 3 is pos, s32[].
  std::string scores;
  // The same of one score.
  std::function<double(double score, int64_t row, int64_t column, int64_t position)> score;
  bool hides_infinities = false;  // columns from 3/4 on hold infinities in v
  bool divides_behind = false;    // the product, instead of its operand
  float large_key = 0;            // the first element of keys from column 3/4 on, where it is not 0
};

constexpr std::string_view kSoftCapAndSlope = R"(
  cap = f32[] constant(2)
  caps = f32[H,G,T,S] broadcast(cap), dimensions={}
  part = f32[H,G,T,S] divide(w, caps)
  bent = f32[H,G,T,S] tanh(part)
  capped = f32[H,G,T,S] multiply(bent, caps)
  row = s32[T,S] iota(), iota_dimension=0
  column = s32[T,S] iota(), iota_dimension=1
  distance = s32[T,S] subtract(column, row)
  slope = f32[T,S] convert(distance)
  tenth = f32[] constant(0.125)
  tenths = f32[T,S] broadcast(tenth), dimensions={}
  bias = f32[T,S] multiply(slope, tenths)
  biases = f32[H,G,T,S] broadcast(bias), dimensions={2,3}
  x = f32[H,G,T,S] add(capped, biases))";

constexpr std::string_view kDivides = R"(
  sb = f32[H,G,T,S] broadcast(s), dimensions={0,1,2}
  p = f32[H,G,T,S] divide(e, sb)
  o = f32[H,G,T,D] dot(p, v), lhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_batch_dims={1}, rhs_contracting_dims={0})";
constexpr std::string_view kDividesBehind = R"(
  n = f32[H,G,T,D] dot(e, v), lhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_batch_dims={1}, rhs_contracting_dims={0}
  sb = f32[H,G,T,D] broadcast(s), dimensions={0,1,2}
  o = f32[H,G,T,D] divide(n, sb))";

double Causal(double s, int64_t row, int64_t column, int64_t) { return row >= column ? s : -1e30; }
double Window(double s, int64_t row, int64_t column, int64_t) {
  return column <= row && column > row - 9 ? s : -std::numeric_limits<double>::infinity();
}
double UpToPosition(double s, int64_t, int64_t column, int64_t position) {
  return column <= position ? s : -std::numeric_limits<float>::max();
}
double AddedUpToPosition(double s, int64_t, int64_t column, int64_t position) {
  return column <= position ? s : s - 1e30;
}
double WindowUpToPosition(double s, int64_t, int64_t column, int64_t position) {
  return column <= position && column > position - 200 ? s : -std::numeric_limits<double>::infinity();
}
double SoftCapAndSlope(double s, int64_t row, int64_t column, int64_t) {
  return 2 * std::tanh(s / 2) + 0.125 * static_cast<double>(column - row);
}

const std::vector<AttentionForm>& AttentionForms() {
  static const auto* forms = new std::vector<AttentionForm>{
      {"plain", {40, 48, 2, 3, 16}, "\n  x = f32[H,G,T,S] copy(w)", [](double s, auto...) { return s; }},
      {"odd sizes", {13, 27, 3, 1, 7}, "\n  x = f32[H,G,T,S] copy(w)", [](double s, auto...) { return s; }},
      {"long rows", {9, 700, 1, 2, 8}, "\n  x = f32[H,G,T,S] copy(w)", [](double s, auto...) { return s; }},
      {"causal", {64, 64, 2, 3, 16}, std::string(kCausal), Causal},
      {"causal, odd sizes", {33, 47, 2, 2, 6}, std::string(kCausal), Causal},
      {"infinities where causal", {40, 64, 2, 1, 8}, std::string(kCausal), Causal, true},
      {"window", {72, 72, 1, 2, 8}, std::string(kWindow), Window},
      {"up to a position", {1, 96, 2, 7, 16}, std::string(kPosition), UpToPosition},
      {"soft cap and slope", {24, 40, 2, 2, 12}, std::string(kSoftCapAndSlope), SoftCapAndSlope},
      {"one row, many columns", {1, 902, 2, 7, 64}, std::string(kPosition), UpToPosition},
      {"window up to a position", {1, 1300, 2, 3, 64}, std::string(kPositionWindow), WindowUpToPosition},
      {"added up to a position", {1, 902, 2, 7, 64}, std::string(kAddedPosition), AddedUpToPosition},
      {"added, infinities", {1, 902, 2, 7, 64}, std::string(kAddedPosition), AddedUpToPosition, true},
      {"added, large keys", {1, 902, 2, 7, 64}, std::string(kAddedPosition), AddedUpToPosition, false, false, 1e31f},
      {"infinities behind a position", {1, 700, 1, 7, 64}, std::string(kPosition), UpToPosition, true},
      {"few rows, odd sizes", {3, 301, 5, 1, 11}, std::string(kSoftCapAndSlope), SoftCapAndSlope},
      {"causal, divided behind", {40, 64, 2, 3, 16}, std::string(kCausal), Causal, false, true},
      {"one row, divided behind", {1, 902, 2, 7, 64}, std::string(kPosition), UpToPosition, false, true},
      {"few rows, divided behind", {3, 301, 5, 1, 11}, std::string(kSoftCapAndSlope), SoftCapAndSlope, false, true},
      {"one row, chains of columns", {1, 8300, 1, 1, 4}, std::string(kPosition), UpToPosition},
  };
  return *forms;
}

std::string WithSizes(std::string text, const Sizes& sizes) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool alone = i > 0 && i + 1 < text.size() && (text[i - 1] == '[' || text[i - 1] == ',') &&
                       (text[i + 1] == ']' || text[i + 1] == ',');
    const int64_t size = text[i] == 'T'   ? sizes.rows
                         : text[i] == 'S' ? sizes.columns
                         : text[i] == 'H' ? sizes.heads
                         : text[i] == 'G' ? sizes.group
                         : text[i] == 'D' ? sizes.depth
                                          : 0;
    if (alone && size > 0) out += Format("{}", size);
    else out += text[i];
  }
  return out;
}

std::string ModuleOf(const AttentionForm& form) {
  return WithSizes(Format(R"(HloModule attention
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[T,H,G,D] parameter(0)
  k = f32[S,H,D] parameter(1)
  v = f32[S,H,D] parameter(2)
  pos = s32[] parameter(3)
  d = f32[H,T,G,S] dot(q, k), lhs_batch_dims={{1}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{2}}
  dt = f32[H,G,T,S] transpose(d), dimensions={{0,2,1,3}}
  scale = f32[] constant(0.25)
  scales = f32[H,G,T,S] broadcast(scale), dimensions={{}}
  w = f32[H,G,T,S] multiply(dt, scales){}
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[H,G,T] reduce(x, inf), dimensions={{3}}, to_apply=max
  mb = f32[H,G,T,S] broadcast(m), dimensions={{0,1,2}}
  y = f32[H,G,T,S] subtract(x, mb)
  e = f32[H,G,T,S] exponential(y)
  s = f32[H,G,T] reduce(e, zero), dimensions={{3}}, to_apply=add
  {}
  ROOT r = f32[T,H,G,D] transpose(o), dimensions={{2,0,1,3}}
}})",
                          form.scores, form.divides_behind ? kDividesBehind : kDivides),
                   form.sizes);
}

std::vector<float> Numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = static_cast<float>(random() % 4096) / 1024 - 2;
  return out;
}

class AttentionTest : public DeviceTest {
 protected:
  // With every score of a row masked but the first `position` + 1 ones, or as the form masks.
  void Check(const AttentionForm& form, int64_t position) {
    const auto [rows, columns, heads, group, depth] = form.sizes;
    const std::vector<float> q = Numbers(rows * heads * group * depth, 1);
    std::vector<float> k = Numbers(columns * heads * depth, 2), v = Numbers(columns * heads * depth, 3);
    if (form.large_key != 0)
      for (int64_t c = columns * 3 / 4; c < columns; ++c)
        k[static_cast<std::size_t>(c * heads * depth)] = form.large_key;
    if (form.hides_infinities)
      for (int64_t c = columns * 3 / 4; c < columns; ++c)
        v[static_cast<std::size_t>(c * heads * depth)] = std::numeric_limits<float>::infinity();
    const std::vector<Literal> results =
        Run(ModuleOf(form), {MakeLiteral<float>(Format("f32[{},{},{},{}]", rows, heads, group, depth), q),
                             MakeLiteral<float>(Format("f32[{},{},{}]", columns, heads, depth), k),
                             MakeLiteral<float>(Format("f32[{},{},{}]", columns, heads, depth), v),
                             MakeLiteral<int32_t>("s32[]", {static_cast<int32_t>(position)})});
    ASSERT_EQ(results.size(), 1u);
    const std::vector<float> got = Values<float>(results[0]);
    const auto at = [](const std::vector<float>& values, int64_t i) {
      return static_cast<double>(values[static_cast<std::size_t>(i)]);
    };
    for (int64_t i = 0; i < rows * heads * group; ++i) {
      const int64_t row = i / (heads * group), head = i / group % heads;
      std::vector<double> weights;
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (int64_t d = 0; d < depth; ++d) sum += at(q, i * depth + d) * at(k, (c * heads + head) * depth + d);
        weights.push_back(form.score(0.25 * sum, row, c, position));
      }
      const double most = *std::ranges::max_element(weights);
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - most);
      for (int64_t d = 0; d < depth; ++d) {
        double expected = 0;
        for (int64_t c = 0; c < columns; ++c)
          expected += weights[static_cast<std::size_t>(c)] / total * at(v, (c * heads + head) * depth + d);
        const double is = at(got, i * depth + d);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(is)) << form.name << " row " << row;
        } else {
          ASSERT_NEAR(is, expected, 2e-5) << form.name << " row " << row << " element " << d;
        }
      }
    }
  }
};

TEST_P(AttentionTest, IsThatOfDoubles) {
  for (const AttentionForm& form : AttentionForms()) Check(form, 40);
}

// A position in front of all columns leaves none of them, and then all count alike; one behind them leaves all.
TEST_P(AttentionTest, AnyPosition) {
  const auto check = [&](std::string_view name, std::initializer_list<int32_t> positions) {
    const auto form = std::ranges::find(AttentionForms(), name, &AttentionForm::name);
    for (const int32_t position : positions) Check(*form, position);
  };
  constexpr auto kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  for (const bool as_gpus : {false, true}) {
    if (as_gpus) options_.disabled.insert("host_cores");
    check("up to a position", {-1, 0, 3, 94, 1000, kMost, kLeast});
    check("one row, many columns", {-1, 0, 127, 128, 500, 640, 900, kMost});
    check("one row, divided behind", {-1, 0, 300, 901});
    check("added up to a position", {-1, 0, 127, 300, 901});
    check("window up to a position", {-1, 0, 199, 200, 511, 512, 711, 712, 1000, 1299, 1498, 1500});
  }
}

// A step of decoding, on whatever device; on the CPU where it is work enough.
TEST_P(AttentionTest, FewRowsAreOneKernel) {
  for (std::string_view name : {"up to a position", "one row, many columns", "one row, divided behind"}) {
    if (name == "up to a position" && !client_->device().profile) continue;
    const auto form = std::ranges::find(AttentionForms(), name, &AttentionForm::name);
    options_.disabled.insert("host_cores");
    auto executable = Compile(ModuleOf(*form));
    ASSERT_NE(executable, nullptr);
    if (options_.disabled.count("fusion") == 0) { EXPECT_EQ(executable->report().launches, 1) << name; }
  }
}

TEST_P(AttentionTest, IsThatOfDoublesAsGpusHaveIt) {
  options_.disabled.insert("host_cores");
  for (const AttentionForm& form : AttentionForms()) Check(form, 40);
}

// What a mask hides is not read but where it matters: a row without any column that is left, and infinite values.
TEST_P(AttentionTest, IsOneKernelWhereThatPays) {
  const DeviceDescription& device = client_->device();
  const bool is_wanted = (!device.profile || device.profile->is_cpu) && options_.disabled.count("fusion") == 0;
  for (std::string_view name : {"causal", "causal, divided behind"}) {
    auto executable = Compile(ModuleOf(*std::ranges::find(AttentionForms(), name, &AttentionForm::name)));
    ASSERT_NE(executable, nullptr);
    EXPECT_EQ(executable->report().launches == 1, is_wanted) << executable->report().launches << " launches, " << name;
  }
}

// Of each head in a block of its own, with what depends on the head's number: on the CPU the bits of three launches.
TEST_P(AttentionTest, OneKernelHasTheBitsOfItsParts) {
  if (client_->device().profile) GTEST_SKIP() << "other devices sum in another order";
  const AttentionForm slopes{"slopes of heads",
                             {6, 96, 3, 4, 16},
                             R"(
  number = s32[H,T,S] iota(), iota_dimension=0
  column = s32[H,T,S] iota(), iota_dimension=2
  distance = s32[H,T,S] multiply(number, column)
  slope = f32[H,T,S] convert(distance)
  part = f32[] constant(0.01)
  parts = f32[H,T,S] broadcast(part), dimensions={}
  bias = f32[H,T,S] multiply(slope, parts)
  biases = f32[H,G,T,S] broadcast(bias), dimensions={0,2,3}
  x = f32[H,G,T,S] add(w, biases))",
                             {}};
  const std::vector<Literal> arguments = {MakeLiteral<float>("f32[6,3,4,16]", Numbers(6 * 3 * 4 * 16, 1)),
                                          MakeLiteral<float>("f32[96,3,16]", Numbers(96 * 3 * 16, 2)),
                                          MakeLiteral<float>("f32[96,3,16]", Numbers(96 * 3 * 16, 3)),
                                          MakeLiteral<int32_t>("s32[]", {0})};
  auto one = Compile(ModuleOf(slopes));
  ASSERT_NE(one, nullptr);
  const std::vector<Literal> of_one = Run(*one, arguments);
  options_.disabled.insert("row-groups");
  auto three = Compile(ModuleOf(slopes));
  ASSERT_NE(three, nullptr);
  const std::vector<Literal> of_three = Run(*three, arguments);
  ASSERT_EQ(of_one.size(), 1u);
  ASSERT_EQ(of_three.size(), 1u);
  EXPECT_EQ(Values<float>(of_one[0]), Values<float>(of_three[0]));
  if (options_.disabled.count("fusion") == 0) {
    EXPECT_EQ(one->report().launches, 1);
    EXPECT_EQ(three->report().launches, 3);
  }
}

// Rows that choose by their own number, of which a block has a part. All numbers are small integers, so that sums are
// exact in any order.
constexpr std::string_view kBlocks = R"(HloModule blocks
ENTRY main {
  x = f32[4096,32] parameter(0)
  w = f32[32,640] parameter(1)
  u = f32[640,16] parameter(2)
  h = f32[4096,640] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = s32[4096,640] iota(), iota_dimension=0
  column = s32[4096,640] iota(), iota_dimension=1
  keep = pred[4096,640] compare(row, column), direction=GE
  zero = f32[] constant(0)
  zeros = f32[4096,640] broadcast(zero), dimensions={}
  kept = f32[4096,640] select(keep, h, zeros)
  ROOT r = f32[4096,16] dot(kept, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

TEST_P(AttentionTest, BlocksOfRowsAreTheWhole) {
  const auto small = [](int64_t count, uint32_t seed) {
    std::vector<float> out = Numbers(count, seed);
    for (float& v : out) v = std::round(v);
    return out;
  };
  const std::vector<Literal> arguments = {MakeLiteral<float>("f32[4096,32]", small(4096 * 32, 4)),
                                          MakeLiteral<float>("f32[32,640]", small(32 * 640, 5)),
                                          MakeLiteral<float>("f32[640,16]", small(640 * 16, 6))};
  auto grouped = Compile(kBlocks);
  ASSERT_NE(grouped, nullptr);
  const std::vector<Literal> in_blocks = Run(*grouped, arguments);
  options_.disabled.insert("row-groups");
  auto plain = Compile(kBlocks);
  ASSERT_NE(plain, nullptr);
  const std::vector<Literal> whole = Run(*plain, arguments);
  ASSERT_EQ(in_blocks.size(), 1u);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(Values<float>(in_blocks[0]), Values<float>(whole[0]));
  if (options_.disabled.count("fusion") == 0) {
    EXPECT_LT(grouped->report().arena_bytes, int64_t{1} << 20) << "the rows between the products are stored";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
