// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/builder.h"
#include "passes/rewrite.h"
#include "passes/simplify/algebra.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

using Test = bool (*)(const Literal&);

bool Is(const Literal* splat, Test test) { return splat != nullptr && test(*splat); }

struct Sides {
  explicit Sides(Instruction* of)
      : i(of), x(of->operand(0)), y(of->operand(1)), cx(SplatOf(x)), cy(SplatOf(y)), type(of->shape().element_type()) {}
  bool exact() const { return IsIntegral(type) || type == ElementType::kPred; }
  Instruction* Zero() const { return Rewriter(*i).Splat(ScalarZero(type), i->shape().dims()); }

  Instruction *i, *x, *y;
  const Literal *cx, *cy;  // the element that all of x (y) is, or null
  ElementType type;
};

// (a op c1) op c2 is a op (c1 op c2), in integers.
Instruction* Reassociate(const Sides& s) {
  if (!IsIntegral(s.type)) return nullptr;
  Rewriter rewrite(*s.i);
  Opcode op = s.i->opcode();
  // Constants to the right, so that there is one form to look for.
  if (s.cx != nullptr && s.cy == nullptr) return rewrite.Binary(op, s.y, s.x);
  if (s.cy == nullptr || s.x->opcode() != op || s.cx != nullptr) return nullptr;
  Instruction* c1 = s.x->operand(1);
  if (SplatOf(c1) == nullptr || SplatOf(s.x->operand(0)) != nullptr) return nullptr;
  return rewrite.Binary(op, s.x->operand(0), rewrite.Binary(op, c1, s.y));
}

// The formats below 16 bits may lack a sign or a second zero.
bool IsNegation(const Instruction* x) {
  return x->opcode() == Opcode::kNegate && IsStatic(*x) &&
         (!IsFloat(x->shape().element_type()) || BitWidth(x->shape().element_type()) >= 16);
}

// (-x) op c is x op -c, where op multiplies or divides floats: signs do not round.
Instruction* MoveSign(const Sides& s) {
  if (!IsFloat(s.type) || s.cy == nullptr || !IsNegation(s.x)) return nullptr;
  Rewriter rewrite(*s.i);
  return rewrite.Binary(s.i->opcode(), s.x->operand(0), rewrite.Unary(Opcode::kNegate, s.y));
}

Instruction* SimplifyAdd(const Sides& s) {
  // x + -0 is x for every x, x + 0 is not for -0.
  Test nothing = s.exact() ? IsPositiveZero : IsNegativeZero;
  if (Is(s.cy, nothing)) return s.x;
  if (Is(s.cx, nothing)) return s.y;
  // a + -b is a - b to the bit.
  if (IsNegation(s.y)) return Rewriter(*s.i).Binary(Opcode::kSubtract, s.x, s.y->operand(0));
  if (IsNegation(s.x)) return Rewriter(*s.i).Binary(Opcode::kSubtract, s.y, s.x->operand(0));
  return Reassociate(s);
}

// A byte becomes one of the other kind with its highest bit turned over, which takes 128 from it or adds as much. As
// quantised products want it so, and what else reads it subtracts a zero point: from the byte that it was, then. Floats
// of 32 bits hold all of these numbers.
Instruction* SubtractFromTurnedByte(const Sides& s) {
  if (s.type != ElementType::kF32 || s.cy == nullptr || s.x->opcode() != Opcode::kConvert) return nullptr;
  const Instruction* byte = s.x->operand(0);
  if (byte->opcode() != Opcode::kBitcastConvert || byte->operand(0)->opcode() != Opcode::kXor) return nullptr;
  const Instruction* turned = byte->operand(0);
  const ElementType from = turned->shape().element_type(), to = byte->shape().element_type();
  const bool is_less = from == ElementType::kU8 && to == ElementType::kS8;
  if (!is_less && !(from == ElementType::kS8 && to == ElementType::kU8)) return nullptr;
  const Literal* bit = SplatOf(turned->operand(1));
  if (bit == nullptr || (ScalarBits(*bit) & 0xff) != 0x80) return nullptr;
  const float zero_point = std::bit_cast<float>(static_cast<uint32_t>(ScalarBits(*s.cy)));
  if (!(std::fabs(zero_point) <= 1024) || std::trunc(zero_point) != zero_point) return nullptr;
  Rewriter rewrite(*s.i);
  const float rest = zero_point + (is_less ? 128.0f : -128.0f) + 0.0f;
  Instruction* plain = rewrite.Convert(turned->operand(0), s.type);
  return rewrite.Binary(
      Opcode::kSubtract, plain,
      rewrite.Splat(ScalarFromBits(ElementType::kF32, std::bit_cast<uint32_t>(rest)), s.i->shape().dims()));
}

