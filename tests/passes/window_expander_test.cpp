// SPDX-License-Identifier: Apache-2.0
// Expanders of windows: what is left has the recorded meaning, checked with the evaluator on the module before and
// after.
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "pass_harness.h"
#include "passes/passes.h"
#include "same_results.h"

namespace krafla {
namespace {

std::string Selecting(std::string_view x, std::string_view source, std::string_view window, std::string_view direction,
                      std::string_view scatter) {
  std::string_view type = x.substr(0, x.find('['));
  return Format(R"(HloModule m
sel {{ a = {0}[] parameter(0)
 b = {0}[] parameter(1)
 ROOT r = pred[] compare(a, b), direction={4} }}
sct {{ a = {0}[] parameter(0)
 b = {0}[] parameter(1)
 ROOT r = {0}[] {5}(a, b) }}
ENTRY main {{ s = {2} parameter(0)
 i = {0}[] parameter(1)
 x = {1} parameter(2)
 ROOT r = {1} select-and-scatter(x, s, i), window={{{3}}}, select=sel, scatter=sct }})",
                type, x, source, window, direction, scatter);
}

TEST(SelectAndScatterExpander, Windows) {
  struct Case {
    std::string_view dims, source, window;
    bool unique;
  };
  constexpr Case kCases[] = {
      {"[8,9]", "[4,3]", "size=2x3 stride=2x3", true},
      {"[8,9]", "[7,4]", "size=2x3 stride=1x2", false},
      {"[8,9]", "[3,3]", "size=3x3 stride=3x3 pad=0_1x0_0", true},
      {"[8,9]", "[8,9]", "size=3x3 pad=1_1x1_1", false},
      // The first and the last window of a row lie in padding.
      {"[2,3]", "[2,5]", "size=1x2 stride=1x2 pad=0_0x3_4", true},
      {"[8,9]", "[2,2]", "size=2x3 stride=4x4 rhs_dilate=3x2", false},
      {"[8,9]", "[2,2]", "size=2x2 stride=4x4 rhs_dilate=3x3", true},
      {"[4,3]", "[3,2]", "size=2x3 stride=2x2 lhs_dilate=2x2", false},
      {"[2,3,2]", "[2,2,2]", "size=1x2x1", false},
      {"[6]", "[0]", "size=7", false},
  };
  for (const Case& c : kCases) {
    for (std::string_view type : {"s32", "f32"}) {
      for (std::string_view direction : {"GE", "GT", "LE", "NE"}) {
        for (std::string_view scatter : {"add", "subtract", "maximum"}) {
          SCOPED_TRACE(c.window);
          auto module = ExpectSame(
              Selecting(Format("{}{}", type, c.dims), Format("{}{}", type, c.source), c.window, direction, scatter),
              {"select_and_scatter_expander"});
          ASSERT_TRUE(module);
          EXPECT_TRUE(Find(*module, Opcode::kSelectAndScatter).empty());
          if (c.source == "[0]") continue;
          ASSERT_EQ(Find(*module, Opcode::kScatter).size(), 1u);
          EXPECT_EQ(Find(*module, Opcode::kScatter)[0]->attr<ScatterAttributes>().unique_indices, c.unique);
        }
      }
    }
  }
}

// Where padding makes XLA split a loop, the last taps of a dimension come after all others: recorded from XLA:CPU.
TEST(SelectAndScatterExpander, EqualsWherePaddingIs) {
  auto module = ExpectSame(R"(HloModule m
le { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LE }
add { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = s32[] add(a, b) }
ENTRY main {
 x = s32[2,2] constant({{1,0},{0,1}})
 s = s32[1,2] constant({{10,20}})
 z = s32[] constant(0)
 ROOT r = s32[2,2] select-and-scatter(x, s, z), window={size=2x2 pad=0_0x1_0}, select=le, scatter=add })",
                           {"select_and_scatter_expander"});
  ASSERT_TRUE(module);
  auto got = RunWith(*module, {});
  ASSERT_TRUE(got) << got.error().ToString();
  const auto values = got->data<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(values.begin(), values.end()), (std::vector<int32_t>{0, 0, 30, 0}));
  for (std::string_view window : {"size=3x3 stride=2x2 pad=0_1x0_1", "size=2x3 pad=1_0x1_1",
                                  "size=3x2 stride=2x1 pad=1_1x1_1", "size=2x2 pad=1_1x1_1", "size=1x2 pad=0_0x1_0"}) {
    auto windows = window.starts_with("size=3x3")   ? "f32[4,5]"
                   : window.starts_with("size=2x3") ? "f32[8,10]"
                   : window.starts_with("size=3x2") ? "f32[4,11]"
                   : window.starts_with("size=2x2") ? "f32[9,11]"
                                                    : "f32[8,10]";
    ExpectSame(Selecting("f32[8,10]", windows, window, "GE", "add"), {"select_and_scatter_expander"});
  }
}

