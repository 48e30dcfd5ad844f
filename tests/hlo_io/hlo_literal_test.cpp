// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

Literal ReadLiteral(std::string_view shape, std::string_view text) {
  auto s = ParseShape(shape);
  EXPECT_TRUE(s.has_value()) << shape;
  auto literal = ParseLiteral(text, *s);
  EXPECT_TRUE(literal.has_value()) << text << "\n" << (literal ? "" : literal.error().ToString());
  return literal ? std::move(*literal) : Literal();
}
std::string ErrorOf(std::string_view shape, std::string_view text) {
  auto literal = ParseLiteral(text, *ParseShape(shape));
  EXPECT_FALSE(literal.has_value()) << shape << " " << text;
  return literal ? std::string() : literal.error().message();
}
template <typename T>
std::vector<T> Values(const Literal& literal) {
  auto span = literal.data<T>();
  return {span.begin(), span.end()};
}

TEST(HloLiteral, NestedAndFlat) {
  EXPECT_EQ(Values<int32_t>(ReadLiteral("s32[2,1,3]", "{ { {1,2,3} }, { {4,5,6} } }")),
            (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Values<int32_t>(ReadLiteral("s32[2,2]", "{ /*i0=0*/ { 1, 2 }, /*i0=1*/ { 3, 4 } }")),
            (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(Values<int32_t>(ReadLiteral("s32[2,2]{0,1}", "{{1,2},{3,4}}")), (std::vector<int32_t>{1, 2, 3, 4}));
  // A value without braces is the first element.
  EXPECT_EQ(Values<float>(ReadLiteral("f32[3]", "7")), (std::vector<float>{7, 0, 0}));
  EXPECT_EQ(ReadLiteral("f32[2,0]", "{ {}, {} }").bytes().size(), 0u);
  EXPECT_EQ(ReadLiteral("f32[0]", "{}").bytes().size(), 0u);
  Literal tuple = ReadLiteral("(f32[2], s32[], (pred[1], u8[2]))", "( {1.5, 2}, -3, ( {true}, {4, 5} ) )");
  EXPECT_EQ(Values<uint8_t>(tuple.elements()[2].elements()[1]), (std::vector<uint8_t>{4, 5}));
}

TEST(HloLiteral, Numbers) {
  EXPECT_EQ(Values<int64_t>(ReadLiteral("s64[2]", "{-9223372036854775808, 9223372036854775807}")),
            (std::vector<int64_t>{INT64_MIN, INT64_MAX}));
  EXPECT_EQ(Values<uint64_t>(ReadLiteral("u64[1]", "{18446744073709551615}")), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(Values<int8_t>(ReadLiteral("s4[3]", "{-8, 7, 0}")), (std::vector<int8_t>{-8, 7, 0}));
  EXPECT_EQ(Values<int8_t>(ReadLiteral("s1[2]", "{-1, 0}")), (std::vector<int8_t>{-1, 0}));
  EXPECT_EQ(Values<uint8_t>(ReadLiteral("pred[4]", "{true, false, 1, 0}")), (std::vector<uint8_t>{1, 0, 1, 0}));
  EXPECT_EQ(Values<float>(ReadLiteral("f32[9]", "{1, -2, 3.5, 0.5, 1e3, -1.25e-2, 1E+2, 0, 7.}")),
            (std::vector<float>{1, -2, 3.5f, 0.5f, 1e3f, -1.25e-2f, 1e2f, 0, 7}));
  // bf16: the upper half of f32, to nearest, ties to even.
  EXPECT_EQ(Values<uint16_t>(ReadLiteral("bf16[3]", "{1.00390625, 1.01171875, 1}")),
            (std::vector<uint16_t>{0x3f80, 0x3f82, 0x3f80}));
  EXPECT_EQ(Values<uint16_t>(ReadLiteral("f16[3]", "{65504, 6e-8, -0.0}")),
            (std::vector<uint16_t>{0x7bff, 0x0001, 0x8000}));
  EXPECT_EQ(Values<uint8_t>(ReadLiteral("f8e4m3fn[4]", "{1, -0.5, 448, nan}")),
            (std::vector<uint8_t>{0x38, 0xb0, 0x7e, 0x7f}));
  EXPECT_EQ(Values<uint8_t>(ReadLiteral("f4e2m1fn[3]", "{6, -0.5, 1}")), (std::vector<uint8_t>{0x7, 0x9, 0x2}));
  // The integer -0 is 0, the number -0.0 keeps its sign; too small is 0.
  auto zeros = Values<float>(ReadLiteral("f32[4]", "{-0, -0.0, 1e-60, -1e-400}"));
  EXPECT_FALSE(std::signbit(zeros[0]));
  EXPECT_TRUE(std::signbit(zeros[1]));
  EXPECT_EQ(zeros[2], 0.0f);
  EXPECT_EQ(zeros[3], 0.0f);
  auto c = Values<float>(ReadLiteral("f32[2]", "{inf, -inf}"));
  EXPECT_EQ(c[0], INFINITY);
  EXPECT_EQ(c[1], -INFINITY);
  Literal nan = ReadLiteral("f32[4]", "{nan, -nan, nan(0x7), -nan(0x400001)}");
  uint32_t bits[4];
  std::memcpy(bits, nan.bytes().data(), 16);
  EXPECT_EQ(bits[0], 0x7fc00000u);
  EXPECT_EQ(bits[1], 0xffc00000u);
  EXPECT_EQ(bits[2], 0x7f800007u);
  EXPECT_EQ(bits[3], 0xffc00001u);
  Literal z = ReadLiteral("c64[2]", "{(1, -2.5), (inf, -0.0)}");
  float parts[4];
  std::memcpy(parts, z.bytes().data(), 16);
  EXPECT_EQ(parts[1], -2.5f);
  EXPECT_TRUE(std::signbit(parts[3]));
}

TEST(HloLiteral, Refused) {
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"f32[4]", "{1,2,3}", "has 4 entries, not 3"},
      {"f32[4]", "{1,2,3,4,5}", "only 4 entries"},
      {"f32[2,2]", "{{1,2},{3}}", "has 2 entries, not 1"},
      {"f32[2]", "{{1,2}}", "deeper than the 1 dimensions"},
      {"f32[2,2]", "{1,2,3,4}", "within 1 braces"},
      {"s8[]", "300", "out of the range of s8"},
      {"u8[]", "-1", "out of the range of u8"},
      {"u2[]", "4", "out of the range of u2"},
      {"s32[]", "2147483648", "out of the range of s32"},
      {"u64[]", "18446744073709551616", "out of the range of u64"},
      {"s32[]", "1.5", "not an integer"},
      {"s32[]", "nan", "not a number"},
      {"s32[]", "", "not a number"},
      {"f16[]", "1e10", "out of the range of f16"},
      {"f32[]", "1e39", "out of the range of f32"},
      {"f64[]", "1e400", "out of the range of f64"},
      {"f8e4m3fn[]", "inf", "out of the range of f8e4m3fn"},
      {"f4e2m1fn[]", "100", "out of the range of f4e2m1fn"},
      {"f4e2m1fn[]", "nan", "not a NaN that f4e2m1fn has"},
      {"f32[]", "nan(0x800000)", "not a NaN"},
      {"f32[]", "nan(0x0)", "not a NaN"},
      {"f32[]", "true", "not a number"},
      {"f32[]", "hello", "not a number"},
      {"f32[]", "infinity", "not a number"},
      {"f32[]", "0x10", "not a number"},
      {"f32[]", "1e", "not a number"},
      {"c64[]", "1", "(real, imaginary)"},
      {"c64[]", "(1, 2", "(real, imaginary)"},
      {"pred[]", "2", "not true, false"},
      {"f32[2]", "{1,,2}", "missing"},
      {"f32[2]", "{1 2}", "Expected ','"},
      {"f32[2]", "{1,2,}", "missing"},
      {"f32[2]", "{1,2", "ends within a literal"},
      {"f32[0]", "3", "has no elements"},
      {"token[]", "1", "has no literal"},
      {"f32[]", "1 2", "nothing more"}};
  for (auto [shape, text, what] : kCases) {
    std::string message = ErrorOf(shape, text);
    EXPECT_NE(message.find(what), std::string::npos) << shape << " " << text << "\n" << message;
  }
}

TEST(HloLiteral, ElidedConstantsAreFilledTheSameEachTime) {
  for (const char* shape :
       {"f32[7]", "pred[3]", "s1[4]", "u2[3]", "c64[2]", "f8e8m0fnu[9]", "f4e2m1fn[6]", "s64[3,3]"}) {
    Literal a = ReadLiteral(shape, "{...}");
    EXPECT_TRUE(a == ReadLiteral(shape, " { ... } ")) << shape;
    EXPECT_TRUE(a == ReadLiteral(shape, PrintLiteral(a))) << shape << " " << PrintLiteral(a);
  }
}

// Every pattern of the narrow types comes back with its bits.
TEST(HloLiteral, EveryNarrowPatternSurvives) {
  for (const char* type : {"f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz",
                           "f8e4m3fnuz", "f8e8m0fnu", "s8", "u8", "s16", "u16"}) {
    const bool wide = std::string_view(type).find("16") != std::string_view::npos;
    const int count = wide ? 65536 : 256;
    auto shape = ParseShape(Format("{}[{}]", type, count));
    ASSERT_TRUE(shape.has_value());
    Literal all = *Literal::Create(*shape);
    for (int i = 0; i < count; ++i) {
      if (wide) all.data<uint16_t>()[static_cast<std::size_t>(i)] = static_cast<uint16_t>(i);
      else all.data<uint8_t>()[static_cast<std::size_t>(i)] = static_cast<uint8_t>(i);
    }
    auto again = ParseLiteral(PrintLiteral(all), *shape);
    ASSERT_TRUE(again.has_value()) << type << again.error().ToString();
    for (int i = 0; i < count * StorageBytes(shape->element_type()); ++i)
      ASSERT_EQ(all.bytes()[static_cast<std::size_t>(i)], again->bytes()[static_cast<std::size_t>(i)])
          << type << " byte " << i;
  }
}

TEST(HloLiteral, RandomWidePatternsSurvive) {
  uint64_t state = 7;
  for (const char* text : {"f32[20000]", "f64[20000]", "c64[10000]", "c128[5000]", "s64[1000]", "u64[1000]"}) {
    auto shape = ParseShape(text);
    Literal l = *Literal::Create(*shape);
    for (std::size_t i = 0; i + 8 <= l.bytes().size(); i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      uint64_t mixed = state ^ state >> 31;
      std::memcpy(l.bytes().data() + i, &mixed, 8);
    }
    auto again = ParseLiteral(PrintLiteral(l), *shape);
    ASSERT_TRUE(again.has_value()) << text << again.error().ToString();
    EXPECT_TRUE(l == *again) << text;
  }
}

}  // namespace
}  // namespace krafla
