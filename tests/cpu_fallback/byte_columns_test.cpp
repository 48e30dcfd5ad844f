// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/byte_columns.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/index.h"
#include "bf16_numbers.h"

namespace krafla::cpu {
namespace {

struct ColumnsCase {
  int64_t rows, columns, group;
  float unit = 0x1p-12f;  // of scales
};

void CheckByteColumns(const ColumnsCase& c, std::mt19937& random) {
  const ByteColumnsFn dot = FindByteColumns(ElementType::kBF16);
  if (dot == nullptr) return;
  const int64_t stride = c.columns + 5, groups = (c.rows + c.group - 1) / c.group, scales_stride = c.columns + 1;
  std::vector<std::byte> codes(At(c.rows * stride));
  for (std::byte& b : codes) b = static_cast<std::byte>(random() & 0xff);
  // What lies between the groups' scales is no number.
  std::vector<uint16_t> scales(At(groups * scales_stride), 0x7fc0), vector(At(c.rows));
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < c.columns; ++n)
      scales[At(g * scales_stride + n)] = NearestBf16((static_cast<float>(random() % 4001) - 2000) * c.unit);
  for (uint16_t& x : vector) x = NearestBf16((static_cast<float>(random() % 2001) - 1000) * 0x1p-16f);
  std::vector<float> sums(At(c.columns + 1), 0.5f);
  dot({.codes = codes.data(),
       .stride = stride,
       .rows = c.rows,
       .columns = c.columns,
       .group = c.group,
       .next = codes.data(),
       .next_rows = c.rows,
       .scales = reinterpret_cast<const std::byte*>(scales.data()),
       .scales_stride = scales_stride,
       .vector = vector.data(),
       .sums = sums.data()});
  EXPECT_EQ(sums.back(), 0.5f);
  for (int64_t n = 0; n < c.columns; ++n) {
    double sum = 0.5, size = 0.5;
    for (int64_t k = 0; k < c.rows; ++k) {
      const float byte = static_cast<float>(std::to_integer<int8_t>(codes[At(k * stride + n)]));
      const float scale = NumberOfBf16(scales[At(k / c.group * scales_stride + n)]);
      const double product = double{NumberOfBf16(NearestBf16(byte * scale))} * double{NumberOfBf16(vector[At(k)])};
      sum += product, size += std::abs(product);
    }
    ASSERT_NEAR(sums[At(n)], sum, size * 0x1p-21) << c.rows << " x " << c.columns << " in " << c.group;
  }
}

TEST(ByteColumns, RoundAsTheProgramSays) {
  std::mt19937 random(12);
  for (const int64_t columns : {1, 17, 64, 100, 896, 4100})
    for (const int64_t rows : {2, 8, 16})
      for (const int64_t group : {int64_t{2}, int64_t{8}, int64_t{64}})
        CheckByteColumns({rows, columns, group}, random);
}

// The rest of a fused product would be infinite, but the weights are numbers.
TEST(ByteColumns, HaveLargeScales) {
  std::mt19937 random(13);
  CheckByteColumns({16, 130, 8, 0x1p105f}, random);
}

// One column's scale is infinite: its weights are infinite too, but for bytes that are 0, and the others as ever.
TEST(ByteColumns, KeepInfiniteScalesToTheirColumn) {
  const ByteColumnsFn dot = FindByteColumns(ElementType::kBF16);
  if (dot == nullptr) return;
  std::vector<std::byte> codes(2 * 64, std::byte{3});
  std::vector<uint16_t> scales(64, 0x3f80), vector(2, 0x3f80);
  scales[5] = 0x7f80;
  std::vector<float> sums(64, 0.0f);
  dot({.codes = codes.data(),
       .stride = 64,
       .rows = 2,
       .columns = 64,
       .group = 2,
       .next = codes.data(),
       .scales = reinterpret_cast<const std::byte*>(scales.data()),
       .vector = vector.data(),
       .sums = sums.data()});
  for (std::size_t n = 0; n < sums.size(); ++n)
    EXPECT_EQ(sums[n], n == 5 ? std::numeric_limits<float>::infinity() : 6.0f) << n;
}

}  // namespace
}  // namespace krafla::cpu