// The same order in a reduce-window by 2 a + b, recorded from XLA:CPU; a sum stays as it is.
TEST(WindowOrder, WherePaddingIs) {
  auto text = [](std::string_view combine) {
    return Format(R"(HloModule m
f {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 two = s32[] constant(2)
 d = s32[] multiply(a, two)
 ROOT r = s32[] {} }}
ENTRY main {{
 x = s32[2,2] constant({{{{1,2}},{{3,4}}}})
 z = s32[] constant(0)
 ROOT r = s32[1,2] reduce-window(x, z), window={{size=2x2 pad=0_0x1_0}}, to_apply=f }})",
                  combine);
  };
  auto module = RunOn(text("add(d, b)"), {"window_order"});
  ASSERT_TRUE(module);
  auto got = RunWith(*module, {});
  ASSERT_TRUE(got) << got.error().ToString();
  const auto values = got->data<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(values.begin(), values.end()), (std::vector<int32_t>{5, 28}));
  auto sum = RunOn(text("add(a, b)"), {"window_order"});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->entry()->root()->opcode(), Opcode::kReduceWindow);
}

// Pairs, of which equals keep the first: the element that select-and-scatter would select.
TEST(WindowOrder, Pairs) {
  auto module = RunOn(R"(HloModule m
f { a = s32[] parameter(0)
 i = s32[] parameter(1)
 b = s32[] parameter(2)
 j = s32[] parameter(3)
 p = pred[] compare(a, b), direction=LE
 v = s32[] select(p, a, b)
 k = s32[] select(p, i, j)
 ROOT r = (s32[], s32[]) tuple(v, k) }
ENTRY main {
 x = s32[2,2] constant({{1,0},{0,1}})
 n = s32[2,2] constant({{10,11},{12,13}})
 z = s32[] constant(9)
 m = s32[] constant(-1)
 ROOT r = (s32[1,2], s32[1,2]) reduce-window(x, n, z, m), window={size=2x2 pad=0_0x1_0}, to_apply=f })",
                      {"window_order"});
  ASSERT_TRUE(module);
  auto got = RunWith(*module, {});
  ASSERT_TRUE(got) << got.error().ToString();
  const auto at = got->elements()[1].data<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(at.begin(), at.end()), (std::vector<int32_t>{12, 12}));
}

TEST(SelectAndScatterExpander, NotANumber) {
  const Literal floats = FloatLine(12, 30);
  for (std::string_view direction : {"GE", "GT", "LT", "EQ"})
    for (std::string_view window : {"size=3x3 pad=1_1x1_1", "size=3x4 stride=2x3 pad=0_2x0_2"})
      ExpectSame(Selecting("f32[12,30]", window == "size=3x3 pad=1_1x1_1" ? "f32[12,30]" : "f32[6,10]", window,
                           direction, "add"),
                 {"select_and_scatter_expander"}, 0, &floats);
}

