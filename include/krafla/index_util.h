// SPDX-License-Identifier: Apache-2.0
// Between an index of many numbers and the place of an element in memory.
#pragma once

#include <cstdint>
#include <span>

#include "krafla/export.h"
#include "krafla/shape.h"
#include "krafla/span.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct IndexUtil {
  // The element's place in an array laid out as `shape` says, counted in elements. OUT_OF_RANGE for an index outside.
  static Result<int64_t> MultidimensionalIndexToLinearIndex(const Shape& shape, Span<int64_t> index);
  // And back.
  static Result<Dims> LinearIndexToMultidimensionalIndex(const Shape& shape, int64_t linear_index);
  // Steps to the next index in logical row-major order; false after the last, and for an index that does not fit.
  static bool BumpIndices(const Shape& shape, std::span<int64_t> index);
  // How far apart two neighbours along `dimension` lie, in elements.
  static Result<int64_t> GetDimensionStride(const Shape& shape, int64_t dimension);
  static bool IndexInBounds(const Shape& shape, Span<int64_t> index);
};

}  // namespace krafla
KRAFLA_EXPORT_END
