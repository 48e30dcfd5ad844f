// SPDX-License-Identifier: Apache-2.0
// What every back end does first: verify, optimise, plan.
#pragma once

#include "api/client.h"
#include "base/without_exceptions.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla {

// Without the passes `disabled`, and without those that the other kind of device needs.
PassOptions PassOptionsFor(std::set<std::string> disabled, bool on_vulkan);

// Adds its times to `report`.
Result<plan::ProgramPlan> OptimizeAndPlan(std::unique_ptr<Module> module, const CompileOptions& options,
                                          CompileReport& report, bool on_vulkan = false);

// Launch steps in `list` and below, loops counted once.
int CountLaunches(const plan::StepList& list);

// Adds the launches in `list` and below that lie between devices to the report.
void CountExchanges(const plan::ProgramPlan& plan, const plan::StepList& list, CompileReport& report);

// INVALID_ARGUMENT unless there is one literal a shape, each of that shape (layouts aside).
Result<> CheckArguments(std::span<const Literal* const> arguments, const std::vector<Shape>& shapes);

// The same of buffers.
Result<> CheckBuffers(std::span<const DeviceArgument> arguments, const std::vector<Shape>& shapes);

// As the copy constructor, with RESOURCE_EXHAUSTED instead of an exception.
Result<Literal> CopyOf(const Literal& literal);

// Milliseconds since it was made.
class Stopwatch {
 public:
  Stopwatch();
  double Milliseconds() const;

 private:
  int64_t start_;
};

}  // namespace krafla
