// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_root.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_FORMULA(Pow)
KRAFLA_FORMULA(Cbrt)
KRAFLA_FORMULA(Rsqrt)
KRAFLA_FORMULA(Sqrt)

BlockFn FindRoot(Opcode opcode) {
  if (opcode == Opcode::kPower) return &Formula2Loop<PowFormula>;
  if (opcode == Opcode::kCbrt) return &FormulaLoop<CbrtFormula>;
  if (opcode == Opcode::kRsqrt) return &FormulaLoop<RsqrtFormula>;
  if (opcode == Opcode::kSqrt) return &FormulaLoop<SqrtFormula>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindRoot);
BlockFn FindRootFormula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindRoot)(opcode); }
}  // namespace krafla::cpu
#endif
