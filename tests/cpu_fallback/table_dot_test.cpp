// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/table_dot.h"

#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "base/checked_math.h"
#include "bf16_numbers.h"

namespace krafla::cpu {
namespace {

// Files that choose their instruction sets are compiled for these, whatever other kernels are compiled for.
TEST(TableDot, IsThereWhereTheProcessorHasIt) {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi2");
#else
  const bool has = false;
#endif
  for (const ElementType scales : {ElementType::kF32, ElementType::kF16, ElementType::kBF16})
    for (const TableKind kind : {TableKind::kProducts, TableKind::kDifferences, TableKind::kQuotients})
      for (const TableForm form : {TableForm::kColumnPairs, TableForm::kRowPairs, TableForm::kWords})
        EXPECT_EQ(FindTableDot(scales, kind, form) != nullptr, has);
  EXPECT_EQ(FindTableLines(ElementType::kBF16) != nullptr, has);
  EXPECT_EQ(FindTableDot(ElementType::kS8, TableKind::kProducts, TableForm::kWords), nullptr);
}

float RoundTrip(float number) { return NumberOfBf16(NearestBf16(number)); }

// A product whose sizes, codes, scales and zero points are random.
struct TableCase {
  TableForm form;
  TableKind kind;
  int64_t rows, columns, group, zero_range;
};

class TableDotProduct {
 public:
  explicit TableDotProduct(const TableCase& c, uint32_t seed) : c_(c), random_(seed) {
    for (int i = 0; i < 16; ++i) table_[static_cast<std::size_t>(i)] = i < 8 ? i : i - 16;
    // Bytes behind the columns, which are none of its own.
    stride_ = BytesOfRow() + 5;
    codes_.resize(static_cast<std::size_t>(c.rows * stride_));
    for (std::byte& b : codes_) b = static_cast<std::byte>(random_() & 0xff);
    const int64_t groups = CeilDiv(Depth(), c.group);
    scales_.resize(static_cast<std::size_t>(groups * ScalesStride()), 0x7fc0);
    zeros_.resize(scales_.size(), 1 << 20);
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t n = 0; n < c.columns; ++n) {
        const float scale = static_cast<float>(random_() % 4000 + 1) * 0x1p-10f;
        scales_[At(g * ScalesStride() + n)] = NearestBf16(random_() % 7 == 0 ? -scale : scale);
        zeros_[At(g * ScalesStride() + n)] = static_cast<int32_t>(random_() % (2 * c.zero_range + 1)) - c.zero_range;
      }
    vector_.resize(static_cast<std::size_t>(Depth()));
    for (uint16_t& x : vector_) x = NearestBf16((static_cast<float>(random_() % 2001) - 1000) * 0x1p-9f);
  }

  void Check() {
    const TableDotFn dot = FindTableDot(ElementType::kBF16, c_.kind, c_.form);
    if (dot == nullptr) return;
    std::vector<uint16_t> placed(vector_.size());
    const int64_t places = PlacesOfRow(c_.form);
    for (int64_t k = 0; k < Depth(); ++k) {
      const int64_t row = k / places, block = row / kTableRows;
      placed[At((block * places + k % places) * kTableRows + row % kTableRows)] = vector_[At(k)];
    }
    std::vector<float> sums(static_cast<std::size_t>(c_.columns + 1), 0.5f);
    WeightRows turn{.table = table_.data(),
                    .codes = codes_.data(),
                    .stride = stride_,
                    .rows = c_.rows,
                    .columns = c_.columns,
                    .group = c_.group,
                    .scales = reinterpret_cast<const std::byte*>(scales_.data()),
                    .scales_stride = ScalesStride(),
                    .zeros = c_.zero_range > 0 ? zeros_.data() : nullptr,
                    .zeros_stride = ScalesStride(),
                    .vector = placed.data(),
                    .sums = sums.data()};
    dot(turn);
    EXPECT_EQ(sums.back(), 0.5f);
    for (int64_t n = 0; n < c_.columns; ++n) {
      double sum = 0.5, size = 0.5;
      for (int64_t k = 0; k < Depth(); ++k) {
        const double product = double{NumberOfBf16(vector_[At(k)])} * double{WeightAt(k, n)};
        sum += product, size += std::abs(product);
      }
      ASSERT_NEAR(sums[At(n)], sum, size * 0x1p-21) << "column " << n;
    }
  }

