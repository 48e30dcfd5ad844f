// SPDX-License-Identifier: Apache-2.0
// Operations on quantised arrays (StableHLO's specification, "Quantization computations"): the integers are turned into
// the numbers that they stand for, the operation works on these, and its results become integers again. What only moves
// elements moves the integers. Arrays are those of the integers everywhere else: as arguments and results too.
#include <algorithm>
#include <array>

#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/quantization.h"

namespace krafla::stablehlo {
namespace {

// What an operation does with integers.
enum class Takes : uint8_t {
  kAny,      // looks at none, or at them as integers
  kAlike,    // moves them, between arrays with the same parameters
  kBody,     // gives them to its regions, with the same parameters
  kNumbers,  // computes
};

Takes TakenBy(std::string_view name) {
  static constexpr std::array<std::string_view, 19> kAny = {"after_all",
                                                            "async_done",
                                                            "async_start",
                                                            "bitcast_convert",
                                                            "call",
                                                            "case",
                                                            "composite",
                                                            "constant",
                                                            "custom_call",
                                                            "get_dimension_size",
                                                            "get_tuple_element",
                                                            "if",
                                                            "infeed",
                                                            "optimization_barrier",
                                                            "outfeed",
                                                            "recv",
                                                            "send",
                                                            "tuple",
                                                            "while"};
  static constexpr std::array<std::string_view, 20> kAlike = {"all_gather",
                                                              "all_to_all",
                                                              "broadcast",
                                                              "broadcast_in_dim",
                                                              "collective_broadcast",
                                                              "collective_permute",
                                                              "concatenate",
                                                              "dynamic_broadcast_in_dim",
                                                              "dynamic_gather",
                                                              "dynamic_pad",
                                                              "dynamic_reshape",
                                                              "dynamic_slice",
                                                              "dynamic_update_slice",
                                                              "gather",
                                                              "pad",
                                                              "real_dynamic_slice",
                                                              "reshape",
                                                              "reverse",
                                                              "slice",
                                                              "transpose"};
  static constexpr std::array<std::string_view, 8> kBody = {
      "all_reduce", "map", "reduce", "reduce_scatter", "reduce_window", "scatter", "select_and_scatter", "sort"};
  if (std::ranges::find(kAny, name) != kAny.end() || name.find('.') != std::string_view::npos) return Takes::kAny;
  if (std::ranges::find(kAlike, name) != kAlike.end() || name == "select" || name == "set_dimension_size")
    return Takes::kAlike;
  return std::ranges::find(kBody, name) != kBody.end() ? Takes::kBody : Takes::kNumbers;
}

bool IsQuantized(TypeRef type) { return type->kind == Type::Kind::kTensor && type->quantization != nullptr; }

// A value for each element of an array of the shape: the same one, or one for each index of the quantised dimension.
template <typename Number>
Result<Instruction*> Spread(Body& body, const Shape& shape, const Quantization& q, ElementType type,
                            const std::vector<Number>& numbers) {
  if (q.dimension < 0)
    return AddBroadcastScalar(
        *body.computation, AddScalarConstant(*body.computation, type, static_cast<double>(numbers[0])), shape.dims());
  if (q.dimension >= shape.rank() || shape.dim(q.dimension) != static_cast<int64_t>(numbers.size()))
    return InvalidArgument("{} is quantized along dimension {} by {} scales.", shape.ToString(false), q.dimension,
                           numbers.size());
  std::string bytes;
  for (Number number : numbers) {
    const Literal one = ScalarLiteral(type, static_cast<double>(number));
    bytes.append(reinterpret_cast<const char*>(one.bytes().data()), one.bytes().size());
  }
  KRAFLA_ASSIGN(Shape row, Shape::MakeArray(type, Dims{static_cast<int64_t>(numbers.size())}));
  KRAFLA_ASSIGN(Literal literal, Literal::FromBytes(row, std::as_bytes(std::span(bytes))));
  return AddBroadcast(*body.computation, AddConstant(*body.computation, std::move(literal)), shape.dims(),
                      {q.dimension});
}

bool AllZero(const std::vector<int64_t>& numbers) {
  return std::ranges::all_of(numbers, [](int64_t n) { return n == 0; });
}

// (q - zero point) * scale
Result<Instruction*> Dequantize(Body& body, Instruction* value, const Type& type) {
  Computation& c = *body.computation;
  const Quantization& q = *type.quantization;
  const Shape shape = value->shape();
  if (!AllZero(q.zero_points)) {
    // The difference may take a bit more than the integers do.
    const ElementType wide = BitWidth(type.element) < 32 ? ElementType::kS32 : ElementType::kS64;
    KRAFLA_ASSIGN(value, AddConvert(c, value, wide));
    KRAFLA_ASSIGN(Instruction * zeros, Spread(body, shape, q, wide, q.zero_points));
    KRAFLA_ASSIGN(value, AddInferred(c, Opcode::kSubtract, {value, zeros}));
  }
  KRAFLA_ASSIGN(value, AddConvert(c, value, q.expressed));
  KRAFLA_ASSIGN(Instruction * scales, Spread(body, shape, q, q.expressed, q.scales));
  return AddInferred(c, Opcode::kMultiply, {value, scales});
}

// round(clamp(x / scale + zero point)), to the nearest even
Result<Instruction*> Quantize(Body& body, Instruction* value, const Type& type) {
  Computation& c = *body.computation;
  const Quantization& q = *type.quantization;
  const Shape shape = value->shape();
  if (!shape.IsArray() || shape.element_type() != q.expressed)
    return InvalidArgument("{} is quantized to a type that stands for {}.", shape.ToString(false),
                           ElementTypeName(q.expressed));
  KRAFLA_ASSIGN(Instruction * scales, Spread(body, shape, q, q.expressed, q.scales));
  KRAFLA_ASSIGN(value, AddInferred(c, Opcode::kDivide, {value, scales}));
  if (!AllZero(q.zero_points)) {
    KRAFLA_ASSIGN(Instruction * zeros, Spread(body, shape, q, q.expressed, q.zero_points));
    KRAFLA_ASSIGN(value, AddInferred(c, Opcode::kAdd, {value, zeros}));
  }
  Instruction* min = AddScalarConstant(c, q.expressed, static_cast<double>(q.min));
  Instruction* max = AddScalarConstant(c, q.expressed, static_cast<double>(q.max));
  KRAFLA_ASSIGN(value, AddInferred(c, Opcode::kClamp, {min, value, max}));
  KRAFLA_ASSIGN(value, AddInferred(c, Opcode::kRoundNearestEven, {value}));
  return AddConvert(c, value, type.element);
}

}  // namespace

// A value of the numbers that a quantised value stands for, which no tree has.
ValueId Converter::AddNumbers(TypeRef quantized) {
  Type& type = numbers_.emplace_back(*quantized);
  type.element = quantized->quantization->expressed;
  type.quantization = nullptr;
  return static_cast<ValueId>(tree_.values.size() + numbers_.size() - 1);
}

Result<bool> Converter::ConvertQuantized(const Op& op, Body& body) {
  std::vector<TypeRef> quantized;
  for (const std::vector<ValueId>* values : {&op.operands, &op.results})
    for (ValueId value : *values)
      if (TypeRef type = TypeOfValue(value); IsQuantized(type)) quantized.push_back(type);
  const Takes takes = TakenBy(op.name);
  if (takes == Takes::kBody)
    for (const Region& region : op.regions)
      for (ValueId argument : region.arguments)
        if (TypeRef type = TypeOfValue(argument); IsQuantized(type)) quantized.push_back(type);
  const bool cast = op.name == "uniform_quantize" || op.name == "uniform_dequantize";
  if (cast && quantized.empty()) {
    for (const std::vector<ValueId>* values : {&op.operands, &op.results})
      for (ValueId value : *values) KRAFLA_TRY(ShapeOfValue(value));  // of a kind that is not known
    return InvalidArgument("'{}' has neither a quantized operand nor a quantized result.", op.name);
  }
  if (quantized.empty() || takes == Takes::kAny) return false;
  const bool alike = std::ranges::all_of(quantized, [&](TypeRef t) { return SameParameters(*t, *quantized[0]); });
  if (takes == Takes::kAlike && alike) return false;
  if (takes == Takes::kBody) {
    if (alike) return false;
    return Unimplemented("'{}' is given arrays that are quantized in different ways.", op.name);
  }

  if (cast && (op.operands.size() != 1 || op.results.size() != 1))
    return InvalidArgument("'{}' has {} operands and {} results.", op.name, op.operands.size(), op.results.size());
  Op plain = op;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    TypeRef type = TypeOfValue(op.operands[i]);
    if (!IsQuantized(type)) continue;
    KRAFLA_ASSIGN(Instruction * stored, Operand(op, body, i));
    plain.operands[i] = AddNumbers(type);
    KRAFLA_ASSIGN(body.values[plain.operands[i]], Dequantize(body, stored, *type));
  }
  TypeRef result = cast ? TypeOfValue(op.results[0]) : nullptr;
  if (cast) {
    if (IsQuantized(result) != (op.name == "uniform_quantize"))
      return InvalidArgument("'{}' gives an array that is{} quantized.", op.name, IsQuantized(result) ? "" : " not");
    KRAFLA_ASSIGN(Instruction * value, Operand(plain, body, 0));
    if (IsQuantized(result)) { KRAFLA_ASSIGN(value, Quantize(body, value, *result)); }
    KRAFLA_TRY(Bind(op, body, value));
    return true;
  }
  for (ValueId& value : plain.results)
    if (TypeRef type = TypeOfValue(value); IsQuantized(type)) value = AddNumbers(type);
  std::erase_if(plain.attributes, [](const auto& attribute) { return attribute.first == "compare_type"; });
  KRAFLA_TRY(ConvertOp(plain, body));
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    TypeRef type = TypeOfValue(op.results[i]);
    if (!IsQuantized(type)) continue;
    KRAFLA_ASSIGN(Instruction * stored, Quantize(body, body.values[plain.results[i]], *type));
    KRAFLA_TRY(CheckFits(op.name, type, stored->shape()));
    body.values[op.results[i]] = stored;
  }
  return true;
}

}  // namespace krafla::stablehlo
