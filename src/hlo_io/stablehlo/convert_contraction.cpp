// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions.
#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {

Result<std::vector<Precision>> PrecisionsOf(const Op& op) {
  std::vector<Precision> out;
  AttributeRef given = op.Find("precision_config");
  if (given == nullptr) return out;
  for (AttributeRef one : given->elements) {
    Precision p = Precision::kDefault;
    for (std::size_t i = 0; i < std::size(kPrecisionWords); ++i)
      if (one->text == kPrecisionWords[i]) p = static_cast<Precision>(i);
    out.push_back(p);
  }
  if (std::all_of(out.begin(), out.end(), [](Precision p) { return p == Precision::kDefault; })) out.clear();
  return out;
}

namespace {

std::string TypeWord(AttributeRef type) {
  if (type == nullptr || type->type == nullptr) return "";
  if (type->type->kind == Type::Kind::kOther) return type->type->text;  // tf32
  if (type->type->kind != Type::Kind::kElement) return "";
  std::string_view name = ElementTypeName(type->type->element);
  return name.starts_with("f8") ? "any_f8" : std::string(name);
}

// "dot_bf16_bf16_f32_x3": the types of the parts, of the sum, and how many products make one.
std::string AlgorithmOf(const Op& op) {
  const std::string lhs = TypeWord(op.Find("lhs_precision_type")), rhs = TypeWord(op.Find("rhs_precision_type"));
  const std::string sum = TypeWord(op.Find("accumulation_type"));
  if (lhs.empty() || rhs.empty() || sum.empty()) return "";
  std::string out = "dot_" + lhs + "_" + rhs + "_" + sum;
  AttributeRef count = op.Find("num_primitive_operations");
  if (count != nullptr && count->integer > 1) out += Format("_x{}", count->integer);
  AttributeRef fast = op.Find("allow_imprecise_accumulation");
  if (fast != nullptr && fast->integer != 0) out += "_fast_accum";
  return out;
}

Result<> Dot(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (operands.size() != 2) return InvalidArgument("A dot takes two operands, {} given.", operands.size());
  DotAttributes a;
  KRAFLA_ASSIGN(a.precision, PrecisionsOf(op));
  if (op.name == "dot") {
    if (operands[0]->shape().rank() < 1 || operands[1]->shape().rank() < 1) return InvalidArgument("A dot of scalars.");
    a.lhs_contracting.push_back(operands[0]->shape().rank() - 1);
    a.rhs_contracting.push_back(0);
  } else {
    KRAFLA_ASSIGN(a.lhs_batch, DimsAttribute(op, "lhs_batching_dimensions"));
    KRAFLA_ASSIGN(a.rhs_batch, DimsAttribute(op, "rhs_batching_dimensions"));
    KRAFLA_ASSIGN(a.lhs_contracting, DimsAttribute(op, "lhs_contracting_dimensions"));
    KRAFLA_ASSIGN(a.rhs_contracting, DimsAttribute(op, "rhs_contracting_dimensions"));
    a.algorithm = AlgorithmOf(op);
  }
  return c.Emit(op, body, Opcode::kDot, std::move(operands), std::move(a));
}

Result<> Convolution(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  std::vector<std::pair<int64_t, int64_t>> padding;
  if (op.name == "dynamic_conv") {
    if (operands.size() != 3)
      return InvalidArgument("A dynamic convolution takes three operands, {} given.", operands.size());
    auto constant = c.ConstantDims(operands[2]);
    if (!constant || constant->size() % 2 != 0)
      return Unimplemented("A convolution whose padding is not known before the program runs cannot be computed.");
    for (std::size_t i = 0; i + 1 < constant->size(); i += 2) padding.emplace_back((*constant)[i], (*constant)[i + 1]);
    operands.pop_back();
  } else {
    KRAFLA_ASSIGN(padding, PairsAttribute(op, "padding"));
  }
  if (operands.size() != 2) return InvalidArgument("A convolution takes two operands, {} given.", operands.size());
  ConvolutionAttributes a;
  KRAFLA_ASSIGN(a.input_batch, IntAttribute(op, "input_batch_dimension"));
  KRAFLA_ASSIGN(a.input_feature, IntAttribute(op, "input_feature_dimension"));
  KRAFLA_ASSIGN(a.input_spatial, DimsAttribute(op, "input_spatial_dimensions"));
  KRAFLA_ASSIGN(a.kernel_input_feature, IntAttribute(op, "kernel_input_feature_dimension"));
  KRAFLA_ASSIGN(a.kernel_output_feature, IntAttribute(op, "kernel_output_feature_dimension"));
  KRAFLA_ASSIGN(a.kernel_spatial, DimsAttribute(op, "kernel_spatial_dimensions"));
  KRAFLA_ASSIGN(a.output_batch, IntAttribute(op, "output_batch_dimension"));
  KRAFLA_ASSIGN(a.output_feature, IntAttribute(op, "output_feature_dimension"));
  KRAFLA_ASSIGN(a.output_spatial, DimsAttribute(op, "output_spatial_dimensions"));
  KRAFLA_ASSIGN(a.feature_group_count, IntAttribute(op, "feature_group_count"));
  KRAFLA_ASSIGN(a.batch_group_count, IntAttribute(op, "batch_group_count"));
  KRAFLA_ASSIGN(a.precision, PrecisionsOf(op));
  KRAFLA_ASSIGN(Dims strides, DimsAttribute(op, "window_strides"));
  KRAFLA_ASSIGN(Dims base, DimsAttribute(op, "lhs_dilation"));
  KRAFLA_ASSIGN(Dims window, DimsAttribute(op, "rhs_dilation"));
  KRAFLA_ASSIGN(Dims reversal, DimsAttribute(op, "window_reversal"));
  const std::size_t rank = a.kernel_spatial.size();
  if (strides.size() != rank || base.size() != rank || window.size() != rank || reversal.size() != rank ||
      padding.size() != rank)
    return InvalidArgument("A convolution over {} dimensions has windows of other ranks.", rank);
  for (std::size_t d = 0; d < rank; ++d) {
    WindowDim w;
    if (a.kernel_spatial[d] < 0 || a.kernel_spatial[d] >= operands[1]->shape().rank())
      return InvalidArgument("A convolution names kernel dimension {} of {}.", a.kernel_spatial[d],
                             operands[1]->shape().rank());
    w.size = operands[1]->shape().dim(a.kernel_spatial[d]);
    w.stride = strides[d];
    w.padding_low = padding[d].first;
    w.padding_high = padding[d].second;
    w.window_dilation = window[d];
    w.base_dilation = base[d];
    w.reversal = reversal[d] != 0;
    a.window.push_back(w);
  }
  return c.Emit(op, body, Opcode::kConvolution, std::move(operands), std::move(a));
}

// "ab,bc->ac": labels on both sides are batch dimensions where the result has them, else contracted.
Result<> Einsum(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::string config, StringAttribute(op, "einsum_config"));
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  const std::size_t comma = config.find(','), arrow = config.find("->");
  if (operands.size() != 2 || comma == std::string::npos || arrow == std::string::npos || comma > arrow)
    return InvalidArgument("'{}' is not an einsum of two arrays.", config.substr(0, 60));
  const std::string lhs = config.substr(0, comma), rhs = config.substr(comma + 1, arrow - comma - 1),
                    out = config.substr(arrow + 2);
  if (static_cast<int64_t>(lhs.size()) != operands[0]->shape().rank() ||
      static_cast<int64_t>(rhs.size()) != operands[1]->shape().rank())
    return InvalidArgument("The einsum '{}' does not fit the ranks {} and {}.", config.substr(0, 60),
                           operands[0]->shape().rank(), operands[1]->shape().rank());
  DotAttributes a;
  std::string batch, left, right;
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    const std::size_t j = rhs.find(lhs[i]);
    const bool kept = out.find(lhs[i]) != std::string::npos;
    if (j == std::string::npos && !kept)
      return Unimplemented("The einsum '{}' sums over a label of one array.", config.substr(0, 60));
    if (j == std::string::npos) {
      left += lhs[i];
    } else if (kept) {
      batch += lhs[i];
      a.lhs_batch.push_back(static_cast<int64_t>(i));
      a.rhs_batch.push_back(static_cast<int64_t>(j));
    } else {
      a.lhs_contracting.push_back(static_cast<int64_t>(i));
      a.rhs_contracting.push_back(static_cast<int64_t>(j));
    }
  }
  for (char label : rhs)
    if (lhs.find(label) == std::string::npos) right += label;
  const std::string natural = batch + left + right;
  Dims permutation;
  for (char label : out) {
    const std::size_t at = natural.find(label);
    if (at == std::string::npos)
      return InvalidArgument("The einsum '{}' has the label '{}' in its result only.", config.substr(0, 60), label);
    permutation.push_back(static_cast<int64_t>(at));
  }
  if (permutation.size() != natural.size())
    return Unimplemented("The einsum '{}' sums over a label of one array.", config.substr(0, 60));
  KRAFLA_ASSIGN(Instruction * dot, AddInferred(*body.computation, Opcode::kDot, operands, std::move(a)));
  KRAFLA_ASSIGN(Instruction * made, AddTranspose(*body.computation, dot, std::move(permutation)));
  return c.Bind(op, body, made);
}

}  // namespace

Result<bool> ConvertContraction(Converter& c, const Op& op, Body& body) {
  if (op.name == "dot_general" || op.name == "dot") KRAFLA_TRY(Dot(c, op, body));
  else if (op.name == "convolution" || op.name == "dynamic_conv") KRAFLA_TRY(Convolution(c, op, body));
  else if (op.name == "einsum") KRAFLA_TRY(Einsum(c, op, body));
  else return false;
  return true;
}

}  // namespace krafla::stablehlo