Instruction* SimplifySubtract(const Sides& s) {
  Rewriter rewrite(*s.i);
  if (Instruction* with = SubtractFromTurnedByte(s)) return with;
  if (IsNegation(s.y)) return rewrite.Binary(Opcode::kAdd, s.x, s.y->operand(0));
  if (!IsComplex(s.type) && Is(s.cy, IsPositiveZero)) return s.x;
  if (IsIntegral(s.type)) {
    if (s.x == s.y) return s.Zero();
    if (Is(s.cx, IsPositiveZero)) return rewrite.Unary(Opcode::kNegate, s.y);
  } else if (Is(s.cx, IsNegativeZero)) {
    return rewrite.Unary(Opcode::kNegate, s.y);
  }
  return nullptr;
}

Instruction* SimplifyMultiply(const Sides& s) {
  if (IsComplex(s.type)) return nullptr;
  if (Is(s.cy, IsOne)) return s.x;
  if (Is(s.cx, IsOne)) return s.y;
  if (s.exact() && (Is(s.cx, IsPositiveZero) || Is(s.cy, IsPositiveZero))) return s.Zero();
  Rewriter rewrite(*s.i);
  if (Is(s.cy, IsMinusOne)) return rewrite.Unary(Opcode::kNegate, s.x);
  if (Is(s.cx, IsMinusOne)) return rewrite.Unary(Opcode::kNegate, s.y);
  if (IsNegation(s.x) && IsNegation(s.y)) return rewrite.Binary(Opcode::kMultiply, s.x->operand(0), s.y->operand(0));
  if (Instruction* with = MoveSign(s)) return with;
  return Reassociate(s);
}

Instruction* SimplifyDivide(const Sides& s) {
  if (s.cy == nullptr || IsComplex(s.type)) return nullptr;
  Rewriter rewrite(*s.i);
  if (IsOne(*s.cy)) return s.x;
  // Also of the least integer, whose negative is itself, as the quotient is.
  if (IsMinusOne(*s.cy)) return rewrite.Unary(Opcode::kNegate, s.x);
  if (auto reciprocal = ExactReciprocal(*s.cy))
    return rewrite.Binary(Opcode::kMultiply, s.x, rewrite.Splat(std::move(*reciprocal), s.i->shape().dims()));
  if (Instruction* with = MoveSign(s)) return with;
  if (!IsUnsigned(s.type)) return nullptr;
  auto shift = Log2OfPowerOfTwo(*s.cy);
  if (!shift) return nullptr;
  return rewrite.Binary(Opcode::kShiftRightLogical, s.x,
                        rewrite.Splat(ScalarOfInt(s.type, *shift), s.i->shape().dims()));
}

Instruction* SimplifyRemainder(const Sides& s) {
  if (s.cy == nullptr || !IsIntegral(s.type)) return nullptr;
  if (IsOne(*s.cy) || IsMinusOne(*s.cy)) return s.Zero();
  if (!IsUnsigned(s.type) || !Log2OfPowerOfTwo(*s.cy)) return nullptr;
  Rewriter rewrite(*s.i);
  return rewrite.Binary(Opcode::kAnd, s.x,
                        rewrite.Splat(ScalarFromBits(s.type, ScalarBits(*s.cy) - 1), s.i->shape().dims()));
}

Instruction* SimplifyMinMax(const Sides& s, bool is_max) {
  if (IsComplex(s.type)) return nullptr;
  if (s.x == s.y) return s.x;
  Test neutral = is_max ? IsLowest : IsHighest;
  if (Is(s.cy, neutral)) return s.x;
  if (Is(s.cx, neutral)) return s.y;
  Test dominant = is_max ? IsHighest : IsLowest;
  if (s.exact() && Is(s.cy, dominant)) return s.y;
  if (s.exact() && Is(s.cx, dominant)) return s.x;
  return nullptr;
}

