// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/byte_lines.h"

#include <gtest/gtest.h>
#include <cmath>
#include <random>
#include <vector>

#include "base/index.h"
#include "bf16_numbers.h"

namespace krafla::cpu {
namespace {

struct ByteCase {
  int64_t lines, depth, group;
  bool has_scales;
};

void CheckByteLines(const ByteCase& c, std::mt19937& random) {
  const ByteLinesFn dot = FindByteLines(ElementType::kBF16);
  if (dot == nullptr) return;
  const int64_t stride = c.depth + 3, groups = c.depth / c.group, scales_stride = groups + 1;
  std::vector<std::byte> weights(At(c.lines * stride));
  for (std::byte& b : weights) b = static_cast<std::byte>(random() & 0xff);
  // What lies between the lines' scales, and behind the vector, is no number.
  std::vector<uint16_t> scales(At(c.lines * scales_stride), 0x7fc0), vector(At(c.depth + 64), 0x7fc0);
  for (int64_t n = 0; n < c.lines; ++n)
    for (int64_t g = 0; g < groups; ++g)
      scales[At(n * scales_stride + g)] = NearestBf16((static_cast<float>(random() % 4001) - 2000) * 0x1p-12f);
  for (int64_t k = 0; k < c.depth; ++k)
    vector[At(k)] = NearestBf16((static_cast<float>(random() % 2001) - 1000) * 0x1p-9f);
  std::vector<float> sums(At(c.lines + 1), 0.5f);
  dot({.weights = weights.data(),
       .stride = stride,
       .lines = c.lines,
       .depth = c.depth,
       .group = c.group,
       .scales = c.has_scales ? reinterpret_cast<const std::byte*>(scales.data()) : nullptr,
       .scales_stride = scales_stride,
       .vector = vector.data(),
       .sums = sums.data()});
  EXPECT_EQ(sums.back(), 0.5f);
  for (int64_t n = 0; n < c.lines; ++n) {
    double sum = 0, size = 0;
    for (int64_t k = 0; k < c.depth; ++k) {
      const float byte = static_cast<float>(std::to_integer<int8_t>(weights[At(n * stride + k)]));
      const float scale = c.has_scales ? NumberOfBf16(scales[At(n * scales_stride + k / c.group)]) : 1;
      const double product = double{NumberOfBf16(NearestBf16(byte * scale))} * double{NumberOfBf16(vector[At(k)])};
      sum += product, size += std::abs(product);
    }
    ASSERT_NEAR(sums[At(n)], sum, size * 0x1p-21) << c.lines << " lines of " << c.depth << " in " << c.group;
  }
}

TEST(ByteLines, RoundAsTheProgramSays) {
  std::mt19937 random(11);
  for (const int64_t lines : {1, 4, 11})
    for (const int64_t depth : {1, 31, 64, 100, 128, 896, 4865})
      for (const int64_t group : {int64_t{64}, depth})
        for (const bool has_scales : {true, false})
          if (depth % group == 0) CheckByteLines({lines, depth, group, has_scales}, random);
}

}  // namespace
}  // namespace krafla::cpu
