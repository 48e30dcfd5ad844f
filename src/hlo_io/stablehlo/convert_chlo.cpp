// SPDX-License-Identifier: Apache-2.0
// CHLO, the dialect above StableHLO: functions that are an opcode here, those that are a formula of many operations,
// and operations with broadcasts.
#include <optional>

#include "hlo_io/element_codec.h"
#include "hlo_io/stablehlo/converter.h"
#include "ir/chlo/functions.h"

namespace krafla::stablehlo {
namespace {

struct Unary {
  std::string_view name;
  Opcode opcode;
};
constexpr Unary kUnary[] = {{"acos", Opcode::kAcos},   {"acosh", Opcode::kAcosh}, {"asin", Opcode::kAsin},
                            {"asinh", Opcode::kAsinh}, {"atanh", Opcode::kAtanh}, {"erf", Opcode::kErf},
                            {"tan", Opcode::kTan}};

// An attribute that is one number, of its own type.
Result<Literal> NumberLiteral(const Op& op, const Attribute& value) {
  if (value.kind == Attribute::Kind::kOther)
    return Unimplemented("The value of '{}' is {}.", op.name, value.text.substr(0, 120));
  if (value.kind == Attribute::Kind::kDense && value.type->dims.empty() && value.type->element != ElementType::kInvalid)
    return LiteralOf(value, Shape::MakeScalar(value.type->element));
  const bool number = value.kind == Attribute::Kind::kFloat || value.kind == Attribute::Kind::kInteger;
  if (value.kind != Attribute::Kind::kBool &&
      (!number || value.type == nullptr || value.type->kind != Type::Kind::kElement ||
       value.type->element == ElementType::kInvalid))
    return InvalidArgument("'{}' has no number as its value.", op.name);
  const ElementType type = value.kind == Attribute::Kind::kBool ? ElementType::kPred : value.type->element;
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(Shape::MakeScalar(type)));
  const uint64_t bits =
      value.kind == Attribute::Kind::kFloat ? EncodeReal(type, value.number) : static_cast<uint64_t>(value.integer);
  StoreBits(out.bytes().data(), bits, StorageBytes(type));
  return out;
}

// One value for the shape of the operand.
Result<> ConstantLike(Converter& c, const Op& op, Body& body, Instruction* operand) {
  AttributeRef value = op.Find("value");
  if (value == nullptr) return InvalidArgument("'{}' has no number as its value.", op.name);
  KRAFLA_ASSIGN(Literal literal, NumberLiteral(op, *value));
  Instruction* scalar = AddConstant(*body.computation, std::move(literal));
  KRAFLA_ASSIGN(Instruction * made, AddBroadcastScalar(*body.computation, scalar, operand->shape().dims()));
  return c.Bind(op, body, made);
}

// The operation without its broadcast: operands grow to the result's dimensions, the last ones first where no
// dimensions are named.
Result<bool> Broadcasting(Converter& c, const Op& op, Body& body) {
  const std::string_view n = std::string_view(op.name).substr(sizeof("chlo.broadcast_") - 1);
  if (op.results.size() != 1) return InvalidArgument("'{}' has {} results, not one.", op.name, op.results.size());
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_ASSIGN(Shape result, c.ShapeOfValue(op.results[0]));
  int64_t longest = 0;
  for (const Instruction* operand : operands) longest = std::max(longest, operand->shape().rank());
  Op plain;
  plain.name = n == "next_after" || n == "polygamma" || n == "zeta" ? "chlo." + std::string(n) : std::string(n);
  plain.results = op.results;
  plain.location = op.location;
  plain.op_name = op.op_name;
  Dims named;
  bool has_named = false;
  for (const auto& [key, value] : op.attributes) {
    if (key != "broadcast_dimensions") {
      plain.attributes.emplace_back(key, value);
      continue;
    }
    KRAFLA_ASSIGN(named, IntegersOf(*value));
    has_named = true;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const int64_t rank = operands[i]->shape().rank();
    Dims dimensions;
    if (has_named && rank < longest) {
      dimensions = named;
    } else {
      for (int64_t d = 0; d < rank; ++d) dimensions.push_back(result.rank() - rank + d);
    }
    KRAFLA_ASSIGN(Instruction * wide, BroadcastInDim(body, operands[i], dimensions, result));
    // Numbered past the program's own values.
    const auto id = static_cast<ValueId>(-2 - static_cast<ValueId>(i));
    body.values[id] = wide;
    plain.operands.push_back(id);
  }
  auto converted = ConvertElementwise(c, plain, body);
  if (converted && !*converted) converted = ConvertChlo(c, plain, body);
  for (ValueId id : plain.operands) body.values.erase(id);
  return converted;
}

// The dimension numbers are a dictionary in CHLO; those of a composite are the same lists in this order.
constexpr std::size_t kRaggedDotLists = 6;

Result<> RaggedDot(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  AttributeRef numbers = op.Find("ragged_dot_dimension_numbers");
  if (numbers == nullptr) return InvalidArgument("'{}' has no attribute 'ragged_dot_dimension_numbers'.", op.name);
  RaggedDotAttributes a;
  const std::pair<std::string_view, Dims*> fields[kRaggedDotLists] = {
      {"lhs_batching_dimensions", &a.dot.lhs_batch},          {"rhs_batching_dimensions", &a.dot.rhs_batch},
      {"lhs_contracting_dimensions", &a.dot.lhs_contracting}, {"rhs_contracting_dimensions", &a.dot.rhs_contracting},
      {"lhs_ragged_dimensions", &a.lhs_ragged_dims},          {"rhs_group_dimensions", &a.rhs_group_dims}};
  for (const auto& [key, value] : numbers->entries)
    for (const auto& [name, out] : fields)
      if (key == name) { KRAFLA_ASSIGN(*out, IntegersOf(*value)); }
  for (std::size_t n = 0; n < numbers->elements.size() && n < kRaggedDotLists; ++n) {
    KRAFLA_ASSIGN(*fields[n].second, IntegersOf(*numbers->elements[n]));
  }
  KRAFLA_ASSIGN(a.dot.precision, PrecisionsOf(op));
  return c.Emit(op, body, Opcode::kRaggedDot, std::move(operands), std::move(a));
}

Result<> Scan(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  ScanAttributes a;
  KRAFLA_ASSIGN(a.dimension, IntAttribute(op, "dimension"));
  // How many of the operands are arrays, the others being what is carried.
  KRAFLA_ASSIGN(Dims segments, DimsAttribute(op, "operandSegmentSizes"));
  if (segments.size() != 2 || segments[0] < 0 || segments[1] < 0 ||
      segments[0] + segments[1] != static_cast<int64_t>(operands.size()))
    return InvalidArgument("'{}' has {} operands, which its segments do not make.", op.name, operands.size());
  a.num_carries = segments[1];
  if (AttributeRef reverse = op.Find("is_reverse"); reverse != nullptr) a.is_reverse = reverse->integer != 0;
  if (AttributeRef associative = op.Find("is_associative"); associative != nullptr)
    a.is_associative = associative->integer != 0;
  KRAFLA_ASSIGN(Computation * called, c.RegionComputation(op, body, 0));
  return c.Emit(op, body, Opcode::kScan, std::move(operands), a, {called}, true);
}

}  // namespace

