// SPDX-License-Identifier: Apache-2.0
// Dots whose weights are stored quantised: the answers are those without fusion, which stores what they are computed
// to. All numbers are small integers and powers of two, so that sums are exact in any order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

constexpr int64_t kDepth = 96, kLines = 160, kGroup = 32;

struct Form {
  std::string name;
  // The computation of w, f32[K,N] or, where `is_transposed`, f32[N,K]; parameters from 1 on.
  std::string weights;
  bool is_transposed = false;
};

const std::vector<Form>& Forms() {
  static const auto* forms = new std::vector<Form>{
      {"int8 by column", R"(q = s8[K,N] parameter(1)
  s = f32[N] parameter(2)
  c = f32[K,N] convert(q)
  sb = f32[K,N] broadcast(s), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"int8 by row of the transposed", R"(q = s8[N,K] parameter(1)
  s = f32[N] parameter(2)
  c = f32[N,K] convert(q)
  sb = f32[N,K] broadcast(s), dimensions={0}
  w = f32[N,K] multiply(c, sb))",
       true},
      {"int4 in groups with zeros", R"(q = s4[K,N] parameter(1)
  s = f32[G,N] parameter(2)
  z = s4[G,N] parameter(3)
  r = s4[G,32,N] reshape(q)
  c = f32[G,32,N] convert(r)
  zf = f32[G,N] convert(z)
  zb = f32[G,32,N] broadcast(zf), dimensions={0,2}
  d = f32[G,32,N] subtract(c, zb)
  sb = f32[G,32,N] broadcast(s), dimensions={0,2}
  p = f32[G,32,N] multiply(d, sb)
  w = f32[K,N] reshape(p))"},
      {"two to a byte, rows side by side", R"(q = u8[HK,N] parameter(1)
  s = f32[N] parameter(2)
  fifteen = u8[] constant(15)
  fb = u8[HK,N] broadcast(fifteen), dimensions={}
  four = u8[] constant(4)
  ob = u8[HK,N] broadcast(four), dimensions={}
  lo = u8[HK,N] and(q, fb)
  hi = u8[HK,N] shift-right-logical(q, ob)
  l3 = u8[HK,1,N] reshape(lo)
  h3 = u8[HK,1,N] reshape(hi)
  both = u8[HK,2,N] concatenate(l3, h3), dimensions={1}
  flat = u8[K,N] reshape(both)
  c = f32[K,N] convert(flat)
  sb = f32[K,N] broadcast(s), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"two to a byte, in halves", R"(q = u8[HK,N] parameter(1)
  s = f32[N] parameter(2)
  fifteen = u8[] constant(15)
  fb = u8[HK,N] broadcast(fifteen), dimensions={}
  four = u8[] constant(4)
  ob = u8[HK,N] broadcast(four), dimensions={}
  lo = u8[HK,N] and(q, fb)
  hi = u8[HK,N] shift-right-logical(q, ob)
  flat = u8[K,N] concatenate(lo, hi), dimensions={0}
  c = f32[K,N] convert(flat)
  sb = f32[K,N] broadcast(s), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"two to a byte, columns side by side", R"(q = u8[K,HN] parameter(1)
  s = f32[N] parameter(2)
  b4 = s4[K,HN,2] bitcast-convert(q)
  flat = s4[K,N] reshape(b4)
  c = f32[K,N] convert(flat)
  sb = f32[K,N] broadcast(s), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"a table of values", R"(q = u8[K,N] parameter(1)
  table = f32[256] parameter(2)
  i = s32[K,N] convert(q)
  r = s32[K,N,1] reshape(i)
  w = f32[K,N] gather(table, r), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1})"},
      {"a slice of many", R"(q = f32[3,K,N] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  slice = f32[1,K,N] dynamic-slice(q, at, zero, zero), dynamic_slice_sizes={1,K,N}
  w = f32[K,N] reshape(slice))"},
      {"one of many, with scales of one of many", R"(q = s8[3,K,N] parameter(1)
  s = f32[3,N] parameter(2)
  at = s32[] parameter(3)
  zero = s32[] constant(0)
  slice = s8[1,K,N] dynamic-slice(q, at, zero, zero), dynamic_slice_sizes={1,K,N}
  codes = s8[K,N] reshape(slice)
  c = f32[K,N] convert(codes)
  row = f32[1,N] dynamic-slice(s, at, zero), dynamic_slice_sizes={1,N}
  scales = f32[N] reshape(row)
  sb = f32[K,N] broadcast(scales), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"bf16 of one of many", R"(q = bf16[3,N,K] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  slice = bf16[1,N,K] dynamic-slice(q, at, zero, zero), dynamic_slice_sizes={1,N,K}
  lines = bf16[N,K] reshape(slice)
  wide = f32[N,K] convert(lines)
  w = f32[K,N] transpose(wide), dimensions={1,0})"},
  };
  return *forms;
}

