// SPDX-License-Identifier: Apache-2.0
// Sequences and optional values. HLO has neither, and needs neither: how long a sequence is, is known while importing,
// as a loop that makes one is unrolled. A sequence is its elements, and an optional value a sequence of one or none.
#include <iterator>

#include "base/checked_math.h"
#include "onnx/importer.h"

namespace krafla::onnx {
namespace {

// A small file may ask for any number of them.
constexpr int64_t kMostElements = 4096;

void RefuseLonger(int64_t count) {
  if (count > kMostElements) Refuse("A sequence of {} elements; at most {} are supported.", count, kMostElements);
}
Value SequenceOf(std::vector<Value> elements) {
  RefuseLonger(static_cast<int64_t>(elements.size()));
  for (const Value& one : elements)
    if (one.elements != nullptr) Reject("A sequence of sequences or of optional values.");
  Value out;
  out.elements = std::make_shared<const std::vector<Value>>(std::move(elements));
  return out;
}
// The place that input `i` names among `count` elements and below `end`; negative ones count from the last one.
std::size_t PlaceIn(const Call& c, std::size_t i, std::size_t count, std::size_t end) {
  const Ints place = c.KnownInts(i, "the place in a sequence");
  if (place.size() != 1) Reject("The place in a sequence must be one number.");
  const auto n = static_cast<int64_t>(count);
  if (place[0] < -n || place[0] >= static_cast<int64_t>(end)) Reject("Place {} of a sequence of {}.", place[0], n);
  return static_cast<std::size_t>(place[0] < 0 ? place[0] + n : place[0]);
}

// Parts of input 0 along the axis, each an output.
Outputs Parts(Call& c) {
  const XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const int64_t axis = Axis(c.Int("axis", 0), RankOf(x)), size = d[static_cast<std::size_t>(axis)];
  Ints sizes;
  const bool is_given = c.Has(1);
  if (is_given && c.ShapeOf(1).rank() > 0) {
    sizes = c.KnownInts(1, "the sizes of the parts");
  } else {
    const int64_t each = is_given ? c.KnownInts(1, "the size of the parts")[0] : 1;
    if (each <= 0) Reject("Parts of size {}.", each);
    RefuseLonger(CeilDiv(size, each));
    for (int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
  }
  RefuseLonger(static_cast<int64_t>(sizes.size()));
  Ints without = d;
  without.erase(without.begin() + axis);
  Outputs out;
  int64_t at = 0;
  for (const int64_t one : sizes) {
    if (one < 0 || one > size - at) Reject("Parts of {} elements do not fit in {}.", one, size);
    const XlaOp part = SliceInDim(x, at, at + one, 1, axis);
    out.push_back(is_given || c.Int("keepdims", 1) != 0 ? part : Reshape(part, without));
    at += one;
  }
  if (at != size) Reject("The parts have {} elements of {}.", at, size);
  return out;
}
// All inputs beside each other along the axis.
Outputs Joined(Call& c) {
  Outputs parts;
  const bool is_new = c.Int("new_axis", 0) != 0;
  int64_t axis = 0;
  for (std::size_t i = 0; i < c.count(); ++i) {
    const XlaOp x = c.In(i);
    Ints d = DimsOf(x);
    axis = Axis(c.Int("axis"), RankOf(x) + (is_new ? 1 : 0));
    if (is_new) d.insert(d.begin() + axis, 1);
    parts.push_back(is_new ? Reshape(x, d) : x);
  }
  return {ConcatInDim(c.b, parts, axis)};
}

}  // namespace

std::vector<Value> OnSequenceConstruct(Call& c) {
  std::vector<Value> out;
  for (std::size_t i = 0; i < c.count(); ++i) out.push_back(c.ValueOf(i));
  return {SequenceOf(std::move(out))};
}
std::vector<Value> OnSequenceEmpty(Call&) { return {SequenceOf({})}; }
std::vector<Value> OnSequenceAt(Call& c) {
  const std::vector<Value>& all = c.SequenceOf(0);
  return {all[PlaceIn(c, 1, all.size(), all.size())]};
}
std::vector<Value> OnSequenceLength(Call& c) {
  return {OfLiteral(LiteralUtil::CreateR0<int64_t>(static_cast<int64_t>(c.SequenceOf(0).size())))};
}
std::vector<Value> OnSequenceInsert(Call& c) {
  std::vector<Value> all = c.SequenceOf(0);
  const std::size_t at = c.Has(2) ? PlaceIn(c, 2, all.size(), all.size() + 1) : all.size();
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), c.ValueOf(1));
  return {SequenceOf(std::move(all))};
}
std::vector<Value> OnSequenceErase(Call& c) {
  std::vector<Value> all = c.SequenceOf(0);
  if (all.empty()) Reject("An element is taken from an empty sequence.");
  const std::size_t at = c.Has(1) ? PlaceIn(c, 1, all.size(), all.size()) : all.size() - 1;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  return {SequenceOf(std::move(all))};
}
std::vector<Value> OnSplitToSequence(Call& c) {
  return {SequenceOf(c.importer.RunOperator(c.node, c.opset, &Parts, OperandSizes::kKnown, c.values(), c.scope))};
}
std::vector<Value> OnConcatFromSequence(Call& c) {
  std::vector<const Value*> inputs;
  for (const Value& one : c.SequenceOf(0)) {
    if (one.shape.IsDynamic())
      Refuse("An element is {}, of a size that depends on the data.", one.shape.ToString(false));
    inputs.push_back(&one);
  }
  if (inputs.empty()) Reject("An empty sequence has nothing to put together.");
  return c.importer.RunOperator(c.node, c.opset, &Joined, OperandSizes::kKnown, inputs, c.scope);
}

