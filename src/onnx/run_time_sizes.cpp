// SPDX-License-Identifier: Apache-2.0
#include "onnx/run_time_sizes.h"

#include <algorithm>
#include <deque>

namespace krafla::onnx {
namespace {

// Operators whose result is no smaller where all their inputs are no smaller, and such that are so for their first
// input.
constexpr std::string_view kMonotonic[] = {"Add", "Concat", "Max", "Min", "Sum"};
constexpr std::string_view kMonotonicInFirst[] = {"Gather",  "Identity", "ReduceMax", "ReduceMin", "ReduceSum",
                                                  "Reshape", "Slice",    "Squeeze",   "Unsqueeze"};
bool IsMonotonic(const Node& node, std::size_t input) {
  if (!node.domain.empty()) return false;
  if (node.op_type == "Where") return input > 0;
  if (node.op_type == "Cast") {
    const auto to = std::ranges::find(node.attributes, "to", &Attribute::name);
    const ElementType type = to == node.attributes.end() ? ElementType::kInvalid : ToElementType(to->i);
    return type == S32 || type == S64 || type == F32 || type == F64;  // others wrap
  }
  return std::ranges::find(kMonotonic, node.op_type) != std::end(kMonotonic) ||
         (input == 0 && std::ranges::find(kMonotonicInFirst, node.op_type) != std::end(kMonotonicInFirst));
}

// Whether sizes are equal to others is known where they cannot be, or can be nothing else: no size is -1.
void DecideEqual(const Value& a, const Value& b, Value& result) {
  const auto ends = [](const Value& v) {
    return std::pair{v.literal ? v.literal : v.least, v.literal ? v.literal : v.most};
  };
  const auto [a_least, a_most] = ends(a);
  const auto [b_least, b_most] = ends(b);
  if (a_least == nullptr || b_least == nullptr || a_least->shape() != b_least->shape()) return;
  const std::vector<double> least_a = NumbersOf(*a_least), most_a = NumbersOf(*a_most), least_b = NumbersOf(*b_least),
                            most_b = NumbersOf(*b_most);
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < least_a.size(); ++i) {
    const bool is_apart = most_a[i] < least_b[i] || most_b[i] < least_a[i],
               is_one = least_a[i] == most_a[i] && least_b[i] == most_b[i];
    if (!is_apart && !is_one) return;
    out.push_back(std::byte{!is_apart});
  }
  result.literal = std::make_shared<Literal>(Need(Literal::FromBytes(result.shape, out)));
}

// Only the first dimension has a run-time size.
bool HasCountedImages(const Shape& shape) {
  return shape.rank() > 0 && shape.IsDynamicDim(0) && !shape.WithDynamicDim(0, false).IsDynamic();
}

}  // namespace

void RefuseRunTimeSizes(const Node& node, OperandSizes takes, const std::vector<const Value*>& inputs) {
  if (takes == OperandSizes::kTaken) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != nullptr && inputs[i]->shape.IsDynamic() &&
        !(i == 0 && takes == OperandSizes::kImages && HasCountedImages(inputs[0]->shape)))
      Refuse("Input {} ('{}') is {}, of a size that depends on the data, which the operator is not supported for.", i,
             node.inputs[i], inputs[i]->shape.ToString(false));
}

// Bounds of a result that is made of run-time sizes. Sizes are no less than 0.
void BoundResult(const Node& node, const std::vector<const Value*>& inputs, const FoldedNode& fold, Value& result) {
  if (node.domain.empty() && node.op_type == "Shape" && inputs[0]->shape.IsDynamic()) {
    Ints least, most;
    const Shape& of = inputs[0]->shape;
    for (int64_t d = 0; d < of.rank(); ++d) {
      least.push_back(of.IsDynamicDim(d) ? 0 : of.dim(d));
      most.push_back(of.dim(d));
    }
    // Its attributes `start` and `end` cut as they cut the result.
    const int64_t rank = of.rank(), count = result.shape.element_count();
    const Attribute* start = nullptr;
    for (const Attribute& a : node.attributes)
      if (a.name == "start") start = &a;
    int64_t first = start == nullptr ? 0 : start->i < 0 ? start->i + rank : start->i;
    first = std::clamp<int64_t>(first, 0, rank - count);
    auto part = [&](const Ints& all) -> std::shared_ptr<const Literal> {
      return std::make_shared<Literal>(
          Need(LiteralUtil::CreateR1<int64_t>(Ints(all.begin() + first, all.begin() + first + count))));
    };
    result.least = part(least);
    result.most = part(most);
    if (NumbersOf(*result.least) == NumbersOf(*result.most)) result.literal = result.most;
    return;
  }
  if (node.domain.empty() && node.op_type == "Equal") return DecideEqual(*inputs[0], *inputs[1], result);
  bool is_bounded = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->literal != nullptr) continue;
    if (inputs[i]->most == nullptr || !IsMonotonic(node, i)) return;
    is_bounded = true;
  }
  if (!is_bounded) return;
  auto at = [&](bool is_most) -> std::shared_ptr<const Literal> {
    std::deque<Value> ends;
    std::vector<const Value*> with;
    for (const Value* value : inputs) {
      with.push_back(value);
      if (value == nullptr || value->literal != nullptr) continue;
      ends.emplace_back().shape = value->shape;
      ends.back().literal = is_most ? value->most : value->least;
      with.back() = &ends.back();
    }
    auto out = fold(with);
    return out && !out->empty() ? (*out)[0].literal : nullptr;
  };
  auto least = at(false), most = at(true);
  if (least == nullptr || most == nullptr || least->shape() != most->shape()) return;
  result.least = std::move(least);
  result.most = std::move(most);
  if (NumbersOf(*result.least) == NumbersOf(*result.most))
    result.literal = result.most;  // made of sizes that are known
}

}  // namespace krafla::onnx
