// SPDX-License-Identifier: Apache-2.0
// Functions on the bits of numbers.
#include <cmath>
#include <limits>

#include "ir/chlo/functions.h"

namespace krafla::chlo {
namespace {

ElementType SignedOfWidth(int bits) {
  return bits == 8    ? ElementType::kS8
         : bits == 16 ? ElementType::kS16
         : bits == 32 ? ElementType::kS32
                      : ElementType::kS64;
}

ElementType TwiceAsWide(ElementType type) {
  const int bits = 2 * BitWidth(type);
  if (IsSigned(type)) return SignedOfWidth(bits);
  return bits == 8    ? ElementType::kU8
         : bits == 16 ? ElementType::kU16
         : bits == 32 ? ElementType::kU32
                      : ElementType::kU64;
}

// From 32-bit halves, as 64 bits are all there are.
Expr MulHiU64(Expr x, Expr y) {
  const Expr half = x.Like(32), low = x.Like(4294967295.0);
  auto high = [&](Expr a) { return Apply(Opcode::kShiftRightLogical, a, half); };
  const Expr x_high = high(x), y_high = high(y), x_low = x & low, y_low = y & low;
  const Expr middle = x_low * y_high + high(x_low * y_low);
  return x_high * y_high + high(middle) + high(x_high * y_low + (middle & low));
}

}  // namespace

Expr NextAfter(Expr x, Expr y) {
  if (x.value == nullptr || y.value == nullptr) return x;
  Formula& f = *x.formula;
  const ElementType type = x.value->shape().element_type();
  const int bits = BitWidth(type);
  const ElementType integer = SignedOfWidth(bits);
  const Expr xi = f.BitsOf(x, integer), yi = f.BitsOf(y, integer);
  // 64-bit numbers round to themselves: the smallest is a power of two, the largest saturates.
  const Expr sign_mask = xi.Like(-std::ldexp(1.0, bits - 1)), rest_mask = xi.Like(std::ldexp(1.0, bits - 1) - 1);
  const Expr x_size = xi & rest_mask, y_size = yi & rest_mask, x_sign = xi & sign_mask, y_sign = yi & sign_mask;
  const Expr shrinks = (x_size > y_size) | Differ(x_sign, y_sign);
  Expr out = xi + Select(shrinks, xi.Like(-1), xi.Like(1));
  // From zero the way is to the smallest number of y's sign.
  const Expr from_zero = Select(Equal(y_size, 0), yi, y_sign | xi.Like(1));
  out = Select(Equal(x_size, 0), from_zero, out);
  out = Select(Equal(x, y), yi, out);
  const Expr nan = f.BitsOf(x.Like(std::numeric_limits<double>::quiet_NaN()), integer);
  out = Select(Differ(x, x) | Differ(y, y), nan, out);
  return f.BitsOf(out, type);
}

Expr MulHi(Expr x, Expr y) {
  if (x.value == nullptr || y.value == nullptr) return x;
  Formula& f = *x.formula;
  const ElementType type = x.value->shape().element_type();
  if (BitWidth(type) < 64) {
    const ElementType wide = TwiceAsWide(type);
    const Expr product = f.Converted(x, wide) * f.Converted(y, wide);
    const Opcode shift = IsSigned(type) ? Opcode::kShiftRightArithmetic : Opcode::kShiftRightLogical;
    return f.Converted(Apply(shift, product, product.Like(BitWidth(type))), type);
  }
  if (!IsSigned(type)) return MulHiU64(x, y);
  // Two's complement: a negative factor counts 2^64 too much.
  const Expr xu = f.Converted(x, ElementType::kU64), yu = f.Converted(y, ElementType::kU64), zero = xu.Like(0);
  const Expr high = MulHiU64(xu, yu) - Select(x < 0, yu, zero) - Select(y < 0, xu, zero);
  return f.Converted(high, type);
}

}  // namespace krafla::chlo
