// SPDX-License-Identifier: Apache-2.0
// Instructions that work on each element: most are an operation of the same name, in StableHLO or in CHLO.
#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo/words.h"
#include "hlo_io/stablehlo_bytecode/vhlo_ops.h"
#include "ir/chlo/functions.h"

namespace krafla::stablehlo {
namespace {

// ops.def names functions that StableHLO's text may have in other dialects; VHLO is what StableHLO itself has.
bool IsOfStablehlo(std::string_view name) {
  for (const VhloOp& op : kVhloOps)
    if (op.name == name) return true;
  return false;
}

AttributeList AccuracyAttributes(TreeBuilder& b, const Instruction& i) {
  const auto* accuracy = std::get_if<ResultAccuracyAttributes>(&i.attributes());
  if (accuracy == nullptr || *accuracy == ResultAccuracyAttributes()) return {};
  const bool tolerance = accuracy->atol != 0 || accuracy->rtol != 0 || accuracy->ulps != 0;
  return {{"result_accuracy", b.Dictionary({{"atol", b.Real(accuracy->atol, ElementType::kF64)},
                                            {"rtol", b.Real(accuracy->rtol, ElementType::kF64)},
                                            {"ulps", b.Integer(accuracy->ulps)},
                                            {"mode", b.Word(kAccuracyModeWords[accuracy->highest ? 1
                                                                               : tolerance       ? 2
                                                                                                 : 0])}})}};
}

// The high half of a product, which StableHLO has no operation for: as a formula of others.
Result<> WriteMulHi(TreeBuilder& b, const Instruction& i, Scope& scope) {
  Module scratch("mulhi");
  Computation* formula_of = scratch.AddComputation("mulhi");
  chlo::Formula formula(*formula_of);
  const chlo::Expr x = formula.Of(AddParameter(*formula_of, 0, i.operand(0)->shape()));
  const chlo::Expr y = formula.Of(AddParameter(*formula_of, 1, i.operand(1)->shape()));
  const chlo::Expr both[] = {x, y};
  KRAFLA_ASSIGN(const std::optional<chlo::Expr> product, chlo::Call("mulhi", both));
  KRAFLA_ASSIGN(Instruction * root, formula.Take(*product));
  formula_of->set_root(root);
  const std::vector<Leaves> arguments{b.LeavesOf(scope, i.operand(0)), b.LeavesOf(scope, i.operand(1))};
  KRAFLA_ASSIGN(Leaves leaves, b.WriteOut(*formula_of, arguments, *scope.region));
  b.Bind(i, scope, std::move(leaves));
  return {};
}

}  // namespace

Result<bool> WriteElementwise(TreeBuilder& b, const Instruction& i, Scope& scope) {
  if (!IsElementwise(i.opcode())) return false;
  if (i.opcode() == Opcode::kMulhi) {
    KRAFLA_TRY(WriteMulHi(b, i, scope));
    return true;
  }
  const std::string_view name = GetOpInfo(i.opcode()).stablehlo_name;
  if (name.empty()) return false;
  AttributeList attributes;
  if (i.opcode() == Opcode::kCompare) {
    const auto& a = i.attr<CompareAttributes>();
    attributes = {{"compare_type", b.Word(kComparisonTypeWords[static_cast<std::size_t>(a.type)])},
                  {"comparison_direction", b.Word(kDirectionWords[static_cast<std::size_t>(a.direction)])}};
  } else if (i.opcode() == Opcode::kReducePrecision) {
    const auto& a = i.attr<ReducePrecisionAttributes>();
    attributes = {{"exponent_bits", b.Integer(a.exponent_bits, ElementType::kS32)},
                  {"mantissa_bits", b.Integer(a.mantissa_bits, ElementType::kS32)}};
  }
  if (IsOfStablehlo(name)) {
    for (auto& entry : AccuracyAttributes(b, i)) attributes.push_back(std::move(entry));
    KRAFLA_TRY(b.Emit(i, scope, name, b.OperandLeaves(i, scope), std::move(attributes)));
  } else {
    KRAFLA_TRY(WriteChlo(b, i, scope, "chlo." + std::string(name)));
  }
  return true;
}

}  // namespace krafla::stablehlo
