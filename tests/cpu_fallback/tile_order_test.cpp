// SPDX-License-Identifier: Apache-2.0
// Pieces of a loop whose tiles run by turns.
#include "cpu_fallback/executor/tile_order.h"

#include <algorithm>

#include "cpu_fallback/executor/pieces.h"
#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

// Rows with `edge` zeros on both sides of them, or, across, with as many rows of zeros before and behind them.
plan::ElementProgram Padded(ElementType type, int64_t rows, int64_t columns, int64_t edge, bool across) {
  const int64_t dims[] = {across ? rows + 2 * edge : rows, across ? columns : columns + 2 * edge};
  ProgramBuilder b(dims);
  auto& s = b.space();
  const int in = b.AddBuffer(type, rows * columns, false), out = b.AddBuffer(type, dims[0] * dims[1], true);
  const int dim = across ? 0 : 1;
  const IndexId at = s.AddConstant(s.Iter(dim), -edge);
  const NodeId place = b.Index(at);
  const NodeId inside =
      b.And(b.Compare(ComparisonDirection::kGe, place, b.ConstantInt(ElementType::kS32, 0)),
            b.Compare(ComparisonDirection::kLt, place, b.ConstantInt(ElementType::kS32, across ? rows : columns)));
  const IndexId row = across ? at : s.Iter(0), column = across ? s.Iter(1) : at;
  const NodeId x = b.Load(in, type, s.Add(s.Mul(row, columns), column), inside);
  const NodeId zero = b.Constant(plan::ComputeType(type), 0);
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = b.Select(inside, x, zero), .storage = type});
  return std::move(b).Finish();
}

TEST(TileOrder, EdgesOfShortRowsShareLines) {
  const auto band_of = [](const plan::ElementProgram& p) { return cpu::BandOf(cpu::CutIntoPieces(p)); };
  EXPECT_TRUE(band_of(Padded(ElementType::kS32, 3000, 44, 1, false)));
  EXPECT_FALSE(band_of(Padded(ElementType::kS32, 300, 44, 1, false)));  // stays in the cache
  EXPECT_FALSE(band_of(Padded(ElementType::kS32, 3000, 44, 1, true)));  // one behind the other
}

TEST(TileOrder, TakesEachTileOnceAndBandsInTurn) {
  std::vector<plan::ElementProgram> pieces = cpu::CutIntoPieces(Padded(ElementType::kS32, 3000, 44, 1, false));
  const std::optional<int64_t> band = cpu::BandOf(pieces);
  ASSERT_TRUE(band);
  cpu::TileOrder order;
  std::vector<int64_t> counts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const cpu::TileShape tile = cpu::WithinBand(pieces[i], cpu::ChooseTile(pieces[i], {.max_elements = 8192}), *band);
    const cpu::TileGrid grid(pieces[i].space.dims(), tile);
    ASSERT_TRUE(order.Add(i, pieces[i], grid, *band));
    counts.push_back(grid.count());
  }
  std::vector<int64_t> next(pieces.size(), 0);
  int64_t first = 0;
  std::size_t turns = 0, before = pieces.size();
  for (const cpu::TileRun& run : std::move(order).Take()) {
    EXPECT_EQ(run.first, first);
    EXPECT_EQ(run.begin, next[run.piece]);
    first += run.count, next[run.piece] += run.count;
    turns += run.piece != before ? 1 : 0;
    before = run.piece;
  }
  EXPECT_EQ(next, counts);
  EXPECT_GT(turns, 3 * pieces.size());
}

TEST(TileOrder, Results) {
  using enum ElementType;
  for (ElementType type : {kU8, kF16, kS32, kF64})
    for (int64_t columns : {5, 31, 44, 200})
      for (int64_t edge : {1, 2, 7})
        for (bool across : {false, true})
          for (int threads : {1, 3})
            CheckLoop(Padded(type, 250'000 / columns, columns, edge, across),
                      Format("{} columns of {}, {} more", columns, ElementTypeName(type), edge), threads);
}

}  // namespace
}  // namespace krafla
