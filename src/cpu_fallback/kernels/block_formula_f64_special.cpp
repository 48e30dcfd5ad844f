// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_special.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64_special.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
KRAFLA_F64_FORMULA(Cbrt)
KRAFLA_F64_FORMULA(Erf)
struct SqrtF64Formula {
  static VectorF64Ops::F Do(const VectorF64Ops& ops, const VectorF64Ops::F& x) { return ops.Sqrt(x); }
};
struct RsqrtF64Formula {
  static VectorF64Ops::F Do(const VectorF64Ops& ops, const VectorF64Ops::F& x) {
    return ops.Div(ops.Const(1.0), ops.Sqrt(x));
  }
};
#endif

BlockFn FindSpecialF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
  if (opcode == Opcode::kCbrt) return &FormulaF64Loop<CbrtF64Formula>;
  if (opcode == Opcode::kSqrt) return &FormulaF64Loop<SqrtF64Formula>;
  if (opcode == Opcode::kRsqrt) return &FormulaF64Loop<RsqrtF64Formula>;
  if (opcode == Opcode::kErf) return &FormulaF64Loop<ErfF64Formula>;
#endif
  (void)opcode;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindSpecialF64);
BlockFn FindSpecialF64Formula(Opcode opcode) { return HWY_DYNAMIC_DISPATCH(FindSpecialF64)(opcode); }
}  // namespace krafla::cpu
#endif
