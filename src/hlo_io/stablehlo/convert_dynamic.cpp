// SPDX-License-Identifier: Apache-2.0
// Operations whose shapes are operands: taken where those follow from constants and static shapes, which is how shape
// polymorphism arrives once the arguments' sizes are known.
#include <algorithm>

#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

// The operation with its shape as attributes, for the family that has it.
Op Renamed(const Op& op, std::string name, std::size_t operands) {
  Op out;
  out.name = std::move(name);
  out.operands.assign(op.operands.begin(),
                      op.operands.begin() + static_cast<std::ptrdiff_t>(std::min(operands, op.operands.size())));
  out.results = op.results;
  out.attributes = op.attributes;
  out.location = op.location;
  out.op_name = op.op_name;
  return out;
}

// The numbers of a vector, one for each of `rank` dimensions, each by itself.
Result<std::vector<Instruction*>> ScalarsOf(Body& body, Instruction* vector, int64_t rank) {
  const Shape& shape = vector->shape();
  if (!shape.IsArray() || shape.rank() != 1 || shape.dim(0) != rank)
    return InvalidArgument("{} is not one number for each of {} dimensions.", shape.ToString(false), rank);
  std::vector<Instruction*> out;
  for (int64_t d = 0; d < rank; ++d) {
    KRAFLA_ASSIGN(Instruction * one,
                  AddInferred(*body.computation, Opcode::kSlice, {vector}, SliceAttributes{{d}, {d + 1}, {1}}));
    KRAFLA_ASSIGN(Instruction * scalar, AddReshape(*body.computation, one, {}));
    out.push_back(scalar);
  }
  return out;
}

// By how much `high` is more than `low`, where that is known though they are data: sizes of what begins somewhere.
// `left`: at how many more pairs it may look.
std::optional<Dims> Difference(const Converter& c, const Instruction& high, const Instruction& low, int& left) {
  if (--left < 0 || !Shape::Compatible(high.shape(), low.shape())) return std::nullopt;
  const std::optional<Dims> from = c.ConstantDims(&low), to = from ? c.ConstantDims(&high) : std::nullopt;
  if (to && to->size() == from->size()) {
    Dims out;
    for (std::size_t n = 0; n < to->size(); ++n) {
      int64_t size = 0;
      if (__builtin_sub_overflow((*to)[n], (*from)[n], &size)) return std::nullopt;
      out.push_back(size);
    }
    return out;
  }
  if (high.opcode() == Opcode::kAdd)
    for (const std::size_t n : {0u, 1u})
      if (high.operand(n) == &low) return c.ConstantDims(high.operand(1 - n));
  if (high.opcode() != low.opcode() || high.operand_count() != low.operand_count()) return std::nullopt;
  const bool is_list = high.opcode() == Opcode::kConcatenate && high.shape().rank() == 1;
  if (!is_list && high.opcode() != Opcode::kReshape && high.opcode() != Opcode::kConvert) return std::nullopt;
  Dims out;
  for (std::size_t n = 0; n < high.operand_count(); ++n) {
    const std::optional<Dims> part = Difference(c, *high.operand(n), *low.operand(n), left);
    if (!part) return std::nullopt;
    for (const int64_t size : *part) out.push_back(size);
  }
  return out;
}

// Starts may be data where the sizes are known, from how they were made or from the result's type.
Result<> RealDynamicSlice(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (operands.size() != 4 || !operands[0]->shape().IsArray())
    return InvalidArgument("'{}' takes an array, and starts, limits and strides for its dimensions.", op.name);
  SliceAttributes a;
  KRAFLA_ASSIGN(a.strides, c.SizesOperand(op, body, 3));
  const std::optional<Dims> starts = c.ConstantDims(operands[1]);
  int left = 100;
  std::optional<Dims> sizes = starts ? std::nullopt : Difference(c, *operands[2], *operands[1], left);
  if (!starts && !sizes && op.results.size() == 1 && !Converter::IsOpen(c.TypeOfValue(op.results[0]))) {
    KRAFLA_ASSIGN(const Shape result, c.ShapeOfValue(op.results[0]));
    sizes = result.dims();
  }
  const bool is_dense = std::ranges::all_of(a.strides, [](int64_t stride) { return stride == 1; });
  if (!sizes || !is_dense || sizes->ssize() != operands[0]->shape().rank()) {
    KRAFLA_ASSIGN(a.starts, c.SizesOperand(op, body, 1));
    KRAFLA_ASSIGN(a.limits, c.SizesOperand(op, body, 2));
    return c.Emit(op, body, Opcode::kSlice, {operands[0]}, std::move(a));
  }
  std::vector<Instruction*> all{operands[0]};
  KRAFLA_ASSIGN(const std::vector<Instruction*> from, ScalarsOf(body, operands[1], operands[0]->shape().rank()));
  all.insert(all.end(), from.begin(), from.end());
  return c.Emit(op, body, Opcode::kDynamicSlice, std::move(all), DynamicSliceAttributes{*sizes});
}

