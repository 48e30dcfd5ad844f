// SPDX-License-Identifier: Apache-2.0
// Formulas over arrays, written with operators: each operation adds an instruction to a computation. A number among
// arrays stands for an array of that number. Nothing is made of an operation that a shape rule refuses, nor of
// operations on its result; the formula remembers the first refusal, and Take() returns it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace krafla::chlo {

class Formula;

struct Expr {
  Formula* formula = nullptr;
  Instruction* value = nullptr;  // null after an error

  Expr Like(double number) const;  // `number` in the shape and type of this
};

class Formula {
 public:
  explicit Formula(Computation& computation) : computation_(computation) {}
  Formula(const Formula&) = delete;
  Formula& operator=(const Formula&) = delete;

  Expr Of(Instruction* value) { return {this, value}; }
  Expr Apply(Opcode opcode, std::span<const Expr> operands, Attributes attributes = {});
  Expr Compared(ComparisonDirection direction, Expr a, Expr b);
  Expr Converted(Expr a, ElementType type);
  Expr BitsOf(Expr a, ElementType type);
  Expr Constant(const Expr& like, double number);
  Result<Instruction*> Take(Expr result);

 private:
  struct Known {
    double number = 0;
    Shape shape;
    Instruction* value = nullptr;
  };
  Computation& computation_;
  std::vector<Known> constants_;
  std::optional<Status> error_;
};

inline Expr Expr::Like(double number) const { return formula->Constant(*this, number); }

inline Expr Apply(Opcode opcode, Expr a) { return a.formula->Apply(opcode, std::span(&a, 1)); }
inline Expr Apply(Opcode opcode, Expr a, Expr b) {
  const Expr both[] = {a, b};
  return a.formula->Apply(opcode, both);
}

inline Expr operator+(Expr a, Expr b) { return Apply(Opcode::kAdd, a, b); }
inline Expr operator-(Expr a, Expr b) { return Apply(Opcode::kSubtract, a, b); }
inline Expr operator*(Expr a, Expr b) { return Apply(Opcode::kMultiply, a, b); }
inline Expr operator/(Expr a, Expr b) { return Apply(Opcode::kDivide, a, b); }
inline Expr operator-(Expr a) { return Apply(Opcode::kNegate, a); }
inline Expr operator+(Expr a, double b) { return a + a.Like(b); }
inline Expr operator-(Expr a, double b) { return a - a.Like(b); }
inline Expr operator*(Expr a, double b) { return a * a.Like(b); }
inline Expr operator/(Expr a, double b) { return a / a.Like(b); }
inline Expr operator+(double a, Expr b) { return b.Like(a) + b; }
inline Expr operator-(double a, Expr b) { return b.Like(a) - b; }
inline Expr operator*(double a, Expr b) { return b.Like(a) * b; }
inline Expr operator/(double a, Expr b) { return b.Like(a) / b; }
inline Expr operator&(Expr a, Expr b) { return Apply(Opcode::kAnd, a, b); }
inline Expr operator|(Expr a, Expr b) { return Apply(Opcode::kOr, a, b); }
inline Expr operator<(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kLt, a, b); }
inline Expr operator<=(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kLe, a, b); }
inline Expr operator>(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kGt, a, b); }
inline Expr operator<(Expr a, double b) { return a < a.Like(b); }
inline Expr operator<=(Expr a, double b) { return a <= a.Like(b); }
inline Expr operator>(Expr a, double b) { return a > a.Like(b); }
inline Expr Equal(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kEq, a, b); }
inline Expr Equal(Expr a, double b) { return Equal(a, a.Like(b)); }
inline Expr Differ(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kNe, a, b); }
inline Expr Select(Expr condition, Expr yes, Expr no) {
  const Expr all[] = {condition, yes, no};
  return condition.formula->Apply(Opcode::kSelect, all);
}
inline Expr Abs(Expr a) { return Apply(Opcode::kAbs, a); }
inline Expr Sign(Expr a) { return Apply(Opcode::kSign, a); }
inline Expr Floor(Expr a) { return Apply(Opcode::kFloor, a); }
inline Expr Sqrt(Expr a) { return Apply(Opcode::kSqrt, a); }
inline Expr Exp(Expr a) { return Apply(Opcode::kExp, a); }
inline Expr Expm1(Expr a) { return Apply(Opcode::kExpm1, a); }
inline Expr Log(Expr a) { return Apply(Opcode::kLog, a); }
inline Expr Log1p(Expr a) { return Apply(Opcode::kLog1p, a); }
inline Expr Sin(Expr a) { return Apply(Opcode::kSin, a); }
inline Expr Cos(Expr a) { return Apply(Opcode::kCos, a); }
inline Expr Power(Expr a, Expr b) { return Apply(Opcode::kPower, a, b); }
inline Expr Remainder(Expr a, Expr b) { return Apply(Opcode::kRemainder, a, b); }
inline Expr IsFinite(Expr a) { return Apply(Opcode::kIsFinite, a); }
inline Expr RealOf(Expr a) { return Apply(Opcode::kReal, a); }
inline Expr ImagOf(Expr a) { return Apply(Opcode::kImag, a); }
inline Expr Complex(Expr real, Expr imag) { return Apply(Opcode::kComplex, real, imag); }

}  // namespace krafla::chlo
