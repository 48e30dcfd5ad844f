// SPDX-License-Identifier: Apache-2.0
// StableHLO's attributes as VHLO has them: dimension numbers one by one, channel handles as numbers, defaults written
// out.
#include "base/index.h"
#include "hlo_io/stablehlo_text/parser.h"
#include "ir/dimension_numbers.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

AttributeRef Field(AttributeRef dictionary, std::string_view key) {
  for (const auto& [name, value] : dictionary->entries)
    if (name == key) return value;
  return nullptr;
}

// Flags that are false where they are not written.
constexpr struct {
  std::string_view op, flag;
} kFlagsOf[] = {{"gather", "indices_are_sorted"},
                {"dynamic_gather", "indices_are_sorted"},
                {"scatter", "indices_are_sorted"},
                {"scatter", "unique_indices"},
                {"sort", "is_stable"},
                {"cholesky", "lower"},
                {"custom_call", "has_side_effect"},
                {"all_reduce", "use_global_device_ids"},
                {"all_gather", "use_global_device_ids"},
                {"reduce_scatter", "use_global_device_ids"},
                {"collective_broadcast", "has_dynamic_root"},
                {"collective_reduce", "use_global_device_ids"},
                {"collective_reduce", "has_dynamic_root"},
                {"send", "is_host_transfer"},
                {"recv", "is_host_transfer"},
                {"triangular_solve", "left_side"},
                {"triangular_solve", "lower"},
                {"triangular_solve", "unit_diagonal"}};

constexpr std::string_view kDotLists[] = {"lhs_batching_dimensions", "rhs_batching_dimensions",
                                          "lhs_contracting_dimensions", "rhs_contracting_dimensions"};

template <typename Numbered>
std::vector<std::string_view> DimensionListsOf() {
  std::vector<std::string_view> out;
  const Numbered none{};
  VisitDimensionNumbers(none, [&](int, std::string_view name, const auto& field) {
    if constexpr (kIsDimensionList<decltype(field)>) out.push_back(name);
  });
  return out;
}

AttributeRef TakeAttribute(Op& op, std::string_view name) {
  for (auto it = op.attributes.begin(); it != op.attributes.end(); ++it)
    if (it->first == name) {
      AttributeRef value = it->second;
      op.attributes.erase(it);
      return value;
    }
  return nullptr;
}

void AddAttribute(Op& op, std::string_view name, AttributeRef value) {
  op.attributes.emplace_back(std::string(name), value);
}

}  // namespace

// The fields of a structure become attributes; those that it lacks are empty lists. Gathers and scatters have a number
// besides their lists.
void TextParser::Explode(Op& op, std::string_view structure, std::span<const std::string_view> lists, bool indexed) {
  AttributeRef fields = TakeAttribute(op, structure);
  if (fields == nullptr || fields->kind != Kind::kDictionary) return;
  for (std::string_view name : lists) {
    AttributeRef value = Field(fields, name);
    AddAttribute(op, name, value != nullptr ? value : List({}));
  }
  if (!indexed) return;
  AttributeRef index = Field(fields, "index_vector_dim");
  AddAttribute(op, "index_vector_dim", index != nullptr ? index : Number(0));
}

void TextParser::NormalizeDimensionNumbers(Op& op) {
  if (op.name == "dot_general") {
    Explode(op, "dot_dimension_numbers", kDotLists, /*indexed=*/false);
    for (std::string_view name : kDotLists)
      if (op.Find(name) == nullptr) AddAttribute(op, name, List({}));
    if (AttributeRef algorithm = TakeAttribute(op, "algorithm"); algorithm != nullptr)
      for (const auto& [key, value] : algorithm->entries) AddAttribute(op, key, value);
  } else if (op.name == "gather" || op.name == "dynamic_gather") {
    Explode(op, "dimension_numbers", DimensionListsOf<GatherAttributes>(), /*indexed=*/true);
  } else if (op.name == "scatter") {
    Explode(op, "scatter_dimension_numbers", DimensionListsOf<ScatterAttributes>(), /*indexed=*/true);
  } else if (op.name == "convolution" || op.name == "dynamic_conv") {
    if (AttributeRef numbers = TakeAttribute(op, "dimension_numbers"); numbers != nullptr)
      for (const auto& [key, value] : numbers->entries) AddAttribute(op, key, value);
  }
}

