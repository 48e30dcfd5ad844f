// SPDX-License-Identifier: Apache-2.0
// Lists of steps by hand.
#pragma once

#include <memory>
#include <utility>

#include "plan/program_plan.h"

namespace krafla::plan {

inline LaunchStep LaunchOf(int kernel) {
  LaunchStep out;
  out.kernel = kernel;
  return out;
}
template <typename... Steps>
std::unique_ptr<StepList> ListOf(Steps... steps) {
  auto out = std::make_unique<StepList>();
  (out->steps.push_back(std::move(steps)), ...);
  return out;
}
inline CallStep CallOf(int callee) {
  CallStep out;
  out.callee = callee;
  return out;
}

}  // namespace krafla::plan
