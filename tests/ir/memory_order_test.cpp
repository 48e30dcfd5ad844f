// SPDX-License-Identifier: Apache-2.0
#include "ir/memory_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace krafla {
namespace {

Shape WithLayout(ElementType type, Dims dims, Dims minor_to_major, std::string tail = "") {
  Shape out = *Shape::MakeArray(type, dims);
  EXPECT_TRUE(out.SetLayout({minor_to_major, std::move(tail)}).has_value());
  return out;
}

TEST(MemoryOrder, ColumnMajor) {
  Literal literal = *Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{2, 3}));
  std::iota(literal.data<int32_t>().begin(), literal.data<int32_t>().end(), 0);  // {{0,1,2},{3,4,5}}
  std::array<int32_t, 6> columns{};
  auto bytes = std::as_writable_bytes(std::span(columns));
  ASSERT_TRUE(WriteInLayout(literal, {Dims{0, 1}, ""}, bytes).has_value());
  EXPECT_EQ(columns, (std::array<int32_t, 6>{0, 3, 1, 4, 2, 5}));
  auto back = ReadInLayout(bytes, WithLayout(ElementType::kS32, {2, 3}, {0, 1}));
  ASSERT_TRUE(back.has_value()) << back.error().ToString();
  EXPECT_TRUE(*back == literal);
}

// Element by element against the definition, for every order of three dimensions and every width.
TEST(MemoryOrder, EveryOrder) {
  for (Dims dims : {Dims{3, 5, 2}, Dims{40, 1, 35}, Dims{1, 1, 7}, Dims{4, 0, 3}})
    for (ElementType type :
         {ElementType::kU8, ElementType::kBF16, ElementType::kF32, ElementType::kF64, ElementType::kC128}) {
      Literal literal = *Literal::Create(*Shape::MakeArray(type, dims));
      for (std::size_t b = 0; b < literal.bytes().size(); ++b)
        literal.bytes()[b] = static_cast<std::byte>(b * 7 + b / 256);
      std::array<int64_t, 3> order = {0, 1, 2};
      do {
        Shape shape = WithLayout(type, dims, Dims(order.begin(), order.end()));
        std::vector<std::byte> memory(literal.bytes().size()), expected(memory.size());
        const auto size = static_cast<std::size_t>(StorageBytes(type));
        std::array<int64_t, 3> at{};
        for (int64_t linear = 0; linear < literal.shape().element_count(); ++linear) {
          DelinearizeIndex(linear, dims, at);
          int64_t place = 0;
          for (std::size_t n = 3; n-- > 0;) {
            const auto d = static_cast<std::size_t>(order[n]);
            place = place * dims[d] + at[d];
          }
          std::copy_n(literal.bytes().begin() + linear * static_cast<int64_t>(size), size,
                      expected.begin() + place * static_cast<int64_t>(size));
        }
        ASSERT_TRUE(WriteInLayout(literal, shape.layout(), memory).has_value());
        EXPECT_EQ(memory, expected) << shape.ToString();
        auto back = ReadInLayout(memory, shape);
        ASSERT_TRUE(back.has_value());
        EXPECT_TRUE(*back == literal) << shape.ToString();
      } while (std::ranges::next_permutation(order).found);
    }
}

TEST(MemoryOrder, Refuses) {
  Literal literal = *Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{2, 3}));
  std::vector<std::byte> memory(24);
  EXPECT_EQ(WriteInLayout(literal, {Dims{0, 1}, "T(8,128)"}, memory).error().code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(WriteInLayout(literal, {Dims{0, 1}, "S(1)"}, memory).has_value());
  EXPECT_EQ(WriteInLayout(literal, {Dims{0, 0}, ""}, memory).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteInLayout(literal, {Dims{0, 1}, ""}, std::span(memory).first(20)).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadInLayout(std::span(memory).first(20), literal.shape()).error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace krafla
