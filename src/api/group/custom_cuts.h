// SPDX-License-Identifier: Apache-2.0
// Custom calls whose caller says how they are cut over the devices of a group, as jax.experimental.custom_partitioning
// does. Shapes and shardings are the bytes of XLA's protos, ShapeProto and OpSharding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla {

class CustomCuts {
 public:
  struct Call {
    std::string config;  // the bytes of backend_config
    std::vector<std::string> operand_shapes, operand_shardings;
    std::string result_shape;
    std::string wish;  // how the result would lie best; the cut has the last word
  };
  struct Cut {
    std::string program;  // of one device, on blocks, in any form that ReadProgram takes
    std::vector<std::string> operand_shardings;
    std::string result_sharding;
  };

  // Called on the thread that compiles, several times for a call in a loop.
  virtual ~CustomCuts() = default;
  virtual bool Takes(std::string_view target) const = 0;
  // Of the result, where the operands lie so; nothing: it may lie anyhow. `wish` is empty.
  virtual Result<std::optional<std::string>> ResultSharding(std::string_view target, const Call& call) const = 0;
  virtual Result<Cut> Partition(std::string_view target, const Call& call) const = 0;
};

}  // namespace krafla
