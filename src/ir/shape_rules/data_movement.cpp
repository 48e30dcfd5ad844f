// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that move elements unchanged, and of those that make arrays from nothing.
#include "base/checked_math.h"
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {

Result<Shape> Parameter(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* declared, Declared(in));
  int64_t number = Attr<ParameterAttributes>(in).number;
  if (number < 0) return InvalidArgument("A parameter's number must not be negative, it is {}.", number);
  return *declared;
}

Result<Shape> Constant(const ShapeRuleInput& in) {
  const auto& literal = Attr<ConstantAttributes>(in).literal;
  if (literal == nullptr) return InvalidArgument("A constant needs a literal.");
  Shape out = literal->shape();
  out.ClearLayout();
  if (in.declared != nullptr && !Shape::Compatible(*in.declared, out))
    return InvalidArgument("The constant is declared as {}, its literal is {}.", Brief(*in.declared), Brief(out));
  return out;
}

Result<Shape> Iota(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  if (declared->element_type() == ElementType::kPred)
    return InvalidArgument("Iota gives integers, floats or complex numbers, not {}.", Brief(*declared));
  KRAFLA_TRY(CheckDimensionNumber("iota_dimension", Attr<IotaAttributes>(in).dimension, declared->rank()));
  return *declared;
}

// XLA: hlo_verifier.cc HandleBroadcast. In HLO nothing is broadcast unsaid: every operand dimension is mapped.
Result<Shape> Broadcast(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  const Dims& map = Attr<DimensionsAttributes>(in).dimensions;
  if (map.ssize() != x->rank())
    return InvalidArgument("dimensions={} must have one entry for each dimension of {}.", Brief(map), Brief(*x));
  KRAFLA_TRY(CheckDimensionNumbers("dimensions", map, declared->rank()));
  for (int64_t i = 0; i < x->rank(); ++i) {
    int64_t to = map[static_cast<std::size_t>(i)];
    if (declared->dim(to) != x->dim(i))
      return InvalidArgument("Dimension {} of {} becomes dimension {} of {}; their sizes must be equal.", i, Brief(*x),
                             to, Brief(*declared));
  }
  DimList dims;
  for (int64_t i = 0; i < declared->rank(); ++i) dims.AddFrom(*declared, i);
  for (int64_t i = 0; i < x->rank(); ++i)
    if (x->IsDynamicDim(i)) dims.dynamic[static_cast<std::size_t>(map[static_cast<std::size_t>(i)])] = true;
  return dims.Make(x->element_type());
}

Result<Shape> Transpose(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  const Dims& permutation = Attr<DimensionsAttributes>(in).dimensions;
  if (permutation.ssize() != x->rank())
    return InvalidArgument("dimensions={} is not a permutation of the dimensions of {}.", Brief(permutation),
                           Brief(*x));
  KRAFLA_TRY(CheckDimensionNumbers("dimensions", permutation, x->rank()));
  DimList dims;
  for (int64_t from : permutation) dims.AddFrom(*x, from);
  return dims.Make(x->element_type());
}

Result<Shape> Reverse(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_TRY(CheckDimensionNumbers("dimensions", Attr<DimensionsAttributes>(in).dimensions, x->rank()));
  return SameAsOperand(in);
}

Result<Shape> Reshape(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  if (declared->element_type() != x->element_type())
    return InvalidArgument("{} keeps the element type; it cannot turn {} into {}.", OpcodeName(in.opcode), Brief(*x),
                           Brief(*declared));
  if (declared->element_count() != x->element_count())
    return InvalidArgument("{} keeps the number of elements; {} has {}, {} has {}.", OpcodeName(in.opcode), Brief(*x),
                           x->element_count(), Brief(*declared), declared->element_count());
  return *declared;
}

Result<Shape> DynamicReshape(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_ASSIGN(Shape out, Reshape(in));
  if (static_cast<int64_t>(in.operands.size()) != out.rank() + 1)
    return InvalidArgument("dynamic-reshape takes a size for each of the {} dimensions, {} were given.", out.rank(),
                           in.operands.size() - 1);
  for (std::size_t i = 1; i < in.operands.size(); ++i)
    if (!IsScalarOf(*in.operands[i], ElementType::kS32))
      return InvalidArgument("Operand {} of dynamic-reshape must be s32[], it is {}.", i, Brief(*in.operands[i]));
  return out;
}

// The layouts of operand and result say which element is which; here only the bytes have to add up.
Result<Shape> Bitcast(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  auto bits = [](const Shape& s) { return CheckedMul(s.element_count(), BitWidth(s.element_type())); };
  if (x->byte_size() != declared->byte_size() || bits(*x) != bits(*declared))
    return InvalidArgument("Bitcast keeps the bytes; {} has {}, {} has {}.", Brief(*x), x->byte_size(),
                           Brief(*declared), declared->byte_size());
  return *declared;
}

