// SPDX-License-Identifier: Apache-2.0
// XLA: shape_inference.cc ValidateDotDimensionNumbers, InferDotOpShape, InferRaggedDotOpShape.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// Contracting and batch dimensions of one side: in range, none twice.
Result<> CheckSide(const char* side, const Shape& shape, const Dims& contracting, const Dims& batch) {
  Dims all = contracting;
  all.append(batch.begin(), batch.end());
  auto checked = CheckDimensionNumbers("A contracting or batch dimension number", all, shape.rank());
  if (!checked) return InvalidArgument("On the {} {}: {}", side, Brief(shape), checked.error().message());
  return {};
}

Result<> CheckDotDimensions(const Shape& lhs, const Shape& rhs, const DotAttributes& a) {
  KRAFLA_TRY(CheckSide("left", lhs, a.lhs_contracting, a.lhs_batch));
  KRAFLA_TRY(CheckSide("right", rhs, a.rhs_contracting, a.rhs_batch));
  if (a.lhs_contracting.size() != a.rhs_contracting.size() || a.lhs_batch.size() != a.rhs_batch.size())
    return InvalidArgument(
        "Both sides must have as many contracting dimensions ({} and {}) and batch "
        "dimensions ({} and "
        "{}).",
        Brief(a.lhs_contracting), Brief(a.rhs_contracting), Brief(a.lhs_batch), Brief(a.rhs_batch));
  auto equal = [&](const char* what, const Dims& l, const Dims& r) -> Result<> {
    for (std::size_t i = 0; i < l.size(); ++i)
      if (lhs.dim(l[i]) != rhs.dim(r[i]))
        return InvalidArgument("{} dimensions must have equal sizes; dimension {} of {} and dimension {} of {} do not.",
                               what, l[i], Brief(lhs), r[i], Brief(rhs));
    return {};
  };
  KRAFLA_TRY(equal("Contracting", a.lhs_contracting, a.rhs_contracting));
  return equal("Batch", a.lhs_batch, a.rhs_batch);
}

void AddFreeDims(DimList& out, const Shape& shape, const Dims& contracting, const Dims& batch, const Dims& also = {}) {
  for (int64_t i = 0; i < shape.rank(); ++i)
    if (!Contains(contracting, i) && !Contains(batch, i) && !Contains(also, i)) out.AddFrom(shape, i);
}

// Batch dimensions, free dimensions of the left, free dimensions of the right.
Result<Shape> InferDot(const ShapeRuleInput& in, const DotAttributes& a) {
  KRAFLA_ASSIGN(const Shape* lhs, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* rhs, ArrayOperand(in, 1));
  KRAFLA_TRY(CheckDotDimensions(*lhs, *rhs, a));
  DimList dims;
  for (std::size_t i = 0; i < a.lhs_batch.size(); ++i)
    dims.Add(lhs->dim(a.lhs_batch[i]), lhs->IsDynamicDim(a.lhs_batch[i]) || rhs->IsDynamicDim(a.rhs_batch[i]));
  AddFreeDims(dims, *lhs, a.lhs_contracting, a.lhs_batch);
  AddFreeDims(dims, *rhs, a.rhs_contracting, a.rhs_batch);
  KRAFLA_ASSIGN(ElementType type, ContractionType(in, lhs->element_type(), rhs->element_type()));
  return dims.Make(type);
}

}  // namespace

Result<Shape> Dot(const ShapeRuleInput& in) {
  const auto& a = Attr<DotAttributes>(in);
  KRAFLA_TRY(CheckPrecision(a.precision, 2));
  return InferDot(in, a);
}

// Operands 2 and 3 scale blocks of 0 and 1: each of their dimensions divides the operand's. A scalar scales nothing
// apart.
Result<Shape> ScaledDot(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 4));
  KRAFLA_TRY(ExpectAllArrays(in));
  for (std::size_t side = 0; side < 2; ++side) {
    const Shape& x = *in.operands[side];
    const Shape& scale = *in.operands[side + 2];
    if (!IsFloat(scale.element_type()))
      return InvalidArgument("The scales of scaled-dot are floats; operand {} is {}.", side + 2, Brief(scale));
    bool fits = scale.rank() == 0 || scale.rank() == x.rank();
    for (int64_t i = 0; fits && i < scale.rank(); ++i)
      fits = scale.dim(i) == 0 ? x.dim(i) == 0 : x.dim(i) % scale.dim(i) == 0;
    if (!fits)
      return InvalidArgument("Each dimension of the scales {} must divide that of the operand {}.", Brief(scale),
                             Brief(x));
  }
  const auto& a = Attr<DotAttributes>(in);
  if (a.precision.size() != 4) KRAFLA_TRY(CheckPrecision(a.precision, 2));
  return InferDot(in, a);
}

