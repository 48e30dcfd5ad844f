// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/arg_extremum.h"

#include "base/index.h"
#include "plan/arg_extremum.h"
#include "plan/window_selection.h"

namespace krafla::cpu {

namespace {

bool IsOfPairs(const plan::Reduction& reduction) {
  return reduction.kind == plan::Reduction::Kind::kOther && reduction.inputs.size() == 2 &&
         reduction.combiner.results.size() == 2;
}

ElementType TypeOf(const plan::Reduction& reduction, std::size_t result) {
  return reduction.combiner.nodes[At(reduction.combiner.results[result])].type;
}

// Asks `find` for a loop of the combiner's types.
template <class Loop>
Loop FindLoop(const plan::Reduction& reduction, Loop (*find)(bool, ElementType, ElementType)) {
  if (!IsOfPairs(reduction)) return nullptr;
  const std::optional<bool> is_largest = plan::IsLargestOfPairs(reduction.combiner);
  return is_largest ? find(*is_largest, TypeOf(reduction, 0), TypeOf(reduction, 1)) : nullptr;
}

}  // namespace

ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction) { return FindLoop(reduction, &FindArgExtremumRows); }

ArgExtremumColumns FindPairColumns(const plan::Reduction& reduction) {
  if (!IsOfPairs(reduction)) return nullptr;
  if (const ArgExtremumColumns loop = FindLoop(reduction, &FindArgExtremumColumns)) return loop;
  const std::optional<plan::WindowSelection> selection = plan::MatchWindowSelection(reduction.combiner);
  if (!selection || !selection->direction) return nullptr;
  return FindSelectedPairs(*selection->direction, TypeOf(reduction, 0), TypeOf(reduction, 1));
}

}  // namespace krafla::cpu
