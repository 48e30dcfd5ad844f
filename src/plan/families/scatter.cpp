// SPDX-License-Identifier: Apache-2.0
// Scatters: one instruction per kernel.
#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

bool TakesScatter(const Instruction& i) { return HasRealStaticOperands(i) && IsEmittableOnScalars(*i.called(0)); }

Result<BuiltKernel> KernelBuilder::BuildScatter() {
  const Instruction& hero = *group_.heroes[0];
  std::size_t n = (hero.operand_count() - 1) / 2;
  ScatterKernel kernel;
  kernel.attributes = hero.attr<ScatterAttributes>();
  kernel.operand_dims = hero.operand(0)->shape().dims();
  kernel.indices_dims = hero.operand(n)->shape().dims();
  kernel.updates_dims = hero.operand(n + 1)->shape().dims();
  kernel.indices_binding = Bind(ResolveValue({hero.operand(n), 0}, true), true, false);
  kernel.indices_type = hero.operand(n)->shape().element_type();
  for (std::size_t k = 0; k < n; ++k) {
    kernel.updates.push_back(Bind(ResolveValue({hero.operand(n + 1 + k), 0}, true), true, false));
    kernel.types.push_back(hero.operand(k)->shape().element_type());
  }
  for (std::size_t k = 0; k < n; ++k) kernel.outputs.push_back(Bind(ResultLeaf(hero, k), true, true));
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder);
  std::vector<ScalarValue> parameters;
  for (std::size_t p = 0; p < 2 * n; ++p)
    parameters.push_back({builder.Param(ComputeType(kernel.types[p % n]), static_cast<int>(p), 0), kNoNode});
  KRAFLA_ASSIGN(std::vector<ScalarValue> values, emitter.EmitComputation(*hero.called(0), parameters));
  for (const ScalarValue& v : values) builder.AddResult(v.re);
  kernel.combiner.hlo_type = kernel.types[0];
  if (n == 1) kernel.combiner.kind = KindOf(*hero.called(0)->root(), kernel.types[0]);
  // The combiner rounds each of its results, as those of wide sums do not.
  if (AccumulatesWide(kernel.combiner)) kernel.combiner.kind = Reduction::Kind::kOther;
  kernel.combiner.combiner = std::move(builder).Finish();
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
