// SPDX-License-Identifier: Apache-2.0
// What loops and conditionals hand on: the values in whose memory their results may lie, so that what a program passes
// through them is updated there and not copied at their doors.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/value_ref.h"

namespace krafla::plan {

// Answers are remembered, so the module must not change meanwhile.
class CarriedValues {
 public:
  // The value, resolved, of which `v`, an array of a while's or a conditional's result, is what becomes of it: what
  // the loop's state begins with, or what a branch is given and passes on, perhaps updated. Nothing: none is, or it is
  // needed besides within the loop or by the conditional. No value is that of two results.
  std::optional<ValueRef> From(const ValueRef& v);

 private:
  // One for each leaf of the instruction's result; those that are no arrays have none.
  const std::vector<std::optional<ValueRef>>& Of(const Instruction& i);
  std::vector<std::optional<ValueRef>> OfWhile(const Instruction& loop) const;
  std::vector<std::optional<ValueRef>> OfConditional(const Instruction& i);
  // The leaf of the branch's parameter that `v`, a value of the branch, is an update of.
  std::optional<int> ParameterLeaf(const Computation& branch, ValueRef v);

  std::unordered_map<const Instruction*, std::vector<std::optional<ValueRef>>> known_;
};

}  // namespace krafla::plan
