// SPDX-License-Identifier: Apache-2.0
// Scans: one instruction per kernel.
#include <algorithm>

#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

namespace {

// Whether the computation is on scalars, or does the same to every element of arrays of equal dimensions.
bool SameAtEveryElement(const Computation& c) {
  const Dims* dims = nullptr;
  for (const auto& i : c.instructions()) {
    if (i->opcode() == Opcode::kTuple) continue;
    bool scalar_splat = i->opcode() == Opcode::kConstant && i->shape().element_count() == 1;
    bool splat = i->opcode() == Opcode::kBroadcast && i->operand(0)->shape().rank() == 0;
    if (!scalar_splat && !splat && i->opcode() != Opcode::kParameter &&
        !(IsElementwise(i->opcode()) && IsEmittable(*i)))
      return false;
    if (!i->shape().IsArray() || IsComplex(i->shape().element_type())) return false;
    if (scalar_splat) continue;
    if (dims == nullptr) dims = &i->shape().dims();
    if (i->shape().dims() != *dims) return false;
  }
  return true;
}

// The scalar with which the carry begins in every line; null where lines begin with different values.
const Instruction* CommonStart(const Instruction& scan) {
  const Instruction* start = scan.operand(1);
  if (start->shape().element_count() == 1) return start;
  if (start->opcode() == Opcode::kBroadcast && start->operand(0)->shape().element_count() == 1)
    return start->operand(0);
  return nullptr;
}

// Whether anything reads leaf `leaf` of the tuple.
bool IsRead(const Instruction& i, int64_t leaf) {
  if (i.IsRoot()) return true;
  for (const Instruction* user : i.users())
    if (user->opcode() != Opcode::kGetTupleElement || user->attr<TupleIndexAttributes>().index == leaf) return true;
  return false;
}

}  // namespace

const Instruction* ScanStart(const Instruction& scan) {
  const Instruction* common = CommonStart(scan);
  return common != nullptr ? common : scan.operand(1);
}

// A scan is taken if it has one array and one carry and both of its results are the same combination of the two.
bool TakesScan(const Instruction& i) {
  if (!HasRealStaticOperands(i) || i.operand_count() != 2 || !SameAtEveryElement(*i.called(0))) return false;
  const Instruction* root = i.called(0)->root();
  if (root->opcode() != Opcode::kTuple || root->operand_count() != 2 || root->operand(0) != root->operand(1))
    return false;
  return i.operand(0)->shape().element_type() == i.operand(1)->shape().element_type() &&
         i.operand(0)->shape().element_count() > 0;
}

Result<BuiltKernel> KernelBuilder::BuildScan() {
  const Instruction& hero = *group_.heroes[0];
  const auto& a = hero.attr<ScanAttributes>();
  ScanKernel kernel;
  kernel.dims = hero.operand(0)->shape().dims();
  kernel.dimension = static_cast<int>(a.dimension);
  kernel.is_reverse = a.is_reverse;
  kernel.type = hero.operand(0)->shape().element_type();
  kernel.input = Bind(ResolveValue({hero.operand(0), 0}, true), true, false);
  kernel.output = Bind({&hero, 0}, false, true);
  // The computation of a scan takes (element, carry), the combiner of a Reduction (accumulator, element).
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder);
  ScalarValue parameters[] = {{builder.Param(ComputeType(kernel.type), 1, 0), kNoNode},
                              {builder.Param(ComputeType(kernel.type), 0, 0), kNoNode}};
  kernel.reduction.hlo_type = kernel.type;
  const Instruction& step = *hero.called(0)->root()->operand(1);
  if (a.is_associative) kernel.reduction.kind = KindOf(step, kernel.type);
  if (AccumulatesWide(kernel.reduction)) {
    builder.AddResult(builder.Hlo(step.opcode(), ElementType::kF32, {parameters[1].re, parameters[0].re}));
  } else {
    KRAFLA_ASSIGN(std::vector<ScalarValue> next, emitter.EmitComputation(*hero.called(0), parameters));
    builder.AddResult(next[1].re);
  }
  kernel.reduction.combiner = std::move(builder).Finish();
  ProgramBuilder init({});
  ProgramEmitter init_emitter = EmitterOf(init);
  if (const Instruction* carry = CommonStart(hero)) {
    std::vector<IndexId> first(static_cast<std::size_t>(carry->shape().rank()), 0);
    KRAFLA_ASSIGN(ScalarValue start, init_emitter.Emit({carry, 0}, first));
    init.AddResult(start.re);
  } else {
    init.AddResult(init.Constant(ComputeType(kernel.type), 0));
    kernel.start = Bind(ResolveValue({hero.operand(1), 0}, true), true, false);
  }
  if (IsRead(hero, 1)) kernel.last = Bind({&hero, 1}, false, true);
  kernel.reduction.init = std::move(init).Finish();
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
