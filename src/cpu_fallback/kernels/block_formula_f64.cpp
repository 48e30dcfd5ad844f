// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_families.h"
#include "numerics/f64_exp_log.h"
#include "numerics/f64_special.h"
#include "numerics/f64_trig.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_formula_f64.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/formula_f64_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_HAVE_FLOAT64
using Ops = VectorF64Ops;

#define KRAFLA_FORMULA(Name)                                          \
  struct Name##Formula {                                              \
    template <class... Operands>                                      \
    static Ops::F Do(const Ops& ops, const Operands&... operands) {   \
      return krafla::f64::Name(ops, operands...);                     \
    }                                                                 \
  };
KRAFLA_FORMULA(Exp)
KRAFLA_FORMULA(Expm1)
KRAFLA_FORMULA(Logistic)
KRAFLA_FORMULA(Tanh)
KRAFLA_FORMULA(Sinh)
KRAFLA_FORMULA(Cosh)
KRAFLA_FORMULA(Erf)
KRAFLA_FORMULA(Log)
KRAFLA_FORMULA(Log1p)
KRAFLA_FORMULA(Asinh)
KRAFLA_FORMULA(Acosh)
KRAFLA_FORMULA(Atanh)
KRAFLA_FORMULA(Cbrt)
KRAFLA_FORMULA(Sin)
KRAFLA_FORMULA(Cos)
KRAFLA_FORMULA(Tan)
KRAFLA_FORMULA(Asin)
KRAFLA_FORMULA(Acos)
KRAFLA_FORMULA(Pow)
KRAFLA_FORMULA(Atan2)
#undef KRAFLA_FORMULA
// What the machine rounds correctly needs no formula.
struct SqrtFormula {
  static Ops::F Do(const Ops& ops, const Ops::F& x) { return ops.Sqrt(x); }
};
struct RsqrtFormula {
  static Ops::F Do(const Ops& ops, const Ops::F& x) { return ops.Div(ops.Const(1.0), ops.Sqrt(x)); }
};
#endif

BlockFn FindFormulaF64(Opcode opcode) {
#if HWY_HAVE_FLOAT64
  if (opcode == Opcode::kExp) return &FormulaLoop<Ops, ExpFormula>;
  if (opcode == Opcode::kExpm1) return &FormulaLoop<Ops, Expm1Formula>;
  if (opcode == Opcode::kLogistic) return &FormulaLoop<Ops, LogisticFormula>;
  if (opcode == Opcode::kTanh) return &FormulaLoop<Ops, TanhFormula>;
  if (opcode == Opcode::kSinh) return &FormulaLoop<Ops, SinhFormula>;
  if (opcode == Opcode::kCosh) return &FormulaLoop<Ops, CoshFormula>;
  if (opcode == Opcode::kErf) return &FormulaLoop<Ops, ErfFormula>;
  if (opcode == Opcode::kLog) return &FormulaLoop<Ops, LogFormula>;
  if (opcode == Opcode::kLog1p) return &FormulaLoop<Ops, Log1pFormula>;
  if (opcode == Opcode::kAsinh) return &FormulaLoop<Ops, AsinhFormula>;
  if (opcode == Opcode::kAcosh) return &FormulaLoop<Ops, AcoshFormula>;
  if (opcode == Opcode::kAtanh) return &FormulaLoop<Ops, AtanhFormula>;
  if (opcode == Opcode::kCbrt) return &FormulaLoop<Ops, CbrtFormula>;
  if (opcode == Opcode::kRsqrt) return &FormulaLoop<Ops, RsqrtFormula>;
  if (opcode == Opcode::kSqrt) return &FormulaLoop<Ops, SqrtFormula>;
  if (opcode == Opcode::kSin) return &FormulaLoop<Ops, SinFormula>;
  if (opcode == Opcode::kCos) return &FormulaLoop<Ops, CosFormula>;
  if (opcode == Opcode::kTan) return &FormulaLoop<Ops, TanFormula>;
  if (opcode == Opcode::kAsin) return &FormulaLoop<Ops, AsinFormula>;
  if (opcode == Opcode::kAcos) return &FormulaLoop<Ops, AcosFormula>;
  if (opcode == Opcode::kPower) return &Formula2Loop<Ops, PowFormula>;
  if (opcode == Opcode::kAtan2) return &Formula2Loop<Ops, Atan2Formula>;
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