std::string With(std::string text, int64_t rows) {
  const auto put = [&](const std::string& what, int64_t number) {
    // Names of sizes stand between brackets and commas.
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;) {
      const char before = text[at - 1], after = text[at + what.size()];
      if (std::string("[,{").find(before) != std::string::npos && std::string("],}").find(after) != std::string::npos)
        text.replace(at, what.size(), std::to_string(number));
      at += 1;
    }
  };
  put("HK", kDepth / 2), put("HN", kLines / 2), put("K", kDepth), put("N", kLines), put("G", kDepth / kGroup);
  put("M", rows);
  return text;
}

// Puts numbers in the place of names.
void PutNumbers(std::string& text, const std::vector<std::pair<std::string, int64_t>>& numbers) {
  for (const auto& [name, value] : numbers)
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.replace(at, name.size(), std::to_string(value));
}

// Small numbers for an argument of any type.
Literal Numbers(const Shape& shape, int seed) {
  auto out = Literal::Create(shape);
  EXPECT_TRUE(out.has_value());
  const std::span<std::byte> bytes = out->bytes();
  const auto number = [&](std::size_t i) {
    return static_cast<int>((i * 7919 + static_cast<std::size_t>(seed) * 31) % 13) - 6;
  };
  const ElementType type = shape.element_type();
  if (type == ElementType::kF32) {
    auto values = out->data<float>();
    // Powers of two for scales, whole numbers for the rest.
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = shape.rank() == 1 ? std::ldexp(1.0f, number(i) % 3) : static_cast<float>(number(i));
  } else if (type == ElementType::kBF16) {
    // Whole numbers for the vector; of scales all bits, so that products have to be rounded.
    auto bits = std::span(reinterpret_cast<uint16_t*>(bytes.data()), bytes.size() / 2);
    for (std::size_t i = 0; i < bits.size(); ++i)
      bits[i] = seed == 0 ? static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number(i))) >> 16)
                          : static_cast<uint16_t>(0x3f80 + i * 37 % 384);
  } else if (type == ElementType::kS32 && shape.element_count() > 1) {
    auto words = out->data<int32_t>();
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = static_cast<int32_t>(static_cast<uint32_t>(i + 1) * 0x9e3779b9u);
  } else if (type == ElementType::kS32) {
    out->data<int32_t>()[0] = 1;
  } else {
    const int unsigned_numbers = type == ElementType::kU8                                     ? 256
                                 : type == ElementType::kU4 || type == ElementType::kF4E2M1FN ? 16
                                                                                              : 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(
          unsigned_numbers > 0 ? static_cast<int>((i * 37 + 11) % static_cast<std::size_t>(unsigned_numbers))
                               : number(i));
  }
  return std::move(*out);
}

class ComputedOperandTest : public DeviceTest {
 protected:
  // `kernels`: 0 where they are not counted.
  void Check(const std::string& text, const std::string& name, int kernels = 1) {
    auto executable = Compile(text);
    ASSERT_NE(executable, nullptr) << name;
    std::vector<Literal> arguments;
    for (const Shape& s : executable->arguments()) arguments.push_back(Numbers(s, static_cast<int>(arguments.size())));
    const std::vector<Literal> got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u) << name;
    CompileOptions unfused;
    unfused.disabled = {"fusion"};
    auto plain = CompileText(**SharedClient("cpu"), text, unfused);
    ASSERT_TRUE(plain.has_value()) << name;
    const std::vector<Literal> expected = Run(**plain, arguments);
    ASSERT_EQ(expected.size(), 1u) << name;
    EXPECT_TRUE(std::ranges::equal(got[0].bytes(), expected[0].bytes())) << name;
    EXPECT_TRUE(std::ranges::any_of(Values<float>(got[0]), [](float v) { return v != 0; })) << name;
    if (kernels > 0 && GetParam().selector == "cpu" && GetParam().disabled.empty()) {
      EXPECT_EQ(executable->report().kernels, kernels) << name << " has more kernels than the dot";
    }
  }
};

TEST_P(ComputedOperandTest, RightOperands) {
  for (const Form& form : Forms()) {
    for (const int64_t rows : {1, 3, 8, 64}) {
      const std::string dot = form.is_transposed ? "rhs_contracting_dims={1}" : "rhs_contracting_dims={0}";
      Check(With("HloModule m\nENTRY main {\n  x = f32[M,K] parameter(0)\n  " + form.weights +
                     "\n  ROOT y = f32[M,N] dot(x, w), lhs_contracting_dims={1}, " + dot + "\n}\n",
                 rows),
            form.name + ", " + std::to_string(rows) + " rows");
    }
  }
}

