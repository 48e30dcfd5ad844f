// SPDX-License-Identifier: Apache-2.0
// Calls element by element. Those that need nothing but their opcode are in elementwise_ops.cpp, written from ops.def.
#include <cmath>
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;

namespace xla_builder {

XlaOp UnaryOp(const char* call, Opcode opcode, XlaOp operand) { return RunOp(call, nullptr, {operand}, opcode); }

XlaOp UnaryOp(const char* call, Opcode opcode, XlaOp operand, const std::optional<ResultAccuracy>& accuracy) {
  return Run(call, nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!accuracy || (accuracy->mode == ResultAccuracy::DEFAULT && !accuracy->tolerance))
      return b.Add(opcode, ToVector(ops));
    ResultAccuracyAttributes out;
    if (accuracy->tolerance) {
      const ResultAccuracy::Tolerance& t = *accuracy->tolerance;
      if (accuracy->mode == ResultAccuracy::HIGHEST)
        return InvalidArgument("result_accuracy is HIGHEST or a tolerance, not both.");
      if (!(t.atol >= 0) || !(t.rtol >= 0) || std::isinf(t.atol) || std::isinf(t.rtol) || t.ulps < 0)
        return InvalidArgument(
            "The tolerance of result_accuracy must not be negative or infinite; it is atol={}, "
            "rtol={}, ulps={}.",
            t.atol, t.rtol, t.ulps);
      out.atol = t.atol;
      out.rtol = t.rtol;
      out.ulps = t.ulps;
    } else {
      out.highest = true;
    }
    return b.Add(opcode, ToVector(ops), out);
  });
}

XlaOp BinaryOp(const char* call, Opcode opcode, XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions) {
  return Run(call, nullptr, {lhs, rhs}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(auto both, BroadcastPair(b, ops[0], ops[1], broadcast_dimensions));
    return b.Add(opcode, {both.first, both.second});
  });
}

namespace {

XlaOp CompareOp(const char* call, XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions,
                ComparisonDirection direction, ComparisonType type) {
  return Run(call, nullptr, {lhs, rhs}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(auto both, BroadcastPair(b, ops[0], ops[1], broadcast_dimensions));
    return b.Add(Opcode::kCompare, {both.first, both.second}, CompareAttributes{direction, type});
  });
}

// Integers have one order; only floats tell a total one from theirs.
XlaOp TotalOrder(const char* call, XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions,
                 ComparisonDirection direction) {
  ComparisonType type = ComparisonType::kTotalOrder;
  if (lhs.builder() != nullptr && lhs.valid()) {
    auto shape = lhs.builder()->GetShape(lhs);
    if (shape && !IsFloat(shape->element_type()) && !IsComplex(shape->element_type())) type = ComparisonType::kDefault;
  }
  return CompareOp(call, lhs, rhs, broadcast_dimensions, direction, type);
}

// Scalars meet the first array of higher rank, as XLA's builder does for operations of three.
XlaOp TernaryOp(const char* call, Opcode opcode, XlaOp a, XlaOp x, XlaOp c) {
  return Run(call, nullptr, {a, x, c}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    const Shape* array = nullptr;
    for (const Instruction* op : ops)
      if (array == nullptr && op->shape().IsArray() && !op->shape().IsScalar()) array = &op->shape();
    std::vector<Instruction*> operands = ToVector(ops);
    for (Instruction*& op : operands)
      if (array != nullptr && op->shape().IsScalar()) { KRAFLA_ASSIGN(op, BroadcastTo(b, op, *array)); }
    return b.Add(opcode, std::move(operands));
  });
}

// To another element type of the same dimensions.
XlaOp TypeOp(const char* call, Opcode opcode, Span<XlaOp> operands, PrimitiveType type) {
  return Run(call, nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    if (!IsArrayType(type)) return InvalidArgument("{} is not the element type of an array.", ElementTypeName(type));
    shape_rules::DimList dims;
    for (int64_t i = 0; i < x->rank(); ++i) dims.AddFrom(*x, i);
    KRAFLA_ASSIGN(Shape declared, dims.Make(type));
    if (opcode == Opcode::kBitcastConvert) {
      // The rule makes the dimensions; the declared shape only names the type.
      KRAFLA_ASSIGN(declared, InferShape(*b.computation, opcode, ops, NoAttributes{}, {}, &declared));
    }
    return b.Add(opcode, ToVector(ops), {}, {}, &declared);
  });
}

}  // namespace
}  // namespace xla_builder

XlaOp Compare(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions, ComparisonDirection direction,
              ComparisonType compare_type) {
  return CompareOp("Compare", lhs, rhs, broadcast_dimensions, direction, compare_type);
}
XlaOp Compare(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions, ComparisonDirection direction) {
  return CompareOp("Compare", lhs, rhs, broadcast_dimensions, direction, ComparisonType::kDefault);
}
XlaOp Compare(XlaOp lhs, XlaOp rhs, ComparisonDirection direction) {
  return CompareOp("Compare", lhs, rhs, {}, direction, ComparisonType::kDefault);
}

