// SPDX-License-Identifier: Apache-2.0
#include "onnx/check_model.h"

#include <set>
#include <string_view>

namespace krafla::onnx {
namespace {

// The newest that onnx 1.22 has; a later one may mean something else by an operator.
constexpr int64_t kNewestOpset = 28;

using Names = std::set<std::string_view>;

Result<> CheckGraph(const Graph& graph);

Result<> CheckNodes(const std::vector<Node>& nodes, Names made, std::string_view where) {
  for (const Node& node : nodes) {
    const std::string_view name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    Names given;
    for (const Attribute& attribute : node.attributes) {
      if (!given.insert(attribute.name).second)
        return InvalidArgument("The node '{}' ({}) has the attribute '{}' twice.", name, node.op_type, attribute.name);
      if (attribute.g != nullptr) KRAFLA_TRY(CheckGraph(*attribute.g));
    }
    for (const std::string& output : node.outputs)
      if (!output.empty() && !made.insert(output).second)
        return InvalidArgument("The node '{}' ({}) makes '{}', which is there already in '{}'.", name, node.op_type,
                               output, where);
  }
  return {};
}

Result<> CheckGraph(const Graph& graph) {
  Names weights, made;
  for (const Tensor& tensor : graph.initializers)
    if (!weights.insert(tensor.name).second)
      return InvalidArgument("The graph '{}' has two initializers of the name '{}'.", graph.name, tensor.name);
  for (const ValueInfo& input : graph.inputs)
    if (!made.insert(input.name).second)
      return InvalidArgument("The graph '{}' has two inputs of the name '{}'.", graph.name, input.name);
  made.insert(weights.begin(), weights.end());  // of an input's name: its default
  return CheckNodes(graph.nodes, std::move(made), graph.name);
}

}  // namespace

Result<> CheckModel(const Model& model) {
  if (const auto opset = model.opsets.find(""); opset != model.opsets.end() && opset->second > kNewestOpset)
    return Unimplemented("The model uses opset {}; the newest that is known is {}.", opset->second, kNewestOpset);
  KRAFLA_TRY(CheckGraph(model.graph));
  for (const Function& function : model.functions)
    KRAFLA_TRY(CheckNodes(function.nodes, Names(function.inputs.begin(), function.inputs.end()), function.name));
  return {};
}

}  // namespace krafla::onnx
