// SPDX-License-Identifier: Apache-2.0
#include "ir/shape_rules.h"
#include "ir/shape_rules/checks.h"

namespace krafla {
namespace {

using Rule = Result<Shape> (*)(const ShapeRuleInput&);
using AttributesFit = bool (*)(const Attributes&);

// T, or nothing where every member of T has a default that means "nothing said".
template <typename T>
bool Fits(const Attributes& attributes) {
  if constexpr (std::is_same_v<T, ResultAccuracyAttributes>)
    if (std::holds_alternative<NoAttributes>(attributes)) return true;
  return std::holds_alternative<T>(attributes);
}

struct Row {
  Rule rule;
  AttributesFit fits;
};

// In the order of the enum, like GetOpInfo's table.
constexpr Row kRows[] = {
#define KRAFLA_OP(Enum, hlo, stablehlo, arity, types, attrs, rule, traits, tier, budget, doc) \
  {&shape_rules::rule, &Fits<attrs>},
#include "ir/ops.def"
};

std::string TypeSetWords(uint32_t set) {
  std::string out;
  auto add = [&](uint32_t bit, const char* word) {
    if ((set & bit) == 0) return;
    if (!out.empty()) out += ", ";
    out += word;
  };
  add(type_set::kPred, "pred");
  add(type_set::kSigned, "signed integers");
  add(type_set::kUnsigned, "unsigned integers");
  add(type_set::kFloat, "floats");
  add(type_set::kComplex, "complex numbers");
  add(type_set::kToken, "tokens");
  add(type_set::kTuple, "tuples");
  return out;
}

}  // namespace

Result<Shape> InferShape(const ShapeRuleInput& input) {
  const OpInfo& info = GetOpInfo(input.opcode);
  const Row& row = kRows[static_cast<std::size_t>(input.opcode)];
  if (!row.fits(input.attributes))
    return InvalidArgument("{} carries {}, other attributes were given.", info.name, info.attributes);
  if (info.arity >= 0) KRAFLA_TRY(shape_rules::ExpectOperands(input, static_cast<std::size_t>(info.arity)));
  const Shape* first = input.operands.empty() ? input.declared : input.operands[0];
  if (first != nullptr && !type_set::Contains(info.types, first->element_type()))
    return InvalidArgument("{} works on {}, {} is {}.", info.name, TypeSetWords(info.types),
                           input.operands.empty() ? "its declared result" : "its first operand",
                           shape_rules::Brief(*first));
  for (const Shape* operand : input.operands)
    if (operand->element_type() == ElementType::kInvalid)
      return InvalidArgument("An operand of {} has no shape.", info.name);
  return row.rule(input);
}

}  // namespace krafla
