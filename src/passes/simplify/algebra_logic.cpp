// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"
#include "passes/simplify/algebra.h"
#include "passes/simplify/integer_range.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

bool IsZero(const Literal* splat) { return splat != nullptr && IsPositiveZero(*splat); }
bool IsOnes(const Literal* splat) { return splat != nullptr && IsAllOnes(*splat); }

Instruction* SimplifyBitwise(Instruction* i) {
  Instruction *x = i->operand(0), *y = i->operand(1);
  const Literal *cx = SplatOf(x), *cy = SplatOf(y);
  Rewriter rewrite(*i);
  if (i->opcode() == Opcode::kAnd) {
    if (x == y || IsOnes(cy) || IsZero(cx)) return x;
    if (IsOnes(cx) || IsZero(cy)) return y;
  } else if (i->opcode() == Opcode::kOr) {
    if (x == y || IsZero(cy) || IsOnes(cx)) return x;
    if (IsZero(cx) || IsOnes(cy)) return y;
  } else {
    if (x == y) return rewrite.Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
    if (IsZero(cy)) return x;
    if (IsZero(cx)) return y;
    if (IsOnes(cy)) return rewrite.Unary(Opcode::kNot, x);
    if (IsOnes(cx)) return rewrite.Unary(Opcode::kNot, y);
  }
  return nullptr;
}

ComparisonDirection Inverted(ComparisonDirection d) {
  switch (d) {
    case ComparisonDirection::kEq: return ComparisonDirection::kNe;
    case ComparisonDirection::kNe: return ComparisonDirection::kEq;
    case ComparisonDirection::kGe: return ComparisonDirection::kLt;
    case ComparisonDirection::kLt: return ComparisonDirection::kGe;
    case ComparisonDirection::kGt: return ComparisonDirection::kLe;
    case ComparisonDirection::kLe: return ComparisonDirection::kGt;
  }
  KRAFLA_UNREACHABLE();
}

// Exactly one of <, =, > holds: no NaN in the way.
bool IsTotallyOrdered(const Instruction& compare) {
  ElementType type = compare.operand(0)->shape().element_type();
  return IsIntegral(type) || type == ElementType::kPred ||
         compare.attr<CompareAttributes>().type == ComparisonType::kTotalOrder;
}

Instruction* SimplifyNot(Instruction* i) {
  Instruction* x = i->operand(0);
  if (x->opcode() == Opcode::kNot) return x->operand(0);
  if (x->opcode() != Opcode::kCompare) return nullptr;
  CompareAttributes attributes = x->attr<CompareAttributes>();
  bool equality = attributes.direction == ComparisonDirection::kEq || attributes.direction == ComparisonDirection::kNe;
  if (!equality && !IsTotallyOrdered(*x)) return nullptr;
  attributes.direction = Inverted(attributes.direction);
  return Rewriter(*i).Add(Opcode::kCompare, i->shape(), {x->operand(0), x->operand(1)}, attributes);
}

Instruction* SimplifyCompare(Instruction* i) {
  Instruction *x = i->operand(0), *y = i->operand(1);
  ComparisonDirection direction = i->attr<CompareAttributes>().direction;
  ElementType type = x->shape().element_type();
  const Literal* cy = SplatOf(y);
  Rewriter rewrite(*i);
  auto always = [&](bool value) {
    return rewrite.Splat(ScalarOfInt(ElementType::kPred, value ? 1 : 0), i->shape().dims());
  };
  if (x == y && IsTotallyOrdered(*i))
    return always(direction == ComparisonDirection::kEq || direction == ComparisonDirection::kGe ||
                  direction == ComparisonDirection::kLe);
  bool equal = direction == ComparisonDirection::kEq, differ = direction == ComparisonDirection::kNe;
  if (type == ElementType::kPred && cy != nullptr && (equal || differ))
    return IsOne(*cy) == equal ? x : rewrite.Unary(Opcode::kNot, x);
  if (IsUnsigned(type) && IsZero(cy)) {
    if (direction == ComparisonDirection::kLt) return always(false);
    if (direction == ComparisonDirection::kGe) return always(true);
  }
  // A pred made a number and asked whether it is zero.
  if (x->opcode() == Opcode::kConvert && x->operand(0)->shape().element_type() == ElementType::kPred &&
      (IsIntegral(type) || IsFloat(type)) && ConvertIsLossless(ElementType::kPred, type) && IsZero(cy) &&
      (equal || differ))
    return differ ? x->operand(0) : rewrite.Unary(Opcode::kNot, x->operand(0));
  return nullptr;
}

Instruction* SimplifySelect(Instruction* i) {
  Instruction *p = i->operand(0), *a = i->operand(1), *b = i->operand(2);
  if (a == b) return a;
  if (const Literal* known = SplatOf(p)) return IsPositiveZero(*known) ? b : a;
  Rewriter rewrite(*i);
  if (p->opcode() == Opcode::kNot) return rewrite.Select(p->operand(0), b, a);
  if (i->shape().element_type() == ElementType::kPred) {
    const Literal *ca = SplatOf(a), *cb = SplatOf(b);
    if (IsOnes(ca) && IsZero(cb)) return p;
    if (IsZero(ca) && IsOnes(cb)) return rewrite.Unary(Opcode::kNot, p);
  }
  if (b->opcode() == Opcode::kSelect && b->operand(0) == p) return rewrite.Select(p, a, b->operand(2));
  if (a->opcode() == Opcode::kSelect && a->operand(0) == p) return rewrite.Select(p, a->operand(1), b);
  return nullptr;
}

// No bit is left: shifted by the width or more (or less than nothing, which reads as more), or to the right by more
// than the value has.
bool ShiftsOut(const Instruction& i) {
  const Literal* by = SplatOf(i.operand(1));
  if (by == nullptr) return false;
  ElementType type = i.shape().element_type();
  int64_t count = ScalarInt(*by);
  if (i.opcode() == Opcode::kShiftRightArithmetic) return false;
  if (count < 0 || count >= BitWidth(type)) return true;
  auto bound = UpperBound(*i.operand(0));
  return i.opcode() == Opcode::kShiftRightLogical && bound && *bound >> count == 0;
}

}  // namespace

Instruction* SimplifyLogic(Instruction* i) {
  Opcode op = i->opcode();
  if (op == Opcode::kAnd || op == Opcode::kOr || op == Opcode::kXor) return SimplifyBitwise(i);
  if (op == Opcode::kNot) return SimplifyNot(i);
  if (op == Opcode::kCompare) return SimplifyCompare(i);
  if (op == Opcode::kSelect) return SimplifySelect(i);
  if (op == Opcode::kShiftLeft || op == Opcode::kShiftRightLogical || op == Opcode::kShiftRightArithmetic) {
    // Nothing shifted by anything is nothing; anything shifted by nothing is itself.
    if (IsZero(SplatOf(i->operand(1))) || IsZero(SplatOf(i->operand(0)))) return i->operand(0);
    if (ShiftsOut(*i)) return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
  }
  return nullptr;
}

}  // namespace krafla
