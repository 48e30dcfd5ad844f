// SPDX-License-Identifier: Apache-2.0
// ConvKernel.
#include "spirv_codegen/kernels/conv.h"

#include "spirv_codegen/kernels/split_sum.h"

namespace krafla::spirv {
namespace {

int64_t OutputCount(const ConvProblem& p) {
  int64_t n = 1;
  for (int64_t d : p.k.output_dims) n *= d;
  return n;
}

}  // namespace

int64_t SplitOf(const ConvProblem& p) { return PartCount(p.window * p.inputs, OutputCount(p)); }

Result<EmittedProgram> EmitConvInParts(
    const plan::KernelPlan& plan, const ConvProblem& p, int64_t parts, const DeviceProfile& profile,
    const std::function<Result<EmittedProgram>(const plan::KernelPlan&, const plan::ElementProgram&)>& emit) {
  const plan::KernelPlan with_parts = WithParts(plan, p.k.accumulate_type, parts, OutputCount(p));
  std::vector<int64_t> dims(p.k.output_dims.begin(), p.k.output_dims.end());
  dims.insert(dims.begin(), parts);
  const plan::ElementProgram epilogue = PartEpilogue(with_parts, dims, p.k.accumulate_type);
  EmittedProgram out;
  out.scratch_bytes.push_back(with_parts.bindings.back().byte_size());
  KRAFLA_ASSIGN(EmittedProgram sums, emit(with_parts, epilogue));
  AddParts(out, std::move(sums), static_cast<double>(p.window * p.inputs));
  KRAFLA_TRY(AddJoin(out, plan, {p.k.epilogue, p.k.accumulate_type, p.k.result_type, parts}, profile));
  return out;
}

Result<EmittedProgram> EmitConv(const plan::KernelPlan& plan, const plan::ConvKernel& k, const DeviceProfile& profile,
                                const EmitOptions& options) {
  KRAFLA_TRY(CheckType(k.input_type, profile));
  KRAFLA_TRY(CheckType(k.kernel_type, profile));
  KRAFLA_TRY(CheckType(k.result_type, profile));
  const ConvProblem p(k);
  std::string reason;
  const bool is_gemm = TakesGemm(p, profile, reason);
  if (!ChannelsLast(p)) {
    KRAFLA_ASSIGN(std::optional<EmittedProgram> rearranged, EmitRearrangedConv(plan, p, is_gemm, profile, options));
    if (rearranged) return std::move(*rearranged);
  }
  if (is_gemm) return EmitGemmConv(plan, p, profile, options);
  KRAFLA_ASSIGN(EmittedProgram out, EmitDirectConv(plan, p, profile));
  for (EmittedKernel& kernel : out.kernels) kernel.reason = reason;
  return out;
}

}  // namespace krafla::spirv
