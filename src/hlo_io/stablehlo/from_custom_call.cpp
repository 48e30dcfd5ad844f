// SPDX-License-Identifier: Apache-2.0
// Custom calls, whose tuples are part of what they mean: one that takes a tuple takes it here too.
#include <algorithm>

#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo/words.h"
#include "ir/custom_call.h"

namespace krafla::stablehlo {
namespace {

constexpr std::size_t kTypedFfi = 4;  // among kApiVersionWords

// A value of `shape`, which its leaves make, those of a tuple from `at` on.
Result<ValueId> PutTogether(TreeBuilder& b, Scope& scope, const Shape& shape, const Leaves& leaves, std::size_t& at) {
  if (!shape.IsTuple()) return leaves[at++];
  Leaves elements;
  for (const Shape& element : shape.tuple_elements()) {
    KRAFLA_ASSIGN(ValueId value, PutTogether(b, scope, element, leaves, at));
    elements.push_back(value);
  }
  return b.Add(scope, "tuple", std::move(elements), shape);
}

Result<> TakeApart(TreeBuilder& b, Scope& scope, const Shape& shape, ValueId value, Leaves& out) {
  if (!shape.IsTuple()) {
    out.push_back(value);
    return {};
  }
  for (std::size_t n = 0; n < shape.tuple_elements().size(); ++n) {
    const Shape& element = shape.tuple_elements()[n];
    KRAFLA_ASSIGN(ValueId one, b.Add(scope, "get_tuple_element", {value}, element,
                                     {{"index", b.Integer(static_cast<int64_t>(n), ElementType::kS32)}}));
    KRAFLA_TRY(TakeApart(b, scope, element, one, out));
  }
  return {};
}

// A tuple is as many results as it has elements, but of one element it stays a tuple.
std::vector<const Shape*> ResultShapes(const Shape& shape) {
  if (!shape.IsTuple() || shape.tuple_elements().size() == 1) return {&shape};
  std::vector<const Shape*> out;
  for (const Shape& element : shape.tuple_elements()) out.push_back(&element);
  return out;
}

AttributeRef LayoutOf(TreeBuilder& b, const Shape& shape) {
  Dims order = shape.layout().minor_to_major;
  if (order.empty() && shape.IsArray()) order = Layout::RowMajor(shape.rank()).minor_to_major;
  return b.List(order, ElementType::kInvalid);
}

Result<AttributeRef> ConfigOf(TreeBuilder& b, const std::string& config, bool typed) {
  if (config.starts_with('"') && config.size() >= 2) return b.Text(hlo_text::ConfigBytes(config));
  if (!typed) return b.Text(config);
  AttributeRef dictionary = b.DictionaryIn(config.empty() ? "{}" : config);
  if (dictionary != nullptr) return dictionary;
  return Unimplemented("The backend_config of the custom call is not a dictionary of MLIR: {}.", config.substr(0, 80));
}

AttributeRef AliasesOf(TreeBuilder& b, const CustomCallAttributes& a) {
  const auto numbers = [&](const Dims& index) {
    std::vector<AttributeRef> out;
    for (int64_t n : index) out.push_back(b.Integer(n));
    return b.Array(std::move(out));
  };
  std::vector<AttributeRef> out;
  for (const CustomCallAttributes::Alias& alias : a.output_to_operand_aliasing)
    out.push_back(b.Dictionary({{"output_tuple_indices", numbers(alias.output_index)},
                                {"operand_index", b.Integer(alias.operand)},
                                {"operand_tuple_indices", numbers(alias.operand_index)}}));
  return b.Array(std::move(out));
}

Result<AttributeList> CallAttributesOf(TreeBuilder& b, const Instruction& i) {
  const auto& a = i.attr<CustomCallAttributes>();
  if (a.literal != nullptr) return Unimplemented("StableHLO has no custom call with a literal.");
  std::size_t version = 1;
  for (std::size_t n = 0; n < std::size(kApiVersionWords); ++n)
    if (a.api_version == kApiVersionWords[n]) version = n;
  KRAFLA_ASSIGN(AttributeRef config, ConfigOf(b, i.metadata().backend_config, version == kTypedFfi));
  std::vector<AttributeRef> called, operands, results;
  for (const Computation* computation : i.called()) {
    KRAFLA_ASSIGN(std::string symbol, b.FunctionOf(*computation));
    called.push_back(b.Text(symbol));
  }
  const bool constrains = CustomCallTargetOf(a.target) == CustomCallTarget::kLayoutConstraint;
  if (a.operand_layouts || constrains) {
    for (std::size_t n = 0; n < i.operand_count(); ++n)
      operands.push_back(LayoutOf(b, a.operand_layouts ? (*a.operand_layouts)[n] : i.operand(n)->shape()));
    for (const Shape* result : ResultShapes(i.shape())) results.push_back(LayoutOf(b, *result));
  }
  return AttributeList{{"api_version", b.Word(kApiVersionWords[version])},
                       {"backend_config", config},
                       {"call_target_name", b.Text(a.target)},
                       {"called_computations", b.Array(std::move(called))},
                       {"has_side_effect", b.Flag(a.has_side_effect)},
                       {"operand_layouts", b.Array(std::move(operands))},
                       {"output_operand_aliases", AliasesOf(b, a)},
                       {"result_layouts", b.Array(std::move(results))}};
}

}  // namespace

Result<bool> WriteCustomCall(TreeBuilder& b, const Instruction& i, Scope& scope) {
  if (i.opcode() != Opcode::kCustomCall) return false;
  Op op;
  op.name = "custom_call";
  KRAFLA_ASSIGN(op.attributes, CallAttributesOf(b, i));
  KRAFLA_TRY(b.Describe(i, op));
  for (const Instruction* operand : i.operands()) {
    std::size_t at = 0;
    KRAFLA_ASSIGN(ValueId value, PutTogether(b, scope, operand->shape(), b.LeavesOf(scope, operand), at));
    op.operands.push_back(value);
  }
  const std::vector<const Shape*> shapes = ResultShapes(i.shape());
  for (const Shape* shape : shapes) {
    KRAFLA_ASSIGN(ValueId value, b.NewValue(*shape));
    op.results.push_back(value);
  }
  const Leaves results = op.results;
  scope.region->ops.push_back(std::move(op));
  Leaves leaves;
  for (std::size_t n = 0; n < results.size(); ++n) KRAFLA_TRY(TakeApart(b, scope, *shapes[n], results[n], leaves));
  b.Bind(i, scope, std::move(leaves));
  return true;
}

}  // namespace krafla::stablehlo
