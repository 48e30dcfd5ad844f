// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_exp_log.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64_exp.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
KRAFLA_F64_FORMULA(Exp)
KRAFLA_F64_FORMULA(Expm1)
KRAFLA_F64_FORMULA(Logistic)
KRAFLA_F64_FORMULA(Tanh)
KRAFLA_F64_FORMULA(Sinh)
KRAFLA_F64_FORMULA(Cosh)
#endif

BlockFn FindExpF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
  if (opcode == Opcode::kExp) return &FormulaF64Loop<ExpF64Formula>;
  if (opcode == Opcode::kExpm1) return &FormulaF64Loop<Expm1F64Formula>;
  if (opcode == Opcode::kLogistic) return &FormulaF64Loop<LogisticF64Formula>;
  if (opcode == Opcode::kTanh) return &FormulaF64Loop<TanhF64Formula>;
  if (opcode == Opcode::kSinh) return &FormulaF64Loop<SinhF64Formula>;
  if (opcode == Opcode::kCosh) return &FormulaF64Loop<CoshF64Formula>;
#endif
  (void)opcode;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindExpF64);
BlockFn FindExpF64Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindExpF64)(opcode); }
}  // namespace krafla::cpu
#endif