// The graph once for each element; other inputs are sequences as long, or the same for all.
std::vector<Value> OnSequenceMap(Call& c) {
  const Graph& graph = GraphOf(c, "body");
  if (graph.inputs.size() != c.count()) Reject("Its graph has {} inputs for {}.", graph.inputs.size(), c.count());
  const std::size_t count = c.SequenceOf(0).size();
  std::vector<std::vector<Value>> results(graph.outputs.size());
  for (std::size_t k = 0; k < count; ++k) {
    Scope scope = Inside(c, c.b);
    for (std::size_t i = 0; i < c.count(); ++i) {
      const Value& given = c.ValueOf(i);
      if (given.elements != nullptr && given.elements->size() != count)
        Reject("Sequences of {} and {} elements.", count, given.elements->size());
      scope.values[graph.inputs[i].name] = given.elements != nullptr ? (*given.elements)[k] : given;
    }
    std::vector<Value> made = c.importer.EmitGraph(graph, scope);
    for (std::size_t i = 0; i < made.size(); ++i) results[i].push_back(std::move(made[i]));
  }
  std::vector<Value> out;
  for (std::vector<Value>& one : results) out.push_back(SequenceOf(std::move(one)));
  return out;
}

std::vector<Value> OnOptional(Call& c) {
  std::vector<Value> content;
  if (c.Has(0)) content.push_back(c.ValueOf(0));
  if (!content.empty() && content[0].is_optional) Reject("An optional value of an optional value.");
  Value out;
  out.elements = std::make_shared<const std::vector<Value>>(std::move(content));
  out.is_optional = true;
  return {std::move(out)};
}
// Both take, since opset 18, values that are not optional.
std::vector<Value> OnOptionalGetElement(Call& c) {
  const Value& value = c.ValueOf(0);
  if (!value.is_optional) return {value};
  if (value.elements->empty()) Reject("The optional value has no element.");
  return {value.elements->front()};
}
std::vector<Value> OnOptionalHasElement(Call& c) {
  const bool has = c.Has(0) && (!c.ValueOf(0).is_optional || !c.ValueOf(0).elements->empty());
  return {OfFlag(has)};
}

}  // namespace krafla::onnx