// The gradients of average pools whose windows do not overlap, by a dilation or by a pad.
TEST(DilatedWindowExpander, OneElementAWindow) {
  const auto text = [](std::string_view x, std::string_view window, std::string_view result,
                       std::string_view pad = "") {
    const std::string source = pad.empty() ? std::string("x") : Format("pad(x, i), padding={}", pad);
    return Format(R"(HloModule m
f {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }}
ENTRY main {{ x = {} parameter(0)
 i = f32[] constant(0)
 {}
 ROOT r = {} reduce-window({}, i), window={{{}}}, to_apply=f }})",
                  x, pad.empty() ? "" : "p = " + std::string(result.substr(0, result.find(';'))) + " " + source,
                  pad.empty() ? result : result.substr(result.find(';') + 1), pad.empty() ? "x" : "p", window);
  };
  for (const auto& module :
       {ExpectSame(text("f32[3,4]", "size=2x3 pad=1_1x2_2 lhs_dilate=2x3", "f32[6,12]"), {"dilated_window_expander"}),
        ExpectSame(text("f32[3,4]", "size=1x3 pad=0_0x1_4 lhs_dilate=1x3", "f32[3,13]"), {"dilated_window_expander"}),
        ExpectSame(text("f32[3,4]", "size=2x2 pad=0_0x0_0 lhs_dilate=2x2", "f32[4,6]"), {"dilated_window_expander"}),
        ExpectSame(text("f32[3,4]", "size=2x2", "f32[7,10];f32[6,9]", "1_1_1x2_1_1"), {"dilated_window_expander"})}) {
    ASSERT_TRUE(module);
    EXPECT_TRUE(Find(*module, Opcode::kReduceWindow).empty());
  }
  // Another window beside them stays; so do windows of several elements.
  ExpectSame(text("f32[3,4]", "size=2x3 pad=1_1x1_1 lhs_dilate=2x1", "f32[6,4]"), {"dilated_window_expander"});
  auto longer = ExpectSame(text("f32[3]", "size=3 pad=2_2 lhs_dilate=2", "f32[7]"), {"dilated_window_expander"});
  ASSERT_TRUE(longer);
  EXPECT_EQ(Find(*longer, Opcode::kReduceWindow).size(), 1);
}

// No window is over a dilated array afterwards. Where all of them begin at multiples of the dilation, there are as many
// taps left as `size` says, and no pad. Of many windows those that meet elements with the same taps are together.
TEST(DilatedWindowExpander, OfAnyOperation) {
  struct Case {
    std::string_view opcode, init, x, window, result, size;
    std::size_t windows = 1;
  };
  const Case cases[] = {
      {"maximum", "-inf", "f32[5]", "size=3 pad=2_2 lhs_dilate=2", "f32[11]", ""},
      {"multiply", "1", "f32[3,4]", "size=2x3 pad=1_0x2_1 lhs_dilate=2x3 rhs_dilate=1x2", "f32[5,9]", ""},
      {"minimum", "inf", "f32[4,5]", "size=3x2 stride=2x1 pad=1_1x0_0 lhs_dilate=2x2", "f32[4,8]", "1x2"},
      {"maximum", "-inf", "f32[7]", "size=5 stride=2 pad=3_1 lhs_dilate=2", "f32[7]", "2"},
      {"add", "0", "f32[7]", "size=5 stride=4 pad=2_4 lhs_dilate=2 rhs_dilate=2", "f32[3]", "5"},
      {"maximum", "-inf", "f32[7]", "size=4 stride=6 pad=-1_0 lhs_dilate=3 rhs_dilate=2", "f32[2]", "1"},
      {"maximum", "-inf", "f32[3]", "size=8 pad=1_0 lhs_dilate=3", "f32[1]", "3"},
      // No tap meets an element.
      {"maximum", "-inf", "f32[5]", "size=1 stride=2 pad=1_0 lhs_dilate=2", "f32[5]", "no", 0},
      {"maximum", "-inf", "f32[41,60]", "size=3x4 pad=1_0x2_2 lhs_dilate=2x3", "f32[80,179]", "parts", 6},
      {"multiply", "1", "f32[70,61]", "size=5x3 stride=3x1 pad=-1_4x0_0 lhs_dilate=2x4 rhs_dilate=1x2", "f32[46,237]",
       "parts", 4},
      {"minimum", "inf", "f32[9000]", "size=1 pad=1_0 lhs_dilate=2", "f32[18000]", "parts", 1},
      {"maximum", "-inf", "f32[2,9000]", "size=3x4 stride=5x2 pad=3_5x0_0 lhs_dilate=9x1", "f32[4,4499]", "parts", 1},
      // Negative padding, an array of one element.
      {"multiply", "1", "f32[1,6]", "size=1x4 pad=2_1x-2_-3 lhs_dilate=5x2", "f32[4,3]", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.window);
    auto module = ExpectSame(Format(R"(HloModule m
f {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] {}(a, b) }}
ENTRY main {{ x = {} parameter(0)
 i = f32[] constant({})
 ROOT r = {} reduce-window(x, i), window={{{}}}, to_apply=f }})",
                                    c.opcode, c.x, c.init, c.result, c.window),
                             {"dilated_window_expander"});
    ASSERT_TRUE(module);
    const auto windows = Find(*module, Opcode::kReduceWindow);
    ASSERT_EQ(windows.size(), c.windows);
    std::string sizes;
    for (const Instruction* i : windows) {
      sizes.clear();
      for (const WindowDim& w : i->attr<WindowAttributes>().window) {
        EXPECT_EQ(w.base_dilation, 1);
        sizes += Format("{}{}", sizes.empty() ? "" : "x", w.size);
      }
    }
    if (!c.size.empty() && std::isdigit(c.size[0])) { EXPECT_EQ(sizes, c.size); }
    if (c.size.find('x') == std::string_view::npos) { EXPECT_EQ(Find(*module, Opcode::kPad).empty(), !c.size.empty()); }
  }
}

