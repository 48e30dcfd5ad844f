// SPDX-License-Identifier: Apache-2.0
// Functions that are an opcode of HLO and no operation of StableHLO, of real numbers.
#include <numbers>

#include "ir/chlo/functions.h"

namespace krafla::chlo {
namespace {

// Whose square is still a number.
double RootOfLargest(Expr x) {
  return x.value->shape().element_type() == ElementType::kF64 ? 1.3407807929942596e154 : 1.8446743e19;
}

Expr Asin(Expr x) { return 2 * Apply(Opcode::kAtan2, x, 1 + Sqrt((1 - x) * (1 + x))); }

Expr Acos(Expr x) {
  const Expr angle = 2 * Apply(Opcode::kAtan2, Sqrt((1 - x) * (1 + x)), 1 + x);
  return Select(Equal(x, -1), x.Like(std::numbers::pi), angle);  // where both arguments are 0
}

Expr Asinh(Expr x) {
  const Expr a = Abs(x), square = a * a;
  const Expr large = Log(a) + std::numbers::ln2, usual = Log1p(a + square / (1 + Sqrt(square + 1)));
  return Sign(x) * Select(a < RootOfLargest(x), usual, large);
}

Expr Acosh(Expr x) {
  const Expr large = Log(x) + std::numbers::ln2, usual = Log1p((x - 1) + Sqrt((x - 1) * (x + 1)));
  return Select(x < RootOfLargest(x), usual, large);
}

Expr Atanh(Expr x) { return 0.5 * (Log1p(x) - Log1p(-x)); }

struct OpcodeFormula {
  Opcode opcode;
  Expr (*function)(Expr);
};
constexpr OpcodeFormula kOpcodeFormulas[] = {{Opcode::kAcos, Acos},   {Opcode::kAcosh, Acosh}, {Opcode::kAsin, Asin},
                                             {Opcode::kAsinh, Asinh}, {Opcode::kAtanh, Atanh}, {Opcode::kCosh, Cosh},
                                             {Opcode::kErf, Erf},     {Opcode::kSinh, Sinh}};

}  // namespace

std::optional<Expr> Decomposed(Opcode opcode, Expr x) {
  const ElementType type = x.value->shape().element_type();
  if (!IsFloat(type)) return std::nullopt;
  for (const OpcodeFormula& row : kOpcodeFormulas) {
    if (row.opcode != opcode) continue;
    if (BitWidth(type) >= 32) return row.function(x);
    Formula& f = *x.formula;
    return f.Converted(row.function(f.Converted(x, ElementType::kF32)), type);
  }
  return std::nullopt;
}

}  // namespace krafla::chlo