Result<> DimensionSize(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
  KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "dimension"));
  const Shape& shape = operand->shape();
  // Known now, so that regions may have it as a constant of their own.
  if (c.refines() && shape.IsArray() && !shape.IsDynamic() && dimension >= 0 && dimension < shape.rank()) {
    Literal size = ScalarLiteral(ElementType::kS32, static_cast<double>(shape.dim(dimension)));
    return c.Bind(op, body, AddConstant(*body.computation, std::move(size)));
  }
  return c.Emit(op, body, Opcode::kGetDimensionSize, {operand}, DimensionsAttributes{Dims{dimension}});
}

}  // namespace

Result<bool> ConvertDynamic(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  // Where the type leaves a size open, the sizes are those of the operand, if it is known.
  const bool sized = n == "dynamic_broadcast_in_dim" || n == "dynamic_iota" || n == "dynamic_reshape";
  if (sized && op.results.size() == 1 && Converter::IsOpen(c.TypeOfValue(op.results[0]))) {
    KRAFLA_ASSIGN(Dims dims, c.SizesOperand(op, body, n == "dynamic_iota" ? 0 : 1));
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(c.TypeOfValue(op.results[0])->element, dims));
    Instruction* made = nullptr;
    if (n == "dynamic_iota") {
      KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "iota_dimension"));
      KRAFLA_ASSIGN(made, AddInferred(*body.computation, Opcode::kIota, {}, IotaAttributes{dimension}, {}, &shape));
    } else {
      KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
      if (n == "dynamic_reshape") {
        KRAFLA_ASSIGN(made, AddReshape(*body.computation, operand, dims));
      } else {
        KRAFLA_ASSIGN(Dims dimensions, DimsAttribute(op, "broadcast_dimensions"));
        KRAFLA_ASSIGN(made, BroadcastInDim(body, operand, dimensions, shape));
      }
    }
    KRAFLA_TRY(c.Bind(op, body, made));
    return true;
  }
  if (n == "dynamic_broadcast_in_dim") return ConvertDataMovement(c, Renamed(op, "broadcast_in_dim", 1), body);
  if (n == "dynamic_iota") return ConvertDataMovement(c, Renamed(op, "iota", 0), body);
  if (n == "dynamic_reshape") {
    if (op.results.size() != 1) return InvalidArgument("'{}' has {} results.", n, op.results.size());
    KRAFLA_ASSIGN(Shape shape, c.ShapeOfValue(op.results[0]));
    if (!shape.IsDynamic()) return ConvertDataMovement(c, Renamed(op, "reshape", 1), body);
    // One size a dimension.
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    if (operands.size() != 2) return InvalidArgument("'{}' takes an array and its shape.", n);
    std::vector<Instruction*> sizes{operands[0]};
    KRAFLA_ASSIGN(const std::vector<Instruction*> numbers, ScalarsOf(body, operands[1], shape.rank()));
    for (Instruction* scalar : numbers) {
      KRAFLA_ASSIGN(Instruction * size, AddConvert(*body.computation, scalar, ElementType::kS32));
      sizes.push_back(size);
    }
    KRAFLA_TRY(c.Emit(op, body, Opcode::kDynamicReshape, std::move(sizes)));
    return true;
  }
  if (n == "dynamic_pad") {
    PadAttributes a;
    KRAFLA_ASSIGN(a.low, c.SizesOperand(op, body, 2));
    KRAFLA_ASSIGN(a.high, c.SizesOperand(op, body, 3));
    KRAFLA_ASSIGN(a.interior, c.SizesOperand(op, body, 4));
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    KRAFLA_ASSIGN(Instruction * value, c.Operand(op, body, 1));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kPad, {operand, value}, std::move(a)));
    return true;
  }
  if (n == "real_dynamic_slice") {
    KRAFLA_TRY(RealDynamicSlice(c, op, body));
    return true;
  }
  if (n == "get_dimension_size") {
    KRAFLA_TRY(DimensionSize(c, op, body));
    return true;
  }
  if (n == "set_dimension_size") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "dimension"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSetDimensionSize, std::move(operands), DimensionsAttributes{Dims{dimension}}));
    return true;
  }
  return false;
}

}  // namespace krafla::stablehlo