// No dilation is left, and no tap that meets a hole.
TEST(DilatedConvolutionExpander, OfTheTapsThatMeetElements) {
  struct Case {
    std::string_view x, kernel, result, window, labels, rest;
    std::size_t convolutions;
  };
  const Case cases[] = {
      {"f32[2,5,3]", "f32[3,3,4]", "f32[2,9,4]", "size=3 pad=1_1 lhs_dilate=2", "b0f_0io->b0f", "", 2},
      {"f32[2,5,3]", "f32[3,3,4]", "f32[2,13,4]", "size=3 pad=3_3 lhs_dilate=2", "b0f_0io->b0f", "", 2},
      // Negative padding; windows that are turned round; a tap for every residue.
      {"f32[2,5,3]", "f32[4,3,4]", "f32[2,5,4]", "size=4 pad=-1_0 lhs_dilate=2", "b0f_0io->b0f", "", 1},
      {"f32[2,5,3]", "f32[3,3,4]", "f32[2,9,4]", "size=3 pad=1_1 lhs_dilate=2 rhs_reversal=1", "b0f_0io->b0f", "", 2},
      {"f32[2,5,3]", "f32[3,3,4]", "f32[2,13,4]", "size=3 pad=1_1 lhs_dilate=3", "b0f_0io->b0f", "", 1},
      // Residues without any tap.
      {"f32[2,5,3]", "f32[2,3,4]", "f32[2,14,4]", "size=2 pad=1_1 lhs_dilate=3", "b0f_0io->b0f", "", 1},
      // Two dimensions in other orders, of which one has more; groups of features.
      {"f32[3,2,4,5]", "f32[6,3,2,3]", "f32[2,6,7,15]", "size=3x2 pad=1_1x1_2 lhs_dilate=2x3", "fb01_o01i->bf01", "",
       2},
      {"f32[2,4,4,6]", "f32[3,3,2,9]", "f32[2,7,4,9]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x1", "b01f_01io->b01f",
       ", feature_group_count=3", 2},
      {"f32[2,4,4,6]", "f32[3,3,2,9]", "f32[9,7,2,7]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", "b01f_01io->f0b1",
       ", feature_group_count=3", 4},
  };
  for (const Case& c : cases) {
    const std::string text = Format(
        "HloModule m\nENTRY main {{ x = {} parameter(0)\n k = {} parameter(1)\n"
        " ROOT r = {} convolution(x, k), window={{{}}}, dim_labels={}{} }}",
        c.x, c.kernel, c.result, c.window, c.labels, c.rest);
    auto module = ExpectSame(text, {"dilated_convolution_expander"});
    ASSERT_TRUE(module) << text;
    const auto made = Find(*module, Opcode::kConvolution);
    EXPECT_EQ(made.size(), c.convolutions) << text;
    for (const Instruction* i : made)
      for (const WindowDim& w : i->attr<ConvolutionAttributes>().window) EXPECT_EQ(w.base_dilation, 1) << text;
  }
  // Dilations far beyond the window stay.
  auto module = RunOn(
      "HloModule m\nENTRY main { x = f32[2,5,3] parameter(0)\n k = f32[3,3,4] parameter(1)\n"
      " ROOT r = f32[2,29,4] convolution(x, k), window={size=3 pad=1_1 lhs_dilate=7},"
      " dim_labels=b0f_0io->b0f }",
      {"dilated_convolution_expander"});
  ASSERT_TRUE(module);
  EXPECT_GT(Find(*module, Opcode::kConvolution)[0]->attr<ConvolutionAttributes>().window[0].base_dilation, 1);
}