Result<Shape> RaggedDot(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 3));
  KRAFLA_TRY(ExpectAllArrays(in));
  const Shape& lhs = *in.operands[0];
  const Shape& rhs = *in.operands[1];
  const Shape& groups = *in.operands[2];
  const auto& a = Attr<RaggedDotAttributes>(in);
  KRAFLA_TRY(CheckPrecision(a.dot.precision, 2));
  KRAFLA_TRY(CheckDotDimensions(lhs, rhs, a.dot));
  KRAFLA_TRY(CheckDimensionNumbers("lhs_ragged_dims", a.lhs_ragged_dims, lhs.rank()));
  KRAFLA_TRY(CheckDimensionNumbers("rhs_group_dims", a.rhs_group_dims, rhs.rank()));
  if (a.lhs_ragged_dims.size() != 1)
    return InvalidArgument("ragged-dot has one ragged dimension on the left, lhs_ragged_dims={} were given.",
                           Brief(a.lhs_ragged_dims));
  int64_t ragged = a.lhs_ragged_dims[0];
  bool is_batch = Contains(a.dot.lhs_batch, ragged), is_contracting = Contains(a.dot.lhs_contracting, ragged);
  bool is_free = !is_batch && !is_contracting;
  if (a.rhs_group_dims.size() != (is_free ? 1u : 0u))
    return InvalidArgument(
        "ragged-dot has {} group dimension on the right when the ragged dimension is {}; "
        "rhs_group_dims={} were given.",
        is_free ? "one" : "no", is_free ? "neither contracting nor batch" : "contracting or batch",
        Brief(a.rhs_group_dims));
  for (int64_t d : a.rhs_group_dims)
    if (Contains(a.dot.rhs_contracting, d) || Contains(a.dot.rhs_batch, d))
      return InvalidArgument("Group dimension {} on the right is also contracting or batch.", d);
  if (!IsIntegral(groups.element_type()) || groups.rank() < 1)
    return InvalidArgument("The group sizes must be integers of one dimension or more, they are {}.", Brief(groups));
  int64_t group_count = groups.dim(groups.rank() - 1);
  if (is_free && rhs.dim(a.rhs_group_dims[0]) != group_count)
    return InvalidArgument("There are {} group sizes and {} groups on the right.", group_count,
                           rhs.dim(a.rhs_group_dims[0]));
  // Group sizes may differ along the batch (and, for a contracting ragged dimension, the free) dimensions of the left
  // that come before the ragged one; XLA lists them as a prefix.
  if (groups.rank() > 1) {
    DimList prefix;
    if (is_batch) {
      for (int64_t d : a.dot.lhs_batch) {
        if (d == ragged) break;
        prefix.AddFrom(lhs, d);
      }
    } else {
      for (int64_t d : a.dot.lhs_batch) prefix.AddFrom(lhs, d);
      if (is_free) {
        for (int64_t d = 0; d < ragged; ++d)
          if (!Contains(a.dot.lhs_batch, d) && !Contains(a.dot.lhs_contracting, d)) prefix.AddFrom(lhs, d);
      } else {
        for (int64_t d : a.dot.lhs_contracting) {
          if (d == ragged) break;
          prefix.AddFrom(lhs, d);
        }
      }
    }
    bool fits = prefix.sizes.ssize() == groups.rank() - 1;
    for (int64_t i = 0; fits && i + 1 < groups.rank(); ++i)
      fits = groups.dim(i) == prefix.sizes[static_cast<std::size_t>(i)];
    if (!fits)
      return InvalidArgument("The group sizes {} must have dimensions {} before their last.", Brief(groups),
                             Brief(prefix.sizes));
  }
  DimList dims;
  if (is_contracting) dims.Add(group_count);
  for (int64_t d : a.dot.lhs_batch) dims.AddFrom(lhs, d);
  AddFreeDims(dims, lhs, a.dot.lhs_contracting, a.dot.lhs_batch);
  AddFreeDims(dims, rhs, a.dot.rhs_contracting, a.dot.rhs_batch, a.rhs_group_dims);
  KRAFLA_ASSIGN(ElementType type, ContractionType(in, lhs.element_type(), rhs.element_type()));
  return dims.Make(type);
}

}  // namespace krafla::shape_rules
