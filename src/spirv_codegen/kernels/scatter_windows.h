// SPDX-License-Identifier: Apache-2.0
// The windows of a ScatterKernel: where each of its updates begins, and how an element of one is combined with the
// operand's.
#pragma once

#include <span>
#include <vector>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"

namespace krafla::spirv {

// What the shapes and attributes say, without any code.
class ScatterGeometry {
 public:
  explicit ScatterGeometry(const plan::ScatterKernel& s);

  int64_t window_count() const { return Product(window_extents); }  // elements of a window
  int64_t batch_count() const { return Product(batch_extents); }    // windows
  bool windows_overlap() const { return !sliding.empty(); }
  // Windows that have an element in common are of one group (ScatterWindows::Update), unless they overlap. So many
  // groups there are.
  int64_t group_count() const;
  int64_t Room(int64_t d) const;  // the last start along a dimension of the operand

  const plan::ScatterKernel& s;
  Dims operand_strides, update_strides, index_strides;
  Dims window, batch;  // the updates' dimensions of a window, and the others
  Dims window_extents, batch_extents;
  Dims window_of_operand;    // for each dimension of the operand the updates' dimension along it, or -1
  Dims sliding;              // of the operand, along which windows overlap
  bool has_vectors = false;  // of indices; else each is a scalar
};

class ScatterWindows {
 public:
  ScatterWindows(KernelWriter& w, const ScatterGeometry& geometry) : w_(w), b_(w.b), g_(geometry), s_(geometry.s) {}

  // The places of an element of a window in the operand and in the updates, counted from the window's corner. Along
  // dimensions in which windows overlap only the remainder of the coordinate is known.
  struct Place {
    Value operand, update;
    Values remainders;  // along the dimensions in which windows overlap
    Value there = {};   // whether the window has this element; none: it has
  };
  // `alone`: no other invocation writes the elements of this update, so that overlaps do not matter.
  Place WindowPlace(Value element, bool alone);

  // Where update `batch` has its corner, or with `remainders` the one element of that place, in the operand and in the
  // updates; its group; and whether the window lies within the operand.
  struct Update {
    Value inside, group, operand, update;
  };
  Update Locate(Value batch, const Values& remainders);

  // What the combiner makes of the two elements becomes the operand's.
  void Combine(Value operand_at, Value update_at);

 private:
  Value U32(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }
  Values Delinearize(Value linear, const Dims& extents);

  KernelWriter& w_;
  Builder& b_;
  const ScatterGeometry& g_;
  const plan::ScatterKernel& s_;
};

}  // namespace krafla::spirv
