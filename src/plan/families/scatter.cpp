// SPDX-License-Identifier: Apache-2.0
// Scatters: one instruction per kernel.
#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

namespace {

// Whether the parts of a result depend on the same parts of the operands only, and as they would for real numbers.
bool PartsAreSeparate(const Computation& combiner) {
  for (const auto& i : combiner.instructions())
    if (!IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kAdd, Opcode::kSubtract, Opcode::kNegate, Opcode::kCopy}))
      return false;
  return combiner.parameters().size() == 2;
}

// One array of complex numbers is one of real numbers with a dimension more.
bool TakesComplexScatter(const Instruction& i) {
  if (i.operand_count() != 3 || i.shape().IsTuple() || !HasStaticOperands(i)) return false;
  for (std::size_t k : {0, 2})
    if (!IsComplex(i.operand(k)->shape().element_type())) return false;
  return PartsAreSeparate(*i.called(0)) || MultipliesComplex(*i.called(0));
}

}  // namespace

bool TakesScatter(const Instruction& i) {
  return (HasRealStaticOperands(i) && IsEmittableOnScalars(*i.called(0))) || TakesComplexScatter(i);
}

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
    kernel.types.push_back(RealPart(hero.operand(k)->shape().element_type()));
  }
  const bool is_complex = IsComplex(hero.operand(0)->shape().element_type());
  if (is_complex) {
    // Parts lie side by side, and every window has both.
    kernel.multiplies_complex = MultipliesComplex(*hero.called(0));
    kernel.attributes.update_window_dims.push_back(kernel.updates_dims.ssize());
    kernel.operand_dims.push_back(2);
    kernel.updates_dims.push_back(2);
  }
  for (std::size_t k = 0; k < n; ++k) kernel.outputs.push_back(Bind(ResultLeaf(hero, k), true, true));
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder);
  std::vector<ScalarValue> parameters;
  for (std::size_t p = 0; p < 2 * n; ++p) {
    const auto param = [&](std::size_t number) {
      return builder.Param(ComputeType(kernel.types[p % n]), static_cast<int>(number), 0);
    };
    if (kernel.multiplies_complex) parameters.push_back({param(2 * p), param(2 * p + 1)});
    else parameters.push_back({param(p), is_complex ? param(p) : kNoNode});
  }
  KRAFLA_ASSIGN(std::vector<ScalarValue> values, emitter.EmitComputation(*hero.called(0), parameters));
  for (const ScalarValue& v : values) {
    builder.AddResult(v.re);
    if (kernel.multiplies_complex) builder.AddResult(v.im);
  }
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