Result<> TopK(Converter& c, const Op& op, Body& body, Instruction* operand, int64_t k, bool largest) {
  if (operand->shape().rank() > 0) k = std::min(k, operand->shape().dim(operand->shape().rank() - 1));
  return c.Emit(op, body, Opcode::kTopK, {operand}, TopKAttributes{k, largest});
}

// "mhlo.erf" with the attributes of the operation as a dictionary: how StableHLO writes what has no operation in it
// (stablehlo/transforms/ChloRecomposeOps.cpp; xla/mlir_hlo/mhlo/transforms/hlo_legalize_to_stablehlo).
Result<bool> ConvertMhloCall(Converter& c, const Op& op, Body& body, std::string_view target) {
  if (!target.starts_with("mhlo.")) return false;
  const std::string_view n = target.substr(5);
  Op plain;
  plain.name = n == "topk" ? "chlo.top_k" : "chlo." + std::string(n);
  plain.operands = op.operands;
  plain.results = op.results;
  plain.location = op.location;
  plain.op_name = op.op_name;
  plain.discardable = op.discardable;
  if (AttributeRef said = op.FindAnywhere("mhlo.attributes"); said != nullptr) plain.attributes = said->entries;
  return ConvertChlo(c, plain, body);
}

Result<bool> ConvertChlo(Converter& c, const Op& op, Body& body) {
  if (!op.name.starts_with("chlo.")) return false;
  if (op.name.starts_with("chlo.broadcast_")) return Broadcasting(c, op, body);
  const std::string_view n = std::string_view(op.name).substr(5);
  if (n == "constant") {
    Op plain = op;
    plain.name = "constant";
    return ConvertDataMovement(c, plain, body);
  }
  if (n == "ragged_dot" || n == "scan") {
    KRAFLA_TRY(n == "scan" ? Scan(c, op, body) : RaggedDot(c, op, body));
    return true;
  }
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  std::optional<Opcode> opcode;
  for (const Unary& u : kUnary)
    if (u.name == n) opcode = u.opcode;
  if ((n == "cosh" || n == "sinh") && operands.size() == 1 && IsComplex(operands[0]->shape().element_type()))
    opcode = n == "cosh" ? Opcode::kCosh : Opcode::kSinh;
  if (opcode) {
    KRAFLA_TRY(c.Emit(op, body, *opcode, std::move(operands)));
    return true;
  }
  for (const Instruction* operand : operands)
    if (!operand->shape().IsArray()) return InvalidArgument("'{}' takes arrays.", op.name);
  if (n == "top_k" && operands.size() == 1) {
    KRAFLA_ASSIGN(const int64_t k, IntAttribute(op, "k"));
    bool largest = true;
    if (op.Find("largest") != nullptr) { KRAFLA_ASSIGN(largest, BoolAttribute(op, "largest")); }
    KRAFLA_TRY(TopK(c, op, body, operands[0], k, largest));
    return true;
  }
  if (n == "constant_like" && operands.size() == 1) {
    KRAFLA_TRY(ConstantLike(c, op, body, operands[0]));
    return true;
  }
  chlo::Formula formula(*body.computation);
  std::vector<chlo::Expr> arguments;
  for (Instruction* operand : operands) arguments.push_back(formula.Of(operand));
  KRAFLA_ASSIGN(const std::optional<chlo::Expr> made, chlo::Call(n, arguments));
  if (!made) return false;
  KRAFLA_ASSIGN(Instruction * value, formula.Take(*made));
  KRAFLA_TRY(c.Bind(op, body, value));
  return true;
}

