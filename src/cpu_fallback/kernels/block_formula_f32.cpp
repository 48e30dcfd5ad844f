// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f32.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

using Ops = VectorOps;

#define KRAFLA_FORMULA(key, Name, operand_count)                    \
  struct Name##Formula {                                            \
    template <class... Operands>                                    \
    static Ops::F Do(const Ops& ops, const Operands&... operands) { \
      return krafla::Name(ops, operands...);                        \
    }                                                               \
  };
#include "numerics/formulas.def"

BlockFn FindFormulaF32(Opcode opcode) {
#define KRAFLA_FORMULA(key, Name, operand_count) \
  if (opcode == Opcode::key) return &FormulaLoop<Ops, Name##Formula, operand_count>;
#include "numerics/formulas.def"
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindFormulaF32);
BlockFn FindF32Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindFormulaF32)(opcode); }
}  // namespace krafla::cpu
#endif
