// SPDX-License-Identifier: Apache-2.0
// Loops that choose by a pred which is the same throughout their space, or throughout a plane of it.
#include "cpu_fallback/executor/loop_choice.h"

#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

constexpr int64_t kFlipPlanes = 6, kFlipRows = 40, kFlipColumns = 70;

// x and what `other` makes of its place, by whether the number of `coins` that `at` names is below the limit.
struct Flip {
  bool of_each_plane = false;
  bool along_rows = false;
  bool across_planes = false;  // the other place lies in another plane
  bool to_first = false;       // the other place lies in the first plane
  ElementType type = ElementType::kF32;
};
NodeId Flipped(ProgramBuilder& b, int x, int coins, const Flip& flip, int64_t limit) {
  auto& s = b.space();
  const NodeId coin = b.Load(coins, ElementType::kS32, flip.of_each_plane ? s.Iter(0) : s.Constant(2));
  const NodeId heads = b.Compare(ComparisonDirection::kLt, coin, b.ConstantInt(ElementType::kS32, limit));
  const auto place = [&](bool is_flipped) {
    const auto turned = [&](int dim, int64_t extent, bool turns) {
      return turns ? s.AddConstant(s.Mul(s.Iter(dim), -1), extent - 1) : s.Iter(dim);
    };
    const IndexId plane =
        is_flipped && flip.to_first ? s.Constant(0) : turned(0, kFlipPlanes, is_flipped && flip.across_planes);
    const IndexId row = turned(1, kFlipRows, is_flipped && !flip.along_rows);
    const IndexId column = turned(2, kFlipColumns, is_flipped && flip.along_rows);
    return s.Add(s.Add(s.Mul(plane, kFlipRows * kFlipColumns), s.Mul(row, kFlipColumns)), column);
  };
  return b.Select(heads, b.Load(x, flip.type, place(true)), b.Load(x, flip.type, place(false)));
}
plan::ElementProgram FlipProgram(const Flip& flip, int64_t limit) {
  const int64_t dims[] = {kFlipPlanes, kFlipRows, kFlipColumns};
  ProgramBuilder b(dims);
  const int x = b.AddBuffer(flip.type, kFlipPlanes * kFlipRows * kFlipColumns, false);
  const int coins = b.AddBuffer(ElementType::kS32, kFlipPlanes, false);
  const int out = b.AddBuffer(flip.type, kFlipPlanes * kFlipRows * kFlipColumns, true);
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = Flipped(b, x, coins, flip, limit), .storage = flip.type});
  return std::move(b).Finish();
}
bool IsChoice(const plan::ElementProgram& program) {
  auto choice = cpu::LoopChoice::Make(program, 1, 0);
  EXPECT_TRUE(choice);
  return choice && *choice != nullptr;
}

// What an index decides the loop is cut by.
TEST(LoopChoice, NotByIndices) {
  const int64_t dims[] = {300, 46};
  ProgramBuilder b(dims);
  auto& s = b.space();
  const int in = b.AddBuffer(ElementType::kF32, 300 * 45, false), out = b.AddBuffer(ElementType::kF32, 300 * 46, true);
  const NodeId inside = b.Compare(ComparisonDirection::kLt, b.Index(s.Iter(1)), b.ConstantInt(ElementType::kS32, 45));
  const NodeId x = b.Load(in, ElementType::kF32, s.Add(s.Mul(s.Iter(0), 45), s.Iter(1)), inside);
  b.AddStore({.buffer = out,
              .index = RowMajor(b),
              .node = b.Select(inside, x, b.Load(in, ElementType::kF32, s.Iter(0))),
              .storage = ElementType::kF32});
  const plan::ElementProgram program = std::move(b).Finish();
  EXPECT_FALSE(IsChoice(program));
  CheckLoop(program, "a column more");
}

