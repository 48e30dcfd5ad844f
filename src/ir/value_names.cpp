// SPDX-License-Identifier: Apache-2.0
#include "ir/value_names.h"

#include <set>
#include <utility>

namespace krafla {
namespace {

constexpr std::string_view kAttribute = "frontend_attributes";

void MakeUnique(std::vector<std::string>& names) {
  std::set<std::string> taken;
  for (std::size_t i = 0; i < names.size(); ++i) {
    while (!taken.insert(names[i]).second) names[i] += Format(".{}", i);
  }
}

void AppendLeafNames(const Shape& shape, const std::string& name, std::vector<std::string>& out) {
  if (!shape.IsTuple()) {
    out.push_back(name);
    return;
  }
  for (std::size_t e = 0; e < shape.tuple_elements().size(); ++e)
    AppendLeafNames(shape.tuple_elements()[e], Format("{}.{}", name, e), out);
}

std::vector<std::string> SplitNames(std::string_view list) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == ',') {
      out.emplace_back();
      continue;
    }
    if (list[i] == '\\' && i + 1 < list.size()) ++i;
    out.back() += list[i];
  }
  return out;
}

}  // namespace

std::string MetadataValue(std::string_view metadata, std::string_view key) {
  for (std::size_t at = 0; (at = metadata.find(key, at)) != std::string_view::npos; at += key.size()) {
    const std::size_t value = at + key.size();
    const bool begins = at == 0 || metadata[at - 1] == ' ' || metadata[at - 1] == ',' || metadata[at - 1] == '{';
    if (!begins || value >= metadata.size() || metadata[value] != '=') continue;
    std::string_view rest = metadata.substr(value + 1);
    if (!rest.starts_with('"')) return std::string(rest.substr(0, rest.find_first_of(" ,}")));
    rest.remove_prefix(1);
    std::string out;
    for (std::size_t i = 0; i < rest.size() && rest[i] != '"'; ++i) {
      if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
      out += rest[i];
    }
    return out;
  }
  return "";
}

std::vector<std::string> ArgumentNames(const Module& module) {
  std::vector<std::string> out;
  for (const Instruction* parameter : module.entry()->parameters()) {
    std::string name = MetadataValue(parameter->metadata().metadata, "op_name");
    if (name.empty()) name = parameter->name();
    AppendLeafNames(parameter->shape(), name, out);
  }
  MakeUnique(out);
  return out;
}

std::vector<std::string> ResultNames(const Module& module) {
  std::vector<std::string> out;
  for (const auto& [key, value] : module.other_attributes) {
    if (key != kAttribute) continue;
    if (const std::string list = MetadataValue(value, kResultNames); !list.empty()) out = SplitNames(list);
  }
  out.resize(LeafCount(module.entry()->root()->shape()));
  for (std::size_t r = 0; r < out.size(); ++r)
    if (out[r].empty()) out[r] = Format("output{}", r);
  MakeUnique(out);
  return out;
}

void SetResultNames(Module& module, std::span<const std::string> names) {
  std::string list;
  const auto escaped = [](std::string_view text, std::string_view special) {
    std::string out;
    for (const char c : text) {
      if (special.contains(c)) out += '\\';
      out += c;
    }
    return out;
  };
  for (std::size_t i = 0; i < names.size(); ++i) list += (i > 0 ? "," : "") + escaped(names[i], ",\\");
  const std::string attribute = Format("{}=\"{}\"", kResultNames, escaped(list, "\"\\"));
  for (auto& [key, value] : module.other_attributes) {
    if (key != kAttribute || !value.ends_with('}')) continue;
    value.insert(value.size() - 1, (value.size() > 2 ? "," : "") + attribute);
    return;
  }
  module.other_attributes.emplace_back(kAttribute, "{" + attribute + "}");
}

}  // namespace krafla
