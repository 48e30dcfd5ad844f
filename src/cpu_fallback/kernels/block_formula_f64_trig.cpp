// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_trig.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64_trig.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
KRAFLA_F64_FORMULA(Sin)
KRAFLA_F64_FORMULA(Cos)
KRAFLA_F64_FORMULA(Tan)
KRAFLA_F64_FORMULA(Asin)
KRAFLA_F64_FORMULA(Acos)
KRAFLA_F64_FORMULA(Atan2)
#endif

BlockFn FindTrigF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
  if (opcode == Opcode::kSin) return &FormulaF64Loop<SinF64Formula>;
  if (opcode == Opcode::kCos) return &FormulaF64Loop<CosF64Formula>;
  if (opcode == Opcode::kTan) return &FormulaF64Loop<TanF64Formula>;
  if (opcode == Opcode::kAsin) return &FormulaF64Loop<AsinF64Formula>;
  if (opcode == Opcode::kAcos) return &FormulaF64Loop<AcosF64Formula>;
  if (opcode == Opcode::kAtan2) return &Formula2F64Loop<Atan2F64Formula>;
#endif
  (void)opcode;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindTrigF64);
BlockFn FindTrigF64Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindTrigF64)(opcode); }
}  // namespace krafla::cpu
#endif