// Strides and dilated windows beside the dilation: a convolution for each residue of outputs that has taps, and none
// for outputs that meet no element.
TEST(DilatedConvolutionExpander, OfTapsAndOutputsApart) {
  struct Case {
    std::string_view window;
    int64_t outputs;
    std::size_t convolutions;
    int64_t stride, taps_apart;
  };
  const Case cases[] = {
      {"size=3 pad=1_1 lhs_dilate=2 stride=2", 5, 1, 1, 1},
      {"size=3 pad=0_1 lhs_dilate=2 stride=2", 4, 1, 1, 1},
      {"size=3 pad=2_2 lhs_dilate=2 stride=3", 4, 2, 3, 1},
      {"size=3 pad=4_4 lhs_dilate=4 stride=6", 4, 2, 3, 1},
      {"size=3 pad=2_2 lhs_dilate=2 rhs_dilate=2", 9, 1, 1, 1},
      {"size=3 pad=1_2 lhs_dilate=2 rhs_dilate=2", 8, 1, 1, 1},
      {"size=3 pad=-3_2 lhs_dilate=2 rhs_dilate=2", 4, 1, 1, 1},
      {"size=3 pad=3_3 lhs_dilate=2 rhs_dilate=3", 9, 2, 1, 3},
      {"size=2 pad=-1_4 lhs_dilate=3 rhs_dilate=2", 14, 2, 1, 2},
      {"size=4 pad=5_6 lhs_dilate=3 rhs_dilate=2 rhs_reversal=1", 18, 3, 1, 2},
      {"size=3 pad=6_7 lhs_dilate=4 rhs_dilate=6", 18, 2, 1, 3},
      {"size=3 pad=3_3 lhs_dilate=2 rhs_dilate=3 stride=2", 5, 1, 1, 3},
  };
  for (const Case& c : cases) {
    auto module = ExpectSame(Format("HloModule m\nENTRY main {{ x = f32[2,5,3] parameter(0)\n"
                                    " k = f32[{},3,4] parameter(1)\n ROOT r = f32[2,{},4] convolution(x, k),"
                                    " window={{{}}}, dim_labels=b0f_0io->b0f }}",
                                    c.window.substr(5, 1), c.outputs, c.window),
                             {"dilated_convolution_expander"});
    ASSERT_TRUE(module) << c.window;
    const auto made = Find(*module, Opcode::kConvolution);
    EXPECT_EQ(made.size(), c.convolutions) << c.window;
    for (const Instruction* i : made) {
      const WindowDim& w = i->attr<ConvolutionAttributes>().window[0];
      EXPECT_EQ(w.base_dilation, 1) << c.window;
      EXPECT_EQ(w.stride, c.stride) << c.window;
      EXPECT_EQ(w.window_dilation, c.taps_apart) << c.window;
    }
  }
  // Two dimensions, of which one has a factor in common and the other does not.
  auto module = ExpectSame(
      "HloModule m\nENTRY main { x = f32[2,4,5,3] parameter(0)\n k = f32[3,3,3,4] parameter(1)\n"
      " ROOT r = f32[2,7,9,4] convolution(x, k),"
      " window={size=3x3 pad=2_2x3_3 lhs_dilate=2x2 rhs_dilate=2x3}, dim_labels=b01f_01io->b01f }",
      {"dilated_convolution_expander"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kConvolution).size(), 2u);
}

