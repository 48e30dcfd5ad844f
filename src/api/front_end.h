// SPDX-License-Identifier: Apache-2.0
// What every back end does first: verify, optimise, plan.
#pragma once

#include <new>
#include <stdexcept>
#include <system_error>

#include "api/client.h"
#include "base/host_memory.h"
#include "plan/planner.h"

namespace krafla {

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

// f(), whose small allocations (large ones are checked where they are made) may fail: no exception leaves the API.
template <typename F>
auto WithoutExceptions(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  } catch (const std::system_error& e) {
    return ResourceExhausted("The system refused a thread, a lock or a file: {}.", e.what());
  } catch (const std::exception& e) {
    return Internal("An exception reached the API: {}.", e.what());
  }
  return ResourceExhausted("The host has no memory left for this; the process may have {} bytes in all.",
                           HostMemoryLimit());
}

// Milliseconds since it was made.
class Stopwatch {
 public:
  Stopwatch();
  double Milliseconds() const;

 private:
  int64_t start_;
};

}  // namespace krafla
