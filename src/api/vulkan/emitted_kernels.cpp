// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/emitted_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "api/feature_names.h"
#include "api/front_end.h"
#include "api/host/host_services.h"
#include "base/checked_math.h"
#include "collectives/participants.h"
#include "plan/step_runner.h"

namespace krafla {
namespace {

// The kernel of a custom call, or null.
const CustomCallKernel* CustomKernelOf(const Instruction& call, const CustomCallRegistry& custom_calls) {
  if (call.opcode() != Opcode::kCustomCall) return nullptr;
  return custom_calls.FindKernel(call.attr<CustomCallAttributes>().target);
}
const CustomCallKernel* CustomKernelOf(const plan::KernelPlan& kernel, const CustomCallRegistry& custom_calls) {
  const auto* host = std::get_if<plan::HostKernel>(&kernel.body);
  return host == nullptr ? nullptr : CustomKernelOf(*host->instruction, custom_calls);
}

// A custom kernel as if it had been generated here.
Result<spirv::EmittedProgram> WrapCustomKernel(const plan::KernelPlan& plan, const CustomCallKernel& kernel,
                                               const DeviceProfile& profile) {
  const Instruction& call = *std::get<plan::HostKernel>(plan.body).instruction;
  const std::string& target = call.attr<CustomCallAttributes>().target;
  std::vector<Shape> arrays;
  auto add = [&](const Shape& shape) {
    for (const Shape* leaf : TupleLeaves(shape))
      if (leaf->IsArray()) arrays.push_back(*leaf);
  };
  for (const Instruction* o : call.operands()) add(o->shape());
  const std::size_t first_result = arrays.size();
  add(call.shape());
  spirv::EmittedProgram out;
  spirv::EmittedKernel& made = out.kernels.emplace_back();
  made.words = kernel.spirv;
  made.variant = "custom";
  const std::size_t count = kernel.bindings.empty() ? arrays.size() : kernel.bindings.size();
  for (std::size_t i = 0; i < count; ++i) {
    const int array = kernel.bindings.empty() ? static_cast<int>(i) : kernel.bindings[i];
    if (array < 0 || static_cast<std::size_t>(array) >= arrays.size() ||
        static_cast<std::size_t>(array) >= plan.bindings.size())
      return InvalidArgument("{}: The kernel of custom call '{}' binds array {} of {}.", call.name(), target, array,
                             arrays.size());
    made.buffers.push_back({array, true, plan.bindings[static_cast<std::size_t>(array)].written});
  }
  KRAFLA_TRY(spirv::CheckBufferCount(made, profile));
  spirv::EmittedDispatch dispatch;
  if (kernel.grid) {
    dispatch.grid = kernel.grid(arrays);
  } else if (first_result < arrays.size()) {
    const int64_t groups = CeilDiv(arrays[first_result].element_count(), kernel.elements_per_workgroup);
    if (groups > std::numeric_limits<uint32_t>::max())
      return InvalidArgument("{}: The kernel of custom call '{}' would need {} workgroups.", call.name(), target,
                             groups);
    dispatch.grid[0] = static_cast<uint32_t>(groups);
  }
  out.dispatches.push_back(std::move(dispatch));
  return out;
}

}  // namespace

bool TakesAttention(const plan::KernelPlan& kernel, const DeviceProfile* profile) {
  if (profile == nullptr) return false;
  const Result<Tuning> tuning = TuningAskedFor(*profile);
  return tuning && spirv::TakesAttention(kernel, *profile, *tuning).has_value();
}

bool TakesHorizontal(const plan::KernelPlan& kernel, const DeviceProfile* profile) {
  if (profile == nullptr) return true;
  const Result<Tuning> tuning = TuningAskedFor(*profile);
  return tuning && spirv::TakesHorizontal(kernel, *profile, *tuning).has_value();
}

std::vector<std::string> FeaturesOff(const Module& module, const CompileOptions& options) {
  std::set<std::string> off;
  // Only names that profiles know switch device features; the others are passes, "fusion" and "loops".
  for (const FeatureName& known : FeatureNames())
    if (options.disabled.contains(std::string(known.name))) off.emplace(known.name);
  const CustomCallRegistry& custom_calls = CustomCallsOf(options);
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (CustomKernelOf(*i, custom_calls) != nullptr) off.insert("bda");
  return {off.begin(), off.end()};
}

namespace {

// Makes kernels of the loops that are fit for it, the outer ones first, and marks what is launched besides them.
Result<> EmitLoops(const plan::ProgramPlan& plan, const DeviceProfile& profile, const Tuning& tuning, bool wanted,
                   EmittedKernels& out) {
  return plan::TryForEachStep(plan, [&](const plan::Step& step) -> Result<bool> {
    plan::ForEachLaunchOf(
        step, [&](const plan::LaunchStep& launch) { out.launched[static_cast<std::size_t>(launch.kernel)] = true; });
    const auto* loop = std::get_if<plan::WhileStep>(&step);
    if (loop == nullptr || !wanted) return true;
    auto emitted = spirv::EmitWhile(plan, *loop, profile, tuning);
    if (emitted) {
      if (emitted->resumes) out.scratch_bytes = std::max(out.scratch_bytes, spirv::kLoopStateBytes);
      out.loops.emplace(loop, std::move(*emitted));
      return false;
    }
    if (emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    out.loop_refusals.emplace(loop, emitted.error().message());
    return true;
  });
}

}  // namespace

spirv::EmitOptions EmitOptionsOf(const CompileOptions& options) {
  spirv::EmitOptions out;
  out.enable_cooperative_matrix = options.enabled.contains(std::string(kCooperativeMatrices));
  out.enable_flexible_matrix = options.enabled.contains(std::string(kFlexibleMatrices));
  out.allow_cooperative_matrix = !options.disabled.contains("coopmat");
  return out;
}

bool UsesTuned(const CompileOptions& options) {
  const char* file = std::getenv("KRAFLA_TUNING");
  if ((file != nullptr && *file != 0) || options.disabled.contains("tuned") || !options.enabled.empty()) return false;
  return std::ranges::none_of(
      FeatureNames(), [&](const FeatureName& feature) { return options.disabled.contains(std::string(feature.name)); });
}

std::string ProblemKey(const plan::KernelPlan& kernel) {
  return Format("{}-{:016x}-{:.0f}-{:.0f}", plan::FamilyName(kernel), plan::HashProblem(kernel), kernel.flops,
                kernel.bytes);
}

namespace {

// With what was found for the kernel, if that is faster than the device's own tuning; which it is over `base`.
Result<spirv::EmittedProgram> EmitTuned(const plan::KernelPlan& kernel, const DeviceProfile& profile,
                                        spirv::EmitOptions options, const TunedKernels* tuned, int& count) {
  if (tuned != nullptr) {
    const auto found = tuned->kernels.find(ProblemKey(kernel));
    if (found != tuned->kernels.end() && !found->second.tuning.empty()) {
      Tuning tuning = *options.tuning;
      KRAFLA_TRY(OverrideTuning(found->second.tuning, tuning));
      options.tuning = &tuning;
      KRAFLA_ASSIGN(spirv::EmittedProgram out, spirv::Emit(kernel, profile, options));
      ++count;
      for (spirv::EmittedKernel& emitted : out.kernels)
        emitted.reason =
            Format("tuned {}{}{}", found->second.tuning, emitted.reason.empty() ? "" : "; ", emitted.reason);
      return out;
    }
  }
  return spirv::Emit(kernel, profile, options);
}

}  // namespace

Result<EmittedKernels> EmitKernels(const plan::ProgramPlan& plan, const DeviceProfile& device,
                                   const CompileOptions& options, const TunedKernels* tuned) {
  DeviceProfile profile = device;
  profile.fast_functions = options.enabled.contains(std::string(kFastFunctions));
  spirv::EmitOptions emit_options = EmitOptionsOf(options);
  if (!UsesTuned(options)) tuned = nullptr;
  KRAFLA_ASSIGN(const Tuning tuning, TuningAskedFor(profile));
  emit_options.tuning = &tuning;
  EmittedKernels out;
  out.fast_functions = profile.fast_functions;
  out.rate = tuning.rate;
  out.programs.resize(plan.kernels.size());
  out.refusals.resize(plan.kernels.size());
  out.entry_points.resize(plan.kernels.size());
  out.launched.resize(plan.kernels.size());
  KRAFLA_TRY(EmitLoops(plan, profile, tuning, !options.disabled.contains("loops"), out));
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (!out.launched[k]) continue;
    const CustomCallKernel* custom = CustomKernelOf(plan.kernels[k], CustomCallsOf(options));
    if (custom != nullptr) out.entry_points[k] = custom->entry_point;
    auto emitted = custom != nullptr ? WrapCustomKernel(plan.kernels[k], *custom, profile)
                                     : EmitTuned(plan.kernels[k], profile, emit_options, tuned, out.tuned);
    if (emitted) {
      uint64_t scratch = 0;
      for (int64_t bytes : emitted->scratch_bytes) scratch += RoundUp(bytes, kSliceAlignment);
      out.scratch_bytes = std::max(out.scratch_bytes, scratch);
      out.programs[k] = std::move(*emitted);
      continue;
    }
    if (emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    out.refusals[k] = emitted.error().message();
  }
  const auto is_left = [&](const plan::WhileStep& loop) {
    return !options.disabled.contains("loops") && !out.loops.contains(&loop);
  };
  const auto runs_here = [&](int kernel) { return out.programs[static_cast<std::size_t>(kernel)].has_value(); };
  KRAFLA_ASSIGN(out.turns, EmitTurnKernels(plan, profile, emit_options, is_left, runs_here));
  return out;
}

void ReportPlacement(const plan::ProgramPlan& plan, const EmittedKernels& emitted, CompileReport& report) {
  const auto& programs = emitted.programs;
  report.device_instructions = report.instructions;
  report.loop_kernels = static_cast<int>(emitted.loops.size());
  report.loops_ahead = static_cast<int>(emitted.turns.loops.size());
  report.tuned_kernels = emitted.tuned;
  report.fast_functions = emitted.fast_functions;
  const auto report_launch = [&](const plan::LaunchStep& launch) {
    const auto k = static_cast<std::size_t>(launch.kernel);
    if (programs[k]) {
      for (const spirv::EmittedDispatch& d : programs[k]->dispatches)
        if (programs[k]->kernels[static_cast<std::size_t>(d.kernel)].uses_cooperative_matrix)
          ++report.cooperative_matrix_launches;
      return;
    }
    report.device_instructions -= launch.instruction_count;
    if (IsBetweenDevices(launch.instruction->opcode())) return;  // report.exchanges
    report.fallbacks.push_back({launch.instruction->name(), std::string(OpcodeName(launch.instruction->opcode())),
                                emitted.refusals[k], launch.instruction_count});
  };
  plan::ForEachStep(plan, [&](const plan::Step& step) {
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) return !emitted.loops.contains(loop);
    plan::ForEachLaunchOf(step, report_launch);
    return true;
  });
}

Result<CompileReport> PlacementOn(const DeviceProfile& device, std::unique_ptr<Module> module,
                                  const CompileOptions& options) {
  CompileReport report;
  FrontEnd front_end(std::move(module), options, report, kVulkanTarget);
  KRAFLA_TRY(front_end.Optimize());
  KRAFLA_ASSIGN(const DeviceProfile profile, device.WithDisabled(FeaturesOff(front_end.module(), options)));
  KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(&profile));
  KRAFLA_ASSIGN(EmittedKernels emitted, EmitKernels(plan, profile, options));
  ReportPlacement(plan, emitted, report);
  return report;
}

}  // namespace krafla
