// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f32.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

namespace f32_loops {
using Ops = VectorOps;

#define KRAFLA_FORMULA(Enum, Function, ...)                         \
  struct Function##Formula {                                        \
    template <class... Operands>                                    \
    static Ops::F Do(const Ops& ops, const Operands&... operands) { \
      return krafla::Function(ops, operands...);                    \
    }                                                               \
  };
#include "ir/ops.def"
}  // namespace f32_loops

BlockFn FindFormulaF32(Opcode opcode) {
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum) return &FormulaLoop<f32_loops::Ops, f32_loops::Function##Formula, arity>;
#include "ir/ops.def"
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
