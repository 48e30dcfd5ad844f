// SPDX-License-Identifier: Apache-2.0
// Rows from anywhere, too short for a call each: copied to anywhere, or added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "krafla/element_type.h"

namespace krafla::cpu {

// Of `bytes` each, kLeastCopiedRow to kMostCopiedRow. places: elements of `width` bytes; step 0: one place for all.
inline constexpr std::size_t kLeastCopiedRow = 64, kMostCopiedRow = 1024;
struct RowPlaces {
  const int32_t* places = nullptr;
  int64_t step = 1;
};
void CopyShortRows(int width, std::size_t bytes, int64_t n, const std::byte* from, RowPlaces from_places, std::byte* to,
                   RowPlaces to_places);

// One row for each of the terms, added in their order to `start`, or to the first of them where there is no start. The
// sums lie one behind the other: of narrow floats as f32, of all else in the type of what is added.
struct RowTerm {
  const std::byte* from = nullptr;
  RowPlaces places;
};
struct RowSum {
  std::span<const RowTerm> terms;
  const void* start = nullptr;
  int64_t rows = 0, columns = 0;
  std::byte* to = nullptr;
};
using RowSumFn = void (*)(const RowSum&);
RowSumFn FindRowSum(ElementType storage);  // null: there is no loop for it

}  // namespace krafla::cpu
