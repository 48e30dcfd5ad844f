// SPDX-License-Identifier: Apache-2.0
// The real operations of numerics/complex_formulas.h as nodes of an element program.
#pragma once

#include "plan/element_program.h"

namespace krafla::plan {

struct NodeReal {
  using F = NodeId;
  using B = NodeId;

  ProgramBuilder& b;
  ElementType real;  // f32 or f64

  int digits() const { return real == ElementType::kF32 ? 24 : 53; }
  int max_exponent() const { return real == ElementType::kF32 ? 128 : 1024; }
  F Const(double x) const { return b.ConstantFloat(real, x); }

  F Add(F x, F y) const { return Make(Opcode::kAdd, x, y); }
  F Sub(F x, F y) const { return Make(Opcode::kSubtract, x, y); }
  F Mul(F x, F y) const { return Make(Opcode::kMultiply, x, y); }
  F Div(F x, F y) const { return Make(Opcode::kDivide, x, y); }
  F Atan2(F x, F y) const { return Make(Opcode::kAtan2, x, y); }
  F Pow(F x, F y) const { return Make(Opcode::kPower, x, y); }
  F Neg(F x) const { return Make(Opcode::kNegate, x); }
  F Abs(F x) const { return Make(Opcode::kAbs, x); }
  F Sqrt(F x) const { return Make(Opcode::kSqrt, x); }
  F Exp(F x) const { return Make(Opcode::kExp, x); }
  F Expm1(F x) const { return Make(Opcode::kExpm1, x); }
  F Log(F x) const { return Make(Opcode::kLog, x); }
  F Log1p(F x) const { return Make(Opcode::kLog1p, x); }
  F Sin(F x) const { return Make(Opcode::kSin, x); }
  F Cos(F x) const { return Make(Opcode::kCos, x); }
  F Tan(F x) const { return Make(Opcode::kTan, x); }
  F Tanh(F x) const { return Make(Opcode::kTanh, x); }
  F Sinh(F x) const { return Make(Opcode::kSinh, x); }
  F Cosh(F x) const { return Make(Opcode::kCosh, x); }

  B Lt(F x, F y) const { return b.Compare(ComparisonDirection::kLt, x, y); }
  B Le(F x, F y) const { return b.Compare(ComparisonDirection::kLe, x, y); }
  B Gt(F x, F y) const { return b.Compare(ComparisonDirection::kGt, x, y); }
  B Ge(F x, F y) const { return b.Compare(ComparisonDirection::kGe, x, y); }
  B Eq(F x, F y) const { return b.Compare(ComparisonDirection::kEq, x, y); }
  B Ne(F x, F y) const { return b.Compare(ComparisonDirection::kNe, x, y); }
  B And(B x, B y) const { return b.Hlo(Opcode::kAnd, ElementType::kPred, {x, y}); }
  B Or(B x, B y) const { return b.Hlo(Opcode::kOr, ElementType::kPred, {x, y}); }
  F Select(B c, F x, F y) const { return b.Select(c, x, y); }

 private:
  F Make(Opcode opcode, F x) const { return b.Hlo(opcode, real, {x}); }
  F Make(Opcode opcode, F x, F y) const { return b.Hlo(opcode, real, {x, y}); }
};

}  // namespace krafla::plan
