// SPDX-License-Identifier: Apache-2.0
// Batches for which an operand that is computed (plan::DotKernel) is the same, as for blocks of rows that want the
// matrix of one expert. What differs is known when a program runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

class RepeatedBatches {
 public:
  // Of a program over the batch and two more dimensions. Nothing where the operand differs from batch to batch by more
  // than what is loaded for a whole batch.
  static std::optional<RepeatedBatches> Make(const plan::ElementProgram& program);

  // How many batches from `first` on, of `count`, have the operand of the first one.
  int64_t CountFrom(int64_t first, int64_t count, std::span<std::byte* const> bindings) const;

 private:
  // One element for each batch; places in bytes.
  struct Load {
    int buffer = 0;
    int64_t offset = 0, stride = 0;
    std::size_t bytes = 0;
  };
  std::vector<Load> loads_;
};

}  // namespace krafla::cpu
