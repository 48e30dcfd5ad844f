// SPDX-License-Identifier: Apache-2.0
#include "onnx/run_time_sizes.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>

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

// The known integers of an input, or nothing.
std::optional<Ints> KnownIntegers(const std::vector<const Value*>& inputs, std::size_t input) {
  if (input >= inputs.size() || inputs[input] == nullptr || inputs[input]->literal == nullptr) return std::nullopt;
  Ints out;
  for (const double number : NumbersOf(*inputs[input]->literal)) out.push_back(static_cast<int64_t>(number));
  return out;
}

// Of an operator that is kRows: whether what it makes of a row depends on this row alone, and lies at the row's place.
bool KeepsRows(const Node& node, int64_t opset, const std::vector<const Value*>& inputs) {
  const int64_t rank = inputs[0]->shape.rank();
  const std::string& op = node.op_type;
  const auto attribute = [&](std::string_view name) -> const Attribute* {
    const auto found = std::ranges::find(node.attributes, name, &Attribute::name);
    return found == node.attributes.end() ? nullptr : &*found;
  };
  const auto is_later = [&](int64_t axis, int64_t dims) { return axis != 0 && axis != -dims; };
  if (op == "MatMul") return rank >= 2 && inputs[1] != nullptr && inputs[1]->shape.rank() <= 2;
  if (op == "PRelu") {
    const Shape& slope = inputs[1]->shape;
    return slope.rank() < rank || slope.dim(0) == 1;
  }
  if (op == "CumSum" || op == "CumProd") {
    const std::optional<Ints> axis = KnownIntegers(inputs, 1);
    return axis && axis->size() == 1 && is_later(axis->front(), rank);
  }
  if (op.starts_with("Reduce")) {
    std::optional<Ints> axes = KnownIntegers(inputs, 1);
    if (const Attribute* given = attribute("axes"); given != nullptr)
      axes = Ints(given->ints.begin(), given->ints.end());
    return axes && !axes->empty() && std::ranges::all_of(*axes, [&](int64_t a) { return is_later(a, rank); });
  }
  const bool is_flat = opset < 13 && (op == "Hardmax" || op == "LogSoftmax");
  const int64_t otherwise = op.starts_with("Arg") ? 0 : is_flat ? 1 : -1;
  const Attribute* given = attribute("axis");
  return is_later(given == nullptr ? otherwise : given->i, op == "OneHot" ? rank + 1 : rank);
}

}  // namespace

bool CountsRows(const Node& node, int64_t opset, OperandSizes takes, const std::vector<const Value*>& inputs) {
  if (takes != OperandSizes::kImages && takes != OperandSizes::kRows) return false;
  if (inputs.empty() || inputs[0] == nullptr || !HasCountedImages(inputs[0]->shape)) return false;
  return takes == OperandSizes::kImages || KeepsRows(node, opset, inputs);
}

void RefuseRunTimeSizes(const Node& node, int64_t opset, OperandSizes takes, const std::vector<const Value*>& inputs) {
  if (takes == OperandSizes::kTaken) return;
  const bool counts_rows = CountsRows(node, opset, takes, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != nullptr && inputs[i]->shape.IsDynamic() && !(i == 0 && counts_rows))
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
