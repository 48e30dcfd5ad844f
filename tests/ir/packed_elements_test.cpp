// SPDX-License-Identifier: Apache-2.0
#include "ir/packed_elements.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

Shape ShapeOf(std::string_view text) { return *ParseShape(text); }

std::vector<int> Bytes(const Literal& literal) {
  std::vector<int> out;
  for (const std::byte b : literal.bytes()) out.push_back(static_cast<int>(b));
  return out;
}

Literal Of(std::string_view shape, const std::vector<int8_t>& values) {
  return *Literal::FromBytes(ShapeOf(shape), std::as_bytes(std::span(values)));
}

TEST(PackedElements, WhichArraysAndHow) {
  EXPECT_EQ(PackedShape(ShapeOf("s4[3,6]")).ToString(false), "u8[3,3]");
  EXPECT_EQ(PackedShape(ShapeOf("u2[3,8]")).ToString(false), "u8[3,2]");
  EXPECT_EQ(PackedShape(ShapeOf("s4[3,5]")).ToString(false), "u8[8]");
  EXPECT_EQ(PackedShape(ShapeOf("u1[3]")).ToString(false), "u8[1]");
  EXPECT_EQ(PackedShape(ShapeOf("f4e2m1fn[2,2]")).ToString(false), "u8[2,1]");
  for (const std::string_view text : {"pred[8]", "s8[8]", "f32[2]", "s4[]", "s4[0,4]", "s4[<=4]", "f8e4m3fn[4]"})
    EXPECT_FALSE(IsPackable(ShapeOf(text))) << text;
  EXPECT_EQ(DeviceBytes(ShapeOf("s4[3,5]")), 8);
  EXPECT_EQ(DeviceBytes(ShapeOf("s4[]")), 1);
  EXPECT_EQ(DeviceBytes(ShapeOf("f32[3,5]")), 60);
}

// XLA's order: the first element in the lowest bits (xla/util.h, PackIntN).
TEST(PackedElements, FirstElementsInTheLowestBits) {
  EXPECT_EQ(Bytes(*PackedLiteral(Of("s4[4]", {1, -2, 7, -8}))), (std::vector{0xe1, 0x87}));
  EXPECT_EQ(Bytes(*PackedLiteral(Of("u4[3]", {1, 14, 15}))), (std::vector{0xe1, 0x0f}));
  EXPECT_EQ(Bytes(*PackedLiteral(Of("u2[5]", {1, 2, 3, 0, 2}))), (std::vector{0x39, 0x02}));
  EXPECT_EQ(Bytes(*PackedLiteral(Of("s1[9]", {-1, 0, 0, -1, 0, 0, 0, 0, -1}))), (std::vector{0x09, 0x01}));
}

TEST(PackedElements, ComeBackAsTheyWere) {
  for (const std::string_view type : {"s4", "u4", "s2", "u2", "s1", "u1", "f4e2m1fn"}) {
    for (int count = 1; count < 70; ++count) {
      const Shape shape = ShapeOf(Format("{}[{}]", type, count));
      const int bits = BitWidth(shape.element_type());
      std::vector<int8_t> values;
      for (int i = 0; i < count; ++i) {
        int value = (i * 7 + i / 16) & ((1 << bits) - 1);
        if (IsSigned(shape.element_type()) && value >= 1 << (bits - 1)) value -= 1 << bits;
        values.push_back(static_cast<int8_t>(value));
      }
      const Literal whole = *Literal::FromBytes(shape, std::as_bytes(std::span(values)));
      const Literal packed = *PackedLiteral(whole);
      EXPECT_EQ(std::ssize(packed.bytes()), DeviceBytes(shape));
      EXPECT_TRUE(*UnpackedLiteral(packed, shape) == whole) << type << " " << count;
    }
  }
}

}  // namespace
}  // namespace krafla
