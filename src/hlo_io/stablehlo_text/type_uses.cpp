// SPDX-License-Identifier: Apache-2.0
// A text gives the types of operands once more where they are used. MLIR takes no module in which they are others than
// where the values are defined.
#include <algorithm>

#include "hlo_io/stablehlo_text/parser.h"
#include "hlo_io/stablehlo_text/printer.h"

namespace krafla::stablehlo {
namespace {

bool SameType(const Type& a, const Type& b);

bool SameTypes(std::span<const TypeRef> a, std::span<const TypeRef> b) {
  return std::ranges::equal(a, b, [](TypeRef left, TypeRef right) { return SameType(*left, *right); });
}

bool SameQuantization(const Quantization* a, const Quantization* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->expressed == b->expressed && a->min == b->min && a->max == b->max && a->dimension == b->dimension &&
         a->scales == b->scales && a->zero_points == b->zero_points;
}

bool SameType(const Type& a, const Type& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && a.element == b.element && a.unranked == b.unranked && a.dims == b.dims &&
         a.bounds == b.bounds && a.text == b.text && SameQuantization(a.quantization.get(), b.quantization.get()) &&
         SameTypes(a.elements, b.elements) && SameTypes(a.results, b.results);
}

}  // namespace

Result<> TextParser::CheckUses(const Op& op, std::span<const TypeRef> types, std::size_t offset) const {
  if (types.size() != op.operands.size())
    return lex_.ErrorAt(offset,
                        Format("'{}' has {} operands but types for {}.", op.name, op.operands.size(), types.size()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Type& defined = *tree_.values[static_cast<std::size_t>(op.operands[i])];
    if (defined.kind == Type::Kind::kNone || SameType(defined, *types[i])) continue;
    return lex_.ErrorAt(offset, Format("Operand {} of '{}' is used as {}, but it is defined as {}.", i, op.name,
                                       PrintType(*types[i]), PrintType(defined)));
  }
  return {};
}

// Where no arrow stands, the types are those of all operands in turn, or one for operands and results alike.
Result<> TextParser::CheckPrettyUses(const Op& op, const Signature& signature, std::size_t offset) const {
  if (signature.functional) return CheckUses(op, signature.operands, offset);
  const std::string& n = op.name;
  // Of these, and in other dialects, the type is that of the result.
  const bool of_result = n == "complex" || n == "tuple" || (n.contains('.') && !n.starts_with("sdy."));
  if (of_result || op.operands.empty()) return {};
  std::vector<TypeRef> types = signature.results;
  if (n == "select" && types.size() == 2) types.push_back(types.back());
  if (types.size() == 1) types.assign(op.operands.size(), types.front());
  return CheckUses(op, types, offset);
}

}  // namespace krafla::stablehlo
