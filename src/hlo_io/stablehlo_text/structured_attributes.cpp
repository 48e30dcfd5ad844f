// SPDX-License-Identifier: Apache-2.0
// The inverse of normalize.cpp: dimension numbers put together, channel handles, what is left out where it is the
// default (stablehlo/dialect/StablehloAttrs.td, StablehloOps.td).
#include <algorithm>
#include <cstring>

#include "hlo_io/stablehlo/words.h"
#include "hlo_io/stablehlo_text/printer.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

// The numbers of a list; of attributes that this house has made.
Dims NumbersOf(const Attribute& a) {
  Dims out;
  if (a.kind == Kind::kArray) {
    for (AttributeRef one : a.elements) out.push_back(one->integer);
  } else {
    out.resize(a.bytes.size() / sizeof(int64_t));
    std::memcpy(out.data(), a.bytes.data(), out.size() * sizeof(int64_t));
  }
  return out;
}

std::string Brackets(const Dims& numbers) {
  std::string out = "[";
  for (int64_t n : numbers) out += Format("{}{}", out.size() > 1 ? ", " : "", n);
  return out + "]";
}

// Without its type, as fields of structures are.
std::string FieldText(const Attribute& a, std::string_view key) {
  if (a.kind == Kind::kInteger) return std::to_string(a.integer);
  if (a.kind == Kind::kFloat) {
    const std::string typed = PrintMlirAttribute(a, key, false);
    return typed.substr(0, typed.find(" :"));
  }
  if (a.kind == Kind::kDense || a.kind == Kind::kArray) return Brackets(NumbersOf(a));
  return PrintMlirAttribute(a, key, false);
}

struct Structure {
  std::string_view op, name, kind;
  std::string_view fields;  // with commas between
};
constexpr Structure kStructures[] = {
    {"dot_general", "dot_dimension_numbers", "stablehlo.dot",
     "lhs_batching_dimensions,rhs_batching_dimensions,lhs_contracting_dimensions,rhs_contracting_dimensions"},
    {"dot_general", "algorithm", "stablehlo.dot_algorithm",
     "lhs_precision_type,rhs_precision_type,accumulation_type,lhs_component_count,rhs_component_count"
     ",num_primitive_operations,allow_imprecise_accumulation"},
    {"gather", "dimension_numbers", "stablehlo.gather",
     "offset_dims,collapsed_slice_dims,operand_batching_dims,start_indices_batching_dims,start_index_map"
     ",index_vector_dim"},
    {"scatter", "scatter_dimension_numbers", "stablehlo.scatter",
     "update_window_dims,inserted_window_dims,input_batching_dims,scatter_indices_batching_dims"
     ",scatter_dims_to_operand_dims,index_vector_dim"}};

std::string FieldsText(std::string_view kind, const std::vector<std::pair<std::string, AttributeRef>>& fields) {
  std::string out = Format("#{}<", kind);
  for (const auto& [key, value] : fields)
    out += Format("{}{} = {}", out.ends_with('<') ? "" : ", ", key, FieldText(*value, key));
  return out + ">";
}

// [b, 0, f]
std::string LabelsText(const Op& op, std::string_view first, char first_label, std::string_view second,
                       char second_label, std::string_view spatial) {
  const Dims dims = NumbersOf(*op.Find(spatial));
  std::vector<std::string> labels(dims.size() + 2);
  const auto put = [&](int64_t at, std::string label) {
    if (at >= 0 && at < std::ssize(labels)) labels[static_cast<std::size_t>(at)] = std::move(label);
  };
  put(op.Find(first)->integer, std::string(1, first_label));
  put(op.Find(second)->integer, std::string(1, second_label));
  for (std::size_t d = 0; d < dims.size(); ++d) put(dims[d], std::to_string(d));
  std::string out = "[";
  for (const std::string& label : labels) out += (out.size() > 1 ? ", " : "") + label;
  return out + "]";
}

std::string ConvolutionText(const Op& op) {
  return "#stablehlo.conv<" +
         LabelsText(op, "input_batch_dimension", 'b', "input_feature_dimension", 'f', "input_spatial_dimensions") +
         "x" +
         LabelsText(op, "kernel_input_feature_dimension", 'i', "kernel_output_feature_dimension", 'o',
                    "kernel_spatial_dimensions") +
         "->" +
         LabelsText(op, "output_batch_dimension", 'b', "output_feature_dimension", 'f', "output_spatial_dimensions") +
         ">";
}

