// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/weight_dot.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cpu_fallback/kernels/gemm.h"
#include "cpu_fallback/kernels/weight_panel.h"

namespace krafla::cpu {
namespace {

using CodeKind = CodeForm::Kind;

float OfBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
float InBf16(float number) {
  if (std::isnan(number)) return number;
  const auto bits = std::bit_cast<uint32_t>(number);
  return OfBf16(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

struct DotCase {
  CodeForm form;
  WeightKind how = WeightKind::kBf16Products;
  int64_t places = 1, columns = 1;
};

// A turn of random codes: each column has a scale of its own, and is multiplied with powers of two that pick one place.
// What is found is the weight itself.
class WeightTurn {
 public:
  explicit WeightTurn(const DotCase& c, std::vector<uint16_t> scales) : c_(c), scales_(std::move(scales)), random_(3) {
    stride_ = c.form.BytesOf(c.columns + 1) + 3;
    codes_.resize(static_cast<std::size_t>(stride_ * (c.places / c.form.places() + 1)));
    for (std::byte& b : codes_) b = static_cast<std::byte>(random_() & 0xff);
  }

  void Check() {
    const WeightDotFn dot = FindWeightDot(c_.form.kind, c_.how, ElementType::kBF16);
    if (dot == nullptr) return;
    for (int64_t place = 0; place < c_.places; ++place) {
      std::vector<float> vector(At(c_.places), 0.0f), sums(At(c_.columns), 0.0f);
      vector[At(place)] = 1;
      // Only of finite weights nothing is left where the vector has a zero.
      dot(c_.form, {.weights = codes_.data(),
                    .stride = stride_,
                    .places = c_.places,
                    .columns = c_.columns,
                    .vector = vector.data(),
                    .scales = reinterpret_cast<const std::byte*>(scales_.data()),
                    .sums = sums.data()});
      for (int64_t j = 0; j < c_.columns; ++j) {
        const float wanted = WeightAt(place, j);
        bool is_finite = true;
        for (int64_t p = 0; p < c_.places; ++p) is_finite = is_finite && std::isfinite(WeightAt(p, j));
        if (is_finite) EXPECT_EQ(sums[At(j)], wanted) << place << ", " << j << ", scale " << OfBf16(scales_[At(j)]);
        else EXPECT_FALSE(std::isfinite(sums[At(j)])) << place << ", " << j;
      }
    }
  }
  // As a matrix.
  void CheckPanel() {
    const WeightPanelFn panel = FindWeightPanel(c_.form.kind, c_.how, ElementType::kBF16);
    if (panel == nullptr) return;
    constexpr uint16_t kUntouched = 0x1234;
    const int64_t stride = c_.columns + 3;
    std::vector<uint16_t> made(At(c_.places * stride), kUntouched);
    panel(c_.form, {.weights = codes_.data(),
                    .stride = stride_,
                    .places = c_.places,
                    .columns = c_.columns,
                    .scales = reinterpret_cast<const std::byte*>(scales_.data()),
                    .to = made.data(),
                    .to_stride = stride});
    for (int64_t place = 0; place < c_.places; ++place) {
      for (int64_t j = 0; j < stride; ++j) {
        const uint16_t bits = made[At(place * stride + j)];
        if (j >= c_.columns) {
          ASSERT_EQ(bits, kUntouched) << place << ", " << j;
          continue;
        }
        const float wanted = WeightAt(place, j);
        if (std::isnan(wanted)) ASSERT_TRUE(std::isnan(OfBf16(bits))) << place << ", " << j;
        else ASSERT_EQ(OfBf16(bits), wanted) << place << ", " << j << ", scale " << OfBf16(scales_[At(j)]);
      }
    }
  }

 private:
  static std::size_t At(int64_t i) { return static_cast<std::size_t>(i); }
  int CodeAt(int64_t place, int64_t column) const {
    const std::byte* row = codes_.data() + place / c_.form.places() * stride_;
    const auto byte = [&](int64_t at) { return static_cast<int>(row[at]); };
    const CodeKind kind = c_.form.kind;
    if (kind == CodeKind::kColumnPairs) return byte(column / 2) >> (column % 2 * 4) & 15;
    if (kind == CodeKind::kRowPairs) return byte(column) >> (place % 2 * 4) & 15;
    if (kind == CodeKind::kWords) return byte(4 * column + place % 8 / 2) >> (place % 2 * 4) & 15;
    return kind == CodeKind::kHalves ? byte(column) & 15 : byte(column);
  }
  float WeightAt(int64_t place, int64_t column) const {
    const auto n = static_cast<float>((CodeAt(place, column) ^ c_.form.flip) - c_.form.zero);
    const float scale = OfBf16(scales_[At(column)]);
    return InBf16(c_.how == WeightKind::kBf16Quotients ? n / scale : n * scale);
  }

  DotCase c_;
  std::vector<uint16_t> scales_;
  std::mt19937 random_;
  std::vector<std::byte> codes_;
  int64_t stride_ = 0;
};

const CodeForm kForms[] = {{CodeKind::kBytes, 0x80, 128},  {CodeKind::kBytes, 0, 117},  {CodeKind::kColumnPairs, 8, 8},
                           {CodeKind::kColumnPairs, 0, 8}, {CodeKind::kRowPairs, 0, 8}, {CodeKind::kRowPairs, 8, 8},
                           {CodeKind::kWords, 0, 7},       {CodeKind::kHalves, 8, 8}};

// With the vectors of this processor, and with those of AVX2 where they are wider.
class WeightDot : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int64_t kWide = HWY_AVX3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR;
  void SetUp() override {
    is_wide_ = (hwy::SupportedTargets() & kWide) != 0;
    if (!GetParam()) return;
    if (!is_wide_) GTEST_SKIP() << "This processor has no wider vectors.";
    is_wide_ = false;
    Choose(kWide);
  }
  void TearDown() override { Choose(0); }

  bool is_wide_ = false;

 private:
  // SupportedTargets chooses anew, so that nothing asks for it between this and the test.
  static void Choose(int64_t without) {
    hwy::DisableTargets(without);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};
INSTANTIATE_TEST_SUITE_P(Vectors, WeightDot, ::testing::Bool(),
                         [](const auto& chosen) { return chosen.param ? "Avx2" : "Widest"; });

TEST_P(WeightDot, IsThereFromAvx2) {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  const bool has = true;
#endif
  for (const CodeForm& form : kForms)
    EXPECT_EQ(FindWeightDot(form.kind, WeightKind::kBf16Products, ElementType::kBF16) != nullptr, has);
  // Of wider vectors native code adds them up.
  EXPECT_EQ(FindWeightLines(CodeKind::kLinePairs, WeightKind::kCodes, ElementType::kF32) != nullptr, has && !is_wide_);
  // A rounding that takes one operation is one of numbers of eight bits.
  EXPECT_EQ(FindWeightDot(CodeKind::kBytes, WeightKind::kBf16Products, ElementType::kF32), nullptr);
}

// Each scale that bf16 has, by the codes of a byte or of four bits: to the bit, with infinities, NaNs and numbers that
// are subnormal or overflow when they are multiplied.
TEST_P(WeightDot, EveryScale) {
  for (const WeightKind how : {WeightKind::kBf16Products, WeightKind::kBf16Quotients}) {
    for (const CodeForm& form : kForms) {
      std::vector<uint16_t> scales;
      for (uint32_t s = 0; s < 0x10000; s += form.kind == CodeKind::kBytes ? 1 : 7)
        scales.push_back(static_cast<uint16_t>(s));
      const auto columns = static_cast<int64_t>(scales.size()) / 2 * 2 - 2;
      WeightTurn turn({form, how, 16, columns}, scales);
      turn.Check();
      turn.CheckPanel();
    }
  }
}

TEST_P(WeightDot, OddColumns) {
  for (const CodeForm& form : kForms)
    for (const int64_t columns : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 70})
      for (const WeightKind how : {WeightKind::kBf16Products, WeightKind::kBf16Quotients}) {
        WeightTurn turn({form, how, 8, columns}, std::vector<uint16_t>(80, 0x3e77));
        turn.Check();
        turn.CheckPanel();
      }
}

}  // namespace
}  // namespace krafla::cpu
