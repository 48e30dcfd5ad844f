// SPDX-License-Identifier: Apache-2.0
#include "plan/index_expr.h"

#include <gtest/gtest.h>

#include "index_text.h"

namespace krafla::plan {
namespace {

// What becomes of an expression over an iteration space of `dims`.
std::string Made(std::initializer_list<int64_t> dims, std::string_view text) {
  IndexSpace space(std::span<const int64_t>(dims.begin(), dims.size()));
  return IndexText(space, IndexReader(space, text).Read());
}

TEST(IndexExprTest, SumsAreInOrderOfTheirAtoms) {
  EXPECT_EQ(Made({8, 9}, "i0 + 3*i1 + 2*i0 + 4"), "3*i0 + 3*i1 + 4");
  EXPECT_EQ(Made({8, 9}, "i0 - i0"), "0");
  EXPECT_EQ(Made({8, 1}, "i0 + 5*i1"), "i0");  // an iterator over one element is 0
}

TEST(IndexExprTest, MultiplesLeaveADivision) {
  EXPECT_EQ(Made({8, 9}, "(9*i0 + i1)/9"), "i0");
  EXPECT_EQ(Made({8, 9}, "(9*i0 + i1)%9"), "i1");
  EXPECT_EQ(Made({8, 9}, "(18*i0 + i1 + 9)/9"), "2*i0 + 1");
  EXPECT_EQ(Made({8, 9}, "(10*i0 + i1)/5"), "2*i0 + (i1)/5");
}

TEST(IndexExprTest, ASplitThatIsJoinedIsGone) {
  EXPECT_EQ(Made({90}, "9*(i0/9) + i0%9"), "i0");
  EXPECT_EQ(Made({90}, "18*(i0/9) + 2*(i0%9) + 1"), "2*i0 + 1");
}

TEST(IndexExprTest, DivisionsOfDivisionsAreOne) {
  EXPECT_EQ(Made({90}, "i0/3/5"), "(i0)/15");
  EXPECT_EQ(Made({90}, "i0%30%5"), "(i0)%5");
}

TEST(IndexExprTest, RangesAndStrides) {
  IndexSpace space(Dims{8, 9});
  const IndexId id = IndexReader(space, "3*i0 - 2*i1 + 20").Read();
  EXPECT_EQ(space.RangeOf(id).lo, 4);
  EXPECT_EQ(space.RangeOf(id).hi, 41);
  EXPECT_TRUE(space.StrideAlong(id, 1).affine);
  EXPECT_EQ(space.StrideAlong(id, 1).stride, -2);
  EXPECT_FALSE(space.StrideAlong(IndexReader(space, "i1/2").Read(), 1).affine);
  EXPECT_TRUE(space.StrideAlong(IndexReader(space, "i1/2").Read(), 0).affine);
}

TEST(IndexExprTest, DelinearizeUndoesLinearize) {
  IndexSpace space(Dims{4, 5, 6});
  const std::vector<IndexId> index = {space.Iter(0), space.Iter(1), space.Iter(2)};
  const Dims dims = {4, 5, 6};
  EXPECT_EQ(space.Delinearize(space.Linearize(index, dims), dims), index);
}

}  // namespace
}  // namespace krafla::plan
