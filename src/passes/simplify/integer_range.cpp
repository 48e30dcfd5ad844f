// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/integer_range.h"

#include <algorithm>

#include "passes/lift.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

uint64_t LargestOf(ElementType type) {
  if (type == ElementType::kPred) return 1;
  int bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

std::optional<uint64_t> UpperBound(const Instruction& x, int depth) {
  ElementType type = x.shape().element_type();
  if (type == ElementType::kPred) return 1;
  if (!IsIntegral(type) || !IsStatic(x)) return std::nullopt;
  uint64_t largest = LargestOf(type);
  // Whatever it is, an unsigned value is no more than its type holds; a signed one may be negative.
  std::optional<uint64_t> unknown;
  if (IsUnsigned(type)) unknown = largest;
  if (const Literal* splat = SplatOf(&x)) {
    if (IsUnsigned(type)) return ScalarBits(*splat);
    int64_t value = ScalarInt(*splat);
    return value < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(value));
  }
  Opcode op = x.opcode();
  if (op == Opcode::kIota) {
    auto last = static_cast<uint64_t>(std::max<int64_t>(x.shape().dim(x.attr<IotaAttributes>().dimension) - 1, 0));
    return last <= largest ? std::optional(last) : unknown;
  }
  if (depth == 0 || x.operand_count() == 0 || !x.operand(0)->shape().IsArray()) return unknown;
  auto of = [&](std::size_t n) { return UpperBound(*x.operand(n), depth - 1); };
  if (op == Opcode::kBroadcast || op == Opcode::kReshape || op == Opcode::kTranspose || op == Opcode::kSlice ||
      op == Opcode::kReverse)
    return of(0);
  if (op == Opcode::kConvert) {
    auto a = of(0);
    return a && *a <= largest ? a : unknown;
  }
  // The sum of one number and `count` others.
  const auto sum = [&](std::optional<uint64_t> first, std::optional<uint64_t> each, int64_t count) {
    uint64_t out = 0;
    if (!first || !each || __builtin_mul_overflow(*each, static_cast<uint64_t>(count), &out) ||
        __builtin_add_overflow(out, *first, &out) || out > largest)
      return unknown;
    return std::optional(out);
  };
  const auto adds = [&] { return BinaryOpcode(*x.called(0)) == Opcode::kAdd; };
  // Each element has at most all updates: counts of equal numbers are written so.
  if (op == Opcode::kScatter && x.operand_count() == 3 && adds())
    return sum(of(0), of(2), x.operand(2)->shape().element_count());
  if (op == Opcode::kReduce && x.operand_count() == 2 && x.shape().IsArray() && adds())
    return sum(of(1), of(0), x.operand(0)->shape().element_count() / std::max<int64_t>(x.shape().element_count(), 1));
  if (x.operand_count() != 2) return unknown;
  bool known = op == Opcode::kAnd || op == Opcode::kAdd || op == Opcode::kMultiply || op == Opcode::kMinimum ||
               op == Opcode::kMaximum || op == Opcode::kShiftRightLogical || op == Opcode::kRemainder;
  if (!known) return unknown;
  auto a = of(0);
  if (op == Opcode::kShiftRightLogical || op == Opcode::kRemainder) return a ? a : unknown;
  // Where one side says nothing the other need not be asked: without this the search would grow with 2^depth.
  bool either = op == Opcode::kAnd || op == Opcode::kMinimum;
  if (!either && (!a || *a == largest)) return unknown;
  auto b = of(1);
  // One side that is not negative is enough to bound this.
  if (op == Opcode::kAnd && (a || b)) return std::min(a.value_or(~uint64_t{0}), b.value_or(~uint64_t{0}));
  if (!a || !b) return unknown;
  uint64_t out = 0;
  if (op == Opcode::kAdd) return __builtin_add_overflow(*a, *b, &out) || out > largest ? unknown : out;
  if (op == Opcode::kMultiply) return __builtin_mul_overflow(*a, *b, &out) || out > largest ? unknown : out;
  if (op == Opcode::kMinimum) return std::min(*a, *b);
  return std::max(*a, *b);
}

}  // namespace krafla
