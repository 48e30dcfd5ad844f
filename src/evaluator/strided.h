// SPDX-License-Identifier: Apache-2.0
// Copies between strided views, the work under all data movement. A run that is to end (base/interruption.h) leaves the
// rest as it is.
#pragma once

#include <cstdint>
#include <span>

#include "krafla/inline_vector.h"
#include "krafla/literal.h"

namespace krafla::evaluator {

// A c128, moved and not looked at.
struct Bits128 {
  uint64_t low, high;
};

// A rectangular set of elements: offset and strides in elements, strides of either sign or zero.
struct View {
  int64_t offset = 0;
  Dims strides;
};

// to[index] = from[index] for every index below `dims`.
void CopyView(std::span<const int64_t> dims, int element_bytes, const std::byte* from, const View& from_view,
              std::byte* to, const View& to_view);

// `count` copies of one element.
void FillElements(std::byte* to, int64_t count, int element_bytes, const std::byte* element);

// `out` all zeros.
void FillZeros(std::span<std::byte> out);
void CopyBytes(std::span<const std::byte> from, std::byte* to);

// Row-major view of a whole shape.
inline View DenseView(const Shape& shape) { return {0, RowMajorStrides(shape.dims())}; }

// One element of an integer literal as s64; u64 past the top of s64 saturates.
int64_t IntegerAt(const Literal& literal, int64_t index);

}  // namespace krafla::evaluator
