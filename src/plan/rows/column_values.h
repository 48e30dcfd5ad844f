// SPDX-License-Identifier: Apache-2.0
// What is known of values in columns that a mask hides, and in any column, as long as the largest score of every row is
// finite and well above what the mask makes of a hidden score, and the elements of certain arrays are no larger than
// kMostElement.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::plan {

struct ValueRange {
  enum class Kind : uint8_t {
    kUnknown,
    kLow,      // what the mask makes of a hidden score: `lo` at the least
    kScore,    // no more than the largest score of the row
    kLargest,  // the largest score of the row
    kFar,      // less than what an exponential makes anything but zero of
    kShifted,  // zero at the most, and zero in some column of each row
    kBetween,  // `lo` to `hi`; NaN only where one of them is infinite
  };
  Kind kind = Kind::kUnknown;
  double lo = 0, hi = 0;
  bool has_one = false;  // kBetween: it is 1 in some column of each row

  bool IsZero() const { return kind == Kind::kBetween && lo == 0 && hi == 0; }
  bool IsFinite() const;
  static ValueRange Of(Kind kind) { return {kind, 0, 0, false}; }
  static ValueRange Between(double lo, double hi);
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

struct ColumnValue {
  ValueRange hidden, any;
  static ColumnValue Score(double low) {
    return {{ValueRange::Kind::kLow, low, low, false}, ValueRange::Of(ValueRange::Kind::kScore)};
  }
  static ColumnValue Same(const ValueRange& range) { return {range, range}; }
};

// Of the elements that are checked when a program runs: what a product of two makes of rows of 2^20 of them is finite.
inline constexpr double kMostElement = 0x1p40;

// Of each node of a program. `column_dim`: of its dimensions; -1: it has none. `params`: what the parameters are.
// `array`: what an element of a buffer is; the load is of the same column as what the program computes, or, where
// `in_column` is false, of what all columns share.
std::vector<ColumnValue> ValuesOfNodes(const ElementProgram& program, int column_dim,
                                       std::span<const ColumnValue> params,
                                       const std::function<ColumnValue(int buffer, bool in_column)>& array);

// Whether the index is the column and something that does not depend on it.
bool IsOwnColumn(const ElementProgram& program, IndexId index, int column_dim);

// The reductions of rows over all columns.
struct ReducedColumns {
  bool fits = false;                // hidden columns change no result
  std::vector<ColumnValue> params;  // the results
  // By binding: of an element of a column, and of a row.
  std::vector<std::pair<int, ColumnValue>> stores, row_stores;
};
ReducedColumns ReduceColumns(const ReduceKernel& reduce,
                             const std::function<ColumnValue(int buffer, bool in_column)>& array);

}  // namespace krafla::plan
