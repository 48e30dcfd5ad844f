// SPDX-License-Identifier: Apache-2.0
// Rows that are multiplied with the matrix of their group (experts of a mixture): of small integers, so that every
// order of their sums gives the same.
#include <random>
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

INSTANTIATE_TEST_SUITE_P(Devices, RaggedDotTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
