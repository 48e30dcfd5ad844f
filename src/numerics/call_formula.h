// SPDX-License-Identifier: Apache-2.0
// A call with as many operands as a row of ir/ops.def says, of the two that the caller has at hand.
#pragma once

namespace krafla {

// The second operand is not looked at where the function has one.
template <int kOperands, class Function, class T>
auto CallFormula(const Function& function, const T& x, const T& y) {
  static_assert(kOperands == 1 || kOperands == 2);
  if constexpr (kOperands == 1) return function(x);
  else return function(x, y);
}

}  // namespace krafla