// Windows: a list that is missing is `value` for each dimension.
void TextParser::NormalizeWindow(Op& op) {
  const auto rank_of = [&](std::size_t operand) -> int64_t {
    return operand < op.operands.size() ? tree_.values[At(op.operands[operand])]->dims.ssize() : 0;
  };
  const auto all = [&](std::string_view name, int64_t count, int64_t value) {
    if (op.Find(name) == nullptr) AddAttribute(op, name, List(Dims(At(std::max<int64_t>(count, 0)), value)));
  };
  if (op.name == "convolution" || op.name == "dynamic_conv") {
    const int64_t rank = rank_of(1) - 2;
    all("window_strides", rank, 1);
    all("lhs_dilation", rank, 1);
    all("rhs_dilation", rank, 1);
    all("window_reversal", rank, 0);
    if (op.name == "convolution") all("padding", 2 * rank, 0);
    for (std::string_view count : {"batch_group_count", "feature_group_count"})
      if (op.Find(count) == nullptr) AddAttribute(op, count, Number(1));
  } else if (op.name == "reduce_window") {
    AttributeRef sizes = op.Find("window_dimensions");
    const int64_t rank =
        sizes != nullptr && sizes->kind == Kind::kArray ? static_cast<int64_t>(sizes->elements.size()) : rank_of(0);
    all("window_strides", rank, 1);
    all("base_dilations", rank, 1);
    all("window_dilations", rank, 1);
    all("padding", 2 * rank, 0);
  } else if (op.name == "select_and_scatter") {
    const int64_t rank = rank_of(0);
    all("window_dimensions", rank, 1);
    all("window_strides", rank, 1);
    all("padding", 2 * rank, 0);
  }
}

// The version of a custom call's interface as a word.
Result<> TextParser::NormalizeApiVersion(Op& op) {
  AttributeRef version = op.Find("api_version");
  if (version == nullptr) {
    AddAttribute(op, "api_version", Word("API_VERSION_ORIGINAL"));
  } else if (version->kind == Kind::kInteger) {
    constexpr std::string_view kWords[] = {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
                                           "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
                                           "API_VERSION_TYPED_FFI"};
    if (version->integer < 0 || version->integer > 4)
      return lex_.Error(Format("No API version {} of custom calls is known.", version->integer));
    TakeAttribute(op, "api_version");
    AddAttribute(op, "api_version", Word(kWords[version->integer]));
  }
  return {};
}

Result<> TextParser::Normalize(Op& op) {
  if (AttributeRef channel = TakeAttribute(op, "channel_handle"); channel != nullptr) {
    AttributeRef handle = channel->kind == Kind::kDictionary ? Field(channel, "handle") : nullptr;
    if (handle == nullptr && !channel->elements.empty()) handle = channel->elements[0];
    AddAttribute(op, "channel_id", handle != nullptr ? handle : Number(0));
  }
  NormalizeDimensionNumbers(op);
  NormalizeWindow(op);
  if (op.name == "custom_call") KRAFLA_TRY(NormalizeApiVersion(op));
  if (op.name == "sort" && op.Find("dimension") == nullptr) AddAttribute(op, "dimension", Number(-1));
  if (op.name == "infeed" && op.Find("infeed_config") == nullptr) AddAttribute(op, "infeed_config", Text(""));
  if (op.name == "outfeed" && op.Find("outfeed_config") == nullptr) AddAttribute(op, "outfeed_config", Text(""));
  for (const auto& [name, flag] : kFlagsOf) {
    if (name != op.name) continue;
    // A flag that stands by itself is set.
    for (auto& [key, value] : op.attributes)
      if (key == flag && value->kind == Kind::kUnit) value = Flag(true);
    if (op.Find(flag) == nullptr) AddAttribute(op, flag, Flag(false));
  }
  return {};
}

}  // namespace krafla::stablehlo
