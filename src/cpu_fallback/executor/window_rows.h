// SPDX-License-Identifier: Apache-2.0
// Reductions of windows over rows of few columns, as those of pictures of three channels: the innermost dimensions of
// the result together are a row of a vector or a few, which is made in registers. What an element of the window adds to
// a row is a load under a mask; the masks are found once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/window_fold.h"
#include "cpu_fallback/kernels/window_rows.h"

namespace krafla::cpu {

class WindowRows {
 public:
  // Of `fold`, whose sums are stored at `target`; without one, in its tiles. Nothing where `other` is as fast.
  static std::optional<WindowRows> Find(const WindowFold& fold, const std::optional<WindowFold::Target>& target,
                                        const WindowFold& other, const plan::Reduction& reduction,
                                        std::span<const int64_t> row_dims);
  // `initial`: what sums begin with, as they are stored. `arithmetic`: the type of floats whose NaNs are to be settled.
  void Run(std::span<std::byte* const> buffers, const std::byte* initial, ElementType arithmetic,
           ThreadPool& pool) const;
  // The sums of the tile of `rows` rows at `origin`.
  void RunTile(std::span<std::byte* const> buffers, std::span<const int64_t> origin, int64_t rows,
               const std::byte* initial, std::byte* to) const;

 private:
  // Of an element of the window: begin <= at[element] + row * the number of a row + outer * the others < end.
  struct Bound {
    std::vector<int64_t> at;
    int64_t row = 0, lo = 0, hi = 0;
    Dims outer;
  };

  // What makes some rows at once.
  struct Loads {
    std::vector<WindowLoad> loads;  // of one vector after the other, by element
    std::vector<int> elements;      // of the window, one a load
    std::vector<int64_t> ends;      // a vector
    int64_t rows = 1;
    double cost = 0;  // in plain loads
  };

  bool FindRow(const WindowFold& fold, const std::optional<WindowFold::Target>& target,
               std::span<const int64_t> row_dims, std::size_t inner_dims);
  bool FindLoads(const WindowFold& fold, std::span<const int64_t> row_dims);
  Loads LoadsOf(int64_t rows, const WindowFold& fold, std::span<const int64_t> row_dims,
                std::span<const WindowFold::Bound* const> of_lanes);
  void AddLoads(std::span<const std::pair<int64_t, int64_t>> lanes, int element, Loads& to);
  double Nanoseconds() const;
  void RunPiece(int64_t piece, std::span<std::byte* const> buffers, const std::byte* initial,
                ElementType arithmetic) const;
  // Rows [first, last); `in`: what row 0 reads, `to`: where row `first` is stored.
  void RunRows(std::span<const int64_t> outer, int64_t first, int64_t last, const std::byte* in, std::byte* to,
               const std::byte* initial, ElementType arithmetic) const;
  // `count` times the rows of `all`, with those of its loads that `inside` has for rows [begin, end).
  void FoldRows(const std::byte* in, std::byte* to, int64_t count, const Loads& all, const IndexRange* inside,
                int64_t begin, int64_t end, const std::byte* initial) const;

  WindowRowOps ops_;
  int width_ = 4, from_buffer_ = 0, to_buffer_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0;  // elements, as all below
  std::vector<int> inner_;                   // dimensions of a row, innermost first
  int row_dim_ = -1;
  int64_t lanes_ = 1, rows_ = 1, from_stride_ = 0, to_stride_ = 0;
  std::vector<int> outer_;
  Dims outer_dims_, outer_from_, outer_to_;
  int64_t outer_count_ = 1;
  int64_t pieces_ = 1, piece_rows_ = 1;  // of the rows
  int64_t elements_ = 1;
  std::vector<Bound> bounds_;
  Loads alone_, together_;  // of one row; of several, where those are a vector
  std::vector<std::byte> orders_;
};

}  // namespace krafla::cpu
