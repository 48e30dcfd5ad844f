// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/arg_extremum.h"

#include "plan/arg_extremum.h"

namespace krafla::cpu {

namespace {

// Asks `find` for a loop of the combiner's types.
template <class Loop>
Loop FindLoop(const plan::Reduction& reduction, Loop (*find)(bool, ElementType, ElementType)) {
  const plan::ElementProgram& combiner = reduction.combiner;
  if (reduction.kind != plan::Reduction::Kind::kOther || reduction.inputs.size() != 2 || combiner.results.size() != 2)
    return nullptr;
  const std::optional<bool> is_largest = plan::IsLargestOfPairs(combiner);
  if (!is_largest) return nullptr;
  const auto type_of = [&](std::size_t result) {
    return combiner.nodes[static_cast<std::size_t>(combiner.results[result])].type;
  };
  return find(*is_largest, type_of(0), type_of(1));
}

}  // namespace

ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction) { return FindLoop(reduction, &FindArgExtremumRows); }
ArgExtremumColumns FindArgExtremumOfColumns(const plan::Reduction& reduction) {
  return FindLoop(reduction, &FindArgExtremumColumns);
}

}  // namespace krafla::cpu