std::string AccuracyText(const Attribute& a) {
  std::string out = "#stablehlo.result_accuracy<";
  for (const auto& [key, value] : a.entries) {
    if (!out.ends_with('<')) out += ", ";
    out +=
        key + " = " +
        (value->kind == Kind::kWord ? "#stablehlo.result_accuracy_mode<" + value->text + ">" : FieldText(*value, key));
  }
  return out + ">";
}

std::string ChannelText(const Op& op) {
  AttributeRef type = op.Find("channel_type");
  return Format("#stablehlo.channel_handle<handle = {}, type = {}>", op.Find("channel_id")->integer,
                type != nullptr ? type->integer : 1);
}

std::string SymbolsText(const Attribute& a) {
  std::string out = "[";
  for (AttributeRef one : a.elements) out += (out.size() > 1 ? ", " : "") + PrintSymbol(one->text);
  return out + "]";
}

std::string AliasesText(const Attribute& a) {
  std::string out = "[";
  for (AttributeRef one : a.elements)
    out += (out.size() > 1 ? ", " : "") + FieldsText("stablehlo.output_operand_alias", one->entries);
  return out + "]";
}

// What stands in a structure that is written as a whole.
bool IsField(const Op& op, std::string_view key) {
  for (const Structure& s : kStructures) {
    if (s.op != op.name) continue;
    const std::string all = Format(",{},", s.fields);
    if (all.find(Format(",{},", key)) != std::string::npos) return true;
  }
  if (op.name == "convolution") return key.ends_with("_dimension") || key.ends_with("_dimensions");
  return key == "channel_id" || key == "channel_type";
}

// The value of an attribute; empty where it is left out.
std::string InherentText(const Op& op, std::string_view key, const Attribute& a) {
  if (key == "callee" || key == "decomposition") return PrintSymbol(a.text);
  if (key == "use_global_device_ids") return a.integer != 0 ? "unit" : "";
  if (key == "result_accuracy") return AccuracyText(a);
  if (key == "compare_type" && a.text == "NOTYPE") return "";
  if (key == "api_version" && EnumNumber(key, a.text) >= 0) return Format("{} : i32", EnumNumber(key, a.text));
  if (key == "ragged_dot_dimension_numbers") return FieldsText("chlo.ragged_dot", a.entries);
  if (key == "precision_config" && op.name.starts_with("chlo.")) {
    std::string out;
    for (AttributeRef one : a.elements) out += (out.empty() ? "" : ", ") + Format("#chlo<precision {}>", one->text);
    return "[" + out + "]";
  }
  const bool is_list = a.kind == Kind::kArray;
  if (is_list && a.elements.empty() && op.name != "func") return "";
  if (key == "called_computations") return SymbolsText(a);
  if (key == "output_operand_aliases") return AliasesText(a);
  return PrintMlirAttribute(a, key, /*inherent=*/true);
}

}  // namespace

PrintedAttributes StructuredAttributes(const Op& op) {
  PrintedAttributes out;
  for (const Structure& s : kStructures) {
    if (s.op != op.name) continue;
    std::vector<std::pair<std::string, AttributeRef>> fields;
    for (const auto& [key, value] : op.attributes) {
      const std::string all = Format(",{},", s.fields);
      if (all.find(Format(",{},", key)) != std::string::npos) fields.emplace_back(key, value);
    }
    if (!fields.empty()) out.emplace_back(s.name, FieldsText(s.kind, fields));
  }
  if (op.name == "convolution") out.emplace_back("dimension_numbers", ConvolutionText(op));
  if (AttributeRef channel = op.Find("channel_id");
      channel != nullptr && (channel->integer != 0 || op.Find("channel_type") != nullptr))
    out.emplace_back("channel_handle", ChannelText(op));
  for (const auto& [key, value] : op.attributes) {
    if (IsField(op, key)) continue;
    if (std::string text = InherentText(op, key, *value); !text.empty()) out.emplace_back(key, std::move(text));
  }
  return out;
}

}  // namespace krafla::stablehlo
