// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/turn_kernels.h"

#include <variant>

#include "plan/step_runner.h"

namespace krafla {
namespace {

// One dispatch of one kernel that touches the bindings and nothing else, in their order.
Result<spirv::EmittedProgram> EmitOne(plan::KernelPlan kernel, const DeviceProfile& profile,
                                      const spirv::EmitOptions& options) {
  KRAFLA_ASSIGN(spirv::EmittedProgram out, spirv::Emit(kernel, profile, options));
  if (out.kernels.size() != 1 || out.dispatches.size() != 1 || !out.scratch_bytes.empty() || !out.table.empty() ||
      out.kernels[0].buffers.size() != kernel.bindings.size())
    return Unimplemented("'{}' is more than a kernel.", kernel.name);
  return out;
}

// predicate = pred; count += pred.
plan::KernelPlan Gate() {
  plan::ProgramBuilder b({});
  const int pred = b.AddBuffer(ElementType::kPred, 1, false), before = b.AddBuffer(ElementType::kU32, 1, false);
  const int predicate = b.AddBuffer(ElementType::kU32, 1, true), count = b.AddBuffer(ElementType::kU32, 1, true);
  const plan::IndexId first = b.space().Constant(0);
  const plan::NodeId goes_on =
      b.Convert(b.Load(pred, ElementType::kPred, first), ElementType::kPred, ElementType::kU32);
  const plan::NodeId turns =
      b.Hlo(Opcode::kAdd, ElementType::kU32, {b.Load(before, ElementType::kU32, first), goes_on});
  b.AddStore({.buffer = predicate, .index = first, .node = goes_on, .storage = ElementType::kU32});
  b.AddStore({.buffer = count, .index = first, .node = turns, .storage = ElementType::kU32});
  plan::KernelPlan out;
  out.name = "gate of a turn";
  out.bindings = {{ElementType::kPred, 1, true, false},
                  {ElementType::kU32, 1, true, false},
                  {ElementType::kU32, 1, false, true},
                  {ElementType::kU32, 1, false, true}};
  out.body = plan::LoopKernel{std::move(b).Finish()};
  out.bytes = 13;
  return out;
}

plan::KernelPlan CopyOf(int64_t bytes) {
  const ElementType type = bytes % 4 == 0 ? ElementType::kU32 : ElementType::kU8;
  const int64_t count = bytes / StorageBytes(type);
  const int64_t dims[] = {count};
  plan::ProgramBuilder b(dims);
  const int from = b.AddBuffer(type, count, false), to = b.AddBuffer(type, count, true);
  const plan::IndexId at = b.space().Iter(0);
  b.AddStore({.buffer = to, .index = at, .node = b.Load(from, type, at), .storage = type});
  plan::KernelPlan out;
  out.name = "copy";
  out.bindings = {{type, count, true, false}, {type, count, false, true}};
  out.body = plan::LoopKernel{std::move(b).Finish()};
  out.bytes = 2 * static_cast<double>(bytes);
  return out;
}

}  // namespace

Result<TurnKernels> EmitTurnKernels(const plan::ProgramPlan& plan, const DeviceProfile& profile,
                                    const spirv::EmitOptions& options,
                                    const std::function<bool(const plan::WhileStep&)>& is_fit,
                                    const std::function<bool(int kernel)>& runs_here) {
  TurnKernels out;
  if (!profile.features.conditional_rendering) return out;
  std::set<int64_t> sizes;
  const auto add = [&](const plan::WhileStep& loop) {
    std::set<int64_t> copied;
    for (const plan::StepList* list : {loop.condition.get(), loop.body.get()}) {
      for (const plan::Step& step : list->steps) {
        if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
          copied.insert(copy->from.size);
        } else if (!std::holds_alternative<plan::LaunchStep>(step) &&
                   !std::holds_alternative<plan::RowGroupStep>(step)) {
          return;
        }
        bool all_here = true;
        plan::ForEachLaunchOf(step, [&](const plan::LaunchStep& l) { all_here = all_here && runs_here(l.kernel); });
        if (!all_here) return;
      }
    }
    out.loops.insert(&loop);
    sizes.merge(copied);
  };
  plan::ForEachStep(plan, [&](const plan::Step& step) {
    const auto* loop = std::get_if<plan::WhileStep>(&step);
    if (loop == nullptr) return true;
    if (!is_fit(*loop)) return false;
    if (!loop->trip_count) add(*loop);
    return true;
  });
  if (out.loops.empty()) return out;
  // What a device cannot do in one kernel is left to the host.
  const auto emit = [&](plan::KernelPlan kernel, spirv::EmittedProgram& to) -> Result<bool> {
    auto emitted = EmitOne(std::move(kernel), profile, options);
    if (!emitted && emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    if (emitted) to = std::move(*emitted);
    return emitted.has_value();
  };
  KRAFLA_ASSIGN(bool all, emit(Gate(), out.gate));
  for (const int64_t bytes : sizes) {
    if (!all || bytes == 0) continue;
    KRAFLA_ASSIGN(all, emit(CopyOf(bytes), out.copies[bytes]));
  }
  if (!all) return TurnKernels();
  return out;
}

}  // namespace krafla
