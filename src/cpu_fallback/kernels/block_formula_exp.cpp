// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_exp.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_FORMULA(Exp)
KRAFLA_FORMULA(Expm1)
KRAFLA_FORMULA(Logistic)
KRAFLA_FORMULA(Tanh)
KRAFLA_FORMULA(Sinh)
KRAFLA_FORMULA(Cosh)
KRAFLA_FORMULA(Erf)

BlockFn FindExp(Opcode opcode) {
  if (opcode == Opcode::kExp) return &FormulaLoop<ExpFormula>;
  if (opcode == Opcode::kExpm1) return &FormulaLoop<Expm1Formula>;
  if (opcode == Opcode::kLogistic) return &FormulaLoop<LogisticFormula>;
  if (opcode == Opcode::kTanh) return &FormulaLoop<TanhFormula>;
  if (opcode == Opcode::kSinh) return &FormulaLoop<SinhFormula>;
  if (opcode == Opcode::kCosh) return &FormulaLoop<CoshFormula>;
  if (opcode == Opcode::kErf) return &FormulaLoop<ErfFormula>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindExp);
BlockFn FindExpFormula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindExp)(opcode); }
}  // namespace krafla::cpu
#endif
