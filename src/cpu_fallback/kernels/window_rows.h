// SPDX-License-Identifier: Apache-2.0
// Rows of sums or extrema that are a vector each: what each element of a window adds to a row is a load under a mask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "krafla/element_type.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// The lanes of a row, a bit each, that an element of the window takes from row + offset + lane, in elements; with an
// order from row + offset + what that has for the lane.
struct WindowLoad {
  int64_t offset;
  uint64_t lanes;
  uint64_t read;  // the elements from offset on that are read, a bit each
  int order;      // -1: none
};
// A number for each lane, of as many bytes as an element has.
inline constexpr int64_t kWindowOrderBytes = 64;

struct WindowRowOps {
  // to[r * to_stride + lane] = initial (op) the loads of row r in turn, from in + r * row_stride, for the first `lanes`
  // lanes. What no load has a bit for is not read. `orders`: kWindowOrderBytes for each.
  void (*fold)(const void* in, int64_t row_stride, const WindowLoad* loads, int64_t count, const std::byte* orders,
               const void* initial, void* to, int64_t to_stride, int64_t rows, int64_t lanes) = nullptr;
  int64_t lanes = 0;  // of a vector
};

// Sums and extrema of a compute type of 32 or 64 bits, or of integers of 8 and 16 bits as they are stored, and extrema
// of floats of 16 bits. None where loads under masks are no instruction. A NaN among the extrema of floats is any NaN.
WindowRowOps FindWindowRowOps(plan::Reduction::Kind kind, ElementType type);

}  // namespace krafla::cpu
