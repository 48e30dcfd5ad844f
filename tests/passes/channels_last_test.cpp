// SPDX-License-Identifier: Apache-2.0
// Convolutions of arrays with their channels in front become ones with the channels at the end, with the operations
// between them: same results by the evaluator, and transposes at the borders alone.
#include <algorithm>

#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

constexpr std::string_view kLabels = ", dim_labels=bf01_oi01->bf01";

// Of more than one element that change places.
int MovesOf(const Module& module) {
  return static_cast<int>(std::ranges::count_if(Find(module, Opcode::kTranspose),
                                                [](const Instruction* i) { return !i->operand(0)->IsConstant(); }));
}

int SumsOf(const Module& module) { return static_cast<int>(Find(module, Opcode::kReduce).size()); }

// Two convolutions with `between`, from "c" to "m", [2,6,8,8] to [2,CHANNELS,ROWS,COLUMNS], and the results after.
std::string TwoConvolutions(std::string_view between, std::string_view channels, std::string_view result) {
  return Format(R"(HloModule m
add {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = s32[] add(a, b) }}
max {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = s32[] maximum(a, b) }}
ge {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=GE }}
ENTRY main {{ x = s32[2,4,8,8] parameter(0)
 k = s32[6,4,3,3] parameter(1)
 l = s32[5,{1},3,3] parameter(2)
 bias = s32[6] parameter(3)
 at = s32[] parameter(4)
 one = s32[] constant(1)
 c = s32[2,6,8,8] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}{3}
 {0}
 ROOT out = s32[2,5,{2}] convolution(m, l), window={{size=3x3 pad=1_1x1_1}}{3} }})",
                between, channels, result, kLabels);
}

struct Chain {
  std::string_view between, channels, result;
};

TEST(ChannelsLast, CarriesWhatLiesBetweenConvolutions) {
  constexpr Chain kChains[] = {
      {"b = s32[2,6,8,8] broadcast(bias), dimensions={1}\n m = s32[2,6,8,8] add(c, b)", "6", "8,8"},
      {"z = s32[2,6,8,8] broadcast(at), dimensions={}\n m = s32[2,6,8,8] clamp(at, c, z)", "6", "8,8"},
      {"m = s32[2,6,11,6] pad(c, at), padding=0_0x0_0x1_2x-1_-1", "6", "11,6"},
      {"m = s32[2,3,4,7] slice(c), slice={[0:2], [0:6:2], [4:8], [1:8]}", "3", "4,7"},
      {"m = s32[2,6,8,8] reverse(c), dimensions={1,3}", "6", "8,8"},
      {"n = s32[2,6,8,8] negate(c)\n m = s32[2,12,8,8] concatenate(c, n), dimensions={1}", "12", "8,8"},
      {"n = s32[2,6,8,8] negate(c)\n m = s32[2,6,16,8] concatenate(c, n), dimensions={2}", "6", "16,8"},
      {"m = s32[2,6,4,3] reduce-window(c, at), window={size=1x1x2x3 stride=1x1x2x2}, to_apply=max", "6", "4,3"},
      {"s = s32[2,6,4,4] reduce-window(c, at), window={size=1x1x2x2 stride=1x1x2x2}, to_apply=max\n"
       " m = s32[2,6,8,8] select-and-scatter(c, s, one), window={size=1x1x2x2 stride=1x1x2x2}, select=ge, scatter=add",
       "6", "8,8"},
      {"m = s32[1,3,5,8] dynamic-slice(c, one, at, at, one), dynamic_slice_sizes={1,3,5,8}", "3", "5,8"},
      {"s = s32[2,2,3,8] slice(c), slice={[0:2], [0:2], [2:5], [0:8]}\n"
       " m = s32[2,6,8,8] dynamic-update-slice(c, s, at, one, at, one)",
       "6", "8,8"},
      {"i = s32[2,6,8,8] iota(), iota_dimension=1\n j = s32[2,6,8,8] iota(), iota_dimension=2\n"
       " n = s32[2,6,8,8] multiply(i, j)\n m = s32[2,6,8,8] add(c, n)",
       "6", "8,8"},
      // A shuffle of channels.
      {"g = s32[2,2,3,8,8] reshape(c)\n t = s32[2,3,2,8,8] transpose(g), dimensions={0,2,1,3,4}\n"
       " m = s32[2,6,8,8] reshape(t)",
       "6", "8,8"},
      // Groups, less what they sum to.
      {"g = s32[2,2,3,8,8] reshape(c)\n s = s32[2,2] reduce(g, at), dimensions={2,3,4}, to_apply=add\n"
       " b = s32[2,2,3,8,8] broadcast(s), dimensions={0,1}\n d = s32[2,2,3,8,8] subtract(g, b)\n"
       " m = s32[2,6,8,8] reshape(d)",
       "6", "8,8"},
      // The mean of a picture, as squeezes and excitations have it.
      {"s = s32[2,6] reduce(c, at), dimensions={2,3}, to_apply=add\n b = s32[2,6,8,8] broadcast(s), dimensions={0,1}\n"
       " m = s32[2,6,8,8] multiply(c, b)",
       "6", "8,8"},
      {"s = s32[6,8] reduce(c, at), dimensions={0,3}, to_apply=add\n b = s32[2,6,8,8] broadcast(s), dimensions={1,2}\n"
       " m = s32[2,6,8,8] multiply(c, b)",
       "6", "8,8"},
  };
  for (const Chain& chain : kChains) {
    SCOPED_TRACE(chain.between);
    const std::string batch = chain.between.find("s32[1,") == std::string_view::npos ? "2" : "1";
    std::string text = TwoConvolutions(chain.between, chain.channels, chain.result);
    if (batch == "1") text.replace(text.find("ROOT out = s32[2,"), 17, "ROOT out = s32[1,");
    const auto module = ExpectSame(text, {"channels_last", "movement_simplifier", "dce"});
    ASSERT_TRUE(module);
    for (const Instruction* i : Find(*module, Opcode::kConvolution)) {
      const auto& a = i->attr<ConvolutionAttributes>();
      if (i->operand(0)->opcode() != Opcode::kParameter) { EXPECT_EQ(a.input_feature, 3); }
    }
    // The first picture stays, as its convolution takes it, and so does the result.
    const bool shuffles = chain.between.find("transpose") != std::string_view::npos;
    EXPECT_EQ(MovesOf(*module), shuffles ? 1 : 0);
  }
}

