// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_formulas.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
namespace f64_loops {
using Ops = VectorF64Ops;

#define KRAFLA_FORMULA(Enum, Function, ...)                         \
  struct Function##Formula {                                        \
    template <class... Operands>                                    \
    static Ops::F Do(const Ops& ops, const Operands&... operands) { \
      return krafla::f64::Function(ops, operands...);               \
    }                                                               \
  };
#include "ir/ops.def"
}  // namespace f64_loops
#endif

BlockFn FindFormulaF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  if (opcode == Opcode::Enum) return &FormulaLoop<f64_loops::Ops, f64_loops::Function##Formula, arity>;
#include "ir/ops.def"
#endif
  (void)opcode;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindFormulaF64);
BlockFn FindF64Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindFormulaF64)(opcode); }
}  // namespace krafla::cpu
#endif