Result<bool> ConvertChloComposite(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(const std::string name, StringAttribute(op, "name"));
  if (!name.starts_with("chlo.")) return false;
  const std::string_view n = std::string_view(name).substr(5);
  Op plain;
  plain.name = name;
  plain.operands = op.operands;
  plain.results = op.results;
  plain.location = op.location;
  plain.op_name = op.op_name;
  if (AttributeRef said = op.Find("composite_attributes"); said != nullptr) plain.attributes = said->entries;
  if (n == "top_k" && plain.Find("k") != nullptr) return ConvertChlo(c, plain, body);
  if (AttributeRef numbers = plain.Find("ragged_dot_dimension_numbers");
      n == "ragged_dot" && numbers != nullptr && numbers->elements.size() == kRaggedDotLists)
    return ConvertChlo(c, plain, body);
  if (plain.operands.size() != 1 || plain.results.size() != 1) return false;
  std::optional<Opcode> opcode;
  for (const Unary& u : kUnary)
    if (u.name == n) opcode = u.opcode;
  if (n == "cosh" || n == "sinh") opcode = n == "cosh" ? Opcode::kCosh : Opcode::kSinh;
  if (!opcode) return false;
  KRAFLA_ASSIGN(Instruction * operand, c.Operand(plain, body, 0));
  KRAFLA_TRY(c.Emit(plain, body, *opcode, {operand}));
  return true;
}

}  // namespace krafla::stablehlo
