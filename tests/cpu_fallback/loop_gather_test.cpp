// SPDX-License-Identifier: Apache-2.0
// Loops that read and write at places which the program computes.
#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

TEST(LoopKernelTest, GathersRowsAndElements) {
  for (bool along_row : {false, true}) {
    const int64_t dims[] = {30, 40};
    ProgramBuilder b(dims);
    auto& s = b.space();
    int table = b.AddBuffer(ElementType::kF32, 100 * 40, false);
    int starts = b.AddBuffer(ElementType::kS64, along_row ? 40 : 30, false);
    int out = b.AddBuffer(ElementType::kF32, 1200, true);
    NodeId start = b.Load(starts, ElementType::kS64, s.Iter(along_row ? 1 : 0));
    IndexId row = b.ClampedIndex(start, 0, 99);
    NodeId x = b.Load(table, ElementType::kF32, s.Add(s.Mul(row, 40), s.Iter(along_row ? 0 : 1)));
    b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = ElementType::kF32});
    CheckLoop(std::move(b).Finish(), "gather");
  }
}

// Short rows at even distances: elements of 2 to 8 bytes, rows of 4 to 64 bytes and some that are no such rows,
// repeated, in another order, backwards, from the middle of an array, and in quotients of an index.
TEST(LoopKernelTest, CopiesShortRows) {
  for (ElementType type : {ElementType::kBF16, ElementType::kS32, ElementType::kF64, ElementType::kU8})
    for (int64_t columns : {1, 2, 3, 4, 5, 8, 13, 20})
      for (int way : {0, 1, 2, 3}) {
        const int64_t rows = 37, lines = 40, times = 3;
        const int64_t dims[] = {lines, rows, times, columns};
        ProgramBuilder b(dims);
        auto& s = b.space();
        const int64_t line_step = rows * columns + 5;
        const int in = b.AddBuffer(type, lines * line_step, false);
        const int out = b.AddBuffer(type, lines * rows * times * columns, true);
        IndexId line = s.Iter(0), row = s.Iter(1);
        if (way == 1) row = s.AddConstant(s.Mul(row, -1), rows - 1);
        if (way == 2) line = s.FloorDiv(line, 2);
        IndexId from = s.AddConstant(s.Add(s.Add(s.Mul(line, line_step), s.Mul(row, columns)), s.Iter(3)), 5);
        // Lines and rows change places.
        const IndexId to =
            way == 3 ? s.Add(s.Add(s.Mul(s.Iter(1), lines * times * columns), s.Mul(s.Iter(0), times * columns)),
                             s.Add(s.Mul(s.Iter(2), columns), s.Iter(3)))
                     : RowMajor(b);
        const NodeId x = b.Load(in, type, from);
        b.AddStore({.buffer = out, .index = to, .node = x, .storage = type});
        CheckLoop(std::move(b).Finish(), "short rows of " + std::string(ElementTypeName(type)));
      }
}

// table[indices[i], :], and a constant where a predicate of the row is false; rows of every few bytes.
TEST(LoopKernelTest, GathersRows) {
  const auto check = [](ElementType type, int64_t columns, bool fill) {
    const int64_t dims[] = {700, columns};
    ProgramBuilder b(dims);
    auto& s = b.space();
    int table = b.AddBuffer(type, 50 * columns, false), indices = b.AddBuffer(ElementType::kS32, 700, false);
    int out = b.AddBuffer(type, 700 * columns, true);
    NodeId index = b.Load(indices, ElementType::kS32, s.Iter(0));
    NodeId x = b.Load(table, type, s.Add(s.Mul(b.ClampedIndex(index, 0, 49), columns), s.Iter(1)));
    const ElementType c = plan::ComputeType(type);
    if (fill)
      x = b.Select(b.Compare(ComparisonDirection::kLt, index, b.ConstantInt(ElementType::kS32, 1)), x,
                   IsFloat(type) ? b.ConstantFloat(c, 2.5) : b.ConstantInt(c, -3));
    b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = type});
    CheckLoop(std::move(b).Finish(), "rows of " + std::string(ElementTypeName(type)));
  };
  for (ElementType type : {ElementType::kF32, ElementType::kS8, ElementType::kBF16, ElementType::kF64})
    for (int64_t columns : {1, 2, 3, 4, 5, 7, 9, 24})
      for (bool fill : {false, true}) check(type, columns, fill);
}

