// SPDX-License-Identifier: Apache-2.0
// Rules of Shardy by which an operation may be cut (github.com/openxla/shardy, OpShardingRuleAttr): each dimension of
// its operands and results is made of factors, and what has a factor in common is cut alike. A product of matrices is
// "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}>".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla {

struct SdyRule {
  // The factors of each dimension, the major one first; none of a dimension that is not cut.
  using Dimensions = std::vector<std::vector<std::string>>;
  std::vector<Dimensions> operands, results;
  std::vector<std::string> whole;  // factors that must not be cut
};

Result<SdyRule> ParseSdyRule(std::string_view text);

}  // namespace krafla
