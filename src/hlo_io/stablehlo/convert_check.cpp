// SPDX-License-Identifier: Apache-2.0
// Operations that compare two values: those of the dialect `check`, and custom calls that stand for them
// (stablehlo/tools/StablehloTranslateMain.cpp has the limits of the latter). A probe of the interpreter writes a value
// to a file for a later comparison; here it is the value.
#include "hlo_io/check_rule.h"
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

double NumberOr(const Op& op, std::string_view key, double otherwise) {
  AttributeRef value = op.Find(key);
  if (value == nullptr) return otherwise;
  return value->kind == Attribute::Kind::kFloat ? value->number : static_cast<double>(value->integer);
}

int64_t IntegerOr(const Op& op, std::string_view key, int64_t otherwise) {
  AttributeRef value = op.Find(key);
  return value == nullptr ? otherwise : value->integer;
}

Result<CheckRule> RuleOf(const Op& op, std::string_view name) {
  using Rule = CheckRule::Kind;
  const bool call = op.name == "custom_call";
  CheckRule out;
  out.place = op.location;
  if (name == "check.expect_eq" || name == "check.expect_eq_const" || name == "check.expect_serialized_eq") return out;
  if (name == "check.expect_almost_eq" || name == "check.expect_almost_eq_const") {
    out.kind = Rule::kAlmost;
    out.tolerance = NumberOr(op, "tolerance", call ? 1e-3 : 1e-4);
    return out;
  }
  if (name == "check.expect_close") {
    out.kind = Rule::kClose;
    out.min_ulp = static_cast<uint64_t>(IntegerOr(op, "min_ulp_difference", 0));
    out.max_ulp = static_cast<uint64_t>(IntegerOr(op, "max_ulp_difference", call ? 3 : 1));
    return out;
  }
  return Unimplemented("The comparison '{}' is not known.", name.substr(0, 60));
}

}  // namespace

Result<bool> ConvertCheck(Converter& c, const Op& op, Body& body) {
  const bool call = op.name == "custom_call";
  std::string name = op.name;
  if (call) { KRAFLA_ASSIGN(name, StringAttribute(op, "call_target_name")); }
  if (name == "interpreter.probe") {
    KRAFLA_ASSIGN(std::vector<Instruction*> probed, c.Operands(op, body));
    KRAFLA_ASSIGN(std::string id, StringAttribute(op, "probe_id"));
    if (probed.size() != 1) return InvalidArgument("'{}' looks at one value, {} given.", name, probed.size());
    c.KeepProbe(body, std::move(id), probed[0]);
    KRAFLA_TRY(c.Bind(op, body, probed[0]));
    return true;
  }
  if (!name.starts_with("check.")) return false;
  if (!c.checks()) {
    if (call) return false;
    return Unimplemented("'{}' compares values for a test; 'krafla check' runs such modules.", op.name);
  }
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (AttributeRef value = op.Find("value"); value != nullptr && operands.size() == 1) {
    KRAFLA_ASSIGN(Literal literal, LiteralOf(*value, operands[0]->shape()));
    operands.push_back(AddConstant(*body.computation, std::move(literal)));
  }
  if (name == "check.expect_serialized_eq" && operands.size() == 1) {
    KRAFLA_ASSIGN(std::string id, StringAttribute(op, "probe_id"));
    Instruction* probed = c.Probed(id);
    if (probed == nullptr || IntegerOr(op, "iter", 0) != 0)
      return Unimplemented("What the probe '{}' sees in the course of a loop is not kept.", id.substr(0, 60));
    operands.push_back(probed);
  }
  if (operands.size() != 2) return InvalidArgument("'{}' compares two values, {} given.", name, operands.size());
  CheckRule rule;
  if (name == "check.eq") {  // the expected value comes first, and floats may differ a little
    rule.place = op.location;
    if (!IsIntegral(operands[0]->shape().element_type())) {
      rule.kind = CheckRule::Kind::kAlmost;
      rule.tolerance = 1e-4;
    }
    std::swap(operands[0], operands[1]);
  } else {
    KRAFLA_ASSIGN(rule, RuleOf(op, name));
  }
  KRAFLA_TRY(c.AddCheck(body, std::move(rule), operands[0], operands[1]));
  if (op.results.empty()) return true;
  KRAFLA_TRY(c.Bind(op, body, AddScalarConstant(*body.computation, ElementType::kPred, 1)));
  return true;
}

}  // namespace krafla::stablehlo
