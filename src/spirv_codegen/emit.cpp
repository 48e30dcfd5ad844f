// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/emit.h"

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

Result<> CanEmit(const plan::KernelPlan& kernel, const DeviceProfile& profile) {
  KRAFLA_TRY(CheckSizes(kernel, profile));
  if (const auto* loop = std::get_if<plan::LoopKernel>(&kernel.body)) return CheckProgram(loop->program, profile);
  if (const auto* reduce = std::get_if<plan::ReduceKernel>(&kernel.body)) {
    for (const plan::ReduceStage& stage : reduce->stages) {
      KRAFLA_TRY(CheckProgram(stage.program, profile));
      for (const plan::Reduction& reduction : stage.reductions) {
        if (reduction.kind == plan::Reduction::Kind::kComplexProduct)
          return Unimplemented("A product of complex numbers in turn.");
        KRAFLA_TRY(CheckProgram(reduction.combiner, profile));
        KRAFLA_TRY(CheckProgram(reduction.init, profile));
      }
    }
    return {};
  }
  if (const auto* dot = std::get_if<plan::DotKernel>(&kernel.body)) {
    KRAFLA_TRY(CheckType(dot->accumulate_type, profile));
    if (dot->computes_lhs()) KRAFLA_TRY(CheckProgram(dot->lhs_program, profile));
    if (dot->computes_rhs()) KRAFLA_TRY(CheckProgram(dot->rhs_program, profile));
    return CheckProgram(dot->epilogue, profile);
  }
  if (const auto* horizontal = std::get_if<plan::HorizontalKernel>(&kernel.body)) {
    for (const plan::KernelPlan& part : plan::PartsOfHorizontal(kernel, *horizontal))
      KRAFLA_TRY(CanEmit(part, profile));
    return {};
  }
  if (std::holds_alternative<plan::AttentionKernel>(kernel.body)) {
    Result<> checked;
    plan::ForEachProgram(kernel.body, [&](const plan::ElementProgram& program) {
      if (checked) checked = CheckProgram(program, profile);
    });
    return checked;
  }
  if (const auto* conv = std::get_if<plan::ConvKernel>(&kernel.body)) {
    KRAFLA_TRY(CheckType(conv->accumulate_type, profile));
    return CheckProgram(conv->epilogue, profile);
  }
  if (const auto* sort = std::get_if<plan::SortKernel>(&kernel.body)) return CheckProgram(sort->comparator, profile);
  if (const auto* scan = std::get_if<plan::ScanKernel>(&kernel.body)) {
    return CheckProgram(scan->reduction.combiner, profile);
  }
  if (const auto* scatter = std::get_if<plan::ScatterKernel>(&kernel.body)) {
    if (scatter->multiplies_complex) return Unimplemented("A scatter that multiplies complex numbers.");
    return CheckProgram(scatter->combiner.combiner, profile);
  }
  if (std::holds_alternative<plan::FftKernel>(kernel.body) || std::holds_alternative<plan::LinalgKernel>(kernel.body)) {
    for (const plan::Binding& binding : kernel.bindings) KRAFLA_TRY(CheckType(binding.storage, profile));
    return {};
  }
  return Unimplemented("The instruction runs on the host only.");
}

Result<> CheckBufferCount(const EmittedKernel& kernel, const DeviceProfile& profile) {
  if (profile.features.buffer_device_address || kernel.buffers.size() <= profile.limits.max_per_stage_storage_buffers)
    return {};
  return Unimplemented("The kernel {} has {} buffers; {} allows {} in one kernel.", kernel.variant,
                       kernel.buffers.size(), profile.name, profile.limits.max_per_stage_storage_buffers);
}

Result<> TakesAttention(const plan::KernelPlan& kernel, const DeviceProfile& profile, const Tuning& tuning) {
  const EmitOptions options;
  KRAFLA_TRY(CanEmit(kernel, profile));
  return CanEmitAttention(kernel, std::get<plan::AttentionKernel>(kernel.body), Target{profile, tuning, options});
}

Result<> TakesHorizontal(const plan::KernelPlan& kernel, const DeviceProfile& profile, const Tuning& tuning) {
  const EmitOptions options;
  KRAFLA_TRY(CanEmit(kernel, profile));
  KRAFLA_ASSIGN(const EmittedProgram joint,
                EmitJointly(kernel, std::get<plan::HorizontalKernel>(kernel.body), Target{profile, tuning, options}));
  for (const EmittedKernel& emitted : joint.kernels) KRAFLA_TRY(CheckBufferCount(emitted, profile));
  return {};
}

Result<EmittedProgram> EmitFamily(const plan::KernelPlan& kernel, const Target& target) {
  if (const auto* loop = std::get_if<plan::LoopKernel>(&kernel.body)) return EmitLoop(kernel, *loop, target);
  if (const auto* reduce = std::get_if<plan::ReduceKernel>(&kernel.body)) return EmitReduce(kernel, *reduce, target);
  if (const auto* dot = std::get_if<plan::DotKernel>(&kernel.body)) return EmitDot(kernel, *dot, target);
  if (const auto* sort = std::get_if<plan::SortKernel>(&kernel.body)) return EmitSort(kernel, *sort, target);
  if (const auto* scan = std::get_if<plan::ScanKernel>(&kernel.body)) return EmitScan(kernel, *scan, target);
  if (const auto* scatter = std::get_if<plan::ScatterKernel>(&kernel.body))
    return EmitScatter(kernel, *scatter, target);
  if (const auto* conv = std::get_if<plan::ConvKernel>(&kernel.body)) return EmitConv(kernel, *conv, target);
  if (const auto* fft = std::get_if<plan::FftKernel>(&kernel.body)) return EmitFft(kernel, *fft, target);
  if (const auto* linalg = std::get_if<plan::LinalgKernel>(&kernel.body)) return EmitLinalg(kernel, *linalg, target);
  if (const auto* attention = std::get_if<plan::AttentionKernel>(&kernel.body))
    return EmitAttention(kernel, *attention, target);
  if (const auto* horizontal = std::get_if<plan::HorizontalKernel>(&kernel.body))
    return EmitHorizontal(kernel, *horizontal, target);
  return Unimplemented("There is no device code for kernels of the family '{}'.", plan::FamilyName(kernel));
}

Result<EmittedProgram> Emit(const plan::KernelPlan& kernel, const DeviceProfile& profile, const EmitOptions& options) {
  if (options.treat_as_gpu) {
    const std::string names[] = {"host_cores"};
    KRAFLA_ASSIGN(const DeviceProfile gpu, profile.WithDisabled(names));
    EmitOptions rest = options;
    rest.treat_as_gpu = false;
    return Emit(kernel, gpu, rest);
  }
  if (options.tuning == nullptr) {
    const Tuning tuning = TuningFor(profile);
    EmitOptions with = options;
    with.tuning = &tuning;
    return Emit(kernel, profile, with);
  }
  KRAFLA_TRY(CanEmit(kernel, profile));
  KRAFLA_ASSIGN(EmittedProgram out, EmitFamily(kernel, Target{profile, *options.tuning, options}));
  // Only now it is known how many buffers each shader touches.
  for (const EmittedKernel& emitted : out.kernels) KRAFLA_TRY(CheckBufferCount(emitted, profile));
  return out;
}

}  // namespace krafla::spirv