// Only taps that meet an element are left, and what the initial value of padding does stays.
TEST(WindowTrimmer, ReduceWindows) {
  struct Case {
    std::string_view x, result, window, combine, init;
    Dims sizes;
  };
  const Case cases[] = {
      {"f32[4,3]", "f32[4,3]", "size=1x15 pad=0_0x14_0", "add", "0", {1, 3}},
      {"f32[4,3]", "f32[4,3]", "size=1x15 pad=0_0x0_14", "maximum", "-inf", {1, 3}},
      {"s32[4,3]", "s32[4,3]", "size=9x7 pad=4_4x3_3", "multiply", "1", {7, 5}},
      // Dilated, of strides, of a dilated array.
      {"f32[4]", "f32[5]", "size=9 pad=9_9 rhs_dilate=2 stride=2 lhs_dilate=2", "minimum", "7", {7}},
      {"s32[5]", "s32[3]", "size=6 pad=14_-1 rhs_dilate=3", "add", "0", {2}},
      // All windows see one side only; no tap meets an element.
      {"s32[4]", "s32[4]", "size=9 pad=8_0", "add", "0", {4}},
      {"s32[4]", "s32[2]", "size=2 pad=3_-4", "add", "0", {2}},
  };
  for (const Case& c : cases) {
    const std::string type(c.x.substr(0, 3));
    auto module = ExpectSame(Format(R"(HloModule m
f {{ a = {0}[] parameter(0)
 b = {0}[] parameter(1)
 ROOT r = {0}[] {4}(a, b) }}
ENTRY main {{ x = {1} parameter(0)
 i = {0}[] constant({5})
 ROOT r = {2} reduce-window(x, i), window={{{3}}}, to_apply=f }})",
                                    type, c.x, c.result, c.window, c.combine, c.init),
                             {"window_trimmer"});
    ASSERT_TRUE(module) << c.window;
    const Window& window = Find(*module, Opcode::kReduceWindow)[0]->attr<WindowAttributes>().window;
    for (std::size_t d = 0; d < window.size(); ++d) EXPECT_EQ(window[d].size, c.sizes[d]) << c.window;
  }
}

TEST(WindowMerger, DimensionsOfNoWindow) {
  struct Case {
    std::string_view x, result, window;
    std::size_t rank;
  };
  for (const Case& c : {Case{"f32[5,2,3,4]", "f32[4,2,3,4]", "size=2x1x1x1", 2},
                        Case{"f32[2,3,9,4,5]", "f32[2,3,4,4,5]", "size=1x1x3x1x1 stride=1x1x2x1x1", 3},
                        Case{"f32[2,3,4]", "f32[2,3,5]", "size=1x1x2 pad=0_0x0_0x1_1", 2},
                        Case{"f32[2,3,4]", "f32[2,2,4]", "size=1x1x1 stride=1x2x1", 3}}) {
    auto module = ExpectSame(Format(R"(HloModule m
f {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }}
ENTRY main {{ x = {} parameter(0)
 i = f32[] constant(0)
 ROOT r = {} reduce-window(x, i), window={{{}}}, to_apply=f }})",
                                    c.x, c.result, c.window),
                             {"window_merger"});
    ASSERT_TRUE(module) << c.window;
    EXPECT_EQ(Find(*module, Opcode::kReduceWindow)[0]->attr<WindowAttributes>().window.size(), c.rank) << c.window;
  }
}

TEST(WindowTrimmer, Convolutions) {
  struct Case {
    std::string_view window, result;
    Dims sizes;
  };
  const Case cases[] = {{"size=9x7 pad=4_4x3_3", "f32[2,5,4,4]", {9, 7}},
                        {"size=9x7 pad=8_0x0_6", "f32[2,5,4,4]", {5, 4}},
                        {"size=9x7 pad=8_0x0_6 rhs_reversal=1x1", "f32[2,5,4,4]", {5, 4}},
                        {"size=9x7 pad=24_24x18_18 rhs_dilate=6x6", "f32[2,5,4,4]", {1, 1}},
                        {"size=9x7 pad=24_24x17_18 rhs_dilate=6x6 rhs_reversal=0x1", "f32[2,5,3,4]", {1, 1}}};
  for (const Case& c : cases) {
    auto module = ExpectSame(Format("HloModule m\nENTRY main {{ x = f32[2,5,4,3] parameter(0)\n"
                                    " k = f32[9,7,3,4] parameter(1)\n"
                                    " ROOT r = {} convolution(x, k), window={{{}}}, dim_labels=b01f_01io->b01f }}",
                                    c.result, c.window),
                             {"window_trimmer"});
    ASSERT_TRUE(module) << c.window;
    const Window& window = Find(*module, Opcode::kConvolution)[0]->attr<ConvolutionAttributes>().window;
    for (std::size_t d = 0; d < window.size(); ++d) EXPECT_EQ(window[d].size, c.sizes[d]) << c.window;
  }
}

