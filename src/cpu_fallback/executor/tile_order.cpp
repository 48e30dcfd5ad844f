// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/tile_order.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked_math.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::Store;

namespace {

// A band and what is read for it share the L1 cache; of larger results there are so many bands at the most.
constexpr int64_t kLeastBand = 16 * 1024, kMostBands = 4096;
// Results of fewer bytes stay in the cache from one piece to the next.
constexpr int64_t kLeastBytes = 256 * 1024;
// A piece whose rows are shorter touches lines that others touch too, for the most part.
constexpr int64_t kShortRowBytes = 256;

// Elements of a tile, of all pieces on the average: of fewer, tiles cost more than lines that are read again.
constexpr int64_t kLeastOfTile = 256, kMostOfTile = 8192;

struct Reach {
  int64_t begin = 0, end = 0;  // bytes of the buffer between which a store's elements lie
  int64_t row = 0;             // how many lie side by side
  Dims steps;                  // from one index to the next, by dimension
};
std::optional<Reach> ReachOf(const ElementProgram& program, const Store& store) {
  std::optional<Dims> steps = AffineCoefficients(program.space, store.index);
  if (!steps) return std::nullopt;
  const int64_t width = StorageBytes(store.storage);
  Reach out{.begin = program.space.expr(store.index).constant * width, .row = width, .steps = std::move(*steps)};
  out.end = out.begin + width;
  for (std::size_t d = 0; d < out.steps.size(); ++d) {
    out.steps[d] *= width;
    const int64_t extent = program.space.dims()[d];
    (out.steps[d] < 0 ? out.begin : out.end) += (extent - 1) * out.steps[d];
  }
  bool is_longer = true;
  while (is_longer) {
    is_longer = false;
    for (std::size_t d = 0; d < out.steps.size(); ++d) {
      if (std::abs(out.steps[d]) != out.row || program.space.dims()[d] <= 1) continue;
      out.row *= program.space.dims()[d];
      is_longer = true;
    }
  }
  return out;
}

}  // namespace

std::optional<int64_t> BandOf(std::span<const ElementProgram> pieces) {
  if (pieces.size() < 2) return std::nullopt;
  std::vector<Reach> reaches;
  for (const ElementProgram& p : pieces) {
    if (p.stores.size() != 1 || p.stores[0].buffer != pieces[0].stores[0].buffer) return std::nullopt;
    std::optional<Reach> reach = ReachOf(p, p.stores[0]);
    if (!reach) return std::nullopt;
    reaches.push_back(std::move(*reach));
  }
  const int64_t begin = std::ranges::min(reaches, {}, &Reach::begin).begin;
  const int64_t end = std::ranges::max(reaches, {}, &Reach::end).end;
  if (end - begin < kLeastBytes) return std::nullopt;
  const int64_t band = std::max(kLeastBand, (end - begin) / kMostBands);
  int64_t points = 0, tiles = 0;
  for (const ElementProgram& p : pieces) {
    const TileShape tile = WithinBand(p, ChooseTile(p, {.max_elements = kMostOfTile}), band);
    points += SaturatingProduct(p.space.dims());
    tiles += TileGrid(p.space.dims(), tile).count();
  }
  if (points < kLeastOfTile * tiles) return std::nullopt;
  for (const Reach& a : reaches) {
    if (a.row >= kShortRowBytes) continue;
    for (const Reach& b : reaches)
      if (&a != &b && std::min(a.end, b.end) - std::max(a.begin, b.begin) > band) return band;
  }
  return std::nullopt;
}

TileShape WithinBand(const ElementProgram& program, TileShape tile, int64_t band) {
  for (const Store& s : program.stores) {
    const std::optional<Reach> reach = ReachOf(program, s);
    if (!reach) continue;
    const auto step = [&](int dim) { return dim < 0 ? 0 : std::abs(reach->steps[static_cast<std::size_t>(dim)]); };
    const int64_t across = step(tile.row_dim), along = step(tile.column_dim);
    if (along > 0) tile.columns = std::clamp<int64_t>(band / along, 1, tile.columns);
    const int64_t left = band - (tile.columns - 1) * along;
    if (across > 0) tile.rows = std::clamp<int64_t>(left / across, 1, tile.rows);
  }
  return tile;
}

bool TileOrder::Add(std::size_t piece, const ElementProgram& program, const TileGrid& grid, int64_t band) {
  const std::optional<Reach> reach = ReachOf(program, program.stores[0]);
  if (!reach) return false;
  const int64_t begin = program.space.expr(program.stores[0].index).constant * StorageBytes(program.stores[0].storage);
  TileGrid::Tile tile;
  grid.Seek(0, tile);
  for (int64_t i = 0; i < grid.count(); ++i, grid.Next(tile)) {
    int64_t at = begin;
    for (std::size_t d = 0; d < tile.origin.size(); ++d) at += tile.origin[d] * reach->steps[d];
    const int64_t number = at / band;
    if (i > 0 && parts_.back().band == number) ++parts_.back().run.count;
    else parts_.push_back({number, {.piece = piece, .begin = i, .count = 1}});
  }
  return true;
}

std::vector<TileRun> TileOrder::Take() && {
  std::ranges::stable_sort(parts_, {}, &Part::band);
  std::vector<TileRun> out;
  int64_t first = 0;
  for (const Part& p : parts_) {
    out.push_back(p.run);
    out.back().first = first;
    first += p.run.count;
  }
  return out;
}

}  // namespace krafla::cpu