// Weights that are rounded to bf16, which processors have instructions for: codes of four bits as numbers, in tables
// and in words, and bytes. 160 lines, and 180, of which the last ones are no whole vector.
TEST_P(ComputedOperandTest, WeightsRoundedToBf16) {
  const std::string scaled = R"(
  s = bf16[G,N] parameter(2)
  sb = bf16[G,32,N] broadcast(s), dimensions={0,2}
  cg = bf16[G,32,N] reshape(c)
  p = bf16[G,32,N] multiply(cg, sb)
  w = bf16[K,N] reshape(p))";
  const std::vector<Form> forms = {
      {"s4", "q = s4[K,N] parameter(1)\n  c = bf16[K,N] convert(q)" + scaled},
      {"s8", "q = s8[K,N] parameter(1)\n  c = bf16[K,N] convert(q)" + scaled},
      {"f4e2m1fn", "q = f4e2m1fn[K,N] parameter(1)\n  c = bf16[K,N] convert(q)" + scaled},
      {"u4 in a table", R"(q = u4[K,N] parameter(1)
  table = bf16[16] parameter(3)
  i = s32[K,N] convert(q)
  r = s32[K,N,1] reshape(i)
  c = bf16[K,N] gather(table, r), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1})" +
                            scaled},
      {"pairs in bytes", R"(q = u8[HK,N] parameter(1)
  fifteen = u8[] constant(15)
  fb = u8[HK,N] broadcast(fifteen), dimensions={}
  four = u8[] constant(4)
  ob = u8[HK,N] broadcast(four), dimensions={}
  lo = u8[HK,N] and(q, fb)
  hi = u8[HK,N] shift-right-logical(q, ob)
  l3 = u8[HK,1,N] reshape(lo)
  h3 = u8[HK,1,N] reshape(hi)
  both = u8[HK,2,N] concatenate(l3, h3), dimensions={1}
  flat = s8[HK,2,N] convert(both)
  eight = s8[] constant(8)
  eb = s8[HK,2,N] broadcast(eight), dimensions={}
  d = s8[HK,2,N] subtract(flat, eb)
  e = s8[K,N] reshape(d)
  c = bf16[K,N] convert(e))" +
                             scaled},
      {"eight in a word", R"(q = s32[12,N] parameter(1)
  q8 = s32[12,8,N] broadcast(q), dimensions={0,2}
  i = s32[8] iota(), iota_dimension=0
  four = s32[] constant(4)
  fours = s32[8] broadcast(four), dimensions={}
  by = s32[8] multiply(i, fours)
  byb = s32[12,8,N] broadcast(by), dimensions={1}
  sh = s32[12,8,N] shift-right-logical(q8, byb)
  fifteen = s32[] constant(15)
  fb = s32[12,8,N] broadcast(fifteen), dimensions={}
  n = s32[12,8,N] and(sh, fb)
  e = s32[K,N] reshape(n)
  c = bf16[K,N] convert(e))" + scaled},
  };
  for (const Form& form : forms) {
    for (const int64_t lines : {kLines, int64_t{180}}) {
      for (const int64_t rows : {1, 3, 20}) {
        std::string text = "HloModule m\nENTRY main {\n  x = bf16[M,K] parameter(0)\n  " + form.weights +
                           "\n  ROOT y = f32[M,N] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
        for (const std::string before : {",N]", ",N,"})
          for (std::size_t at = 0; lines != kLines && (at = text.find(before, at)) != std::string::npos;)
            text.replace(at, 2, ",180");
        Check(With(text, rows), form.name + ", " + std::to_string(rows) + " rows of " + std::to_string(lines));
      }
    }
  }
}

