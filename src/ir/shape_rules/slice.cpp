// SPDX-License-Identifier: Apache-2.0
#include "base/checked_math.h"
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// Operands from `first` on: one integer scalar for each of `rank` dimensions, all of one type; or, as old texts have
// it, one vector of them.
Result<> CheckStartIndices(const ShapeRuleInput& in, std::size_t first, int64_t rank) {
  if (in.operands.size() == first + 1) {
    const Shape& vector = *in.operands[first];
    if (vector.rank() == 1 && IsIntegral(vector.element_type()) && vector.dim(0) == rank) return {};
  }
  if (static_cast<int64_t>(in.operands.size() - first) != rank)
    return InvalidArgument("{} takes a start index for each of the {} dimensions, {} were given.",
                           OpcodeName(in.opcode), rank, in.operands.size() - first);
  for (std::size_t i = first; i < in.operands.size(); ++i) {
    const Shape& index = *in.operands[i];
    if (!index.IsScalar() || !IsIntegral(index.element_type()))
      return InvalidArgument("Start indices are integer scalars; operand {} is {}.", i, Brief(index));
    if (index.element_type() != in.operands[first]->element_type())
      return InvalidArgument("Start indices must have one element type; operand {} is {}, operand {} is {}.", first,
                             Brief(*in.operands[first]), i, Brief(index));
  }
  return {};
}

}  // namespace

Result<Shape> Slice(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  const auto& a = Attr<SliceAttributes>(in);
  if (a.starts.ssize() != x->rank() || a.limits.ssize() != x->rank() || a.strides.ssize() != x->rank())
    return InvalidArgument("Slice must have one range for each dimension of {}, it has {}.", Brief(*x),
                           a.starts.size());
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    auto n = static_cast<std::size_t>(i);
    if (a.starts[n] < 0 || a.starts[n] > a.limits[n] || a.limits[n] > x->dim(i))
      return InvalidArgument("The range [{}:{}] of dimension {} is not within [0:{}].", a.starts[n], a.limits[n], i,
                             x->dim(i));
    if (a.strides[n] < 1)
      return InvalidArgument("The stride of dimension {} must be at least 1, it is {}.", i, a.strides[n]);
    int64_t size = CeilDiv(a.limits[n] - a.starts[n], a.strides[n]);
    // XLA: dynamic_dimension_inference.cc HandleSlice: one element taken out of a dynamic dimension is static.
    dims.Add(size, x->IsDynamicDim(i) && size != 1);
  }
  return dims.Make(x->element_type());
}

Result<Shape> DynamicSlice(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  const Dims& sizes = Attr<DynamicSliceAttributes>(in).slice_sizes;
  KRAFLA_TRY(CheckStartIndices(in, 1, x->rank()));
  if (sizes.ssize() != x->rank())
    return InvalidArgument("dynamic_slice_sizes={} must have one entry for each dimension of {}.", Brief(sizes),
                           Brief(*x));
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    int64_t size = sizes[static_cast<std::size_t>(i)];
    if (size < 0 || size > x->dim(i))
      return InvalidArgument("The slice's size in dimension {} must lie in [0, {}], it is {}.", i, x->dim(i), size);
    dims.Add(size, x->IsDynamicDim(i) && size == x->dim(i));
  }
  return dims.Make(x->element_type());
}

Result<Shape> DynamicUpdateSlice(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* update, ArrayOperand(in, 1));
  KRAFLA_TRY(CheckStartIndices(in, 2, x->rank()));
  if (update->element_type() != x->element_type() || update->rank() != x->rank())
    return InvalidArgument("The update must have the operand's element type and rank; it is {}, the operand is {}.",
                           Brief(*update), Brief(*x));
  for (int64_t i = 0; i < x->rank(); ++i)
    if (update->dim(i) > x->dim(i))
      return InvalidArgument("The update {} does not fit the operand {} in dimension {}.", Brief(*update), Brief(*x),
                             i);
  Shape out = *x;
  out.ClearLayout();
  return out;
}

}  // namespace krafla::shape_rules
