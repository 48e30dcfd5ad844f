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
int64_t FillingSplitOf(const ConvProblem& p, int64_t least_part, const Target& target) {
  return FillingParts(p.window * p.inputs, OutputCount(p), least_part, target.tuning.dot);
}

Result<EmittedProgram> EmitConvInParts(
    const plan::KernelPlan& plan, const ConvProblem& p, int64_t parts, const Target& target,
    const std::function<Result<EmittedProgram>(const plan::KernelPlan&, const plan::ElementProgram&)>& emit) {
  const plan::KernelPlan with_parts = WithParts(plan, p.k.accumulate_type, parts, OutputCount(p));
  std::vector<int64_t> dims(p.k.output_dims.begin(), p.k.output_dims.end());
  dims.insert(dims.begin(), parts);
  const plan::ElementProgram epilogue = PartEpilogue(with_parts, dims, p.k.accumulate_type);
  EmittedProgram out;
  out.scratch_bytes.push_back(with_parts.bindings.back().byte_size());
  KRAFLA_ASSIGN(EmittedProgram sums, emit(with_parts, epilogue));
  AddParts(out, std::move(sums), static_cast<double>(p.window * p.inputs));
  KRAFLA_TRY(AddJoin(out, plan, {p.k.epilogue, p.k.accumulate_type, p.k.result_type, parts}, target));
  return out;
}

namespace {

struct ConvCase {
  const plan::KernelPlan& plan;
  const ConvProblem& problem;
  const Target& target;
};

// In order of preference.
constexpr Variant<ConvCase, Result<EmittedProgram>> kConvVariants[] = {
    {"pointwise", [](const ConvCase& c) { return RefusesPointwiseConv(c.problem); },
     [](const ConvCase& c, std::string) { return EmitPointwiseConv(c.plan, c.problem, c.target); }},
    {"reorder", [](const ConvCase& c) { return RefusesReorderedConv(c.plan, c.problem, c.target); },
     [](const ConvCase& c, std::string) { return EmitReorderedConv(c.plan, c.problem, c.target); }},
    {"product of matrices", [](const ConvCase& c) { return RefusesGemm(c.problem, c.target); },
     [](const ConvCase& c, std::string) { return EmitGemmConv(c.plan, c.problem, c.target); }},
    {"widened", [](const ConvCase& c) { return RefusesWidenedConv(c.plan, c.problem, c.target); },
     [](const ConvCase& c, std::string refused) {
       return WithReason(EmitWidenedConv(c.plan, c.problem, c.target), refused);
     }},
    {"direct", nullptr,
     [](const ConvCase& c, std::string refused) {
       return WithReason(EmitDirectConv(c.plan, c.problem, c.target), refused);
     }},
};
static_assert(TakesEverything(kConvVariants));

}  // namespace

Result<EmittedProgram> EmitConv(const plan::KernelPlan& plan, const plan::ConvKernel& k, const Target& target) {
  for (ElementType type : {k.input_type, k.kernel_type, k.result_type}) KRAFLA_TRY(CheckType(type, target.profile));
  const ConvProblem problem(k);
  return MakeFirst(kConvVariants, ConvCase{plan, problem, target});
}

}  // namespace krafla::spirv