// Weights of four bits whose sixteen numbers of a column and group the CPU makes first where groups are long, over
// columns that are not all whole lines of memory.
TEST_P(ComputedOperandTest, WeightsOfSixteenNumbers) {
  const std::string words = R"(q = s32[@O,@N] parameter(1)
  q8 = s32[@O,8,@N] broadcast(q), dimensions={0,2}
  i = s32[8] iota(), iota_dimension=0
  four = s32[] constant(4)
  fours = s32[8] broadcast(four), dimensions={}
  by = s32[8] multiply(i, fours)
  byb = s32[@O,8,@N] broadcast(by), dimensions={1}
  sh = s32[@O,8,@N] shift-right-logical(q8, byb)
  fifteen = s32[] constant(15)
  fb = s32[@O,8,@N] broadcast(fifteen), dimensions={}
  n = s32[@O,8,@N] and(sh, fb)
  c = s32[@G,@g,@N] reshape(n))";
  const std::string pairs = R"(q = u8[@H,@N] parameter(1)
  fifteen = u8[] constant(15)
  fb = u8[@H,@N] broadcast(fifteen), dimensions={}
  four = u8[] constant(4)
  ob = u8[@H,@N] broadcast(four), dimensions={}
  lo = u8[@H,@N] and(q, fb)
  hi = u8[@H,@N] shift-right-logical(q, ob)
  l3 = u8[@H,1,@N] reshape(lo)
  h3 = u8[@H,1,@N] reshape(hi)
  both = u8[@H,2,@N] concatenate(l3, h3), dimensions={1}
  c = u8[@G,@g,@N] reshape(both))";
  const std::string signed_codes = "q = s4[@K,@N] parameter(1)\n  c = s4[@G,@g,@N] reshape(q)";
  const std::string number = "\n  f = bf16[@G,@g,@N] convert(c)";
  const std::string zeros = R"(
  z = s4[@G,@N] parameter(3)
  zf = bf16[@G,@N] convert(z)
  zb = bf16[@G,@g,@N] broadcast(zf), dimensions={0,2}
  d = bf16[@G,@g,@N] subtract(f, zb))";
  // As programs subtract the codes of words.
  const std::string integer_zeros = R"(
  z = s32[@G,@N] parameter(3)
  fm = s32[@G,@N] broadcast(fifteen), dimensions={}
  zm = s32[@G,@N] and(z, fm)
  zb = s32[@G,@g,@N] broadcast(zm), dimensions={0,2}
  i32 = s32[@G,@g,@N] subtract(c, zb)
  f = bf16[@G,@g,@N] convert(i32))";
  const auto scaled = [](const std::string& op, const std::string& of) {
    return "\n  s = bf16[@G,@N] parameter(2)\n  sb = bf16[@G,@g,@N] broadcast(s), dimensions={0,2}\n"
           "  p = bf16[@G,@g,@N] " +
           op + "(" + of + ", sb)\n  w = bf16[@K,@N] reshape(p)";
  };
  const std::vector<Form> forms = {
      {"s4", signed_codes + number + scaled("multiply", "f")},
      {"s4 with zeros", signed_codes + number + zeros + scaled("multiply", "d")},
      {"s4, divided", signed_codes + number + scaled("divide", "f")},
      {"s4 with zeros, divided", signed_codes + number + zeros + scaled("divide", "d")},
      {"pairs", pairs + number + scaled("multiply", "f")},
      {"pairs with zeros", pairs + number + zeros + scaled("multiply", "d")},
      {"pairs, divided", pairs + number + scaled("divide", "f")},
      {"words", words + number + scaled("multiply", "f")},
      {"words with zeros", words + integer_zeros + scaled("multiply", "f")},
  };
  struct CodeSizes {
    int64_t depth, group, lines;
  };
  for (const Form& form : forms) {
    for (const CodeSizes& size :
         {CodeSizes{128, 32, 160}, {256, 128, 70}, {384, 128, 386}, {256, 256, 34}, {192, 192, 130}}) {
      std::string text = "HloModule m\nENTRY main {\n  x = bf16[1,@K] parameter(0)\n  " + form.weights +
                         "\n  ROOT y = f32[1,@N] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
      PutNumbers(text, {{"@K", size.depth},
                        {"@N", size.lines},
                        {"@G", size.depth / size.group},
                        {"@g", size.group},
                        {"@H", size.depth / 2},
                        {"@O", size.depth / 8}});
      // Zero points that many places have in common are stored.
      const bool has_zeros = form.name.contains("zeros");
      Check(text,
            form.name + ", " + std::to_string(size.depth) + " x " + std::to_string(size.lines) + " in groups of " +
                std::to_string(size.group),
            has_zeros ? 0 : 1);
    }
  }
}

