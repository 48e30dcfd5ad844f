// SPDX-License-Identifier: Apache-2.0
// Operations that work on each element: most are an opcode of the same name.
#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/words.h"
#include "ir/chlo/expression.h"

namespace krafla::stablehlo {
namespace {

const std::unordered_map<std::string_view, Opcode>& ElementwiseByName() {
  static const auto* map = [] {
    auto* out = new std::unordered_map<std::string_view, Opcode>();
    for (const OpInfo& info : AllOps())
      if (!info.stablehlo_name.empty() && IsElementwise(info.opcode)) out->emplace(info.stablehlo_name, info.opcode);
    return out;
  }();
  return *map;
}

Result<Attributes> Accuracy(const Op& op) {
  AttributeRef given = op.Find("result_accuracy");
  if (given == nullptr || given->kind != Attribute::Kind::kDictionary) return NoAttributes();
  ResultAccuracyAttributes out;
  for (const auto& [key, value] : given->entries) {
    if (key == "atol") out.atol = value->number;
    else if (key == "rtol") out.rtol = value->number;
    else if (key == "ulps") out.ulps = value->integer;
    else if (key == "mode") out.highest = value->text == "HIGHEST";
  }
  if (out == ResultAccuracyAttributes()) return NoAttributes();
  return out;
}

// A scalar that goes with an array.
Result<Instruction*> Over(Body& body, Instruction* value, const Shape& shape) {
  if (!value->shape().IsScalar() || shape.rank() == 0) return value;
  return AddBroadcastScalar(*body.computation, value, shape.dims());
}

// The one of two complex numbers with the larger (smaller) real part or, where these are equal, imaginary part, as
// StableHLO's specification says and JAX spells out; HLO has no order of complex numbers. XLA:CPU leaves the imaginary
// parts out.
Result<Instruction*> ComplexExtreme(Body& body, Opcode opcode, Instruction* a, Instruction* b) {
  chlo::Formula formula(*body.computation);
  const chlo::Expr x = formula.Of(a), y = formula.Of(b);
  const auto direction = opcode == Opcode::kMaximum ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  const chlo::Expr real = formula.Compared(direction, RealOf(x), RealOf(y));
  const chlo::Expr imag = formula.Compared(direction, ImagOf(x), ImagOf(y));
  return formula.Take(Select(Select(Equal(RealOf(x), RealOf(y)), imag, real), x, y));
}

}  // namespace

Result<bool> ConvertElementwise(Converter& c, const Op& op, Body& body) {
  auto it = ElementwiseByName().find(op.name);
  if (it == ElementwiseByName().end()) return false;
  const Opcode opcode = it->second;
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (static_cast<int>(operands.size()) != GetOpInfo(opcode).arity)
    return InvalidArgument("'{}' takes {} operands, {} given.", op.name, GetOpInfo(opcode).arity, operands.size());
  Attributes attributes;
  if ((opcode == Opcode::kMaximum || opcode == Opcode::kMinimum) && IsComplex(operands[0]->shape().element_type()) &&
      Shape::Compatible(operands[0]->shape(), operands[1]->shape())) {
    KRAFLA_ASSIGN(Instruction * extreme, ComplexExtreme(body, opcode, operands[0], operands[1]));
    KRAFLA_TRY(c.Bind(op, body, extreme));
    return true;
  }
  if (opcode == Opcode::kCompare) {
    CompareAttributes a;
    KRAFLA_ASSIGN(int64_t direction, WordAttribute(op, "comparison_direction", kDirectionWords));
    a.direction = static_cast<ComparisonDirection>(direction);
    if (AttributeRef type = op.Find("compare_type"); type != nullptr && type->kind == Attribute::Kind::kWord) {
      KRAFLA_ASSIGN(int64_t number, WordAttribute(op, "compare_type", kComparisonTypeWords));
      a.type = static_cast<ComparisonType>(number);
    }
    attributes = a;
  } else if (opcode == Opcode::kReducePrecision) {
    ReducePrecisionAttributes a;
    KRAFLA_ASSIGN(a.exponent_bits, IntAttribute(op, "exponent_bits"));
    KRAFLA_ASSIGN(a.mantissa_bits, IntAttribute(op, "mantissa_bits"));
    attributes = a;
  } else if (opcode == Opcode::kSelect) {
    KRAFLA_ASSIGN(operands[0], Over(body, operands[0], operands[1]->shape()));
  } else if (opcode == Opcode::kClamp) {
    KRAFLA_ASSIGN(operands[0], Over(body, operands[0], operands[1]->shape()));
    KRAFLA_ASSIGN(operands[2], Over(body, operands[2], operands[1]->shape()));
  } else {
    KRAFLA_ASSIGN(attributes, Accuracy(op));
  }
  KRAFLA_TRY(c.Emit(op, body, opcode, std::move(operands), std::move(attributes)));
  return true;
}

}  // namespace krafla::stablehlo