// x^(1/2), x^(3/2) and x^3 of a float, null for other exponents. Narrow floats are worked out in f32, and rounded once.
Instruction* PowerOfRoots(const Sides& s) {
  const auto is = [&](double exponent) { return ScalarBits(*s.cy) == ScalarBits(ScalarLiteral(s.type, exponent)); };
  const bool is_root = is(0.5), is_product_of_root = is(1.5);
  if (!is_root && !is_product_of_root && !is(3.0)) return nullptr;
  Rewriter rewrite(*s.i);
  const ElementType type = s.type == ElementType::kF64 ? s.type : ElementType::kF32;
  Instruction* x = type == s.type ? s.x : rewrite.Convert(s.x, type);
  Instruction* out;
  if (is_root || is_product_of_root) {
    // The power of -0 is +0, and that of -infinity is infinity, of which there is no root.
    Instruction* root = rewrite.Unary(Opcode::kSqrt, x);
    out = is_root ? rewrite.Unary(Opcode::kAbs, root) : rewrite.Binary(Opcode::kMultiply, x, root);
    const double infinity = std::numeric_limits<double>::infinity();
    const auto splat = [&](double v) { return rewrite.Splat(ScalarLiteral(type, v), s.i->shape().dims()); };
    out = rewrite.Select(rewrite.Compare(ComparisonDirection::kEq, x, splat(-infinity)), splat(infinity), out);
  } else {
    out = rewrite.Binary(Opcode::kMultiply, x, rewrite.Binary(Opcode::kMultiply, x, x));
  }
  return type == s.type ? out : rewrite.Convert(out, s.type);
}

Instruction* SimplifyPower(const Sides& s) {
  if (s.cy == nullptr || IsComplex(s.type)) return nullptr;
  Rewriter rewrite(*s.i);
  // x**0 is 1 also of NaN and infinities.
  if (IsPositiveZero(*s.cy) || IsNegativeZero(*s.cy)) return rewrite.Splat(ScalarOne(s.type), s.i->shape().dims());
  if (IsOne(*s.cy)) return s.x;
  bool is_float = IsFloat(s.type);
  // Formats whose values are rounded from f32 would be squared in f32 and rounded once: the same.
  if (is_float ? ScalarBits(*s.cy) == ScalarBits(ScalarLiteral(s.type, 2.0)) : ScalarInt(*s.cy) == 2)
    return rewrite.Binary(Opcode::kMultiply, s.x, s.x);
  if (is_float && IsMinusOne(*s.cy))
    return rewrite.Binary(Opcode::kDivide, rewrite.Splat(ScalarOne(s.type), s.i->shape().dims()), s.x);
  return is_float && StorageBytes(s.type) >= 2 ? PowerOfRoots(s) : nullptr;
}

Instruction* SimplifyUnary(Instruction* i) {
  Instruction* x = i->operand(0);
  if (i->opcode() == Opcode::kNegate) return x->opcode() == Opcode::kNegate ? x->operand(0) : nullptr;
  if (i->opcode() == Opcode::kAbs && !IsComplex(x->shape().element_type())) {
    if (x->opcode() == Opcode::kAbs && IsFloat(x->shape().element_type())) return x;
    if (x->opcode() == Opcode::kNegate) return Rewriter(*i).Unary(Opcode::kAbs, x->operand(0));
  }
  return nullptr;
}

// A sum of no products is zero.
Instruction* SimplifyDot(Instruction* i) {
  if (i->operand(0)->shape().element_count() != 0 && i->operand(1)->shape().element_count() != 0) return nullptr;
  return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
}

}  // namespace

Instruction* SimplifyArithmetic(Instruction* i) {
  Opcode op = i->opcode();
  if (op == Opcode::kDot || op == Opcode::kConvolution) return SimplifyDot(i);
  if (op == Opcode::kNegate || op == Opcode::kAbs) return SimplifyUnary(i);
  if (!IsElementwise(op) || i->operand_count() != 2 || !i->operand(1)->shape().IsArray()) return nullptr;
  if (op == Opcode::kAdd) return SimplifyAdd(Sides(i));
  if (op == Opcode::kSubtract) return SimplifySubtract(Sides(i));
  if (op == Opcode::kMultiply) return SimplifyMultiply(Sides(i));
  if (op == Opcode::kDivide) return SimplifyDivide(Sides(i));
  if (op == Opcode::kRemainder) return SimplifyRemainder(Sides(i));
  if (op == Opcode::kMaximum) return SimplifyMinMax(Sides(i), true);
  if (op == Opcode::kMinimum) return SimplifyMinMax(Sides(i), false);
  if (op == Opcode::kPower) return SimplifyPower(Sides(i));
  return nullptr;
}

}  // namespace krafla