// The channels of a group lie side by side then, and are summed last; not where each sum begins with something.
TEST(InterleavedReductionExpander, SumsOfGroups) {
  for (const auto& [init, sums] : {std::pair("zero", 2), std::pair("at", 1)}) {
    const auto module =
        ExpectSame(TwoConvolutions(Format("zero = s32[] constant(0)\n g = s32[2,2,3,8,8] reshape(c)\n"
                                          " s = s32[2,2] reduce(g, {}), dimensions={{2,3,4}}, to_apply=add\n"
                                          " b = s32[2,2,3,8,8] broadcast(s), dimensions={{0,1}}\n"
                                          " d = s32[2,2,3,8,8] subtract(g, b)\n m = s32[2,6,8,8] reshape(d)",
                                          init),
                                   "6", "8,8"),
                   {"channels_last", "interleaved_reduction_expander", "dce"});
    ASSERT_TRUE(module);
    EXPECT_EQ(SumsOf(*module), sums);
  }
}

TEST(InterleavedReductionExpander, Runs) {
  const auto reduces = [](std::string_view type, std::string_view dims, std::string_view result, std::string_view over,
                          std::string_view op, std::string_view init) {
    const auto module = ExpectSame(
        Format("HloModule m\nop {{ a = {0}[] parameter(0)\n b = {0}[] parameter(1)\n ROOT r = {0}[] {4}(a, b) }}\n"
               "ENTRY main {{ x = {0}[{1}] parameter(0)\n z = {0}[] constant({5})\n"
               " ROOT r = {0}[{2}] reduce(x, z), dimensions={{{3}}}, to_apply=op }}",
               type, dims, result, over, op, init),
        {"interleaved_reduction_expander"});
    return module ? SumsOf(*module) : 0;
  };
  EXPECT_EQ(reduces("f32", "2,4,5,3,4", "2,3", "1,2,4", "add", "0"), 2);
  EXPECT_EQ(reduces("f32", "2,20,3,2,2", "2,3", "1,3,4", "add", "0"), 2);
  EXPECT_EQ(reduces("f32", "20,3,4", "3", "0,2", "maximum", "-inf"), 2);
  EXPECT_EQ(reduces("f16", "20,3,4", "3", "0,2", "maximum", "-inf"), 2);
  EXPECT_EQ(reduces("s8", "20,3,4,1", "3", "0,2,3", "minimum", "127"), 2);
  EXPECT_EQ(reduces("bf16", "20,3,4", "3", "0,2", "add", "0"), 1);  // what lies between would be rounded
  EXPECT_EQ(reduces("f32", "20,3,4", "3", "0,2", "add", "1"), 1);
  EXPECT_EQ(reduces("f32", "20,1,4", "1", "0,2", "add", "0"), 1);  // one run
  EXPECT_EQ(reduces("f32", "3,20,4", "3", "1,2", "add", "0"), 1);
  EXPECT_EQ(reduces("f32", "4,3,4", "3", "0,2", "add", "0"), 1);    // few
  EXPECT_EQ(reduces("f32", "20,3,65", "3", "0,2", "add", "0"), 1);  // long ones
}

