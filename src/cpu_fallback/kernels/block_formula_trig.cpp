// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_trig.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_FORMULA(Sin)
KRAFLA_FORMULA(Cos)
KRAFLA_FORMULA(Tan)
KRAFLA_FORMULA(Asin)
KRAFLA_FORMULA(Acos)
KRAFLA_FORMULA(Atan2)

BlockFn FindTrig(Opcode opcode) {
  if (opcode == Opcode::kSin) return &FormulaLoop<SinFormula>;
  if (opcode == Opcode::kCos) return &FormulaLoop<CosFormula>;
  if (opcode == Opcode::kTan) return &FormulaLoop<TanFormula>;
  if (opcode == Opcode::kAsin) return &FormulaLoop<AsinFormula>;
  if (opcode == Opcode::kAcos) return &FormulaLoop<AcosFormula>;
  if (opcode == Opcode::kAtan2) return &Formula2Loop<Atan2Formula>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindTrig);
BlockFn FindTrigFormula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindTrig)(opcode); }
}  // namespace krafla::cpu
#endif
