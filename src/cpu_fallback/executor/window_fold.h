// SPDX-License-Identifier: Apache-2.0
// Reductions whose elements are loads under bounds, as those of a window: for each element of the window the part of a
// tile of rows that it lies inside the array for is a rectangle, and folded with strides. No index is computed an
// element of the array, no mask is made.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/kernels/reduce_ops.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// From here on there are better ways than a call for each element: for extrema of columns that lie in memory, which
// bounds tell faster, and for few sums.
inline constexpr int64_t kManyWindowElements = 32;

// The i in [0, count) with lo <= at + step * i < hi; step is not 0.
struct IndexRange {
  int64_t begin = 0, end = 0;
  bool operator==(const IndexRange&) const = default;
};
IndexRange RangeInside(int64_t at, int64_t step, int64_t lo, int64_t hi, int64_t count);

class WindowFold {
 public:
  // Nothing where `stage` does more than this, or windows are so large that there are better ways.
  static std::optional<WindowFold> Find(const plan::ReduceStage& stage, std::span<const int64_t> row_dims,
                                        std::span<const int64_t> element_dims);

  // Of row dimensions alone.
  const TileShape& tile() const { return tile_; }
  // The same with tiles along the innermost dimensions of memory, however short those are and few elements apart.
  WindowFold WithDenseColumns(std::span<const int64_t> row_dims) const;
  int64_t elements() const { return elements_; }
  // Whether a call for each element has so few sums to add to that whatever it takes along itself takes longer.
  bool IsOfFewSums() const;
  // Whether there are better ways unless several dimensions are a row together (window_rows.h).
  bool IsOfShortRows() const { return is_of_short_rows_; }
  // The storage type of 8 or 16 bits that values are folded in as they are; kInvalid: their own type.
  ElementType lane() const { return lane_; }
  // Folds elements [begin, end) of the rows in the tile at `origin` into `accumulator`, which has its initial values.
  // `accumulator_stride`: elements from one row of the tile to the next.
  void Run(std::span<std::byte* const> buffers, std::span<const int64_t> origin, int64_t rows, int64_t columns,
           std::byte* accumulator, int64_t accumulator_stride, int64_t begin, int64_t end) const;

  // A stage of rows that does nothing but store the sums: where to, so that they can be made there.
  struct Target {
    int buffer = 0;
    int64_t offset = 0;  // elements
    Dims strides;        // one a row dimension, 1 along the tile's columns
  };
  std::optional<Target> FindTarget(const plan::ReduceStage& stage) const;

 private:
  friend class WindowRows;
  friend class WindowSums;
  // lo <= constant + sum of coefficient * iterator < hi, over row dimensions, then element dimensions.
  struct Bound {
    Dims coefficients;
    int64_t constant = 0, lo = 0, hi = 0;
  };

  bool FindBounds(const plan::ElementProgram& program, plan::NodeId mask);
  bool FindOutside(const plan::Reduction& reduction, ElementType type, uint64_t bits);
  void ChooseWindowTile(std::span<const int64_t> row_dims);
  int64_t StrideOf(int dim) const { return dim < 0 ? 0 : strides_[static_cast<std::size_t>(dim)]; }

  decltype(ReduceOps::tiles) tiles_ = nullptr;
  ElementType lane_ = ElementType::kInvalid;
  TileShape tile_;
  std::size_t row_rank_ = 0;
  Dims element_dims_;
  int64_t elements_ = 1;
  int buffer_ = 0;
  int width_ = 4, source_width_ = 4;  // bytes of what is folded, and of what is loaded
  int64_t offset_ = 0;                // elements
  Dims strides_;                      // of the load, over row dimensions, then element dimensions
  std::vector<Bound> bounds_;
  bool skips_outside_ = true, is_of_short_rows_ = false;
  uint64_t outside_ = 0;  // what an element outside counts as
};

}  // namespace krafla::cpu
