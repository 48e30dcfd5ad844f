// SPDX-License-Identifier: Apache-2.0
// Dots of rows that are zero outside their group, as jax.lax.ragged_dot makes them, and some that only look like it.
#include <gtest/gtest.h>

#include <cstring>

#include "krafla/status.h"
#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

constexpr std::string_view kPass = "ragged_dot_recognizer";

// Of nine rows: which of three groups they are counted for; 5 is none of them.
Literal GroupOfRows() {
  constexpr int32_t kGroups[] = {2, 0, 5, 0, 0, 2, 5, 2, 0};
  auto out = Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{9}.span()));
  std::memcpy(out->bytes().data(), kGroups, sizeof(kGroups));
  return std::move(*out);
}

struct Parts {
  std::string_view sizes = "s32[3] reduce(ones, zero), dimensions={0}, to_apply=add";
  std::string_view starts = "s32[3] concatenate(first, most), dimensions={0}";
  std::string_view after = "compare(s, row), direction=LE";
  std::string_view before = "compare(row, e), direction=LT";
  std::string_view outside = "zero";
  std::string_view first = "s32[1] broadcast(zero), dimensions={}";
};

std::string Masked(const Parts& p) {
  return Format(R"(HloModule masked
add {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}}
ENTRY main {{
  x = s32[9,4] parameter(0)
  w = s32[4,3,5] parameter(1)
  of = s32[9] parameter(2)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  groups = s32[9,3] broadcast(of), dimensions={{0}}
  numbers = s32[9,3] iota(), iota_dimension=1
  is = pred[9,3] compare(groups, numbers), direction=EQ
  ones = s32[9,3] convert(is)
  three = s32[3] slice(of), slice={{[0:3]}}
  sizes = {0}
  ends = s32[3] reduce-window(sizes, zero), window={{size=3 pad=2_0}}, to_apply=add
  first = {5}
  most = s32[2] slice(ends), slice={{[0:2]}}
  starts = {1}
  row = s32[3,9,4] iota(), iota_dimension=1
  s = s32[3,9,4] broadcast(starts), dimensions={{0}}
  e = s32[3,9,4] broadcast(ends), dimensions={{0}}
  after = pred[3,9,4] {2}
  before = pred[3,9,4] {3}
  mask = pred[3,9,4] and(after, before)
  xs = s32[3,9,4] broadcast(x), dimensions={{1,2}}
  outside = s32[3,9,4] broadcast({4}), dimensions={{}}
  masked = s32[3,9,4] select(mask, xs, outside)
  ROOT r = s32[9,5] dot(masked, w), lhs_contracting_dims={{2,0}}, rhs_contracting_dims={{0,1}}
}})",
                p.sizes, p.starts, p.after, p.before, p.outside, p.first);
}

std::size_t RaggedDots(const Parts& p) {
  const Literal groups = GroupOfRows();
  auto module = ExpectSame(Masked(p), {std::string(kPass), "dce"}, 0, &groups);
  return module ? Find(*module, Opcode::kRaggedDot).size() : 99;
}

TEST(RaggedDotRecognizer, RowsOfGroups) {
  EXPECT_EQ(RaggedDots({}), 1u);
  EXPECT_EQ(RaggedDots({.after = "compare(row, s), direction=GE", .before = "compare(e, row), direction=GT"}), 1u);
  EXPECT_EQ(RaggedDots({.after = "compare(row, e), direction=LT", .before = "compare(s, row), direction=LE"}), 1u);
  EXPECT_EQ(RaggedDots({.starts = "s32[3] pad(most, zero), padding=1_0"}), 1u);
  EXPECT_EQ(RaggedDots({.first = "s32[1] constant({0})"}), 1u);
}

TEST(RaggedDotRecognizer, OtherMasksStay) {
  // Sizes that may be negative, and rows of several groups with them.
  EXPECT_EQ(RaggedDots({.sizes = "s32[3] copy(three)"}), 0u);
  EXPECT_EQ(RaggedDots({.starts = "s32[3] concatenate(most, first), dimensions={0}"}), 0u);
  EXPECT_EQ(RaggedDots({.starts = "s32[3] broadcast(one), dimensions={}"}), 0u);
  EXPECT_EQ(RaggedDots({.first = "s32[1] constant({1})"}), 0u);
  EXPECT_EQ(RaggedDots({.after = "compare(s, row), direction=LT"}), 0u);
  EXPECT_EQ(RaggedDots({.before = "compare(row, e), direction=LE"}), 0u);
  EXPECT_EQ(RaggedDots({.outside = "one"}), 0u);
}

}  // namespace
}  // namespace krafla
