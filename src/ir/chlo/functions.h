// SPDX-License-Identifier: Apache-2.0
// CHLO's functions that are no operation of HLO, as the formulas that StableHLO's own legalization has for them
// (stablehlo/transforms/ChloLegalizeToStablehlo.cpp, ChloDecompositionPatterns.td). What has a function of its own for
// f32 and f64 is a row of ops.def instead.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ir/chlo/expression.h"

namespace krafla::chlo {

// The function `name` (without "chlo.") of the arguments; nothing where it is none of these. Narrow floats are computed
// in f32 where the formula is of f32 and f64. INVALID_ARGUMENT, UNIMPLEMENTED: the function has no formula for so many
// arguments or for their type. All arguments are arrays of one Formula.
Result<std::optional<Expr>> Call(std::string_view name, std::span<const Expr> arguments);
// What an opcode of one operand that StableHLO has no operation for is by others, for those who read no CHLO. Nothing
// for other opcodes, and for complex numbers.
std::optional<Expr> Decomposed(Opcode opcode, Expr x);

// Of f32 and f64.
Expr BesselI1e(Expr x);  // exp(-|x|) I1(x)
Expr Cosh(Expr x);
Expr Sinh(Expr x);
Expr Erf(Expr x);
Expr Erfc(Expr x);
Expr ErfInv(Expr x);
Expr Lgamma(Expr x);
Expr Digamma(Expr x);
Expr Zeta(Expr x, Expr q);  // Hurwitz
Expr Polygamma(Expr n, Expr x);
Expr AsinAcosKernel(Expr z);  // of complex numbers
// The number next to x towards y, from its bits; of floats of 16 bits and more.
Expr NextAfter(Expr x, Expr y);
// The high half of a product of integers of 4 bits and more.
Expr MulHi(Expr x, Expr y);

}  // namespace krafla::chlo
