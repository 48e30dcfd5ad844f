// SPDX-License-Identifier: Apache-2.0
// Operations whose shapes are operands: taken where those follow from constants and static shapes, which is how shape
// polymorphism arrives once the arguments' sizes are known.
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

Result<Dims> Constant(Converter& c, const Op& op, const Body& body, std::size_t i) {
  KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, i));
  auto out = c.ConstantDims(operand);
  if (!out)
    return Unimplemented("'{}' with a shape that is not known before the program runs cannot be computed.", op.name);
  return *out;
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
    KRAFLA_ASSIGN(Dims dims, Constant(c, op, body, n == "dynamic_iota" ? 0 : 1));
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
    if (operands.size() != 2 || operands[1]->shape().rank() != 1)
      return InvalidArgument("'{}' takes an array and its shape.", n);
    std::vector<Instruction*> sizes{operands[0]};
    for (int64_t d = 0; d < operands[1]->shape().dim(0); ++d) {
      KRAFLA_ASSIGN(Instruction * one,
                    AddInferred(*body.computation, Opcode::kSlice, {operands[1]}, SliceAttributes{{d}, {d + 1}, {1}}));
      KRAFLA_ASSIGN(Instruction * scalar, AddReshape(*body.computation, one, {}));
      KRAFLA_ASSIGN(Instruction * size, AddConvert(*body.computation, scalar, ElementType::kS32));
      sizes.push_back(size);
    }
    KRAFLA_TRY(c.Emit(op, body, Opcode::kDynamicReshape, std::move(sizes)));
    return true;
  }
  if (n == "dynamic_pad") {
    PadAttributes a;
    KRAFLA_ASSIGN(a.low, Constant(c, op, body, 2));
    KRAFLA_ASSIGN(a.high, Constant(c, op, body, 3));
    KRAFLA_ASSIGN(a.interior, Constant(c, op, body, 4));
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    KRAFLA_ASSIGN(Instruction * value, c.Operand(op, body, 1));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kPad, {operand, value}, std::move(a)));
    return true;
  }
  if (n == "real_dynamic_slice") {
    SliceAttributes a;
    KRAFLA_ASSIGN(a.starts, Constant(c, op, body, 1));
    KRAFLA_ASSIGN(a.limits, Constant(c, op, body, 2));
    KRAFLA_ASSIGN(a.strides, Constant(c, op, body, 3));
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSlice, {operand}, std::move(a)));
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
