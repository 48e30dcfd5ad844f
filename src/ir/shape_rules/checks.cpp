// SPDX-License-Identifier: Apache-2.0
#include "ir/shape_rules/checks.h"

#include <algorithm>

#include "base/checked_math.h"

namespace krafla::shape_rules {

std::string Brief(const Shape& shape) {
  constexpr std::size_t kLimit = 300;
  std::string out = shape.ToString(false);
  if (out.size() > kLimit) {
    out.resize(kLimit);
    out += "...";
  }
  return out;
}

std::string Brief(const Dims& dims) {
  constexpr std::size_t kLimit = 32;
  std::string out = "{";
  for (std::size_t i = 0; i < dims.size() && i < kLimit; ++i) {
    if (i > 0) out += ',';
    out += std::to_string(dims[i]);
  }
  if (dims.size() > kLimit) out += ",...";
  return out + "}";
}

Result<> ExpectOperands(const ShapeRuleInput& in, std::size_t count) {
  if (in.operands.size() != count)
    return InvalidArgument("{} takes {} operand{}, {} were given.", OpcodeName(in.opcode), count, count == 1 ? "" : "s",
                           in.operands.size());
  return {};
}

Result<> ExpectAtLeast(const ShapeRuleInput& in, std::size_t count) {
  if (in.operands.size() < count)
    return InvalidArgument("{} takes at least {} operand{}, {} were given.", OpcodeName(in.opcode), count,
                           count == 1 ? "" : "s", in.operands.size());
  return {};
}

Result<> ExpectCalled(const ShapeRuleInput& in, std::size_t count) {
  if (in.called.size() != count)
    return InvalidArgument("{} calls {} computation{}, {} were given.", OpcodeName(in.opcode), count,
                           count == 1 ? "" : "s", in.called.size());
  return {};
}

Result<const Shape*> ArrayOperand(const ShapeRuleInput& in, std::size_t i) {
  if (i >= in.operands.size())
    return InvalidArgument("{} needs an operand {}, {} were given.", OpcodeName(in.opcode), i, in.operands.size());
  const Shape* out = in.operands[i];
  if (!out->IsArray()) return InvalidArgument("Operand {} must be an array, it is {}.", i, Brief(*out));
  return out;
}

Result<> ExpectAllArrays(const ShapeRuleInput& in) {
  for (std::size_t i = 0; i < in.operands.size(); ++i) KRAFLA_TRY(ArrayOperand(in, i));
  return {};
}

Result<const Shape*> Declared(const ShapeRuleInput& in) {
  if (in.declared == nullptr)
    return InvalidArgument("The result of {} cannot be told from its operands; give its shape.", OpcodeName(in.opcode));
  return in.declared;
}

Result<const Shape*> DeclaredArray(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* out, Declared(in));
  if (!out->IsArray())
    return InvalidArgument("The result of {} is an array, {} was declared.", OpcodeName(in.opcode), Brief(*out));
  return out;
}

Result<> CheckDimensionNumber(const char* what, int64_t number, int64_t rank) {
  if (number < 0 || number >= rank)
    return InvalidArgument("{} names dimension {}, which is outside [0, {}).", what, number, rank);
  return {};
}

Result<> CheckDimensionNumbers(const char* what, const Dims& numbers, int64_t rank) {
  uint64_t seen = 0;  // ranks are at most Shape::kMaxRank = 64
  for (int64_t n : numbers) {
    KRAFLA_TRY(CheckDimensionNumber(what, n, rank));
    if ((seen >> n) & 1) return InvalidArgument("{} names dimension {} twice.", what, n);
    seen |= uint64_t{1} << n;
  }
  return {};
}

bool IsAscending(const Dims& dims) { return std::is_sorted(dims.begin(), dims.end()); }
bool IsScalarOf(const Shape& shape, ElementType type) { return shape.IsScalar() && shape.element_type() == type; }

Shape MergeDynamic(Shape shape, const Shape& other) {
  for (int64_t i = 0; i < shape.rank(); ++i)
    if (other.IsDynamicDim(i) && !shape.IsDynamicDim(i)) shape = shape.WithDynamicDim(i, true);
  return shape;
}

bool SameTypeAndDims(const Shape& a, const Shape& b) {
  return a.element_type() == b.element_type() && a.IsArray() && Shape::SameDims(a, b);
}

Result<Shape> SingleOrTuple(std::vector<Shape> shapes) {
  if (shapes.size() == 1) return std::move(shapes[0]);
  return Shape::MakeTuple(std::move(shapes));
}

