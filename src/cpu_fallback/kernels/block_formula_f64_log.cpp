// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_exp_log.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64_log.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
KRAFLA_F64_FORMULA(Log)
KRAFLA_F64_FORMULA(Log1p)
KRAFLA_F64_FORMULA(Asinh)
KRAFLA_F64_FORMULA(Acosh)
KRAFLA_F64_FORMULA(Atanh)
KRAFLA_F64_FORMULA(Pow)
#endif

BlockFn FindLogF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
  if (opcode == Opcode::kLog) return &FormulaF64Loop<LogF64Formula>;
  if (opcode == Opcode::kLog1p) return &FormulaF64Loop<Log1pF64Formula>;
  if (opcode == Opcode::kAsinh) return &FormulaF64Loop<AsinhF64Formula>;
  if (opcode == Opcode::kAcosh) return &FormulaF64Loop<AcoshF64Formula>;
  if (opcode == Opcode::kAtanh) return &FormulaF64Loop<AtanhF64Formula>;
  if (opcode == Opcode::kPower) return &Formula2F64Loop<PowF64Formula>;
#endif
  (void)opcode;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindLogF64);
BlockFn FindLogF64Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindLogF64)(opcode); }
}  // namespace krafla::cpu
#endif
