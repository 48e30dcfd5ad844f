// SPDX-License-Identifier: Apache-2.0
// Operands of which nothing is computed but where they begin.
#include "cpu_fallback/executor/matrix_in_memory.h"

#include <gtest/gtest.h>

#include <array>

#include "kernel_fixture.h"

namespace krafla {
namespace {

using cpu::MatrixInMemory;
using plan::NodeId;
using plan::ProgramBuilder;

constexpr int64_t kNamedBatches = 3, kNamedDepth = 5, kNamedLines = 7, kNamedMatrices = 4;

struct NamedWish {
  int64_t depth_stride = kNamedLines, line_stride = 1;
  bool doubles = false, by_line = false;
};
// [batch, depth, lines] of the matrix that a number names.
std::optional<MatrixInMemory> FindNamed(const NamedWish& wish, ElementType type = ElementType::kF32,
                                        bool is_rhs = true) {
  const int64_t dims[] = {kNamedBatches, is_rhs ? kNamedDepth : kNamedLines, is_rhs ? kNamedLines : kNamedDepth};
  ProgramBuilder b(dims);
  auto& s = b.space();
  const int numbers = b.AddBuffer(ElementType::kS32, kNamedLines * kNamedBatches, false);
  const int matrices = b.AddBuffer(ElementType::kF32, kNamedMatrices * kNamedDepth * kNamedLines * 2, false);
  const NodeId number = b.Load(numbers, ElementType::kS32, s.Iter(wish.by_line ? 2 : 0));
  const auto begin = s.Mul(b.ClampedIndex(number, 0, kNamedMatrices - 1), kNamedDepth * kNamedLines);
  const auto within =
      s.Add(s.Mul(s.Iter(is_rhs ? 1 : 2), wish.depth_stride), s.Mul(s.Iter(is_rhs ? 2 : 1), wish.line_stride));
  NodeId value = b.Load(matrices, ElementType::kF32, s.Add(begin, within));
  if (wish.doubles) value = b.Hlo(Opcode::kAdd, ElementType::kF32, {value, value});
  b.AddResult(value);
  return MatrixInMemory::Make(std::move(b).Finish(), is_rhs, type);
}

TEST(MatrixInMemory, BeginsWhereANumberSays) {
  for (const bool is_rhs : {true, false}) {
    const auto found = FindNamed({}, ElementType::kF32, is_rhs);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->depth_stride(), kNamedLines);
    EXPECT_EQ(found->line_stride(), 1);
    std::array<int32_t, kNamedLines * kNamedBatches> numbers = {2, 0, 9};
    std::vector<float> matrices(kNamedMatrices * kNamedDepth * kNamedLines * 2);
    std::byte* const bindings[] = {reinterpret_cast<std::byte*>(numbers.data()),
                                   reinterpret_cast<std::byte*>(matrices.data())};
    AlignedBytes frame(static_cast<std::size_t>(found->frame_bytes()));
    found->Start(frame.data(), bindings);
    const int64_t want[] = {2, 0, kNamedMatrices - 1};  // a number beyond the last matrix is the last one's
    for (int64_t batch = 0; batch < kNamedBatches; ++batch) {
      const int64_t index[] = {batch};
      EXPECT_EQ(found->Find(frame.data(), index, bindings), bindings[1] + want[batch] * kNamedDepth * kNamedLines * 4);
    }
  }
}

TEST(MatrixInMemory, MayLieAcross) {
  const auto found = FindNamed({.depth_stride = 1, .line_stride = kNamedDepth});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->depth_stride(), 1);
  EXPECT_EQ(found->line_stride(), kNamedDepth);
}

TEST(MatrixInMemory, NotWhereElementsAreComputedOrLieApart) {
  EXPECT_FALSE(FindNamed({.doubles = true}));
  EXPECT_FALSE(FindNamed({.by_line = true}));
  EXPECT_FALSE(FindNamed({.depth_stride = 2 * kNamedLines, .line_stride = 2}));
  EXPECT_FALSE(FindNamed({}, ElementType::kBF16));
}

}  // namespace
}  // namespace krafla