// One window is a product, whichever dimensions the arrays have first; padding, several windows and groups are none.
TEST(WholePictureExpander, Dots) {
  struct Case {
    std::string_view kernel, result, window, labels;
    bool is_dot;
  };
  constexpr Case kCases[] = {
      {"f32[5,4,3,6]", "f32[2,1,1,6]", "size=5x4", "b01f_01io->b01f", true},
      {"f32[6,4,3,5]", "f32[6,1,2,1]", "size=5x4", "b01f_o1i0->f0b1", true},
      {"f32[4,5,3,6]", "f32[2,6,1,1]", "size=5x4 stride=2x3", "b01f_10io->bf01", true},
      {"f32[5,4,3,6]", "f32[2,1,1,6]", "size=5x4 rhs_reversal=1x0", "b01f_01io->b01f", false},
      {"f32[5,4,3,6]", "f32[2,2,1,6]", "size=5x4 pad=0_1x0_0", "b01f_01io->b01f", false},
      {"f32[4,4,3,6]", "f32[2,1,1,6]", "size=4x4 stride=2x1", "b01f_01io->b01f", false},
  };
  for (const Case& c : kCases) {
    auto module = ExpectSame(Format("HloModule m\nENTRY main {{ x = f32[2,5,4,3] parameter(0)\n k = {} parameter(1)\n"
                                    " ROOT r = {} convolution(x, k), window={{{}}}, dim_labels={} }}",
                                    c.kernel, c.result, c.window, c.labels),
                             {"whole_picture_expander"});
    ASSERT_TRUE(module) << c.labels;
    EXPECT_EQ(Find(*module, Opcode::kDot).size(), c.is_dot ? 1u : 0u) << c.window;
  }
}

// The picture becomes the kernel where it is the smaller one; strides, dilations and groups stay.
TEST(SmallPictureExpander, SwapsPictureAndKernel) {
  const auto text = [](std::string_view x, std::string_view kernel, std::string_view result, std::string_view window,
                       std::string_view labels, std::string_view rest = "") {
    return Format(
        "HloModule m\nENTRY main {{ x = {} parameter(0)\n k = {} parameter(1)\n"
        " ROOT r = {} convolution(x, k), window={{{}}}, dim_labels={}{} }}",
        x, kernel, result, window, labels, rest);
  };
  for (const std::string& swapped :
       {text("f32[2,1,1,3]", "f32[5,4,3,6]", "f32[2,5,4,6]", "size=5x4 pad=4_4x3_3 rhs_reversal=1x1",
             "b01f_01io->b01f"),
        text("f32[2,2,3,3]", "f32[5,4,3,6]", "f32[2,5,6,6]", "size=5x4 pad=3_4x2_4", "b01f_01io->b01f"),
        text("f32[2,3,3,2]", "f32[6,2,4,3]", "f32[4,6,6,2]", "size=4x3 pad=2_2x1_4 rhs_reversal=0x1",
             "b01f_oi01->01fb")}) {
    auto module = ExpectSame(swapped, {"small_picture_expander"});
    ASSERT_TRUE(module) << swapped;
    const auto& a = Find(*module, Opcode::kConvolution)[0]->attr<ConvolutionAttributes>();
    EXPECT_LE(a.window[0].padding_low, 1) << swapped;
    EXPECT_LE(a.window[0].size, 3) << swapped;
  }
  for (const std::string& kept :
       {text("f32[2,2,3,3]", "f32[5,4,3,6]", "f32[2,3,6,6]", "size=5x4 pad=3_4x2_4 stride=2x1", "b01f_01io->b01f"),
        text("f32[2,8,3,3]", "f32[5,4,3,6]", "f32[2,11,6,6]", "size=5x4 pad=3_4x3_3", "b01f_01io->b01f"),
        text("f32[2,5,4,3]", "f32[5,4,3,6]", "f32[2,1,1,6]", "size=5x4", "b01f_01io->b01f")}) {
    auto module = ExpectSame(kept, {"small_picture_expander"});
    ASSERT_TRUE(module) << kept;
    EXPECT_EQ(Find(*module, Opcode::kConvolution)[0]->attr<ConvolutionAttributes>().window[0].size, 5) << kept;
  }
}

