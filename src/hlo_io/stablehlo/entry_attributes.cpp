// SPDX-License-Identifier: Apache-2.0
// What a module says of its entry's arguments and results, and of itself: the inverse of Converter::EntryAttributes and
// of entry_layouts.cpp.
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/tree_builder.h"
#include "ir/custom_call.h"
#include "ir/value_names.h"

namespace krafla::stablehlo {
namespace {

// "{{replicated}, {devices=[2]0,1}}": one a leaf; a sharding that is of no tuple is that of each leaf.
std::vector<std::string> ShardingsOfLeaves(const std::string& text, std::size_t leaves) {
  std::vector<std::string> out;
  if (text.starts_with("{{")) {
    int open = 0;
    std::size_t begin = 0;
    for (std::size_t at = 1; at + 1 < text.size(); ++at) {
      if (text[at] == '{' && open++ == 0) begin = at;
      if (text[at] == '}' && --open == 0) out.push_back(text.substr(begin, at + 1 - begin));
    }
  } else if (!text.empty()) {
    out.assign(leaves, text);
  }
  out.resize(leaves);
  return out;
}

// The number of the leaf at `index`, which the verifier has looked at.
std::size_t LeafAt(const Shape& shape, const Dims& index) {
  int64_t out = 0;
  const Shape* at = &shape;
  for (int64_t element : index) {
    out += at->FirstLeaf(static_cast<std::size_t>(element));
    at = &at->tuple_elements()[static_cast<std::size_t>(element)];
  }
  return static_cast<std::size_t>(out);
}

}  // namespace

AttributeList TreeBuilder::BorderAttributes(const Shape& shape, bool laid_out, const std::string& sharding) {
  AttributeList out;
  if (laid_out && shape.IsArray()) {
    if (!shape.layout().IsRowMajor()) {
      std::string order;
      for (int64_t d : shape.layout().minor_to_major) order += Format("{}{}", order.empty() ? "" : ",", d);
      out.emplace_back("mhlo.layout_mode", Text("{" + order + "}"));
    }
    if (shape.layout().tail == "S(5)") out.emplace_back("mhlo.memory_kind", Text("pinned_host"));
  }
  if (!sharding.empty()) out.emplace_back("mhlo.sharding", Text(sharding));
  return out;
}

// What the entry's arguments and results say of themselves; the inverse of Converter::EntryAttributes and of
// entry_layouts.cpp.
Result<> TreeBuilder::EntryAttributes(Op& func) {
  const Computation& entry = *module_.entry();
  const std::vector<std::string> argument_names = ArgumentNames(module_), result_names = ResultNames(module_);
  const bool has_layouts = module_.entry_layout_result.has_value();
  std::vector<AttributeList> arguments, results;
  std::vector<std::size_t> first;  // leaf of each parameter
  for (std::size_t p = 0; p < entry.parameters().size(); ++p) {
    const Instruction& parameter = *entry.parameters()[p];
    first.push_back(arguments.size());
    const std::size_t count = LeafCount(parameter.shape());
    const std::vector<std::string> shardings = ShardingsOfLeaves(parameter.metadata().sharding, count);
    const bool laid_out = has_layouts && p < module_.entry_layout_parameters.size() &&
                          LeafCount(module_.entry_layout_parameters[p]) == count;
    const std::vector<const Shape*> leaves =
        TupleLeaves(laid_out ? module_.entry_layout_parameters[p] : parameter.shape());
    for (std::size_t leaf = 0; leaf < count; ++leaf)
      arguments.push_back(BorderAttributes(*leaves[leaf], laid_out, shardings[leaf]));
  }
  const Shape& root = has_layouts ? *module_.entry_layout_result : entry.root()->shape();
  const std::vector<const Shape*> leaves = TupleLeaves(root);
  // An operation that does nothing but say it has said it.
  const bool said = CustomCallTargetOf(*entry.root()) == CustomCallTarget::kSharding;
  const std::vector<std::string> shardings =
      ShardingsOfLeaves(said ? std::string() : entry.root()->metadata().sharding, leaves.size());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    results.push_back(BorderAttributes(*leaves[leaf], has_layouts, shardings[leaf]));
    if (result_names[leaf] != Format("output{}", leaf))
      results.back().emplace_back("jax.result_info", Text(result_names[leaf]));
  }
  for (const InputOutputAlias& alias : module_.input_output_aliases)
    arguments[first[static_cast<std::size_t>(alias.parameter)] +
              LeafAt(entry.parameters()[static_cast<std::size_t>(alias.parameter)]->shape(), alias.parameter_index)]
        .emplace_back(
            "tf.aliasing_output",
            Integer(static_cast<int64_t>(LeafAt(entry.root()->shape(), alias.output_index)), ElementType::kS32));
  for (const BufferDonor& donor : module_.buffer_donors)
    arguments[first[static_cast<std::size_t>(donor.parameter)] +
              LeafAt(entry.parameters()[static_cast<std::size_t>(donor.parameter)]->shape(), donor.parameter_index)]
        .emplace_back("jax.buffer_donor", Flag(true));
  for (std::size_t n = 0; n < arguments.size(); ++n)
    tree_->names.emplace(func.regions[0].arguments[n], argument_names[n]);
  const auto dictionaries = [&](std::vector<AttributeList>& lists) {
    std::vector<AttributeRef> out;
    for (AttributeList& list : lists) out.push_back(Dictionary(std::move(list)));
    return Array(std::move(out));
  };
  func.attributes.emplace_back("arg_attrs", dictionaries(arguments));
  func.attributes.emplace_back("res_attrs", dictionaries(results));
  return {};
}

void TreeBuilder::ModuleAttributes() {
  AttributeList& said = tree_->module.discardable;
  for (const auto& [key, value] : module_.other_attributes) {
    if (key != "frontend_attributes" || value.size() < 2) continue;
    AttributeList entries;
    for (const auto& [name, text] : hlo_text::FrontendAttributesIn(std::string_view(value).substr(1, value.size() - 2)))
      if (name != kResultNames) entries.emplace_back(name, Text(text));
    if (!entries.empty()) said.emplace_back("mhlo.frontend_attributes", Dictionary(std::move(entries)));
  }
  said.emplace_back("mhlo.num_partitions", Integer(module_.num_partitions, ElementType::kS32));
  said.emplace_back("mhlo.num_replicas", Integer(module_.replica_count, ElementType::kS32));
}

}  // namespace krafla::stablehlo