TEST(LoopChoice, FlipsByACoinOrByOneForEachPlane) {
  for (ElementType type : {ElementType::kF32, ElementType::kU8, ElementType::kF64})
    for (bool of_each_plane : {false, true})
      for (bool along_rows : {false, true})
        for (int64_t limit : {-1000000, 0, 1, 1000000}) {
          const plan::ElementProgram program =
              FlipProgram({.of_each_plane = of_each_plane, .along_rows = along_rows, .type = type}, limit);
          EXPECT_TRUE(IsChoice(program));
          CheckLoop(program, "flip");
        }
}

// The planes of an array are no step apart where the other place is in another one.
TEST(LoopChoice, StaysOneLoopAcrossPlanes) {
  const plan::ElementProgram across = FlipProgram({.of_each_plane = true, .across_planes = true}, 1);
  EXPECT_FALSE(IsChoice(across));
  CheckLoop(across, "across planes");
  const plan::ElementProgram first = FlipProgram({.of_each_plane = true, .to_first = true}, 1);
  EXPECT_FALSE(IsChoice(first));
  CheckLoop(first, "from the first plane");
  // One coin for all does not ask for planes.
  const plan::ElementProgram once = FlipProgram({.across_planes = true}, 1);
  EXPECT_TRUE(IsChoice(once));
  CheckLoop(once, "across planes, by one coin");
}

// Two coins of which one turns what the other one may have turned, and results beside them.
TEST(LoopChoice, SeveralCoins) {
  for (bool of_each_plane : {false, true}) {
    const int64_t dims[] = {kFlipPlanes, kFlipRows, kFlipColumns};
    ProgramBuilder b(dims);
    const int64_t count = kFlipPlanes * kFlipRows * kFlipColumns;
    const int x = b.AddBuffer(ElementType::kF32, count, false), y = b.AddBuffer(ElementType::kF32, count, false);
    const int coins = b.AddBuffer(ElementType::kS32, kFlipPlanes, false);
    const int more = b.AddBuffer(ElementType::kS32, kFlipPlanes, false);
    const int sums = b.AddBuffer(ElementType::kF32, count, true), out = b.AddBuffer(ElementType::kF32, count, true);
    const NodeId first = Flipped(b, x, coins, {of_each_plane, true}, 1);
    const NodeId second = Flipped(b, y, more, {of_each_plane, false}, 0);
    b.AddStore({.buffer = sums,
                .index = RowMajor(b),
                .node = b.Hlo(Opcode::kAdd, ElementType::kF32, {first, second}),
                .storage = ElementType::kF32});
    b.AddStore({.buffer = out, .index = RowMajor(b), .node = second, .storage = ElementType::kF32});
    const plan::ElementProgram program = std::move(b).Finish();
    EXPECT_TRUE(IsChoice(program));
    CheckLoop(program, "two coins");
  }
}

// Both ways read the place of the result: a selection is as good.
TEST(LoopChoice, NotOfArraysAlongTheResult) {
  const int64_t dims[] = {kFlipPlanes, kFlipRows, kFlipColumns};
  ProgramBuilder b(dims);
  const int64_t count = kFlipPlanes * kFlipRows * kFlipColumns;
  const int x = b.AddBuffer(ElementType::kF32, count, false), y = b.AddBuffer(ElementType::kF32, count, false);
  const int coins = b.AddBuffer(ElementType::kS32, 1, false), out = b.AddBuffer(ElementType::kF32, count, true);
  const NodeId coin = b.Load(coins, ElementType::kS32, b.space().Constant(0));
  const NodeId heads = b.Compare(ComparisonDirection::kLt, coin, b.ConstantInt(ElementType::kS32, 1));
  const NodeId either =
      b.Select(heads, b.Load(x, ElementType::kF32, RowMajor(b)), b.Load(y, ElementType::kF32, RowMajor(b)));
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = either, .storage = ElementType::kF32});
  const plan::ElementProgram program = std::move(b).Finish();
  EXPECT_FALSE(IsChoice(program));
  CheckLoop(program, "one of two arrays");
}

}  // namespace
}  // namespace krafla
