// SPDX-License-Identifier: Apache-2.0
// What every back end does first: verify, optimise, plan.
#pragma once

#include "api/client.h"
#include "base/without_exceptions.h"
#include "passes/entry_interface.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla {

// Whether an attention is one kernel on the CPU: one that saves too little for a row group, as of few queries, and has
// more to do than loops of small numbers, which are tapes or native routines.
bool TakesAttentionOnCpu(const plan::KernelPlan& kernel, const DeviceProfile* profile);

// Of the CPU, wherever its kernels are compiled.
inline constexpr CompileTarget kCpuTarget{
    .name = "cpu",
    .takes_dilated_convolutions = true,
    .reduces_columns_faster = true,
    .runs_steps_at_once = true,
    .computes_operands = true,
    .copies_rows = true,
    .folds_windows = true,
    .side_by_side = 64,
    .runs_row_groups = true,
    .packs_elements = true,
    .takes_attention = &TakesAttentionOnCpu,
    .takes_horizontal = [](const plan::KernelPlan&, const DeviceProfile*) { return true; }};

// Step by step, as `krafla opt` shows what lies between; OptimizeAndPlan is all of it.
class FrontEnd {
 public:
  // `options` and `report`, to which it adds times and counts, must outlive it.
  FrontEnd(std::unique_ptr<Module> module, const CompileOptions& options, CompileReport& report,
           const CompileTarget& target);

  // Checks the module as it was given, then runs the pipeline, or the passes named in its place. A compiled model has
  // been through it: no pass runs, and passes named or switched off are FAILED_PRECONDITION.
  // `observer` is called after each.
  Result<> Optimize(std::span<const std::string> passes = {}, const PassObserver& observer = {});
  // Of the module as it was given; once Optimize was called.
  const EntryInterface& interface() const { return interface_; }
  // What the program's arguments and results were before their elements were packed; empty where nothing was. Once Plan
  // was called.
  const PackedEdges& packed_edges() const { return packed_edges_; }
  // Until Plan.
  const Module& module() const { return *module_; }
  // Once. `profile`: of the Vulkan device; null: of no device in particular, or the CPU.
  // `log`: where the planner writes down why; may be null.
  Result<plan::ProgramPlan> Plan(const DeviceProfile* profile, plan::PlanLog* log = nullptr);

 private:
  Result<> Check();
  // Puts the program of a compiled model that is for this target in the place of the module.
  Result<> TakeOptimised();
  // Packs the elements of the entry's arrays, and keeps what they were.
  Result<> PackElements();

  std::unique_ptr<Module> module_;
  const CompileOptions& options_;
  CompileReport& report_;
  CompileTarget target_;
  EntryInterface interface_;
  PackedEdges packed_edges_;
};

// For the CPU, of arguments and results with a byte for each element of fewer bits.
Result<plan::ProgramPlan> OptimizeAndPlan(std::unique_ptr<Module> module, const CompileOptions& options,
                                          CompileReport& report);

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
