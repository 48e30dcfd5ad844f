// SPDX-License-Identifier: Apache-2.0
// Sorts: one instruction per kernel.
#include <algorithm>

#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

bool TakesSort(const Instruction& i) { return HasRealStaticOperands(i) && IsEmittableOnScalars(*i.called(0)); }

namespace {

// How many results at the start of its dimension are read of a sort; -1: all of them.
int64_t ReadOfSorted(const Instruction& sort) {
  const auto dimension = static_cast<std::size_t>(sort.attr<SortAttributes>().dimension);
  int64_t keep = 0;
  std::vector<const Instruction*> results = {&sort};
  for (std::size_t n = 0; n < results.size(); ++n) {
    if (results[n]->IsRoot()) return -1;
    for (const Instruction* user : results[n]->users()) {
      if (user->opcode() == Opcode::kGetTupleElement) {
        results.push_back(user);
      } else if (user->opcode() == Opcode::kSlice) {
        keep = std::max(keep, user->attr<SliceAttributes>().limits[dimension]);
      } else {
        return -1;
      }
    }
  }
  return keep < sort.operand(0)->shape().dims()[dimension] ? keep : -1;
}

}  // namespace

bool IsCarriedPosition(const Instruction& sort, std::size_t n) {
  const Instruction* x = sort.operand(n);
  if (x->opcode() != Opcode::kIota || x->attr<IotaAttributes>().dimension != sort.attr<SortAttributes>().dimension)
    return false;
  if (x->shape().element_type() != ElementType::kS32 && x->shape().element_type() != ElementType::kU32) return false;
  if (sort.operand_count() == 1) return false;
  for (std::size_t side : {0u, 1u})
    if (const Instruction* p = sort.called(0)->parameters()[2 * n + side]; p->IsRoot() || !p->users().empty())
      return false;
  return true;
}

Result<BuiltKernel> KernelBuilder::BuildSort() {
  const Instruction& hero = *group_.heroes[0];
  SortKernel kernel;
  kernel.dims = hero.operand(0)->shape().dims();
  kernel.dimension = static_cast<int>(hero.attr<SortAttributes>().dimension);
  kernel.is_stable = hero.attr<SortAttributes>().is_stable;
  kernel.keep = ReadOfSorted(hero);
  for (std::size_t n = 0; n < hero.operand_count(); ++n) {
    kernel.inputs.push_back(IsCarriedPosition(hero, n) ? -1
                                                       : Bind(ResolveValue({hero.operand(n), 0}, true), true, false));
    kernel.types.push_back(hero.operand(n)->shape().element_type());
  }
  for (std::size_t n = 0; n < hero.operand_count(); ++n)
    kernel.outputs.push_back(Bind(ResultLeaf(hero, n), false, true));
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder);
  std::vector<ScalarValue> parameters;
  for (std::size_t p = 0; p < 2 * hero.operand_count(); ++p)
    parameters.push_back({builder.Param(ComputeType(kernel.types[p / 2]), static_cast<int>(p), 0), kNoNode});
  KRAFLA_ASSIGN(std::vector<ScalarValue> less, emitter.EmitComputation(*hero.called(0), parameters));
  builder.AddResult(less[0].re);
  kernel.comparator = std::move(builder).Finish();
  out_.kernel.flops = 20.0 * static_cast<double>(hero.operand(0)->shape().element_count());
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
