// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops whose result element i comes from operand elements i. XLA: shape_inference.cc
// InferUnaryOpShape, InferBinaryOpShape, InferTernaryOpShape. Operands of different float types are refused, as
// XLA's verifier does with allow_mixed_precision off.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// Operands `a` and `b`: arrays of one type with equal dimensions; the dimensions' flags are merged.
Result<Shape> SamePair(const ShapeRuleInput& in, std::size_t a, std::size_t b) {
  KRAFLA_ASSIGN(const Shape* lhs, ArrayOperand(in, a));
  KRAFLA_ASSIGN(const Shape* rhs, ArrayOperand(in, b));
  if (lhs->element_type() != rhs->element_type())
    return InvalidArgument("Operands {} and {} must have one element type; they are {} and {}.", a, b, Brief(*lhs),
                           Brief(*rhs));
  if (!Shape::SameDims(*lhs, *rhs))
    return InvalidArgument("Operands {} and {} must have equal dimensions; they are {} and {}.", a, b, Brief(*lhs),
                           Brief(*rhs));
  Shape out = *lhs;
  out.ClearLayout();
  return MergeDynamic(std::move(out), *rhs);
}

}  // namespace

Result<Shape> SameAsOperand(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  Shape out = *in.operands[0];
  out.ClearLayout();
  return out;
}

Result<Shape> ReducePrecision(const ShapeRuleInput& in) {
  const auto& a = Attr<ReducePrecisionAttributes>(in);
  if (a.exponent_bits < 1 || a.exponent_bits > INT32_MAX)
    return InvalidArgument("exponent_bits must be at least 1, it is {}.", a.exponent_bits);
  if (a.mantissa_bits < 0 || a.mantissa_bits > INT32_MAX)
    return InvalidArgument("mantissa_bits must be at least 0, it is {}.", a.mantissa_bits);
  return SameAsOperand(in);
}

Result<Shape> RealOfOperand(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(Shape out, SameAsOperand(in));
  return out.WithElementType(RealPart(out.element_type()));
}

Result<Shape> PredOfOperand(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(Shape out, SameAsOperand(in));
  return out.WithElementType(ElementType::kPred);
}

Result<Shape> ElementwiseSame(const ShapeRuleInput& in) { return SamePair(in, 0, 1); }

Result<Shape> Clamp(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 3));
  KRAFLA_TRY(ExpectAllArrays(in));
  const Shape& low = *in.operands[0];
  const Shape& x = *in.operands[1];
  const Shape& high = *in.operands[2];
  if (low.element_type() != x.element_type() || high.element_type() != x.element_type())
    return InvalidArgument("The operands of clamp must have one element type; they are {}, {} and {}.", Brief(low),
                           Brief(x), Brief(high));
  if ((!low.IsScalar() && !Shape::SameDims(low, x)) || (!high.IsScalar() && !Shape::SameDims(high, x)))
    return InvalidArgument(
        "The bounds of clamp must be scalars or have the operand's dimensions; low, x and high are "
        "{}, {} and {}.",
        Brief(low), Brief(x), Brief(high));
  Shape out = x;
  out.ClearLayout();
  return out;
}

Result<Shape> Compare(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(Shape out, SamePair(in, 0, 1));
  ElementType t = out.element_type();
  // XLA: hlo_verifier.cc HandleCompare.
  bool fits = true;
  switch (Attr<CompareAttributes>(in).type) {
    case ComparisonType::kDefault: break;
    case ComparisonType::kFloat:
    case ComparisonType::kTotalOrder: fits = IsFloat(t) || IsComplex(t); break;
    case ComparisonType::kSigned: fits = IsSigned(t); break;
    case ComparisonType::kUnsigned: fits = IsUnsigned(t) || t == ElementType::kPred; break;
  }
  if (!fits) return InvalidArgument("The comparison type does not fit operands of {}.", ElementTypeName(t));
  return out.WithElementType(ElementType::kPred);
}

Result<Shape> Complex(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(Shape out, SamePair(in, 0, 1));
  // Twice the bytes: made anew, so that the size is checked.
  DimList dims;
  for (int64_t i = 0; i < out.rank(); ++i) dims.AddFrom(out, i);
  if (out.element_type() == ElementType::kF32) return dims.Make(ElementType::kC64);
  if (out.element_type() == ElementType::kF64) return dims.Make(ElementType::kC128);
  return InvalidArgument("The parts of a complex number are f32 or f64, not {}.", ElementTypeName(out.element_type()));
}

Result<Shape> Convert(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  if (!Shape::SameDims(*x, *declared))
    return InvalidArgument("{} keeps the dimensions; it cannot turn {} into {}.", OpcodeName(in.opcode), Brief(*x),
                           Brief(*declared));
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) dims.AddFrom(*x, i);
  return dims.Make(declared->element_type());
}

Result<Shape> StochasticConvert(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 2));
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* random, ArrayOperand(in, 1));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  if (!IsUnsigned(random->element_type()) || BitWidth(random->element_type()) != BitWidth(x->element_type()))
    return InvalidArgument("The random bits for {} must be unsigned integers of the same width, they are {}.",
                           Brief(*x), Brief(*random));
  if (!Shape::SameDims(*x, *random))
    return InvalidArgument("The random bits must have the operand's dimensions; the operands are {} and {}.", Brief(*x),
                           Brief(*random));
  if (!IsFloat(declared->element_type()) && !IsIntegral(declared->element_type()))
    return InvalidArgument("stochastic-convert gives floats or integers, {} was declared.", Brief(*declared));
  return Convert(in);
}

Result<Shape> BitcastConvert(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  ElementType from = x->element_type(), to = declared->element_type();
  if (IsComplex(from) != IsComplex(to))
    return InvalidArgument("bitcast-convert goes between complex types or between others, not from {} to {}.",
                           ElementTypeName(from), ElementTypeName(to));
  int from_bits = BitWidth(from), to_bits = BitWidth(to);
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) dims.AddFrom(*x, i);
  if (from_bits > to_bits) {
    dims.Add(from_bits / to_bits);
  } else if (from_bits < to_bits) {
    int64_t ratio = to_bits / from_bits;
    if (x->rank() == 0 || x->dim(x->rank() - 1) != ratio)
      return InvalidArgument("To go from {} to the wider {} the last dimension must be {}, the ratio of their widths.",
                             Brief(*x), ElementTypeName(to), ratio);
    dims.sizes.pop_back();
    dims.dynamic.pop_back();
  }
  return dims.Make(to);
}

Result<Shape> Select(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 3));
  KRAFLA_ASSIGN(const Shape* pred, ArrayOperand(in, 0));
  if (pred->element_type() != ElementType::kPred)
    return InvalidArgument("The first operand of select must be pred, it is {}.", Brief(*pred));
  KRAFLA_ASSIGN(Shape out, SamePair(in, 1, 2));
  if (!pred->IsScalar() && !Shape::SameDims(*pred, out))
    return InvalidArgument(
        "The first operand of select must be a scalar or have the dimensions of the others; "
        "it is {}, "
        "they are {}.",
        Brief(*pred), Brief(out));
  if (!pred->IsScalar()) out = MergeDynamic(std::move(out), *pred);
  return out;
}

}  // namespace krafla::shape_rules
