// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_log.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_FORMULA(Log)
KRAFLA_FORMULA(Log1p)
KRAFLA_FORMULA(Asinh)
KRAFLA_FORMULA(Acosh)
KRAFLA_FORMULA(Atanh)

BlockFn FindLog(Opcode opcode) {
  if (opcode == Opcode::kLog) return &FormulaLoop<LogFormula>;
  if (opcode == Opcode::kLog1p) return &FormulaLoop<Log1pFormula>;
  if (opcode == Opcode::kAsinh) return &FormulaLoop<AsinhFormula>;
  if (opcode == Opcode::kAcosh) return &FormulaLoop<AcoshFormula>;
  if (opcode == Opcode::kAtanh) return &FormulaLoop<AtanhFormula>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindLog);
BlockFn FindLogFormula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindLog)(opcode); }
}  // namespace krafla::cpu
#endif
