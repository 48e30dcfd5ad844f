// SPDX-License-Identifier: Apache-2.0
// What the stages of a reduction hand on to later ones besides their results: arrays of the row tile that is being
// worked on, in a worker's scratch, which the stages' programs store to and load from as buffers of their own.
//
// - Values of elements that cost much and are wanted again, as the exponentials of a softmax, are kept.
// - A value a row (a reduced one, or computed of such) is loaded along the tile's rows: it needs no array of its
// copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu_fallback/executor/reduce_tiling.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

class StageArrays {
 public:
  struct Array {
    int width = 4;
    int64_t elements = 0;  // of kept values; a param's are the accumulators'
    int param = -1;        // -1: kept values
    Dims strides;          // of the row dimensions, in elements
  };

  // The buffers that the kernel has by itself.
  explicit StageArrays(const plan::ReduceKernel& body);

  // Each before the programs are compiled, in this order.
  void KeepValues(plan::ReduceKernel& body, const TileShape& tile);
  void LoadParams(plan::ReduceKernel& body, const TileShape& tile);

  // Array i is buffer `first_buffer() + i` of all element stages' programs.
  int first_buffer() const { return first_buffer_; }
  const std::vector<Array>& arrays() const { return arrays_; }
  // Where array i, which lies at `place`, would begin if it had all rows: programs count them from the first one of
  // all, the array from that of the tile at `origin`.
  std::byte* BaseOf(std::size_t i, std::byte* place, std::span<const int64_t> origin) const;

 private:
  int Add(plan::ReduceKernel& body, ElementType type, Array array);

  int first_buffer_ = 0;
  std::vector<Array> arrays_;
};

}  // namespace krafla::cpu
