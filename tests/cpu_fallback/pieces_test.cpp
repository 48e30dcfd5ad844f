// SPDX-License-Identifier: Apache-2.0
// Iteration spaces cut into pieces: what they store together is what the whole stores, and conditions on indices are
// gone.
#include "cpu_fallback/executor/pieces.h"

#include <gtest/gtest.h>

#include "kernel_fixture.h"

namespace krafla {
namespace {

using cpu::CutIntoPieces;
using plan::ElementProgram;
using plan::IndexId;
using plan::kNoNode;
using plan::NodeId;
using plan::ProgramBuilder;

int MasksIn(const ElementProgram& program) {
  int n = 0;
  for (const plan::Node& node : program.nodes) n += node.op == plan::NodeOp::kCompare || node.mask != kNoNode;
  return n;
}

// x and y laid between each other over `n` rows of `columns`, x at the indices that `shift` and evens make, padded with
// zeros where they end.
ElementProgram Interleaved(int64_t n, int64_t columns, int64_t x_rows, int64_t y_rows, int64_t shift) {
  const int64_t dims[] = {n, columns};
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int x = b.AddBuffer(ElementType::kF32, x_rows * columns, false),
            y = b.AddBuffer(ElementType::kF32, y_rows * columns, false);
  const int out = b.AddBuffer(ElementType::kF32, n * columns, true);
  const IndexId i = space.AddConstant(space.Iter(0), shift), c = space.Iter(1);
  const IndexId half = space.FloorDiv(i, 2), rest = space.Mod(i, 2);
  auto load = [&](int buffer, int64_t rows, NodeId mask) {
    const NodeId inside = b.And(mask, b.InRange(half, 0, rows));
    return b.Load(buffer, ElementType::kF32, space.Add(space.Mul(half, columns), c), inside);
  };
  const NodeId even = b.InRange(rest, 0, 1);
  const NodeId odd = b.Hlo(Opcode::kNot, ElementType::kPred, {even});
  const NodeId value = b.Hlo(Opcode::kAdd, ElementType::kF32, {load(x, x_rows, even), load(y, y_rows, odd)});
  b.AddStore({.buffer = out,
              .index = space.Add(space.Mul(space.Iter(0), columns), c),
              .node = value,
              .storage = ElementType::kF32});
  return std::move(b).Finish();
}

std::vector<float> Stored(const ElementProgram& program, const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<float>> buffers = inputs;
  buffers.emplace_back(static_cast<std::size_t>(program.buffers.back().element_count), -77.0f);
  plan::KernelPlan plan;
  std::vector<std::byte*> addresses;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    plan.bindings.push_back(
        {ElementType::kF32, program.buffers[b].element_count, !program.buffers[b].written, program.buffers[b].written});
    addresses.push_back(reinterpret_cast<std::byte*>(buffers[b].data()));
  }
  plan.body = plan::LoopKernel{program};
  RunKernel(plan, addresses);
  return buffers.back();
}

TEST(Pieces, InterleavedArraysComeApart) {
  for (int64_t n : {5, 8, 9, 64, 129, 1000, 1001}) {
    for (int64_t columns : {1, 3, 32}) {
      for (int64_t shift : {0, 1, 2, 3}) {
        const int64_t x_rows = n / 2, y_rows = std::max<int64_t>(n / 2 - 1, 1);
        const ElementProgram program = Interleaved(n, columns, x_rows, y_rows, shift);
        std::vector<std::vector<float>> inputs(2);
        for (int64_t k = 0; k < x_rows * columns; ++k) inputs[0].push_back(static_cast<float>(k + 1));
        for (int64_t k = 0; k < y_rows * columns; ++k) inputs[1].push_back(static_cast<float>(-k - 1));
        std::vector<float> expected;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t half = (i + shift) / 2;
            const bool even = (i + shift) % 2 == 0;
            float v = 0;
            if (even && half < x_rows) v = inputs[0][static_cast<std::size_t>(half * columns + c)];
            if (!even && half < y_rows) v = inputs[1][static_cast<std::size_t>(half * columns + c)];
            expected.push_back(v);
          }
        EXPECT_EQ(Stored(program, inputs), expected) << n << " rows of " << columns << ", shifted by " << shift;
        if (n < 64) continue;
        const std::vector<ElementProgram> pieces = CutIntoPieces(program);
        EXPECT_GE(pieces.size(), 2u);
        int64_t points = 0;
        for (const ElementProgram& p : pieces) {
          points += Product(p.space.dims()) * static_cast<int64_t>(p.stores.size());
          EXPECT_EQ(MasksIn(p), 0) << p.ToString();
          for (IndexId id : plan::UsedExprs(p))
            for (const plan::IndexTerm& t : p.space.expr(id).terms)
              EXPECT_EQ(p.space.atom(t.atom).kind, plan::IndexAtom::Kind::kIter) << p.ToString();
        }
        EXPECT_EQ(points, n * columns);
      }
    }
  }
}

