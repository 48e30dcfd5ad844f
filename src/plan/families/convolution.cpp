// SPDX-License-Identifier: Apache-2.0
// Turns convolutions into ConvKernels.
#include "plan/families/accepts.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

bool TakesConvolution(const Instruction& i) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || IsComplex(o->shape().element_type()) || o->shape().IsDynamic() ||
        o->shape().element_type() == ElementType::kPred || o->shape().element_count() >= (int64_t{1} << 30))
      return false;
  ElementType result = i.shape().element_type();
  if (IsComplex(result) || result == ElementType::kPred || i.shape().element_count() >= (int64_t{1} << 30))
    return false;
  for (const Instruction* o : i.operands())
    if (IsFloat(o->shape().element_type()) != IsFloat(result)) return false;
  return true;
}

Result<BuiltKernel> KernelBuilder::BuildConvolution() {
  const Instruction& hero = *group_.heroes[0];
  ConvKernel kernel;
  kernel.attributes = hero.attr<ConvolutionAttributes>();
  kernel.input_dims = hero.operand(0)->shape().dims();
  kernel.kernel_dims = hero.operand(1)->shape().dims();
  kernel.output_dims = hero.shape().dims();
  kernel.input_binding = Bind(ResolveValue({hero.operand(0), 0}, true), true, false);
  kernel.kernel_binding = Bind(ResolveValue({hero.operand(1), 0}, true), true, false);
  kernel.input_type = hero.operand(0)->shape().element_type();
  kernel.kernel_type = hero.operand(1)->shape().element_type();
  kernel.result_type = hero.shape().element_type();
  kernel.accumulate_type = AccumulateType(kernel.result_type);
  std::vector<int> order;
  for (std::size_t d = 0; d < kernel.output_dims.size(); ++d) order.push_back(static_cast<int>(d));
  KRAFLA_ASSIGN(kernel.epilogue, EmitEpilogue(hero, kernel.accumulate_type, kernel.output_dims, order));
  double per_output = 2;
  for (int64_t d : kernel.attributes.kernel_spatial)
    per_output *= static_cast<double>(kernel.kernel_dims[static_cast<std::size_t>(d)]);
  per_output *=
      static_cast<double>(kernel.kernel_dims[static_cast<std::size_t>(kernel.attributes.kernel_input_feature)]);
  out_.kernel.flops = per_output * static_cast<double>(hero.shape().element_count());
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
