// SPDX-License-Identifier: Apache-2.0
// What the integers and preds of a program may be that are computed from indices and constants, as masks are.
#pragma once

#include <optional>
#include <vector>

#include "plan/element_program.h"

namespace krafla::plan {

class MaskRanges {
 public:
  explicit MaskRanges(const ElementProgram& p) : p_(p), known_(p.nodes.size()), seen_(p.nodes.size()) {}

  // Nothing where it is computed from something else. No integer on the way to it wraps around.
  std::optional<Interval> Of(NodeId id);

 private:
  std::optional<Interval> Make(const Node& n);

  const ElementProgram& p_;
  std::vector<std::optional<Interval>> known_;
  std::vector<bool> seen_;
};

}  // namespace krafla::plan