// Windows at computed places: rows that lie at equal distances, with what tells whether they are inside for each
// window, or for each of its rows.
TEST(LoopKernelTest, GathersWindows) {
  for (ElementType type : {ElementType::kF32, ElementType::kS8, ElementType::kF64})
    for (int64_t columns : {8, 12, 40, 300})
      for (int fill : {0, 1, 2}) {
        const int64_t dims[] = {90, 5, columns};
        ProgramBuilder b(dims);
        auto& s = b.space();
        const int64_t width = columns + 20;
        int table = b.AddBuffer(type, 50 * width, false), indices = b.AddBuffer(ElementType::kS32, 180, false);
        int out = b.AddBuffer(type, 90 * 5 * columns, true);
        NodeId i = b.Load(indices, ElementType::kS32, s.Mul(s.Iter(0), 2)),
               j = b.Load(indices, ElementType::kS32, s.AddConstant(s.Mul(s.Iter(0), 2), 1));
        const IndexId row = s.Add(b.ClampedIndex(i, 0, 45), s.Iter(1)),
                      column = s.Add(b.ClampedIndex(j, 0, 20), s.Iter(2));
        NodeId x = b.Load(table, type, s.Add(s.Mul(row, width), column));
        const ElementType c = plan::ComputeType(type);
        const NodeId what = fill == 2 ? b.Index(s.Iter(1)) : i;
        if (fill != 0)
          x = b.Select(b.Compare(ComparisonDirection::kLt, what, b.ConstantInt(ElementType::kS32, 3)), x,
                       IsFloat(type) ? b.ConstantFloat(c, 2.5) : b.ConstantInt(c, -3));
        b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = type});
        CheckLoop(std::move(b).Finish(), "windows of " + std::string(ElementTypeName(type)));
      }
}

TEST(LoopKernelTest, ScattersThroughComputedIndices) {
  // A dynamic update of a window: the store's index has a value that the program loads.
  const int64_t dims[] = {6, 20};
  ProgramBuilder b(dims);
  auto& s = b.space();
  int starts = b.AddBuffer(ElementType::kS32, 2, false);
  int in = b.AddBuffer(ElementType::kF32, 120, false), out = b.AddBuffer(ElementType::kF32, 50 * 64, true);
  IndexId i = b.ClampedIndex(b.Load(starts, ElementType::kS32, s.Constant(0)), 0, 44);
  IndexId j = b.ClampedIndex(b.Load(starts, ElementType::kS32, s.Constant(1)), 0, 44);
  const IndexId at[] = {s.Add(s.Iter(0), i), s.Add(s.Iter(1), j)};
  const int64_t out_dims[] = {50, 64};
  b.AddStore({.buffer = out,
              .index = s.Linearize(at, out_dims),
              .node = b.Load(in, ElementType::kF32, RowMajor(b)),
              .storage = ElementType::kF32});
  CheckLoop(std::move(b).Finish(), "dynamic update");
}

// Complex numbers that are only moved, one by one and by computed places, and numbers that are taken apart.
TEST(LoopKernelTest, MovesOfPairsAndParts) {
  const int64_t dims[] = {40, 30};
  for (bool gathered : {false, true}) {
    ProgramBuilder b(dims);
    const int in = b.AddBuffer(ElementType::kF32, 2 * 1200, false), places = b.AddBuffer(ElementType::kS32, 40, false);
    const int out = b.AddBuffer(ElementType::kF32, 2 * 1200, true);
    plan::IndexSpace& space = b.space();
    const IndexId row =
        gathered ? b.ClampedIndex(b.Load(places, ElementType::kS32, space.Iter(0)), 0, 29) : space.Iter(1);
    const IndexId from = space.Mul(space.Add(space.Mul(row, 40), gathered ? space.Iter(1) : space.Iter(0)), 2);
    const IndexId to = space.Mul(space.Add(space.Mul(space.Iter(0), 30), space.Iter(1)), 2);
    for (int64_t part : {0, 1})
      b.AddStore({.buffer = out,
                  .index = space.AddConstant(to, part),
                  .node = b.Load(in, ElementType::kF32, space.AddConstant(from, part)),
                  .storage = ElementType::kF32});
    CheckLoop(std::move(b).Finish(), gathered ? "gathered pairs" : "pairs");
  }
  for (ElementType part : {ElementType::kU8, ElementType::kU16}) {
    const int64_t parts = 4 / StorageBytes(part), space_dims[] = {300, parts};
    ProgramBuilder b(space_dims);
    const int in = b.AddBuffer(ElementType::kF32, 300, false), out = b.AddBuffer(part, 300 * parts, true);
    plan::IndexSpace& space = b.space();
    const NodeId bits =
        b.BitcastConvert(b.Load(in, ElementType::kF32, space.Iter(0)), ElementType::kF32, ElementType::kU32);
    const NodeId count = b.Convert(b.Index(space.Mul(space.Iter(1), 32 / parts)), ElementType::kS32, ElementType::kU32);
    const NodeId shifted = b.Hlo(Opcode::kShiftRightLogical, ElementType::kU32, {bits, count});
    b.AddStore({.buffer = out,
                .index = space.Add(space.Mul(space.Iter(0), parts), space.Iter(1)),
                .node = b.Convert(shifted, ElementType::kU32, part),
                .storage = part});
    CheckLoop(std::move(b).Finish(), "parts");
  }
}

}  // namespace
}  // namespace krafla
