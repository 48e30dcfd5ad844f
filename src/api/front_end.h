// SPDX-License-Identifier: Apache-2.0
// What every back end does first: verify, optimise, plan.
#pragma once

#include "api/client.h"
#include "plan/planner.h"

namespace krafla {

// Adds its times to `report`.
Result<plan::ProgramPlan> OptimizeAndPlan(std::unique_ptr<Module> module, const CompileOptions& options,
                                          CompileReport& report);

// Launch steps in `list` and below, loops counted once.
int CountLaunches(const plan::StepList& list);

// INVALID_ARGUMENT unless there is one literal a shape, each of that shape (layouts aside).
Result<> CheckArguments(std::span<const Literal* const> arguments, const std::vector<Shape>& shapes);

// Milliseconds since it was made.
class Stopwatch {
 public:
  Stopwatch();
  double Milliseconds() const;

 private:
  int64_t start_;
};

}  // namespace krafla
