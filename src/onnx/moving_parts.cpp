// SPDX-License-Identifier: Apache-2.0
#include "onnx/moving_parts.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace krafla::onnx {
namespace {

// Ranges beyond this are no parts of arrays.
constexpr double kMostAdded = 1 << 30;

bool IsNumber(const Value& value) {
  const ElementType type = value.shape.element_type();
  return value.shape.IsArray() && !value.shape.IsDynamic() && value.shape.element_count() == 1 &&
         (type == S32 || type == S64 || type == F32 || type == F64);
}

Offset OffsetOf(const Value& value) { return value.offset.value_or(Offset{.of = value.op}); }

// The whole number that an input is.
std::optional<int64_t> WholeNumber(const Value& value) {
  if (value.literal == nullptr || !IsNumber(value)) return std::nullopt;
  const double number = NumbersOf(*value.literal)[0];
  if (!(std::abs(number) <= kMostAdded) || std::floor(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

// Places that are known, of which negative ones count from the end.
std::optional<int64_t> MostBetween(int64_t begin, int64_t end) {
  if ((begin < 0) == (end < 0)) return std::max<int64_t>(0, end - begin);
  if (begin < 0) return -std::max(begin, -INT64_MAX);
  return std::nullopt;
}

XlaOp Scalar(XlaOp x) { return Convert(Reshape(x, {}), S64); }

}  // namespace

void RelateResult(const Node& node, const std::vector<const Value*>& inputs, Value& result) {
  if (!node.domain.empty() || result.literal != nullptr || !IsNumber(result)) return;
  const std::string_view op = node.op_type;
  const Value *of = nullptr, *known = nullptr;
  for (const Value* input : inputs)
    if (input != nullptr && input->literal == nullptr && of == nullptr) of = input;
    else if (input != nullptr) known = input;
  if (of == nullptr || !IsNumber(*of) || (!of->offset && !IsIntegral(of->shape.element_type()))) return;
  Offset offset = OffsetOf(*of);
  if (op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Cast") {
    if (of != inputs[0]) return;
  } else if (op == "Add" || op == "Sub") {
    const auto number = inputs.size() == 2 && known != nullptr ? WholeNumber(*known) : std::nullopt;
    if (!number || (op == "Sub" && of != inputs[0])) return;
    offset.added += op == "Add" ? *number : -*number;
    if (std::abs(static_cast<double>(offset.added)) > kMostAdded) return;
  } else if (op == "Min") {
    if (std::ranges::count_if(inputs, [](const Value* v) { return v != nullptr && v->literal == nullptr; }) != 1)
      return;
    offset.is_most = true;
  } else {
    return;
  }
  result.offset = offset;
}

std::optional<int64_t> MostBetween(const Value& begin, const Value& end) {
  if (!IsNumber(begin) || !IsNumber(end)) return std::nullopt;
  if (begin.literal != nullptr && end.literal != nullptr)
    return MostBetween(IntsOf(*begin.literal)[0], IntsOf(*end.literal)[0]);
  if (begin.literal != nullptr || end.literal != nullptr) return std::nullopt;
  const Offset from = OffsetOf(begin), to = OffsetOf(end);
  if (!from.of.IsIdenticalTo(to.of) || from.is_most) return std::nullopt;
  return std::max<int64_t>(0, to.added - from.added);
}

XlaOp MovingPart(Call& c) {
  const auto ones = [&](std::size_t i) { return !c.Has(i) || (c.IsKnown(i) && c.KnownInts(i, "the step") == Ints{1}); };
  if (!c.Has(2) || c.ShapeOf(1).element_count() != 1 || c.ShapeOf(2).element_count() != 1 || !ones(4))
    Refuse("A part along one axis with a step of 1 is supported, where it begins or ends where the data says.");
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x), axes = c.Has(3) ? c.KnownInts(3, "axes") : Ints{0};
  if (axes.size() != 1) Reject("Starts, ends, axes and steps are of unequal lengths.");
  const int64_t axis = Axis(axes[0], static_cast<int64_t>(dims.size()));
  const int64_t size = dims[static_cast<std::size_t>(axis)];
  const int64_t most = std::min(size, MostBetween(c.ValueOf(1), c.ValueOf(2)).value_or(size));
  Outputs sizes = SizesOf(x);
  XlaOp& run_time = sizes[static_cast<std::size_t>(axis)];
  const XlaOp there = run_time.IsUninitialized() ? Number(c.b, S64, static_cast<double>(size)) : Convert(run_time, S64);
  const XlaOp zero = Number(c.b, S64, 0);
  const auto place = [&](std::size_t input) {
    const XlaOp at = Scalar(c.In(input));
    return Clamp(zero, Select(Lt(at, zero), Add(at, there), at), there);
  };
  const XlaOp begin = place(1), count = Clamp(zero, Sub(place(2), begin), Number(c.b, S64, static_cast<double>(most)));
  XlaOp part = WholeOf(x);
  if (most == 1) {
    Outputs at(dims.size(), zero);
    at[static_cast<std::size_t>(axis)] = begin;
    Ints shape = dims;
    shape[static_cast<std::size_t>(axis)] = 1;
    part = DynamicSlice(part, at, shape);
  } else if (most > 1) {
    const XlaOp at = Add(Iota(c.b, S64, most), BroadcastTo(begin, Ints{most}));
    part = TakeAlong(part, Min(at, BroadcastTo(Like(at, static_cast<double>(size - 1)), Ints{most})), axis);
  } else {
    Ints limits = dims;
    limits[static_cast<std::size_t>(axis)] = 0;
    part = Slice(part, Ints(dims.size(), 0), limits, Ints(dims.size(), 1));
  }
  run_time = Convert(count, S32);
  return WithSizes(part, sizes);
}

XlaOp MovingRange(Call& c, int64_t most) {
  const ElementType type = c.TypeOf(0);
  const XlaOp begin = Reshape(c.In(0), {}), limit = Number(c.b, S64, static_cast<double>(most));
  const XlaOp count = Clamp(Number(c.b, S64, 0), Sub(Scalar(c.In(1)), Scalar(begin)), limit);
  const XlaOp all = Add(Convert(Iota(c.b, S64, most), type), BroadcastTo(begin, Ints{most}));
  return SetDimensionSize(all, Convert(count, S32), 0);
}

}  // namespace krafla::onnx
