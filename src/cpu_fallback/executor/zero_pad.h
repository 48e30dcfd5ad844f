// SPDX-License-Identifier: Apache-2.0
// Pads of zeros around an array, of short rows: its place is filled with zeros band by band, and the array's rows are
// moved into each while it is in the cache. Complex numbers are moved whole. As pieces of their own the edges of short
// rows would be a few bytes each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "krafla/inline_vector.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class ZeroPad {
 public:
  // Nothing where a program does something else, and of fewer bytes than `least`.
  static std::optional<ZeroPad> Make(const plan::ElementProgram& program, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;

 private:
  // Where a store goes and what it takes, of which more is found to be the same for the second part of a number.
  struct Move {
    int from_buffer = 0, to_buffer = 0, width = 1;
    plan::NodeId mask = plan::kNoNode;
    Dims from, to;
    int64_t from_offset = 0, to_offset = 0;
  };
  static std::optional<Move> FindMove(const plan::ElementProgram& program, const plan::Store& store);
  static std::optional<Move> FindMove(const plan::ElementProgram& program);
  bool FindInside(const plan::ElementProgram& program, plan::NodeId mask);
  // Planes [begin, end), or rows [first, last) of one.
  void RunBand(int64_t begin, int64_t end, int64_t first, int64_t last, const std::byte* from, std::byte* to) const;

  int from_buffer_ = 0, to_buffer_ = 0, width_ = 1;
  int64_t from_offset_ = 0, to_offset_ = 0;  // elements
  // The dimensions of the result, which is dense, the part of each that is no pad, and where that is read.
  Dims dims_, begin_, end_, from_strides_;
  int64_t plane_ = 1, planes_ = 1;  // elements of the two innermost dimensions; how many such planes there are
  int64_t band_ = 1;                // planes of a band
  int64_t band_rows_ = 1;           // or rows, where it is less than a plane
};

}  // namespace krafla::cpu
