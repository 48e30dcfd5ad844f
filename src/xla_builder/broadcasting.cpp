// SPDX-License-Identifier: Apache-2.0
// Implicit broadcasting. XLA: shape_inference.cc InferElementwiseBinaryOpShape, InferInDimBroadcastShape,
// InferDegenerateDimensionBroadcastShape; xla_builder.cc AddBroadcastSequence.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla::xla_builder {
namespace {

using shape_rules::Brief;
using shape_rules::DimList;

// A size of 1 meets any size; everything else meets its like. Of unequal sizes the one that is not 1 stays, with its
// flag; of equal ones a flag on either side counts.
Result<Shape> MeetSizes(const Shape& lhs, const Shape& rhs) {
  DimList out;
  for (int64_t i = 0; i < lhs.rank(); ++i) {
    if (lhs.dim(i) == rhs.dim(i)) {
      out.Add(lhs.dim(i), lhs.IsDynamicDim(i) || rhs.IsDynamicDim(i));
    } else if (lhs.dim(i) == 1) {
      out.AddFrom(rhs, i);
    } else if (rhs.dim(i) == 1) {
      out.AddFrom(lhs, i);
    } else {
      return InvalidArgument("Dimension {} of {} and {} must be equal, or 1 in one of them; it is {} and {}.", i,
                             Brief(lhs), Brief(rhs), lhs.dim(i), rhs.dim(i));
    }
  }
  return out.Make(lhs.element_type());
}

// `small` at the rank of `large`: its dimensions where `map` puts them, those of `large` elsewhere.
Result<Shape> Raise(const Shape& small, const Shape& large, std::span<const int64_t> map) {
  if (map.empty() && small.rank() > 0)
    return InvalidArgument(
        "The ranks of {} and {} differ; broadcast_dimensions must say which dimensions of {} those "
        "of {} are.",
        Brief(small), Brief(large), Brief(large), Brief(small));
  if (static_cast<int64_t>(map.size()) != small.rank())
    return InvalidArgument("broadcast_dimensions must have one entry for each dimension of {}, it has {}.",
                           Brief(small), map.size());
  DimList out;
  for (int64_t i = 0; i < large.rank(); ++i) out.AddFrom(large, i);
  for (int64_t i = 0; i < small.rank(); ++i) {
    int64_t to = map[static_cast<std::size_t>(i)];
    KRAFLA_TRY(CheckDimension("broadcast_dimensions", to, large.rank()));
    if (i > 0 && map[static_cast<std::size_t>(i - 1)] >= to)
      return InvalidArgument("broadcast_dimensions must ascend; it has {} after {}.", to,
                             map[static_cast<std::size_t>(i - 1)]);
    if (small.dim(i) != large.dim(to) && small.dim(i) != 1 && large.dim(to) != 1)
      return InvalidArgument(
          "Dimension {} of {} is broadcast into dimension {} of {}; their sizes {} and {} must be "
          "equal or 1.",
          i, Brief(small), to, Brief(large), small.dim(i), large.dim(to));
    out.sizes[static_cast<std::size_t>(to)] = small.dim(i);
    out.dynamic[static_cast<std::size_t>(to)] = small.IsDynamicDim(i);
  }
  return out.Make(small.element_type());
}

}  // namespace

Result<Shape> InferBroadcast(const Shape& lhs, const Shape& rhs, std::span<const int64_t> map) {
  if (!lhs.IsArray() || !rhs.IsArray())
    return InvalidArgument("The operands must be arrays; they are {} and {}.", Brief(lhs), Brief(rhs));
  if (lhs.element_type() != rhs.element_type())
    return InvalidArgument("The operands must have one element type; they are {} and {}.", Brief(lhs), Brief(rhs));
  if (lhs.rank() == rhs.rank()) {
    bool identity = map.empty() || static_cast<int64_t>(map.size()) == lhs.rank();
    for (std::size_t i = 0; identity && i < map.size(); ++i) identity = map[i] == static_cast<int64_t>(i);
    if (!identity)
      return InvalidArgument("The operands {} and {} have one rank; broadcast_dimensions must be empty or 0 to {}.",
                             Brief(lhs), Brief(rhs), lhs.rank() - 1);
    return MeetSizes(lhs, rhs);
  }
  bool lhs_is_small = lhs.rank() < rhs.rank();
  const Shape& small = lhs_is_small ? lhs : rhs;
  const Shape& large = lhs_is_small ? rhs : lhs;
  KRAFLA_ASSIGN(Shape raised, Raise(small, large, map));
  return MeetSizes(raised, large);
}

Result<Instruction*> BroadcastTo(Impl& b, Instruction* operand, const Shape& shape) {
  const Shape& from = operand->shape();
  if (Shape::SameDims(from, shape)) return operand;
  Dims kept, sizes;  // dimensions that are not repeated
  DimList out;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    bool repeated = from.IsScalar() || (from.dim(i) == 1 && shape.dim(i) != 1);
    out.Add(shape.dim(i), repeated ? shape.IsDynamicDim(i) : from.IsDynamicDim(i));
    if (repeated) continue;
    kept.push_back(i);
    sizes.push_back(from.dim(i));
  }
  if (sizes.ssize() < from.rank()) {
    DimList rest;
    for (int64_t i : kept) rest.AddFrom(from, i);
    KRAFLA_ASSIGN(Shape reshaped, rest.Make(from.element_type()));
    KRAFLA_ASSIGN(operand, b.Add(Opcode::kReshape, {operand}, {}, {}, &reshaped));
  }
  KRAFLA_ASSIGN(Shape result, out.Make(from.element_type()));
  return b.Add(Opcode::kBroadcast, {operand}, DimensionsAttributes{kept}, {}, &result);
}

Result<std::pair<Instruction*, Instruction*>> BroadcastPair(Impl& b, Instruction* lhs, Instruction* rhs,
                                                            std::span<const int64_t> map) {
  KRAFLA_ASSIGN(Shape shape, InferBroadcast(lhs->shape(), rhs->shape(), map));
  int64_t lhs_rank = lhs->shape().rank(), rhs_rank = rhs->shape().rank();
  if (!map.empty() && lhs_rank != rhs_rank) {
    Instruction*& small = lhs_rank < rhs_rank ? lhs : rhs;
    const Shape& from = small->shape();
    DimList raised;
    for (int64_t i = 0; i < shape.rank(); ++i) raised.AddFrom(shape, i);
    for (int64_t i = 0; i < from.rank(); ++i) {
      auto to = static_cast<std::size_t>(map[static_cast<std::size_t>(i)]);
      raised.sizes[to] = from.dim(i);
      raised.dynamic[to] = from.IsDynamicDim(i);
    }
    KRAFLA_ASSIGN(Shape result, raised.Make(from.element_type()));
    KRAFLA_ASSIGN(small, b.Add(Opcode::kBroadcast, {small}, DimensionsAttributes{Dims(map)}, {}, &result));
  }
  KRAFLA_ASSIGN(lhs, BroadcastTo(b, lhs, shape));
  KRAFLA_ASSIGN(rhs, BroadcastTo(b, rhs, shape));
  return std::pair(lhs, rhs);
}

}  // namespace krafla::xla_builder
