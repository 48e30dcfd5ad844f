// SPDX-License-Identifier: Apache-2.0
// The kernels of a plan as SPIR-V for a device of some profile, and what that says of where instructions run. No device
// is needed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/client.h"
#include "api/vulkan/turn_kernels.h"
#include "device/tuned_kernels.h"
#include "plan/program_plan.h"
#include "spirv_codegen/emit.h"
#include "spirv_codegen/kernels/while.h"

namespace krafla {

// Of slices within buffers: the largest minStorageBufferOffsetAlignment that the specification allows.
constexpr uint64_t kSliceAlignment = 256;

bool TakesAttention(const plan::KernelPlan& kernel, const DeviceProfile* profile);
bool TakesHorizontal(const plan::KernelPlan& kernel, const DeviceProfile* profile);
inline constexpr CompileTarget kVulkanTarget{.name = "vulkan",
                                             .runs_spirv = true,
                                             .computes_operands = true,
                                             .runs_row_groups = true,
                                             .packs_elements = true,
                                             .takes_attention = &TakesAttention,
                                             .takes_horizontal = &TakesHorizontal};

// Loops that are one kernel.
using EmittedLoops = std::map<const plan::WhileStep*, spirv::EmittedLoop>;

struct EmittedKernels {
  EmittedLoops loops;
  std::map<const plan::WhileStep*, std::string> loop_refusals;  // why other loops are none
  TurnKernels turns;
  // All by kernel of the plan.
  std::vector<bool> launched;                                  // by a step outside of those loops
  std::vector<std::optional<spirv::EmittedProgram>> programs;  // empty: the CPU runs it, if it is launched
  std::vector<std::string> refusals;                           // why
  std::vector<std::string> entry_points;                       // of custom kernels; empty: "main"
  uint64_t scratch_bytes = 0;
  RateTuning rate;  // of the device, until runs are measured
  bool fast_functions = false;
  int tuned = 0;  // launched kernels whose setting `krafla tune` found
};
// `tuned`: what was found on the device, to be used where UsesTuned; null: nothing.
Result<EmittedKernels> EmitKernels(const plan::ProgramPlan& plan, const DeviceProfile& profile,
                                   const CompileOptions& options, const TunedKernels* tuned = nullptr);

// How EmitKernels emits, but for the tuning.
spirv::EmitOptions EmitOptionsOf(const CompileOptions& options);

// False where something else than the device decides how kernels are emitted: KRAFLA_TUNING, features switched on or
// off; and where "tuned" is disabled.
bool UsesTuned(const CompileOptions& options);

// What TunedKernels names a kernel by: its family, bindings and programs. Equal problems have equal keys in every
// process; kernels of the host have none that lasts.
std::string ProblemKey(const plan::KernelPlan& kernel);

// Adds to the report which instructions run on the device and why others do not.
void ReportPlacement(const plan::ProgramPlan& plan, const EmittedKernels& emitted, CompileReport& report);

// Where the module would run on such a device, without FeaturesOff. Nothing is made ready to run.
Result<CompileReport> PlacementOn(const DeviceProfile& device, std::unique_ptr<Module> module,
                                  const CompileOptions& options);

// The device features that a program is compiled without, sorted: those that the options switch off, and device
// addresses where a custom call of the module has a kernel of its own, which finds its buffers as descriptors.
std::vector<std::string> FeaturesOff(const Module& module, const CompileOptions& options);

}  // namespace krafla