// Lines that lie along the depth, which are added up in registers where they are long.
TEST_P(ComputedOperandTest, LinesAlongTheDepth) {
  const std::string by_line = R"(
  s = bf16[@N] parameter(2)
  sb = bf16[@N,@K] broadcast(s), dimensions={0}
  w = bf16[@N,@K] multiply(c, sb))";
  // Of small exponents, so that sums are exact.
  const std::string bits = R"(q = u8[@N,@K] parameter(1)
  m = u8[] constant(143)
  mb = u8[@N,@K] broadcast(m), dimensions={}
  a = u8[@N,@K] and(q, mb)
  f = )";
  const std::vector<Form> forms = {
      {"s8", "q = s8[@N,@K] parameter(1)\n  c = bf16[@N,@K] convert(q)" + by_line},
      {"s4", "q = s4[@N,@K] parameter(1)\n  c = bf16[@N,@K] convert(q)" + by_line},
      {"f8e4m3fn", bits + "f8e4m3fn[@N,@K] bitcast-convert(a)\n  c = bf16[@N,@K] convert(f)" + by_line},
      {"f8e5m2", bits + "f8e5m2[@N,@K] bitcast-convert(a)\n  c = bf16[@N,@K] convert(f)" + by_line},
      {"s8 in groups", R"(q = s8[@N,@K] parameter(1)
  s = bf16[@N,@G] parameter(2)
  r = s8[@N,@G,128] reshape(q)
  c = bf16[@N,@G,128] convert(r)
  sb = bf16[@N,@G,128] broadcast(s), dimensions={0,1}
  p = bf16[@N,@G,128] multiply(c, sb)
  w = bf16[@N,@K] reshape(p))"},
  };
  for (const Form& form : forms) {
    for (const int64_t depth : {128, 640}) {
      for (const int64_t rows : {1, 3, 20}) {
        std::string right =
            "HloModule m\nENTRY main {\n  x = bf16[@M,@K] parameter(0)\n  " + form.weights +
            "\n  ROOT y = f32[@M,@N] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n";
        std::string left = "HloModule m\nENTRY main {\n  x = bf16[@M,@K] parameter(0)\n  " + form.weights +
                           "\n  ROOT y = f32[@N,@M] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n";
        for (std::string* text : {&right, &left}) {
          PutNumbers(*text, {{"@K", depth}, {"@N", 70}, {"@G", depth / 128}, {"@M", rows}});
          Check(*text, form.name + ", " + std::to_string(rows) + " rows of " + std::to_string(depth) +
                           (text == &left ? ", on the left" : ""));
        }
      }
    }
  }
}

TEST_P(ComputedOperandTest, LeftOperands) {
  for (const Form& form : Forms()) {
    for (const int64_t rows : {1, 8}) {
      const std::string dot = form.is_transposed ? "lhs_contracting_dims={1}" : "lhs_contracting_dims={0}";
      Check(With("HloModule m\nENTRY main {\n  x = f32[M,K] parameter(0)\n  " + form.weights +
                     "\n  ROOT y = f32[N,M] dot(w, x), " + dot + ", rhs_contracting_dims={1}\n}\n",
                 rows),
            form.name + " on the left, " + std::to_string(rows) + " columns");
    }
  }
}

TEST_P(ComputedOperandTest, Batches) {
  for (const int64_t rows : {1, 20}) {
    Check(With(R"(HloModule m
ENTRY main {
  x = f32[2,3,M,K] parameter(0)
  q = s8[2,3,K,N] parameter(1)
  s = f32[2,3,N] parameter(2)
  c = f32[2,3,K,N] convert(q)
  sb = f32[2,3,K,N] broadcast(s), dimensions={0,1,3}
  w = f32[2,3,K,N] multiply(c, sb)
  ROOT y = f32[2,3,M,N] dot(x, w), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
}
)",
               rows),
          "batches of " + std::to_string(rows) + " rows");
  }
}

// A loop over layers reads the weights of each where they lie in the array of all that it carries. Its three kernels
// are the condition, the dot and the counter.
TEST_P(ComputedOperandTest, LayersOfALoop) {
  for (const int64_t rows : {1, 20})
    Check(With(R"(HloModule m
more {
  s = (s32[], f32[M,128], f32[2,128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT p = pred[] compare(i, n), direction=LT
}
layer {
  s = (s32[], f32[M,128], f32[2,128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[M,128] get-tuple-element(s), index=1
  all = f32[2,128,128] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  slice = f32[1,128,128] dynamic-slice(all, i, zero, zero), dynamic_slice_sizes={1,128,128}
  w = f32[128,128] reshape(slice)
  y = f32[M,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[M,128], f32[2,128,128]) tuple(next, y, all)
}
ENTRY main {
  x = f32[M,128] parameter(0)
  all = f32[2,128,128] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[M,128], f32[2,128,128]) tuple(zero, x, all)
  e = (s32[], f32[M,128], f32[2,128,128]) while(s), condition=more, body=layer
  ROOT y = f32[M,128] get-tuple-element(e), index=1
}
)",
               rows),
          "layers, " + std::to_string(rows) + " rows", 3);
}

INSTANTIATE_TEST_SUITE_P(Devices, ComputedOperandTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
