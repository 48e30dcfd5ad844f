// SPDX-License-Identifier: Apache-2.0
// Rows of bytes from anywhere to anywhere, too short for a call each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krafla::cpu {

// Of `bytes` each, kLeastCopiedRow to kMostCopiedRow. places: elements of `width` bytes; step 0: one place for all.
inline constexpr std::size_t kLeastCopiedRow = 64, kMostCopiedRow = 1024;
struct RowPlaces {
  const int32_t* places = nullptr;
  int64_t step = 1;
};
void CopyShortRows(int width, std::size_t bytes, int64_t n, const std::byte* from, RowPlaces from_places, std::byte* to,
                   RowPlaces to_places);

}  // namespace krafla::cpu
