// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"
#include "passes/simplify/algebra.h"
#include "passes/simplify/integer_range.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// convert(convert(x)) from a over b to c is convert(x) from a to c.
bool MiddleSaysNothing(ElementType a, ElementType b, ElementType c) {
  if (!ConvertIsLossless(a, b)) return false;
  if (a == ElementType::kPred) return !IsComplex(b) || IsComplex(c) || IsFloat(c);
  if (IsComplex(a) || IsComplex(b)) return IsComplex(c) || IsFloat(c);
  // Integers wrap on their way to an integer, floats saturate.
  if (IsIntegral(a) && IsFloat(b) && IsIntegral(c)) return ConvertIsLossless(a, c);
  return true;
}

// Sums and products of integers may be cut to fewer bits before or after; where they are made of counts and constants
// (the counters of JAX's random bits are u64, of which the halves are taken) they are better computed narrow.
bool NarrowsForFree(const Instruction& x, int depth) {
  if (SplatOf(&x) != nullptr || x.opcode() == Opcode::kIota) return true;
  if (depth == 0 || !IsStatic(x)) return false;
  Opcode op = x.opcode();
  if (op != Opcode::kAdd && op != Opcode::kMultiply && op != Opcode::kSubtract && op != Opcode::kBroadcast &&
      op != Opcode::kReshape)
    return false;
  for (const Instruction* operand : x.operands())
    if (!NarrowsForFree(*operand, depth - 1)) return false;
  return true;
}

Instruction* NarrowInteger(Instruction* i) {
  Instruction* x = i->operand(0);
  ElementType from = x->shape().element_type(), to = i->shape().element_type();
  Rewriter rewrite(*i);
  if (x->opcode() == Opcode::kIota) {
    // Only where neither count wraps: an iota past its type's range is not a count.
    uint64_t last = static_cast<uint64_t>(x->shape().dim(x->attr<IotaAttributes>().dimension) - 1);
    if (last > LargestOf(from) || last > LargestOf(to)) return nullptr;
    return rewrite.Add(Opcode::kIota, ArrayShape(to, i->shape().dims()), {}, x->attributes());
  }
  if (BitWidth(to) >= BitWidth(from) || SplatOf(x) != nullptr || !NarrowsForFree(*x, 6)) return nullptr;
  std::vector<Instruction*> operands;
  for (Instruction* operand : x->operands()) operands.push_back(rewrite.Convert(operand, to));
  return rewrite.Add(x->opcode(), ArrayShape(to, i->shape().dims()), std::move(operands), x->attributes());
}

Instruction* SimplifyConvert(Instruction* i) {
  Instruction* x = i->operand(0);
  ElementType to = i->shape().element_type();
  if (x->shape().element_type() == to) return x;
  if (x->opcode() == Opcode::kConvert && IsStatic(*x) &&
      MiddleSaysNothing(x->operand(0)->shape().element_type(), x->shape().element_type(), to))
    return Rewriter(*i).Convert(x->operand(0), to);
  return IsIntegral(to) && IsIntegral(x->shape().element_type()) ? NarrowInteger(i) : nullptr;
}

Instruction* SimplifyBitcastConvert(Instruction* i) {
  Instruction* x = i->operand(0);
  if (x->shape().element_type() == i->shape().element_type()) return x;
  if (x->opcode() != Opcode::kBitcastConvert || !IsStatic(*x)) return nullptr;
  Instruction* source = x->operand(0);
  if (!Shape::SameDims(source->shape(), i->shape())) return nullptr;
  if (source->shape().element_type() == i->shape().element_type()) return source;
  if (BitWidth(source->shape().element_type()) != BitWidth(i->shape().element_type())) return nullptr;
  // pred holds one bit in eight; the others use all they have.
  if (source->shape().element_type() == ElementType::kPred || i->shape().element_type() == ElementType::kPred ||
      x->shape().element_type() == ElementType::kPred)
    return nullptr;
  return Rewriter(*i).Add(Opcode::kBitcastConvert, i->shape(), {source});
}

Instruction* SimplifyParts(Instruction* i) {
  Instruction* x = i->operand(0);
  Opcode op = i->opcode();
  if (op == Opcode::kComplex) {
    Instruction* y = i->operand(1);
    if (x->opcode() == Opcode::kReal && y->opcode() == Opcode::kImag && x->operand(0) == y->operand(0) &&
        Shape::Compatible(x->operand(0)->shape(), i->shape()))
      return x->operand(0);
    return nullptr;
  }
  if (!IsComplex(x->shape().element_type())) {
    if (op == Opcode::kReal) return x;
    return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
  }
  if (x->opcode() == Opcode::kComplex) return x->operand(op == Opcode::kReal ? 0 : 1);
  return nullptr;
}

Instruction* SimplifyReducePrecision(Instruction* i) {
  const auto& a = i->attr<ReducePrecisionAttributes>();
  ElementType type = i->shape().element_type();
  bool keeps = (type == ElementType::kF32 && a.exponent_bits >= 8 && a.mantissa_bits >= 23) ||
               (type == ElementType::kF64 && a.exponent_bits >= 11 && a.mantissa_bits >= 52) ||
               (type == ElementType::kF16 && a.exponent_bits >= 5 && a.mantissa_bits >= 10) ||
               (type == ElementType::kBF16 && a.exponent_bits >= 8 && a.mantissa_bits >= 7);
  return keeps ? i->operand(0) : nullptr;
}

}  // namespace

Instruction* SimplifyConversion(Instruction* i) {
  Opcode op = i->opcode();
  if (op == Opcode::kConvert) return SimplifyConvert(i);
  if (op == Opcode::kBitcastConvert) return SimplifyBitcastConvert(i);
  if (op == Opcode::kReal || op == Opcode::kImag || op == Opcode::kComplex) return SimplifyParts(i);
  if (op == Opcode::kReducePrecision) return SimplifyReducePrecision(i);
  if (op == Opcode::kGetDimensionSize) {
    int64_t size = i->operand(0)->shape().dim(i->attr<DimensionsAttributes>().dimensions[0]);
    return Rewriter(*i).Constant(ScalarOfInt(i->shape().element_type(), size));
  }
  if (op == Opcode::kDynamicReshape && i->operand(0)->shape().element_count() == i->shape().element_count())
    return Rewriter(*i).Reshape(i->operand(0), i->shape().dims());
  return nullptr;
}

}  // namespace krafla
