// SPDX-License-Identifier: Apache-2.0
// How the indices of a program of one dimension go on where they do so in runs: rows of a slice, of which a block of
// points may hold the end of one and the beginning of the next.
#pragma once

#include <optional>
#include <vector>

#include "plan/element_program.h"

namespace krafla::spirv {

// Where runs begin: at the points p for which (p + phase) % length is 0. A length of 0: all points are one run.
struct RunStarts {
  int64_t length = 0, phase = 0;
  friend bool operator==(const RunStarts&, const RunStarts&) = default;
};

class RunGroup {
 public:
  // From one point of a run to the next an index goes on by `stride`.
  struct Run {
    int64_t stride = 0;
    RunStarts starts;
  };

  explicit RunGroup(const plan::ElementProgram& program);

  std::optional<Run> Of(plan::IndexId id);
  // Where the runs begin in each of which the node has one value.
  const std::optional<RunStarts>& OfNode(plan::NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  // The runs of which each lies within one of both.
  static std::optional<RunStarts> Both(const std::optional<RunStarts>& a, const std::optional<RunStarts>& b);

 private:
  std::optional<Run> OfAtom(plan::AtomId id);
  std::optional<RunStarts> FindNode(const plan::Node& node);

  const plan::IndexSpace* space_;
  std::vector<bool> done_;
  std::vector<std::optional<Run>> known_;
  std::vector<std::optional<RunStarts>> nodes_;
};

}  // namespace krafla::spirv