std::string Reducing(std::string_view type, std::string_view dims, std::string_view result, std::string_view window,
                     std::string_view combiner, std::string_view init) {
  return Format(R"(HloModule m
red {{ a = {0}[] parameter(0)
 b = {0}[] parameter(1)
 ROOT r = {0}[] {4}(a, b) }}
ENTRY main {{ x = {0}{1} parameter(0)
 i = {0}[] constant({5})
 ROOT r = {0}{2} reduce-window(x, i), window={{{3}}}, to_apply=red }})",
                type, dims, result, window, combiner, init);
}
std::size_t WindowsAfter(const std::string& text) {
  auto module = ExpectSame(text, {"window_splitter", "dce"});
  return module == nullptr ? 99 : Find(*module, Opcode::kReduceWindow).size();
}

TEST(WindowSplitter, OneDimensionAfterTheOther) {
  EXPECT_EQ(WindowsAfter(Reducing("u8", "[20,30]", "[20,30]", "size=7x7 pad=3_3x3_3", "minimum", "255")), 2U);
  EXPECT_EQ(WindowsAfter(Reducing("u8", "[20,30]", "[20,30]", "size=7x7 pad=3_3x3_3", "maximum", "9")), 2U);
  EXPECT_EQ(WindowsAfter(Reducing("f32", "[20,30]", "[14,24]", "size=7x7", "maximum", "-inf")), 2U);
  EXPECT_EQ(WindowsAfter(Reducing("s32", "[20,30]", "[6,22]", "size=9x9 stride=2x1", "add", "0")), 2U);
  EXPECT_EQ(WindowsAfter(Reducing("s32", "[6,7,8]", "[6,7,8]", "size=7x7x7 pad=3_3x3_3x3_3", "maximum", "0")), 3U);
  EXPECT_EQ(WindowsAfter(Reducing("s32", "[20,30]", "[10,18]", "size=6x7 rhs_dilate=2x2", "minimum", "0")), 2U);
}

TEST(WindowSplitter, LeavesOthers) {
  EXPECT_EQ(WindowsAfter(Reducing("u8", "[20,30]", "[20,30]", "size=3x3 pad=1_1x1_1", "minimum", "255")), 1U);
  EXPECT_EQ(WindowsAfter(Reducing("u8", "[21,28]", "[3,4]", "size=7x7 stride=7x7", "minimum", "255")), 1U);
  EXPECT_EQ(WindowsAfter(Reducing("f32", "[20,30]", "[14,24]", "size=7x7", "add", "0")), 1U);
  EXPECT_EQ(WindowsAfter(Reducing("s32", "[20,30]", "[14,24]", "size=7x7", "add", "1")), 1U);
  EXPECT_EQ(WindowsAfter(Reducing("s32", "[20,30]", "[20,24]", "size=1x7", "maximum", "0")), 1U);
}

TEST(WindowSplitter, OnlyLargeOnesWhereTheyAreFolded) {
  PassOptions options;
  options.folds_windows = true;
  const auto windows = [&](const std::string& text) {
    auto module = ParseHloText(text);
    EXPECT_TRUE(module.has_value());
    EXPECT_TRUE(WindowSplitter(**module, options).has_value());
    return Find(**module, Opcode::kReduceWindow).size();
  };
  EXPECT_EQ(windows(Reducing("f32", "[20,30]", "[20,30]", "size=5x5 pad=2_2x2_2", "maximum", "-inf")), 2U);
  EXPECT_EQ(windows(Reducing("f32", "[20,30]", "[20,30]", "size=3x3 pad=1_1x1_1", "maximum", "-inf")), 1U);
  EXPECT_EQ(windows(Reducing("s32", "[20,30]", "[6,22]", "size=9x9 stride=2x1", "add", "0")), 1U);
}

}  // namespace
}  // namespace krafla
