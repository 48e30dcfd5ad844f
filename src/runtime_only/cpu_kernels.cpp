// SPDX-License-Identifier: Apache-2.0
// Of a library for Vulkan alone (KRAFLA_CPU=OFF): what a device does not take is refused when a model is loaded.
#include <variant>

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla {

Result<std::unique_ptr<CpuKernel>> CompileKernel(const plan::KernelPlan& plan, const CpuKernelOptions& options) {
  if (const auto* host = std::get_if<plan::HostKernel>(&plan.body)) return cpu::MakeHostKernel(plan, *host, options);
  return Unimplemented("It would run on the CPU, and this build of krafla (KRAFLA_CPU=OFF) has no kernels of the CPU.");
}

namespace cpu::native {
Result<NativeCodeWish> NativeCodeAskedFor() { return NativeCodeWish{NativeUse::kNever}; }
}  // namespace cpu::native

}  // namespace krafla
