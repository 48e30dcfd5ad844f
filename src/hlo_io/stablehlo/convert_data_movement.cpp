// SPDX-License-Identifier: Apache-2.0
// Constants, and operations that move elements.
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {

namespace {

// Elements of an array that is written out even where all are the same: small ones stay constants that people can read.
constexpr int64_t kLargestSplat = 16;

}  // namespace

Result<Instruction*> BroadcastInDim(Body& body, Instruction* operand, const Dims& dimensions, const Shape& result) {
  const Shape& from = operand->shape();
  if (dimensions.ssize() != from.rank())
    return InvalidArgument("A broadcast names {} dimensions for an operand of {}.", dimensions.size(), from.rank());
  Dims kept, kept_dims;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const int64_t to = dimensions[d];
    if (to < 0 || to >= result.rank())
      return InvalidArgument("A broadcast names dimension {} of {}.", to, result.rank());
    const int64_t size = from.dim(static_cast<int64_t>(d));
    if (size == 1 && result.dim(to) != 1) continue;
    kept.push_back(to);
    kept_dims.push_back(size);
  }
  if (kept.size() != dimensions.size()) { KRAFLA_ASSIGN(operand, AddReshape(*body.computation, operand, kept_dims)); }
  KRAFLA_ASSIGN(Instruction * made, AddBroadcast(*body.computation, operand, result.dims(), std::move(kept)));
  // Of what is repeated along a dimension its run-time size comes from what it meets; the type says that it has one.
  if (Shape::Compatible(made->shape(), result.WithStaticDims())) made->set_shape(result);
  return made;
}

Result<bool> ConvertDataMovement(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  // A number of arith that is no array is of no use to operations of arrays.
  if (n == "arith.constant" && op.results.size() == 1 && c.TypeOfValue(op.results[0])->kind != Type::Kind::kTensor)
    return true;
  if (n == "constant" || n == "sdy.constant" || n == "arith.constant") {
    AttributeRef value = op.Find("value");
    if (value == nullptr || op.results.size() != 1) return InvalidArgument("A constant has no value.");
    KRAFLA_ASSIGN(Shape shape, c.ShapeOfValue(op.results[0]));
    // One value for a whole array stays one value: programs hold dozens of such arrays as large as what they compute.
    const bool one_value = value->kind == Attribute::Kind::kDense && value->splat && shape.IsArray() &&
                           shape.element_count() > kLargestSplat;
    KRAFLA_ASSIGN(Literal literal, LiteralOf(*value, one_value ? Shape::MakeScalar(shape.element_type()) : shape));
    Instruction* made = AddConstant(*body.computation, std::move(literal));
    if (one_value) { KRAFLA_ASSIGN(made, BroadcastInDim(body, made, {}, shape)); }
    KRAFLA_TRY(c.Bind(op, body, made));
    return true;
  }
  if (n == "iota") {
    KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "iota_dimension"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kIota, {}, IotaAttributes{dimension}));
    return true;
  }
  if (n == "broadcast_in_dim" || n == "broadcast") {
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    if (op.results.size() != 1) return InvalidArgument("'{}' has {} results.", n, op.results.size());
    KRAFLA_ASSIGN(Shape result, c.ShapeOfValue(op.results[0]));
    Dims dimensions;
    if (n == "broadcast_in_dim") {
      KRAFLA_ASSIGN(dimensions, DimsAttribute(op, "broadcast_dimensions"));
    } else {
      const int64_t added = result.rank() - operand->shape().rank();
      for (int64_t d = 0; d < operand->shape().rank(); ++d) dimensions.push_back(added + d);
    }
    KRAFLA_ASSIGN(Instruction * made, BroadcastInDim(body, operand, dimensions, result));
    KRAFLA_TRY(c.Bind(op, body, made));
    return true;
  }
  if (n == "reshape" || n == "copy") {
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    KRAFLA_TRY(c.Emit(op, body, n == "copy" ? Opcode::kCopy : Opcode::kReshape, {operand}));
    return true;
  }
  if (n == "transpose" || n == "reverse") {
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    KRAFLA_ASSIGN(Dims dimensions, DimsAttribute(op, n == "transpose" ? "permutation" : "dimensions"));
    KRAFLA_TRY(c.Emit(op, body, n == "transpose" ? Opcode::kTranspose : Opcode::kReverse, {operand},
                      DimensionsAttributes{std::move(dimensions)}));
    return true;
  }
  if (n == "slice") {
    KRAFLA_ASSIGN(Instruction * operand, c.Operand(op, body, 0));
    SliceAttributes a;
    KRAFLA_ASSIGN(a.starts, DimsAttribute(op, "start_indices"));
    KRAFLA_ASSIGN(a.limits, DimsAttribute(op, "limit_indices"));
    KRAFLA_ASSIGN(a.strides, DimsAttribute(op, "strides"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSlice, {operand}, std::move(a)));
    return true;
  }
  if (n == "pad") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    PadAttributes a;
    KRAFLA_ASSIGN(a.low, DimsAttribute(op, "edge_padding_low"));
    KRAFLA_ASSIGN(a.high, DimsAttribute(op, "edge_padding_high"));
    KRAFLA_ASSIGN(a.interior, DimsAttribute(op, "interior_padding"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kPad, std::move(operands), std::move(a)));
    return true;
  }
  if (n == "concatenate") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "dimension"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kConcatenate, std::move(operands), DimensionsAttributes{Dims{dimension}}));
    return true;
  }
  return false;
}

}  // namespace krafla::stablehlo
