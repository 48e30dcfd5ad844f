// SPDX-License-Identifier: Apache-2.0
// Layouts: which dimension lies how far apart in memory (https://openxla.org/xla/shapes).
#pragma once

#include <cstdint>
#include <string>

#include "krafla/export.h"
#include "krafla/shape.h"
#include "krafla/span.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct LayoutUtil {
  // The order of dimensions, fastest varying first: {0, 1} is column-major. Not checked until a shape takes it.
  static Layout MakeLayout(Span<int64_t> minor_to_major);
  static Layout MakeLayoutFromMajorToMinor(Span<int64_t> major_to_minor);
  // Row-major: {rank - 1, ..., 1, 0}.
  static Layout MakeDescendingLayout(int64_t rank);
  // Column-major: {0, 1, ..., rank - 1}.
  static Layout MakeAscendingLayout(int64_t rank);
  // INVALID_ARGUMENT unless the layout names each dimension of the array once.
  static Result<> ValidateLayoutForShape(const Layout& layout, const Shape& shape);

  // Dimension 0 is the most major (row-major), or the most minor.
  static bool IsMonotonicWithDim0Major(const Layout& layout);
  static bool IsMonotonicWithDim0Minor(const Layout& layout);
  // The dimension at a place counted from the slowest, or from the fastest. OUT_OF_RANGE for a place that is not there.
  static Result<int64_t> Major(const Layout& layout, int64_t physical_dimension);
  static Result<int64_t> Minor(const Layout& layout, int64_t physical_dimension);
  // For each logical dimension, its place counted from the slowest.
  static Result<Dims> MakeLogicalToPhysical(const Layout& layout);
  static bool Equal(const Layout& a, const Layout& b) { return a == b; }
  static std::string HumanString(const Layout& layout);  // "{1,0}"
};

}  // namespace krafla
KRAFLA_EXPORT_END
