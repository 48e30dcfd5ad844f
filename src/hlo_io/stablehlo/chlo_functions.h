// SPDX-License-Identifier: Apache-2.0
// CHLO's functions that are no operation of HLO, as the formulas that StableHLO's own legalization has for them
// (stablehlo/transforms/ChloLegalizeToStablehlo.cpp, ChloDecompositionPatterns.td). Those of f16 and bf16 are computed
// in f32 by the caller.
#pragma once

#include "hlo_io/stablehlo/expression.h"

namespace krafla::stablehlo {

Expr BesselI1e(Expr x);  // exp(-|x|) I1(x)
Expr Cosh(Expr x);
Expr Sinh(Expr x);
Expr Erfc(Expr x);
Expr ErfInv(Expr x);
Expr Lgamma(Expr x);
Expr Digamma(Expr x);
Expr Zeta(Expr x, Expr q);  // Hurwitz
Expr Polygamma(Expr n, Expr x);
// The number next to x towards y, from its bits.
Expr NextAfter(Expr x, Expr y);
// The high half of a product of integers.
Expr MulHi(Expr x, Expr y);

}  // namespace krafla::stablehlo
