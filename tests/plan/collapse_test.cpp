// SPDX-License-Identifier: Apache-2.0
#include "plan/collapse.h"

#include <gtest/gtest.h>

#include "index_text.h"

namespace krafla::plan {
namespace {

// A program that copies b0[read] to b1[write].
ElementProgram Copy(const Dims& dims, std::string_view read, std::string_view write) {
  ProgramBuilder builder(dims);
  const int from = builder.AddBuffer(ElementType::kF32, 1000, false);
  const int to = builder.AddBuffer(ElementType::kF32, 1000, true);
  const NodeId value = builder.Load(from, ElementType::kF32, IndexReader(builder.space(), read).Read());
  builder.AddStore({to, IndexReader(builder.space(), write).Read(), value, ElementType::kF32});
  return std::move(builder).Finish();
}

// "[dims] read -> write" of the program whose dimensions were joined.
std::string Collapsed(const Dims& dims, std::string_view read, std::string_view write, std::span<const int> keep = {}) {
  ElementProgram program = Copy(dims, read, write);
  ElementProgram* programs[] = {&program};
  CollapseTogether(programs, keep);
  std::string out = "[";
  for (int64_t d : program.space.dims()) out += (out.size() > 1 ? "," : "") + std::to_string(d);
  return out + "] " + IndexText(program.space, program.nodes[0].index) + " -> " +
         IndexText(program.space, program.stores[0].index);
}

TEST(CollapseTest, RowsThatFollowEachOtherAreOne) {
  EXPECT_EQ(Collapsed({4, 5, 6}, "30*i0 + 6*i1 + i2", "30*i0 + 6*i1 + i2"), "[120] i0 -> i0");
  EXPECT_EQ(Collapsed({4, 5}, "i1", "5*i0 + i1"), "[4,5] i1 -> i1 + 5*i0");
  EXPECT_EQ(Collapsed({4, 5, 6}, "5*i0 + i1", "30*i0 + 6*i1 + i2"), "[20,6] i0 -> 6*i0 + i1");
}

TEST(CollapseTest, TransposesStayTwoDimensions) {
  EXPECT_EQ(Collapsed({4, 5}, "i0 + 4*i1", "5*i0 + i1"), "[4,5] i0 + 4*i1 -> 5*i0 + i1");
}

TEST(CollapseTest, DimensionsOfOneElementJoinTheirNeighbours) {
  EXPECT_EQ(Collapsed({1, 7, 1}, "2*i1", "i1"), "[7] 2*i0 -> i0");
}

TEST(CollapseTest, WhatIsInsideOfADivisionCounts) {
  // i1/2 alone does not walk both dimensions as one.
  EXPECT_EQ(Collapsed({4, 6}, "3*i0 + (i1)/2", "6*i0 + i1"), "[4,6] 3*i0 + (i1)/2 -> 6*i0 + i1");
}

TEST(CollapseTest, KeptBoundariesStay) {
  const int keep[] = {0};
  EXPECT_EQ(Collapsed({4, 5, 6}, "30*i0 + 6*i1 + i2", "30*i0 + 6*i1 + i2", keep), "[4,30] 30*i0 + i1 -> 30*i0 + i1");
}

TEST(CollapseTest, ProgramsOfOneKernelAreJoinedTogether) {
  // The second walks the same two dimensions, but not as one.
  ElementProgram a = Copy({4, 5}, "5*i0 + i1", "5*i0 + i1"), b = Copy({4, 5}, "i0", "5*i0 + i1");
  ElementProgram* programs[] = {&a, &b};
  EXPECT_EQ(CollapseTogether(programs), (std::vector<int>{0, 1}));
  EXPECT_EQ(a.space.dims(), (Dims{4, 5}));
}

}  // namespace
}  // namespace krafla::plan
