// SPDX-License-Identifier: Apache-2.0
// What a run must know of an attention kernel to leave columns out that its mask hides (plan::ColumnLimits): which ones
// are left, and how large what belongs to the others is and the scores of all rows such that the others count
// nothing.
#pragma once

#include <optional>

#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {

struct ColumnRange {
  int64_t begin = 0, end = 0;
};

// The columns that any row has left.
class ColumnRangeFinder {
 public:
  // bindings: how many there are of the kernel.
  static Result<ColumnRangeFinder> Make(const plan::ColumnLimits& limits, int bindings);
  int64_t scratch_bytes(int threads) const;
  ColumnRange Find(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const;

 private:
  std::optional<LoopRunner> loop_;
  int buffers_ = 0;
  int64_t rows_ = 1;
  int ends_ = 0, limits_ = 0;
};

// How large the numbers of an operand are: of the keys or the values outside of some columns, or of the queries.
class Magnitudes {
 public:
  // Nothing where no elements of it lie side by side, or for types that it does not know.
  static std::optional<Magnitudes> OfKeys(const plan::DotKernel& scores);
  static std::optional<Magnitudes> OfValues(const plan::DotKernel& product);
  static std::optional<Magnitudes> OfQueries(const plan::DotKernel& scores);
  // The largest one in front of column `begin` and from `end` on; not finite where one of them is not.
  float Outside(const ColumnRange& range, std::span<std::byte* const> bindings, ThreadPool& pool) const;

 private:
  struct Walk {
    int64_t extent = 1, stride = 0;
  };
  static std::optional<Magnitudes> Make(int binding, int64_t offset, ElementType type, std::vector<Walk> others,
                                        Walk columns);
  static std::vector<Walk> WithBatch(const Dims& batch, const Dims& strides, Walk others);
  static std::optional<Magnitudes> OfRhs(const plan::DotKernel& dot, Walk others, Walk columns);
  float Within(const ColumnRange& range, const std::byte* values, ThreadPool& pool) const;

  std::vector<Walk> walks_;  // from the longest stride to 1
  std::size_t columns_ = 0;  // which of them
  int binding_ = 0;
  int64_t offset_ = 0;
  ElementType type_ = ElementType::kF32;
};

// Whether each of the rows, `stride` elements apart, has a score above `least` in the columns, or one that is NaN.
bool HaveScoresAbove(double least, const ColumnRange& range, const std::byte* scores, ElementType storage, int64_t rows,
                     int64_t stride);

}  // namespace krafla::cpu
