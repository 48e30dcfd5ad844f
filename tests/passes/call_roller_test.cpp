// SPDX-License-Identifier: Apache-2.0
// Loops that were written out as calls.
#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

// `calls` calls of a step, which takes what the last one carried and a row of x, and gives what it carries and a row;
// the rows are put one before the
// other in the order in which those of x lie. `start` and `step` say where each call's row of x lies.
std::string WrittenOut(int calls, int start, int step, std::string_view stacked = "row", int broken = -1) {
  std::string body;
  std::string rows;
  for (int n = 0; n < calls; ++n) {
    const int at = start + n * step + (n == broken ? 1 : 0);
    body +=
        Format(" p{0} = f32[1,3] slice(x), slice={{[{1}:{2}], [0:3]}}\n r{0} = f32[3] reshape(p{0})\n", n, at, at + 1);
    body += Format(" o{0} = f32[] constant(0.5)\n", n);
    body += Format(" c{0} = (f32[3], f32[3]) call({1}, r{0}, o{0}), to_apply=step\n", n,
                   n == 0 ? std::string("a") : Format("n{}", n - 1));
    body +=
        Format(" n{0} = f32[3] get-tuple-element(c{0}), index=0\n y{0} = f32[3] get-tuple-element(c{0}), index=1\n", n);
    body += Format(" w{0} = f32[1,3] reshape(y{0})\n", n);
    const std::string row = Format("w{}", n);
    rows = n == 0 ? row : step < 0 ? row + ", " + rows : rows + ", " + row;
  }
  const std::string last = Format("n{}", calls - 1);
  return Format(R"(HloModule m
step {{ c = f32[3] parameter(0)
 x = f32[3] parameter(1)
 o = f32[] parameter(2)
 b = f32[3] broadcast(o), dimensions={{}}
 m = f32[3] multiply(c, b)
 n = f32[3] add(m, x)
 q = f32[3] subtract(n, c)
 ROOT r = (f32[3], f32[3]) tuple(n, q) }}
ENTRY main {{ a = f32[3] parameter(0)
 x = f32[40,3] parameter(1)
{0} rows = f32[{1},3] concatenate({2}), dimensions={{0}}
 ROOT r = (f32[3], f32[{1},3], f32[3]) tuple({3}, rows, {4}) }})",
                body, calls, rows, last, stacked == "row" ? "y1" : "n1");
}

std::size_t LoopsAfter(const std::string& text) {
  auto module = ExpectSame(text, {"call_roller"});
  return module == nullptr ? 99 : Find(*module, Opcode::kWhile).size();
}

TEST(CallRoller, RollsUp) {
  EXPECT_EQ(LoopsAfter(WrittenOut(8, 0, 1)), 1U);
  EXPECT_EQ(LoopsAfter(WrittenOut(12, 3, 2)), 1U);
  EXPECT_EQ(LoopsAfter(WrittenOut(10, 39, -1)), 1U);  // backwards
  EXPECT_EQ(LoopsAfter(WrittenOut(9, 5, 1, "carried")), 1U);
  for (const int step : {1, -1}) {
    auto module =
        RunOn(WrittenOut(16, 15 - 5 * step, step), {"call_roller", "call_inliner", "movement_simplifier", "dce"});
    ASSERT_TRUE(module);
    EXPECT_EQ(Find(*module, Opcode::kCall).size(), 0U);
    EXPECT_EQ(Find(*module, Opcode::kConcatenate).size(), 0U);  // the rows are what the loop stacked
  }
}

TEST(CallRoller, LeavesOthers) {
  EXPECT_EQ(LoopsAfter(WrittenOut(7, 0, 1)), 0U);             // few
  EXPECT_EQ(LoopsAfter(WrittenOut(15, 0, 1, "row", 6)), 1U);  // a row that is out of order ends a loop: 8 are left
  EXPECT_EQ(LoopsAfter(WrittenOut(14, 0, 1, "row", 6)), 0U);
}

// The array whose rows the calls take is made of what the first one gives.
TEST(CallRoller, LeavesWhatDependsOnItself) {
  std::string text = WrittenOut(9, 0, 1);
  const auto replace = [&](std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
  };
  // The rows from the second one on come from an array that has the first call's results.
  replace(" p1 = f32[1,3] slice(x)", " z = f32[40,3] broadcast(n0), dimensions={1}\n p1 = f32[1,3] slice(z)");
  for (int n = 2; n < 9; ++n) replace(Format(" p{} = f32[1,3] slice(x)", n), Format(" p{} = f32[1,3] slice(z)", n));
  EXPECT_EQ(LoopsAfter(text), 1U);  // of the calls behind the first
}

}  // namespace
}  // namespace krafla
