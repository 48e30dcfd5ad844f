// SPDX-License-Identifier: Apache-2.0
#include "onnx/count_turns.h"

#include <algorithm>
#include <map>
#include <set>

#include "krafla/literal_util.h"
#include "onnx/importer.h"

namespace krafla::onnx {
namespace {

constexpr int64_t kMostTurns = 1 << 14;
constexpr std::size_t kMostNodes = 64;
// Nodes of all turns: whoever counts further does more than count.
constexpr int64_t kMostSteps = 200'000;
// Of what the condition is made of, and of all values of a turn together.
constexpr int64_t kMostElements = 1024, kMostOfTurn = 4096;

// The part of a body that its condition is made of, and the states that it goes through.
struct Counter {
  Graph graph;  // gives the condition, then the next states
  std::vector<std::size_t> states;
  bool reads_turn = false;  // the number of the turn, which Loop counts itself
};

std::optional<Counter> CounterOf(const Call& c, const Graph& body, const std::vector<Value>& state) {
  std::map<std::string_view, const Node*> makers;
  for (const Node& node : body.nodes)
    for (const std::string& output : node.outputs) makers.emplace(output, &node);
  std::set<std::string_view> seen;
  std::set<const Node*> nodes;
  Counter out;
  std::vector<std::string_view> wanted = {body.outputs[0].name};
  while (!wanted.empty()) {
    const std::string_view name = wanted.back();
    wanted.pop_back();
    if (name.empty() || !seen.insert(name).second) continue;
    const auto input = std::ranges::find(body.inputs, name, &ValueInfo::name);
    if (const auto place = static_cast<std::size_t>(input - body.inputs.begin()); input != body.inputs.end()) {
      out.reads_turn |= place == 0;
      if (place < 2) continue;
      const Value& first = state[place - 2];
      if (first.literal == nullptr || first.shape.element_count() > kMostElements) return std::nullopt;
      out.states.push_back(place - 2);
      wanted.push_back(body.outputs[place - 1].name);
    } else if (const auto maker = makers.find(name); maker != makers.end()) {
      const Node& node = *maker->second;
      if (std::ranges::any_of(node.attributes, [](const Attribute& a) { return a.g != nullptr; })) return std::nullopt;
      if (nodes.insert(&node).second && nodes.size() > kMostNodes) return std::nullopt;
      wanted.insert(wanted.end(), node.inputs.begin(), node.inputs.end());
    } else if (const auto own = std::ranges::find(body.initializers, name, &Tensor::name);
               own != body.initializers.end()) {
      if (Volume(own->dims) > kMostElements) return std::nullopt;
    } else {
      const Value* around = Importer::FindValue(c.scope, name);
      if (around == nullptr || around->literal == nullptr || around->shape.element_count() > kMostElements)
        return std::nullopt;
    }
  }
  for (const Node& node : body.nodes)
    if (nodes.contains(&node)) out.graph.nodes.push_back(node);
  for (const Tensor& tensor : body.initializers)
    if (seen.contains(tensor.name)) out.graph.initializers.push_back(tensor);
  out.graph.name = body.name;
  out.graph.inputs = body.inputs;
  out.graph.outputs = {body.outputs[0]};
  for (const std::size_t s : out.states) out.graph.outputs.push_back(body.outputs[s + 1]);
  return out;
}

}  // namespace

std::optional<int64_t> CountTurns(Call& c, const Graph& body, const std::vector<Value>& state) {
  const std::optional<Counter> counter = CounterOf(c, body, state);
  if (!counter || (counter->states.empty() && !counter->reads_turn)) return std::nullopt;
  std::vector<Value> now;
  for (const std::size_t s : counter->states) now.push_back(state[s]);
  const std::size_t refused = c.importer.unsupported().size();
  try {
    const int64_t most = std::min(kMostTurns, kMostSteps / std::max<int64_t>(1, std::ssize(counter->graph.nodes)));
    for (int64_t turn = 0; turn < most; ++turn) {
      const auto aside = c.b->CreateSubBuilder("count");
      Scope scope = Inside(c, aside.get());
      scope.values[body.inputs[0].name] = OfLiteral(LiteralUtil::CreateR0<int64_t>(turn));
      scope.values[body.inputs[1].name] = OfFlag(true);
      for (std::size_t i = 0; i < now.size(); ++i) scope.values[body.inputs[2 + counter->states[i]].name] = now[i];
      std::vector<Value> next = c.importer.EmitGraph(counter->graph, scope);
      if (std::ranges::any_of(next, [](const Value& v) { return v.literal == nullptr; })) return std::nullopt;
      int64_t elements = 0;
      for (const auto& [name, value] : scope.values)
        elements += value.shape.IsArray() ? value.shape.element_count() : 0;
      const Shape& asked = next[0].shape;
      if (asked.element_type() != PRED || asked.element_count() != 1 || elements > kMostOfTurn) return std::nullopt;
      if (!IsTrue(next[0])) return turn + 1;
      now.assign(std::make_move_iterator(next.begin() + 1), std::make_move_iterator(next.end()));
    }
  } catch (const Refusal&) { c.importer.ForgetSince(refused); }
  return std::nullopt;
}

}  // namespace krafla::onnx
