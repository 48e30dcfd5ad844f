// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions.
#include <charconv>

#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {

AttributeRef PrecisionsAttribute(TreeBuilder& b, const std::vector<Precision>& precision, std::size_t count) {
  std::vector<AttributeRef> words;
  for (std::size_t n = 0; n < count; ++n)
    words.push_back(b.Word(kPrecisionWords[n < precision.size() ? static_cast<std::size_t>(precision[n]) : 0]));
  return b.Array(std::move(words));
}

namespace {

// The type that an algorithm's name has at its beginning, which is taken off; "any_f8" is what the operand has.
std::optional<Type> TakeAlgorithmType(std::string_view& name, ElementType operand) {
  constexpr std::string_view kAnyF8 = "any_f8";
  const std::size_t end = name.starts_with(kAnyF8) ? kAnyF8.size() : std::min(name.find('_'), name.size());
  const std::string_view word = name.substr(0, end);
  name.remove_prefix(std::min(end + 1, name.size()));
  Type out;
  out.kind = Type::Kind::kElement;
  if (word == "tf32") {
    out.kind = Type::Kind::kOther;
    out.text = word;
  } else if (word == kAnyF8) {
    out.element = operand;
  } else if (const auto type = ElementTypeFromName(word); type && IsFloat(*type)) {
    out.element = *type;
  } else {
    return std::nullopt;
  }
  return out;
}

// "dot_bf16_bf16_f32_x3_fast_accum": the inverse of AlgorithmOf.
Result<AttributeList> AlgorithmAttributes(TreeBuilder& b, const Instruction& i, const std::string& algorithm) {
  if (algorithm.empty()) return AttributeList();
  const auto unknown = [&] { return Unimplemented("StableHLO has no dot algorithm '{}'.", algorithm.substr(0, 60)); };
  std::string_view rest = algorithm;
  if (!rest.starts_with("dot_")) return unknown();
  rest.remove_prefix(4);
  AttributeList out;
  constexpr std::string_view kTypes[] = {"lhs_precision_type", "rhs_precision_type", "accumulation_type"};
  for (std::size_t n = 0; n < 3; ++n) {
    auto type = TakeAlgorithmType(rest, i.operand(n == 1 ? 1 : 0)->shape().element_type());
    if (!type) return unknown();
    out.emplace_back(kTypes[n], b.TypeAttribute(*std::move(type)));
  }
  int64_t products = 1;
  if (rest.starts_with('x')) {
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), products);
    if (error != std::errc()) return unknown();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.starts_with('_')) rest.remove_prefix(1);
  }
  const bool fast = rest == "fast_accum";
  if (!fast && !rest.empty()) return unknown();
  out.emplace_back("lhs_component_count", b.Integer(1));
  out.emplace_back("rhs_component_count", b.Integer(1));
  out.emplace_back("num_primitive_operations", b.Integer(products));
  out.emplace_back("allow_imprecise_accumulation", b.Flag(fast));
  return out;
}

Result<> WriteDot(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<DotAttributes>();
  AttributeList attributes{{"lhs_batching_dimensions", b.List(a.lhs_batch)},
                           {"lhs_contracting_dimensions", b.List(a.lhs_contracting)},
                           {"rhs_batching_dimensions", b.List(a.rhs_batch)},
                           {"rhs_contracting_dimensions", b.List(a.rhs_contracting)},
                           {"precision_config", PrecisionsAttribute(b, a.precision, 2)}};
  KRAFLA_ASSIGN(AttributeList algorithm, AlgorithmAttributes(b, i, a.algorithm));
  for (auto& entry : algorithm) attributes.push_back(std::move(entry));
  return b.Emit(i, scope, "dot_general", b.OperandLeaves(i, scope), std::move(attributes));
}

Result<> WriteRaggedDot(TreeBuilder& b, const Instruction& i, Scope& scope) {
  if (b.dialects() != Dialects::kStablehloAndChlo)
    return Unimplemented("Only StableHLO's text has a form for 'ragged-dot'; its bytecode has none.");
  const auto& a = i.attr<RaggedDotAttributes>();
  AttributeRef numbers = b.Dictionary({{"lhs_batching_dimensions", b.List(a.dot.lhs_batch)},
                                       {"rhs_batching_dimensions", b.List(a.dot.rhs_batch)},
                                       {"lhs_contracting_dimensions", b.List(a.dot.lhs_contracting)},
                                       {"rhs_contracting_dimensions", b.List(a.dot.rhs_contracting)},
                                       {"lhs_ragged_dimensions", b.List(a.lhs_ragged_dims)},
                                       {"rhs_group_dimensions", b.List(a.rhs_group_dims)}});
  return b.Emit(
      i, scope, "chlo.ragged_dot", b.OperandLeaves(i, scope),
      {{"ragged_dot_dimension_numbers", numbers}, {"precision_config", PrecisionsAttribute(b, a.dot.precision, 2)}});
}

Result<> WriteConvolution(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<ConvolutionAttributes>();
  const WindowLists window(a.window);
  AttributeList attributes{{"batch_group_count", b.Integer(a.batch_group_count)},
                           {"feature_group_count", b.Integer(a.feature_group_count)},
                           {"input_batch_dimension", b.Integer(a.input_batch)},
                           {"input_feature_dimension", b.Integer(a.input_feature)},
                           {"input_spatial_dimensions", b.List(a.input_spatial)},
                           {"kernel_input_feature_dimension", b.Integer(a.kernel_input_feature)},
                           {"kernel_output_feature_dimension", b.Integer(a.kernel_output_feature)},
                           {"kernel_spatial_dimensions", b.List(a.kernel_spatial)},
                           {"lhs_dilation", b.List(window.base_dilations)},
                           {"output_batch_dimension", b.Integer(a.output_batch)},
                           {"output_feature_dimension", b.Integer(a.output_feature)},
                           {"output_spatial_dimensions", b.List(a.output_spatial)},
                           {"padding", b.Table(std::ssize(a.window), 2, window.padding)},
                           {"precision_config", PrecisionsAttribute(b, a.precision, 2)},
                           {"rhs_dilation", b.List(window.window_dilations)},
                           {"window_reversal", b.Flags(window.reversal)},
                           {"window_strides", b.List(window.strides)}};
  return b.Emit(i, scope, "convolution", b.OperandLeaves(i, scope), std::move(attributes));
}

constexpr OpcodeWriter kContractionRows[] = {
    {Opcode::kConvolution, WriteConvolution}, {Opcode::kDot, WriteDot}, {Opcode::kRaggedDot, WriteRaggedDot}};

}  // namespace

Result<bool> WriteContraction(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kContractionRows, b, i, scope);
}

}  // namespace krafla::stablehlo
