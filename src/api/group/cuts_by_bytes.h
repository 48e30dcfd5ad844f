// SPDX-License-Identifier: Apache-2.0
// What the partitioner asks of custom calls, asked of a caller who knows protos only.
#pragma once

#include "api/group/custom_cuts.h"
#include "passes/custom_partitioner.h"

namespace krafla {

class CutsByBytes final : public CustomPartitioner {
 public:
  // Which outlive this; null: there are none.
  explicit CutsByBytes(const CustomCuts* cuts) : cuts_(cuts) {}

  bool Takes(std::string_view target) const override { return cuts_ != nullptr && cuts_->Takes(target); }
  Result<std::vector<Sharding>> ResultShardings(const Instruction& call, std::span<const Sharding> operands,
                                                int64_t devices) const override;
  Result<Cut> Partition(const Instruction& call, std::span<const Sharding> operands, std::span<const Sharding> results,
                        int64_t devices) const override;

 private:
  const CustomCuts* const cuts_;
};

}  // namespace krafla