Result<Shape> Concatenate(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 1));
  KRAFLA_TRY(ExpectAllArrays(in));
  const Dims& dimensions = Attr<DimensionsAttributes>(in).dimensions;
  const Shape& first = *in.operands[0];
  if (dimensions.size() != 1)
    return InvalidArgument("Concatenate joins along one dimension, dimensions={} were given.", Brief(dimensions));
  int64_t along = dimensions[0];
  KRAFLA_TRY(CheckDimensionNumber("dimensions", along, first.rank()));
  DimList dims;
  for (int64_t i = 0; i < first.rank(); ++i) dims.AddFrom(first, i);
  for (std::size_t n = 1; n < in.operands.size(); ++n) {
    const Shape& x = *in.operands[n];
    bool fits = x.element_type() == first.element_type() && x.rank() == first.rank();
    for (int64_t i = 0; fits && i < x.rank(); ++i) fits = i == along || x.dim(i) == first.dim(i);
    if (!fits)
      return InvalidArgument(
          "Operands of concatenate must agree in all but dimension {}; operand 0 is {}, "
          "operand {} is "
          "{}.",
          along, Brief(first), n, Brief(x));
    auto sum = CheckedAdd(dims.sizes[static_cast<std::size_t>(along)], x.dim(along));
    if (!sum) return InvalidArgument("The joined dimension does not fit 63 bits.");
    dims.sizes[static_cast<std::size_t>(along)] = *sum;
    for (int64_t i = 0; i < x.rank(); ++i)
      if (x.IsDynamicDim(i)) dims.dynamic[static_cast<std::size_t>(i)] = true;
  }
  return dims.Make(first.element_type());
}

Result<Shape> Pad(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* value, ArrayOperand(in, 1));
  if (!IsScalarOf(*value, x->element_type()))
    return InvalidArgument("The padding value of {} must be {}[], it is {}.", Brief(*x),
                           ElementTypeName(x->element_type()), Brief(*value));
  const auto& a = Attr<PadAttributes>(in);
  if (a.low.ssize() != x->rank() || a.high.ssize() != x->rank() || a.interior.ssize() != x->rank())
    return InvalidArgument("The padding must have one entry for each dimension of {}, it has {}.", Brief(*x),
                           a.low.size());
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    auto n = static_cast<std::size_t>(i);
    if (a.interior[n] < 0)
      return InvalidArgument("Interior padding must not be negative; dimension {} has {}.", i, a.interior[n]);
    int64_t gaps = x->dim(i) > 0 ? x->dim(i) - 1 : 0;
    auto size = CheckedMul(gaps, a.interior[n]);
    size = size ? CheckedAdd(*size, x->dim(i)) : size;
    size = size ? CheckedAdd(*size, a.low[n]) : size;
    size = size ? CheckedAdd(*size, a.high[n]) : size;
    if (!size || a.low[n] == INT64_MIN || a.high[n] == INT64_MIN)
      return InvalidArgument("Dimension {} does not fit 63 bits after padding by {}_{}_{}.", i, a.low[n], a.high[n],
                             a.interior[n]);
    if (*size < 0) return InvalidArgument("Padding takes more from dimension {} of {} than there is.", i, Brief(*x));
    dims.Add(*size, x->IsDynamicDim(i));
  }
  return dims.Make(x->element_type());
}

Result<Shape> GetDimensionSize(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  const Dims& dimensions = Attr<DimensionsAttributes>(in).dimensions;
  if (dimensions.size() != 1)
    return InvalidArgument("get-dimension-size reads one dimension, dimensions={} were given.", Brief(dimensions));
  KRAFLA_TRY(CheckDimensionNumber("dimensions", dimensions[0], x->rank()));
  if (x->dim(dimensions[0]) > INT32_MAX)
    return InvalidArgument("The size of dimension {} of {} does not fit the s32 result.", dimensions[0], Brief(*x));
  return Shape::MakeScalar(ElementType::kS32);
}

Result<Shape> SetDimensionSize(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* size, ArrayOperand(in, 1));
  if (!IsScalarOf(*size, ElementType::kS32))
    return InvalidArgument("The size given to set-dimension-size must be s32[], it is {}.", Brief(*size));
  const Dims& dimensions = Attr<DimensionsAttributes>(in).dimensions;
  if (dimensions.size() != 1)
    return InvalidArgument("set-dimension-size sets one dimension, dimensions={} were given.", Brief(dimensions));
  KRAFLA_TRY(CheckDimensionNumber("dimensions", dimensions[0], x->rank()));
  Shape out = *x;
  out.ClearLayout();
  // XLA's builder makes the dimension static again when the size is the bound and a constant; both are legal.
  Shape without = out.WithDynamicDim(dimensions[0], false);
  if (in.declared != nullptr && Shape::Compatible(*in.declared, without)) return without;
  return out.WithDynamicDim(dimensions[0], true);
}

}  // namespace krafla::shape_rules