 private:
  static std::size_t At(int64_t i) { return static_cast<std::size_t>(i); }
  int64_t Depth() const { return c_.rows * PlacesOfRow(c_.form); }
  int64_t ScalesStride() const { return c_.columns + 3; }
  int64_t BytesOfRow() const {
    return c_.form == TableForm::kColumnPairs ? c_.columns / 2
           : c_.form == TableForm::kRowPairs  ? c_.columns
                                              : 4 * c_.columns;
  }
  int CodeAt(int64_t k, int64_t n) const {
    const int64_t places = PlacesOfRow(c_.form), row = k / places, place = k % places;
    int64_t nibble = 0;
    if (c_.form == TableForm::kColumnPairs) nibble = n;
    if (c_.form == TableForm::kRowPairs) nibble = 2 * n + place;
    if (c_.form == TableForm::kWords) nibble = 8 * n + place;
    return std::to_integer<int>(codes_[At(row * stride_ + nibble / 2)] >> (nibble % 2 * 4)) & 15;
  }
  float WeightAt(int64_t k, int64_t n) const {
    const std::size_t factor = At(k / c_.group * ScalesStride() + n);
    const float scale = NumberOfBf16(scales_[factor]);
    const int32_t zero = c_.zero_range > 0 ? zeros_[factor] : 0;
    const float code = RoundTrip(static_cast<float>(table_[At(CodeAt(k, n))] - zero));
    return RoundTrip(c_.kind == TableKind::kQuotients ? code / scale : code * scale);
  }

  TableCase c_;
  std::mt19937 random_;
  std::array<int32_t, 16> table_{};
  std::vector<std::byte> codes_;
  std::vector<uint16_t> scales_, vector_;
  std::vector<int32_t> zeros_;
  int64_t stride_ = 0;
};

TEST(TableDot, RoundsAsTheProgramSays) {
  uint32_t seed = 1;
  for (const TableForm form : {TableForm::kColumnPairs, TableForm::kRowPairs, TableForm::kWords})
    for (const TableKind kind : {TableKind::kProducts, TableKind::kDifferences, TableKind::kQuotients})
      for (const int64_t rows : {8, 40, 128})
        for (const int64_t columns : {2, 30, 64, 128, 390, 2200})
          for (const int64_t group : {8, 32, 1024})
            for (const int64_t zero_range : {0, 15, 1000}) {
              if (kind == TableKind::kProducts && zero_range > 0) continue;
              const TableCase c{form, kind, rows, columns, group * PlacesOfRow(form), zero_range};
              SCOPED_TRACE(testing::Message() << "form " << int{static_cast<uint8_t>(form)} << " kind "
                                              << int{static_cast<uint8_t>(kind)} << " rows " << rows << " columns "
                                              << columns << " group " << group << " zeros " << zero_range);
              TableDotProduct(c, seed++).Check();
              if (testing::Test::HasFatalFailure()) return;
            }
}

// Lines along the depth, of which a row of two places is a byte of the same.
TEST(TableDot, LinesAlongTheDepth) {
  const TableLinesFn dot = FindTableLines(ElementType::kF16);
  if (dot == nullptr) return;
  std::mt19937 random(7);
  std::array<int32_t, 16> table{};
  for (int i = 0; i < 16; ++i) table[static_cast<std::size_t>(i)] = i - 8;
  const auto at = [](int64_t i) { return static_cast<std::size_t>(i); };
  for (const int64_t lines : {1, 4, 11})
    for (const int64_t depth : {32, 96, 224, 896, 17408})
      for (const int64_t group : {int64_t{32}, int64_t{64}, depth}) {
        if (depth % group != 0) continue;
        const int64_t stride = depth / 2 + 3, scales_stride = depth / group + 1;
        std::vector<std::byte> codes(at(lines * stride));
        for (std::byte& b : codes) b = static_cast<std::byte>(random() & 0xff);
        std::vector<uint16_t> scales(at(lines * scales_stride)), vector(at(depth)), placed(at(depth));
        // Normal numbers of f16.
        for (uint16_t& s : scales) s = static_cast<uint16_t>(0x1400 + random() % 0x2000);
        for (int64_t k = 0; k < depth; ++k) {
          vector[at(k)] = NearestBf16((static_cast<float>(random() % 2001) - 1000) * 0x1p-9f);
          placed[at(k / 32 * 32 + k % 4 * 8 + k % 32 / 4)] = vector[at(k)];
        }
        std::vector<float> sums(at(lines + 1), 0.5f);
        dot(table.data(), {.weights = codes.data(),
                           .stride = stride,
                           .lines = lines,
                           .depth = depth,
                           .group = group,
                           .scales = reinterpret_cast<const std::byte*>(scales.data()),
                           .scales_stride = scales_stride,
                           .vector = placed.data(),
                           .sums = sums.data()});
        EXPECT_EQ(sums.back(), 0.5f);
        for (int64_t n = 0; n < lines; ++n) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const int code = std::to_integer<int>(codes[at(n * stride + k / 2)] >> (k % 2 * 4)) & 15;
            const uint16_t half = scales[at(n * scales_stride + k / group)];
            const float scale = std::ldexp(1024.0f + static_cast<float>(half & 0x3ff), (half >> 10) - 25);
            const double product =
                double{RoundTrip(static_cast<float>(code - 8) * scale)} * double{NumberOfBf16(vector[at(k)])};
            sum += product, size += std::abs(product);
          }
          ASSERT_NEAR(sums[at(n)], sum, size * 0x1p-20) << lines << " lines of " << depth << " in " << group;
        }
      }
}

}  // namespace
}  // namespace krafla::cpu
