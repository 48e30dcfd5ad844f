// SPDX-License-Identifier: Apache-2.0
// How a program's iteration space is walked on the CPU: dimensions are split where that makes its index expressions
// affine, joined where memory allows it, and one or two of them become the sides of a tile.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "plan/element_program.h"

namespace krafla::cpu {

// The same program over dimension `dim` split in two, the inner one of `inner` elements (a divisor of its extent).
plan::ElementProgram SplitDim(const plan::ElementProgram& program, int dim, int64_t inner);

struct DimSplit {
  int dim = 0;
  int64_t inner = 1;
};
// The next split that would make some index expression simpler; dim -1: none.
DimSplit FindSplit(const plan::ElementProgram& program);

struct TileWish {
  // Dimensions that may be the sides of a tile; bit d.
  uint64_t column_dims = ~uint64_t{0};
  uint64_t row_dims = ~uint64_t{0};
  int64_t max_elements = 2048;
  int64_t few_columns = 512;  // below which a tile gets rows
};
// The coefficient of each dimension in an index that is affine in all of them; else nothing.
std::optional<Dims> AffineCoefficients(const plan::IndexSpace& space, plan::IndexId index);

// What an element costs, in nanoseconds, roughly, when arrays run along `dim`.
double CostAlong(const plan::ElementProgram& program, int dim);
TileShape ChooseTile(const plan::ElementProgram& program, const TileWish& wish = {});
// Makes tiles go over several planes of a further dimension, for programs that can (BlockProgram::TakesPlanes).
void AddPlanes(const plan::ElementProgram& program, int64_t max_elements, TileShape& tile);
// Whether native code loads elements of such rows (fewer than BlockProgram::kShortRow columns) by whole vectors.
bool AreShortRowsClose(int width, int64_t columns, int64_t row_stride, int64_t column_stride);

// The tiles of an iteration space in row-major order, those of the tile's dimensions last.
class TileGrid {
 public:
  TileGrid() = default;
  TileGrid(std::span<const int64_t> dims, const TileShape& tile);

  int64_t count() const { return count_; }
  std::size_t rank() const { return dims_.size(); }
  int64_t Extent(int dim) const { return dims_[static_cast<std::size_t>(dim)]; }

  struct Tile {
    Dims origin;
    int64_t rows = 1, columns = 1, planes = 1;
  };
  // Sets `tile` to number `index`, or moves it to the next one.
  void Seek(int64_t index, Tile& tile) const;
  void Next(Tile& tile) const;

 private:
  void Measure(Tile& tile) const;

  TileShape shape_;
  Dims dims_;
  std::vector<int> order_;  // dimensions from outermost to innermost
  Dims steps_, parts_;      // of each dimension of order_: of a tile, and how many tiles
  int64_t count_ = 0;
};

}  // namespace krafla::cpu
