// SPDX-License-Identifier: Apache-2.0
// ConvKernel.
#include "spirv_codegen/kernels/conv.h"

namespace krafla::spirv {

Result<EmittedProgram> EmitConv(const plan::KernelPlan& plan, const plan::ConvKernel& k, const DeviceProfile& profile,
                                const EmitOptions& options) {
  KRAFLA_TRY(CheckType(k.input_type, profile));
  KRAFLA_TRY(CheckType(k.kernel_type, profile));
  KRAFLA_TRY(CheckType(k.result_type, profile));
  const ConvProblem p(k);
  std::string reason;
  if (TakesGemm(p, profile, reason)) return EmitGemmConv(plan, p, profile, options);
  KRAFLA_ASSIGN(EmittedProgram out, EmitDirectConv(plan, p, profile));
  for (EmittedKernel& kernel : out.kernels) kernel.reason = reason;
  return out;
}

}  // namespace krafla::spirv
