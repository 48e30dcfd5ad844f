// SPDX-License-Identifier: Apache-2.0
// A loop kernel that finds each element in a table by a byte of an array, as palettes and curves of pictures do.
// Vectors do not gather elements of one or two bytes: what a tile does in three steps, over arrays, is a load, a load
// and a store here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class ByteTable {
 public:
  // Nothing where a program does something else, and of fewer bytes than `least`.
  static std::optional<ByteTable> Make(const plan::ElementProgram& program, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;

 private:
  // Elements of a dimension, and how far they are apart in each array: in elements of it.
  struct Level {
    int64_t extent = 1, index = 0, table = 0, to = 0;
  };
  template <class T>
  void RunItems(int64_t begin, int64_t end, std::span<std::byte* const> buffers) const;
  int64_t PartsOfLine() const;

  int index_buffer_ = 0, table_buffer_ = 0, to_buffer_ = 0;
  Level offset_;        // of the first element
  int64_t factor_ = 1;  // of the byte, in the table's places
  int width_ = 1;
  Level line_;
  std::vector<Level> outer_;
};

}  // namespace krafla::cpu