#define KRAFLA_COMPARISON(Name, direction)                                        \
  XlaOp Name(XlaOp lhs, XlaOp rhs, Span<int64_t> dims) {                          \
    return CompareOp(#Name, lhs, rhs, dims, direction, ComparisonType::kDefault); \
  }                                                                               \
  XlaOp Name##TotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> dims) {              \
    return TotalOrder(#Name "TotalOrder", lhs, rhs, dims, direction);             \
  }
KRAFLA_COMPARISON(Eq, ComparisonDirection::kEq)
KRAFLA_COMPARISON(Ne, ComparisonDirection::kNe)
KRAFLA_COMPARISON(Ge, ComparisonDirection::kGe)
KRAFLA_COMPARISON(Gt, ComparisonDirection::kGt)
KRAFLA_COMPARISON(Le, ComparisonDirection::kLe)
KRAFLA_COMPARISON(Lt, ComparisonDirection::kLt)
#undef KRAFLA_COMPARISON

XlaOp Select(XlaOp pred, XlaOp on_true, XlaOp on_false) {
  return TernaryOp("Select", Opcode::kSelect, pred, on_true, on_false);
}
XlaOp Clamp(XlaOp min, XlaOp operand, XlaOp max) { return TernaryOp("Clamp", Opcode::kClamp, min, operand, max); }

XlaOp ConvertElementType(XlaOp operand, PrimitiveType new_element_type) {
  return TypeOp("ConvertElementType", Opcode::kConvert, {operand}, new_element_type);
}
XlaOp BitcastConvertType(XlaOp operand, PrimitiveType new_element_type) {
  return TypeOp("BitcastConvertType", Opcode::kBitcastConvert, {operand}, new_element_type);
}
XlaOp StochasticConvertType(XlaOp operand, XlaOp random, PrimitiveType new_element_type) {
  return TypeOp("StochasticConvertType", Opcode::kStochasticConvert, {operand, random}, new_element_type);
}
XlaOp ReducePrecision(XlaOp operand, int exponent_bits, int mantissa_bits) {
  return RunOp("ReducePrecision", nullptr, {operand}, Opcode::kReducePrecision,
               ReducePrecisionAttributes{exponent_bits, mantissa_bits});
}

XlaOp Conj(XlaOp operand) {
  return Run("Conj", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * real, b.Add(Opcode::kReal, {ops[0]}));
    KRAFLA_ASSIGN(Instruction * imag, b.Add(Opcode::kImag, {ops[0]}));
    KRAFLA_ASSIGN(imag, b.Add(Opcode::kNegate, {imag}));
    return b.Add(Opcode::kComplex, {real, imag});
  });
}

XlaOp Square(XlaOp operand) {
  return Run("Square", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    return b.Add(Opcode::kMultiply, {ops[0], ops[0]});
  });
}

XlaOp Map(XlaBuilder* builder, Span<XlaOp> operands, const ComputationOrError& computation, Span<int64_t> dimensions,
          Span<XlaOp> static_operands) {
  return Run("Map", builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!static_operands.empty())
      return InvalidArgument("static_operands are no longer part of HLO; {} were given.", static_operands.size());
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kMap, ToVector(ops), DimensionsAttributes{ToDims(dimensions)}, {f});
  });
}

XlaOp operator-(XlaOp x) { return Neg(x); }
XlaOp operator+(XlaOp x, XlaOp y) { return Add(x, y); }
XlaOp operator-(XlaOp x, XlaOp y) { return Sub(x, y); }
XlaOp operator*(XlaOp x, XlaOp y) { return Mul(x, y); }
XlaOp operator/(XlaOp x, XlaOp y) { return Div(x, y); }
XlaOp operator%(XlaOp x, XlaOp y) { return Rem(x, y); }
XlaOp operator~(XlaOp x) { return Not(x); }
XlaOp operator&(XlaOp x, XlaOp y) { return And(x, y); }
XlaOp operator|(XlaOp x, XlaOp y) { return Or(x, y); }
XlaOp operator^(XlaOp x, XlaOp y) { return Xor(x, y); }
XlaOp operator<<(XlaOp x, XlaOp y) { return ShiftLeft(x, y); }
XlaOp operator>>(XlaOp x, XlaOp y) {
  return Run("operator>>", nullptr, {x, y}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(auto both, BroadcastPair(b, ops[0], ops[1], {}));
    bool is_signed = IsSigned(ops[0]->shape().element_type());
    return b.Add(is_signed ? Opcode::kShiftRightArithmetic : Opcode::kShiftRightLogical, {both.first, both.second});
  });
}

}  // namespace krafla
