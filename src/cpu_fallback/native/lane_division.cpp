// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders of integers, by multiplications where the divisor is known.
#include <bit>

#include "cpu_fallback/native/lane_builder.h"
#include "numerics/reciprocal.h"

namespace krafla::cpu::native {

int LaneBuilder::QuotientBelow2To31(int x, uint64_t divisor) {
  if (divisor == 1) return x;
  const ElementType u = ElementType::kU32;
  const Reciprocal reciprocal(divisor);
  const int high = Add(LaneOp::kMulHigh, u, x, Constant(u, reciprocal.factor));
  if (reciprocal.shift == 32) return high;
  return Add(LaneOp::kShr, u, high, Constant(u, static_cast<uint64_t>(reciprocal.shift - 32)));
}

// x / divisor, which is not 0, by a multiplication. For all 32 bits of an unsigned number the factor needs 33: f + 2^32
// with f = ceil(2^(32 + l) / d) - 2^32 and l = ceil(log2(d)); then n * (f + 2^32) >> (32 + l) = (h + ((n - h) >> 1)) >>
// (l - 1), where h = n * f >> 32 (Granlund and Montgomery, "Division by invariant integers using multiplication",
// 1994).
int LaneBuilder::Quotient(ElementType type, int x, uint64_t divisor) {
  const ElementType u = ElementType::kU32;
  const auto shifted = [&](int a, int by) {
    return by == 0 ? a : Add(LaneOp::kShr, u, a, Constant(u, static_cast<uint64_t>(by)));
  };
  if (type == u) {
    if (divisor == 1) return x;
    const int l = std::bit_width(divisor - 1);
    if (std::has_single_bit(divisor)) return shifted(x, l);
    const uint64_t factor = ((((uint64_t{1} << l) - divisor) << 32) / divisor) + 1;
    const int high = Add(LaneOp::kMulHigh, u, x, Constant(u, factor));
    return shifted(Add(LaneOp::kAdd, u, high, shifted(Add(LaneOp::kSub, u, x, high), 1)), l - 1);
  }
  const auto number = static_cast<int32_t>(static_cast<uint32_t>(divisor));
  const uint64_t size =
      number < 0 ? uint64_t{0} - static_cast<uint64_t>(int64_t{number}) : static_cast<uint64_t>(number);
  const int q = QuotientBelow2To31(Bitcast(Add(LaneOp::kAbs, type, x), u), size);
  // With the sign of the quotient.
  const int sign = Add(LaneOp::kSar, type, x, Constant(type, 31));
  const int flip = number < 0 ? Add(LaneOp::kNot, type, sign) : sign;
  return Add(LaneOp::kSub, type, Add(LaneOp::kXor, type, Bitcast(q, type), flip), flip);
}

// Of s32 or u32, that hold numbers of `width` bytes: x / 0 is all ones, x % 0 is x; MIN / -1 is MIN, x % -1 is 0.
int LaneBuilder::Divided(Opcode opcode, ElementType t, int x, int y, int width) {
  const bool is_signed = t == ElementType::kS32;
  const auto rest_of = [&](int quotient) { return Add(LaneOp::kSub, t, x, Add(LaneOp::kMul, t, quotient, y)); };
  if (const LaneNode d = node(y); d.op == LaneOp::kConstant && d.bits != 0) {
    // Of a byte by a byte, d: x * ceil(2^16 / d) >> 16.
    const bool is_byte = width == 1 && !is_signed;
    const int q = is_byte
                      ? Add(LaneOp::kShr, t, Add(LaneOp::kMul, t, x, Constant(t, (uint64_t{0xffff} + d.bits) / d.bits)),
                            Constant(t, 16))
                      : Quotient(t, x, d.bits);
    return opcode == Opcode::kDivide ? q : rest_of(q);
  }
  const int zero = Constant(t, 0), one = Constant(t, 1);
  const int by_zero = Compare(LaneOp::kEq, y, zero);
  const ElementType f = ElementType::kF32;
  if (width < 4) {
    // The quotient of numbers of 16 bits is further from the next integer than a float's division rounds, and MIN / -1
    // has room. By zero it may be anything, whose product with zero is none.
    const int q = Add(LaneOp::kTruncateToInt, t,
                      Add(LaneOp::kDiv, f, Add(LaneOp::kIntToFloat, f, x), Add(LaneOp::kIntToFloat, f, y)));
    return opcode == Opcode::kDivide ? Select(by_zero, Constant(t, ~uint64_t{0}), q) : rest_of(q);
  }
  int unsafe = by_zero, by_minus = -1;
  if (is_signed) {
    by_minus = Compare(LaneOp::kEq, y, Constant(t, ~uint64_t{0}));
    unsafe = Add(LaneOp::kOr, ElementType::kPred, by_zero, by_minus);
  }
  int q = Add(LaneOp::kDiv, t, x, Select(unsafe, one, y));
  if (is_signed) q = Select(by_minus, Add(LaneOp::kSub, t, zero, x), q);
  if (opcode == Opcode::kDivide) return Select(by_zero, Constant(t, ~uint64_t{0}), q);
  return Select(by_zero, x, rest_of(q));
}

}  // namespace krafla::cpu::native
