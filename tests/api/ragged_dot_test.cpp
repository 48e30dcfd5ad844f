// SPDX-License-Identifier: Apache-2.0
// Rows that are multiplied with the matrix of their group (experts of a mixture): of small integers, so that every
// order of their sums gives the same.
#include <bit>
#include <random>
#include <span>
#include <vector>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

std::vector<float> WholeNumbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = static_cast<float>(random() % 5) - 2;
  return out;
}

class RaggedDotTest : public DeviceTest {
 protected:
  void Check(int64_t rows, const std::vector<int32_t>& sizes) {
    constexpr int64_t kExpertDepth = 72, kExpertColumns = 100;
    const auto groups = std::ssize(sizes);
    const std::vector<float> x = WholeNumbers(rows * kExpertDepth, 1),
                             w = WholeNumbers(groups * kExpertDepth * kExpertColumns, 2);
    const std::vector<Literal> results =
        Run(Format(R"(HloModule experts
ENTRY main {{
  x = f32[{0},{2}] parameter(0)
  w = f32[{1},{2},{3}] parameter(1)
  s = s32[{1}] parameter(2)
  ROOT r = f32[{0},{3}] ragged-dot(x, w, s), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}
}})",
                   rows, groups, kExpertDepth, kExpertColumns),
            {MakeLiteral<float>(Format("f32[{},{}]", rows, kExpertDepth), x),
             MakeLiteral<float>(Format("f32[{},{},{}]", groups, kExpertDepth, kExpertColumns), w),
             MakeLiteral<int32_t>(Format("s32[{}]", groups), sizes)});
    ASSERT_EQ(results.size(), 1u);
    std::vector<float> expected(static_cast<std::size_t>(rows * kExpertColumns), 0.0f);
    int64_t row = 0;
    for (int64_t g = 0; g < groups; ++g)
      for (int32_t n = 0; n < sizes[static_cast<std::size_t>(g)] && row < rows; ++n, ++row)
        for (int64_t k = 0; k < kExpertDepth; ++k)
          for (int64_t c = 0; c < kExpertColumns; ++c)
            expected[static_cast<std::size_t>(row * kExpertColumns + c)] +=
                x[static_cast<std::size_t>(row * kExpertDepth + k)] *
                w[static_cast<std::size_t>((g * kExpertDepth + k) * kExpertColumns + c)];
    EXPECT_EQ(Values<float>(results[0]), expected) << rows << " rows";
  }
};

TEST_P(RaggedDotTest, FewRows) {
  Check(2, std::vector<int32_t>{0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  Check(11, std::vector<int32_t>{3, 0, 4, 1, 2});  // one row is of no group
}

TEST_P(RaggedDotTest, ManyRows) {
  Check(100, std::vector<int32_t>{40, 0, 7, 53});
  Check(100, std::vector<int32_t>{0, 100, 0});
  Check(90, std::vector<int32_t>{9, 8, 70, 60});  // more than there are
  Check(90, std::vector<int32_t>{1, 0, 16});
}

// An expert's weights are read where they lie.
TEST_P(RaggedDotTest, NoMatrixIsCopied) {
  if (options_.disabled.count("fusion") != 0) GTEST_SKIP() << "Nothing is computed where it is read.";
  auto executable = Compile(R"(HloModule experts
ENTRY main {
  x = f32[2,256] parameter(0)
  w = f32[16,256,512] parameter(1)
  s = s32[16] parameter(2)
  ROOT r = f32[2,512] ragged-dot(x, w, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
})");
  ASSERT_NE(executable, nullptr);
  EXPECT_LT(executable->report().arena_bytes, 65536);
}

// Weights of four bits, two to a byte, with a scale for 32 rows: each row's expert is read where it lies.
TEST_P(RaggedDotTest, PackedExperts) {
  constexpr int64_t kExperts = 24, kPackedDepth = 64, kPackedColumns = 192, kRows = 3;
  const std::string text = R"(HloModule experts
ENTRY main {
  x = bf16[3,64] parameter(0)
  q = u8[24,32,192] parameter(1)
  scale = bf16[24,2,192] parameter(2)
  s = s32[24] parameter(3)
  low_bits = u8[] constant(15)
  four = u8[] constant(4)
  masks = u8[24,32,192] broadcast(low_bits), dimensions={}
  shifts = u8[24,32,192] broadcast(four), dimensions={}
  low = u8[24,32,192] and(q, masks)
  high = u8[24,32,192] shift-right-logical(q, shifts)
  low_one = u8[24,32,1,192] reshape(low)
  high_one = u8[24,32,1,192] reshape(high)
  both = u8[24,32,2,192] concatenate(low_one, high_one), dimensions={2}
  codes = s8[24,32,2,192] convert(both)
  eight = s8[] constant(8)
  middle = s8[24,32,2,192] broadcast(eight), dimensions={}
  signed = s8[24,32,2,192] subtract(codes, middle)
  wide = bf16[24,32,2,192] convert(signed)
  groups = bf16[24,2,32,192] reshape(wide)
  scales = bf16[24,2,32,192] broadcast(scale), dimensions={0,1,3}
  scaled = bf16[24,2,32,192] multiply(groups, scales)
  w = bf16[24,64,192] reshape(scaled)
  ROOT r = f32[3,192] ragged-dot(x, w, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
})";
  std::mt19937 random(7);
  const std::vector<float> xs = WholeNumbers(kRows * kPackedDepth, 3);
  std::vector<float> scales(kExperts * 2 * kPackedColumns);
  for (float& scale : scales) scale = random() % 2 != 0 ? 0.5f : 2.0f;
  std::vector<uint8_t> bytes(kExperts * kPackedDepth / 2 * kPackedColumns);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  constexpr int64_t kExpertOfRow[] = {5, 5, 21};
  std::vector<int32_t> sizes(kExperts, 0);
  sizes[5] = 2, sizes[21] = 1;
  // Small whole numbers and powers of two as bf16: the upper half of the bits of an f32.
  const auto as_bf16 = [](std::span<const float> values) {
    std::vector<uint16_t> out;
    for (float value : values) out.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    return out;
  };
  std::vector<float> expected(kRows * kPackedColumns, 0.0f);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t k = 0; k < kPackedDepth; ++k)
      for (int64_t c = 0; c < kPackedColumns; ++c) {
        const int64_t e = kExpertOfRow[r];
        const int byte = bytes[static_cast<std::size_t>((e * 32 + k / 2) * kPackedColumns + c)];
        expected[static_cast<std::size_t>(r * kPackedColumns + c)] +=
            xs[static_cast<std::size_t>(r * kPackedDepth + k)] *
            static_cast<float>((k % 2 == 0 ? byte & 15 : byte >> 4) - 8) *
            scales[static_cast<std::size_t>((e * 2 + k / 32) * kPackedColumns + c)];
      }
  const std::vector<Literal> results =
      Run(text, {MakeLiteral<uint16_t>("bf16[3,64]", as_bf16(xs)), MakeLiteral<uint8_t>("u8[24,32,192]", bytes),
                 MakeLiteral<uint16_t>("bf16[24,2,192]", as_bf16(scales)), MakeLiteral<int32_t>("s32[24]", sizes)});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(Values<float>(results[0]), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, RaggedDotTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