// An edge pad clamps its index; a roll compares it; a border on all sides has both on two dimensions.
TEST(Pieces, BordersAndClampsComeOff) {
  for (int64_t n : {4, 33, 300}) {
    const int64_t padded = n + 5;
    const int64_t dims[] = {padded, padded};
    ProgramBuilder b(dims);
    auto& space = b.space();
    const int x = b.AddBuffer(ElementType::kF32, n * n, false),
              out = b.AddBuffer(ElementType::kF32, padded * padded, true);
    const IndexId i = space.AddConstant(space.Iter(0), -2), j = space.AddConstant(space.Iter(1), -3);
    // Rows beyond the edges repeat the edge, columns beyond are zero.
    const NodeId row =
        b.Hlo(Opcode::kClamp, ElementType::kS32,
              {b.ConstantInt(ElementType::kS32, 0), b.Index(i), b.ConstantInt(ElementType::kS32, n - 1)});
    const IndexId at = space.Value(row, 0, n - 1, 1);
    const NodeId value = b.Load(x, ElementType::kF32, space.Add(space.Mul(at, n), j), b.InRange(j, 0, n));
    b.AddStore({.buffer = out,
                .index = space.Add(space.Mul(space.Iter(0), padded), space.Iter(1)),
                .node = value,
                .storage = ElementType::kF32});
    const ElementProgram program = std::move(b).Finish();
    std::vector<std::vector<float>> inputs(1);
    for (int64_t k = 0; k < n * n; ++k) inputs[0].push_back(static_cast<float>(k + 1));
    std::vector<float> expected;
    for (int64_t r = 0; r < padded; ++r)
      for (int64_t c = 0; c < padded; ++c)
        expected.push_back(c < 3 || c >= n + 3
                               ? 0
                               : inputs[0][static_cast<std::size_t>(std::clamp<int64_t>(r - 2, 0, n - 1) * n + c - 3)]);
    EXPECT_EQ(Stored(program, inputs), expected);
    if (padded * padded < 2048) continue;
    for (const ElementProgram& p : CutIntoPieces(program)) EXPECT_EQ(MasksIn(p), 0) << p.ToString();
  }
}

// Conditions on several dimensions, or of values, stay; the number of pieces is bounded.
TEST(Pieces, OtherConditionsStay) {
  const int64_t dims[] = {100, 100};
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int x = b.AddBuffer(ElementType::kF32, 10000, false), out = b.AddBuffer(ElementType::kF32, 10000, true);
  const IndexId at = space.Add(space.Mul(space.Iter(0), 100), space.Iter(1));
  NodeId value = b.Load(x, ElementType::kF32, at);
  value = b.Select(b.Compare(ComparisonDirection::kLe, b.Index(space.Iter(0)), b.Index(space.Iter(1))), value,
                   b.ConstantFloat(ElementType::kF32, 0));
  for (int64_t k = 1; k < 60; ++k)
    value = b.Select(b.Compare(ComparisonDirection::kEq, b.Index(space.Iter(0)), b.ConstantInt(ElementType::kS32, k)),
                     b.ConstantFloat(ElementType::kF32, static_cast<double>(k)), value);
  b.AddStore({.buffer = out, .index = at, .node = value, .storage = ElementType::kF32});
  const ElementProgram program = std::move(b).Finish();
  EXPECT_LE(CutIntoPieces(program).size(), 24u);
  std::vector<std::vector<float>> inputs(1);
  for (int64_t k = 0; k < 10000; ++k) inputs[0].push_back(static_cast<float>(k + 1));
  std::vector<float> expected;
  for (int64_t r = 0; r < 100; ++r)
    for (int64_t c = 0; c < 100; ++c)
      expected.push_back(r >= 1 && r < 60 ? static_cast<float>(r) : r <= c ? static_cast<float>(r * 100 + c + 1) : 0);
  EXPECT_EQ(Stored(program, inputs), expected);
}

}  // namespace
}  // namespace krafla
