// SPDX-License-Identifier: Apache-2.0
// Batches of a computed operand that are the same: those that name the same matrix.
#include "cpu_fallback/executor/repeated_batches.h"

#include <gtest/gtest.h>

#include <array>

#include "kernel_fixture.h"

namespace krafla {
namespace {

using cpu::RepeatedBatches;
using plan::IndexId;
using plan::ProgramBuilder;

constexpr int64_t kBatches = 6, kDepth = 3, kLines = 5;

// An operand of kBatches batches, whose index in its buffer is what `index` makes, given the number that is loaded for
// a batch.
template <class Index>
std::optional<RepeatedBatches> Find(Index index) {
  const int64_t dims[] = {kBatches, kDepth, kLines};
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int numbers = b.AddBuffer(ElementType::kS32, kBatches + 1, false);
  const int matrices = b.AddBuffer(ElementType::kF32, 1000, false);
  const plan::NodeId number = b.Load(numbers, ElementType::kS32, space.AddConstant(space.Iter(0), 1));
  const IndexId within = space.Add(space.Mul(space.Iter(1), kLines), space.Iter(2));
  const IndexId matrix = space.Value(number, 0, 7, 1);
  b.AddResult(b.Load(matrices, ElementType::kF32, index(space, within, matrix)));
  return RepeatedBatches::Make(std::move(b).Finish());
}

TEST(RepeatedBatches, ThoseOfOneMatrix) {
  const auto found = Find([](auto& space, IndexId within, IndexId matrix) {
    return space.Add(within, space.Mul(matrix, kDepth * kLines));
  });
  ASSERT_TRUE(found);
  std::array<int32_t, kBatches + 1> numbers = {9, 2, 2, 2, 0, 1, 1};
  std::byte* const bindings[] = {reinterpret_cast<std::byte*>(numbers.data()), nullptr};
  EXPECT_EQ(found->CountFrom(0, kBatches, bindings), 3);
  EXPECT_EQ(found->CountFrom(1, kBatches, bindings), 2);
  EXPECT_EQ(found->CountFrom(3, kBatches, bindings), 1);
  EXPECT_EQ(found->CountFrom(4, kBatches, bindings), 2);
}

// An operand that all batches have in common.
TEST(RepeatedBatches, AllOfThem) {
  const auto found = Find([](auto&, IndexId within, IndexId) { return within; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->CountFrom(1, kBatches, {}), kBatches - 1);
}

TEST(RepeatedBatches, NoneWhereTheBatchIsNamed) {
  const auto alone = [](auto& space, IndexId within, IndexId) {
    return space.Add(within, space.Mul(space.Iter(0), kDepth * kLines));
  };
  EXPECT_FALSE(Find(alone));
  const auto divided = [](auto& space, IndexId within, IndexId) {
    return space.Add(within, space.Mul(space.FloorDiv(space.Iter(0), 2), kDepth * kLines));
  };
  EXPECT_FALSE(Find(divided));
}

}  // namespace
}  // namespace krafla
