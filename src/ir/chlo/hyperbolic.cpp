// SPDX-License-Identifier: Apache-2.0
// cosh and sinh of real numbers: halves of sums of exponentials, halved before they can reach infinity.
#include "ir/chlo/functions.h"

namespace krafla::chlo {

Expr Cosh(Expr x) {
  const Expr log_half = Log(x.Like(0.5));
  return Exp(x + log_half) + Exp(log_half - x);
}

Expr Sinh(Expr x) {
  const Expr log_half = Log(x.Like(0.5));
  const Expr large = Exp(x + log_half) - Exp(log_half - x);
  // The exponentials cancel near zero: exp(x) - 1 does not.
  const Expr e = Expm1(x);
  const Expr small = 0.5 * (e + e / (e + 1));
  return Select(Abs(x) < 1, small, large);
}

}  // namespace krafla::chlo
