// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/conv_copies.h"

#include <utility>

namespace krafla::spirv {

int ConvCopies::AddArray(ElementType type, int64_t count) {
  plan::Binding binding;
  binding.storage = type;
  binding.element_count = count;
  binding.read = binding.written = true;
  with_.bindings.push_back(binding);
  scratch_bytes_.push_back(binding.byte_size());
  return static_cast<int>(with_.bindings.size()) - 1;
}

Result<EmittedProgram> ConvCopies::Before(EmittedProgram sums, const ConvProblem& p, std::string_view variant,
                                          const Target& target) const {
  EmittedProgram out;
  out.scratch_bytes = scratch_bytes_;
  for (const plan::LoopKernel& copy : copies_) {
    KRAFLA_ASSIGN(EmittedProgram made, EmitLoop(with_, copy, target));
    for (EmittedDispatch& dispatch : made.dispatches) {
      dispatch.kernel += static_cast<int>(out.kernels.size());
      dispatch.share = 4.0 * ElementsOf(with_, p);
      out.dispatches.push_back(std::move(dispatch));
    }
    for (EmittedKernel& kernel : made.kernels) {
      kernel.variant = variant;
      out.kernels.push_back(std::move(kernel));
    }
  }
  double shares = 0;
  for (const EmittedDispatch& dispatch : sums.dispatches) shares += dispatch.share;
  for (EmittedDispatch& dispatch : sums.dispatches) {
    dispatch.kernel += static_cast<int>(out.kernels.size());
    dispatch.share *= ProductsOf(p) / shares;
    out.dispatches.push_back(std::move(dispatch));
  }
  for (EmittedKernel& kernel : sums.kernels) out.kernels.push_back(std::move(kernel));
  out.scratch_bytes.insert(out.scratch_bytes.end(), sums.scratch_bytes.begin(), sums.scratch_bytes.end());
  return out;
}

double ProductsOf(const ConvProblem& p) {
  return static_cast<double>(p.pixels) * static_cast<double>(p.groups * p.outputs) *
         static_cast<double>(p.inputs * p.window);
}

double ElementsOf(const plan::KernelPlan& plan, const ConvProblem& p) {
  return static_cast<double>(plan.bindings[static_cast<std::size_t>(p.k.input_binding)].element_count +
                             plan.bindings[static_cast<std::size_t>(p.k.kernel_binding)].element_count);
}

}  // namespace krafla::spirv
