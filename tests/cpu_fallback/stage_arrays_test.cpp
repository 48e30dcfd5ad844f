// SPDX-License-Identifier: Apache-2.0
// What stages of a reduction hand on: costly values are computed once, values a row are loaded along the tile's rows.
#include "cpu_fallback/executor/stage_arrays.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace krafla {
namespace {

using cpu::StageArrays;
using plan::NodeOp;
using plan::ProgramBuilder;
using plan::ReduceKernel;
using plan::ReduceStage;

// A stage over [rows, elements]: opcode(x - param 0), times param 1 where `is_last`, which stores it.
ReduceStage Stage(int64_t rows, int64_t elements, Opcode opcode, bool is_last) {
  const int64_t dims[] = {rows, elements};
  ProgramBuilder b(dims);
  const int in = b.AddBuffer(ElementType::kF32, rows * elements, false),
            out = b.AddBuffer(ElementType::kF32, rows * elements, true);
  const auto at = b.space().Add(b.space().Mul(b.space().Iter(0), elements), b.space().Iter(1));
  const auto difference = b.Hlo(Opcode::kSubtract, ElementType::kF32,
                                {b.Load(in, ElementType::kF32, at), b.Param(ElementType::kF32, 0, 1)});
  auto value = b.Hlo(opcode, ElementType::kF32, {difference});
  if (is_last) {
    value = b.Hlo(Opcode::kMultiply, ElementType::kF32, {value, b.Param(ElementType::kF32, 1, 1)});
    b.AddStore({.buffer = out, .index = at, .node = value, .storage = ElementType::kF32});
  } else {
    b.AddResult(value);
  }
  ReduceStage stage;
  stage.program = std::move(b).Finish();
  return stage;
}
ReduceKernel Kernel(int64_t rows, int64_t elements, Opcode opcode) {
  ReduceKernel k;
  k.row_dims = {rows}, k.element_dims = {elements};
  k.stages.push_back(Stage(rows, elements, opcode, false));
  k.stages.push_back(Stage(rows, elements, opcode, true));
  return k;
}
int64_t Count(const ReduceStage& stage, NodeOp op) {
  return std::ranges::count(stage.program.nodes, op, &plan::Node::op);
}
int64_t Count(const ReduceStage& stage, Opcode opcode) {
  return std::ranges::count_if(stage.program.nodes,
                               [&](const plan::Node& n) { return n.op == NodeOp::kHlo && n.opcode == opcode; });
}
constexpr cpu::TileShape kTile{.row_dim = 0, .column_dim = 1, .rows = 4, .columns = 512};

TEST(StageArrays, KeepFormulasForLaterStages) {
  ReduceKernel k = Kernel(100, 512, Opcode::kExp);
  StageArrays arrays(k);
  arrays.KeepValues(k, kTile);
  ASSERT_EQ(arrays.arrays().size(), 1u);
  EXPECT_EQ(arrays.arrays()[0].elements, 4 * 512);
  EXPECT_EQ(arrays.arrays()[0].strides, (Dims{512}));
  EXPECT_EQ(Count(k.stages[0], Opcode::kExp), 1);
  EXPECT_EQ(k.stages[0].program.stores.size(), 1u);
  EXPECT_EQ(Count(k.stages[1], Opcode::kExp), 0);
  EXPECT_EQ(Count(k.stages[1], Opcode::kSubtract), 0) << "what only the kept value needed";
}
TEST(StageArrays, DoNotKeepWhatIsCheapOrLong) {
  ReduceKernel cheap = Kernel(100, 512, Opcode::kNegate), longer = Kernel(100, 1 << 20, Opcode::kExp);
  StageArrays of_cheap(cheap), of_longer(longer);
  of_cheap.KeepValues(cheap, kTile);
  of_longer.KeepValues(longer, {.row_dim = -1, .column_dim = 1, .rows = 1, .columns = 2048});
  EXPECT_TRUE(of_cheap.arrays().empty());
  EXPECT_TRUE(of_longer.arrays().empty());
  EXPECT_EQ(Count(longer.stages[1], Opcode::kExp), 1);
}
TEST(StageArrays, KeepNothingThatDiffers) {
  ReduceKernel k = Kernel(100, 512, Opcode::kExp);
  k.stages[1] = Stage(100, 512, Opcode::kTanh, true);
  StageArrays arrays(k);
  arrays.KeepValues(k, kTile);
  EXPECT_TRUE(arrays.arrays().empty());
}
TEST(StageArrays, LoadParamsAlongRows) {
  ReduceKernel k = Kernel(100, 512, Opcode::kNegate);
  StageArrays arrays(k);
  arrays.LoadParams(k, kTile);
  ASSERT_EQ(arrays.arrays().size(), 2u) << "one for each param, whoever reads it";
  for (const ReduceStage& stage : k.stages) EXPECT_EQ(Count(stage, NodeOp::kParam), 0);
  int loads = 0;
  for (const plan::Node& n : k.stages[1].program.nodes) {
    if (n.op != NodeOp::kLoad || n.buffer < arrays.first_buffer()) continue;
    EXPECT_EQ(n.index, k.stages[1].program.space.Iter(0));
    ++loads;
  }
  EXPECT_EQ(loads, 2);
}

}  // namespace
}  // namespace krafla
