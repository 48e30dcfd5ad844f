// SPDX-License-Identifier: Apache-2.0
// A loop that puts the elements of several arrays side by side, as the transpose of lines that are different arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class InterleavedArrays {
 public:
  // Nothing where the program does something else, or moves fewer than `least` bytes.
  static std::optional<InterleavedArrays> Make(const plan::ElementProgram& program, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;

 private:
  struct Array {
    int buffer = 0;
    int64_t offset = 0;  // elements
  };
  std::vector<Array> arrays_;
  int to_ = 0, width_ = 1;
  int64_t rows_ = 0, offset_ = 0;
};

}  // namespace krafla::cpu