TEST(ChannelsLast, LeavesWhatNeedsTheChannelsInFront) {
  // Everything between is read as rows: as much would move.
  const auto rows =
      ExpectSame(TwoConvolutions("r = s32[12,64] reshape(c)\n s = s32[12,64] sort(r), dimensions={1}, to_apply=lt\n"
                                 " m = s32[2,6,8,8] reshape(s)",
                                 "6", "8,8")
                     .insert(12,
                             "lt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
                             " ROOT r = pred[] compare(a, b), direction=LT }\n"),
                 {"channels_last"});
  ASSERT_TRUE(rows);
  EXPECT_TRUE(Find(*rows, Opcode::kTranspose).empty());
  // The kernel is what the first one makes: nobody knows better.
  const auto kernel = ExpectSame(
      Entry("x = s32[2,4,8,8] parameter(0)\n k = s32[6,4,3,3] parameter(1)\n y = s32[1,6,9,9] parameter(2)\n"
            " c = s32[2,6,8,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n"
            " ROOT r = s32[1,2,2,2] convolution(y, c), window={size=8x8}, dim_labels=bf01_oi01->bf01"),
      {"channels_last"});
  ASSERT_TRUE(kernel);
  EXPECT_TRUE(Find(*kernel, Opcode::kTranspose).empty());
}

TEST(ChannelsLast, OfOneAndThreeDimensionsAndGradients) {
  // Of a signal, with the transposes around it that products of [batch, time, channels] bring: nothing is left of them.
  const auto signal =
      ExpectSame(Entry("x = s32[2,16,6] parameter(0)\n k = s32[6,6,3] parameter(1)\n"
                       " t = s32[2,6,16] transpose(x), dimensions={0,2,1}\n"
                       " c = s32[2,6,16] convolution(t, k), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0\n"
                       " n = s32[2,6,16] negate(c)\n ROOT r = s32[2,16,6] transpose(n), dimensions={0,2,1}"),
                 {"channels_last", "movement_simplifier", "dce"});
  ASSERT_TRUE(signal);
  EXPECT_TRUE(Find(*signal, Opcode::kTranspose).empty());
  const auto volume = ExpectSame(
      Entry(
          "x = s32[1,4,3,5,4] parameter(0)\n k = s32[4,4,2,2,2] parameter(1)\n"
          " c = s32[1,4,3,5,4] convolution(x, k), window={size=2x2x2 pad=1_0x0_1x1_0}, dim_labels=bf012_oi012->bf012\n"
          " n = s32[1,4,3,5,4] negate(c)\n"
          " ROOT r = s32[1,4,3,5,4] convolution(n, k), window={size=2x2x2 pad=1_0x0_1x1_0}, "
          "dim_labels=bf012_oi012->bf012"),
      {"channels_last", "movement_simplifier", "dce"});
  ASSERT_TRUE(volume);
  EXPECT_EQ(MovesOf(*volume), 0);
  // The gradient of a kernel contracts the batch and reads both pictures with their dimensions in other parts.
  const auto gradient = ExpectSame(
      Entry("x = s32[2,4,8,8] parameter(0)\n k = s32[4,4,3,3] parameter(1)\n"
            " c = s32[2,4,8,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n"
            " n = s32[2,4,8,8] negate(c)\n"
            " d = s32[2,4,8,8] convolution(n, k), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n"
            " ROOT g = s32[4,4,3,3] convolution(n, d), window={size=8x8 pad=1_1x1_1}, dim_labels=fb01_io01->bf01"),
      {"channels_last", "movement_simplifier", "dce"});
  ASSERT_TRUE(gradient);
}

}  // namespace
}  // namespace krafla
