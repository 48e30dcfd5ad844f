// SPDX-License-Identifier: Apache-2.0
// What the arc sine and the arc cosine of complex numbers have in common: the operation _asin_acos_kernel, which
// StableHLO's legalization makes of asin, acos, asinh and acosh (stablehlo/transforms/
// ChloDecompositionPatternsMath.td, from github.com/pearu/functional_algorithms).
#include <limits>
#include <numbers>

#include "ir/chlo/functions.h"

namespace krafla::chlo {
namespace {

Expr AtLeast(Expr a, Expr b) { return a.formula->Compared(ComparisonDirection::kGe, a, b); }

// Of numbers that are not negative.
Expr Hypotenuse(Expr a, Expr b) {
  const Expr large = Apply(Opcode::kMaximum, a, b), small = Apply(Opcode::kMinimum, a, b);
  const Expr ratio = small / large, square = ratio * ratio, root = Sqrt(square + 1);
  const Expr lost = Equal(root, 1) & (square > 0);  // where the smaller one is lost under the root
  return Select(Equal(large, small), large * std::numbers::sqrt2,
                Select(lost, large + large * square / 2, large * root));
}

// Numbers of which the bounds below are multiples: half of the largest exponent and of the smallest, with some room.
struct KernelBounds {
  double large, much_larger, smaller, larger, small;
};
template <typename T>
KernelBounds BoundsOf(T root_of_largest, T root_of_smallest) {
  const T large = root_of_largest / 8;
  return {large, large * static_cast<T>(1e12), large * static_cast<T>(1e-6), large * 100, root_of_smallest * 4};
}

}  // namespace

Expr AsinAcosKernel(Expr z) {
  const Expr x = Abs(RealOf(z)), y = Abs(ImagOf(z));
  const KernelBounds bounds = x.value != nullptr && x.value->shape().element_type() == ElementType::kF64
                                  ? BoundsOf<double>(1.3407807929942596e154, 1.4916681462400413e-154)
                                  : BoundsOf<float>(1.8446743e19F, 1.0842022e-19F);
  const Expr above = x + 1, below = x - 1;
  const Expr r = Hypotenuse(Abs(above), y), s = Hypotenuse(Abs(below), y);
  const Expr a = (r + s) * 0.5, half = (a + x) * 0.5, square = y * y;
  const Expr r_above = r + above, s_above = s + below, s_below = s - below;
  const Expr real_near = Sqrt(half * (square / r_above + s_below));
  const Expr real_far = y * Sqrt(half / r_above + half / s_above);
  const Expr is_large = AtLeast(Apply(Opcode::kMaximum, x, y), x.Like(bounds.large));
  const Expr real = Select(is_large, y, Select(x <= 1, real_near, real_far));

  const Expr limit_y = Select(x < bounds.much_larger, x.Like(bounds.smaller), x.Like(bounds.larger));
  const Expr by_y = AtLeast(y, limit_y);
  const Expr larger = Select(by_y, y, x);
  const Expr is_far = AtLeast(larger, Select(by_y, limit_y, x.Like(bounds.large)));
  const Expr finite_y = Apply(Opcode::kNot, Equal(y, std::numeric_limits<double>::infinity()));
  const Expr ratio = Select(by_y & finite_y, x / y, x.Like(0));
  const Expr imag_far = (Log(larger) + std::numbers::ln2) + Log1p(ratio * ratio) * 0.5;
  const Expr is_near = (y < bounds.small) & (x < 1);
  const Expr next = a + 1, half_square = square * 0.5, part = half_square / r_above;
  const Expr beyond_one = part + s_above * 0.5;
  const Expr within_one = Select(a <= 1.5, part + half_square / s_below, a - 1);
  const Expr over_one = Select(is_near, -(above * below / next), Select(AtLeast(x, x.Like(1)), beyond_one, within_one));
  const Expr root = Sqrt(over_one * next);
  return Complex(real, Select(is_far, imag_far, Select(is_near, y / root, Log1p(over_one + root))));
}

}  // namespace krafla::chlo
