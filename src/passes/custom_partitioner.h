// SPDX-License-Identifier: Apache-2.0
// Custom calls whose authors say how they are cut over the devices, as jax.experimental.custom_partitioning does.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/sharding.h"
#include "krafla/status.h"

namespace krafla {

// Called on the thread that partitions, several times for one call that stands in a loop.
class CustomPartitioner {
 public:
  // A program of one device on blocks of the operands, and how operands and results are cut for it, a sharding for each
  // leaf of the result.
  struct Cut {
    std::unique_ptr<Module> program;
    std::vector<Sharding> operands, results;
  };

  virtual ~CustomPartitioner() = default;
  virtual bool Takes(std::string_view target) const = 0;
  // How the leaves of the result lie where the operands lie so.
  virtual Result<std::vector<Sharding>> ResultShardings(const Instruction& call, std::span<const Sharding> operands,
                                                        int64_t devices) const = 0;
  // What is asked for of the results is a wish: the cut has the last word.
  virtual Result<Cut> Partition(const Instruction& call, std::span<const Sharding> operands,
                                std::span<const Sharding> results, int64_t devices) const = 0;
};

}  // namespace krafla
