// SPDX-License-Identifier: Apache-2.0
// StableHLO's attributes as VHLO has them: dimension numbers one by one, channel handles as numbers, defaults written
// out.
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

// Names in StableHLO and in VHLO.
struct Rename {
  std::string_view from, to;
};

AttributeRef Field(AttributeRef dictionary, std::string_view key) {
  for (const auto& [name, value] : dictionary->entries)
    if (name == key) return value;
  return nullptr;
}

}  // namespace

Result<> TextParser::Normalize(Op& op) {
  const std::string& n = op.name;
  auto add = [&](std::string_view name, AttributeRef value) { op.attributes.emplace_back(std::string(name), value); };
  auto take = [&](std::string_view name) -> AttributeRef {
    for (auto it = op.attributes.begin(); it != op.attributes.end(); ++it)
      if (it->first == name) {
        AttributeRef value = it->second;
        op.attributes.erase(it);
        return value;
      }
    return nullptr;
  };
  // The fields of a structure become attributes; those that it lacks are empty lists.
  auto explode = [&](std::string_view structure, std::span<const Rename> lists) -> bool {
    AttributeRef fields = take(structure);
    if (fields == nullptr || fields->kind != Kind::kDictionary) return false;
    for (const Rename& r : lists) {
      AttributeRef value = Field(fields, r.from);
      add(r.to, value != nullptr ? value : List({}));
    }
    return true;
  };
  // The same with the number that gathers and scatters have besides their lists.
  auto explode_indexed = [&](std::string_view structure, std::span<const Rename> lists) {
    AttributeRef numbers = op.Find(structure);
    AttributeRef index = numbers != nullptr ? Field(numbers, "index_vector_dim") : nullptr;
    if (explode(structure, lists)) add("index_vector_dim", index != nullptr ? index : Number(0));
  };
  auto otherwise = [&](std::string_view name, auto make) {
    if (op.Find(name) == nullptr) add(name, make());
  };
  // A flag that stands by itself is set.
  auto flag = [&](std::string_view name) {
    for (auto& [key, value] : op.attributes)
      if (key == name && value->kind == Kind::kUnit) value = Flag(true);
    otherwise(name, [&] { return Flag(false); });
  };
  auto rank_of = [&](std::size_t operand) -> int64_t {
    return operand < op.operands.size() ? tree_.values[static_cast<std::size_t>(op.operands[operand])]->dims.ssize()
                                        : 0;
  };
  auto all = [&](std::string_view name, int64_t count, int64_t value) {
    otherwise(name, [&] { return List(Dims(static_cast<std::size_t>(std::max<int64_t>(count, 0)), value)); });
  };
  if (AttributeRef channel = take("channel_handle"); channel != nullptr) {
    AttributeRef handle = channel->kind == Kind::kDictionary ? Field(channel, "handle") : nullptr;
    if (handle == nullptr && !channel->elements.empty()) handle = channel->elements[0];
    add("channel_id", handle != nullptr ? handle : Number(0));
  }
  if (n == "dot_general") {
    constexpr Rename kDot[] = {{"lhs_batching_dimensions", "lhs_batching_dimensions"},
                               {"rhs_batching_dimensions", "rhs_batching_dimensions"},
                               {"lhs_contracting_dimensions", "lhs_contracting_dimensions"},
                               {"rhs_contracting_dimensions", "rhs_contracting_dimensions"}};
    explode("dot_dimension_numbers", kDot);
    for (const Rename& r : kDot) otherwise(r.to, [&] { return List({}); });
    if (AttributeRef algorithm = take("algorithm"); algorithm != nullptr)
      for (const auto& [key, value] : algorithm->entries) add(key, value);
  } else if (n == "gather" || n == "dynamic_gather") {
    constexpr Rename kGather[] = {{"offset_dims", "offset_dims"},
                                  {"collapsed_slice_dims", "collapsed_slice_dims"},
                                  {"start_index_map", "start_index_map"},
                                  {"operand_batching_dims", "operand_batching_dims"},
                                  {"start_indices_batching_dims", "start_indices_batching_dims"}};
    explode_indexed("dimension_numbers", kGather);
    flag("indices_are_sorted");
  } else if (n == "scatter") {
    constexpr Rename kScatter[] = {{"update_window_dims", "update_window_dims"},
                                   {"inserted_window_dims", "inserted_window_dims"},
                                   {"scatter_dims_to_operand_dims", "scatter_dims_to_operand_dims"},
                                   {"input_batching_dims", "input_batching_dims"},
                                   {"scatter_indices_batching_dims", "scatter_indices_batching_dims"}};
    explode_indexed("scatter_dimension_numbers", kScatter);
    flag("indices_are_sorted");
    flag("unique_indices");
  } else if (n == "convolution" || n == "dynamic_conv") {
    if (AttributeRef numbers = take("dimension_numbers"); numbers != nullptr)
      for (const auto& [key, value] : numbers->entries) add(key, value);
    const int64_t rank = rank_of(1) - 2;
    all("window_strides", rank, 1);
    all("lhs_dilation", rank, 1);
    all("rhs_dilation", rank, 1);
    all("window_reversal", rank, 0);
    if (n == "convolution") all("padding", 2 * rank, 0);
    otherwise("batch_group_count", [&] { return Number(1); });
    otherwise("feature_group_count", [&] { return Number(1); });
  } else if (n == "reduce_window") {
    AttributeRef sizes = op.Find("window_dimensions");
    const int64_t rank =
        sizes != nullptr && sizes->kind == Kind::kArray ? static_cast<int64_t>(sizes->elements.size()) : rank_of(0);
    all("window_strides", rank, 1);
    all("base_dilations", rank, 1);
    all("window_dilations", rank, 1);
    all("padding", 2 * rank, 0);
  } else if (n == "select_and_scatter") {
    const int64_t rank = rank_of(0);
    all("window_dimensions", rank, 1);
    all("window_strides", rank, 1);
    all("padding", 2 * rank, 0);
  } else if (n == "sort") {
    otherwise("dimension", [&] { return Number(-1); });
    flag("is_stable");
  } else if (n == "cholesky") {
    flag("lower");
  } else if (n == "custom_call") {
    if (AttributeRef version = op.Find("api_version"); version == nullptr) {
      add("api_version", Word("API_VERSION_ORIGINAL"));
    } else if (version->kind == Kind::kInteger) {
      constexpr std::string_view kWords[] = {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
                                             "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
                                             "API_VERSION_TYPED_FFI"};
      if (version->integer < 0 || version->integer > 4)
        return lex_.Error(Format("No API version {} of custom calls is known.", version->integer));
      take("api_version");
      add("api_version", Word(kWords[version->integer]));
    }
    flag("has_side_effect");
  } else if (n == "all_reduce" || n == "all_gather" || n == "reduce_scatter") {
    flag("use_global_device_ids");
  } else if (n == "collective_broadcast") {
    flag("has_dynamic_root");
  } else if (n == "collective_reduce") {
    flag("use_global_device_ids");
    flag("has_dynamic_root");
  } else if (n == "infeed") {
    otherwise("infeed_config", [&] { return Text(""); });
  } else if (n == "outfeed") {
    otherwise("outfeed_config", [&] { return Text(""); });
  } else if (n == "send" || n == "recv") {
    flag("is_host_transfer");
  } else if (n == "triangular_solve") {
    flag("left_side");
    flag("lower");
    flag("unit_diagonal");
  }
  return {};
}

}  // namespace krafla::stablehlo