Result<int64_t> WindowedSize(int64_t dim, const WindowDim& window, std::size_t number) {
  auto positive = [&](int64_t value, const char* what) -> Result<> {
    if (value < 1)
      return InvalidArgument("The window's {} must be at least 1; dimension {} has {}.", what, number, value);
    return {};
  };
  KRAFLA_TRY(positive(window.size, "size"));
  KRAFLA_TRY(positive(window.stride, "stride"));
  KRAFLA_TRY(positive(window.window_dilation, "dilation"));
  KRAFLA_TRY(positive(window.base_dilation, "base dilation"));
  auto dilated = [](int64_t bound, int64_t dilation) -> std::optional<int64_t> {
    if (bound == 0) return 0;
    auto product = CheckedMul(bound - 1, dilation);
    return product ? CheckedAdd(*product, 1) : std::nullopt;
  };
  auto base = dilated(dim, window.base_dilation);
  auto size = dilated(window.size, window.window_dilation);
  auto padded = base ? CheckedAdd(*base, window.padding_low) : std::nullopt;
  padded = padded ? CheckedAdd(*padded, window.padding_high) : std::nullopt;
  // Kernels compute positions as out * stride + tap * dilation - padding_low; -INT64_MIN must not come up.
  if (!size || !padded || window.padding_low == INT64_MIN || window.padding_high == INT64_MIN)
    return InvalidArgument("The window's size with padding and dilation does not fit 63 bits in dimension {}.", number);
  if (*size > *padded) return 0;
  return (*padded - *size) / window.stride + 1;
}

Result<ElementType> ContractionType(const ShapeRuleInput& in, ElementType lhs, ElementType rhs) {
  if (IsComplex(lhs) != IsComplex(rhs))
    return InvalidArgument("The operands' element types are {} and {}; both must be complex or none.",
                           ElementTypeName(lhs), ElementTypeName(rhs));
  // XLA: primitive_util::HigherPrecisionType: the wider one, floats before integers.
  auto weight = [](ElementType t) {
    return (IsComplex(t) ? 4000 : IsFloat(t) ? 2000 : IsIntegral(t) ? 1000 : 0) + BitWidth(t);
  };
  ElementType natural = weight(lhs) >= weight(rhs) ? lhs : rhs;
  if (in.declared == nullptr || !in.declared->IsArray()) return natural;
  ElementType declared = in.declared->element_type();
  if (declared == natural) return natural;
  // XLA: shape_inference.cc MaybeUpcast.
  if (IsComplex(declared) != IsComplex(natural) ||
      (!IsFloat(natural) && !IsComplex(natural) && BitWidth(declared) < BitWidth(natural)))
    return InvalidArgument("The result's element type is declared as {}, which cannot hold products of {} and {}.",
                           ElementTypeName(declared), ElementTypeName(lhs), ElementTypeName(rhs));
  return declared;
}

Result<> CheckPrecision(const std::vector<Precision>& precision, std::size_t operands) {
  if (!precision.empty() && precision.size() != operands)
    return InvalidArgument("operand_precision has {} entries for {} operands.", precision.size(), operands);
  return {};
}

Result<> CheckReducer(const ShapeRuleInput& in, std::size_t number, const std::vector<ElementType>& types) {
  if (number >= in.called.size())
    return InvalidArgument("{} needs a computation to combine with.", OpcodeName(in.opcode));
  const ComputationSignature& reducer = in.called[number];
  std::size_t n = types.size();
  if (reducer.parameters.size() != 2 * n)
    return InvalidArgument("The computation must take {} parameters for {} array{}, it takes {}.", 2 * n, n,
                           n == 1 ? "" : "s", reducer.parameters.size());
  for (std::size_t i = 0; i < 2 * n; ++i)
    if (!IsScalarOf(reducer.parameters[i], types[i % n]))
      return InvalidArgument("Parameter {} of the computation must be {}[], it is {}.", i,
                             ElementTypeName(types[i % n]), Brief(reducer.parameters[i]));
  if (n == 1 && !reducer.result.IsTuple()) {
    if (!IsScalarOf(reducer.result, types[0]))
      return InvalidArgument("The computation must give {}[], it gives {}.", ElementTypeName(types[0]),
                             Brief(reducer.result));
    return {};
  }
  if (n == 1 || !reducer.result.IsTuple() || reducer.result.tuple_elements().size() != n)
    return InvalidArgument("The computation must give {}, it gives {}.",
                           n == 1 ? "a scalar" : Format("a tuple of {} scalars", n), Brief(reducer.result));
  for (std::size_t i = 0; i < n; ++i)
    if (!IsScalarOf(reducer.result.tuple_elements()[i], types[i]))
      return InvalidArgument("Element {} of the computation's result must be {}[], it is {}.", i,
                             ElementTypeName(types[i]), Brief(reducer.result.tuple_elements()[i]));
  return {};
}

}  // namespace krafla::shape_rules
